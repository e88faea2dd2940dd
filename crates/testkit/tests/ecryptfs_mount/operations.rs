//! Random operations on trees, done in the mount and in a plain directory, which must look the same in the end.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atrest_testkit::Random;
use atrest_testkit::campaign::Campaign;

use super::{KINDS, Mounted};

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

#[test]
fn a_tree_is_what_the_same_operations_make_of_a_plain_directory() {
    let (time, operations) = if Campaign::is_full() { (150, usize::MAX) } else { (4, 500) };
    for kind in KINDS {
        let mut mounted = Mounted::new(kind);
        let plain = tempfile::tempdir().expect("a directory");
        let until = Instant::now() + Duration::from_secs(time);
        std::thread::scope(|scope| {
            for seed in 1..=3_u64 {
                let roots =
                    [mounted.path(), plain.path().into()].map(|root| root.join(format!("tree{seed}")));
                scope.spawn(move || {
                    roots.iter().for_each(|root| fs::create_dir(root).expect("mkdir"));
                    let mut random = [Random::new(seed), Random::new(seed)];
                    for number in 0..operations {
                        if Instant::now() > until {
                            break;
                        }
                        let [here, there] = [0, 1].map(|i| operate(&roots[i], &mut random[i]));
                        assert_eq!(here, there, "{kind}: operation {number} of seed {seed}");
                    }
                });
            }
        });
        let mut expected = Vec::new();
        described(plain.path(), plain.path(), &mut expected);
        assert!(expected.len() > 10, "there is nothing to compare");
        for _ in 0..2 {
            let mut found = Vec::new();
            described(&mounted.path(), &mounted.path(), &mut found);
            assert_eq!(found, expected, "{kind}");
            mounted.stop();
            mounted.start();
        }
        mounted.stop();
    }
}
