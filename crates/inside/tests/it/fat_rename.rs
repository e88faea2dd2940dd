//! Renaming in FAT: what POSIX wants, held against mtools and fsck.fat, and every state that a power loss can leave.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{path, pattern, read, run, try_run, write};
use atrest_filetree::{FileTree, IfExists, TreeError, TreePath};
use atrest_inside::{Access, open_tree};
use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_testkit::{FaultDevice, Random, Scratch};

/// Size in KiB and options of mkfs.vfat.
const VARIANTS: [(&str, &str); 4] =
    [("720", ""), ("20480", "-F 16"), ("40960", "-F 32"), ("70000", "-F 32 -S 1024 -s 1")];

fn mkfs(image: &Path, kib: &str, options: &str) -> Vec<u8> {
    let _ = fs::remove_file(image);
    let options: Vec<&str> = options.split_whitespace().collect();
    let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"-C"];
    for option in &options {
        args.push(option);
    }
    args.extend([&image as &dyn AsRef<OsStr>, &kib]);
    run("mkfs.vfat", &args);
    fs::read(image).expect("made")
}

fn open(device: &Arc<FaultDevice>) -> Box<dyn FileTree> {
    open_tree(device.clone(), Access::ReadWrite).expect("the filesystem opens")
}

fn mv(tree: &dyn FileTree, from: &str, to: &str) -> Result<(), TreeError> {
    tree.rename(&path(from), &path(to), IfExists::Replace)
}

/// fsck.fat finds nothing at all.
fn assert_clean(bytes: &[u8], image: &Path) {
    fs::write(image, bytes).expect("writable");
    let output = try_run("fsck.fat", &[&"-n", &"-v", &image]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints =
        ["Dirty bit", "wrong", "does not", "differences", "Free cluster summary", "share", "Orphan"];
    let complains = complaints.iter().any(|complaint| text.contains(complaint));
    assert!(output.is_ok() && !complains, "fsck.fat finds:\n{text}");
}

/// The names in a directory, as mtools lists them.
fn listed(image: &Path, directory: &str) -> Vec<String> {
    let output = run("mdir", &[&"-b", &"-i", &image, &format!("::/{directory}")]);
    let text = String::from_utf8(output.stdout).expect("text");
    let mut names: Vec<String> = text
        .lines()
        .map(|line| line.trim_end_matches('/').rsplit('/').next().unwrap_or("").to_owned())
        .collect();
    names.sort();
    names
}

fn contents(image: &Path, file: &str) -> Option<Vec<u8>> {
    let output = try_run("mcopy", &[&"-i", &image, &format!("::/{file}"), &"-"]);
    output.is_ok().then_some(output.stdout)
}

#[test]
fn every_kind_of_rename_leaves_what_mtools_and_fsck_expect() {
    let dir = Scratch::new();
    let image = dir.path("image");
    for (kib, options) in VARIANTS {
        println!("{kib} {options}");
        let device = Arc::new(FaultDevice::new(mkfs(&image, kib, options)));
        let tree = open(&device);
        let tree = &*tree;
        for directory in ["a", "a/inner directory", "b", "b/empty"] {
            tree.make_dir(&path(directory)).expect("made");
        }
        let data = pattern(1, 20_000);
        write(tree, &path("a/file"), &data).expect("written");
        write(tree, &path("a/inner directory/leaf"), b"leaf").expect("written");
        write(tree, &path("b/old"), &pattern(2, 9000)).expect("written");
        let check = |names: &[(&str, &[&str])]| {
            tree.flush().expect("flushed");
            assert_clean(&device.image(), &image);
            for (directory, names) in names {
                assert_eq!(listed(&image, directory), *names, "{directory}");
            }
        };
        // Within a directory: longer, shorter, in other letters, and to what is the short name of the long one.
        for (from, to) in [
            ("file", "A considerably longer name than before.txt"),
            ("A considerably longer name than before.txt", "short"),
            ("short", "SHORT"),
            ("SHORT", "Short"),
            ("Short", "ümlaut – ∑"),
            ("ümlaut – ∑", "Mixed Case name.text"),
        ] {
            mv(tree, &format!("a/{from}"), &format!("a/{to}"))
                .unwrap_or_else(|error| panic!("{to}: {error}"));
            let entries = tree.list(&path("a")).expect("a directory");
            let names: Vec<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
            assert_eq!(names.iter().filter(|name| **name == to.as_bytes()).count(), 1, "{to} in {names:?}");
            assert_eq!(names.len(), 2);
            assert!(read(tree, &path(&format!("a/{to}"))) == data, "{to}");
            tree.flush().expect("flushed");
            assert_clean(&device.image(), &image);
        }
        mv(tree, "a/Mixed Case name.text", "a/MIXEDC~1.TEX").expect("its own short name");
        check(&[("a", &["MIXEDC~1.TEX", "inner directory"]), ("b", &["empty", "old"])]);
        assert!(contents(&image, "a/MIXEDC~1.TEX") == Some(data.clone()));

        // To another directory, over a file, and with all that a directory holds.
        mv(tree, "a/MIXEDC~1.TEX", "B/OLD").expect("replaced");
        check(&[("a", &["inner directory"]), ("b", &["empty", "old"])]);
        assert!(contents(&image, "b/old") == Some(data.clone()));
        mv(tree, "a/inner directory", "b/empty").expect("an empty directory is replaced");
        check(&[("a", &[]), ("b", &["empty", "old"]), ("b/empty", &["leaf"])]);
        mv(tree, "b/empty", "moved to the root").expect("moved");
        check(&[("b", &["old"]), ("moved to the root", &["leaf"])]);
        mv(tree, "moved to the root", "a/and back").expect("moved");
        check(&[("a/and back", &["leaf"])]);
        assert_eq!(read(tree, &path("a/and back/leaf")), b"leaf");
        let free = tree.space().expect("known").free;
        let again = open(&Arc::new(FaultDevice::new(device.image())));
        assert_eq!(again.space().expect("known").free, free, "what was replaced is free");

        // What can't be done changes nothing.
        tree.flush().expect("flushed");
        let before = device.image();
        write(tree, &path("x"), b"x").expect("written");
        tree.make_dir(&path("full")).expect("made");
        write(tree, &path("full/y"), b"y").expect("written");
        tree.flush().expect("flushed");
        let with_more = device.image();
        assert!(before != with_more);
        for (from, to, error) in [
            ("a", "a/below", TreeError::IntoItself),
            ("A", "a/and back/below", TreeError::IntoItself),
            ("a", "a/and back", TreeError::IntoItself),
            ("x", "a", TreeError::IsADirectory),
            ("a", "x", TreeError::NotADirectory),
            ("a", "full", TreeError::NotEmpty),
            ("nothing", "z", TreeError::NotFound),
            ("x", "nowhere/z", TreeError::NotFound),
            ("x", "b/old/z", TreeError::NotADirectory),
            ("x", "a:b", TreeError::UnsupportedName { len: 3 }),
            ("", "z", TreeError::IsADirectory),
            ("x", "", TreeError::Exists),
        ] {
            assert_eq!(mv(tree, from, to), Err(error), "{from} to {to}");
        }
        for to in ["b/old", "full", "x"] {
            let to = path(to);
            assert_eq!(tree.rename(&path("x"), &to, IfExists::Fail), Err(TreeError::Exists), "{to}");
        }
        assert_eq!(mv(tree, "x", "x"), Ok(()));
        tree.flush().expect("flushed");
        assert!(device.image() == with_more, "a rename that failed has written");
        tree.rename(&path("x"), &path("X"), IfExists::Fail)
            .expect("its own name in other letters is not taken");
        tree.rename(&path("X"), &path("full/x"), IfExists::Fail).expect("not taken");
        check(&[("full", &["x", "y"])]);
    }
}

#[test]
fn a_thousand_renames_leave_a_clean_filesystem_and_the_same_files() {
    let dir = Scratch::new();
    let image = dir.path("image");
    for (seed, (kib, options)) in [VARIANTS[0], VARIANTS[2]].into_iter().enumerate() {
        let device = Arc::new(FaultDevice::new(mkfs(&image, kib, options)));
        let tree = open(&device);
        let mut random = Random::new(seed as u64);
        let directories = ["", "d/", "d/e/"];
        tree.make_dir(&path("d")).expect("made");
        tree.make_dir(&path("d/e")).expect("made");
        let mut model = std::collections::BTreeMap::new();
        for step in 0..1000_u64 {
            let name = |random: &mut Random| {
                let long = "long ".repeat(random.index(4));
                format!("{}{long}{}", directories[random.index(3)], random.below(12))
            };
            let (from, to) = (name(&mut random), name(&mut random));
            if model.len() < 20 && random.below(3) == 0 {
                write(&*tree, &path(&from), &pattern(step, 700)).expect("written");
                model.insert(from, step);
                continue;
            }
            let moved = mv(&*tree, &from, &to);
            match model.remove(&from) {
                Some(seed) => {
                    assert_eq!(moved, Ok(()), "{from} to {to}");
                    model.insert(to, seed);
                }
                None => assert_eq!(moved, Err(TreeError::NotFound), "{from} to {to}"),
            }
            if step % 50 == 0 {
                tree.flush().expect("flushed");
                assert_clean(&device.image(), &image);
            }
        }
        tree.flush().expect("flushed");
        assert_clean(&device.image(), &image);
        let tree = open(&Arc::new(FaultDevice::new(device.image())));
        for (name, seed) in &model {
            assert!(read(&*tree, &path(name)) == pattern(*seed, 700), "{name}");
        }
        let count = |at: &str| tree.list(&path(at)).expect("a directory").len();
        assert_eq!(count("") + count("d") + count("d/e") - 2, model.len());
    }
}

/// A rename that a power loss interrupts.
struct Case {
    what: &'static str,
    from: &'static str,
    to: &'static str,
    /// What is at `to` before, if it is a file.
    replaced: Option<u64>,
    directory: bool,
    /// Files that fill the directories up before.
    padding: usize,
    /// A single write of a sector does it.
    at_once: bool,
}

const CASE: Case =
    Case { what: "", from: "d/a", to: "d/b", replaced: None, directory: false, padding: 0, at_once: false };

const CASES: [Case; 10] = [
    Case { what: "in one sector", at_once: true, ..CASE },
    Case { what: "in one sector, a longer name", to: "d/rather longer than before", at_once: true, ..CASE },
    Case { what: "in other letters", to: "d/A", at_once: true, ..CASE },
    Case { what: "to another sector", to: "d/much longer than there is room for here", padding: 4, ..CASE },
    Case { what: "from a name in two sectors", from: "d/this takes three slots", padding: 4, ..CASE },
    Case { what: "to a directory that grows", to: "e/long enough for three slots", padding: 31, ..CASE },
    Case { what: "over a file", to: "e/old", replaced: Some(7), ..CASE },
    Case { what: "over a file beside it", to: "d/old", replaced: Some(7), at_once: true, ..CASE },
    Case { what: "a directory", to: "e/directory with a long name", directory: true, padding: 3, ..CASE },
    Case { what: "a directory to the root", to: "directory", directory: true, ..CASE },
];

/// Before the rename: what is moved, what is replaced, and what is around them.
fn prepare(tree: &dyn FileTree, case: &Case) {
    for directory in ["d", "e"] {
        tree.make_dir(&path(directory)).expect("made");
        for i in 0..case.padding {
            write(tree, &path(&format!("{directory}/padding number {i}")), b"padding").expect("written");
        }
    }
    match case.directory {
        true => {
            tree.make_dir(&path(case.from)).expect("made");
            write(tree, &path(&format!("{}/leaf", case.from)), &pattern(5, 3000)).expect("written");
        }
        false => drop(write(tree, &path(case.from), &pattern(5, 3000)).expect("written")),
    }
    if let Some(seed) = case.replaced {
        write(tree, &path(case.to), &pattern(seed, 5000)).expect("written");
    }
    tree.flush().expect("flushed");
}

/// What is under a name, through `contents`: its own bytes or those of the leaf in it.
fn found(contents: &dyn Fn(&str) -> Option<Vec<u8>>, case: &Case, name: &str) -> Option<Vec<u8>> {
    let leaf = format!("{name}/leaf");
    contents(if case.directory { &leaf } else { name })
}

/// Whether the old name is still there, the new one already, or both. Anything else fails.
fn judge(
    contents: &dyn Fn(&str) -> Option<Vec<u8>>,
    case: &Case,
    names: &[Vec<u8>],
    state: &str,
) -> (bool, bool) {
    let moved = pattern(5, 3000);
    // In a FAT, names in other letters are the same name.
    let same_name = case.from.eq_ignore_ascii_case(case.to);
    let (old, new) = (found(contents, case, case.from), found(contents, case, case.to));
    if same_name {
        assert!(old.as_ref() == Some(&moved), "{}: the file is gone after {state}: {names:?}", case.what);
        return (true, true);
    }
    let (is_old, is_new) = (old.as_ref() == Some(&moved), new.as_ref() == Some(&moved));
    assert!(is_old || is_new, "{}: neither name is there after {state}: {names:?}", case.what);
    if let Some(seed) = case.replaced {
        let kept = new == Some(pattern(seed, 5000));
        assert!(is_new || kept, "{}: what is replaced is neither old nor new after {state}", case.what);
    }
    (is_old, is_new)
}

#[test]
fn a_power_loss_leaves_the_old_name_or_the_new_one_or_both() {
    let dir = Scratch::new();
    let image = dir.path("image");
    for (variant, (kib, options)) in [VARIANTS[0], VARIANTS[2]].into_iter().enumerate() {
        let empty = mkfs(&image, kib, options);
        // Each state of the large one is forty megabytes: what differs in FAT32 is the root.
        for case in CASES.iter().filter(|case| variant == 0 || case.what.ends_with("root")) {
            let device = Arc::new(FaultDevice::new(empty.clone()));
            let tree = open(&device);
            prepare(&*tree, case);
            device.forget();
            mv(&*tree, case.from, case.to).expect("renamed");
            // Durable when it returns, and clean once flushed.
            device.acknowledge(1);
            tree.flush().expect("flushed");
            drop(tree);
            assert_clean(&device.image(), &image);
            let limits =
                Limits { exhaustive: 5, sampled: 12, tears: 3, tearing: Tearing::BetweenSectors, seed: 1 };
            let (mut states, mut both, mut done) = (0, 0, 0);
            device.recording().for_each_power_loss(&limits, |aftermath| {
                states += 1;
                let state = aftermath.power_loss.to_string();
                let tree = open(&Arc::new(FaultDevice::new(aftermath.image.clone())));
                // Opened anew for each name: one of two names of a directory is refused.
                let ours = |name: &str| {
                    let tree = open(&Arc::new(FaultDevice::new(aftermath.image.clone())));
                    tree.metadata(&path(name)).is_ok().then(|| read(&*tree, &path(name)))
                };
                let names: Vec<Vec<u8>> = ["", "d", "e"]
                    .iter()
                    .flat_map(|at| tree.list(&path(at)).expect("a directory"))
                    .map(|entry| entry.name)
                    .collect();
                let (is_old, is_new) = judge(&ours, case, &names, &state);
                let is_both = is_old && is_new && !case.from.eq_ignore_ascii_case(case.to);
                both += u32::from(is_both);
                done += u32::from(is_new);
                if aftermath.acknowledged.contains(&1) {
                    assert!(is_new && !is_both, "{}: not durable after {state}", case.what);
                }
                // Each state costs programs to be run: of the large filesystem a part of them is enough.
                if variant == 1 && states % 5 != 0 {
                    return;
                }
                fs::write(&image, &aftermath.image).expect("writable");
                let before = try_run("fsck.fat", &[&"-n", &image]);
                let before = String::from_utf8_lossy(&before.stdout).into_owned();
                assert_eq!(before.contains("share clusters"), is_both, "{}: {state}:\n{before}", case.what);
                // What fsck does by itself: the name that it meets last loses its clusters.
                let mended = try_run("fsck.fat", &[&"-a", &image]);
                // A directory without clusters goes the next time, and its long name the time after.
                for _ in 0..if case.directory { 2 } else { 0 } {
                    try_run("fsck.fat", &[&"-a", &image]);
                }
                let mended = String::from_utf8_lossy(&mended.stdout).into_owned();
                let again = try_run("fsck.fat", &[&"-n", &image]);
                let again = (again.is_ok(), String::from_utf8_lossy(&again.stdout).into_owned());
                assert!(again.0, "{}: {state}:\n{mended}{}", case.what, again.1);
                let theirs = |name: &str| contents(&image, name);
                let one = found(&theirs, case, case.from) == Some(pattern(5, 3000))
                    || found(&theirs, case, case.to) == Some(pattern(5, 3000));
                assert!(one, "{}: fsck.fat leaves neither after {state}:\n{before}\n{mended}", case.what);
            });
            println!(
                "{kib} KiB, {}: {states} states, {both} with both names, {done} with the new one",
                case.what
            );
            assert!(states > 4 && done > 0);
            assert_eq!(both == 0, case.at_once, "{}", case.what);
        }
    }
}

#[test]
fn a_device_that_fails_in_a_rename_ends_all_writing() {
    let dir = Scratch::new();
    let image = dir.path("image");
    let empty = mkfs(&image, "720", "");
    for writes in 0..12 {
        let device = Arc::new(FaultDevice::new(empty.clone()));
        let tree = open(&device);
        prepare(&*tree, &CASES[3]);
        device.fail(atrest_testkit::fault::Fault::GoneAfter { writes: device.counts().0 + writes });
        let moved = mv(&*tree, CASES[3].from, CASES[3].to);
        if moved == Ok(()) {
            assert!(writes > 2, "the order is not what this test thinks");
            return;
        }
        assert!(matches!(moved, Err(TreeError::Device(_))), "{moved:?}");
        device.heal();
        assert_eq!(write(&*tree, &path("more"), b""), Err(TreeError::EarlierWriteFailed));
        let tree = open(&Arc::new(FaultDevice::new(device.image())));
        let there = |name: &str| tree.metadata(&path(name)).is_ok();
        assert!(there(CASES[3].from) || there(CASES[3].to), "after {writes} writes");
        assert!(tree.list(&TreePath::root()).is_ok());
    }
    panic!("a rename takes more than 12 writes");
}
