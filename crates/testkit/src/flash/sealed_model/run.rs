//! Volumes that are used, cut off from power and attacked, and what must never be seen.

use super::attack::attack;
use super::model::{Answer, Flaw, Model, Policy, Stop};
use super::world::{BLOCKS, LOG_PAGES, Trust, UNITS, World};
use crate::Random;

/// What must never happen.
pub type Violation = &'static str;

/// A volume to be run.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Determines everything.
    pub seed: u64,
    /// A design that does not hold, or the one that does.
    pub flaw: Option<Flaw>,
    /// Whether torn cells may read right every other time.
    pub marginal: bool,
    /// Power-ons.
    pub cycles: usize,
    /// What is trusted.
    pub trust: Trust,
    /// Whether copies of medium and record are used as well, and volumes are made again under the same key. Of a counter there is no copy.
    pub copies: bool,
    /// Whether units are verified when they are read, rather than when the volume is opened.
    pub on_read: bool,
}

/// Something that is done to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes it.
    Format,
    /// Opens it.
    Mount,
    /// Programs the next unit of a block.
    Prog(usize, u64),
    /// Erases a block.
    Erase(usize),
    /// Syncs; writes the record if so asked.
    Sync(bool),
    /// Closes it, and goes on perhaps.
    Close,
    /// Reads a unit.
    Read(usize, usize),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not.
    Stopped(Stop),
    /// What was read.
    Read(Answer),
}

/// Someone who does the same with another implementation, and compares.
pub trait Twin {
    /// Before the model does `op`.
    fn before(&mut self, world: &World, op: Op);
    /// When the model has; what it did to medium and store is in `world.events`.
    fn after(&mut self, world: &World, model: Option<&Model>, op: Op, outcome: Outcome);
}

/// Nobody.
impl Twin for () {
    fn before(&mut self, _: &World, _: Op) {}
    fn after(&mut self, _: &World, _: Option<&Model>, _: Op, _: Outcome) {}
}

/// How much was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Power-ons.
    pub cycles: u64,
    /// Power losses.
    pub cuts: u64,
    /// Attacks, each of one to six changes.
    pub attacks: u64,
    /// Times that a medium was opened or refused.
    pub mounts: u64,
    /// Times that it was refused.
    pub refused: u64,
    /// Times that it was opened past something that fails.
    pub damaged: u64,
    /// Times that it was opened by its serials.
    pub unread: u64,
    /// Units that failed after an opening, whether it knew of them or not.
    pub failing: u64,
    /// Reads that told of tampering.
    pub detected: u64,
    /// Reads.
    pub reads: u64,
    /// Times that a medium was refused for units that an attack had damaged before an earlier opening, which did not read them.
    pub late_alarms: u64,
    /// Alarms that nobody but a marginal cell had caused.
    pub marginal_alarms: u64,
    /// Writes of the record, programs, erases.
    pub operations: [u64; 3],
    /// Increments of the counter.
    pub steps: u64,
    /// Openings that were made to go on from another record than the newest of those that might count.
    pub choices: u64,
    /// Volumes that were made again under the same key, when everything had been wiped.
    pub formats: u64,
    /// Programs, erases, syncs, increments and writes of the store that were refused.
    pub refusals: u64,
    /// Copies that were used, and volumes made again beside the one that is attacked.
    pub copies: u64,
}

impl Statistics {
    /// Adds another volume's.
    pub fn add(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.cuts += other.cuts;
        self.attacks += other.attacks;
        self.mounts += other.mounts;
        self.refused += other.refused;
        self.damaged += other.damaged;
        self.unread += other.unread;
        self.failing += other.failing;
        self.detected += other.detected;
        self.reads += other.reads;
        self.late_alarms += other.late_alarms;
        self.marginal_alarms += other.marginal_alarms;
        self.steps += other.steps;
        self.choices += other.choices;
        self.formats += other.formats;
        self.refusals += other.refusals;
        self.copies += other.copies;
        self.operations.iter_mut().zip(other.operations).for_each(|(sum, more)| *sum += more);
    }
}

struct Run<'a, T> {
    world: World,
    twin: &'a mut T,
    flaw: Option<Flaw>,
    /// Every so many syncs write the record.
    every: u64,
    copies: bool,
    data: u64,
    statistics: Statistics,
}

/// Makes a volume and runs it through its power-ons. The policy, whether the medium is ordered and so on are drawn.
pub fn run<T: Twin>(setup: Setup, twin: &mut T) -> (Statistics, Option<Violation>) {
    let mut random = Random::new(setup.seed);
    let needs_order = [Some(Flaw::Mix), Some(Flaw::Append), Some(Flaw::MediumCounter)].contains(&setup.flaw);
    let ordered = (random.below(4) > 0 || needs_order) && setup.flaw != Some(Flaw::NoSync);
    let policy = *random.pick(&[Policy::Slot, Policy::Store]);
    let read_back = random.below(2) == 0;
    let every = if ordered { *random.pick(&[1, 2, 5, 50]) } else { 1 };
    let mut world = World::new(random, ordered, policy, read_back, setup.marginal, setup.trust);
    world.flaky = setup.trust == Trust::Counter && world.random.below(4) == 0;
    world.on_read = setup.on_read;
    let (flaw, statistics) = (setup.flaw, Statistics::default());
    let copies = setup.copies && setup.trust == Trust::Record;
    let mut run = Run { world, twin, flaw, every, copies, data: 0, statistics };
    run.all(setup.cycles);
    run.statistics.operations = run.world.counts;
    (run.statistics.steps, run.statistics.choices) = (run.world.log.steps, run.world.log.choices);
    run.statistics.refusals = run.world.refusals;
    (run.statistics, run.world.violation)
}

impl<T: Twin> Run<'_, T> {
    fn all(&mut self, cycles: usize) {
        let mut model = self.format();
        for cycle in 0..cycles {
            self.statistics.cycles += 1;
            if self.world.trust == Trust::Counter && self.world.random.below(30) == 0 {
                let page = self.world.random.below(LOG_PAGES as u64) as usize;
                self.world.log.bad.get_or_insert(page);
            }
            self.world.fuse = (self.world.random.below(5) > 0).then(|| self.world.random.below(22));
            self.world.refusing = self.world.random.below(3) == 0;
            if self.use_volume(&mut model, cycle % 3 == 2) {
                self.statistics.cuts += 1;
            }
            (self.world.fuse, self.world.refusing) = (None, false);
            if self.copies && self.world.random.below(3) == 0 {
                self.use_copy();
            }
            if self.world.random.below(10) < 6 {
                self.snapshot();
                self.attack();
            }
            let Some(next) = self.mount() else { return };
            model = next;
            if self.world.violation.is_some() {
                return;
            }
        }
    }

    /// Until the power is lost (true), or switched off in good order.
    fn use_volume(&mut self, model: &mut Model, live: bool) -> bool {
        let steps = 1 + self.world.random.below(25);
        let mut syncs = 0;
        for _ in 0..steps {
            self.snapshot();
            if live && self.world.random.below(16) == 0 {
                self.attack();
            }
            let roll = self.world.random.below(100);
            let mut ops = Vec::new();
            if roll < 45 {
                let open: Vec<usize> =
                    (0..BLOCKS).filter(|block| model.is_open(*block) && model.fill[*block] < UNITS).collect();
                if !open.is_empty() {
                    ops.push(Op::Prog(*self.world.random.pick(&open), self.fresh()));
                }
            } else if roll < 75 {
                let block = self.world.random.below(BLOCKS as u64) as usize;
                ops.push(Op::Erase(block));
                let units = self.world.random.below(4);
                ops.extend((0..units).map(|_| Op::Prog(block, self.fresh())));
            } else if roll < 92 {
                syncs += 1;
                let close = syncs % self.every == 0 && self.world.random.below(5) == 0;
                ops.push(if close { Op::Close } else { Op::Sync(syncs % self.every == 0) });
            } else {
                ops = self.reads(3);
            }
            for op in ops {
                let mut outcome = self.step(model, op);
                if outcome == Outcome::Stopped(Stop::Medium) && self.world.random.below(2) == 0 {
                    // Who is refused tries again.
                    outcome = self.step(model, op);
                }
                match outcome {
                    Outcome::Stopped(Stop::PowerLoss) => return true,
                    Outcome::Stopped(Stop::Tampered) => return self.idle_cut(),
                    Outcome::Stopped(Stop::Bad | Stop::Medium | Stop::Store) => break,
                    _ => {}
                }
            }
        }
        // After a refusal the volume is closed more often: what must not be forgotten over that is what counts.
        let closes = if self.world.refusing { 7 } else { 3 };
        if self.world.random.below(10) < closes {
            for _ in 0..3 {
                match self.step(model, Op::Close) {
                    Outcome::Done => return false,
                    Outcome::Stopped(Stop::PowerLoss) => return true,
                    _ => {}
                }
            }
        }
        self.idle_cut()
    }

    /// Somebody uses a copy of the volume, or makes one anew under its key, and the adversary looks on.
    fn use_copy(&mut self) {
        let mut copy = self.world.copied();
        let again = copy.random.below(4) == 0;
        if again {
            copy.wipe();
        }
        let opened =
            if again { Model::format(&mut copy, self.flaw) } else { Model::mount(&mut copy, self.flaw) };
        if let Ok(mut model) = opened {
            self.statistics.copies += 1;
            let steps = 1 + copy.random.below(12);
            for _ in 0..steps {
                let block = copy.random.below(BLOCKS as u64) as usize;
                let units = copy.random.below(4);
                let done = model
                    .erase(&mut copy, block)
                    .and_then(|()| (0..units).try_for_each(|_| model.prog(&mut copy, block, self.fresh())));
                if done.is_err() {
                    break;
                }
                copy.snapshots.push((copy.medium.clone(), copy.log.pages));
            }
            if copy.random.below(2) == 0 && model.close(&mut copy).is_err() {
                copy.violate("a copy could not be closed");
            }
        }
        self.world.has_seen(copy);
    }

    /// Power is lost while nothing is done.
    fn idle_cut(&mut self) -> bool {
        (self.world.fuse, self.world.refusing) = (Some(0), false);
        self.world.sync().is_err()
    }

    fn step(&mut self, model: &mut Model, op: Op) -> Outcome {
        self.twin.before(&self.world, op);
        self.world.events.clear();
        let world = &mut self.world;
        let result = match op {
            Op::Prog(block, data) => model.prog(world, block, data),
            Op::Erase(block) => model.erase(world, block),
            Op::Sync(anchor) => model.sync(world, anchor),
            Op::Close => model.close(world),
            Op::Read(block, unit) => {
                let answer = model.read(world, block, unit);
                self.judge(model, block, unit, answer);
                self.twin.after(&self.world, Some(model), op, Outcome::Read(answer));
                return Outcome::Read(answer);
            }
            Op::Format | Op::Mount => Ok(()),
        };
        let outcome = result.map_or_else(Outcome::Stopped, |()| Outcome::Done);
        if outcome == Outcome::Stopped(Stop::Bad) && !self.world.attacked && !self.world.marginal {
            self.world.violate("a unit does not read back that nobody has touched");
        }
        self.twin.after(&self.world, Some(model), op, outcome);
        outcome
    }

    fn judge(&mut self, model: &Model, block: usize, unit: usize, answer: Answer) {
        self.statistics.reads += 1;
        let stored = model.contents[block].get(unit).copied();
        let known = self.world.is_damaged((block, unit)) && (model.is_unread() || model.is_hole(block));
        match answer {
            Answer::Data(data) if Some(data) != stored => self.world.violate("a read returned other data"),
            Answer::Open | Answer::Closed | Answer::Void if stored.is_some() => {
                self.world.violate("stored data was not returned");
            }
            Answer::Tampered if self.world.attacked || known => self.statistics.detected += 1,
            Answer::Tampered if self.world.marginal => self.statistics.marginal_alarms += 1,
            Answer::Tampered => self.world.violate("false alarm on read"),
            _ => {}
        }
    }

    /// Opens the volume, in several attempts if need be; none if something was violated.
    fn mount(&mut self) -> Option<Model> {
        for attempt in 1.. {
            self.statistics.mounts += 1;
            // Operations before an opening writes its record: none, or those of a log.
            let (of, most) = if self.world.trust == Trust::Counter { (3, 14) } else { (5, 3) };
            self.world.fuse = (self.world.random.below(of) == 0).then(|| self.world.random.below(most));
            let (attempts, attacked) = (self.world.attempts.len(), self.world.attacked);
            self.twin.before(&self.world, Op::Mount);
            self.world.events.clear();
            self.world.opening = true;
            self.world.refusing = attempt < 4 && self.world.random.below(8) == 0;
            let refusals = self.world.refusals;
            let result = Model::mount(&mut self.world, self.flaw);
            let refused = std::mem::take(&mut self.world.log.failed) | (self.world.refusals > refusals);
            (self.world.opening, self.world.refusing) = (false, false);
            let outcome = result.as_ref().map_or_else(|stop| Outcome::Stopped(*stop), |_| Outcome::Done);
            self.twin.after(&self.world, result.as_ref().ok(), Op::Mount, outcome);
            match result {
                Ok(mut model) => {
                    self.statistics.damaged += u64::from(model.is_damaged());
                    if !self.world.opened.permits(&model.contents, self.world.ordered) {
                        self.world.violate("undetected: a state that the volume never had");
                    } else if !attacked
                        && self.world.ordered
                        && !self.world.marginal
                        && !self.world.opened.is_complete(&model.contents)
                    {
                        self.world.violate("completed data was lost without an attack");
                    }
                    self.world.fuse = None;
                    self.world.take_over(&model.held());
                    self.check_failing(&model);
                    if self.world.truth.done == 0 && self.flaw == Some(Flaw::NoCloseWindow) {
                        self.world.truth.done = self.world.truth.changes.len();
                    }
                    for op in self.reads(4) {
                        self.step(&mut model, op);
                    }
                    return self.world.violation.is_none().then_some(model);
                }
                Err(stop)
                    if stop == Stop::PowerLoss || refused && [Stop::Medium, Stop::Store].contains(&stop) =>
                {
                    // What may be anchored must have been permitted.
                    let anchored = self.world.attempts.get(attempts);
                    if anchored.is_some_and(|new| !self.world.opened.permits(&new.base, self.world.ordered)) {
                        self.world.violate("recovery anchored a state that the volume never had");
                    }
                    let chance = if self.world.trust == Trust::Counter { 6 } else { 3 };
                    if self.world.random.below(10) < chance {
                        self.attack();
                    }
                }
                // The volume was opened by its serials, and now those are not enough: but for what an attack has damaged it opens.
                Err(_) if self.world.on_read && !attacked && self.world.put_right() => {
                    self.statistics.late_alarms += 1;
                }
                Err(_) => {
                    if !attacked {
                        if !self.world.marginal {
                            self.world.violate("false alarm at mount");
                            return None;
                        }
                        self.statistics.marginal_alarms += 1;
                        return None;
                    }
                    self.statistics.refused += 1;
                    if attempt < 4 && self.world.random.below(2) == 0 {
                        self.attack();
                    } else if self.world.trust == Trust::Counter && self.world.random.below(4) == 0 {
                        return self.format_again();
                    } else {
                        // The honest medium must still open.
                        self.world.medium = self.world.honest.clone();
                        self.world.restore_log();
                        self.world.attacked = false;
                    }
                }
            }
            if self.world.violation.is_some() {
                return None;
            }
        }
        None
    }

    /// What fails when the volume has been opened was changed by an attack before this opening, or before an earlier one.
    fn check_failing(&mut self, model: &Model) {
        let failing = model.failing(&mut self.world);
        if failing.iter().any(|place| !self.world.is_damaged(*place)) && !self.world.marginal {
            self.world.violate("a unit fails that nobody has touched");
        }
        self.statistics.unread += u64::from(model.is_unread());
        self.statistics.failing += failing.len() as u64;
    }

    /// Somebody has wiped everything that can be written, and the volume's owner takes it for new.
    fn format_again(&mut self) -> Option<Model> {
        self.world.wipe();
        self.world.fuse = None;
        self.statistics.formats += 1;
        Some(self.format())
    }

    /// With a counter that fails, in several attempts.
    fn format(&mut self) -> Model {
        loop {
            self.twin.before(&self.world, Op::Format);
            self.world.events.clear();
            let result = Model::format(&mut self.world, self.flaw);
            let outcome = result.as_ref().map_or_else(|stop| Outcome::Stopped(*stop), |_| Outcome::Done);
            self.twin.after(&self.world, result.as_ref().ok(), Op::Format, outcome);
            match result {
                Ok(model) => return model,
                Err(_) => self.world.wipe(),
            }
        }
    }

    fn reads(&mut self, count: usize) -> Vec<Op> {
        let mut unit = || {
            (self.world.random.below(BLOCKS as u64) as usize, self.world.random.below(UNITS as u64) as usize)
        };
        (0..count).map(|_| unit()).map(|(block, unit)| Op::Read(block, unit)).collect()
    }

    fn attack(&mut self) {
        attack(&mut self.world);
        self.world.attacked = true;
        self.statistics.attacks += 1;
    }

    fn snapshot(&mut self) {
        let snapshot = (self.world.medium.clone(), self.world.log.pages);
        self.world.snapshots.push(snapshot);
        if self.world.snapshots.len() > 30 {
            self.world.snapshots.remove(0);
        }
    }

    fn fresh(&mut self) -> u64 {
        self.data += 1;
        self.data
    }
}
