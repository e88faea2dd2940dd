//! Pinned headers: what is changed without the key is refused, and named; what is changed by us renews the pin.

use std::sync::Arc;

use atrest_device::{BlockDevice, DeviceError, Geometry, Media, Unshared};
use atrest_testkit::{Campaign, FaultDevice, Random};
use atrest_volume::luks2::{HeaderPolicy, Luks2, NewPin, PIN_TOKEN, PinError, Pinned, VolumeKeyId};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatOptions, KeyslotOptions, LockedVolume, Passphrase, PbkdfKind,
    PbkdfOptions, Priority, Relabel, UnlockError, UnlockOptions, VolumeFormat, VolumeKey,
};
use serde_json::Value;

const SIZE: usize = 1 << 20;

pub(super) fn passphrase() -> Passphrase {
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

/// The key of all volumes here.
pub(super) fn key() -> VolumeKey {
    VolumeKey::copy_from(&core::array::from_fn::<u8, 64, _>(|at| at as u8))
}

pub(super) fn formatted(options: FormatOptions) -> FaultDevice {
    let device = FaultDevice::zeroed(SIZE);
    let volume_key = Some(key());
    let options = FormatOptions {
        keyslots_size: Some(3 * 258_048),
        data_offset: Some(900 << 10),
        volume_key,
        keyslot: cheap(),
        ..options
    };
    atrest_volume::format(Devices::together(&device), VolumeFormat::Luks2, &passphrase(), &options)
        .expect("formats");
    device
}

fn pinned(device: &FaultDevice) -> Pinned {
    Luks2::read(device).expect("a header").pin(device, &key(), &NewPin::default()).expect("pins")
}

pub(super) fn opened(device: &dyn Media, options: &UnlockOptions) -> Result<(), UnlockError> {
    let locked = LockedVolume::read(device).expect("a header");
    let devices = Devices::together(device);
    locked.unlock_with_key(devices, &key(), options).map(drop)
}

pub(super) fn by_policy(policy: &HeaderPolicy) -> UnlockOptions {
    UnlockOptions { policy: Some(Arc::new(policy.clone())), ..UnlockOptions::default() }
}

/// The fields that a refusal names.
fn changed(result: Result<(), UnlockError>) -> String {
    match result {
        Err(UnlockError::Pin(PinError::Changed { fields })) => fields.join("; "),
        other => panic!("it is refused for its pin: {other:?}"),
    }
}

#[test]
fn a_pinned_header_opens_and_its_changes_by_us_renew_the_pin() {
    let device = formatted(FormatOptions::default());
    let first = pinned(&device);
    assert_eq!((first.counter, first.key), (1, VolumeKeyId::of(&key())));
    let policy = by_policy(&first.policy);
    assert_eq!(opened(&device, &policy), Ok(()));
    let mut locked = LockedVolume::read(&device).expect("a header");
    let two = Passphrase::copy_from(b"two");
    let three = Passphrase::copy_from(b"three");
    let slot = locked.add_key(&device, Credential::Passphrase(&passphrase(), None), &two, &cheap());
    assert_eq!(slot, Ok(1));
    assert_eq!(opened(&device, &policy), Ok(()));
    // From here on the volume remembers that the key was shown. One that was read anew does not.
    locked.relabel(&device, &Relabel { label: Some("a name"), ..Relabel::default() }).expect("renews");
    let mut other = LockedVolume::read(&device).expect("a header");
    assert_eq!(other.set_priority(&device, 1, Priority::Ignore), Err(ChangeError::Pinned));
    assert_eq!(other.kill_slot(&device, 1, false), Err(ChangeError::Pinned));
    let luks2 = other.luks2_mut().expect("LUKS2");
    luks2.authorize(&device, Credential::Passphrase(&two, None)).expect("a passphrase");
    other.set_priority(&device, 1, Priority::Prefer).expect("renews");
    let mut other = LockedVolume::read(&device).expect("a header");
    other.change_key(&device, &two, None, &three, &cheap()).expect("renews");
    assert_eq!(opened(&device, &policy), Ok(()));
    let mut other = LockedVolume::read(&device).expect("a header");
    assert_eq!(other.remove_key(&device, &three, false), Ok(1));
    assert_eq!(opened(&device, &policy), Ok(()));
    let again =
        Luks2::read(&device).expect("a header").pin(&device, &key(), &NewPin::default()).expect("pins");
    assert_eq!(again.counter, 7, "add, label, priority, change, remove, and both pins");
}

#[test]
fn an_older_pinned_header_is_told_by_the_policy_alone() {
    let device = formatted(FormatOptions::default());
    pinned(&device);
    let older = device.image();
    let newer = pinned(&device);
    assert_eq!(opened(&device, &by_policy(&newer.policy)), Ok(()));
    let back = FaultDevice::new(older);
    assert_eq!(opened(&back, &UnlockOptions::default()), Ok(()), "it is one of this volume");
    let error = UnlockError::Pin(PinError::Older { counter: 1, least: 2 });
    assert_eq!(opened(&back, &by_policy(&newer.policy)), Err(error));
}

#[test]
fn another_volume_and_one_without_a_pin_are_refused_by_what_is_outside() {
    let device = formatted(FormatOptions::default());
    let of = pinned(&device);
    let uuid = LockedVolume::read(&device).expect("a header").uuid().to_string();
    let unpinned = formatted(FormatOptions { uuid: Some(uuid.clone()), ..FormatOptions::default() });
    let refused = opened(&unpinned, &by_policy(&of.policy));
    assert_eq!(refused, Err(UnlockError::Pin(PinError::Missing)));
    // The supplanted volume: the same UUID, pinned by its owner, who knows its passphrase.
    let supplanted = FaultDevice::zeroed(SIZE);
    let options = FormatOptions {
        keyslots_size: Some(3 * 258_048),
        data_offset: Some(900 << 10),
        uuid: Some(uuid),
        keyslot: cheap(),
        ..FormatOptions::default()
    };
    let devices = Devices::together(&supplanted);
    atrest_volume::format(devices, VolumeFormat::Luks2, &passphrase(), &options).expect("formats");
    let mut theirs = Luks2::read(&supplanted).expect("a header");
    let (_, their_key) = theirs.volume_key(&supplanted, &passphrase(), None).expect("opens");
    theirs.pin(&supplanted, &their_key, &NewPin::default()).expect("pins");
    let unlock = |options: &UnlockOptions| theirs.unlock(devices, &passphrase(), options).map(drop);
    assert_eq!(unlock(&UnlockOptions::default()), Ok(()), "alone it is a good volume");
    let expected = of.key.to_string();
    let other = UnlockError::OtherVolumeKey { expected, found: VolumeKeyId::of(&their_key).to_string() };
    assert_eq!(unlock(&by_policy(&of.policy)), Err(other.clone()));
    let by_id = UnlockOptions { expected_key: Some(of.key), ..UnlockOptions::default() };
    assert_eq!(unlock(&by_id), Err(other));
    assert_eq!(opened(&device, &by_id), Ok(()));
    // A volume of LUKS1 answers neither question.
    let luks1 = FaultDevice::zeroed(4 << 20);
    let options = FormatOptions { keyslot: cheap(), ..FormatOptions::default() };
    let devices = Devices::together(&luks1);
    atrest_volume::format(devices, VolumeFormat::Luks1, &passphrase(), &options).expect("formats");
    let locked = LockedVolume::read(&luks1).expect("a header");
    let unlock = locked.unlock(devices, &passphrase(), &by_id).map(drop);
    assert_eq!(unlock, Err(UnlockError::Pin(PinError::NotLuks2)));
}

/// Changes the text of both copies, or of one that is the newer then, as somebody without the key does.
fn edited(image: &[u8], both: bool, change: impl Fn(&str) -> String) -> Option<FaultDevice> {
    use sha2::{Digest, Sha256};
    let mut image = image.to_vec();
    for (at, count) in [(0, 1_u64), (0x4000, u64::from(both))] {
        if count == 0 {
            continue;
        }
        let copy = &mut image[at..at + 0x4000];
        let len = copy[4096..].iter().position(|byte| *byte == 0).expect("an end");
        let text = core::str::from_utf8(&copy[4096..4096 + len]).expect("text");
        let text = change(text);
        if text.len() >= 0x3000 {
            return None;
        }
        copy[4096..].fill(0);
        copy[4096..4096 + text.len()].copy_from_slice(text.as_bytes());
        let sequence = u64::from_be_bytes(copy[16..24].try_into().expect("8 bytes")) + 1;
        copy[16..24].copy_from_slice(&sequence.to_be_bytes());
        copy[448..512].fill(0);
        let sum = Sha256::digest(&copy[..]);
        copy[448..480].copy_from_slice(&sum);
    }
    Some(FaultDevice::new(image))
}

#[test]
fn what_was_changed_is_named() {
    let device = formatted(FormatOptions::default());
    pinned(&device);
    let image = device.image();
    let named = |from: &str, to: &str| {
        let edited = edited(&image, true, |text| {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            changed
        });
        changed(opened(&edited.expect("it fits"), &UnlockOptions::default()))
    };
    assert_eq!(named(r#""iv_tweak":"0""#, r#""iv_tweak":"8""#), r#"segments.0.iv_tweak is now "8""#);
    assert_eq!(
        named(r#""encryption":"aes-xts-plain64","sector"#, r#""encryption":"serpent-xts-plain64","sector"#),
        r#"segments.0.encryption is now "serpent-xts-plain64""#
    );
    let flags = named(r#""config":{"#, r#""config":{"flags":["allow-discards"],"#);
    assert_eq!(flags, r#"config.flags is now ["allow-discards"]"#);
    let token = named(r#""tokens":{"#, r#""tokens":{"7":{"type":"x","keyslots":["0"]},"#);
    assert!(token.contains(r#"tokens.7.type is new: "x""#), "{token}");
    let counter = named(r#""counter":"1""#, r#""counter":"9""#);
    assert_eq!(counter, "", "the pin itself: no field of the header");
}

#[test]
fn a_pin_that_cannot_be_read_or_that_is_not_alone_is_refused() {
    let device = formatted(FormatOptions::default());
    pinned(&device);
    let image = device.image();
    for (from, to) in [
        (r#""version":1,"counter""#, r#""version":2,"counter""#),
        (r#""mac":""#, r#""mac":"AA"#),
        (r#""counter":"1""#, r#""counter":"01""#),
        (r#""counter":"1""#, r#""counter":"1","more":1"#),
    ] {
        let edited = edited(&image, true, |text| text.replacen(from, to, 1)).expect("it fits");
        let result = opened(&edited, &UnlockOptions::default());
        assert!(matches!(result, Err(UnlockError::Pin(PinError::Token(_)))), "{to}: {result:?}");
    }
    let twice = edited(&image, true, |text| {
        text.replacen(
            r#""tokens":{"#,
            &format!(r#""tokens":{{"9":{{"type":"{PIN_TOKEN}","keyslots":[]}},"#),
            1,
        )
    });
    let result = opened(&twice.expect("it fits"), &UnlockOptions::default());
    assert!(matches!(result, Err(UnlockError::Pin(PinError::Token(_)))), "{result:?}");
}

/// A device whose header is another one from the second reading on.
struct Turning {
    first: FaultDevice,
    then: FaultDevice,
    reads: core::sync::atomic::AtomicU32,
}

impl BlockDevice for Turning {
    fn size(&self) -> u64 {
        self.first.size()
    }

    fn geometry(&self) -> Geometry {
        self.first.geometry()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let header = offset < 0x8000;
        let reads = &self.reads;
        // Of the first reading: how much there is, and the whole of it, of each copy; and what says the version.
        let turned = header && reads.fetch_add(1, core::sync::atomic::Ordering::Relaxed) >= 5;
        if turned { &self.then } else { &self.first }.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.first.write_at(offset, buf)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.first.flush()
    }
}

impl Unshared for Turning {}

#[test]
fn what_was_checked_is_what_is_used() {
    let device = formatted(FormatOptions::default());
    let policy = pinned(&device).policy;
    let weak =
        edited(&device.image(), true, |text| text.replacen(r#""iv_tweak":"0""#, r#""iv_tweak":"8""#, 1));
    let reads = core::sync::atomic::AtomicU32::new(0);
    let turning = Turning { first: device, then: weak.expect("it fits"), reads };
    let locked = LockedVolume::read(&turning).expect("a header");
    let devices = Devices::together(&turning);
    let volume = locked.unlock(devices, &passphrase(), &by_policy(&policy)).expect("the first header");
    assert_eq!(volume.segments().len(), 1);
    let reads = turning.reads.load(core::sync::atomic::Ordering::Relaxed);
    assert_eq!(reads, 5, "the header is read once");
}

#[test]
fn no_reencryption_begins_on_a_pinned_header() {
    use atrest_volume::luks2::reencrypt::{ReencryptError, ReencryptOptions};
    let device = formatted(FormatOptions::default());
    pinned(&device);
    let luks2 = Luks2::read(&device).expect("a header");
    let before = device.image();
    let begun =
        luks2.begin_reencryption_with_key(Devices::together(&device), &key(), &ReencryptOptions::default());
    match begun.map(drop) {
        Err(ReencryptError::Change(error)) => assert_eq!(*error, ChangeError::PinnedReencryption),
        other => panic!("{other:?}"),
    }
    assert_eq!(device.image(), before);
}

#[test]
fn a_keyslot_cheaper_than_any_that_was_ever_made_is_not_tried() {
    let device = formatted(FormatOptions::default());
    let weak = edited(&device.image(), true, |text| {
        text.replacen(r#""iterations":1000,"#, r#""iterations":999,"#, 1)
    });
    let weak = weak.expect("it fits");
    let locked = LockedVolume::read(&weak).expect("a header");
    let result = locked.unlock(Devices::together(&weak), &passphrase(), &UnlockOptions::default());
    assert_eq!(result.map(drop), Err(UnlockError::TooCheap { slot: 0 }));
}

/// A header of its own kind for each number.
fn some_header(random: &mut Random) -> FaultDevice {
    let ciphers = ["aes-xts-plain64", "serpent-xts-plain64", "twofish-xts-plain64"];
    let cipher = ciphers[random.below(3) as usize].parse().expect("a cipher");
    let device = formatted(FormatOptions {
        cipher: Some(cipher),
        data_unit: Some([512, 1024, 2048, 4096][random.below(4) as usize]),
        label: (random.below(2) == 0).then(|| "label".into()),
        ..FormatOptions::default()
    });
    let mut locked = LockedVolume::read(&device).expect("a header");
    if random.below(2) == 0 {
        let second = Passphrase::copy_from(b"two");
        locked.add_key(&device, Credential::VolumeKey(&key()), &second, &cheap()).expect("a second key");
    }
    if random.below(2) == 0 {
        let token = r#"{"type":"systemd-recovery","keyslots":["0"],"x":{"y":[1,2]}}"#;
        let luks2 = locked.luks2_mut().expect("LUKS2");
        luks2.import_token(&device, None, token).expect("a token");
    }
    pinned(&device);
    device
}

/// The ways to all values of a text, objects and lists as well.
fn ways(value: &Value, way: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    all.push(way.clone());
    for (name, member) in value.as_object().into_iter().flatten() {
        way.push(name.clone());
        ways(member, way, all);
        way.pop();
    }
}

/// What somebody may put in the place of a value; nothing takes it away.
fn others(value: &Value) -> Vec<Option<Value>> {
    let text = |text: &str| Some(Value::from(text));
    let mut others = match value {
        Value::Number(number) => {
            let number = number.as_u64().expect("an integer");
            let numbers = [number.wrapping_add(1), number / 2, number * 2, 0, 1, 512, 4096, 1000];
            numbers.map(|number| Some(Value::from(number))).to_vec()
        }
        Value::String(string) => {
            let number = string.parse::<u64>().ok();
            let of = |other: &str, number: Option<u64>| match number {
                Some(number) => text(&number.to_string()),
                None => text(other),
            };
            vec![
                of("aes-cbc-plain64", number.map(|number| number + 4096)),
                of("sha1", number.map(|number| number / 2)),
                of("cipher_null-ecb", number.map(|number| number + 8)),
                text("aes-xts-plain"),
                text("0"),
                text(&format!("{string}x")),
                text(&string.chars().rev().collect::<String>()),
                text(""),
            ]
        }
        Value::Array(items) => {
            let with = |item: &str| Some(Value::from([&items[..], &[Value::from(item)]].concat()));
            let less = &items[..items.len().saturating_sub(1)];
            vec![Some(Value::from(less)), with("0"), with("allow-discards")]
        }
        Value::Object(members) => {
            let with = |name: &str| {
                let mut members = members.clone();
                members.insert(name.into(), Value::from("new"));
                Some(Value::Object(members))
            };
            vec![with("0"), with("8"), with("new")]
        }
        _ => Vec::new(),
    };
    others.push(None);
    others.retain(|other| other.as_ref() != Some(value));
    others
}

/// The text with another value at the end of the way, or without it.
fn with(text: &str, way: &[String], other: Option<Value>) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).expect("JSON");
    let Some((last, above)) = way.split_last() else { return other.map(|other| other.to_string()) };
    let parent = above.iter().fold(&mut value, |value, name| &mut value[name]);
    let members = parent.as_object_mut().expect("an object");
    match other {
        Some(other) => drop(members.insert(last.clone(), other)),
        None => drop(members.remove(last)),
    }
    Some(value.to_string())
}

/// Fields of the binary part, each with the bytes of it that are changed (LUKS2 On-Disk Format Specification, section 2.1).
const BINARY: &[(&str, &[usize])] = &[
    ("magic", &[0, 5]),
    ("version", &[6, 7]),
    ("size", &[8, 13, 14, 15]),
    ("sequence", &[16, 22, 23]),
    ("label", &[24, 25, 71]),
    ("checksum", &[72, 77, 103]),
    ("salt", &[104, 167]),
    ("uuid", &[168, 203, 207]),
    ("subsystem", &[208, 255]),
    ("offset", &[256, 261, 263]),
    ("padding", &[264, 447]),
];

/// Changes a byte of the binary part of both copies, or of the first one, which is the newer one then.
fn with_byte(image: &[u8], both: bool, at: usize, bit: u8) -> FaultDevice {
    use sha2::{Digest, Sha256};
    let mut image = edited(image, both, str::to_string).expect("it fits").image();
    for start in [0, 0x4000].into_iter().take(1 + usize::from(both)) {
        let copy = &mut image[start..start + 0x4000];
        copy[at] ^= bit;
        copy[448..512].fill(0);
        let sum = Sha256::digest(&copy[..]);
        copy[448..480].copy_from_slice(&sum);
    }
    FaultDevice::new(image)
}

/// Whether two texts say the same, apart from the order of members and the marks of the pin, which authenticate nothing.
fn says_the_same(a: &str, b: &str) -> bool {
    let said = |text: &str| {
        let mut value: Value = serde_json::from_str(text).expect("JSON");
        for (_, token) in value["tokens"].as_object_mut().into_iter().flatten() {
            if token["type"] == PIN_TOKEN
                && let Some(members) = token.as_object_mut()
            {
                members.remove("fields");
            }
        }
        value
    };
    said(a) == said(b)
}

/// What came of changed headers.
#[derive(Debug, Default)]
struct Outcomes {
    mutants: u64,
    by_pin: u64,
    by_rules: u64,
    /// They say what they said, as one copy was left or what was changed says nothing.
    same: u64,
}

/// A header as it was pinned.
struct Before {
    image: Vec<u8>,
    text: String,
    names: [String; 3],
    policy: HeaderPolicy,
}

impl Before {
    fn of(image: Vec<u8>) -> Self {
        let luks2 = Luks2::read(&FaultDevice::new(image.clone())).expect("a header");
        let mut policy = HeaderPolicy::of(&luks2.header_pair().header);
        policy.pinned = Some(1);
        Self { image, text: luks2.metadata_text(), names: names(&luks2), policy }
    }

    /// Opens a changed header: by the pin or by rules it is refused, or it says the same.
    fn check(&self, mutant: &FaultDevice, what: &str, outcomes: &mut Outcomes) {
        outcomes.mutants += 1;
        let Ok(locked) = LockedVolume::read(mutant) else {
            outcomes.by_rules += 1;
            return;
        };
        let luks2 = locked.luks2().expect("LUKS2");
        let same = says_the_same(&luks2.metadata_text(), &self.text) && names(luks2) == self.names;
        let devices = Devices::together(mutant);
        match locked.unlock_with_key(devices, &key(), &UnlockOptions::default()) {
            // A copy that breaks a rule leaves the other one, which is as it was.
            Ok(_) if same => outcomes.same += 1,
            // Without the pin it is a header that nobody pinned: the policy's matter.
            Ok(_) => {
                assert!(!luks2.is_pinned(), "{what}");
                outcomes.by_rules += 1;
            }
            Err(UnlockError::Pin(_)) => outcomes.by_pin += 1,
            Err(_) => outcomes.by_rules += 1,
        }
        // With a policy that asks for a pin, none is left that opens as something else.
        let by = locked.unlock_with_key(devices, &key(), &by_policy(&self.policy));
        assert!(by.is_err() || same, "by its policy: {what}");
    }
}

fn names(luks2: &Luks2) -> [String; 3] {
    [luks2.uuid(), luks2.label(), luks2.subsystem()].map(str::to_string)
}

/// Every field of the metadata and of the binary part, by everything that may be put in its place, in both copies and in one.
#[test]
fn no_header_that_was_changed_without_the_key_is_accepted() {
    const CAMPAIGN: Campaign = Campaign::new("pinned headers, changed", 2, 50);
    let (mut outcomes, mut fields) = (Outcomes::default(), 0);
    for seed in CAMPAIGN.seeds() {
        let mut random = Random::new(seed);
        let before = Before::of(some_header(&mut random).image());
        assert_eq!(opened(&FaultDevice::new(before.image.clone()), &UnlockOptions::default()), Ok(()));
        let value: Value = serde_json::from_str(&before.text).expect("JSON");
        let mut all = Vec::new();
        ways(&value, &mut Vec::new(), &mut all);
        for way in &all {
            fields += 1;
            let at = way.iter().fold(&value, |value, name| &value[name]);
            let mut others = others(at);
            if !Campaign::is_full() {
                others = vec![others.swap_remove(random.index(others.len()))];
            }
            for other in others {
                let what = format!("seed {seed}: {} is {other:?}", way.join("."));
                let Some(text) = with(&before.text, way, other) else { continue };
                for both in [true, false] {
                    if let Some(mutant) = edited(&before.image, both, |_| text.clone()) {
                        before.check(&mutant, &format!("{what}, both {both}"), &mut outcomes);
                    }
                }
            }
        }
        for (name, bytes) in BINARY {
            fields += 1;
            for at in *bytes {
                for (both, bit) in [(true, 1), (false, 1), (true, 0x20), (false, 0x80)] {
                    let mutant = with_byte(&before.image, both, *at, bit);
                    let what = format!("seed {seed}: {name} at {at}, both {both}");
                    before.check(&mutant, &what, &mut outcomes);
                }
            }
        }
    }
    println!("{fields} fields: {outcomes:?}");
    let Outcomes { mutants, by_pin, .. } = outcomes;
    assert!(by_pin > mutants / 20, "{by_pin} of {mutants}");
    assert!(!Campaign::is_full() || mutants >= 20_000, "{mutants}");
}
