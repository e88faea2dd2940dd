//! Whether a course is one that this program, or cryptsetup, would have made: every number of it against the others and the device.

use atrest_format::luks2::{Segment, SegmentKind, SegmentSize};

use super::super::ReencryptError;
use super::{Course, Kind, fixed_size, sum, unit_of};
use crate::luks2::unlock::run;
use crate::{Devices, UnlockError};

impl Course {
    /// Data is read and written in the active segments and, sooner or later, in all of the last one.
    pub(super) fn check_apart(&self, devices: Devices<'_>, header: u64) -> Result<(), ReencryptError> {
        let state = &self.state;
        for segment in state.active.iter().chain(state.moved.as_ref()) {
            let len = run(segment, devices.data.size());
            devices.check_apart(header, segment.offset, len).map_err(UnlockError::from)?;
        }
        let last = devices.check_apart(header, state.last.offset, self.total);
        Ok(last.map_err(UnlockError::from)?)
    }

    pub(super) fn check(&self, device: u64) -> Result<(), ReencryptError> {
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
                    size == shift.min(self.total) && moved.offset >= behind && fits(moved.offset, size)
                }
            };
            if !good || !shift.is_multiple_of(unit) {
                return Err(ReencryptError::DeviceSize);
            }
        }
        if self.kind == Kind::BehindHeader {
            let shift = self.state.resilience.shift().filter(|shift| shift.is_multiple_of(unit));
            if shift.is_none() || !fits(self.state.previous.offset, self.total) {
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
                let head = fixed_size(moved)?;
                let second = active.get(1);
                active.iter().all(|segment| segment.kind == SegmentKind::Linear)
                    && active.first().is_some_and(|s| s.offset == moved.offset && s.size == moved.size)
                    && active.len() == if self.total > head { 2 } else { 1 }
                    && second.is_none_or(|second| second.offset == head)
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
}
