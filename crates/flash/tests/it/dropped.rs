//! Futures of an encrypted chip, of a driver, and of one over the other, that are dropped at any poll: the range of the operation holds a
//! part of it, everything else is what it was, and later operations do what they always do.

use atrest_cipher::{AesXts, MapperOptions};
use atrest_device::asynchronous::FlashDevice;
use atrest_device::{FlashError, FlashGeometry};
use atrest_flash::BlankReads;
use atrest_flash::asynchronous::{CryptFlash, NorDriver};
use atrest_testkit::flash::SharedFlash;
use atrest_testkit::{Campaign, Random};
use embedded_storage::nor_flash::{NorFlashError, NorFlashErrorKind};
use embedded_storage_async::nor_flash::{ErrorType, NorFlash, ReadNorFlash};

use crate::tearing::TearingChip;
use crate::waits::{block_on, poll_at_most};

const PROG: usize = 16;
const ERASE: usize = 256;
const UNITS: usize = ERASE / PROG;
const BLOCKS: usize = 5;

/// A chip behind a driver.
struct Nor(TearingChip);

#[derive(Debug)]
struct Broken;

impl NorFlashError for Broken {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

impl From<FlashError> for Broken {
    fn from(error: FlashError) -> Self {
        panic!("the chip does not fail: {error}")
    }
}

impl ErrorType for Nor {
    type Error = Broken;
}

impl ReadNorFlash for Nor {
    const READ_SIZE: usize = 1;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Broken> {
        Ok(self.0.read(offset.into(), bytes).await?)
    }

    fn capacity(&self) -> usize {
        BLOCKS * ERASE
    }
}

impl NorFlash for Nor {
    const WRITE_SIZE: usize = PROG;
    const ERASE_SIZE: usize = ERASE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Broken> {
        Ok(self.0.erase(from.into(), (to - from).into()).await?)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Broken> {
        Ok(self.0.prog(offset.into(), bytes).await?)
    }
}

/// What a unit holds: a byte over and over, or nothing.
type Content = Option<u8>;

/// What each unit holds, and may hold as well since an operation of it was dropped.
struct Units(Vec<(Content, Content)>);

impl Units {
    /// The next units of a block that can be programmed, so many at most.
    fn free(&self, block: usize, most: usize) -> std::ops::Range<usize> {
        let all = block * UNITS..(block + 1) * UNITS;
        let used = all.clone().rev().find(|unit| self.0[*unit] != (None, None));
        let first = used.map_or(all.start, |unit| unit + 1);
        first..all.end.min(first + most)
    }

    /// Holds this, or if the operation was dropped what it held or this. Where there is doubt already, nothing is programmed.
    fn set(&mut self, unit: usize, content: Content, done: bool) {
        let (one, other) = self.0[unit];
        let before = if one == content { other } else { one };
        self.0[unit] = (content, if done { content } else { before });
    }

    /// Takes what was read for what is there, if it may be.
    fn found(&mut self, first: usize, bytes: &[u8]) {
        for (unit, bytes) in (first..).zip(bytes.chunks(PROG)) {
            let content = Some(bytes[0]).filter(|byte| *byte != 0xff);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "unit {unit}: {bytes:?}");
            let (one, other) = self.0[unit];
            assert!(content == one || content == other, "unit {unit}: {content:?}, not {one:?} or {other:?}");
            self.0[unit] = (content, content);
        }
    }
}

/// Uses devices on one chip, each for some time. `again` reads the chip by blocking code.
fn history<D: FlashDevice>(
    random: &mut Random,
    make: impl Fn(TearingChip) -> D,
    again: impl Fn(SharedFlash) -> Vec<u8>,
) -> u64 {
    let geometry = FlashGeometry::new(1, PROG as u32, ERASE as u32, BLOCKS as u64).expect("a geometry");
    let chip = TearingChip::new(geometry, random);
    let (mut units, mut dropped) = (Units(vec![(None, None); BLOCKS * UNITS]), 0);
    let mut device = make(chip.clone());
    block_on(device.erase(0, (BLOCKS * ERASE) as u64)).expect("erases");
    for _ in 0..40 {
        let polls = if random.below(2) == 0 { random.below(9) as usize } else { usize::MAX };
        let block = random.below(BLOCKS as u64) as usize;
        let free = units.free(block, 1 + random.below(6) as usize);
        let done = match random.below(8) {
            0..4 if !free.is_empty() => {
                let byte = 1 + random.below(250) as u8;
                let data = vec![byte; free.len() * PROG];
                let done = poll_at_most(polls, device.prog((free.start * PROG) as u64, &data));
                free.for_each(|unit| units.set(unit, Some(byte), done.is_some()));
                done
            }
            0..6 => {
                let blocks = block..BLOCKS.min(block + 1 + random.below(2) as usize);
                let (at, len) = (blocks.start * ERASE, blocks.len() * ERASE);
                let done = poll_at_most(polls, device.erase(at as u64, len as u64));
                let all = blocks.start * UNITS..blocks.end * UNITS;
                all.for_each(|unit| units.set(unit, None, done.is_some()));
                done
            }
            6 => {
                let mut bytes = vec![0x5a; ERASE];
                let done = poll_at_most(polls, device.read((block * ERASE) as u64, &mut bytes));
                if done.is_some() {
                    units.found(block * UNITS, &bytes);
                }
                done
            }
            _ => {
                device = make(chip.clone());
                units.found(0, &again(chip.flash.clone()));
                Some(Ok(()))
            }
        };
        dropped += u64::from(done.map(|done| done.expect("the chip does not fail")).is_none());
        // Now and then several operations are dropped one after the other before anybody looks.
        let in_doubt = units.0.iter().any(|(one, other)| one != other);
        if in_doubt && random.below(3) > 0 {
            let mut bytes = vec![0x5a; BLOCKS * ERASE];
            block_on(device.read(0, &mut bytes)).expect("reads");
            units.found(0, &bytes);
        }
    }
    units.found(0, &again(chip.flash));
    dropped
}

fn cipher() -> AesXts {
    AesXts::new(&core::array::from_fn::<u8, 32, _>(|i| i as u8), &MapperOptions::default()).expect("a key")
}

fn plain(mut flash: impl atrest_device::FlashDevice) -> Vec<u8> {
    let mut bytes = vec![0; BLOCKS * ERASE];
    flash.read(0, &mut bytes).expect("reads");
    bytes
}

fn decrypted(flash: SharedFlash) -> Vec<u8> {
    let flash = atrest_flash::CryptFlash::with_blank_reads(flash, cipher(), [0; PROG], BlankReads::Erased);
    plain(flash.expect("a device"))
}

#[test]
fn futures_dropped_at_any_poll_leave_a_part_of_the_operation_and_change_nothing_else() {
    let mut dropped = 0;
    Campaign::new("dropped futures of encrypted flash and of drivers", 150, 20_000).run(|_, random| {
        let bounce = vec![0; PROG * (1 + random.below(4) as usize)];
        let crypt = |chip| {
            CryptFlash::with_blank_reads(chip, cipher(), bounce.clone(), BlankReads::Erased)
                .expect("a device")
        };
        dropped += history(random, crypt, decrypted);
        let nor = |chip| NorDriver::new(Nor(chip)).expect("a device");
        dropped += history(random, nor, plain);
        let both = |chip| {
            CryptFlash::with_blank_reads(nor(chip), cipher(), bounce.clone(), BlankReads::Erased)
                .expect("a device")
        };
        dropped += history(random, both, decrypted);
    });
    println!("{dropped} futures were dropped");
    assert!(!Campaign::is_sample() || dropped > 1_000, "{dropped}");
}
