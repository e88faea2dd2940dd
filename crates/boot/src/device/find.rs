//! From a name to a device node.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use atrest_engine::{Access, FileDevice};
use atrest_probe::{FilesystemKind, Identity, identity};

use super::partition::partition;
use crate::policy::DeviceSpec;

const SYS: &str = "/sys/class/block";

/// A device that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Others that the same name fits; the first of all is taken.
    pub others: Vec<PathBuf>,
}

/// Looks for a device once; `None` if there is none now. udev's links are followed where they are, and otherwise all block devices
/// are looked at.
pub fn find(spec: &DeviceSpec) -> Option<Found> {
    let alone = |path: PathBuf| Found { path, others: Vec::new() };
    if let DeviceSpec::Path(path) = spec {
        return usable(path).then(|| alone(path.clone()));
    }
    if let Some(link) = spec.link().filter(|link| usable(link)) {
        return Some(alone(link));
    }
    let mut names: Vec<String> =
        std::fs::read_dir(SYS).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let mut fitting = names.iter().filter(|name| fits(name, spec)).map(|name| node(name));
    let path = fitting.next()?;
    Some(Found { path, others: fitting.collect() })
}

/// What the device at a path is called; `None` for what is not known, and for what can't be read.
pub fn content(path: &Path) -> Option<Identity> {
    let device = FileDevice::open(path, Access::ReadOnly).ok()?;
    identity(&device).ok()?
}

/// A block device, or a regular file, that is not empty: a loop device or a drive without a medium is there, but not yet.
fn usable(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    if metadata.file_type().is_block_device() {
        let number = std::os::unix::fs::MetadataExt::rdev(&metadata);
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        // Without sysfs nobody can say, and the device counts.
        return sectors(&Path::new("/sys/dev/block").join(format!("{major}:{minor}"))) != Some(0);
    }
    metadata.is_file()
}

fn sectors(sys: &Path) -> Option<u64> {
    std::fs::read_to_string(sys.join("size")).ok()?.trim().parse().ok()
}

/// The node that devtmpfs has for a name in sysfs.
fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

fn fits(name: &str, spec: &DeviceSpec) -> bool {
    let sys = Path::new(SYS).join(name);
    if sectors(&sys) == Some(0) {
        return false;
    }
    let content = || content(&node(name));
    match spec {
        DeviceSpec::Path(_) => false,
        DeviceSpec::Uuid(uuid) => content().is_some_and(|content| content.uuid.eq_ignore_ascii_case(uuid)),
        DeviceSpec::LuksUuidPrefix(prefix) => content().is_some_and(|content| {
            matches!(content.kind, FilesystemKind::Luks1 | FilesystemKind::Luks2)
                && content.uuid.starts_with(&prefix.to_ascii_lowercase())
        }),
        DeviceSpec::Label(label) => content().is_some_and(|content| content.label == *label),
        DeviceSpec::PartUuid(uuid) => {
            partition(&sys).is_some_and(|partition| partition.uuid.eq_ignore_ascii_case(uuid))
        }
        DeviceSpec::PartLabel(name) => partition(&sys).is_some_and(|partition| partition.name == *name),
    }
}
