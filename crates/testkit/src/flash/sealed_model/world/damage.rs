//! What attacks have left on the medium when an opening took that over: units that fail, and that nobody need have read.

use super::{BLANK, BLOCKS, Cell, Content, MARKED_CELLS, World};
use crate::flash::sealed_model::model::{Epoch, Stamp};

/// What is damaged of the honest medium.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// The honest medium with those units put right that an attack had damaged when an opening took it over.
    pub(super) undamaged: Vec<[Cell; MARKED_CELLS]>,
    /// Whether openings have gone by serials ever since: the first one that reads everything knows of what is damaged.
    unread: bool,
}

impl Damage {
    pub(super) fn none() -> Self {
        Self { undamaged: vec![BLANK; BLOCKS], unread: false }
    }
}

impl World {
    /// An opening has found this on the medium, and goes on from it, whoever has changed what.
    pub(in crate::flash::sealed_model) fn take_over(&mut self, held: &[Stamp]) {
        self.damage = self.damage_once_held(held);
        self.honest = self.medium.clone();
        self.attacked = false;
    }

    /// What is damaged once an opening has taken the medium over. After an attack that can be any unit that it holds. Otherwise it is what
    /// was damaged before.
    pub(super) fn damage_once_held(&self, held: &[Stamp]) -> Damage {
        let mut undamaged = self.medium.clone();
        if !self.attacked {
            for (block, cell) in self.damaged() {
                undamaged[block][cell] = self.damage.undamaged[block][cell];
            }
            return Damage { undamaged, unread: self.damage.unread && self.by_serials };
        }
        for &(block, epoch, fill) in held {
            for (unit, cell) in undamaged[block].iter_mut().enumerate().take(fill) {
                if !self.is_sealed(*cell, (block, unit), epoch) {
                    *cell = self.sealed((block, unit), epoch);
                }
            }
        }
        Damage { undamaged, unread: self.by_serials }
    }

    /// Whether an attack had damaged this unit when an opening took it over.
    pub(in crate::flash::sealed_model) fn is_damaged(&self, (block, cell): (usize, usize)) -> bool {
        self.honest[block][cell] != self.damage.undamaged[block][cell]
    }

    /// Puts right what is damaged and no opening has read. Whether there was anything.
    pub(in crate::flash::sealed_model) fn put_right(&mut self) -> bool {
        let damaged = self.damaged();
        if damaged.is_empty() || !self.damage.unread {
            return false;
        }
        for (block, cell) in damaged {
            self.medium[block][cell] = self.damage.undamaged[block][cell];
        }
        self.honest.clone_from(&self.damage.undamaged);
        true
    }

    fn damaged(&self) -> Vec<(usize, usize)> {
        let places = (0..BLOCKS).flat_map(|block| (0..MARKED_CELLS).map(move |cell| (block, cell)));
        places.filter(|place| self.is_damaged(*place)).collect()
    }

    /// Whether a cell is the unit that was sealed for a place under an epoch; it may read right every other time.
    fn is_sealed(&self, cell: Cell, place: (usize, usize), of: Epoch) -> bool {
        match self.cells[cell] {
            Content::Marginal(cell) => self.is_sealed(cell, place, of),
            Content::Unit { block, unit, epoch, .. } => (block, unit) == place && epoch == of,
            _ => false,
        }
    }

    /// The unit that was sealed last for a place under an epoch.
    fn sealed(&self, place: (usize, usize), epoch: Epoch) -> Cell {
        let sealed = (0..self.cells.len()).rev().find(|cell| self.is_sealed(*cell, place, epoch));
        sealed.expect("what an opening holds was sealed")
    }
}
