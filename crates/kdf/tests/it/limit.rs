//! How long a derivation may take: whatever costs a header asks for, its time is bounded, told and can be cut short.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use atrest_kdf::{
    Argon2Cost, Argon2Kind, CatenaCost, CatenaGraph, CatenaInput, Hash, KdfError, ScryptCost, WorkLimit,
    argon2, catena, pbkdf2, scrypt,
};
use atrest_testkit::Random;

fn seconds(time: u64) -> WorkLimit {
    WorkLimit { time: Duration::from_secs(time), cancel: None, announce: None }
}

fn hostile(hash: Hash) -> Result<(), KdfError> {
    pbkdf2(hash, b"passphrase", b"salt", u32::MAX, &mut [0; 64])
}

/// 64 MiB, mixed a thousand times: minutes.
const HOSTILE_SCRYPT: ScryptCost = ScryptCost { log_n: 16, r: 8, p: 1 << 10 };

#[test]
fn too_much_work_is_refused_before_it_is_done() {
    for hash in Hash::ALL {
        let begun = Instant::now();
        let refused = seconds(20).during(|| hostile(hash));
        assert!(
            matches!(refused, Err(KdfError::TooMuchWork { seconds, limit: 20 }) if seconds > 20),
            "{hash:?}: {refused:?}"
        );
        assert!(begun.elapsed() < Duration::from_secs(5), "{hash:?}");
    }
    let cost = Argon2Cost { kind: Argon2Kind::Id, time: 1 << 20, memory_kib: 16 << 10, lanes: 2 };
    let refused = seconds(20).during(|| argon2(&cost, b"passphrase", b"some salt", &mut [0; 32]));
    assert!(matches!(refused, Err(KdfError::TooMuchWork { .. })), "{refused:?}");
    let refused = seconds(20).during(|| scrypt(&HOSTILE_SCRYPT, b"passphrase", b"salt", &mut [0; 32]));
    assert!(
        matches!(refused, Err(KdfError::TooMuchWork { seconds, limit: 20 }) if seconds > 20),
        "{refused:?}"
    );
    let cost = CatenaCost { graph: CatenaGraph::DoubleButterfly, lambda: 255, min_garlic: 1, garlic: 20 };
    let mut memory = vec![0; cost.memory_bytes(Hash::Sha256) as usize];
    let input = CatenaInput { passphrase: b"passphrase", salt: b"salt", ..CatenaInput::default() };
    let refused = seconds(20).during(|| catena(Hash::Sha256, &cost, &input, &mut memory, &mut [0; 32]));
    assert!(matches!(refused, Err(KdfError::TooMuchWork { .. })), "{refused:?}");
}

#[test]
fn whoever_states_no_limit_has_one() {
    // SHA-3 has no fast path: 2^32 of four blocks take hours on any machine.
    let refused = pbkdf2(Hash::Sha3_512, b"passphrase", b"salt", u32::MAX, &mut [0; 64]);
    let limit = WorkLimit::DEFAULT.as_secs();
    assert!(matches!(refused, Err(KdfError::TooMuchWork { limit: has, .. }) if has == limit), "{refused:?}");
}

#[test]
fn derivations_share_the_time_of_their_limit() {
    let mut key = [0; 32];
    let refused = WorkLimit { time: Duration::from_millis(600), ..seconds(0) }
        .during(|| (0..100).find_map(|_| pbkdf2(Hash::Sha3_512, b"a", b"b", 300_000, &mut key).err()));
    assert!(matches!(refused, Some(KdfError::TooMuchWork { .. })), "{refused:?}");
    assert_eq!(key, [0; 32], "what was given up leaves nothing");
}

#[test]
fn a_slow_derivation_within_its_limit_is_announced_and_right() {
    static ANNOUNCED: AtomicUsize = AtomicUsize::new(0);
    let limit = WorkLimit {
        announce: Some(|expected| {
            assert!(expected >= Duration::from_secs(5));
            ANNOUNCED.fetch_add(1, Ordering::Relaxed);
        }),
        cancel: Some(Arc::new(AtomicBool::new(false))),
        ..seconds(100_000)
    };
    // Cancelled as soon as it was announced, or the test would take as long as it says.
    let flag = limit.cancel.clone().expect("set above");
    let watcher = thread::spawn(move || {
        while ANNOUNCED.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        flag.store(true, Ordering::Relaxed);
    });
    assert_eq!(limit.during(|| hostile(Hash::Sha512)), Err(KdfError::Cancelled));
    watcher.join().expect("announced");
    assert_eq!(ANNOUNCED.load(Ordering::Relaxed), 1);

    // Computed in steps or in one: the same. RFC 7914, section 11.
    let mut key = [0; 64];
    seconds(100).during(|| pbkdf2(Hash::Sha256, b"Password", b"NaCl", 80_000, &mut key)).expect("in time");
    assert_eq!(key[..8], [0x4d, 0xdc, 0xd8, 0xf6, 0x0b, 0x98, 0xbe, 0x21]);
}

#[test]
fn a_derivation_that_takes_less_than_seconds_is_not_announced() {
    let limit = WorkLimit { announce: Some(|expected| panic!("{expected:?} was announced")), ..seconds(100) };
    let cost = Argon2Cost { kind: Argon2Kind::Id, time: 4, memory_kib: 70 << 10, lanes: 1 };
    limit.during(|| {
        // Long enough to be measured.
        pbkdf2(Hash::Sha3_512, b"a", b"b", 200_000, &mut [0; 32]).expect("in time");
        argon2(&cost, b"passphrase", b"some salt", &mut [0; 32]).expect("in time");
    });
}

/// Cancelled as soon as it is announced.
#[test]
fn scrypt_is_announced_and_cancelled_while_it_mixes() {
    static CANCEL: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let limit = WorkLimit {
        announce: Some(|expected| {
            assert!(expected >= Duration::from_secs(5));
            CANCEL.get().expect("set below").store(true, Ordering::Relaxed);
        }),
        cancel: Some(CANCEL.get_or_init(Arc::default).clone()),
        ..seconds(100_000)
    };
    let mut key = [0; 32];
    let cancelled = limit.during(|| scrypt(&HOSTILE_SCRYPT, b"passphrase", b"salt", &mut key));
    assert_eq!((cancelled, key), (Err(KdfError::Cancelled), [0; 32]));
}

/// A single mixing of 2^20 blocks is long enough for a look at the clock in its middle.
#[test]
fn the_largest_blocks_of_scrypt_are_bounded_too() {
    let limit = WorkLimit { time: Duration::from_millis(50), ..seconds(0) };
    let cost = ScryptCost { log_n: 1, r: 1 << 19, p: 1 };
    let refused = limit.during(|| scrypt(&cost, b"passphrase", b"salt", &mut [0; 32]));
    assert!(matches!(refused, Err(KdfError::TooMuchWork { .. })), "{refused:?}");
}

/// Argon2 is not done in steps: all is decided before it begins.
#[test]
fn argon2_is_announced_cancelled_and_counted_too() {
    let derive = |time| {
        let cost = Argon2Cost { kind: Argon2Kind::Id, time, memory_kib: 16 << 10, lanes: 1 };
        argon2(&cost, b"passphrase", b"some salt", &mut [0; 32])
    };
    let announced = WorkLimit { announce: Some(|_| panic!("announced")), ..seconds(u64::MAX) };
    let hours = std::panic::catch_unwind(|| announced.during(|| derive(1 << 12)));
    assert_eq!(hours.expect_err("it was announced").downcast_ref(), Some(&"announced"));
    let cancelled = WorkLimit { cancel: Some(Arc::new(AtomicBool::new(true))), ..seconds(100) };
    assert_eq!(cancelled.during(|| derive(1)), Err(KdfError::Cancelled));
    let limit = WorkLimit { time: Duration::from_millis(500), ..seconds(0) };
    let refused = limit.during(|| (0..10_000).find_map(|_| derive(1).err()));
    assert!(matches!(refused, Some(KdfError::TooMuchWork { .. })), "{refused:?}");
}

#[test]
fn a_limit_ends_with_its_work() {
    let slow = || pbkdf2(Hash::Sha3_512, b"a", b"b", 500_000, &mut [0; 32]);
    let none = || seconds(0).during(slow);
    assert!(matches!(none(), Err(KdfError::TooMuchWork { limit: 0, .. })));
    // Within a limit the inner one counts, and after it the outer one again.
    seconds(100).during(|| {
        assert!(none().is_err());
        slow().expect("in time");
    });
    slow().expect("in time");
}

/// Costs from the whole range that a header can hold, most of them absurd: each is done, or refused, in about the time that it may
/// take.
#[test]
fn no_cost_makes_unbounded_work() {
    let mut random = Random::new(1);
    // Every order of magnitude is as likely.
    let mut next = || random.draw() as u32 >> random.below(32);
    let limit = WorkLimit { time: Duration::from_millis(200), cancel: None, announce: None };
    let (mut done, mut refused) = (0, 0);
    let mut memory = vec![0; 16 << 20];
    for case in 0..120_usize {
        let begun = Instant::now();
        let mut key = [0; 64];
        let result = limit.clone().during(|| match case % 4 {
            0 => {
                let len = 1 + next() as usize % key.len();
                pbkdf2(
                    Hash::ALL[case % Hash::ALL.len()],
                    b"passphrase",
                    b"salt",
                    next().max(1),
                    &mut key[..len],
                )
            }
            1 => {
                let lanes = 1 + next() % 8;
                let memory_kib = (8 * lanes).max(next() % (32 << 10));
                let cost = Argon2Cost { kind: Argon2Kind::Id, time: next().max(1), memory_kib, lanes };
                argon2(&cost, b"passphrase", b"some salt", &mut key)
            }
            2 => {
                let cost = ScryptCost {
                    log_n: 1 + next() as u8 % 12,
                    r: 1 + next() % 32,
                    p: 1 + next() % (1 << 10),
                };
                scrypt(&cost, b"passphrase", b"salt", &mut key)
            }
            _ => {
                let garlic = 1 + next() as u8 % 18;
                let (min_garlic, lambda) = (1 + next() as u8 % garlic, next() as u8);
                let cost = CatenaCost { graph: CatenaGraph::DoubleButterfly, lambda, min_garlic, garlic };
                let input =
                    CatenaInput { passphrase: b"passphrase", salt: b"salt", ..CatenaInput::default() };
                catena(Hash::Sha256, &cost, &input, &mut memory, &mut key[..32])
            }
        });
        // Ten seconds of a busy machine's wall clock: what is not bounded takes hours.
        assert!(begun.elapsed() < Duration::from_secs(10), "case {case}: {result:?}");
        match result {
            Ok(()) => done += 1,
            Err(KdfError::TooMuchWork { .. } | KdfError::CostOutOfRange { .. }) => refused += 1,
            Err(other) => panic!("case {case}: {other}"),
        }
    }
    assert!(done > 10 && refused > 10, "{done} done, {refused} refused");
}
