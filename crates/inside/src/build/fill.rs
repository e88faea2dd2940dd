//! Filling a filesystem that mke2fs has just made.

use std::os::fd::OwnedFd;

use atrest_device::BlockDevice;
use rustix::io::Errno;

use super::attributes::{Attribute, Placed};
use super::encryption::{Created, NewCipher, NewInode};
use super::error::host;
use super::extents::{Extents, flat};
use super::inode::{self, ATTRIBUTES_AT, Fresh, flag};
use super::policies::Policies;
use super::source::{Found, Source};
use super::space::Space;
use super::superblock::Superblock;
use super::table::Table;
use super::{BuildError, BuildSummary, Unexpected, dir, holes};
use crate::bytes::Fields;
use crate::copy::CopyProgress;
use crate::error::TreeError;
use crate::tree::{Kind, Timestamp};

const ROOT: u32 = 2;
const LOST_AND_FOUND: u32 = 11;
/// Directories with more subdirectories say that they have one name: nobody counts them.
const MAX_SUBDIRECTORIES: u32 = 65_000;
/// Bytes of contents moved at once.
const PIECE: usize = 1 << 20;

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
    let new = source.entries.len().saturating_sub(1);
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
        filler.settle_times(time)?;
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
    match u32::try_from(entry).unwrap_or(u32::MAX) {
        0 => ROOT,
        entry => LOST_AND_FOUND.saturating_add(entry),
    }
}

impl Filler<'_> {
    fn raw(&mut self, number: u32) -> Result<&mut [u8], BuildError> {
        self.table.get(self.space.device, self.space.sb, &self.space.groups, number)
    }

    /// Gives back the blocks of the root directory, which is written anew.
    fn empty_root(&mut self) -> Result<(), BuildError> {
        let runs = inode::map_of(self.raw(ROOT)?).and_then(flat);
        for run in runs.ok_or(BuildError::NotFresh(Unexpected::Inode(ROOT)))? {
            self.space.give_back(run)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: usize, progress: &mut dyn CopyProgress) -> Result<(), BuildError> {
        let source = self.source;
        let Some(found) = source.entries.get(entry) else { return Ok(()) };
        let (number, sb) = (number(entry), self.space.sb);
        let failed = |error| BuildError::Entry { path: source.path_of(entry), error };
        progress.started(&source.image_path(entry), found.kind, found.size);
        let encryption = self.policies.of(entry);
        let created = match found.kind {
            Kind::File | Kind::Directory | Kind::Link => encryption,
            _ => None,
        }
        .map(|encryption| {
            let block_size = sb.block_size as u32;
            encryption.create(&NewInode { number, kind: found.kind, filesystem: sb.uuid, block_size })
        })
        .transpose()
        .map_err(failed)?;
        let cipher = created.as_ref().map(|created| &*created.cipher);
        let mut extents = Extents::default();
        let mut body = Body { size: 0, map: [0; 60], in_blocks: true };
        match found.kind {
            Kind::Directory => body.size = self.directory(entry, found, cipher, &mut extents)?,
            Kind::File => body.size = self.contents(entry, found, cipher, &mut extents, progress)?,
            Kind::Link => {
                let target = link(&found.target, cipher, sb.block_size).map_err(failed)?;
                body.size = target.len() as u64;
                // Up to 59 bytes lie in place of the map.
                if target.len() < 60 {
                    super::put::bytes(&mut body.map, 0, &target);
                    body.in_blocks = false;
                } else {
                    self.data(&mut extents, target)?;
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
        let attributes = Placed::new(attributes, sb.inode_size - ATTRIBUTES_AT, sb.block_size)
            .ok_or_else(|| BuildError::AttributesTooLarge { path: self.source.path_of(entry) })?;
        let mut attribute_block = 0;
        if attributes.needs_block() {
            attribute_block = self.space.take(1)?.first;
            self.space.write(attribute_block, &attributes.block(attribute_block, sb.seed, sb.block_size))?;
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
        let raw = Fresh {
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
        }
        .encode(sb);
        if number != ROOT {
            self.space.groups.use_inode(self.space.device, sb, number, is_directory)?;
        }
        super::put::bytes(self.raw(number)?, 0, &raw);
        Ok(())
    }

    fn directory(
        &mut self,
        entry: usize,
        found: &Found,
        cipher: Option<&dyn NewCipher>,
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
            let stored = match cipher {
                None => Ok(name.clone()),
                Some(cipher) => cipher.encrypt_name(name),
            };
            let failed = |error| BuildError::Entry { path: self.source.path_of(*child), error };
            let stored = stored.map_err(failed)?;
            if stored.is_empty() || stored.len() > 255 {
                return Err(failed(TreeError::UnsupportedName { len: name.len() }));
            }
            let kind = self.source.entries.get(*child).map_or(Kind::File, |child| child.kind);
            entries.push(dir::Entry { name: stored, inode: number(*child), kind });
        }
        let (own, parent) = (number(entry), number(found.parent));
        let sb = self.space.sb;
        let data = dir::blocks(own, parent, &entries, sb.block_size, inode::seed(sb, own));
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

    fn contents(
        &mut self,
        entry: usize,
        found: &Found,
        cipher: Option<&dyn NewCipher>,
        extents: &mut Extents,
        progress: &mut dyn CopyProgress,
    ) -> Result<u64, BuildError> {
        if found.size == 0 {
            return Ok(0);
        }
        let source = self.source;
        let block = self.space.sb.block_size as u64;
        if found.size.div_ceil(block) >= super::extents::MAX_BLOCKS {
            let limit = super::extents::MAX_BLOCKS * block;
            return Err(BuildError::Entry {
                path: source.path_of(entry),
                error: TreeError::TooLarge { limit },
            });
        }
        let file = source.open(entry)?;
        let failed = |errno: Errno| host(&source.path_of(entry), errno);
        let mut at = 0;
        while let Some(blocks) = holes::next_data(&file, at, found.size, block).map_err(failed)? {
            at = blocks.start;
            while at < blocks.end {
                let want = (blocks.end - at).min(PIECE as u64 / block);
                let run = self.space.take(want)?;
                let mut data = vec![0; (run.len * block) as usize];
                let len = (found.size - at * block).min(data.len() as u64) as usize;
                let part = data.get_mut(..len).unwrap_or(&mut []);
                read_exact(&file, part, at * block, source, entry)?;
                if let Some(cipher) = cipher {
                    let failed = |error| BuildError::Entry { path: source.path_of(entry), error };
                    cipher.encrypt_contents(at, &mut data).map_err(failed)?;
                }
                self.space.write(run.first, &data)?;
                extents.push(at, run);
                at += run.len;
                progress.advanced(len as u64);
            }
        }
        source.check(entry, &file)?;
        Ok(found.size)
    }

    /// Sets the times of the inodes that mke2fs made.
    fn settle_times(&mut self, time: i64) -> Result<(), BuildError> {
        let sb = self.space.sb;
        let (seconds, extra) = inode::encode_time(whole(time));
        for number in (1..=LOST_AND_FOUND).filter(|number| *number != ROOT) {
            let raw = self.raw(number)?;
            let fields = Fields(raw);
            let is_there = fields.le16(0) != 0 || fields.le32(0xc) != 0;
            let (generation, has_extra) = (fields.le32(0x64), fields.le16(0x80) >= 24);
            if !is_there {
                continue;
            }
            for (at, extra_at) in [(0x8, 0x8c), (0xc, 0x84), (0x10, 0x88), (0x90, 0x94)] {
                if at < 128 || has_extra {
                    super::put::le32(raw, at, seconds);
                }
                if has_extra {
                    super::put::le32(raw, extra_at, extra);
                }
            }
            inode::checksum_with(raw, sb, number, generation);
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

/// A link's target as it is stored: encrypted ones lie behind their length.
fn link(target: &[u8], cipher: Option<&dyn NewCipher>, block_size: usize) -> Result<Vec<u8>, TreeError> {
    let Some(cipher) = cipher else {
        let fits = !target.is_empty() && target.len() < block_size;
        return if fits {
            Ok(target.to_vec())
        } else {
            Err(TreeError::UnsupportedName { len: target.len() })
        };
    };
    // The length's two bytes, and the kernel's NUL at the end.
    let stored = cipher.encrypt_target(target, block_size - 3)?;
    Ok([&(stored.len() as u16).to_le_bytes(), stored.as_slice()].concat())
}

fn read_exact(
    file: &OwnedFd,
    buf: &mut [u8],
    at: u64,
    source: &Source,
    entry: usize,
) -> Result<(), BuildError> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, at + done as u64) {
            Ok(0) => return Err(BuildError::SourceChanged { path: source.path_of(entry) }),
            Ok(len) => done += len,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(host(&source.path_of(entry), errno)),
        }
    }
    Ok(())
}

fn whole(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

fn clamp(time: Timestamp, latest: Option<i64>) -> Timestamp {
    latest.map_or(time, |latest| time.min(whole(latest)))
}
