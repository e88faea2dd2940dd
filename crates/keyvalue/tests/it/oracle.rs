//! The bytes of a map, in the eyes of a program that shares no code with us: it reads what we write, and we read what it writes.

use std::collections::BTreeMap;

use atrest_device::FlashGeometry;
use atrest_keyvalue::{IndexEntry, KeyValue, MapOptions};
use atrest_testkit::flash::{EmulatedFlash, FlashImage, SharedFlash};
use atrest_testkit::oracle::Outcome;
use atrest_testkit::{Random, Scratch};

use crate::rig::{KEY, UUID, VOLUME_KEY};

type Map = KeyValue<SharedFlash, Vec<IndexEntry>, Vec<u8>>;

/// A value and its attribute.
type Stored<'a> = Option<(&'a [u8], u8)>;

const OPTIONS: MapOptions = MapOptions { longest: 120, spares: 1 };

/// Runs `tests/oracle/key_value.py` on an image.
fn oracle(scratch: &Scratch, mode: &str, geometry: FlashGeometry, more: &[String]) -> Outcome {
    let script = format!("{}/tests/oracle/key_value.py", env!("CARGO_MANIFEST_DIR"));
    let sizes = [geometry.prog_size().to_string(), geometry.erase_size().to_string()];
    let keys = [hex(&VOLUME_KEY), hex(&UUID)];
    let program = scratch.tool("python3").arg(script).args([mode, "image"]).args(keys).args(sizes);
    program.args(more).current_dir(scratch.as_path()).ok()
}

#[test]
fn an_independent_reader_finds_what_was_stored() {
    let mut seen = 0;
    for (seed, (prog, erase, blocks)) in (0..).zip([(1, 512, 4), (16, 1024, 3), (24, 960, 5), (64, 1024, 64)])
    {
        let geometry = FlashGeometry::new(1, prog, erase, blocks).expect("a geometry");
        let flash = SharedFlash::new(EmulatedFlash::new(geometry));
        let len = Map::buffer_len(&flash).expect("a length");
        let parts = || (flash.clone(), vec![IndexEntry::default(); 20], vec![0; len]);
        let (device, index, buffer) = parts();
        let mut map = Map::format(device, &KEY, OPTIONS, index, buffer).expect("formats");
        let (mut random, mut model) = (Random::new(seed), BTreeMap::new());
        for step in 0..150 {
            let name = vec![random.below(7) as u8; random.below(3) as usize];
            if random.below(4) == 0 {
                assert_eq!(map.remove(&name), Ok(model.remove(&hex(&name)).is_some()));
            } else {
                let (len, attribute) = (random.below(121) as usize, random.draw() as u8);
                let value = random.bytes(len);
                if map.set_with(&name, &value, attribute).is_ok() {
                    model.insert(hex(&name), (hex(&value), attribute));
                }
            }
            if step % 75 == 74 {
                let scratch = Scratch::new();
                scratch.file("image", flash.lock().image().to_bytes());
                let mut names: Vec<String> =
                    (0..7).flat_map(|byte| (1..3).map(move |len| hex(&vec![byte; len]))).collect();
                names.push(String::new());
                let read = oracle(&scratch, "read", geometry, &names).json();
                let values = read["values"].as_object().expect("an object").iter().map(|(name, value)| {
                    let bytes = value[0].as_str().expect("bytes").to_owned();
                    (name.clone(), (bytes, value[1].as_u64().expect("a byte") as u8))
                });
                assert_eq!(
                    (BTreeMap::from_iter(values), read["count"].as_u64()),
                    (model.clone(), Some(model.len() as u64))
                );
                seen += model.len();
                let (device, index, buffer) = parts();
                map = Map::open(device, &KEY, OPTIONS, index, buffer).expect("opens");
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn a_map_that_an_independent_program_wrote_opens_and_can_be_changed() {
    let geometry = FlashGeometry::new(1, 16, 512, 4).expect("a geometry");
    let scratch = Scratch::new();
    oracle(&scratch, "write", geometry, &["4".into()]);
    let image = FlashImage::from_bytes(geometry, &scratch.read("image"));
    let flash = SharedFlash::new(EmulatedFlash::with_image(image));
    let open = || Map::open(flash.clone(), &KEY, OPTIONS, vec![IndexEntry::default(); 20], vec![0; 32]);
    let kept: Vec<u8> = (0..100).collect();
    let expected: [(&str, Stored<'_>); 5] = [
        ("old", Some((b"", 0))),
        ("kept", Some((&kept, 5))),
        ("gone", None),
        ("moved", Some((b"from block 3", 255))),
        ("new", Some((b"\x00\xff", 0))),
    ];
    let check = |map: &mut Map| {
        for (name, expected) in expected {
            let mut out = [0; 100];
            let found = map.get(name.as_bytes(), &mut out).expect("reads").map(|value| value.to_vec());
            let attribute = map.info(name.as_bytes()).map(|info| info.attribute);
            let expected = expected.map(|(value, attribute)| (value.to_vec(), attribute));
            assert_eq!(found.zip(attribute), expected, "{name}");
        }
    };
    let mut map = open().expect("opens");
    check(&mut map);
    // Block 1 might have come to count: nothing goes into a block that was begun before it.
    let before = flash.lock().image().used_units(0);
    map.set(b"another", b"").expect("sets");
    assert_eq!(flash.lock().image().used_units(0), before);
    (0..30).for_each(|round| map.set(b"another", &[round; 60]).expect("sets"));
    check(&mut map);
    check(&mut open().expect("opens again"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
