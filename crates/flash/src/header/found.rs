//! What was found in the two places of a header, and which copy counts.

use atrest_device::FlashError;
use atrest_keyslot::flash::{HeaderError, Uuid};

use super::FlashHeaderError;

/// How a copy of the header is.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Whole, and the newest.
    Current,
    /// Whole, and older than the other one: a change was cut short.
    Outdated,
    /// No header: erased, half-written or damaged, as a change that was cut short leaves it too.
    Bad(HeaderError),
    /// The medium can't read it.
    Unreadable,
}

/// What was found in a copy.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    Whole { sequence: u64, uuid: Uuid },
    Bad(HeaderError),
    Unreadable(FlashError),
}

impl Found {
    pub(crate) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Whole { sequence, .. } => Some(*sequence),
            _ => None,
        }
    }

    /// Whether a change that was cut short can leave this beside a whole copy.
    fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::Unreadable(_)
                | Self::Bad(HeaderError::Blank | HeaderError::Foreign | HeaderError::Checksum)
        )
    }
}

/// Which copy counts. Where both are whole, the one with the higher sequence number; the first if they are equal.
///
/// A copy whose checksum fits and which is refused all the same stops everything: falling back to the other one could mean
/// falling back to keys that were removed.
pub(crate) fn newest(found: &[Found; 2]) -> Result<usize, FlashHeaderError> {
    match found {
        [Found::Whole { sequence: a, uuid: of_a }, Found::Whole { sequence: b, uuid: of_b }] => {
            if of_a == of_b { Ok(usize::from(b > a)) } else { Err(FlashHeaderError::CopiesDisagree) }
        }
        [Found::Whole { .. }, other] if other.is_harmless() => Ok(0),
        [other, Found::Whole { .. }] if other.is_harmless() => Ok(1),
        _ => Err(found
            .iter()
            .map(complaint)
            .max_by_key(|(rank, _)| *rank)
            .map_or(FlashHeaderError::Header(HeaderError::Blank), |(_, error)| error)),
    }
}

/// What is wrong with a copy, and how near it is to a header.
fn complaint(found: &Found) -> (u8, FlashHeaderError) {
    match found {
        Found::Bad(error) => {
            let rank = match error {
                HeaderError::Blank => 1,
                HeaderError::Foreign => 2,
                HeaderError::Checksum => 4,
                _ => 5,
            };
            (rank, FlashHeaderError::Header(*error))
        }
        Found::Unreadable(error) => (3, FlashHeaderError::Flash(*error)),
        Found::Whole { .. } => (0, FlashHeaderError::CopiesDisagree),
    }
}

#[cfg(test)]
mod tests {
    use atrest_device::{FlashCause, FlashOperation};

    use super::*;

    fn whole(sequence: u64, volume: u8) -> Found {
        Found::Whole { sequence, uuid: [volume; 16] }
    }

    fn flash_error() -> FlashError {
        FlashError::new(FlashOperation::Read, 0, 512, FlashCause::Uncorrectable)
    }

    const OTHER_VERSION: HeaderError = HeaderError::Version { version: 9 };

    #[test]
    fn the_copy_with_the_higher_number_counts_and_the_first_of_equal_ones() {
        for (a, b, counts) in [(1, 2, 1), (2, 1, 0), (2, 2, 0), (0, u64::MAX, 1), (u64::MAX, 0, 0)] {
            assert_eq!(newest(&[whole(a, 1), whole(b, 1)]), Ok(counts), "{a}, {b}");
            let mixed = newest(&[whole(a, 1), whole(b, 2)]);
            assert_eq!(mixed, Err(FlashHeaderError::CopiesDisagree), "{a}, {b}: of two volumes");
        }
    }

    #[test]
    fn a_copy_stands_alone_beside_what_a_change_leaves_that_was_cut_and_beside_nothing_else() {
        for bad in [HeaderError::Blank, HeaderError::Foreign, HeaderError::Checksum] {
            assert_eq!(newest(&[whole(1, 1), Found::Bad(bad)]), Ok(0), "{bad:?}");
            assert_eq!(newest(&[Found::Bad(bad), whole(1, 1)]), Ok(1), "{bad:?}");
        }
        assert_eq!(newest(&[whole(1, 1), Found::Unreadable(flash_error())]), Ok(0));
        assert_eq!(newest(&[Found::Unreadable(flash_error()), whole(1, 1)]), Ok(1));
        let refused = Err(FlashHeaderError::Header(OTHER_VERSION));
        assert_eq!(newest(&[whole(1, 1), Found::Bad(OTHER_VERSION)]), refused);
        assert_eq!(newest(&[Found::Bad(OTHER_VERSION), whole(1, 1)]), refused);
    }

    /// From what is farthest from a header to what is nearest.
    #[test]
    fn of_two_copies_that_are_no_header_the_complaint_is_of_the_nearer_one() {
        let header = |error| (Found::Bad(error), FlashHeaderError::Header(error));
        let ranks = [
            header(HeaderError::Blank),
            header(HeaderError::Foreign),
            (Found::Unreadable(flash_error()), FlashHeaderError::Flash(flash_error())),
            header(HeaderError::Checksum),
            header(OTHER_VERSION),
        ];
        for (far, (farther, _)) in ranks.iter().enumerate() {
            for (nearer, error) in ranks.iter().skip(far) {
                assert_eq!(newest(&[*farther, *nearer]), Err(*error));
                assert_eq!(newest(&[*nearer, *farther]), Err(*error));
            }
        }
    }
}
