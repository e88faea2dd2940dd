//! Power lost at every program, erase and write of the store while littlefs works on a sealed volume: it opens, without an alarm,
//! what was synced is there, and it can be used.

use crate::littlefs::{Change, Tree, suite};
use crate::sealed_rig::{OPTIONS, Parts, Recorded, read_all};
use atrest_flash::sealed::{SealedMedium, SealedOptions, Tickets};
use atrest_testkit::flash::{Caching, PowerCut, Tear, TrustedWrite};
use atrest_testkit::{Campaign, Random};

/// What is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Medium(PowerCut),
    Store(TrustedWrite),
}

fn whole_suite(options: SealedOptions) -> Recorded {
    Parts::formatted(options).record(Tree::new(), &suite(64 * 640), false)
}

fn cuts(run: &Recorded, caching: Caching, tears: &[Tear]) -> Vec<Cut> {
    let medium = run.recording.cuts(caching).into_iter().filter(|cut| tears.contains(&cut.tear));
    medium.map(Cut::Medium).chain(run.writes.iter().copied().map(Cut::Store)).collect()
}

/// What a cut leaves, and the tree on it: that after the last acknowledged change, or after the one that was cut.
fn survive(run: &Recorded, cut: Cut) -> (Parts, Tree) {
    let (parts, done) = match cut {
        Cut::Medium(cut) => run.aftermath(cut),
        Cut::Store(write) => run.without_write(&write),
    };
    let found = read_all(&parts).unwrap_or_else(|trouble| panic!("{cut:?}: {trouble:?}"));
    let states = &run.played.states;
    // The change before may not have been acknowledged yet when the store was written.
    let allowed = &states[done..(done + 2).min(states.len())];
    assert!(allowed.contains(&found), "{cut:?}: lost after change {done}");
    (parts, found)
}

/// What is done after power has come back.
fn afterwards(tree: &Tree) -> Vec<Change> {
    let largest =
        tree.iter().filter(|(_, content)| content.is_some()).max_by_key(|(_, c)| c.as_ref().map(Vec::len));
    let mut changes: Vec<Change> =
        largest.map(|(path, _)| Change::Remove(path.clone())).into_iter().collect();
    changes.push(Change::Create("again".into()));
    changes.push(Change::Write("again".into(), vec![0x55; 200]));
    changes.push(Change::Append("again".into(), vec![0xff; 90]));
    changes
}

fn cut_everywhere(
    name: &'static str,
    options: SealedOptions,
    caching: Caching,
    tears: &[Tear],
    sample: usize,
) {
    let run = whole_suite(options);
    let cuts = cuts(&run, caching, tears);
    println!(
        "{name}: {} programs and erases, {} writes of the store, {} cuts",
        run.recording.len(),
        run.writes.len(),
        cuts.len()
    );
    assert!(cuts.len() > 1000, "the suite programs and erases");
    Campaign::matrix(name, sample).over(&cuts, |cut| {
        let (parts, found) = survive(&run, *cut);
        let again = parts.record(found.clone(), &afterwards(&found), false);
        assert_eq!(again.played.refused, 0, "{cut:?}: there is room");
        assert_eq!(read_all(&parts).ok().as_ref(), again.played.states.last(), "{cut:?}");
    });
}

#[test]
fn no_cut_loses_what_was_synced_or_raises_an_alarm() {
    cut_everywhere("sealed power loss", OPTIONS, Caching::None, &Tear::ALL, 200);
}

#[test]
fn no_cut_with_tickets_in_the_store_loses_what_was_synced() {
    let options = SealedOptions { tickets: Tickets::Store, ..OPTIONS };
    cut_everywhere("sealed power loss, tickets in the store", options, Caching::None, &Tear::ALL, 100);
}

#[test]
fn no_cut_on_a_medium_with_a_cache_loses_what_was_synced() {
    let options = SealedOptions { medium: SealedMedium::Cached, ..OPTIONS };
    cut_everywhere("sealed power loss, cached", options, Caching::UntilSync, &Tear::ALL, 100);
}

#[test]
fn no_second_cut_loses_what_was_synced() {
    let run = whole_suite(OPTIONS);
    let first = cuts(&run, Caching::None, &Tear::ALL);
    Campaign::new("sealed power loss, two cuts", 150, 100_000).run(|_, random: &mut Random| {
        let cut = *random.pick(&first);
        let (parts, found) = match cut {
            Cut::Medium(cut) => run.aftermath(cut),
            Cut::Store(write) => run.without_write(&write),
        };
        let start = read_all(&parts.snapshot()).unwrap_or_else(|trouble| panic!("{cut:?}: {trouble:?}"));
        assert!(run.played.states[found..(found + 2).min(run.played.states.len())].contains(&start));
        // The second one may fall into opening already.
        let second_run = parts.record(start.clone(), &afterwards(&start), false);
        let second = *random.pick(&cuts(&second_run, Caching::None, &Tear::ALL));
        survive(&second_run, second);
    });
}
