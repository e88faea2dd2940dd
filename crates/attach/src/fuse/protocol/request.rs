//! What the kernel asks.

use atrest_codec::{Fixed, decode};
use atrest_filetree::Timestamp;
use atrest_filetree::posix::{Change, NewTime};
use rustix::io::Errno;

use super::Native;
use super::abi::{REQUEST_HEADER, opcode, set_flag, sync_flag, write_flag};

/// `struct fuse_in_header`: what is in front of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole request.
    pub len: u32,
    pub opcode: u32,
    /// Which request it is, for the reply.
    pub unique: u64,
    pub node: u64,
    /// Who asks.
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

impl Header {
    pub fn decode(bytes: &[u8; REQUEST_HEADER]) -> Self {
        let fields = decode(bytes);
        let (Native(len), Native(opcode), Native(unique), Native(node), who, _): (_, _, _, _, _, [u8; 4]) =
            fields;
        let (Native(uid), Native(gid), Native(pid)) = who;
        Self { len, opcode, unique, node, uid, gid, pid }
    }
}

/// Bytes of the record that follows the header of such a request; whatever it names or carries comes after that. None if
/// there is no such request here.
pub fn operation_len(opcode: u32) -> Option<usize> {
    Some(match opcode {
        opcode::LOOKUP
        | opcode::READLINK
        | opcode::SYMLINK
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::STATFS
        | opcode::REMOVEXATTR
        | opcode::DESTROY => 0,
        opcode::FORGET
        | opcode::MKDIR
        | opcode::RENAME
        | opcode::LINK
        | opcode::OPEN
        | opcode::OPENDIR
        | opcode::SETXATTR
        | opcode::GETXATTR
        | opcode::LISTXATTR
        | opcode::BATCH_FORGET => 8,
        opcode::GETATTR
        | opcode::MKNOD
        | opcode::FSYNC
        | opcode::FSYNCDIR
        | opcode::CREATE
        | opcode::RENAME2 => 16,
        opcode::RELEASE | opcode::RELEASEDIR | opcode::FLUSH | opcode::LSEEK => 24,
        opcode::FALLOCATE => 32,
        opcode::READ | opcode::READDIR | opcode::READDIRPLUS | opcode::WRITE => 40,
        opcode::SETATTR => 88,
        _ => return None,
    })
}

/// What follows a request's record, in the buffer that its reply may use.
pub struct Body<'a> {
    /// All of the buffer.
    pub buffer: &'a mut [u8],
    /// How much of it the kernel has filled.
    pub len: usize,
}

/// A request about a node, which the header names.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// The kernel has forgotten this node so many times.
    Forget {
        times: u64,
    },
    /// Nodes, and how many times each.
    ForgetMany(Vec<(u64, u64)>),
    Attributes,
    SetAttributes {
        /// The open file through which it is asked.
        handle: Option<u64>,
        change: Change,
    },
    ReadLink,
    MakeLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        name: &'a [u8],
        mode: u32,
        device: u32,
    },
    MakeDirectory {
        name: &'a [u8],
        mode: u32,
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    Remove {
        name: &'a [u8],
        directory: bool,
    },
    /// With the flags of `renameat2(2)`.
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    /// With the flags of `open(2)`.
    Open {
        flags: u32,
    },
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
    },
    /// As many bytes as `room` has.
    Read {
        handle: u64,
        offset: u64,
        room: &'a mut [u8],
    },
    /// `flags` are those of `open(2)`.
    Write {
        handle: u64,
        offset: u64,
        data: &'a mut [u8],
        kill_set_ids: bool,
        flags: u32,
    },
    /// A descriptor was closed.
    Flush {
        handle: u64,
    },
    Sync {
        handle: u64,
        data_only: bool,
    },
    Release {
        handle: u64,
    },
    Allocate {
        handle: u64,
        offset: u64,
        len: u64,
        mode: u32,
    },
    Seek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    OpenDirectory,
    /// As many entries as `room` has room for, from `offset` on.
    List {
        handle: u64,
        offset: u64,
        with_attributes: bool,
        room: &'a mut [u8],
    },
    SyncDirectory {
        handle: u64,
        data_only: bool,
    },
    ReleaseDirectory {
        handle: u64,
    },
    Space,
    /// Of `size` 0, how long the value is.
    Xattr {
        name: &'a [u8],
        size: u32,
    },
    Xattrs {
        size: u32,
    },
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    /// The file system is unmounted.
    Destroy,
}

/// A record of fixed length.
fn record<T: Fixed, const N: usize>(operation: &[u8]) -> Result<T, Errno> {
    let bytes = operation.first_chunk::<N>().ok_or(Errno::INVAL)?;
    Ok(decode(bytes))
}

/// Strings that end with a zero, and nothing after them.
fn names<'a, const N: usize>(body: Body<'a>) -> Result<[&'a [u8]; N], Errno> {
    let mut rest: &'a [u8] = body.buffer.get(..body.len).ok_or(Errno::INVAL)?;
    let mut names = [b"".as_slice(); N];
    for name in &mut names {
        (*name, rest) = string(rest)?;
    }
    if rest.is_empty() { Ok(names) } else { Err(Errno::INVAL) }
}

fn name(body: Body<'_>) -> Result<&[u8], Errno> {
    names(body).map(|[name]| name)
}

/// What is in front of the first zero, and what is behind it.
fn string(bytes: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let len = bytes.iter().position(|&byte| byte == 0).ok_or(Errno::INVAL)?;
    let (string, rest) = bytes.split_at_checked(len).ok_or(Errno::INVAL)?;
    let (_zero, rest) = rest.split_first().ok_or(Errno::INVAL)?;
    Ok((string, rest))
}

impl<'a> Request<'a> {
    /// Reads a request. `operation` is its record, of [`operation_len`] bytes.
    ///
    /// # Errors
    /// What the kernel is answered: [`Errno::NOSYS`] if there is no such request here, [`Errno::INVAL`] if it is no whole one.
    pub fn parse(opcode: u32, operation: &[u8], body: Body<'a>) -> Result<Self, Errno> {
        Ok(match opcode {
            opcode::LOOKUP => Self::Lookup { name: name(body)? },
            opcode::FORGET => {
                let Native(times) = record::<_, 8>(operation)?;
                Self::Forget { times }
            }
            opcode::BATCH_FORGET => Self::forget_many(operation, &body)?,
            opcode::GETATTR => Self::Attributes,
            opcode::SETATTR => Self::set_attributes(operation)?,
            opcode::READLINK => Self::ReadLink,
            opcode::SYMLINK => {
                let [name, target] = names(body)?;
                Self::MakeLink { name, target }
            }
            opcode::MKNOD => {
                let (Native(mode), Native(device), _): (_, _, [u8; 8]) = record::<_, 16>(operation)?;
                Self::MakeNode { name: name(body)?, mode, device }
            }
            opcode::MKDIR => {
                let (Native(mode), _): (_, [u8; 4]) = record::<_, 8>(operation)?;
                Self::MakeDirectory { name: name(body)?, mode }
            }
            opcode::LINK => {
                let Native(node) = record::<_, 8>(operation)?;
                Self::Link { node, name: name(body)? }
            }
            opcode::UNLINK => Self::Remove { name: name(body)?, directory: false },
            opcode::RMDIR => Self::Remove { name: name(body)?, directory: true },
            opcode::RENAME => {
                let Native(new_parent) = record::<_, 8>(operation)?;
                let [name, new_name] = names(body)?;
                Self::Rename { name, new_parent, new_name, flags: 0 }
            }
            opcode::RENAME2 => {
                let (Native(new_parent), Native(flags), _): (_, _, [u8; 4]) = record::<_, 16>(operation)?;
                let [name, new_name] = names(body)?;
                Self::Rename { name, new_parent, new_name, flags }
            }
            opcode::OPEN => {
                let (Native(flags), _): (_, [u8; 4]) = record::<_, 8>(operation)?;
                Self::Open { flags }
            }
            opcode::CREATE => {
                let (Native(flags), Native(mode), _): (_, _, [u8; 8]) = record::<_, 16>(operation)?;
                Self::Create { name: name(body)?, flags, mode }
            }
            opcode::READ => {
                let place = Place::parse(operation)?;
                // Less would be taken for the end of the file.
                let room = body.buffer.get_mut(..place.size).ok_or(Errno::IO)?;
                Self::Read { handle: place.handle, offset: place.offset, room }
            }
            opcode::READDIR | opcode::READDIRPLUS => {
                let Place { handle, offset, size, .. } = Place::parse(operation)?;
                let size = size.min(body.buffer.len());
                let room = body.buffer.get_mut(..size).ok_or(Errno::IO)?;
                Self::List { handle, offset, with_attributes: opcode == opcode::READDIRPLUS, room }
            }
            opcode::WRITE => {
                let Place { handle, offset, size, how, flags } = Place::parse(operation)?;
                if body.len != size {
                    return Err(Errno::INVAL);
                }
                let data = body.buffer.get_mut(..size).ok_or(Errno::INVAL)?;
                let kill_set_ids = how & write_flag::KILL_SUIDGID != 0;
                Self::Write { handle, offset, data, kill_set_ids, flags }
            }
            opcode::STATFS => Self::Space,
            opcode::FLUSH => {
                let (Native(handle), _): (_, [u8; 16]) = record::<_, 24>(operation)?;
                Self::Flush { handle }
            }
            opcode::RELEASE | opcode::RELEASEDIR => {
                let (Native(handle), _): (_, [u8; 16]) = record::<_, 24>(operation)?;
                match opcode {
                    opcode::RELEASE => Self::Release { handle },
                    _ => Self::ReleaseDirectory { handle },
                }
            }
            opcode::FSYNC | opcode::FSYNCDIR => {
                let (Native(handle), Native(flags), _): (_, Native<u32>, [u8; 4]) =
                    record::<_, 16>(operation)?;
                let data_only = flags & sync_flag::DATA_ONLY != 0;
                match opcode {
                    opcode::FSYNC => Self::Sync { handle, data_only },
                    _ => Self::SyncDirectory { handle, data_only },
                }
            }
            opcode::FALLOCATE => {
                let (Native(handle), Native(offset), Native(len), Native(mode), _): (_, _, _, _, [u8; 4]) =
                    record::<_, 32>(operation)?;
                Self::Allocate { handle, offset, len, mode }
            }
            opcode::LSEEK => {
                let (Native(handle), Native(offset), Native(whence), _): (_, _, _, [u8; 4]) =
                    record::<_, 24>(operation)?;
                Self::Seek { handle, offset, whence }
            }
            opcode::OPENDIR => Self::OpenDirectory,
            opcode::SETXATTR => Self::set_xattr(operation, body)?,
            opcode::GETXATTR | opcode::LISTXATTR => {
                let (Native(size), _): (_, [u8; 4]) = record::<_, 8>(operation)?;
                match opcode {
                    opcode::GETXATTR => Self::Xattr { name: name(body)?, size },
                    _ => Self::Xattrs { size },
                }
            }
            opcode::REMOVEXATTR => Self::RemoveXattr { name: name(body)? },
            opcode::DESTROY => Self::Destroy,
            _ => return Err(Errno::NOSYS),
        })
    }

    fn forget_many(operation: &[u8], body: &Body<'_>) -> Result<Self, Errno> {
        let (Native(count), _): (Native<u32>, [u8; 4]) = record::<_, 8>(operation)?;
        let (rows, rest) = body.buffer.get(..body.len).ok_or(Errno::INVAL)?.as_chunks::<16>();
        if rows.len() != count as usize || !rest.is_empty() {
            return Err(Errno::INVAL);
        }
        let row = |row: &[u8; 16]| {
            let (Native(node), Native(times)) = decode(row);
            (node, times)
        };
        Ok(Self::ForgetMany(rows.iter().map(row).collect()))
    }

    fn set_attributes(operation: &[u8]) -> Result<Self, Errno> {
        let (what, (seconds, nanoseconds), (Native(mode), _), owner, _): SetRecord =
            record::<_, 88>(operation)?;
        let (Native(valid), _, Native(handle), Native(size), _) = what;
        let (Native(atime), Native(mtime), _) = seconds;
        let (Native(atime_nanoseconds), Native(mtime_nanoseconds), _) = nanoseconds;
        let (Native(uid), Native(gid)) = owner;
        let has = |flag: u32| valid & flag != 0;
        let time = |flag: u32, now: u32, seconds: u64, nanoseconds: u32| {
            let exact = Timestamp { seconds: seconds.cast_signed(), nanoseconds };
            has(flag).then_some(if has(now) { NewTime::Now } else { NewTime::At(exact) })
        };
        let change = Change {
            mode: has(set_flag::MODE).then_some(mode),
            uid: has(set_flag::UID).then_some(uid),
            gid: has(set_flag::GID).then_some(gid),
            size: has(set_flag::SIZE).then_some(size),
            accessed: time(set_flag::ATIME, set_flag::ATIME_NOW, atime, atime_nanoseconds),
            modified: time(set_flag::MTIME, set_flag::MTIME_NOW, mtime, mtime_nanoseconds),
        };
        Ok(Self::SetAttributes { handle: has(set_flag::HANDLE).then_some(handle), change })
    }

    fn set_xattr(operation: &[u8], body: Body<'a>) -> Result<Self, Errno> {
        let (Native(size), Native(flags)): (Native<u32>, _) = record::<_, 8>(operation)?;
        let bytes: &'a [u8] = body.buffer.get(..body.len).ok_or(Errno::INVAL)?;
        let (name, value) = string(bytes)?;
        if value.len() != size as usize {
            return Err(Errno::INVAL);
        }
        Ok(Self::SetXattr { name, value, flags })
    }
}

/// `struct fuse_read_in` and `struct fuse_write_in`.
struct Place {
    handle: u64,
    offset: u64,
    size: usize,
    /// Of a WRITE: [`write_flag`].
    how: u32,
    /// Those of `open(2)`.
    flags: u32,
}

impl Place {
    fn parse(operation: &[u8]) -> Result<Self, Errno> {
        let (Native(handle), Native(offset), Native(size), Native(how), _, Native(flags), _): (
            _,
            _,
            Native<u32>,
            _,
            [u8; 8],
            _,
            [u8; 4],
        ) = record::<_, 40>(operation)?;
        Ok(Self { handle, offset, size: size as usize, how, flags })
    }
}

/// `struct fuse_setattr_in`: what, times, mode, owner. The time of the last change of attributes can't be set.
type SetRecord = (What, (Seconds, Nanoseconds), (Native<u32>, [u8; 4]), (Native<u32>, Native<u32>), [u8; 4]);
type What = (Native<u32>, [u8; 4], Native<u64>, Native<u64>, [u8; 8]);
type Seconds = (Native<u64>, Native<u64>, [u8; 8]);
type Nanoseconds = (Native<u32>, Native<u32>, [u8; 4]);

#[cfg(test)]
mod tests {
    use atrest_testkit::Random;

    use super::*;

    fn parse<'a>(
        opcode: u32,
        operation: &[u8],
        body: &'a mut [u8],
        len: usize,
    ) -> Result<Request<'a>, Errno> {
        Request::parse(opcode, operation, Body { buffer: body, len })
    }

    /// Fields of 32 and 64 bits after one another.
    fn fields(fields: &[(u64, usize)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(value, len) in fields {
            match len {
                4 => bytes.extend((value as u32).to_ne_bytes()),
                _ => bytes.extend(value.to_ne_bytes()),
            }
        }
        bytes
    }

    #[test]
    fn requests_are_read_from_their_records_and_what_follows() {
        let mut body = *b"old\0new\0";
        let rename = fields(&[(77, 8), (1, 4), (0, 4)]);
        let expected = Request::Rename { name: b"old", new_parent: 77, new_name: b"new", flags: 1 };
        assert_eq!(parse(opcode::RENAME2, &rename, &mut body, 8), Ok(expected));

        let mut data = [7; 64];
        let write = fields(&[(5, 8), (4096, 8), (64, 4), (4, 4), (0, 8), (0o1, 4), (0, 4)]);
        let expected =
            Request::Write { handle: 5, offset: 4096, data: &mut [7; 64], kill_set_ids: true, flags: 1 };
        assert_eq!(parse(opcode::WRITE, &write, &mut data, 64), Ok(expected));
        assert_eq!(parse(opcode::WRITE, &write, &mut data, 63), Err(Errno::INVAL), "a part of the data");

        let read = fields(&[(5, 8), (8192, 8), (16, 4), (0, 4), (0, 8), (0, 4), (0, 4)]);
        let expected = Request::Read { handle: 5, offset: 8192, room: &mut [7; 16] };
        assert_eq!(parse(opcode::READ, &read, &mut data, 0), Ok(expected));
        assert_eq!(parse(opcode::READ, &read, &mut data[..15], 0), Err(Errno::IO), "no room for all of it");

        let mut body = *b"user.a\0value";
        let set = fields(&[(5, 4), (2, 4)]);
        let expected = Request::SetXattr { name: b"user.a", value: b"value", flags: 2 };
        assert_eq!(parse(opcode::SETXATTR, &set, &mut body, 12), Ok(expected));

        let mut body = [fields(&[(11, 8), (2, 8)]), fields(&[(12, 8), (1, 8)])].concat();
        let forget = fields(&[(2, 4), (0, 4)]);
        let expected = Request::ForgetMany(vec![(11, 2), (12, 1)]);
        assert_eq!(parse(opcode::BATCH_FORGET, &forget, &mut body, 32), Ok(expected));
        let more = fields(&[(3, 4), (0, 4)]);
        assert_eq!(parse(opcode::BATCH_FORGET, &more, &mut body, 32), Err(Errno::INVAL));
    }

    #[test]
    fn of_attributes_only_those_are_set_that_the_request_names() {
        let mut record = fields(&[(0, 4), (0, 4), (9, 8), (100, 8), (0, 8), (1, 8), (2, 8), (0, 8)]);
        record.extend(fields(&[(3, 4), (4, 4), (0, 4), (0o100_640, 4), (0, 4), (5, 4), (6, 4), (0, 4)]));
        let set = |valid: u32| {
            let mut record = record.clone();
            record[..4].copy_from_slice(&valid.to_ne_bytes());
            match parse(opcode::SETATTR, &record, &mut [], 0) {
                Ok(Request::SetAttributes { handle, change }) => (handle, change),
                other => panic!("{other:?}"),
            }
        };
        let none = Change::default();
        assert_eq!(set(0), (None, none));
        assert_eq!(set(1), (None, Change { mode: Some(0o100_640), ..none }));
        assert_eq!(set(2), (None, Change { uid: Some(5), ..none }));
        assert_eq!(set(4), (None, Change { gid: Some(6), ..none }));
        assert_eq!(set(8 | 64), (Some(9), Change { size: Some(100), ..none }));
        let at = |seconds, nanoseconds| Some(NewTime::At(Timestamp { seconds, nanoseconds }));
        assert_eq!(set(16 | 32), (None, Change { accessed: at(1, 3), modified: at(2, 4), ..none }));
        let now = Some(NewTime::Now);
        assert_eq!(set(16 | 128 | 32 | 256), (None, Change { accessed: now, modified: now, ..none }));
    }

    #[test]
    fn what_is_no_whole_request_is_refused() {
        let mut random = Random::new(3);
        let mut refused = 0;
        for _ in 0..20_000 {
            let opcode = random.below(60) as u32;
            let operation = random.bytes(operation_len(opcode).unwrap_or(8));
            let cut = random.below(operation.len() as u64 + 1) as usize;
            let mut body = random.bytes(40);
            let len = random.below(60) as usize;
            refused += u32::from(parse(opcode, &operation[..cut], &mut body, len).is_err());
            // A record that was cut off, or a body that is longer than its buffer, names or carries nothing.
            let needs = operation_len(opcode).unwrap_or(0) > 0
                && opcode != opcode::GETATTR
                && opcode != opcode::OPENDIR;
            if cut < operation.len() && needs {
                parse(opcode, &operation[..cut], &mut body, 0).unwrap_err();
            }
        }
        assert!(refused > 10_000, "{refused}");
        for names in [b"".as_slice(), b"a", b"a\0b", b"a\0b\0"] {
            let mut body = names.to_vec();
            let len = body.len();
            assert_eq!(parse(opcode::LOOKUP, &[], &mut body, len), Err(Errno::INVAL), "{names:?}");
        }
        assert_eq!(parse(opcode::LOOKUP, &[], &mut [0; 4], 5), Err(Errno::INVAL));
        assert_eq!(parse(9999, &[], &mut [], 0), Err(Errno::NOSYS));
    }
}
