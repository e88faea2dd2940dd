//! Random histories of a map against a model, with power lost anywhere: at each opening the map is that after the last change that
//! returned, or after the one that was cut.

use std::collections::BTreeMap;

use atrest_keyvalue::{MapError, MapOptions};
use atrest_testkit::{Campaign, Random};

use crate::rig::{Map, On, Rig};

/// Names are numbers below [`NAMES`].
pub type State = BTreeMap<u8, (Vec<u8>, u8)>;

pub const NAMES: u8 = 9;

#[test]
fn a_map_on_encrypted_flash_is_what_its_model_is() {
    Campaign::new("key value histories, plain", 150, 10_000).run(|_, random| history(On::Plain, random));
}

#[test]
fn a_map_on_sealed_flash_is_what_its_model_is() {
    Campaign::new("key value histories, sealed", 75, 10_000).run(|_, random| history(On::Sealed, random));
}

fn history(on: On, random: &mut Random) {
    let options = MapOptions { longest: 120, spares: 1 };
    let rig = Rig::new(on, 2 + random.below(4), options);
    let mut map = rig.format().expect("formats");
    map.device_mut().close();
    drop(map);
    rig.live(5, random, State::new(), change, read);
}

/// Some change of map and model. What has no room changes neither.
pub fn change(map: &mut Map, state: &mut State, random: &mut Random) {
    let name = random.below(NAMES.into()) as u8;
    if random.below(4) == 0 {
        assert_eq!(map.remove(&[name]), Ok(state.remove(&name).is_some()));
        return;
    }
    let (len, attribute) = (random.below(121) as usize, random.draw() as u8);
    let value = random.bytes(len);
    match map.set_with(&[name], &value, attribute) {
        Ok(()) => drop(state.insert(name, (value, attribute))),
        Err(error) => assert!(matches!(error, MapError::Full { .. }), "{error:?}"),
    }
}

/// Opens the map and reads all of it.
pub fn read(rig: &Rig) -> State {
    let mut map = rig.open().unwrap_or_else(|trouble| panic!("does not open: {trouble:?}"));
    let state = (0..NAMES).filter_map(|name| value(&mut map, name).map(|value| (name, value)));
    let state = State::from_iter(state);
    assert_eq!(map.values().count(), state.len());
    state
}

fn value(map: &mut Map, name: u8) -> Option<(Vec<u8>, u8)> {
    let mut out = [0; 120];
    let value = map.get(&[name], &mut out).expect("reads")?.to_vec();
    Some((value, map.info(&[name]).expect("a value").attribute))
}
