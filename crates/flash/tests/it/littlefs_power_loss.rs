//! Power lost at every program and erase of the suite, in every way: what littlefs had synced is there, the volume opens.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::littlefs::{
    Adiantum, Change, Played, Rig, Tree, Xts, XtsChecked, XtsErased, formatted, play, read_all, suite,
};
use atrest_testkit::flash::{
    Caching, EmulatedFlash, FlashImage, FlashRecording, PowerCut, SharedFlash, Tear,
};
use atrest_testkit::{Campaign, Random};

/// A run that can be cut.
struct Recorded {
    played: Played,
    recording: FlashRecording,
}

fn record<R: Rig>(medium: &SharedFlash, start: Tree, changes: &[Change]) -> Recorded {
    medium.lock().record();
    let played = play::<R>(medium, start, changes);
    let recording = medium.lock().finish_recording();
    Recorded { played, recording }
}

fn whole_suite<R: Rig>() -> Recorded {
    record::<R>(&formatted::<R>(), Tree::new(), &suite(R::medium().size() as usize))
}

impl Recorded {
    /// What may be found once so many changes were acknowledged: the state after them, or after the one that was cut.
    fn allowed(&self, done: usize) -> &[Tree] {
        &self.played.states[done..(done + 2).min(self.played.states.len())]
    }

    /// What a cut leaves, and the tree that is found on it: the one after the last acknowledged change or after the next.
    fn survive<R: Rig>(&self, cut: PowerCut) -> (FlashImage, Tree) {
        let (image, promises) = self.recording.aftermath(cut);
        let done = promises.len();
        let found = read_all::<R>(&image)
            .unwrap_or_else(|error| panic!("{cut}: cannot open: error {}", error.code()));
        let allowed = &self.played.states[done..(done + 2).min(self.played.states.len())];
        assert!(
            allowed.contains(&found),
            "{cut}: lost after change {done}: {:?}",
            difference(&allowed[0], &found)
        );
        (image, found)
    }
}

/// What differs: a name, and how many bytes it was to have and has.
fn difference(expected: &Tree, found: &Tree) -> Vec<String> {
    let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let size = |tree: &Tree, name: &str| tree.get(name).map(|content| content.as_ref().map_or(0, Vec::len));
    let differing = names.into_iter().filter(|name| expected.get(*name) != found.get(*name));
    differing.map(|name| format!("{name}: {:?} {:?}", size(expected, name), size(found, name))).collect()
}

/// What is done after power has come back: the volume is not only read.
fn afterwards(tree: &Tree) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    // A full medium needs room first.
    if let Some((path, _)) =
        tree.iter().filter(|(_, content)| content.is_some()).max_by_key(|(_, c)| c.as_ref().map(Vec::len))
    {
        changes.push(Change::Remove(path.clone()));
    }
    changes.push(Change::Create("again".into()));
    changes.push(Change::Write("again".into(), vec![0x55; 200]));
    changes.push(Change::Append("again".into(), vec![0xff; 90]));
    changes.push(Change::Rename("again".into(), "and again".into()));
    changes
}

/// What a medium without error-correcting words does, where littlefs may read ahead.
const READABLE: [Tear; 4] = [Tear::Clean, Tear::Bytes, Tear::Bits, Tear::Garbage];

fn cut_everywhere<R: Rig>(name: &'static str, tears: &[Tear], caching: Caching, sample: usize) {
    let run = whole_suite::<R>();
    let mut cuts = run.recording.cuts(caching);
    cuts.retain(|cut| tears.contains(&cut.tear));
    println!("{name}: {} programs and erases, {} cuts", run.recording.len(), cuts.len());
    assert!(cuts.len() > 1000, "the suite programs and erases");
    Campaign::matrix(name, sample).over(&cuts, |cut| {
        let (image, found) = run.survive::<R>(*cut);
        // It can be written: nothing is refused, and all is there after another mount.
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        let played = play::<R>(&medium, found.clone(), &afterwards(&found));
        assert_eq!(played.refused, 0, "{cut}: there is room");
        let last = medium.lock().image().clone();
        assert_eq!(read_all::<R>(&last).as_ref(), Ok(&played.states[played.states.len() - 1]), "{cut}");
    });
}

#[test]
fn no_cut_of_aes_xts_loses_what_was_synced() {
    cut_everywhere::<Xts>("flash power loss, AES-XTS", &READABLE, Caching::None, 800);
}

#[test]
fn no_cut_that_leaves_unreadable_units_loses_what_was_synced() {
    cut_everywhere::<XtsChecked>("flash power loss, AES-XTS, checked", &Tear::ALL, Caching::None, 800);
}

#[test]
fn no_cut_of_aes_xts_with_erased_reads_loses_what_was_synced() {
    cut_everywhere::<XtsErased>("flash power loss, AES-XTS, blank as 0xFF", &READABLE, Caching::None, 400);
}

#[test]
fn no_cut_of_adiantum_loses_what_was_synced() {
    cut_everywhere::<Adiantum>("flash power loss, Adiantum", &Tear::ALL, Caching::None, 200);
}

#[test]
fn no_cut_on_a_medium_with_a_cache_loses_what_was_synced() {
    cut_everywhere::<Xts>("flash power loss, AES-XTS, cached", &READABLE, Caching::UntilSync, 400);
    cut_everywhere::<Adiantum>("flash power loss, Adiantum, cached", &Tear::ALL, Caching::UntilSync, 200);
}

#[test]
fn no_second_cut_during_what_follows_the_first_loses_what_was_synced() {
    let run = whole_suite::<XtsChecked>();
    let cuts = run.recording.cuts(Caching::None);
    Campaign::new("flash power loss, two cuts", 400, 100_000).run(|_, random: &mut Random| {
        let first = *random.pick(&cuts);
        let (image, found) = run.survive::<XtsChecked>(first);
        let medium = SharedFlash::new(EmulatedFlash::with_image(image));
        let changes = afterwards(&found);
        let second_run = record::<XtsChecked>(&medium, found, &changes);
        let second = *random.pick(&second_run.recording.cuts(Caching::None));
        let outcome = catch_unwind(AssertUnwindSafe(|| second_run.survive::<XtsChecked>(second)));
        assert!(outcome.is_ok(), "{first}; then {second}");
    });
}

/// Why `LittlefsGeometry` asks for one size on such media; and that the tests above can fail.
#[test]
fn a_cache_of_several_units_loses_synced_data_beside_a_unit_that_cannot_be_read() {
    let run = whole_suite::<Xts>();
    let cuts = run.recording.cuts(Caching::None).into_iter().filter(|cut| cut.tear == Tear::Uncorrectable);
    let lost = cuts.filter(|cut| {
        let (image, promises) = run.recording.aftermath(*cut);
        read_all::<Xts>(&image).is_ok_and(|found| !run.allowed(promises.len()).contains(&found))
    });
    assert!(lost.take(3).count() == 3);
}
