//! Filling a filesystem that mke2fs has just made.

use atrest_device::BlockDevice;
use atrest_filetree::{CopyProgress, EncryptionFault, InodeCipher, Kind, TreeError};

use super::attributes::{Attribute, Placed};
use super::extents::{Extents, flat};
use super::found::Found;
use super::inode::{self, FIELDS, Fresh, flag};
use super::policies::{Created, NoCipher, Policies};
use super::source::Source;
use super::space::Space;
use super::superblock::Superblock;
use super::table::Table;
use super::times::{self, clamp, whole};
use super::{BuildError, BuildSummary, Unexpected, contents, dir};
use crate::fault::Damage;

pub(super) const ROOT: u32 = 2;
pub(super) const LOST_AND_FOUND: u32 = 11;
/// Directories with more subdirectories say that they have one name: nobody counts them.
const MAX_SUBDIRECTORIES: u32 = 65_000;

struct Filler<'a> {
    space: Space<'a>,
    table: Table,
    source: &'a Source,
    policies: &'a Policies,
    time: Option<i64>,
    summary: BuildSummary,
}

/// Fills the fresh filesystem on `device` with what `source` has found. With `time`, no time is later than that.
pub(super) fn fill(
    device: &dyn BlockDevice,
    source: &Source,
    policies: &Policies,
    time: Option<i64>,
    progress: &mut dyn CopyProgress,
) -> Result<BuildSummary, BuildError> {
    let mut sb = Superblock::read(device)?;
    // cannot overflow: the root is one of them.
    let new = source.entries.len().saturating_sub(1);
    // intended: with fewer inodes than mke2fs needs none is free, which its count contradicts.
    let free_inodes = sb.inodes.saturating_sub(LOST_AND_FOUND);
    if sb.free_inodes() != free_inodes {
        return Err(BuildError::NotFresh(Unexpected::Superblock));
    }
    let Some(free_inodes) = u32::try_from(new).ok().and_then(|new| free_inodes.checked_sub(new)) else {
        return Err(BuildError::NoInodes { needs: new as u64, has: free_inodes.into() });
    };
    let summary = BuildSummary { attributes_left_out: source.attributes_left_out, ..BuildSummary::default() };
    let space = Space::new(device, &sb)?;
    let mut filler = Filler { space, table: Table::default(), source, policies, time, summary };
    filler.empty_root()?;
    for entry in 0..source.entries.len() {
        filler.entry(entry, progress)?;
    }
    if let Some(time) = time {
        times::settle(&filler.space, &mut filler.table, time)?;
    }
    filler.table.write(device, &sb)?;
    filler.space.groups.write(device, &sb)?;
    let (free_blocks, mut summary) = (filler.space.free_blocks, filler.summary);
    summary.size = sb.blocks * sb.block_size as u64;
    sb.write(device, free_blocks, free_inodes, time)?;
    device.flush()?;
    Ok(summary)
}

/// The inode of an entry: the root's, and those behind `lost+found`.
fn number(entry: usize) -> u32 {
    // cannot overflow: `fill` checked that there are inodes for all.
    match u32::try_from(entry).unwrap_or(u32::MAX) {
        0 => ROOT,
        entry => LOST_AND_FOUND.saturating_add(entry), // cannot overflow: `fill` checked that there are inodes for all.
    }
}

impl Filler<'_> {
    /// The fields of an inode, and the space behind them.
    fn raw(&mut self, number: u32) -> Result<(&mut [u8; FIELDS], &mut [u8]), BuildError> {
        self.table.get(self.space.device, self.space.sb, &self.space.groups, number)
    }

    /// Gives back the blocks of the root directory, which is written anew.
    fn empty_root(&mut self) -> Result<(), BuildError> {
        let runs = inode::map_of(self.raw(ROOT)?.0).and_then(flat);
        for run in runs.ok_or(BuildError::NotFresh(Unexpected::Inode(ROOT)))? {
            self.space.give_back(run)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: usize, progress: &mut dyn CopyProgress) -> Result<(), BuildError> {
        let source = self.source;
        let Some(found) = source.entries.get(entry) else { return Ok(()) };
        let (number, sb) = (number(entry), self.space.sb);
        progress.started(&source.image_path(entry), found.kind, found.size);
        let created = self.encryption(entry, found.kind)?;
        let cipher = created.as_ref().map(|created| &*created.cipher);
        let mut extents = Extents::default();
        let mut body = Body { size: 0, map: [0; 60], in_blocks: true };
        match found.kind {
            Kind::Directory => body.size = self.directory(entry, found, cipher, &mut extents)?,
            Kind::File => {
                body.size = contents::write(&mut self.space, source, entry, cipher, &mut extents, progress)?
            }
            Kind::Link => {
                let target = self.target(entry, found, cipher)?;
                body.size = target.len() as u64;
                // Up to 59 bytes lie in place of the map.
                match body.map.get_mut(..target.len()).filter(|short| short.len() < 60) {
                    Some(short) => {
                        short.copy_from_slice(&target);
                        body.in_blocks = false;
                    }
                    None => self.data(&mut extents, target)?,
                }
            }
            Kind::CharDevice | Kind::BlockDevice => {
                body = Body { size: 0, map: inode::device_map(found.device), in_blocks: false };
            }
            Kind::Pipe | Kind::Socket => body.in_blocks = false,
        }
        if body.in_blocks {
            body.map = extents.write(&mut self.space, inode::seed(sb, number))?;
        }
        self.count(found, created.is_some());
        self.inode(entry, found, &body, extents.blocks, created)
    }

    /// Writes the inode itself, and the block of its attributes.
    fn inode(
        &mut self,
        entry: usize,
        found: &Found,
        body: &Body,
        mut blocks: u64,
        created: Option<Created>,
    ) -> Result<(), BuildError> {
        let (number, sb) = (number(entry), self.space.sb);
        let mut flags = if body.in_blocks { flag::EXTENTS } else { 0 };
        let mut attributes = found.attributes.clone();
        if let Some(created) = created {
            flags |= flag::ENCRYPT;
            attributes.insert(0, Attribute::context(created.context));
        }
        let attributes = Placed::new(attributes, sb.inode_size - FIELDS, sb.block_size)
            .ok_or_else(|| BuildError::AttributesTooLarge { path: self.source.path_of(entry) })?;
        let mut attribute_block = 0;
        if attributes.needs_block() {
            attribute_block = self.space.take(1)?.first;
            let block = attributes.block(attribute_block, sb.seed, sb.block_size);
            let block =
                block.map_err(|_| BuildError::AttributesTooLarge { path: self.source.path_of(entry) })?;
            self.space.write(attribute_block, &block)?;
            blocks += 1;
        }
        let is_directory = found.kind == Kind::Directory;
        let links = match (entry, found.kind) {
            // Its own `.`, and either its name or, for the root, its own `..`; the root has `lost+found`, too.
            (0, _) => found.links + 3,
            (_, Kind::Directory) => found.links + 1,
            _ => found.links,
        };
        let links = if is_directory && links > MAX_SUBDIRECTORIES { 1 } else { links };
        let time = |time| clamp(time, self.time);
        if number != ROOT {
            self.space.groups.use_inode(self.space.device, sb, number, is_directory)?;
        }
        let fresh = Fresh {
            number,
            kind: found.kind,
            mode: found.mode,
            owner: found.owner,
            size: body.size,
            links,
            blocks,
            flags,
            map: body.map,
            accessed: self.time.map_or(found.accessed, whole),
            changed: self.time.map_or(found.changed, whole),
            modified: time(found.modified),
            attributes: &attributes,
            attribute_block,
        };
        let (fields, space) = self.raw(number)?;
        let written = fresh.write(sb, fields, space);
        written.map_err(|_| BuildError::AttributesTooLarge { path: self.source.path_of(entry) })
    }

    /// The encryption of an entry. Devices, pipes and sockets have nothing to encrypt.
    fn encryption(&self, entry: usize, kind: Kind) -> Result<Option<Created>, BuildError> {
        let encrypted = matches!(kind, Kind::File | Kind::Directory | Kind::Link);
        let Some(policy) = self.policies.of(entry).filter(|_| encrypted) else { return Ok(None) };
        let path = || self.source.path_of(entry);
        match policy.create(number(entry), kind, &self.space.sb.encrypted_filesystem()) {
            Ok(created) => Ok(Some(created)),
            Err(NoCipher::Fault(fault)) => Err(BuildError::Encryption { path: path(), fault }),
            Err(NoCipher::Locked(key)) => Err(BuildError::NoKey { path: path(), key }),
        }
    }

    /// A link's target as it is stored.
    fn target(
        &self,
        entry: usize,
        found: &Found,
        cipher: Option<&dyn InodeCipher>,
    ) -> Result<Vec<u8>, BuildError> {
        let (path, len) = (|| self.source.path_of(entry), found.target.len());
        // A NUL behind it must have room in the block, too.
        let limit = self.space.sb.block_size - 1;
        let Some(cipher) = cipher else {
            let fits = (1..=limit).contains(&len);
            let error = TreeError::UnsupportedName { len };
            return if fits {
                Ok(found.target.clone())
            } else {
                Err(BuildError::Entry { path: path(), error })
            };
        };
        let stored = cipher.encrypt_link(&found.target);
        let stored = stored.map_err(|fault| BuildError::Encryption { path: path(), fault })?;
        if stored.len() > limit {
            return Err(BuildError::Encryption {
                path: path(),
                fault: EncryptionFault::PlaintextLength { len },
            });
        }
        Ok(stored)
    }

    fn directory(
        &mut self,
        entry: usize,
        found: &Found,
        cipher: Option<&dyn InodeCipher>,
        extents: &mut Extents,
    ) -> Result<u64, BuildError> {
        let mut entries = Vec::with_capacity(found.children.len() + 1);
        if entry == 0 {
            entries.push(dir::Entry {
                name: b"lost+found".to_vec(),
                inode: LOST_AND_FOUND,
                kind: Kind::Directory,
            });
        }
        for (name, child) in &found.children {
            let path = || self.source.path_of(*child);
            let stored = match cipher {
                None => name.clone(),
                Some(cipher) => cipher
                    .encrypt_name(name)
                    .map_err(|fault| BuildError::Encryption { path: path(), fault })?,
            };
            if stored.is_empty() || stored.len() > 255 {
                return Err(BuildError::Entry {
                    path: path(),
                    error: TreeError::UnsupportedName { len: name.len() },
                });
            }
            let kind = self.source.entries.get(*child).map_or(Kind::File, |child| child.kind);
            entries.push(dir::Entry { name: stored, inode: number(*child), kind });
        }
        let (own, parent) = (number(entry), number(found.parent));
        let sb = self.space.sb;
        let data = dir::blocks(own, parent, &entries, sb.block_size, inode::seed(sb, own));
        let data = data.map_err(|_| BuildError::Entry {
            path: self.source.path_of(entry),
            error: Damage::Directory { inode: own.into(), at: 0 }.into(),
        })?;
        let size = data.len() as u64;
        self.data(extents, data)?;
        Ok(size)
    }

    /// Writes data that lies in memory.
    fn data(&mut self, extents: &mut Extents, mut data: Vec<u8>) -> Result<(), BuildError> {
        let size = self.space.sb.block_size;
        data.resize(data.len().next_multiple_of(size), 0);
        let (mut logical, mut rest) = (0, data.as_slice());
        while !rest.is_empty() {
            let run = self.space.take((rest.len() / size) as u64)?;
            let (now, later) = rest.split_at((run.len as usize * size).min(rest.len()));
            self.space.write(run.first, now)?;
            extents.push(logical, run);
            logical += run.len;
            rest = later;
        }
        Ok(())
    }

    fn count(&mut self, found: &Found, encrypted: bool) {
        let summary = &mut self.summary;
        summary.encrypted += u64::from(encrypted);
        match found.kind {
            Kind::Directory => summary.directories += 1,
            Kind::File => {
                summary.files += 1;
                summary.bytes += found.size;
            }
            Kind::Link => summary.links += 1,
            _ => summary.special += 1,
        }
    }
}

/// What an inode's map says, and how large it is.
struct Body {
    size: u64,
    map: [u8; 60],
    /// The map is an extent tree.
    in_blocks: bool,
}
