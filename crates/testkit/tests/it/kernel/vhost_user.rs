//! A volume as the disk of a virtual machine, over vhost-user: a real kernel writes to it, is killed, starts again on the
//! same socket, and dm-crypt finds everything in the image.

use std::process::Child;

use atrest_testkit::atrest::{FAST_PBKDF2, Served, VolumeFile, atrest};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Scratch, wait_until};

/// A guest that is killed when this is dropped.
struct Guest(Child);

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
