//! Sealed flash by an AES engine that encrypts alone: the media of the library's CCM, and an engine that fails is neither a forgery nor
//! damage.

use std::cell::Cell;

use atrest_cipher::aead::Aes128Ccm;
use atrest_cipher::{AesEncrypt, EngineCcm, KeyError, LoadAesKey, SoftwareAes};
use atrest_device::{FlashCause, FlashDevice as _};
use atrest_flash::sealed::{SealedError, SealedOptions, Verify};

use crate::sealed::{Bench, OPTIONS, Units, Volume};

thread_local! {
    /// Calls that the engines of this thread take before they fail.
    static WORKS: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// The calls that some work takes.
fn calls_of<T>(work: impl FnOnce() -> T) -> (u32, T) {
    WORKS.set(u32::MAX);
    let done = work();
    (u32::MAX - WORKS.get(), done)
}

struct Peripheral(SoftwareAes);

impl AesEncrypt for Peripheral {
    type Error = ();

    fn encrypt(&mut self, blocks: &mut [[u8; 16]]) -> Result<(), ()> {
        WORKS.set(WORKS.get().checked_sub(1).ok_or(())?);
        let Ok(()) = self.0.encrypt(blocks);
        Ok(())
    }
}

impl LoadAesKey for Peripheral {
    fn load(key: &[u8]) -> Result<Self, KeyError> {
        SoftwareAes::load(key).map(Self)
    }
}

/// Bytes in a unit with tags of 16 bytes.
const PAYLOAD: usize = 72;

type Engine = EngineCcm<Peripheral, 16>;

/// Two blocks written in a first session, and one more in a second one that ends without a word.
fn written() -> Bench {
    WORKS.set(u32::MAX);
    let bench = Bench::new(OPTIONS);
    let mut volume: Volume<Engine> = bench.format().expect("a volume");
    for block in [0, 1] {
        volume.clear(block).expect("erased");
    }
    for (block, unit) in [(0, 0), (0, 1), (0, 2), (1, 0)] {
        volume.put(block, unit, (16 * block + unit) as u8).expect("a unit");
    }
    volume.sync().expect("synced");
    drop(volume);
    let mut volume: Volume<Engine> = bench.mount().expect("a volume");
    volume.clear(2).expect("erased");
    volume.put(2, 0, 0x20).expect("a unit");
    bench
}

#[test]
fn the_library_opens_what_an_engine_has_sealed_and_the_other_way_round() {
    let bench = written();
    let mut volume: Volume<Aes128Ccm> = bench.mount().expect("the same volume");
    for (block, unit) in [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)] {
        assert_eq!(volume.unit(block, unit), Ok(vec![(16 * block + unit) as u8; PAYLOAD]));
    }
    volume.clear(3).expect("erased");
    volume.put(3, 0, 0x30).expect("a unit");
    drop(volume);
    let mut volume: Volume<Engine> = bench.mount().expect("the same volume");
    assert_eq!(volume.unit(3, 0), Ok(vec![0x30; PAYLOAD]));
}

#[test]
fn an_engine_that_fails_while_a_volume_is_opened_changes_nothing_and_raises_no_alarm() {
    for verify in [Verify::OnRead, Verify::AtOpening] {
        let bench = Bench { options: SealedOptions { verify, ..OPTIONS }, ..written() };
        let before = bench.snapshot();
        let (calls, mounted) = calls_of(|| bench.mount::<Engine>().map(drop));
        mounted.expect("a volume");
        let mut refused = 0;
        for works in 0..calls {
            let again = before.snapshot();
            WORKS.set(works);
            // The last calls verify what the opening itself has written.
            let Err(error) = again.mount::<Engine>().map(drop) else {
                panic!("{works} of {calls} were enough")
            };
            let expected = [SealedError::Key(KeyError::Engine), SealedError::Medium(FlashCause::Cipher)];
            assert!(expected.contains(&error), "{works} of {calls}: {error:?}");
            assert_eq!(again.medium.lock().image().to_bytes(), before.medium.lock().image().to_bytes());
            assert_eq!(again.store.record(), before.store.record());
            refused += 1;
            WORKS.set(u32::MAX);
            again.mount::<Engine>().expect("the next time it works");
        }
        assert!(refused > 10, "{verify:?}: {refused}");
    }
}

#[test]
fn an_engine_that_fails_while_a_unit_is_read_or_written_says_so() {
    let bench = written();
    let mut volume: Volume<Engine> = bench.mount().expect("a volume");
    WORKS.set(0);
    assert_eq!(volume.unit(0, 1), Err(FlashCause::Cipher));
    WORKS.set(u32::MAX);
    assert_eq!(volume.unit(0, 1), Ok(vec![1; PAYLOAD]), "it was the engine, not the unit");

    volume.clear(4).expect("erased");
    let before = bench.medium.lock().image().to_bytes();
    WORKS.set(0);
    assert_eq!(volume.put(4, 0, 0x40), Err(FlashCause::Cipher));
    assert_eq!(bench.medium.lock().image().to_bytes(), before, "nothing is programmed that was not sealed");
}
