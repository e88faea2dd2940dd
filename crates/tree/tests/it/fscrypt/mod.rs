//! fscrypt against the kernels that wrote it: images of the running one (root, a loop mount), and of Debian's in emulation.

mod common;
mod debian;
mod hctr2;
mod host;
mod inode;
