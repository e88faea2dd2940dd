//! Every state that a power loss can leave: the header opens, what was acknowledged holds, what was removed stays gone.

use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_testkit::{Campaign, FaultDevice};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{Credential, Devices, FormatOptions, Priority, RestoreOptions};

use crate::luks2::support::*;

/// Runs `operation` on a fresh volume with "one" in slot 0 and "two" in slot 1, then visits every power loss in it.
/// `allowed` says whether a state is right, given what opens and whether the operation was acknowledged.
fn survives(
    operation: impl FnOnce(&FaultDevice, &mut Luks2),
    allowed: impl Fn(&FaultDevice, &Luks2, bool) -> bool,
) {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot()).expect("adds");
    device.forget();
    operation(&device, &mut luks);
    device.acknowledge(1);
    atrest_device::BlockDevice::flush(&device).expect("flushes");
    let visited = device.recording().for_each_power_loss(&limits(), |aftermath| {
        let acknowledged = !aftermath.acknowledged.is_empty();
        let after = FaultDevice::new(aftermath.image);
        let luks = Luks2::read(&after);
        let luks = luks
            .unwrap_or_else(|error| panic!("{}: the header does not open: {error}", aftermath.power_loss));
        assert!(
            allowed(&after, &luks, acknowledged),
            "{}, acknowledged: {acknowledged}",
            aftermath.power_loss
        );
    });
    assert!(visited > 8, "only {visited} states");
}

/// A sample of the tears, or in a full campaign many more.
fn limits() -> Limits {
    let (sampled, tears) = if Campaign::is_full() { (512, 64) } else { (16, 4) };
    Limits { tearing: Tearing::Inside, sampled, tears, ..Limits::default() }
}

fn which(device: &FaultDevice) -> Vec<&'static str> {
    ["one", "two", "three"].into_iter().filter(|text| opens(device, text).is_some()).collect()
}

#[test]
fn adding_a_key() {
    survives(
        |device, luks| {
            let one = passphrase("one");
            luks.add_key(device, Credential::Passphrase(&one, None), &passphrase("three"), &keyslot())
                .expect("adds");
        },
        |device, _, acknowledged| match which(device).as_slice() {
            ["one", "two"] => !acknowledged,
            ["one", "two", "three"] => true,
            _ => false,
        },
    );
}

#[test]
fn removing_a_key() {
    survives(
        |device, luks| luks.kill_slot(device, 1, false).expect("removes"),
        |device, luks, acknowledged| match which(device).as_slice() {
            ["one", "two"] => !acknowledged,
            ["one"] => !acknowledged || luks.metadata().keyslot(1).is_none(),
            _ => false,
        },
    );
}

#[test]
fn once_the_header_forgets_a_keyslot_an_old_copy_of_the_header_does_not_help() {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot()).expect("adds");
    device.forget();
    let kept = device.image()[..0x8000].to_vec();
    luks.kill_slot(&device, 1, false).expect("removes");
    let mut forgotten = 0;
    device.recording().for_each_power_loss(&limits(), |mut aftermath| {
        let after = FaultDevice::new(aftermath.image.clone());
        if Luks2::read(&after).expect("reads").metadata().keyslot(1).is_none() {
            aftermath.image[..0x8000].copy_from_slice(&kept);
            assert_eq!(opens(&FaultDevice::new(aftermath.image), "two"), None, "{}", aftermath.power_loss);
            forgotten += 1;
        }
    });
    assert!(forgotten > 0);
}

#[test]
fn changing_a_key_leaves_the_old_or_the_new_passphrase() {
    survives(
        |device, luks| {
            luks.change_key(device, &passphrase("two"), None, &passphrase("three"), &keyslot())
                .expect("changes");
        },
        |device, _, acknowledged| match which(device).as_slice() {
            ["one", "two"] => !acknowledged,
            ["one", "three"] => true,
            _ => false,
        },
    );
}

#[test]
fn the_old_material_of_a_changed_key_is_wiped_before_the_change_is_acknowledged() {
    let (device, mut luks) = volume();
    let area = luks.metadata().keyslot(0).expect("exists").area.clone();
    let before = device.image();
    luks.change_key(&device, &passphrase("one"), None, &passphrase("two"), &keyslot()).expect("changes");
    let after = device.image();
    let range = area.offset as usize..(area.offset + area.size) as usize;
    for (old, new) in before[range.clone()].chunks(512).zip(after[range].chunks(512)) {
        assert_ne!(old, new);
    }
}

#[test]
fn erasing() {
    survives(
        |device, luks| luks.erase(device).expect("erases"),
        |device, luks, acknowledged| {
            let none = which(device).is_empty() && luks.metadata().keyslots().is_empty();
            !acknowledged || none
        },
    );
}

#[test]
fn setting_a_label_and_a_priority_leaves_the_old_or_the_new_header() {
    survives(
        |device, luks| luks.set_label(device, Some("new"), None).expect("sets"),
        |device, luks, acknowledged| {
            which(device) == ["one", "two"]
                && (luks.label() == "new" || (!acknowledged && luks.label().is_empty()))
        },
    );
    survives(
        |device, luks| luks.set_priority(device, 1, Priority::Prefer).expect("sets"),
        |device, _, _| which(device) == ["one", "two"],
    );
}

#[test]
fn changing_a_header_of_which_one_copy_is_damaged() {
    for damaged in [0, 0x4000] {
        for text in ["one", "two"] {
            let (device, mut luks) = volume();
            atrest_device::BlockDevice::write_at(&device, damaged + 4200, b"damage").expect("writes");
            device.forget();
            luks.add_key(
                &device,
                Credential::Passphrase(&passphrase("one"), None),
                &passphrase("two"),
                &keyslot(),
            )
            .expect("adds");
            device.recording().for_each_power_loss(&limits(), |aftermath| {
                let after = FaultDevice::new(aftermath.image);
                let luks = Luks2::read(&after);
                assert!(luks.is_ok(), "{}: {:?}", aftermath.power_loss, luks.err());
                let opened = opens(&after, text).is_some();
                assert!(opened || text == "two", "{}", aftermath.power_loss);
            });
        }
    }
}

#[test]
fn repairing_and_restoring_always_leaves_a_header() {
    survives(
        |device, luks| {
            let backup = luks2::header_backup(device).expect("backs up");
            luks.kill_slot(device, 1, false).expect("removes");
            device.forget();
            luks2::header_restore(device, &backup, RestoreOptions::default()).expect("restores");
        },
        |device, _, acknowledged| !acknowledged || which(device) == ["one", "two"],
    );
    survives(
        |device, luks| {
            atrest_device::BlockDevice::write_at(device, 4200, b"damage").expect("writes");
            device.forget();
            luks.repair(device).expect("repairs");
        },
        |device, luks, acknowledged| {
            which(device) == ["one", "two"] && (!acknowledged || luks.header_pair().primary.is_none())
        },
    );
}

/// An old header over areas that are gone would be taken for a volume whose passphrase was forgotten.
#[test]
fn formatting_over_a_volume_leaves_the_old_one_none_or_the_new_one() {
    let options = FormatOptions { keyslots_size: Some(258_048), ..small() };
    let device = FaultDevice::zeroed(2 << 20);
    let format = |text: &str| {
        luks2::format(Devices::together(&device), &passphrase(text), &options).expect("formats");
    };
    format("one");
    device.forget();
    format("two");
    device.acknowledge(1);
    atrest_device::BlockDevice::flush(&device).expect("flushes");
    let (mut old, mut none, mut new) = (0, 0, 0);
    device.recording().for_each_power_loss(&limits(), |aftermath| {
        let acknowledged = !aftermath.acknowledged.is_empty();
        let after = FaultDevice::new(aftermath.image);
        let found = Luks2::read(&after).map(|_| which(&after));
        match found.as_deref() {
            Ok(["one"]) if !acknowledged => old += 1,
            Err(_) if !acknowledged => none += 1,
            Ok(["two"]) => new += 1,
            _ => panic!("{}, acknowledged: {acknowledged}: {found:?}", aftermath.power_loss),
        }
    });
    assert!(old > 0 && none > 0 && new > 0, "{old} {none} {new}");
}
