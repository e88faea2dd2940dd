//! Someone who has recorded everything that was ever on the medium puts back, moves and damages what is there: littlefs on a
//! sealed volume then shows what was stored last, or an error, and nothing else. THREAT-MODEL.md has what the same does
//! to encryption alone (`littlefs_tampering.rs`).

use crate::littlefs::{Change, Tree, play_on, read_all_on, suite};
use crate::sealed_rig;
use crate::sealed_rig::{OPTIONS, Parts, Trouble, on, read_all, read_live};
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry};
use atrest_flash::sealed::{SealedOptions, Verify};
use atrest_testkit::flash::{Adversary, Attack};
use atrest_testkit::{Campaign, Random};

const VERIFY: [Verify; 2] = [Verify::OnRead, Verify::AtOpening];

/// A volume in use, anchored, and who watched it.
struct Case {
    parts: Parts,
    adversary: Adversary,
    tree: Tree,
    steps: usize,
}

fn case(changes: usize) -> Case {
    let options = SealedOptions { anchor_every: 1, ..OPTIONS };
    let changes = &suite(64 * 640)[..changes];
    let (before, after) = changes.split_at(changes.len() / 2);
    let (parts, tree) = (1..)
        .find_map(|seed| {
            let parts = Parts::formatted(options);
            let tree = with_refusals(&parts, before, seed)?;
            Some((parts, tree))
        })
        .expect("a seed");
    let run = parts.record(tree, after, true);
    let tree = run.played.states.last().expect("a state").clone();
    let withheld = std::mem::take(&mut parts.medium.lock().refusals().withheld);
    let adversary = Adversary::new(&run.recording).with_withheld(withheld);
    Case { parts, adversary, tree, steps: run.recording.len() }
}

/// Sessions that end with an operation that is refused, and are closed in good order; the next one tries the same change again. None if
/// littlefs gives up, or no program was refused.
fn with_refusals(parts: &Parts, changes: &[Change], seed: u64) -> Option<Tree> {
    let (mut tree, mut left) = (Tree::new(), changes);
    for session in 0..8 {
        let mut storage = parts.storage().ok()?;
        parts.medium.lock().refusals().at_random = Some((Random::new(seed * 100 + session), 50));
        let (played, result) = play_on(&mut storage, tree, left, |_| {});
        parts.medium.lock().refusals().at_random = None;
        tree = read_all_on(&mut storage).ok()?;
        storage.into_device().close().ok()?;
        left = &left[played.states.len() - 1..];
        if result.is_ok() {
            break;
        }
    }
    let refused = !parts.medium.lock().refusals().withheld.is_empty();
    (left.is_empty() && refused).then_some(tree)
}

/// Attacks by what came of them.
#[derive(Debug, Default)]
struct Tally {
    changed_nothing: u64,
    refused: u64,
    error_on_reading: u64,
    /// Bytes were changed, but all files read as before.
    harmless: u64,
}

impl Tally {
    fn judge(&mut self, case: &Case, attack: Attack, live: bool, verify: Verify) {
        let options = SealedOptions { verify, ..case.parts.options };
        let image = case.parts.medium.lock().image().clone();
        let mut changed = true;
        let found = if live {
            let parts = Parts { options, ..case.parts.snapshot() };
            read_live(&parts, |image| changed = case.adversary.attack(image, attack))
        } else {
            let mut attacked = image;
            changed = case.adversary.attack(&mut attacked, attack);
            read_all(&Parts::new(attacked, case.parts.store.record(), options))
        };
        match found {
            Ok(tree) => {
                assert_eq!(tree, case.tree, "undetected: {attack}, live: {live}");
                *(if changed { &mut self.harmless } else { &mut self.changed_nothing }) += 1;
            }
            Err(trouble) => {
                assert!(changed, "a false alarm: {attack}: {trouble:?}");
                match trouble {
                    Trouble::Refused(_) => self.refused += 1,
                    // littlefs's own word for an I/O error: it did not go on with older metadata.
                    Trouble::Reading(code, true) => {
                        assert_eq!(code, Some(-5), "{attack}");
                        self.error_on_reading += 1;
                    }
                    Trouble::Reading(code, false) => panic!("{attack}: error {code:?} without tampering"),
                }
            }
        }
    }
}

#[test]
fn no_random_attack_below_littlefs_goes_undetected() {
    let all = suite(64 * 640).len();
    let cases: Vec<Case> = (1..=6).map(|part| case(all * part / 6)).collect();
    let mut tally = Tally::default();
    Campaign::new("sealed adversary, littlefs", 250, 20_000).run(|_, random: &mut Random| {
        let case = random.pick(&cases);
        let attack = case.adversary.draw(random);
        tally.judge(case, attack, random.below(4) == 0, *random.pick(&VERIFY));
    });
    println!("{tally:?}");
}

#[test]
fn no_systematic_attack_below_littlefs_goes_undetected() {
    let case = case(suite(64 * 640).len());
    let units = 11;
    let mut attacks: Vec<Attack> = Vec::new();
    for block in 0..64 {
        // In the payload, the serial, the tag, and the salt or the filling behind it.
        let bytes = (0..units).flat_map(|unit| {
            [0, 30, 64, 68, 69, 84, 88, 95].map(|byte| unit * sealed_rig::STRIDE as usize + byte)
        });
        attacks.extend(bytes.map(|byte| Attack::FlipBit { block, byte, bit: (byte % 8) as u8 }));
        attacks.extend(
            (0..case.adversary.versions(block)).map(|version| Attack::ReplayBlock { block, version }),
        );
        attacks.extend((block + 1..64).map(|other| Attack::SwapBlocks { a: block, b: other }));
        attacks.extend((0..units).map(|from| Attack::Truncate { block, from }));
        let pairs = (0..units).flat_map(|a| (a + 1..units).map(move |b| (a, b)));
        attacks.extend(pairs.map(|(a, b)| Attack::SwapUnits { a: (block, a), b: (block, b) }));
    }
    attacks.extend((0..case.steps).map(|step| Attack::ReplayImage { step }));
    attacks.extend((0..case.adversary.withheld()).map(|program| Attack::Deliver { program }));
    let mut tally = Tally::default();
    Campaign::matrix("sealed adversary, littlefs, systematic", 125).over(&attacks, |attack| {
        for verify in VERIFY {
            tally.judge(&case, *attack, false, verify);
            tally.judge(&case, *attack, true, verify);
        }
    });
    println!("{tally:?}");
}

/// A device that takes tampering for a bad block, as a naive layer would.
struct Naive<D>(D);

impl<D: FlashDevice> FlashDevice for Naive<D> {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.read(address, buf).map_err(|error| match error.cause {
            FlashCause::Tampered { .. } => FlashError { cause: FlashCause::Uncorrectable, ..error },
            _ => error,
        })
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.0.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.0.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.0.sync()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.0.is_blank(address, len, scratch)
    }
}

/// littlefs keeps two copies of metadata and goes on with the older one if the newer reads as corrupt. Tampering therefore is an I/O
/// error, after which it does not look further; reported as corruption it would give an adversary a rollback.
#[test]
fn a_failed_tag_never_makes_littlefs_use_older_metadata_and_would_if_it_were_called_corruption() {
    let case = case(60);
    let (mut stopped, mut same, mut rolled_back) = (0, 0, 0);
    let units: Vec<(usize, usize)> =
        (0..64).flat_map(|block| (0..10).map(move |unit| (block, unit))).collect();
    Campaign::matrix("sealed adversary, one changed unit below littlefs", 300).over(
        &units,
        |&(block, unit)| {
            let flip = Attack::FlipBit { block, byte: unit * sealed_rig::STRIDE as usize + 5, bit: 2 };
            let found = read_live(&case.parts.snapshot(), |image| {
                case.adversary.attack(image, flip);
            });
            match found {
                Ok(tree) => {
                    assert_eq!(tree, case.tree, "{flip}");
                    same += 1;
                }
                Err(Trouble::Reading(Some(-5), true)) => stopped += 1,
                Err(trouble) => panic!("{flip}: {trouble:?}"),
            }
            // Who reads everything at the opening stops at what was changed since.
            let options = SealedOptions { verify: Verify::AtOpening, ..case.parts.options };
            let found = read_live(&Parts { options, ..case.parts.snapshot() }, |image| {
                case.adversary.attack(image, flip);
            });
            assert!(matches!(found, Ok(_) | Err(Trouble::Reading(Some(-5), true))), "{flip}: {found:?}");
            let parts = case.parts.snapshot();
            let mut naive = on(Naive(parts.open(true).expect("mount")));
            case.adversary.attack(parts.medium.lock().image_mut(), flip);
            rolled_back += u32::from(read_all_on(&mut naive).is_ok_and(|tree| tree != case.tree));
        },
    );
    println!("{stopped} stopped, {same} not read; as corruption: {rolled_back} older trees");
    assert!(stopped > 0 && rolled_back > 0);
}
