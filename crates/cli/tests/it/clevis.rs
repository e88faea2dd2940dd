//! Volumes that clevis bound to servers, TPMs and thresholds of them, and those that we bind: clevis 19, jose and tang of Debian.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use atrest_testkit::Swtpm;
use atrest_testkit::oracle::Program;

use crate::common::{Ran, Scratch};

/// A tang server with keys of its own, which serves until the test ends.
pub struct Tang {
    pub url: String,
    pub keys: Scratch,
}

impl Tang {
    pub fn new() -> Self {
        let keys = Scratch::new();
        Program::at("/usr/libexec/tangd-keygen").arg(keys.as_path()).ok();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://127.0.0.1:{}", listener.local_addr().expect("its address").port());
        let directory = keys.as_path().to_path_buf();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let other = stream.try_clone().expect("a copy");
                let mut command = Program::at("/usr/libexec/tangd").arg(&directory).into_command();
                command.stdin(Stdio::from(std::os::fd::OwnedFd::from(stream)));
                command.stdout(Stdio::from(std::os::fd::OwnedFd::from(other))).stderr(Stdio::null());
                // It serves one connection, and ends with it.
                command.spawn().expect("tangd starts").wait().expect("its end");
            }
        });
        Self { url, keys }
    }

    /// The thumbprint of its signing key.
    pub fn thumbprint(&self) -> String {
        let mut prints = std::fs::read_dir(self.keys.as_path()).expect("keys").filter_map(|entry| {
            let path = entry.expect("a key").path();
            let text = std::fs::read_to_string(&path).expect("a key");
            text.contains("ES512").then(|| thumbprint(&path))
        });
        prints.next().expect("a signing key")
    }
}

fn thumbprint(path: &Path) -> String {
    Program::named("jose").words("jwk thp -a S256 -i").arg(path).ok().text().trim().into()
}

/// `clevis luks bind` of `vol`.
fn bind(scratch: &Scratch, tpm: Option<&Swtpm>, pin: &str, config: &str) {
    let program = Program::named("clevis").words("luks bind -y -d vol -k key").arg(pin).arg(config);
    let program = program.current_dir(scratch.as_path());
    let tcti = tpm.map_or(String::new(), Swtpm::tcti);
    program.env("TPM2TOOLS_TCTI", tcti).ok();
    tpm.inspect(|tpm| tpm.forget());
}

fn test(scratch: &Scratch, tpm: Option<&Swtpm>, token: u32) -> Ran {
    let line = format!("key test vol --token-only --token-id {token}");
    let place = tpm.map_or("/nowhere/tpm".into(), Swtpm::place);
    let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words(&line).env("ATREST_TPM", place);
    program.without_terminal().run().into()
}

#[test]
fn servers_open_what_clevis_bound_to_them_and_clevis_what_we_bind() {
    let tang = Tang::new();
    let scratch = Scratch::with_volume();
    let (url, print) = (&tang.url, tang.thumbprint());
    bind(&scratch, None, "tang", &format!(r#"{{"url":"{url}","thp":"{print}"}}"#));
    test(&scratch, None, 0).ok();
    let add = |print: &str| {
        scratch.atrest(&["key", "add", "vol", "--key-file", "key", "--tang", url, "--thumbprint", print])
    };
    add("somebody-else").fails(2, "no key of");
    add(&print).ok();
    test(&scratch, None, 1).ok();
    let passphrase =
        Program::named("clevis").words("luks pass -d vol -s 2").current_dir(scratch.as_path()).ok();
    scratch.file("passphrase", passphrase.text());
    scratch.atrest(&["key", "test", "vol", "--key-file", "passphrase", "--key-slot", "2"]).ok();
    let list = scratch.atrest(&["key", "list", "vol"]).ok().stdout;
    assert_eq!(list.matches(&format!("the server \"{url}\"\n")).count(), 2, "{list}");
    // Its keys are deleted.
    for entry in std::fs::read_dir(tang.keys.as_path()).expect("keys") {
        std::fs::remove_file(entry.expect("a key").path()).expect("deleted");
    }
    test(&scratch, None, 0).fails(2, "has no such key any more");
}

#[test]
fn thresholds_open_with_as_many_as_they_say_and_no_fewer() {
    let (one, two, tpm) = (Tang::new(), Tang::new(), Swtpm::new());
    let scratch = Scratch::with_volume();
    let pin = |tang: &Tang| format!(r#"{{"url":"{}","thp":"{}"}}"#, tang.url, tang.thumbprint());
    let nowhere = "http://127.0.0.1:1";
    tpm.extend(7);
    bind(&scratch, Some(&tpm), "tpm2", "{}");
    bind(&scratch, Some(&tpm), "tpm2", r#"{"pcr_bank":"sha256","pcr_ids":"7"}"#);
    let nested = format!(r#"{{"t":1,"pins":{{"tang":{}}}}}"#, pin(&two));
    let shares = format!(r#"{{"t":2,"pins":{{"tang":{},"tpm2":{{}},"sss":{nested}}}}}"#, pin(&one));
    bind(&scratch, Some(&tpm), "sss", &shares);
    for token in 0..3 {
        test(&scratch, Some(&tpm), token).ok();
    }
    // Two servers without the TPM, and then the TPM with one.
    test(&scratch, None, 2).ok();
    test(&scratch, None, 0).fails(2, "there is no TPM at /nowhere/tpm");
    for entry in std::fs::read_dir(one.keys.as_path()).expect("keys") {
        std::fs::remove_file(entry.expect("a key").path()).expect("deleted");
    }
    test(&scratch, Some(&tpm), 2).ok();
    test(&scratch, None, 2).fails(2, "1 of the 2 shares that it needs can be had");
    tpm.extend(7);
    test(&scratch, Some(&tpm), 1).fails(2, "PCR 7 of the TPM has changed since it was enrolled");
    let add = scratch.atrest(&["key", "add", "vol", "--key-file", "key", "--tang", nowhere]);
    add.fails(4, "can't be reached");
}
