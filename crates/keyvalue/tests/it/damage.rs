//! Entries of a map on encrypted flash that are not what was stored: named, never shown, never moved on.

use atrest_keyvalue::{MapError, MapOptions};
use atrest_testkit::flash::BadBlock;

use crate::rig::{Map, On, Rig, image};

const OPTIONS: MapOptions = MapOptions { longest: 30, spares: 1 };
/// Prog units of the medium in a unit of the map.
const PROGS: usize = 2;

/// Three blocks hold the map, in the order 0, 1, 2: seven values of two units in each, the last one set three times.
fn three_blocks() -> (Rig, Map) {
    let rig = Rig { names: 32, ..Rig::new(On::Plain, 4, OPTIONS) };
    let mut map = rig.format().expect("formats");
    for name in 0..19 {
        map.set(&[name], &[name; 30]).expect("sets");
    }
    (0..2).for_each(|_| map.set(&[18], &[18; 30]).expect("sets"));
    let used: Vec<bool> = (0..4).map(|block| !image(&rig).is_blank(block, 0)).collect();
    assert_eq!(used, [true, true, true, false]);
    (rig, map)
}

/// Changes a bit of a unit of the map.
fn flip(rig: &Rig, block: usize, unit: usize) {
    rig.medium.lock().image_mut().flip(block, unit * 32 + 5, 2);
}

fn opened(rig: &Rig) -> Option<MapError> {
    rig.open().err().and_then(|trouble| trouble.map())
}

#[test]
fn a_value_that_was_damaged_is_named_when_it_is_read_and_when_the_map_is_opened() {
    // Head or value.
    for (block, unit, within, name) in [(0, 1, 0, 0), (1, 3, 1, 8), (1, 13, 1, 13)] {
        let (rig, mut map) = three_blocks();
        flip(&rig, block, unit + within);
        let damaged = MapError::Damaged { block: block as u8, unit: unit as u16 };
        let mut out = [0xee; 30];
        assert_eq!(map.get(&[name], &mut out), Err(damaged));
        assert_eq!(out, [0; 30]);
        out = [0xee; 30];
        assert_eq!((map.read(&[name], 3, &mut out[..9]), &out[..9]), (Err(damaged), &[0; 9][..]));
        let mut out = [0; 30];
        assert!(matches!(map.get(&[name + 1], &mut out), Ok(Some(_))), "the next one is there");
        assert_eq!(opened(&rig), Some(damaged));
    }
}

#[test]
fn a_block_of_the_map_whose_first_unit_is_damaged_is_missed() {
    for block in [0, 1] {
        let (rig, _map) = three_blocks();
        flip(&rig, block, 0);
        assert_eq!(opened(&rig), Some(MapError::Damaged { block: block as u8, unit: 0 }));
    }
}

/// An entry more than its successor says is not the end of a block that was written.
#[test]
fn a_block_that_ends_early_is_damaged() {
    let (rig, _map) = three_blocks();
    for unit in 13 * PROGS..16 * PROGS {
        rig.medium.lock().image_mut().put_unit(1, unit, &[0xff; 16]);
    }
    assert_eq!(opened(&rig), Some(MapError::Damaged { block: 1, unit: 13 }));
}

#[test]
fn what_was_damaged_is_not_moved_and_nothing_is_lost_by_it() {
    // The head of an entry, or its value.
    for unit in [3, 4] {
        let (rig, mut map) = three_blocks();
        flip(&rig, 0, unit);
        let damaged = MapError::Damaged { block: 0, unit: 3 };
        assert_eq!(map.set(&[18], &[7; 30]), Err(damaged));
        assert_eq!(map.remove(&[1]), Err(damaged), "there is no room for it without moving");
        for name in (0..19).filter(|name| *name != 1) {
            let mut out = [0; 30];
            assert_eq!(map.get(&[name], &mut out).expect("reads").as_deref(), Some(&[name; 30][..]));
        }
        // Once the bit is as it was, so is the map, whatever stands in the block that did not come to count.
        flip(&rig, 0, unit);
        map.set(&[18], &[7; 30]).expect("sets");
        drop(map);
        let mut map = rig.open().expect("opens");
        assert_eq!(map.values().count(), 19);
        let mut out = [0; 30];
        assert_eq!(map.get(&[18], &mut out).expect("reads").as_deref(), Some(&[7; 30][..]));
    }
}

/// The head: whose last entry alone may have been torn by a power loss.
#[test]
fn damage_in_the_block_that_was_begun_last_is_told_from_a_power_loss() {
    for unit in [1, 3, 12] {
        let (rig, _map) = three_blocks();
        flip(&rig, 2, unit);
        let first = unit as u16 - u16::from(unit.is_multiple_of(2));
        assert_eq!(opened(&rig), Some(MapError::Damaged { block: 2, unit: first }));
    }
    let (rig, mut map) = three_blocks();
    map.remove(&[0]).expect("removes, in a block that is begun");
    let values = |map: &Map| map.values().count();
    assert_eq!((values(&map), values(&rig.open().expect("opens"))), (18, 18));
    // Six values were moved to it, behind which it says so.
    for unit in [1, 4, 11] {
        let rig = rig.snapshot();
        flip(&rig, 3, unit);
        let first = unit as u16 - u16::from(unit.is_multiple_of(2));
        let opened = Rig { names: 32, ..rig }.open().err().and_then(|trouble| trouble.map());
        assert_eq!(opened, Some(MapError::Damaged { block: 3, unit: first }));
    }
}

/// A medium that takes a program of a unit that is not blank would change what stands there.
#[test]
fn nothing_is_programmed_behind_what_a_power_loss_left() {
    let rig = Rig::new(On::Plain, 4, OPTIONS);
    let mut map = rig.format().expect("formats");
    map.set(b"a", b"1").expect("sets");
    drop(map);
    let torn = |unit| {
        let rig = rig.snapshot();
        rig.medium.lock().image_mut().put_unit(0, unit * PROGS, &[0xa5; 16]);
        // Such a block takes programs of units that are not blank.
        rig.medium.lock().break_block(0, BadBlock::EraseNoop);
        let mut map = rig.open().expect("opens");
        map.set(b"b", b"2").expect("sets");
        drop(map);
        let unit = image(&rig).unit(0, unit * PROGS).to_vec();
        let mut map = rig.open().expect("opens");
        let mut out = [0; 2];
        assert_eq!(map.get(b"a", &mut out).expect("reads").as_deref(), Some(&b"1"[..]));
        assert_eq!(map.get(b"b", &mut out).expect("reads").as_deref(), Some(&b"2"[..]));
        unit
    };
    // The first unit behind the value, and the last one of the block.
    assert_eq!((torn(3), torn(15)), (vec![0xa5; 16], vec![0xa5; 16]));
}

#[test]
fn a_block_that_failed_is_not_tried_again() {
    let (rig, mut map) = three_blocks();
    {
        let mut medium = rig.medium.lock();
        medium.refusals().erases = u32::MAX;
    }
    let refused = |rig: &Rig| rig.medium.lock().refusals().count;
    assert_eq!((map.set(&[18], &[7; 30]), refused(&rig)), (Err(MapError::NoSpare), 1));
    assert_eq!((map.set(&[18], &[7; 30]), refused(&rig)), (Err(MapError::NoSpare), 1));
    // Another session tries it.
    rig.medium.lock().refusals().erases = 0;
    rig.open().expect("opens").set(&[18], &[7; 30]).expect("sets");
}
