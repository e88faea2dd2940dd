//! A backup of what opens a volume: its boot sector and the copies of its metadata, each in its own place, so that the backup serves as a
//! detached header.

use core::ops::Range;

use atrest_format::bitlocker::{BOOT_LEN, Edition, REGION_LEN};

use super::LockedBitLocker;

impl LockedBitLocker {
    /// The bytes of the header device that a backup has, in order; nothing else of it is needed.
    pub fn backup_ranges(&self, device: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> = self
            .metadata
            .copies
            .iter()
            // intended: what lies behind the device's end is not there.
            .map(|place| *place..place.saturating_add(REGION_LEN as u64).min(device))
            .filter(|range| !range.is_empty())
            .collect();
        let first = match self.boot.edition {
            Edition::Vista => self.boot.sector_size.into(),
            Edition::Seven | Edition::ToGo => BOOT_LEN as u64,
        };
        ranges.push(0..first);
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}
