//! Extended attributes: those of the lower file, but for the layer's own and access control lists.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use atrest_filetree::posix::{Errno, Outcome, SetXattr};
use rustix::fs::{FileType, XattrFlags};

use super::Layer;
use super::nodes::LowerNode;
use super::open::proc_name;
use super::tree::Inner;

/// Names of attributes that would grant or deny access and that nobody here looks at.
const ACLS: &[u8] = b"system.";
/// Most values and lists of names are shorter.
const SHORT: usize = 256;
/// No value and no list of names is longer (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const LONGEST: usize = 65_536;

impl<M: Layer> Inner<M> {
    pub fn xattr(&self, node: &LowerNode<M::File>, name: &[u8]) -> Outcome<Vec<u8>> {
        if self.layer.owns_xattr(name) {
            return Err(Errno::NODATA);
        }
        let (_held, path) = self.xattr_path(node, name)?;
        read_long(|buf| rustix::fs::getxattr(&path, OsStr::from_bytes(name), buf))
    }

    pub fn xattrs(&self, node: &LowerNode<M::File>) -> Outcome<Vec<u8>> {
        if node.kind == FileType::Symlink {
            return Ok(Vec::new());
        }
        let (_held, path) = self.xattr_path(node, b"")?;
        let names = read_long(|buf| rustix::fs::listxattr(&path, buf))?;
        let shown = names.split_inclusive(|byte| *byte == 0).filter(|name| {
            let name = name.strip_suffix(&[0]).unwrap_or(name);
            !self.layer.owns_xattr(name) && !name.starts_with(ACLS)
        });
        Ok(shown.flatten().copied().collect())
    }

    pub fn set_xattr(
        &self,
        node: &LowerNode<M::File>,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Outcome<()> {
        if self.layer.owns_xattr(name) {
            return Err(Errno::PERM);
        }
        let flags = match how {
            SetXattr::Any => XattrFlags::empty(),
            SetXattr::Create => XattrFlags::CREATE,
            SetXattr::Replace => XattrFlags::REPLACE,
        };
        let (_held, path) = self.xattr_path(node, name)?;
        rustix::fs::setxattr(path, OsStr::from_bytes(name), value, flags)
    }

    pub fn remove_xattr(&self, node: &LowerNode<M::File>, name: &[u8]) -> Outcome<()> {
        if self.layer.owns_xattr(name) {
            return Err(Errno::NODATA);
        }
        let (_held, path) = self.xattr_path(node, name)?;
        rustix::fs::removexattr(path, OsStr::from_bytes(name))
    }

    /// A path that leads to the node's attributes as long as the descriptor lives; links have none that could be set.
    fn xattr_path(&self, node: &LowerNode<M::File>, name: &[u8]) -> Outcome<(Arc<OwnedFd>, String)> {
        if node.kind == FileType::Symlink || name.starts_with(ACLS) {
            return Err(Errno::OPNOTSUPP);
        }
        let held = self.descriptor(node)?;
        let path = format!("/proc/self/fd/{}", proc_name(&*held));
        Ok((held, path))
    }
}

/// What is read in one call, into more room if it does not fit.
fn read_long(read: impl Fn(&mut [u8]) -> Outcome<usize>) -> Outcome<Vec<u8>> {
    let mut value = vec![0; SHORT];
    let len = match read(&mut value) {
        Err(Errno::RANGE) => {
            value.resize(LONGEST, 0);
            read(&mut value)?
        }
        outcome => outcome?,
    };
    value.truncate(len);
    Ok(value)
}
