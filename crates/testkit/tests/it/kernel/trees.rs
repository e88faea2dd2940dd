//! Images that `atrest tree build` made, read and written by Linux: the running kernel, through loop devices, and Debian's under
//! emulation, which has ciphers that the running one may lack.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use atrest_testkit::atrest::{atrest, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::{Program, tool, workspace};
use atrest_testkit::{Campaign, Random, Scratch};

const DESCRIPTOR: &str = "0011223344556677";

/// Policies that the running kernel has ciphers for.
const HERE: [&str; 9] = [
    "v2",
    "v2:AES-256-XTS:AES-256-CTS:pad=4",
    "v2:pad=8",
    "v2:pad=16",
    "v2:iv-ino-lblk-64",
    "v2:iv-ino-lblk-32",
    "v2:unit=512",
    "v1:key=0011223344556677",
    "v1:key=0011223344556677:pad=4",
];

/// Policies that Debian's kernel has ciphers for. It is too old for data units below the block.
const THERE: [&str; 12] = [
    "v2",
    "v2:pad=4",
    "v2:pad=16",
    "v2:AES-128-CBC:AES-128-CTS",
    "v2:Adiantum",
    "v2:Adiantum:direct",
    "v2:iv-ino-lblk-64",
    "v2:iv-ino-lblk-32",
    "v1:key=0011223344556677",
    "v1:key=0011223344556677:AES-128-CBC",
    "v1:key=0011223344556677:Adiantum",
    "v1:key=0011223344556677:Adiantum:direct",
];

/// A directory with files of many sizes and names, links, holes and special files.
fn fill(dir: &Path, files: usize, random: &mut Random) {
    fs::create_dir_all(dir.join("directory/deeper")).expect("made");
    let mut named = vec![dir.to_owned(), dir.join("directory"), dir.join("directory/deeper")];
    for i in 0..files {
        let within = named[random.below(named.len() as u64) as usize].clone();
        // Numbers first, so that no two are alike; any bytes behind them but '/', NUL and what sha256sum writes
        // in its own way.
        let mut name = i.to_string().into_bytes();
        let len = [1, 15, 16, 17, 40, 143, 255][i % 7].max(name.len());
        while name.len() < len {
            match random.below(256) as u8 {
                b'/' | b'\\' | b'\r' | b'\n' | 0 => name.push(b'x'),
                byte if i % 2 == 0 => name.push(byte),
                byte => name.push(b'a' + byte % 26),
            }
        }
        let path = within.join(std::ffi::OsStr::from_bytes(&name));
        match i % 20 {
            0 => {
                fs::create_dir(&path).expect("made");
                named.push(path);
                continue;
            }
            1 => {
                let target = "t".repeat([1, 30, 59, 60, 400, 4000][i / 20 % 6]);
                symlink(target, &path).expect("linked");
                continue;
            }
            2 => {
                let file = fs::File::create(&path).expect("created");
                for part in 0..4 {
                    file.write_all_at(&random.bytes(5000), part * 100_000 + 3).expect("written");
                }
                file.set_len(450_000).expect("stretched");
            }
            _ => {
                let size = [0, 1, 15, 16, 17, 4095, 4096, 4097, 20_000, 70_000][random.below(10) as usize];
                fs::write(&path, random.bytes(size)).expect("written");
            }
        }
        let mode = [0o644, 0o600, 0o4755, 0o1640][i % 4];
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
    }
    fs::write(dir.join("twice"), b"linked").expect("written");
    fs::hard_link(dir.join("twice"), dir.join("directory/again")).expect("linked");
}

fn script(name: &str) -> Program {
    Program::at(workspace().join("tests/kernel").join(name))
}

/// Builds `image` in `scratch` with a directory for each policy, and one in the clear.
fn build(scratch: &Path, policies: &[&str], files: usize) -> PathBuf {
    let mut random = Random::new(11);
    let tree = scratch.join("tree");
    let image = scratch.join("image");
    write_key(
        scratch,
        "master.key",
        &(0..64_u8).map(|i| i.wrapping_mul(11).wrapping_add(5)).collect::<Vec<_>>(),
    );
    let mut build = atrest("tree build --size 192M --fscrypt-key master.key tree image").current_dir(scratch);
    for (i, policy) in policies.iter().enumerate() {
        fill(&tree.join(format!("p{i}")), files, &mut random);
        build = build.arg("--encrypt").arg(format!("p{i}={policy}"));
    }
    fill(&tree.join("clear"), files, &mut random);
    Program::named("mkfifo").arg(tree.join("p0/pipe")).ok();
    if Campaign::is_full() {
        fs::write(tree.join("p3/large"), random.bytes(64 << 20)).expect("room for 64 MiB");
    }
    build.ok();
    image
}

#[test]
fn a_built_tree_is_read_and_written_by_the_running_kernel() {
    let scratch = Scratch::new();
    // 1,000 files in the whole campaign, in ten directories.
    let image = build(scratch.as_path(), &HERE, if Campaign::is_full() { 110 } else { 25 });
    tool("mount");
    tool("e2fsck");
    let judged = script("tree-host.sh")
        .arg(&image)
        .args(["tree", "master.key", DESCRIPTOR])
        .current_dir(scratch.as_path())
        .ok()
        .text();
    assert_eq!(judged.matches("v2 contents=1 names=4 flags=").count(), 7, "{judged}");
    assert_eq!(judged.matches("v1 contents=1 names=4 flags=").count(), 2, "{judged}");
    assert!(judged.contains("names read and written by the kernel"), "{judged}");
    println!("{}", judged.lines().last().unwrap_or_default());
}

#[test]
fn a_built_tree_is_read_and_written_by_a_kernel_with_more_ciphers() {
    let scratch = Scratch::new();
    let image = build(scratch.as_path(), &THERE, if Campaign::is_full() { 80 } else { 20 });
    let share = scratch.path("share");
    fs::create_dir(&share).expect("made");
    let copy = |from: &Path, name: &str| fs::copy(from, share.join(name)).expect("copied");
    copy(&scratch.path("master.key"), "master.key");
    copy(&workspace().join("tests/kernel/tree-manifest.sh"), "tree-manifest.sh");
    fs::write(share.join("descriptors"), format!("{DESCRIPTOR}\n")).expect("written");
    let expected = script("tree-manifest.sh").arg(scratch.path("tree")).ok();
    fs::write(share.join("expected"), &expected.stdout).expect("written");
    let judged = Kernel::script("tree-guest.sh").disk(&image).share(&share).ok("").text();
    assert!(judged.contains("written, and clean"), "{judged}");
    println!("{}", judged.lines().find(|line| line.ends_with("entries read")).unwrap_or_default());
    Program::named("e2fsck").arg("-fn").arg(&image).ok();
}
