//! A derivation that this process has no memory for is refused before anything is allocated.
//!
//! A test program of its own, because it limits its address space.

use atrest_kdf::{Argon2Cost, Argon2Kind, KdfError, ScryptCost, argon2, available_memory, scrypt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MIB: u64 = 1 << 20;

#[test]
fn costs_beyond_the_memory_there_is_are_refused_by_what_they_need() {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = pages.split(' ').next().expect("a size").parse().expect("a number");
    let used = pages * rustix::param::page_size() as u64;
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(used + 128 * MIB), maximum }).expect("lowered");
    let has = available_memory().expect("a limit");
    assert!(has <= 128 * MIB, "{has}");

    let mut key = [0; 32];
    let kind = Argon2Kind::Id;
    let large = Argon2Cost { kind, time: 1, memory_kib: 256 << 10, lanes: 1 };
    let refused = argon2(&large, b"passphrase", b"sixteen bytes, ok", &mut key);
    assert!(
        matches!(refused, Err(KdfError::NotEnoughMemory { needs, .. }) if needs == 256 * MIB),
        "{refused:?}"
    );
    let large = ScryptCost { log_n: 18, r: 8, p: 1 };
    let refused = scrypt(&large, b"passphrase", b"salt", &mut key);
    assert!(
        matches!(refused, Err(KdfError::NotEnoughMemory { needs, .. }) if needs >= 256 * MIB),
        "{refused:?}"
    );
    assert_eq!(key, [0; 32]);

    let small = Argon2Cost { kind, time: 1, memory_kib: 1 << 10, lanes: 1 };
    argon2(&small, b"passphrase", b"sixteen bytes, ok", &mut key).expect("there is room");
    scrypt(&ScryptCost { log_n: 10, r: 8, p: 1 }, b"passphrase", b"salt", &mut key).expect("there is room");
}
