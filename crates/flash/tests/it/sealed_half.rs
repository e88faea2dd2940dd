//! Programs and erases that a chip leaves half-way, and says so or does not: what is left of them counts only as far as the next opening reads
//! it, too. The first unit of a block ends with the session's salts, without which nobody can open it.

use std::cell::Cell;
use std::rc::Rc;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_flash::sealed::{BlockState, Verify};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, SharedFlash, TrustedMemory};

use crate::any::{AnyVolume, any_flash, any_store};
use crate::sealed::{BLOCKS, ERASE, FIRST, KEY, OPTIONS, Units, geometry};

const PROG: usize = 32;

/// How the next operation goes wrong.
#[derive(Clone, Copy, Debug)]
struct Half {
    /// Prog units that are as they were.
    from: usize,
    to: usize,
    /// The error that is reported.
    told: bool,
}

#[derive(Clone)]
struct Chip {
    flash: SharedFlash,
    next: Rc<Cell<Option<Half>>>,
}

impl Chip {
    /// Runs an operation, and takes the half of it back.
    fn halve(
        &mut self,
        operation: FlashOperation,
        address: u64,
        len: u64,
        run: impl FnOnce(&mut SharedFlash) -> Result<(), FlashError>,
    ) -> Result<(), FlashError> {
        let before = self.flash.lock().image().clone();
        run(&mut self.flash)?;
        let Some(half) = self.next.take() else { return Ok(()) };
        let (block, first) = (address as usize / ERASE, address as usize % ERASE / PROG);
        let units = (len as usize).div_ceil(PROG);
        for unit in (half.from..half.to.min(units)).map(|unit| first + unit) {
            self.flash.lock().image_mut().put_unit(block, unit, before.unit(block, unit));
        }
        let error = FlashError::new(operation, address, len, FlashCause::Driver(7));
        if half.told { Err(error) } else { Ok(()) }
    }
}

impl FlashDevice for Chip {
    fn geometry(&self) -> FlashGeometry {
        self.flash.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.flash.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.halve(FlashOperation::Prog, address, data.len() as u64, |flash| flash.prog(address, data))
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.halve(FlashOperation::Erase, address, len, |flash| flash.erase(address, len))
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.flash.sync()
    }
}

type Volume = AnyVolume<'static, ChaCha20Poly1305>;

/// Units that a block shows.
fn shown(volume: &mut Volume, block: u64) -> Vec<u8> {
    let mut found = Vec::new();
    for unit in 0..10 {
        match volume.unit(block, unit) {
            Ok(bytes) if matches!(bytes[0], 0 | 0xff) => break,
            Ok(bytes) => found.push(bytes[0]),
            Err(FlashCause::Void { .. }) => break,
            Err(cause) => panic!("block {block}, unit {unit}: {cause}"),
        }
    }
    found
}

/// A volume of which block 2 holds 21, 22 and 23, and block 3 nothing. `work` meets a chip that fails; afterwards both blocks show the same
/// before the volume is closed and when it is opened again, in both ways.
fn stays_as_it_is(half: Half, closes: bool, work: impl Fn(&mut Volume, &dyn Fn()) -> FlashCause) {
    let chip = Chip { flash: SharedFlash::new(EmulatedFlash::new(geometry())), next: Rc::default() };
    let store = TrustedMemory::new();
    let open = |mount: bool, verify| {
        let open = if mount { Volume::mount } else { Volume::format };
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
        let options = atrest_flash::sealed::SealedOptions { verify, ..OPTIONS };
        let (chip, store) = (any_flash(chip.clone()), any_store(store.clone()));
        open(chip, store, &KEY, options, table, buffer, &mut OsRandom)
    };
    let mut volume = open(false, Verify::OnRead).expect("format");
    volume.clear(2).expect("erase");
    (0..3).for_each(|unit| volume.put(2, unit, 21 + unit as u8).expect("program"));
    volume.clear(3).expect("erase");
    volume.anchor().expect("anchor");
    let cause = work(&mut volume, &|| chip.next.set(Some(half)));
    let expected = if half.told {
        [FlashCause::Driver(7); 2]
    } else {
        [2, 3].map(|block| FlashCause::BadBlock { block })
    };
    assert!(expected.contains(&cause), "{half:?}: {cause}");
    let before = [2, 3].map(|block| shown(&mut volume, block));
    if closes {
        volume.close().expect("close");
    }
    drop(volume);
    for verify in [Verify::AtOpening, Verify::OnRead] {
        let mut volume = open(true, verify).unwrap_or_else(|error| panic!("{half:?}: {error}"));
        assert!(!volume.is_damaged(), "{half:?}: an alarm");
        assert_eq!([2, 3].map(|block| shown(&mut volume, block)), before, "{half:?}, {verify:?}");
    }
}

#[test]
fn a_first_unit_without_its_salts_does_not_count() {
    for (from, told, closes) in (0..4).flat_map(|from| {
        [(true, true), (true, false), (false, true), (false, false)]
            .map(|(told, closes)| (from, told, closes))
    }) {
        stays_as_it_is(Half { from, to: 4, told }, closes, |volume, fail| {
            fail();
            volume.put(3, 0, 31).expect_err("half of it is missing")
        });
    }
}

#[test]
fn what_an_erase_has_left_of_a_block_counts_as_far_as_an_opening_reads_it() {
    for (end, closes) in (1..=13).flat_map(|end| [(end, true), (end, false)]) {
        // Erased from the end of the block on, or from its beginning.
        for (from, to) in [(0, end), (end, ERASE / PROG)] {
            stays_as_it_is(Half { from, to, told: true }, closes, |volume, fail| {
                fail();
                volume.clear(2).expect_err("half of it is left")
            });
        }
    }
}
