//! What people meet every day: progress on a terminal, empty lists, sizes, and messages that say what to do.

use rustix::termios::Winsize;

use crate::common::terminal::Terminal;
use crate::common::{CHEAP, Scratch};

/// What a terminal of so many columns shows of a command that takes some seconds.
fn shown(scratch: &Scratch, columns: u16, locale: &str, args: &[&str]) -> String {
    let terminal = Terminal::new();
    terminal.resize(Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
    let mut command = scratch.atrest_command(args);
    command.env("LC_ALL", locale).env("TERM", "xterm").env("NO_COLOR", "1");
    let child = terminal.start(&command);
    let shown = terminal.until_the_end(child);
    assert!(!shown.contains("panicked"), "{shown}");
    shown
}

/// The lines that were drawn one over the other, without what steers the terminal.
fn drawn(shown: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut letters = shown.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                assert_eq!(letters.next(), Some('['), "{shown:?}");
                let end = letters.by_ref().find(|letter| letter.is_ascii_alphabetic());
                assert!(end.is_some_and(|end| end != 'm'), "no colours with NO_COLOR: {shown:?}");
                lines.push(String::new());
            }
            '\r' | '\n' => lines.push(String::new()),
            letter => lines.last_mut().expect("a line").push(letter),
        }
    }
    // What is left of a longer line is wiped by spaces.
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines.retain(|line| !line.is_empty());
    lines
}

#[test]
fn a_copy_shows_how_far_it_is_on_wide_and_narrow_terminals() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let format = ["format", "--size", "420M", "--key-file", "key", "vol"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    std::fs::create_dir(scratch.path("mnt")).expect("a directory");
    let name = scratch.session();
    let open = ["open", "vol", "--key-file", "key", "--fuse", "mnt", "--name", &name, "--run", "sh", "-c"];
    scratch.atrest(&[&open[..], &["mkfs.vfat -F32 \"$ATREST_PATH\" > log"]].concat()).ok();
    let large = std::fs::File::create(scratch.path("large")).expect("a file");
    large.set_len(180 << 20).expect("its length");
    let key = ["--key-file", "key", "--yes"];
    for (columns, locale) in [(40, "C"), (120, "C.UTF-8")] {
        let said = shown(&scratch, columns, locale, &[&["cp", "large", "vol:/large"][..], &key].concat());
        let lines = drawn(&said);
        let bars: Vec<_> = lines.iter().filter(|line| line.contains("% ")).collect();
        assert!(!bars.is_empty(), "{lines:?}");
        for line in &bars {
            assert!(line.chars().count() < columns.into(), "{line:?} wraps at {columns}");
            assert_eq!(line.is_ascii(), locale == "C" || !line.contains('░'), "{line:?}");
        }
        assert!(bars.iter().any(|line| line.contains("of 180 MiB")), "{bars:?}");
        assert!(!bars[0].contains(" 0 s left"), "{bars:?}");
    }
    // Nobody looks: nothing is drawn.
    let quiet = scratch.atrest(&[&["cp", "vol:/large", "back"][..], &key].concat()).ok();
    assert_eq!(quiet.stderr, "");
    assert!(quiet.stdout.contains("188743680 bytes (180 MiB)"), "{}", quiet.stdout);
}

#[test]
fn a_reencryption_moves_within_a_zone_and_does_not_begin_at_its_end() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    // A slow cipher: the line is drawn while a zone of 128 MiB is under way, however fast the machine is.
    let cipher = ["--cipher", "serpent-cbc-plain64", "--key-size", "256"];
    let format = ["format", "--size", "300M", "--key-file", "key", "vol"];
    scratch.atrest(&[&format[..], &cipher, &CHEAP].concat()).ok();
    let words = ["reencrypt", "vol", "--key-file", "key", "--yes"];
    let lines = drawn(&shown(&scratch, 80, "C", &[&words[..], &CHEAP].concat()));
    let bars: Vec<_> = lines.iter().filter(|line| line.contains(" MiB of 284 MiB")).collect();
    let amounts: std::collections::BTreeSet<u32> = bars
        .iter()
        .filter_map(|line| line.split(" MiB of").next()?.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(
        amounts.iter().any(|amount| !matches!(amount, 0 | 128 | 256 | 284)),
        "only whole zones: {lines:?}"
    );
    assert!(lines.iter().all(|line| line.len() < 80), "{lines:?}");
    assert!(!bars.first().is_some_and(|line| line.contains(" 0 s left")), "{bars:?}");
}

#[test]
fn lists_with_nothing_in_them_say_so() {
    let scratch = Scratch::with_volume();
    // Other tests have volumes open. Here there is a list of open volumes that nobody else sees.
    let alone = |words: &str| {
        let list = "mkdir -p /run/atrest && mount -t tmpfs -o mode=0700 none /run/atrest";
        scratch.bash(&format!("unshare --mount bash -c '{list} && {words}'")).ok().stdout
    };
    assert!(alone("$ATREST status").starts_with("nothing is open"));
    assert_eq!(alone("$ATREST status --json").trim(), "[]");
    let open = "$ATREST open vol --key-file key --nbd --daemon --name alone";
    let told = alone(&format!("{open} && $ATREST status && $ATREST close alone"));
    assert!(told.contains("alone: ") && !told.contains("nothing is open"), "{told}");
    assert_eq!(scratch.atrest(&["token", "list", "vol"]).reports(0).stdout, "no tokens\n");
    assert_eq!(scratch.atrest(&["token", "list", "vol", "--json"]).reports(0).json(), serde_json::json!([]));
    let url = format!("file://{}", scratch.path("store").display());
    let format = ["format", &url, "--type", "sealed", "--size", "1M", "--store", "st", "--key-file", "key"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    let list = ["snapshot", "list", &url, "--store", "st", "--key-file", "key"];
    assert_eq!(scratch.atrest(&list).reports(0).stdout, "no snapshots\n");
    assert_eq!(scratch.atrest(&[&list[..], &["--json"]].concat()).reports(0).json(), serde_json::json!([]));
}

#[test]
fn sizes_are_shown_in_bytes_and_in_larger_units() {
    let scratch = Scratch::with_volume();
    let info = scratch.atrest(&["info", "vol"]).reports(0).stdout;
    assert!(info.contains("16384 bytes (16 KiB) in each copy"), "{info}");
    assert!(info.contains("from 16777216 (16 MiB)"), "{info}");
}

#[test]
fn messages_name_what_is_wrong_and_what_to_do() {
    let scratch = Scratch::with_volume();
    scratch.file("noise", b"this is no trusted store\n");
    let bucket = scratch.atrest(&["info", "s3://b/p"]).fails(1, "it has 3 to 63 small letters");
    assert!(bucket.stderr.contains("s3://disks/laptop"), "{}", bucket.stderr);
    let replaced = scratch.atrest(&["key", "replace", "vol", "1", "recovery", "--key-file", "key"]);
    let replaced = replaced.fails(1, "vol: the volume has no token with several factors");
    assert!(replaced.stderr.contains("atrest key add --any 2"), "{}", replaced.stderr);
    let of = ["key", "replace", "vol", "1", "recovery", "--of", "3", "--key-file", "key"];
    scratch.atrest(&of).fails(1, "the volume has no token 3 with several factors");
    let image =
        ["format", "card.img", "--type", "sealed", "--store", "st", "--size", "1M", "--key-file", "key"];
    scratch.atrest(&image).ok();
    let open = scratch.atrest(&["ls", "card.img", "--store", "noise", "--key-file", "key"]);
    let open = open.fails(4, "atrest header pin --store");
    assert!(open.stderr.contains("atrest format --type sealed --store"), "{}", open.stderr);
}
