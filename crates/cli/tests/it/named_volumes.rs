//! The configuration file and the names of volumes in it, as somebody at a shell uses them.

use std::os::unix::fs::PermissionsExt;

use crate::common::terminal::{Terminal, ends};
use crate::common::{CHEAP, Ran, Scratch};

/// A volume `vol`, and a configuration in its usual place that names it `photos`.
fn named(more: &str) -> Scratch {
    let scratch = Scratch::with_volume();
    configure(&scratch, &format!("[volumes.photos]\npath = \"{}\"\n{more}", text(&scratch, "vol")));
    scratch
}

fn text(scratch: &Scratch, name: &str) -> String {
    scratch.path(name).display().to_string()
}

fn configure(scratch: &Scratch, config: &str) {
    let directory = scratch.path("config/atrest");
    std::fs::create_dir_all(&directory).expect("a directory");
    scratch.file("config/atrest/config.toml", config.as_bytes());
    for path in [&directory, &directory.join("config.toml")] {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("private");
    }
}

/// `atrest` with the configuration of this scratch directory.
fn run(scratch: &Scratch, words: &str) -> Ran {
    let words: Vec<&str> = words.split_whitespace().collect();
    scratch
        .program(env!("CARGO_BIN_EXE_atrest"))
        .args(words)
        .env("XDG_CONFIG_HOME", scratch.path("config"))
        .without_terminal()
        .run()
        .into()
}

#[test]
fn a_name_stands_for_a_path_and_what_is_said_of_it() {
    let scratch = named("");
    let key = text(&scratch, "key");
    configure(
        &scratch,
        &format!("[volumes.photos]\npath = \"{}\"\nkey-file = \"{key}\"\n", text(&scratch, "vol")),
    );
    assert_eq!(run(&scratch, "uuid photos").ok().stdout, scratch.atrest(&["uuid", "vol"]).ok().stdout);
    run(&scratch, "key test photos").ok();
    run(&scratch, "key list photos").ok();
    run(&scratch, "is-luks photos").ok();
    run(&scratch, "header backup photos backup").ok();
    run(&scratch, "token list photos").ok();
    // What the command line says goes before what the file says.
    scratch.file("wrong", b"staple\n");
    run(&scratch, "key test photos --key-file wrong").fails(2, "wrong passphrase");
    run(&scratch, "key test photo").fails(4, "photo: there is no such file");
    assert!(run(&scratch, "decrypt photos plain").ok().stderr.is_empty());
    let there = std::fs::metadata(scratch.path("plain")).expect("a plaintext");
    assert!(there.len() > 0);
    run(&scratch, "header pin photos").ok();
    run(&scratch, "key test photos").ok();
}

#[test]
fn a_volume_is_opened_shown_and_closed_by_its_name() {
    let scratch = named("");
    let (vol, key, mnt) = (text(&scratch, "vol"), text(&scratch, "key"), text(&scratch, "mnt"));
    std::fs::create_dir(scratch.path("mnt")).expect("a directory");
    configure(
        &scratch,
        &format!(
            "[volumes.photos]\npath = \"{vol}\"\nkey-file = \"{key}\"\nface = \"fuse\"\ndirectory = \"{mnt}\"\nread-only = true\n"
        ),
    );
    run(&scratch, "open photos --daemon").ok();
    let status = run(&scratch, "status photos --json").ok().json();
    assert_eq!((&status[0]["name"], &status[0]["read_only"]), (&"photos".into(), &true.into()));
    assert!(scratch.path("mnt/volume").exists());
    run(&scratch, "close photos").ok();
    run(&scratch, "status photos").fails(4, "no open volume is called");
    // Under another name it is still found by this one.
    run(&scratch, "open photos --daemon --nbd --name other").ok();
    assert_eq!(run(&scratch, "status photos --json").ok().json()[0]["name"], "other");
    run(&scratch, "close photos").ok();
    configure(&scratch, &format!("[volumes.photos]\npath = \"{vol}\"\nkey-file = \"{key}\"\n"));
    run(&scratch, "open photos").fails(1, "how the volume is to be served is missing");
    run(&scratch, "mount photos").fails(1, "the directory to mount it in is missing");
}

#[test]
fn files_inside_are_reached_by_the_name() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    std::fs::create_dir(scratch.path("content")).expect("a directory");
    scratch.file("content/note", b"buy milk\n");
    let image = ["image", "content", "card.img", "--type", "flash", "--size", "1M", "--key-file", "key"];
    scratch.atrest(&image).ok();
    configure(
        &scratch,
        &format!(
            "[volumes.card]\npath = \"{}\"\nkey-file = \"{}\"\n",
            text(&scratch, "card.img"),
            text(&scratch, "key")
        ),
    );
    assert_eq!(run(&scratch, "ls card").ok().stdout, "note\n");
    assert_eq!(run(&scratch, "ls card:/").ok().stdout, "note\n");
    assert_eq!(run(&scratch, "cat card:/note").ok().stdout, "buy milk\n");
    assert_eq!(run(&scratch, "cat card /note").ok().stdout, "buy milk\n");
    run(&scratch, "cp card:/note out").ok();
    run(&scratch, "cp out card:/again").ok();
    run(&scratch, "mv card:/again card:/moved").ok();
    run(&scratch, "mkdir card:/d").ok();
    run(&scratch, "rm card:/moved").ok();
    assert_eq!(run(&scratch, "ls card").ok().stdout, "d\nnote\n");
    run(&scratch, "df card").ok();
}

#[test]
fn tab_completes_names_of_the_configuration_and_files_in_bash() {
    let scratch = named("");
    let offered = |words: &str| run(&scratch, &format!("complete -- atrest {words}")).ok().stdout;
    // The empty line says that a file can stand there, too.
    assert_eq!(offered("open ph"), "\nphotos\n");
    assert_eq!(offered("open x"), "");
    assert_eq!(offered("erase ph"), "");
    assert_eq!(run(&scratch, "complete --json -- atrest mount p").ok().json(), serde_json::json!(["photos"]));
    scratch.file("own.toml", b"[volumes.phone]\npath = \"/x\"\n");
    scratch.bash("chmod 600 own.toml").ok();
    assert_eq!(offered("--config own.toml open ph"), "\nphone\n");
    assert_eq!(offered("open --config=own.toml ph"), "\nphone\n");
    // What is wrong with a configuration is told by commands, not between two keys.
    scratch.file("own.toml", b"[volumes.phone");
    let broken = run(&scratch, "complete -- atrest --config own.toml open ph").ok();
    assert_eq!((broken.stdout.as_str(), broken.stderr.as_str()), ("", ""));

    std::fs::create_dir(scratch.path("phones")).expect("a directory");
    let config = scratch.path("config");
    let (mut terminal, child) = Terminal::completing_bash(&scratch, &[("XDG_CONFIG_HOME", &config)]);
    for (typed, shown) in [
        ("atrest open phot\t", "open photos "),
        ("atrest open phon\t", "open phones/"),
        ("atrest open ph\t\t\t", "phones/ "),
        ("atrest open vo\t", "open vol "),
    ] {
        terminal.completes(typed, shown);
    }
    terminal.types(b"exit\n");
    assert!(ends(child).success());
}

#[test]
fn a_file_in_the_working_directory_does_not_take_the_place_of_a_name() {
    let scratch = named("");
    let other = ["format", "--size", "20M", "--key-file", "key", "./photos"];
    scratch.atrest(&[&other[..], &CHEAP].concat()).ok();
    let uuid = |name: &str| run(&scratch, &format!("uuid {name}")).ok();
    let (named, local) = (uuid("photos"), uuid("./photos"));
    assert_eq!(named.stdout, uuid("vol").stdout);
    assert_ne!(named.stdout, local.stdout);
    assert!(
        named.stderr.contains("photos is the volume") && named.stderr.contains("./photos"),
        "{}",
        named.stderr
    );
    assert_eq!(local.stderr, "");
    // Without a configuration it is a file as any other.
    assert_eq!(scratch.atrest(&["uuid", "photos", "--config", ""]).ok().stdout, local.stdout);
}

#[test]
fn what_destroys_shows_what_a_name_stands_for() {
    let scratch = named("");
    let before = std::fs::read(scratch.path("vol")).expect("the volume");
    let vol = text(&scratch, "vol");
    std::fs::write(scratch.path("zero"), vec![0; 1 << 20]).expect("a file");
    scratch.atrest(&["header", "backup", "vol", "backup"]).ok();
    for words in [
        "erase photos",
        "format photos --key-file key --size 20M",
        "encrypt zero photos --key-file key",
        "encrypt --in-place photos --key-file key",
        "header restore photos backup",
        "key kill photos 0",
        "key remove photos --key-file key",
        "reencrypt photos --reduce-device-size 1M --key-file key",
        "reencrypt photos --decrypt --header away --key-file key",
    ] {
        let asked = run(&scratch, words).fails(1, "there is no terminal to ask on");
        assert!(asked.stderr.contains(&format!("photos stands for {vol} (")), "{words}: {}", asked.stderr);
        // With --yes and a name it would be refused.
        assert!(asked.stderr.contains("write the path: atrest "), "{words}: {}", asked.stderr);
        assert!(asked.stderr.contains(&format!("--yes {vol}\n")), "{words}: {}", asked.stderr);
        let refused = run(&scratch, &format!("{words} --yes")).fails(1, "with --yes nobody is asked");
        assert!(refused.stderr.contains(&format!("--yes {vol}")), "{words}: {}", refused.stderr);
    }
    assert!(std::fs::read(scratch.path("vol")).expect("the volume") == before, "nothing was written");
    // A person who has seen it goes on.
    let mut terminal = Terminal::new();
    let mut command = scratch.atrest_command(&["erase", "photos"]);
    command.env("XDG_CONFIG_HOME", scratch.path("config"));
    let child = terminal.start(&command);
    terminal.shows("photos stands for");
    terminal.shows("to go on: ");
    terminal.types(b"YES\n");
    terminal.shows("to go on: ");
    terminal.types(b"no\n");
    assert_eq!(ends(child).code(), Some(1));
    assert!(std::fs::read(scratch.path("vol")).expect("the volume") == before, "nothing was written");
}

#[test]
fn a_configuration_that_others_could_have_written_is_refused() {
    let scratch = named("");
    let (file, directory) = (scratch.path("config/atrest/config.toml"), scratch.path("config/atrest"));
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
    };
    for bits in [0o622, 0o620, 0o602] {
        mode(&file, bits);
        run(&scratch, "uuid photos").fails(2, "others can write the configuration");
    }
    mode(&file, 0o644);
    run(&scratch, "uuid photos").ok();
    mode(&directory, 0o777);
    run(&scratch, "uuid photos").fails(2, "others can write the directory of the configuration");
    mode(&directory, 0o755);
    run(&scratch, "uuid photos").ok();
    if rustix::process::geteuid().is_root() {
        // Who owns a sticky directory renames what is in it.
        mode(&directory, 0o1777);
        run(&scratch, "uuid photos").ok();
        std::os::unix::fs::chown(&directory, Some(12345), None).expect("another owner");
        run(&scratch, "uuid photos").fails(2, "the directory of the configuration belongs to another user");
        std::os::unix::fs::chown(&directory, Some(0), None).expect("the old owner");
        mode(&directory, 0o755);
        std::os::unix::fs::chown(&file, Some(12345), None).expect("another owner");
        run(&scratch, "uuid photos").fails(2, "the configuration belongs to another user (12345)");
        std::os::unix::fs::chown(&file, Some(0), None).expect("the old owner");
        run(&scratch, "uuid vol --config").fails(1, "--config");
    }
    // Above its directory, somebody else could put another directory in the place of this one.
    let above = scratch.path("config");
    mode(&above, 0o775);
    run(&scratch, "uuid photos").fails(2, "config: others can write a directory above the configuration");
    mode(&above, 0o755);
    // A symlink leads on, and what it leads through counts as well.
    for name in ["open", "open/shut"] {
        std::fs::create_dir(scratch.path(name)).expect("a directory");
    }
    scratch.bash("cp config/atrest/config.toml open/shut/; chmod 755 open/shut; chmod 757 open; ln -s ../open/shut config/way").ok();
    run(&scratch, "uuid photos --config config/way/config.toml")
        .fails(2, "open: others can write a directory above");
    run(&scratch, "uuid photos --config open/shut/../shut/config.toml")
        .fails(2, "others can write a directory above");
    mode(&scratch.path("open"), 0o1777);
    run(&scratch, "uuid photos --config config/way/config.toml").ok();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(scratch.path("open/shut"), Some(12345), None).expect("another owner");
        run(&scratch, "uuid photos --config config/way/config.toml")
            .fails(2, "open/shut: this part of the way to the configuration belongs to another user (12345)");
        std::os::unix::fs::lchown(scratch.path("open/shut"), Some(0), None).expect("the old owner");
    }
    scratch.bash("chmod 755 open; ln -s loop loop").ok();
    run(&scratch, "uuid photos --config config/way/config.toml").ok();
    run(&scratch, "uuid photos --config loop/config.toml").fails(4, "Too many levels of symbolic links");
    // Where there can be none, there is none.
    let nowhere = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(["uuid", "vol"]);
    let nowhere = nowhere.env("XDG_CONFIG_HOME", scratch.path("vol")).without_terminal();
    Ran::from(nowhere.run()).reports(0);
    // What has nothing to do with volumes goes on.
    scratch.bash("\"$ATREST\" completions bash > /dev/null").ok();
    run(&scratch, "complete -- atrest close").ok();
}

#[test]
fn what_is_wrong_in_the_file_is_told_with_its_line() {
    let scratch = Scratch::with_volume();
    for (config, says) in [
        ("[volumes.a]\npath = \"/x\"\nheadr = \"/h\"\n", "line 3: [volumes.a] has no key \"headr\""),
        ("[volumes.a]\npath = \"/x\"\npassphrase = \"horse\"\n", "secrets do not belong into this file"),
        ("a = [", "config.toml, line 1: "),
        ("[defaults]\nmax-kdf-time = \"soon\"\n", "line 2: max-kdf-time is a number, without quotes"),
    ] {
        configure(&scratch, config);
        let ran = run(&scratch, "uuid vol").fails(1, says);
        assert!(!ran.stderr.contains("horse"), "{}", ran.stderr);
        run(&scratch, "config").fails(1, says);
    }
    configure(&scratch, "");
    run(&scratch, "uuid vol").ok();
    std::fs::write(scratch.path("config/atrest/config.toml"), [0xff, 0xfe]).expect("written");
    run(&scratch, "uuid vol").fails(1, "the configuration is not UTF-8 text");
    std::fs::write(scratch.path("config/atrest/config.toml"), vec![b'#'; 2 << 20]).expect("written");
    run(&scratch, "uuid vol").fails(1, "the configuration has more than 1048576 bytes");
}

#[test]
fn config_shows_what_holds_and_where_it_is_said() {
    let scratch = named("face = \"nbd\"\n");
    let file = text(&scratch, "config/atrest/config.toml");
    let said = run(&scratch, "config").reports(0).stdout;
    assert!(said.starts_with(&format!("{file} (the usual place)\nphotos\n")), "{said}");
    assert!(said.contains("  face             nbd  (line 3)\n"), "{said}");
    let json = run(&scratch, "config --json").reports(0).json();
    assert_eq!(json["volumes"]["photos"]["face"], serde_json::json!({ "value": "nbd", "line": 3 }));
    assert_eq!(json["file"], file.as_str());
    scratch.file("own.toml", b"[defaults]\nmax-kdf-time = 7\n");
    scratch.bash("chmod 600 own.toml").ok();
    let own = run(&scratch, "config --config own.toml --json").reports(0).json();
    assert_eq!((&own["from"], &own["defaults"]["max-kdf-time"]["value"]), (&"--config".into(), &7.into()));
    scratch.bash("mkfifo pipe; chmod 600 pipe").ok();
    for strange in ["pipe", "/dev/null", "config"] {
        run(&scratch, &format!("uuid vol --config {strange}")).fails(1, "the configuration is no file");
    }
    run(&scratch, "config --config missing.toml").fails(4, "missing.toml: there is no such file");
    let none =
        scratch.program(env!("CARGO_BIN_EXE_atrest")).args(["config", "--json"]).env("ATREST_CONFIG", "");
    let none: Ran = none.without_terminal().run().into();
    assert_eq!(none.reports(0).json()["file"], serde_json::Value::Null);
}
