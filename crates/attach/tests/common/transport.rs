//! Which way FUSE's requests take: `/dev/fuse`, or rings of io_uring where the program of tests says so.

use atrest_attach::fuse::{self, Mount, MountError};
use atrest_testkit::rings::with_rings;

/// Mounts, with FUSE's requests on the way that this program of tests is about.
///
/// # Panics
/// When it can't be mounted, or has not the rings that it should have.
pub fn by_transport(
    options: &fuse::Options,
    mount: impl FnOnce(&fuse::Options) -> Result<Mount, MountError>,
) -> Mount {
    let options = fuse::Options { rings: crate::RINGS, ..options.clone() };
    let mount = || mount(&options).unwrap_or_else(|error| panic!("{error} (run scripts/setup)"));
    if !crate::RINGS {
        return mount();
    }
    let (mount, offered) = with_rings(mount);
    assert_eq!(mount.has_rings(), offered);
    mount
}
