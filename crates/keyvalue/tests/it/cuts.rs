//! Power lost at every program, erase and write of the store of a workload that fills the medium, and once more afterwards.

use atrest_keyvalue::MapOptions;
use atrest_testkit::flash::Caching;
use atrest_testkit::{Campaign, Random};

use crate::histories::{State, change, read};
use crate::rig::{Cut, On, Recorded, Rig};

const OPTIONS: MapOptions = MapOptions { longest: 120, spares: 1 };

struct Run {
    recorded: Recorded,
    states: Vec<State>,
}

fn workload(rig: &Rig, start: State, changes: u64, seed: u64) -> Run {
    let (mut random, mut state) = (Random::new(seed), start);
    let mut states = vec![state.clone()];
    let recorded = rig.record(|map, acknowledge| {
        for number in 0..changes {
            change(map, &mut state, &mut random);
            states.push(state.clone());
            acknowledge(number);
        }
    });
    Run { recorded, states }
}

impl Run {
    /// What a cut leaves, and the state in which the map opens then.
    fn survive(&self, cut: Cut) -> (Rig, State) {
        let (rig, done) = self.recorded.aftermath(cut);
        let found = read(&rig);
        let allowed = &self.states[done..(done + 2).min(self.states.len())];
        assert!(allowed.contains(&found), "{cut:?}: {found:?} is none of {allowed:?}");
        (rig, found)
    }
}

fn cut_everywhere(name: &'static str, rig: &Rig, caching: Caching, sample: usize, least: usize) {
    drop(rig.format().expect("formats"));
    let run = workload(rig, State::new(), 100, 1);
    let cuts = run.recorded.cuts(caching);
    println!("{name}: {} programs and erases, {} cuts", run.recorded.recording.len(), cuts.len());
    assert!(cuts.len() > least, "{}", cuts.len());
    Campaign::matrix(name, sample).over(&cuts, |cut| {
        let (rig, found) = run.survive(*cut);
        // It can be used, and cut again.
        let again = workload(&rig, found, 8, 2);
        assert_eq!(Some(&read(&rig)), again.states.last(), "{cut:?}");
        let second = again.recorded.cuts(caching);
        again.survive(*Random::new(second.len() as u64).pick(&second));
    });
}

#[test]
fn no_cut_on_encrypted_flash_loses_a_change_that_returned() {
    cut_everywhere("key value cuts, plain", &Rig::new(On::Plain, 4, OPTIONS), Caching::None, 300, 2000);
}

#[test]
fn no_cut_on_encrypted_flash_with_a_cache_loses_a_change_that_returned() {
    cut_everywhere(
        "key value cuts, cached",
        &Rig::new(On::Plain, 4, OPTIONS),
        Caching::UntilSync,
        4000,
        2000,
    );
}

#[test]
fn no_cut_on_sealed_flash_loses_a_change_that_returned() {
    cut_everywhere("key value cuts, sealed", &Rig::new(On::Sealed, 4, OPTIONS), Caching::None, 150, 800);
}

#[test]
fn no_cut_while_formatting_leaves_anything_but_the_old_map_or_an_empty_one() {
    let rig = Rig::new(On::Plain, 4, OPTIONS);
    drop(rig.format().expect("formats"));
    let old = workload(&rig, State::new(), 40, 3).states.pop().expect("a state");
    let run = rig.record(|_, _| drop(rig.format().expect("formats")));
    for cut in run.cuts(Caching::None) {
        let found = read(&run.aftermath(cut).0);
        assert!(found == old || found.is_empty(), "{cut:?}: {found:?}");
    }
}
