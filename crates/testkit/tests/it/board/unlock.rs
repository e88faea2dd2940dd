//! From switching on to a line that the system on the encrypted root prints: U-Boot, the kernel, `atrest-init`, and nothing else.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use atrest_testkit::board::Serial;

use crate::board::images::{Contents, image};
use crate::board::system::{GREETING, PASSPHRASE, System};

const CONSOLE: &str = "console=ttyAMA0 loglevel=4 panic=-1";
const ABSENT: &str = "11111111-2222-3333-4444-555555555555";

/// An image without a key: somebody is asked.
fn asking() -> &'static Path {
    static IMAGE: OnceLock<std::path::PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| image("asking", &Contents { busybox: true, ..Contents::default() }))
}

fn start(image: &Path, arguments: &str) -> Serial {
    let mut serial = System::get().board().fit(image).start();
    let told = serial.boot(&format!("{CONSOLE} {arguments}")).expect("U-Boot takes the image");
    assert_eq!(told.matches("sha256+ OK").count(), 3, "kernel, device tree and ramdisk are checked:\n{told}");
    serial
}

fn assert_system(printed: &str) {
    let line = format!("SYSTEM: {GREETING}, as process 1, on /dev/mapper/root / ext4 ro");
    assert!(printed.contains(&line), "{printed}");
    assert!(!printed.contains("error: "), "{printed}");
}

#[test]
fn a_key_file_in_the_initramfs_opens_the_root() {
    let system = System::get();
    let crypttab = system.directory.path("crypttab");
    fs::write(&crypttab, format!("root UUID={} /etc/root.key luks\n", system.uuid)).expect("write crypttab");
    let contents = Contents { crypttab: Some(crypttab), key: Some(system.volume.key.clone()), busybox: true };
    let mut serial = start(&image("key", &contents), "root=/dev/mapper/root");
    let printed = serial.until_off();
    assert!(!printed.contains("Passphrase"), "nobody is asked:\n{printed}");
    assert_system(&printed);
}

#[test]
fn a_passphrase_typed_on_the_serial_line_opens_the_root_and_a_wrong_one_is_asked_again() {
    let arguments = format!("cryptdevice=UUID={}:root root=/dev/mapper/root", System::get().uuid);
    let mut serial = start(asking(), &arguments);
    serial.expect("Passphrase for root (/dev/vda): ");
    serial.type_line("wrong horse");
    let answer = serial.expect("Passphrase for root (/dev/vda): ");
    assert!(answer.contains("no keyslot opens with this passphrase"), "{answer}");
    serial.type_line(PASSPHRASE);
    assert_system(&serial.until_off());
    for typed in ["wrong horse", PASSPHRASE] {
        assert!(!serial.log().contains(typed), "what is typed is not shown:\n{}", serial.log());
    }
}

#[test]
fn a_device_that_is_missing_is_named_and_a_shell_is_there_if_allowed() {
    let missing = format!(
        "error: root: UUID={ABSENT} has not come within 2 s (/proc/cmdline: rd.luks.name={ABSENT}=root)"
    );
    let arguments = format!("rd.luks.name={ABSENT}=root root=/dev/mapper/root rd.timeout=2");
    let mut serial = start(asking(), &format!("{arguments} rd.shell"));
    let told = serial.expect("atrest# ");
    assert!(told.contains(&missing), "{told}");
    serial.type_line("busybox poweroff -f");
    serial.until_off();

    let mut serial = start(asking(), &format!("{arguments} rd.emergency=poweroff"));
    let told = serial.until_off();
    assert!(told.contains(&missing), "{told}");
    assert!(told.contains("no shell is started") && told.contains("giving up: switching off"), "{told}");
    assert!(!told.contains("atrest# ") && !told.contains("SYSTEM"), "{told}");
}
