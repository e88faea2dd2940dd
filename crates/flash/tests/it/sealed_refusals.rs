//! An adversary on the bus answers a program, an erase or a sync with an error and keeps what was sent. Whatever he does with it after
//! the volume was closed in good order and opened again: what was acknowledged later is read, or an alarm is raised.

use crate::sealed;
use crate::sealed::{BLOCKS, Bench, ERASE, FIRST, OPTIONS, STRIDE, Units};
use atrest_device::{FlashCause, FlashDevice};
use atrest_flash::sealed::{SealedMedium, SealedOptions};
use atrest_flash::{LittlefsGeometry, LittlefsStorage};
use littlefs2::consts::{U1, U72};
use littlefs2::fs::Filesystem;
use littlefs2::path::Path;

type Volume = sealed::Volume<atrest_cipher::aead::ChaCha20Poly1305>;

const REFUSED: Result<(), FlashCause> = Err(FlashCause::Driver(0));

/// Puts bytes at an address, past the rules of the medium.
fn exchange(bench: &Bench, address: u64, bytes: &[u8]) {
    let mut medium = bench.medium.lock();
    let (block, first) = ((address / ERASE as u64) as usize, (address % ERASE as u64) as usize / 32);
    for (unit, bytes) in (first..).zip(bytes.chunks(32)) {
        medium.image_mut().put_unit(block, unit, bytes);
    }
}

/// The first byte of a unit, or why there is none.
fn first(volume: &mut Volume, block: u64, unit: u64) -> Result<u8, FlashCause> {
    volume.unit(block, unit).map(|bytes| bytes[0])
}

/// The unit either can't be opened or holds what it may.
fn shows_only(bench: &Bench, block: u64, unit: u64, permitted: u8) {
    let Ok(mut volume) = bench.mount() else { return };
    let found = first(&mut volume, block, unit);
    let reported = matches!(found, Err(FlashCause::Tampered { .. }));
    assert!(reported || found == Ok(permitted), "{block}.{unit}: {found:?}");
}

#[test]
fn a_refused_program_is_never_read_in_place_of_a_later_one() {
    let bench = Bench::new(OPTIONS);
    let mut volume: Volume = bench.format().expect("format");
    volume.clear(3).expect("erase");
    volume.put(3, 0, 0x11).expect("program");
    volume.sync().expect("sync");
    bench.medium.lock().refusals().programs = 1;
    assert_eq!(volume.put(3, 1, 0xaa), REFUSED);
    assert_eq!(volume.put(3, 1, 0xbb), Err(FlashCause::Closed { block: 3 }));
    volume.close().expect("close");
    drop(volume);
    let mut volume: Volume = bench.mount().expect("mount");
    assert_eq!(volume.put(3, 1, 0xbb), Err(FlashCause::Closed { block: 3 }), "closed for good");
    volume.clear(3).expect("erase");
    volume.put(3, 0, 0x11).expect("program");
    volume.put(3, 1, 0xbb).expect("program");
    volume.close().expect("close");
    drop(volume);
    let (address, bytes) = bench.medium.lock().refusals().withheld[0].clone();
    exchange(&bench, address, &bytes);
    shows_only(&bench, 3, 1, 0xbb);
}

#[test]
fn what_a_refused_erase_has_left_is_never_read_in_place_of_later_units() {
    let bench = Bench::new(OPTIONS);
    let mut volume: Volume = bench.format().expect("format");
    volume.clear(4).expect("erase");
    (0..4).for_each(|unit| volume.put(4, unit, 0xa0 + unit as u8).expect("program"));
    volume.anchor().expect("anchor");
    let at = (4 * ERASE + FIRST) as u64;
    let mut old = vec![0; STRIDE];
    bench.medium.clone().read(at, &mut old).expect("read");
    // Units 1 to 3 are made blank before the erase is refused.
    exchange(&bench, at, &[0xff; 3 * STRIDE]);
    bench.medium.lock().refusals().erases = 1;
    assert_eq!(volume.clear(4), REFUSED);
    volume.close().expect("close");
    drop(volume);
    let mut volume: Volume = bench.mount().expect("mount");
    assert_eq!(first(&mut volume, 4, 0), Ok(0xa0));
    assert_eq!(volume.put(4, 1, 0xee), Err(FlashCause::Closed { block: 4 }), "closed for good");
    volume.close().expect("close");
    drop(volume);
    exchange(&bench, at, &old);
    shows_only(&bench, 4, 1, 0);
}

struct Sizes;

impl LittlefsGeometry for Sizes {
    const READ_SIZE: usize = 72;
    const PROG_SIZE: usize = 72;
    const BLOCK_SIZE: usize = 720;
    const BLOCK_COUNT: usize = BLOCKS as usize;
    type CACHE_SIZE = U72;
    type LOOKAHEAD_SIZE = U1;
}

type Storage = LittlefsStorage<Volume, Sizes>;

fn storage(volume: Volume) -> Storage {
    Storage::new(volume).expect("the same sizes")
}

fn write(storage: &mut Storage, pin: &[u8]) -> Result<(), littlefs2::io::Error> {
    let path = Path::from_bytes_with_nul(b"pin\0").expect("a path");
    Filesystem::mount_and_then(storage, |files| files.write(path, pin))
}

/// A PIN is changed twice. The first change is refused and the program ends in good order; the second is acknowledged and anchored.
fn a_refused_pin_is_not_read(options: SealedOptions) {
    let bench = Bench::new(options);
    let mut session = storage(bench.format().expect("format"));
    Filesystem::format(&mut session).expect("format");
    write(&mut session, b"0000").expect("write");
    session.into_device().close().expect("close");

    let mut session = storage(bench.mount().expect("mount"));
    bench.medium.lock().refusals().programs = 1;
    assert!(write(&mut session, b"1111").is_err(), "refused");
    session.into_device().close().expect("close");

    let mut session = storage(bench.mount().expect("mount"));
    write(&mut session, b"2222").expect("write");
    session.into_device().close().expect("close");

    let withheld = bench.medium.lock().refusals().withheld.clone();
    let [(address, bytes)] = withheld.as_slice() else { panic!("one program was refused") };
    exchange(&bench, *address, bytes);
    let Ok(volume) = bench.mount() else { return };
    let mut session = storage(volume);
    let path = Path::from_bytes_with_nul(b"pin\0").expect("a path");
    match Filesystem::mount_and_then(&mut session, |files| files.read::<16>(path)) {
        Ok(pin) => assert_eq!(&pin[..], b"2222"),
        Err(_) => assert!(session.device().is_stopped()),
    }
}

#[test]
fn a_refused_program_below_littlefs_is_never_read_in_place_of_a_later_one() {
    a_refused_pin_is_not_read(OPTIONS);
    a_refused_pin_is_not_read(SealedOptions { medium: SealedMedium::Cached, ..OPTIONS });
}

/// Nobody tampers here: the error may as well be a loose contact's.
#[test]
fn an_erase_that_is_tried_again_after_a_sync_error_and_a_power_loss_raise_no_alarm() {
    let bench = Bench::new(SealedOptions { medium: SealedMedium::Cached, ..OPTIONS });
    let mut volume: Volume = bench.format().expect("format");
    for block in 0..4 {
        volume.clear(block).expect("erase");
        (0..3).for_each(|unit| volume.put(block, unit, 1).expect("program"));
    }
    volume.anchor().expect("anchor");
    for block in [5, 6] {
        volume.clear(block).expect("erase");
        volume.put(block, 0, block as u8).expect("program");
    }
    bench.medium.lock().refusals().syncs = 1;
    assert_eq!(volume.clear(1), REFUSED);
    assert_eq!(volume.clear(1), Ok(()));
    drop(volume);
    let mut volume: Volume = bench.mount().expect("no alarm");
    assert_eq!((first(&mut volume, 5, 0), first(&mut volume, 6, 0)), (Ok(5), Ok(6)));
    assert_eq!(first(&mut volume, 2, 2), Ok(1));
}

/// A block that was closed by a failure while the record could not be written either.
#[test]
fn nothing_is_changed_after_a_failure_before_the_record_is_written() {
    let bench = Bench::new(OPTIONS);
    let mut volume: Volume = bench.format().expect("format");
    for block in [3, 4] {
        volume.clear(block).expect("erase");
        volume.put(block, 0, 1).expect("program");
    }
    volume.anchor().expect("anchor");
    for failing in ["program", "erase"] {
        let writes = bench.store.count();
        {
            let mut medium = bench.medium.lock();
            let refusals = medium.refusals();
            (refusals.programs, refusals.erases, refusals.syncs) = (1, 1, 3);
        }
        let failed = if failing == "program" { volume.put(3, 1, 2) } else { volume.clear(4) };
        assert_eq!(failed, REFUSED, "{failing}");
        let sent = bench.medium.lock().wear().programmed_units();
        assert!(volume.put(3, 1, 2).is_err() && volume.put(4, 1, 2).is_err(), "{failing}");
        assert_eq!(volume.clear(9), REFUSED, "the sync before the record is refused as well");
        assert_eq!(bench.medium.lock().wear().programmed_units(), sent);
        bench.medium.lock().refusals().clone_from(&Default::default());
        volume.clear(9).expect("erase");
        assert!(bench.store.count() > writes, "{failing}: written first");
    }
}
