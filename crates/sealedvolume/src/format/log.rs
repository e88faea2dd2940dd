//! Log objects: prelude, summary, blocks, summary again, prelude again. One flipped bit costs one block at most.

use atrest_codec::Reader;
use sha2::{Digest, Sha256};

use super::prelude::{PRELUDE_LEN, Prelude};
use super::{
    BLOCK_LEN, Chain, FormatError, Keys, Kind, MOST_SLOTS, MOST_SUMMARY, ObjectCipher, Part, Parts, Summary,
    TAG_LEN,
};

/// Bytes of a sealed block: the block and its tag.
pub const BLOCK_SEALED: usize = BLOCK_LEN + TAG_LEN;

/// A log object that was verified but for its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogObject {
    /// Its identity.
    pub prelude: Prelude,
    /// What it says.
    pub summary: Summary,
    /// The chain value after it.
    pub chain: Chain,
}

/// A log object that is to be stored.
#[derive(Clone, Debug)]
pub struct SealedLog {
    /// What it is.
    pub object: LogObject,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Bytes in the log object that has this prelude.
///
/// # Errors
/// [`FormatError::Limit`] if that does not fit a `usize`.
pub fn log_len(prelude: &Prelude) -> Result<usize, FormatError> {
    let (summary, blocks) = (sealed_summary(prelude)?, blocks_len(prelude)?);
    let around = PRELUDE_LEN.checked_add(summary).and_then(|half| half.checked_mul(2));
    around.and_then(|around| around.checked_add(blocks)).ok_or(FormatError::Limit)
}

/// Byte at which a slot begins.
///
/// # Errors
/// [`FormatError::Limit`] if the object has no such slot.
pub fn slot_offset(prelude: &Prelude, slot: u32) -> Result<u64, FormatError> {
    if slot >= prelude.slots {
        return Err(FormatError::Limit);
    }
    let slots = u64::from(slot).checked_mul(BLOCK_SEALED as u64);
    slots.and_then(|slots| slots.checked_add(before_slots(prelude).ok()? as u64)).ok_or(FormatError::Limit)
}

/// Seals blocks and their summary, whose digest of tags is set here. The prelude's lengths are set here, too; nothing else was ever
/// sealed with its session, number and salt.
///
/// # Errors
/// [`FormatError::Limit`] if there are more blocks than an object takes, or the summary is too long.
pub fn seal_log(
    keys: &Keys,
    mut prelude: Prelude,
    mut summary: Summary,
    blocks: &[(u64, &[u8; BLOCK_LEN])],
) -> Result<SealedLog, FormatError> {
    prelude.kind = Kind::Log;
    prelude.epoch = keys.epoch();
    prelude.slots = u32::try_from(blocks.len()).map_err(|_| FormatError::Limit)?;
    let len = summary.encode()?.len(); // which does not depend on the tags
    prelude.summary_len = u32::try_from(len).map_err(|_| FormatError::Limit)?;
    if prelude.slots > MOST_SLOTS || prelude.summary_len > MOST_SUMMARY {
        return Err(FormatError::Limit);
    }
    let (cipher, front) = keys.seal(&prelude);
    let mut bytes = Vec::with_capacity(log_len(&prelude)?);
    bytes.extend_from_slice(&front);
    let place = bytes.len();
    // Of the summary there is only the place yet: it tells the tags of the blocks behind it.
    bytes.resize(before_slots(&prelude)?, 0);
    let mut tags = Sha256::new();
    let sealed = cipher.several(|parts| {
        for (slot, (address, block)) in (0_u32..).zip(blocks) {
            let at = bytes.len();
            bytes.extend_from_slice(*block);
            let data = bytes.get_mut(at..).ok_or(FormatError::Limit)?;
            let tag = parts.seal(Part::Block(slot), &address.to_le_bytes(), data)?;
            bytes.extend_from_slice(&tag);
            tags.update(tag);
        }
        Ok(())
    });
    if let Err(error) = sealed {
        // The last block may be there as it was.
        atrest_secret::wipe(&mut bytes);
        return Err(error);
    }
    summary.tags = tags.finalize().into();
    let clear = summary.encode()?;
    let chain = keys.chain(&summary.before_chain, &prelude, &clear)?;
    let mut sealed = Vec::new();
    put_sealed(&mut sealed, &cipher, Part::SummaryA, &clear)?;
    let there = bytes.get_mut(place..).and_then(|bytes| bytes.get_mut(..sealed.len()));
    there.ok_or(FormatError::Limit)?.copy_from_slice(&sealed);
    put_sealed(&mut bytes, &cipher, Part::SummaryB, &clear)?;
    bytes.extend_from_slice(&front);
    Ok(SealedLog { object: LogObject { prelude, summary, chain }, bytes })
}

/// Reads log object `number` from all its bytes: by whichever copy of prelude and summary is whole.
///
/// # Errors
/// Why neither copy is.
pub fn open_log(keys: &Keys, number: u64, bytes: &[u8]) -> Result<LogObject, FormatError> {
    let mut why = None;
    let last = bytes.last_chunk::<PRELUDE_LEN>();
    for prelude in [bytes.first_chunk::<PRELUDE_LEN>(), last] {
        match open_by(keys, number, bytes, prelude.ok_or(FormatError::Length)?) {
            Ok(object) => return Ok(object),
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or(FormatError::Length)) // cannot be reached without a reason: both copies were tried
}

/// Reads log object `number` from its first bytes alone, by the first copies. `None` if more bytes are needed, and how many.
///
/// # Errors
/// Why the first copies are not whole.
pub fn open_log_front(
    keys: &Keys,
    number: u64,
    front: &[u8],
) -> Result<Result<LogObject, usize>, FormatError> {
    let (cipher, prelude) = opened_prelude(keys, number, front.first_chunk().ok_or(FormatError::Length)?)?;
    let mut reader = Reader::at(front, PRELUDE_LEN)?;
    let len = sealed_summary(&prelude)?;
    let Ok(sealed) = reader.bytes(len) else {
        return Ok(Err(PRELUDE_LEN.checked_add(len).ok_or(FormatError::Limit)?));
    };
    opened_summary(keys, &cipher, prelude, Part::SummaryA, sealed).map(Ok)
}

/// Decrypts a block as it lies in its slot. Where the tag does not fit, `out` is zeros.
///
/// # Errors
/// [`FormatError::Tag`].
pub fn open_block(
    parts: Parts<'_>,
    slot: u32,
    address: u64,
    sealed: &[u8; BLOCK_SEALED],
    out: &mut [u8; BLOCK_LEN],
) -> Result<(), FormatError> {
    let (data, tag) = sealed.split_first_chunk::<BLOCK_LEN>().ok_or(FormatError::Length)?;
    let tag = tag.first_chunk::<TAG_LEN>().ok_or(FormatError::Length)?;
    *out = *data;
    parts.open(Part::Block(slot), &address.to_le_bytes(), out, tag)
}

fn open_by(
    keys: &Keys,
    number: u64,
    bytes: &[u8],
    prelude: &[u8; PRELUDE_LEN],
) -> Result<LogObject, FormatError> {
    let (cipher, prelude) = opened_prelude(keys, number, prelude)?;
    if bytes.len() != log_len(&prelude)? {
        return Err(FormatError::Length);
    }
    let summary = sealed_summary(&prelude)?;
    let mut reader = Reader::at(bytes, PRELUDE_LEN)?;
    let first = reader.bytes(summary)?;
    reader.bytes(blocks_len(&prelude)?)?;
    let second = reader.bytes(summary)?;
    opened_summary(keys, &cipher, prelude, Part::SummaryA, first)
        .or_else(|_| opened_summary(keys, &cipher, prelude, Part::SummaryB, second))
}

fn opened_prelude(
    keys: &Keys,
    number: u64,
    bytes: &[u8; PRELUDE_LEN],
) -> Result<(ObjectCipher, Prelude), FormatError> {
    let (cipher, prelude) = keys.open(bytes)?;
    if (prelude.kind, prelude.number) != (Kind::Log, number) {
        return Err(FormatError::AnotherObject);
    }
    Ok((cipher, prelude))
}

fn opened_summary(
    keys: &Keys,
    cipher: &ObjectCipher,
    prelude: Prelude,
    part: Part,
    sealed: &[u8],
) -> Result<LogObject, FormatError> {
    let clear = open_sealed(cipher, part, sealed)?;
    let summary = Summary::decode(&clear, prelude.number, prelude.slots)?;
    let chain = keys.chain(&summary.before_chain, &prelude, &clear)?;
    Ok(LogObject { prelude, summary, chain })
}

/// Appends what is sealed of `clear`, and its tag.
pub(super) fn put_sealed(
    out: &mut Vec<u8>,
    cipher: &ObjectCipher,
    part: Part,
    clear: &[u8],
) -> Result<(), FormatError> {
    let mut data = clear.to_vec();
    let tag = cipher.seal(part, &[], &mut data)?;
    out.extend_from_slice(&data);
    out.extend_from_slice(&tag);
    Ok(())
}

/// What was sealed, whose tag stands behind it.
pub(super) fn open_sealed(cipher: &ObjectCipher, part: Part, sealed: &[u8]) -> Result<Vec<u8>, FormatError> {
    let (data, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(FormatError::Length)?;
    let mut data = data.to_vec();
    cipher.open(part, &[], &mut data, tag)?;
    Ok(data)
}

/// Bytes before the first slot.
fn before_slots(prelude: &Prelude) -> Result<usize, FormatError> {
    PRELUDE_LEN.checked_add(sealed_summary(prelude)?).ok_or(FormatError::Limit)
}

fn sealed_summary(prelude: &Prelude) -> Result<usize, FormatError> {
    usize::try_from(prelude.summary_len)
        .ok()
        .and_then(|len| len.checked_add(TAG_LEN))
        .ok_or(FormatError::Limit)
}

fn blocks_len(prelude: &Prelude) -> Result<usize, FormatError> {
    usize::try_from(prelude.slots)
        .ok()
        .and_then(|slots| slots.checked_mul(BLOCK_SEALED))
        .ok_or(FormatError::Limit)
}
