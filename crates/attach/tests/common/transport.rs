//! Which way FUSE's requests take: `/dev/fuse`, or rings of io_uring.

use atrest_attach::fuse::{self, Mount, MountError};
use atrest_testkit::rings::with_rings;

/// Mounts, with FUSE's requests on one way or the other.
///
/// # Panics
/// When it can't be mounted, or has not the rings that it should have.
pub fn by_transport(
    rings: bool,
    options: &fuse::Options,
    mount: impl FnOnce(&fuse::Options) -> Result<Mount, MountError>,
) -> Mount {
    let options = fuse::Options { rings, ..options.clone() };
    let mount = || mount(&options).unwrap_or_else(|error| panic!("{error} (run scripts/setup)"));
    if !rings {
        return mount();
    }
    let (mount, offered) = with_rings(mount);
    assert_eq!(mount.has_rings(), offered);
    mount
}
