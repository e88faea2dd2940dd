//! Overwriting contents in place: no block is allocated or freed, so nothing changes but the bytes and, if that is wanted,
//! a time. Blocks are written whole, so that a power loss leaves each one old or new as far as the media writes a block at once.

use super::inode::{Inode, flag};
use super::{ExtTree, encrypted, map};
use atrest_filetree::{InodeCipher, Note, Timestamp, TreeError, TreePath};

use crate::fault::Damage;

/// Bytes written at once, whole blocks.
const PIECE: u64 = 1 << 20;

/// Adjoining blocks of a file: the first one in the file, the first one on the media, and how many.
struct Place {
    logical: u64,
    block: u64,
    len: u64,
}

impl ExtTree {
    /// Sets whether files may be overwritten. Each overwrite first checks whether the filesystem allows it.
    pub(crate) fn overwriting(mut self, writable: bool) -> Self {
        self.overwrites = writable;
        self
    }

    /// Fails unless files may be overwritten here.
    fn check_overwrites(&self) -> Result<(), TreeError> {
        if !self.overwrites {
            return Err(TreeError::ReadOnly);
        }
        // What is replayed in memory only would be replayed over what is written now.
        let sound = |note: &Note| {
            !matches!(note, Note::JournalReplayed { .. } | Note::NotCleanlyUnmounted | Note::ErrorsRecorded)
        };
        if !self.notes.iter().all(sound) || !self.blocks.replaced.is_empty() {
            return Err(TreeError::NotClean);
        }
        self.sb.check_overwrites()
    }

    pub(super) fn overwrite(&self, path: &TreePath, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        self.check_overwrites()?;
        let inode = self.file(path)?;
        if inode.flags & flag::PROTECTED != 0 {
            return Err(TreeError::Protected);
        }
        if inode.flags & flag::INLINE_DATA != 0 {
            return Err(TreeError::Unsupported);
        }
        match offset.checked_add(data.len() as u64) {
            Some(end) if end <= inode.size => {}
            _ => return Err(TreeError::CannotGrow { size: inode.size }),
        }
        // Whoever has no key writes nothing.
        let cipher = self.contents_cipher(&inode)?;
        // All of it has a place before anything is written.
        let places = self.places(&inode, offset, data.len() as u64)?;
        for place in places {
            self.overwrite_place((&inode, cipher.as_deref()), &place, offset, data)?;
        }
        Ok(())
    }

    /// Where the blocks of a part of a file lie. Each must be there, and written before.
    fn places(&self, inode: &Inode, offset: u64, len: u64) -> Result<Vec<Place>, TreeError> {
        let size = u64::from(self.sb.block_size);
        // cannot overflow: `overwrite` checked that it ends within the file. A block has bytes.
        let end = offset.saturating_add(len).div_ceil(size);
        let mut logical = offset.checked_div(size).unwrap_or(0);
        let mut places = Vec::new();
        while len > 0 && logical < end {
            let run = map::run(&self.blocks, inode, logical)?;
            // cannot overflow: it lies within the file.
            let offset = logical.saturating_mul(size);
            let block = run.block.ok_or(TreeError::NotAllocated { offset })?;
            let len =
                // cannot overflow: the loop ends there. A block has 1024 bytes or more.
                run.len.min(end.saturating_sub(logical)).min(PIECE.checked_div(size).unwrap_or(1).max(1));
            places.push(Place { logical, block, len });
            // cannot overflow: it stays within the file.
            logical = logical.saturating_add(len);
        }
        Ok(places)
    }

    /// Writes the part of `data`, which begins at byte `offset` of the file, that lies in some adjoining blocks.
    fn overwrite_place(
        &self,
        (inode, cipher): (&Inode, Option<&dyn InodeCipher>),
        place: &Place,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TreeError> {
        let size = u64::from(self.sb.block_size);
        // cannot overflow: all lies within the file.
        let start = place.logical.saturating_mul(size);
        let len = place.len.saturating_mul(size);
        let end = offset.saturating_add(data.len() as u64);
        // Blocks are whole data units.
        // cannot divide by zero: `contents_cipher` refuses a unit without bytes.
        let first = |cipher: &dyn InodeCipher| start.checked_div(cipher.data_unit() as u64).unwrap_or(0);
        let failed = |fault| encrypted::failed(inode, fault);
        // cannot miss: a place has a mebibyte at most.
        let mut blocks = vec![0; usize::try_from(len).unwrap_or(0)];
        // Bytes of a block that stay are read, and with them those behind the end of the file.
        // cannot overflow: all lies within the file.
        if offset > start || end < start.saturating_add(len) {
            self.blocks.read_run(place.block, 0, &mut blocks)?;
            if let Some(cipher) = cipher {
                cipher.decrypt_contents(first(cipher), &mut blocks).map_err(failed)?;
            }
        }
        // intended: data that begins in the block has none before it, and a block that begins in the data none either.
        let skip = usize::try_from(start.saturating_sub(offset)).unwrap_or(0);
        let at = usize::try_from(offset.saturating_sub(start)).unwrap_or(0);
        let new = data.get(skip..).unwrap_or(&[]);
        for (old, new) in blocks.iter_mut().skip(at).zip(new) {
            *old = *new;
        }
        if let Some(cipher) = cipher {
            cipher.encrypt_contents(first(cipher), &mut blocks).map_err(failed)?;
        }
        self.blocks.write_run(place.block, &blocks)
    }

    /// Sets the time of the last change of a file's contents.
    pub(super) fn overwrite_time(&self, path: &TreePath, time: Timestamp) -> Result<(), TreeError> {
        self.check_overwrites()?;
        let inode = self.file(path)?;
        if inode.flags & flag::PROTECTED != 0 {
            return Err(TreeError::Protected);
        }
        let (block, within) = Inode::place(&self.sb, &self.blocks, inode.number)?;
        let mut bytes = self.blocks.read(block)?.to_vec();
        let raw = inode.modified_at(time)?;
        let place = within.checked_add(raw.len()).and_then(|end| bytes.get_mut(within..end));
        place.ok_or(Damage::Inode(inode.number.into()))?.copy_from_slice(&raw);
        self.blocks.write_run(block, &bytes)
    }
}
