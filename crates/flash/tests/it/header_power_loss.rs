//! Power lost at every program and erase of every operation on the header, in every way: the volume opens with the keys of before or
//! of after, a removed key never comes back, and what a repair leaves holds no key that the header does not name.

use std::collections::BTreeSet;

use crate::header::{Header, Seeded, XTS, format, geometry, open, opened_by, unlock, with_new};
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_flash::{CopyState, Existing, FlashHeaderError, FormatOptions};
use atrest_keyslot::flash::{FlashCipher, FlashKey, HEADER_LEN};
use atrest_testkit::flash::{
    Caching, EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, Tear,
};
use atrest_testkit::{Campaign, Random};

/// One operation.
#[derive(Clone, Copy, Debug)]
enum Change {
    Format(&'static str),
    Add(&'static str),
    Replace(&'static str, &'static str),
    Remove(&'static str),
    Erase,
}
use Change::{Add, Erase, Format, Remove};

/// Every operation, each on a header on which others have left their traces; in the end a second volume over the first one.
const RUN: [Change; 13] = [
    Format("a"),
    Add("b"),
    Add("c"),
    Change::Replace("b", "B"),
    Remove("c"),
    Add("d"),
    Remove("a"),
    Change::Replace("d", "D"),
    Format("second"),
    Add("e"),
    Remove("second"),
    Erase,
    Format("third"),
];

const PASSPHRASES: [&str; 9] = ["a", "b", "B", "c", "d", "D", "second", "e", "third"];

/// A short key: unwrapping is what takes the time here.
const SHORT: FormatOptions = FormatOptions { cipher: FlashCipher::AesHctr2, key_len: 16, ..XTS };

/// Passphrases that open, with the key that they open; None where there is no header.
type State = Option<BTreeSet<(&'static str, Vec<u8>)>>;

fn state<D: FlashDevice>(device: D) -> State {
    match open(device) {
        Ok(header) => Some(opened_by(&header, &PASSPHRASES)),
        Err(FlashHeaderError::Header(_) | FlashHeaderError::Flash(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn apply<D: FlashDevice>(device: D, change: Change, random: &mut Seeded) {
    let mut key = FlashKey::empty();
    if let Format(passphrase) = change {
        let options = FormatOptions { existing: Existing::Replace, ..SHORT };
        format(device, &options, random, passphrase, &mut key).expect("formatting");
        return;
    }
    let mut header = open(device).expect("a header");
    match change {
        Add(passphrase) => {
            unlock_with_any(&header, &mut key);
            with_new(random, passphrase, |new| header.add_key(None, &key, new, None)).expect("adding");
        }
        Change::Replace(old, new) => {
            let slot = unlock(&header, old, &mut key).expect("the old passphrase");
            with_new(random, new, |new| header.change_key(slot, &key, new, None)).expect("changing");
        }
        Remove(passphrase) => {
            let slot = unlock(&header, passphrase, &mut key).expect("the passphrase");
            header.remove_key(slot, None).expect("removing");
        }
        Format(_) => {}
        Erase => header.erase_keys(None).expect("erasing"),
    }
}

fn unlock_with_any<D: FlashDevice>(header: &Header<D>, key: &mut FlashKey) {
    let opened = PASSPHRASES.iter().any(|passphrase| unlock(header, passphrase, key).is_ok());
    assert!(opened, "something opens");
}

struct Recorded {
    recording: FlashRecording,
    /// Before the first operation, and after each.
    states: Vec<State>,
}

fn record(geometry: FlashGeometry, run: &[Change]) -> Recorded {
    let medium = SharedFlash::new(EmulatedFlash::new(geometry));
    let mut random = Seeded(Random::new(1));
    let mut states = vec![None];
    medium.lock().record();
    for (number, change) in run.iter().enumerate() {
        apply(medium.clone(), *change, &mut random);
        medium.lock().acknowledge(number as u64);
        states.push(state(medium.clone()));
    }
    let recording = medium.lock().finish_recording();
    Recorded { recording, states }
}

impl Recorded {
    /// Opens what a cut leaves, and looks whether that is what was before the operation, or after it.
    ///
    /// Formatting and erasing may leave no volume, and erasing one without keys.
    fn survive(&self, cut: PowerCut) -> (FlashImage, State) {
        let (image, promises) = self.recording.aftermath(cut);
        let done = promises.len();
        let found = state(EmulatedFlash::with_image(image.clone()));
        let destroys = matches!(RUN[done], Format(_) | Erase);
        let allowed = &self.states[done..done + 2];
        assert!(
            allowed.contains(&found) || destroys && found.is_none(),
            "{cut}, in {:?}: {:?} opens, not {:?}",
            RUN[done],
            names(&found),
            allowed.iter().map(names).collect::<Vec<_>>()
        );
        (image, found)
    }
}

fn names(state: &State) -> Option<Vec<&'static str>> {
    state.as_ref().map(|opened| opened.iter().map(|(name, _)| *name).collect())
}

/// Repairs, and looks whether the same opens and whether both copies are one and the same header.
fn repaired(image: FlashImage, found: &State, cut: PowerCut) -> SharedFlash {
    let medium = SharedFlash::new(EmulatedFlash::with_image(image));
    if found.is_some() {
        let mut header = open(medium.clone()).expect("it opened before");
        header.repair().unwrap_or_else(|error| panic!("{cut}: {error}"));
        drop(header);
        let header = open(medium.clone()).expect("a repaired header");
        assert_eq!(header.copy_states(), [CopyState::Current; 2], "{cut}");
        assert_eq!(Some(opened_by(&header, &PASSPHRASES)), *found, "{cut}");
        let bytes = medium.lock().image().to_bytes();
        let copy = copy_len(medium.geometry());
        assert_eq!(bytes[..HEADER_LEN], bytes[copy..copy + HEADER_LEN], "{cut}: no trace of another state");
    }
    medium
}

fn copy_len(geometry: FlashGeometry) -> usize {
    HEADER_LEN.next_multiple_of(geometry.erase_size() as usize)
}

/// The geometries: a copy in one small block, in one of 4 KiB, in two blocks; large units; data flash whose sizes are no powers of two.
fn media() -> [FlashGeometry; 6] {
    [
        geometry(1, 16, 512, 8),
        geometry(1, 16, 4096, 4),
        geometry(4, 8, 256, 8),
        geometry(1, 256, 4096, 4),
        geometry(2048, 2048, 4096, 4),
        geometry(1, 264, 264, 8),
    ]
}

fn cut_everywhere(name: &'static str, caching: Caching, sample: usize) {
    let mut cases = Vec::new();
    let runs = media().map(|geometry| record(geometry, &RUN));
    for (medium, run) in runs.iter().enumerate() {
        cases.extend(run.recording.cuts(caching).into_iter().map(|cut| (medium, cut)));
    }
    let changes: usize = runs.iter().map(|run| run.recording.len()).sum();
    println!("{name}: {changes} programs and erases, {} cuts", cases.len());
    Campaign::matrix(name, sample).over(&cases, |(medium, cut)| {
        let (image, found) = runs[*medium].survive(*cut);
        repaired(image, &found, *cut);
    });
}

#[test]
fn no_cut_loses_a_volume_or_brings_a_removed_key_back() {
    cut_everywhere("header power loss", Caching::None, 800);
}

#[test]
fn no_cut_on_a_medium_with_a_cache_does_either() {
    cut_everywhere("header power loss, cached", Caching::UntilSync, 800);
}

/// The second cut hits the repair, or the next operation without one.
#[test]
fn no_second_cut_does_either() {
    let runs = media().map(|geometry| record(geometry, &RUN));
    Campaign::new("header power loss, two cuts", 400, 100_000).run(|_, random: &mut Random| {
        let run = random.pick(&runs);
        let caching = *random.pick(&[Caching::None, Caching::UntilSync]);
        let first = *random.pick(&run.recording.cuts(caching));
        let (image, found) = run.survive(first);
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        medium.lock().record();
        let mut after = found.clone();
        let some = found.iter().flatten().next().map(|(name, _)| *name);
        match (some, random.below(3)) {
            (Some(_), 0) => open(medium.clone()).expect("a header").repair().expect("a repair"),
            (Some(name), 1) => {
                apply(medium.clone(), Change::Replace(name, "third"), &mut Seeded(Random::new(2)));
                after = state(medium.clone());
            }
            _ => {
                apply(medium.clone(), Format("third"), &mut Seeded(Random::new(2)));
                after = state(medium.clone());
            }
        }
        let formatted = names(&after) == Some(vec!["third"]);
        let second_run = medium.lock().finish_recording();
        if second_run.is_empty() {
            return;
        }
        let second = *random.pick(&second_run.cuts(caching));
        let (image, _) = second_run.aftermath(second);
        let last = state(EmulatedFlash::with_image(image.clone()));
        let expected = last == found || last == after || formatted && last.is_none();
        assert!(
            expected,
            "{first}; then {second}: {:?}, not {:?} or {:?}",
            names(&last),
            names(&found),
            names(&after)
        );
        repaired(image, &last, second);
    });
}

/// What has been removed is nowhere on the medium once that was said, not even where no header is.
#[test]
fn a_removed_key_leaves_no_trace() {
    for geometry in media() {
        let medium = SharedFlash::new(EmulatedFlash::new(geometry));
        let mut random = Seeded(Random::new(3));
        for change in [Format("a"), Add("b"), Add("c")] {
            apply(medium.clone(), change, &mut random);
        }
        let slot = |number: usize| medium.lock().image().to_bytes()[64 + 104 * number..][..104].to_vec();
        let keyslots: Vec<Vec<u8>> = (0..3).map(slot).collect();
        let traces = |keyslot: &Vec<u8>| {
            let bytes = medium.lock().image().to_bytes();
            // Any 8 bytes of salt or wrapped key.
            keyslot[16..56].chunks(8).filter(|part| bytes.windows(8).any(|window| window == *part)).count()
        };
        assert!(keyslots.iter().all(|keyslot| traces(keyslot) == 5), "{geometry:?}: they are all there");
        apply(medium.clone(), Remove("b"), &mut random);
        assert_eq!(keyslots.iter().map(traces).collect::<Vec<_>>(), [5, 0, 5], "{geometry:?}");
        apply(medium.clone(), Change::Replace("a", "B"), &mut random);
        assert_eq!(keyslots.iter().map(traces).collect::<Vec<_>>(), [0, 0, 5], "{geometry:?}");
        apply(medium.clone(), Erase, &mut random);
        assert_eq!(keyslots.iter().map(traces).collect::<Vec<_>>(), [0, 0, 0], "{geometry:?}");
        assert_eq!(state(medium.clone()), Some(BTreeSet::new()));
    }
}

/// The tests can fail: with the copies written in the wrong order, or one alone, cuts lose the volume.
#[test]
fn a_header_in_one_place_would_be_lost() {
    let run = record(geometry(1, 16, 4096, 4), &RUN[..3]);
    let lost = run.recording.cuts(Caching::None).into_iter().filter(|cut| {
        let (mut image, promises) = run.recording.aftermath(*cut);
        for unit in 0..256 {
            image.put_unit(1, unit, &[0xff; 16]);
        }
        promises.len() == 2 && state(EmulatedFlash::with_image(image)).is_none()
    });
    assert!(lost.count() > 30, "the first copy alone does not survive");
}

/// A card: sectors of 512 bytes that can be written again, no erase, no blank.
#[derive(Clone)]
struct Card {
    sectors: Vec<[u8; 512]>,
    writes: Vec<Written>,
}

/// What the card held before a write, the write, and how many operations were finished by then.
#[derive(Clone)]
struct Written {
    before: Vec<[u8; 512]>,
    sector: usize,
    data: [u8; 512],
}

impl Card {
    fn new(sectors: Vec<[u8; 512]>) -> Self {
        Self { sectors, writes: Vec::new() }
    }
}

impl FlashDevice for Card {
    fn geometry(&self) -> FlashGeometry {
        geometry(512, 512, 512, self.sectors.len() as u64)
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Read, address, buf.len() as u64)?;
        for (part, sector) in buf.chunks_mut(512).zip(&self.sectors[(address / 512) as usize..]) {
            part.copy_from_slice(sector);
        }
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Prog, address, data.len() as u64)?;
        for (sector, part) in (address as usize / 512..).zip(data.chunks(512)) {
            let data = part.try_into().expect("a sector");
            self.writes.push(Written { before: self.sectors.clone(), sector, data });
            self.sectors[sector] = data;
        }
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Erase, address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }

    fn erased_byte(&self) -> Option<u8> {
        None
    }

    fn is_blank(&mut self, address: u64, len: u64, _: &mut [u8]) -> Result<bool, FlashError> {
        Err(FlashError::new(FlashOperation::BlankQuery, address, len, FlashCause::Unsupported))
    }
}

/// Cuts each write of a card, where nothing is erased and everything is written over.
#[test]
fn no_cut_on_a_card_loses_a_volume_or_brings_a_removed_key_back() {
    let mut junk = Random::new(5);
    let mut card = Card::new((0..4).map(|_| core::array::from_fn(|_| junk.draw() as u8)).collect());
    let mut random = Seeded(Random::new(1));
    let mut before = state(card.clone());
    assert_eq!(before, None, "a card with something else on it");
    let mut cuts = 0;
    for change in RUN {
        card.writes.clear();
        apply(&mut card, change, &mut random);
        let after = state(card.clone());
        let destroys = matches!(change, Format(_) | Erase);
        for (number, write) in card.writes.iter().enumerate() {
            for tear in Tear::ALL {
                let mut left = Card::new(write.before.clone());
                let place = &mut left.sectors[write.sector];
                let mut dice = Random::new((cuts + number) as u64);
                match tear {
                    Tear::Clean => {}
                    Tear::Bytes => {
                        let arrived = 1 + dice.below(511) as usize;
                        place[..arrived].copy_from_slice(&write.data[..arrived]);
                    }
                    Tear::Bits => {
                        for (cell, new) in place.iter_mut().zip(write.data) {
                            *cell ^= (*cell ^ new) & dice.draw() as u8;
                        }
                    }
                    Tear::Garbage | Tear::Uncorrectable => dice.fill(place),
                }
                let found = state(left.clone());
                assert!(
                    found == before || found == after || destroys && found.is_none(),
                    "{change:?}, write {number} {tear}: {:?}",
                    names(&found)
                );
                if found.is_some() {
                    open(&mut left).expect("a header").repair().expect("a repair");
                    assert_eq!(state(left.clone()), found);
                    assert_eq!(left.sectors[0], left.sectors[1]);
                }
                cuts += 1;
            }
        }
        before = after;
    }
    println!("header on a card: {cuts} cuts");
    assert!(cuts > 100);
}
