//! Times in images that must be alike whenever they are built.

use super::fill::{LOST_AND_FOUND, ROOT};
use super::inode;
use super::space::Space;
use super::table::Table;
use super::{BuildError, put};
use crate::bytes::Fields;
use crate::tree::Timestamp;

/// Sets the times of the inodes that mke2fs made.
pub(super) fn settle(space: &Space<'_>, table: &mut Table, time: i64) -> Result<(), BuildError> {
    let sb = space.sb;
    let (seconds, extra) = inode::encode_time(whole(time));
    for number in (1..=LOST_AND_FOUND).filter(|number| *number != ROOT) {
        let raw = table.get(space.device, sb, &space.groups, number)?;
        let fields = Fields(raw);
        let is_there = fields.le16(0) != 0 || fields.le32(0xc) != 0;
        let (generation, has_extra) = (fields.le32(0x64), fields.le16(0x80) >= 24);
        if !is_there {
            continue;
        }
        for (at, extra_at) in [(0x8, 0x8c), (0xc, 0x84), (0x10, 0x88), (0x90, 0x94)] {
            if at < 128 || has_extra {
                put::le32(raw, at, seconds);
            }
            if has_extra {
                put::le32(raw, extra_at, extra);
            }
        }
        inode::checksum_with(raw, sb, number, generation);
    }
    Ok(())
}

/// A whole second.
pub(super) fn whole(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

/// A time, but none later than `latest`.
pub(super) fn clamp(time: Timestamp, latest: Option<i64>) -> Timestamp {
    latest.map_or(time, |latest| time.min(whole(latest)))
}
