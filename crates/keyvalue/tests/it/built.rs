//! Maps that only somebody with the key can have written wrong, entry by entry: refused, not used.

use atrest_device::FlashGeometry;
use atrest_kdf::Prf;
use atrest_keyvalue::{IndexEntry, KeyValue, MapError, MapOptions};
use atrest_testkit::flash::{EmulatedFlash, FlashImage, SharedFlash};

use crate::rig::KEY;

const UNIT: usize = 32;
const UNITS: usize = 8;
const BLOCKS: u32 = 4;

/// The first units of blocks by FORMATS.md: block, kind, version, number, bits of the blocks that count.
fn open(begun: &[(u8, u8, u8, u32, u64)]) -> Result<usize, MapError> {
    let geometry = FlashGeometry::new(1, 32, (UNIT * UNITS) as u32, BLOCKS.into()).expect("a geometry");
    let root = Prf::extract(KEY.uuid, KEY.volume_key);
    let sizes = [UNIT as u32, UNITS as u32, BLOCKS].map(u32::to_le_bytes);
    let tags = Prf::new(&root.expand::<32>(&[b"atrest key value 1", sizes.as_flattened(), b"t"]));
    let mut bytes = vec![0xff; UNIT * UNITS * BLOCKS as usize];
    for (block, kind, version, number, alive) in begun {
        let fields = [&[*kind, *version, 1, 0], &number.to_le_bytes()[..], &alive.to_le_bytes()].concat();
        let tag = tags.tag(&[&[*block], &number.to_le_bytes(), &[0, 0], &fields]);
        let start = usize::from(*block) * UNIT * UNITS;
        bytes[start..start + UNIT].copy_from_slice(&[&fields[..], &tag].concat());
    }
    let flash = EmulatedFlash::with_image(FlashImage::from_bytes(geometry, &bytes));
    let options = MapOptions { longest: 32, spares: 1 };
    let map = KeyValue::open(flash, &KEY, options, vec![IndexEntry::default(); 4], vec![0; UNIT])?;
    Ok(map.values().count())
}

#[test]
fn blocks_that_count_are_there_once_and_the_head_is_one_of_them() {
    const BEGUN: u8 = 3;
    assert_eq!(open(&[(1, BEGUN, 1, 5, 0b10)]), Ok(0));
    assert_eq!(open(&[(1, BEGUN, 1, 5, 0b10), (3, BEGUN, 1, 6, 0b1010)]), Ok(0));
    // The head is none of them, one is missing, one is behind the last, two have one number.
    for (begun, block) in [
        (&[(1, BEGUN, 1, 5, 0b100), (2, BEGUN, 1, 4, 0b100)][..], 1),
        (&[(1, BEGUN, 1, 5, 0)], 1),
        (&[(1, BEGUN, 1, 5, 0b110)], 2),
        (&[(1, BEGUN, 1, 5, 0b10 | 1 << 63)], 63),
        (&[(1, BEGUN, 1, 5, 0b10), (2, BEGUN, 1, 5, 0b110), (3, BEGUN, 1, 6, 0b1110)], 2),
    ] {
        assert_eq!(open(begun), Err(MapError::Damaged { block, unit: 0 }), "{begun:?}");
    }
}

#[test]
fn a_block_of_another_version_or_kind_begins_nothing() {
    for (kind, version) in [(3, 0), (3, 2), (1, 1), (2, 1), (5, 1), (0, 1), (6, 1)] {
        assert_eq!(open(&[(1, kind, version, 5, 0b10)]), Err(MapError::NotFormatted), "{kind} {version}");
    }
    // Something was to be moved to it, and is not there.
    assert_eq!(open(&[(1, 4, 1, 5, 0b10)]), Err(MapError::NotFormatted));
}

/// What a power loss leaves may say that it goes on behind the end of the medium.
#[test]
fn an_entry_that_is_too_long_for_its_block_is_none() {
    let geometry = FlashGeometry::new(1, 32, (UNIT * UNITS) as u32, 2).expect("a geometry");
    let flash = SharedFlash::new(EmulatedFlash::new(geometry));
    let options = MapOptions { longest: 32, spares: 1 };
    let parts = || (flash.clone(), vec![IndexEntry::default(); 4], vec![0; UNIT]);
    let (device, index, buffer) = parts();
    let mut map = KeyValue::format(device, &KEY, options, index, buffer).expect("formats");
    map.set(b"a", b"1").expect("sets");
    // Until the map is in the last block.
    while flash.lock().image().is_blank(1, 3) {
        map.set(b"b", b"2").expect("sets");
    }
    let before = flash.lock().image().unit(1, 1).to_vec();
    let mut longer = before.clone();
    longer[2..4].fill(0xff);
    flash.lock().image_mut().put_unit(1, 1, &longer);
    let damaged = MapError::Damaged { block: 1, unit: 1 };
    assert_eq!(map.get(b"a", &mut [0; 8]), Err(damaged));
    let refused = (0..8).find_map(|_| map.set(b"b", b"3").err());
    assert_eq!(refused, Some(damaged));
    drop(map);
    let (device, index, buffer) = parts();
    let opened = KeyValue::open(device, &KEY, options, index, buffer);
    assert_eq!(opened.err(), Some(damaged));
    flash.lock().image_mut().put_unit(1, 1, &before);
    let (device, index, buffer) = parts();
    let mut map = KeyValue::open(device, &KEY, options, index, buffer).expect("opens");
    assert_eq!(map.get(b"a", &mut [0; 8]).expect("reads").as_deref(), Some(&b"1"[..]));
}
