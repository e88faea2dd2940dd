//! What is true of a volume for as long as it is open, and how it ends.

mod common;

use common::{CHEAP, Scratch};

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
