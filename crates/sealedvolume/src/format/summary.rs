//! What a log object says of itself, sealed: what came before it, where its blocks belong, and what else it changes.

use atrest_codec::{Le, Reader, encode};

use super::{Chain, FormatError, FormatId, JournalMark, MOST_BLOCKS, MOST_NUMBER, counts};

/// Bytes before the extents.
const FIXED: usize = 128;

/// A log object's summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// It begins a session: no blocks, and numbers are skipped behind it.
    pub begin: bool,
    /// Counts the openings for writing.
    pub ordinal: u64,
    /// Number of the log object before it.
    pub before: u64,
    /// Chain value after that one.
    pub before_chain: Chain,
    /// Number of the one behind it.
    pub successor: u64,
    /// SHA-256 over the tags of its blocks, in their order.
    pub tags: [u8; 32],
    /// Size of the volume in blocks.
    pub blocks: u64,
    /// The journal that is in use.
    pub journal: Option<JournalMark>,
    /// Addresses in the order in which they are applied. Slots run on over those that are no trims.
    pub extents: Vec<Extent>,
    /// What changes beside the blocks.
    pub operations: Vec<Operation>,
}

/// A run of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first block.
    pub start: u64,
    /// Blocks in the run, at least one.
    pub len: u64,
    /// They read as zeros from now on, and have no slots.
    pub trim: bool,
}

/// A change that is no block's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A checkpoint is kept as a snapshot.
    SnapshotAdded {
        /// Its identifier, which no other one of the volume has had.
        id: u64,
        /// Its name, of 255 bytes at most.
        name: String,
        /// Number of the checkpoint.
        checkpoint: u64,
        /// Salt of the checkpoint.
        salt: [u8; 16],
    },
    /// A snapshot is given up.
    SnapshotRemoved {
        /// Its identifier.
        id: u64,
    },
    /// A volume is a clone of a snapshot from now on.
    SnapshotCloned {
        /// Its identifier.
        id: u64,
        /// The identifier of the clone's format.
        clone: FormatId,
    },
    /// A clone needs a snapshot no more.
    CloneGone {
        /// The snapshot's identifier.
        id: u64,
        /// The identifier of the clone's format.
        clone: FormatId,
    },
    /// The volume has another size from the next log object on. What lies behind its end is given up.
    Resized {
        /// Blocks.
        blocks: u64,
    },
}

impl Summary {
    /// Its bytes.
    ///
    /// # Errors
    /// [`FormatError::Limit`] if a length does not fit.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let extents = u32::try_from(self.extents.len()).map_err(|_| FormatError::Limit)?;
        let operations = u32::try_from(self.operations.len()).map_err(|_| FormatError::Limit)?;
        let numbers = (Le(self.ordinal), Le(self.before), Le(self.successor));
        let sizes = (Le(self.blocks), Le(extents), Le(operations));
        let (journal, covered) = JournalMark::encode(self.journal);
        let first = ([u8::from(self.begin)], [0; 3], journal);
        let fixed: [u8; FIXED] = encode((first, numbers, self.before_chain, self.tags, sizes, covered));
        let mut out = fixed.to_vec();
        put_extents(&mut out, &self.extents)?;
        for operation in &self.operations {
            match operation {
                Operation::SnapshotAdded { id, name, checkpoint, salt } => {
                    let len = u8::try_from(name.len()).map_err(|_| FormatError::Limit)?;
                    out.push(1);
                    out.extend_from_slice(&id.to_le_bytes());
                    out.extend_from_slice(&checkpoint.to_le_bytes());
                    out.extend_from_slice(salt);
                    out.push(len);
                    out.extend_from_slice(name.as_bytes());
                }
                Operation::SnapshotRemoved { id } => {
                    out.push(2);
                    out.extend_from_slice(&id.to_le_bytes());
                }
                Operation::Resized { blocks } => {
                    out.push(3);
                    out.extend_from_slice(&blocks.to_le_bytes());
                }
                Operation::SnapshotCloned { id, clone } | Operation::CloneGone { id, clone } => {
                    out.push(if matches!(operation, Operation::SnapshotCloned { .. }) { 4 } else { 5 });
                    out.extend_from_slice(&id.to_le_bytes());
                    out.extend_from_slice(clone);
                }
            }
        }
        Ok(out)
    }

    /// The summary that these bytes are, of an object with this number and so many slots.
    ///
    /// # Errors
    /// [`FormatError::Layout`] or [`FormatError::Limit`].
    pub fn decode(bytes: &[u8], number: u64, slots: u32) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes);
        let begin = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(FormatError::Layout),
        };
        reader.zeros(3)?;
        let journal = reader.le32()?;
        let (ordinal, before, successor) = (reader.le64()?, reader.le64()?, reader.le64()?);
        let (before_chain, tags) = (reader.array()?, reader.array()?);
        let (blocks, extent_count, operation_count) = (reader.le64()?, reader.le32()?, reader.le32()?);
        let journal = JournalMark::decode(journal, &reader.array()?)?;
        if before >= number || successor <= number || successor > MOST_NUMBER || blocks > MOST_BLOCKS {
            return Err(FormatError::Limit);
        }
        let extents = take_extents(&mut reader, extent_count, blocks, slots)?;
        let mut operations = Vec::new();
        for _ in 0..operation_count {
            operations.push(Self::operation(&mut reader)?);
        }
        reader.finish()?;
        if begin && !(extents.is_empty() && operations.is_empty()) {
            return Err(FormatError::Layout);
        }
        Ok(Self {
            begin,
            ordinal,
            before,
            before_chain,
            successor,
            tags,
            blocks,
            journal,
            extents,
            operations,
        })
    }

    fn operation(reader: &mut Reader<'_>) -> Result<Operation, FormatError> {
        match reader.u8()? {
            1 => {
                let (id, checkpoint, salt) = (reader.le64()?, reader.le64()?, reader.array()?);
                Ok(Operation::SnapshotAdded { id, name: name(reader)?, checkpoint, salt })
            }
            2 => Ok(Operation::SnapshotRemoved { id: reader.le64()? }),
            3 => {
                let blocks = reader.le64()?;
                match blocks == 0 || blocks > MOST_BLOCKS {
                    true => Err(FormatError::Limit),
                    false => Ok(Operation::Resized { blocks }),
                }
            }
            4 => Ok(Operation::SnapshotCloned { id: reader.le64()?, clone: reader.array()? }),
            5 => Ok(Operation::CloneGone { id: reader.le64()?, clone: reader.array()? }),
            _ => Err(FormatError::Layout),
        }
    }
}

/// Appends extents, in their order.
pub(super) fn put_extents(out: &mut Vec<u8>, extents: &[Extent]) -> Result<(), FormatError> {
    let mut end = 0_u64;
    for extent in extents {
        let distance = extent.start.cast_signed().checked_sub(end.cast_signed()).ok_or(FormatError::Limit)?;
        let doubled = extent.len.checked_mul(2).ok_or(FormatError::Limit)?;
        counts::put(out, counts::zigzag(distance));
        counts::put(out, doubled | u64::from(extent.trim));
        end = extent.start.checked_add(extent.len).ok_or(FormatError::Limit)?;
    }
    Ok(())
}

/// Extents of a volume of so many blocks, which have so many slots.
pub(super) fn take_extents(
    reader: &mut Reader<'_>,
    count: u32,
    blocks: u64,
    slots: u32,
) -> Result<Vec<Extent>, FormatError> {
    // Nothing is set aside for what the count promises: each extent takes two bytes or more of what is there.
    let mut extents = Vec::new();
    let (mut end, mut stored) = (0_u64, 0_u64);
    for _ in 0..count {
        let distance = counts::unzigzag(counts::take(reader)?);
        let both = counts::take(reader)?;
        let start = end.checked_add_signed(distance).ok_or(FormatError::Limit)?;
        let (len, trim) = (both >> 1, both & 1 == 1);
        end = start.checked_add(len).ok_or(FormatError::Limit)?;
        if len == 0 || end > blocks {
            return Err(FormatError::Limit);
        }
        if !trim {
            stored = stored.checked_add(len).ok_or(FormatError::Limit)?;
        }
        extents.push(Extent { start, len, trim });
    }
    if stored == u64::from(slots) { Ok(extents) } else { Err(FormatError::Layout) }
}

/// A name with its length before it.
pub(super) fn name(reader: &mut Reader<'_>) -> Result<String, FormatError> {
    let len = reader.u8()?;
    let bytes = reader.bytes(len.into())?;
    core::str::from_utf8(bytes).map(String::from).map_err(|_| FormatError::Layout)
}
