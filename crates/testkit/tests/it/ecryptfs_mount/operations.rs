//! Random operations on trees, done in the mount and in a plain directory, which must look the same in the end.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use atrest_testkit::{Random, Scratch};

use super::{Mounted, campaign, kind_and_operations};

/// Changed at once, by a thread each.
const TREES: u64 = 3;

/// A path below a root, out of few names, so that operations meet.
fn some_path(random: &mut Random) -> PathBuf {
    let depth = 1 + random.below(3);
    (0..depth).map(|_| format!("n{}", random.below(6))).collect()
}

/// Does one operation and says how it ended; the same in both trees.
fn operate(root: &Path, random: &mut Random) -> Result<(), i32> {
    let (a, b) = (root.join(some_path(random)), root.join(some_path(random)));
    let number = |error: std::io::Error| error.raw_os_error().unwrap_or(0);
    let (kind, offset, len) = (random.below(11), random.below(50_000), random.below(20_000) as usize);
    let (data, mode) = (random.bytes(len), random.below(0o1000) as u32);
    match kind {
        0..=1 => fs::create_dir(&a).map_err(number),
        2 => fs::write(&a, &data).map_err(number),
        3 => {
            let file = fs::File::options().write(true).open(&a).map_err(number)?;
            file.write_all_at(&data, offset).map_err(number)
        }
        4 => fs::File::options().write(true).open(&a).and_then(|file| file.set_len(offset)).map_err(number),
        5 => fs::rename(&a, &b).map_err(number),
        6 => fs::hard_link(&a, &b).map_err(number),
        7 => symlink(format!("target{mode}"), &a).map_err(number),
        8 => fs::remove_file(&a).map_err(number),
        9 => fs::remove_dir(&a).map_err(number),
        _ => {
            let found = fs::symlink_metadata(&a).map_err(number)?;
            let mode = if found.is_dir() { mode | 0o700 } else { mode | 0o600 };
            if found.is_symlink() {
                return Ok(());
            }
            fs::set_permissions(&a, fs::Permissions::from_mode(mode)).map_err(number)
        }
    }
}

/// Everything below a directory: paths, kinds and permissions, link counts, sizes and contents.
fn described(root: &Path, at: &Path, all: &mut Vec<String>) {
    let mut names: Vec<PathBuf> =
        fs::read_dir(at).expect("list").map(|entry| entry.expect("an entry").path()).collect();
    names.sort();
    for path in names {
        let found = fs::symlink_metadata(&path).expect("lstat");
        let shown = path.strip_prefix(root).expect("below").display();
        let mode = found.mode();
        if found.is_dir() {
            all.push(format!("{shown} {mode:o} {}", found.nlink()));
            described(root, &path, all);
        } else if found.is_symlink() {
            let target = fs::read_link(&path).expect("readlink");
            all.push(format!("{shown} {mode:o} {} {} -> {}", found.nlink(), found.len(), target.display()));
        } else {
            let data = fs::read(&path).expect("read");
            assert_eq!(data.len() as u64, found.len(), "{shown}");
            let sum = data.iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            all.push(format!("{shown} {mode:o} {} {} {sum:x}", found.nlink(), found.len()));
        }
    }
}

/// Does the operations of a seed in both trees, and returns how many.
fn operate_on_both(roots: &[PathBuf; 2], seed: u64, operations: usize) -> usize {
    roots.iter().for_each(|root| fs::create_dir(root).expect("mkdir"));
    let mut random = [Random::new(seed), Random::new(seed)];
    for number in 0..operations {
        let [here, there] = [0, 1].map(|i| operate(&roots[i], &mut random[i]));
        assert_eq!(here, there, "operation {number} in {}", roots[0].display());
    }
    operations
}

#[test]
fn a_tree_is_what_the_same_operations_make_of_a_plain_directory() {
    let (mut operations, mut things) = (0, 0);
    campaign("operations on trees in a mount").run(|seed, _| {
        let (kind, each) = kind_and_operations(seed);
        println!("seed {seed}: {kind}, {TREES} trees, {each} operations on each");
        let mut mounted = Mounted::new(kind);
        let plain = Scratch::new();
        operations += std::thread::scope(|scope| {
            let trees: Vec<_> = (0..TREES)
                .map(|tree| {
                    let roots =
                        [mounted.path(), plain.as_path().into()].map(|root| root.join(format!("tree{tree}")));
                    scope.spawn(move || operate_on_both(&roots, seed * TREES + tree, each))
                })
                .collect();
            trees.into_iter().map(|tree| tree.join().expect("no difference")).sum::<usize>()
        });
        let mut expected = Vec::new();
        described(plain.as_path(), plain.as_path(), &mut expected);
        assert!(expected.len() > 10, "there is nothing to compare");
        things += expected.len();
        for _ in 0..2 {
            let mut found = Vec::new();
            described(&mounted.path(), &mounted.path(), &mut found);
            assert_eq!(found, expected, "{kind}");
            mounted.stop();
            mounted.start();
        }
        mounted.stop();
    });
    println!("{operations} operations in two trees each, {things} files, directories and links compared");
}
