//! The attributes in one record.

use atrest_codec::{Reader, Record};

use super::runs::{self, Run};
use super::value::{Stored, Value};

/// An attribute, or of one that goes on in another record a part.
pub(super) struct Attribute {
    pub(super) kind: u32,
    /// 16-bit units, as bytes.
    pub(super) name: Vec<u8>,
    pub(super) value: Value,
}

/// Bits of an attribute.
const COMPRESSED: u16 = 0x00ff;
const ENCRYPTED: u16 = 0x4000;
/// In place of a kind: no more attributes.
const END: u32 = 0xffff_ffff;

/// All attributes of a record whose first is at byte `at`, of a volume of so many clusters. `None` if they are damaged.
pub(super) fn parse(record: &[u8], at: usize, clusters: u64) -> Option<Vec<Attribute>> {
    let mut attributes = Vec::new();
    let mut rest = record.get(at..)?;
    loop {
        let kind = Reader::new(rest).le32().ok()?;
        if kind == END {
            return Some(attributes);
        }
        let header = Record::<16>::new(rest.first_chunk()?);
        let len =
            usize::try_from(header.le32::<4>()).ok().filter(|len| *len >= 24 && len.is_multiple_of(8))?;
        let (attribute, behind) = rest.split_at_checked(len)?;
        let [is_elsewhere, name_len] = *header.array::<8, 2>();
        let name_at = usize::from(header.le16::<10>());
        let name_len = usize::from(name_len).checked_mul(2)?;
        let name = match name_len {
            0 => &[],
            len => Reader::at(attribute, name_at).ok()?.bytes(len).ok()?,
        };
        let flags = header.le16::<12>();
        let value = match is_elsewhere {
            0 => {
                let place = Record::<8>::new(attribute.get(16..)?.first_chunk()?);
                let (len, at) = (usize::try_from(place.le32::<0>()).ok()?, place.le16::<4>());
                Value::Resident(Reader::at(attribute, at.into()).ok()?.bytes(len).ok()?.to_vec())
            }
            _ => Value::Stored(elsewhere(attribute, flags, clusters)?),
        };
        attributes.push(Attribute { kind, name: name.to_vec(), value });
        rest = behind;
    }
}

/// A value in runs. Its sizes stand in the first part only.
fn elsewhere(attribute: &[u8], flags: u16, clusters: u64) -> Option<Stored> {
    let header = Record::<48>::new(attribute.get(16..)?.first_chunk()?);
    let first = header.le64::<0>();
    let runs = runs::parse(attribute.get(usize::from(header.le16::<16>())..)?, first, clusters)?;
    let end = runs.last().map_or(first, Run::end);
    if header.le64::<8>().wrapping_add(1) != end {
        return None;
    }
    let unit = (flags & COMPRESSED != 0).then(|| header.le16::<18>());
    let (allocated, size, initialized) = (header.le64::<24>(), header.le64::<32>(), header.le64::<40>());
    if first == 0 && [allocated, size, initialized].iter().any(|size| *size > i64::MAX as u64) {
        return None;
    }
    Some(Stored { first, runs, allocated, size, initialized, unit, is_encrypted: flags & ENCRYPTED != 0 })
}
