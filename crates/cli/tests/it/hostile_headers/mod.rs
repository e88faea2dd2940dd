//! One list of hostile headers goes through every command that opens something. A command that fails must say why in one
//! sentence, with an exit code of its own, in bounded time, and must not have changed a byte of any file. A command that
//! works on the data must not have changed the header either, also if it succeeds.

mod media;
mod verbs;

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use atrest_testkit::Campaign;

use crate::common::{self, Scratch};
use media::{Medium, Refuses};
use verbs::{VERBS, Verb, Works};

/// How long a command may take, on a machine that does other things as well; of that ten seconds of processor time may go
/// into the derivation of a key.
const SECONDS: u32 = 120;

#[derive(Clone, Copy)]
struct Cell {
    medium: &'static Medium,
    verb: &'static Verb,
}

fn media() -> &'static [Medium] {
    static MEDIA: OnceLock<Vec<Medium>> = OnceLock::new();
    MEDIA.get_or_init(|| media::all(if Campaign::is_full() { 100 } else { 40 }))
}

fn cells(of: impl Fn(&Medium) -> bool) -> Vec<Cell> {
    let chosen = media().iter().filter(|medium| of(medium));
    chosen.flat_map(|medium| VERBS.iter().map(move |verb| Cell { medium, verb })).collect()
}

/// Every regular file of the scratch directory with what it holds.
fn files(scratch: &Scratch) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(scratch.path("")).expect("the directory");
    let entries = entries.map(|entry| entry.expect("an entry"));
    let regular = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("plain letters");
        (name, fs::read(entry.path()).expect("a file"))
    };
    regular.map(read).collect()
}

static FAILED: AtomicUsize = AtomicUsize::new(0);
static SUCCEEDED: AtomicUsize = AtomicUsize::new(0);

fn check(cell: &Cell) {
    let Cell { medium, verb } = *cell;
    let scratch = Scratch::new();
    medium.put(&scratch);
    let before = files(&scratch);
    let ran = scratch.bash(&format!(
        "export O='{}' K='{}' C='{}'; ulimit -c 0; timeout -k 5 {SECONDS} $ATREST --max-kdf-time 10 {}",
        medium.opening,
        medium.keys,
        common::CHEAP.join(" "),
        verb.line
    ));
    let what = format!("`{}` of \"{}\"", verb.line, medium.name);
    let said = format!("{what} ended with {}: {}", ran.code, ran.stderr);
    assert!(!ran.stderr.contains("panicked") && ran.code <= 5, "{said}");
    let after = files(&scratch);
    if ran.code != 0 {
        FAILED.fetch_add(1, Ordering::Relaxed);
        let mut lines = ran.stderr.lines().filter(|line| !line.starts_with("atrest: warning: "));
        let first = lines.next().unwrap_or_default();
        let json = first.starts_with(r#"{"error":{"code":"#);
        assert!((json || first.starts_with("atrest: ")) && first.len() > 20, "{said}");
        assert!(lines.all(|line| line.starts_with("  ") || line.starts_with("atrest: ")), "{said}");
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "{said}");
        for (name, bytes) in &before {
            // Where they differ is looked for byte by byte, which takes long: only if they do.
            let first = || bytes.iter().zip(&after[name]).position(|(a, b)| a != b);
            assert!(*bytes == after[name], "{said}: {name} was changed at {:?}", first());
        }
        return;
    }
    SUCCEEDED.fetch_add(1, Ordering::Relaxed);
    let allowed = match (medium.refuses, verb.works) {
        (Refuses::Nothing, _) | (_, Works::OnTheHeader) => true,
        (Refuses::Writing, Works::OnData { writes }) => !writes,
        (Refuses::Data, Works::OnData { .. }) => false,
    };
    assert!(allowed, "{what} was not refused");
    if let Works::OnData { writes } = verb.works {
        let reach = if writes { medium.header } else { usize::MAX };
        for name in ["m", "hdr"] {
            let (Some(old), Some(new)) = (before.get(name), after.get(name)) else { continue };
            let end = if name == "m" { reach.min(old.len()) } else { old.len() };
            assert!(
                old[..end] == new[..end],
                "{what} changed the header or what it should only read: {name}"
            );
        }
    }
}

fn report(name: &str) {
    let (failed, succeeded) = (FAILED.load(Ordering::Relaxed), SUCCEEDED.load(Ordering::Relaxed));
    println!(
        "{name}: {} media, {} commands; so far {failed} failed in order, {succeeded} succeeded",
        media().len(),
        VERBS.len()
    );
}

#[test]
fn whatever_a_header_says_a_command_that_fails_has_changed_nothing() {
    Campaign::matrix("hostile headers", 160).over(&cells(|medium| medium.refuses == Refuses::Nothing), check);
    report("hostile headers");
}

#[test]
fn what_must_be_refused_is_refused_by_every_command_that_opens_the_data() {
    let data = |cell: &Cell| matches!(cell.verb.works, Works::OnData { .. });
    let mut cells = cells(|medium| medium.refuses != Refuses::Nothing);
    cells.retain(data);
    Campaign::matrix("what must be refused", 120).over(&cells, check);
    report("what must be refused");
}
