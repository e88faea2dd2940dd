//! Lower trees that the kernel's eCryptfs made, under emulation: names, contents and metadata are those that it shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use atrest_filetree::{FileTree, Kind, TreePath};
use atrest_secret::Passphrase;
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::{Program, tool};
use atrest_testkit::{Campaign, Scratch};
use atrest_tree::ecryptfs::{Keys, LowerTree};
use sha2::{Digest, Sha256};

const CASES: [&str; 12] = [
    "aes128-plain-names",
    "aes128",
    "aes192",
    "aes256",
    "des3",
    "blowfish",
    "blowfish56",
    "twofish",
    "cast5",
    "cast6",
    "xattr",
    "mixed",
];

/// A guest takes its time. Samples rotate.
const SAMPLE: usize = 6;

fn keys() -> Keys {
    let mut keys = Keys::new();
    keys.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase");
    keys
}

/// Text with a number in every line, so that no two extents are the same.
fn plain() -> Vec<u8> {
    (0..25_000).flat_map(|i| format!("line {i:09}\n").into_bytes()).collect()
}

/// The lower trees of an image, with their attributes.
fn unpack(image: &Path, to: &Path) {
    let debugfs = |commands: &str| {
        let file = to.with_extension("commands");
        fs::write(&file, commands).expect("a script");
        let outcome = Program::at(tool("debugfs")).arg("-f").arg(&file).arg(image).run();
        outcome.expect_code(0)
    };
    fs::create_dir(to).expect("a directory");
    debugfs(&format!("rdump / {}\n", to.display()));
    let mut commands = String::new();
    let mut attributes = Vec::new();
    // In a sample it may be missing.
    let with_attributes = Some(to.join("xattr")).filter(|directory| directory.is_dir());
    with_attributes.iter().for_each(|directory| {
        walk(directory, &mut |path| {
            if path.symlink_metadata().expect("there").is_file() {
                let value = to.with_extension(format!("ea{}", attributes.len()));
                let inner = path.strip_prefix(to).expect("below it");
                writeln!(commands, "ea_get -f {} /{} user.ecryptfs", value.display(), inner.display())
                    .expect("a string");
                attributes.push((path.to_owned(), value));
            }
        })
    });
    debugfs(&commands);
    for (path, value) in attributes {
        let value = fs::read(value).expect("an attribute");
        rustix::fs::setxattr(path, "user.ecryptfs", &value, rustix::fs::XattrFlags::empty())
            .expect("a filesystem with attributes");
    }
}

fn walk(directory: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        visit(&path);
        if path.symlink_metadata().expect("there").is_dir() {
            walk(&path, visit);
        }
    }
}

/// What `stat -c '%n|%F|%a|%s|%h|%Y|%u|%g'` and `readlink` say of a tree, without sizes of directories; and without numbers of
/// links, because debugfs copies a file for each of its names; nor times of
/// links, which it does not set, as it does not set their owners: those are all of root.
#[derive(Debug, PartialEq)]
struct Found {
    kind: Kind,
    mode: u16,
    size: u64,
    modified: i64,
    owner: (u32, u32),
    hash: Option<String>,
    target: Option<String>,
}

fn found(tree: &LowerTree, path: &TreePath, all: &mut BTreeMap<String, Found>) {
    let metadata = tree.metadata(path).expect("metadata");
    let directory = metadata.kind == Kind::Directory;
    let hash = (metadata.kind == Kind::File).then(|| {
        let mut hash = Sha256::new();
        let size = tree
            .read_to(path, &mut |piece| {
                hash.update(piece);
                Ok(())
            })
            .expect("contents");
        assert_eq!(size, metadata.size, "{path}");
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    });
    let target = (metadata.kind == Kind::Link)
        .then(|| String::from_utf8(tree.read_link(path).expect("a target")).expect("UTF-8"));
    let name = String::from_utf8(path.as_bytes().to_vec()).expect("UTF-8");
    all.insert(
        name,
        Found {
            kind: metadata.kind,
            mode: metadata.mode,
            size: if directory { 0 } else { metadata.size },
            modified: if metadata.kind == Kind::Link { 0 } else { metadata.modified.seconds },
            owner: (metadata.uid, metadata.gid),
            hash,
            target,
        },
    );
    if directory {
        for entry in tree.list(path).expect("a directory") {
            found(tree, &path.join(&entry.name).expect("a name"), all);
        }
    }
}

fn told(share: &Path, case: &str) -> BTreeMap<String, Found> {
    let read =
        |what: &str| fs::read_to_string(share.join(format!("{case}.{what}"))).expect("what the guest told");
    let hashes: BTreeMap<String, String> = read("files")
        .lines()
        .map(|line| line.split_once("  ").expect("a hash and a name"))
        .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
        .collect();
    let (mut all, mut links) = (BTreeMap::new(), Vec::new());
    let stat = read("stat");
    let mut targets = stat.lines().filter(|line| line.split('|').count() < 8);
    for line in stat.lines().filter(|line| line.split('|').count() >= 8) {
        let mut fields = line.rsplit('|');
        let mut number =
            |radix| u64::from_str_radix(fields.next().expect("a field"), radix).expect("a number");
        let (gid, uid) = (number(10) as u32, number(10) as u32);
        let (modified, _links, size, mode) = (number(10), number(10), number(10), number(8));
        let kind = match fields.next() {
            Some("directory") => Kind::Directory,
            Some("symbolic link") => Kind::Link,
            Some("regular file" | "regular empty file") => Kind::File,
            other => panic!("{other:?}"),
        };
        let name = fields.rev().collect::<Vec<_>>().join("|");
        let directory = kind == Kind::Directory;
        if kind == Kind::Link {
            links.push(name.clone());
        }
        all.insert(
            name.trim_start_matches('.').trim_start_matches('/').to_owned(),
            Found {
                kind,
                mode: mode as u16,
                size: if directory { 0 } else { size },
                modified: if kind == Kind::Link { 0 } else { modified as i64 },
                owner: (uid, gid),
                hash: hashes.get(&name).cloned(),
                target: None,
            },
        );
    }
    for name in links {
        let entry = all.get_mut(name.trim_start_matches("./")).expect("a link");
        entry.target = Some(targets.next().expect("a target").to_owned());
    }
    all
}

#[test]
fn what_the_module_wrote_is_read_as_it_shows_it() {
    let work = Scratch::new();
    let (image, share) = (work.path("lower.img"), work.path("share"));
    fs::create_dir(&share).expect("a directory");
    fs::write(share.join("plain.bin"), plain()).expect("room");
    fs::File::create(&image).and_then(|file| file.set_len(600 << 20)).expect("room");
    Program::at(tool("mke2fs")).args(["-q", "-t", "ext4", "-F"]).arg(&image).run().expect_code(0);
    let more = if Campaign::is_full() { 80 } else { 1 };
    if Campaign::is_full() {
        let numbers = (0..16_u32 << 20).flat_map(u32::to_le_bytes);
        fs::write(share.join("large"), numbers.collect::<Vec<u8>>()).expect("room for 64 MiB");
    }
    let cases = Campaign::matrix("lower trees that the kernel writes", SAMPLE).chosen(&CASES);
    Kernel::script("ecryptfs-make.sh").disk(&image).share(&share).ok(&format!("{more} {}", cases.join(" ")));
    let lower = work.path("lower");
    unpack(&image, &lower);
    let mut files = 0;
    for case in &cases {
        let case = *case;
        let expected = told(&share, case);
        let tree = LowerTree::open(&lower.join(case), keys(), false).expect("a directory");
        let mut all = BTreeMap::new();
        found(&tree, &TreePath::root(), &mut all);
        for (name, entry) in &expected {
            assert_eq!(all.get(name), Some(entry), "{case}: {name}");
        }
        assert_eq!(all.len(), expected.len(), "{case}");
        files += all.values().filter(|entry| entry.kind == Kind::File).count();
        if case != "aes128-plain-names" {
            let mut names = 0;
            walk(&lower.join(case), &mut |path| {
                let name = path.file_name().expect("a name").as_bytes();
                assert!(name.starts_with(b"ECRYPTFS_FNEK_ENCRYPTED."), "{}", path.display());
                names += 1;
            });
            assert!(names > 20);
        }
    }
    let least = if Campaign::is_full() { 1000 } else { 21 * cases.len() };
    assert!(files >= least, "{files} files");
    println!("{files} files agree");
}
