//! The mounted file against the programs that people use on disks.

use crate::common::{BLOCK, Memory, run, try_run};
use crate::transport::by_transport;
use atrest_attach::fuse::{self, FILE_NAME, Mount, MountError, Options, UnmountError};
use atrest_device::BlockDevice;
use atrest_testkit::{Scratch, needs, wait_until};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SIZE: u64 = 64 << 20;

/// A mount in a directory of its own, unmounted at the end of the test however it ends.
struct Mounted {
    mount: Option<Mount>,
    file: PathBuf,
    directory: Scratch,
}

fn mounted(device: Arc<dyn BlockDevice>) -> Mounted {
    mounted_with(device, &Options::default())
}

fn mounted_with(device: Arc<dyn BlockDevice>, options: &Options) -> Mounted {
    let directory = Scratch::new();
    let point = directory.path("m");
    std::fs::create_dir(&point).unwrap();
    let mount = by_transport(crate::RINGS, options, |options| fuse::mount(device, &point, options));
    Mounted { file: mount.place(), mount: Some(mount), directory }
}

impl Mounted {
    fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }

    fn end(mut self) {
        let mount = self.mount.take().unwrap();
        // A program that another test starts holds our open files for a moment, until it has replaced itself.
        wait_until("nobody uses the file", || {
            !matches!(mount.unmounter().unmount(), Err(UnmountError::Busy))
        });
        mount.wait().unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmounter().detach();
        }
    }
}

fn errno<T>(result: std::io::Result<T>) -> i32 {
    result.map(|_| ()).unwrap_err().raw_os_error().unwrap()
}

#[test]
fn the_file_is_the_volume_and_private() {
    let memory = Arc::new(Memory::new(SIZE));
    let mounted = mounted(memory.clone());
    assert_eq!(std::fs::read_dir(mounted.file.parent().unwrap()).unwrap().count(), 1);
    let metadata = std::fs::metadata(&mounted.file).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o7777), (SIZE, 0o600));
    assert_eq!(metadata.uid(), rustix::process::geteuid().as_raw());
    assert!(std::fs::read(&mounted.file).unwrap() == memory.copy());
    let mut expected = memory.copy();
    let file = OpenOptions::new().read(true).write(true).open(&mounted.file).unwrap();
    for (offset, len) in [(0, 3 << 20), (12345, 1), (4095, 4098), (SIZE - 7, 7)] {
        let data: Vec<u8> = (0..len).map(|i| (i * 13 + offset) as u8).collect();
        file.write_all_at(&data, offset).unwrap();
        expected[offset as usize..][..len as usize].copy_from_slice(&data);
        assert!(memory.copy() == expected, "{offset}: a write is in the device when it returns");
    }
    assert_eq!(errno(file.write_at(&[1], SIZE)), libc::ENOSPC);
    assert_eq!(file.write_at(&[1; 100], SIZE - 10).unwrap(), 10);
    assert_eq!(file.read_at(&mut [0; 10], SIZE).unwrap(), 0);
    drop(file);
    mounted.end();
}

#[test]
fn fsync_close_and_unmount_flush_the_device() {
    let memory = Arc::new(Memory::new(SIZE));
    let flushes = || memory.flushes.load(Ordering::SeqCst);
    let mounted = mounted(memory.clone());
    let file = OpenOptions::new().write(true).open(&mounted.file).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert_eq!(flushes(), 0);
    file.sync_data().unwrap();
    assert_eq!(flushes(), 1);
    file.write_all_at(&[2; 4096], 0).unwrap();
    drop(file);
    assert_eq!(flushes(), 2);
    // Closing without a write flushes nothing.
    drop(File::open(&mounted.file).unwrap());
    assert_eq!(flushes(), 2);
    let synchronous = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(&mounted.file).unwrap();
    synchronous.write_all_at(&[3; 4096], 0).unwrap();
    assert!(flushes() >= 3);
    let before = flushes();
    memory.flush_fails.store(true, Ordering::SeqCst);
    assert_eq!(errno(synchronous.sync_all()), libc::EIO);
    memory.flush_fails.store(false, Ordering::SeqCst);
    drop(synchronous);
    mounted.end();
    assert!(flushes() > before + 1);
}

#[test]
fn a_device_error_reaches_the_caller() {
    let memory = Arc::new(Memory::new(SIZE));
    let mounted = mounted(memory.clone());
    let file = OpenOptions::new().read(true).write(true).open(&mounted.file).unwrap();
    for (cause, number) in [
        (atrest_device::Cause::Os(5), libc::EIO),
        (atrest_device::Cause::NoSpace, libc::ENOSPC),
        (atrest_device::Cause::EarlierFlushFailed, libc::EIO),
    ] {
        *memory.broken.lock().unwrap() = Some((3, cause));
        assert_eq!(errno(file.read_at(&mut [0; 4096], 3 * BLOCK)), number);
        assert_eq!(errno(file.write_at(&[0; 4096], 3 * BLOCK)), number);
        file.read_exact_at(&mut [0; 4096], 4 * BLOCK).unwrap();
    }
}

#[test]
fn the_size_is_fixed_zero_range_zeros_and_holes_are_found() {
    let memory = Arc::new(Memory::new(SIZE));
    let mounted = mounted(memory.clone());
    let mut file = OpenOptions::new().read(true).write(true).open(&mounted.file).unwrap();
    assert_eq!(errno(file.set_len(0)), libc::EPERM);
    assert_eq!(errno(file.set_len(SIZE + 1)), libc::EPERM);
    file.set_len(SIZE).unwrap();
    let mut expected = memory.copy();
    let fallocate = |mode, offset, len| rustix::fs::fallocate(&file, mode, offset, len);
    use rustix::fs::FallocateFlags as Mode;
    fallocate(Mode::ZERO_RANGE, 100, 100_000).unwrap();
    fallocate(Mode::ZERO_RANGE | Mode::KEEP_SIZE, 1 << 20, 4096).unwrap();
    expected[100..100_100].fill(0);
    expected[1 << 20..(1 << 20) + 4096].fill(0);
    fallocate(Mode::empty(), 0, SIZE).unwrap();
    let punched = fallocate(Mode::PUNCH_HOLE | Mode::KEEP_SIZE, 0, 4096);
    assert_eq!(punched, Err(rustix::io::Errno::OPNOTSUPP));
    assert!(fallocate(Mode::empty(), SIZE, 1).is_err());
    assert!(memory.copy() == expected);
    memory.holes.lock().unwrap()[10..20].fill(true);
    let seek = |file: &mut File, whence| rustix::fs::seek(&*file, whence);
    use rustix::fs::SeekFrom as From;
    assert_eq!(seek(&mut file, From::Hole(0)), Ok(10 * BLOCK));
    assert_eq!(seek(&mut file, From::Data(10 * BLOCK + 5)), Ok(20 * BLOCK));
    assert_eq!(seek(&mut file, From::Hole(20 * BLOCK)), Ok(SIZE));
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), SIZE);
    assert_eq!(file.read(&mut [0]).unwrap(), 0);
}

#[test]
fn programs_that_truncate_first_write_as_to_a_disk() {
    let memory = Arc::new(Memory::new(SIZE));
    let mounted = mounted(memory.clone());
    let source = mounted.directory.path("source");
    let path = source.to_str().unwrap();
    // Holes in front, between and at the end: cp skips them, and what was there before must not show through.
    let image = File::create(&source).unwrap();
    image.write_all_at(&[7; 100_000], 1 << 20).unwrap();
    image.write_all_at(&[9; 5000], 4 << 20).unwrap();
    image.set_len(8 << 20).unwrap();
    assert!(image.metadata().unwrap().blocks() < 1000, "the file system makes holes");
    let mut expected = memory.copy();
    expected[..8 << 20].copy_from_slice(&std::fs::read(&source).unwrap());
    run("cp", &[path, mounted.path()]);
    assert!(memory.copy() == expected);
    assert_eq!(std::fs::metadata(&mounted.file).unwrap().len(), SIZE);
    expected[..3 << 20].fill(3);
    std::fs::write(&source, &expected[..3 << 20]).unwrap();
    run("dd", &["status=none", "bs=1M", &format!("if={path}"), &format!("of={}", mounted.path())]);
    assert!(memory.copy() == expected);
    run("sh", &["-c", "echo >\"$0\"", mounted.path()]);
    expected[0] = b'\n';
    assert!(memory.copy() == expected);
    // Another file's writes do not reach far on behalf of one that truncated.
    let other = OpenOptions::new().write(true).open(&mounted.file).unwrap();
    let truncated = OpenOptions::new().write(true).truncate(true).open(&mounted.file).unwrap();
    other.write_all_at(&[5; 4096], 32 << 20).unwrap();
    truncated.write_all_at(&[6; 4096], 0).unwrap();
    drop((truncated, other));
    expected[32 << 20..][..4096].fill(5);
    expected[..4096].fill(6);
    assert!(memory.copy() == expected);
    // More than the volume holds.
    let too_long = File::create(&source).unwrap();
    too_long.set_len(SIZE + 1).unwrap();
    assert!(!try_run("cp", &[path, mounted.path()]).is_ok());
}

#[test]
fn the_directory_is_fixed() {
    for read_only in [false, true] {
        let memory = if read_only { Memory::read_only(SIZE) } else { Memory::new(SIZE) };
        let mounted = mounted(Arc::new(memory));
        let expected = if read_only { libc::EROFS } else { libc::EPERM };
        let other = mounted.file.with_file_name("other");
        assert_eq!(errno(File::create(&other)), expected);
        assert_eq!(errno(std::fs::create_dir(&other)), expected);
        assert_eq!(errno(std::fs::remove_file(&mounted.file)), expected);
        assert_eq!(errno(std::fs::rename(&mounted.file, &other)), expected);
        assert_eq!(errno(std::fs::hard_link(&mounted.file, &other)), expected);
        assert_eq!(errno(std::os::unix::fs::symlink("x", &other)), expected);
        mounted.end();
    }
}

#[test]
fn a_close_beside_a_flush_that_is_under_way_flushes_too() {
    let memory = Arc::new(Memory::new(SIZE));
    let mounted = mounted(memory.clone());
    let open = || OpenOptions::new().write(true).open(&mounted.file).unwrap();
    let (first, second) = (open(), open());
    second.write_all_at(&[1; 4096], 0).unwrap();
    *memory.flush_gate.0.lock().unwrap() = false;
    let flushes = |count| wait_until("it flushes", || memory.flushes.load(Ordering::SeqCst) == count);
    std::thread::scope(|scope| {
        scope.spawn(|| first.sync_all().unwrap());
        flushes(1);
        // Whether that one succeeds nobody knows yet.
        let closing = scope.spawn(|| drop(second));
        flushes(2);
        assert!(!closing.is_finished());
        *memory.flush_gate.0.lock().unwrap() = true;
        memory.flush_gate.1.notify_all();
    });
    drop(first);
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 2);
    mounted.end();
}

#[test]
fn a_read_only_volume_is_mounted_read_only() {
    let memory = Arc::new(Memory::read_only(SIZE));
    let mounted = mounted(memory.clone());
    assert_eq!(std::fs::metadata(&mounted.file).unwrap().mode() & 0o7777, 0o400);
    assert_eq!(errno(OpenOptions::new().write(true).open(&mounted.file)), libc::EROFS);
    assert!(std::fs::read(&mounted.file).unwrap() == memory.copy());
    mounted.end();
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 0);
}

#[test]
fn reads_run_side_by_side_with_a_write_that_waits() {
    let memory = Arc::new(Memory::new(SIZE));
    let mounted = mounted(memory.clone());
    memory.open_gate(false);
    let path = mounted.file.clone();
    let writer = std::thread::spawn(move || {
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[9; 4096], 0).unwrap();
    });
    wait_until("the write is under way", || memory.waiting.load(Ordering::SeqCst) == 1);
    File::open(&mounted.file).unwrap().read_exact_at(&mut [0; 65536], 1 << 20).unwrap();
    memory.open_gate(true);
    writer.join().unwrap();
}

#[test]
fn ext4_is_made_checked_mounted_by_loop_and_its_files_come_back() {
    needs::root("a loop mount");
    let mounted = mounted(Arc::new(Memory::new(SIZE)));
    run("mkfs.ext4", &["-q", "-F", mounted.path()]);
    run("e2fsck", &["-f", "-n", mounted.path()]);
    let point = mounted.directory.path("ext4");
    std::fs::create_dir(&point).unwrap();
    let point = point.to_str().unwrap();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    // Twice: what the first mount wrote is there for the second.
    for round in ["one", "two"] {
        run("mount", &["-o", "loop", mounted.path(), point]);
        let copy = format!("{point}/{round}");
        let copied = try_run("cp", &["-r", sources, &copy]);
        let compared = try_run("diff", &["-r", sources, &format!("{point}/one")]);
        run("umount", &[point]);
        assert!(copied.is_ok() && compared.is_ok(), "{copied:?} {compared:?}");
    }
    wait_until("the loop device lets go", || run("losetup", &["-j", mounted.path()]).is_empty());
    run("e2fsck", &["-f", "-n", mounted.path()]);
    mounted.end();
}

#[test]
fn fio_verifies_direct_buffered_and_mapped_writes() {
    let mounted = mounted(Arc::new(Memory::new(SIZE)));
    let file = format!("--filename={}", mounted.path());
    let common = [
        "--name=verify",
        &file,
        "--size=32M",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
    ];
    for mode in [
        &["--rw=randwrite", "--bs=4k", "--ioengine=libaio", "--iodepth=16", "--direct=1"][..],
        &["--rw=write", "--bs=1m", "--ioengine=psync", "--fsync=8"],
        &["--rw=randwrite", "--bsrange=1k-300k", "--ioengine=psync"],
        &["--rw=randwrite", "--bs=4k", "--ioengine=mmap", "--size=4M"],
    ] {
        run("fio", &[&common[..], mode].concat());
    }
}

#[test]
fn with_the_page_cache_between_nothing_is_lost_either() {
    let memory = Arc::new(Memory::new(SIZE));
    let options = Options { cached: true, ..Options::default() };
    let mounted = mounted_with(memory.clone(), &options);
    let file = format!("--filename={}", mounted.path());
    let common = ["--name=verify", &file, "--size=16M", "--verify=crc32c", "--verify_state_save=0"];
    for mode in [
        &["--rw=randwrite", "--bsrange=512-300k", "--ioengine=psync"][..],
        &["--rw=randwrite", "--bs=4k", "--ioengine=mmap"],
    ] {
        run("fio", &[&common[..], mode].concat());
    }
    assert!(std::fs::read(&mounted.file).unwrap() == memory.copy());
    mounted.end();
}

#[test]
fn a_file_in_use_is_busy_and_a_detached_one_lives_as_long_as_its_users() {
    let memory = Arc::new(Memory::new(SIZE));
    let mut mounted = mounted(memory.clone());
    let mount = mounted.mount.take().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&mounted.file).unwrap();
    assert!(matches!(mount.unmounter().unmount(), Err(UnmountError::Busy)));
    assert!(mounted.file.exists(), "a busy mount stays");
    mount.unmounter().detach().unwrap();
    assert!(!mounted.file.exists());
    let waiter = std::thread::spawn(|| mount.wait());
    file.write_all_at(&[0x77; 4096], 8192).unwrap();
    assert!(!waiter.is_finished());
    drop(file);
    waiter.join().unwrap().unwrap();
    assert_eq!(memory.copy()[8192..12288], [0x77; 4096]);
    assert!(memory.flushes.load(Ordering::SeqCst) > 0);
}

#[test]
fn unmounting_from_outside_ends_it() {
    let mut mounted = mounted(Arc::new(Memory::new(SIZE)));
    let mount = mounted.mount.take().unwrap();
    assert!(mount.id().is_mounted());
    run("fusermount3", &["-u", mount.directory().to_str().unwrap()]);
    let (id, unmounter) = (mount.id(), mount.unmounter());
    mount.wait().unwrap();
    assert!(!id.is_mounted());
    assert!(matches!(unmounter.unmount(), Err(UnmountError::NotMounted)));
}

#[test]
fn only_the_own_mount_is_unmounted() {
    needs::root("mounting");
    let mounted = |path: &str| Path::new(path).join("here").exists();
    let tmpfs = |path: &str| {
        run("mount", &["-t", "tmpfs", "tmpfs", path]);
        File::create(Path::new(path).join("here")).unwrap();
    };
    // Below ours: the end of the session leaves it alone.
    let directory = Scratch::new();
    let point = directory.as_path().to_str().unwrap();
    run("mount", &["-t", "tmpfs", "tmpfs", point]);
    let memory: Arc<dyn BlockDevice> = Arc::new(Memory::new(1 << 20));
    let options = Options::default();
    let mount = by_transport(crate::RINGS, &options, |options| {
        fuse::mount(memory.clone(), directory.as_path(), options)
    });
    run("umount", &[point]);
    File::create(directory.path("here")).unwrap();
    let unmounter = mount.unmounter();
    mount.wait().unwrap();
    let again = unmounter.unmount();
    assert!(matches!(again, Err(UnmountError::NotMounted)), "{again:?}");
    let again = unmounter.detach();
    assert!(matches!(again, Err(UnmountError::NotMounted)), "{again:?}");
    let stands = mounted(point);
    run("umount", &[point]);
    assert!(stands);
    // Above ours: it stays, and so does ours.
    let mut ours = self::mounted(memory);
    let point = ours.mount.as_ref().unwrap().directory().to_str().unwrap().to_owned();
    tmpfs(&point);
    let covered = ours.mount.as_ref().unwrap().unmounter().unmount();
    assert!(matches!(covered, Err(UnmountError::Covered)), "{covered:?}");
    let stands = mounted(&point);
    run("umount", &[&point]);
    assert!(stands);
    assert!(ours.file.exists());
    // The same place, mounted again by somebody else's session.
    run("umount", &[&point]);
    let old = ours.mount.take().unwrap();
    let other = fuse::mount(Arc::new(Memory::new(1 << 20)), Path::new(&point), &Options::default()).unwrap();
    assert!(matches!(old.unmounter().unmount(), Err(UnmountError::NotMounted | UnmountError::Covered)));
    old.wait().unwrap();
    assert!(other.place().exists());
    other.unmounter().unmount().unwrap();
    other.wait().unwrap();
}

#[test]
fn places_that_cannot_be_used_are_refused() {
    let memory = Arc::new(Memory::new(1 << 20));
    let directory = Scratch::new();
    let attempt = |path: &Path| fuse::mount(memory.clone(), path, &Options::default()).err().unwrap();
    let file = directory.path("file");
    std::fs::write(&file, b"x").unwrap();
    assert!(matches!(attempt(&directory.path("absent")), MountError::Directory { .. }));
    assert!(matches!(attempt(&file), MountError::NotADirectory { .. }));
    assert!(matches!(attempt(directory.as_path()), MountError::NotEmpty { .. }));
    assert_eq!(FILE_NAME, "volume");
}
