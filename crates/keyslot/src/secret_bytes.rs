//! What keys decide in the splitter and in key wrap: neither a branch nor an address, but for the verdict whether a key was
//! right. The check of constant time must see that verdict, and a leak planted in a hash below the splitter, and nothing else.

extern crate std;

use std::vec;
use std::vec::Vec;

use atrest_kdf::Hash;
use atrest_secret::{Random, RandomError};
use atrest_testkit::valgrind::{leaks, make_public, make_secret};

use crate::af::{self, AfHash, Merge};
use crate::wrap::{self, OVERHEAD, unwrap, wrap};

#[test]
fn no_key_decides_a_branch_or_an_address_of_the_splitter_but_below_a_planted_hash() {
    let split_and_merge = |_: &str| {
        // Whirlpool and Streebog are libraries', with tables.
        for hash in Hash::ALL.into_iter().filter(|hash| !matches!(hash, Hash::Whirlpool | Hash::Streebog512))
        {
            let (key, mut stripes, mut merged) = (secret(64), vec![0; 3 * 64], [0; 64]);
            af::split(hash, &key, 3, &mut Undefined, &mut stripes).expect("splits");
            af::merge(hash, &stripes, 3, &mut merged).expect("merges");
            make_public(&mut merged);
            assert_eq!(merged.to_vec(), public(64), "{hash}");
        }
        let (mut key, stripes) = ([0; 40], secret(3 * 40));
        let mut merge = Merge::new(PlantedHash, 3, &mut key).expect("a buffer");
        merge.push(&stripes);
        merge.finish().expect("all stripes");
    };
    if let Some(leaks) = leaks("splitter", split_and_merge) {
        leaks.assert_only_in(&["PlantedHash"]);
    }
}

#[test]
fn wrapping_a_key_takes_no_branch_and_no_address_from_it() {
    let wrap_all = |_: &str| {
        for wrapping_len in [16, 24, 32] {
            let mut wrapped = [0; 64 + OVERHEAD];
            wrap(&secret(wrapping_len), &secret(64), &mut wrapped).expect("wraps");
            make_public(&mut wrapped);
            assert_ne!(wrapped, [0; 64 + OVERHEAD]);
        }
    };
    if let Some(leaks) = leaks("wrap", wrap_all) {
        leaks.assert_only_in(&[]);
    }
}

#[test]
fn unwrapping_a_key_tells_whether_it_is_the_right_one_and_nothing_else() {
    let unwrap_all = |_: &str| {
        for wrapping_len in [16, 24, 32] {
            let (mut wrapped, mut key) = ([0; 64 + OVERHEAD], [0; 64]);
            wrap(&secret(wrapping_len), &secret(64), &mut wrapped).expect("wraps");
            make_public(&mut wrapped);
            unwrap(&secret(wrapping_len), &wrapped, &mut key).expect("unwraps");
            make_public(&mut key);
            assert_eq!(key.to_vec(), public(64));
            wrapped[3] ^= 1;
            assert_eq!(unwrap(&secret(wrapping_len), &wrapped, &mut key), Err(wrap::WrapError::Check));
        }
    };
    if let Some(leaks) = leaks("unwrap", unwrap_all) {
        let places = leaks.places();
        assert!(!places.is_empty(), "the verdict is not seen");
        // In programs built for tests `subtle` asserts that its verdict is one of two.
        let known = |place: &&str| place.contains("wrap::unwrap") || place.starts_with("from (");
        assert!(places.iter().all(known), "{leaks}");
    }
}

fn public(len: usize) -> Vec<u8> {
    (0..len).map(|i| i as u8).collect()
}

/// `len` bytes that count up from 0, which valgrind takes for undefined.
fn secret(len: usize) -> Vec<u8> {
    let mut bytes = public(len);
    make_secret(&mut bytes);
    bytes
}

/// A source of secrets.
struct Undefined;

impl Random for Undefined {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        out.fill(0x5a);
        make_secret(out);
        Ok(())
    }
}

/// Looks each byte up in a table.
struct PlantedHash;

impl AfHash for PlantedHash {
    fn output_len(&self) -> usize {
        8
    }

    #[inline(never)]
    fn digest(&self, parts: &[&[u8]], out: &mut [u8]) {
        let table = core::hint::black_box([3_u8; 256]);
        for (to, from) in out.iter_mut().zip(parts.iter().flat_map(|part| part.iter())) {
            *to = table[usize::from(*from)];
        }
    }
}
