//! Encrypted flash by an AES engine that is waited for: the bytes of software, nothing programmed that was not encrypted, and no
//! plaintext left in the buffer.

use atrest_cipher::{
    AesEngine, AesXts, AsyncAesEngine, AsyncEngineCipher, AsyncEngineXts, CheckedEngine, DataUnitIndex,
    Direction, MapperOptions, SoftwareEngine, XtsKey,
};
use atrest_device::asynchronous::FlashDevice;
use atrest_device::{FlashCause, FlashGeometry, FlashOperation};
use atrest_flash::asynchronous::CryptFlash;
use atrest_testkit::flash::EmulatedFlash;

use crate::waits::{Waits, block_on, pause, poll_at_most};

fn key() -> [u8; 32] {
    core::array::from_fn(|i| (i * 5 + 1) as u8)
}

fn plain() -> Vec<u8> {
    (0..2048_usize).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// An AES peripheral: it works between two interrupts. Some of its calls go wrong.
struct Peripheral {
    engine: SoftwareEngine,
    calls: usize,
    fails: Option<usize>,
    wrong: Option<usize>,
}

impl Peripheral {
    fn new() -> Self {
        let engine = SoftwareEngine::new(&key(), &MapperOptions::default()).expect("a key");
        Self { engine, calls: 0, fails: None, wrong: None }
    }
}

impl AsyncAesEngine for Peripheral {
    const ALIGNMENT: usize = 1;

    type Error = ();

    async fn apply(&mut self, key: XtsKey, direction: Direction, blocks: &mut [[u8; 16]]) -> Result<(), ()> {
        pause().await;
        self.calls += 1;
        let Ok(()) = self.engine.apply(key, direction, blocks);
        if self.wrong == Some(self.calls) {
            blocks[0][3] ^= 1;
        }
        pause().await;
        if self.fails == Some(self.calls) { Err(()) } else { Ok(()) }
    }
}

type Encrypted<'a> =
    CryptFlash<Waits<EmulatedFlash>, AsyncEngineCipher<CheckedEngine<Peripheral>, 4>, &'a mut [u8]>;

fn encrypted(peripheral: Peripheral, bounce: &mut [u8]) -> Encrypted<'_> {
    let geometry = FlashGeometry::new(1, 16, 4096, 2).expect("a geometry");
    let options = MapperOptions::default();
    let engine = CheckedEngine::new(peripheral, &key(), &options).expect("a key");
    let cipher = AsyncEngineCipher::new(AsyncEngineXts::new(engine, &options).expect("a unit"));
    CryptFlash::new(Waits(EmulatedFlash::new(geometry)), cipher, bounce).expect("a device")
}

/// What the medium has.
fn image(flash: Encrypted<'_>) -> Vec<u8> {
    flash.into_device().0.image().to_bytes()
}

#[test]
fn an_engine_stores_what_software_does() {
    let plain = plain();
    let software = AesXts::new(&key(), &MapperOptions::default()).expect("a key");
    let mut expected = plain.clone();
    software.encrypt_at(DataUnitIndex(0), 16, &mut expected[16..2000]).expect("a run");
    for bounce_len in [16, 528, 2048] {
        let mut bounce = vec![0; bounce_len];
        let mut flash = encrypted(Peripheral::new(), &mut bounce);
        block_on(flash.prog(16, &plain[16..2000])).expect("programmed");
        let mut back = vec![0; 1984];
        block_on(flash.read(16, &mut back)).expect("read");
        assert_eq!(back, plain[16..2000]);
        assert_eq!(image(flash)[16..2000], expected[16..2000], "{bounce_len}");
    }
}

#[test]
fn what_the_engine_fails_on_or_gets_wrong_is_not_programmed() {
    let plain = plain();
    let software = AesXts::new(&key(), &MapperOptions::default()).expect("a key");
    let mut expected = plain.clone();
    software.encrypt(DataUnitIndex(0), &mut expected).expect("a run");
    // Two calls for each of four pieces.
    for call in 1..=8 {
        for (fails, wrong) in [(Some(call), None), (None, Some(call))] {
            let mut bounce = vec![0; 512];
            let mut flash = encrypted(Peripheral { fails, wrong, ..Peripheral::new() }, &mut bounce);
            let done = block_on(flash.prog(0, &plain));
            // A data unit of 32 cipher blocks is compared, and as many tweaks, of which each unit has one.
            if wrong.is_some() && call % 2 == 0 && call > 2 {
                assert_eq!(done, Ok(()));
                continue;
            }
            let error = done.expect_err("it went wrong");
            assert_eq!((error.operation, error.cause), (FlashOperation::Prog, FlashCause::Cipher));
            let programmed = (call - 1) / 2 * 512;
            let image = image(flash);
            assert_eq!(image[..programmed], expected[..programmed]);
            assert!(image[programmed..].iter().all(|byte| *byte == 0xff), "{call}");
            assert!(bounce.iter().all(|byte| *byte == 0), "plaintext or worse is left in the buffer");
        }
    }
    let mut bounce = vec![0; 512];
    let mut flash = encrypted(Peripheral { fails: Some(3), ..Peripheral::new() }, &mut bounce);
    block_on(flash.prog(0, &plain[..512])).expect("two calls");
    let error = block_on(flash.read(0, &mut [0; 512])).expect_err("the third");
    assert_eq!((error.operation, error.cause), (FlashOperation::Read, FlashCause::Cipher));
}

#[test]
fn a_program_that_nobody_waits_for_leaves_no_plaintext_in_the_buffer() {
    let plain = plain();
    let software = AesXts::new(&key(), &MapperOptions::default()).expect("a key");
    let mut expected = plain[..512].to_vec();
    software.encrypt(DataUnitIndex(0), &mut expected).expect("a run");
    let mut polls = 1;
    loop {
        let mut bounce = vec![0xaa; 512];
        let mut flash = encrypted(Peripheral::new(), &mut bounce);
        let done = poll_at_most(polls, flash.prog(0, &plain[..512]));
        let medium = image(flash);
        assert!(medium[..512] == expected || medium[..512].iter().all(|byte| *byte == 0xff), "{polls}");
        assert!(bounce == expected || bounce.iter().all(|byte| *byte == 0), "{polls}");
        if done.is_some() {
            break;
        }
        polls += 1;
    }
    // Two calls of two interrupts each, and the medium's two.
    assert_eq!(polls, 7);
}
