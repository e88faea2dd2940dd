//! Erases are spread over all blocks, whatever changes and whatever never does.

use atrest_keyvalue::MapOptions;

use crate::rig::{On, Rig};

#[test]
fn every_block_is_erased_as_often_as_any_other() {
    for on in [On::Plain, On::Sealed] {
        let rig = Rig::new(on, 6, MapOptions { longest: 100, spares: 1 });
        let mut map = rig.format().expect("formats");
        (0..5).for_each(|name| map.set(&[name], &[name; 90]).expect("sets"));
        for round in 0..1500_u32 {
            map.set(b"counter", &round.to_le_bytes()).expect("sets");
        }
        let erases = rig.medium.lock().wear().erases.clone();
        let (least, most) = (erases.iter().min().expect("blocks"), erases.iter().max().expect("blocks"));
        assert!(most - least <= 2, "{on:?}: {erases:?}");
        // Of 14 units in a block, or 8, the five values take some of one or two in each round of the blocks.
        let per_erase = 1500 / erases.iter().sum::<u32>();
        let expected = if on == On::Plain { 4..=6 } else { 4..=7 };
        assert!(expected.contains(&per_erase), "{on:?}: {per_erase} changes for each erase");
    }
}

#[test]
fn a_session_costs_a_sealed_map_at_most_one_erase_more() {
    let rig = Rig::new(On::Sealed, 6, MapOptions { longest: 100, spares: 1 });
    drop(rig.format().expect("formats"));
    for session in 0..60_u32 {
        let before: u32 = rig.medium.lock().wear().erases.iter().sum();
        let mut map = rig.open().expect("opens");
        let after: u32 = rig.medium.lock().wear().erases.iter().sum();
        assert_eq!(before, after, "opening erases nothing");
        map.set(b"session", &session.to_le_bytes()).expect("sets");
        let after: u32 = rig.medium.lock().wear().erases.iter().sum();
        assert!(after - before <= 1, "{session}: {} erases", after - before);
        map.device_mut().close();
    }
}
