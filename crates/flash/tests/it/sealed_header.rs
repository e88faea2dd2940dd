//! The header of a sealed volume and its trusted store: no power loss between the two locks anybody out, no header of before brings a
//! removed passphrase back, and a volume that is handed over opens with one store at a time.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::any::{AnyVolume, any_flash, any_store};
use crate::header::{COST, Header, Seeded, XTS, format, geometry, open, opened_by, unlock, with_new};
use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, TRUSTED_RECORD_LEN, TrustedStore,
    TrustedStoreError,
};
use atrest_flash::sealed::{
    BlockState, HandOver, HeaderAnchor, RecordFields, SealedError, SealedKey, SealedLayout, SealedOptions,
};
use atrest_flash::{AnchorError, Existing, FlashHeaderError, FormatOptions, NewSlot};
use atrest_keyslot::flash::{
    Derive, DeriveError, FlashCipher, FlashKey, Freshness, HEADER_LEN, HeaderEdit, KdfCost, Params,
    Protection, TicketPolicy,
};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{
    Caching, EmulatedFlash, FlashImage, FlashRecording, SharedFlash, TrustedMemory, TrustedRecord,
    TrustedWrite,
};
use atrest_testkit::{Campaign, Random};

type Volume<'a> = AnyVolume<'a, ChaCha20Poly1305>;

const ERASE: usize = 1056;
const PASSPHRASES: [&str; 5] = ["a", "b", "B", "c", "d"];

fn medium_geometry() -> FlashGeometry {
    geometry(1, 32, ERASE as u32, 12)
}

fn options() -> FormatOptions {
    let protection =
        Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: TicketPolicy::Slot };
    let (cipher, key_len) = (FlashCipher::ChaCha20Poly1305, 32);
    let mut options =
        FormatOptions { cipher, key_len, data_unit: 64, protection, existing: Existing::Replace };
    let sizes = atrest_keyslot::flash::FlashSizes {
        read_size: 1,
        prog_size: 32,
        erase_size: ERASE as u32,
        block_count: 12,
    };
    let params = Params { cipher, key_len, protection, uuid: [0; 16], sizes, data_unit: 64 };
    options.data_unit = SealedLayout::planned(&params).expect("a layout").payload();
    options
}

/// Why nothing opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Header(FlashHeaderError),
    Sealed(SealedError),
}

/// Opens header and volume, as everybody does, and closes it in good order.
fn mount(medium: &SharedFlash, store: impl TrustedStore, passphrase: &str) -> Result<(), Refused> {
    mount_with(medium, store, passphrase, SealedOptions::default().reserve)
}

fn mount_with(
    medium: &SharedFlash,
    store: impl TrustedStore,
    passphrase: &str,
    reserve: u8,
) -> Result<(), Refused> {
    let mut volume = volume(medium, store, passphrase, reserve, true)?;
    volume.close().expect("close");
    Ok(())
}

fn volume<'a>(
    medium: &SharedFlash,
    store: impl TrustedStore + 'a,
    passphrase: &str,
    reserve: u8,
    is_there: bool,
) -> Result<Volume<'a>, Refused> {
    let header = open(medium.clone()).map_err(Refused::Header)?;
    let mut key = FlashKey::empty();
    unlock(&header, passphrase, &mut key).map_err(Refused::Header)?;
    let found = header.found().expect("a header that was opened");
    let params = *header.header().expect("it").params();
    let options = SealedOptions { reserve, ..SealedOptions::of(&params).expect("sealed") };
    let layout = SealedLayout::of(&params).expect("a layout");
    let table = vec![BlockState::default(); layout.medium().block_count() as usize];
    let buffer = vec![0; layout.buffer_len() as usize];
    let sealed = SealedKey { volume_key: key.expose(), uuid: key.uuid(), header: Some(found) };
    let open = if is_there { Volume::mount } else { Volume::format };
    let (data, store) = (any_flash(header.into_data().expect("data")), any_store(store));
    open(data, store, &sealed, options, table, buffer, &mut OsRandom).map_err(Refused::Sealed)
}

#[derive(Clone)]
struct World {
    medium: SharedFlash,
    store: TrustedMemory,
}

impl World {
    fn new() -> Self {
        Self::with_reserve(12)
    }

    /// A volume that the passphrase "a" opens, with a unit in it.
    fn with_reserve(reserve: u8) -> Self {
        let medium = SharedFlash::new(EmulatedFlash::new(medium_geometry()));
        let store = TrustedMemory::new();
        let mut random = Seeded(Random::new(1));
        format(medium.clone(), &options(), &mut random, "a", &mut FlashKey::empty()).expect("a header");
        let mut volume = volume(&medium, store.clone(), "a", reserve, false).expect("format");
        let unit = FlashDevice::geometry(&volume).prog_size() as usize;
        volume.erase(0, FlashDevice::geometry(&volume).erase_size().into()).expect("erase");
        volume.prog(0, &vec![7; unit]).expect("program");
        volume.close().expect("close");
        drop(volume);
        Self { medium, store }
    }

    fn holding(image: FlashImage, record: Option<TrustedRecord>) -> Self {
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        Self { medium, store: TrustedMemory::with_record(record) }
    }

    fn snapshot(&self) -> Self {
        Self::holding(self.medium.lock().image().clone(), self.store.record())
    }

    /// Which passphrases open the header.
    fn opened(&self) -> BTreeSet<&'static str> {
        let header = open(self.medium.clone()).expect("a header");
        opened_by(&header, &PASSPHRASES).into_iter().map(|(name, _)| name).collect()
    }

    fn copies(&self) -> [Vec<u8>; 2] {
        let bytes = self.medium.lock().image().to_bytes();
        [0, ERASE].map(|at| bytes[at..at + ERASE].to_vec())
    }

    fn put_copy(&self, copy: usize, bytes: &[u8]) {
        for (unit, part) in bytes.chunks(32).enumerate() {
            self.medium.lock().image_mut().put_unit(copy, unit, part);
        }
    }

    /// Does something to the header, on media and stores that may fail.
    fn change<D: FlashDevice, S: TrustedStore>(
        &self,
        change: Change,
        device: D,
        store: S,
    ) -> Result<(), FlashHeaderError> {
        let mut header = open(device)?;
        let mut anchor = HeaderAnchor::new(store);
        let mut random = Seeded(Random::new(9));
        let mut key = FlashKey::empty();
        let with_any = |header: &Header<D>, key: &mut FlashKey| {
            PASSPHRASES.iter().find_map(|passphrase| unlock(header, passphrase, key).ok())
        };
        match change {
            Change::Add(passphrase) => {
                with_any(&header, &mut key).expect("a passphrase");
                let added = |new: NewSlot<'_>| header.add_key(None, &key, new, Some(&mut anchor)).map(drop);
                with_new(&mut random, passphrase, added)
            }
            Change::Replace(old, new) => {
                let slot = unlock(&header, old, &mut key)?;
                let change = |new: NewSlot<'_>| header.change_key(slot, &key, new, Some(&mut anchor));
                with_new(&mut random, new, change)
            }
            Change::Remove(passphrase) => {
                let slot = unlock(&header, passphrase, &mut key)?;
                header.remove_key(slot, Some(&mut anchor))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Add(&'static str),
    Replace(&'static str, &'static str),
    Remove(&'static str),
}

const RUN: [Change; 6] = [
    Change::Add("b"),
    Change::Replace("b", "B"),
    Change::Add("c"),
    Change::Remove("a"),
    Change::Replace("c", "d"),
    Change::Remove("B"),
];

/// What medium and store were at every moment of something.
struct Moments {
    recording: FlashRecording,
    writes: Vec<Vec<TrustedWrite>>,
    first: Vec<Option<TrustedRecord>>,
}

impl Moments {
    fn of(medium: &SharedFlash, stores: &[&TrustedMemory], work: impl FnOnce()) -> Self {
        medium.lock().record();
        let first = stores.iter().map(|store| store.record()).collect();
        stores.iter().for_each(|store| store.beside(medium));
        work();
        let recording = medium.lock().finish_recording();
        Self { recording, writes: stores.iter().map(|store| store.writes()).collect(), first }
    }

    /// Every program and erase cut in every way, and the moments before and after each write of a store: what that leaves.
    fn left(&self) -> Vec<(String, FlashImage, Vec<Option<TrustedRecord>>)> {
        // Of writes at one step the ones of a later store may be later: the moments between them are looked at, too.
        let stored = |step: usize, of_step: usize| {
            let mut of_step = of_step;
            let stores = self.writes.iter().zip(&self.first).map(|(writes, first)| {
                let done = writes.iter().filter(|write| {
                    let at = write.step == step && of_step > 0;
                    of_step -= usize::from(at);
                    write.step < step || at
                });
                done.last().map_or(*first, |write| Some(write.after))
            });
            stores.collect::<Vec<_>>()
        };
        let at = |step: usize| self.writes.iter().flatten().filter(|write| write.step == step).count();
        let mut left = Vec::new();
        for caching in [Caching::None, Caching::UntilSync] {
            for cut in self.recording.cuts(caching) {
                let (image, _) = self.recording.aftermath(cut);
                left.push((cut.to_string(), image, stored(cut.step, at(cut.step))));
            }
        }
        for (step, image) in self.recording.images().enumerate() {
            for done in 0..=at(step) {
                let name = format!("before operation {step}, {done} writes of stores later");
                left.push((name, image.clone(), stored(step, done)));
            }
        }
        left
    }
}

#[test]
fn no_cut_of_a_change_locks_anybody_out_or_lets_anybody_in() {
    let world = World::new();
    let mut cuts = 0;
    for change in RUN {
        let before = (world.opened(), world.snapshot());
        let moments = Moments::of(&world.medium, &[&world.store], || {
            world.change(change, world.medium.clone(), world.store.clone()).expect("a change");
        });
        let after = (world.opened(), world.snapshot());
        assert_eq!(moments.writes[0].len(), 2, "{change:?}: announced and settled");
        let all = moments.left();
        cuts += all.len();
        Campaign::matrix("sealed header power loss", 80).over(&all, |(cut, image, records)| {
            let left = World::holding(image.clone(), records[0]);
            let opened = left.opened();
            assert!(opened == before.0 || opened == after.0, "{change:?}, {cut}: {opened:?}");
            for passphrase in &opened {
                let result = mount(&left.medium, left.store.clone(), passphrase);
                assert_eq!(result, Ok(()), "{change:?}, {cut}: {passphrase}");
            }
            // As long as the copies differ either may be lost, also after an opening.
            for copy in 0..2 {
                let damaged = left.snapshot();
                damaged.put_copy(copy, &[0xff; ERASE]);
                if open(damaged.medium.clone()).is_ok() {
                    let opened = damaged.opened();
                    let some = opened.first().expect("a passphrase");
                    let result = mount(&damaged.medium, damaged.store.clone(), some);
                    assert_eq!(result, Ok(()), "{change:?}, {cut}: without copy {copy}");
                }
            }
            // Once both copies are whole the volume opens with this header and no other.
            open(left.medium.clone()).expect("a header").repair().expect("a repair");
            let some = opened.first().expect("a passphrase");
            assert_eq!(mount(&left.medium, left.store.clone(), some), Ok(()), "{change:?}, {cut}");
            let other = if opened == before.0 { &after } else { &before };
            for (copy, bytes) in other.1.copies().iter().enumerate() {
                left.put_copy(copy, bytes);
            }
            let refused = mount(&left.medium, left.store.clone(), other.0.first().expect("a passphrase"));
            let is_refused = matches!(
                refused,
                Err(Refused::Sealed(SealedError::HeaderOlder { .. } | SealedError::HeaderOther { .. }))
            );
            assert!(is_refused, "{change:?}, {cut}: {refused:?}");
        });
    }
    println!("{cuts} cuts");
    assert!(cuts > 1000);
}

/// With another number, as anybody can write it.
fn renumbered(copy: &[u8], sequence: u64) -> Vec<u8> {
    let mut bytes: [u8; HEADER_LEN] = copy[..HEADER_LEN].try_into().expect("a header");
    HeaderEdit::change(&mut bytes).expect("a header").finish(sequence);
    [&bytes, &copy[HEADER_LEN..]].concat()
}

/// Puts every earlier header back, in every way, and looks whether anybody gets in who should not.
fn put_back(world: &World, earlier: &[[Vec<u8>; 2]], what: &str) -> usize {
    let mut refused = 0;
    let allowed = world.opened();
    let newest = open(world.medium.clone()).expect("a header").header().expect("it").sequence();
    for (number, [old, _]) in earlier.iter().enumerate() {
        let forged = renumbered(old, newest + 1);
        let same = renumbered(old, newest);
        let ways: [(&str, &[usize], &[u8]); 7] = [
            ("both copies", &[0, 1], old),
            ("the first copy", &[0], old),
            ("the second copy", &[1], old),
            ("both under a newer number", &[0, 1], &forged),
            ("the first under a newer number", &[0], &forged),
            ("both under the same number", &[0, 1], &same),
            ("the second under the same number", &[1], &same),
        ];
        for (way, copies, bytes) in ways {
            let attacked = world.snapshot();
            copies.iter().for_each(|copy| attacked.put_copy(*copy, bytes));
            for passphrase in PASSPHRASES {
                match mount(&attacked.medium, attacked.store.clone(), passphrase) {
                    Ok(()) => {
                        assert!(allowed.contains(passphrase), "{what}: header {number}, {way}: {passphrase}");
                    }
                    Err(Refused::Header(_)) => {}
                    Err(Refused::Sealed(error)) => {
                        let typed = matches!(
                            error,
                            SealedError::HeaderOlder { .. } | SealedError::HeaderOther { .. }
                        );
                        assert!(typed, "{what}: header {number}, {way}: {error:?}");
                        let is_older = way == "both copies";
                        assert_eq!(matches!(error, SealedError::HeaderOlder { .. }), is_older, "{way}");
                        refused += 1;
                    }
                }
            }
        }
    }
    refused
}

#[test]
fn no_earlier_header_opens_a_volume_after_a_change_that_returned() {
    let world = World::new();
    let mut earlier = Vec::new();
    let mut refused = 0;
    for change in RUN {
        earlier.push(world.copies());
        world.change(change, world.medium.clone(), world.store.clone()).expect("a change");
        refused += put_back(&world, &earlier, &format!("{change:?}"));
    }
    println!("{refused} refused");
    assert!(refused > 100);
    // Without the store's word they all would: the attack is one.
    let attacked = world.snapshot();
    (0..2).for_each(|copy| attacked.put_copy(copy, &earlier[0][0]));
    assert!(unlock(&open(attacked.medium).expect("a header"), "a", &mut FlashKey::empty()).is_ok());
}

/// Lets so many writes of medium and store come to their end, and fails the next one.
#[derive(Clone)]
struct Fails {
    left: Rc<Cell<Option<u32>>>,
    /// The store has written before it fails.
    late: bool,
}

impl Fails {
    fn now(&self) -> bool {
        let now = self.left.get() == Some(0);
        self.left.set(self.left.get().and_then(|left| left.checked_sub(1)));
        now
    }
}

struct FailingFlash(SharedFlash, Fails);

impl FailingFlash {
    fn write(&mut self, operation: FlashOperation) -> Result<(), FlashError> {
        match self.1.now() {
            true => Err(FlashError::new(operation, 0, 0, FlashCause::Driver(5))),
            false => Ok(()),
        }
    }
}

impl FlashDevice for FailingFlash {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.read(address, buf)
    }
    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.write(FlashOperation::Prog)?;
        self.0.prog(address, data)
    }
    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.write(FlashOperation::Erase)?;
        self.0.erase(address, len)
    }
    fn sync(&mut self) -> Result<(), FlashError> {
        self.write(FlashOperation::Sync)?;
        self.0.sync()
    }
}

struct FailingStore(TrustedMemory, Fails);

impl TrustedStore for FailingStore {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }
    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        let fails = self.1.now();
        if !fails || self.1.late {
            self.0.store(record)?;
        }
        if fails { Err(TrustedStoreError::Driver(5)) } else { Ok(()) }
    }
}

#[test]
fn a_refused_write_leaves_a_volume_that_opens_and_a_change_that_can_be_made() {
    let (mut refused, mut unannounced, mut unsettled) = (0, 0, 0);
    for change in RUN {
        // Every change on the volume that the changes before it have left.
        let world = World::new();
        let mut earlier = Vec::new();
        for done in RUN.iter().take_while(|done| format!("{done:?}") != format!("{change:?}")) {
            earlier.push(world.copies());
            world.change(*done, world.medium.clone(), world.store.clone()).expect("a change");
        }
        let before = world.opened();
        for (number, late) in (0..).flat_map(|number| [(number, false), (number, true)]) {
            let tried = world.snapshot();
            let fails = Fails { left: Rc::new(Cell::new(Some(number))), late };
            let device = FailingFlash(tried.medium.clone(), fails.clone());
            let result = tried.change(change, device, FailingStore(tried.store.clone(), fails.clone()));
            if fails.left.get().is_some() {
                assert_eq!(result, Ok(()));
                break;
            }
            let what = format!("{change:?}, write {number}: {result:?}");
            refused += 1;
            let error = result.expect_err(&what);
            let opened = tried.opened();
            match error {
                FlashHeaderError::NotAnnounced { error } => {
                    assert_eq!(error, AnchorError::Store(TrustedStoreError::Driver(5)));
                    assert_eq!((&opened, tried.copies()), (&before, world.copies()), "{what}");
                    unannounced += 1;
                }
                FlashHeaderError::NotSettled { .. } => {
                    assert_ne!(opened, before, "{what}");
                    unsettled += 1;
                }
                FlashHeaderError::Flash(_) | FlashHeaderError::OldCopyRemains { .. } => {}
                _ => panic!("{what}"),
            }
            for passphrase in &opened {
                assert_eq!(mount(&tried.medium, tried.store.clone(), passphrase), Ok(()), "{what}");
            }
            // Made again, or finished by a repair and an opening.
            if opened == before {
                tried.change(change, tried.medium.clone(), tried.store.clone()).expect("the change");
            } else {
                open(tried.medium.clone()).expect("a header").repair().expect("a repair");
                let some = opened.first().expect("a passphrase");
                assert_eq!(mount(&tried.medium, tried.store.clone(), some), Ok(()), "{what}");
            }
            let mut earlier = earlier.clone();
            earlier.push(world.copies());
            put_back(&tried, &earlier, &what);
        }
    }
    println!("{refused} refused writes");
    assert!(refused > 60 && unannounced == 12 && unsettled == 12, "{refused} {unannounced} {unsettled}");
}

struct NoWork;

impl Derive for NoWork {
    fn derive(&mut self, _: &KdfCost, _: &[u8], _: &[u8; 16], _: &mut [u8; 32]) -> Result<(), DeriveError> {
        panic!("work before the refusal")
    }
}

#[test]
fn without_its_store_a_header_is_erased_and_nothing_else() {
    let world = World::new();
    let before = world.medium.lock().image().clone();
    let mut header = open(world.medium.clone()).expect("a header");
    let mut key = FlashKey::empty();
    let slot = unlock(&header, "a", &mut key).expect("the passphrase");
    let mut random = Seeded(Random::new(3));
    let mut new = || NewSlot {
        passphrase: b"new",
        cost: COST,
        kdf: Box::leak(Box::new(NoWork)),
        device: None,
        random: Box::leak(Box::new(Seeded(Random::new(random.0.draw())))),
    };
    let refused = Err(FlashHeaderError::AnchorNeeded);
    assert_eq!(header.add_key(None, &key, new(), None).map(drop), refused);
    assert_eq!(header.change_key(slot, &key, new(), None), refused);
    world.change(Change::Add("b"), world.medium.clone(), world.store.clone()).expect("adding");
    let mut header = open(world.medium.clone()).expect("a header");
    assert_eq!(header.remove_key(slot, None), refused);
    // Another volume's store, an empty one.
    let other = World::new();
    other.change(Change::Add("c"), other.medium.clone(), other.store.clone()).expect("adding");
    let not_announced = |error| Err(FlashHeaderError::NotAnnounced { error });
    let copies = world.copies();
    let result = world.change(Change::Add("d"), world.medium.clone(), TrustedMemory::new());
    assert_eq!(result, not_announced(AnchorError::Empty));
    let result = world.change(Change::Add("d"), world.medium.clone(), other.store.clone());
    assert!(matches!(result, Err(FlashHeaderError::NotAnnounced { error: AnchorError::Other { .. } })));
    assert_eq!(world.copies(), copies);
    // Erased with the store, no header of before opens it; without, that is up to whoever has the store.
    for with_store in [true, false] {
        let world = world.snapshot();
        let earlier = world.copies();
        let mut header = open(world.medium.clone()).expect("a header");
        let mut anchor = HeaderAnchor::new(world.store.clone());
        assert_eq!(header.erase_keys(with_store.then_some(&mut anchor as _)), Ok(()));
        assert!(world.opened().is_empty());
        (0..2).for_each(|copy| world.put_copy(copy, &earlier[copy]));
        let put_back = mount(&world.medium, world.store.clone(), "a");
        let older = Err(Refused::Sealed(SealedError::HeaderOlder { anchored: 3, found: 2 }));
        assert_eq!(put_back, if with_store { older } else { Ok(()) });
    }
    assert_ne!(*world.medium.lock().image(), before);
    // A header that is not sealed needs none.
    let plain = SharedFlash::new(EmulatedFlash::new(medium_geometry()));
    let mut random = Seeded(Random::new(1));
    let mut header = format(plain, &XTS, &mut random, "a", &mut key).expect("a header");
    assert_eq!(with_new(&mut random, "b", |new| header.add_key(None, &key, new, None)), Ok(1));
}

fn hand_over(medium: &SharedFlash, old: &TrustedMemory, new: &TrustedMemory) -> Result<(), Refused> {
    let mut header = open(medium.clone()).map_err(Refused::Header)?;
    let mut stores = HandOver::new(old.clone(), new.clone());
    // Once the new one has it the old one is to be made void only.
    header.repair().map_err(Refused::Header)?;
    let found = header.found().map_err(Refused::Header)?;
    if mount(medium, TrustedMemory::with_record(new.record()), "a").is_ok() {
        return stores.finish(found).map_err(Refused::Sealed);
    }
    let mut key = FlashKey::empty();
    let slot = unlock(&header, "a", &mut key).map_err(Refused::Header)?;
    let mut random = Seeded(Random::new(medium.lock().wear().programmed_units()));
    with_new(&mut random, "a", |again| header.change_key(slot, &key, again, Some(&mut stores)))
        .map_err(Refused::Header)
}

#[test]
fn a_volume_that_is_handed_over_opens_with_one_store_at_every_moment() {
    let world = World::new();
    world.change(Change::Add("b"), world.medium.clone(), world.store.clone()).expect("adding");
    let (old, new, start) = (world.store.clone(), TrustedMemory::new(), world.snapshot());
    let moments = Moments::of(&world.medium, &[&old, &new], || {
        hand_over(&world.medium, &old, &new).expect("handed over");
    });
    assert_eq!(moments.writes.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    let handed = SealedError::HandedOver { header: 3 };
    assert_eq!(mount(&world.medium, old.clone(), "a"), Err(Refused::Sealed(handed)));
    assert_eq!(mount(&world.medium, new.clone(), "a"), Ok(()));
    assert_eq!(mount(&world.medium, new.clone(), "b"), Ok(()));
    let stale = SealedError::HeaderOther { anchored: 2, found: 3 };
    let copy = TrustedMemory::with_record(start.store.record());
    assert_eq!(mount(&world.medium, copy, "a"), Err(Refused::Sealed(stale)));
    assert_eq!(RecordFields::read(&old.record().expect("a record")), Err(handed));
    let mut sides = [0, 0];
    for (cut, image, records) in moments.left() {
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        let opens = |record: &Option<TrustedRecord>| {
            let image = medium.lock().image().clone();
            let left = World::holding(image, *record);
            mount(&left.medium, left.store, "a")
        };
        let both = [opens(&records[0]), opens(&records[1])];
        match both {
            [Ok(()), Err(Refused::Sealed(SealedError::StoreEmpty | SealedError::HeaderOlder { .. }))] => {
                sides[0] += 1;
            }
            [
                Err(Refused::Sealed(SealedError::HeaderOther { .. } | SealedError::HandedOver { .. })),
                Ok(()),
            ] => {
                sides[1] += 1;
            }
            _ => panic!("{cut}: {both:?}"),
        }
        let [old, new] = [0, 1].map(|store| TrustedMemory::with_record(records[store]));
        let void = records[0];
        assert_eq!(hand_over(&medium, &old, &new), Ok(()), "{cut}: again");
        assert_eq!(mount(&medium, new.clone(), "a"), Ok(()), "{cut}");
        assert_eq!(mount(&medium, old, "a"), Err(Refused::Sealed(handed)), "{cut}");
        let copies = [start.store.record(), void];
        for copy in copies {
            assert!(mount(&medium, TrustedMemory::with_record(copy), "a").is_err(), "{cut}: a copy");
        }
    }
    assert!(sides[0] > 50 && sides[1] > 50, "{sides:?}");
}

#[test]
fn a_hand_over_takes_no_store_that_holds_something_else() {
    let world = World::new();
    let header = open(world.medium.clone()).expect("a header");
    let found = header.found().expect("it");
    let in_use = Err(Refused::Header(FlashHeaderError::NotAnnounced { error: AnchorError::InUse }));
    // Of another volume; of this one as it was before it was used again.
    let other = World::new();
    other.change(Change::Add("b"), other.medium.clone(), other.store.clone()).expect("adding");
    let stale = TrustedMemory::with_record(world.store.record());
    let mut used = volume(&world.medium, world.store.clone(), "a", 12, true).expect("mount");
    used.erase(0, FlashDevice::geometry(&used).erase_size().into()).expect("erase");
    used.close().expect("close");
    drop(used);
    let before = (world.copies(), world.store.record());
    for new in [other.store, stale] {
        let held = new.record();
        let mut stores = HandOver::new(world.store.clone(), new.clone());
        let mut header = open(world.medium.clone()).expect("a header");
        let mut key = FlashKey::empty();
        let slot = unlock(&header, "a", &mut key).expect("the passphrase");
        let mut random = Seeded(Random::new(4));
        let result = with_new(&mut random, "a", |new| header.change_key(slot, &key, new, Some(&mut stores)));
        assert_eq!(result.map_err(Refused::Header), in_use);
        assert_eq!((new.record(), (world.copies(), world.store.record())), (held, before.clone()));
    }
    // Nor does a store whose header was put back from before hand anything over: that would make it the newest again.
    let earlier = world.copies();
    world.change(Change::Add("b"), world.medium.clone(), world.store.clone()).expect("adding");
    let (newest, held) = (world.copies(), world.store.record());
    (0..2).for_each(|copy| world.put_copy(copy, &earlier[copy]));
    let new = TrustedMemory::new();
    let older = FlashHeaderError::NotAnnounced { error: AnchorError::Older { anchored: 2, found: 1 } };
    let mut header = open(world.medium.clone()).expect("a header");
    let mut key = FlashKey::empty();
    let slot = unlock(&header, "a", &mut key).expect("the passphrase");
    let mut stores = HandOver::new(world.store.clone(), new.clone());
    let again = |new: NewSlot<'_>| header.change_key(slot, &key, new, Some(&mut stores));
    assert_eq!(with_new(&mut Seeded(Random::new(4)), "a", again), Err(older));
    assert_eq!((new.record(), world.store.record(), world.copies()), (None, held, earlier));
    (0..2).for_each(|copy| world.put_copy(copy, &newest[copy]));
    let before = (newest, held);
    // Nothing is made void for a store that does not have the volume.
    let mut stores = HandOver::new(world.store.clone(), TrustedMemory::new());
    assert_eq!(stores.finish(found), Err(SealedError::StoreEmpty));
    assert_eq!(world.store.record(), before.1);
}

#[test]
fn a_smaller_reserve_counts_from_the_opening_on() {
    let world = World::with_reserve(20);
    let reserve = || RecordFields::of(&world.store.record().expect("a record")).expect("it").reserve;
    assert_eq!(reserve(), 20);
    assert_eq!(mount_with(&world.medium, world.store.clone(), "a", 20), Ok(()));
    let before = world.store.count();
    assert_eq!(mount_with(&world.medium, world.store.clone(), "a", 22), Ok(()));
    assert_eq!((reserve(), world.store.count()), (20, before), "nothing to write");
    drop(volume(&world.medium, world.store.clone(), "a", 12, true).expect("mount"));
    assert_eq!(reserve(), 12);
    assert_eq!(mount(&world.medium, world.store.clone(), "a"), Ok(()));
}
