//! What docs/COMPARISON.md says of other programs, seen by running them; and that README's table says what that page says.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::common::{CHEAP, Scratch};

/// An account of every Debian without rights of its own.
const NOBODY: u32 = 65534;

#[test]
fn cryptsetup_opens_no_volume_for_an_ordinary_user() {
    let scratch = Scratch::with_volume();
    std::fs::set_permissions(scratch.as_path(), PermissionsExt::from_mode(0o755)).expect("mode");
    for name in ["vol", "key"] {
        chown(scratch.path(name), Some(NOBODY), None).expect("root");
    }
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let passphrase = ["cryptsetup", "open", "--test-passphrase", "--key-file", "key", "vol"];
    scratch.tool("setpriv", &[&as_nobody[..], &passphrase].concat()).ok();
    let name = scratch.session();
    let open = ["cryptsetup", "open", "--key-file", "key", "vol", &name];
    let ran = scratch.tool("setpriv", &[&as_nobody[..], &open].concat());
    assert_ne!(ran.code, 0, "cryptsetup needs no root");
    assert!(!std::path::Path::new("/dev/mapper").join(&name).exists());
}

#[test]
fn qemu_and_nbdkit_open_luks1_and_not_luks2() {
    for (kind, opens) in [("luks1", true), ("luks2", false)] {
        let scratch = with_volume_of(kind);
        assert_eq!(read_by_nbdkit(&scratch, kind).is_ok(), opens, "nbdkit, {kind}");
        let image = "driver=luks,key-secret=p,file.driver=file,file.filename=vol";
        let ran =
            scratch.tool("qemu-img", &["info", "--object", "secret,id=p,file=key", "--image-opts", image]);
        assert_eq!(ran.code == 0, opens, "qemu-img, {kind}: {}", ran.stderr);
    }
}

#[test]
fn nbdkit_hands_out_changed_data() {
    let scratch = with_volume_of("luks1");
    let before = read_by_nbdkit(&scratch, "before").expect("it opens");
    let mut bytes = scratch.read("vol");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    scratch.file("vol", bytes);
    let after = read_by_nbdkit(&scratch, "after").expect("it opens all the same");
    assert_ne!(before, after, "the change is in the ciphertext");
}

/// A volume whose passphrase has no newline at its end: nbdkit leaves one out, and qemu does not.
fn with_volume_of(kind: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    let args = ["format", "--size", "20M", "--type", kind, "--key-file", "key", "vol"];
    scratch.atrest(&[&args[..], &CHEAP].concat()).ok();
    scratch
}

/// The plaintext of `vol` by nbdkit's filter, or what the filter says.
fn read_by_nbdkit(scratch: &Scratch, out: &str) -> Result<Vec<u8>, String> {
    let copy = format!("nbdcopy \"$uri\" {out}.plain");
    let args = ["-U", "-", "--filter=luks", "file", "vol", "passphrase=+key", "--run", &copy];
    let ran = scratch.tool("nbdkit", &args);
    if ran.code == 0 { Ok(scratch.read(format!("{out}.plain"))) } else { Err(ran.stderr) }
}

#[test]
fn gocryptfs_detects_changed_data_and_no_older_data() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let said = scratch.bash(
        "set -e; mkdir cipher plain
        gocryptfs -q -init -scryptn 10 -plaintextnames -passfile key cipher
        shown() { gocryptfs -q -passfile key cipher plain; cat plain/note || true; fusermount3 -u plain; }
        gocryptfs -q -passfile key cipher plain; echo first > plain/note; fusermount3 -u plain
        cp cipher/note older
        gocryptfs -q -passfile key cipher plain; echo second > plain/note; fusermount3 -u plain
        shown
        cp older cipher/note; shown
        printf X | dd of=cipher/note bs=1 seek=40 conv=notrunc status=none; shown",
    );
    let said = said.ok();
    // The older file is shown as it was, the changed one not at all.
    assert_eq!(said.stdout, "second\nfirst\n", "{}", said.stderr);
    assert!(said.stderr.contains("Input/output error"), "{}", said.stderr);
}

#[test]
fn the_table_of_the_readme_has_the_marks_of_the_page_and_the_page_a_reason_for_each() {
    let readme = table(include_str!("../../../../README.md"));
    let page = reasons(include_str!("../../../../docs/COMPARISON.md"));
    assert!(readme.len() >= 9, "{readme:?}");
    assert_eq!(readme.keys().collect::<Vec<_>>(), page.keys().collect::<Vec<_>>(), "the rows");
    for (row, marks) in &readme {
        assert_eq!(marks, &page[row], "{row}");
    }
}

type Marks = BTreeMap<String, char>;

/// README's table: for each row the mark of each program.
fn table(readme: &str) -> BTreeMap<String, Marks> {
    let mut lines = readme
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    let programs = lines.next().expect("a heading");
    lines
        .skip(1)
        .map(|row| {
            let marks = programs.iter().zip(&row).skip(1);
            let marks = marks.map(|(program, mark)| (program.clone(), mark.chars().next().expect("a mark")));
            (row[0].clone(), marks.collect())
        })
        .collect()
}

/// The page: for each heading the mark of each program, which stands before a colon and a reason. A mark of atrest names a test.
fn reasons(page: &str) -> BTreeMap<String, Marks> {
    let mut rows = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').expect("a heading");
        let mut marks = Marks::new();
        for item in body.split("\n* ").skip(1) {
            let (who, why) = item.split_once(':').expect("a reason");
            assert!(why.trim().len() > 10, "{heading}: {item}");
            // Programs with one reason stand side by side, each with its mark: "qemu, nbdkit –" is one column.
            for program in who.split_inclusive(['✔', '◐', '–']) {
                let mark = program.chars().last().expect("a mark");
                let name = program.trim_end_matches(mark).trim_matches([',', ' ']);
                assert!(marks.insert(name.to_owned(), mark).is_none(), "{heading}: {name} twice");
                let shown = why.contains("::") || mark == '–';
                assert!(name != "atrest" || shown, "{heading}: no test shows what atrest does");
                for test in why.split('`').skip(1).step_by(2).filter(|code| code.contains("::")) {
                    assert!(is_a_test(test), "{heading}: there is no test {test}");
                }
            }
        }
        rows.insert(heading.to_owned(), marks);
    }
    rows
}

/// Whether a test, or a module of tests (`name::`), is somewhere in this workspace.
fn is_a_test(name: &str) -> bool {
    let (module, function) = name.split_once("::").expect("module::test");
    let wanted = if function.is_empty() { format!("mod {module};") } else { format!("fn {function}()") };
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let scratch = Scratch::new();
    scratch.tool("grep", &["-rqF", "--include=*.rs", &wanted, crates]).code == 0
}
