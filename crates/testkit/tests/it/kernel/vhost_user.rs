//! A volume as the disk of a virtual machine, over vhost-user: a real kernel writes to it, is killed, starts again on the
//! same socket, and dm-crypt finds everything in the image.

use std::fs;
use std::process::Child;

use atrest_testkit::atrest::{FAST_PBKDF2, Served, VolumeFile, atrest};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Scratch, wait_until};

/// A guest that is killed when this is dropped.
struct Guest(Child);

/// A boot sector that writes `A` to the serial line and resets the machine.
const SECTOR: [u8; 15] = [
    0xba, 0xf8, 0x03, // mov dx, 0x3f8
    0xb0, b'A', // mov al, 'A'
    0xee, // out dx, al
    0xba, 0xf9, 0x0c, // mov dx, 0xcf9
    0xb0, 0x06, // mov al, 6
    0xee, // out dx, al
    0xf4, 0xeb, 0xfd, // hlt; and again
];

impl Drop for Guest {
    fn drop(&mut self) {
        // It kills the emulator when it is told to end.
        Program::named("kill").args(["-s", "TERM", &self.0.id().to_string()]).run();
        let _ = self.0.wait();
    }
}

#[test]
fn a_guest_writes_to_a_volume_is_killed_and_comes_back() {
    let share = Scratch::new();
    let options = format!("--sector-size 4096 {FAST_PBKDF2}");
    let volume = VolumeFile::format(share.as_path(), "secret.img", "48M", &options);
    let socket = share.path("socket");
    let serve = volume.program("open", "--allow-discards").arg("--vhost-user").arg(&socket);
    let served = Served::start(serve);
    assert_eq!(served.announced, format!("ready vhost-user {}", socket.display()));
    let kernel = |queues: &str| {
        let socket = format!("{}{queues}", socket.display());
        Kernel::script("vhost-user.sh").share(share.as_path()).vhost_user(socket.as_ref())
    };

    let mut guest = Guest(kernel("").start("write"));
    wait_until("the guest has written", || {
        assert!(guest.0.try_wait().expect("the guest's state").is_none(), "the guest ended too early");
        share.path("written").exists()
    });
    drop(guest);
    let told = kernel(",queues=4").ok("again").text();
    assert_eq!(told.lines().last(), Some("again: good"), "{told}");
    served.stop();
    assert!(!socket.exists(), "the socket is left");

    let listed = atrest("cat --key-file").arg(&volume.key).arg(&volume.path).arg("/5").ok().text();
    assert_eq!(listed, "written after a kill\n");
    let kernel = Kernel::script("vhost-user.sh").share(share.as_path()).disk(&volume.path);
    let told = kernel.ok("crypt").text();
    assert_eq!(told.lines().last(), Some("crypt: good"), "{told}");
}

/// By the lines of docs/VHOST-USER.md. The BIOS has a driver of its own, which knows few features; a reset stops the queues and
/// starts them again.
#[test]
fn a_machine_boots_from_a_volume_again_after_each_reset() {
    let scratch = Scratch::new();
    let options = format!("--sector-size 512 {FAST_PBKDF2}");
    let volume = VolumeFile::format(scratch.as_path(), "secret.img", "20M", &options);
    let mut sector = SECTOR.to_vec();
    sector.resize(510, 0);
    sector.extend([0x55, 0xaa]);
    fs::write(scratch.path("sector"), sector).expect("write the boot sector");
    volume.encrypt(&scratch.path("sector"));
    let (socket, serial) = (scratch.path("secret.sock"), scratch.path("serial"));
    let served = Served::start(volume.program("open", "").arg("--vhost-user").arg(&socket));
    let machine = Program::named("qemu-system-x86_64")
        .words("-m 64 -machine memory-backend=memory")
        .words("-object memory-backend-memfd,id=memory,size=64M,share=on -chardev")
        .arg(format!("socket,id=secret,path={}", socket.display()))
        .words("-device vhost-user-blk-pci,chardev=secret -nodefaults -display none -serial")
        .arg(format!("file:{}", serial.display()));
    let mut machine = Guest(machine.start());
    wait_until("the machine has booted three times", || {
        assert!(machine.0.try_wait().expect("its state").is_none(), "the machine ended too early");
        fs::read(&serial).is_ok_and(|told| told.starts_with(b"AAA"))
    });
    // The volume is closed under a machine that runs.
    served.stop();
    drop(machine);
    let plain = scratch.path("plain");
    volume.decrypt(&plain);
    assert_eq!(fs::read(&plain).expect("the plaintext")[..SECTOR.len()], SECTOR);
}
