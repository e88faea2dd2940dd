//! What unlocking at boot costs, beside a busybox script with cryptsetup and its libraries: bytes, and instructions from the kernel's first one to the first
//! process on the encrypted root. `ATREST_BLESS=1` writes them to docs/STATIC.md.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use atrest_testkit::Campaign;
use atrest_testkit::board::{Parts, atrest_init, is_as_released};
use atrest_testkit::needs::skipped;
use atrest_testkit::oracle::{Program, workspace};

use crate::board::fit::archive;
use crate::board::images::{Contents, initramfs, pack_image};
use crate::board::system::System;

/// With it, the clock of the board counts instructions: one is a nanosecond.
const COUNTED: &str = "-icount shift=0,sleep=off";

/// Boots of each, of which the median counts.
const RUNS: usize = 5;

/// What the article's initramfs does, in busybox's shell: the same modules in the same order, the same key.
const SCRIPT: &str = r#"#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mount -t tmpfs tmpfs /run
version=$(busybox uname -r)
while read -r module; do busybox insmod "/lib/modules/$version/$module" 2> /dev/null; done < /etc/atrest/modules
busybox mkdir -p /run/cryptsetup /sysroot
DM_DISABLE_UDEV=1 /sbin/cryptsetup open --key-file /etc/root.key /dev/vda root
busybox mount -t ext4 -o ro /dev/mapper/root /sysroot
for place in proc sys dev run; do busybox mount --move $place /sysroot/$place; done
exec busybox switch_root /sysroot /sbin/init
"#;

/// The libraries that a program is linked with, and those that they are, and the loader.
fn closure(program: &Path) -> BTreeSet<PathBuf> {
    let usr = &Parts::get().programs;
    let mut found = BTreeSet::from([usr.join("lib/ld-linux-aarch64.so.1")]);
    let mut open = vec![program.to_path_buf()];
    while let Some(file) = open.pop() {
        let told = Program::named("readelf").args(["--wide", "--dynamic"]).arg(&file).ok().text();
        for line in told.lines().filter(|line| line.contains("(NEEDED)")) {
            let name = line.split(['[', ']']).nth(1).expect("a name in brackets");
            let path = match name.starts_with("ld-linux") {
                true => usr.join("lib").join(name),
                false => usr.join("lib/aarch64-linux-gnu").join(name),
            };
            assert!(path.is_file(), "{} needs {name}, which is in no package", file.display());
            if found.insert(path.clone()) {
                open.push(path);
            }
        }
    }
    found
}

fn bytes(path: &Path) -> u64 {
    fs::metadata(path).expect("the size of a file").len()
}

/// An initramfs of ours, unpacked and packed again with others' programs, so that nothing but the contents differs.
fn repacked(name: &str, change: impl FnOnce(&Path)) -> PathBuf {
    let system = System::get();
    let bench = system.directory.path(name);
    let root = bench.join("root");
    fs::create_dir_all(&root).expect("make a directory");
    let crypttab = bench.join("crypttab");
    fs::write(&crypttab, format!("root UUID={} /etc/root.key luks\n", system.uuid)).expect("write crypttab");
    let contents =
        Contents { crypttab: Some(crypttab), key: Some(system.volume.key.clone()), busybox: false };
    initramfs(&bench.join("ours"), &contents, "--compress none");
    let ours = fs::read(bench.join("ours")).expect("read the initramfs");
    Program::named("cpio").words("-i -d --quiet --no-absolute-filenames").current_dir(&root).stdin(ours).ok();
    change(&root);
    archive(&root, &bench.join("initramfs"));
    Program::named("gzip").args(["-9", "-n", "-f"]).arg(bench.join("initramfs")).ok();
    fs::rename(bench.join("initramfs.gz"), bench.join("initramfs")).expect("rename the initramfs");
    bench
}

fn with_cryptsetup(root: &Path) {
    let parts = Parts::get();
    let program = parts.programs.join("sbin/cryptsetup");
    for place in ["sbin", "bin", "lib"] {
        fs::create_dir_all(root.join(place)).expect("make a directory");
    }
    fs::copy(&program, root.join("sbin/cryptsetup")).expect("copy cryptsetup");
    fs::copy(parts.busybox(), root.join("bin/busybox")).expect("copy busybox");
    std::os::unix::fs::symlink("busybox", root.join("bin/sh")).expect("link the shell");
    for library in closure(&program) {
        fs::copy(&library, root.join("lib").join(library.file_name().expect("a name")))
            .expect("copy a library");
    }
    fs::remove_file(root.join("init")).expect("remove our init");
    fs::write(root.join("init"), SCRIPT).expect("write init");
    fs::set_permissions(root.join("init"), PermissionsExt::from_mode(0o755)).expect("make init a program");
}

/// Instructions in thousands of millions until the first process runs: that of the initramfs, and that of the root.
fn instructions(image: &Path) -> (f64, f64) {
    let mut serial = System::get().board().fit(image).arguments(COUNTED).start();
    serial.boot("console=ttyAMA0 loglevel=7 panic=-1 root=/dev/mapper/root").expect("U-Boot takes the image");
    let begun = serial.expect("] Run /init as init process");
    let begun =
        begun.rsplit('[').next().and_then(|stamp| stamp.trim().parse().ok()).expect("the kernel's clock");
    let printed = serial.until_off();
    let up = printed.split("SYSTEM: up for ").nth(1).and_then(|rest| rest.split(' ').next());
    (begun, up.and_then(|up| up.parse().ok()).unwrap_or_else(|| panic!("no system:\n{printed}")))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
fn at_one_commit_of_four_unlocking_takes_less_room_than_with_cryptsetup_and_its_libraries() {
    if !is_as_released() {
        return skipped("a matter of the program as it is released: ATREST_ROTATION=2, or make test-full");
    }
    let (table, _) = sizes();
    println!("{table}");
}

/// The first rows of the table, and the initramfs of each.
fn sizes() -> (String, [PathBuf; 2]) {
    let cryptsetup = Parts::get().programs.join("sbin/cryptsetup");
    let libraries = closure(&cryptsetup);
    let theirs = bytes(&cryptsetup) + libraries.iter().map(|path| bytes(path)).sum::<u64>();
    // A shell calls it. Ours is the first process itself.
    let shell = bytes(&Parts::get().busybox());
    let ours = bytes(&atrest_init());
    let mut table = String::from("| | atrest-init | cryptsetup and busybox's shell |\n|---|---|---|\n");
    let mut line = |what: &str, ours: String, theirs: String| {
        writeln!(table, "| {what} | {ours} | {theirs} |").expect("write to a string");
    };
    line("libraries beside it", "none".into(), format!("{} and the loader", libraries.len() - 1));
    line("program with its libraries, bytes", ours.to_string(), format!("{theirs}, and {shell} of busybox"));
    assert!(ours * 4 < theirs + shell, "{ours} bytes against {theirs} and {shell}");

    let benches = [repacked("ours", |_| ()), repacked("theirs", with_cryptsetup)];
    let [ours, theirs] = benches.each_ref().map(|bench| bytes(&bench.join("initramfs")));
    line("initramfs with modules, gzip -9, bytes", ours.to_string(), theirs.to_string());
    assert!(ours < theirs, "{ours} bytes against {theirs}");

    (table, benches)
}

/// Counting makes the emulator slow.
#[test]
fn in_whole_campaigns_unlocking_takes_fewer_instructions_than_with_cryptsetup() {
    if !Campaign::is_full() && env::var_os("ATREST_BLESS").is_none() {
        return skipped("a matter of whole campaigns: ATREST_CAMPAIGN=full, or make test-full");
    }
    let (mut table, benches) = sizes();
    let mut line = |what: &str, ours: String, theirs: String| {
        writeln!(table, "| {what} | {ours} | {theirs} |").expect("write to a string");
    };
    let [ours, theirs] = benches.map(|bench| {
        let image = pack_image(&bench);
        let (begun, up): (Vec<_>, Vec<_>) = (0..RUNS).map(|_| instructions(&image)).unzip();
        (median(begun), median(up))
    });
    line(
        "instructions from the kernel's first to /init, × 10⁹",
        format!("{:.2}", ours.0),
        format!("{:.2}", theirs.0),
    );
    line(
        "from /init to init on the encrypted root, × 10⁹",
        format!("{:.2}", ours.1 - ours.0),
        format!("{:.2}", theirs.1 - theirs.0),
    );
    line("together, × 10⁹", format!("{:.2}", ours.1), format!("{:.2}", theirs.1));
    println!("{table}");
    assert!(ours.1 < theirs.1, "{ours:?} against {theirs:?} instructions");
    if env::var_os("ATREST_BLESS").is_some() {
        let libraries = closure(&Parts::get().programs.join("sbin/cryptsetup"));
        let names: Vec<_> = libraries.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        let lines: Vec<_> = names.chunks(5).map(|some| some.join(", ")).collect();
        write_down(&table, &format!("cryptsetup is linked with\n{}.\n", lines.join(",\n")));
    }
}

fn write_down(table: &str, libraries: &str) {
    let path = workspace().join("docs/STATIC.md");
    let text = fs::read_to_string(&path).expect("read docs/STATIC.md");
    let (before, rest) = text.split_once("<!-- boot figures -->\n").expect("the place for the figures");
    let (_, after) = rest.split_once("<!-- end -->").expect("the end of the figures");
    let text = format!("{before}<!-- boot figures -->\n{table}\n{libraries}<!-- end -->{after}");
    fs::write(path, text).expect("write docs/STATIC.md");
}
