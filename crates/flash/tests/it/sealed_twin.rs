//! `SealedFlash` does what the model of testkit does, step by step: the same programs, erases, syncs and records in the same
//! order, with the power cut at the same places, the same answers, the same refusals; on media that are attacked in the same way.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::rc::Rc;

use crate::any::{AnyVolume, any_flash, any_store};
use crate::faces::AnyCounter as CounterStore;
use crate::sealed::{KEY, OPTIONS, Units};
use atrest_cipher::aead::{Aead, Aes128CcmTag96, AsconAead128, ChaCha20Poly1305};
use atrest_device::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, TRUSTED_RECORD_LEN, TrustedStore,
    TrustedStoreError,
};
use atrest_flash::sealed::store::{ENTRY_LEN, MonotonicCounter};
use atrest_flash::sealed::{
    BlockState, SealedError, SealedMedium, SealedOptions, Tickets, UnitState, Verify,
};
use atrest_testkit::flash::TrustedRecord;
use atrest_testkit::flash::sealed_model::{
    Answer, BLOCKS, Cell, Content, Cut, Epoch, Event, LOG_CELLS, LOG_PAGES, MARKED_CELLS, Model, Op, Outcome,
    Policy, Record, Refusal, Setup, Statistics, Stop, Trust, Twin, UNITS, World, run,
};
use atrest_testkit::{Campaign, Random};

const STRIDE: usize = 96;
const SLOT: usize = 64;
/// What unit 0 takes more.
const HEAD: usize = 32;
const FIRST: usize = STRIDE + HEAD;
const ERASE: usize = FIRST + (UNITS - 1) * STRIDE + SLOT;
/// The power is off.
const OFF: i32 = -7;
/// The operation is refused.
const REFUSED: i32 = -8;

/// Medium and store that know what has to happen next.
#[derive(Default)]
struct Script {
    raw: Vec<u8>,
    /// What was programmed, by the model's number of it.
    bytes: BTreeMap<Cell, Vec<u8>>,
    cells: Vec<Content>,
    events: VecDeque<Event>,
    record: Option<TrustedRecord>,
    log: Vec<u8>,
    counter: u64,
    payload: usize,
    off: bool,
}

impl Script {
    /// What a cell of the model looks like.
    fn look(&self, cell: Cell) -> Vec<u8> {
        match self.cells[cell] {
            Content::Blank => vec![0xff; FIRST],
            Content::Garbage => Random::new(cell as u64).bytes(FIRST),
            Content::Forged(of, part) => {
                let mut bytes = self.look(of);
                let parts = match self.cells[of] {
                    Content::Entry(_) => [80, 0, 88],
                    Content::Ticket { .. } => [18, 0, 23],
                    _ => [self.payload, 0, self.payload + 5],
                };
                bytes[parts[part as usize]] ^= 1;
                bytes
            }
            Content::Claim(of, serial) => {
                let mut bytes = self.look(of);
                let at = if matches!(self.cells[of], Content::Ticket { .. }) { 18 } else { self.payload };
                bytes[at..at + 5].copy_from_slice(&serial.to_le_bytes()[..5]);
                // More than one bit, which could be put right.
                bytes[0] ^= 0b110;
                bytes
            }
            Content::Marginal(_) => panic!("no marginal cells here"),
            Content::Unit { .. } | Content::Ticket { .. } | Content::Entry(_) => self.bytes[&cell].clone(),
        }
    }

    fn place(&mut self, block: usize, cell: usize, content: Cell) {
        let (at, len) = span(cell);
        let mut bytes = self.look(content);
        bytes.resize(FIRST, 0xff);
        self.raw[block * ERASE + at..][..len].copy_from_slice(&bytes[..len]);
    }

    fn place_entry(&mut self, page: usize, index: usize, content: Cell) {
        let bytes = self.look(content);
        self.log[(page * LOG_CELLS + index) * ENTRY_LEN..][..ENTRY_LEN].copy_from_slice(&bytes[..ENTRY_LEN]);
    }

    fn next(&mut self, what: &str) -> Result<Event, i32> {
        if self.off {
            return Err(OFF);
        }
        Ok(self.events.pop_front().unwrap_or_else(|| panic!("{what}, which the model does not do")))
    }

    fn end(&mut self, cut: Cut) -> Result<(), i32> {
        self.off = !matches!(cut, Cut::None | Cut::Refused);
        match cut {
            Cut::None => Ok(()),
            Cut::Refused => Err(REFUSED),
            Cut::Before | Cut::Torn | Cut::After => Err(OFF),
        }
    }
}

/// Where a cell lies in its block, and its bytes.
fn span(cell: usize) -> (usize, usize) {
    match cell {
        0 => (0, FIRST),
        UNITS => (ERASE - SLOT, SLOT),
        _ => (HEAD + cell * STRIDE, STRIDE),
    }
}

#[derive(Clone)]
struct Hand(Rc<RefCell<Script>>);

impl Hand {
    fn failed(operation: FlashOperation) -> impl Fn(i32) -> FlashError {
        move |code| FlashError::new(operation, 0, 0, FlashCause::Driver(code))
    }
}

impl FlashDevice for Hand {
    fn geometry(&self) -> FlashGeometry {
        FlashGeometry::new(1, 32, ERASE as u32, BLOCKS as u64).expect("a geometry")
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let script = self.0.borrow();
        if script.off {
            return Err(Self::failed(FlashOperation::Read)(OFF));
        }
        buf.copy_from_slice(&script.raw[address as usize..][..buf.len()]);
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let mut script = self.0.borrow_mut();
        let failed = Self::failed(FlashOperation::Prog);
        let event = script.next("a program").map_err(&failed)?;
        let Event::Prog { block, cell, content, left, cut } = event else {
            panic!("a program instead of {event:?}")
        };
        let (at, len) = span(cell);
        assert_eq!(address as usize, block * ERASE + at, "the place of {event:?}");
        assert_eq!(data.len(), len);
        script.bytes.insert(content, data.to_vec());
        script.place(block, cell, left);
        script.end(cut).map_err(failed)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        let mut script = self.0.borrow_mut();
        let failed = Self::failed(FlashOperation::Erase);
        let event = script.next("an erase").map_err(&failed)?;
        let Event::Erase { block, left, cut } = event else { panic!("an erase instead of {event:?}") };
        assert_eq!((address as usize, len as usize), (block * ERASE, ERASE));
        (0..MARKED_CELLS).for_each(|cell| script.place(block, cell, left[cell]));
        script.end(cut).map_err(failed)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        let mut script = self.0.borrow_mut();
        let failed = Self::failed(FlashOperation::Sync);
        let event = script.next("a sync").map_err(&failed)?;
        let Event::Sync(cut) = event else { panic!("a sync instead of {event:?}") };
        script.end(cut).map_err(failed)
    }
}

impl TrustedStore for Hand {
    fn load(&mut self) -> Result<Option<TrustedRecord>, TrustedStoreError> {
        Ok(self.0.borrow().record)
    }

    fn store(&mut self, stored: &TrustedRecord) -> Result<(), TrustedStoreError> {
        let mut script = self.0.borrow_mut();
        let event = script.next("a record").map_err(TrustedStoreError::Driver)?;
        let Event::Store { record, landed, cut } = event else { panic!("a record instead of {event:?}") };
        assert_eq!(fields(stored, &record), record);
        if landed {
            script.record = Some(*stored);
        }
        script.end(cut).map_err(TrustedStoreError::Driver)
    }
}

/// The log and the counter.
#[derive(Clone)]
struct LogHand(Hand);

impl FlashDevice for LogHand {
    fn geometry(&self) -> FlashGeometry {
        FlashGeometry::new(1, ENTRY_LEN as u32, (LOG_CELLS * ENTRY_LEN) as u32, LOG_PAGES as u64)
            .expect("a geometry")
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let script = self.0.0.borrow();
        if script.off {
            return Err(Hand::failed(FlashOperation::Read)(OFF));
        }
        buf.copy_from_slice(&script.log[address as usize..][..buf.len()]);
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let mut script = self.0.0.borrow_mut();
        let failed = Hand::failed(FlashOperation::Prog);
        let event = script.next("an entry").map_err(&failed)?;
        let Event::LogProg { page, index, content, entry, left, cut } = event else {
            panic!("an entry instead of {event:?}")
        };
        assert_eq!(address as usize, (page * LOG_CELLS + index) * ENTRY_LEN, "the place of {event:?}");
        assert_eq!(data.len(), ENTRY_LEN);
        let number = u64::from_le_bytes(*data[TRUSTED_RECORD_LEN..].first_chunk().expect("eight bytes"));
        let found = fields(data.first_chunk().expect("a record"), &entry.0);
        assert_eq!((found, number), entry);
        script.bytes.insert(content, data.to_vec());
        script.place_entry(page, index, left);
        script.end(cut).map_err(failed)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        let mut script = self.0.0.borrow_mut();
        let failed = Hand::failed(FlashOperation::Erase);
        let event = script.next("an erase of the log").map_err(&failed)?;
        let Event::LogErase { page, left, cut } = event else { panic!("an erase instead of {event:?}") };
        let size = LOG_CELLS * ENTRY_LEN;
        assert_eq!((address as usize, len as usize), (page * size, size));
        (0..LOG_CELLS).for_each(|index| script.place_entry(page, index, left[index]));
        script.end(cut).map_err(failed)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.0.sync()
    }
}

impl MonotonicCounter for LogHand {
    fn value(&mut self) -> Result<u64, TrustedStoreError> {
        let script = self.0.0.borrow();
        if script.off { Err(TrustedStoreError::Driver(OFF)) } else { Ok(script.counter) }
    }

    fn increment(&mut self) -> Result<(), TrustedStoreError> {
        let mut script = self.0.0.borrow_mut();
        let event = script.next("an increment").map_err(TrustedStoreError::Driver)?;
        let Event::Step { landed, cut, failed } = event else { panic!("an increment instead of {event:?}") };
        script.counter += u64::from(landed);
        if failed {
            return Err(TrustedStoreError::Driver(1));
        }
        script.end(cut).map_err(TrustedStoreError::Driver)
    }
}

/// What is trusted.
trait Store: TrustedStore + 'static {
    const TRUST: Trust;

    fn on(script: &Hand) -> Self;
}

impl Store for Hand {
    const TRUST: Trust = Trust::Record;

    fn on(script: &Hand) -> Self {
        script.clone()
    }
}

impl Store for CounterStore<LogHand, LogHand> {
    const TRUST: Trust = Trust::Counter;

    fn on(script: &Hand) -> Self {
        let hand = LogHand(script.clone());
        Self::new(hand.clone(), hand, &KEY).expect("large enough")
    }
}

/// A record as FORMATS.md has it.
/// What a stored record says; what it does not, start and the model's numbers of sessions, is as expected.
fn fields(stored: &TrustedRecord, expected: &Record) -> Record {
    let number = |at: usize, len: usize| {
        stored[at..at + len].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    assert_eq!((stored[2], stored[3] >> 3), (2, 5), "version and reserve");
    let session = expected.victim.map_or(0, |(_, epoch, _)| epoch.session);
    let victim = (stored[3] & 2 != 0).then(|| {
        let epoch = Epoch { serial: number(20, 5), session };
        (number(16, 4) as usize, epoch, number(25, 2) as usize)
    });
    Record {
        anchor: number(4, 5),
        start: expected.start,
        session: expected.session,
        clean: stored[3] & 1 != 0,
        victim,
    }
}

type Volume<A> = AnyVolume<'static, A>;

struct Real<A, S> {
    script: Hand,
    volume: Option<Volume<A>>,
    store: PhantomData<S>,
    steps: u64,
}

impl<A: Aead, S: Store> Real<A, S> {
    fn new() -> Self {
        let payload = (STRIDE - 5 - A::TAG_LEN) & !3;
        let log = vec![0xff; LOG_PAGES * LOG_CELLS * ENTRY_LEN];
        let script = Script { raw: vec![0xff; BLOCKS * ERASE], log, payload, ..Script::default() };
        Self { script: Hand(Rc::new(RefCell::new(script))), volume: None, store: PhantomData, steps: 0 }
    }

    fn options(world: &World) -> SealedOptions {
        SealedOptions {
            tickets: if world.policy == Policy::Slot { Tickets::Slot } else { Tickets::Store },
            medium: if world.ordered { SealedMedium::Ordered } else { SealedMedium::Cached },
            anchor_every: u32::MAX,
            reserve: 5,
            read_back: world.read_back,
            verify: if world.on_read { Verify::OnRead } else { Verify::AtOpening },
            ..OPTIONS
        }
    }

    fn payload(&self, data: u64) -> Vec<u8> {
        let len = self.script.0.borrow().payload;
        data.to_le_bytes().into_iter().cycle().take(len).collect()
    }

    fn open(&mut self, world: &World, mount: bool) -> Result<(), SealedError> {
        self.volume = None;
        let (medium, store) = (any_flash(self.script.clone()), any_store(S::on(&self.script)));
        let (table, buffer) = (vec![BlockState::default(); BLOCKS], vec![0; FIRST]);
        let open = if mount { Volume::<A>::mount } else { Volume::<A>::format };
        self.volume = Some(open(
            medium,
            store,
            &KEY,
            Self::options(world),
            table,
            buffer,
            &mut atrest_secret::OsRandom,
        )?);
        Ok(())
    }

    fn act(&mut self, op: Op) -> Result<(), FlashCause> {
        let payload = |data| self.payload(data);
        let bytes = if let Op::Prog(_, data) = op { payload(data) } else { Vec::new() };
        let volume = self.volume.as_mut().expect("an open volume");
        let failed = |error: FlashError| error.cause;
        match op {
            Op::Prog(block, _) => {
                // The model appends; where, is ours to know.
                let blank = |unit: &u64| {
                    let (address, len) = volume.at(block as u64, *unit);
                    volume.is_blank(address, len as u64, &mut []) == Ok(true)
                };
                let unit = (0..UNITS as u64).find(blank).unwrap_or(0);
                let (address, _) = volume.at(block as u64, unit);
                volume.prog(address, &bytes).map_err(failed)
            }
            Op::Erase(block) => volume.clear(block as u64),
            Op::Sync(true) => volume.anchor(),
            Op::Sync(false) => volume.sync().map_err(failed),
            Op::Close => volume.close(),
            Op::Format | Op::Mount | Op::Read(..) => panic!("not here"),
        }
    }

    fn read(&mut self, block: usize, unit: usize) -> Answer {
        let volume = self.volume.as_mut().expect("an open volume");
        match volume.unit(block as u64, unit as u64) {
            Err(FlashCause::Tampered { block: b, unit: u }) => {
                assert_eq!((b as usize, u as usize), (block, unit));
                Answer::Tampered
            }
            Err(FlashCause::Void { .. }) => Answer::Void,
            Err(cause) => panic!("{cause}"),
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0xff) => Answer::Open,
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => Answer::Closed,
            Ok(bytes) => {
                let data = u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"));
                assert_eq!(bytes, self.payload(data));
                Answer::Data(data)
            }
        }
    }

    /// What is in memory, as far as it shows: units that can be programmed; and of a volume just opened, everything.
    fn compare(&mut self, world: &World, model: &Model, everything: bool) {
        let failing = model.failing(&mut world.clone());
        for (block, unit) in (0..BLOCKS).flat_map(|block| (0..UNITS).map(move |unit| (block, unit))) {
            let volume = self.volume.as_mut().expect("an open volume");
            let (address, len) = volume.at(block as u64, unit as u64);
            let blank = volume.is_blank(address, len as u64, &mut []).expect("in range");
            assert_eq!(volume.is_damaged(), model.is_damaged());
            assert_eq!(blank, model.is_open(block) && unit >= model.fill[block], "{block}.{unit} blank");
            if everything && unit < model.fill[block] {
                let state = volume.unit_state(block as u32, unit as u32).expect("in range");
                let fails = failing.contains(&(block, unit));
                assert_eq!(!matches!(state, UnitState::Whole), fails, "{block}.{unit} is {state:?}");
                if fails && model.is_unread() {
                    // To read it would change what is in memory.
                    continue;
                }
                match self.read(block, unit) {
                    Answer::Tampered => assert!(model.is_hole(block), "{block}.{unit} fails"),
                    found => assert_eq!(found, Answer::Data(model.contents[block][unit]), "{block}.{unit}"),
                }
            }
        }
    }
}

impl<A: Aead, S: Store> Twin for Real<A, S> {
    fn before(&mut self, world: &World, _: Op) {
        let mut script = self.script.0.borrow_mut();
        script.cells.clone_from(&world.cells);
        for (block, cells) in world.medium.iter().enumerate() {
            (0..MARKED_CELLS).for_each(|cell| script.place(block, cell, cells[cell]));
        }
        script.counter = world.log.counter;
        for (page, entries) in world.log.pages.iter().enumerate() {
            (0..LOG_CELLS).for_each(|index| script.place_entry(page, index, entries[index]));
        }
    }

    fn after(&mut self, world: &World, model: Option<&Model>, op: Op, outcome: Outcome) {
        self.steps += 1;
        {
            let mut script = self.script.0.borrow_mut();
            script.cells.clone_from(&world.cells);
            script.events = world.events.iter().copied().collect();
            script.off = false;
        }
        match (op, outcome) {
            (Op::Read(block, unit), Outcome::Read(answer)) => {
                assert_eq!(self.read(block, unit), answer, "{op:?}")
            }
            (Op::Format | Op::Mount, _) => {
                let opened = self.open(world, op == Op::Mount);
                let agrees = match (outcome, &opened) {
                    (Outcome::Done, Ok(())) => true,
                    (Outcome::Stopped(Stop::PowerLoss), Err(_)) => self.script.0.borrow().off,
                    (Outcome::Stopped(Stop::Refused(why)), Err(error)) => matches!(
                        (why, error),
                        (Refusal::Future, SealedError::StoreOlder { .. })
                            | (Refusal::Gap, SealedError::Gap { .. })
                            | (Refusal::NotAnchored, SealedError::NotAnchored { .. })
                            | (
                                Refusal::NoRecord,
                                SealedError::StoreEmpty | SealedError::Store(TrustedStoreError::Damaged)
                            )
                    ),
                    (Outcome::Stopped(Stop::Store), Err(SealedError::Store(_))) => true,
                    (Outcome::Stopped(Stop::Medium), Err(error)) => {
                        *error == SealedError::Medium(FlashCause::Driver(REFUSED))
                    }
                    _ => false,
                };
                assert!(agrees, "{op:?}: {outcome:?}, {opened:?}");
            }
            (_, Outcome::Stopped(Stop::PowerLoss)) => {
                assert!(self.act(op).is_err() && self.script.0.borrow().off, "{op:?}: the power is cut");
                self.volume = None;
            }
            _ => {
                let done = self.act(op);
                let agrees = match outcome {
                    Outcome::Done => done == Ok(()),
                    Outcome::Stopped(Stop::Bad) => matches!(done, Err(FlashCause::BadBlock { .. })),
                    Outcome::Stopped(Stop::Medium) => done == Err(FlashCause::Driver(REFUSED)),
                    Outcome::Stopped(Stop::Store) => matches!(done, Err(FlashCause::TrustedStore(_))),
                    Outcome::Stopped(Stop::Tampered) => done == Err(FlashCause::Stopped),
                    Outcome::Stopped(Stop::Closed) => {
                        matches!(
                            done,
                            Err(FlashCause::Closed { .. }
                                | FlashCause::Void { .. }
                                | FlashCause::AlreadyProgrammed { .. })
                        )
                    }
                    _ => false,
                };
                assert!(agrees, "{op:?}: {outcome:?}, {done:?}");
            }
        }
        let left = self.script.0.borrow().events.len();
        assert_eq!(left, 0, "{op:?}: the model does more: {:?}", self.script.0.borrow().events);
        if let (Some(model), Some(_)) = (model, &self.volume) {
            self.compare(world, model, op == Op::Mount);
        }
    }
}

fn against_the_model<A: Aead, S: Store>(name: &'static str, sample: usize, whole: usize, on_read: bool) {
    let (mut sum, mut steps) = (Statistics::default(), 0);
    Campaign::new(name, sample, whole).run(|seed, _| {
        let mut real = Real::<A, S>::new();
        let setup =
            Setup { seed, flaw: None, marginal: false, cycles: 14, trust: S::TRUST, copies: false, on_read };
        let (statistics, violation) = run(setup, &mut real);
        assert_eq!(violation, None);
        sum.add(statistics);
        steps += real.steps;
    });
    println!("{}: {steps} steps alike; {sum:?}", A::NAME);
}

#[test]
fn every_step_is_that_of_the_model() {
    against_the_model::<ChaCha20Poly1305, Hand>("sealed flash against its model", 75, 15_000, false);
}

/// Opened by the serials in the cells, which the adversary writes as well.
#[test]
fn every_step_is_that_of_the_model_if_units_are_verified_when_they_are_read() {
    against_the_model::<ChaCha20Poly1305, Hand>("sealed flash against its model, fast", 75, 15_000, true);
    against_the_model::<Aes128CcmTag96, Hand>("sealed flash against its model, fast, CCM", 30, 2_000, true);
    type Counted = CounterStore<LogHand, LogHand>;
    against_the_model::<ChaCha20Poly1305, Counted>("counter store against its model, fast", 30, 5_000, true);
}

#[test]
fn every_step_is_that_of_the_model_with_other_ciphers() {
    against_the_model::<AsconAead128, Hand>("sealed flash against its model, Ascon", 30, 2_000, false);
    against_the_model::<Aes128CcmTag96, Hand>(
        "sealed flash against its model, CCM with short tags",
        30,
        2_000,
        false,
    );
}

/// The log on the medium, claimed at every opening, with the power cut between an entry and the increment, attacked.
#[test]
fn every_step_with_a_counter_is_that_of_the_model() {
    type Counted = CounterStore<LogHand, LogHand>;
    against_the_model::<ChaCha20Poly1305, Counted>("counter store against its model", 75, 15_000, false);
}
