//! How descriptors are opened: none goes to a program that is started, and below a directory that a person has named no link is
//! followed and nothing waits for the other end of a pipe.

use rustix::fs::OFlags;

/// A directory that a person has named.
pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// One below it.
pub(crate) const INNER_DIRECTORY: OFlags = DIRECTORY.union(OFlags::NOFOLLOW);
/// A file that is there: to be opened for reading, or as is said beside it.
pub(crate) const INNER_FILE: OFlags = REOPENED.union(OFlags::NOFOLLOW);
/// What a descriptor stands for, by its link below `/proc`, which is followed.
pub(crate) const REOPENED: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// A file that is not there yet.
pub(crate) const NEW_FILE: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Whatever is there, without opening it.
pub(crate) const INNER_PLACE: OFlags = PLACE.union(OFlags::NOFOLLOW);
/// What a descriptor stands for, without opening it.
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
