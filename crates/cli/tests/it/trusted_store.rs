//! The trusted store as a file: replaced so that a kill or a power loss leaves the old record or the new one, used by one
//! command at a time, and what is said of it where nothing is unlocked.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{CHEAP, Scratch};
use atrest_testkit::needs;

const NEW: [&str; 7] = ["--type", "sealed", "--store", "store", "--key-file", "key", "--size"];
const USE: [&str; 4] = ["--key-file", "key", "--store", "store"];

fn with_card() -> Scratch {
    let scratch = Scratch::new();
    scratch.tool("strace", &["-V"]).ok();
    scratch.file("key", b"correct horse\n");
    scratch.atrest(&[&["format", "card"], &NEW[..], &["256K"], &CHEAP].concat()).ok();
    scratch
}

/// One system call of a traced command that is about the store or the card.
#[derive(Debug, PartialEq)]
enum Call {
    Create(String),
    Write(String),
    Sync(String),
    Rename(String, String),
    Card,
}

/// What strace saw: `PID openat(7</dir>, ".store.0123.new", O_RDWR|O_CREAT|O_EXCL…, 0600) = 8</dir/.store.0123.new>`.
fn calls(trace: &str) -> Vec<Call> {
    let behind = |line: &str, open: char, close: char| {
        Some(line.split_once(open)?.1.split_once(close)?.0.rsplit('/').next()?.to_owned())
    };
    let quoted = |line: &str, number: usize| line.split('"').nth(2 * number + 1).map(str::to_owned);
    let mut found = Vec::new();
    for line in trace.lines() {
        let Some((name, call)) = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('))
        else {
            continue;
        };
        let torn = line.contains("unfinished") || line.contains("resumed");
        assert!(!torn || !line.contains("store") && !line.contains("card"), "two threads at once: {line}");
        if line.contains(" = -1 ") {
            continue;
        }
        let on = behind(call, '<', '>').unwrap_or_default();
        found.push(match name {
            "openat" if call.contains(".new\"") => {
                assert!(call.contains("O_CREAT|O_EXCL") && call.contains("O_NOFOLLOW"), "{line}");
                Call::Create(quoted(call, 0).expect("a name"))
            }
            "write" if on.ends_with(".new") => Call::Write(on),
            "write" | "pwrite64" if on == "card" => Call::Card,
            "fsync" => Call::Sync(on),
            "rename" | "renameat" | "renameat2" => {
                Call::Rename(quoted(call, 0).expect("a name"), quoted(call, 1).expect("a name"))
            }
            _ => continue,
        });
    }
    found
}

/// Plays the calls on a directory of which a power loss leaves what was synced, and of the rest anything. However many calls
/// were done, the name means a whole record: an old one, or one as new as what was announced on the card. Gives how many records were stored.
fn replay(calls: &[Call], directory: &str, there_before: bool) -> usize {
    // Whether all that was written to a file was synced.
    let mut whole: HashMap<&str, bool> = HashMap::new();
    // Files that the name can mean after a power loss now; the last one is what it means without.
    let mut meant: Vec<Option<&str>> = vec![if there_before { Some("what was there") } else { None }];
    whole.insert("what was there", true);
    let mut stored = 0;
    for call in calls {
        match call {
            Call::Create(name) => drop(whole.insert(name, false)),
            Call::Write(name) => {
                assert!(!meant.contains(&Some(name.as_str())), "{name} was written under the store's name");
                whole.insert(name, false);
            }
            Call::Sync(name) if name == directory => drop(meant.drain(..meant.len() - 1)),
            Call::Sync(name) => {
                if let Some(whole) = whole.get_mut(name.as_str()) {
                    *whole = true;
                }
            }
            Call::Rename(from, to) => {
                assert_eq!(to, "store");
                meant.push(Some(from));
                stored += 1;
            }
            Call::Card => assert_eq!(meant.len(), 1, "the card was written before the store was durable"),
        }
        for file in meant.iter().flatten() {
            assert!(whole[file], "after {call:?} a power loss leaves the name with half of {file}");
        }
    }
    assert_eq!(meant.len(), 1, "the last record is not durable");
    stored
}

/// What is written is not shown; names of files are.
const TRACED: &str =
    "strace -f -y -qq -s 0 -o trace -e trace=openat,write,pwrite64,fsync,rename,renameat,renameat2";

#[test]
fn a_power_loss_after_any_system_call_leaves_a_whole_record() {
    let scratch = with_card();
    fs::remove_file(scratch.path("card")).expect("removed");
    fs::remove_file(scratch.path("store")).expect("removed");
    let directory = scratch.session();
    let traced = |line: &str, there_before| {
        scratch.bash(&format!("{TRACED} $ATREST {line}")).ok();
        let trace = fs::read_to_string(scratch.path("trace")).expect("the trace");
        replay(&calls(&trace), &directory, there_before)
    };
    let format = [&["format", "card"], &NEW[..], &["256K"], &CHEAP].concat().join(" ");
    assert_eq!(traced(&format, false), 1, "a new store is made whole, once its volume is");
    let made = traced(&format!("mkdir {} card /a", USE.join(" ")), true);
    assert!(made >= 3, "opened, changed, closed: {made} records");
    assert_eq!(traced(&format!("ls {} card", USE.join(" ")), true), 0);
}

#[test]
fn a_kill_at_any_system_call_leaves_a_store_that_opens() {
    let scratch = with_card();
    let with = USE.join(" ");
    scratch.bash(&format!("{TRACED} $ATREST mkdir {with} card /first")).ok();
    let trace = fs::read_to_string(scratch.path("trace")).expect("the trace");
    let mut kills = 0;
    for call in ["fsync", "renameat", "renameat2", "write"] {
        let count = trace.matches(&format!(" {call}(")).count();
        for number in 1..=count {
            let before = fs::read(scratch.path("store")).expect("the store");
            let kill =
                format!("strace -f -qq -o killed -e trace={call} -e inject={call}:signal=KILL:when={number}");
            let ran = scratch.bash(&format!("{kill} $ATREST mkdir {with} card /{call}{number}; echo $?"));
            // What a command before it left open takes a few more records.
            kills += usize::from(ran.stdout == "137\n");
            let after = fs::read(scratch.path("store")).expect("the store");
            assert_eq!((before.len(), after.len()), (80, 80), "{call} {number}");
            scratch.atrest(&[&["ls", "card"], &USE[..]].concat()).ok();
        }
    }
    assert!(kills > 12, "{kills} kills");
    scratch.atrest(&[&["mkdir", "card", "/last"], &USE[..]].concat()).ok();
    let listed = scratch.atrest(&[&["ls", "card"], &USE[..]].concat()).ok();
    assert!(listed.stdout.starts_with("first\n") && listed.stdout.contains("last\n"), "{}", listed.stdout);
    // What was being written stays beside, under a name of its own.
    let left = fs::read_dir(scratch.path("")).expect("it").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_str().is_some_and(|name| name.starts_with(".store.") && name.ends_with(".new"))
    });
    assert!(left.count() <= kills);
}

/// The keyslot is on the volume by then, and nothing else has the recovery key.
#[test]
fn a_recovery_key_is_printed_before_a_store_that_fails() {
    let scratch = Scratch::with_volume();
    scratch.tool("strace", &["-V"]).ok();
    scratch.bash("$ATREST header pin vol --key-file key --store store").ok();
    let failing =
        "strace -f -qq -o failed -e trace=renameat,renameat2 -e inject=renameat,renameat2:error=EIO";
    let add = format!("{failing} $ATREST key add vol --key-file key --store store --recovery");
    let told = scratch.bash(&add).fails(4, "the trusted store is not told");
    scratch.file("recovery", told.stdout.trim_end());
    scratch.bash("$ATREST key test vol --key-file recovery --key-slot 1").ok();
}

#[test]
fn a_store_is_used_by_one_command_at_a_time() {
    let scratch = with_card();
    scratch.bash("cp card copy; mkdir mnt; ln -s store link; ln store hard").ok();
    let before = fs::read(scratch.path("copy")).expect("the copy");
    let inner = |line: &str| {
        let mount = format!("$ATREST mount {} card mnt --run sh -c '$ATREST {line}'", USE.join(" "));
        scratch.bash(&mount)
    };
    for store in ["store", "link"] {
        for line in ["mkdir STORE copy /x", "ls STORE copy", "key test STORE copy"] {
            let line = line.replace("STORE", &format!("--key-file key --store {store}"));
            let refused = inner(&line).fails(5, "the trusted store is in use");
            assert!(refused.stderr.contains("two copies of one, never share a store"), "{}", refused.stderr);
        }
    }
    let format =
        format!("format --yes new {} {}", NEW.join(" "), CHEAP.join(" ")).replace("--size", "--size 64K");
    inner(&format).fails(5, "the trusted store is in use");
    assert!(!scratch.path("new").exists());
    assert!(fs::read(scratch.path("copy")).expect("the copy") == before, "the copy was written");
    // What is no store at all is not said to be in use.
    scratch.atrest(&["mkdir", "--key-file", "key", "--store", "card", "card", "/x"]).fails(4, "262144 bytes");
    // Looking is always possible.
    let info = inner("info --json --store store card").ok().json();
    assert!(info["sealing"]["store"]["anchor"].is_u64(), "{info}");
    // Nobody is locked out by a process that is gone.
    scratch.atrest(&[&["ls", "card"], &USE[..]].concat()).ok();
}

#[test]
fn a_store_stays_its_owners_whoever_writes() {
    needs::root("stepping down to another user");
    let scratch = with_card();
    scratch.file("file", "by root");
    scratch.bash("chown 65534:65533 store; chmod 640 store").ok();
    let owned = || scratch.bash("stat -c '%u:%g %a' store").ok().stdout;
    scratch.atrest(&[&["cp"], &USE[..], &["file", "card:/file"]].concat()).ok();
    assert_eq!(owned(), "65534:65533 640\n");

    // Whoever can write the store and its directory, and can't give files away, takes nobody's store away.
    scratch
        .bash("cp $ATREST ./atrest; chmod 755 atrest; chmod 777 .; chmod 666 card; chmod 644 key file")
        .ok();
    let as_nobody =
        "setpriv --reuid 65534 --regid 65534 --clear-groups ./atrest cp --key-file key --store store file";
    for (owner, refused) in [
        ("0:65534 660", true),
        ("65534:65533 660", true),
        ("65534:65533 600", false),
        ("65534:65534 660", false),
    ] {
        let (ids, mode) = owner.split_once(' ').expect("both");
        scratch.bash(&format!("chown {ids} store; chmod {mode} store")).ok();
        let before = [scratch.path("card"), scratch.path("store")].map(|path| fs::read(path).expect("it"));
        let ran = scratch.bash(&format!("{as_nobody} card:/{mode}-{}", ids.replace(':', "-")));
        if refused {
            ran.fails(2, "can't be given");
            let after = [scratch.path("card"), scratch.path("store")].map(|path| fs::read(path).expect("it"));
            assert!(before == after, "{owner}: something was written");
            assert_eq!(owned().trim(), owner);
        } else {
            ran.ok();
        }
    }
    assert_eq!(owned(), "65534:65534 660\n");
    assert!(!scratch.bash("ls -A").ok().stdout.contains(".new"), "something was left beside");
}

#[test]
fn a_link_to_nothing_is_no_place_for_a_store() {
    let scratch = with_card();
    scratch.bash("mkdir stick && mv store stick/ && ln -s stick/store store").ok();
    scratch.atrest(&[&["mkdir", "card", "/a"], &USE[..]].concat()).ok();
    scratch.bash("mv stick away").ok();
    let lost = "is a link, and the file that it leads to is not there";
    for command in [&["ls", "card"][..], &["mkdir", "card", "/b"], &["key", "test", "card"]] {
        let refused = scratch.atrest(&[command, &USE[..]].concat()).fails(4, lost);
        assert!(refused.stderr.contains("bring back"), "{}", refused.stderr);
    }
    scratch.atrest(&["info", "--store", "store", "card"]).fails(4, lost);
    scratch.atrest(&[&["format", "new"], &NEW[..], &["64K"], &CHEAP].concat()).fails(4, lost);
    assert!(!scratch.path("new").exists() && !scratch.path("stick").exists());
    // A name that somebody prepared beside the store leads nowhere either.
    scratch.bash("mv away stick").ok();
    scratch.file("mine", b"a file of somebody's");
    symlink("../mine", scratch.path("stick/.store.new")).expect("a link");
    scratch.atrest(&[&["mkdir", "card", "/b"], &USE[..]].concat()).ok();
    assert_eq!(fs::read(scratch.path("mine")).expect("mine"), b"a file of somebody's");
}

#[test]
fn where_nothing_is_unlocked_a_store_is_shown_as_unverified_or_not_taken() {
    let scratch = with_card();
    scratch.atrest(&[&["format", "other"], &NEW[..], &["256K", "--yes"], &CHEAP].concat()).ok();
    let before = fs::read(scratch.path("card")).expect("the card");
    // It is the other one's by now, and nobody can tell without a passphrase.
    let shown = scratch.atrest(&["info", "--store", "store", "card"]).ok();
    assert!(shown.stdout.contains("unverified"), "{}", shown.stdout);
    let info = scratch.atrest(&["info", "--json", "--store", "store", "card"]).ok().json();
    assert_eq!(info["sealing"]["store"]["verified"], false);
    let ran = scratch.atrest(&["key", "list", "--store", "store", "card"]);
    let refused = ran.fails(1, "nothing is unlocked");
    assert!(refused.stderr.contains("key test --store"), "{}", refused.stderr);
    // What is destroyed is destroyed with the store of this volume, or without one.
    for command in [&["erase", "--yes", "card"][..], &["key", "kill", "--yes", "card", "0"]] {
        let ran = scratch.atrest(&[command, &["--store", "store"]].concat());
        ran.fails(4, "is not the one that the trusted store names");
    }
    // `repair` unlocks what it holds against the store.
    for command in [&["key", "test"][..], &["repair", "--yes"]] {
        let command = [command, &["card"], &USE[..]].concat();
        scratch.atrest(&command).fails(4, "belongs to another volume");
    }
    assert!(fs::read(scratch.path("card")).expect("the card") == before);
    assert_eq!(scratch.atrest(&["key", "list", "card"]).ok().stdout.lines().count(), 1);
}
