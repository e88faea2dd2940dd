//! The header on a medium: what formatting refuses, how keys come and go, and what bad media and bad input lead to.

use crate::header::{COST, Header, Seeded, XTS, format, geometry, open, opened_by, unlock, with_new};
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_flash::{
    CopyState, Existing, FlashHeader, FlashHeaderError, FormatOptions, HeaderNotOpened, NewSlot,
};
use atrest_keyslot::flash::{
    AnyKdf, DeriveError, DeviceSecret, FlashCipher, FlashKey, HEADER_LEN, HeaderError, HmacSecret, KdfCost,
    ParamsError, Pbkdf2Kdf, SLOTS, SlotError,
};
use atrest_secret::{Random, RandomError, SecretArray};
use atrest_testkit::flash::{BadBlock, EmulatedFlash, FlashImage, SharedFlash};

const NOR: FlashGeometry = match FlashGeometry::new(1, 16, 4096, 16) {
    Ok(geometry) => geometry,
    Err(_) => panic!("a geometry"),
};

fn random() -> Seeded {
    Seeded(atrest_testkit::Random::new(11))
}

/// A formatted medium, and its key.
fn formatted() -> (SharedFlash, FlashKey) {
    let medium = SharedFlash::new(EmulatedFlash::new(NOR));
    let mut key = FlashKey::empty();
    format(medium.clone(), &XTS, &mut random(), "pass", &mut key).expect("formatting");
    (medium, key)
}

fn add(
    header: &mut Header<SharedFlash>,
    key: &FlashKey,
    passphrase: &str,
) -> Result<usize, FlashHeaderError> {
    with_new(&mut random(), passphrase, |new| header.add_key(None, key, new, None))
}

#[test]
fn keys_are_added_changed_and_removed() {
    let (medium, key) = formatted();
    let mut header = open(medium.clone()).expect("a header");
    assert_eq!(header.copy_states(), [CopyState::Current; 2]);
    assert_eq!(header.header().expect("it").params().cipher, FlashCipher::AesXts);
    assert_eq!(key.expose().len(), 64);
    assert_eq!(add(&mut header, &key, "two"), Ok(1));
    assert_eq!(add(&mut header, &key, "three"), Ok(2));
    assert_eq!(header.remove_key(1, None), Ok(()));
    assert_eq!(with_new(&mut random(), "2", |new| header.add_key(Some(1), &key, new, None)), Ok(1));
    let four = with_new(&mut random(), "4", |new| header.change_key(2, &key, new, None));
    assert_eq!(four, Ok(()));
    let all = ["pass", "two", "three", "2", "4"];
    let opened = |header: &Header<SharedFlash>| {
        let opened = opened_by(header, &all);
        assert!(opened.iter().all(|(_, opened)| opened == key.expose()));
        opened.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(opened(&header), ["2", "4", "pass"]);
    assert_eq!(opened(&open(medium.clone()).expect("a header")), ["2", "4", "pass"]);
    assert_eq!(header.header().expect("it").sequence(), 6);
    let data = header.into_data().expect("the blocks behind");
    assert_eq!((data.geometry().block_count(), data.geometry().erase_size()), (14, 4096));
}

#[test]
fn what_is_there_is_overwritten_only_when_that_is_asked_for() {
    let (medium, _) = formatted();
    let before = medium.lock().image().clone();
    let mut key = FlashKey::empty();
    let again = |options: &FormatOptions, key: &mut FlashKey| {
        format(medium.clone(), options, &mut random(), "new", key).map(|_| ())
    };
    assert_eq!(again(&XTS, &mut key), Err(FlashHeaderError::NotBlank));
    assert_eq!(*medium.lock().image(), before);
    assert!(key.expose().is_empty());
    assert_eq!(again(&FormatOptions { existing: Existing::Replace, ..XTS }, &mut key), Ok(()));
    let header = open(medium.clone()).expect("a header");
    assert!(unlock(&header, "new", &mut key).is_ok() && unlock(&header, "pass", &mut key).is_err());
    // Data of anybody else's is no header, but it is not blank.
    let foreign = SharedFlash::new(EmulatedFlash::new(NOR));
    foreign.lock().prog(4096 + 160, b"sixteen bytes or").expect("a program");
    let refused = format(foreign.clone(), &XTS, &mut random(), "new", &mut key).map(|_| ());
    assert_eq!(refused, Err(FlashHeaderError::NotBlank));
}

/// A medium that can't say what is blank, as a card, and on which a copy can't be read.
struct HardToRead {
    medium: SharedFlash,
    copy: u64,
    cause: FlashCause,
}

impl FlashDevice for HardToRead {
    fn geometry(&self) -> FlashGeometry {
        NOR
    }
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        if address / 4096 == self.copy {
            return Err(FlashError::new(FlashOperation::Read, address, buf.len() as u64, self.cause));
        }
        self.medium.read(address, buf)
    }
    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.medium.prog(address, data)
    }
    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.medium.erase(address, len)
    }
    fn sync(&mut self) -> Result<(), FlashError> {
        self.medium.sync()
    }
    fn erased_byte(&self) -> Option<u8> {
        None
    }
}

#[test]
fn a_place_that_cannot_be_read_is_not_taken_for_a_free_one() {
    for copy in [0, 1] {
        for cause in [FlashCause::Driver(5), FlashCause::Uncorrectable] {
            let (medium, _) = formatted();
            // The other copy is gone, so that all that is left is in the one that can't be read.
            medium.lock().erase(4096 * (1 - copy), 4096).expect("erased");
            let before = medium.lock().image().clone();
            let mut key = FlashKey::empty();
            let device = HardToRead { medium: medium.clone(), copy, cause };
            let made = format(device, &XTS, &mut random(), "new", &mut key).map(|_| ());
            let error = made.expect_err("it may hold a header");
            let failed =
                matches!(error, FlashHeaderError::Flash(FlashError { cause: found, .. }) if found == cause);
            assert!(failed, "{error:?}");
            assert_eq!(*medium.lock().image(), before, "what could not be read was replaced");
        }
    }
}

#[test]
fn nothing_is_written_before_everything_is_there() {
    struct Broken(usize);
    impl Random for Broken {
        fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
            self.0 = self.0.checked_sub(1).ok_or(RandomError)?;
            out.iter_mut().zip(0..).for_each(|(byte, i)| *byte = i);
            Ok(())
        }
    }
    struct Stuck;
    impl Random for Stuck {
        fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
            out.fill(0);
            Ok(())
        }
    }
    let medium = SharedFlash::new(EmulatedFlash::new(NOR));
    let blank = medium.lock().image().clone();
    let attempt = |options: &FormatOptions, passphrase: &[u8], cost, random: &mut dyn Random| {
        let first = NewSlot { passphrase, cost, kdf: &mut Pbkdf2Kdf(|_| {}), device: None, random };
        let mut key = FlashKey::empty();
        let outcome = FlashHeader::format(medium.clone(), [0; 64], options, first, &mut key).map(|_| ());
        assert_eq!(*medium.lock().image(), blank);
        outcome.expect_err("it is refused")
    };
    let slot = |error| FlashHeaderError::Slot { slot: 0, error };
    let general = |error| FlashHeaderError::Slot { slot: SLOTS, error };
    assert_eq!(attempt(&XTS, b"pass", COST, &mut Stuck), general(SlotError::Random));
    assert_eq!(attempt(&XTS, b"pass", COST, &mut Broken(0)), general(SlotError::Random));
    assert_eq!(attempt(&XTS, b"pass", COST, &mut Broken(1)), general(SlotError::Random));
    assert_eq!(attempt(&XTS, b"pass", COST, &mut Broken(2)), slot(SlotError::Random));
    assert_eq!(attempt(&XTS, b"", COST, &mut Broken(9)), slot(SlotError::EmptyPassphrase));
    let long = vec![0; 1 << 20];
    let too_long = slot(SlotError::PassphraseTooLong { len: 1 << 20 });
    assert_eq!(attempt(&XTS, &long, COST, &mut Broken(9)), too_long);
    let dear = KdfCost::Pbkdf2 { iterations: u32::MAX };
    assert_eq!(attempt(&XTS, b"pass", dear, &mut Broken(9)), slot(SlotError::Cost(dear)));
    let catena = KdfCost::catena(12);
    let not_here = slot(SlotError::Derive(DeriveError::NotHere(catena)));
    assert_eq!(attempt(&XTS, b"pass", catena, &mut Broken(9)), not_here);
    let odd = FormatOptions { key_len: 40, ..XTS };
    let key_len = FlashHeaderError::Header(HeaderError::Params(ParamsError::KeyLen { bytes: 40 }));
    assert_eq!(attempt(&odd, b"pass", COST, &mut Broken(9)), key_len);
}

#[test]
fn errors_say_which_keyslot_and_why() {
    let (medium, key) = formatted();
    let mut header = open(medium.clone()).expect("a header");
    let mut opened = FlashKey::empty();
    let wrong = FlashHeaderError::Slot { slot: 0, error: SlotError::WrongKey };
    assert_eq!(unlock(&header, "no", &mut opened), Err(wrong));
    assert!(opened.expose().is_empty());
    for refused in ["no", ""] {
        assert_eq!((unlock(&header, "pass", &mut opened), opened.expose()), (Ok(0), key.expose()));
        assert!(unlock(&header, refused, &mut opened).is_err());
        assert!(opened.expose().is_empty(), "the key of an earlier opening is kept");
    }
    let mut at =
        |slot, passphrase: &[u8]| header.unlock(Some(slot), passphrase, &mut AnyKdf, None, &mut opened);
    assert_eq!(at(0, b"pass"), Ok(0));
    assert_eq!(at(2, b"pass"), Err(FlashHeaderError::SlotNotInUse { slot: 2 }));
    assert_eq!(at(9, b"pass"), Err(FlashHeaderError::SlotNotInUse { slot: 9 }));
    let empty = FlashHeaderError::Slot { slot: SLOTS, error: SlotError::EmptyPassphrase };
    assert_eq!(at(0, b""), Err(empty));
    assert_eq!(header.remove_key(0, None), Err(FlashHeaderError::LastKey { slot: 0 }));
    assert_eq!(header.remove_key(1, None), Err(FlashHeaderError::SlotNotInUse { slot: 1 }));
    assert_eq!(header.remove_key(4, None), Err(FlashHeaderError::SlotNotInUse { slot: 4 }));
    let at = |header: &mut Header<SharedFlash>, slot| {
        with_new(&mut random(), "new", |new| header.add_key(Some(slot), &key, new, None))
    };
    assert_eq!(at(&mut header, 0), Err(FlashHeaderError::SlotInUse { slot: 0 }));
    assert_eq!(at(&mut header, 4), Err(FlashHeaderError::SlotNotInUse { slot: 4 }));
    let changed = with_new(&mut random(), "new", |new| header.change_key(3, &key, new, None));
    assert_eq!(changed, Err(FlashHeaderError::SlotNotInUse { slot: 3 }));
    for slot in 1..4 {
        assert_eq!(add(&mut header, &key, "more"), Ok(slot));
    }
    assert_eq!(add(&mut header, &key, "more"), Err(FlashHeaderError::NoFreeSlot));
    let (_, other) = {
        let medium = SharedFlash::new(EmulatedFlash::new(NOR));
        let mut key = FlashKey::empty();
        let mut random = Seeded(atrest_testkit::Random::new(12));
        format(medium.clone(), &XTS, &mut random, "pass", &mut key).expect("formatting");
        (medium, key)
    };
    let foreign = with_new(&mut random(), "new", |new| header.change_key(1, &other, new, None));
    assert_eq!(foreign, Err(FlashHeaderError::Slot { slot: 1, error: SlotError::OtherVolume }));
    assert_eq!(header.erase_keys(None), Ok(()));
    assert_eq!(unlock(&header, "pass", &mut opened), Err(FlashHeaderError::NoKeyslots));
    let header = open(medium).expect("a header without keys");
    assert_eq!(unlock(&header, "pass", &mut opened), Err(FlashHeaderError::NoKeyslots));
}

/// A keyslot with the chip's secret, one without: who has no chip gets in by the second one, and wiping the chip kills the first.
#[test]
fn a_device_secret_kills_its_keyslots_when_it_is_wiped() {
    let medium = SharedFlash::new(EmulatedFlash::new(NOR));
    let mut key = FlashKey::empty();
    let mut secret = HmacSecret::new(SecretArray::new([7; 32]));
    let mut random = random();
    let first = NewSlot {
        passphrase: b"chip",
        cost: COST,
        kdf: &mut AnyKdf,
        device: Some(&mut secret),
        random: &mut random,
    };
    let mut header =
        FlashHeader::format(medium.clone(), vec![0; 64], &XTS, first, &mut key).expect("formatting");
    assert_eq!(add(&mut header, &key, "recovery"), Ok(1));
    let mut opened = FlashKey::empty();
    let mut with = |passphrase: &[u8], device: Option<&mut dyn DeviceSecret>| {
        header.unlock(None, passphrase, &mut AnyKdf, device, &mut opened)
    };
    assert_eq!(with(b"chip", Some(&mut secret)), Ok(0));
    assert_eq!(with(b"recovery", Some(&mut secret)), Ok(1));
    assert_eq!(with(b"recovery", None), Ok(1));
    let needed = FlashHeaderError::Slot { slot: 0, error: SlotError::NeedsDevice };
    assert_eq!(with(b"chip", None), Err(needed), "not: wrong passphrase");
    let mut wiped = HmacSecret::new(SecretArray::new([0; 32]));
    assert!(with(b"chip", Some(&mut wiped)).is_err());
}

#[test]
fn headers_of_other_media_are_refused() {
    let (medium, _) = formatted();
    let bytes = medium.lock().image().to_bytes();
    let on = |geometry: FlashGeometry| {
        let mut image = FlashImage::erased(geometry);
        let copy = HEADER_LEN.next_multiple_of(geometry.erase_size() as usize);
        let erase = geometry.erase_size() as usize;
        let prog = geometry.prog_size() as usize;
        for (unit, content) in bytes[..HEADER_LEN].chunks(prog).enumerate() {
            let mut padded = content.to_vec();
            padded.resize(prog, 0xff);
            for start in [0, copy] {
                let at = start + unit * prog;
                image.put_unit(at / erase, at % erase / prog, &padded);
            }
        }
        open(EmulatedFlash::with_image(image)).map(|_| ())
    };
    assert_eq!(on(NOR), Ok(()));
    assert_eq!(on(geometry(1, 16, 4096, 32)), Ok(()), "a larger card");
    assert_eq!(
        on(geometry(1, 16, 4096, 15)),
        Err(FlashHeaderError::CutInSize { needs: 16 * 4096, has: 15 * 4096 })
    );
    assert_eq!(
        on(geometry(1, 16, 4096, 2)),
        Err(FlashHeaderError::CutInSize { needs: 3 * 4096, has: 2 * 4096 })
    );
    for other in [geometry(1, 32, 4096, 16), geometry(1, 16, 8192, 16), geometry(1, 16, 512, 128)] {
        let error = on(other).expect_err("other units");
        assert!(
            matches!(error, FlashHeaderError::OtherGeometry { medium, .. } if medium == other),
            "{error:?}"
        );
    }
    let small = FlashHeader::open(medium.clone(), [0; 15]).map(|_| ());
    assert_eq!(small, Err(FlashHeaderError::ScratchTooSmall { needs: 16, has: 15 }));
}

#[test]
fn what_was_passed_for_a_header_that_does_not_open_or_can_not_be_made_comes_back() {
    let mut random = random();
    let (medium, mut key) = (SharedFlash::new(EmulatedFlash::new(NOR)), FlashKey::empty());
    let mut bytes = [0; HEADER_LEN];
    // No room in the buffer, nothing on the medium, and then a header of another one.
    let small = FlashHeader::try_open_in(medium.clone(), [0; 15], &mut bytes).expect_err("a small buffer");
    assert_eq!(small.error, FlashHeaderError::ScratchTooSmall { needs: 16, has: 15 });
    let HeaderNotOpened { device, bytes, .. } = small;
    let blank = FlashHeader::try_open_in(device, [0; 64], bytes).expect_err("blank");
    assert_eq!(blank.error, FlashHeaderError::Header(HeaderError::Blank));
    let HeaderNotOpened { device, scratch, bytes, .. } = blank;
    let refused = with_new(&mut random, "", |first| {
        FlashHeader::try_format(device, scratch, &XTS, first, &mut key).expect_err("no passphrase")
    });
    assert!(matches!(refused.error, FlashHeaderError::Slot { slot: 0, .. }), "{refused}");
    let made = with_new(&mut random, "first", |first| {
        FlashHeader::try_format(refused.device, refused.scratch, &XTS, first, &mut key).map(drop).is_ok()
    });
    assert!(made);
    let image = medium.lock().image().to_bytes();
    let image = FlashImage::from_bytes(geometry(1, 16, 4096, 8), &image[..8 * 4096]);
    let small = EmulatedFlash::with_image(image);
    let cut = FlashHeader::try_open_in(small, [0; 64], bytes).expect_err("a part is missing");
    assert!(matches!(cut.error, FlashHeaderError::CutInSize { .. }), "{cut}");
    assert_eq!(
        (cut.device.geometry().block_count(), cut.scratch.len(), cut.bytes.len()),
        (8, 64, HEADER_LEN)
    );
    let opened = FlashHeader::try_open(medium.clone(), [0; 64]).expect("opens");
    assert_eq!(opened.copy_states(), [CopyState::Current; 2]);
    let again = FlashHeader::try_open(medium, [0; 15]).map_err(FlashHeaderError::from).map(drop);
    assert_eq!(again, Err(FlashHeaderError::ScratchTooSmall { needs: 16, has: 15 }));
}

#[test]
fn what_is_no_header_is_told_apart() {
    let of = |content: &[u8]| {
        let mut flash = EmulatedFlash::new(NOR);
        if !content.is_empty() {
            flash.prog(0, content).expect("a program");
        }
        open(flash).map(|_| ())
    };
    assert_eq!(of(b""), Err(FlashHeaderError::Header(HeaderError::Blank)));
    assert_eq!(
        of(b"LUKS\xba\xbe\0\x01 and so on"[..16].as_ref()),
        Err(FlashHeaderError::Header(HeaderError::Foreign))
    );
    let (medium, _) = formatted();
    let bytes = medium.lock().image().to_bytes();
    let half = Err(FlashHeaderError::Header(HeaderError::Checksum));
    assert_eq!(of(&bytes[..256]), half, "half-written");
    let mut newer = bytes[..HEADER_LEN].to_vec();
    newer[8] = 2;
    assert_eq!(of(&newer), half, "a newer version is believed only with its checksum");
    let sum = {
        use sha2::Digest;
        sha2::Sha256::digest(&newer[..480])
    };
    newer[480..].copy_from_slice(&sum);
    let newer_version = Err(FlashHeaderError::Header(HeaderError::Version { version: 2 }));
    assert_eq!(of(&newer), newer_version);
    // Also if the other copy is one that we know: it may hold keys that were removed.
    medium.lock().erase(0, 4096).expect("an erase");
    medium.lock().prog(0, &newer).expect("a program");
    assert_eq!(open(medium).map(|_| ()), newer_version);
}

#[test]
fn copies_of_two_volumes_are_not_mixed() {
    let (one, _) = formatted();
    let two = SharedFlash::new(EmulatedFlash::new(NOR));
    let mut random = Seeded(atrest_testkit::Random::new(12));
    format(two.clone(), &XTS, &mut random, "pass", &mut FlashKey::empty()).expect("formatting");
    let bytes = two.lock().image().to_bytes();
    one.lock().erase(4096, 4096).expect("an erase");
    one.lock().prog(4096, &bytes[..HEADER_LEN]).expect("a program");
    assert_eq!(open(one).map(|_| ()), Err(FlashHeaderError::CopiesDisagree));
}

/// Both blocks of the header bad in each of five ways: a removal is never acknowledged while the key is somewhere.
#[test]
fn bad_blocks_never_pass_for_a_completed_change() {
    for (block, how) in (0..2).flat_map(|block| BadBlock::ALL.map(|how| (block, how))) {
        let (medium, key) = formatted();
        let mut header = open(medium.clone()).expect("a header");
        assert_eq!(add(&mut header, &key, "doomed"), Ok(1));
        let doomed = medium.lock().image().to_bytes()[64 + 104 + 32..][..72].to_vec();
        medium.lock().break_block(block, how);
        let Ok(mut header) = open(medium.clone()) else {
            panic!("block {block}, {how:?}: one copy is enough")
        };
        let outcome = header.remove_key(1, None);
        let bytes = medium.lock().image().to_bytes();
        let there = bytes.windows(8).any(|window| doomed.chunks(8).any(|part| part == window));
        assert!(outcome.is_err(), "block {block}, {how:?}: {outcome:?}");
        match outcome {
            Err(FlashHeaderError::OldCopyRemains { copy, .. }) => {
                assert_eq!(copy, block);
                assert!(header.header().is_ok(), "the change holds");
            }
            Err(FlashHeaderError::NotWritten { .. } | FlashHeaderError::Flash(_)) => {
                assert!(there, "block {block}, {how:?}: nothing has changed");
                assert_eq!(header.header().map(|_| ()), Err(FlashHeaderError::Reopen));
            }
            other => panic!("block {block}, {how:?}: {other:?}"),
        }
        drop(header);
        let mut header = open(medium.clone()).expect("one copy is enough");
        let opened = opened_by(&header, &["pass", "doomed"]);
        assert!(opened.iter().any(|(name, _)| *name == "pass"), "block {block}, {how:?}");
        let destroyed = header.erase_keys(None);
        let after = medium.lock().image().to_bytes();
        let traces =
            |bytes: &[u8]| bytes.windows(8).any(|window| doomed.chunks(8).any(|part| part == window));
        // A block that can't be erased is the end of promises.
        assert!(
            destroyed.is_err() || !traces(&after),
            "block {block}, {how:?}: acknowledged, but not destroyed"
        );
        let told = match how {
            BadBlock::EraseError | BadBlock::EraseNoop | BadBlock::ReadError => {
                matches!(destroyed, Err(FlashHeaderError::OldCopyRemains { copy, .. }) if copy == block)
            }
            // The keys are gone, and the header without keys is in the other copy.
            _ => {
                matches!(destroyed, Err(FlashHeaderError::NotRewritten { copy, in_other: true, .. }) if copy == block)
            }
        };
        assert!(told, "block {block}, {how:?}: {destroyed:?}");
    }
}

#[test]
fn a_damaged_copy_is_told_and_repaired_on_demand_only() {
    let (medium, _) = formatted();
    medium.lock().image_mut().flip(0, 100, 3);
    let damaged = medium.lock().image().clone();
    let mut header = open(medium.clone()).expect("the other copy");
    assert_eq!(header.copy_states(), [CopyState::Bad(HeaderError::Checksum), CopyState::Current]);
    assert_eq!(*medium.lock().image(), damaged, "reading does not repair");
    assert_eq!(header.repair(), Ok(()));
    assert_eq!(open(medium.clone()).expect("a header").copy_states(), [CopyState::Current; 2]);
    let wear = medium.lock().wear().erases.clone();
    assert_eq!(header.repair(), Ok(()));
    assert_eq!(medium.lock().wear().erases, wear, "nothing to repair");
}

#[test]
fn errors_of_the_medium_come_through() {
    struct Dead;
    impl FlashDevice for Dead {
        fn geometry(&self) -> FlashGeometry {
            NOR
        }
        fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
            Err(FlashError::new(FlashOperation::Read, address, buf.len() as u64, FlashCause::Driver(7)))
        }
        fn prog(&mut self, _: u64, _: &[u8]) -> Result<(), FlashError> {
            unreachable!("nothing is written")
        }
        fn erase(&mut self, _: u64, _: u64) -> Result<(), FlashError> {
            unreachable!("nothing is erased")
        }
        fn sync(&mut self) -> Result<(), FlashError> {
            unreachable!("nothing is written")
        }
    }
    let error = open(Dead).map(|_| ()).expect_err("a dead bus");
    assert!(
        matches!(error, FlashHeaderError::Flash(FlashError { cause: FlashCause::Driver(7), .. })),
        "{error:?}"
    );
}

/// As a change leaves them that was cut between the first copy and the second.
#[test]
fn an_older_copy_is_told_and_does_not_count_wherever_it_lies() {
    for old in [0, 1] {
        let (medium, key) = formatted();
        add(&mut open(medium.clone()).expect("a header"), &key, "two").expect("adding");
        let before = medium.lock().image().to_bytes()[..HEADER_LEN].to_vec();
        add(&mut open(medium.clone()).expect("a header"), &key, "three").expect("adding");
        medium.lock().erase(4096 * old, 4096).expect("an erase");
        medium.lock().prog(4096 * old, &before).expect("a program");
        let mut header = open(medium.clone()).expect("a header");
        let mut states = [CopyState::Current; 2];
        states[old as usize] = CopyState::Outdated;
        assert_eq!(header.copy_states(), states);
        assert_eq!(header.header().expect("it").sequence(), 3);
        assert!(unlock(&header, "three", &mut FlashKey::empty()).is_ok(), "the newer one counts");
        assert!(!header.found().expect("it").in_both);
        assert_eq!(header.repair(), Ok(()));
        let header = open(medium).expect("a header");
        assert_eq!(
            (header.copy_states(), header.found().expect("it").in_both),
            ([CopyState::Current; 2], true)
        );
        assert_eq!(header.header().expect("it").sequence(), 3);
    }
}

/// Keys are erased if both copies read back without them, whatever the medium has said before; and not if one does not.
#[test]
fn keys_are_erased_if_both_copies_read_back_without_them() {
    let (medium, _) = formatted();
    let keyslot = medium.lock().image().to_bytes()[64 + 32..][..72].to_vec();
    let mut header = open(medium.clone()).expect("a header");
    medium.lock().refusals().erases = 1;
    assert_eq!(header.erase_keys(None), Ok(()));
    assert!(!medium.lock().image().to_bytes().windows(16).any(|bytes| bytes == &keyslot[..16]));
    assert_eq!(header.copy_states(), [CopyState::Current; 2]);
    assert_eq!(header.header().expect("it").slots_in_use().count(), 0);
    for (block, how) in
        (0..2).flat_map(|block| [BadBlock::EraseError, BadBlock::EraseNoop].map(|how| (block, how)))
    {
        let (medium, _) = formatted();
        let mut header = open(medium.clone()).expect("a header");
        medium.lock().break_block(block, how);
        let error = header.erase_keys(None).expect_err("one copy is as it was");
        let remains = matches!(error, FlashHeaderError::OldCopyRemains { copy, .. } if copy == block);
        assert!(remains, "block {block}, {how:?}: {error:?}");
        assert_eq!(header.header().map(|_| ()), Err(FlashHeaderError::Reopen));
    }
}

/// A medium that can be erased, and does not take anything new any more.
#[test]
fn erased_keys_are_told_apart_from_a_header_that_was_rewritten() {
    let (medium, _) = formatted();
    let keyslot = medium.lock().image().to_bytes()[64 + 32..][..72].to_vec();
    let mut header = open(medium.clone()).expect("a header");
    for block in 0..2 {
        medium.lock().break_block(block, BadBlock::ProgError);
    }
    let error = header.erase_keys(None).expect_err("no header is there");
    assert!(matches!(error, FlashHeaderError::NotRewritten { in_other: false, .. }), "{error:?}");
    assert!(error.to_string().contains("and the medium holds none"), "{error}");
    assert!(!medium.lock().image().to_bytes().windows(16).any(|bytes| bytes == &keyslot[..16]));
    assert_eq!(header.header().map(drop), Err(FlashHeaderError::Reopen));
    assert_eq!(open(medium).map(drop), Err(FlashHeaderError::Header(HeaderError::Blank)));
}

/// What was there is gone once formatting has begun to write, so that "nothing has changed" is never the answer.
#[test]
fn formatting_that_fails_tells_what_is_gone_and_where_the_new_volume_is() {
    let options = FormatOptions { existing: Existing::Replace, ..XTS };
    for (block, in_other) in [(0, false), (1, true)] {
        let (medium, _) = formatted();
        medium.lock().break_block(block, BadBlock::ProgNoop);
        let made = format(medium.clone(), &options, &mut random(), "new", &mut FlashKey::empty()).map(drop);
        assert_eq!(made, Err(FlashHeaderError::NotRewritten { copy: block, in_other, error: None }));
        match open(medium) {
            Ok(header) if in_other => {
                assert!(unlock(&header, "new", &mut FlashKey::empty()).is_ok());
                assert!(unlock(&header, "pass", &mut FlashKey::empty()).is_err());
            }
            opened => assert_eq!(opened.map(drop), Err(FlashHeaderError::Header(HeaderError::Blank))),
        }
    }
    for block in 0..2 {
        let (medium, _) = formatted();
        medium.lock().break_block(block, BadBlock::EraseNoop);
        let made = format(medium, &options, &mut random(), "new", &mut FlashKey::empty()).map(drop);
        assert_eq!(made, Err(FlashHeaderError::NotDestroyed { copy: block, error: None }));
    }
}

/// Whatever fails, keys that were removed from the newer copy do not come back with the older one.
#[test]
fn a_volume_that_is_replaced_loses_the_older_copy_of_its_header_first() {
    for newer in [0, 1] {
        let (medium, key) = formatted();
        let before = medium.lock().image().to_bytes()[..HEADER_LEN].to_vec();
        add(&mut open(medium.clone()).expect("a header"), &key, "two").expect("adding");
        let older = 1 - newer;
        medium.lock().erase(4096 * older, 4096).expect("an erase");
        medium.lock().prog(4096 * older, &before).expect("a program");
        medium.lock().break_block(newer as usize, BadBlock::EraseError);
        let options = FormatOptions { existing: Existing::Replace, ..XTS };
        let made = format(medium.clone(), &options, &mut random(), "new", &mut FlashKey::empty()).map(drop);
        let failed = matches!(
            made,
            Err(FlashHeaderError::NotDestroyed {
                copy,
                error: Some(FlashError { cause: FlashCause::BadBlock { block }, .. }),
            }) if block == newer && copy as u64 == newer
        );
        assert!(failed, "{made:?}");
        let header = open(medium).expect("the newer one");
        let mut states = [CopyState::Current; 2];
        states[older as usize] = CopyState::Bad(HeaderError::Blank);
        assert_eq!(header.copy_states(), states);
        assert!(unlock(&header, "two", &mut FlashKey::empty()).is_ok());
    }
}
