//! A volume in use. Power fails under it, and somebody else changes its medium: what is then read is what was stored last, or an error.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use atrest_device::{FlashCause, FlashDevice as _};
use atrest_flash::sealed::SealedMedium;

use super::attacks::{self, Witness};
use super::rig::{
    BLOCKS, Bench, Content, PAYLOAD, Seen, State, UNITS, Volume, address, bytes_of, fits, options, read_all,
};
/// Operations that one input may ask for.
const MOST: usize = 80;

/// A program of operations on a sealed volume.
pub fn sealed_flash(data: &[u8]) {
    // Where the input ends nothing more is done.
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let bench = Bench::new(options(u)?);
    let mut volume = Some(bench.format());
    let mut used = Used::new(&bench);
    for _ in 0..MOST {
        if u.is_empty() {
            break;
        }
        let open = volume.as_mut().expect("it is open between operations");
        match u.int_in_range(0..=15)? {
            0..=2 => used.erase(open, place(u)?.0),
            3..=7 => {
                let (block, unit) = place(u)?;
                used.program(open, block, unit);
            }
            8 => used.settle(open.sync().map_err(|error| error.cause)),
            9 => used.settle(open.anchor()),
            10 => used.look(open),
            11 => {
                if u.arbitrary()? {
                    used.settle(open.close());
                }
                // Without it power is switched off.
                bench.medium.borrow_mut().has_power = false;
            }
            12 => bench.medium.borrow_mut().left = Some(u.int_in_range(0..=9)?),
            13 => used.witness.take(&bench),
            14 => attacks::on_medium(&bench, &used, u)?,
            _ => attacks::live(&bench, &used, u)?,
        }
        if !bench.medium.borrow().has_power {
            volume = Some(used.restart(u.arbitrary()?));
        }
    }
    if let Some(mut open) = volume {
        used.look(&mut open);
        used.settle(open.close());
    }
    Ok(())
}

fn place(u: &mut Unstructured<'_>) -> Result<(usize, usize)> {
    let number: u8 = u.arbitrary()?;
    Ok((usize::from(number >> 2) % BLOCKS, usize::from(number & 3)))
}

/// What a block is in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not erased since power-on.
    Void,
    /// Begun in this session: units can be added.
    Begun,
    /// Begun in an earlier one.
    Earlier,
}

/// What was done, and what must hold for it.
pub struct Used<'b> {
    bench: &'b Bench,
    /// States since the store was written last, the present one at the end.
    since: Vec<State>,
    /// The first of them that the operation under way has known.
    first: usize,
    phases: Vec<Phase>,
    number: u32,
    records: u64,
    pub witness: Witness,
}

impl<'b> Used<'b> {
    fn new(bench: &'b Bench) -> Self {
        let (since, phases) = (vec![vec![Vec::new(); BLOCKS]], vec![Phase::Void; BLOCKS]);
        let records = bench.stored.get();
        Self { bench, since, first: 0, phases, number: 1, records, witness: Witness::default() }
    }

    fn now(&self) -> &State {
        self.since.last().expect("there is a present")
    }

    /// Whether a volume may show this after somebody has put together a medium as he likes.
    pub fn may_be(&self, seen: &[Vec<Seen>]) -> bool {
        self.is_one_of(seen, 0)
    }

    /// In order, a volume is as it was at one time. With a cache, each block is as it was at some time.
    fn is_one_of(&self, seen: &[Vec<Seen>], first: usize) -> bool {
        let states = &self.since[first..];
        let all = |state: &State| seen.iter().zip(state).all(|(seen, held)| fits(seen, held));
        match self.bench.options.medium {
            SealedMedium::Ordered => states.iter().any(all),
            _ => (0..BLOCKS).all(|block| states.iter().any(|state| fits(&seen[block], &state[block]))),
        }
    }

    fn begin(&mut self) {
        self.first = self.since.len() - 1;
    }

    /// The state is another from now on.
    fn change(&mut self, block: usize, held: Vec<Content>) {
        let mut state = self.now().clone();
        state[block] = held;
        self.since.push(state);
    }

    /// What an operation that the model expects to succeed has come to.
    fn settle(&mut self, done: core::result::Result<(), FlashCause>) {
        let power = self.bench.medium.borrow().has_power;
        match done {
            Ok(()) => assert!(power, "done without power"),
            Err(_) if !power => {}
            Err(cause) => panic!("refused: {cause}"),
        }
        // Whatever the store was written for, it was within the operation.
        if self.bench.stored.get() != self.records {
            self.since.drain(..self.first);
            (self.first, self.records) = (0, self.bench.stored.get());
        }
        if power {
            self.first = self.since.len() - 1;
        }
    }

    fn erase(&mut self, volume: &mut Volume<'_>, block: usize) {
        self.begin();
        self.change(block, Vec::new());
        self.phases[block] = Phase::Begun;
        let len = (UNITS * PAYLOAD) as u64;
        let done = volume.erase(address(block, 0), len);
        self.settle(done.map_err(|error| error.cause));
    }

    fn program(&mut self, volume: &mut Volume<'_>, block: usize, unit: usize) {
        self.begin();
        self.number += 1;
        let (held, content) = (self.now()[block].clone(), Some(self.number));
        let address = address(block, unit);
        let named = block as u64;
        let refused = match self.phases[block] {
            Phase::Void => Some(FlashCause::Void { block: named }),
            Phase::Earlier => Some(FlashCause::Closed { block: named }),
            Phase::Begun if unit < held.len() => Some(FlashCause::AlreadyProgrammed { unit: address }),
            Phase::Begun if unit > held.len() + 1 => Some(FlashCause::OutOfOrder { next: held.len() as u32 }),
            Phase::Begun => None,
        };
        let before = self.bench.medium.borrow().writes;
        if refused.is_none() {
            let mut held = held;
            while held.len() < unit {
                held.push(None);
                self.change(block, held.clone());
                self.witness.programmed(block, &held);
            }
            held.push(content);
            self.witness.programmed(block, &held);
            self.change(block, held);
        }
        let done = volume.prog(address, &bytes_of(content)).map_err(|error| error.cause);
        match refused {
            Some(cause) => {
                assert_eq!(done, Err(cause));
                assert_eq!(self.bench.medium.borrow().writes, before, "a refused program has written");
            }
            None => self.settle(done),
        }
    }

    /// All that is there is what was stored.
    fn look(&mut self, volume: &mut Volume<'_>) {
        let seen = read_all(volume);
        for (block, (seen, held)) in seen.iter().zip(self.now()).enumerate() {
            assert!(fits(seen, held), "block {block} reads as {seen:?}, and holds {held:?}");
            assert!(!seen.contains(&Seen::Tampered), "a false alarm in block {block}");
        }
        assert!(!volume.is_stopped() && !volume.is_damaged());
    }

    /// After a power loss: what was done is there, and what was being done is, or is not.
    fn restart(&mut self, kept: u64) -> Volume<'b> {
        let first = match self.bench.options.medium {
            SealedMedium::Ordered => self.first,
            _ => 0,
        };
        self.bench.medium.borrow_mut().restart(kept);
        let mut volume = self.bench.mount().unwrap_or_else(|error| panic!("after a power loss: {error}"));
        let seen = read_all(&mut volume);
        assert!(
            self.is_one_of(&seen, first),
            "after a power loss: {seen:?}, one of {:?}",
            &self.since[first..]
        );
        let held = |block: usize| {
            let mut states = self.since[first..].iter().rev();
            let fitting = states.find(|state| exactly(&seen[block], &state[block]));
            fitting.expect("found above")[block].clone()
        };
        let found: State = (0..BLOCKS).map(held).collect();
        let phase = |held: &Vec<Content>| if held.is_empty() { Phase::Void } else { Phase::Earlier };
        self.phases = found.iter().map(phase).collect();
        (self.since, self.first, self.records) = (vec![found], 0, self.bench.stored.get());
        volume
    }
}

/// Whether a block that was read right after opening holds this and no more.
fn exactly(seen: &[Seen], held: &[Content]) -> bool {
    let rest = if held.is_empty() { Seen::Void } else { Seen::Closed };
    fits(seen, held) && seen[held.len()..].iter().all(|seen| *seen == rest)
}

/// So that a failure says what it was about.
impl core::fmt::Debug for Used<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let numbers: BTreeSet<_> = self.now().iter().flatten().flatten().collect();
        f.debug_struct("Used").field("now", self.now()).field("numbers", &numbers).finish_non_exhaustive()
    }
}
