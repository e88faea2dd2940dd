//! Whatever programs may ask of the mounted file and its directory, sensible or not: a model says what the volume holds then.

use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use atrest_attach::fuse::{self, Options};
use atrest_testkit::{Campaign, Random, Scratch, wait_until};
use rustix::fs::{FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, XattrFlags};

use crate::common::Memory;
use crate::transport::by_transport;

const SIZE: u64 = 96 << 10;
/// Requests of one case.
const REQUESTS: usize = 200;

/// A place, mostly in the volume or around its end, and else anywhere.
fn place(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => SIZE - random.below(9000),
        1 => SIZE + random.below(9000),
        2 => random.draw() >> random.below(64),
        _ => random.below(SIZE),
    }
}

fn len(random: &mut Random) -> usize {
    let most = [1, 600, 5000, 200_000][random.below(4) as usize];
    random.below(most) as usize
}

/// Whether the kernel itself refuses it, before the server is asked.
fn beyond_files(offset: u64, len: usize) -> bool {
    offset.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64)
}

fn one_request(file: &File, directory: &Path, model: &mut [u8], random: &mut Random) {
    let (offset, len) = (place(random), len(random));
    // intended: nothing is there behind the end.
    let inside = (SIZE.saturating_sub(offset) as usize).min(len);
    match random.below(10) {
        0..3 => {
            let mut data = vec![0; len];
            match file.read_at(&mut data, offset) {
                Ok(read) => {
                    assert_eq!(read, inside, "{len} bytes at {offset}");
                    let expected = if read == 0 { &[] } else { &model[offset as usize..][..read] };
                    assert!(data[..read] == *expected);
                }
                Err(error) => assert!(beyond_files(offset, len), "{error}: {len} bytes at {offset}"),
            }
        }
        3..6 => {
            let data = random.bytes(len);
            match file.write_at(&data, offset) {
                Ok(written) => {
                    assert_eq!(written, inside, "{len} bytes at {offset}");
                    if written > 0 {
                        model[offset as usize..][..written].copy_from_slice(&data[..written]);
                    }
                }
                Err(_) => assert!(inside == 0 && len > 0, "{len} bytes at {offset}"),
            }
        }
        6 => {
            let flags = FallocateFlags::from_bits_retain(random.draw() as u32 & 0x7f);
            let zeros = FallocateFlags::ZERO_RANGE;
            let done = rustix::fs::fallocate(file, flags, offset, len as u64);
            let is_zeros = flags - FallocateFlags::KEEP_SIZE == zeros;
            if done.is_ok() && is_zeros {
                assert_eq!(inside, len);
                model[offset as usize..][..len].fill(0);
            }
            let has_room = inside == len && len > 0;
            assert_eq!(
                done.is_ok(),
                has_room && (is_zeros || (flags - FallocateFlags::KEEP_SIZE).is_empty()),
                "{flags:?}"
            );
        }
        7 => {
            let size = if random.below(4) == 0 { SIZE } else { offset };
            assert_eq!(file.set_len(size).is_ok(), size == SIZE, "{size}");
            let whence = if random.below(2) == 0 { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) };
            match rustix::fs::seek(file, whence) {
                Ok(at) => assert!(at >= offset && at <= SIZE && offset < SIZE, "{at} from {offset}"),
                Err(_) => assert!(offset >= SIZE, "{whence:?}"),
            }
        }
        8 => in_the_directory(directory, random),
        _ => attributes(file, directory, random),
    }
}

/// In the directory nothing changes.
fn in_the_directory(directory: &Path, random: &mut Random) {
    let name_len = 1 + random.below(300) as usize;
    let mut name = random.bytes(name_len);
    name.iter_mut().for_each(|byte| *byte = (*byte).max(1));
    name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'_');
    let other = directory.join(std::ffi::OsString::from_vec(name));
    let volume = directory.join("volume");
    let refused = match random.below(8) {
        0 => fs::create_dir(&other),
        1 => fs::write(&other, b"x"),
        2 => std::os::unix::fs::symlink("volume", &other),
        3 => fs::hard_link(&volume, &other),
        4 => fs::remove_file(&volume),
        5 => fs::rename(&volume, &other),
        6 => {
            let flags = RenameFlags::from_bits_retain(random.below(8) as u32);
            rustix::fs::renameat_with(rustix::fs::CWD, &volume, rustix::fs::CWD, &other, flags)
                .map_err(Into::into)
        }
        _ => fs::remove_dir(directory.join("volume")),
    };
    refused.unwrap_err();
}

/// Attributes stay, and there are no extended ones.
fn attributes(file: &File, directory: &Path, random: &mut Random) {
    let volume = directory.join("volume");
    let mode = random.draw() as u32 & 0o7777;
    let set = rustix::fs::fchmod(file, Mode::from_raw_mode(mode));
    assert_eq!(set.is_ok(), mode == 0o600, "{mode:o}");
    let size = random.below(70_000) as usize;
    rustix::fs::fsetxattr(file, "user.x", &random.bytes(size), XattrFlags::empty()).unwrap_err();
    rustix::fs::fgetxattr(file, "user.x", &mut vec![0_u8; size][..]).unwrap_err();
    // With any flags that open(2) knows, but for those that change what it is about.
    let flags = OFlags::from_bits_retain(random.draw() as u32 & 0o7_777_777);
    let _ = rustix::fs::open(&volume, flags - OFlags::TRUNC - OFlags::PATH, Mode::empty());
    let names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["volume"]);
}

#[test]
fn whatever_is_asked_the_volume_holds_what_was_written_and_nothing_else() {
    let name =
        if crate::RINGS { "requests of any kind by FUSE on rings" } else { "requests of any kind by FUSE" };
    let mut asked = 0;
    Campaign::new(name, 10, 100).run(|_, random| {
        let memory = Arc::new(Memory::new(SIZE));
        let mut model = memory.bytes.lock().unwrap().clone();
        let directory = Scratch::new();
        let point = directory.directory("m");
        let mount = by_transport(crate::RINGS, &Options::default(), |options| {
            fuse::mount(memory.clone(), &point, options)
        });
        let file = OpenOptions::new().read(true).write(true).open(mount.place()).unwrap();
        for _ in 0..REQUESTS {
            one_request(&file, &point, &mut model, random);
        }
        asked += REQUESTS;
        drop(file);
        wait_until("nobody uses the file", || mount.unmounter().unmount().is_ok());
        mount.wait().unwrap();
        assert!(*memory.bytes.lock().unwrap() == model);
    });
    println!("{name}: {asked}");
}
