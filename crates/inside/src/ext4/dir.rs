//! Directories: kernel Documentation/filesystems/ext4, "Directory Entries". Hash trees are laid out so that a linear
//! reader sees their inner blocks as empty, so none of their code is needed here.

use super::hash::NameHash;
use super::inode::{Inode, flag};
use super::superblock::Superblock;
use super::{Blocks, incompat, map};
use crate::bytes::{Fields, crc32c};
use crate::error::{Damage, TreeError};
use crate::path::is_valid_name;
use crate::tree::Kind;

/// Larger directories are refused: a hostile one could otherwise fill the memory with names.
const MAX_SIZE: u64 = 512 << 20;
/// An entry without its name.
const HEADER: usize = 8;
/// Bytes of the fake entry at the end of a block that holds its checksum.
const TAIL: usize = 12;

/// One entry as stored.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Of an encrypted directory: the ciphertext.
    pub(super) name: Vec<u8>,
    pub(super) inode: u32,
    /// None where the filesystem does not store types in directories.
    pub(super) kind: Option<Kind>,
    /// Hash and minor hash of the name, where the directory stores them.
    pub(super) hash: Option<(u32, u32)>,
}

/// All entries but `.` and `..`.
pub(super) fn entries(sb: &Superblock, blocks: &Blocks, dir: &Inode) -> Result<Vec<Stored>, TreeError> {
    if dir.kind != Kind::Directory {
        return Err(TreeError::NotADirectory);
    }
    let mut found = Vec::new();
    if dir.flags & flag::INLINE_DATA != 0 {
        let data = dir.inline_data();
        // A part that is missing would be taken for a directory with fewer names.
        let whole = usize::try_from(dir.size).ok().and_then(|len| data.get(..len));
        let data = whole.ok_or_else(|| damaged(dir, data.len() as u64))?;
        // Four bytes name the parent; the entries in the attribute start anew behind the 60 bytes of the map.
        let split = data.len().min(60);
        parse(sb, dir, data.get(4..split).unwrap_or(&[]), 4, &mut found)?;
        parse(sb, dir, data.get(split..).unwrap_or(&[]), split as u64, &mut found)?;
        return Ok(found);
    }
    if dir.size > MAX_SIZE {
        return Err(TreeError::TooLarge { limit: MAX_SIZE });
    }
    let size = u64::from(sb.block_size);
    // A directory has no holes. One that maps the same blocks again and again is larger than the filesystem.
    if dir.size > sb.blocks.saturating_mul(size) {
        return Err(damaged(dir, 0));
    }
    let mut logical: u64 = 0;
    while logical.saturating_mul(size) < dir.size {
        let at = logical.saturating_mul(size);
        let run = map::run(blocks, dir, logical)?;
        let Some(first) = run.block else { return Err(damaged(dir, at)) };
        let left = dir.size.saturating_sub(at).div_ceil(size);
        for i in 0..run.len.min(left) {
            let block = blocks.read(first.saturating_add(i))?;
            let at = logical.saturating_add(i).saturating_mul(size);
            // The root of an index was a leaf once, and its old tail may still be there, with a checksum of another kind in it.
            if at > 0 || dir.flags & flag::INDEX == 0 {
                check_tail(dir, &block, at)?;
            }
            parse(sb, dir, &block, at, &mut found)?;
        }
        logical = logical.saturating_add(run.len);
    }
    Ok(found)
}

/// How a directory hashes its names; none where its names have no hash (kernel, `is_dx_dir`).
pub(super) fn name_hash(
    sb: &Superblock,
    blocks: &Blocks,
    dir: &Inode,
) -> Result<Option<NameHash>, TreeError> {
    let Some(hash) = sb.name_hash else { return Ok(None) };
    if dir.flags & flag::INDEX != 0 && dir.flags & flag::INLINE_DATA == 0 {
        // The root of the index lies behind the entries `.` and `..` of the first block.
        let Some(first) = map::run(blocks, dir, 0)?.block else { return Err(damaged(dir, 0)) };
        let version = Fields(&blocks.read(first)?).u8(28);
        return Ok(Some(NameHash { version, ..hash }));
    }
    let one_block = dir.size.checked_div(sb.block_size.into()) == Some(1);
    Ok((one_block || dir.flags & flag::INLINE_DATA != 0).then_some(hash))
}

fn damaged(dir: &Inode, at: u64) -> TreeError {
    Damage::Directory { inode: dir.number.into(), at }.into()
}

/// Verifies the checksum of a leaf block. Inner blocks of hash trees keep theirs elsewhere and hold no names.
fn check_tail(dir: &Inode, block: &[u8], at: u64) -> Result<(), TreeError> {
    let Some(seed) = dir.checksum_seed else { return Ok(()) };
    let end = block.len().saturating_sub(TAIL);
    let tail = Fields(Fields(block).slice(end, TAIL));
    let is_tail = tail.le32(0) == 0 && tail.le16(4) == 12 && tail.u8(6) == 0 && tail.u8(7) == 0xde;
    if is_tail && crc32c(seed, Fields(block).slice(0, end)) != tail.le32(8) {
        return Err(damaged(dir, at));
    }
    Ok(())
}

/// Entries in one block, or in one part of inline data.
fn parse(
    sb: &Superblock,
    dir: &Inode,
    block: &[u8],
    base: u64,
    found: &mut Vec<Stored>,
) -> Result<(), TreeError> {
    let typed = sb.has(incompat::FILETYPE);
    // Without the key nobody can hash the folded names again.
    let with_hashes = dir.is_encrypted() && dir.flags & flag::CASEFOLD != 0;
    let mut at: usize = 0;
    while at.saturating_add(HEADER) <= block.len() {
        let entry = Fields(block.get(at..).unwrap_or(&[]));
        let start = at;
        let bad = || damaged(dir, base.saturating_add(start as u64));
        // 64 KiB do not fit into 16 bits: the two low bits, always 0 otherwise, carry the high ones.
        let stored = u32::from(entry.le16(4));
        let len = match stored {
            0 | 0xffff if sb.block_size == 65536 => 65536,
            _ => (stored & 0xfffc) | (stored & 3) << 16,
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let name_len = if typed { entry.u8(6).into() } else { usize::from(entry.le16(6)) };
        let end = at.saturating_add(len);
        if len < HEADER || end > block.len() || name_len > len.saturating_sub(HEADER) {
            return Err(bad());
        }
        let (inode, name) = (entry.le32(0), entry.slice(HEADER, name_len));
        at = end;
        if inode == 0 || matches!(name, b"." | b"..") {
            continue;
        }
        // The bytes of an encrypted name are any.
        let possible = if dir.is_encrypted() { !name.is_empty() } else { is_valid_name(name) };
        if !possible {
            return Err(Damage::Name { inode: dir.number.into() }.into());
        }
        let hash = if with_hashes {
            let at = HEADER.saturating_add(name_len).next_multiple_of(4);
            if at.saturating_add(8) > len {
                return Err(bad());
            }
            Some((entry.le32(at), entry.le32(at.saturating_add(4))))
        } else {
            None
        };
        let kind = match entry.u8(7) {
            _ if !typed => None,
            1 => Some(Kind::File),
            2 => Some(Kind::Directory),
            3 => Some(Kind::CharDevice),
            4 => Some(Kind::BlockDevice),
            5 => Some(Kind::Pipe),
            6 => Some(Kind::Socket),
            7 => Some(Kind::Link),
            _ => None,
        };
        found.push(Stored { name: name.to_vec(), inode, kind, hash });
    }
    Ok(())
}
