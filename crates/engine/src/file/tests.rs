use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use atrest_testkit::oracle::Program;
use atrest_testkit::{Random, Scratch, needs};

use super::*;
use crate::patience::PATIENCE;

const MIB: u64 = 1 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn a_created_file_is_private_and_never_replaces_another() {
    let dir = Scratch::new();
    let path = dir.path("new");
    let device = FileDevice::create(&path, MIB).expect("created");
    assert_eq!(device.size(), MIB);
    assert_eq!(std::fs::metadata(&path).expect("exists").permissions().mode() & 0o777, 0o600);
    drop(device);
    let error = FileDevice::create(&path, MIB).expect_err("it exists");
    assert_eq!(error.cause, Cause::Os(libc::EEXIST));
}

#[test]
fn overwriting_empties_the_file_and_makes_it_private() {
    let dir = Scratch::new();
    let path = dir.path("old");
    std::fs::write(&path, pattern(5000)).expect("written");
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("permissions");
    let user = FileDevice::open(&path, Access::ReadOnlyShared).expect("opened");
    assert_eq!(FileDevice::overwrite(&path, 100).expect_err("in use").cause, Cause::Busy);
    assert_eq!(std::fs::metadata(&path).expect("exists").len(), 5000);
    drop(user);
    let device = FileDevice::overwrite(&path, 9000).expect("overwritten");
    let mut buf = vec![1; 9000];
    device.read_at(0, &mut buf).expect("read");
    assert!(buf.iter().all(|byte| *byte == 0));
    assert_eq!(std::fs::metadata(&path).expect("exists").permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_written_is_read_back_from_cache_and_from_the_media() {
    let dir = Scratch::new();
    let len = MIB as usize + 1234;
    let device = FileDevice::create(dir.path("f"), len as u64).expect("created");
    let data = pattern(len);
    device.write_at(0, &data).expect("written");
    let mut buf = vec![0; 70_001];
    device.read_at(333, &mut buf).expect("read");
    assert_eq!(buf, data[333..333 + 70_001]);
    for (offset, take) in [(0, len), (4096, 8192), (len - 1234, 1234), (5, 300 << 10), (len - 1, 1)] {
        let mut buf = vec![0; take];
        device.read_media_at(offset as u64, &mut buf).expect("read from the media");
        assert_eq!(buf, data[offset..offset + take], "{take} bytes at {offset}");
    }
}

#[test]
fn media_reads_work_where_direct_io_does_not() {
    // Procfs and memfd aside, tmpfs is the file system without media; since Linux 6.6 it accepts O_DIRECT too.
    let dir = Scratch::within("/dev/shm");
    let device = FileDevice::create(dir.path("f"), 10_000).expect("created");
    let data = pattern(10_000);
    device.write_at(0, &data).expect("written");
    let mut buf = vec![0; 10_000];
    device.read_media_at(0, &mut buf).expect("read from the media");
    assert_eq!(buf, data);
}

#[test]
fn a_file_that_shrinks_is_reported_at_the_offset_where_it_ends() {
    let dir = Scratch::new();
    let path = dir.path("f");
    let device = FileDevice::create(&path, 3 * 4096).expect("created");
    OpenOptions::new().write(true).open(&path).expect("opened").set_len(5000).expect("shrunk");
    let mut buf = vec![0; 4096];
    let error = device.read_at(4096, &mut buf).expect_err("it ends");
    assert_eq!((error.operation, error.offset, error.cause), (Operation::Read, 5000, Cause::UnexpectedEnd));
    let error = device.read_media_at(4096, &mut buf).expect_err("it ends");
    assert_eq!((error.operation, error.offset, error.cause), (Operation::Read, 5000, Cause::UnexpectedEnd));
}

#[test]
fn a_file_that_shrank_is_not_grown_again_by_a_write() {
    let dir = Scratch::new();
    let path = dir.path("image");
    let device = FileDevice::create(&path, 10_000).expect("created");
    OpenOptions::new().write(true).open(&path).expect("opened").set_len(5000).expect("shrunk");
    device.write_at(4000, &[1; 1000]).expect("that part is there");
    for (offset, len, at) in [(4000, 1001, 5000), (5000, 1, 5000), (9000, 1000, 9000)] {
        let end = |at| DeviceError::new(Operation::Write, at, offset + len - at, Cause::UnexpectedEnd);
        assert_eq!(device.write_at(offset, &vec![2; len as usize]), Err(end(at)));
        assert_eq!(device.write_zeroes(offset, len), Err(end(at)));
    }
    assert_eq!(std::fs::read(&path).expect("readable")[4000..], [1; 1000]);
}

#[test]
fn a_file_that_shrinks_after_a_write_is_seen_by_one_that_comes_a_moment_later() {
    let dir = Scratch::new();
    let path = dir.path("image");
    let device = FileDevice::create(&path, 10_000).expect("created");
    device.write_at(0, &[1; 10_000]).expect("written");
    OpenOptions::new().write(true).open(&path).expect("opened").set_len(5000).expect("shrunk");
    while device.wholeness.was_seen() {
        thread::yield_now();
    }
    assert_eq!(device.write_at(6000, &[2]).expect_err("it is gone").cause, Cause::UnexpectedEnd);
    // What is short is never taken for whole, whatever is written to it.
    device.write_at(0, &[3]).expect("that part is there");
    assert!(!device.wholeness.was_seen());
    assert_eq!(path.metadata().expect("there").len(), 5000);
}

#[test]
fn what_the_page_cache_holds_is_read_at_once() {
    let dir = Scratch::new();
    let data = Random::new(4).bytes(9000);
    let path = dir.path("image");
    std::fs::write(&path, &data).expect("written");
    let device = FileDevice::open(&path, Access::ReadOnly).expect("opened");
    let mut buf = vec![0; 5000];
    // It was written just now, so it is in memory, on whatever file system that is able to say so.
    if device.read_if_cached(4000, &mut buf).expect("no error") {
        assert_eq!(buf, data[4000..]);
    }
    assert_eq!(
        device.read_if_cached(4001, &mut buf).expect_err("behind the end").cause,
        Cause::OutOfBounds { size: 9000 }
    );
    let memory = Path::new("/dev/shm").join(format!("atrest-cached-{}", std::process::id()));
    std::fs::write(&memory, &data).expect("written");
    let device = FileDevice::open(&memory, Access::ReadOnly).expect("opened");
    std::fs::remove_file(&memory).expect("removed");
    assert_eq!(device.read_if_cached(4000, &mut buf), Ok(true), "tmpfs has no media to wait for");
    assert_eq!(buf, data[4000..]);
    // A file that has become short is for those who may wait, and who report it.
    let short = dir.path("short");
    std::fs::write(&short, &data).expect("written");
    let device = FileDevice::open(&short, Access::ReadOnly).expect("opened");
    OpenOptions::new().write(true).open(&short).expect("opened").set_len(5000).expect("shrunk");
    assert_eq!(device.read_if_cached(4000, &mut buf), Ok(false));
}

#[test]
fn ranges_outside_the_device_are_refused() {
    let dir = Scratch::new();
    let device = FileDevice::create(dir.path("f"), 4096).expect("created");
    for (offset, len) in [(4096, 1), (0, 4097), (u64::MAX, 1), (u64::MAX - 10, 20)] {
        let outside = Cause::OutOfBounds { size: 4096 };
        assert_eq!(device.read_at(offset, &mut vec![0; len]).expect_err("outside").cause, outside);
        assert_eq!(device.write_at(offset, &vec![0; len]).expect_err("outside").cause, outside);
        assert_eq!(device.discard(offset, len as u64).expect_err("outside").cause, outside);
        assert_eq!(device.write_zeroes(offset, len as u64).expect_err("outside").cause, outside);
        assert_eq!(device.extent(offset, len as u64).expect_err("outside").cause, outside);
        device.prefetch(offset, len as u64);
    }
}

#[test]
fn a_device_open_for_reading_refuses_every_change() {
    let dir = Scratch::new();
    let path = dir.path("f");
    drop(FileDevice::create(&path, 8192).expect("created"));
    let device = FileDevice::open(&path, Access::ReadOnly).expect("opened");
    assert!(device.is_read_only());
    assert_eq!(device.write_at(0, &[1]).expect_err("read-only").cause, Cause::ReadOnly);
    assert_eq!(device.write_zeroes(0, 1).expect_err("read-only").cause, Cause::ReadOnly);
    assert_eq!(device.discard(0, 8192).expect_err("read-only").cause, Cause::ReadOnly);
    device.flush().expect("nothing to flush");
}

#[test]
fn nothing_is_acknowledged_after_a_failed_flush() {
    let dir = Scratch::new();
    let device = FileDevice::create(dir.path("f"), 8192).expect("created");
    device.write_at(0, &[1; 512]).expect("written");
    device.flush().expect("flushed");
    let error = device.flush_by(|_| Err(io::Error::from_raw_os_error(libc::EIO))).expect_err("it failed");
    assert_eq!(error.cause, Cause::Os(libc::EIO));
    assert_eq!(device.flush().expect_err("sticky").cause, Cause::EarlierFlushFailed);
    assert_eq!(device.write_at(0, &[1]).expect_err("sticky").cause, Cause::EarlierFlushFailed);
    assert_eq!(device.write_zeroes(0, 1).expect_err("sticky").cause, Cause::EarlierFlushFailed);
    assert_eq!(device.discard(0, 4096).expect_err("sticky").cause, Cause::EarlierFlushFailed);
    let mut buf = [0; 512];
    device.read_at(0, &mut buf).expect("reading still works");
}

#[test]
fn a_full_disk_is_reported_as_no_space_with_the_offset() {
    // The kernel's always-full device, in the place of a file on a full filesystem.
    let dir = Scratch::new();
    let mut device = FileDevice::create(dir.path("f"), 8192).expect("created");
    device.file = OpenOptions::new().read(true).write(true).open("/dev/full").expect("opened");
    let error = device.write_at(4096, &[1; 512]).expect_err("full");
    assert_eq!(error, DeviceError::new(Operation::Write, 4096, 512, Cause::NoSpace));
}

#[test]
fn discard_punches_holes_in_whole_blocks_and_extents_show_them() {
    let dir = Scratch::new();
    let device = FileDevice::create(dir.path("f"), 4 * MIB).expect("created");
    assert_eq!(device.extent(0, 4 * MIB).expect("extent"), Extent { len: 4 * MIB, hole: true });
    device.write_at(0, &pattern(3 * MIB as usize)).expect("written");
    device.flush().expect("flushed");
    device.discard(MIB + 5, MIB).expect("discarded");
    let mut byte = [0; 5];
    device.read_at(MIB, &mut byte).expect("read");
    assert_eq!(
        byte[..],
        pattern(MIB as usize + 5)[MIB as usize..],
        "bytes before the first whole block stay"
    );
    let mut extents = Vec::new();
    let mut at = 0;
    while at < 4 * MIB {
        let extent = device.extent(at, 4 * MIB - at).expect("extent");
        assert!(extent.len > 0);
        extents.push((at, extent.hole));
        at += extent.len;
    }
    assert_eq!(extents, [(0, false), (MIB + 4096, true), (2 * MIB, false), (3 * MIB, true)]);
}

#[test]
fn write_zeroes_leaves_allocated_zeros() {
    let dir = Scratch::new();
    let device = FileDevice::create(dir.path("f"), MIB).expect("created");
    device.write_at(0, &[7; 300_000]).expect("written");
    device.write_zeroes(1, 299_998).expect("zeroed");
    let mut buf = vec![1; 300_000];
    device.read_at(0, &mut buf).expect("read");
    assert_eq!((buf[0], buf[299_999]), (7, 7));
    assert!(buf[1..299_999].iter().all(|byte| *byte == 0));
    assert!(!device.extent(0, 4096).expect("extent").hole);
}

#[test]
fn one_writer_excludes_other_users_of_the_data_but_not_of_the_header() {
    let dir = Scratch::new();
    let path = dir.path("f");
    let writer = FileDevice::create(&path, 4096).expect("created");
    for access in [Access::ReadWriteExclusive, Access::ReadOnlyShared] {
        assert_eq!(FileDevice::open(&path, access).expect_err("in use").cause, Cause::Busy);
    }
    FileDevice::open(&path, Access::ReadOnly).expect("a header may be read");
    FileDevice::open(&path, Access::ReadWrite).expect("a keyslot may be added");
    drop(writer);
    let reader = FileDevice::open(&path, Access::ReadOnlyShared).expect("free again");
    FileDevice::open(&path, Access::ReadOnlyShared).expect("two readers");
    assert_eq!(FileDevice::open(&path, Access::ReadWriteExclusive).expect_err("in use").cause, Cause::Busy);
    drop(reader);
    FileDevice::open(&path, Access::ReadWriteExclusive).expect("free again");
}

#[test]
fn a_file_in_use_for_writing_does_not_hold_the_lock_that_cryptsetup_takes() {
    let dir = Scratch::new();
    let path = dir.path("f");
    let device = FileDevice::create(&path, 4096).expect("created");
    let cryptsetup = File::open(&path).expect("opened");
    rustix::fs::flock(&cryptsetup, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("not held");
    drop(cryptsetup);
    device.lock_metadata(LockMode::Exclusive).expect("locked");
    let cryptsetup = File::open(&path).expect("opened");
    rustix::fs::flock(&cryptsetup, rustix::fs::FlockOperation::NonBlockingLockShared).expect_err("held");
    device.unlock_metadata();
    rustix::fs::flock(&cryptsetup, rustix::fs::FlockOperation::NonBlockingLockShared).expect("released");
}

#[test]
fn the_metadata_lock_nests_waits_and_is_never_upgraded() {
    let dir = Scratch::new();
    let path = dir.path("f");
    let device = FileDevice::create(&path, 4096).expect("created");
    device.lock_metadata(LockMode::Exclusive).expect("locked");
    device.lock_metadata(LockMode::Shared).expect("nested");
    device.unlock_metadata();
    let other = FileDevice::open(&path, Access::ReadOnly).expect("opened");
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for waiting in [&device, &other] {
            let tell = tell.clone();
            scope.spawn(move || {
                waiting.lock_metadata(LockMode::Shared).expect("locked in the end");
                tell.send(()).expect("somebody listens");
                waiting.unlock_metadata();
            });
        }
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "both wait");
        device.unlock_metadata();
        told.recv_timeout(Duration::from_secs(20)).expect("one got it");
        told.recv_timeout(Duration::from_secs(20)).expect("the other got it");
    });
    device.lock_metadata(LockMode::Shared).expect("locked");
    assert_eq!(device.lock_metadata(LockMode::Exclusive).expect_err("no upgrade").cause, Cause::Unsupported);
    device.unlock_metadata();
    device.lock_metadata(LockMode::Exclusive).expect("free");
    device.unlock_metadata();
}

#[test]
fn only_files_and_block_devices_are_opened() {
    let dir = Scratch::new();
    assert_eq!(
        FileDevice::open(dir.as_path(), Access::ReadOnly).expect_err("a directory").cause,
        Cause::Os(libc::EISDIR)
    );
    assert_eq!(
        FileDevice::open("/dev/null", Access::ReadOnly).expect_err("a character device").cause,
        Cause::Unsupported
    );
    assert_eq!(
        FileDevice::open(dir.path("none"), Access::ReadOnly).expect_err("missing").cause,
        Cause::Os(libc::ENOENT)
    );
}

#[test]
fn a_block_device_lock_file_is_verified_and_removed_by_its_last_holder() {
    // The number of no existing device, so that no other process can want its lock.
    let number = rustix::fs::makedev(4000, std::process::id() & 0xfffff);
    let lock = MetadataLock::on_block_device(number);
    let dir = Scratch::new();
    let device = File::open(dir.file("device", b"")).expect("a file");
    let name = format!("/run/cryptsetup/L_4000:{}", std::process::id() & 0xfffff);
    lock.acquire(LockMode::Exclusive, &device, true).expect("locked");
    if rustix::process::geteuid().is_root() {
        assert!(Path::new(&name).exists(), "cryptsetup's lock file");
        let cryptsetup = File::open(&name).expect("opened");
        rustix::fs::flock(&cryptsetup, rustix::fs::FlockOperation::NonBlockingLockShared).expect_err("held");
        lock.release();
        assert!(!Path::new(&name).exists(), "removed");
        // A waiter that got the removed file's lock must not mistake it for the real one.
        lock.acquire(LockMode::Shared, &device, true).expect("locked again");
        let other = File::open(&name).expect("a new file");
        rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockShared).expect("shared");
        lock.release();
        assert!(Path::new(&name).exists(), "still held by another");
        drop(other);
        std::fs::remove_file(&name).expect("removed");
    } else {
        // The documented fallback: the node itself.
        let other = File::open(format!("/proc/self/fd/{}", device.as_raw_fd())).expect("opened");
        rustix::fs::flock(other, rustix::fs::FlockOperation::NonBlockingLockShared).expect_err("held");
        lock.release();
    }
}

/// A loop device over a file, detached when dropped.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Self {
        Self::with(file, &[])
    }

    fn with(file: &Path, options: &[&str]) -> Self {
        let attached = Program::named("losetup").args(["--find", "--show"]).args(options).arg(file).ok();
        Self(attached.text().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Program::named("losetup").args(["--detach", &self.0]).run();
    }
}

#[test]
fn a_block_device_reports_its_size_locks_and_discards() {
    needs::root("attaching a loop device");
    let dir = Scratch::new();
    let path = dir.path("disk");
    drop(FileDevice::create(&path, MIB).expect("created"));
    let disk = Loop::new(&path);
    let device = FileDevice::open(&disk.0, Access::ReadWriteExclusive).expect("opened");
    assert!(device.is_block_device());
    assert_eq!(device.size(), MIB);
    let geometry = device.geometry();
    assert!(geometry.logical_block.is_power_of_two() && geometry.physical_block >= geometry.logical_block);
    assert_eq!(FileDevice::open(&disk.0, Access::ReadWriteExclusive).expect_err("in use").cause, Cause::Busy);
    FileDevice::open(&disk.0, Access::ReadWrite).expect("a keyslot may be added");

    let data = pattern(MIB as usize);
    device.write_at(0, &data).expect("written");
    device.flush().expect("flushed");
    let mut buf = vec![0; 5000];
    device.read_media_at(1000, &mut buf).expect("read from the media");
    assert_eq!(buf, data[1000..6000]);
    device.discard(4096, 8192).expect("discarded");
    device.read_at(4096, &mut buf[..4096]).expect("read");
    assert!(buf[..4096].iter().all(|byte| *byte == 0), "a loop device reads discarded blocks as zeros");

    let number = std::fs::metadata(&disk.0).expect("exists").rdev();
    let resource = format!("/run/cryptsetup/L_{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    device.lock_metadata(LockMode::Exclusive).expect("locked");
    assert!(Path::new(&resource).exists());
    device.unlock_metadata();
    assert!(!Path::new(&resource).exists());
}

/// Runs a tool; its failure fails the test.
fn run(program: &str, arguments: &[&str]) {
    Program::named(program).args(arguments).ok();
}

/// A file of 16 MiB in a directory of its own, for loop devices.
fn image() -> (Scratch, PathBuf) {
    needs::root("attaching a loop device");
    let dir = Scratch::new();
    let path = dir.path("image");
    drop(FileDevice::create(&path, 16 * MIB).expect("created"));
    (dir, path)
}

const WRITER: Access = Access::ReadWriteExclusive;
const READER: Access = Access::ReadOnlyShared;

fn open(path: impl AsRef<Path>, access: Access) -> FileDevice {
    let path = path.as_ref();
    FileDevice::open(path, access).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn refusal(path: impl AsRef<Path>, access: Access) -> Cause {
    let path = path.as_ref();
    let refused = FileDevice::open(path, access).map(drop);
    refused.expect_err(&format!("{} should be in use", path.display())).cause
}

#[test]
fn a_file_has_one_writer_by_its_name_and_by_every_loop_device_over_it() {
    let (_dir, path) = image();
    let (first, second) = (Loop::new(&path), Loop::new(&path));
    let names = [path.as_path(), Path::new(&first.0), Path::new(&second.0)];
    for holder in names {
        for other in names {
            let held = open(holder, WRITER);
            assert_eq!(
                refusal(other, WRITER),
                Cause::Busy,
                "{} beside {}",
                other.display(),
                holder.display()
            );
            assert_eq!(
                refusal(other, READER),
                Cause::Busy,
                "{} beside {}",
                other.display(),
                holder.display()
            );
            open(other, Access::ReadOnly);
            open(other, Access::ReadWrite);
            drop(held);
            let held = open(holder, READER);
            open(other, READER);
            assert_eq!(
                refusal(other, WRITER),
                Cause::Busy,
                "{} beside {}",
                other.display(),
                holder.display()
            );
            drop(held);
            open(other, WRITER);
        }
    }
}

#[test]
fn a_copy_of_a_closed_descriptor_is_waited_for_and_a_holder_is_not() {
    let (_dir, path) = image();
    let disk = Loop::new(&path);
    for name in [path.as_path(), Path::new(&disk.0)] {
        let held = open(name, WRITER);
        // What a process that is being started has until it becomes another program.
        let copy = held.as_fd().try_clone_to_owned().expect("a copy");
        drop(held);
        let child = thread::spawn(move || {
            thread::sleep(PATIENCE / 4);
            drop(copy);
        });
        let next = open(name, WRITER);
        child.join().expect("ended");
        let begin = Instant::now();
        assert_eq!(refusal(name, WRITER), Cause::Busy);
        assert!(begin.elapsed() >= PATIENCE);
        drop(next);
    }
}

#[test]
fn partitions_of_one_image_have_a_writer_each_and_the_image_none() {
    let (_dir, path) = image();
    let disk = Loop::with(&path, &["--partscan"]);
    run("addpart", &[&disk.0, "1", "2048", "8192"]);
    run("addpart", &[&disk.0, "2", "10240", "8192"]);
    let (one, two) = (format!("{}p1", disk.0), format!("{}p2", disk.0));
    let first = open(&one, WRITER);
    let second = open(&two, WRITER);
    assert_eq!(refusal(&path, WRITER), Cause::Busy);
    // The same bytes by another loop device: partition 1 begins at 1 MiB, partition 2 at 5 MiB.
    let part = |offset: u64| {
        let offset = (offset * MIB).to_string();
        Loop::with(&path, &["--offset", &offset, "--sizelimit", "4194304"])
    };
    let (one_again, two_again) = (part(1), part(5));
    assert_eq!(refusal(&one_again.0, WRITER), Cause::Busy);
    assert_eq!(refusal(&two_again.0, WRITER), Cause::Busy);
    drop(first);
    open(&one_again.0, WRITER);
    assert_eq!(refusal(&two_again.0, WRITER), Cause::Busy);
    assert_eq!(refusal(&path, WRITER), Cause::Busy, "partition 2 is open");
    drop(second);
    open(&path, WRITER);
}

#[test]
fn a_loop_device_over_a_loop_device_reaches_down_to_the_file() {
    let (_dir, path) = image();
    let lower = Loop::new(&path);
    let upper = Loop::new(Path::new(&lower.0));
    let held = open(&upper.0, WRITER);
    assert_eq!(refusal(&lower.0, WRITER), Cause::Busy);
    assert_eq!(refusal(&path, WRITER), Cause::Busy);
    drop(held);
    let held = open(&path, WRITER);
    assert_eq!(refusal(&upper.0, WRITER), Cause::Busy);
    drop(held);
    open(&upper.0, WRITER);
}

#[test]
fn a_file_whose_loop_device_is_mounted_has_no_other_writer() {
    let (dir, path) = image();
    run("mkfs.ext4", &["-q", "-F", path.to_str().unwrap()]);
    let disk = Loop::new(&path);
    let point = dir.path("m");
    std::fs::create_dir(&point).expect("made");
    let found = &loops::over(loops::identity(&path.metadata().expect("there")))[0];
    assert!(!found.is_claimed().expect("seen"));
    run("mount", &[&disk.0, point.to_str().unwrap()]);
    let busy = refusal(&path, WRITER);
    let (claimed, seen_by_others) = (found.is_claimed(), found.seems_claimed());
    open(&path, READER);
    run("umount", &[point.to_str().unwrap()]);
    assert_eq!(busy, Cause::Busy);
    assert!(claimed.expect("seen") && seen_by_others.expect("seen"), "both ways to see a mount");
    assert!(!found.seems_claimed().expect("seen"));
    open(&path, WRITER);
}

#[test]
fn a_loop_device_over_a_mounted_device_has_no_writer() {
    let (dir, path) = image();
    let lower = Loop::new(&path);
    let upper = Loop::new(Path::new(&lower.0));
    let point = dir.path("m");
    std::fs::create_dir(&point).expect("made");
    run("mkfs.ext4", &["-q", "-F", &lower.0]);
    run("mount", &[&lower.0, point.to_str().unwrap()]);
    let refused = FileDevice::open(&upper.0, WRITER).map(drop);
    run("umount", &[point.to_str().unwrap()]);
    assert_eq!(refused.expect_err("the device below is mounted").cause, Cause::Busy);
    open(&upper.0, WRITER);
}

#[test]
fn a_file_behind_a_loop_device_that_is_gone_can_be_read_only() {
    let (_dir, path) = image();
    let disk = Loop::new(&path);
    let moved = path.with_extension("moved");
    std::fs::rename(&path, &moved).expect("renamed");
    let held = open(&moved, WRITER);
    assert_eq!(refusal(&disk.0, WRITER), Cause::Busy, "the kernel follows a file that is renamed");
    drop(held);
    std::fs::remove_file(&moved).expect("removed");
    assert_eq!(refusal(&disk.0, WRITER), Cause::OutOfReach);
    open(&disk.0, READER);
}

#[test]
fn another_file_that_covers_the_one_behind_a_loop_device_is_not_locked_in_its_place() {
    let (dir, path) = image();
    let disk = Loop::new(&path);
    let other = dir.path("other");
    drop(FileDevice::create(&other, 16 * MIB).expect("created"));
    run("mount", &["--bind", other.to_str().unwrap(), path.to_str().unwrap()]);
    let refused = FileDevice::open(&disk.0, WRITER).map(drop);
    let device = open(&disk.0, Access::ReadWrite);
    device.lock_metadata(LockMode::Exclusive).expect("locked");
    let covering = File::open(&path).expect("opened");
    let free = rustix::fs::flock(&covering, rustix::fs::FlockOperation::NonBlockingLockShared);
    device.unlock_metadata();
    drop(covering);
    run("umount", &[path.to_str().unwrap()]);
    assert_eq!(refused.expect_err("the file is out of reach").cause, Cause::OutOfReach);
    free.expect("the other file is nobody's");
    open(&disk.0, WRITER);
}

#[test]
fn metadata_is_locked_by_the_file_s_name_and_by_the_loop_device_s_at_once() {
    let (_dir, path) = image();
    let disk = Loop::new(&path);
    let number = std::fs::metadata(&disk.0).expect("exists").rdev();
    let resource = format!("/run/cryptsetup/L_{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let (file, device) = (open(&path, Access::ReadWrite), open(&disk.0, Access::ReadWrite));
    for (holder, waiter) in [(&file, &device), (&device, &file)] {
        holder.lock_metadata(LockMode::Exclusive).expect("locked");
        // cryptsetup would wait for either.
        let lock_file = File::open(&resource).expect("the lock file of the loop device");
        rustix::fs::flock(&lock_file, rustix::fs::FlockOperation::NonBlockingLockShared).expect_err("held");
        let same = File::open(&path).expect("opened");
        rustix::fs::flock(&same, rustix::fs::FlockOperation::NonBlockingLockShared).expect_err("held");
        drop(lock_file);
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                waiter.lock_metadata(LockMode::Exclusive).expect("locked in the end");
                tell.send(()).expect("somebody listens");
                waiter.unlock_metadata();
            });
            assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "it waits");
            holder.unlock_metadata();
            told.recv_timeout(Duration::from_secs(20)).expect("it got the lock");
        });
        assert!(!Path::new(&resource).exists(), "removed by the last holder");
    }
}
