//! Between what the tree says and what FUSE says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atrest_inside::posix::{Attributes, NewTime};
use atrest_inside::{Kind, Timestamp};
use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};

pub fn errno(error: atrest_inside::posix::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

pub fn file_attributes(attributes: &Attributes) -> FileAttr {
    let metadata = &attributes.metadata;
    FileAttr {
        ino: INodeNo(attributes.node.0),
        size: metadata.size,
        blocks: metadata.allocated.div_ceil(512),
        atime: system_time(metadata.accessed),
        mtime: system_time(metadata.modified),
        ctime: system_time(metadata.changed),
        crtime: system_time(metadata.modified),
        kind: file_type(metadata.kind),
        perm: metadata.mode,
        nlink: metadata.links,
        uid: metadata.uid,
        gid: metadata.gid,
        // Linux's numbers of devices have 32 bits on this way.
        rdev: attributes.device as u32,
        blksize: 4096,
        flags: 0,
    }
}

pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

pub fn new_time(time: TimeOrNow) -> NewTime {
    match time {
        TimeOrNow::Now => NewTime::Now,
        TimeOrNow::SpecificTime(time) => NewTime::At(timestamp(time)),
    }
}

/// Nanoseconds count forward, also before 1970.
fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole =
        if time.seconds < 0 { UNIX_EPOCH.checked_sub(seconds) } else { UNIX_EPOCH.checked_add(seconds) };
    let exact = whole.and_then(|whole| whole.checked_add(Duration::from_nanos(time.nanoseconds.into())));
    exact.unwrap_or(UNIX_EPOCH)
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let (seconds, part) = (before.as_secs().cast_signed(), before.subsec_nanos());
            match part {
                0 => Timestamp { seconds: -seconds, nanoseconds: 0 },
                part => Timestamp { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - part },
            }
        }
    }
}
