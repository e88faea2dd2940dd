//! Directories listed in portions while they are changed.

use std::collections::{BTreeMap, BTreeSet};

use atrest_filetree::{Cursor, FileTree, IfExists, TreeError, TreePath, Wanted};
use atrest_inside::{Access, open_flash_tree};
use atrest_testkit::{Random, Scratch};

use crate::common::{Memory, assert_portions, path, run, write};
use crate::littlefs::flash;

fn name(number: u64) -> String {
    // Long names take slots of their own in a FAT.
    format!("a file of some length, number {number:04}")
}

fn at(name: &str) -> TreePath {
    path("directory").join(name).expect("a name")
}

/// FAT12, FAT32 and LittleFS, with 200 files in a directory.
fn trees() -> Vec<(&'static str, Box<dyn FileTree>)> {
    let scratch = Scratch::new();
    let fat = |file: &str, kib: &str, bits: &str| {
        let image = scratch.path(file);
        run("mkfs.vfat", &[&"-C", &"-F", &bits, &image, &kib]);
        crate::common::open(Memory::load(&image))
    };
    let trees = vec![
        ("FAT12", fat("12", "8192", "12")),
        ("FAT32", fat("32", "40960", "32")),
        ("LittleFS", open_flash_tree(flash(1024), Access::ReadWrite).expect("it opens")),
    ];
    for (kind, tree) in &trees {
        tree.make_dir(&path("directory")).expect("room");
        for number in 0..200 {
            write(&**tree, &at(&name(number)), &vec![7; number as usize % 5])
                .unwrap_or_else(|e| panic!("{kind}: {e}"));
        }
    }
    trees
}

#[test]
fn what_is_there_all_the_time_is_listed_once_whatever_is_changed_meanwhile() {
    for (kind, tree) in trees() {
        assert_portions(&*tree, &path("directory"));
        let mut random = Random::new(5);
        let (mut seen, mut from) = (BTreeMap::new(), Cursor::START);
        // Those of even numbers stay. Of the others some go, and some get other names.
        let (mut odd, mut new) = ((0..100).map(|i| 2 * i + 1).collect::<Vec<u64>>(), BTreeSet::new());
        loop {
            let wanted = Wanted { entries: 1 + random.below(12) as usize, metadata: random.below(2) == 0 };
            let portion = tree.list_from(&path("directory"), from, wanted).expect("it lists");
            let Some(last) = portion.last() else { break };
            from = last.next;
            for listed in portion {
                *seen.entry(String::from_utf8(listed.entry.name).expect("ours")).or_insert(0) += 1;
            }
            for _ in 0..2 {
                let Some(last) = odd.len().checked_sub(1) else { break };
                tree.remove(&at(&name(odd.swap_remove(random.below(last as u64 + 1) as usize))))
                    .expect("it is there");
                // Of another length, so that slots are left between names, and names lie where others began.
                let name = format!("new {:>1$}", new.len(), random.below(60) as usize + 1);
                write(&*tree, &at(&name), b"").expect("room");
                new.insert(name);
            }
        }
        for number in (0..200).step_by(2) {
            assert_eq!(seen.remove(&name(number)), Some(1), "{kind}: {number}");
        }
        for (name, times) in seen {
            let was_there = new.contains(&name) || name.starts_with("a file");
            assert!(was_there && times == 1, "{kind}: {name:?} {times} times");
        }
        // From the start all is as it is now.
        assert_portions(&*tree, &path("directory"));
        let gone = at(&name(0));
        tree.rename(&gone, &at("another name"), IfExists::Fail).expect("it is free");
        let all = tree.list_from(&path("directory"), Cursor::START, Wanted { entries: 1000, metadata: true });
        let all = all.expect("it lists").into_iter().map(|listed| listed.entry.name);
        let all: BTreeSet<Vec<u8>> = all.collect();
        assert!(all.contains(&b"another name"[..]) && !all.contains(name(0).as_bytes()), "{kind}");
        let file = tree.list_from(&gone, Cursor::START, Wanted { entries: 1, metadata: false });
        assert_eq!(file, Err(TreeError::NotFound), "{kind}");
        let file = tree.list_from(&at("another name"), Cursor::START, Wanted { entries: 1, metadata: false });
        assert_eq!(file, Err(TreeError::NotADirectory), "{kind}");
    }
}

/// What was written last is not in the directory yet, but in the file that is still open.
#[test]
fn a_listing_tells_the_size_of_a_file_that_is_being_written() {
    for (kind, tree) in trees() {
        let file = at(&name(3));
        tree.write_at(&file, 3, b"more").expect("room");
        assert_portions(&*tree, &path("directory"));
        assert_eq!(tree.metadata(&file).expect("it is there").size, 7, "{kind}");
    }
}
