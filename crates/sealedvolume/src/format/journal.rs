//! The journal: a local file or device on which flushes are kept until log objects hold them. Heads of its two halves, and records.

use core::fmt;
use core::num::NonZeroU32;

use atrest_codec::{Le, Reader, decode, encode};
use atrest_kdf::Prf;
use atrest_secret::{constant_time_eq, wipe};

use super::keys::{Aead, ObjectCipher};
use super::summary::{put_extents, take_extents};
use super::{BLOCK_LEN, Chain, Extent, FormatError, FormatId, MOST_SLOTS, MOST_SUMMARY, TAG_LEN, VERSION};

/// Bytes in a head; records begin at multiples of it.
pub const JOURNAL_HEAD: usize = 4096;
/// Bytes before the body of a record.
pub const RECORD_FRONT: usize = 32;
/// Bytes in a body, at most.
const MOST_BODY: usize = 8 + MOST_SUMMARY as usize + MOST_SLOTS as usize * BLOCK_LEN;
/// Numbers that records have at most: a trusted record has 6 bytes for them.
pub const MOST_RECORDS: u64 = (1 << 48) - 1;

const MAGIC: [u8; 8] = *b"\x93atsjnl\n";
const MARK: [u8; 3] = *b"ajr";
/// Bytes of a head that its tag covers.
const COVERED: usize = JOURNAL_HEAD - 32;

/// First bytes of a journal's chain value: as many as a log object has room for.
type Short = [u8; 10];

/// What a log object says of the journal that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalMark {
    /// The journal.
    pub id: NonZeroU32,
    /// Number of the last record whose changes are all in this object or those before it, 0 for none. It has 48 bits.
    pub covered: u64,
    /// The journal's chain value after that record, cut short.
    chain: Short,
}

impl JournalMark {
    /// All is covered up to a record with this chain value after it.
    pub fn new(id: NonZeroU32, covered: u64, chain: &Chain) -> Self {
        let (chain, _): (Short, [u8; 22]) = decode(chain);
        Self { id, covered, chain }
    }

    /// Whether the journal has this chain value after the record that is covered.
    pub fn is_at(&self, chain: &Chain) -> bool {
        *self == Self::new(self.id, self.covered, chain)
    }

    /// Identifier; record and chain value.
    pub(super) fn encode(mark: Option<Self>) -> ([u8; 4], [u8; 16]) {
        let Some(Self { id, covered, chain }) = mark else { return ([0; 4], [0; 16]) };
        let (covered, _): ([u8; 6], [u8; 2]) = decode(&covered.to_le_bytes());
        (id.get().to_le_bytes(), encode((covered, chain)))
    }

    pub(super) fn decode(id: u32, rest: &[u8; 16]) -> Result<Option<Self>, FormatError> {
        let (covered, chain): ([u8; 6], Short) = decode(rest);
        let covered = u64::from_le_bytes(encode((covered, [0; 2])));
        match NonZeroU32::new(id) {
            None if *rest == [0; 16] => Ok(None),
            None => Err(FormatError::Layout),
            Some(_) if covered >= MOST_RECORDS => Err(FormatError::Limit),
            Some(id) => Ok(Some(Self { id, covered, chain })),
        }
    }
}

/// What stands before the records of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHead {
    /// Which of the volume's keys the journal is made with.
    pub epoch: u32,
    /// The journal.
    pub id: NonZeroU32,
    /// Number of the first record.
    pub first: u64,
    /// Chain value before it.
    pub before: Chain,
}

impl JournalHead {
    /// The head that these bytes seem to be, and the volume that it is of. Nothing of it is verified.
    ///
    /// # Errors
    /// [`FormatError::Foreign`], [`FormatError::Version`], [`FormatError::Layout`] or [`FormatError::Limit`].
    pub fn peek(bytes: &[u8; JOURNAL_HEAD]) -> Result<(Self, FormatId), FormatError> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != MAGIC {
            return Err(FormatError::Foreign);
        }
        let version = reader.le16()?;
        if version != VERSION {
            return Err(FormatError::Version { version });
        }
        reader.zeros(2)?;
        let (epoch, format, id) = (reader.le32()?, reader.array()?, reader.le32()?);
        reader.zeros(4)?;
        let (first, before) = (reader.le64()?, reader.array()?);
        reader.zeros(COVERED - 80)?;
        let id = NonZeroU32::new(id).ok_or(FormatError::Layout)?;
        if first == 0 || first > MOST_RECORDS {
            return Err(FormatError::Limit);
        }
        Ok((Self { epoch, id, first, before }, format))
    }
}

/// What a record says before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFront {
    aead: Aead,
    body: u32,
    /// Its number.
    pub number: u64,
    salt: [u8; 16],
}

impl RecordFront {
    fn encode(&self) -> [u8; RECORD_FRONT] {
        encode((MARK, [self.aead.number()], Le(self.body), Le(self.number), self.salt))
    }

    /// The front that these bytes are.
    ///
    /// # Errors
    /// [`FormatError::Foreign`], [`FormatError::Layout`] or [`FormatError::Limit`].
    pub fn decode(bytes: &[u8; RECORD_FRONT]) -> Result<Self, FormatError> {
        type Fields = ([u8; 3], [u8; 1], Le<u32>, Le<u64>, [u8; 16]);
        let (mark, [aead], Le(body), Le(number), salt): Fields = decode(bytes);
        if mark != MARK {
            return Err(FormatError::Foreign);
        }
        let aead = Aead::from_number(aead).ok_or(FormatError::Layout)?;
        if body as usize > MOST_BODY || number == 0 || number > MOST_RECORDS {
            return Err(FormatError::Limit);
        }
        Ok(Self { aead, body, number, salt })
    }

    /// Bytes of the record, without the zeros behind it.
    pub fn record_len(&self) -> usize {
        RECORD_FRONT.saturating_add(self.body as usize).saturating_add(TAG_LEN) // cannot saturate: a body is limited
    }

    /// Bytes that the record takes.
    pub fn room(&self) -> u64 {
        room(self.body as usize)
    }
}

/// Bytes that a record with a body of so many takes.
fn room(body: usize) -> u64 {
    // cannot saturate: a body is limited
    let len = (body as u64).saturating_add((RECORD_FRONT + TAG_LEN) as u64);
    len.div_ceil(JOURNAL_HEAD as u64).saturating_mul(JOURNAL_HEAD as u64)
}

/// Bytes that a record of so many blocks and trims takes at most.
pub fn most_room(blocks: usize) -> u64 {
    // intended: more than any journal has. A run takes at most two numbers of 10 bytes, and each block may be one.
    room(blocks.saturating_mul(BLOCK_LEN + 20).saturating_add(8))
}

/// What was written between two flushes.
#[derive(PartialEq, Eq)]
pub struct JournalRecord {
    /// Its number.
    pub number: u64,
    /// Addresses, in the order in which they are applied.
    pub extents: Vec<Extent>,
    /// The blocks of those that are no trims, one behind the other.
    pub data: Vec<u8>,
}

impl JournalRecord {
    /// The record that has this body in clear, of a volume of so many blocks.
    ///
    /// # Errors
    /// [`FormatError::Length`], [`FormatError::Layout`] or [`FormatError::Limit`].
    pub fn decode(number: u64, body: &[u8], blocks: u64) -> Result<Self, FormatError> {
        let mut reader = Reader::new(body);
        let (count, slots) = (reader.le32()?, reader.le32()?);
        if slots > MOST_SLOTS {
            return Err(FormatError::Limit);
        }
        let extents = take_extents(&mut reader, count, blocks, slots)?;
        let data = (slots as usize).checked_mul(BLOCK_LEN).ok_or(FormatError::Limit)?;
        let data = reader.bytes(data)?.to_vec();
        reader.finish()?;
        Ok(Self { number, extents, data })
    }

    /// Whether it changes nothing: an opening has put it behind what it found.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }
}

/// A body in clear, which is wiped when it goes.
struct Clear(Vec<u8>);

impl Drop for Clear {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for JournalRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, extents) = (&self.number, &self.extents);
        f.debug_struct("JournalRecord")
            .field("number", number)
            .field("extents", extents)
            .finish_non_exhaustive()
    }
}

impl Drop for JournalRecord {
    fn drop(&mut self) {
        wipe(&mut self.data);
    }
}

/// The key of a volume's journals.
pub struct JournalKeys {
    pub(super) format: FormatId,
    pub(super) epoch: u32,
    pub(super) prf: Prf,
}

impl fmt::Debug for JournalKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JournalKeys(..)")
    }
}

impl JournalKeys {
    /// Which of the volume's keys it was made of.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The chain value before record 1.
    pub fn first_chain(&self, id: NonZeroU32) -> Chain {
        *self.prf.whole(&[b"chain", &id.get().to_le_bytes()])
    }

    /// A head as bytes.
    pub fn encode_head(&self, head: &JournalHead) -> [u8; JOURNAL_HEAD] {
        let fields = (MAGIC, Le(VERSION), [0; 2], Le(self.epoch), self.format);
        let front: [u8; 80] = encode((fields, Le(head.id.get()), [0; 4], Le(head.first), head.before));
        let covered: [u8; COVERED] = encode((front, [0; COVERED - 80]));
        encode((covered, *self.prf.whole(&[b"head", &covered])))
    }

    /// The head that these bytes are.
    ///
    /// # Errors
    /// Those of [`JournalHead::peek`], [`FormatError::AnotherVolume`], or [`FormatError::Tag`].
    pub fn open_head(&self, bytes: &[u8; JOURNAL_HEAD]) -> Result<JournalHead, FormatError> {
        let (head, format) = JournalHead::peek(bytes)?;
        if format != self.format {
            return Err(FormatError::AnotherVolume);
        }
        let (covered, tag): ([u8; COVERED], [u8; 32]) = decode(bytes);
        match constant_time_eq(&*self.prf.whole(&[b"head", &covered]), &tag) {
            true => Ok(head),
            false => Err(FormatError::Tag),
        }
    }

    /// Seals a record, with the zeros behind it. Returns it and the chain value after it. `salt` was drawn for it.
    ///
    /// # Errors
    /// [`FormatError::Limit`] if it is longer than a record may be.
    pub fn seal(
        &self,
        (id, number, before): (NonZeroU32, u64, &Chain),
        (aead, salt): (Aead, [u8; 16]),
        extents: &[Extent],
        blocks: &[&[u8; BLOCK_LEN]],
    ) -> Result<(Vec<u8>, Chain), FormatError> {
        let count = |count: usize| u32::try_from(count).map_err(|_| FormatError::Limit);
        let mut runs = Vec::new();
        put_extents(&mut runs, extents)?;
        let data = blocks.len().checked_mul(BLOCK_LEN).ok_or(FormatError::Limit)?;
        let body =
            runs.len().checked_add(8).and_then(|len| len.checked_add(data)).ok_or(FormatError::Limit)?;
        if runs.len() > MOST_SUMMARY as usize || blocks.len() > MOST_SLOTS as usize || number > MOST_RECORDS {
            return Err(FormatError::Limit);
        }
        let front = RecordFront { aead, body: count(body)?, number, salt };
        let clear_front = front.encode();
        let all = usize::try_from(front.room()).map_err(|_| FormatError::Limit)?;
        // It is there from the start: what is plain must not stay behind where the vector was before it grew.
        let mut bytes = Vec::with_capacity(all);
        bytes.extend_from_slice(&clear_front);
        bytes.extend_from_slice(&count(extents.len())?.to_le_bytes());
        bytes.extend_from_slice(&count(blocks.len())?.to_le_bytes());
        bytes.extend_from_slice(&runs);
        blocks.iter().for_each(|block| bytes.extend_from_slice(*block));
        let sealed = bytes.get_mut(RECORD_FRONT..).ok_or(FormatError::Limit)?;
        let tag = self.cipher(id, before, &front, &clear_front).seal_whole(sealed)?;
        bytes.extend_from_slice(&tag);
        bytes.resize(all, 0);
        Ok((bytes, self.chain(before, &clear_front, &tag)))
    }

    /// Opens the record that follows a chain value, from its bytes, with the zeros behind it or without. `blocks`: size of the volume.
    ///
    /// # Errors
    /// [`FormatError::AnotherObject`] for another number, [`FormatError::Length`] or [`FormatError::Tag`] for one that is not whole or not the
    /// next one, and why what was sealed is no record.
    pub fn open(
        &self,
        (id, number, before): (NonZeroU32, u64, &Chain),
        bytes: &[u8],
        blocks: u64,
    ) -> Result<(JournalRecord, Chain), FormatError> {
        let clear_front = bytes.first_chunk::<RECORD_FRONT>().ok_or(FormatError::Length)?;
        let front = RecordFront::decode(clear_front)?;
        if front.number != number {
            return Err(FormatError::AnotherObject);
        }
        let sealed = bytes.get(RECORD_FRONT..front.record_len()).ok_or(FormatError::Length)?;
        let (body, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(FormatError::Length)?;
        let mut clear = Clear(body.to_vec());
        self.cipher(id, before, &front, clear_front).open_whole(&mut clear.0, tag)?;
        let record = JournalRecord::decode(number, &clear.0, blocks)?;
        Ok((record, self.chain(before, clear_front, tag)))
    }

    fn cipher(
        &self,
        id: NonZeroU32,
        before: &Chain,
        front: &RecordFront,
        clear: &[u8; RECORD_FRONT],
    ) -> ObjectCipher {
        let key = self.prf.expand::<32>(&[b"record", &id.get().to_le_bytes(), before, clear]);
        ObjectCipher::new(front.aead, &*key)
    }

    fn chain(&self, before: &Chain, front: &[u8; RECORD_FRONT], tag: &[u8; TAG_LEN]) -> Chain {
        *self.prf.whole(&[b"chain", before, front, tag])
    }
}
