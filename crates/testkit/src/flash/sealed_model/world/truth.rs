//! What a volume may show after all that was done to it.

use super::{BLOCKS, Change, Contents, World};

impl World {
    /// Whether a mount may show this: what is anchored and a beginning of what was done since.
    pub(in crate::flash::sealed_model) fn permits(&self, found: &Contents) -> bool {
        if !self.ordered {
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
    pub(in crate::flash::sealed_model) fn is_complete(&self, found: &Contents) -> bool {
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
