//! Attacks on a map on sealed flash: whatever is put back, moved or changed, each value reads as it was stored last, or not at all.

use atrest_device::FlashCause;
use atrest_keyvalue::{MapError, MapOptions};
use atrest_testkit::flash::Adversary;
use atrest_testkit::{Campaign, Random};

use crate::histories::{NAMES, State, change, read};
use crate::rig::{Map, On, Rig, Trouble};

struct Case {
    rig: Rig,
    adversary: Adversary,
    state: State,
}

/// A map in use, closed or not, and who watched its medium.
fn used(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let rig = Rig::new(On::Sealed, 5, MapOptions { longest: 120, spares: 1 });
    rig.medium.lock().record();
    let mut map = rig.format().expect("formats");
    let mut state = State::new();
    for step in 0..100 {
        change(&mut map, &mut state, &mut random);
        if step % 20 == 19 {
            if random.below(2) == 0 {
                map.device_mut().close();
            }
            map = rig.open().expect("opens");
        }
    }
    if seed.is_multiple_of(2) {
        map.device_mut().close();
    }
    drop(map);
    let adversary = Adversary::new(&rig.medium.lock().finish_recording());
    assert_eq!(read(&rig.snapshot()), state);
    assert!(state.len() > 3, "it is in use");
    Case { rig, adversary, state }
}

#[test]
fn no_attack_goes_undetected() {
    let cases: Vec<Case> = (0..8).map(used).collect();
    let [mut nothing, mut refused, mut reported, mut harmless] = [0_u64; 4];
    Campaign::new("key value attacks", 1_000, 50_000).run(|_, random: &mut Random| {
        let case = random.pick(&cases);
        let rig = case.rig.snapshot();
        let mut open = (random.below(3) == 0).then(|| rig.open().expect("opens"));
        let attack = case.adversary.draw(random);
        if !case.adversary.attack(rig.medium.lock().image_mut(), attack) {
            nothing += 1;
        }
        if open.is_none() {
            match rig.open() {
                Ok(map) => open = Some(map),
                Err(Trouble::Sealed(_)) => refused += 1,
                Err(Trouble::Map(error)) => {
                    assert!(is_tampered(error), "{attack}: {error:?}");
                    refused += 1;
                }
            }
        }
        let Some(mut map) = open else { return };
        let mut found = 0;
        for name in 0..NAMES {
            match value(&mut map, name) {
                Ok(value) => assert_eq!(value.as_ref(), case.state.get(&name), "undetected: {attack}"),
                Err(error) => {
                    assert!(is_tampered(error), "{attack}: {error:?}");
                    found += 1;
                }
            }
        }
        *(if found > 0 { &mut reported } else { &mut harmless }) += 1;
    });
    println!("{refused} refused, {reported} reported, {harmless} read as before; {nothing} changed nothing");
}

fn is_tampered(error: MapError) -> bool {
    matches!(error, MapError::Flash(error) if matches!(error.cause, FlashCause::Tampered { .. }))
}

fn value(map: &mut Map, name: u8) -> Result<Option<(Vec<u8>, u8)>, MapError> {
    let mut out = [0; 120];
    let value = map.get(&[name], &mut out)?.map(|value| value.to_vec());
    Ok(value.zip(map.info(&[name]).map(|info| info.attribute)))
}
