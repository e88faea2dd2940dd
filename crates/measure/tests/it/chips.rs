//! The instructions that `measure::cost` names for microcontrollers, and docs/KDF.md with it, against whole derivations that boards under emulation
//! count.

use std::collections::BTreeMap;

use atrest_kdf::{CatenaCost, CatenaGraph, CatenaInput, Hash, catena, pbkdf2};
use atrest_measure::cost::{CHIPS, Setting};
use atrest_testkit::firmware::{Build, boards, fnv};

const PASSPHRASE: &[u8] = b"correct horse battery staple";
const SALT: &[u8] = b"a salt of 16 by.";
/// How far the model may be off, in percent: what it costs to begin and to end is not in it.
const TOLERANCE: u64 = 2;

#[test]
fn chips_take_as_many_instructions_as_the_model_says() {
    for board in boards() {
        let chip = CHIPS.iter().find(|chip| chip.name == board.name).expect("a chip of that name");
        let directory = board.build(Build::Speed, &["derivations"]);
        let output = board.count(&directory.join("derivations"));
        let mut counted = BTreeMap::new();
        let mut last = "";
        for line in output.lines() {
            let fields: Vec<&str> = line.trim().split(',').collect();
            let [what, _, figure] = fields[..] else { panic!("{line}") };
            let figure: u64 = figure.parse().unwrap_or_else(|_| panic!("{line}"));
            match what {
                "calibration" => assert!(figure.abs_diff(20_000) <= 10, "it counts {figure} for 20,000"),
                "fingerprint" => {
                    assert_eq!(figure, fingerprint(last), "{}: another key by {last}", board.name)
                }
                _ => {
                    counted.insert(what, figure);
                    last = what;
                }
            }
        }
        assert_eq!(counted.len(), 3, "an incomplete report:\n{output}");
        for (what, figure) in counted {
            let says = setting(what).instructions(chip).expect("a chip has the memory");
            println!("{}: {what} takes {figure} instructions, as reckoned {says}", board.name);
            assert!(
                figure.abs_diff(says) * 100 <= says * TOLERANCE,
                "{}: {what} takes {figure} instructions, measure::cost and docs/KDF.md say {says}",
                board.name
            );
        }
    }
}

/// What the program derives under this name.
fn setting(what: &str) -> Setting {
    match what {
        "pbkdf2" => Setting::Pbkdf2 { iterations: 1000 },
        "brg" => Setting::Catena(CatenaCost::new(CatenaGraph::BitReversal, 12)),
        "dbg" => Setting::Catena(CatenaCost::new(CatenaGraph::DoubleButterfly, 11)),
        _ => panic!("{what}"),
    }
}

/// FNV-1a of the key that this machine derives.
fn fingerprint(what: &str) -> u64 {
    let mut key = [0; 32];
    match setting(what) {
        Setting::Pbkdf2 { iterations } => pbkdf2(Hash::Sha256, PASSPHRASE, SALT, iterations, &mut key),
        Setting::Catena(cost) => {
            let input = CatenaInput { passphrase: PASSPHRASE, salt: SALT, ..CatenaInput::default() };
            let mut memory = vec![0; cost.memory_bytes(Hash::Sha256) as usize];
            catena(Hash::Sha256, &cost, &input, &mut memory, &mut key)
        }
        other => panic!("{other:?}"),
    }
    .expect("a key");
    fnv(&key)
}
