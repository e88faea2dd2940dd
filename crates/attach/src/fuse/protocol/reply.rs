//! Replies and notices.

use core::time::Duration;

use atrest_codec::{Fixed, encode};
use atrest_filetree::posix::PosixSpace;
use rustix::io::Errno;

use super::abi::{REPLY_HEADER, notice};
use super::{FileAttributes, Native};

/// Bytes of the largest reply that is a record: an entry, and the open file.
const LARGEST_RECORD: usize = 128 + 16;

/// What a request is answered.
#[derive(Debug)]
pub enum Reply {
    /// So many bytes at the start of the request's buffer.
    InBuffer(usize),
    /// A record of fixed length.
    Record(Record),
    /// Bytes that lie elsewhere.
    Bytes(Vec<u8>),
    /// That it failed.
    Error(Errno),
    /// Nothing: the kernel waits for no reply.
    Silence,
}

/// A record of fixed length.
#[derive(Debug)]
pub struct Record {
    bytes: [u8; LARGEST_RECORD],
    len: usize,
}

impl Record {
    fn new<const N: usize>(record: [u8; N]) -> Self {
        const { assert!(N <= LARGEST_RECORD) };
        let mut bytes = [0; LARGEST_RECORD];
        let (front, _) = bytes.split_at_mut(N);
        front.copy_from_slice(&record);
        Self { bytes, len: N }
    }

    /// The bytes that are sent.
    pub fn as_bytes(&self) -> &[u8] {
        let (front, _) = self.bytes.split_at(self.len);
        front
    }
}

/// `struct fuse_entry_out`: a name's node, and for how long both may be believed.
pub(super) fn entry_record(attributes: &FileAttributes, lifetime: Duration) -> [u8; 128] {
    let (seconds, nanoseconds) = (lifetime.as_secs(), lifetime.subsec_nanos());
    // A node's number is not used again while the kernel knows it: there are no generations.
    encode((
        (Native(attributes.node), Native(0_u64)),
        (Native(seconds), Native(seconds), Native(nanoseconds), Native(nanoseconds)),
        attributes.encode(),
    ))
}

fn open_record(handle: u64, flags: u32) -> [u8; 16] {
    encode((Native(handle), Native(flags), [0; 4]))
}

impl Reply {
    fn record<const N: usize>(fields: impl Fixed) -> Self {
        Self::Record(Record::new::<N>(encode(fields)))
    }

    /// That it was done.
    pub fn done() -> Self {
        Self::InBuffer(0)
    }

    /// A name and what it stands for.
    pub fn entry(attributes: &FileAttributes, lifetime: Duration) -> Self {
        Self::Record(Record::new(entry_record(attributes, lifetime)))
    }

    /// `struct fuse_attr_out`.
    pub fn attributes(attributes: &FileAttributes, lifetime: Duration) -> Self {
        Self::record::<104>((
            Native(lifetime.as_secs()),
            Native(lifetime.subsec_nanos()),
            [0; 4],
            attributes.encode(),
        ))
    }

    /// `struct fuse_open_out`, with `flags` of [`open_flag`](super::abi::open_flag).
    pub fn opened(handle: u64, flags: u32) -> Self {
        Self::Record(Record::new(open_record(handle, flags)))
    }

    /// A file that was made and opened.
    pub fn created(attributes: &FileAttributes, lifetime: Duration, handle: u64, flags: u32) -> Self {
        Self::record::<144>((entry_record(attributes, lifetime), open_record(handle, flags)))
    }

    /// `struct fuse_write_out`.
    pub fn written(len: u32) -> Self {
        Self::record::<8>((Native(len), [0; 4]))
    }

    /// `struct fuse_getxattr_out`: how long a value is.
    pub fn value_len(len: u32) -> Self {
        Self::record::<8>((Native(len), [0; 4]))
    }

    /// `struct fuse_lseek_out`.
    pub fn offset(offset: u64) -> Self {
        Self::record::<8>(Native(offset))
    }

    /// `struct fuse_statfs_out`.
    pub fn space(space: &PosixSpace) -> Self {
        Self::record::<80>((
            (Native(space.blocks), Native(space.free), Native(space.available)),
            (Native(space.nodes), Native(space.free_nodes)),
            (Native(space.block_size), Native(space.name_len), Native(space.block_size)),
            [0; 28],
        ))
    }
}

/// `struct fuse_out_header`: `len` bytes follow.
pub fn reply_header(unique: u64, error: i32, len: usize) -> [u8; REPLY_HEADER] {
    // A reply is no longer than the buffer it lies in.
    let len = (REPLY_HEADER + len) as u32;
    encode((Native(len), Native(error.cast_unsigned()), Native(unique)))
}

/// Tells the kernel to forget what a name stands for. None if the name is longer than a name can be.
pub fn notice_of_entry(parent: u64, name: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(name.len()).ok()?;
    let body: [u8; 16] = encode((Native(parent), Native(len), [0; 4]));
    let mut message = reply_header(0, notice::INVAL_ENTRY, body.len() + name.len() + 1).to_vec();
    message.extend(body);
    message.extend(name);
    message.push(0);
    Some(message)
}

/// Tells the kernel to forget attributes and contents of a node.
pub fn notice_of_node(node: u64) -> Vec<u8> {
    // From the start to the end: offset 0, length 0.
    let body: [u8; 24] = encode((Native(node), [0; 16]));
    let mut message = reply_header(0, notice::INVAL_INODE, body.len()).to_vec();
    message.extend(body);
    message
}
