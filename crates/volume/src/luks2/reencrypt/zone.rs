//! Which hot zone comes next, and what the segments look like while it is rewritten and afterwards. Everything follows
//! from the metadata, so that whoever resumes, we or cryptsetup, goes on where the header says.

use atrest_format::luks2::{
    ReencryptDirection, ReencryptMode, Reencryption, Resilience, Segment, SegmentKind, SegmentSize,
};

use super::ReencryptError;
use crate::luks2::unlock::run;
use crate::{Devices, UnlockError};

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

    /// Data is read and written in the active segments and, sooner or later, in all of the last one.
    fn check_apart(&self, devices: Devices<'_>, header: u64) -> Result<(), ReencryptError> {
        let state = &self.state;
        for segment in state.active.iter().chain(state.moved.as_ref()) {
            let len = run(segment, devices.data.size());
            devices.check_apart(header, segment.offset, len).map_err(UnlockError::from)?;
        }
        let last = devices.check_apart(header, state.last.offset, self.total);
        Ok(last.map_err(UnlockError::from)?)
    }

    fn check(&self, device: u64) -> Result<(), ReencryptError> {
        let unit = u64::from(unit_of(&self.state.previous).max(unit_of(&self.state.last)));
        if self.total == 0 || !self.total.is_multiple_of(unit) {
            return Err(ReencryptError::Misaligned { size: self.total, multiple: unit });
        }
        let fits = |offset: u64, len: u64| offset.checked_add(len).is_some_and(|end| end <= device);
        if !fits(self.state.last.offset, self.total) {
            return Err(ReencryptError::DeviceSize);
        }
        if let (Some(moved), Some(shift)) = (&self.state.moved, self.state.resilience.shift()) {
            let size = fixed_size(moved)?;
            let good = match self.kind {
                Kind::OverHeader => {
                    // What is read begins a shift behind what is written, and so does what is left of it.
                    fits(self.state.previous.offset, self.total)
                        && (1..=shift.min(self.total)).contains(&size)
                        && size.is_multiple_of(unit)
                        && moved.kind == self.state.previous.kind
                }
                _ => {
                    // The head was moved behind everything that is ever written.
                    // cannot overflow: it fits the device, as checked above.
                    let behind = self.state.last.offset.saturating_add(self.total);
                    size == shift && moved.offset >= behind && fits(moved.offset, size) && self.total >= shift
                }
            };
            if !good || !shift.is_multiple_of(unit) {
                return Err(ReencryptError::DeviceSize);
            }
        }
        for segment in [&self.state.previous, &self.state.last] {
            if matches!(&segment.kind, SegmentKind::Crypt { iv_tweak, integrity, .. } if *iv_tweak != 0 || integrity.is_some())
            {
                return Err(ReencryptError::UnknownKind);
            }
        }
        self.check_row()
    }

    /// The active segments are the row that this program would have made.
    fn check_row(&self) -> Result<(), ReencryptError> {
        let expected = match self.hot_zone()? {
            Some(zone) => self.hot(&zone)?,
            None => match self.done()? {
                0 => return self.check_beginning(),
                done if done == self.total => return Ok(()),
                done => self.after(done)?,
            },
        };
        let same = |a: &Segment, b: &Segment| {
            a.offset == b.offset && self.same_size(a, b) && a.kind == b.kind && a.flags == b.flags
        };
        let (found, made) = (&self.state.active, expected.segments);
        match found.len() == made.iter().filter(|segment| !segment.is_backup()).count()
            && found.iter().zip(&made).all(|(a, b)| same(a, b))
        {
            true => Ok(()),
            false => Err(ReencryptError::Row),
        }
    }

    /// Whether two sizes are the same. cryptsetup lets the last segment end with the device or with the data, as it is told each
    /// time, where the header goes.
    fn same_size(&self, a: &Segment, b: &Segment) -> bool {
        let reach = |segment: &Segment| match segment.size {
            SegmentSize::Fixed(bytes) => bytes,
            SegmentSize::Dynamic => {
                let base = match segment.kind == SegmentKind::Linear {
                    true => self.state.last.offset,
                    false => self.state.previous.offset,
                };
                // intended: a segment that begins behind the data has no bytes, as none that is expected has.
                self.total.saturating_sub(segment.offset.saturating_sub(base))
            }
        };
        a.size == b.size || (self.kind == Kind::OverHeader && reach(a) == reach(b))
    }

    fn check_beginning(&self) -> Result<(), ReencryptError> {
        let active = &self.state.active;
        let fits = match (self.kind, &self.state.moved) {
            (Kind::AwayFromHeader, Some(moved)) => {
                let shift = fixed_size(moved)?;
                let second = active.get(1);
                active.iter().all(|segment| segment.kind == SegmentKind::Linear)
                    && active.first().is_some_and(|s| s.offset == moved.offset && s.size == moved.size)
                    && active.len() == if self.total > shift { 2 } else { 1 }
                    && second.is_none_or(|second| second.offset == shift)
                    && sum(active)? == self.total
            }
            (Kind::OverHeader, Some(_)) => {
                let made = self.after(0)?.segments;
                active.len() == made.iter().filter(|segment| !segment.is_backup()).count()
                    && active.iter().zip(&made).all(|(a, b)| {
                        a.offset == b.offset && self.same_size(a, b) && a.kind == b.kind && a.flags.is_empty()
                    })
            }
            _ => {
                let (first, previous) = (active.first(), &self.state.previous);
                active.len() == 1
                    && first.is_some_and(|s| s.offset == previous.offset && s.kind == previous.kind)
            }
        };
        if fits { Ok(()) } else { Err(ReencryptError::Row) }
    }

    /// Bytes that are done: from the start, or from the end if the head was moved.
    pub(super) fn done(&self) -> Result<u64, ReencryptError> {
        let active = &self.state.active;
        if let Some(hot) = self.hot_zone()? {
            return Ok(match self.kind {
                Kind::Forward => hot.offset,
                // cannot be less: hot_zone ends inside the data.
                Kind::Backward | Kind::AwayFromHeader => {
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
            [first, _] if self.kind == Kind::Backward => {
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

    /// Whether an active segment, none of which is hot, holds its data as it is to be.
    pub(super) fn is_new(&self, segment: &Segment) -> Result<bool, ReencryptError> {
        let done = self.done()?;
        let is_first = self.state.active.first().is_some_and(|first| first.id == segment.id);
        Ok(match self.kind {
            _ if done >= self.total => true,
            Kind::Forward => is_first && done > 0,
            Kind::Backward => !is_first,
            Kind::AwayFromHeader | Kind::OverHeader => {
                (segment.kind == SegmentKind::Linear) == (self.state.last.kind == SegmentKind::Linear)
            }
        })
    }

    /// What is done when `zone` is.
    pub(super) fn done_with(&self, zone: &Zone) -> Result<u64, ReencryptError> {
        // cannot overflow: Course::check holds zones, shift and total against the device.
        let end = zone.offset.saturating_add(zone.len);
        Ok(match self.kind {
            Kind::Forward => end,
            // cannot be less: a zone begins inside the data.
            Kind::Backward | Kind::AwayFromHeader => self.total.saturating_sub(zone.offset),
            Kind::OverHeader if zone.offset == 0 => self.total,
            Kind::OverHeader => end.checked_sub(self.head_len()?).ok_or(ReencryptError::Row)?,
        })
    }

    /// Whether a zone is read where it is written, so that something has to protect it.
    pub(super) fn in_place(&self, zone: &Zone) -> bool {
        zone.source == zone.target
    }

    /// What nothing but ciphertext of the old key is left in when the header has gone: first byte and bytes.
    pub(super) fn left_behind(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::OverHeader => self.state.resilience.shift().map(|shift| (self.total, shift)),
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
            // Whole shifts from the end; what is left over is the last but one, as the moved head is a whole shift again.
            // intended: less than a shift is left, and all of it comes next.
            Kind::AwayFromHeader => match left.saturating_sub(shift) {
                rest if rest > 0 && rest < shift => (shift, rest),
                rest => (rest, shift),
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

    /// The segments while `zone` is hot.
    pub(super) fn hot(&self, zone: &Zone) -> Result<Layout, ReencryptError> {
        // cannot overflow: Course::check holds zones, shift and total against the device.
        let end = zone.offset.saturating_add(zone.len);
        let hot = self.new_segment(zone.offset, SegmentSize::Fixed(zone.len), &["in-reencryption"]);
        let mut row = Row::default();
        // cannot be less where it is asked for: compared before.
        let rest = SegmentSize::Fixed(self.total.saturating_sub(end));
        match self.kind {
            Kind::Forward => {
                if zone.offset > 0 {
                    row.push(self.new_segment(0, SegmentSize::Fixed(zone.offset), &[]), Side::New);
                }
                row.push(hot, Side::Both);
                if end < self.total {
                    row.push(self.old_segment(end), Side::Old);
                }
            }
            Kind::Backward => {
                if zone.offset > 0 {
                    row.push(self.old_front(zone.offset), Side::Old);
                }
                row.push(hot, Side::Both);
                if end < self.total {
                    let rest = if self.fixed { rest } else { SegmentSize::Dynamic };
                    row.push(self.new_segment(end, rest, &[]), Side::New);
                }
            }
            Kind::AwayFromHeader => {
                self.push_linear(zone.offset, &mut row)?;
                row.push(hot, Side::New);
                if end < self.total {
                    row.push(self.new_segment(end, rest, &[]), Side::New);
                }
            }
            Kind::OverHeader => {
                let head = self.head_len()?;
                if zone.offset == 0 {
                    row.push(hot, Side::Both);
                    if end < self.total {
                        row.push(self.new_segment(head, SegmentSize::Dynamic, &[]), Side::New);
                    }
                } else {
                    row.push(self.head()?, Side::Old);
                    if zone.offset > head {
                        // cannot be less: compared above.
                        let done = SegmentSize::Fixed(zone.offset.saturating_sub(head));
                        row.push(self.new_segment(head, done, &[]), Side::New);
                    }
                    row.push(hot, Side::Both);
                    if end < self.total {
                        row.push(self.old_segment(end), Side::Old);
                    }
                }
            }
        }
        Ok(self.layout(row))
    }

    /// The segments when `done` bytes are done and no zone is hot.
    pub(super) fn after(&self, done: u64) -> Result<Layout, ReencryptError> {
        let mut row = Row::default();
        let all = done >= self.total;
        match self.kind {
            Kind::Forward => {
                let size = if all { SegmentSize::Dynamic } else { SegmentSize::Fixed(done) };
                row.push(self.new_segment(0, size, &[]), Side::New);
                if !all {
                    row.push(self.old_segment(done), Side::Old);
                }
            }
            Kind::Backward => {
                // cannot be less: check_row refuses more than all.
                let left = self.total.saturating_sub(done);
                if left > 0 {
                    row.push(self.old_front(left), Side::Old);
                }
                let fixed = self.fixed && left > 0;
                let size = if fixed { SegmentSize::Fixed(done) } else { SegmentSize::Dynamic };
                row.push(self.new_segment(left, size, &[]), Side::New);
            }
            Kind::AwayFromHeader => {
                // cannot be less: check_row refuses more than all.
                let from = self.total.saturating_sub(done);
                self.push_linear(from, &mut row)?;
                let size = if all { SegmentSize::Dynamic } else { SegmentSize::Fixed(done) };
                row.push(self.new_segment(from, size, &[]), Side::New);
            }
            Kind::OverHeader if all => row.push(self.new_segment(0, SegmentSize::Dynamic, &[]), Side::New),
            Kind::OverHeader => {
                let head = self.head_len()?;
                // cannot overflow: inside the data.
                let end = head.saturating_add(done);
                row.push(self.head()?, Side::Old);
                if done > 0 {
                    let all = end >= self.total;
                    let size = if all { SegmentSize::Dynamic } else { SegmentSize::Fixed(done) };
                    row.push(self.new_segment(head, size, &[]), Side::New);
                }
                if end < self.total {
                    row.push(self.old_segment(end), Side::Old);
                }
            }
        }
        Ok(self.layout(row))
    }

    /// The plaintext below `end`, of which the moved head is the first part.
    fn push_linear(&self, end: u64, row: &mut Row) -> Result<(), ReencryptError> {
        let Some(moved) = &self.state.moved else { return Ok(()) };
        let head = fixed_size(moved)?;
        if end > 0 {
            row.push(linear(moved.offset, SegmentSize::Fixed(head)), Side::Plain);
        }
        if end > head {
            // cannot be less: compared above.
            row.push(linear(head, SegmentSize::Fixed(end.saturating_sub(head))), Side::Plain);
        }
        Ok(())
    }

    fn new_segment(&self, offset: u64, size: SegmentSize, flags: &[&str]) -> Segment {
        moved_to(&self.state.last, offset, size, flags)
    }

    /// The first `len` bytes as they were.
    fn old_front(&self, len: u64) -> Segment {
        moved_to(&self.state.previous, 0, SegmentSize::Fixed(len), &[])
    }

    /// The head where it was moved to.
    fn head(&self) -> Result<Segment, ReencryptError> {
        let moved = self.state.moved.as_ref().ok_or(ReencryptError::Row)?;
        Ok(Segment { flags: Vec::new(), ..moved.clone() })
    }

    fn old_segment(&self, offset: u64) -> Segment {
        let size = match self.fixed {
            // cannot be less: an old segment begins inside the data.
            true => SegmentSize::Fixed(self.total.saturating_sub(offset)),
            false => SegmentSize::Dynamic,
        };
        moved_to(&self.state.previous, offset, size, &[])
    }

    /// Numbers the row, and puts the backup segments behind it.
    fn layout(&self, row: Row) -> Layout {
        let (old, new) = (self.state.digest_previous, self.state.digest_last);
        let (mut segments, mut of_old, mut of_new) = (Vec::new(), Vec::new(), Vec::new());
        let backups = [
            Some((self.state.previous.clone(), Side::Old)),
            Some((self.state.last.clone(), Side::New)),
            self.state.moved.clone().map(|moved| (moved, Side::Old)),
        ];
        for ((segment, side), id) in row.0.into_iter().chain(backups.into_iter().flatten()).zip(0..) {
            let is_crypt = matches!(segment.kind, SegmentKind::Crypt { .. });
            if is_crypt && matches!(side, Side::Old | Side::Both) {
                of_old.push(id);
            }
            if is_crypt && matches!(side, Side::New | Side::Both) && !(side == Side::Both && old == new) {
                of_new.push(id);
            }
            segments.push(Segment { id, ..segment });
        }
        let digests = match (old, new) {
            (Some(old), Some(new)) if old == new => {
                of_old.extend(of_new);
                vec![(old, of_old)]
            }
            _ => [(old, of_old), (new, of_new)]
                .into_iter()
                .filter_map(|(digest, bound)| digest.map(|digest| (digest, bound)))
                .collect(),
        };
        Layout { segments, digests }
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

/// Whose key a segment is encrypted with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Plain,
    Old,
    New,
    Both,
}

#[derive(Default)]
struct Row(Vec<(Segment, Side)>);

impl Row {
    fn push(&mut self, segment: Segment, side: Side) {
        self.0.push((segment, side));
    }
}

/// Bytes in a segment's data unit.
pub(super) fn unit_of(segment: &Segment) -> u32 {
    match segment.kind {
        SegmentKind::Crypt { sector_size, .. } => sector_size,
        _ => 512,
    }
}

/// A segment as another, `offset` bytes into the data.
fn moved_to(like: &Segment, offset: u64, size: SegmentSize, flags: &[&str]) -> Segment {
    let mut kind = like.kind.clone();
    if let SegmentKind::Crypt { iv_tweak, .. } = &mut kind {
        *iv_tweak = offset / 512;
    }
    let flags = flags.iter().map(|flag| (*flag).into()).collect();
    // cannot overflow: Course::check holds zones, shift and total against the device.
    Segment { id: 0, offset: like.offset.saturating_add(offset), size, flags, kind }
}

pub(super) fn linear(offset: u64, size: SegmentSize) -> Segment {
    Segment { id: 0, offset, size, flags: Vec::new(), kind: SegmentKind::Linear }
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
