//! What the capacity promises: a value that it has room for is stored, however the others lie, and removing always works.

use std::collections::BTreeMap;

use atrest_keyvalue::{MapError, MapOptions};
use atrest_testkit::{Campaign, Random};

use crate::rig::{On, Rig};

#[test]
fn what_the_capacity_has_room_for_is_stored_however_the_others_lie() {
    Campaign::new("key value capacity", 40, 20_000).run(|seed, random: &mut Random| {
        let on = if seed % 4 == 0 { On::Sealed } else { On::Plain };
        let blocks = 2 + random.below(4);
        let longest = [1, 40, 120, 200, 300][random.index(5)];
        let spares = (1 + random.below(2)).min(blocks - 1) as u8;
        let options = MapOptions { longest, spares };
        let rig = Rig { names: 64, ..Rig::new(on, blocks, options) };
        let mut map = rig.format().expect("formats");
        let unit = if on == On::Plain { 32 } else { 64 };
        let takes = |len: u16| (usize::from(len) + 32).div_ceil(unit) * unit;
        let mut model = BTreeMap::<u64, u16>::new();
        let mut refused = 0;
        for step in 0..120 {
            let name = random.below(40);
            // Mostly full.
            if random.below(5) == 0 {
                assert_eq!(map.remove(&name.to_le_bytes()), Ok(model.remove(&name).is_some()), "step {step}");
            } else {
                let len = random.below(u64::from(longest) + 1) as u16;
                let others: usize =
                    model.iter().filter(|(other, _)| **other != name).map(|(_, len)| takes(*len)).sum();
                let free = map.capacity().saturating_sub(others);
                let expected = match takes(len) <= free {
                    true => Ok(()),
                    false => Err(MapError::Full { needs: takes(len), free }),
                };
                assert_eq!(map.set(&name.to_le_bytes(), &vec![step; len.into()]), expected, "step {step}");
                match expected {
                    Ok(()) => drop(model.insert(name, len)),
                    Err(_) => refused += 1,
                }
            }
            assert_eq!(map.used(), model.values().map(|len| takes(*len)).sum::<usize>());
        }
        assert!(refused > 0 || blocks > 3, "it was never full");
    });
}

#[test]
fn a_smaller_longest_value_leaves_more_room() {
    let capacity = |blocks, longest| {
        Rig::new(On::Plain, blocks, MapOptions { longest, spares: 1 }).format().expect("formats").capacity()
    };
    // 14 units of 32 bytes in a block are for entries, and one block is spare.
    assert_eq!((capacity(4, 0), capacity(4, 96)), ((3 * 14 - 1) * 32, (3 * 11 - 1) * 32));
    assert_eq!((capacity(3, 0), capacity(2, 0), capacity(2, 14 * 32 - 32)), (27 * 32, 13 * 32, 0));
    let refused = Rig::new(On::Plain, 4, MapOptions { longest: 14 * 32 - 31, spares: 1 }).format();
    assert_eq!(refused.err().and_then(|trouble| trouble.map()), Some(MapError::Options));
}
