//! A driver of its own error type below encrypted and sealed flash: bad blocks and torn error-correcting words are met as on a medium whose
//! errors are known, and a bus that fails is neither.

use std::cell::Cell;
use std::rc::Rc;

use crate::any::{AnyVolume, any_flash, any_store};
use crate::faces::AnyCrypt as CryptFlash;
use crate::faces::AnyPages as PageStore;
use crate::littlefs::{Checked, Rig, Small, Tree, Xts, XtsChecked, formatted, play_on, read_all_on, suite};
use crate::nor_faces::AnyDriver as NorDriver;
use crate::sealed_rig::{KEY, OPTIONS, Parts, STRIDE, on};
use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_cipher::{AesXts, MapperOptions};
use atrest_device::{
    FlashCause, FlashDevice, FlashGeometry, FlashOperation, TRUSTED_RECORD_LEN, TrustedStore,
};
use atrest_flash::NorFault;
use atrest_flash::sealed::BlockState;
use atrest_secret::OsRandom;
use atrest_testkit::Campaign;
use atrest_testkit::flash::{BadBlock, Caching, EmulatedFlash, SharedFlash, Tear};
use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

/// A chip's driver as its maker writes it: errors of its own, of which embedded-storage tells nothing.
struct Chip<const READ: usize, const PROG: usize, const ERASE: usize> {
    medium: SharedFlash,
    /// Reads that fail from now on, wherever they are.
    dead_reads: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChipError {
    DoubleBit,
    VerifyFailed,
    EraseTimeout,
    NoAnswer,
}

impl NorFlashError for ChipError {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

type Bytes64 = Chip<16, 16, 512>;
type Sealed = Chip<1, { STRIDE as usize }, { STRIDE as usize * 11 }>;

impl<const READ: usize, const PROG: usize, const ERASE: usize> Chip<READ, PROG, ERASE> {
    fn on(medium: &SharedFlash) -> Self {
        Self { medium: medium.clone(), dead_reads: 0 }
    }
}

impl<const READ: usize, const PROG: usize, const ERASE: usize> ErrorType for Chip<READ, PROG, ERASE> {
    type Error = ChipError;
}

impl<const READ: usize, const PROG: usize, const ERASE: usize> ReadNorFlash for Chip<READ, PROG, ERASE> {
    const READ_SIZE: usize = READ;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), ChipError> {
        if self.dead_reads > 0 {
            self.dead_reads -= 1;
            return Err(ChipError::NoAnswer);
        }
        self.medium.read(offset.into(), bytes).map_err(|_| ChipError::DoubleBit)
    }

    fn capacity(&self) -> usize {
        self.medium.geometry().size() as usize
    }
}

impl<const READ: usize, const PROG: usize, const ERASE: usize> NorFlash for Chip<READ, PROG, ERASE> {
    const WRITE_SIZE: usize = PROG;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), ChipError> {
        self.medium.erase(from.into(), (to - from).into()).map_err(|_| ChipError::EraseTimeout)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), ChipError> {
        self.medium.prog(offset.into(), bytes).map_err(|_| ChipError::VerifyFailed)
    }
}

/// AES-XTS over the driver, or over the medium itself.
fn crypt<D: FlashDevice>(device: D) -> CryptFlash<D, AesXts, Vec<u8>> {
    let key: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
    let cipher = AesXts::new(&key, &MapperOptions::default()).expect("a key");
    CryptFlash::new(device, cipher, vec![0; 512]).expect("a device")
}

fn driver(medium: &SharedFlash) -> NorDriver<Bytes64> {
    NorDriver::new(Bytes64::on(medium)).expect("a geometry")
}

/// How far littlefs came, with what error, and what is found afterwards.
type Outcome = (usize, Result<(), i32>, Result<Tree, i32>);

fn outcome<D: FlashDevice>(block: usize, how: BadBlock, device: impl Fn(&SharedFlash) -> D) -> Outcome {
    let medium = formatted::<Xts>();
    medium.lock().break_block(block, how);
    let storage = || atrest_flash::LittlefsStorage::<_, Small>::new(crypt(device(&medium))).expect("sizes");
    let changes = suite(Xts::medium().size() as usize);
    let (played, result) = play_on(&mut storage(), Tree::new(), &changes, |_| {});
    let found = read_all_on(&mut storage()).map_err(|error| error.code());
    (played.states.len() - 1, result.map_err(|error| error.code()), found)
}

#[test]
fn a_bad_block_behind_a_driver_is_met_as_on_the_medium_itself() {
    let blocks = Xts::medium().block_count() as usize;
    let cases: Vec<(usize, BadBlock)> =
        (0..blocks).flat_map(|block| BadBlock::ALL.map(|how| (block, how))).collect();
    let mut survived = 0;
    Campaign::matrix("bad blocks behind a driver", 60).over(&cases, |&(block, how)| {
        let itself = outcome(block, how, SharedFlash::clone);
        survived += u32::from(itself.1.is_ok());
        assert_eq!(outcome(block, how, driver), itself, "block {block}, {how:?}");
    });
    println!("{survived} suites ran to their end");
    assert!(survived > 30, "{survived}");
}

#[test]
fn a_torn_word_behind_a_driver_loses_nothing_that_was_synced() {
    let medium = formatted::<XtsChecked>();
    medium.lock().record();
    let changes = suite(XtsChecked::medium().size() as usize);
    let acknowledge = |number| medium.lock().acknowledge(number);
    let storage = |medium: &SharedFlash| {
        atrest_flash::LittlefsStorage::<_, Checked>::new(crypt(driver(medium))).expect("sizes")
    };
    let (played, result) = play_on(&mut storage(&medium), Tree::new(), &changes, acknowledge);
    assert!(result.is_ok(), "{result:?}");
    let recording = medium.lock().finish_recording();
    let mut cuts = recording.cuts(Caching::None);
    cuts.retain(|cut| cut.tear == Tear::Uncorrectable);
    Campaign::matrix("torn words behind a driver", 300).over(&cuts, |cut| {
        let (image, promises) = recording.aftermath(*cut);
        let done = promises.len();
        let after = SharedFlash::new(EmulatedFlash::with_image(image));
        let found = read_all_on(&mut storage(&after));
        let found = found.unwrap_or_else(|error| panic!("{cut}: cannot open: error {}", error.code()));
        assert!(played.states[done..(done + 2).min(played.states.len())].contains(&found), "{cut}");
    });
}

type Volume = AnyVolume<'static, ChaCha20Poly1305>;

fn sealed(parts: &Parts) -> Volume {
    let driver = NorDriver::new(Sealed::on(&parts.medium)).expect("a geometry");
    let (table, buffer) = (vec![BlockState::default(); 64], vec![0; STRIDE as usize]);
    let (driver, store) = (any_flash(driver), any_store(parts.store.clone()));
    Volume::mount(driver, store, &KEY, parts.options, table, buffer, &mut OsRandom).expect("mount")
}

#[test]
fn a_bad_block_behind_a_driver_below_sealed_flash_loses_nothing() {
    let cases: Vec<(usize, BadBlock)> = (2..64)
        .flat_map(|block| [BadBlock::ProgError, BadBlock::EraseError].map(|how| (block, how)))
        .collect();
    let mut survived = 0;
    Campaign::matrix("bad blocks behind a driver, sealed", 30).over(&cases, |&(block, how)| {
        let parts = Parts::formatted(OPTIONS);
        let changes = suite(64 * 640);
        let mut storage = on(sealed(&parts));
        let (first, result) = play_on(&mut storage, Tree::new(), &changes[..40], |_| {});
        assert!(result.is_ok());
        parts.medium.lock().break_block(block, how);
        let start = first.states.last().expect("a state").clone();
        let (played, result) = play_on(&mut storage, start, &changes[40..], |_| {});
        assert!(!storage.device().is_stopped(), "{block}, {how:?}: an alarm");
        survived += u32::from(result.is_ok());
        drop(storage);
        let found = read_all_on(&mut on(sealed(&parts)));
        assert_eq!(found.as_ref().ok(), played.states.last(), "{block}, {how:?}");
    });
    println!("{survived} suites ran to their end");
    assert!(survived > 20, "{survived}");
}

#[test]
fn a_torn_word_behind_a_driver_below_sealed_flash_loses_nothing_and_raises_no_alarm() {
    let run = Parts::formatted(OPTIONS).record(Tree::new(), &suite(64 * 640)[..60], false);
    let mut cuts = run.recording.cuts(Caching::None);
    cuts.retain(|cut| cut.tear == Tear::Uncorrectable);
    Campaign::matrix("torn words behind a driver, sealed", 100).over(&cuts, |cut| {
        let (parts, done) = run.aftermath(*cut);
        let found = read_all_on(&mut on(sealed(&parts))).unwrap_or_else(|error| panic!("{cut}: {error:?}"));
        let states = &run.played.states;
        assert!(states[done..(done + 2).min(states.len())].contains(&found), "{cut}: lost");
    });
}

/// The store of a chip lies in its own flash, behind the same driver.
#[test]
fn a_torn_word_in_a_trusted_store_behind_a_driver_leaves_the_record_before_it() {
    let geometry = FlashGeometry::new(1, 8, 1024, 2).expect("a geometry");
    let pages = SharedFlash::new(EmulatedFlash::new(geometry));
    let store = || {
        let chip = Chip::<1, 8, 1024>::on(&pages);
        PageStore::<_, 88>::new(NorDriver::new(chip).expect("a geometry")).expect("room")
    };
    store().store(&[1; TRUSTED_RECORD_LEN]).expect("stored");
    pages.lock().record();
    store().store(&[2; TRUSTED_RECORD_LEN]).expect("stored");
    let recording = pages.lock().finish_recording();
    let cuts = recording.cuts(Caching::None).into_iter().filter(|cut| cut.tear == Tear::Uncorrectable);
    let mut tried = 0;
    for cut in cuts {
        *pages.lock() = EmulatedFlash::with_image(recording.aftermath(cut).0);
        assert_eq!(store().load(), Ok(Some([1; TRUSTED_RECORD_LEN])), "{cut}");
        tried += 1;
    }
    assert!(tried >= 1);
}

#[test]
fn a_bus_that_fails_is_no_torn_word_and_a_read_that_fails_once_is_tried_again() {
    let medium = SharedFlash::new(EmulatedFlash::new(Xts::medium()));
    medium.prog_all();
    let mut chip = driver(&medium);
    let read = |chip: &mut NorDriver<Bytes64>, address| {
        let mut bytes = [0; 16];
        chip.read(address, &mut bytes).map(|()| bytes).map_err(|error| error.cause)
    };
    assert_eq!(read(&mut chip, 512), Ok([7; 16]));
    for (dead_reads, found) in [
        (1, Ok([7; 16])),
        (2, Ok([7; 16])),
        // The third fails, and the next one elsewhere does not: from here the driver can't tell.
        (3, Err(FlashCause::Uncorrectable)),
        (4, Err(FlashCause::Uncorrectable)),
        (5, Err(FlashCause::Driver(1))),
        (1000, Err(FlashCause::Driver(1))),
    ] {
        let mut chip = NorDriver::new(Bytes64 { medium: medium.clone(), dead_reads }).expect("a geometry");
        assert_eq!(read(&mut chip, 512), found, "{dead_reads} dead reads");
    }
    medium.lock().break_block(1, BadBlock::ReadError);
    assert_eq!(read(&mut chip, 512), Err(FlashCause::Uncorrectable));
    let mut bytes = [1; 16];
    assert!(chip.read(512, &mut bytes).is_err());
    assert_eq!(bytes, [0; 16], "what was read elsewhere is shown as what stands here");
    // In the first and in the last block, where the other one is asked.
    for (block, address) in [(0, 0), (63, 63 * 512 + 496)] {
        medium.lock().break_block(block, BadBlock::ReadError);
        let other = if block == 0 { Err(FlashCause::Uncorrectable) } else { Err(FlashCause::Driver(1)) };
        assert_eq!(read(&mut chip, address), other, "block {block}");
    }
    // That the failed place itself answers at last says nothing about other places.
    let medium = SharedFlash::new(EmulatedFlash::new(Xts::medium()));
    medium.prog_all();
    medium.lock().break_block(0, BadBlock::ReadError);
    let mut chip = NorDriver::new(Bytes64 { medium, dead_reads: 3 }).expect("a geometry");
    assert_eq!(read(&mut chip, 63 * 512 + 496), Err(FlashCause::Driver(1)));
}

/// A driver of 8 GiB that refuses everything, and counts what it is asked.
struct Refusing {
    kind: NorFlashErrorKind,
    asked: Rc<Cell<u32>>,
}

impl Refusing {
    fn fails<T>(&self) -> Result<T, NorFlashErrorKind> {
        self.asked.set(self.asked.get() + 1);
        Err(self.kind)
    }
}

impl ErrorType for Refusing {
    type Error = NorFlashErrorKind;
}

impl ReadNorFlash for Refusing {
    const READ_SIZE: usize = 4;

    fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), NorFlashErrorKind> {
        self.fails()
    }

    fn capacity(&self) -> usize {
        8 << 30
    }
}

impl NorFlash for Refusing {
    const WRITE_SIZE: usize = 16;
    const ERASE_SIZE: usize = 512;

    fn erase(&mut self, _: u32, _: u32) -> Result<(), NorFlashErrorKind> {
        self.fails()
    }

    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), NorFlashErrorKind> {
        self.fails()
    }
}

/// The causes of a read, a program and an erase there, and how often the driver was asked.
fn refused(kind: NorFlashErrorKind, address: u64) -> ([FlashCause; 3], u32) {
    let asked = Rc::new(Cell::new(0));
    let mut chip = NorDriver::new(Refusing { kind, asked: Rc::clone(&asked) }).expect("a geometry");
    let results = [chip.read(address, &mut [0; 4]), chip.prog(address, &[0; 16]), chip.erase(address, 512)];
    (results.map(|result| result.expect_err("refused").cause), asked.get())
}

#[test]
fn a_range_that_a_driver_refuses_is_told_with_the_sizes_of_the_medium() {
    let multiples = [4, 16, 512].map(|multiple| FlashCause::Misaligned { multiple });
    assert_eq!(refused(NorFlashErrorKind::NotAligned, 512), (multiples, 3));
    let outside = [FlashCause::OutOfBounds { size: 8 << 30 }; 3];
    assert_eq!(refused(NorFlashErrorKind::OutOfBounds, 512), (outside, 3));
}

/// `NorFlash` has addresses of 32 bits. One that is cut to them would reach another place.
#[test]
fn a_driver_is_never_asked_for_a_place_that_is_not_the_one_meant() {
    let other = NorFlashErrorKind::Other;
    assert_eq!(refused(other, 8 << 30), ([FlashCause::OutOfBounds { size: 8 << 30 }; 3], 0));
    let unnamed = FlashCause::OutOfBounds { size: 1 << 32 };
    assert_eq!(refused(other, 4 << 30), ([unnamed; 3], 0));
    let multiples = [4, 16, 512].map(|multiple| FlashCause::Misaligned { multiple });
    assert_eq!(refused(other, 2), (multiples, 0));
    // The last erase block that 32 bits reach ends where they do not: it can be programmed, but not erased.
    let (causes, asked) = refused(other, (4 << 30) - 512);
    assert_eq!((causes[1], causes[2]), (FlashCause::BadBlock { block: (4 << 30) / 512 - 1 }, unnamed));
    // Three reads there, one at the beginning, and the program.
    assert_eq!(asked, 3 + 1 + 1);
}

#[test]
fn an_integrator_says_what_the_errors_of_a_driver_mean() {
    let medium = SharedFlash::new(EmulatedFlash::new(Xts::medium()));
    medium.lock().break_block(3, BadBlock::ReadError);
    medium.lock().break_block(4, BadBlock::ProgError);
    medium.lock().break_block(5, BadBlock::EraseError);
    let mut seen = Vec::new();
    let faults = |operation: FlashOperation, error: &ChipError| {
        seen.push((operation, *error));
        match error {
            ChipError::DoubleBit | ChipError::EraseTimeout => NorFault::Medium,
            ChipError::VerifyFailed => NorFault::Cause(FlashCause::ReadOnly),
            ChipError::NoAnswer => NorFault::Unknown,
        }
    };
    let mut chip = NorDriver::with_faults(Bytes64::on(&medium), faults).expect("a geometry");
    let cause = |result: Result<(), atrest_device::FlashError>| result.expect_err("fails").cause;
    assert_eq!(cause(chip.read(3 * 512, &mut [0; 16])), FlashCause::Uncorrectable);
    assert_eq!(cause(chip.prog(4 * 512, &[0; 16])), FlashCause::ReadOnly);
    assert_eq!(cause(chip.erase(5 * 512, 512)), FlashCause::BadBlock { block: 5 });
    drop(chip);
    let (read, prog, erase) = (FlashOperation::Read, FlashOperation::Prog, FlashOperation::Erase);
    let expected =
        [(read, ChipError::DoubleBit), (prog, ChipError::VerifyFailed), (erase, ChipError::EraseTimeout)];
    assert_eq!(seen, expected, "each error is asked about once");
    // Without him the operation decides.
    let mut chip = driver(&medium);
    assert_eq!(cause(chip.prog(4 * 512, &[0; 16])), FlashCause::BadBlock { block: 4 });
    assert_eq!(cause(chip.erase(4 * 512, 1024)), FlashCause::BadBlock { block: 5 });
}

/// Sixteen bytes of 7 everywhere.
trait ProgAll {
    fn prog_all(&self);
}

impl ProgAll for SharedFlash {
    fn prog_all(&self) {
        let mut flash = self.clone();
        let size = flash.geometry().size() as usize;
        flash.prog(0, &vec![7; size]).expect("program");
    }
}
