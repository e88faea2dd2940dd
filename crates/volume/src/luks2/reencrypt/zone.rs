//! Which hot zone comes next, and what the segments look like while it is rewritten and afterwards. Everything follows
//! from the metadata, so that whoever resumes, we or cryptsetup, goes on where the header says.

mod check;
mod row;

use atrest_format::luks2::{
    ReencryptDirection, ReencryptMode, Reencryption, Resilience, Segment, SegmentKind, SegmentSize,
};

use super::ReencryptError;
use crate::Devices;

pub(super) use row::linear;

/// A run of data that is rewritten at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// First byte, counted from the start of the volume's data.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// First byte on the data device of what is read.
    pub source: u64,
    /// First byte on the data device of what is written.
    pub target: u64,
}

/// Segments and the digests that they belong to.
pub(super) struct Layout {
    pub(super) segments: Vec<Segment>,
    pub(super) digests: Vec<(u32, Vec<u32>)>,
}

/// In which order the zones follow, and where their data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Where they are, from the start.
    Forward,
    /// Where they are, from the end.
    Backward,
    /// From the end, each to a place behind the one it is read from: the header gets more room. What was at the end of the device goes.
    BehindHeader,
    /// From the end, each to a place behind the one it is read from: a header comes in front of the data. Its head, which made
    /// room for the header, comes last.
    AwayFromHeader,
    /// From the start, each to a place in front of the one it is read from: the header goes. The head of the data, which was
    /// moved over the header, comes last, and is rewritten where it is.
    OverHeader,
}

/// A re-encryption whose every number was held against the others and the device.
pub(super) struct Course {
    pub(super) state: Reencryption,
    pub(super) kind: Kind,
    /// Bytes of data in all.
    pub(super) total: u64,
    /// The last active segment has a size, as cryptsetup writes it for devices of which a part is used.
    fixed: bool,
}

impl Course {
    /// Checks that it is one of the kinds that are known here, that it fits on the data device, and that none of its
    /// data reaches into the header, which takes the first `header` bytes of the header device.
    pub(super) fn new(
        state: Reencryption,
        devices: Devices<'_>,
        header: u64,
    ) -> Result<Self, ReencryptError> {
        let device = devices.data.size();
        let fixed = state.active.last().is_some_and(|segment| segment.size != SegmentSize::Dynamic);
        let kind = kind_of(&state)?;
        let total = match kind {
            Kind::AwayFromHeader => fixed_size(&state.previous)?,
            Kind::OverHeader => match state.previous.size {
                SegmentSize::Fixed(bytes) => bytes,
                SegmentSize::Dynamic => {
                    device.checked_sub(state.previous.offset).ok_or(ReencryptError::DeviceSize)?
                }
            },
            _ if fixed => sum(&state.active)?,
            _ => device.checked_sub(state.last.offset).ok_or(ReencryptError::DeviceSize)?,
        };
        let course = Self { state, kind, total, fixed };
        course.check(device)?;
        course.check_apart(devices, header)?;
        Ok(course)
    }

    /// Of the first `bytes` of the data alone, of which zones are multiples of `block`. What lies behind them is not touched. Once the
    /// segments tell a size nothing else is possible, nor where data moves.
    pub(super) fn limited(mut self, bytes: u64, block: u64) -> Result<Self, ReencryptError> {
        if bytes == self.total {
            return Ok(self);
        }
        let done = self.done()?;
        let free = match self.kind {
            Kind::Forward => done < bytes,
            // From the end of the part, which is none of what is done.
            Kind::Backward => done == 0,
            Kind::BehindHeader | Kind::AwayFromHeader | Kind::OverHeader => false,
        };
        if self.fixed || !free || self.state.hot.is_some() || bytes == 0 || bytes > self.total {
            return Err(ReencryptError::Part { asked: bytes, of: self.total });
        }
        if !bytes.is_multiple_of(block) {
            return Err(ReencryptError::Misaligned { size: bytes, multiple: block });
        }
        (self.total, self.fixed) = (bytes, true);
        Ok(self)
    }

    /// Bytes that are done: from the start, or from the end if the head was moved.
    pub(super) fn done(&self) -> Result<u64, ReencryptError> {
        let active = &self.state.active;
        if let Some(hot) = self.hot_zone()? {
            return Ok(match self.kind {
                Kind::Forward => hot.offset,
                // cannot be less: hot_zone ends inside the data.
                Kind::Backward | Kind::BehindHeader | Kind::AwayFromHeader => {
                    self.total.saturating_sub(hot.offset).saturating_sub(hot.len)
                }
                Kind::OverHeader => self.done_in_front_of(hot.offset)?,
            });
        }
        if self.kind == Kind::AwayFromHeader {
            let linear: Vec<Segment> =
                active.iter().filter(|s| s.kind == SegmentKind::Linear).cloned().collect();
            return self.total.checked_sub(sum(&linear)?).ok_or(ReencryptError::Row);
        }
        if self.kind == Kind::OverHeader {
            return match active.as_slice() {
                [only] if only.kind == SegmentKind::Linear => Ok(self.total),
                [_] => Ok(0),
                [_, second] if second.kind != SegmentKind::Linear => Ok(0),
                // All but the head.
                [_, _] => self.done_in_front_of(0),
                [_, done, _] => fixed_size(done),
                _ => Err(ReencryptError::Row),
            };
        }
        match active.as_slice() {
            [only] if self.is_done(only) => Ok(self.total),
            [_] => Ok(0),
            [first, _] if matches!(self.kind, Kind::Backward | Kind::BehindHeader) => {
                self.total.checked_sub(fixed_size(first)?).ok_or(ReencryptError::Row)
            }
            [first, _] => fixed_size(first),
            _ => Err(ReencryptError::Row),
        }
    }

    /// What is done before the zone at `offset` where the header goes: the head is the last zone.
    fn done_in_front_of(&self, offset: u64) -> Result<u64, ReencryptError> {
        let before = if offset == 0 { self.total } else { offset };
        before.checked_sub(self.head_len()?).ok_or(ReencryptError::Row)
    }

    /// Bytes in the head that was moved; 0 if none was.
    fn head_len(&self) -> Result<u64, ReencryptError> {
        self.state.moved.as_ref().map_or(Ok(0), fixed_size)
    }

    /// Whether a segment of a row, in which `done` bytes are done and none is hot, holds its data as it is to be.
    pub(super) fn is_new(&self, segment: &Segment, is_first: bool, done: u64) -> bool {
        match self.kind {
            _ if done >= self.total => true,
            Kind::Forward => is_first && done > 0,
            Kind::Backward | Kind::BehindHeader => !is_first,
            Kind::AwayFromHeader | Kind::OverHeader => {
                (segment.kind == SegmentKind::Linear) == (self.state.last.kind == SegmentKind::Linear)
            }
        }
    }

    /// What is done when `zone` is.
    pub(super) fn done_with(&self, zone: &Zone) -> Result<u64, ReencryptError> {
        // cannot overflow: Course::check holds zones, shift and total against the device.
        let end = zone.offset.saturating_add(zone.len);
        Ok(match self.kind {
            Kind::Forward => end,
            // cannot be less: a zone begins inside the data.
            Kind::Backward | Kind::BehindHeader | Kind::AwayFromHeader => {
                self.total.saturating_sub(zone.offset)
            }
            Kind::OverHeader if zone.offset == 0 => self.total,
            Kind::OverHeader => end.checked_sub(self.head_len()?).ok_or(ReencryptError::Row)?,
        })
    }

    /// Whether a zone is read where it is written, so that something has to protect it.
    pub(super) fn in_place(&self, zone: &Zone) -> bool {
        zone.source == zone.target
    }

    /// What nothing but ciphertext of the old key is left in when data has moved: first byte and bytes.
    pub(super) fn left_behind(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::OverHeader => self.state.resilience.shift().map(|shift| (self.total, shift)),
            Kind::BehindHeader => {
                self.state.resilience.shift().map(|shift| (self.state.previous.offset, shift))
            }
            _ => None,
        }
    }

    /// Whether all data is done and nothing is left to do but to remove the mark: no zone is hot, nothing was moved, and
    /// the one active segment is the last one, under the new key.
    pub(super) fn only_marked(&self) -> bool {
        let (state, last) = (&self.state, &self.state.last);
        if state.mode == ReencryptMode::Decrypt {
            return state.hot.is_none()
                && matches!(state.active.as_slice(), [only] if only.kind == SegmentKind::Linear
                    && only.offset == last.offset && only.flags.is_empty());
        }
        let as_last = |only: &Segment| {
            only.offset == last.offset
                && only.size == last.size
                && only.flags.is_empty()
                && self.is_done(only)
        };
        state.mode == ReencryptMode::Reencrypt
            && state.hot.is_none()
            && state.moved.is_none()
            && matches!(state.active.as_slice(), [only] if as_last(only))
    }

    /// Whether a segment that holds all data holds it as it is to be.
    fn is_done(&self, only: &Segment) -> bool {
        let (previous, last) = (&self.state.previous, &self.state.last);
        only.kind == last.kind
            && match self.state.mode {
                ReencryptMode::Encrypt | ReencryptMode::Decrypt => true,
                ReencryptMode::Reencrypt => {
                    self.state.first_digests.iter().copied().map(Some).eq([self.state.digest_last])
                        && (previous.kind != last.kind
                            || (previous.offset != last.offset && only.offset == last.offset)
                            || self.state.digest_previous != self.state.digest_last)
                }
            }
    }

    /// The zone that a crash may have left half-written.
    pub(super) fn hot_zone(&self) -> Result<Option<Zone>, ReencryptError> {
        let Some(hot) = self.state.hot.and_then(|index| self.state.active.get(index)) else {
            return Ok(None);
        };
        let offset = hot.offset.checked_sub(self.state.last.offset).ok_or(ReencryptError::Row)?;
        let zone = self.zone(offset, fixed_size(hot)?);
        match offset.checked_add(zone.len).is_some_and(|end| end <= self.total) {
            true => Ok(Some(zone)),
            false => Err(ReencryptError::Row),
        }
    }

    /// The next zone, of at most `most` bytes where its size is free; `None` when all is done.
    pub(super) fn next(&self, most: u64) -> Result<Option<Zone>, ReencryptError> {
        let done = self.done()?;
        // cannot be less: check_row refuses more than all.
        let left = self.total.saturating_sub(done);
        if left == 0 {
            return Ok(None);
        }
        // intended: data that does not move is bounded by what is free to choose.
        let shift = self.state.resilience.shift().unwrap_or(most);
        let (offset, len) = match self.kind {
            Kind::Forward => (done, left.min(most)),
            // cannot be less: not more than what is left.
            Kind::Backward => (left.saturating_sub(left.min(most)), left.min(most)),
            // No more than a shift, so that nothing is written where the zone is read.
            Kind::BehindHeader => {
                let len = left.min(most).min(shift);
                // cannot be less: not more than what is left.
                (left.saturating_sub(len), len)
            }
            // Whole shifts from the end; what is left over is the last but one, as the moved head is a whole shift again.
            // intended: no more than a shift is left, and all of it comes next.
            Kind::AwayFromHeader => match left.saturating_sub(shift) {
                rest if rest > 0 && rest < shift => (shift, rest),
                rest => (rest, shift.min(left)),
            },
            Kind::OverHeader => {
                let head = self.head_len()?;
                match left.checked_sub(head).ok_or(ReencryptError::Row)? {
                    0 => (0, head),
                    // cannot overflow: inside the data.
                    rest => (head.saturating_add(done), rest.min(most).min(shift)),
                }
            }
        };
        Ok(Some(self.zone(offset, len)))
    }

    fn zone(&self, offset: u64, len: u64) -> Zone {
        let source = match &self.state.moved {
            Some(moved) if offset == 0 => moved.offset,
            // cannot overflow: Course::check holds zones, shift and total against the device.
            _ => self.state.previous.offset.saturating_add(offset),
        };
        // cannot overflow: Course::check holds zones, shift and total against the device.
        Zone { offset, len, source, target: self.state.last.offset.saturating_add(offset) }
    }
}

fn kind_of(state: &Reencryption) -> Result<Kind, ReencryptError> {
    use ReencryptDirection::{Backward, Forward};
    let in_place = state.moved.is_none() && state.previous.offset == state.last.offset;
    Ok(match (state.mode, state.direction, &state.resilience) {
        (_, direction, Resilience::None | Resilience::Journal | Resilience::Checksum(_)) if in_place => {
            match direction {
                Forward => Kind::Forward,
                Backward => Kind::Backward,
            }
        }
        (ReencryptMode::Reencrypt, Backward, Resilience::DataShift(shift))
            if state.moved.is_none()
                && shift.0 > 0
                && state.previous.offset.checked_add(shift.0) == Some(state.last.offset) =>
        {
            Kind::BehindHeader
        }
        (ReencryptMode::Encrypt, Backward, Resilience::DataShift(shift))
            if state.moved.is_some()
                && state.previous.offset == 0
                && state.last.offset == shift.0
                && state.last.offset > 0 =>
        {
            Kind::AwayFromHeader
        }
        (
            ReencryptMode::Decrypt,
            Forward,
            Resilience::DataShiftJournal(shift) | Resilience::DataShiftChecksum(_, shift),
        ) if state.moved.as_ref().is_some_and(|moved| moved.offset == 0)
            && state.last.offset == 0
            && state.previous.offset == shift.0
            && shift.0 > 0 =>
        {
            Kind::OverHeader
        }
        _ => return Err(ReencryptError::UnknownKind),
    })
}

/// Bytes in a segment's data unit.
pub(super) fn unit_of(segment: &Segment) -> u32 {
    match segment.kind {
        SegmentKind::Crypt { sector_size, .. } => sector_size,
        _ => 512,
    }
}

fn fixed_size(segment: &Segment) -> Result<u64, ReencryptError> {
    match segment.size {
        SegmentSize::Fixed(bytes) => Ok(bytes),
        SegmentSize::Dynamic => Err(ReencryptError::Row),
    }
}

fn sum(segments: &[Segment]) -> Result<u64, ReencryptError> {
    let mut total = 0_u64;
    for segment in segments {
        total = total.checked_add(fixed_size(segment)?).ok_or(ReencryptError::Row)?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests;
