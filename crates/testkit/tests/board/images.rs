//! Images to boot.

use std::fs;
use std::path::PathBuf;

use atrest_testkit::atrest::atrest;
use atrest_testkit::board::{Parts, atrest_init};

use crate::mkimage::pack;
use crate::system::System;

/// What an initramfs has beside `atrest-init`, busybox and the modules that a board needs for an encrypted root.
#[derive(Default)]
pub struct Contents {
    pub crypttab: Option<PathBuf>,
    /// Becomes `/etc/root.key`.
    pub key: Option<PathBuf>,
}

/// A FIT image with Debian's kernel, the board's device tree, and an initramfs.
pub fn image(name: &str, contents: &Contents) -> PathBuf {
    let system = System::get();
    let bench = system.directory.path().join(name);
    fs::create_dir(&bench).expect("make a directory");
    let parts = Parts::get();
    let mut build = atrest("initramfs build --module ext4 --module virtio_pci --module virtio_blk --init")
        .arg(atrest_init());
    build = build.arg("--busybox").arg(parts.busybox()).arg("--modules-dir").arg(&parts.modules);
    if let Some(crypttab) = &contents.crypttab {
        build = build.arg("--crypttab").arg(crypttab);
    }
    if let Some(key) = &contents.key {
        build = build.arg("--key-file").arg(format!("{}:/etc/root.key", key.display()));
    }
    build.arg("--output").arg(bench.join("initramfs")).ok();
    fs::copy(&system.tree, bench.join("tree.dtb")).expect("copy the device tree");
    pack(&bench, "image", "", "")
}
