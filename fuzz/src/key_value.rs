//! Key-value maps: in use while power fails, and opened from entries that anybody with the key can have written.

use std::cell::RefCell;
use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use atrest_device::FlashGeometry;
use atrest_kdf::Prf;
use atrest_keyvalue::{IndexEntry, KeyValue, MapError, MapKey, MapOptions};

use crate::medium::{Keeps, Medium};

type Map<'m> = KeyValue<&'m RefCell<Medium>, Vec<IndexEntry>, Vec<u8>>;
type State = BTreeMap<u8, Vec<u8>>;

const KEY: MapKey<'_> = MapKey { volume_key: &[0x42; 32], uuid: &[0x24; 16] };
const OPTIONS: MapOptions = MapOptions { longest: 100, spares: 1 };
const NAMES: u8 = 6;
const BLOCKS: u8 = 4;
const UNIT: usize = 32;
const UNITS: usize = 12;

/// A history of a map, or one that was built.
pub fn key_value(data: &[u8]) {
    let mut u = Unstructured::new(data);
    // Where the input ends nothing more is done.
    let _ = match u.int_in_range(0..=1) {
        Ok(0) => history(&mut u),
        _ => built(&mut u),
    };
}

fn medium(keeps: Keeps) -> Medium {
    let geometry = FlashGeometry::new(1, 16, (UNIT * UNITS) as u32, BLOCKS.into()).expect("a geometry");
    Medium::new(geometry, keeps)
}

fn open(medium: &RefCell<Medium>) -> core::result::Result<Map<'_>, MapError> {
    Map::open(medium, &KEY, OPTIONS, vec![IndexEntry::default(); 16], vec![0; UNIT])
}

fn read(map: &mut Map<'_>) -> State {
    let value = |name: u8| {
        let mut out = [0; 100];
        let value = map.get(&[name], &mut out).expect("what opened is read")?.to_vec();
        Some((name, value))
    };
    (0..NAMES).filter_map(value).collect()
}

/// Changes the map, and says what may be there afterwards.
fn change(map: &mut Map<'_>, state: &State, u: &mut Unstructured<'_>) -> Result<(bool, State)> {
    let name = u.int_in_range(0..=NAMES - 1)?;
    let mut next = state.clone();
    let done = if u.ratio(1, 4)? {
        next.remove(&name);
        map.remove(&[name]).map(|was_there| assert_eq!(was_there, state.contains_key(&name)))
    } else {
        let value = vec![u.arbitrary::<u8>()?; u.int_in_range(0..=100)?];
        let done = map.set(&[name], &value);
        next.insert(name, value);
        done
    };
    Ok((done.is_ok(), next))
}

/// What is acknowledged holds, and what power has cut is there or not.
fn history(u: &mut Unstructured<'_>) -> Result<()> {
    let keeps = if u.arbitrary()? { Keeps::Cache } else { Keeps::Order };
    let medium = RefCell::new(medium(keeps));
    let mut map =
        Map::format(&medium, &KEY, OPTIONS, vec![IndexEntry::default(); 16], vec![0; UNIT]).expect("formats");
    let mut state = State::new();
    while !u.is_empty() {
        match u.int_in_range(0..=9)? {
            0 => map = open(&medium).expect("opens"),
            1 => medium.borrow_mut().left = Some(u.int_in_range(0..=12)?),
            _ => {
                let (done, next) = change(&mut map, &state, u)?;
                if done {
                    state = next;
                } else if !medium.borrow().has_power {
                    drop(map);
                    medium.borrow_mut().restart(u.arbitrary()?);
                    map = open(&medium).expect("opens after a power loss");
                    let found = read(&mut map);
                    assert!(found == state || found == next, "{found:?} is neither {state:?} nor {next:?}");
                    state = found;
                }
            }
        }
    }
    medium.borrow_mut().left = None;
    assert_eq!(read(&mut map), state);
    Ok(())
}

/// The keys, by FORMATS.md.
fn keys() -> [Prf; 2] {
    let root = Prf::extract(KEY.uuid, KEY.volume_key);
    let sizes = [UNIT as u32, UNITS as u32, BLOCKS.into()].map(u32::to_le_bytes);
    [b"n", b"t"]
        .map(|purpose| Prf::new(&root.expand::<32>(&[b"atrest key value 1", sizes.as_flattened(), purpose])))
}

/// Entries anywhere, most of them with tags that are right. Whatever opens can be used as any map.
fn built(u: &mut Unstructured<'_>) -> Result<()> {
    let [names, tags] = keys();
    let medium = RefCell::new(medium(Keeps::Order));
    let _: u8 = u.arbitrary()?;
    for _ in 0..24 {
        if u.is_empty() {
            break;
        }
        let (block, unit) = (u.int_in_range(0..=BLOCKS - 1)?, u.int_in_range(0..=UNITS as u16 - 1)?);
        let sequence = u32::from(u.arbitrary::<u8>()?);
        let mut head = vec![u.arbitrary()?, u.arbitrary()?, u.arbitrary()?, u.arbitrary()?];
        let free = u.arbitrary::<bool>()?;
        if free {
            head.extend(u.bytes(12)?);
        } else {
            head.extend(&names.tag(&[&[u.int_in_range(0..=NAMES)?]])[..12]);
        }
        let len = if head[0] == 1 { usize::from(u16::from_le_bytes([head[2], head[3]])) } else { 0 };
        let value = u.bytes(len.min(u.len()))?.to_vec();
        let number = if unit == 0 { head[4..8].to_vec() } else { sequence.to_le_bytes().to_vec() };
        let tag = tags.tag(&[&[block], &number, &unit.to_le_bytes(), &head, &value]);
        let wrong = u.ratio(1, 16)?;
        let whole = [head, tag.map(|byte| byte ^ u8::from(wrong)).to_vec(), value].concat();
        let start = (usize::from(block) * UNITS + usize::from(unit)) * UNIT;
        let bytes = &mut medium.borrow_mut().bytes[start..];
        let len = whole.len().min(bytes.len());
        bytes[..len].copy_from_slice(&whole[..len]);
    }
    let Ok(mut map) = open(&medium) else { return Ok(()) };
    let mut state = read(&mut map);
    for round in 0..20_u8 {
        let (name, value) = (round % NAMES, vec![round; usize::from(round) * 5]);
        match map.set(&[name], &value) {
            Ok(()) => drop(state.insert(name, value)),
            Err(MapError::Full { .. } | MapError::WornOut | MapError::IndexTooSmall { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(read(&mut map), state);
    let mut map = open(&medium).expect("opens again");
    assert_eq!(read(&mut map), state);
    Ok(())
}
