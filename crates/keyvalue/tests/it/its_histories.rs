//! Random histories of Internal Trusted Storage against a model, with power lost anywhere.

use std::collections::BTreeMap;

use atrest_keyvalue::MapOptions;
use atrest_keyvalue::its::{CreateFlags, Its, ItsError, StorageInfo};
use atrest_testkit::{Campaign, Random};

use crate::rig::{Map, On, Rig};

/// By caller and identifier.
type State = BTreeMap<(i32, u64), (Vec<u8>, u32)>;

const CALLERS: [i32; 2] = [0, -5];
const UIDS: u64 = 6;

#[test]
fn storage_on_encrypted_flash_is_what_its_model_is() {
    Campaign::new("its histories, plain", 150, 10_000).run(|_, random| history(On::Plain, random));
}

#[test]
fn storage_on_sealed_flash_is_what_its_model_is() {
    Campaign::new("its histories, sealed", 75, 10_000).run(|_, random| history(On::Sealed, random));
}

fn history(on: On, random: &mut Random) {
    let rig = Rig::new(on, 2 + random.below(4), MapOptions { longest: 90, spares: 1 });
    drop(rig.format().expect("formats"));
    rig.live(4, random, State::new(), step, read);
}

/// Some call, whose answer is the model's.
fn step(map: &mut Map, state: &mut State, random: &mut Random) {
    let (caller, uid) = (*random.pick(&CALLERS), random.below(UIDS + 1));
    let mut its = Its::new(map, caller);
    let known = state.get(&(caller, uid)).cloned();
    let expected = |missing| match &known {
        _ if uid == 0 => Err(ItsError::InvalidArgument),
        None if missing => Err(ItsError::DoesNotExist),
        other => Ok(other.clone()),
    };
    match random.below(6) {
        0 => {
            let found = its.info(uid).map(|info| (info.size, info.capacity, info.flags.bits()));
            let wanted = expected(true).map(|known| known.expect("data"));
            assert_eq!(found, wanted.map(|(data, flags)| (data.len(), data.len(), flags)));
        }
        1 => {
            let (offset, size) = (random.below(100) as usize, random.below(100) as usize);
            let mut out = vec![0; size];
            let found = its.get(uid, offset, &mut out).map(|len| out[..len].to_vec());
            let wanted = expected(true).map(|known| known.expect("data").0);
            let wanted = wanted.and_then(|data| match data.get(offset..) {
                Some(rest) => Ok(rest[..rest.len().min(size)].to_vec()),
                None => Err(ItsError::InvalidArgument),
            });
            assert_eq!(found, wanted);
        }
        2 => {
            let wanted = expected(true).and_then(|known| match known.expect("data").1 & 1 {
                1 => Err(ItsError::NotPermitted),
                _ => Ok(()),
            });
            assert_eq!(its.remove(uid), wanted);
            if wanted.is_ok() {
                state.remove(&(caller, uid));
            }
        }
        _ => {
            let flags =
                if random.below(10) == 0 { random.below(16) as u32 } else { 2 * random.below(4) as u32 };
            let len = random.below(91) as usize;
            let data = random.bytes(len);
            let wanted = match expected(false) {
                Err(error) => Err(error),
                Ok(_) if flags > 7 => Err(ItsError::NotSupported),
                Ok(Some((_, old))) if old & 1 == 1 => Err(ItsError::NotPermitted),
                Ok(_) => Ok(()),
            };
            match its.set(uid, &data, CreateFlags::from_bits(flags)) {
                Err(ItsError::InsufficientStorage) if wanted.is_ok() => {}
                done => {
                    assert_eq!(done, wanted);
                    if done.is_ok() {
                        state.insert((caller, uid), (data, flags));
                    }
                }
            }
        }
    }
}

fn read(rig: &Rig) -> State {
    let mut map = rig.open().unwrap_or_else(|trouble| panic!("does not open: {trouble:?}"));
    let mut state = State::new();
    for (caller, uid) in CALLERS.iter().flat_map(|caller| (1..=UIDS).map(move |uid| (*caller, uid))) {
        let mut its = Its::new(&mut map, caller);
        match its.info(uid) {
            Err(ItsError::DoesNotExist) => {}
            Err(error) => panic!("{error:?}"),
            Ok(StorageInfo { size, flags, .. }) => {
                let mut data = vec![0; size];
                assert_eq!(its.get(uid, 0, &mut data), Ok(size));
                state.insert((caller, uid), (data, flags.bits()));
            }
        }
    }
    assert_eq!(map.values().count(), state.len());
    state
}
