//! What a journal says is still to be done, decided as the kernel decides it (`replay_journal`).
//!
//! Sections are written in a ring, and each time round has the next of four rounds. The newest section is the last one of the newest
//! round. Behind it the oldest begins. Everything from there on, until a section that is not whole, is done again in order: what was done
//! already is only repeated.

use core::fmt;

/// What to do with a journal before anything else is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The first section to be done again.
    pub start: u32,
    /// How many of them, round the ring.
    pub count: u32,
    /// What follows.
    pub then: Continue,
    newest: u8,
}

/// How a journal goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continue {
    /// As it is: the next section is written in this round.
    At {
        /// The next section.
        section: u32,
        /// Its round.
        round: u8,
    },
    /// All sections are emptied in this round, first the one at `start`, alone, and last the one before it. The next section is the
    /// first, in the round behind this.
    Cleared {
        /// The round.
        round: u8,
        /// The section to be emptied first.
        start: u32,
    },
}

/// Why a journal can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// A sector was not written as part of this journal.
    CommitId {
        /// Its section.
        section: u32,
        /// The sector in it.
        sector: u32,
    },
    /// All four rounds occur, so none is the newest.
    Rounds,
    /// A section's keyed hash is wrong: the key is, or somebody changed the journal.
    Mac {
        /// The section.
        section: u32,
    },
    /// An entry names a sector at which no data unit begins.
    Sector {
        /// The section.
        section: u32,
        /// The sector.
        sector: u64,
    },
}

/// The round behind this one.
pub(super) fn next(round: u8) -> u8 {
    round.wrapping_add(1) & 3
}

fn previous(round: u8) -> u8 {
    round.wrapping_sub(1) & 3
}

impl Replay {
    /// Decides from the rounds that occur in each section, a bit for each, and from whether every entry is unused.
    ///
    /// # Errors
    /// [`JournalError::Rounds`] if all four occur.
    pub fn decide(sections: &[u8], empty: bool) -> Result<Self, JournalError> {
        let used = sections.iter().fold(0, |all, rounds| all | rounds);
        let is_used = |round: u8| used & 1 << round != 0;
        let unused = match is_used(3) {
            false => (0..3).rev().find(|round| is_used(*round)).map_or(0, next),
            true => (0..4).find(|round| !is_used(*round)).ok_or(JournalError::Rounds)?,
        };
        let last = previous(unused);
        let mut want = previous(last);
        let empty = empty || (!is_used(want) && is_used(previous(want)));
        let len = u32::try_from(sections.len()).map_err(|_| JournalError::Rounds)?;
        let newest = (0..).zip(sections).filter(|(_, rounds)| **rounds & 1 << last != 0).last();
        let newest: u32 = newest.map_or(0, |(section, _)| section);
        // cannot overflow: it is one of `len` sections, whose number fits in 32 bits.
        let mut start = newest.saturating_add(1);
        if start >= len {
            (start, want) = (0, next(want));
        }
        let (mut section, mut count) = (start, 0_u32);
        while count < len && sections.get(section as usize) == Some(&(1 << want)) {
            // cannot overflow: both are less than `len`.
            count = count.saturating_add(1);
            // cannot overflow: as `count`.
            section = section.saturating_add(1);
            if section >= len {
                (section, want) = (0, next(want));
            }
        }
        let then = match count == len {
            true => Continue::At { section: start, round: want },
            false => Continue::Cleared { round: previous(previous(last)), start },
        };
        Ok(Self { start, count: if empty { 0 } else { count }, then, newest: last })
    }

    /// Turns this into what to do with a journal that is to be empty afterwards.
    #[must_use]
    pub fn clearing(self) -> Self {
        Self { then: Continue::Cleared { round: previous(previous(self.newest)), start: self.start }, ..self }
    }
}

impl Continue {
    /// The next section and its round, once this is done.
    pub fn next(self) -> (u32, u8) {
        match self {
            Self::At { section, round } => (section, round),
            Self::Cleared { round, .. } => (0, next(round)),
        }
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dm-integrity's journal ")?;
        match self {
            Self::CommitId { section, sector } => {
                write!(
                    f,
                    "has no commit id in sector {sector} of section {section}: it is damaged, or encrypted"
                )
            }
            Self::Rounds => f.write_str("has sections of all four rounds, so none is the newest"),
            Self::Mac { section } => {
                write!(f, "has a wrong keyed hash in section {section}: the key is wrong, or it was changed")
            }
            Self::Sector { section, sector } => {
                write!(f, "names sector {sector} in section {section}, where no data unit begins")
            }
        }
    }
}

impl core::error::Error for JournalError {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Sections with one round each; 9 stands for a section with the rounds 0 and 1.
    fn decide(rounds: &[u8], empty: bool) -> (u32, u32, Continue) {
        let sections: Vec<u8> = rounds.iter().map(|round| if *round == 9 { 3 } else { 1 << round }).collect();
        let Replay { start, count, then, .. } = Replay::decide(&sections, empty).expect("a round is free");
        (start, count, then)
    }

    #[test]
    fn the_oldest_section_is_behind_the_newest_and_everything_follows_in_order() {
        let at = |section, round| Continue::At { section, round };
        assert_eq!(decide(&[0, 0, 0], true), (0, 0, at(0, 1)), "new");
        assert_eq!(decide(&[1, 0, 0], false), (1, 3, at(1, 1)));
        assert_eq!(decide(&[1, 1, 0], false), (2, 3, at(2, 1)));
        assert_eq!(decide(&[1, 1, 1], false), (0, 3, at(0, 2)));
        assert_eq!(decide(&[0, 3, 3], false), (1, 3, at(1, 0)), "round 0 is behind round 3");
        assert_eq!(decide(&[0], false), (0, 1, at(0, 1)));
    }

    #[test]
    fn what_is_behind_a_torn_section_is_left_out_and_the_journal_is_emptied() {
        let cleared = |round, start| Continue::Cleared { round, start };
        assert_eq!(decide(&[1, 9, 0, 0], false), (2, 3, cleared(3, 2)), "the newest is torn");
        assert_eq!(decide(&[2, 1, 0, 1], false), (1, 1, cleared(0, 1)), "the third was not written");
        assert_eq!(decide(&[9], false), (0, 0, cleared(3, 0)), "the only one");
        assert_eq!(cleared(3, 1).next(), (0, 0));
        assert_eq!(Replay::decide(&[1, 2, 4, 8], false), Err(JournalError::Rounds));
    }

    #[test]
    fn a_journal_that_is_to_be_empty_gets_a_round_that_nothing_has_for_newest() {
        for newest in 0..4_u8 {
            let sections = [1 << newest, 1 << ((newest + 3) % 4)];
            let replay = Replay::decide(&sections, false).expect("two rounds");
            let cleared = replay.clearing();
            assert_eq!(cleared.count, 2);
            let Continue::Cleared { round, start } = cleared.then else { panic!("{cleared:?}") };
            assert_eq!((round, start), ((newest + 2) % 4, 1));
            // A crash behind the first section that is emptied: nothing is done again.
            let half = Replay::decide(&[1 << newest, 1 << round], false).expect("two rounds");
            assert_eq!(half.count, 0, "{half:?}");
        }
    }
}
