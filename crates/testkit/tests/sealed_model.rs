//! The model of sealed flash by itself: attacked and cut off, it shows nothing that the volume never held and raises no false
//! alarm; and designs that are known not to hold are seen not to.

use atrest_testkit::Campaign;
use atrest_testkit::flash::sealed_model::{Flaw, Setup, Statistics, Trust, run};

const CYCLES: usize = 14;

#[test]
fn the_design_holds() {
    let mut sum = Statistics::default();
    Campaign::new("sealed flash, model", 3_000, 400_000).run(|seed, _| {
        let (statistics, violation) =
            run(Setup { seed, flaw: None, marginal: false, cycles: CYCLES, trust: Trust::Record }, &mut ());
        sum.add(statistics);
        assert_eq!(violation, None, "volume {seed}");
    });
    println!("{sum:?}");
    assert!(sum.cuts > sum.cycles / 2 && sum.attacks > sum.cycles / 2, "it was tried");
}

#[test]
fn every_flaw_is_seen() {
    for flaw in Flaw::ALL {
        let seen = (1..=10_000).find_map(|seed| {
            let (_, violation) = run(
                Setup { seed, flaw: Some(flaw), marginal: false, cycles: CYCLES, trust: Trust::Record },
                &mut (),
            );
            violation.map(|violation| (seed, violation))
        });
        println!("{flaw:?}: {seen:?}");
        assert!(seen.is_some(), "{flaw:?} was not seen");
    }
}

/// Cells that a cut left in between read right now and then wrong. That costs alarms now and then, and nothing else.
#[test]
fn marginal_cells_raise_few_alarms_and_show_nothing_that_never_was() {
    let mut sum = Statistics::default();
    Campaign::new("sealed flash, model with marginal cells", 3_000, 100_000).run(|seed, _| {
        let (statistics, violation) =
            run(Setup { seed, flaw: None, marginal: true, cycles: CYCLES, trust: Trust::Record }, &mut ());
        sum.add(statistics);
        assert_eq!(violation, None, "volume {seed}");
    });
    println!("{sum:?}");
    assert!(sum.marginal_alarms * 100 < sum.cuts.max(100), "{sum:?}");
}

/// Nothing is trusted but a counter.
fn counted(seed: u64, flaw: Option<Flaw>, marginal: bool) -> Setup {
    Setup { seed, flaw, marginal, cycles: CYCLES, trust: Trust::Counter }
}

#[test]
fn the_design_holds_if_nothing_is_trusted_but_a_counter() {
    let mut sum = Statistics::default();
    Campaign::new("sealed flash, model with a counter", 3_000, 400_000).run(|seed, _| {
        let (statistics, violation) = run(counted(seed, None, false), &mut ());
        sum.add(statistics);
        assert_eq!(violation, None, "volume {seed}");
    });
    println!("{sum:?}");
    assert!(sum.cuts > sum.cycles / 2 && sum.attacks > sum.cycles / 2, "it was tried");
    // What the flaws below need to be seen: refusals, another record shown than the newest, volumes made again, and increments.
    assert!(sum.refused > sum.mounts / 5 && sum.detected > sum.cycles / 500, "attacks were noticed");
    assert!(sum.choices > sum.cycles / 1_000 && sum.formats > sum.cycles / 50, "{sum:?}");
    assert!(sum.steps > 2 * sum.mounts, "{sum:?}");
}

#[test]
fn every_flaw_of_a_counter_store_is_seen() {
    for flaw in Flaw::COUNTER {
        let seen = (1..=20_000).find_map(|seed| {
            let (_, violation) = run(counted(seed, Some(flaw), false), &mut ());
            violation.map(|violation| (seed, violation))
        });
        println!("{flaw:?}: {seen:?}");
        assert!(seen.is_some(), "{flaw:?} was not seen");
    }
}

#[test]
fn marginal_cells_of_a_log_show_nothing_that_never_was() {
    let mut sum = Statistics::default();
    Campaign::new("sealed flash, model with a counter and marginal cells", 1_000, 100_000).run(|seed, _| {
        let (statistics, violation) = run(counted(seed, None, true), &mut ());
        sum.add(statistics);
        assert_eq!(violation, None, "volume {seed}");
    });
    println!("{sum:?}");
    assert!(sum.marginal_alarms * 100 < sum.cuts.max(100), "{sum:?}");
}
