//! Images made by the running kernel, as root, on a loop mount.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use atrest_filetree::{EncryptionFault, KeyName, TreeError, TreePath};
use atrest_secret::SecretBytes;
use atrest_testkit::oracle::{Program, workspace};
use atrest_testkit::{Campaign, Scratch, needs};
use atrest_tree::fscrypt::Keyring;

use crate::fscrypt::common::{Facts, assert_same, fill, keyring, master_key, of_image, of_kernel, open};

const DESCRIPTOR: [u8; 8] = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];

/// Name, version, modes of contents and names, flags, log2 of the data unit or 0: what kernels have without further modules.
type Case = (&'static str, u8, u8, u8, u8, u8);
const CASES: [Case; 11] = [
    ("v2-pad4", 2, 1, 4, 0x00, 0),
    ("v2-pad8", 2, 1, 4, 0x01, 0),
    ("v2-pad16", 2, 1, 4, 0x02, 0),
    ("v2-pad32", 2, 1, 4, 0x03, 0),
    ("v2-lblk64", 2, 1, 4, 0x0b, 0),
    ("v2-lblk32", 2, 1, 4, 0x13, 0),
    ("v1-pad4", 1, 1, 4, 0x00, 0),
    ("v1-pad16", 1, 1, 4, 0x02, 0),
    ("v1-pad32", 1, 1, 4, 0x03, 0),
    ("v2-unit512", 2, 1, 4, 0x02, 9),
    ("v2-unit2048", 2, 1, 4, 0x02, 11),
];

/// An image, mounted for as long as this lives.
struct Mounted {
    place: PathBuf,
}

impl Mounted {
    fn new(image: &Path, place: &Path) -> Self {
        Program::named("mount").args(["-o", "loop"]).arg(image).arg(place).ok();
        Self { place: place.to_path_buf() }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Program::named("umount").arg(&self.place).run();
        assert!(done.is_ok() || std::thread::panicking(), "{done:?}");
    }
}

fn ctl(command: &str, place: &Path) -> Program {
    Program::at(workspace().join("tests/kernel/fscrypt-ctl")).arg(command).arg(place)
}

fn add_key(place: &Path, key: &[u8], descriptor: Option<&str>) -> String {
    let program = ctl("add-key", place).stdin(key);
    let program = match descriptor {
        Some(descriptor) => program.args(["--descriptor", descriptor]),
        None => program,
    };
    program.ok().text().trim().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the kernel said of one image.
struct Written {
    image: PathBuf,
    unlocked: Facts,
    locked: Facts,
}

/// Makes an image with a directory of each policy.
fn write(
    dir: &Path,
    options: &[&str],
    cases: &[Case],
    key: &[u8],
    names: usize,
    large: Option<u64>,
) -> Written {
    needs::root("mounting an image");
    let (image, place) = (dir.join("image"), dir.join("mounted"));
    let size = 96 << 20;
    std::fs::File::create(&image).and_then(|file| file.set_len(size + 6 * large.unwrap_or(0))).expect("room");
    std::fs::create_dir_all(&place).expect("a directory");
    let mkfs = Program::named("mkfs.ext4").args(["-q", "-O", "encrypt,stable_inodes", "-N", "16384"]);
    mkfs.args(options).arg(&image).ok();
    let unlocked = {
        let _mounted = Mounted::new(&image, &place);
        let identifier = add_key(&place, key, None);
        add_key(&place, key, Some(&hex(&DESCRIPTOR)));
        let ours = Keyring::new().add(SecretBytes::copy_from(key)).expect("a master key");
        assert_eq!(ours[0].to_string(), identifier);
        std::fs::create_dir(place.join("plain")).expect("a directory");
        fill(&place.join("plain"), 8, None);
        for (i, (name, version, contents, modes, flags, unit)) in cases.iter().enumerate() {
            let directory = place.join(name);
            std::fs::create_dir(&directory).expect("a directory");
            // The context has no room in the inode beside it.
            if i % 2 == 0 {
                let note = [b'a'; 64];
                rustix::fs::setxattr(&directory, "user.note", &note, rustix::fs::XattrFlags::empty())
                    .expect("room");
            }
            let key = if *version == 2 { identifier.clone() } else { hex(&DESCRIPTOR) };
            ctl("set-policy", &directory)
                .args([&key, &contents.to_string(), &modes.to_string()])
                .args(["--flags", &flags.to_string(), "--log2-unit", &unit.to_string()])
                .ok();
            fill(&directory, names, large.filter(|_| flags & 3 == 3));
        }
        of_kernel(&place, true)
    };
    let mounted = Mounted::new(&image, &place);
    let locked = of_kernel(&place, false);
    drop(mounted);
    Program::named("e2fsck").arg("-fn").arg(&image).ok();
    Written { image, unlocked, locked }
}

/// Reads it with the keys and without them.
fn check(written: &Written, key: &[u8], what: &str) -> usize {
    let tree = open(&written.image, keyring(key, DESCRIPTOR));
    assert_same(&written.unlocked, &of_image(&*tree, true), &format!("{what}, unlocked"));
    let tree = open(&written.image, Keyring::new().into());
    assert_same(&written.locked, &of_image(&*tree, false), &format!("{what}, locked"));
    written.unlocked.len()
}

#[test]
fn what_the_running_kernel_wrote_is_read_and_listed_without_keys_as_it_lists_it() {
    let full = Campaign::is_full();
    let (names, large) = if full { (255, Some(64 << 20)) } else { (12, None) };
    let mut files = 0;
    let dir = Scratch::new();
    let key = master_key(64);
    let written = write(dir.as_path(), &["-b", "4096", "-I", "256"], &CASES, &key, names, large);
    files += check(&written, &key, "4096-byte blocks");
    doubts(&written);
    // Inodes without room for attributes, small blocks, hashes of unsigned bytes, no index.
    for (what, options) in [
        (
            "1024-byte blocks",
            &["-b", "1024", "-I", "128", "-E", "hash_seed=01234567-89ab-cdef-0123-456789abcdef"][..],
        ),
        ("no index", &["-b", "2048", "-O", "^dir_index"][..]),
    ] {
        let dir = Scratch::new();
        let written = write(dir.as_path(), options, &CASES[3..4], &master_key(32), names, None);
        files += check(&written, &master_key(32), what);
    }
    println!("{files} entries in three images are as the kernel says");
}

/// Wrong keys and missing ones.
fn doubts(written: &Written) {
    let other = [0x42; 64];
    let tree = open(&written.image, keyring(&other, DESCRIPTOR));
    let path = |text: &str| TreePath::parse(text.as_bytes()).expect("a path");
    for name in ["v1-pad4", "v1-pad16", "v1-pad32"] {
        let listed = tree.list(&path(name));
        let wrong = EncryptionFault::Implausible(KeyName::Descriptor(DESCRIPTOR));
        assert!(matches!(listed, Err(TreeError::Encryption { fault, .. }) if fault == wrong), "{listed:?}");
    }
    // A key of another name is no key.
    let locked = tree.list(&path("v2-pad32")).expect("a locked directory");
    let kernel = written.locked.keys().filter(|name| name.starts_with(b"v2-pad32/"));
    assert_eq!(
        locked.len(),
        kernel.filter(|name| name.iter().filter(|byte| **byte == b'/').count() == 1).count()
    );
    let file = locked.iter().find(|entry| entry.kind == atrest_filetree::Kind::File).expect("a file");
    let inner = path("v2-pad32").join(&file.name).expect("a path");
    let read = tree.read_at(&inner, 0, &mut [0; 16]);
    assert!(
        matches!(read, Err(TreeError::Locked { inode, key: KeyName::Identifier(_) }) if inode == file.inode),
        "{read:?} {:?}",
        std::ffi::OsStr::from_bytes(&file.name)
    );
}
