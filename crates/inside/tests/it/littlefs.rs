//! LittleFS as a file tree: on block devices, as a card's plaintext is one, and on flash.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use crate::common::Memory;
use atrest_device::{FlashDevice, FlashError, FlashGeometry};
use atrest_filetree::{CopyOptions, FileTree, IfExists, Kind, Stop, TreeError, TreePath, copy_in, copy_out};
use atrest_inside::{Access, LittleFsDamage, open_flash_tree, open_tree};
use atrest_littlefs::{FormatOptions, format};
use atrest_probe::{FilesystemKind, detect};
use atrest_testkit::flash::EmulatedFlash;
use atrest_testkit::{Random, Scratch};

/// A medium that the tree may take along to another thread.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<EmulatedFlash>>);

impl FlashDevice for Shared {
    fn geometry(&self) -> FlashGeometry {
        self.0.lock().expect("not poisoned").geometry()
    }
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.lock().expect("not poisoned").read(address, buf)
    }
    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.0.lock().expect("not poisoned").prog(address, data)
    }
    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.0.lock().expect("not poisoned").erase(address, len)
    }
    fn sync(&mut self) -> Result<(), FlashError> {
        self.0.lock().expect("not poisoned").sync()
    }
}

pub fn flash(blocks: u64) -> Shared {
    let geometry = FlashGeometry::new(16, 16, 4096, blocks).expect("a geometry");
    let shared = Shared(Arc::new(Mutex::new(EmulatedFlash::new(geometry))));
    format(shared.clone(), &FormatOptions::default()).expect("format");
    shared
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).expect("a path")
}

fn write(tree: &dyn FileTree, at: &str, data: &[u8]) -> Result<u64, TreeError> {
    let taken = Cell::new(0);
    tree.write_from(&path(at), &mut |buf: &mut [u8]| {
        let rest = &data[taken.get()..];
        let len = rest.len().min(buf.len()).min(10_000);
        buf[..len].copy_from_slice(&rest[..len]);
        taken.set(taken.get() + len);
        Ok(len)
    })
}

fn read(tree: &dyn FileTree, at: &str) -> Result<Vec<u8>, TreeError> {
    let mut content = Vec::new();
    tree.read_to(&path(at), &mut |piece| {
        content.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(content)
}

#[test]
fn everything_a_tree_can_do_is_there_after_another_mount() {
    let medium = flash(64);
    let data = Random::new(1).bytes(60_000);
    let tree = open_flash_tree(medium.clone(), Access::ReadWrite).expect("a tree");
    assert_eq!(tree.about().name, "LittleFS");
    tree.make_dir(&path("a")).expect("made");
    tree.make_dir(&path("a/b")).expect("made");
    assert_eq!(write(&*tree, "a/b/file", &data), Ok(60_000));
    assert_eq!(write(&*tree, "small", b"x"), Ok(1));
    // Pieces, as a mounted directory gets them.
    write(&*tree, "pieces", b"").expect("an empty file");
    for (index, piece) in data.chunks(777).enumerate() {
        tree.write_at(&path("pieces"), index as u64 * 777, piece).expect("written");
        let size = tree.metadata(&path("pieces")).expect("known").size;
        assert_eq!(size, (index * 777 + piece.len()) as u64, "the size is known before it is closed");
    }
    assert_eq!(tree.write_at(&path("pieces"), 60_001, b"x"), Err(TreeError::BeyondEnd { size: 60_000 }));
    tree.truncate(&path("pieces"), 50_000).expect("cut");
    tree.rename(&path("small"), &path("a/moved"), IfExists::Replace).expect("moved");
    tree.rename(&path("a/b"), &path("c"), IfExists::Replace).expect("moved");
    assert_eq!(tree.make_dir(&path("c")), Err(TreeError::Exists));
    assert_eq!(tree.remove(&path("c")), Err(TreeError::NotEmpty));
    let into_itself = tree.rename(&path("c"), &path("c/inside"), IfExists::Replace);
    assert_eq!(into_itself, Err(TreeError::IntoItself));
    let taken = tree.rename(&path("c"), &path("a/moved"), IfExists::Fail);
    assert_eq!(taken, Err(TreeError::Exists));
    assert_eq!(write(&*tree, "c", b""), Err(TreeError::IsADirectory));
    assert_eq!(write(&*tree, &"n".repeat(256), b""), Err(TreeError::UnsupportedName { len: 256 }));
    // What replaces a file and fails leaves it as it was.
    let stopped = tree.write_from(&path("a/moved"), &mut |_: &mut [u8]| Err(Stop));
    assert_eq!(stopped, Err(TreeError::Stopped { at: 0 }));
    tree.flush().expect("durable");
    drop(tree);

    let tree = open_flash_tree(medium.clone(), Access::ReadOnly).expect("a tree");
    assert_eq!(read(&*tree, "c/file").as_ref(), Ok(&data));
    assert_eq!(read(&*tree, "pieces").expect("read"), data[..50_000]);
    assert_eq!(read(&*tree, "a/moved").expect("read"), b"x");
    let names: Vec<_> =
        tree.list(&TreePath::root()).expect("listed").into_iter().map(|e| (e.name, e.kind)).collect();
    let expected = [("a", Kind::Directory), ("c", Kind::Directory), ("pieces", Kind::File)];
    assert_eq!(names, expected.map(|(name, kind)| (name.as_bytes().to_vec(), kind)));
    let space = tree.space().expect("space");
    assert_eq!((space.block_size, space.blocks), (4096, 64));
    // 28 blocks of contents, and a pair for each directory.
    assert!((25..=36).contains(&space.free), "{space:?}");
    assert_eq!(tree.make_dir(&path("x")), Err(TreeError::ReadOnly));
    assert_eq!(tree.remove(&path("pieces")), Err(TreeError::ReadOnly));
    assert_eq!(tree.truncate(&path("pieces"), 0), Err(TreeError::ReadOnly));
}

#[test]
fn writing_in_pieces_wears_the_medium_like_writing_at_once() {
    let data = Random::new(2).bytes(100_000);
    let programmed = |medium: Shared, pieces: Option<usize>| {
        let tree = open_flash_tree(medium.clone(), Access::ReadWrite).expect("a tree");
        write(&*tree, "f", if pieces.is_some() { b"" } else { &data }).expect("written");
        for (index, piece) in
            data.chunks(pieces.unwrap_or(usize::MAX)).enumerate().filter(|_| pieces.is_some())
        {
            tree.write_at(&path("f"), (index * pieces.unwrap_or(0)) as u64, piece).expect("written");
        }
        tree.flush().expect("durable");
        medium.0.lock().expect("not poisoned").wear().programmed_units()
    };
    let (once, pieces) = (programmed(flash(64), None), programmed(flash(64), Some(1000)));
    assert!(pieces < once + 64, "{once} units at once, {pieces} in pieces");
}

#[test]
fn a_full_medium_refuses_and_keeps_what_it_has() {
    let medium = flash(12);
    let tree = open_flash_tree(medium.clone(), Access::ReadWrite).expect("a tree");
    write(&*tree, "keep", &[7; 5000]).expect("written");
    assert_eq!(write(&*tree, "large", &[1; 60_000]), Err(TreeError::NoSpace));
    assert_eq!(write(&*tree, "keep", &[1; 60_000]), Err(TreeError::NoSpace), "nor in place of another");
    let names: Vec<_> =
        tree.list(&TreePath::root()).expect("listed").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [b"keep".to_vec()]);
    assert_eq!(read(&*tree, "keep").expect("read"), [7; 5000]);
}

/// On a block device the sizes come from the superblock, and nothing needs to be erased.
#[test]
fn a_block_device_is_detected_read_and_written() {
    let medium = flash(64);
    let tree = open_flash_tree(medium.clone(), Access::ReadWrite).expect("a tree");
    write(&*tree, "made on flash", b"by the driver").expect("written");
    drop(tree);
    let mut bytes = medium.0.lock().expect("not poisoned").image().to_bytes();
    bytes.extend([0; 5000]); // The partition is larger than the filesystem.
    let device = Memory::new(bytes);
    assert_eq!(detect(&*device), Ok(Some(FilesystemKind::LittleFs)));
    let host = Scratch::new();
    std::fs::create_dir_all(host.path("in/deep/er")).expect("made");
    std::fs::write(host.path("in/deep/er/file"), Random::new(5).bytes(30_000)).expect("written");
    std::fs::write(host.path("in/empty"), b"").expect("written");
    let options = CopyOptions { recursive: true, ..CopyOptions::default() };
    let tree = open_tree(device.clone(), Access::ReadWrite).expect("a tree");
    copy_in(&host.path("in"), &*tree, &TreePath::root(), &options, &mut ()).expect("copied");
    drop(tree);
    let before = device.bytes();
    let tree = open_tree(device.clone(), Access::ReadOnly).expect("a tree");
    copy_out(&*tree, &TreePath::root(), &host.path("out"), &options, &mut ()).expect("copied");
    assert_eq!(std::fs::read(host.path("out/made on flash")).expect("read"), b"by the driver");
    let same = |name: &str| {
        let read = |root: &str| std::fs::read(host.path(root).join(name)).expect("read");
        assert!(read("in") == read("out/in"), "{name}");
    };
    same("deep/er/file");
    same("empty");
    drop(tree);
    assert!(device.bytes() == before, "reading wrote");
}

#[test]
fn a_device_that_was_cut_is_told_from_a_damaged_one() {
    let medium = flash(64);
    let bytes = medium.0.lock().expect("not poisoned").image().to_bytes();
    let cut = Memory::new(bytes[..60 * 4096].to_vec());
    let error = open_tree(cut, Access::ReadOnly).map(drop).expect_err("too small");
    assert_eq!(error, TreeError::LargerThanDevice { needs: 64 * 4096, has: 60 * 4096 });
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    damaged[4096 + 40] ^= 1;
    let error = open_tree(Memory::new(damaged), Access::ReadOnly).map(drop).expect_err("damaged");
    assert!(
        matches!(error, TreeError::Corrupt(_)) && error.fault::<LittleFsDamage>().is_some()
            || error == TreeError::UnknownFilesystem,
        "{error:?}"
    );
}
