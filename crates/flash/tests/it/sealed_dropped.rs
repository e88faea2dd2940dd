//! Futures of a sealed volume that are dropped at any poll, over media that are then left with nothing done, everything, or a part of it:
//! what was acknowledged stays, nothing raises an alarm, and no serial seals twice.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::asynchronous::{FlashDevice, TrustedStore};
use atrest_device::{FlashCause, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStoreError};
use atrest_flash::asynchronous::SealedFlash;
use atrest_flash::asynchronous::store::{CounterStore, PageStore};
use atrest_flash::sealed::store::{ENTRY_LEN, FRAME_LEN};
use atrest_flash::sealed::{BlockState, SealedError, SealedMedium, SealedOptions, Tickets, Verify};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, FlashImage, SharedFlash, TrustedMemory};
use atrest_testkit::{Campaign, Random};

use crate::counter_rig::Counter;
use crate::sealed::{BLOCKS, ERASE, FIRST, KEY, OPTIONS, geometry};
use crate::tearing::TearingChip;
use crate::waits::{Waits, block_on, poll_at_most};

const PAYLOAD: usize = 72;
/// Bytes of a ticket, behind which its serial stands.
const TICKET: usize = 18;
const UNITS: u64 = 10;

/// A chip to which each serial goes once.
#[derive(Clone)]
struct Chip {
    chip: TearingChip,
    serials: Rc<RefCell<BTreeSet<u64>>>,
}

impl Chip {
    fn new(random: &mut Random) -> Self {
        Self { chip: TearingChip::new(geometry(), random), serials: Rc::default() }
    }

    fn note(&self, address: u64, data: &[u8]) {
        let is_ticket = address % ERASE as u64 >= (ERASE - 64) as u64;
        let at = if is_ticket { TICKET } else { PAYLOAD };
        let mut serial = [0; 8];
        serial[..5].copy_from_slice(&data[at..at + 5]);
        let serial = u64::from_le_bytes(serial);
        assert!(self.serials.borrow_mut().insert(serial), "serial {serial} seals twice");
    }
}

impl FlashDevice for Chip {
    fn geometry(&self) -> FlashGeometry {
        self.chip.geometry()
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.chip.read(address, buf).await
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.note(address, data);
        self.chip.prog(address, data).await
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.chip.erase(address, len).await
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        self.chip.sync().await
    }
}

/// The store, whose parts outlive it.
#[derive(Clone)]
enum Trusted {
    Memory(TrustedMemory),
    Pages(SharedFlash),
    Counter(SharedFlash, Counter),
}

impl Trusted {
    fn new(random: &mut Random) -> Self {
        let pages = |prog, blocks| {
            let geometry = FlashGeometry::new(1, prog, 104 * 4, blocks).expect("a geometry");
            SharedFlash::new(EmulatedFlash::with_image(FlashImage::erased(geometry)))
        };
        match random.below(3) {
            0 => Self::Memory(TrustedMemory::new()),
            1 => Self::Pages(pages(8, 3)),
            _ => Self::Counter(pages(104, 3), Counter::at(random.below(50))),
        }
    }

    fn store(&self) -> Store {
        match self {
            Self::Memory(memory) => Store::Memory(Waits(memory.clone())),
            Self::Pages(pages) => Store::Pages(PageStore::new(Waits(pages.clone())).expect("room")),
            Self::Counter(log, counter) => {
                let (log, counter) = (Waits(log.clone()), Waits(counter.clone()));
                Store::Counter(CounterStore::new(log, counter, &KEY).expect("room"))
            }
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Store {
    Memory(Waits<TrustedMemory>),
    Pages(PageStore<Waits<SharedFlash>, FRAME_LEN>),
    Counter(CounterStore<Waits<Counter>, Waits<SharedFlash>, ENTRY_LEN>),
}

macro_rules! of_each {
    ($store:expr, $one:ident => $call:expr) => {
        match $store {
            Self::Memory($one) => $call,
            Self::Pages($one) => $call,
            Self::Counter($one) => $call,
        }
    };
}

impl TrustedStore for Store {
    async fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        of_each!(self, store => store.load().await)
    }

    async fn claim(&mut self) -> Result<(), TrustedStoreError> {
        of_each!(self, store => store.claim().await)
    }

    async fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        of_each!(self, store => store.store(record).await)
    }

    async fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        of_each!(self, store => store.stored_at_most().await)
    }
}

type Volume = SealedFlash<ChaCha20Poly1305, Chip, Store, Vec<BlockState>, Vec<u8>>;

/// What a block holds, by what was acknowledged.
#[derive(Clone, Debug, Default)]
struct Held {
    units: Vec<u8>,
    /// It may take no more: begun in an earlier session, or an operation of it was dropped.
    closed: bool,
    /// What else it may hold since one was.
    doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug)]
enum Doubt {
    /// One unit more, with this content.
    More(u8),
    /// Fewer units.
    Fewer,
}

/// A medium, its store, and what both should hold.
struct History {
    chip: Chip,
    trusted: Trusted,
    options: SealedOptions,
    held: Vec<Held>,
    dropped: u64,
}

impl History {
    fn open(&mut self, mount: bool, polls: usize) -> Option<Result<Volume, SealedError>> {
        let (table, buffer) = (vec![BlockState::default(); BLOCKS as usize], vec![0; FIRST]);
        let (chip, store) = (self.chip.clone(), self.trusted.store());
        let mut random = OsRandom;
        let opened = match mount {
            true => {
                let opened = Volume::mount(chip, store, &KEY, self.options, table, buffer, &mut random);
                poll_at_most(polls, opened)
            }
            false => {
                let opened = Volume::format(chip, store, &KEY, self.options, table, buffer, &mut random);
                poll_at_most(polls, opened)
            }
        };
        self.dropped += u64::from(opened.is_none());
        opened
    }

    /// After power was switched off: openings that are dropped, and one that is not.
    fn mount(&mut self, random: &mut Random) -> Volume {
        for held in &mut self.held {
            held.closed = true;
        }
        while random.below(3) == 0 {
            if let Some(opened) = self.open(true, random.below(400) as usize) {
                drop(opened.expect("an opening that was not dropped"));
            }
        }
        let volume = self.open(true, usize::MAX).expect("polled to the end").expect("mount");
        assert!(!volume.is_damaged(), "an alarm");
        volume
    }

    /// Programs the next unit of a block of which nothing is in doubt, or erases it. Dropped or not.
    fn change(&mut self, volume: &mut Volume, polls: usize, random: &mut Random) {
        let sure: Vec<usize> =
            (0..self.held.len()).filter(|block| self.held[*block].doubt.is_none()).collect();
        let block = *random.pick(&sure);
        let full = self.held[block].units.len() as u64 == UNITS;
        if full || random.below(8) == 0 || !self.program(volume, block, polls, random) {
            self.erase(volume, block, polls);
        }
        self.dropped += u64::from(self.held[block].doubt.is_some());
    }

    /// False if the block takes no more.
    fn program(&mut self, volume: &mut Volume, block: usize, polls: usize, random: &mut Random) -> bool {
        let held = &mut self.held[block];
        let content = 1 + random.below(250) as u8;
        let address = (block as u64 * UNITS + held.units.len() as u64) * PAYLOAD as u64;
        let done = poll_at_most(polls, volume.prog(address, &[content; PAYLOAD]));
        match done.map(|done| done.map_err(|error| error.cause)) {
            Some(Ok(())) => held.units.push(content),
            Some(Err(FlashCause::Closed { .. } | FlashCause::Void { .. })) => {
                assert!(held.closed, "block {block} is closed");
                return false;
            }
            Some(Err(cause)) => panic!("block {block}: {cause}"),
            None => (held.doubt, held.closed) = (Some(Doubt::More(content)), true),
        }
        true
    }

    fn erase(&mut self, volume: &mut Volume, block: usize, polls: usize) {
        let held = &mut self.held[block];
        let len = u64::from(volume.geometry().erase_size());
        let done = poll_at_most(polls, volume.erase(block as u64 * len, len));
        match done {
            Some(done) => {
                done.expect("erase");
                *held = Held::default();
            }
            None => (held.doubt, held.closed) = (Some(Doubt::Fewer), true),
        }
    }

    /// Reads a block: it holds what was acknowledged, and of the last operation, if that was dropped, all, nothing or a part.
    fn check(&mut self, volume: &mut Volume, block: usize) {
        let mut found = Vec::new();
        for unit in 0..UNITS {
            let mut bytes = [0x5a; PAYLOAD];
            let address = block as u64 * UNITS * PAYLOAD as u64 + unit * PAYLOAD as u64;
            match block_on(volume.read(address, &mut bytes)).map_err(|error| error.cause) {
                Ok(()) if matches!(bytes[0], 0 | 0xff) => break,
                Ok(()) => {
                    assert_eq!(bytes, [bytes[0]; PAYLOAD]);
                    found.push(bytes[0]);
                }
                Err(FlashCause::Void { .. }) => break,
                Err(cause) => panic!("block {block}, unit {unit}: {cause}"),
            }
        }
        let held = &mut self.held[block];
        let allowed = match held.doubt.take() {
            None => found == held.units,
            Some(Doubt::More(content)) => {
                found == held.units || found == [held.units.as_slice(), &[content]].concat()
            }
            Some(Doubt::Fewer) => held.units.starts_with(&found),
        };
        assert!(allowed, "block {block}: {found:?} is found, {held:?} was held");
        held.units = found;
    }
}

#[test]
fn futures_dropped_at_any_poll_lose_nothing_raise_no_alarm_and_use_no_serial_twice() {
    let (mut dropped, mut reopened) = (0, 0);
    Campaign::new("dropped futures of sealed flash", 250, 20_000).run(|_, random| {
        let options = SealedOptions {
            tickets: *random.pick(&[Tickets::Slot, Tickets::Store]),
            medium: *random.pick(&[SealedMedium::Ordered, SealedMedium::Cached]),
            anchor_every: 1 + random.below(4) as u32,
            reserve: *random.pick(&[5, 12]),
            read_back: random.below(3) > 0,
            verify: *random.pick(&[Verify::OnRead, Verify::AtOpening]),
            ..OPTIONS
        };
        let (chip, trusted) = (Chip::new(random), Trusted::new(random));
        // Void until they are erased.
        let held = vec![Held { closed: true, ..Held::default() }; BLOCKS as usize];
        let mut history = History { chip, trusted, options, held, dropped: 0 };
        let mut volume = history.open(false, usize::MAX).expect("polled to the end").expect("format");
        for _ in 0..40 {
            let drops = random.below(2) == 0;
            let polls = if drops { random.below(12) as usize } else { usize::MAX };
            match random.below(24) {
                0..20 => history.change(&mut volume, polls, random),
                20 => drop(poll_at_most(polls, volume.sync()).map(|done| done.expect("sync"))),
                21 => drop(poll_at_most(polls, volume.anchor()).map(|done| done.expect("anchor"))),
                22 => drop(poll_at_most(polls, volume.close()).map(|done| done.expect("close"))),
                _ => {
                    drop(volume);
                    volume = history.mount(random);
                    reopened += 1;
                }
            }
            // Now and then several operations are dropped one after the other before anybody looks.
            if random.below(3) == 0 {
                continue;
            }
            let in_doubt: Vec<usize> =
                (0..BLOCKS as usize).filter(|block| history.held[*block].doubt.is_some()).collect();
            for block in in_doubt {
                history.check(&mut volume, block);
            }
        }
        assert!(!volume.is_stopped(), "an alarm");
        for block in 0..BLOCKS as usize {
            history.check(&mut volume, block);
        }
        drop(volume);
        let mut volume = history.mount(random);
        for block in 0..BLOCKS as usize {
            history.check(&mut volume, block);
        }
        dropped += history.dropped;
    });
    println!("{dropped} futures were dropped, {reopened} times a volume was opened again");
    assert!(Campaign::is_full() || dropped > 500, "{dropped}");
}
