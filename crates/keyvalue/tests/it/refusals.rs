//! Operations that a medium refuses now and then: a change is made, or made elsewhere, or fails; if it fails, it was made or not, and
//! no other value is touched.

use std::collections::BTreeMap;

use atrest_device::FlashCause;
use atrest_keyvalue::MapOptions;
use atrest_testkit::{Campaign, Random};

use crate::histories::NAMES;
use crate::rig::{Map, On, Rig};

/// What each name may have: one value, or after a change that failed the old one and the new one.
type May = BTreeMap<u8, Vec<Option<Vec<u8>>>>;

#[test]
fn a_change_that_a_medium_refuses_is_made_or_not_and_touches_nothing_else() {
    let causes = [
        FlashCause::Driver(5),
        FlashCause::BadBlock { block: 0 },
        FlashCause::AlreadyProgrammed { unit: 0 },
        FlashCause::Closed { block: 0 },
        FlashCause::Void { block: 0 },
        FlashCause::OutOfOrder { next: 0 },
        FlashCause::ReadOnly,
    ];
    let mut went_on = [0; 7];
    Campaign::new("key value refusals", 100, 10_000).run(|seed, random: &mut Random| {
        let on = if seed.is_multiple_of(4) { On::Sealed } else { On::Plain };
        let rig = Rig::new(on, 4 + random.below(3), MapOptions { longest: 100, spares: 2 });
        let mut map = rig.format().expect("formats");
        let which = random.index(causes.len());
        rig.medium.lock().refusals().cause = causes[which];
        let mut may = May::new();
        for _ in 0..40 {
            let one_in = 2 + random.below(30);
            let refusing = random.below(3) == 0;
            rig.medium.lock().refusals().at_random = refusing.then(|| (Random::new(random.draw()), one_in));
            let before = rig.medium.lock().refusals().count;
            let name = random.below(NAMES.into()) as u8;
            let value = (random.below(4) > 0).then(|| random.bytes(60));
            let known = may.get(&name).cloned().unwrap_or_else(|| vec![None]);
            let done = match &value {
                Some(value) => map.set(&[name], value),
                None => map.remove(&[name]).map(drop),
            };
            match done {
                Ok(()) => {
                    went_on[which] += u32::from(rig.medium.lock().refusals().count > before);
                    may.insert(name, vec![value]);
                }
                Err(_) => {
                    may.insert(name, [known, vec![value]].concat());
                }
            }
            rig.medium.lock().refusals().at_random = None;
            // In memory, and as a power loss would leave it.
            check(&mut map, &may);
            check(&mut rig.snapshot().open().expect("opens"), &may);
            if random.below(8) == 0 {
                drop(map);
                map = rig.open().expect("opens");
                settle(&mut map, &mut may);
            }
        }
    });
    println!("went on elsewhere: {went_on:?}");
    if Campaign::is_sample() || Campaign::is_full() {
        assert!(went_on[..6].iter().all(|count| *count > 0), "{went_on:?}");
    }
}

fn value(map: &mut Map, name: u8) -> Option<Vec<u8>> {
    let mut out = [0; 100];
    map.get(&[name], &mut out).expect("reads").map(|value| value.to_vec())
}

fn check(map: &mut Map, may: &May) {
    for name in 0..NAMES {
        let found = value(map, name);
        let allowed = may.get(&name).cloned().unwrap_or_else(|| vec![None]);
        assert!(allowed.contains(&found), "{name}: {found:?} is none of {allowed:?}");
    }
}

/// What an opening has shown is what there is.
fn settle(map: &mut Map, may: &mut May) {
    for name in 0..NAMES {
        may.insert(name, vec![value(map, name)]);
    }
}
