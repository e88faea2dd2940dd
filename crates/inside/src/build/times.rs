//! Times in images that must be alike whenever they are built.

use super::BuildError;
use super::fill::{LOST_AND_FOUND, ROOT};
use super::inode;
use super::space::Space;
use super::table::Table;
use atrest_filetree::Timestamp;

/// Sets the times of the inodes that mke2fs made.
pub(super) fn settle(space: &Space<'_>, table: &mut Table, time: i64) -> Result<(), BuildError> {
    let sb = space.sb;
    for number in (1..=LOST_AND_FOUND).filter(|number| *number != ROOT) {
        let (fields, attributes) = table.get(space.device, sb, &space.groups, number)?;
        inode::settle(fields, attributes, sb, number, whole(time));
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
