//! One metadata pair: the log of commits in its newer block. Specification: littlefs `SPEC.md`, "Metadata blocks" and
//! "Metadata tags".

use atrest_device::{FlashCause, FlashDevice, FlashError};

use super::Damage;

/// A reference to no block.
pub(super) const NULL: u32 = u32::MAX;
const INVALID: u32 = 1 << 31;

/// Two blocks, of which one holds the newer log.
pub(super) type Pair = [u32; 2];

/// A tag that a valid commit covers, and where its data is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub kind: u16,
    pub id: u16,
    /// Byte of the data in the block.
    pub at: usize,
    /// Bytes of data; none for tags that delete.
    pub len: usize,
    pub deletes: bool,
}

/// The valid commits of a block.
pub(super) struct Log {
    pub block: u32,
    bytes: Vec<u8>,
    pub tags: Vec<Tag>,
    /// Not all of the block could be read.
    torn: bool,
}

impl Log {
    /// The log of the newer block of a pair; of the other one, if that has no valid commit.
    pub fn of_pair<D: FlashDevice>(device: &mut D, pair: Pair) -> Result<Self, CheckFailure> {
        let [a, b] = pair;
        let (first, second) = (Self::read(device, a)?, Self::read(device, b)?);
        let newer_is_second = second.revision().wrapping_sub(first.revision()).cast_signed() > 0;
        let (newer, older) = if newer_is_second { (second, first) } else { (first, second) };
        // The library might read less of it than we did, and use the other block.
        if newer.torn && !older.tags.is_empty() {
            super::tags::check(&older, device.geometry())?;
        }
        match (newer.tags.is_empty(), older.tags.is_empty()) {
            (false, _) => Ok(newer),
            (true, false) => Ok(older),
            (true, true) => Err(Damage::NoCommit { pair }.into()),
        }
    }

    fn read<D: FlashDevice>(device: &mut D, block: u32) -> Result<Self, CheckFailure> {
        let geometry = device.geometry();
        let mut bytes = vec![0; geometry.erase_size() as usize];
        // cannot overflow: both have 32 bits.
        let start = u64::from(block).saturating_mul(u64::from(geometry.erase_size()));
        let mut torn = false;
        if let Err(error) = device.read(start, &mut bytes) {
            unreadable(error)?;
            torn = true;
            let step = geometry.read_size() as usize;
            let mut good = 0_usize;
            for (unit, at) in bytes.chunks_mut(step).zip((start..).step_by(step)) {
                match device.read(at, unit) {
                    // cannot overflow: at most as many bytes as a block has.
                    Ok(()) => good = good.saturating_add(step),
                    Err(error) => {
                        unreadable(error)?;
                        break;
                    }
                }
            }
            bytes.truncate(good);
        }
        let tags = commits(&bytes);
        Ok(Self { block, bytes, tags, torn })
    }

    fn revision(&self) -> u32 {
        // intended: a block whose first bytes cannot be read has no commit, whatever its revision.
        le32(&self.bytes, 0).unwrap_or(0)
    }

    /// The data of a tag.
    pub fn data(&self, tag: &Tag) -> &[u8] {
        // cannot miss: `commits` found the data inside of the block.
        self.bytes.get(tag.at..tag.at.saturating_add(tag.len)).unwrap_or(&[])
    }

    /// The data of a tag as 32-bit words; none unless there are exactly as many.
    pub fn words<const N: usize>(&self, tag: &Tag) -> Option<[u32; N]> {
        let (words, rest) = self.data(tag).as_chunks();
        let words: &[[u8; 4]; N] = words.try_into().ok().filter(|_| rest.is_empty())?;
        Some(words.map(u32::from_le_bytes))
    }
}

/// Why a check ended: the medium failed, or what is on it is no littlefs.
pub(super) enum CheckFailure {
    Flash(FlashError),
    Damage(Damage),
}

impl From<Damage> for CheckFailure {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

/// What the medium can't read back ends the log; other failures end the check.
fn unreadable(error: FlashError) -> Result<(), CheckFailure> {
    match error.cause {
        FlashCause::Uncorrectable | FlashCause::BadBlock { .. } | FlashCause::Void { .. } => Ok(()),
        _ => Err(CheckFailure::Flash(error)),
    }
}

/// The tags of all commits whose checksum is right. Each tag is stored XORed with the one before.
fn commits(bytes: &[u8]) -> Vec<Tag> {
    let (mut good, mut pending) = (Vec::new(), Vec::new());
    let Some(revision) = bytes.first_chunk::<4>() else { return good };
    let mut crc = crc32(u32::MAX, revision);
    let (mut at, mut previous) = (4_usize, u32::MAX);
    // cannot overflow: all are bytes of a block, or end with a tag's length of ten bits behind it.
    while let Some(stored) = bytes.get(at..at.saturating_add(4)) {
        let &[a, b, c, d] = stored else { break };
        crc = crc32(crc, stored);
        let tag = u32::from_be_bytes([a, b, c, d]) ^ previous;
        if tag & INVALID != 0 {
            break;
        }
        let deletes = tag & 0x3ff == 0x3ff;
        let len = if deletes { 0 } else { (tag & 0x3ff) as usize };
        // cannot overflow: the tag lies in the block, and its length has ten bits.
        let data = at.saturating_add(4);
        let end = data.saturating_add(len);
        let Some(covered) = bytes.get(data..end) else { break };
        let kind = (tag >> 20 & 0x7ff) as u16;
        previous = tag;
        if kind & 0x780 == 0x500 {
            if le32(bytes, data) != Some(crc) {
                break;
            }
            previous ^= u32::from(kind & 1) << 31;
            good.append(&mut pending);
            // A commit may hold nothing but its checksum; the pair is in use all the same.
            good.push(Tag { kind, id: 0x3ff, at: data, len, deletes });
            crc = u32::MAX;
        } else {
            crc = crc32(crc, covered);
            pending.push(Tag { kind, id: (tag >> 10 & 0x3ff) as u16, at: data, len, deletes });
        }
        at = end;
    }
    good
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// CRC-32 with the polynomial 0x04c11db7, reflected, neither inverted before nor after.
fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32/JAMCRC in Greg Cook's catalogue of CRC algorithms, to which littlefs's is equal.
    #[test]
    fn the_checksum_is_that_of_the_catalogue() {
        assert_eq!(crc32(u32::MAX, b"123456789"), 0x340b_c6d9);
    }
}
