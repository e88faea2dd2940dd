//! Contents of encrypted files overwritten in place: the running kernel reads them as they should be.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use atrest_engine::{Access as FileAccess, FileDevice};
use atrest_filetree::{FileTree, Timestamp, TreeError, TreePath};
use atrest_inside::{Access, BuildOptions, Encrypt, NewPolicy, Source, build_image, open_tree_with};
use atrest_secret::SecretBytes;
use atrest_testkit::oracle::{Program, workspace};
use atrest_testkit::{Random, Scratch};
use atrest_tree::fscrypt::{Keyring, PolicyText};

/// Not one byte repeated: version 1 would make of that an XTS key with equal halves, which Linux refuses.
const KEY: [u8; 64] = *b"The master key of this test: sixty-four bytes, no two halves be=";
const POLICIES: [&str; 4] = ["v2", "v2:iv-ino-lblk-64", "v2:unit=512", "v1:key=0011223344556677"];

fn keyring() -> (Arc<Keyring>, [atrest_filetree::KeyName; 2]) {
    let keyring = Keyring::new();
    let names = keyring.add(SecretBytes::copy_from(&KEY)).expect("a key");
    let descriptor = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];
    keyring.add_descriptor(descriptor, SecretBytes::copy_from(&KEY)).expect("a key");
    (Arc::new(keyring), names)
}

fn open(image: &Path, keyring: Arc<Keyring>) -> Box<dyn FileTree> {
    let device = FileDevice::open(image, FileAccess::ReadWrite).expect("opened");
    open_tree_with(Arc::new(device), Access::ReadWrite, Some(keyring)).expect("a filesystem")
}

#[test]
fn what_is_overwritten_is_what_the_kernel_reads() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    let (keys, names) = keyring();
    let mut random = Random::new(3);
    let sizes = [1_usize, 700, 4096, 4097, 1_300_000];
    let mut list = Vec::new();
    for (i, policy) in POLICIES.iter().enumerate() {
        let below = from.join(format!("p{i}"));
        fs::create_dir_all(&below).expect("made");
        for size in sizes {
            fs::write(below.join(format!("file-{size}")), random.bytes(size)).expect("written");
        }
        let text: PolicyText = policy.parse().expect("a policy");
        let policy = NewPolicy {
            encryption: keys.clone(),
            context: text.with_key(&names).expect("a key").to_template(),
            stable_inodes: text.needs_stable_inodes(),
        };
        list.push((TreePath::parse(format!("p{i}")).expect("a path"), Arc::new(policy)));
    }
    let options =
        BuildOptions { encrypt: Encrypt::Below(list), size: Some(64 << 20), ..BuildOptions::default() };
    build_image(&Source::scan(&from, None).expect("scanned"), &image, &options, &mut ()).expect("built");

    let locked = open(&image, Arc::new(Keyring::new()));
    let hidden = locked.list(&TreePath::parse("p0").expect("a path")).expect("no-key names");
    let path = TreePath::parse("p0").and_then(|path| path.join(&hidden[0].name)).expect("a path");
    let refused = locked.write_at(&path, 0, b"x");
    assert!(matches!(refused, Err(TreeError::Locked { .. })), "{refused:?}");
    drop(locked);

    let tree = open(&image, keys);
    for i in 0..POLICIES.len() {
        for size in sizes {
            let name = format!("p{i}/file-{size}");
            let host = fs::OpenOptions::new().write(true).open(from.join(&name)).expect("opened");
            let path = TreePath::parse(&name).expect("a path");
            for _ in 0..6 {
                let at = random.below(size as u64);
                let len = 1 + random.below((size as u64 - at).min(200_000));
                let data = random.bytes(len as usize);
                tree.write_at(&path, at, &data).expect("overwritten");
                host.write_all_at(&data, at).expect("written");
            }
            let stat = host.metadata().expect("metadata");
            let time = Timestamp { seconds: stat.mtime(), nanoseconds: stat.mtime_nsec() as u32 };
            tree.set_modified(&path, time).expect("set");
            assert_eq!(
                tree.write_at(&path, size as u64, b"x"),
                Err(TreeError::CannotGrow { size: size as u64 })
            );
        }
    }
    tree.flush().expect("flushed");
    drop(tree);
    fs::write(dir.path("key"), KEY).expect("written");
    let judged = Program::at(workspace().join("tests/kernel/tree-host.sh"))
        .arg(&image)
        .arg(&from)
        .arg(dir.path("key"))
        .arg("0011223344556677")
        .ok()
        .text();
    assert!(judged.contains("names read and written by the kernel"), "{judged}");
    println!(
        "{} overwritten files of {} policies are as they should be",
        sizes.len() * POLICIES.len(),
        POLICIES.len()
    );
}
