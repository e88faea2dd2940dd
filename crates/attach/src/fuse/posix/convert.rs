//! Between what the tree says and what FUSE says.

use atrest_filetree::posix::{Attributes, NewTime};
use fuser::{Errno, FileAttr, INodeNo, TimeOrNow};

use crate::fuse::convert::{file_type, sent_time, system_time};

pub fn errno(error: atrest_filetree::posix::Errno) -> Errno {
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

pub fn new_time(time: TimeOrNow) -> NewTime {
    match time {
        TimeOrNow::Now => NewTime::Now,
        TimeOrNow::SpecificTime(time) => NewTime::At(sent_time(time)),
    }
}
