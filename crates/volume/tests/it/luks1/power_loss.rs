//! Every power loss during every operation: what docs/FORMATS.md promises for LUKS1's single header.
//!
//! Media are assumed to write a 512-byte sector whole or not at all, and to keep what a flush acknowledged.

use atrest_testkit::FaultDevice;
use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_volume::luks1::{self, Luks1};
use atrest_volume::{Credential, Devices, RestoreOptions, header_backup, header_restore};

use crate::luks1::common::{fast, image_opens, in_slot, pass, small, small_options, small_with};

const DONE: u64 = 1;

/// Replays all power losses during what was recorded since the last `forget`. `holds` sees the image and whether the
/// operation had been acknowledged, and returns what was still open; every expected outcome must have been seen.
fn replay(device: &FaultDevice, expected: &[&str], mut holds: impl FnMut(Vec<u8>, bool) -> &'static str) {
    let limits = Limits { tearing: Tearing::BetweenSectors, tears: 6, ..Limits::default() };
    let mut seen = std::collections::BTreeSet::new();
    let states = device.recording().for_each_power_loss(&limits, |aftermath| {
        let done = aftermath.acknowledged.contains(&DONE);
        let what = aftermath.power_loss.to_string();
        seen.insert(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| holds(aftermath.image, done)))
                .unwrap_or_else(|_| panic!("{what}, acknowledged: {done}")),
        );
    });
    assert!(states > 3, "{states}");
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn adding_keeps_the_old_key_and_an_acknowledged_new_one() {
    // Keyslot 6 lies across two sectors of the header.
    for slot in [1, 6, 7] {
        let (device, mut volume) = small();
        let one = pass("one");
        volume
            .add_key(&device, Credential::Passphrase(&one, None), &pass("two"), &in_slot(slot))
            .expect("added");
        device.acknowledge(DONE);
        replay(&device, &["both", "old"], |image, done| {
            assert!(image_opens(image.clone(), "one"));
            let new = image_opens(image, "two");
            assert!(new || !done);
            if new { "both" } else { "old" }
        });
    }
}

#[test]
fn changing_leaves_the_old_or_the_new_key_at_every_moment() {
    for slot in [1, 6] {
        let (device, mut volume) = small();
        volume.change_key(&device, &pass("one"), None, &pass("two"), &in_slot(slot)).expect("changed");
        device.acknowledge(DONE);
        replay(&device, &["both", "new", "old"], |image, done| {
            let (old, new) = (image_opens(image.clone(), "one"), image_opens(image, "two"));
            assert!(old || new);
            assert!(!done || (new && !old), "old: {old}, new: {new}");
            match (old, new) {
                (true, true) => "both",
                (true, false) => "old",
                _ => "new",
            }
        });
    }
}

#[test]
fn changing_in_place_may_lose_that_keyslot_and_no_other() {
    let texts = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let (device, mut volume) = small_with(&texts);
    volume.change_key(&device, &pass("eight"), None, &pass("huit"), &in_slot(7)).expect("changed");
    device.acknowledge(DONE);
    replay(&device, &["neither", "new", "old"], |image, done| {
        assert!(image_opens(image.clone(), "seven"));
        let (old, new) = (image_opens(image.clone(), "eight"), image_opens(image, "huit"));
        assert!(!(old && new) && (!done || new));
        if old {
            "old"
        } else if new {
            "new"
        } else {
            "neither"
        }
    });
}

#[test]
fn a_removed_key_never_opens_once_acknowledged_and_others_always_do() {
    for removed in [1, 6] {
        let (device, mut volume) = small();
        let one = pass("one");
        volume
            .add_key(&device, Credential::Passphrase(&one, None), &pass("two"), &in_slot(removed))
            .expect("added");
        device.forget();
        volume.kill_slot(&device, removed, false).expect("removed");
        device.acknowledge(DONE);
        replay(&device, &["both", "one"], |image, done| {
            assert!(image_opens(image.clone(), "one"));
            let removed = image_opens(image, "two");
            assert!(!(removed && done));
            if removed { "both" } else { "one" }
        });
    }
}

#[test]
fn erasing_leaves_nothing_once_acknowledged_and_a_header_at_every_moment() {
    let (device, mut volume) = small_with(&["one", "two"]);
    volume.erase(&device).expect("erased");
    device.acknowledge(DONE);
    replay(&device, &["all", "none", "some"], |image, done| {
        let open = ["one", "two"].iter().filter(|text| image_opens(image.clone(), text)).count();
        assert!(!done || open == 0);
        ["none", "some", "all"][open]
    });
}

#[test]
fn the_uuid_is_the_old_or_the_new_one() {
    let (device, mut volume) = small();
    let old = volume.uuid().to_owned();
    volume.set_uuid(&device, "01234567-89ab-4def-8123-456789abcdef").expect("set");
    device.acknowledge(DONE);
    replay(&device, &["new", "old"], |image, done| {
        assert!(image_opens(image.clone(), "one"));
        let uuid = Luks1::read(&FaultDevice::new(image)).expect("a header").uuid().to_owned();
        assert!(!done || uuid != old);
        if uuid == old { "old" } else { "new" }
    });
}

#[test]
fn formatting_over_a_volume_leaves_the_old_one_none_or_the_new_one() {
    let (device, _) = small();
    luks1::format(Devices::together(&device), &pass("two"), &small_options()).expect("formats");
    device.acknowledge(DONE);
    replay(&device, &["new", "none", "old"], |image, done| {
        if Luks1::read(&FaultDevice::new(image.clone())).is_err() {
            assert!(!done);
            return "none";
        }
        let (old, new) = (image_opens(image.clone(), "one"), image_opens(image, "two"));
        // A header that is there opens: the old one over its own areas, the new one over its own.
        assert!(old != new && (!done || new), "old: {old}, new: {new}");
        if old { "old" } else { "new" }
    });
}

#[test]
fn an_interrupted_restore_is_finished_by_restoring_again() {
    let (device, mut volume) = small();
    let backup = header_backup(&device).expect("backs up");
    let one = pass("one");
    volume.add_key(&device, Credential::Passphrase(&one, None), &pass("two"), &fast()).expect("added");
    device.forget();
    header_restore(&device, &backup, RestoreOptions::default()).expect("restores");
    device.acknowledge(DONE);
    replay(&device, &["backup", "header of before"], |image, done| {
        let state = FaultDevice::new(image);
        let listed = Luks1::read(&state).expect("a header at every moment").info().keyslots.len();
        assert!(!done || listed == 1);
        header_restore(&state, &backup, RestoreOptions::default()).expect("restores again");
        assert!(image_opens(state.image(), "one"));
        if listed == 1 { "backup" } else { "header of before" }
    });
}
