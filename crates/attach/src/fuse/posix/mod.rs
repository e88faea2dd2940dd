//! The FUSE face of a tree with POSIX behaviour.
//!
//! Owners and permissions are the tree's own, and the kernel holds callers against them (`default_permissions`). Contents go
//! through the kernel's page cache, so that files can be mapped, but every write reaches the tree before it returns: the cache
//! never holds what a kill could lose, except for pages written through a mapping, until `msync`, `fsync` or `munmap`. `fsync` reaches the tree's media. Locks are
//! the kernel's.

mod filesystem;
mod handles;

pub(super) use filesystem::PosixDirectoryServer;
