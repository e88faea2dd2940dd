//! What lies below a block device, locked as the use of the device demands.
//!
//! A volume in a file can be reached by the file's name and by every loop device over it. Only the file itself is the
//! same for all of them. So the use lock of a loop device is taken on the file as well, over the bytes that the device
//! shows. Two partitions of a disk image get along, and two writers of one partition don't.
//!
//! Where the place of the bytes is not known, as below a device-mapper device, the lock below is shared. It keeps a
//! writer of the whole file away, and lets several logical volumes of one image be open. A loop device that was made
//! for the mapping may hold the lock itself ([`crate::FileDevice`]'s descriptor); then the mapping has it.
//!
//! The kernel takes no such locks. A mount of a loop device is seen when the file is opened ([`is_claimed`]), and not
//! when it is made later.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use atrest_device::{Cause, LockMode};

use super::loops::{self, Identity};
use super::sysfs::{self, Described};
use crate::sys::{self, LoopStatus};

/// Devices that may stand on one another.
const MAX_DEPTH: u32 = 16;

/// Bytes of a device.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    len: u64,
}

/// Locks what lies below a block device for as long as the result lives. `device` is open and has the number `number`.
pub fn lock(device: &File, number: u64, size: u64, mode: LockMode) -> Result<Vec<File>, Cause> {
    let mut walk = Walk { devices: Path::new(sysfs::BY_NUMBER), held: Vec::new() };
    let whole = Range { start: 0, len: size };
    walk.below(number, Some(device), whole, mode, MAX_DEPTH)?;
    Ok(walk.held)
}

/// Whether the kernel uses a loop device over this file: for a mount, a mapping or swap.
pub fn is_claimed(file: Identity) -> Result<bool, Cause> {
    for device in loops::over(file) {
        if device.is_claimed().map_err(|error| sys::cause(&error))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The file behind a loop device or a partition of one, to lock metadata by. A file that can't be opened is left out:
/// cryptsetup does not lock it either.
pub fn file_behind(device: &File, writable: bool) -> Option<File> {
    let described = Described::of(device.metadata().ok()?.rdev());
    let path = described.backing_file().or_else(|_| described.disk()?.backing_file()).ok()?;
    let status = sys::loop_status(device).ok()?;
    let mut options = OpenOptions::new();
    let file = options.read(true).write(writable).open(path).ok()?;
    let found = file.metadata().ok().filter(|found| found.is_file())?;
    (loops::identity(&found) == (status.device, status.inode)).then_some(file)
}

struct Walk<'a> {
    /// Where the kernel describes block devices by number.
    devices: &'a Path,
    held: Vec<File>,
}

impl Walk<'_> {
    /// Locks what lies below a range of a device. `open` is the device, or a partition of it, where it is open.
    fn below(
        &mut self,
        number: u64,
        open: Option<&File>,
        range: Range,
        mode: LockMode,
        depth: u32,
    ) -> Result<(), Cause> {
        let depth = depth.checked_sub(1).ok_or(Cause::OutOfReach)?;
        let device = Described::within(self.devices, number);
        if device.is_partition() {
            let start = device.start().map_err(out_of_reach)?.checked_add(range.start);
            let range = Range { start: start.ok_or(Cause::OutOfReach)?, ..range };
            let disk = device.disk().and_then(|disk| disk.number()).map_err(out_of_reach)?;
            return self.below(disk, open, range, mode, depth);
        }
        // A mapping passes on to the device below it what loop devices are asked, and its answer.
        let answers = || !device.is_mapping() && open.is_some_and(|device| sys::loop_status(device).is_ok());
        if device.is_loop() || answers() {
            return self.behind_loop(&device, open, range, mode, depth);
        }
        let Ok(slaves) = device.slaves() else { return Ok(()) };
        for slave in slaves {
            let len = slave.size().map_err(out_of_reach)?;
            let number = slave.number().map_err(out_of_reach)?;
            self.below(number, None, Range { start: 0, len }, LockMode::Shared, depth)?;
        }
        Ok(())
    }

    fn behind_loop(
        &mut self,
        described: &Described,
        open: Option<&File>,
        range: Range,
        mode: LockMode,
        depth: u32,
    ) -> Result<(), Cause> {
        match open_backing(described, open, mode) {
            Ok((file, status)) => {
                let start = range.start.checked_add(status.offset).ok_or(Cause::OutOfReach)?;
                match self.hold(file, Range { start, ..range }, mode, depth) {
                    Err(Cause::Busy) if open.is_none() && status.is_transient => Ok(()),
                    held => held,
                }
            }
            // A reader destroys nothing, and a file that cannot be reached has no writer here.
            Err(Cause::OutOfReach) if mode == LockMode::Shared => Ok(()),
            Err(cause) => Err(cause),
        }
    }

    fn hold(&mut self, file: File, range: Range, mode: LockMode, depth: u32) -> Result<(), Cause> {
        sys::lock_range(&file, mode, range.start, range.len).map_err(|error| sys::cause(&error))?;
        let metadata = file.metadata().map_err(|error| sys::cause(&error))?;
        if metadata.file_type().is_block_device() {
            self.below(metadata.rdev(), Some(&file), range, mode, depth)?;
        }
        self.held.push(file);
        Ok(())
    }
}

/// What a loop device is attached to, and how.
fn open_backing(
    described: &Described,
    open: Option<&File>,
    mode: LockMode,
) -> Result<(File, LoopStatus), Cause> {
    let status = match open {
        Some(device) => sys::loop_status(device),
        None => described.node().and_then(File::open).and_then(|device| sys::loop_status(&device)),
    };
    let status = status.map_err(out_of_reach)?;
    let path = described.backing_file().map_err(out_of_reach)?;
    let mut options = OpenOptions::new();
    options.read(true).write(mode == LockMode::Exclusive).custom_flags(libc::O_NONBLOCK);
    let is_block = std::fs::metadata(&path).is_ok_and(|found| found.file_type().is_block_device());
    if is_block && mode == LockMode::Exclusive {
        // A look whether it is mounted or mapped. The claim itself is not kept: two loop devices may show two parts.
        let mut claim = options.clone();
        if let Err(error) = claim.custom_flags(libc::O_NONBLOCK | libc::O_EXCL).open(&path)
            && sys::cause(&error) == Cause::Busy
        {
            return Err(Cause::Busy);
        }
    }
    let file = options.open(path).map_err(out_of_reach)?;
    let found = file.metadata().map_err(out_of_reach)?;
    if loops::identity(&found) != (status.device, status.inode) {
        return Err(Cause::OutOfReach);
    }
    Ok((file, status))
}

/// What sysfs does not tell is out of reach, for whatever reason.
fn out_of_reach(_: io::Error) -> Cause {
    Cause::OutOfReach
}

#[cfg(test)]
mod tests {
    use atrest_testkit::oracle::Program;
    use atrest_testkit::{Scratch, needs};

    use super::*;
    use crate::{Access, FileDevice};

    /// A mapped device over a loop device, as sysfs shows it. Not every kernel that runs tests has device-mapper.
    #[test]
    fn a_mapped_device_shares_the_file_below_and_keeps_its_writers_away() {
        needs::root("attaching a loop device");
        let dir = Scratch::new();
        let path = dir.path("image");
        drop(FileDevice::create(&path, 1 << 20).expect("created"));
        let disk = Program::named("losetup").args(["--find", "--show"]).arg(&path).ok().text();
        let disk = Path::new(disk.trim());
        let number = disk.metadata().expect("a device").rdev();
        let of_loop = Path::new("/sys/block").join(disk.file_name().expect("a name"));
        let slaves = dir.path("4000:1/slaves");
        std::fs::create_dir_all(&slaves).expect("made");
        std::os::unix::fs::symlink(&of_loop, slaves.join("disk")).expect("linked");
        std::os::unix::fs::symlink(&of_loop, dir.path(sysfs::numbers(number))).expect("linked");
        // It answers as the loop device does, which it asks.
        std::fs::create_dir(dir.path("4000:1/dm")).expect("made");
        let device = File::open(disk).expect("opened");
        let lock = || {
            let mut walk = Walk { devices: dir.as_path(), held: Vec::new() };
            let whole = Range { start: 0, len: 1 << 20 };
            let walked = walk.below(
                rustix::fs::makedev(4000, 1),
                Some(&device),
                whole,
                LockMode::Exclusive,
                MAX_DEPTH,
            );
            walked.map(|()| walk.held)
        };
        let held = (lock(), lock());
        let writer = FileDevice::open(&path, Access::ReadWriteExclusive).map(drop);
        let held = (held.0.map(|held| held.len()), held.1.map(|held| held.len()));
        let writer_first = FileDevice::open(&path, Access::ReadWriteExclusive);
        let refused = lock().map(drop);
        drop(device);
        Program::named("losetup").arg("--detach").arg(disk).ok();
        assert_eq!(held, (Ok(1), Ok(1)), "two logical volumes get along");
        assert_eq!(writer.expect_err("the file is in use").cause, Cause::Busy);
        assert!(writer_first.is_ok());
        assert_eq!(refused, Err(Cause::Busy));
    }
}
