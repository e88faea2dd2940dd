//! The segments of each step, in the order of the data, with the backup segments behind them.

use atrest_format::luks2::{Segment, SegmentKind, SegmentSize};

use super::super::ReencryptError;
use super::{Course, Kind, Layout, Zone, fixed_size};

impl Course {
    /// The segments while `zone` is hot.
    pub(in crate::luks2::reencrypt) fn hot(&self, zone: &Zone) -> Result<Layout, ReencryptError> {
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
            Kind::Backward | Kind::BehindHeader => {
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
    pub(in crate::luks2::reencrypt) fn after(&self, done: u64) -> Result<Layout, ReencryptError> {
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
            Kind::Backward | Kind::BehindHeader => {
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

/// A segment as another, `offset` bytes into the data.
pub(super) fn moved_to(like: &Segment, offset: u64, size: SegmentSize, flags: &[&str]) -> Segment {
    let mut kind = like.kind.clone();
    if let SegmentKind::Crypt { iv_tweak, .. } = &mut kind {
        *iv_tweak = offset / 512;
    }
    let flags = flags.iter().map(|flag| (*flag).into()).collect();
    // cannot overflow: Course::check holds zones, shift and total against the device.
    Segment { id: 0, offset: like.offset.saturating_add(offset), size, flags, kind }
}

pub(in crate::luks2::reencrypt) fn linear(offset: u64, size: SegmentSize) -> Segment {
    Segment { id: 0, offset, size, flags: Vec::new(), kind: SegmentKind::Linear }
}
