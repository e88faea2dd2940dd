//! Random histories over a store that fails and lies, against an oracle that knows what each object sealed.

mod checks;
mod world;

use atrest_testkit::Campaign;

use world::{Totals, World};

/// Every volume is opened a few times, by writers that crash, sleep or are fenced; the store is attacked in between. A third of them asks the
/// store for three things at once, another sixth has a thread that stores.
#[test]
fn nothing_flushed_is_lost_nothing_wrong_is_read_and_no_older_state_is_accepted() {
    let mut totals = Totals::default();
    Campaign::new("sealed volume, histories", 150, 100_000).run(|seed, _| {
        // Threads take turns as they please: a history with them is another one each time.
        let (parallel, store_threads) = [(3, 1), (1, 1), (1, 1), (3, 1), (1, 2), (1, 1)][(seed % 6) as usize];
        let mut world = World::new(seed, (parallel, store_threads));
        world.run();
        totals.add(&world);
    });
    println!("{totals:?}");
    if Campaign::is_sample() {
        assert!(totals.openings > 300 && totals.refused_openings > 5 && totals.crashes > 20, "{totals:?}");
        assert!(totals.refused_puts > 200 && totals.lies > 100 && totals.attacks > 20, "{totals:?}");
        assert!(
            totals.deletes > 50 && totals.snapshots > 50 && totals.flips > 5 && totals.sleepers > 5,
            "{totals:?}"
        );
    }
}
