//! Mounting a device for a moment, to read a file on it, without writing to it.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use atrest_probe::FilesystemKind;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::device;

/// Where devices are mounted for a moment.
const PLACE: &str = "/run/atrest-mount";
/// What keeps a file system from replaying its journal, which is a write even where it is mounted read-only.
const NO_REPLAY: &[(&str, &str)] = &[
    ("ext3", "noload"),
    ("ext4", "noload"),
    ("xfs", "norecovery"),
    ("btrfs", "rescue=nologreplay"),
    ("f2fs", "norecovery"),
];

/// A file on a device, and what keeps it there to be read.
pub struct OnDevice {
    directory: PathBuf,
    mounted: bool,
}

impl OnDevice {
    /// Mounts a device read-only; one that is mounted already is used where it is.
    pub fn mount(device: &Path, filesystem: Option<&str>) -> io::Result<Self> {
        let directory = PathBuf::from(PLACE);
        std::fs::create_dir_all(&directory)?;
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        match mount_by(device, &directory, filesystem, |kind| {
            let options = NO_REPLAY.iter().find(|(name, _)| *name == kind).map_or("", |(_, option)| option);
            (flags, options.into())
        }) {
            Ok(()) => Ok(Self { directory, mounted: true }),
            Err(error) => match mounted_at(device) {
                Some(directory) => Ok(Self { directory, mounted: false }),
                None => Err(error),
            },
        }
    }

    /// The path at which a file of the device is found.
    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path.trim_start_matches('/'))
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        if self.mounted {
            // A file that is still open keeps the file system until it is closed.
            let _ = unmount(&self.directory, UnmountFlags::DETACH);
        }
        // Left where somebody else has something in them.
        let _ = std::fs::remove_dir(PLACE);
    }
}

/// Mounts a device: with the file system that is named (several are separated by commas), or the one that is found on it, or else with
/// all that the kernel has, in turn.
pub fn mount_with_types(
    device: &Path,
    directory: &Path,
    filesystem: Option<&str>,
    flags: MountFlags,
    options: &str,
) -> io::Result<()> {
    mount_by(device, directory, filesystem, |_| (flags, options.into()))
}

fn mount_by(
    device: &Path,
    directory: &Path,
    filesystem: Option<&str>,
    how: impl Fn(&str) -> (MountFlags, String),
) -> io::Result<()> {
    let kinds: Vec<String> = match filesystem.filter(|name| *name != "auto") {
        Some(names) => names.split(',').map(String::from).collect(),
        None => {
            use FilesystemKind::{Ext2, Ext3, Luks1, Luks2, Swap};
            let found = device::content(device).map(|content| content.kind);
            let name = found.map(FilesystemKind::blkid_name);
            match (found, name) {
                (Some(Luks1 | Luks2 | Swap), Some(name)) => {
                    let what = format!("{} holds {name}, which is no file system", device.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                // The kernel's ext4 is for all three, and is there where the others are not.
                (Some(Ext2 | Ext3), Some(name)) => vec![name.into(), "ext4".into()],
                (_, Some(name)) => vec![name.into()],
                (_, None) => known_to_kernel(),
            }
        }
    };
    let mut last = io::Error::new(io::ErrorKind::InvalidData, "no file system is known on it");
    for kind in &kinds {
        let (flags, options) = how(kind);
        match mount_once(device, directory, kind, flags, &options) {
            Ok(()) => return Ok(()),
            // It is not what the kernel would take for this one, or the kernel does not have it.
            Err(Errno::INVAL | Errno::NODEV) if kinds.len() > 1 => {}
            Err(error) => last = io::Error::new(io::Error::from(error).kind(), format!("as {kind}: {error}")),
        }
    }
    Err(last)
}

/// One mount, with flags and what the file system itself is told.
pub fn mount_once(
    device: &Path,
    directory: &Path,
    kind: &str,
    flags: MountFlags,
    options: &str,
) -> Result<(), Errno> {
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount(device, directory, kind, flags, (!options.is_empty()).then_some(options.as_c_str()))
}

/// All file systems for devices that the kernel has now.
fn known_to_kernel() -> Vec<String> {
    // intended: where the kernel does not tell, none is tried, and the mount fails with that.
    let list = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let lines = list.lines().filter(|line| !line.starts_with("nodev"));
    lines.map(|line| line.trim().into()).filter(|name| name != "fuseblk").collect()
}

/// Where a device is mounted.
fn mounted_at(device: &Path) -> Option<PathBuf> {
    let number = std::os::unix::fs::MetadataExt::rdev(&File::open(device).ok()?.metadata().ok()?);
    let wanted = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (device, root, place) = (fields.get(2)?, fields.get(3)?, fields.get(4)?);
        // Only the whole of it, at a place whose name needs no escapes.
        (*device == wanted && *root == "/" && !place.contains('\\')).then(|| PathBuf::from(place))
    })
}
