//! A map from runs of addresses to where their blocks lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format::Prelude;

/// Where the blocks of a run lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: they read as zeros.
    Hole,
    /// In a log object, the first of them in this slot, and so on.
    Stored(Arc<Prelude>, u32),
}

impl Place {
    /// The place of a block so far behind the first one. Both lie in one object, whose slots a `u32` counts.
    fn advanced(&self, by: u64) -> Self {
        match self {
            Self::Hole => Self::Hole,
            Self::Stored(object, slot) => Self::Stored(Arc::clone(object), slot + by as u32),
        }
    }
}

/// Runs that do not overlap: what came last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    runs: BTreeMap<u64, (u64, Place)>,
}

impl Extents {
    /// Puts a run over what is there.
    pub(crate) fn insert(&mut self, start: u64, len: u64, place: Place) {
        if len == 0 {
            return;
        }
        let (mut start, mut len) = (start, len);
        // Holes that touch are one: a device that is wiped is not as many runs as it has blocks.
        if place == Place::Hole
            && let Some((&first, (run, Place::Hole))) = self.runs.range(..start).next_back()
            && first + run == start
        {
            (start, len) = (first, run + len);
        }
        self.cut(start, start + len);
        self.runs.insert(start, (len, place));
    }

    /// Forgets what is known of a range.
    pub(crate) fn cut(&mut self, start: u64, end: u64) {
        if let Some((&first, (run, _))) = self.runs.range_mut(..start).next_back()
            && first + *run > start
        {
            let (old, behind) = (*run, first + *run);
            *run = start - first;
            if behind > end {
                let (_, place) = &self.runs[&first];
                let rest = place.advanced(end - first);
                debug_assert!(old > end - first);
                self.runs.insert(end, (behind - end, rest));
            }
        }
        while let Some((&first, (run, place))) = self.runs.range(start..end).next() {
            let behind = first + run;
            let rest = (behind > end).then(|| (behind - end, place.advanced(end - first)));
            self.runs.remove(&first);
            if let Some(rest) = rest {
                self.runs.insert(end, rest);
            }
        }
    }

    /// What is known at a block: how many blocks from it on are alike, and their place. `Err` has how many are unknown.
    pub(crate) fn find(&self, block: u64) -> Result<(u64, Place), u64> {
        if let Some((&first, (len, place))) = self.runs.range(..=block).next_back()
            && first + len > block
        {
            return Ok((first + len - block, place.advanced(block - first)));
        }
        Err(self.runs.range(block..).next().map_or(u64::MAX, |(first, _)| first - block))
    }

    /// All runs, by their addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &Place)> {
        self.runs.iter().map(|(start, (len, place))| (*start, *len, place))
    }

    /// The parts of runs that lie in a range.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, Place)> {
        let first = self.runs.range(..=start).next_back().map_or(start, |(first, _)| *first);
        self.runs.range(first..end).filter_map(move |(at, (len, place))| {
            let (from, to) = ((*at).max(start), (at + len).min(end));
            (from < to).then(|| (from, to - from, place.advanced(from - at)))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// All runs but holes.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (u64, u64, Place)> {
        let stored = |(_, _, place): &(u64, u64, &Place)| **place != Place::Hole;
        self.iter().filter(stored).map(|(start, len, place)| (start, len, place.clone()))
    }

    /// How many log objects something lies in.
    pub(crate) fn objects(&self) -> usize {
        let salts = self.runs.values().filter_map(|(_, place)| match place {
            Place::Hole => None,
            Place::Stored(object, _) => Some(object.salt),
        });
        salts.collect::<std::collections::HashSet<_>>().len()
    }
}

impl FromIterator<(u64, u64, Place)> for Extents {
    fn from_iter<T: IntoIterator<Item = (u64, u64, Place)>>(runs: T) -> Self {
        let mut extents = Self::default();
        extents.extend(runs);
        extents
    }
}

impl Extend<(u64, u64, Place)> for Extents {
    fn extend<T: IntoIterator<Item = (u64, u64, Place)>>(&mut self, runs: T) {
        runs.into_iter().for_each(|(start, len, place)| self.insert(start, len, place));
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Random;

    use super::*;
    use crate::format::{Aead, Kind};

    #[test]
    fn runs_over_runs_are_what_an_array_of_blocks_is() {
        let object = |number| {
            let prelude = Prelude {
                kind: Kind::Log,
                aead: Aead::Aes256Gcm,
                slots: 1000,
                summary_len: 0,
                number,
                format: [0; 16],
                session: [0; 32],
                salt: [0; 16],
                epoch: 0,
            };
            Arc::new(prelude)
        };
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (mut extents, mut array) = (Extents::default(), vec![None; 40]);
            for number in 0..30 {
                let start = random.below(40);
                let len = random.below(40 - start + 1).min(random.below(20));
                let object = object(number);
                let hole = random.below(3) == 0;
                let place = if hole { Place::Hole } else { Place::Stored(Arc::clone(&object), 7) };
                extents.insert(start, len, place.clone());
                for at in start..start + len {
                    array[at as usize] = Some(if hole { Place::Hole } else { place.advanced(at - start) });
                }
                for (at, want) in (0..).zip(&array) {
                    match (extents.find(at), want) {
                        (Ok((run, place)), Some(want)) => {
                            assert!(place == *want && run >= 1 && at + run <= 40);
                            for further in 0..run {
                                assert_eq!(array[(at + further) as usize], Some(place.advanced(further)));
                            }
                        }
                        (Err(run), None) => assert!(
                            array.iter().skip(at as usize).take(run.min(40) as usize).all(Option::is_none)
                        ),
                        other => panic!("{other:?} at {at}, seed {seed}"),
                    }
                }
                let (from, to) = (random.below(20), 20 + random.below(20));
                let mut again = vec![None; 40];
                for (start, len, place) in extents.within(from, to) {
                    (0..len).for_each(|by| again[(start + by) as usize] = Some(place.advanced(by)));
                }
                let cut = |at: usize| (from..to).contains(&(at as u64)).then(|| array[at].clone()).flatten();
                assert!((0..40).all(|at| again[at] == cut(at)), "seed {seed}");
            }
        }
    }
}
