//! What a user of a map sees, without power losses.

use std::collections::BTreeSet;

use atrest_device::FlashDevice;
use atrest_keyvalue::{IndexEntry, KeyValue, MapError, MapKey, MapOptions, ValueInfo};

use crate::rig::{KEY, Map, On, Rig, UUID, VOLUME_KEY, image};

const OPTIONS: MapOptions = MapOptions { longest: 100, spares: 1 };

fn each(test: impl Fn(Rig)) {
    for on in [On::Plain, On::Sealed] {
        test(Rig::new(on, 6, OPTIONS));
    }
}

fn value(map: &mut Map, name: &[u8]) -> Option<Vec<u8>> {
    let mut out = [0xaa; 200];
    map.get(name, &mut out).expect("reads").map(|value| value.to_vec())
}

#[test]
fn a_value_is_that_which_was_set_last_also_after_opening_again() {
    each(|rig| {
        let mut map = rig.format().expect("formats");
        for round in 0..40_u8 {
            map.set(b"round", &[round; 33]).expect("sets");
            map.set(b"", &vec![round; usize::from(round)]).expect("sets");
            if round % 3 == 0 {
                assert!(map.set(b"gone", b"soon").is_ok() && map.remove(b"gone") == Ok(true));
            }
            if round % 7 == 0 {
                map = rig.open().expect("opens");
            }
            assert_eq!(value(&mut map, b"round"), Some(vec![round; 33]));
            assert_eq!(value(&mut map, b""), Some(vec![round; round.into()]));
            assert_eq!((value(&mut map, b"gone"), map.remove(b"gone")), (None, Ok(false)));
        }
        map.device_mut().close();
        let mut map = rig.open().expect("opens");
        assert_eq!(value(&mut map, b"round"), Some(vec![39; 33]));
    });
}

#[test]
fn a_part_of_a_value_is_read_and_the_whole_is_verified() {
    each(|rig| {
        let mut map = rig.format().expect("formats");
        let stored: Vec<u8> = (0..100).collect();
        map.set_with(b"a", &stored, 0xa5).expect("sets");
        for (offset, len) in
            [(0, 100), (0, 0), (1, 31), (31, 2), (32, 40), (99, 1), (95, 50), (100, 4), (700, 1)]
        {
            let mut out = vec![0xee; len];
            let count = map.read(b"a", offset, &mut out).expect("reads").expect("a value");
            let expected = stored.get(offset..).unwrap_or(&[]);
            assert_eq!(count, expected.len().min(len), "{offset} {len}");
            assert_eq!(out[..count], expected[..count], "{offset} {len}");
            assert!(out[count..].iter().all(|byte| *byte == 0xee), "{offset} {len}");
        }
        let too_small = Err(MapError::BufferTooSmall { needs: 100, has: 99 });
        assert_eq!((map.get(b"a", &mut [0; 99]), map.get(b"b", &mut [])), (too_small, Ok(None)));
        assert_eq!(map.read(b"b", 0, &mut []), Ok(None));
        let id = map.id_of(b"a");
        assert_eq!(map.info(b"a"), Some(ValueInfo { id, len: 100, attribute: 0xa5 }));
        assert_eq!(rig.open().expect("opens").info(b"a"), map.info(b"a"));
    });
}

#[test]
fn values_are_listed_by_the_hashes_of_their_names() {
    each(|rig| {
        let mut map = rig.format().expect("formats");
        for len in 0..8_u8 {
            map.set_with(&[len], &vec![len; len.into()], len + 1).expect("sets");
        }
        map.remove(&[3]).expect("removes");
        let listed: BTreeSet<_> = map.values().map(|value| (value.id, value.len, value.attribute)).collect();
        let expected = (0..8).filter(|len| *len != 3);
        assert_eq!(listed, expected.map(|len| (map.id_of(&[len]), len.into(), len + 1)).collect());
    });
}

#[test]
fn nothing_of_a_name_or_a_value_is_on_the_medium() {
    each(|rig| {
        let mut map = rig.format().expect("formats");
        map.set(b"a name that is long", &[0x5a; 64]).expect("sets");
        let bytes = image(&rig).to_bytes();
        let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(!holds(b"name") && !holds(&[0x5a; 8]) && !holds(&map.id_of(b"a name that is long")));
    });
}

#[test]
fn another_key_volume_or_size_opens_nothing() {
    let rig = Rig::new(On::Plain, 6, OPTIONS);
    rig.format().expect("formats").set(b"a", b"b").expect("sets");
    let open = |key: &MapKey<'_>, flash: &mut dyn FlashDevice| {
        let (mut index, buffer) = ([IndexEntry::default(); 4], [0; 64]);
        KeyValue::open(flash, key, OPTIONS, &mut index[..], buffer).map(|_| ())
    };
    let mut device = rig.device(false).expect("a device");
    assert_eq!(open(&KEY, &mut device), Ok(()));
    for (volume_key, uuid) in [(&[1; 32][..], UUID), (&VOLUME_KEY[..31], UUID), (&VOLUME_KEY[..], [7; 16])] {
        assert_eq!(open(&MapKey { volume_key, uuid: &uuid }, &mut device), Err(MapError::NotFormatted));
    }
    for (volume_key, uuid) in [(&[][..], UUID), (&[0; 32][..], UUID), (&VOLUME_KEY[..], [0; 16])] {
        assert_eq!(open(&MapKey { volume_key, uuid: &uuid }, &mut device), Err(MapError::NoKey));
    }
    let mut fewer = atrest_device::FlashRegion::new(device, 0, 5).expect("a region");
    assert_eq!(open(&KEY, &mut fewer), Err(MapError::NotFormatted));
}

#[test]
fn what_has_no_room_is_refused_and_changes_nothing() {
    each(|rig| {
        let mut map = rig.format().expect("formats");
        map.set(b"a", &[1; 100]).expect("sets");
        let before = image(&rig).to_bytes();
        assert_eq!(map.set(b"a", &[2; 101]), Err(MapError::ValueTooLong { len: 101, most: 100 }));
        let (index, buffer) = (vec![IndexEntry::default(); 4], vec![0; 63]);
        let small = Map::open(rig.device(false).expect("opens"), &KEY, OPTIONS, index, buffer);
        let unit = if rig.on == On::Plain { 32 } else { 64 };
        assert_eq!(small.is_ok(), unit == 32);
        let (index, buffer) = (vec![], vec![0; 64]);
        let none = Map::open(rig.device(false).expect("opens"), &KEY, OPTIONS, index, buffer);
        assert_eq!(none.err(), Some(MapError::IndexTooSmall { has: 0 }));
        assert_eq!(Map::buffer_len(map.device()), Ok(unit));
        assert!(rig.on == On::Sealed || image(&rig).to_bytes() == before);
    });
    let rig = Rig { names: 2, ..Rig::new(On::Plain, 4, OPTIONS) };
    let mut map = rig.format().expect("formats");
    assert_eq!((map.set(b"a", b""), map.set(b"b", b"")), (Ok(()), Ok(())));
    assert_eq!(map.set(b"c", b""), Err(MapError::IndexTooSmall { has: 2 }));
    assert_eq!((map.set(b"b", b"1"), map.remove(b"a"), map.set(b"c", b"")), (Ok(()), Ok(true), Ok(())));
}

#[test]
fn formatting_replaces_a_map_and_leaves_nothing_of_it() {
    let rig = Rig::new(On::Plain, 5, OPTIONS);
    let mut map = rig.format().expect("formats");
    for round in 0..60 {
        map.set(&[round % 8], &[round; 40]).expect("sets");
    }
    let mut map = rig.format().expect("formats again");
    assert_eq!((map.values().count(), map.used()), (0, 0));
    let used: Vec<usize> = (0..5).map(|block| image(&rig).used_units(block)).collect();
    assert_eq!(used.iter().filter(|used| **used > 0).count(), 1, "{used:?}");
    map.set(b"new", b"one").expect("sets");
    assert_eq!(value(&mut rig.open().expect("opens"), b"new"), Some(b"one".to_vec()));
}

#[test]
fn debug_shows_no_value() {
    let mut map = Rig::new(On::Plain, 4, OPTIONS).format().expect("formats");
    map.set(b"a", &[0x5a; 20]).expect("sets");
    assert_eq!(format!("{map:?}"), "KeyValue { options: MapOptions { longest: 100, spares: 1 }, .. }");
}
