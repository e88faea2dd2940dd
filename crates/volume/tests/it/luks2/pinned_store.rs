//! What says how new a pinned header is, a record in a file or a counter of a TPM, while headers are changed: every cut leaves a volume
//! that opens, and nothing older opens once the change is done.

use atrest_testkit::fault::FaultDevice;
use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_volume::luks2::{Luks2, NewPin, NewPinCounter, PinError, PinRecord, VolumeKeyId};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatOptions, KeyslotOptions, LockedVolume, Passphrase, PbkdfKind,
    PbkdfOptions, Priority, Relabel, UnlockError, UnlockOptions, VolumeFormat, VolumeKey,
};

const SIZE: usize = 1 << 20;
/// Two halves that differ.
const KEY: [u8; 64] = {
    let mut key = [0x5a; 64];
    key[0] = 1;
    key
};
const DONE: u64 = 1;
const INDEX: u32 = 0x0180_0001;

fn key() -> VolumeKey {
    VolumeKey::copy_from(&KEY)
}

fn one() -> Passphrase {
    Passphrase::copy_from(b"one")
}

fn cheap() -> KeyslotOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    KeyslotOptions { pbkdf, ..KeyslotOptions::default() }
}

/// Two keyslots and a token, pinned with a counter that has 41 before.
fn pinned() -> FaultDevice {
    let device = FaultDevice::zeroed(SIZE);
    let options = FormatOptions {
        keyslots_size: Some(3 * 258_048),
        data_offset: Some(900 << 10),
        volume_key: Some(key()),
        keyslot: cheap(),
        ..FormatOptions::default()
    };
    atrest_volume::format(Devices::together(&device), VolumeFormat::Luks2, &one(), &options)
        .expect("formats");
    let mut locked = LockedVolume::read(&device).expect("a header");
    let two = Passphrase::copy_from(b"two");
    locked.add_key(&device, Credential::VolumeKey(&key()), &two, &cheap()).expect("a second key");
    let luks2 = locked.luks2_mut().expect("LUKS2");
    luks2.import_token(&device, None, r#"{"type":"some","keyslots":["1"]}"#).expect("a token");
    pin(luks2, &device, 41).expect("pins");
    FaultDevice::new(device.image())
}

fn pin(luks2: &mut Luks2, device: &FaultDevice, value: u64) -> Result<(), ChangeError> {
    let counter = Some(NewPinCounter { index: INDEX, storage_key: vec![0, 11, 7], value });
    luks2.pin(device, &key(), &NewPin { counter, ..NewPin::default() }).map(drop)
}

fn record(image: &[u8]) -> PinRecord {
    let luks2 = Luks2::read(&FaultDevice::new(image.to_vec())).expect("a header");
    luks2.pin_record(VolumeKeyId::of(&key())).expect("a pin").expect("a pin")
}

fn opened(image: &[u8], seen: PinRecord) -> Result<(), UnlockError> {
    let device = FaultDevice::new(image.to_vec());
    let locked = LockedVolume::read(&device).expect("a header");
    let options = UnlockOptions { seen: Some(seen), ..UnlockOptions::default() };
    locked.luks2().expect("LUKS2").check_policy(&options)?;
    locked.unlock_with_key(Devices::together(&device), &key(), &options).map(drop)
}

/// How often a counter with this value has to be raised.
fn behind(image: &[u8], value: u64) -> Result<u64, PinError> {
    let luks2 = Luks2::read(&FaultDevice::new(image.to_vec())).expect("a header");
    let counter = luks2.pin_counter()?;
    assert_eq!((counter.index, &counter.storage_key[..]), (INDEX, &[0, 11, 7][..]));
    counter.behind(value)
}

type Change = fn(&mut LockedVolume, &FaultDevice) -> Result<(), ChangeError>;

fn changes() -> [(&'static str, Change); 8] {
    [
        ("add", |locked, device| {
            let new = Passphrase::copy_from(b"three");
            locked.add_key(device, Credential::Passphrase(&one(), None), &new, &cheap()).map(drop)
        }),
        ("change", |locked, device| {
            let new = Passphrase::copy_from(b"three");
            locked.change_key(device, &one(), None, &new, &cheap()).map(drop)
        }),
        ("remove", |locked, device| {
            locked.remove_key(device, &Passphrase::copy_from(b"two"), false).map(drop)
        }),
        ("kill", |locked, device| locked.kill_slot(device, 1, false)),
        ("relabel", |locked, device| {
            locked.relabel(device, &Relabel { label: Some("new"), ..Relabel::default() })
        }),
        ("priority", |locked, device| locked.set_priority(device, 1, Priority::Prefer)),
        ("token", |locked, device| {
            locked.luks2_mut()?.import_token(device, None, r#"{"type":"other","keyslots":[]}"#).map(drop)
        }),
        // 41, and the header that was pinned then is its 42.
        ("pin", |locked, device| pin(locked.luks2_mut()?, device, 42)),
    ]
}

#[test]
fn every_cut_of_a_change_leaves_a_header_that_the_store_takes_and_none_that_is_older_after_it() {
    for (name, change) in changes() {
        let device = pinned();
        let before = device.image();
        let mut locked = LockedVolume::read(&device).expect("a header");
        let luks2 = locked.luks2_mut().expect("LUKS2");
        luks2.authorize(&device, Credential::VolumeKey(&key())).expect("its key");
        luks2.expect(VolumeKeyId::of(&key()));
        change(&mut locked, &device).unwrap_or_else(|error| panic!("{name}: {error}"));
        device.acknowledge(DONE);
        let after = device.image();
        let (old, new) = (record(&before), record(&after));
        assert!(new.counter > old.counter, "{name}");
        assert_eq!(behind(&before, 42), Ok(0), "{name}");
        let steps = behind(&after, 42).expect("newer");
        assert!(steps > 0, "{name}");
        let limits = Limits { tearing: Tearing::BetweenSectors, tears: 6, ..Limits::default() };
        let states = device.recording().for_each_power_loss(&limits, |aftermath| {
            let what = format!("{name}: {}", aftermath.power_loss);
            let image = &aftermath.image;
            // The store is not told yet.
            assert_eq!(opened(image, old), Ok(()), "{what}");
            let left = behind(image, 42).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(left <= steps, "{what}");
            // The counter is raised step by step, and a cut between leaves it behind.
            if aftermath.acknowledged.contains(&DONE) {
                assert_eq!(opened(image, new), Ok(()), "{what}");
                (0..=steps)
                    .for_each(|raised| assert_eq!(behind(image, 42 + raised), Ok(steps - raised), "{what}"));
            }
        });
        assert!(states > 3, "{name}: {states}");
        let refused =
            |result: Result<(), UnlockError>| matches!(result, Err(UnlockError::Pin(PinError::Older { .. })));
        assert!(refused(opened(&before, new)), "{name}");
        assert!(matches!(behind(&before, 42 + steps), Err(PinError::Older { .. })), "{name}");
    }
}

#[test]
fn a_change_is_refused_before_anything_is_written_where_the_store_is_of_another_volume() {
    let device = pinned();
    let before = device.image();
    let mut locked = LockedVolume::read(&device).expect("a header");
    locked.luks2_mut().expect("LUKS2").expect(VolumeKeyId::OF_NONE);
    let label = Relabel { label: Some("new"), ..Relabel::default() };
    locked.luks2_mut().expect("LUKS2").authorize(&device, Credential::VolumeKey(&key())).expect("its key");
    let changed = locked.relabel(&device, &label);
    assert!(matches!(changed, Err(ChangeError::Unlock(UnlockError::OtherVolumeKey { .. }))), "{changed:?}");
    assert_eq!(device.image(), before);
}

#[test]
fn what_a_header_says_of_its_counter_is_under_the_pin() {
    let device = pinned();
    let mut luks2 = Luks2::read(&device).expect("a header");
    let text = luks2.metadata_text();
    assert!(text.contains("atrest-counter"), "{text}");
    let id = LockedVolume::read(&device).expect("a header").info().tokens;
    let id = id.iter().find(|token| token.kind == "atrest-counter").expect("a token").id;
    luks2.authorize(&device, Credential::VolumeKey(&key())).expect("its key");
    luks2.remove_token(&device, id).expect("by who has the key");
    assert_eq!(luks2.pin_counter(), Err(PinError::Uncounted));
    // Pinned anew it names the counter as it is then.
    pin(&mut luks2, &device, 100).expect("pins");
    assert_eq!(behind(&device.image(), 101), Ok(0));
    pin(&mut luks2, &device, 101).expect("pins");
    assert_eq!(behind(&device.image(), 102), Ok(0));
    // Without a new one it names the one that it named.
    luks2.pin(&device, &key(), &NewPin::default()).expect("pins");
    assert_eq!(behind(&device.image(), 102), Ok(1));
    let tokens = LockedVolume::read(&device).expect("a header").info().tokens;
    assert_eq!(tokens.iter().filter(|token| token.kind == "atrest-counter").count(), 1);
}

/// A counter as it is, for a header that names it.
fn after(value: u64, luks2: &Luks2) -> Result<NewPinCounter, PinError> {
    let counter = NewPinCounter { index: INDEX, storage_key: vec![0, 11, 7], value };
    counter.after(&luks2.pin_counter().expect("a counter"))
}

#[test]
fn a_new_pin_has_no_value_of_a_header_that_the_counter_was_not_told_of() {
    let device = pinned();
    let mut luks2 = Luks2::read(&device).expect("a header");
    luks2.authorize(&device, Credential::VolumeKey(&key())).expect("its key");
    let mut older = vec![device.image()];
    for label in ["a", "b", "c"] {
        luks2.set_label(&device, Some(label), None).expect("sets");
        older.push(device.image());
    }
    // The second time is after a cut: the counter has not risen.
    for _ in 0..2 {
        let new = NewPin { counter: Some(after(42, &luks2).expect("it can follow")), ..NewPin::default() };
        luks2.pin(&device, &key(), &new).expect("pins");
        let newest = device.image();
        let steps = behind(&newest, 42).expect("newer");
        assert_eq!(steps, older.len() as u64);
        for (at, image) in older.iter().enumerate() {
            let told = behind(image, 42 + steps);
            assert!(matches!(told, Err(PinError::Older { .. })), "header {at} of {steps}: {told:?}");
        }
        assert_eq!(behind(&newest, 42 + steps), Ok(0));
        older.push(newest);
    }
    // A header that the counter has passed: the new pin is beyond the counter.
    assert_eq!(after(50, &luks2).expect("it is passed").value, 50);
    let mut far = Luks2::read(&device).expect("a header");
    pin(&mut far, &device, 1999).expect("pins");
    assert_eq!(after(1008, &far).expect("it can follow").value, 2000);
    assert_eq!(after(1007, &far), Err(PinError::Untold { changes: 993 }));
    assert_eq!(after(1000, &far), Err(PinError::Untold { changes: 1000 }));
    assert_eq!(after(999, &far), Err(PinError::Ahead));
}

/// The store was asked about the header that was read first.
#[test]
fn media_that_answer_an_older_header_the_second_time_get_no_change_built_upon_it() {
    for (name, change) in changes() {
        let device = pinned();
        let older = device.image();
        let mut locked = LockedVolume::read(&device).expect("a header");
        let luks2 = locked.luks2_mut().expect("LUKS2");
        luks2.authorize(&device, Credential::VolumeKey(&key())).expect("its key");
        luks2.set_label(&device, Some("newer"), None).expect("sets");
        let mut locked = LockedVolume::read(&device).expect("a header");
        let luks2 = locked.luks2_mut().expect("LUKS2");
        luks2.authorize(&device, Credential::VolumeKey(&key())).expect("its key");
        let turned = FaultDevice::new(older.clone());
        assert_eq!(change(&mut locked, &turned), Err(ChangeError::ChangedMeanwhile), "{name}");
        assert!(turned.image() == older, "{name}: nothing is written");
        change(&mut locked, &device).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
