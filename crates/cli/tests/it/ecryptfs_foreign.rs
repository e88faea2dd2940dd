//! A directory is taken for an eCryptfs directory only if it is one: nothing is written into a folder of documents or another program's,
//! and no passphrase is asked for.

use crate::common;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::Scratch;
use crate::common::terminal::{Terminal, ends};
use atrest_secret::{OsRandom, Passphrase};
use atrest_tree::ecryptfs::{EncryptedFile, FileCipher, FileOptions, Keys, MetadataPlace};

const OPEN: [&str; 2] = ["--ecryptfs-passphrase-file", "key"];
const INSTEAD: &str = "an empty directory begins a new tree; --ecryptfs-passthrough takes this one, and new files are encrypted among \
                       those that are not";

/// Commands that take a directory; those that begin with `mount` would write.
const COMMANDS: [&[&str]; 9] = [
    &["ls", "dir"],
    &["ls", "dir", "/sub"],
    &["cat", "dir", "/letter.txt"],
    &["cp", "-r", "dir:/", "out"],
    &["df", "dir"],
    &["tree", "check", "dir"],
    &["tree", "export", "dir", "out"],
    &["mount", "dir", "mnt", "--read-only", "--run", "true"],
    &["mount", "dir", "mnt", "--run", "sh", "-c", "echo new > mnt/new"],
];

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    scratch.bash("mkdir -p dir/sub mnt").ok();
    scratch
}

/// Every file below `dir` and what is in it.
fn contents(scratch: &Scratch) -> BTreeMap<String, Vec<u8>> {
    let names = scratch.bash("cd dir && find . -mindepth 1").ok().stdout;
    let read = |name: &str| fs::read(scratch.path("dir").join(name)).unwrap_or_default();
    names.lines().map(|name| (name.to_owned(), read(name))).collect()
}

/// Runs the command with the passphrase at hand. `--run` comes last.
fn run(scratch: &Scratch, command: &[&str], options: &[&str]) -> common::Ran {
    let at = command.iter().position(|word| *word == "--run").unwrap_or(command.len());
    let (head, tail) = command.split_at(at);
    scratch.atrest(&[head, &OPEN, options, tail].concat())
}

fn lower_file(path: &Path, place: MetadataPlace) {
    let mut keys = Keys::new();
    let [content, _] = keys.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase");
    let options = FileOptions {
        cipher: FileCipher::Aes128,
        key_len: 16,
        signatures: vec![content],
        place,
        encrypted_names: false,
    };
    let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a new file");
    EncryptedFile::create(file, &keys, &options, &mut OsRandom)
        .expect("made")
        .write_at(0, b"secret\n")
        .expect("room");
}

#[track_caller]
fn every_command_refuses(scratch: &Scratch, says: &str) {
    let before = contents(scratch);
    for command in COMMANDS {
        let ran = run(scratch, command, &[]);
        assert_eq!((ran.code, ran.stderr.as_str()), (4, says), "{command:?}");
        assert_eq!(ran.stdout, "", "{command:?}");
        // It is told before a passphrase is asked for: here there is no terminal.
        let at = command.iter().position(|word| *word == "--run").unwrap_or(command.len());
        let ran = scratch.atrest(&[&command[..at], &command[at..]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (4, says), "{command:?} without a passphrase");
        assert!(contents(scratch) == before, "{command:?} wrote into the directory");
        assert!(!scratch.path("out").exists(), "{command:?}");
    }
}

#[test]
fn a_folder_of_documents_is_refused_by_every_command() {
    let scratch = scratch();
    scratch.file("dir/letter.txt", b"Dear reader,\n".repeat(1000));
    scratch.file("dir/sub/empty", b"");
    every_command_refuses(
        &scratch,
        &format!("atrest: dir: nothing in it is encrypted by eCryptfs; it holds letter.txt\n  {INSTEAD}\n"),
    );
    // So is one in which the documents lie further below, or are shorter than a marker.
    scratch.bash("rm -r dir && mkdir -p dir/a/b/c && echo short > dir/a/b/c/note").ok();
    every_command_refuses(
        &scratch,
        &format!("atrest: dir: nothing in it is encrypted by eCryptfs; it holds a/b/c/note\n  {INSTEAD}\n"),
    );
    // And one with directories or links alone.
    scratch.bash("rm -r dir && mkdir -p dir/sub").ok();
    every_command_refuses(
        &scratch,
        &format!("atrest: dir: nothing in it is encrypted by eCryptfs; it holds sub\n  {INSTEAD}\n"),
    );
}

#[test]
fn directories_of_other_programs_are_named() {
    let scratch = scratch();
    scratch.bash("rm -r dir && mkdir dir && echo pass | gocryptfs -q -init -scryptn 10 dir").ok();
    assert!(scratch.path("dir/gocryptfs.conf").exists());
    every_command_refuses(
        &scratch,
        "atrest: dir: this is a directory of gocryptfs, not of eCryptfs\n  gocryptfs itself opens it\n",
    );
    for (file, program) in [
        (".gocryptfs.reverse.conf", "gocryptfs"),
        (".encfs6.xml", "EncFS"),
        (".encfs5", "EncFS"),
        (".encfs4", "EncFS"),
        ("cryfs.config", "CryFS"),
        (".securefs.json", "securefs"),
        ("vault.cryptomator", "Cryptomator"),
        ("masterkey.cryptomator", "Cryptomator"),
    ] {
        scratch
            .bash("rm -r dir && mkdir -p dir/aa && echo ciphertext > dir/aa/bb && echo other > dir/0")
            .ok();
        scratch.file(format!("dir/{file}"), b"settings");
        every_command_refuses(
            &scratch,
            &format!(
                "atrest: dir: this is a directory of {program}, not of eCryptfs\n  {program} itself opens it\n"
            ),
        );
        // Not even if files in the clear are to be read.
        run(&scratch, &["ls", "dir"], &["--ecryptfs-passthrough"]).fails(4, program);
        // The same name below the top, or without anything in it, says nothing.
        scratch.bash(&format!("mv 'dir/{file}' dir/aa/")).ok();
        run(&scratch, &["ls", "dir"], &[]).fails(4, "nothing in it is encrypted by eCryptfs");
    }
}

#[test]
fn a_tree_is_known_by_each_of_its_marks() {
    type Make<'a> = &'a dyn Fn(&Scratch);
    let marks: [(&str, Make<'_>); 4] = [
        ("a header", &|scratch| lower_file(&scratch.path("dir/file"), MetadataPlace::File)),
        ("a header further below", &|scratch| lower_file(&scratch.path("dir/sub/file"), MetadataPlace::File)),
        ("an attribute", &|scratch| lower_file(&scratch.path("dir/file"), MetadataPlace::Xattr)),
        ("a name", &|scratch| {
            scratch.bash("mkdir dir/ECRYPTFS_FNEK_ENCRYPTED.FWaxyz").ok();
        }),
    ];
    for (mark, make) in marks {
        let scratch = scratch();
        make(&scratch);
        // Neither says anything.
        scratch.bash("touch dir/empty; ln -s sub dir/link; mkfifo dir/pipe").ok();
        run(&scratch, &["ls", "dir"], &[]).ok();
        let mount = ["mount", "dir", "mnt", "--run", "sh", "-c", "echo new > mnt/sub/new"];
        let ran = run(&scratch, &mount, &[]);
        assert_eq!(ran.code, 0, "{mark}: {}", ran.stderr);
    }
}

#[test]
fn encrypted_files_among_others_are_read_and_written_only_if_that_is_asked_for() {
    let scratch = scratch();
    lower_file(&scratch.path("dir/secret"), MetadataPlace::File);
    scratch.file("dir/sub/letter.txt", b"Dear reader,\n".repeat(100));
    let before = contents(&scratch);
    let mount = ["mount", "dir", "mnt", "--run", "sh", "-c", "cat mnt/secret && echo new > mnt/new"];
    let ran = run(&scratch, &mount, &[]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            4,
            "atrest: dir: it has both encrypted files and others, such as sub/letter.txt\n  --read-only mounts it without a risk; \
             --ecryptfs-passthrough serves the others as they are, and encrypts new files among them\n"
        )
    );
    assert!(contents(&scratch) == before);
    // Reading changes nothing, and shows which file it is.
    assert_eq!(run(&scratch, &["cat", "dir", "/secret"], &[]).ok().stdout, "secret\n");
    run(&scratch, &["tree", "check", "dir"], &[]).reports(4);
    let read = ["mount", "dir", "mnt", "--read-only", "--run", "cat", "mnt/secret"];
    assert_eq!(run(&scratch, &read, &[]).ok().stdout, "secret\n");
    assert!(contents(&scratch) == before);
    assert_eq!(run(&scratch, &mount, &["--ecryptfs-passthrough"]).ok().stdout, "secret\n");
    assert_eq!(run(&scratch, &["cat", "dir", "/new"], &["--ecryptfs-passthrough"]).ok().stdout, "new\n");
    assert!(fs::read(scratch.path("dir/new")).expect("a lower file").len() > 8192);
}

#[test]
fn the_passphrase_of_a_new_tree_is_asked_for_twice() {
    let scratch = scratch();
    scratch.bash("rmdir dir/sub").ok();
    let mount = ["mount", "dir", "mnt", "--run", "sh", "-c", "echo new > mnt/new"];
    let begin = |typed: [&str; 2]| {
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(&mount));
        terminal.shows("eCryptfs derives its keys weakly: 65,536 rounds of SHA-512");
        for (prompt, line) in
            ["New passphrase of dir (weakly hashed: choose 10 random words)", " once more: "]
                .into_iter()
                .zip(typed)
        {
            terminal.shows(prompt);
            terminal.hides();
            terminal.types(format!("{line}\n").as_bytes());
        }
        (ends(child).code(), terminal)
    };
    let (code, mut terminal) = begin(["correct horse", "correct hrose"]);
    terminal.shows("the two passphrases differ; nothing was changed");
    assert_eq!((code, contents(&scratch).len()), (Some(2), 0));
    assert_eq!(begin(["correct horse", "correct horse"]).0, Some(0));
    assert_eq!(contents(&scratch).len(), 1);
    // Then it is no new one, and asked for once.
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["ls", "dir"]));
    terminal.shows("Passphrase of dir: ");
    terminal.hides();
    terminal.types(b"correct horse\n");
    terminal.shows("new");
    assert_eq!(ends(child).code(), Some(0));
    // What comes from a file is taken as it is.
    scratch.bash("rm -r dir && mkdir dir").ok();
    run(&scratch, &mount, &[]).ok();
    assert_eq!(contents(&scratch).len(), 1);
}

#[test]
fn verify_passphrase_holds_for_a_tree_as_well() {
    let scratch = scratch();
    lower_file(&scratch.path("dir/file"), MetadataPlace::File);
    for (second, code) in [("correct horse", 0), ("correct hrose", 2)] {
        let mut terminal = Terminal::new();
        let child = terminal.start(&scratch.atrest_command(&["cat", "dir", "/file", "-y"]));
        for (prompt, line) in [("Passphrase of dir: ", "correct horse"), (" once more: ", second)] {
            terminal.shows(prompt);
            terminal.hides();
            terminal.types(format!("{line}\n").as_bytes());
        }
        assert_eq!(ends(child).code(), Some(code));
    }
}

#[test]
fn options_of_volumes_are_refused_rather_than_ignored() {
    let scratch = scratch();
    lower_file(&scratch.path("dir/file"), MetadataPlace::File);
    for command in [&["ls", "dir"][..], &["mount", "dir", "mnt"], &["cat", "dir", "/file"]] {
        for (option, value) in [("--key-file", "key"), ("--passphrase-fd", "3")] {
            let ran = scratch.atrest(&[command, &[option, value]].concat());
            let says = format!(
                "atrest: {option} is for volumes, and this is an eCryptfs directory\n  give its passphrase by \
                 --ecryptfs-passphrase-file FILE or --ecryptfs-passphrase-fd N\n"
            );
            assert_eq!((ran.code, ran.stderr), (1, says), "{command:?}");
        }
        let ran = scratch.atrest(command);
        let says = "atrest: there is no terminal to ask for the passphrase on\n  give it by --ecryptfs-passphrase-file FILE or \
                    --ecryptfs-passphrase-fd N\n";
        assert_eq!((ran.code, ran.stderr.as_str()), (1, says), "{command:?}");
    }
}
