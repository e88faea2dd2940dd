//! What a volume may show after all that was done to it.

use super::{BLOCKS, Cell, Change, Contents, Damage, MARKED_CELLS};
use crate::flash::sealed_model::model::{Record, Stamp};

/// What is anchored, and what has been done since.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Which of all attempts at anchoring something this was.
    pub number: usize,
    pub record: Option<Record>,
    /// What is anchored of each block, as the record's tag would confirm it.
    pub sum: Vec<Stamp>,
    pub base: Contents,
    pub changes: Vec<Change>,
    pub done: usize,
    pub victim: Option<usize>,
    /// A block whose last unit was reported as not stored.
    pub spoilt: Option<usize>,
    /// The honest medium that goes with it, while it is not the truth.
    pub medium: Vec<[Cell; MARKED_CELLS]>,
    /// And what is damaged of it.
    pub damage: Damage,
}

impl Truth {
    pub fn anchored(number: usize, record: Record, sum: Vec<Stamp>, base: Contents) -> Self {
        let victim = record.victim.map(|(block, ..)| block);
        Self { number, record: Some(record), sum, base, victim, ..Self::default() }
    }

    /// Whether a mount may show this: what is anchored and a beginning of what was done since.
    pub fn permits(&self, found: &Contents, ordered: bool) -> bool {
        if !ordered {
            return self.permits_any_mixture(found);
        }
        let mut state = self.base.clone();
        let mut doubtful = [false; BLOCKS];
        self.victim.into_iter().for_each(|block| doubtful[block] = true);
        let is = |state: &Contents, doubtful: &[bool; BLOCKS]| {
            let mut blocks = found.iter().zip(state).zip(doubtful);
            blocks.all(|((found, state), doubtful)| found == state || (*doubtful && found.is_empty()))
        };
        if is(&state, &doubtful) {
            return true;
        }
        self.changes.iter().any(|change| {
            apply(*change, &mut state, &mut doubtful);
            is(&state, &doubtful)
        })
    }

    fn permits_any_mixture(&self, found: &Contents) -> bool {
        let mut states: Vec<Vec<Vec<u64>>> = self.base.iter().map(|block| vec![block.clone()]).collect();
        self.victim.into_iter().for_each(|block| states[block].push(Vec::new()));
        let mut now = self.base.clone();
        for change in &self.changes {
            let mut doubtful = [false; BLOCKS];
            apply(*change, &mut now, &mut doubtful);
            match *change {
                Change::Doubtful(block) => states[block].push(Vec::new()),
                Change::Unit(block, ..) => states[block].push(now[block].clone()),
            }
        }
        found.iter().zip(&states).all(|(found, states)| states.contains(found))
    }

    /// Whether everything is there that was complete when the power failed.
    pub fn is_complete(&self, found: &Contents) -> bool {
        let mut state = self.base.clone();
        let mut doubtful = [false; BLOCKS];
        self.victim.into_iter().for_each(|block| doubtful[block] = true);
        for change in &self.changes[..self.done] {
            apply(*change, &mut state, &mut doubtful);
        }
        let cut = self.changes.get(self.done).map(|change| match *change {
            Change::Doubtful(block) | Change::Unit(block, ..) => block,
        });
        (0..BLOCKS).all(|block| {
            found[block] == state[block] || doubtful[block] || [cut, self.spoilt].contains(&Some(block))
        })
    }
}

fn apply(change: Change, state: &mut Contents, doubtful: &mut [bool; BLOCKS]) {
    match change {
        Change::Doubtful(block) => doubtful[block] = true,
        Change::Unit(block, 0, data) => {
            state[block] = vec![data];
            doubtful[block] = false;
        }
        Change::Unit(block, _, data) => state[block].push(data),
    }
}
