//! What `stat` shows, and what can be set of it.

use std::os::fd::AsFd;

use atrest_filetree::posix::{Attributes, Change, Errno, NewTime, Outcome};
use atrest_filetree::{Kind, Metadata, Timestamp};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};

use super::Layer;
use super::kind_of;
use super::nodes::LowerNode;
use super::open::Stamp;
use super::tree::Inner;

impl<M: Layer> Inner<M> {
    pub fn attributes_of(&self, node: &LowerNode<M::File>) -> Outcome<Attributes> {
        let stat = rustix::fs::fstat(&node.fd)?;
        let kind = kind_of(node.kind).ok_or(Errno::IO)?;
        let time = |seconds: i64, nanoseconds: u64| Timestamp {
            seconds,
            // intended: a time that the system never gives.
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
        };
        let metadata = Metadata {
            kind,
            size: self.size(node, kind, &stat),
            mode: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            // intended: for people; more links than that are as many.
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            inode: node.number.0,
            // intended: for people; no file has so many blocks.
            allocated: (stat.st_blocks as u64).saturating_mul(512),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            accessed: time(stat.st_atime, stat.st_atime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
        };
        Ok(Attributes { node: node.number, metadata, device: stat.st_rdev })
    }

    /// Bytes of contents, or of a link's target; where that can't be found out, what the lower file has.
    fn size(&self, node: &LowerNode<M::File>, kind: Kind, stat: &Stat) -> u64 {
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
                let opened = self.opener.reopen(node, OFlags::RDONLY).ok();
                let size = opened.and_then(|file| self.layer.size(&file)).unwrap_or(raw);
                state.size = Some((stamp, size));
                size
            }
            Kind::Link => self.target(node).map_or(raw, |target| target.len() as u64),
            _ => raw,
        }
    }

    pub fn target(&self, node: &LowerNode<M::File>) -> Outcome<Vec<u8>> {
        self.layer.plain_target(rustix::fs::readlinkat(&node.fd, "", Vec::new())?.into_bytes())
    }

    pub fn change(&self, node: &LowerNode<M::File>, change: &Change) -> Outcome<()> {
        if let Some(size) = change.size {
            self.opener.set_len(&*self.layer, node, size)?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            self.chown(&node.fd, change.uid, change.gid)?;
        }
        if let Some(mode) = change.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmodat(&self.opener.proc_fds, node.proc_name(), mode, AtFlags::empty())?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(change.accessed),
                last_modification: timespec(change.modified),
            };
            rustix::fs::utimensat(&node.fd, "", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    pub fn drop_set_ids(&self, node: &LowerNode<M::File>) -> Outcome<()> {
        // What anybody else changes, the system sees to.
        if !self.is_root || !node.is_file() {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&node.fd)?.st_mode & 0o7777);
        let left = mode.difference(Mode::SUID | Mode::SGID);
        if left == mode {
            return Ok(());
        }
        rustix::fs::chmodat(&self.opener.proc_fds, node.proc_name(), left, AtFlags::empty())
    }

    pub fn chown(&self, fd: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> Outcome<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)
    }
}

fn timespec(time: Option<NewTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(NewTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(NewTime::At(time)) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    }
}
