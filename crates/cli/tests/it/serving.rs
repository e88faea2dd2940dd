//! What is true of a volume for as long as it is open, and how it ends.

use crate::common::{CHEAP, Scratch};

/// Closes the session when the test ends, also by a failure.
struct Open<'a>(&'a Scratch, String);

impl<'a> Open<'a> {
    fn new(scratch: &'a Scratch, args: &[&str]) -> Self {
        let name = scratch.session();
        let socket = scratch.path("socket");
        let socket = socket.to_str().expect("plain letters");
        scratch.atrest(&[&["open", "--daemon", "--name", &name, "--nbd", socket], args].concat()).ok();
        Self(scratch, name)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.atrest(&["close", &self.1]);
    }
}

#[test]
fn a_detached_header_is_in_use_as_long_as_its_volume_is() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch.file("new", b"battery staple");
    for name in ["data", "other"] {
        scratch.bash(&format!("truncate -s 20M {name}")).ok();
    }
    let format = |data: &str| {
        scratch.atrest(
            &[&["format", "--yes", "--key-file", "key", "--header", "header"], &CHEAP[..], &[data]].concat(),
        )
    };
    format("data").ok();
    scratch.atrest(&["header", "backup", "data", "--header", "header", "backup"]).ok();
    let open = Open::new(&scratch, &["--key-file", "key", "--header", "header", "data"]);
    format("other").fails(5, "header: it is busy: another process uses it");
    scratch
        .atrest(&["header", "restore", "--yes", "data", "--header", "header", "backup"])
        .fails(5, "header: it is busy: another process uses it");
    let add = ["key", "add", "data", "--header", "header", "--key-file", "key", "--new-key-file", "new"];
    scratch.atrest(&[&add, &CHEAP[..]].concat()).ok();
    drop(open);
    scratch.atrest(&["key", "test", "data", "--header", "header", "--key-file", "new"]).ok();
    format("other").ok();
}

/// Detaches a loop device when the test ends, also by a failure.
struct Loop<'a>(&'a Scratch, String);

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        self.0.bash(&format!("losetup --detach {}", self.1));
    }
}

#[test]
fn a_volume_in_a_file_has_one_writer_whether_it_is_opened_by_its_name_or_by_a_loop_device() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch.bash("truncate -s 20M vol.img").ok();
    scratch.atrest(&[&["format", "--yes", "--key-file", "key"], &CHEAP[..], &["vol.img"]].concat()).ok();
    let attached = scratch.bash("losetup --find --show vol.img").ok();
    let disk = Loop(&scratch, attached.stdout.trim().to_owned());
    for (first, second) in [("vol.img", disk.1.as_str()), (disk.1.as_str(), "vol.img")] {
        let open = Open::new(&scratch, &["--key-file", "key", first]);
        scratch.atrest(&["open", "--key-file", "key", "--nbd", "other", second]).fails(5, "losetup -l");
        scratch.atrest(&["format", "--yes", "--key-file", "key", second]).fails(5, "it is busy");
        scratch.atrest(&["key", "test", "--key-file", "key", second]).ok();
        drop(open);
        drop(Open::new(&scratch, &["--key-file", "key", second]));
    }
    // The kernel as the other writer, as cryptsetup and mount make it.
    let mounted = format!("mkfs.ext4 -q -F {0} && mkdir m && mount {0} m", disk.1);
    scratch.bash(&mounted).ok();
    let refused = scratch.atrest(&["format", "--yes", "--key-file", "key", "vol.img"]);
    scratch.bash("umount m").ok();
    refused.fails(5, "it is busy");
}

#[test]
fn a_directory_that_somebody_else_made_for_the_sessions_is_named_and_no_hindrance() {
    let scratch = Scratch::new();
    // A /tmp of its own, in which a user works whose number is 65534, and user 1234 was there first. The program is
    // opened before: it may lie in the /tmp that is covered.
    let program = env!("CARGO_BIN_EXE_atrest");
    let as_user = |command: &str| {
        let inner = format!(
            "exec 3< {program} && mount -t tmpfs -o mode=1777 none /tmp && cat <&3 > /tmp/atrest && exec 3<&- && \
             chmod 755 /tmp/atrest && mkdir /tmp/atrest-65534 && \
             chown 1234 /tmp/atrest-65534 && \
             exec setpriv --reuid=65534 --regid=65534 --clear-groups env --unset=XDG_RUNTIME_DIR sh -c '{command}'"
        );
        scratch.bash(&format!("unshare --mount sh -c \"{inner}\""))
    };
    let status = as_user("cd /tmp && ./atrest status && stat -c %u:%a atrest-65534-2").ok();
    assert_eq!(status.stdout, "nothing is open; what the kernel encrypts is shown to root only\n65534:700\n");
    let says = "/tmp/atrest-65534 is not used for the list of open volumes: it belongs to another user (number 1234)";
    assert!(status.stderr.contains(says), "{}", status.stderr);
    // Whatever looks for what is open says so: that it finds nothing may be why.
    for command in ["status", "close x", "tree keys x", "tree lock x", "tree unlock x --fscrypt-key k"] {
        let ran = as_user(&format!("cd /tmp && ./atrest {command} || true")).ok();
        assert!(ran.stderr.contains(says), "{command}: {}", ran.stderr);
    }
    let own = as_user("cd /tmp && mkdir -m 770 atrest-65534-2 && ./atrest status");
    own.fails(2, "chmod 700 /tmp/atrest-65534-2");
}

/// What a virtual machine does with the socket is in `atrest-attach` and, with QEMU, in `atrest-testkit`.
#[test]
fn a_disk_for_virtual_machines_is_listed_closed_and_cleared_up_after_as_the_other_faces_are() {
    let scratch = Scratch::with_volume();
    let name = scratch.session();
    let socket = scratch.path("socket");
    let socket = socket.to_str().expect("plain letters");
    scratch.bash("cp vol other").ok();
    let open = ["open", "vol", "--key-file", "key", "--name", &name, "--vhost-user", socket];
    let ready = scratch.atrest(&[&open[..], &["--daemon", "--json"]].concat()).ok().json();
    assert_eq!((&ready["event"], &ready["name"]), (&"ready".into(), &name.as_str().into()));
    assert_eq!(ready["socket"], socket);
    assert_eq!(scratch.bash("stat -c %a socket").ok().stdout.trim(), "600");
    let status = scratch.atrest(&["status", "--json", &name]).ok().json();
    assert_eq!(status[0]["kind"]["vhost-user"]["socket"], socket);
    let line = scratch.atrest(&["status", &name]).ok().stdout;
    assert!(line.contains(&format!("at vhost-user {socket}, read-write")), "{line}");
    // Before anybody is asked for a passphrase.
    scratch
        .atrest(&["open", "other", "--key-file", "missing", "--vhost-user", socket])
        .fails(5, "another server answers on");
    scratch
        .atrest(&["open", "other", "--key-file", "key", "--vhost-user", "vol"])
        .fails(1, "is not a socket");
    scratch.atrest(&["close", &name]).ok();
    scratch.atrest(&["status", &name]).fails(4, "no open volume is called");
    assert!(scratch.bash("test -e socket").code != 0);

    // One that was killed leaves nothing that is in the way.
    let opened = scratch.atrest(&[&open[..], &["--daemon"]].concat()).ok();
    assert_eq!(opened.stdout.trim_end(), format!("ready vhost-user {socket}"));
    let status = scratch.atrest(&["status", "--json", &name]).ok().json();
    let process = status[0]["process"]["pid"].to_string();
    scratch
        .bash(&format!("kill -9 {process}; while kill -0 {process} 2> /dev/null; do sleep 0.01; done"))
        .ok();
    scratch.atrest(&["status", &name]).fails(4, "no open volume is called");
    assert!(scratch.bash("test -e socket").code != 0);

    let command = ["--run", "sh", "-c", "test -S \"$ATREST_SOCKET\" && echo \"$ATREST_SOCKET\"; exit 7"];
    let ran = scratch.atrest(&[&open[..], &command].concat());
    assert_eq!((ran.code, ran.stdout.trim_end()), (7, socket));
}

/// A mapped file tells by a signal what a read would tell by an error. Whoever reads through a face gets the error, and the
/// volume goes on.
#[test]
fn a_mapped_volume_that_is_cut_off_is_an_error_where_it_is_cut() {
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir mnt; head -c 3M /dev/urandom > data").ok();
    let name = scratch.session();
    let open = ["open", "vol", "--map", "--key-file", "key", "--daemon", "--name", &name, "--fuse", "mnt"];
    scratch.atrest(&open).ok();
    let opened = Named(&scratch, name);
    scratch.bash("dd if=data of=mnt/volume bs=1M conv=notrunc,fsync").ok();
    scratch.bash("head -c 3M mnt/volume | cmp - data").ok();
    // A MiB of data is left behind the header.
    scratch
        .bash("size=$(stat -c %s vol) && truncate -s $((size - $(stat -c %s mnt/volume) + 1048576)) vol")
        .ok();
    scratch.bash("dd if=mnt/volume of=/dev/null bs=1M count=3 iflag=direct").fails(1, "Input/output error");
    scratch.bash("dd if=mnt/volume bs=1M count=1 iflag=direct | cmp -n 1048576 - data").ok();
    drop(opened);
    scratch
        .atrest(&["open", "vol", "--map", "--dm", "x", "--key-file", "key"])
        .fails(1, "cannot be used with '--dm");
}

/// Closes an open volume when the test ends, also by a failure.
struct Named<'a>(&'a Scratch, String);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        self.0.atrest(&["close", &self.1]);
    }
}
