//! Directories: slots of 32 bytes, in a fixed area (the root of FAT12 and FAT16) or in a chain of clusters.
//! FAT specification, section 6.

use std::collections::HashSet;

use atrest_codec::{Record, RecordMut};
use atrest_filetree::{Timestamp, TreeError, is_valid_name};

use super::name::{self, NewName, UNITS};
use super::table::{Run, Table, clusters};
use super::time;
use crate::fault::Damage;

const SLOT: usize = 32;
/// Slots that a directory may have.
const MAX_SLOTS: usize = 65536;
const DELETED: u8 = 0xe5;
/// Slots in 512 bytes, which media write whole or not at all.
const SLOTS_IN_SECTOR: usize = 16;
const OWN: [u8; 11] = *b".          ";
const PARENT: [u8; 11] = *b"..         ";

mod attribute {
    pub(crate) const READ_ONLY: u8 = 0x01;
    pub(crate) const LABEL: u8 = 0x08;
    pub(crate) const DIRECTORY: u8 = 0x10;
    pub(crate) const ARCHIVE: u8 = 0x20;
    pub(crate) const LONG_NAME: u8 = 0x0f;
}

/// Where a directory's slots lie.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Bytes at a fixed place, and how many.
    Area(u64, u32),
    /// A chain of clusters.
    Chain(u32),
}

/// In which order the sectors of an entry reach the medium.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// In any: until the next flush nothing is promised.
    Any,
    /// So that the entry never stands there without its long name.
    Durable,
}

/// A directory in memory.
pub(super) struct Directory {
    place: Place,
    runs: Vec<Run>,
    slots: Vec<u8>,
    /// Names that stand for something.
    pub(super) entries: Vec<Found>,
    /// Slots in use: everything behind is free.
    used: usize,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) name: String,
    short: [u8; 11],
    /// Slots from the first of its long name to its own.
    slots: core::ops::Range<usize>,
    bytes: [u8; SLOT],
}

impl Found {
    fn fields(&self) -> Record<'_, SLOT> {
        Record::new(&self.bytes)
    }

    fn fields_mut(&mut self) -> RecordMut<'_, SLOT> {
        RecordMut::new(&mut self.bytes)
    }

    /// The slot of the entry itself, behind those of its long name.
    pub(super) fn slot(&self) -> usize {
        // cannot overflow: an entry has a slot.
        self.slots.end.saturating_sub(1)
    }

    pub(super) fn is_dir(&self) -> bool {
        self.fields().u8::<11>() & attribute::DIRECTORY != 0
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.fields().u8::<11>() & attribute::READ_ONLY != 0
    }

    pub(super) fn size(&self) -> u32 {
        if self.is_dir() { 0 } else { self.fields().le32::<28>() }
    }

    /// First cluster, 0 if there is none.
    pub(super) fn cluster(&self, table: &Table) -> u32 {
        let high = if table.boot.root_cluster == 0 { 0 } else { self.fields().le16::<20>() };
        u32::from(high) << 16 | u32::from(self.fields().le16::<26>())
    }

    pub(super) fn modified(&self) -> Timestamp {
        time::timestamp(self.fields().le16::<24>(), self.fields().le16::<22>(), 0)
    }

    pub(super) fn accessed(&self) -> Timestamp {
        time::timestamp(self.fields().le16::<18>(), 0, 0)
    }

    pub(super) fn created(&self) -> Timestamp {
        time::timestamp(self.fields().le16::<16>(), self.fields().le16::<14>(), self.fields().u8::<13>())
    }

    pub(super) fn set_contents(&mut self, cluster: u32, size: u32) {
        let [a, b, c, d] = cluster.to_le_bytes();
        let mut fields = self.fields_mut();
        fields.set::<26, 2>(&[a, b]);
        fields.set::<20, 2>(&[c, d]);
        fields.set_le32::<28>(size);
    }

    pub(super) fn set_modified(&mut self, when: Timestamp) {
        let (date, clock, _) = time::fields(when);
        let mut fields = self.fields_mut();
        fields.set_le16::<22>(clock);
        fields.set_le16::<24>(date);
        fields.set_le16::<18>(date);
        // Changed since the last backup.
        let attributes = self.fields().u8::<11>() | attribute::ARCHIVE;
        if !self.is_dir() {
            self.fields_mut().set_u8::<11>(attributes);
        }
    }
}

/// The place of the root directory.
pub(super) fn root(table: &Table) -> Place {
    match table.boot.root_cluster {
        0 => {
            let (at, len) = table.boot.root_area();
            Place::Area(at, len)
        }
        cluster => Place::Chain(cluster),
    }
}

impl Directory {
    pub(super) fn read(table: &mut Table, place: Place) -> Result<Self, TreeError> {
        let mut directory = Self { place, runs: Vec::new(), slots: Vec::new(), entries: Vec::new(), used: 0 };
        match directory.place {
            Place::Area(at, len) => {
                // cannot miss: 16 bits times 32.
                directory.slots = vec![0; usize::try_from(len).unwrap_or(0)];
                table.cache.read(at, &mut directory.slots)?;
            }
            Place::Chain(first) => {
                // cannot miss: a cluster has 64 KiB at most.
                let size = usize::try_from(table.boot.cluster_size()).unwrap_or(1);
                // cannot overflow: constants, and a cluster has bytes.
                let limit = MAX_SLOTS.saturating_mul(SLOT).div_ceil(size).saturating_add(1);
                directory.runs = table.chain(first, u32::try_from(limit).unwrap_or(u32::MAX))?;
                let chain: Vec<u32> = clusters(&directory.runs).collect();
                if chain.is_empty() || chain.len() >= limit {
                    return Err(directory.damaged(0));
                }
                for cluster in chain {
                    let at = table.boot.cluster(cluster).ok_or(Damage::Cluster(cluster))?;
                    let start = directory.slots.len();
                    // cannot overflow: the number of clusters was checked. What was added is there.
                    directory.slots.resize(start.saturating_add(size), 0);
                    table.cache.read(at, directory.slots.get_mut(start..).unwrap_or(&mut []))?;
                }
            }
        }
        directory.parse()?;
        Ok(directory)
    }

    /// Where its first byte lies or which cluster it starts with: what names it in errors.
    pub(super) fn number(&self) -> u64 {
        match self.place {
            Place::Area(..) => 0,
            Place::Chain(cluster) => cluster.into(),
        }
    }

    /// Where its slots lie; nowhere if it is a fixed root directory.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub(super) fn damaged(&self, slot: usize) -> TreeError {
        // cannot overflow: slots are in memory.
        Damage::Directory { inode: self.number(), at: slot.saturating_mul(SLOT) as u64 }.into()
    }

    fn parse(&mut self) -> Result<(), TreeError> {
        let mut long = LongName::default();
        self.used = self.slots.len() / SLOT;
        for (i, slot) in self.slots.as_chunks().0.iter().enumerate() {
            let fields = Record::new(slot);
            let (first, attributes) = (fields.u8::<0>(), fields.u8::<11>());
            if first == 0 {
                self.used = i;
                break;
            }
            if first == DELETED {
                long = LongName::default();
            } else if attributes & 0x3f == attribute::LONG_NAME {
                long.add(slot, i);
            } else if attributes & attribute::LABEL != 0 {
                long = LongName::default();
            } else {
                let short = *fields.array::<0, 11>();
                let found = core::mem::take(&mut long).finish(&short, i);
                let (name, start) = match found {
                    Some(found) => found,
                    None => (name::decode_short(&short, fields.u8::<12>()), i),
                };
                if short == OWN || short == PARENT {
                    continue;
                }
                if !is_valid_name(name.as_bytes()) {
                    return Err(Damage::Name { inode: self.number() }.into());
                }
                // cannot overflow: slots are in memory.
                self.entries.push(Found { name, short, slots: start..i.saturating_add(1), bytes: *slot });
            }
        }
        Ok(())
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<&Found> {
        let wanted = name::fold(core::str::from_utf8(name).ok()?);
        self.entries.iter().find(|entry| {
            name::fold(&entry.name) == wanted || name::fold(&name::decode_short(&entry.short, 0)) == wanted
        })
    }

    /// One slot as it is stored.
    fn stored(&self, slot: usize) -> Result<&[u8; SLOT], TreeError> {
        self.slots.as_chunks().0.get(slot).ok_or_else(|| self.damaged(slot))
    }

    /// Writes one slot, in memory and in the cache.
    fn put(&mut self, table: &mut Table, slot: usize, bytes: &[u8; SLOT]) -> Result<(), TreeError> {
        // cannot overflow: slots are in memory, and lie within the filesystem.
        let at = slot.saturating_mul(SLOT);
        let media = match self.place {
            // cannot overflow: the area lies within the filesystem.
            Place::Area(start, _) => start.saturating_add(at as u64),
            Place::Chain(_) => {
                let size = usize::try_from(table.boot.cluster_size()).unwrap_or(1).max(1);
                let cluster = clusters(&self.runs).nth(at / size).ok_or(self.damaged(slot))?;
                let start = table.boot.cluster(cluster).ok_or(Damage::Cluster(cluster))?;
                // cannot overflow: a cluster lies within the filesystem.
                start.saturating_add((at % size) as u64)
            }
        };
        // cannot overflow: slots are in memory.
        let target = self.slots.get_mut(at..at.saturating_add(SLOT)).ok_or(Damage::FatStructure)?;
        target.copy_from_slice(bytes);
        Ok(table.cache.write(media, bytes)?)
    }

    /// Writes an entry that was changed.
    pub(super) fn update(&mut self, table: &mut Table, found: &Found) -> Result<(), TreeError> {
        self.put(table, found.slot(), &found.bytes)
    }

    /// Takes an entry out. Its clusters are the caller's.
    pub(super) fn remove(&mut self, table: &mut Table, found: &Found) -> Result<(), TreeError> {
        self.remove_in(table, found, Order::Any)
    }

    /// Takes an entry out, the entry itself first: without one, slots of a long name are harmless.
    pub(super) fn remove_in(
        &mut self,
        table: &mut Table,
        found: &Found,
        order: Order,
    ) -> Result<(), TreeError> {
        for slot in found.slots.clone().rev() {
            if order == Order::Durable
                && slot != found.slot()
                && slot % SLOTS_IN_SECTOR == SLOTS_IN_SECTOR - 1
            {
                table.settle()?;
            }
            let mut bytes = *self.stored(slot)?;
            RecordMut::new(&mut bytes).set_u8::<0>(DELETED);
            self.put(table, slot, &bytes)?;
        }
        self.entries.retain(|entry| entry.slots != found.slots);
        Ok(())
    }

    /// Makes an entry without contents. `name` must not be there yet.
    pub(super) fn add(
        &mut self,
        table: &mut Table,
        name: &[u8],
        is_dir: bool,
        now: Timestamp,
    ) -> Result<Found, TreeError> {
        let new = self.new_name(name, None)?;
        let mut found = Found { name: String::new(), short: new.short, slots: 0..0, bytes: [0; SLOT] };
        let (date, clock, tenths) = time::fields(now);
        let mut fields = found.fields_mut();
        fields.set::<11, 3>(&[if is_dir { attribute::DIRECTORY } else { attribute::ARCHIVE }, 0, tenths]);
        fields.set_le16::<14>(clock);
        fields.set_le16::<16>(date);
        found.set_modified(now);
        let start = self.reserve(table, new.slots())?;
        self.write_entry(table, start, &new, found)
    }

    /// How a name is stored beside those that are there; `except` one that it replaces.
    pub(super) fn new_name(&self, name: &[u8], except: Option<&Found>) -> Result<NewName, TreeError> {
        let others = self.entries.iter().filter(|entry| except.is_none_or(|gone| entry.slots != gone.slots));
        let taken: HashSet<[u8; 11]> = others.map(|entry| entry.short).collect();
        NewName::new(name, |short| taken.contains(short))
    }

    /// Finds room for so many adjoining slots, and sees to it that the directory still ends behind them. Nothing of that shows.
    pub(super) fn reserve(&mut self, table: &mut Table, count: usize) -> Result<usize, TreeError> {
        let start = self.room(table, count)?;
        // What was free behind the last entry may hold anything: the new end must say that it is one.
        // cannot overflow: a directory has 65536 slots at most.
        let end = start.saturating_add(count);
        if end > self.used {
            self.used = end;
            if end < self.slots.len() / SLOT {
                self.put(table, end, &[0; SLOT])?;
            }
        }
        Ok(start)
    }

    /// Writes an entry under a new name into slots that are free.
    pub(super) fn write_entry(
        &mut self,
        table: &mut Table,
        start: usize,
        new: &NewName,
        found: Found,
    ) -> Result<Found, TreeError> {
        self.write_entry_in(table, start, new, found, Order::Any)
    }

    /// Writes an entry under a new name into slots that are free, the entry itself last.
    pub(super) fn write_entry_in(
        &mut self,
        table: &mut Table,
        start: usize,
        new: &NewName,
        mut found: Found,
        order: Order,
    ) -> Result<Found, TreeError> {
        // cannot overflow: a directory has 65536 slots at most.
        let own = start.saturating_add(new.long_slots().len());
        found.name = new.text.clone();
        found.short = new.short;
        // cannot overflow: a directory has 65536 slots at most.
        found.slots = start..own.saturating_add(1);
        found.fields_mut().set::<0, 11>(&new.short);
        found.fields_mut().set_u8::<12>(new.flags);
        for (slot, bytes) in (start..).zip(&new.long_slots()) {
            self.put(table, slot, bytes)?;
        }
        if order == Order::Durable && start / SLOTS_IN_SECTOR != own / SLOTS_IN_SECTOR {
            table.settle()?;
        }
        self.put(table, own, &found.bytes)?;
        self.entries.push(found.clone());
        Ok(found)
    }

    /// Finds room for so many slots in the sector in which all of `own` lie, over which they may be written. Then the entry
    /// changes its name in a single write of a sector.
    pub(super) fn room_beside(&self, count: usize, own: &Found) -> Option<usize> {
        let sector = own.slots.start / SLOTS_IN_SECTOR;
        if own.slot() / SLOTS_IN_SECTOR != sector {
            return None;
        }
        // cannot overflow: a directory has 65536 slots at most.
        let first = sector.saturating_mul(SLOTS_IN_SECTOR);
        let end = first.saturating_add(SLOTS_IN_SECTOR).min(self.slots.len() / SLOT);
        let starts_with = |slot: usize, byte: u8| self.stored(slot).is_ok_and(|[first, ..]| *first == byte);
        let is_free =
            |slot: usize| slot >= self.used || own.slots.contains(&slot) || starts_with(slot, DELETED);
        // intended: no place is there for more slots than a sector has left.
        (first..end.saturating_sub(count).saturating_add(1)).find(|&start| {
            // cannot overflow: a directory has 65536 slots at most.
            let stop = start.saturating_add(count);
            // Slots behind the last entry may be taken if none is left out and the next one ends the directory.
            let ends = stop <= self.used
                || (start <= self.used && (stop == self.slots.len() / SLOT || starts_with(stop, 0)));
            stop <= end && ends && (start..stop).all(is_free)
        })
    }

    /// Writes an entry under a new name into slots that [`room_beside`](Self::room_beside) found, and frees its old ones.
    pub(super) fn rewrite(
        &mut self,
        table: &mut Table,
        start: usize,
        new: &NewName,
        found: &Found,
    ) -> Result<(), TreeError> {
        self.remove(table, found)?;
        // cannot overflow: a directory has 65536 slots at most.
        self.used = self.used.max(start.saturating_add(new.slots()));
        self.write_entry(table, start, new, found.clone()).map(|_| ())
    }

    /// Whether an entry lies in the sector that holds another one with all of its long name.
    pub(super) fn in_one_sector(entry: &Found, whole: &Found) -> bool {
        let sector = |slot: usize| slot / SLOTS_IN_SECTOR;
        sector(entry.slot()) == sector(whole.slot()) && sector(whole.slots.start) == sector(whole.slot())
    }

    /// Gives an entry what belongs to another one: all but its name.
    pub(super) fn take_over(
        &mut self,
        table: &mut Table,
        entry: &Found,
        from: &Found,
    ) -> Result<(), TreeError> {
        let name = entry.fields();
        let mut taken = Found { bytes: from.bytes, ..entry.clone() };
        taken.fields_mut().set::<0, 11>(name.array::<0, 11>());
        taken.fields_mut().set_u8::<12>(name.u8::<12>());
        self.update(table, &taken)
    }

    /// Whether the directory's `..` can be set.
    pub(super) fn has_parent_entry(&self) -> bool {
        self.stored(1).is_ok_and(|slot| slot.starts_with(&PARENT))
    }

    /// Sets the first cluster (0: the root) of the directory that `..` leads to.
    pub(super) fn set_parent(&mut self, table: &mut Table, cluster: u32) -> Result<(), TreeError> {
        let bytes = *self.stored(1)?;
        let mut entry = Found { name: String::new(), short: PARENT, slots: 1..2, bytes };
        entry.set_contents(cluster, 0);
        self.update(table, &entry)
    }

    /// Finds `count` adjoining free slots, in a longer directory if need be.
    fn room(&mut self, table: &mut Table, count: usize) -> Result<usize, TreeError> {
        let mut free = 0;
        for (slot, [first, ..]) in self.slots.as_chunks::<SLOT>().0.iter().take(self.used).enumerate() {
            free = if *first == DELETED { free + 1 } else { 0 };
            if free == count {
                // cannot overflow: so many were counted.
                return Ok(slot.saturating_add(1).saturating_sub(count));
            }
        }
        let start = self.used;
        // cannot overflow: a directory has 65536 slots at most.
        while start.saturating_add(count) > self.slots.len() / SLOT {
            self.grow(table)?;
        }
        Ok(start)
    }

    fn grow(&mut self, table: &mut Table) -> Result<(), TreeError> {
        let last = clusters(&self.runs).last();
        let Some(last) = last.filter(|_| self.slots.len() / SLOT < MAX_SLOTS) else {
            return Err(TreeError::NoSpace);
        };
        let new = table.allocate(last, 1)?;
        // cannot miss: a cluster has 64 KiB at most.
        let size = usize::try_from(table.boot.cluster_size()).unwrap_or(0);
        for cluster in clusters(&new) {
            let at = table.boot.cluster(cluster).ok_or(Damage::Cluster(cluster))?;
            // Before the link to it reaches the medium: what the cluster held may look like entries.
            table.cache.write_through(at, &vec![0; size])?;
            table.cache.device().flush()?;
        }
        self.runs.extend(new);
        // cannot overflow: a directory has 65536 slots at most.
        self.slots.resize(self.slots.len().saturating_add(size), 0);
        Ok(())
    }
}

/// Makes the first cluster of a new directory, with the entries for itself and its parent (0: the root).
pub(super) fn make(table: &mut Table, parent: u32, now: Timestamp) -> Result<u32, TreeError> {
    let runs = table.allocate(0, 1)?;
    let cluster = clusters(&runs).next().ok_or(Damage::FatStructure)?;
    clear(table, cluster)?;
    let at = table.boot.cluster(cluster).ok_or(Damage::Cluster(cluster))?;
    for (i, (short, target)) in [(OWN, cluster), (PARENT, parent)].into_iter().enumerate() {
        let mut entry = Found { name: String::new(), short, slots: 0..0, bytes: [0; SLOT] };
        let (date, clock, _) = time::fields(now);
        let mut fields = entry.fields_mut();
        fields.set::<0, 11>(&short);
        fields.set_u8::<11>(attribute::DIRECTORY);
        fields.set_le16::<14>(clock);
        fields.set_le16::<16>(date);
        entry.set_modified(now);
        entry.set_contents(target, 0);
        // cannot overflow: both lie in a cluster.
        table.cache.write(at.saturating_add(i.saturating_mul(SLOT) as u64), &entry.bytes)?;
    }
    Ok(cluster)
}

/// Fills a cluster of a directory with zeros.
fn clear(table: &mut Table, cluster: u32) -> Result<(), TreeError> {
    let at = table.boot.cluster(cluster).ok_or(Damage::Cluster(cluster))?;
    // cannot miss: a cluster has 64 KiB at most.
    let zeros = vec![0; usize::try_from(table.boot.cluster_size()).unwrap_or(0)];
    Ok(table.cache.write(at, &zeros)?)
}

/// Slots of a long name on the way to its entry. They come last part first.
#[derive(Default)]
struct LongName {
    /// Parts so far, in their order on the media.
    parts: Vec<[u16; UNITS]>,
    /// Number that the next part must have; 0 when all are there.
    next: u8,
    sum: u8,
    start: usize,
}

impl LongName {
    fn add(&mut self, slot: &[u8; SLOT], index: usize) {
        let fields = Record::new(slot);
        let (order, sum) = (fields.u8::<0>(), fields.u8::<13>());
        let number = order & 0x1f;
        if order & 0x40 != 0 {
            *self = Self { parts: Vec::new(), next: number, sum, start: index };
        }
        // A part out of order makes the whole name worthless; the short one is used then.
        if number == 0 || number != self.next || sum != self.sum || order & 0xa0 != 0 {
            *self = Self::default();
            return;
        }
        self.parts.push(name::units(slot));
        // cannot overflow: 0 is none.
        self.next = number.saturating_sub(1);
    }

    /// The name and its first slot, if it is complete and belongs to the entry with this short name.
    fn finish(self, short: &[u8; 11], own: usize) -> Option<(String, usize)> {
        let complete = !self.parts.is_empty() && self.next == 0 && self.sum == name::checksum(short);
        // cannot overflow: slots are in memory.
        if !complete || self.start.saturating_add(self.parts.len()) != own {
            return None;
        }
        let units = self.parts.iter().rev().flatten().copied().take_while(|&unit| unit != 0);
        let name: String =
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Some((name, self.start))
    }
}
