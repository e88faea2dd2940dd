//! Every state in which a power loss at any program or erase can leave a flash medium.

use std::fmt;

use super::image::{FlashImage, Tear};
use crate::Random;

/// Something that changed a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlashOp {
    /// A unit was programmed.
    Prog {
        /// Index of the block.
        block: usize,
        /// Index of the unit in it.
        unit: usize,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A block was erased.
    Erase {
        /// Index of the block.
        block: usize,
    },
}

/// Everything that changed a medium, with the contents before each change.
#[derive(Clone, Debug)]
pub struct FlashRecording {
    steps: Vec<Step>,
    promises: Vec<u64>,
    first_unsynced: usize,
    last: Option<FlashImage>,
}

#[derive(Clone, Debug)]
struct Step {
    before: FlashImage,
    op: FlashOp,
    /// Promises made by then.
    promises: usize,
    /// The first step that no sync had made durable by then.
    first_unsynced: usize,
}

/// Whether a medium has a cache that a sync empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Operations are durable in the order in which they return.
    None,
    /// Any of the operations since the last sync may be lost, and with an erase all later ones in its block.
    UntilSync,
}

/// One power loss. Its `Display` form names it; [`FlashRecording::aftermath`] builds what it leaves, always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// The operation that is cut, counted from the start of the recording.
    pub step: usize,
    /// How far it came.
    pub tear: Tear,
    /// What of the operations before it is lost.
    pub caching: Caching,
    /// Chooses bytes, bits and lost operations.
    pub seed: u64,
}

impl fmt::Display for PowerCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, tear, caching, seed } = self;
        write!(f, "operation {step} {tear}, seed {seed}")?;
        match caching {
            Caching::None => Ok(()),
            Caching::UntilSync => f.write_str(", unsynced operations lost"),
        }
    }
}

impl FlashRecording {
    pub(super) fn new() -> Self {
        Self { steps: Vec::new(), promises: Vec::new(), first_unsynced: 0, last: None }
    }

    pub(super) fn push(&mut self, before: FlashImage, op: FlashOp) {
        let (promises, first_unsynced) = (self.promises.len(), self.first_unsynced);
        self.steps.push(Step { before, op, promises, first_unsynced });
    }

    pub(super) fn sync(&mut self) {
        self.first_unsynced = self.steps.len();
    }

    pub(super) fn acknowledge(&mut self, promise: u64) {
        self.promises.push(promise);
    }

    pub(super) fn finish(&mut self, image: FlashImage) {
        self.last = Some(image);
    }

    /// Operations recorded.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing changed the medium.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// An operation.
    pub fn op(&self, step: usize) -> &FlashOp {
        &self.steps[step].op
    }

    /// What the medium held before each operation, and at the end.
    pub fn images(&self) -> impl Iterator<Item = &FlashImage> {
        self.steps.iter().map(|step| &step.before).chain(&self.last)
    }

    /// Every operation, cut in every way.
    pub fn cuts(&self, caching: Caching) -> Vec<PowerCut> {
        let tears = (0..self.steps.len()).flat_map(|step| Tear::ALL.map(|tear| (step, tear)));
        (0..).zip(tears).map(|(seed, (step, tear))| PowerCut { step, tear, caching, seed }).collect()
    }

    /// What a power loss leaves, and what had been promised by then and must hold.
    pub fn aftermath(&self, cut: PowerCut) -> (FlashImage, &[u64]) {
        let step = &self.steps[cut.step];
        let mut random = Random::new(cut.seed);
        let mut image = match cut.caching {
            Caching::None => step.before.clone(),
            Caching::UntilSync => self.with_losses(cut.step, &mut random),
        };
        match &step.op {
            // An operation whose block has lost its erase has nothing to happen to.
            FlashOp::Prog { block, unit, data } => {
                if image.is_blank(*block, *unit) {
                    image.tear_prog(*block, *unit, data, cut.tear, &mut random);
                }
            }
            FlashOp::Erase { block } => image.tear_erase(*block, cut.tear, &mut random),
        }
        (image, &self.promises[..step.promises])
    }

    /// The medium before a step if it has lost some of what was not synced by then.
    fn with_losses(&self, step: usize, random: &mut Random) -> FlashImage {
        let first = self.steps[step].first_unsynced;
        let unsynced = &self.steps[first..step];
        let mut image = self.steps[first].before.clone();
        let mut stale = Vec::new();
        for Step { op, .. } in unsynced {
            let arrived = random.below(2) == 0;
            match op {
                FlashOp::Prog { block, unit, data } if arrived && !stale.contains(block) => {
                    image.prog(*block, *unit, data);
                }
                FlashOp::Erase { block } if arrived && !stale.contains(block) => image.erase(*block),
                FlashOp::Erase { block } => stale.push(*block),
                FlashOp::Prog { .. } => {}
            }
        }
        image
    }
}
