//! The two places of the header on a medium: reading them, choosing between them, replacing one.

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_keyslot::flash::{FlashSizes, HEADER_LEN, Header, HeaderError, Uuid};

use super::{FlashHeaderError, sizes_of};

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
enum Found {
    Whole { sequence: u64, uuid: Uuid },
    Bad(HeaderError),
    Unreadable(FlashError),
}

/// A medium with places for two copies.
pub(super) struct Copies<D, B> {
    device: D,
    scratch: B,
    /// Whole prog units of it are used.
    scratch_len: usize,
    sizes: FlashSizes,
}

impl<D: FlashDevice, B: AsMut<[u8]>> Copies<D, B> {
    /// Looks whether the scratch buffer and the medium have room.
    pub(super) fn new(device: D, mut scratch: B) -> Result<Self, FlashHeaderError> {
        let geometry = device.geometry();
        let has = scratch.as_mut().len();
        let prog = geometry.prog_size() as usize;
        // cannot underflow: a remainder is no more than the whole. No geometry has units of 0 bytes.
        let scratch_len = has.saturating_sub(has.checked_rem(prog).unwrap_or(has));
        if scratch_len == 0 {
            return Err(FlashHeaderError::ScratchTooSmall { needs: geometry.prog_size(), has });
        }
        let sizes = sizes_of(geometry);
        if sizes.block_count <= sizes.first_data_block() {
            let needs =
                // cannot overflow: a header takes a few blocks.
                sizes.first_data_block().saturating_add(1).saturating_mul(u64::from(sizes.erase_size));
            return Err(FlashHeaderError::CutInSize { needs, has: geometry.size() });
        }
        Ok(Self { device, scratch, scratch_len, sizes })
    }

    pub(super) fn geometry(&self) -> FlashGeometry {
        self.device.geometry()
    }

    pub(super) fn into_device(self) -> D {
        self.device
    }

    /// First byte of a copy, 0 or 1. No overflow: both copies were found to lie on the medium.
    fn start(&self, copy: usize) -> u64 {
        // cannot overflow: both copies were found to lie on the medium.
        self.copy_len().saturating_mul(copy as u64)
    }

    /// Bytes that belong to a copy.
    fn copy_len(&self) -> u64 {
        // cannot overflow: both copies were found to lie on the medium.
        self.sizes.blocks_per_copy().saturating_mul(u64::from(self.sizes.erase_size))
    }

    /// Reads the newer whole copy into `bytes`. Gives its number and how both are.
    pub(super) fn load(
        &mut self,
        bytes: &mut [u8; HEADER_LEN],
    ) -> Result<(usize, [CopyState; 2]), FlashHeaderError> {
        let found = [self.look(0, bytes), self.look(1, bytes)];
        let current = newest(&found)?;
        // The second one is there already.
        if current == 0 {
            self.read(0, bytes)?;
            Header::parse(bytes).map_err(FlashHeaderError::Header)?;
        }
        let newest = found.iter().filter_map(Found::sequence).max();
        let states = found.map(|found| match found {
            Found::Whole { sequence, .. } if Some(sequence) == newest => CopyState::Current,
            Found::Whole { .. } => CopyState::Outdated,
            Found::Bad(error) => CopyState::Bad(error),
            Found::Unreadable(_) => CopyState::Unreadable,
        });
        Ok((current, states))
    }

    fn look(&mut self, copy: usize, bytes: &mut [u8; HEADER_LEN]) -> Found {
        if let Err(error) = self.read(copy, bytes) {
            return Found::Unreadable(error);
        }
        match Header::parse(bytes) {
            Ok(header) => Found::Whole { sequence: header.sequence(), uuid: header.params().uuid },
            Err(error) => Found::Bad(error),
        }
    }

    /// Whether there is something in a copy that looks like a header, whole or not. What can't be read may be one.
    pub(super) fn holds_a_header(
        &mut self,
        copy: usize,
        bytes: &mut [u8; HEADER_LEN],
    ) -> Result<bool, FlashError> {
        match self.look(copy, bytes) {
            Found::Bad(HeaderError::Blank | HeaderError::Foreign) => Ok(false),
            Found::Unreadable(error) => Err(error),
            Found::Bad(_) | Found::Whole { .. } => Ok(true),
        }
    }

    /// Whether a copy's blocks are blank; None where that can't be asked.
    pub(super) fn is_blank(&mut self, copy: usize) -> Result<Option<bool>, FlashError> {
        let (start, len) = (self.start(copy), self.copy_len());
        match self.device.is_blank(start, len, self.scratch.as_mut()) {
            Ok(blank) => Ok(Some(blank)),
            Err(FlashError { cause: FlashCause::Unsupported, .. }) => Ok(None),
            Err(FlashError { cause: FlashCause::Uncorrectable, .. }) => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// Makes what a copy holds go away: erases it, or fills it with zeros where erasing is left to the medium. True if it
    /// was seen to be gone.
    pub(super) fn destroy(&mut self, copy: usize) -> Result<bool, FlashError> {
        self.erase(copy)?;
        self.device.sync()?;
        match self.is_blank(copy)? {
            Some(blank) => Ok(blank),
            None => {
                let zeros = [0; HEADER_LEN];
                self.program(copy, &zeros)?;
                self.holds(copy, &zeros)
            }
        }
    }

    /// Replaces a copy and makes it durable. True if it reads back.
    pub(super) fn replace(&mut self, copy: usize, bytes: &[u8; HEADER_LEN]) -> Result<bool, FlashError> {
        self.erase(copy)?;
        self.program(copy, bytes)?;
        self.holds(copy, bytes)
    }

    fn erase(&mut self, copy: usize) -> Result<(), FlashError> {
        let (start, len) = (self.start(copy), self.copy_len());
        self.device.erase(start, len)
    }

    fn program(&mut self, copy: usize, bytes: &[u8; HEADER_LEN]) -> Result<(), FlashError> {
        let start = self.start(copy);
        let prog = self.sizes.prog_size as usize;
        for (part, at) in bytes.chunks(self.scratch_len).zip((start..).step_by(self.scratch_len)) {
            let len = part.len().next_multiple_of(prog);
            let units = room(&mut self.scratch, len)?;
            // What is left of the last unit is as if it had not been programmed.
            units.fill(0xff);
            let (used, _) = units.split_at_mut(part.len());
            used.copy_from_slice(part);
            self.device.prog(at, units)?;
        }
        self.device.sync()
    }

    fn read(&mut self, copy: usize, bytes: &mut [u8; HEADER_LEN]) -> Result<(), FlashError> {
        let start = self.start(copy);
        let prog = self.sizes.prog_size as usize;
        for (part, at) in bytes.chunks_mut(self.scratch_len).zip((start..).step_by(self.scratch_len)) {
            let units = room(&mut self.scratch, part.len().next_multiple_of(prog))?;
            self.device.read(at, units)?;
            // The units have room for the part and for what is left of the last one.
            let (read, _) = units.split_at(part.len());
            part.copy_from_slice(read);
        }
        Ok(())
    }

    /// Whether that is what a copy reads as.
    fn holds(&mut self, copy: usize, bytes: &[u8; HEADER_LEN]) -> Result<bool, FlashError> {
        let start = self.start(copy);
        let prog = self.sizes.prog_size as usize;
        for (part, at) in bytes.chunks(self.scratch_len).zip((start..).step_by(self.scratch_len)) {
            let units = room(&mut self.scratch, part.len().next_multiple_of(prog))?;
            match self.device.read(at, units) {
                Ok(()) if units.starts_with(part) => {}
                Ok(()) | Err(FlashError { cause: FlashCause::Uncorrectable, .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// The first bytes of the scratch buffer, which was found to have room.
fn room<B: AsMut<[u8]>>(scratch: &mut B, len: usize) -> Result<&mut [u8], FlashError> {
    let has = scratch.as_mut().len() as u64;
    // intended: a number for the error message.
    let cause = FlashCause::BufferTooSmall { needs: u32::try_from(len).unwrap_or(u32::MAX), has };
    scratch.as_mut().get_mut(..len).ok_or(FlashError::new(FlashOperation::Read, 0, len as u64, cause))
}

impl Found {
    fn sequence(&self) -> Option<u64> {
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
fn newest(found: &[Found; 2]) -> Result<usize, FlashHeaderError> {
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
