//! What deriving a key leaves in this process's memory: nothing of what was computed from the passphrase.
//!
//! A test program of its own, because it reads all its memory. What to look for is computed by another process, as
//! computing it leaves it behind too, and it comes masked.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, ScryptCost, argon2, pbkdf2, scrypt};
use atrest_testkit::again;

const ASKED: &str = "ATREST_KDF_TEST_PIECES";
const PIECE: usize = 16;
const MASK: u128 = u128::from_ne_bytes([0xa5; PIECE]);

const PASSPHRASE: &[u8] = b"correct horse battery staple";
const SALT: &[u8] = b"sixteen bytes, ok";
/// One pass: then the last block of each lane is what its thread computed last, and had on its stack.
const ARGON2: Argon2Cost = Argon2Cost { kind: Argon2Kind::Id, time: 1, memory_kib: 256, lanes: 2 };
const SCRYPT: ScryptCost = ScryptCost { log_n: 5, r: 8, p: 2 };

#[test]
fn nothing_of_the_computation_stays_in_memory() {
    if std::env::var_os(ASKED).is_some() {
        return print_pieces();
    }
    let printed = again::program().env(ASKED, "1").ok().expect_one_passed().text();
    let mut masked: Vec<u128> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("piece "))
        .map(|hex| u128::from_str_radix(hex, 16).expect("hexadecimal"))
        .collect();
    assert_eq!(masked.len(), 2 * 64 + 2 * 2 * 64, "{printed}");
    let mark = u128::from_ne_bytes(*b"to be found here");
    masked.push(mark ^ MASK);
    masked.sort_unstable();
    let mut search = Search::new(masked);

    // The search itself finds what is there.
    let mut there = mark.to_ne_bytes().to_vec();
    assert!(search.found().contains(&(there.as_ptr() as u64)), "the search finds nothing");
    atrest_secret::wipe(&mut there);
    search.masked.retain(|piece| *piece != mark ^ MASK);
    assert_eq!(search.found(), [0; 0], "before anything was derived");

    let mut key = [0; 32];
    argon2(&ARGON2, PASSPHRASE, SALT, &mut key).expect("derives");
    assert_eq!(search.found(), [0; 0], "after Argon2");
    scrypt(&SCRYPT, PASSPHRASE, SALT, &mut key).expect("derives");
    assert_eq!(search.found(), [0; 0], "after scrypt");
}

/// The blocks that both functions compute, masked, in pieces.
fn print_pieces() {
    println!(); // libtest has begun a line with this test's name
    let params = argon2::Params::new(ARGON2.memory_kib, ARGON2.time, ARGON2.lanes, Some(32)).expect("valid");
    let library = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let mut memory = vec![argon2::Block::new(); ARGON2.memory_kib as usize];
    let mut key = [0; 32];
    library.hash_password_into_with_memory(PASSPHRASE, SALT, &mut key, &mut memory[..]).expect("derives");
    for lane in memory.chunks_exact(ARGON2.memory_kib as usize / ARGON2.lanes as usize) {
        let last: Vec<u8> =
            lane[lane.len() - 1].as_ref().iter().flat_map(|word| word.to_ne_bytes()).collect();
        print_each(&last);
    }
    // scrypt begins with p parts, of which it keeps the words also in the order of Salsa20's diagonals.
    let mut parts = vec![0; (128 * SCRYPT.r * SCRYPT.p) as usize];
    pbkdf2(Hash::Sha256, PASSPHRASE, SALT, 1, &mut parts).expect("derives");
    print_each(&parts);
    for block in parts.chunks_exact(64) {
        let word = |index: usize| &block[index * 4 % 64..][..4];
        let diagonal = |from: usize| (0..4).flat_map(move |step| word(from + 5 * step)).copied();
        print_each(&[0, 4, 8, 12].into_iter().flat_map(diagonal).collect::<Vec<u8>>());
    }
}

fn print_each(bytes: &[u8]) {
    for piece in bytes.chunks_exact(PIECE) {
        let piece = u128::from_ne_bytes(piece.try_into().expect("a piece"));
        println!("piece {:032x}", piece ^ MASK);
    }
}

/// What a search needs, there from the beginning: allocated in between it might overwrite what it should find.
struct Search {
    masked: Vec<u128>,
    maps: String,
    window: Vec<u8>,
}

impl Search {
    const WINDOW: usize = 1 << 20;

    fn new(masked: Vec<u128>) -> Self {
        Self { masked, maps: String::with_capacity(256 << 10), window: vec![0; Self::WINDOW] }
    }

    /// Addresses in writable memory at which one of the pieces lies.
    fn found(&mut self) -> Vec<u64> {
        let memory = File::open("/proc/self/mem").expect("our own memory");
        self.maps.clear();
        let read = File::open("/proc/self/maps").and_then(|mut maps| maps.read_to_string(&mut self.maps));
        read.expect("Linux has /proc/self/maps");
        let mut addresses = Vec::new();
        for line in self.maps.lines() {
            let mut words = line.split(' ');
            let range = words.next().and_then(|range| range.split_once('-')).expect("a range");
            if !words.next().is_some_and(|rights| rights.starts_with("rw")) {
                continue;
            }
            let bound = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
            let (start, len) = (bound(range.0), (bound(range.1) - bound(range.0)) as usize);
            for skip in (0..len).step_by(Self::WINDOW - PIECE) {
                let here = &mut self.window[..Self::WINDOW.min(len - skip)];
                if memory.read_exact_at(here, start + skip as u64).is_err() {
                    continue; // What was unmapped since.
                }
                for (at, piece) in here.windows(PIECE).enumerate() {
                    let masked = u128::from_ne_bytes(piece.try_into().expect("a piece")) ^ MASK;
                    if self.masked.binary_search(&masked).is_ok() {
                        addresses.push(start + (skip + at) as u64);
                    }
                }
            }
        }
        self.window.fill(0);
        addresses
    }
}
