//! Images to boot.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::atrest::atrest;
use atrest_testkit::board::{Parts, atrest_init};

use crate::board::fit::{Packer, pack};
use crate::board::system::System;

/// What an initramfs has beside `atrest-init` and the modules that a board needs for an encrypted root.
#[derive(Default)]
pub struct Contents {
    pub busybox: bool,
    pub crypttab: Option<PathBuf>,
    /// Becomes `/etc/root.key`.
    pub key: Option<PathBuf>,
}

/// Makes an initramfs.
pub fn initramfs(file: &Path, contents: &Contents, options: &str) {
    let parts = Parts::get();
    let mut build =
        atrest("initramfs build --module ext4 --module virtio_pci --module virtio_blk").words(options);
    build = build.arg("--init").arg(atrest_init()).arg("--modules-dir").arg(&parts.modules);
    if contents.busybox {
        build = build.arg("--busybox").arg(parts.busybox());
    }
    if let Some(crypttab) = &contents.crypttab {
        build = build.arg("--crypttab").arg(crypttab);
    }
    if let Some(key) = &contents.key {
        build = build.arg("--key-file").arg(format!("{}:/etc/root.key", key.display()));
    }
    build.arg("--output").arg(file).ok();
}

/// A FIT image with Debian's kernel, the board's device tree, and an initramfs.
pub fn image(name: &str, contents: &Contents) -> PathBuf {
    let bench = System::get().directory.path(name);
    fs::create_dir(&bench).expect("make a directory");
    initramfs(&bench.join("initramfs"), contents, "");
    pack_image(&bench)
}

/// Packs the file `initramfs` of a directory into a FIT image, with Debian's kernel and the board's device tree.
pub fn pack_image(bench: &Path) -> PathBuf {
    fs::copy(&System::get().tree, bench.join("tree.dtb")).expect("copy the device tree");
    pack(bench, "image", Packer::Atrest, None)
}
