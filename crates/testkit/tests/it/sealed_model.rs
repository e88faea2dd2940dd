//! The model of sealed flash by itself: attacked and cut off, it shows nothing that the volume never held and raises no false
//! alarm; and designs that are known not to hold are seen not to.

use atrest_testkit::Campaign;
use atrest_testkit::flash::sealed_model::{Flaw, Setup, Statistics, Trust, run};

/// A volume that works as designed beside a record that nobody else can write.
const DESIGN: Setup = Setup {
    seed: 0,
    flaw: None,
    marginal: false,
    cycles: 14,
    trust: Trust::Record,
    copies: false,
    on_read: false,
};
/// Volumes are opened by their serials, and an adversary writes what serials he likes.
const ON_READ: Setup = Setup { on_read: true, ..DESIGN };
/// Beside the volume, copies of medium and record are used, and volumes are made anew under its key: all count the same serials.
const WITH_COPIES: Setup = Setup { copies: true, ..DESIGN };
/// Nothing is trusted but a counter.
const COUNTED: Setup = Setup { trust: Trust::Counter, ..DESIGN };

/// Runs `sample` volumes, or in a whole campaign `whole`, each with a seed of its own. None may show what it never held.
fn holds(name: &'static str, (sample, whole): (usize, usize), setup: Setup) -> Statistics {
    let mut sum = Statistics::default();
    Campaign::new(name, sample, whole).run(|seed, _| {
        let (statistics, violation) = run(Setup { seed, ..setup }, &mut ());
        sum.add(statistics);
        assert_eq!(violation, None, "volume {seed}");
    });
    println!("{sum:?}");
    sum
}

/// Each of the flaws shows in one of the first `most` volumes.
fn seen(flaws: &[Flaw], most: u64, setup: Setup) {
    for flaw in flaws {
        let seen = (1..=most).find_map(|seed| {
            let (_, violation) = run(Setup { seed, flaw: Some(*flaw), ..setup }, &mut ());
            violation.map(|violation| (seed, violation))
        });
        println!("{flaw:?}: {seen:?}");
        assert!(seen.is_some(), "{flaw:?} was not seen");
    }
}

#[test]
fn the_design_holds() {
    let sum = holds("sealed flash, model", (3_000, 400_000), DESIGN);
    assert!(sum.cuts > sum.cycles / 2 && sum.attacks > sum.cycles / 2, "it was tried");
}

#[test]
fn every_flaw_is_seen() {
    seen(&Flaw::ALL, 10_000, DESIGN);
}

#[test]
fn the_design_holds_if_units_are_verified_when_they_are_read() {
    let sum = holds("sealed flash, model of the fast opening", (3_000, 400_000), ON_READ);
    assert!(sum.cuts > sum.cycles / 2 && sum.attacks > sum.cycles / 2, "it was tried");
    // Openings by serials, and units that fail later.
    assert!(sum.unread > sum.mounts / 3 && sum.failing > sum.mounts / 50, "{sum:?}");
    assert!(sum.late_alarms * 10_000 <= sum.cycles, "{sum:?}");
}

#[test]
fn the_design_holds_if_units_are_verified_when_they_are_read_with_copies() {
    let setup = Setup { on_read: true, ..WITH_COPIES };
    let sum = holds("sealed flash, model of the fast opening with copies", (1_500, 200_000), setup);
    assert!(sum.copies > sum.cycles / 6 && sum.unread > sum.mounts / 3, "it was tried");
}

#[test]
fn the_design_holds_if_units_are_verified_when_they_are_read_with_a_counter() {
    let setup = Setup { on_read: true, ..COUNTED };
    let sum = holds("sealed flash, model of the fast opening with a counter", (1_500, 200_000), setup);
    assert!(sum.choices > sum.cycles / 1_000 && sum.unread > sum.mounts / 3, "it was tried");
}

#[test]
fn every_flaw_of_a_fast_opening_is_seen() {
    seen(&Flaw::FAST, 10_000, ON_READ);
}

#[test]
fn the_design_holds_with_copies_and_volumes_made_again() {
    let sum = holds("sealed flash, model with copies", (3_000, 400_000), WITH_COPIES);
    assert!(sum.copies > sum.cycles / 6 && sum.attacks > sum.cycles / 2, "it was tried");
}

#[test]
fn every_flaw_that_copies_show_is_seen() {
    seen(&Flaw::COPIES, 10_000, WITH_COPIES);
}

/// Cells that a cut left in between read right now and then wrong. That costs alarms now and then, and nothing else.
#[test]
fn marginal_cells_raise_few_alarms_and_show_nothing_that_never_was() {
    let marginal = Setup { marginal: true, ..DESIGN };
    let sum = holds("sealed flash, model with marginal cells", (3_000, 100_000), marginal);
    assert!(sum.marginal_alarms * 100 < sum.cuts.max(100), "{sum:?}");
}

#[test]
fn the_design_holds_if_nothing_is_trusted_but_a_counter() {
    let sum = holds("sealed flash, model with a counter", (3_000, 400_000), COUNTED);
    assert!(sum.cuts > sum.cycles / 2 && sum.attacks > sum.cycles / 2, "it was tried");
    // What the flaws below need to be seen: refusals, another record shown than the newest, volumes made again, and increments.
    assert!(sum.refused > sum.mounts / 5 && sum.detected > sum.cycles / 500, "attacks were noticed");
    assert!(sum.choices > sum.cycles / 1_000 && sum.formats > sum.cycles / 50, "{sum:?}");
    assert!(sum.steps > 2 * sum.mounts, "{sum:?}");
}

#[test]
fn every_flaw_of_a_counter_store_is_seen() {
    seen(&Flaw::COUNTER, 20_000, COUNTED);
}

#[test]
fn marginal_cells_of_a_log_show_nothing_that_never_was() {
    let marginal = Setup { marginal: true, ..COUNTED };
    let sum = holds("sealed flash, model with a counter and marginal cells", (1_000, 100_000), marginal);
    assert!(sum.marginal_alarms * 100 < sum.cuts.max(100), "{sum:?}");
}
