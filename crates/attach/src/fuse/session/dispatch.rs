//! One request, from what it is to what it is answered.

use atrest_filetree::posix::{New, SetXattr};
use rustix::io::Errno;

use crate::fuse::filesystem::{Answer, Caller, Filesystem, NewBytes};
use crate::fuse::protocol::{Body, Header, Listing, Reply, Request};

/// Has a request answered. `operation` is its record, `body` what follows it.
pub fn answer(filesystem: &dyn Filesystem, header: &Header, operation: &[u8], body: Body<'_>) -> Reply {
    let request = Request::parse(header.opcode, operation, body);
    let reply = request.and_then(|request| ask(filesystem, header, request));
    reply.unwrap_or_else(Reply::Error)
}

fn ask(filesystem: &dyn Filesystem, header: &Header, request: Request<'_>) -> Answer<Reply> {
    let node = header.node;
    let caller = Caller { uid: header.uid, gid: header.gid, pid: header.pid };
    let lifetime = filesystem.lifetime();
    let done = |()| Reply::done();
    Ok(match request {
        Request::Lookup { name } => Reply::entry(&filesystem.lookup(node, name)?, lifetime),
        Request::Forget { times } => {
            filesystem.forget(node, times);
            Reply::Silence
        }
        Request::ForgetMany(nodes) => {
            for (node, times) in nodes {
                filesystem.forget(node, times);
            }
            Reply::Silence
        }
        Request::Attributes => Reply::attributes(&filesystem.attributes(node)?, lifetime),
        Request::SetAttributes { handle, change } => {
            Reply::attributes(&filesystem.set_attributes(caller, node, handle, &change)?, lifetime)
        }
        Request::ReadLink => Reply::Bytes(filesystem.read_link(node)?),
        Request::MakeLink { name, target } => {
            Reply::entry(&filesystem.make(caller, node, name, New::Link { target })?, lifetime)
        }
        Request::MakeNode { name, mode, device } => {
            Reply::entry(&filesystem.make(caller, node, name, New::Node { mode, device })?, lifetime)
        }
        Request::MakeDirectory { name, mode } => {
            Reply::entry(&filesystem.make(caller, node, name, New::Directory { mode })?, lifetime)
        }
        Request::Link { node: old, name } => Reply::entry(&filesystem.link(old, node, name)?, lifetime),
        Request::Remove { name, directory } => filesystem.remove(node, name, directory).map(done)?,
        Request::Rename { name, new_parent, new_name, flags } => {
            filesystem.rename((node, name), (new_parent, new_name), flags).map(done)?
        }
        Request::Open { flags } => {
            let opened = filesystem.open(caller, node, flags)?;
            Reply::opened(opened.number, opened.flags)
        }
        Request::Create { name, flags, mode } => {
            let (attributes, opened) = filesystem.create(caller, node, name, mode, flags)?;
            Reply::created(&attributes, lifetime, opened.number, opened.flags)
        }
        Request::Read { handle, offset, room } => {
            Reply::InBuffer(filesystem.read(node, handle, offset, room)?)
        }
        Request::Write { handle, offset, data, kill_set_ids, flags } => {
            let durably = flags & libc::O_DSYNC.cast_unsigned() != 0;
            let bytes = NewBytes { offset, data, durably, kill_set_ids };
            // No more than was sent, which has a length of 32 bits.
            Reply::written(filesystem.write(node, handle, bytes)? as u32)
        }
        Request::Flush { handle } => filesystem.flush(node, handle).map(done)?,
        Request::Sync { handle, data_only } => filesystem.sync(node, handle, data_only).map(done)?,
        Request::Release { handle } => {
            filesystem.release(handle);
            Reply::done()
        }
        Request::Allocate { handle, offset, len, mode } => {
            filesystem.allocate(caller, node, handle, (offset, len), mode).map(done)?
        }
        Request::Seek { offset, whence, .. } => Reply::offset(filesystem.seek(node, offset, whence)?),
        Request::OpenDirectory => {
            let opened = filesystem.open_directory(node)?;
            Reply::opened(opened.number, opened.flags)
        }
        Request::List { handle, offset, with_attributes, room } => {
            let mut listing = Listing::new(room, with_attributes.then_some(lifetime));
            filesystem.list(node, handle, offset, &mut listing)?;
            Reply::InBuffer(listing.len())
        }
        Request::SyncDirectory { handle, data_only } => {
            filesystem.sync_directory(node, handle, data_only).map(done)?
        }
        Request::ReleaseDirectory { handle } => {
            filesystem.release_directory(handle);
            Reply::done()
        }
        Request::Space => Reply::space(&filesystem.space()?),
        Request::Xattr { name, size } => value(filesystem.xattr(node, name)?, size)?,
        Request::Xattrs { size } => value(filesystem.xattrs(node)?, size)?,
        Request::SetXattr { name, value, flags } => {
            let how = match flags.cast_signed() {
                0 => SetXattr::Any,
                libc::XATTR_CREATE => SetXattr::Create,
                libc::XATTR_REPLACE => SetXattr::Replace,
                _ => return Err(Errno::INVAL),
            };
            filesystem.set_xattr(node, name, value, how).map(done)?
        }
        Request::RemoveXattr { name } => filesystem.remove_xattr(node, name).map(done)?,
        Request::Destroy => Reply::done(),
    })
}

/// A value for a caller who has room for `size` bytes, or asks by 0 how long it is.
fn value(value: Vec<u8>, size: u32) -> Answer<Reply> {
    let len = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
    match size {
        0 => Ok(Reply::value_len(len)),
        _ if len > size => Err(Errno::RANGE),
        _ => Ok(Reply::Bytes(value)),
    }
}
