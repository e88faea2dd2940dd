//! The Debian packages: made twice with the same bytes; installed, used, upgraded and removed in a clean Debian by `scripts/try-deb`, and
//! under systemd by `scripts/try-systemd`. `make test-full` does it with the optimised programs, and has lintian read the packages
//! (`scripts/try-packages`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atrest_testkit::needs;

use crate::common::{CHEAP, Scratch};

/// Makes a package of the program under test, and one of what unlocks at boot, for which another program stands here.
fn packages(scratch: &Scratch, version: &str, out: &str) -> [PathBuf; 2] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb");
    let words = ["--program", env!("CARGO_BIN_EXE_atrest"), "--init", "/bin/true", "--version", version];
    // How well it is packed is nothing to this test.
    let told = scratch
        .program(script)
        .args(words)
        .arg("--out")
        .arg(scratch.path(out))
        .env("DPKG_DEB_COMPRESSOR_TYPE", "none")
        .ok();
    let told = told.text();
    let mut lines = told.lines().map(PathBuf::from);
    std::array::from_fn(|_| lines.next().expect("the path of a package"))
}

/// All files in `usr` under a folder.
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
fn packages_do_what_they_are_for_in_a_clean_debian_and_two_of_one_commit_have_the_same_bytes() {
    let scratch = Scratch::new();
    let first = packages(&scratch, "0.1.0", "one");
    let again = packages(&scratch, "0.1.0", "two");
    for (one, two) in first.iter().zip(&again) {
        assert_ne!(one, two);
        let bytes = |path: &Path| std::fs::read(path).expect("a package");
        assert!(bytes(one) == bytes(two), "{} and {} differ", one.display(), two.display());
    }

    let root = scratch.path("root");
    for package in &first {
        scratch.program("dpkg-deb").arg("--extract").arg(package).arg(&root).ok();
    }
    let brought = files(&root);
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
        "share/doc/atrest/CHANGELOG.md.gz",
        "share/doc/atrest/THIRD-PARTY.gz",
        "lib/systemd/system/atrest@.service",
        "lib/systemd/user/atrest@.service",
        "sbin/mount.atrest",
        "sbin/atrest-init",
        "share/initramfs-tools/hooks/atrest",
        "share/initramfs-tools/scripts/local-top/atrest",
        "lib/dracut/modules.d/90atrest/module-setup.sh",
        "share/doc/atrest-initramfs/copyright",
    ] {
        assert!(brought.contains(&Path::new("usr").join(name)), "{name} is missing");
    }
    let page = scratch.program("gzip").args(["--to-stdout", "--decompress"]);
    let page = page.arg(root.join("usr/share/man/man1/atrest-open.1.gz"));
    assert!(page.ok().text().contains(".TH atrest-open 1"));

    needs::root("a clean Debian");
    let upgrade = packages(&scratch, "0.1.1", "three");
    let script = |name: &str| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name);
        // The first call has debootstrap make a root.
        scratch.program(script).limit(Duration::from_secs(1200)).args([&first[0], &upgrade[0]])
    };
    for (told, held, end) in [
        (
            script("try-deb").args([&first[1], &upgrade[1]]).ok(),
            12,
            "12 of 12 things hold in a clean bookworm, from 0.1.0 to 0.1.1\n",
        ),
        (script("try-systemd").ok(), 9, "9 things hold under systemd\n"),
    ] {
        let told = told.text();
        print!("{told}");
        assert_eq!(told.lines().filter(|line| line.starts_with("holds: ")).count(), held, "{told}");
        assert!(told.ends_with(end), "{told}");
    }
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
    // A disk that takes no more leaves what was there: here no file may have more than a megabyte.
    let installed = files(&scratch.path("root"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install");
    let program = scratch.path("made");
    let limited = r#"ulimit -f 1024; "$0" --program "$1" --destdir root"#;
    let told = scratch.program("bash").args(["-c", limited]).arg(script).arg(program).run();
    assert_ne!(told.code, Some(0), "{}", told.messages());
    assert_eq!(files(&scratch.path("root")), installed);
    scratch.program(scratch.path("root/usr/local/bin/atrest")).arg("--version").ok();
    install(&["--uninstall"]).ok();
    assert_eq!(files(&scratch.path("root")), before);

    let told = install(&["--program", "/nowhere/atrest"]).run();
    assert_eq!(told.code, Some(1));
    assert!(told.messages().contains("run make build"), "{}", told.messages());
    assert_eq!(files(&scratch.path("root")), before);
}

#[test]
fn systemd_takes_the_units_that_are_installed() {
    let scratch = Scratch::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install");
    let words = ["--program", env!("CARGO_BIN_EXE_atrest"), "--prefix"];
    scratch.program(script).args(words).arg(scratch.path("prefix")).ok();
    for (kind, manager) in [("system", "--system"), ("user", "--user")] {
        let unit = scratch.path("prefix/lib/systemd").join(kind).join("atrest@.service");
        let text = std::fs::read_to_string(&unit).expect("a unit");
        assert!(!text.contains("@bindir@"), "the unit names no program");
        // What it finds to say goes to standard error, and pages are looked for on this machine.
        let analyze = scratch.program("systemd-analyze").env("XDG_RUNTIME_DIR", scratch.path("."));
        let told = analyze.args(["verify", "--man=no", manager]).arg(&unit).ok();
        assert_eq!(told.messages(), "");
    }
}

#[test]
fn systemd_finds_the_unit_of_a_user_who_installs_in_their_home() {
    let scratch = Scratch::new();
    let script = || scratch.program(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install"));
    let prefix = scratch.path(".local");
    script().args(["--program", env!("CARGO_BIN_EXE_atrest"), "--prefix"]).arg(&prefix).ok();
    // By its name, which the manager of users looks for below the home directory.
    let analyze = || {
        let program = scratch.program("systemd-analyze").env("XDG_RUNTIME_DIR", scratch.path("."));
        let program =
            program.env("HOME", scratch.as_path()).env("XDG_DATA_HOME", scratch.path(".local/share"));
        program.args(["verify", "--man=no", "--user", "atrest@photos.service"])
    };
    assert_eq!(analyze().ok().messages(), "");
    assert!(!prefix.join("lib/systemd").exists(), "no system looks for units in a home directory");
    script().args(["--uninstall", "--prefix"]).arg(&prefix).ok();
    let told = analyze().run();
    assert_ne!(told.code, Some(0), "{}", told.messages());
}

#[test]
fn the_line_of_the_units_opens_a_volume() {
    let scratch = Scratch::new();
    let unit = include_str!("../../../../contrib/systemd/system/atrest@.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=@bindir@/atrest ")).expect("a line");
    scratch.file("key", "correct horse");
    let atrest = || scratch.program(env!("CARGO_BIN_EXE_atrest"));
    atrest().args(["format", "--size", "24M", "--key-file", "key"]).args(CHEAP).arg("a volume").ok();
    // As systemd expands it: `$OPTIONS` and `$KEY` become words, `${VOLUME}` one word with its space.
    let mut words = Vec::new();
    for word in line.split(' ') {
        match word {
            "$OPTIONS" => words.push("--nbd".into()),
            "$KEY" => words.extend(["--key-file".into(), "key".into()]),
            "${VOLUME}" => words.push("a volume".to_owned()),
            word => words.push(word.replace("%i", "photos")),
        }
    }
    assert!(words.contains(&"photos".to_owned()) && words.contains(&"a volume".to_owned()), "{words:?}");
    let position = words.iter().position(|word| word == "--").expect("the end of the options");
    // With a command behind it, so that it ends.
    let volume = words.split_off(position + 1);
    words.pop();
    words.extend(volume);
    words.extend(["--run", "sh", "-c", "echo $ATREST_URI"].map(str::to_owned));
    let told = atrest().args(&words).ok();
    assert!(told.text().starts_with("nbd+unix:"), "{}", told.text());
}

#[test]
fn a_program_has_no_path_of_the_folder_that_it_was_built_in() {
    // Two builds in different folders have the same bytes only then; scripts/reproducible makes them. Of the registry's sources and of what
    // build scripts write, scripts/trimmed takes the paths out of a release.
    let program = std::fs::read(env!("CARGO_BIN_EXE_atrest")).expect("the program");
    let sources =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the checkout").join("crates");
    let path = sources.to_str().expect("a path in UTF-8").as_bytes();
    assert_eq!(
        program.windows(path.len()).filter(|window| *window == path).count(),
        0,
        "{}",
        sources.display()
    );
}
