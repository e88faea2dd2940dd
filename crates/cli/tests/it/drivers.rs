//! What `mount` takes our own readers for, and what it refuses. Mounts by drivers are in testkit, as an ordinary user.

use crate::common::Scratch;

/// A volume with a FAT in it.
fn with_fat() -> Scratch {
    let scratch = Scratch::with_volume();
    let name = scratch.session();
    let make = ["--run", "sh", "-c", "mkfs.vfat \"$ATREST_PATH\""];
    std::fs::create_dir(scratch.path("mnt")).expect("make a directory");
    let mut args = vec!["open", "vol", "--key-file", "key", "--fuse", "mnt", "--name", &name];
    args.extend(make);
    scratch.atrest(&args).ok();
    scratch
}

#[test]
fn a_fat_needs_no_driver_and_is_renamed_in_by_the_reader_here() {
    let scratch = with_fat();
    let name = scratch.session();
    let script = "cd \"$ATREST_PATH\" && echo one > a && mkdir d && mv a d/b && mv d e && echo two > e/c && mv e/c e/b";
    let mount = [
        "mount",
        "vol",
        "mnt",
        "--key-file",
        "key",
        "--driver",
        "--name",
        &name,
        "--run",
        "sh",
        "-c",
        script,
    ];
    scratch.atrest(&mount).ok();
    let listed = scratch.atrest(&["ls", "--key-file", "key", "vol", "/e"]).ok();
    assert_eq!(listed.stdout, "b\n");
    assert_eq!(scratch.atrest(&["cat", "--key-file", "key", "vol", "/e/b"]).ok().stdout, "two\n");
    scratch.atrest(&["decrypt", "vol", "plain", "--key-file", "key"]).ok();
    scratch.tool("fsck.vfat", &["-n", "plain"]).ok();
    let mut options = mount[..5].to_vec();
    options.extend(["--driver-options", "noatime"]);
    scratch.atrest(&options).fails(1, "FAT12 has no driver that --driver-options could be for");
    let other = ["mount", "vol", "mnt", "--key-file", "key", "--driver=fuse2fs"];
    scratch.atrest(&other).fails(1, "FAT12 is no filesystem of fuse2fs");
}

#[test]
fn encrypted_flash_is_mounted_by_the_reader_here_alone() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    std::fs::create_dir(scratch.path("content")).expect("make a directory");
    std::fs::create_dir(scratch.path("mnt")).expect("make a directory");
    let image = ["image", "content", "card.img", "--type", "flash", "--size", "1M", "--key-file", "key"];
    scratch.atrest(&image).ok();
    let mount = ["mount", "card.img", "mnt", "--key-file", "key"];
    let with = |more: &[&'static str]| [&mount[..], more].concat();
    scratch.atrest(&with(&["--driver=fuse2fs"])).fails(1, "there is no driver for it");
    scratch.atrest(&with(&["--driver", "--run", "sh", "-c", "echo x > \"$ATREST_PATH/x\""])).ok();
    assert_eq!(scratch.atrest(&["cat", "--key-file", "key", "card.img", "/x"]).ok().stdout, "x\n");
}

#[test]
fn what_is_only_read_says_what_writes() {
    let scratch = Scratch::with_volume();
    let name = scratch.session();
    std::fs::create_dir(scratch.path("mnt")).expect("make a directory");
    let open = ["open", "vol", "--key-file", "key", "--fuse", "mnt", "--name", &name];
    let make = [&open[..], &["--run", "sh", "-c", "mkfs.ext4 -q \"$ATREST_PATH\""]].concat();
    scratch.atrest(&make).ok();
    let mount = ["mount", "vol", "mnt", "--key-file", "key", "--name", &name, "--run", "true"];
    let ran = scratch.atrest(&mount).ok();
    assert!(
        ran.stderr.contains("can only be read; --driver mounts them to write, too, by fuse2fs"),
        "{}",
        ran.stderr
    );
    let key = ["--fscrypt-key", "key", "--driver", "--run", "true"];
    let refused = scratch.atrest(&[&mount[..5], &key].concat());
    assert_eq!(refused.code, 1, "{}", refused.stderr);
}
