//! A volume with a FAT whose directories contain each other: every command ends, in bounded memory, and removes nothing.

use crate::common;
use std::fs;

use crate::common::{CHEAP, Scratch};

/// Makes `plain`, a FAT of one megabyte with these directories, in which some entries lead where others lead, and `vol` of it.
fn volume(scratch: &Scratch, directories: &[&str], leads: &[(&str, &str)]) -> Vec<u8> {
    let made = directories.iter().map(|name| format!(" ::/{name}")).collect::<String>();
    let fill = "mcopy -i plain leaf ::/AAA/LEAF && mcopy -i plain leaf ::/TOP";
    scratch.file("leaf", vec![b'x'; 3000]);
    let make = format!("rm -f plain vol; mkfs.fat -C plain 1024 && mmd -i plain{made} && {fill}");
    scratch.bash(&make).ok();
    let mut bytes = fs::read(scratch.path("plain")).expect("made");
    for (from, to) in leads {
        let first = |name: &str| {
            let short = format!("{name:11}");
            bytes.windows(11).position(|window| window == short.as_bytes()).expect("the entry is there") + 26
        };
        let (from, to) = (first(from), first(to));
        bytes.copy_within(to..to + 2, from);
    }
    scratch.file("plain", &bytes);
    let format = format!("$ATREST format --size 18M --key-file key {} vol", CHEAP.join(" "));
    scratch.bash(&format!("{format} && $ATREST encrypt --key-file key plain vol")).ok();
    fs::read(scratch.path("vol")).expect("made")
}

/// Runs a command for a minute at most, with three gigabytes of address space, most of which the program's threads map and
/// never touch.
fn bounded(scratch: &Scratch, line: &str) -> common::Ran {
    scratch.bash(&format!("ulimit -v 3000000; timeout 60 $ATREST {line} --key-file key"))
}

#[test]
fn rm_cp_ls_and_mount_end_and_nothing_is_removed() {
    let scratch = Scratch::new();
    scratch.file("key", "passphrase");
    let deep: Vec<String> =
        (0..18).map(|i| format!("AAA{}", (0..i).map(|i| format!("/D{i:02}")).collect::<String>())).collect();
    let mut twice: Vec<String> =
        deep.iter().enumerate().map(|(i, above)| format!("{above}/E{i:02}")).collect();
    twice.extend(deep.iter().enumerate().map(|(i, above)| format!("{above}/D{i:02}")));
    twice.sort_by_key(|name| name.len());
    let mut twice: Vec<&str> = twice.iter().map(String::as_str).collect();
    twice.insert(0, "AAA");
    let names: Vec<(String, String)> = (0..18).map(|i| (format!("E{i:02}"), format!("D{i:02}"))).collect();
    let leads: Vec<(&str, &str)> = names.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    for (what, directories, leads, says) in [
        ("its own parent", &["AAA", "AAA/BBB"][..], &[("BBB", "AAA")][..], "/AAA and /AAA/BBB"),
        ("a circle of two", &["AAA", "AAA/BBB", "AAA/BBB/CCC"], &[("CCC", "AAA")], "/AAA and /AAA/BBB/CCC"),
        ("a quarter of a million paths", &twice, &leads, "belongs to both"),
        ("a file and a directory", &["AAA", "BBB"], &[("LEAF", "BBB")], "/BBB and /AAA/LEAF"),
        ("two files", &["AAA"], &[("LEAF", "TOP")], "/TOP and /AAA/LEAF"),
    ] {
        println!("{what}");
        let before = volume(&scratch, directories, leads);
        let removed = bounded(&scratch, "rm -r vol /AAA").fails(4, says);
        assert!(removed.stderr.contains("fsck"), "{}", removed.stderr);
        bounded(&scratch, "rm -r vol /").fails(4, "the filesystem is damaged");
        bounded(&scratch, "rm vol /TOP").fails(4, "the filesystem is damaged");
        bounded(&scratch, "cp -r vol:/ out").fails(4, "the filesystem is damaged");
        assert!(!scratch.path("out").exists(), "{what}: something was copied");
        let kept = bounded(&scratch, "cp -r --keep-going vol:/ kept");
        assert!(matches!(kept.code, 0 | 4), "{what}: {}{}", kept.code, kept.stderr);
        let copied = scratch.bash("find kept | wc -l; du -sb kept | cut -f1; rm -rf kept").ok();
        let numbers: Vec<u64> = copied.stdout.lines().map(|line| line.parse().expect("a number")).collect();
        assert!(numbers[0] <= 50 && numbers[1] < 1 << 20, "{what}: {numbers:?}");
        bounded(&scratch, "ls -l vol /AAA").ok();
        assert!(fs::read(scratch.path("vol")).expect("there") == before, "{what}: something was removed");
    }
    // The one with most paths is mounted as well.
    volume(&scratch, &twice, &leads);
    let name = scratch.session();
    let line = format!(
        "mkdir -p m; timeout 100 $ATREST mount --key-file key --name {name} vol m --run sh -c 'timeout 60 find $ATREST_PATH | wc -l'"
    );
    let found = scratch.bash(&line).ok();
    let count: usize =
        found.stdout.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number");
    assert!((20..=60).contains(&count), "{count} paths");
}
