//! An emulated aarch64 board, QEMU's `virt`, that boots as a real one does: Debian's U-Boot, a FIT image, Debian's kernel; and a test on its serial
//! line.

mod atrest_init;
mod serial;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::oracle::{Program, tool, workspace};
pub use atrest_init::{atrest_init, is_as_released};
pub use serial::Serial;

/// U-Boot, of the package u-boot-qemu.
const U_BOOT: &str = "/usr/lib/u-boot/qemu_arm64/u-boot.bin";
/// A processor with the AES instructions, which is emulated several times faster than QEMU's `max` with its signed pointers.
const PROCESSOR: &str = "cortex-a72";
/// Where a FIT image is put: behind all that U-Boot unpacks the kernel to, and below itself at the end of the memory.
const FIT_ADDRESS: &str = "0x50000000";

/// What the board runs, as Debian ships it; see `scripts/board-parts`.
#[derive(Debug)]
pub struct Parts {
    /// The kernel's `Image`.
    pub kernel: PathBuf,
    /// Its modules: `…/lib/modules/VERSION`.
    pub modules: PathBuf,
    /// The `usr` of busybox (static) and cryptsetup with its libraries.
    pub programs: PathBuf,
}

impl Parts {
    /// The parts, which are fetched on the first call.
    ///
    /// # Panics
    /// When they can't be had.
    pub fn get() -> &'static Self {
        static PARTS: OnceLock<Parts> = OnceLock::new();
        PARTS.get_or_init(|| {
            let listed =
                Program::at(tool("python3")).arg(workspace().join("scripts/board-parts")).ok().text();
            let part = |word: &str| {
                let found = listed.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
                PathBuf::from(
                    found.unwrap_or_else(|| panic!("scripts/board-parts told no {word}:\n{listed}")),
                )
            };
            Self { kernel: part("kernel"), modules: part("modules"), programs: part("programs") }
        })
    }

    /// A busybox that needs no library.
    pub fn busybox(&self) -> PathBuf {
        self.programs.join("bin/busybox")
    }
}

/// A board that is not switched on yet.
#[derive(Debug)]
pub struct Board {
    command: Command,
    disks: usize,
}

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

impl Board {
    /// A board with one processor, 1 GiB of memory, a serial line, a source of random numbers, and U-Boot in its flash.
    ///
    /// # Panics
    /// When QEMU or U-Boot is not installed.
    pub fn new() -> Self {
        assert!(
            Path::new(U_BOOT).is_file(),
            "{U_BOOT} is missing; run scripts/setup, or: apt-get install u-boot-qemu"
        );
        let mut command = Command::new(tool("qemu-system-aarch64"));
        command.args("-nodefaults -no-user-config -display none -no-reboot -accel tcg -m 1024".split(' '));
        command.args(["-machine", "virt", "-cpu", PROCESSOR, "-bios", U_BOOT]);
        // Signals would not reach the guest, but end QEMU.
        command.args(["-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"]);
        command.args(["-device", "virtio-rng-pci"]);
        Self { command, disks: 0 }
    }

    /// Puts a FIT image into the memory, for [`Serial::boot`].
    #[must_use]
    pub fn fit(mut self, image: &Path) -> Self {
        let device = format!("loader,file={},addr={FIT_ADDRESS},force-raw=on", escaped(image));
        self.command.args(["-device", &device]);
        self
    }

    /// Attaches an image as the next disk: `/dev/vda`, `/dev/vdb`, … for Linux, `virtio 0`, … for U-Boot. The image stays as it is: what the board
    /// writes is gone when it is switched off.
    #[must_use]
    pub fn disk(mut self, image: &Path) -> Self {
        let number = self.disks;
        self.disks += 1;
        let drive = format!("if=none,id=disk{number},format=raw,snapshot=on,file={}", escaped(image));
        self.command.args(["-drive", &drive]);
        self.command.args(["-device", &format!("virtio-blk-pci,drive=disk{number},serial=disk{number}")]);
        self
    }

    /// Gives U-Boot this device tree instead of QEMU's own: the way to give it a key that it then demands signatures of.
    #[must_use]
    pub fn control_tree(mut self, tree: &Path) -> Self {
        self.command.arg("-dtb").arg(tree);
        self
    }

    /// More arguments for QEMU.
    #[must_use]
    pub fn arguments(mut self, words: &str) -> Self {
        self.command.args(words.split_whitespace());
        self
    }

    /// Writes the board's device tree to a file.
    ///
    /// # Panics
    /// When QEMU fails.
    pub fn write_device_tree(mut self, path: &Path) {
        self.command.args(["-machine", &format!("dumpdtb={}", escaped(path))]);
        let done = self.command.stdin(Stdio::null()).output().expect("QEMU runs");
        assert!(
            done.status.success(),
            "QEMU wrote no device tree: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    /// Switches it on.
    pub fn start(self) -> Serial {
        Serial::of(self.command)
    }
}

/// QEMU takes a comma in a value for its end.
fn escaped(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").replace(',', ",,")
}
