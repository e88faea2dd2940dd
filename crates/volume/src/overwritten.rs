//! Keyslot areas that no longer look as a cipher has left them: a partition table, a file system's superblock or zeros were written over
//! them. Nothing else says so, because a keyslot has no checksum: its passphrase is simply wrong.
//!
//! A sector is judged by the chi-squared test over its 256 byte values.

use atrest_device::{DeviceError, Media};

use crate::{Info, KeyslotInfo};

/// What is judged at a time.
const SECTOR: usize = 512;
/// From this sum of squared counts on, a sector does not look random. Each of 256 values is expected twice among 512 bytes, so
/// chi-squared is half of this sum less 512: at least 688, where 255 is expected with a standard deviation of 23. With so few bytes of each
/// value its tail is a long one; of random sectors fewer than one in 10^12 reach 688. A sector with 32 zeros does.
const LIMIT: u32 = 2400;
/// Bytes that are read at once.
const AT_ONCE: usize = 64 << 10;

/// A keyslot whose area has such sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// Number of the keyslot.
    pub keyslot: u32,
    /// How many sectors of 512 bytes.
    pub sectors: u64,
    /// Byte offset on the header device of the first one.
    pub first: u64,
}

/// Looks for sectors that something was written over, in the areas of all keyslots that hold a key. `info` is what the header on
/// `header` says.
///
/// # Errors
/// An area can't be read.
pub fn overwritten(header: &dyn Media, info: &Info) -> Result<Vec<Overwritten>, DeviceError> {
    let mut found = Vec::new();
    for keyslot in &info.keyslots {
        if let Some((offset, len)) = material(keyslot) {
            found.extend(judged(header, keyslot.id, offset, len)?);
        }
    }
    Ok(found)
}

/// Where the key material of a keyslot lies, in whole sectors: its area may be longer. None for one that holds no key.
fn material(keyslot: &KeyslotInfo) -> Option<(u64, u64)> {
    let (area, stripes) = (keyslot.area.as_ref()?, keyslot.af_stripes?);
    let len = keyslot.key_len.checked_mul(stripes.into())?.min(area.size);
    Some((area.offset, len.checked_sub(len.checked_rem(SECTOR as u64)?)?))
}

fn judged(
    header: &dyn Media,
    keyslot: u32,
    offset: u64,
    len: u64,
) -> Result<Option<Overwritten>, DeviceError> {
    let mut found: Option<Overwritten> = None;
    let mut buf = vec![0; AT_ONCE];
    let mut at = offset;
    // cannot overflow: an area that ended behind 2^64 would not be on the device.
    let end = offset.saturating_add(len);
    while at < end {
        // cannot be too many: no more than the buffer has, which is the smaller.
        let count = usize::try_from(end.saturating_sub(at)).unwrap_or(AT_ONCE).min(AT_ONCE);
        let Some(bytes) = buf.get_mut(..count) else { break };
        header.read_at(at, bytes)?;
        for sector in bytes.chunks_exact(SECTOR) {
            if !looks_random(sector) {
                let found = found.get_or_insert(Overwritten { keyslot, sectors: 0, first: at });
                // cannot overflow: there are fewer sectors than bytes.
                found.sectors = found.sectors.saturating_add(1);
            }
            // cannot overflow: `end` lies behind it.
            at = at.saturating_add(SECTOR as u64);
        }
    }
    Ok(found)
}

/// Whether the bytes of a sector are spread as random ones are.
fn looks_random(sector: &[u8]) -> bool {
    let mut counts = [0_u32; 256];
    for byte in sector {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            // cannot overflow: there are 512 bytes.
            *count = count.saturating_add(1);
        }
    }
    // cannot overflow: at most the square of 512.
    counts.iter().fold(0_u32, |sum, count| sum.saturating_add(count.saturating_mul(*count))) < LIMIT
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Random;

    use super::*;

    #[test]
    fn no_random_sector_is_suspected() {
        let mut random = Random::new(7);
        let mut most = 0;
        for _ in 0..100_000 {
            let sector = random.bytes(SECTOR);
            assert!(looks_random(&sector));
            let mut counts = [0_u32; 256];
            sector.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
            most = most.max(counts.iter().map(|count| count * count).sum());
        }
        // Far from the limit, and from what is expected.
        assert!((1664..2100).contains(&most), "{most}");
    }

    #[test]
    fn what_repeats_one_byte_is_suspected() {
        let mut random = Random::new(8);
        for kept in [0, 100, 400, 470] {
            let mut sector = random.bytes(SECTOR);
            sector[kept..].fill(0);
            assert!(!looks_random(&sector), "{kept} bytes of it are random");
        }
        let text = b"a text is no random data, and nothing that a cipher makes ";
        let sector: Vec<u8> = text.iter().copied().cycle().take(SECTOR).collect();
        assert!(!looks_random(&sector));
        let mut sector = random.bytes(SECTOR);
        sector[508..].fill(0);
        assert!(looks_random(&sector), "four zeros are nothing");
    }
}
