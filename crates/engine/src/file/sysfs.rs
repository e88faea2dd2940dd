//! Block devices as sysfs describes them: partitions, loop devices, and what stands on what. Nobody else reads sysfs here.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use atrest_device::{DeviceError, SECTOR_SIZE};

/// Where the kernel describes block devices by number, and whole devices by name.
pub const BY_NUMBER: &str = "/sys/dev/block";
const BY_NAME: &str = "/sys/block";

/// What the kernel says of one block device.
#[derive(Clone, Debug)]
pub struct Described {
    directory: PathBuf,
}

/// Where a partition lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPlace {
    /// The device that it is a part of.
    pub drive: PathBuf,
    /// The byte of it with which the partition begins.
    pub start: u64,
}

/// Where the partition that a path names lies; `None` if the path names something else.
///
/// # Errors
/// [`DeviceError`] if the path or what the kernel says of it can't be read.
pub fn partition_place(path: &Path) -> Result<Option<PartitionPlace>, DeviceError> {
    let place = || {
        let metadata = fs::metadata(path)?;
        let device = Described::of(metadata.rdev());
        if !metadata.file_type().is_block_device() || !device.is_partition() {
            return Ok(None);
        }
        Ok(Some(PartitionPlace { drive: device.disk()?.node()?, start: device.start()? }))
    };
    place().map_err(super::open_error)
}

impl Described {
    /// The device with a number, which need not exist.
    pub fn of(number: u64) -> Self {
        Self::within(Path::new(BY_NUMBER), number)
    }

    /// The device with a number in a directory of such descriptions.
    pub fn within(devices: &Path, number: u64) -> Self {
        Self { directory: devices.join(numbers(number)) }
    }

    /// All loop devices that are attached to something. Without sysfs none is known.
    pub fn loops() -> Vec<Self> {
        let all = fs::read_dir(BY_NAME).into_iter().flatten().flatten();
        all.map(|entry| Self { directory: entry.path() }).filter(Self::is_loop).collect()
    }

    /// Whether the kernel describes such a device.
    pub fn exists(&self) -> bool {
        self.directory.exists()
    }

    /// Its number as sysfs and lock files write it, `major:minor`.
    pub fn numbers(&self) -> io::Result<String> {
        Ok(fs::read_to_string(self.directory.join("dev"))?.trim().to_owned())
    }

    /// Its number.
    pub fn number(&self) -> io::Result<u64> {
        let text = self.numbers()?;
        let parsed = text
            .split_once(':')
            .and_then(|(major, minor)| Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?)));
        parsed.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// What it is called below /dev.
    pub fn node(&self) -> io::Result<PathBuf> {
        let directory = self.directory.canonicalize()?;
        let name = directory.file_name().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Path::new("/dev").join(name))
    }

    /// Whether it is a partition of another device.
    pub fn is_partition(&self) -> bool {
        self.directory.join("partition").exists()
    }

    /// The device that a partition is a part of.
    pub fn disk(&self) -> io::Result<Self> {
        Ok(Self { directory: self.directory.canonicalize()?.join("..") })
    }

    /// The byte of its disk with which a partition begins.
    pub fn start(&self) -> io::Result<u64> {
        let sectors = self.read_number("start")?;
        sectors.checked_mul(SECTOR_SIZE).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Its size in bytes.
    pub fn size(&self) -> io::Result<u64> {
        let sectors = self.read_number("size")?;
        sectors.checked_mul(SECTOR_SIZE).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Its partitions.
    pub fn partitions(&self) -> io::Result<Vec<Self>> {
        Ok(entries(&self.directory)?.into_iter().filter(Self::is_partition).collect())
    }

    /// Whether it is a loop device that is attached to something.
    pub fn is_loop(&self) -> bool {
        self.directory.join("loop").is_dir()
    }

    /// Whether device-mapper made it.
    pub fn is_mapping(&self) -> bool {
        self.directory.join("dm").is_dir()
    }

    /// The path by which a loop device was attached to its file.
    pub fn backing_file(&self) -> io::Result<PathBuf> {
        let path = fs::read_to_string(self.directory.join("loop/backing_file"))?;
        Ok(PathBuf::from(path.trim_end_matches('\n')))
    }

    /// The byte of its file with which a loop device begins.
    pub fn loop_offset(&self) -> io::Result<u64> {
        self.read_number("loop/offset")
    }

    /// The devices that it is mapped onto.
    pub fn slaves(&self) -> io::Result<Vec<Self>> {
        entries(&self.directory.join("slaves"))
    }

    /// Whether another device is mapped onto it.
    pub fn is_held(&self) -> io::Result<bool> {
        Ok(fs::read_dir(self.directory.join("holders"))?.next().is_some())
    }

    fn read_number(&self, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.directory.join(name))?;
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

fn entries(directory: &Path) -> io::Result<Vec<Described>> {
    fs::read_dir(directory)?.map(|entry| Ok(Described { directory: entry?.path() })).collect()
}

/// A block device's number as sysfs writes it.
pub fn numbers(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}
