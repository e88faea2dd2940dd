//! The Debian package: made twice with the same bytes; installed, used, upgraded and removed in an empty root. `make test-full` does it with
//! apt in a root that debootstrap made (`scripts/try-deb`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use atrest_testkit::oracle::Program;

use crate::common::{CHEAP, Scratch};

/// Makes a package of the program under test.
fn package(scratch: &Scratch, version: &str, out: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb");
    let words = ["--program", env!("CARGO_BIN_EXE_atrest"), "--version", version];
    // How well it is packed is nothing to this test.
    let told = scratch
        .program(script)
        .args(words)
        .arg("--out")
        .arg(scratch.path(out))
        .env("DPKG_DEB_COMPRESSOR_TYPE", "none")
        .ok();
    PathBuf::from(told.text().trim())
}

/// dpkg, for a root that has nothing: not the libraries that the package depends on, either.
fn dpkg(scratch: &Scratch) -> Program {
    scratch.program("dpkg").arg(format!("--root={}", scratch.path("root").display())).arg("--force-depends")
}

/// All files under a folder, but what dpkg keeps for itself.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut left = vec![root.join("usr")];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let entry = entry.expect("an entry");
            match entry.file_type().expect("its type").is_dir() {
                true => left.push(entry.path()),
                false => drop(found.insert(entry.path().strip_prefix(root).expect("below it").to_owned())),
            }
        }
    }
    found
}

#[test]
fn a_package_is_installed_used_upgraded_and_removed_and_two_of_one_commit_have_the_same_bytes() {
    let scratch = Scratch::new();
    let first = package(&scratch, "0.1.0", "one");
    let again = package(&scratch, "0.1.0", "two");
    assert_ne!(first, again);
    assert!(
        std::fs::read(&first).expect("a package") == std::fs::read(&again).expect("a package"),
        "two packages differ"
    );

    let root = scratch.path("root");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").expect("an empty list");
    dpkg(&scratch).arg("--install").arg(&first).ok();
    let installed = files(&root);
    for name in [
        "bin/atrest",
        "share/man/man1/atrest.1.gz",
        "share/man/man1/atrest-key-add.1.gz",
        "share/man/man5/atrest-luks.5.gz",
        "share/bash-completion/completions/atrest",
        "share/fish/vendor_completions.d/atrest.fish",
        "share/zsh/vendor-completions/_atrest",
        "share/doc/atrest/copyright",
        "share/doc/atrest/docs/CLI.md",
    ] {
        assert!(installed.contains(&Path::new("usr").join(name)), "{name} is missing");
    }
    // Every byte is what its checksum says, and every file has one.
    assert_eq!(dpkg(&scratch).args(["--verify", "atrest"]).ok().text(), "");

    // The installed program, not the one that was built.
    let atrest = || scratch.program(root.join("usr/bin/atrest"));
    scratch.file("key", "correct horse");
    atrest().args(["format", "--size", "24M", "--key-file", "key"]).args(CHEAP).arg("volume").ok();
    atrest().args(["key", "test", "--key-file", "key", "volume"]).ok();
    let page = scratch
        .program("gzip")
        .arg("--to-stdout")
        .arg("--decompress")
        .arg(root.join("usr/share/man/man1/atrest-open.1.gz"));
    assert!(page.ok().text().contains(".TH atrest-open 1"));

    dpkg(&scratch).arg("--install").arg(package(&scratch, "0.1.1", "three")).ok();
    let version =
        scratch.program("dpkg-query").arg(format!("--admindir={}", root.join("var/lib/dpkg").display()));
    assert_eq!(version.args(["--showformat=${Version}", "--show", "atrest"]).ok().text(), "0.1.1");
    assert_eq!(files(&root), installed);
    atrest().args(["key", "test", "--key-file", "key", "volume"]).ok();

    dpkg(&scratch).args(["--remove", "atrest"]).ok();
    assert_eq!(files(&root), BTreeSet::new());
}

#[test]
fn what_is_installed_in_a_prefix_is_removed_again_and_nothing_else() {
    let scratch = Scratch::new();
    let install = |words: &[&str]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install");
        scratch.program(script).args(words).args(["--destdir", "root"])
    };
    let page = scratch.path("root/usr/local/share/man/man1/other.1");
    std::fs::create_dir_all(page.parent().expect("its folder")).expect("a folder");
    std::fs::write(&page, "of another program").expect("a page");
    let before = files(&scratch.path("root"));
    // Paths are the caller's, wherever the script lies.
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("made")).expect("a link");
    install(&["--program", "made"]).ok();
    assert!(scratch.path("root/usr/local/bin/atrest").exists());
    assert!(files(&scratch.path("root")).len() > before.len() + 50, "pages, completions, documents");
    install(&["--uninstall"]).ok();
    assert_eq!(files(&scratch.path("root")), before);

    let told = install(&["--program", "/nowhere/atrest"]).run();
    assert_eq!(told.code, Some(1));
    assert!(told.messages().contains("run make build"), "{}", told.messages());
    assert_eq!(files(&scratch.path("root")), before);
}
