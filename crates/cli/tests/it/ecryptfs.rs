//! eCryptfs directories from the command line. What is in them was written by the library, which the kernel's module judges
//! elsewhere.

use crate::common;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::Scratch;
use atrest_secret::{OsRandom, Passphrase};
use atrest_tree::ecryptfs::{EncryptedFile, FileCipher, FileOptions, Keys, MetadataPlace, NameCipher};

const OPEN: [&str; 2] = ["--ecryptfs-passphrase-file", "key"];

struct Lower {
    keys: Keys,
    names: NameCipher,
    options: FileOptions,
}

impl Lower {
    fn new() -> Self {
        let mut keys = Keys::new();
        let [content, name] =
            keys.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase");
        let names = NameCipher::new(&keys, name, FileCipher::Aes128, 16).expect("a key");
        let options = FileOptions {
            cipher: FileCipher::Aes128,
            key_len: 16,
            signatures: vec![content],
            place: MetadataPlace::File,
            encrypted_names: true,
        };
        Self { keys, names, options }
    }

    fn encode(&self, text: &str) -> PathBuf {
        OsStr::from_bytes(&self.names.encode(text.as_bytes()).expect("short enough")).into()
    }

    fn write(&self, path: &Path, contents: &[u8]) {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a new file");
        let file = EncryptedFile::create(file, &self.keys, &self.options, &mut OsRandom).expect("made");
        file.write_at(0, contents).expect("room");
    }
}

/// `lower` with `/file`, `/directory/large` and `/link`, and the passphrase in `key`.
fn with_lower() -> (Scratch, Lower) {
    let (scratch, lower) = (Scratch::new(), Lower::new());
    let root = scratch.path("lower");
    let directory = root.join(lower.encode("directory"));
    fs::create_dir_all(&directory).expect("a directory");
    lower.write(&root.join(lower.encode("file")), b"text\n");
    lower.write(&directory.join(lower.encode("large")), &large());
    symlink(lower.encode("directory/large"), root.join(lower.encode("link"))).expect("a link");
    for (name, text) in [("key", "correct horse\n"), ("wrong", "wrong horse\n")] {
        scratch.file(name, text.as_bytes());
        fs::set_permissions(scratch.path(name), fs::Permissions::from_mode(0o600)).expect("ours");
    }
    (scratch, lower)
}

fn large() -> Vec<u8> {
    (0..700_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn run(scratch: &Scratch, words: &[&str]) -> common::Ran {
    scratch.atrest(&[words, &OPEN].concat())
}

#[test]
fn a_lower_directory_is_listed_read_and_copied() {
    let (scratch, _) = with_lower();
    assert_eq!(run(&scratch, &["ls", "lower"]).ok().stdout, "directory\nfile\nlink\n");
    let rows = run(&scratch, &["ls", "--json", "lower", "/directory"]).ok().json();
    assert_eq!((&rows[0]["name"], &rows[0]["size"]), (&"large".into(), &2_800_000.into()));
    assert_eq!(run(&scratch, &["cat", "lower", "/file"]).ok().stdout, "text\n");
    assert!(run(&scratch, &["cat", "lower", "/link"]).ok().raw == large());
    run(&scratch, &["cp", "-r", "lower:/", "out"]).ok();
    assert_eq!(fs::read_link(scratch.path("out/link")).expect("a link"), Path::new("directory/large"));
    assert!(fs::read(scratch.path("out/directory/large")).expect("copied") == large());
}

#[test]
fn a_wrong_passphrase_shows_neither_names_nor_contents() {
    let (scratch, _) = with_lower();
    let wrong = ["--ecryptfs-passphrase-file", "wrong"];
    let listed = scratch.atrest(&[&["ls", "lower"][..], &wrong].concat()).ok().stdout;
    assert!(
        listed.lines().count() == 3
            && listed.lines().all(|name| name.starts_with("ECRYPTFS_FNEK_ENCRYPTED."))
    );
    let name = format!("/{}", listed.lines().next().expect("a name"));
    let refused = scratch.atrest(&[&["cat", "lower", &name][..], &wrong].concat()).fails(2, "passphrase");
    assert!(refused.stdout.is_empty());
    // Of several, the right one is found.
    let both = scratch.atrest(&[&["cat", "lower", "/file"][..], &wrong, &OPEN].concat());
    assert_eq!(both.ok().stdout, "text\n");
}

#[test]
fn damaged_files_are_found_and_take_no_others_along() {
    let (scratch, lower) = with_lower();
    run(&scratch, &["tree", "check", "lower"]).ok();
    let root = scratch.path("lower");
    let cut = root.join(lower.encode("directory")).join(lower.encode("large"));
    OpenOptions::new().write(true).open(&cut).expect("there").set_len(8192 + 2 * 4096 + 5).expect("shorter");
    scratch.file("lower/plain", b"not encrypted");
    let headless = root.join(lower.encode("headless"));
    fs::write(headless, vec![7; 9000]).expect("room");
    fs::write(root.join(lower.encode("empty")), b"").expect("room");
    let mut found = lower.encode("damaged name").into_os_string().into_encoded_bytes();
    found[60] ^= 1;
    fs::create_dir(root.join(OsStr::from_bytes(&found))).expect("a directory");

    let check = run(&scratch, &["tree", "check", "--json", "lower"]).reports(4);
    let findings = check.json()["findings"].as_array().expect("a list").clone();
    let mut problems: Vec<_> = findings.iter().map(|row| row["problem"].as_str().expect("a name")).collect();
    problems.sort_unstable();
    assert_eq!(problems, ["empty", "name", "no-header", "no-header", "size-too-large"]);

    let exported = run(&scratch, &["tree", "export", "lower", "out", "--json"]).fails(4, "/plain");
    assert_eq!(exported.json()["failed"].as_array().expect("a list").len(), 4);
    assert_eq!(fs::read(scratch.path("out/file")).expect("exported"), b"text\n");
    assert!(!scratch.path("out/plain").exists());

    run(&scratch, &["tree", "check", "--repair", "--yes", "lower"]).reports(4);
    let repaired = run(&scratch, &["cat", "lower", "/directory/large"]).ok().raw;
    assert!(repaired == large()[..8192]);
    let passed = [&["cat", "lower", "/plain", "--ecryptfs-passthrough"][..], &OPEN].concat();
    assert_eq!(scratch.atrest(&passed).ok().stdout, "not encrypted");
}

#[test]
fn a_whole_tree_is_exported() {
    let (scratch, _) = with_lower();
    let done = run(&scratch, &["tree", "export", "lower", "out", "--json"]).ok().json();
    assert_eq!((&done["files"], &done["links"], &done["bytes"]), (&2.into(), &1.into(), &2_800_005.into()));
    assert!(fs::read(scratch.path("out/directory/large")).expect("exported") == large());
    run(&scratch, &["tree", "export", "lower", "out"]).fails(5, "exists already");
}

#[test]
fn wrapped_passphrases_are_made_used_changed_and_written_out() {
    let (scratch, _) = with_lower();
    for (name, text) in [("login", "login passphrase"), ("new", "another login")] {
        scratch.file(name, text.as_bytes());
    }
    let wrap = [
        "tree",
        "passphrase",
        "wrap",
        "wrapped",
        "--ecryptfs-passphrase-file",
        "key",
        "--new-key-file",
        "login",
    ];
    scratch.atrest(&wrap).ok();
    scratch.atrest(&wrap).fails(5, "--yes replaces it");
    let cat = ["cat", "lower", "/file", "--wrapped-passphrase", "wrapped", "--ecryptfs-passphrase-file"];
    assert_eq!(scratch.atrest(&[&cat[..], &["login"]].concat()).ok().stdout, "text\n");
    scratch.atrest(&[&cat[..], &["new"]].concat()).fails(2, "does not open the wrapped passphrase");
    let change = ["tree", "passphrase", "change", "wrapped", "--key-file", "login", "--new-key-file", "new"];
    scratch.atrest(&change).ok();
    assert_eq!(scratch.atrest(&[&cat[..], &["new"]].concat()).ok().stdout, "text\n");
    let unwrap = ["tree", "passphrase", "unwrap", "wrapped", "--key-file"];
    scratch.atrest(&[&unwrap[..], &["login", "--to", "bare"]].concat()).fails(2, "does not open");
    assert!(!scratch.path("bare").exists());
    let ran = scratch.atrest(&[&unwrap[..], &["new", "--to", "bare"]].concat()).ok();
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("correct horse"));
    assert_eq!(fs::read(scratch.path("bare")).expect("written"), b"correct horse");
    let mode = fs::metadata(scratch.path("bare")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    scratch.atrest(&unwrap[..]).fails(1, "a value is required");
}

/// What is wrong with `/file` if its lower file is these bytes.
fn cat_as(scratch: &Scratch, lower: &Lower, bytes: &[u8]) -> common::Ran {
    fs::write(scratch.path("lower").join(lower.encode("file")), bytes).expect("room");
    let ran = scratch.bash("ulimit -v 600000; $ATREST cat lower /file --ecryptfs-passphrase-file key");
    // Others are not concerned, whatever it is.
    assert!(run(scratch, &["cat", "lower", "/directory/large"]).ok().raw == large());
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    ran
}

#[test]
fn headers_that_are_cut_damaged_or_unknown_are_told_by_what_is_wrong() {
    let (scratch, lower) = with_lower();
    let whole = fs::read(scratch.path("lower").join(lower.encode("file"))).expect("its lower file");
    assert_eq!(whole.len(), 8192 + 4096);
    let cut = |len: usize| cat_as(&scratch, &lower, &whole[..len]);
    for len in [0, 10, 15] {
        cut(len).fails(4, "/file").fails(4, "has no header");
    }
    for len in [16, 24, 30, 60] {
        cut(len).fails(4, "/file").fails(4, "header").fails(4, "only a backup has it");
    }
    for len in [100, 1000, 4096, 8192, 8192 + 2048, 8192 + 4095] {
        cut(len).fails(4, "/file").fails(4, "extent 0").fails(4, "tree check --repair");
    }
    let changed = |at: usize, new: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        cat_as(&scratch, &lower, &bytes)
    };
    changed(16, &[9]).fails(4, "/file").fails(4, "a newer version");
    // Behind tag, length and version of the packet.
    assert_eq!(whole[26], 0x8c);
    changed(29, &[0x63]).fails(4, "/file").fails(4, "a newer version");
    changed(0, &[0xff]).fails(4, "/file").fails(4, "header");
    changed(26, &[0]).fails(4, "/file").fails(4, "header");
    changed(8, &[!whole[8]]).fails(4, "has no header");
    // A size that is not there is not allocated: what is there is read.
    let path = scratch.path("lower").join(lower.encode("file"));
    fs::write(path, [&[0x3f, 0xff], &whole[2..]].concat()).expect("room");
    let ran = scratch.bash("ulimit -v 600000; $ATREST cat lower /file --ecryptfs-passphrase-file key");
    let ran = ran.fails(4, "within extent 1");
    assert!(ran.raw.len() == 4096 && ran.raw.starts_with(b"text\n"), "{} bytes", ran.raw.len());
}

#[test]
fn files_of_several_keys_are_read_with_theirs() {
    let (scratch, _) = with_lower();
    let mut other = Lower::new();
    let [content, _] = other.keys.add_passphrase(&Passphrase::copy_from(b"other")).expect("a passphrase");
    other.options.signatures = vec![content];
    other.write(&scratch.path("lower").join(other.encode("theirs")), b"theirs\n");
    scratch.file("other", b"other\n");
    assert_eq!(run(&scratch, &["cat", "lower", "/file"]).ok().stdout, "text\n");
    let signature = content.to_string();
    run(&scratch, &["cat", "lower", "/theirs"]).fails(2, &signature).fails(2, "--ecryptfs-passphrase-file");
    let both = ["--ecryptfs-passphrase-file", "other"];
    assert_eq!(run(&scratch, &[&["cat", "lower", "/theirs"][..], &both].concat()).ok().stdout, "theirs\n");
    let check = run(&scratch, &["tree", "check", "--contents", "--json", "lower"]).reports(4).json();
    assert_eq!(
        (&check["findings"][0]["problem"], &check["findings"][1]),
        (&"no-key".into(), &serde_json::Value::Null)
    );
    run(&scratch, &["cp", "-r", "lower:/", "out"]).fails(2, "/theirs");
    scratch.bash("rm -rf out").ok();
    run(&scratch, &["cp", "-r", "--keep-going", "lower:/", "out"]).fails(4, "/theirs");
    assert_eq!(fs::read(scratch.path("out/file")).expect("copied"), b"text\n");
    assert!(!scratch.path("out/theirs").exists());
}

#[test]
fn contents_are_read_where_that_is_asked_for() {
    let (scratch, lower) = with_lower();
    let check = |words: &[&str]| run(&scratch, &[&["tree", "check", "lower", "--json"], words].concat());
    let sound = check(&["--contents"]).ok().json();
    assert_eq!((&sound["bytes"], &sound["contents_read"]), (&(4096 + 684 * 4096).into(), &true.into()));
    // What a crash of the lower filesystem leaves.
    let large = scratch.path("lower").join(lower.encode("directory")).join(lower.encode("large"));
    let file = OpenOptions::new().write(true).open(large).expect("there");
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 3 * 4096], 8192 + 5 * 4096).expect("written");
    check(&[]).ok();
    let found = check(&["--contents"]).reports(4).json();
    let row = &found["findings"][0];
    assert_eq!((&row["path"], &row["problem"]), (&"/directory/large".into(), &"zeros".into()));
    let text = row["text"].as_str().expect("text");
    assert!(text.contains("3 of its extents") && text.contains("at byte 20480"), "{text}");
}
