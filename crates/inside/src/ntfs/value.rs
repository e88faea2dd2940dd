//! The value of an attribute: in its record, or in runs of clusters.

use atrest_filetree::TreeError;

use super::boot::Volume;
use super::compressed::{self, UNIT};
use super::runs::Run;
use crate::fault::{Damage, Feature};

pub(super) enum Value {
    /// All of it.
    Resident(Vec<u8>),
    Stored(Stored),
}

/// A value in runs of clusters.
pub(super) struct Stored {
    /// The first cluster that is described here.
    pub(super) first: u64,
    pub(super) runs: Vec<Run>,
    pub(super) allocated: u64,
    pub(super) size: u64,
    /// Bytes that were ever written; behind them are zeros.
    pub(super) initialized: u64,
    /// Of a compressed value: binary logarithm of the clusters that are compressed together.
    pub(super) unit: Option<u16>,
    pub(super) is_encrypted: bool,
}

impl Value {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Resident(bytes) => bytes.len() as u64,
            Self::Stored(stored) => stored.size,
        }
    }

    /// Bytes that it takes outside of its record.
    pub(super) fn allocated(&self) -> u64 {
        match self {
            Self::Resident(_) => 0,
            Self::Stored(stored) => stored.allocated,
        }
    }

    /// Reads the bytes from `offset` on, all of which must be there. `inode` is named in errors.
    pub(super) fn read(
        &self,
        volume: &Volume,
        inode: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), TreeError> {
        let bad = || TreeError::from(Damage::BlockMap { inode });
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size()) {
            return Err(bad());
        }
        match self {
            Self::Resident(bytes) => {
                let start = usize::try_from(offset).map_err(|_| bad())?;
                let part = bytes.get(start..).and_then(|rest| rest.get(..buf.len()));
                buf.copy_from_slice(part.ok_or_else(bad)?);
                Ok(())
            }
            Self::Stored(stored) => stored.read(volume, inode, offset, buf),
        }
    }

    /// The whole value, if it has at most `most` bytes.
    pub(super) fn whole(&self, volume: &Volume, inode: u64, most: usize) -> Result<Vec<u8>, TreeError> {
        let len = usize::try_from(self.size()).ok().filter(|len| *len <= most);
        let mut bytes = vec![0; len.ok_or(Damage::Inode(inode))?];
        self.read(volume, inode, 0, &mut bytes)?;
        Ok(bytes)
    }
}

impl Stored {
    /// Reads what lies from `offset` on, all of which must be there.
    pub(super) fn read(
        &self,
        volume: &Volume,
        inode: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), TreeError> {
        if self.is_encrypted {
            return Err(Feature::NtfsEncryption.into());
        }
        // Behind what was written there are zeros, whatever the clusters hold.
        // intended: behind what was written nothing is left. More than memory has is more than the buffer takes.
        let written = usize::try_from(self.initialized.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (written, behind) = buf.split_at_mut(buf.len().min(written));
        behind.fill(0);
        match self.unit {
            None => self.read_clusters(volume, inode, offset, written),
            Some(UNIT) if volume.cluster <= 4096 => self.read_units(volume, inode, offset, written),
            Some(_) => Err(Damage::BlockMap { inode }.into()),
        }
    }

    fn read_clusters(
        &self,
        volume: &Volume,
        inode: u64,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), TreeError> {
        let (mut rest, mut at) = (buf, offset);
        while !rest.is_empty() {
            // cannot divide by zero: a cluster has bytes.
            let cluster = at.checked_div(volume.cluster).unwrap_or(0);
            let run = self.run(cluster).ok_or(Damage::BlockMap { inode })?;
            // cannot overflow: the cluster lies in the run, and all of that in a value of less than 2^63 bytes, or it is cut.
            let before = at.saturating_sub(run.first.saturating_mul(volume.cluster));
            let there = run.len.saturating_mul(volume.cluster).saturating_sub(before);
            let step = rest.len().min(usize::try_from(there).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at_mut(step);
            match run.place {
                // cannot overflow: a run lies inside the volume.
                Some(place) => {
                    volume
                        .device
                        .read_at(place.saturating_mul(volume.cluster).saturating_add(before), now)?;
                }
                None => now.fill(0),
            }
            rest = later;
            // cannot overflow: it stays within the value.
            at = at.saturating_add(step as u64);
        }
        Ok(())
    }

    fn read_units(&self, volume: &Volume, inode: u64, offset: u64, buf: &mut [u8]) -> Result<(), TreeError> {
        // cannot overflow: a cluster has 4096 bytes at most here.
        let clusters = 1_u64 << UNIT;
        let unit = clusters.saturating_mul(volume.cluster);
        let (mut rest, mut at) = (buf, offset);
        while !rest.is_empty() {
            // cannot divide by zero: a unit has bytes.
            let (number, within) = (at.checked_div(unit).unwrap_or(0), at.checked_rem(unit).unwrap_or(0));
            let first = number.saturating_mul(clusters);
            let plain = self.unit(volume, inode, first, clusters)?;
            // cannot miss: a unit is as long as its clusters.
            let there = usize::try_from(within).ok().and_then(|within| plain.get(within..)).unwrap_or(&[]);
            let step = rest.len().min(there.len());
            let (now, later) = rest.split_at_mut(step);
            now.copy_from_slice(there.get(..step).ok_or(Damage::BlockMap { inode })?);
            if step == 0 {
                return Err(Damage::BlockMap { inode }.into());
            }
            rest = later;
            // cannot overflow: it stays within the value.
            at = at.saturating_add(step as u64);
        }
        Ok(())
    }

    /// What the unit of clusters from `first` on holds. With all clusters it is stored as it is, with none it is a hole, and with some
    /// it is compressed.
    fn unit(&self, volume: &Volume, inode: u64, first: u64, clusters: u64) -> Result<Vec<u8>, TreeError> {
        let bad = || TreeError::from(Damage::BlockMap { inode });
        let numbers = (0..clusters).filter_map(|number| first.checked_add(number));
        // Clusters that are not described are a hole, which the last unit may end with.
        let stored = numbers.take_while(|number| self.run(*number).is_some_and(|run| run.place.is_some()));
        let stored = stored.count() as u64;
        // cannot overflow: a unit has 64 KiB at most.
        let len = |clusters: u64| usize::try_from(clusters.saturating_mul(volume.cluster)).map_err(|_| bad());
        let mut bytes = vec![0; len(stored)?];
        self.read_clusters(volume, inode, first.checked_mul(volume.cluster).ok_or_else(bad)?, &mut bytes)?;
        match stored {
            0 => Ok(vec![0; len(clusters)?]),
            all if all == clusters => Ok(bytes),
            _ => compressed::expand(&bytes, len(clusters)?).ok_or_else(bad),
        }
    }

    /// The run that a cluster of the value is in.
    fn run(&self, cluster: u64) -> Option<&Run> {
        let at = self.runs.partition_point(|run| run.end() <= cluster);
        self.runs.get(at).filter(|run| run.first <= cluster)
    }
}
