//! The header while the volume key is rotated: wherever power fails, a passphrase gives every key that the volume needs; in the end
//! nothing gives the old one.

use std::collections::BTreeSet;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashDevice, FlashRegion};
use atrest_flash::sealed::{
    BlockState, HeaderAnchor, RotationKeys, SealedError, SealedKey, SealedLayout, SealedOptions,
};
use atrest_flash::{AnchorHeader, Existing, FlashHeaderError, FormatOptions, FoundHeader};
use atrest_keyslot::flash::{
    FlashCipher, FlashKey, Freshness, HEADER_LEN, Protection, SlotError, TicketPolicy,
};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{Caching, EmulatedFlash, FlashImage, SharedFlash, TrustedMemory, TrustedRecord};
use atrest_testkit::{Campaign, Random};

use crate::any::{AnyVolume, any_flash, any_store};
use crate::header::{Header, Seeded, XTS, format, geometry, open, opened_by, unlock, with_new};
use crate::rotation_rig::Rotating;

type Volume = AnyVolume<'static, ChaCha20Poly1305>;
type Card = FlashRegion<SharedFlash>;

const ERASE: usize = 1056;
/// Erase blocks of header and volume; two more are the scratch.
const BLOCKS: u64 = 10;
const UNIT: usize = 72;
const PASSPHRASES: [&str; 4] = ["a", "b", "n", "c"];

fn options() -> FormatOptions {
    let protection =
        Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: TicketPolicy::Slot };
    let (cipher, key_len) = (FlashCipher::ChaCha20Poly1305, 32);
    FormatOptions { cipher, key_len, data_unit: UNIT as u32, protection, existing: Existing::Refuse }
}

#[derive(Clone)]
struct World {
    chip: SharedFlash,
    store: TrustedMemory,
}

impl World {
    fn holding(image: FlashImage, record: Option<TrustedRecord>) -> Self {
        let chip = SharedFlash::new(EmulatedFlash::with_image(image));
        Self { chip, store: TrustedMemory::with_record(record) }
    }

    /// A volume that the passphrases "a" and "b" open, with a unit in each of five blocks.
    fn new() -> Self {
        let world = Self::holding(FlashImage::erased(geometry(1, 32, ERASE as u32, BLOCKS + 2)), None);
        let (mut random, mut key) = (Seeded(Random::new(1)), FlashKey::empty());
        let mut header = format(world.card(), &options(), &mut random, "a", &mut key).expect("a header");
        with_new(&mut random, "b", |new| header.add_key(None, &key, new, Some(&mut Nothing))).expect("a key");
        let (found, params) = (header.found().expect("it"), *header.header().expect("it").params());
        let sealed = SealedKey { volume_key: key.expose(), uuid: key.uuid(), header: Some(found) };
        let data = any_flash(header.into_data().expect("data"));
        let (table, buffer) = memory(&params);
        let (store, options) = (any_store(world.store.clone()), SealedOptions::of(&params).expect("sealed"));
        let volume = Volume::format(data, store, &sealed, options, table, buffer, &mut OsRandom);
        let mut volume = volume.expect("format");
        let erase = u64::from(FlashDevice::geometry(&volume).erase_size());
        for block in 0..5 {
            volume.erase(block * erase, erase).expect("erase");
            volume.prog(block * erase, &[block as u8 + 1; UNIT]).expect("program");
        }
        volume.close().expect("close");
        drop(volume);
        world
    }

    fn snapshot(&self) -> Self {
        Self::holding(self.chip.lock().image().clone(), self.store.record())
    }

    fn card(&self) -> Card {
        FlashRegion::new(self.chip.clone(), 0, BLOCKS).expect("header and volume")
    }

    fn header(&self) -> Header<Card> {
        let mut header = open(self.card()).expect("a header");
        header.repair().expect("repair");
        header
    }

    fn opened(&self) -> BTreeSet<&'static str> {
        opened_by(&self.header(), &PASSPHRASES).into_iter().map(|(name, _)| name).collect()
    }

    fn anchor(&self) -> HeaderAnchor<TrustedMemory> {
        HeaderAnchor::new(self.store.clone())
    }

    /// Puts a new key into the header, for the passphrase "n".
    fn begin(&self) -> Result<(), FlashHeaderError> {
        let (mut old, mut new) = (FlashKey::empty(), FlashKey::empty());
        let mut header = self.header();
        let slot = unlock(&header, "a", &mut old).expect("the passphrase");
        let mut anchor = self.anchor();
        with_new(&mut Seeded(Random::new(5)), "n", |first| {
            header.begin_rotation(slot, &old, first, &mut new, Some(&mut anchor))
        })
    }

    /// Opens the volume as a program does that knows of rotations, with whatever the passphrase gives: one key or both.
    fn boot(&self, passphrase: &str) -> Result<Open, SealedError> {
        let (mut key, mut previous) = (FlashKey::empty(), FlashKey::empty());
        let header = self.header();
        unlock(&header, passphrase, &mut key).expect("the passphrase");
        let both = header.previous_key(&key, &mut previous).expect("the header's own key");
        let (found, params) = (header.found().expect("it"), *header.header().expect("it").params());
        let sealed = SealedKey { volume_key: key.expose(), uuid: key.uuid(), header: Some(found) };
        let data = any_flash(header.into_data().expect("data"));
        let (store, options) = (any_store(self.store.clone()), SealedOptions::of(&params).expect("sealed"));
        if both {
            let scratch = any_flash(FlashRegion::new(self.chip.clone(), BLOCKS, 2).expect("the scratch"));
            let keys = RotationKeys { key: sealed, previous: previous.expose() };
            Rotating::open_rotating((data, scratch), store, &keys, options, &mut OsRandom).map(Open::Rotating)
        } else {
            let (table, buffer) = memory(&params);
            Volume::mount(data, store, &sealed, options, table, buffer, &mut OsRandom).map(Open::Plain)
        }
    }

    /// From wherever it is to the end.
    fn rotate(&self, passphrase: &str) {
        if let Open::Rotating(mut volume) = self.boot(passphrase).expect("it opens") {
            volume.rotate_all();
            volume.close_all().expect("close");
        }
        self.header().end_rotation(Some(&mut self.anchor())).expect("the end");
    }

    fn holds_all(&self, passphrase: &str) {
        let mut open = self.boot(passphrase).expect("it opens");
        let volume: &mut dyn FlashDevice = match &mut open {
            Open::Plain(volume) => volume,
            Open::Rotating(volume) => volume,
        };
        let erase = u64::from(volume.geometry().erase_size());
        for block in 0..5 {
            let mut unit = [0; UNIT];
            volume.read(block * erase, &mut unit).expect("a unit");
            assert_eq!(unit, [block as u8 + 1; UNIT]);
        }
        match &mut open {
            Open::Plain(volume) => volume.close().expect("close"),
            Open::Rotating(volume) => volume.close_all().expect("close"),
        }
    }
}

enum Open {
    Plain(Volume),
    Rotating(Rotating),
}

fn memory(params: &atrest_keyslot::flash::Params) -> (Vec<BlockState>, Vec<u8>) {
    let layout = SealedLayout::of(params).expect("a layout");
    let blocks = layout.medium().block_count() as usize;
    (vec![BlockState::default(); blocks], vec![0; layout.buffer_len() as usize])
}

/// Of a volume that is still to be made.
struct Nothing;

impl AnchorHeader for Nothing {
    fn announce(
        &mut self,
        _: FoundHeader,
        _: atrest_flash::HeaderMark,
    ) -> Result<(), atrest_flash::AnchorError> {
        Ok(())
    }

    fn settle(&mut self, _: FoundHeader) -> Result<(), atrest_flash::AnchorError> {
        Ok(())
    }
}

#[test]
fn no_cut_from_the_first_change_of_the_header_to_the_last_locks_anybody_out() {
    let world = World::new();
    let first = world.store.record();
    world.chip.lock().record();
    world.store.beside(&world.chip);
    world.begin().expect("begin");
    world.rotate("n");
    let (recording, writes) = (world.chip.lock().finish_recording(), world.store.writes());
    let stored = |done: usize| if done == 0 { first } else { Some(writes[done - 1].after) };
    let mut left = Vec::new();
    for caching in [Caching::None, Caching::UntilSync] {
        for cut in recording.cuts(caching) {
            let done = writes.iter().filter(|write| write.step <= cut.step).count();
            left.push((cut.to_string(), recording.aftermath(cut).0, stored(done)));
        }
    }
    for (number, write) in writes.iter().enumerate() {
        let image = recording.images().nth(write.step).expect("an image").clone();
        left.push((format!("write {number} of the store"), image, stored(number)));
    }
    assert!(left.len() > 400, "{} cuts", left.len());
    let (old, new) = (BTreeSet::from(["a", "b"]), BTreeSet::from(["n"]));
    Campaign::matrix("rotation of a header's key, power loss", 120).over(&left, |(cut, image, record)| {
        let world = World::holding(image.clone(), *record);
        let opened = world.opened();
        assert!(opened == old || opened == new, "{cut}: {opened:?}");
        world.holds_all(opened.first().expect("a passphrase"));
        if opened == old {
            world.begin().expect("begin");
        }
        world.rotate("n");
        world.holds_all("n");
        assert_eq!(world.opened(), new, "{cut}");
    });
}

#[test]
fn in_the_end_nothing_gives_the_old_key() {
    let world = World::new();
    let before = world.snapshot();
    let mut old = FlashKey::empty();
    unlock(&world.header(), "b", &mut old).expect("the passphrase");
    world.begin().expect("begin");
    let during = world.snapshot();
    let mut key = FlashKey::empty();
    unlock(&world.header(), "n", &mut key).expect("the passphrase");
    let mut previous = FlashKey::empty();
    assert_eq!(world.header().previous_key(&key, &mut previous), Ok(true));
    assert_eq!(previous.expose(), old.expose());
    assert_ne!(key.expose(), old.expose());
    let wrong = FlashHeaderError::Slot { slot: 3, error: SlotError::WrongKey };
    assert_eq!(world.header().previous_key(&old, &mut previous), Err(wrong), "it does not open itself");
    assert_eq!(previous.expose(), [0; 0]);
    // Other passphrases are added with the new key, and leave the old one where it is.
    let mut random = Seeded(Random::new(7));
    let mut add = |passphrase| {
        let mut anchor = world.anchor();
        with_new(&mut random, passphrase, |new| world.header().add_key(None, &key, new, Some(&mut anchor)))
    };
    assert_eq!([add("b"), add("c")], [Ok(1), Ok(2)]);
    assert_eq!(add("d"), Err(FlashHeaderError::NoFreeSlot), "the old key takes one");
    // One rotation at a time, and the old key stays as long as it is needed.
    let mut anchor = world.anchor();
    let again = with_new(&mut random, "n", |new| {
        world.header().begin_rotation(0, &key, new, &mut FlashKey::empty(), Some(&mut anchor))
    });
    assert_eq!(again, Err(FlashHeaderError::Rotating));
    let Open::Rotating(mut volume) = world.boot("c").expect("it opens") else { panic!("both keys") };
    volume.rotate_step().expect("a step");
    volume.close_all().expect("close");
    drop(volume);
    assert_eq!(world.header().end_rotation(Some(&mut world.anchor())), Err(FlashHeaderError::Rotating));
    assert_eq!(world.header().end_rotation(None), Err(FlashHeaderError::AnchorNeeded));
    world.rotate("n");
    assert_eq!(world.header().end_rotation(Some(&mut world.anchor())), Ok(()), "nothing is left to do");
    assert_eq!(world.header().previous_key(&key, &mut previous), Ok(false));
    world.holds_all("b");
    // Headers of before are put back: with the old keyslots, and with the old key beside the new one.
    for (earlier, passphrase) in [(&before, "a"), (&during, "n")] {
        let attacked = world.snapshot();
        for copy in 0..2 {
            for unit in 0..HEADER_LEN / 32 {
                let seen = earlier.chip.lock().image().unit(copy, unit).to_vec();
                attacked.chip.lock().image_mut().put_unit(copy, unit, &seen);
            }
        }
        let refused = attacked.boot(passphrase).map(drop);
        let expected = |error: &SealedError| match passphrase {
            "a" => *error == SealedError::OtherVolume,
            _ => matches!(error, SealedError::HeaderOlder { .. }),
        };
        assert!(refused.as_ref().is_err_and(expected), "{refused:?}");
    }
}

#[test]
fn what_is_not_sealed_or_has_no_store_is_not_rotated_and_nothing_is_changed() {
    let nothing = Protection::Sealed { tag_len: 16, store: Freshness::Nothing, tickets: TicketPolicy::Slot };
    for options in [XTS, FormatOptions { protection: nothing, ..options() }] {
        let chip = SharedFlash::new(EmulatedFlash::new(geometry(1, 32, ERASE as u32, BLOCKS)));
        let (mut random, mut key) = (Seeded(Random::new(1)), FlashKey::empty());
        let mut header = format(chip.clone(), &options, &mut random, "a", &mut key).expect("a header");
        let before = chip.lock().image().to_bytes();
        let refused = with_new(&mut random, "n", |new| {
            header.begin_rotation(0, &key, new, &mut FlashKey::empty(), Some(&mut Nothing))
        });
        assert_eq!(refused, Err(FlashHeaderError::NotSealed));
        assert_eq!(chip.lock().image().to_bytes(), before);
    }
    // Nor with the key of another volume, or into a keyslot that does not exist.
    let world = World::new();
    let before = (world.chip.lock().image().to_bytes(), world.store.record());
    for (slot, is_own, refused) in [
        (0, false, FlashHeaderError::Slot { slot: 0, error: SlotError::OtherVolume }),
        (4, true, FlashHeaderError::SlotNotInUse { slot: 4 }),
    ] {
        let (mut old, mut new) = (FlashKey::empty(), FlashKey::empty());
        let mut header = world.header();
        if is_own {
            unlock(&header, "a", &mut old).expect("the passphrase");
        }
        let mut anchor = world.anchor();
        let done = with_new(&mut Seeded(Random::new(5)), "n", |first| {
            header.begin_rotation(slot, &old, first, &mut new, Some(&mut anchor))
        });
        assert_eq!((done, new.expose()), (Err(refused), &[][..]));
        assert_eq!((world.chip.lock().image().to_bytes(), world.store.record()), before);
    }
}
