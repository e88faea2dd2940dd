//! Clusters of a file: adjoining ones, or a chain in the table. Sections 4.1 and 7.6.3.3 of the specification.

use atrest_filetree::TreeError;

use super::boot::Volume;
use super::dir::Entry;
use crate::circle::overlap;
use crate::fault::Damage;

/// Adjoining clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
}

/// How many clusters are in these runs.
pub(super) fn clusters(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.len)).sum()
}

/// The clusters of a file or directory.
pub(super) fn of(volume: &Volume, entry: &Entry) -> Result<Vec<Run>, TreeError> {
    // cannot divide by zero: a cluster has bytes.
    let len = entry.len.div_ceil(volume.cluster);
    let len = u32::try_from(len).ok().filter(|len| *len <= volume.clusters).ok_or(Damage::FatStructure)?;
    if len == 0 {
        return Ok(Vec::new());
    }
    if entry.adjoin {
        let last = entry.first.checked_add(len).and_then(|end| end.checked_sub(1));
        return match volume.has(entry.first) && last.is_some_and(|last| volume.has(last)) {
            true => Ok(vec![Run { first: entry.first, len }]),
            false => Err(Damage::Cluster(entry.first).into()),
        };
    }
    follow(volume, entry.first, Some(len))
}

/// The clusters of a chain whose length is not known: of the root directory.
pub(super) fn to_the_end(volume: &Volume, first: u32) -> Result<Vec<Run>, TreeError> {
    follow(volume, first, None)
}

/// Follows a chain for so many clusters, or to its end.
fn follow(volume: &Volume, first: u32, wanted: Option<u32>) -> Result<Vec<Run>, TreeError> {
    let mut table = Table { volume, block: vec![0; 4096], from: None };
    let (mut runs, mut next, mut count) = (Vec::<Run>::new(), first, 0_u32);
    // A cluster that was passed, and how many had been by then (Brent's algorithm): who comes to it again goes round in a circle. Each
    // time that the count has doubled it is a later one, so that a circle is noticed before it is kept three times.
    let (mut passed, mut passed_at) = (None, 1_u32);
    loop {
        if !volume.has(next) {
            return Err(Damage::Cluster(next).into());
        }
        match runs.last_mut() {
            // cannot overflow: no more clusters than the volume has.
            Some(run) if run.first.checked_add(run.len) == Some(next) => run.len = run.len.saturating_add(1),
            _ => runs.push(Run { first: next, len: 1 }),
        }
        // cannot overflow: no more than there are clusters.
        count = count.saturating_add(1);
        if Some(count) == wanted {
            return match overlap(runs.iter().map(|run| (run.first, run.len))) {
                true => Err(Damage::EndlessChain.into()),
                false => Ok(runs),
            };
        }
        next = match table.next(next)? {
            0xffff_fff8..=0xffff_ffff if wanted.is_none() => return Ok(runs),
            0xffff_fff7..=0xffff_ffff => return Err(Damage::FatStructure.into()),
            following => {
                if count == passed_at {
                    // intended: no chain has as many clusters as the last number that can't be doubled.
                    (passed, passed_at) = (Some(next), passed_at.saturating_mul(2));
                }
                following
            }
        };
        // A chain that is longer than the volume runs in a circle, too.
        if count >= volume.clusters || passed == Some(next) {
            return Err(Damage::EndlessChain.into());
        }
    }
}

/// The table, of which a block is at hand.
struct Table<'a> {
    volume: &'a Volume,
    block: Vec<u8>,
    from: Option<u64>,
}

impl Table<'_> {
    /// What follows a cluster.
    fn next(&mut self, cluster: u32) -> Result<u32, TreeError> {
        // cannot overflow: 34 bits, in a table that lies inside the volume.
        let at = u64::from(cluster).saturating_mul(4);
        let (from, within) = (at & !4095, (at & 4095) as usize);
        if self.from != Some(from) {
            // cannot overflow or miss: the table lies inside the volume, and the block has 4096 bytes.
            let place = self.volume.table.saturating_add(from);
            let len = usize::try_from(self.volume.size.saturating_sub(place)).unwrap_or(usize::MAX).min(4096);
            self.from = None;
            // cannot miss: the length is at most that of the block.
            self.volume.device.read_at(place, self.block.get_mut(..len).unwrap_or(&mut []))?;
            self.from = Some(from);
        }
        let word = self.block.get(within..).and_then(|rest| rest.first_chunk());
        Ok(u32::from_le_bytes(*word.ok_or(Damage::FatStructure)?))
    }
}
