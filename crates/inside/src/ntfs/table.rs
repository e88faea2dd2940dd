//! The master file table: a file of records, whose first record is its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use atrest_codec::Record;
use atrest_device::BlockDevice;
use atrest_filetree::TreeError;

use super::attribute::{self, Attribute};
use super::boot::Volume;
use super::damaged;
use super::inode::{Inode, kind, number};
use super::record::restore;
use super::runs::Run;
use super::value::{Stored, Value};
use crate::fault::Damage;

/// Windows stores no longer attribute list.
const MAX_LIST: usize = 256 << 10;
/// Runs in all attributes of a file, of which each takes 40 bytes of memory. Windows stops at about 1,500,000.
const MAX_RUNS: usize = 2_000_000;
/// Attributes of a file, or parts of them. An attribute list of Windows names no more than 10,000.
const MAX_ATTRIBUTES: usize = 100_000;

pub(super) struct Table {
    pub(super) volume: Volume,
    data: Stored,
}

/// A record as it is stored, whose header was looked at.
struct Raw {
    sequence: u16,
    is_directory: bool,
    /// The record that it goes on with; 0 if it is a first one.
    base: u64,
    attributes: Vec<Attribute>,
}

impl Table {
    /// Reads the boot sector, and finds where the table lies.
    pub(super) fn open(device: Arc<dyn BlockDevice>) -> Result<Self, TreeError> {
        let volume = Volume::open(device)?;
        let mut bytes = vec![0; volume.record];
        volume.device.read_at(volume.table, &mut bytes)?;
        let raw = parse(&volume, &mut bytes, 0)?;
        let (data, rest): (Vec<_>, Vec<_>) =
            raw.attributes.into_iter().partition(|part| part.kind == kind::DATA && part.name.is_empty());
        let mut data = data.into_iter();
        let (Some(Attribute { value: Value::Stored(data), .. }), None) = (data.next(), data.next()) else {
            return Err(damaged(0));
        };
        if data.first != 0 || data.unit.is_some() || data.is_encrypted {
            return Err(damaged(0));
        }
        let mut table = Self { volume, data };
        // Further parts of the table stand in records that its earlier parts hold.
        if let Some(list) = rest.iter().find(|part| part.kind == kind::LIST) {
            let list = list.value.whole(&table.volume, 0, MAX_LIST)?;
            for part in listed(&list).ok_or_else(|| damaged(0))? {
                if part.kind == kind::DATA && part.first != 0 {
                    let raw = table.raw(number(part.reference))?;
                    table.go_on(raw)?;
                }
            }
        }
        Ok(table)
    }

    /// Adds the runs of the table that a record has.
    fn go_on(&mut self, raw: Raw) -> Result<(), TreeError> {
        if number(raw.base) != 0 {
            return Err(damaged(0));
        }
        for part in raw.attributes {
            if let (kind::DATA, Value::Stored(stored)) = (part.kind, part.value) {
                append(&mut self.data, stored).ok_or_else(|| damaged(0))?;
            }
        }
        Ok(())
    }

    /// The file with this number. If a sequence number is named, it must be the file's.
    pub(super) fn inode(&self, number: u64, sequence: Option<u16>) -> Result<Inode, TreeError> {
        let raw = self.raw(number)?;
        if raw.base != 0 || sequence.is_some_and(|named| named != 0 && named != raw.sequence) {
            return Err(damaged(number));
        }
        let is_directory = raw.is_directory;
        let mut attributes = raw.attributes;
        let list = attributes.iter().find(|attribute| attribute.kind == kind::LIST);
        let Some(list) = list else { return Inode::new(&self.volume, number, is_directory, attributes) };
        let list = list.value.whole(&self.volume, number, MAX_LIST)?;
        let parts = listed(&list).ok_or_else(|| damaged(number))?;
        let mut runs = count_runs(&attributes);
        let records: BTreeSet<u64> = parts.iter().map(|part| super::inode::number(part.reference)).collect();
        for record in records.into_iter().filter(|record| *record != number) {
            let raw = self.raw(record)?;
            if super::inode::number(raw.base) != number {
                return Err(damaged(number));
            }
            // cannot overflow: they are in memory.
            runs = runs.saturating_add(count_runs(&raw.attributes));
            attributes.extend(raw.attributes);
            if runs > MAX_RUNS || attributes.len() > MAX_ATTRIBUTES {
                return Err(damaged(number));
            }
        }
        let attributes = joined(attributes).ok_or_else(|| damaged(number))?;
        Inode::new(&self.volume, number, is_directory, attributes)
    }

    fn raw(&self, number: u64) -> Result<Raw, TreeError> {
        let mut bytes = vec![0; self.volume.record];
        let at = number.checked_mul(self.volume.record as u64);
        let end = at.and_then(|at| at.checked_add(self.volume.record as u64));
        let (Some(at), Some(end)) = (at, end) else { return Err(Damage::InodeNumber(number).into()) };
        if end > self.data.size {
            return Err(Damage::InodeNumber(number).into());
        }
        self.data.read(&self.volume, 0, at, &mut bytes)?;
        parse(&self.volume, &mut bytes, number)
    }
}

/// Runs in these attributes.
fn count_runs(attributes: &[Attribute]) -> usize {
    let runs = attributes.iter().map(|attribute| match &attribute.value {
        Value::Resident(_) => 0,
        Value::Stored(stored) => stored.runs.len(),
    });
    runs.sum()
}

/// A record in use, by its bytes.
fn parse(volume: &Volume, bytes: &mut [u8], number: u64) -> Result<Raw, TreeError> {
    let parsed = || {
        restore(bytes, b"FILE")?;
        let header = Record::<48>::new(bytes.first_chunk()?);
        let flags = header.le16::<22>();
        let used = usize::try_from(header.le32::<24>()).ok()?;
        let attributes = attribute::parse(bytes.get(..used)?, header.le16::<20>().into(), volume.clusters)?;
        (flags & 1 != 0).then_some(Raw {
            sequence: header.le16::<16>(),
            is_directory: flags & 2 != 0,
            base: header.le64::<32>(),
            attributes,
        })
    };
    let mut parsed = parsed;
    parsed().ok_or_else(|| damaged(number))
}

/// An entry of an attribute list.
struct Part {
    kind: u32,
    first: u64,
    reference: u64,
}

/// The entries of an attribute list; `None` if it is damaged.
fn listed(mut list: &[u8]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    while !list.is_empty() {
        let entry = Record::<26>::new(list.first_chunk()?);
        let len = usize::from(entry.le16::<4>());
        (len >= 26).then_some(())?;
        parts.push(Part { kind: entry.le32::<0>(), first: entry.le64::<8>(), reference: entry.le64::<16>() });
        list = list.get(len..)?;
    }
    Some(parts)
}

/// Attributes whose parts are put together, in the order of what they describe. `None` if one is missing.
fn joined(mut attributes: Vec<Attribute>) -> Option<Vec<Attribute>> {
    attributes.sort_by(|a, b| {
        let key = |part: &Attribute| match &part.value {
            Value::Resident(_) => 0,
            Value::Stored(stored) => stored.first,
        };
        (a.kind, &a.name, key(a)).cmp(&(b.kind, &b.name, key(b)))
    });
    let mut whole: Vec<Attribute> = Vec::new();
    for part in attributes {
        match (whole.last_mut(), part) {
            (Some(last), Attribute { kind, name, value: Value::Stored(stored) })
                if last.kind == kind && last.name == name && stored.first != 0 =>
            {
                let Value::Stored(before) = &mut last.value else { return None };
                append(before, stored)?;
            }
            (_, part) => whole.push(part),
        }
    }
    // What begins in the middle lacks its sizes.
    let begins = |part: &Attribute| !matches!(&part.value, Value::Stored(stored) if stored.first != 0);
    whole.iter().all(begins).then_some(whole)
}

/// Adds the runs of a part to those before it. `None` if they do not follow.
fn append(before: &mut Stored, part: Stored) -> Option<()> {
    let end = before.runs.last().map_or(before.first, Run::end);
    (part.first == end && before.runs.len().checked_add(part.runs.len())? <= MAX_RUNS).then_some(())?;
    before.runs.extend(part.runs);
    Some(())
}
