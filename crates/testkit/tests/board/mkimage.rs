//! The board itself, before anything of ours is booted on it: it boots what `mkimage` packs, says what it checks, and refuses what it must.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use atrest_testkit::board::{Board, Parts};
use atrest_testkit::oracle::Program;
use tempfile::TempDir;

const INIT: &str = r#"#!/bin/sh
busybox mount -t devtmpfs none /dev
exec < /dev/console > /dev/console 2>&1
echo -n "Who is there? "
read name
echo "Good day, $name, on $(busybox uname -srm)"
busybox poweroff -f
"#;

/// A directory with an initramfs that asks for a name.
fn workbench() -> TempDir {
    let bench = tempfile::tempdir().expect("a directory");
    let root = bench.path().join("root");
    fs::create_dir_all(root.join("bin")).expect("make the root");
    fs::create_dir(root.join("dev")).expect("make the root");
    fs::copy(Parts::get().busybox(), root.join("bin/busybox")).expect("copy busybox");
    symlink("busybox", root.join("bin/sh")).expect("link the shell");
    fs::write(root.join("init"), INIT).expect("write init");
    fs::set_permissions(root.join("init"), PermissionsExt::from_mode(0o755)).expect("make init a program");
    archive(&root, &bench.path().join("initramfs"));
    Board::new().write_device_tree(&bench.path().join("tree.dtb"));
    bench
}

/// Archives a directory for the kernel.
pub fn archive(root: &Path, file: &Path) {
    let names = Program::named("find").args([".", "-print0"]).current_dir(root).ok().stdout;
    let archive =
        Program::named("cpio").words("-o -0 -H newc --quiet").current_dir(root).stdin(names).ok().stdout;
    fs::write(file, archive).expect("write the initramfs");
}

/// Packs an image with `mkimage`. `signature` goes into the configuration.
pub fn pack(bench: &Path, name: &str, signature: &str, options: &str) -> PathBuf {
    let part = |name: &str, path: &Path, what: &str| {
        format!(
            r#"{name} {{ description = "{name}"; data = /incbin/("{}"); arch = "arm64"; compression = "none"; {what} hash-1 {{ algo = "sha256"; }}; }};"#,
            path.display()
        )
    };
    let parts = [
        part(
            "kernel-1",
            &Parts::get().kernel,
            r#"type = "kernel"; os = "linux"; load = <0x40200000>; entry = <0x40200000>;"#,
        ),
        part("fdt-1", &bench.join("tree.dtb"), r#"type = "flat_dt";"#),
        part("ramdisk-1", &bench.join("initramfs"), r#"type = "ramdisk"; os = "linux";"#),
    ]
    .concat();
    let source = bench.join(format!("{name}.its"));
    fs::write(
        &source,
        format!(
            r#"/dts-v1/; / {{ description = "test"; #address-cells = <1>; images {{ {parts} }};
            configurations {{ default = "conf-1"; conf-1 {{ kernel = "kernel-1"; fdt = "fdt-1"; ramdisk = "ramdisk-1"; {signature} }}; }}; }};"#
        ),
    )
    .expect("write the source");
    let image = bench.join(format!("{name}.itb"));
    Program::named("mkimage").words(options).arg("-f").arg(source).arg(&image).current_dir(bench).ok();
    image
}

/// A copy of an image with one bit flipped in what follows a text in it, `distance` bytes behind.
fn damaged(image: &Path, text: &[u8], distance: usize) -> PathBuf {
    let mut bytes = fs::read(image).expect("read the image");
    let place =
        bytes.windows(text.len()).rposition(|window| window == text).expect("the text is in the image");
    bytes[place + distance] ^= 1;
    let copy = image.with_extension("damaged");
    fs::write(&copy, bytes).expect("write the image");
    copy
}

/// A copy of an image with another ramdisk, whose hash is put right: what somebody without the key can do.
fn forged(bench: &Path, image: &Path) -> PathBuf {
    let digest = |path: &Path| {
        let sum = Program::named("sha256sum").arg(path).ok().text();
        (0..32)
            .map(|i| u8::from_str_radix(&sum[2 * i..2 * i + 2], 16).expect("a digest"))
            .collect::<Vec<u8>>()
    };
    let ramdisk = fs::read(bench.join("initramfs")).expect("read the ramdisk");
    let other = bench.join("other");
    let mut evil = ramdisk.clone();
    let place = evil.windows(8).position(|window| window == b"Good day").expect("what it prints");
    evil[place..place + 8].copy_from_slice(b"Evil day");
    fs::write(&other, &evil).expect("write another ramdisk");
    let mut bytes = fs::read(image).expect("read the image");
    for (from, to) in [(ramdisk, evil), (digest(&bench.join("initramfs")), digest(&other))] {
        let place =
            bytes.windows(from.len()).position(|window| window == from).expect("the part is in the image");
        bytes[place..place + from.len()].copy_from_slice(&to);
    }
    let copy = image.with_extension("forged");
    fs::write(&copy, bytes).expect("write the image");
    copy
}

#[test]
fn the_board_boots_what_mkimage_packed_and_refuses_it_damaged() {
    let bench = workbench();
    let image = pack(bench.path(), "plain", "", "");
    let mut serial = Board::new().fit(&image).start();
    let told = serial.boot("console=ttyAMA0 loglevel=4 panic=-1").expect("U-Boot takes the image");
    assert_eq!(told.matches("sha256+ OK").count(), 3, "{told}");
    serial.expect("Who is there? ");
    serial.type_line("tester");
    let answer = serial.until_off();
    assert!(answer.contains("Good day, tester, on Linux 6.1.0-50-arm64 aarch64"), "{answer}");

    let mut serial = Board::new().fit(&damaged(&image, b"TRAILER!!!", 40)).start();
    let told = serial.boot("console=ttyAMA0").expect_err("U-Boot refuses a damaged ramdisk");
    assert!(told.contains("Bad hash value for 'hash-1' hash node in 'ramdisk-1' image node"), "{told}");
}

#[test]
fn a_u_boot_with_a_key_takes_signed_images_only() {
    let bench = workbench();
    let key = "req -batch -new -x509 -newkey rsa:2048 -noenc -keyout dev.key -out dev.crt -subj /CN=dev";
    Program::named("openssl").words(key).current_dir(bench.path()).ok();
    let control = bench.path().join("control.dtb");
    fs::copy(bench.path().join("tree.dtb"), &control).expect("copy the tree");
    let signature = r#"signature-1 { algo = "sha256,rsa2048"; key-name-hint = "dev"; sign-images = "kernel", "fdt", "ramdisk"; };"#;
    let signed = pack(bench.path(), "signed", signature, "-k . -K control.dtb -r");
    let boot = |image: &Path| Board::new().control_tree(&control).fit(image).start().boot("console=ttyAMA0");

    let told = boot(&signed).expect("U-Boot takes the signed image");
    assert_eq!(told.matches("sha256,rsa2048:dev+ OK").count(), 3, "{told}");
    let told = boot(&pack(bench.path(), "unsigned", "", "")).expect_err("U-Boot refuses an unsigned image");
    assert!(told.contains("Failed to verify required signature 'key-dev'"), "{told}");
    let told =
        boot(&forged(bench.path(), &signed)).expect_err("U-Boot refuses another ramdisk with its hash");
    assert!(told.contains("Failed to verify required signature 'key-dev'"), "{told}");
}
