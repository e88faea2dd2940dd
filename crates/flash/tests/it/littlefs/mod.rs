//! The littlefs workload: what a device does to its file system in years, on a small medium, with a model of what has to be
//! there after each operation.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;

use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_device::{FlashDevice, FlashGeometry};
use atrest_flash::{BlankReads, LittlefsGeometry, LittlefsStorage};
use atrest_testkit::Random;
use atrest_testkit::flash::{EmulatedFlash, FlashImage, SharedFlash};
use littlefs2::consts::{U1, U16, U64, U512};
use littlefs2::fs::{Filesystem, OpenOptions};
use littlefs2::io::{Error, Result, SeekFrom};
use littlefs2::path::PathBuf;

use crate::any::{AnyFlash, any_flash};
use crate::faces::AnyCrypt as CryptFlash;

/// A medium and what lies between it and littlefs.
pub trait Rig {
    /// As littlefs sees it.
    type Sizes: LittlefsGeometry;

    /// Sizes of the medium itself.
    fn medium() -> FlashGeometry;

    /// What littlefs stands on.
    fn device(medium: SharedFlash) -> AnyFlash<'static>;
}

/// 64 blocks of 512 bytes, programmed by 16.
pub struct Small;

impl LittlefsGeometry for Small {
    const READ_SIZE: usize = 16;
    const PROG_SIZE: usize = 16;
    const BLOCK_SIZE: usize = 512;
    const BLOCK_COUNT: usize = 64;
    type CACHE_SIZE = U64;
    type LOOKAHEAD_SIZE = U1;
}

/// 64 blocks of 512 bytes, programmed by 16, for a medium that refuses to read a torn unit: littlefs reads no more than it
/// programmed at once, so that nothing else becomes unreadable with it.
pub struct Checked;

impl LittlefsGeometry for Checked {
    const READ_SIZE: usize = 16;
    const PROG_SIZE: usize = 16;
    const BLOCK_SIZE: usize = 512;
    const BLOCK_COUNT: usize = 64;
    type CACHE_SIZE = U16;
    type LOOKAHEAD_SIZE = U1;
}

/// 40 blocks of 4096 bytes, programmed by 512.
pub struct Wide;

impl LittlefsGeometry for Wide {
    const READ_SIZE: usize = 512;
    const PROG_SIZE: usize = 512;
    const BLOCK_SIZE: usize = 4096;
    const BLOCK_COUNT: usize = 40;
    type CACHE_SIZE = U512;
    type LOOKAHEAD_SIZE = U1;
}

macro_rules! rigs {
    ($($(#[$doc:meta])* $name:ident: $sizes:ty, $device:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Rig for $name {
            type Sizes = $sizes;

            fn medium() -> FlashGeometry {
                let (read, prog) = (<$sizes>::READ_SIZE as u32, <$sizes>::PROG_SIZE as u32);
                FlashGeometry::new(read, prog, <$sizes>::BLOCK_SIZE as u32, <$sizes>::BLOCK_COUNT as u64)
                    .expect("a geometry")
            }

            fn device(medium: SharedFlash) -> AnyFlash<'static> {
                let layer: fn(SharedFlash) -> _ = $device;
                any_flash(layer(medium))
            }
        }
    )*};
}

rigs! {
    /// The small medium alone.
    BareSmall: Small, |medium| medium;
    /// The wide medium alone.
    BareWide: Wide, |medium| medium;
    /// AES-XTS.
    Xts: Small, |medium| encrypted(medium, "aes-xts-plain64", BlankReads::Decrypted);
    /// AES-XTS, one unit at a time.
    XtsChecked: Checked, |medium| encrypted(medium, "aes-xts-plain64", BlankReads::Decrypted);
    /// AES-XTS, blank units reading as 0xFF.
    XtsErased: Small, |medium| encrypted(medium, "aes-xts-plain64", BlankReads::Erased);
    /// Adiantum.
    Adiantum: Wide, |medium| encrypted(medium, "xchacha12,aes-adiantum-plain64", BlankReads::Decrypted);
    /// CBC-ESSIV, blank units reading as 0xFF.
    CbcErased: Wide, |medium| encrypted(medium, "aes-cbc-essiv:sha256", BlankReads::Erased);
}

fn encrypted(
    medium: SharedFlash,
    spec: &str,
    blank_reads: BlankReads,
) -> CryptFlash<SharedFlash, Mapper, Vec<u8>> {
    let spec: CipherSpec = spec.parse().expect("a specification");
    let key: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
    let cipher = Mapper::new(&spec, &key, &MapperOptions::default()).expect("a key");
    CryptFlash::with_blank_reads(medium, cipher, vec![0; 512], blank_reads).expect("a device")
}

/// Path → contents; a directory has none.
pub type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// One change of the file system, atomic as littlefs promises it.
#[derive(Clone, Debug)]
pub enum Change {
    /// Makes an empty file.
    Create(String),
    /// Replaces the contents of a file.
    Write(String, Vec<u8>),
    /// Writes at the end of a file.
    Append(String, Vec<u8>),
    /// Renames a file, over another one if that exists.
    Rename(String, String),
    /// Makes a directory.
    MakeDir(String),
    /// Removes a file or an empty directory.
    Remove(String),
}

/// The suite: directories, small and large files, appends, rewrites, renames, filling up, removing.
pub fn suite(capacity: usize) -> Vec<Change> {
    let mut random = Random::new(4);
    let mut changes = vec![Change::MakeDir("log".into()), Change::MakeDir("log/old".into())];
    let (tiny, large) = (24, capacity / 12);
    for index in 0..4 {
        changes.push(Change::Create(format!("small{index}")));
        changes.push(Change::Write(format!("small{index}"), random.bytes(tiny)));
    }
    changes.push(Change::Create("large".into()));
    changes.push(Change::Write("large".into(), random.bytes(large)));
    changes.push(Change::Create("log/today".into()));
    for step in 0..12 {
        changes.push(Change::Append("log/today".into(), random.bytes(tiny + 9 * step)));
        changes.push(Change::Write(format!("small{}", step % 4), random.bytes(tiny + step)));
    }
    changes.push(Change::Rename("log/today".into(), "log/old/1".into()));
    changes.push(Change::Write("large".into(), random.bytes(large + 100)));
    changes.push(Change::Append("large".into(), random.bytes(large / 2)));
    changes.push(Change::Rename("small0".into(), "small1".into()));
    changes.push(Change::Rename("small2".into(), "log/small2".into()));
    changes.push(Change::Remove("small3".into()));
    // More than fits: the last ones meet a full medium.
    for index in 0..9 {
        changes.push(Change::Create(format!("fill{index}")));
        changes.push(Change::Write(format!("fill{index}"), random.bytes(capacity / 9)));
    }
    for index in [1, 4, 0, 3, 2] {
        changes.push(Change::Remove(format!("fill{index}")));
        changes.push(Change::Write("small1".into(), random.bytes(tiny * (index + 1))));
    }
    changes.push(Change::Remove("log/old/1".into()));
    changes.push(Change::Remove("log/old".into()));
    changes.push(Change::Create("after".into()));
    changes.push(Change::Write("after".into(), random.bytes(large)));
    changes
}

/// What a run of changes was to leave, after none of them, one, …; and how many found no room.
pub struct Played {
    /// One more than changes.
    pub states: Vec<Tree>,
    /// Changes refused because the medium was full.
    pub refused: usize,
}

/// An erased medium with an empty file system.
pub fn formatted<R: Rig>() -> SharedFlash {
    let medium = SharedFlash::new(EmulatedFlash::new(R::medium()));
    let mut storage = storage::<R>(&medium);
    Filesystem::format(&mut storage).expect("format");
    medium
}

/// Mounts, makes the changes one after the other, and acknowledges each to the medium's recording.
pub fn play<R: Rig>(medium: &SharedFlash, start: Tree, changes: &[Change]) -> Played {
    let acknowledge = |number| medium.lock().acknowledge(number);
    match play_on(&mut storage::<R>(medium), start, changes, acknowledge) {
        (played, Ok(())) => played,
        (played, Err(error)) => {
            let failed = &changes[played.states.len() - 1];
            panic!("change {}, {failed:?}: error {}", played.states.len(), error.code())
        }
    }
}

/// Mounts any storage, makes the changes one after the other up to the first error, and calls `acknowledge` with the number
/// of each. A change for which there is no space counts as refused, not as an error.
pub fn play_on<D: FlashDevice, G: LittlefsGeometry>(
    storage: &mut LittlefsStorage<D, G>,
    start: Tree,
    changes: &[Change],
    acknowledge: impl Fn(u64),
) -> (Played, Result<()>) {
    let mut played = Played { states: vec![start], refused: 0 };
    let result = Filesystem::mount_and_then(storage, |fs| {
        for (number, change) in (1..).zip(changes) {
            let mut tree = played.states.last().expect("a state").clone();
            match make(fs, change) {
                Ok(()) => apply(&mut tree, change),
                Err(Error::NO_SPACE) => played.refused += 1,
                Err(error) => return Err(error),
            }
            played.states.push(tree);
            acknowledge(number);
        }
        Ok(())
    });
    (played, result)
}

/// Mounts an image and reads everything.
pub fn read_all<R: Rig>(image: &FlashImage) -> Result<Tree> {
    read_all_on(&mut storage::<R>(&SharedFlash::new(EmulatedFlash::with_image(image.clone()))))
}

/// Mounts any storage and reads everything.
pub fn read_all_on<D: FlashDevice, G: LittlefsGeometry>(storage: &mut LittlefsStorage<D, G>) -> Result<Tree> {
    Filesystem::mount_and_then(storage, |fs| {
        // Whatever changes something first completes what the power loss has interrupted. Before that littlefs 2.9 lists the
        // directory from which a file was being moved without the file behind it.
        match fs.remove(&located("none of this name")) {
            Err(Error::NO_SUCH_ENTRY) => {}
            other => other?,
        }
        let mut tree = Tree::new();
        collect(fs, "", &mut tree)?;
        Ok(tree)
    })
}

/// littlefs's storage over what a rig puts on a medium.
pub fn storage<R: Rig>(medium: &SharedFlash) -> LittlefsStorage<AnyFlash<'static>, R::Sizes> {
    LittlefsStorage::new(R::device(medium.clone())).expect("the same sizes")
}

type Fs<'a, D, G> = Filesystem<'a, LittlefsStorage<D, G>>;

fn make<D: FlashDevice, G: LittlefsGeometry>(fs: &Fs<'_, D, G>, change: &Change) -> Result<()> {
    let open = |path: &str, options: fn(&mut OpenOptions) -> &OpenOptions, data: &[u8]| {
        fs.open_file_with_options_and_then(options, &located(path), |file| {
            let mut rest = data;
            while !rest.is_empty() {
                let written = file.write(rest)?;
                rest = &rest[written..];
            }
            Ok(())
        })
    };
    match change {
        Change::Create(path) => open(path, |options| options.write(true).create_new(true), &[]),
        Change::Write(path, data) => open(path, |options| options.write(true).truncate(true), data),
        Change::Append(path, data) => open(path, |options| options.write(true).append(true), data),
        Change::Rename(from, to) => fs.rename(&located(from), &located(to)),
        Change::MakeDir(path) => fs.create_dir(&located(path)),
        Change::Remove(path) => fs.remove(&located(path)),
    }
}

fn apply(tree: &mut Tree, change: &Change) {
    match change {
        Change::Create(path) => {
            tree.insert(path.clone(), Some(Vec::new()));
        }
        Change::Write(path, data) => {
            tree.insert(path.clone(), Some(data.clone()));
        }
        Change::Append(path, data) => {
            let content = tree.get_mut(path).and_then(Option::as_mut).expect("a file");
            content.extend(data);
        }
        Change::Rename(from, to) => {
            let moved = tree.remove(from).expect("a file");
            tree.insert(to.clone(), moved);
        }
        Change::MakeDir(path) => {
            tree.insert(path.clone(), None);
        }
        Change::Remove(path) => {
            tree.remove(path);
        }
    }
}

fn collect<D: FlashDevice, G: LittlefsGeometry>(fs: &Fs<'_, D, G>, dir: &str, tree: &mut Tree) -> Result<()> {
    let mut entries = Vec::new();
    fs.read_dir_and_then(&located(dir), |listing| {
        for entry in listing {
            let entry = entry?;
            entries.push((entry.file_name().to_string(), entry.file_type().is_dir()));
        }
        Ok(())
    })?;
    for (name, is_dir) in entries {
        if name == "." || name == ".." {
            continue;
        }
        let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
        if is_dir {
            collect(fs, &path, tree)?;
            tree.insert(path, None);
        } else {
            let content = fs.open_file_and_then(&located(&path), |file| {
                file.seek(SeekFrom::Start(0))?;
                let mut content = vec![0; file.len()?];
                let mut filled = 0;
                while filled < content.len() {
                    match file.read(&mut content[filled..])? {
                        0 => break,
                        read => filled += read,
                    }
                }
                content.truncate(filled);
                Ok(content)
            })?;
            tree.insert(path, Some(content));
        }
    }
    Ok(())
}

fn located(path: &str) -> PathBuf {
    let absolute = format!("/{path}");
    PathBuf::try_from(absolute.as_str()).expect("a path")
}
