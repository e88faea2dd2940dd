//! Rings of FUSE that root allows and forbids while volumes are being mounted.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use atrest_attach::fuse::{self, Options};
use atrest_device::{BlockDevice, DeviceError, Geometry};
use atrest_testkit::{Scratch, rings, wait_until};
use rustix::mount::{UnmountFlags, unmount};

use crate::common::Memory;
use crate::transport::by_transport;

const SIZE: u64 = 1 << 20;
const MOUNTS: usize = 200;
/// Far more than one mount takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Mounts, reads the file and unmounts. Whether it had rings.
fn mount_and_read(point: &Path) -> Result<bool, String> {
    let memory = Arc::new(Memory::new(SIZE));
    let mount = fuse::mount(memory.clone(), point, &Options { rings: true, ..Options::default() });
    let mount = mount.map_err(|error| error.to_string())?;
    let read = std::fs::read(mount.place()).map_err(|error| error.to_string())?;
    assert!(read == memory.copy());
    let had = mount.has_rings();
    wait_until("nobody uses the file", || mount.unmounter().unmount().is_ok());
    mount.wait().map_err(|error| error.to_string())?;
    Ok(had)
}

/// What became of each mount, while root turns rings on and off.
///
/// # Panics
/// When a mount does not answer.
fn mounts_while_turning(each: Duration) -> Vec<Result<bool, String>> {
    let directory = Scratch::new();
    let point = directory.path("m");
    std::fs::create_dir(&point).unwrap();
    let (told, done) = channel();
    let all = rings::while_turning(each, || {
        std::thread::scope(|scope| {
            let point = &point;
            scope.spawn(move || (0..MOUNTS).for_each(|_| told.send(mount_and_read(point)).unwrap()));
            let mut all = Vec::new();
            while all.len() < MOUNTS {
                let Ok(outcome) = done.recv_timeout(PATIENCE) else {
                    // A mount that never answers is ended, or its callers would wait for ever.
                    let _ = unmount(point, UnmountFlags::FORCE | UnmountFlags::DETACH);
                    break;
                };
                all.push(outcome);
            }
            all
        })
    });
    assert_eq!(all.len(), MOUNTS, "a mount does not answer");
    let with = all.iter().filter(|outcome| **outcome == Ok(true)).count();
    println!("{with} of {MOUNTS} mounts had rings");
    all
}

#[test]
fn a_mount_works_whenever_rings_are_turned_off() {
    for outcome in mounts_while_turning(Duration::from_millis(10)) {
        outcome.unwrap();
    }
}

/// A volume whose media can't even be asked.
struct Broken;

impl BlockDevice for Broken {
    fn size(&self) -> u64 {
        SIZE
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        panic!("nobody can write to it");
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        panic!("intended: a thread gives up with a request in its hands");
    }
}

/// A thread that gives up ends the mount. It never keeps a caller waiting.
#[test]
fn a_mount_ends_when_a_thread_of_its_rings_does() {
    let directory = Scratch::new();
    let options = Options::default();
    let mount =
        by_transport(true, &options, |options| fuse::mount(Arc::new(Broken), directory.as_path(), options));
    let (told, done) = channel();
    let file = std::fs::File::open(mount.place()).unwrap();
    if !mount.has_rings() {
        return; // `by_transport` has said so
    }
    let reader = std::thread::spawn(move || told.send(file.read_at(&mut [0; 4096], 0)).unwrap());
    let Ok(read) = done.recv_timeout(PATIENCE) else {
        let _ = unmount(directory.as_path(), UnmountFlags::FORCE | UnmountFlags::DETACH);
        panic!("a caller waits for ever");
    };
    reader.join().unwrap();
    assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::ECONNABORTED));
    mount.wait().unwrap_err();
}
