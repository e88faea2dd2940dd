//! FIT images: U-Boot boots them, says what it checks, and refuses what it must.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use atrest_testkit::atrest::atrest;
use atrest_testkit::board::{Board, Parts};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Scratch};

const INIT: &str = r#"#!/bin/sh
busybox mount -t devtmpfs none /dev
exec < /dev/console > /dev/console 2>&1
echo -n "Who is there? "
read name
echo "Good day, $name, on $(busybox uname -srm)"
busybox poweroff -f
"#;

/// A directory with an initramfs that asks for a name.
fn workbench() -> Scratch {
    let bench = Scratch::new();
    let root = bench.path("root");
    fs::create_dir_all(root.join("bin")).expect("make the root");
    fs::create_dir(root.join("dev")).expect("make the root");
    fs::copy(Parts::get().busybox(), root.join("bin/busybox")).expect("copy busybox");
    symlink("busybox", root.join("bin/sh")).expect("link the shell");
    fs::write(root.join("init"), INIT).expect("write init");
    fs::set_permissions(root.join("init"), PermissionsExt::from_mode(0o755)).expect("make init a program");
    archive(&root, &bench.path("initramfs"));
    Board::new().write_device_tree(&bench.path("tree.dtb"));
    bench
}

/// Archives a directory for the kernel.
pub fn archive(root: &Path, file: &Path) {
    let names = Program::named("find").args([".", "-print0"]).current_dir(root).ok().stdout;
    let archive =
        Program::named("cpio").words("-o -0 -H newc --quiet").current_dir(root).stdin(names).ok().stdout;
    fs::write(file, archive).expect("write the initramfs");
}

/// Who packs images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packer {
    /// `atrest fit build`.
    Atrest,
    /// U-Boot's own program, to see that the board does what is expected of it. In whole campaigns only.
    Mkimage,
}

fn packers() -> &'static [Packer] {
    if Campaign::is_full() { &[Packer::Atrest, Packer::Mkimage] } else { &[Packer::Atrest] }
}

/// Packs the kernel, the files `tree.dtb` and `initramfs` of a directory, and signs them if a control tree is given, which then gets the key.
pub fn pack(bench: &Path, name: &str, packer: Packer, control: Option<&Path>) -> PathBuf {
    let image = bench.join(format!("{name}.itb"));
    match packer {
        Packer::Atrest => {
            let build = atrest("fit build --arch arm64 --load 0x40200000 --kernel").arg(&Parts::get().kernel);
            let build = build.args(["--fdt", "tree.dtb", "--ramdisk", "initramfs", "-o"]).arg(&image);
            let build = match control {
                Some(tree) => build.args(["--sign-key", "dev.key", "--key-dtb"]).arg(tree),
                None => build,
            };
            build.current_dir(bench).ok();
        }
        Packer::Mkimage => mkimage(bench, &image, control),
    }
    image
}

fn mkimage(bench: &Path, image: &Path, control: Option<&Path>) {
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
    let signature = match control {
        Some(_) => {
            r#"signature-1 { algo = "sha256,rsa2048"; key-name-hint = "dev"; sign-images = "kernel", "fdt", "ramdisk"; };"#
        }
        None => "",
    };
    let source = image.with_extension("its");
    let text = format!(
        r#"/dts-v1/; / {{ description = "test"; #address-cells = <1>; images {{ {parts} }};
        configurations {{ default = "conf-1"; conf-1 {{ kernel = "kernel-1"; fdt = "fdt-1"; ramdisk = "ramdisk-1"; {signature} }}; }}; }};"#
    );
    fs::write(&source, text).expect("write the source");
    let mut program = Program::named("mkimage");
    if let Some(tree) = control {
        program = program.args(["-k", ".", "-r", "-K"]).arg(tree);
    }
    program.arg("-f").arg(source).arg(image).current_dir(bench).ok();
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
fn u_boot_boots_what_was_packed_and_refuses_it_damaged() {
    for packer in packers() {
        let bench = workbench();
        let image = pack(bench.as_path(), "plain", *packer, None);
        let mut serial = Board::new().fit(&image).start();
        let told = serial.boot("console=ttyAMA0 loglevel=4 panic=-1").expect("U-Boot takes the image");
        assert_eq!(told.matches("sha256+ OK").count(), 3, "{packer:?}: {told}");
        serial.expect("Who is there? ");
        serial.type_line("tester");
        let answer = serial.until_off();
        let modules = &Parts::get().modules;
        let release = modules.file_name().and_then(|name| name.to_str()).expect("lib/modules/RELEASE");
        let expected = format!("Good day, tester, on Linux {release} aarch64");
        assert!(answer.contains(&expected), "{packer:?}: {answer}");

        let damaged = damaged(&image, b"TRAILER!!!", 40);
        let mut serial = Board::new().fit(&damaged).start();
        let told = serial.boot("console=ttyAMA0").expect_err("U-Boot refuses a damaged ramdisk");
        let expected = "hash node in 'ramdisk-1' image node";
        assert!(told.contains("Bad hash value for ") && told.contains(expected), "{packer:?}: {told}");
        atrest("fit verify").arg(&image).ok();
        let refused = atrest("fit verify").arg(&damaged).run().expect_code(4);
        let told = refused.text() + &refused.messages();
        assert!(told.contains("ramdisk-1"), "{told}");
    }
}

#[test]
fn a_u_boot_with_a_key_takes_signed_images_only() {
    for packer in packers() {
        let bench = workbench();
        let key = "req -batch -new -x509 -newkey rsa:2048 -noenc -keyout dev.key -out dev.crt -subj /CN=dev";
        Program::named("openssl").words(key).current_dir(bench.as_path()).ok();
        let control = bench.path("control.dtb");
        fs::copy(bench.path("tree.dtb"), &control).expect("copy the tree");
        let signed = pack(bench.as_path(), "signed", *packer, Some(&control));
        let boot =
            |image: &Path| Board::new().control_tree(&control).fit(image).start().boot("console=ttyAMA0");

        let told = boot(&signed).expect("U-Boot takes the signed image");
        assert_eq!(told.matches("sha256,rsa2048:dev+ OK").count(), 3, "{packer:?}: {told}");
        let unsigned = pack(bench.as_path(), "unsigned", *packer, None);
        let forged = forged(bench.as_path(), &signed);
        for image in [&unsigned, &forged] {
            let told = boot(image).expect_err("U-Boot refuses what the key has not signed");
            assert!(told.contains("Failed to verify required signature 'key-dev'"), "{packer:?}: {told}");
            let verify = atrest("fit verify --key-dtb").arg(&control).arg(image).run().expect_code(4);
            let told = verify.text() + &verify.messages();
            assert!(told.contains("sign"), "{told}");
        }
        atrest("fit verify --key-dtb").arg(&control).arg(&signed).ok();
    }
}
