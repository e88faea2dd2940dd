//! Directories: kernel Documentation/filesystems/ext4, "Directory Entries". Hash trees are laid out so that a linear
//! reader sees their inner blocks as empty, so none of their code is needed here.

use atrest_codec::{Le, Reader, crc32c, decode};
use atrest_filetree::{Kind, TreeError, is_valid_name};

use super::hash::NameHash;
use super::inode::{Inode, flag};
use super::superblock::Superblock;
use super::{Blocks, incompat, map};
use crate::fault::Damage;

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
    /// Byte of the directory at which it begins, and the one behind it.
    pub(super) place: (u64, u64),
}

/// Entries but `.` and `..` that begin at byte `from` of the directory or behind it, at most so many. None only at its end.
pub(super) fn entries(
    sb: &Superblock,
    blocks: &Blocks,
    dir: &Inode,
    (from, most): (u64, usize),
) -> Result<Vec<Stored>, TreeError> {
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
        let (in_map, in_attribute) = data.split_at(data.len().min(60));
        let (_parent, in_map) = in_map.split_first_chunk::<4>().ok_or_else(|| damaged(dir, 0))?;
        // Without a name, there is an empty entry.
        if in_map.is_empty() {
            return Err(damaged(dir, 4));
        }
        parse(sb, dir, in_map, 4, &mut found)?;
        parse(sb, dir, in_attribute, 60, &mut found)?;
        found.retain(|entry| entry.place.0 >= from);
        found.truncate(most);
        return Ok(found);
    }
    if dir.size > MAX_SIZE {
        return Err(TreeError::TooLarge { limit: MAX_SIZE });
    }
    let size = u64::from(sb.block_size);
    // A directory has no holes. One that maps the same blocks again and again is larger than the filesystem.
    // cannot overflow: the bytes of the filesystem were checked.
    if dir.size > sb.blocks.saturating_mul(size) {
        return Err(damaged(dir, 0));
    }
    // cannot divide by zero: a block has bytes.
    let mut logical = from.checked_div(size).unwrap_or(0);
    // cannot overflow: a directory has 512 MiB at most, and a run lies in the filesystem.
    while logical.saturating_mul(size) < dir.size && found.len() < most {
        let at = logical.saturating_mul(size);
        let run = map::run(blocks, dir, logical)?;
        let Some(first) = run.block else { return Err(damaged(dir, at)) };
        // cannot overflow: the loop ends at its size.
        let left = dir.size.saturating_sub(at).div_ceil(size);
        for i in 0..run.len.min(left) {
            // cannot overflow: the run was checked.
            let block = blocks.read(first.saturating_add(i))?;
            // cannot overflow: a directory has 512 MiB at most.
            let at = logical.saturating_add(i).saturating_mul(size);
            // The root of an index was a leaf once, and its old tail may still be there, with a checksum of another kind in it.
            if at > 0 || dir.flags & flag::INDEX == 0 {
                check_tail(dir, &block, at)?;
            }
            parse(sb, dir, &block, at, &mut found)?;
            if at < from {
                found.retain(|entry| entry.place.0 >= from);
            }
            if found.len() >= most {
                found.truncate(most);
                break;
            }
        }
        // cannot overflow: a file has 2^32 blocks at most.
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
        let [version] = Reader::at(&blocks.read(first)?, 28)
            .and_then(|mut root| root.array())
            .map_err(|_| damaged(dir, 0))?;
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
    let (entries, tail) = block.split_last_chunk::<TAIL>().ok_or_else(|| damaged(dir, at))?;
    let (shape, Le(sum)): ([u8; 8], Le<u32>) = decode(tail);
    // No inode, 12 bytes, no name, and a type that no file has.
    if shape == [0, 0, 0, 0, 12, 0, 0, 0xde] && crc32c(seed, entries) != sum {
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
    let mut rest = block;
    while !rest.is_empty() {
        let at = block.len().saturating_sub(rest.len()) as u64; // cannot overflow: what is left is a part.
        let bad = || damaged(dir, base.saturating_add(at)); // cannot overflow: a directory has 512 MiB at most.
        let (header, _) = rest.split_first_chunk::<HEADER>().ok_or_else(bad)?;
        let (Le(inode), Le(stored), [name_len, kind]): (Le<u32>, Le<u16>, [u8; 2]) = decode(header);
        // 64 KiB do not fit into 16 bits: the two low bits, always 0 otherwise, carry the high ones.
        let stored = u32::from(stored);
        let len = match stored {
            0 | 0xffff if sb.block_size == 65536 => 65536,
            _ => (stored & 0xfffc) | (stored & 3) << 16,
        };
        let (entry, behind) =
            usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)).ok_or_else(bad)?;
        rest = behind;
        let name_len =
            if typed { name_len.into() } else { usize::from(u16::from_le_bytes([name_len, kind])) };
        let mut fields = Reader::at(entry, HEADER).map_err(|_| bad())?;
        let name = fields.bytes(name_len).map_err(|_| bad())?;
        if inode == 0 || matches!(name, b"." | b"..") {
            continue;
        }
        // The bytes of an encrypted name are any.
        let possible = if dir.is_encrypted() { !name.is_empty() } else { is_valid_name(name) };
        if !possible {
            return Err(Damage::Name { inode: dir.number.into() }.into());
        }
        let hash = if with_hashes {
            // Behind the name, at a multiple of four bytes.
            let padding = name_len.wrapping_neg() % 4;
            let hash = fields.bytes(padding).and_then(|_| fields.field::<(Le<u32>, Le<u32>)>());
            let (Le(hash), Le(minor)) = hash.map_err(|_| bad())?;
            Some((hash, minor))
        } else {
            None
        };
        let kind = match kind {
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
        // cannot overflow: a directory has 512 MiB at most.
        let place = base.saturating_add(at);
        let place = (place, place.saturating_add(len.into()));
        found.push(Stored { name: name.to_vec(), inode, kind, hash, place });
    }
    Ok(())
}
