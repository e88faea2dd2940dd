//! What `stat` shows, and what can be set of it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use atrest_filetree::posix::{Attributes, Change, Errno, NewTime, Outcome};
use atrest_filetree::{Kind, Metadata};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};

use super::Layer;
use super::nodes::{LowerNode, Way, Which, without_name};
use super::open::{Stamp, proc_name};
use super::tree::{Inner, stat_at};
use super::{kind_of, times};
use crate::flags;

impl<M: Layer> Inner<M> {
    /// What a node looks like.
    pub fn attributes_of(&self, node: &LowerNode<M::File>) -> Outcome<Attributes> {
        let stat = self.stat(node)?;
        self.shown(node, &stat, || self.read(node))
    }

    /// What a node looks like that the system describes so. Its lower file is opened by `open` if it must be looked into.
    pub fn shown(
        &self,
        node: &LowerNode<M::File>,
        stat: &Stat,
        open: impl FnOnce() -> Outcome<File>,
    ) -> Outcome<Attributes> {
        let kind = kind_of(node.kind).ok_or(Errno::IO)?;
        let [modified, accessed, changed] = times(stat);
        let metadata = Metadata {
            kind,
            size: self.size(node, kind, stat, open),
            mode: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            // intended: for people; more links than that are as many.
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            inode: node.number.0,
            // intended: for people; no file has so many blocks.
            allocated: (stat.st_blocks as u64).saturating_mul(512),
            modified,
            accessed,
            changed,
        };
        Ok(Attributes { node: node.number, metadata, device: stat.st_rdev })
    }

    /// Bytes of contents, or of a link's target; where that can't be found out, what the lower file has.
    fn size(
        &self,
        node: &LowerNode<M::File>,
        kind: Kind,
        stat: &Stat,
        open: impl FnOnce() -> Outcome<File>,
    ) -> u64 {
        // cannot fail: the system gives no negative sizes.
        let raw = u64::try_from(stat.st_size).unwrap_or(0);
        if !self.layer.maps_sizes() {
            return raw;
        }
        match kind {
            Kind::File => {
                let mut state = node.state();
                if let Some(len) = state.open_len() {
                    return len;
                }
                let stamp = Stamp::of(stat);
                if let Some((_, size)) = state.size.filter(|(at, _)| *at == stamp) {
                    return size;
                }
                let size = open().ok().and_then(|file| self.layer.size(&file)).unwrap_or(raw);
                state.size = Some((stamp, size));
                size
            }
            Kind::Link => self.target(node).map_or(raw, |target| target.len() as u64),
            _ => raw,
        }
    }

    /// What the system says of a node.
    pub fn stat(&self, node: &LowerNode<M::File>) -> Outcome<Stat> {
        let _still = self.names_stay();
        match self.nodes.way(node)? {
            Way::Held(fd) => rustix::fs::fstat(&*fd),
            Way::Named(parent, name) => {
                let stat = stat_at(&*parent, &name).map_err(without_name)?;
                if Which::of(&stat) == node.which { Ok(stat) } else { Err(Errno::STALE) }
            }
        }
    }

    /// The lower file of a node, opened to be read.
    fn read(&self, node: &LowerNode<M::File>) -> Outcome<File> {
        let _still = self.names_stay();
        match self.nodes.way(node)? {
            Way::Held(fd) => self.opener.reopen(&*fd, OFlags::RDONLY),
            Way::Named(parent, name) => open_if_same(&*parent, &name, node.which).map_err(without_name),
        }
    }

    pub fn target(&self, node: &LowerNode<M::File>) -> Outcome<Vec<u8>> {
        let place = self.descriptor(node)?;
        self.layer.plain_target(rustix::fs::readlinkat(&*place, "", Vec::new())?.into_bytes())
    }

    pub fn change(&self, node: &LowerNode<M::File>, change: &Change) -> Outcome<()> {
        let place = &*self.descriptor(node)?;
        if let Some(size) = change.size {
            self.opener.set_len(&*self.layer, (node, place), size)?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            self.chown(place, change.uid, change.gid)?;
        }
        if let Some(mode) = change.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmodat(&self.opener.proc_fds, proc_name(place), mode, AtFlags::empty())?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(change.accessed),
                last_modification: timespec(change.modified),
            };
            rustix::fs::utimensat(place, "", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    pub fn drop_set_ids(&self, node: &LowerNode<M::File>) -> Outcome<()> {
        // What anybody else changes, the system sees to.
        if !self.is_root || !node.is_file() {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(self.stat(node)?.st_mode & 0o7777);
        let left = mode.difference(Mode::SUID | Mode::SGID);
        if left == mode {
            return Ok(());
        }
        let place = self.descriptor(node)?;
        rustix::fs::chmodat(&self.opener.proc_fds, proc_name(&*place), left, AtFlags::empty())
    }

    pub fn chown(&self, fd: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> Outcome<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)
    }
}

/// Opens what has a name, to look into it if it is a file.
pub(super) fn open_to_read(parent: impl AsFd, lower: &[u8]) -> Outcome<File> {
    let opened = rustix::fs::openat(parent, OsStr::from_bytes(lower), flags::INNER_FILE, Mode::empty());
    Ok(opened?.into())
}

/// Opens what has a name to look into it, if it is the file that is meant.
pub(super) fn open_if_same(parent: impl AsFd, lower: &[u8], which: Which) -> Outcome<File> {
    let file = open_to_read(parent, lower)?;
    if Which::of(&rustix::fs::fstat(&file)?) == which { Ok(file) } else { Err(Errno::STALE) }
}

fn timespec(time: Option<NewTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(NewTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(NewTime::At(time)) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    }
}
