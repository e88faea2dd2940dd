//! UUID and name of a partition: what the kernel says of it, or else what its disk's table says.

use std::path::Path;

use atrest_engine::{Access, FileDevice};
use atrest_probe::partition::{PartitionName, partition_name};

/// Looks at `/sys/class/block/NAME`; `None` if it is no partition.
pub fn partition(sys: &Path) -> Option<PartitionName> {
    let number = std::fs::read_to_string(sys.join("partition")).ok()?.trim().parse().ok()?;
    let event = std::fs::read_to_string(sys.join("uevent")).ok()?;
    let value = |name: &str| {
        let mut lines = event.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(String::from))
    };
    if let Some(uuid) = value("PARTUUID") {
        // intended: a partition need not have a name.
        return Some(PartitionName { uuid, name: value("PARTNAME").unwrap_or_default() });
    }
    // Kernels before 6.9 don't say it. The disk's directory is the one above the partition's.
    let sys = sys.canonicalize().ok()?;
    let name = sys.parent()?.file_name()?.to_str()?.replace('!', "/");
    let disk = FileDevice::open(Path::new("/dev").join(name), Access::ReadOnly).ok()?;
    partition_name(&disk, number).ok()?
}
