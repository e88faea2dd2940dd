//! What passphrases decide: neither a branch nor an address, but where a derivation is defined otherwise. Leaks are planted
//! in a hash, below each derivation of ours: the check of constant time must see those, and nothing else.
//!
//! valgrind has no SHA instructions, so `backend/sha_ni.rs` is not looked at, nor AVX-512. Derivations are done in steps
//! here: below valgrind nobody can ask for a thread's processor time, by which `pbkdf2` and `catena` bound theirs.

extern crate std;

use std::vec;
use std::vec::Vec;

use atrest_testkit::valgrind::{leaks, make_public, make_secret};
use digest::block_api::BlockSizeUser;
use digest::consts::{U32, U64};
use digest::{FixedOutput, FixedOutputReset, HashMarker, Output, OutputSizeUser, Reset, Update};

use crate::fixed::{Digests, FixedHash};
use crate::hash::with_hash;
use crate::pbkdf2::chains::Cloning;
use crate::plain::PlainHash;
use crate::{
    Argon2Cost, Argon2Kind, Catena, CatenaCost, CatenaGraph, CatenaInput, Hash, Pbkdf2, Progress,
    Sha256Backend, argon2, fixed,
};

const SALT: &[u8; 16] = b"sixteen bytes, y";

#[test]
fn no_passphrase_decides_a_branch_or_an_address_of_a_derivation_but_of_planted_ones() {
    if let Some(leaks) = leaks("ours", |_| derive_all()) {
        leaks.assert_only_in(&["InPbkdf2", "InCatena"]);
    }
}

/// Whirlpool and Streebog are libraries', with tables. Argon2id reads memory where the passphrase says, and so does scrypt, which is not
/// looked at.
#[test]
fn what_reads_memory_where_a_secret_says_is_defined_so_but_for_two_hashes() {
    let perform = |_: &str| {
        secret_key(40, |passphrase, key| {
            pbkdf2::<fixed::Whirlpool>(Sha256Backend::portable(), passphrase, key)
        });
        secret_key(40, |passphrase, key| {
            pbkdf2::<fixed::Streebog512>(Sha256Backend::portable(), passphrase, key)
        });
        let cost = Argon2Cost { kind: Argon2Kind::Id, time: 1, memory_kib: 8, lanes: 1 };
        secret_key(40, |passphrase, key| argon2(&cost, passphrase, SALT, key).expect("derives"));
    };
    if let Some(leaks) = leaks("defined so", perform) {
        leaks.assert_only_in(&["whirlpool::compress", "streebog::block_api", "argon2"]);
    }
}

/// Every derivation that has to keep its secrets, for passphrases that are and are not longer than a hash's block.
fn derive_all() {
    for len in [9, 200] {
        for hash in Hash::ALL.into_iter().filter(|hash| !matches!(hash, Hash::Whirlpool | Hash::Streebog512))
        {
            with_hash!(hash, H => {
                secret_key(len, |passphrase, key| pbkdf2::<H>(Sha256Backend::best(), passphrase, key));
            });
            secret_key(len, |passphrase, key| PlainHash::new(hash).derive(passphrase, key).expect("derives"));
        }
        for backend in Sha256Backend::detected() {
            secret_key(len, |passphrase, key| pbkdf2::<fixed::Sha256>(backend, passphrase, key));
        }
        for graph in [CatenaGraph::BitReversal, CatenaGraph::DoubleButterfly] {
            let cost = CatenaCost { min_garlic: 2, ..CatenaCost::new(graph, 3) };
            secret_key(len, |passphrase, key| catena::<fixed::Sha512>(&cost, passphrase, &mut key[..48]));
        }
        let cost = Argon2Cost { kind: Argon2Kind::I, time: 2, memory_kib: 16, lanes: 2 };
        secret_key(len, |passphrase, key| argon2(&cost, passphrase, SALT, key).expect("derives"));
    }
    let cost = CatenaCost::new(CatenaGraph::BitReversal, 2);
    secret_key(9, |passphrase, key| pbkdf2::<Planted<InPbkdf2>>(Sha256Backend::portable(), passphrase, key));
    secret_key(9, |passphrase, key| catena::<Planted<InCatena>>(&cost, passphrase, &mut key[..32]));
}

fn pbkdf2<H: FixedHash>(backend: Sha256Backend, passphrase: &[u8], key: &mut [u8]) {
    let mut run = Pbkdf2::<H>::with_backend(backend, passphrase, SALT, 3, key).expect("a good request");
    while run.step(2) != Progress::Done {}
}

/// Then an update to a garlic that is one larger.
fn catena<H: FixedHash>(cost: &CatenaCost, passphrase: &[u8], key: &mut [u8]) {
    let mut memory = vec![0; 2 * cost.memory_bytes(H::HASH) as usize];
    let input = CatenaInput { passphrase, salt: SALT, data: b"data", ..Default::default() };
    let mut run = Catena::<H>::new(cost, &input, &mut memory, key).expect("a good request");
    while run.step(2) != Progress::Done {}
    drop(run);
    let mut run = Catena::<H>::update(cost, cost.garlic + 1, SALT, &mut memory, key).expect("a good request");
    while run.step(2) != Progress::Done {}
}

/// A key of four blocks of SHA-256 from a passphrase that valgrind takes for undefined. Lengths are public.
fn secret_key(len: usize, derive: impl Fn(&[u8], &mut [u8])) {
    let mut passphrase: Vec<u8> = (0..len).map(|i| i as u8).collect();
    make_secret(&mut passphrase);
    let mut key = [0; 128];
    derive(&passphrase, &mut key);
    make_public(&mut key);
    assert_ne!(key, [0; 128]);
}

/// SHA-256 that looks each first byte up in a table.
struct Planted<P>(P);

#[derive(Clone, Default)]
struct LeakyDigest<P>(sha2::Sha256, core::marker::PhantomData<P>);

/// Below what it is planted. The functions differ, or a compiler could make one of them.
trait Place: Clone + Default {
    fn look_up(byte: u8) -> u8;
}

#[derive(Clone, Default)]
struct InPbkdf2;
#[derive(Clone, Default)]
struct InCatena;

impl Place for InPbkdf2 {
    #[inline(never)]
    fn look_up(byte: u8) -> u8 {
        core::hint::black_box(&[1; 256])[usize::from(byte)]
    }
}

impl Place for InCatena {
    #[inline(never)]
    fn look_up(byte: u8) -> u8 {
        core::hint::black_box(&[2; 256])[usize::from(byte)]
    }
}

impl<P: Place> FixedHash for Planted<P> {
    const HASH: Hash = Hash::Sha256;
}

impl<P: Place> Digests for Planted<P> {
    type Digest = LeakyDigest<P>;
    type Chain = Cloning<LeakyDigest<P>>;
}

impl<P> HashMarker for LeakyDigest<P> {}

impl<P> OutputSizeUser for LeakyDigest<P> {
    type OutputSize = U32;
}

impl<P> BlockSizeUser for LeakyDigest<P> {
    type BlockSize = U64;
}

impl<P: Place> Update for LeakyDigest<P> {
    fn update(&mut self, data: &[u8]) {
        Update::update(&mut self.0, data);
        data.first().map(|byte| core::hint::black_box(P::look_up(*byte)));
    }
}

impl<P: Place> FixedOutput for LeakyDigest<P> {
    fn finalize_into(self, out: &mut Output<Self>) {
        FixedOutput::finalize_into(self.0, out);
    }
}

impl<P> Reset for LeakyDigest<P> {
    fn reset(&mut self) {
        Reset::reset(&mut self.0);
    }
}

impl<P: Place> FixedOutputReset for LeakyDigest<P> {
    fn finalize_into_reset(&mut self, out: &mut Output<Self>) {
        FixedOutputReset::finalize_into_reset(&mut self.0, out);
    }
}
