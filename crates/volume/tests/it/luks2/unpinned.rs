//! Headers that nobody pinned: whatever cryptsetup made opens, by a policy of itself and pinned, too, or is refused by the name of what it asks
//! for. None is taken for damaged.

use std::collections::BTreeMap;

use atrest_testkit::cryptsetup::cryptsetup;
use atrest_testkit::{Campaign, FaultDevice, Random, Scratch};
use atrest_volume::luks2::reencrypt::Unfinished;
use atrest_volume::luks2::{HeaderPolicy, Luks2, NewPin, PinError};
use atrest_volume::{Devices, FormatOptions, LockedVolume, UnlockError, UnlockOptions, VolumeKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::pinned::{by_policy, formatted, key, opened, passphrase};

const PBKDF2: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const ZERO: &[u8] = &[0; 20 << 20];

fn luks2(device: &FaultDevice) -> Luks2 {
    let luks2 = Luks2::read(device).expect("a header");
    let copies = luks2.info().copies;
    assert!(copies.iter().all(|copy| copy.damage.is_none()), "{copies:?}");
    luks2
}

/// It opens by a policy of itself, and pinned.
fn accepted(device: &FaultDevice, key: &VolumeKey, what: &str) {
    let mut header = luks2(device);
    let policy = HeaderPolicy::of(&header.header_pair().header);
    let devices = Devices::together(device);
    let unlocked = header.unlock_with_key(devices, key, &by_policy(&policy)).map(drop);
    assert_eq!(unlocked, Ok(()), "{what}");
    let pinned = header.pin(device, key, &NewPin::default()).expect("pins");
    let unlocked = luks2(device).unlock_with_key(devices, key, &by_policy(&pinned.policy)).map(drop);
    assert_eq!(unlocked, Ok(()), "{what}, pinned");
}

/// It says that a re-encryption has begun, and is pinned only when that is done.
fn unfinished(device: &FaultDevice, key: &VolumeKey, what: &str) -> Luks2 {
    let mut header = luks2(device);
    assert_eq!(header.unfinished(), Ok(Unfinished::Whole), "{what}");
    let pinned = header.pin(device, key, &NewPin::default()).map(drop);
    assert_eq!(pinned, Err(UnlockError::ReencryptionInProgress.into()), "{what}");
    let policy = HeaderPolicy::of(&header.header_pair().header);
    let refused = header.unlock_with_key(Devices::together(device), key, &by_policy(&policy)).map(drop);
    let told = matches!(
        refused,
        Err(UnlockError::ReencryptionInProgress
            | UnlockError::HeaderPolicy(_)
            | UnlockError::Pin(PinError::Missing))
    );
    assert!(told, "{what}: {refused:?}");
    header
}

/// A volume that cryptsetup makes and changes, in a folder with what that takes.
struct Theirs {
    scratch: Scratch,
    seed: u64,
    headers: u32,
    actions: BTreeMap<String, u32>,
}

impl Theirs {
    fn new(seed: u64) -> Self {
        let scratch = Scratch::new();
        for (name, text) in [
            ("one", "one"),
            ("two", "two"),
            ("three", "three"),
            ("gone", "gone"),
            ("token", r#"{"type":"some","keyslots":["0"],"more":{"a":[1,"b"]}}"#),
        ] {
            scratch.file(name, text);
        }
        scratch.file("vol", ZERO);
        Self { scratch, seed, headers: 0, actions: BTreeMap::new() }
    }

    /// Runs these lines, of which the last one is the action. Its name is counted.
    fn run(&mut self, lines: &[String]) {
        for line in lines {
            cryptsetup(line).current_dir(self.scratch.as_path()).ok();
        }
        let Some(line) = lines.last() else { return };
        let named = ["token", "convert --type"].iter().any(|action| line.starts_with(action));
        let words = line.split(' ').filter(|word| *word != "-q");
        let mut name: Vec<_> = words.clone().take(1 + usize::from(named)).collect();
        if line.starts_with("convert") {
            name = words.clone().take(3).collect();
        }
        name.extend(
            words.filter(|word| ["--encrypt", "--decrypt", "--init-only", "--header"].contains(word)),
        );
        *self.actions.entry(name.join(" ")).or_insert(0) += 1;
    }

    fn device(&self) -> FaultDevice {
        FaultDevice::new(self.scratch.read("vol"))
    }

    fn what(&self) -> String {
        format!("seed {}, after {:?}", self.seed, self.actions)
    }

    fn key(&self) -> VolumeKey {
        let device = self.device();
        luks2(&device).volume_key(&device, &passphrase(), None).expect("opens").1
    }

    /// The header that is there now.
    fn check(&mut self) {
        self.headers += 1;
        let device = self.device();
        let policy = HeaderPolicy::of(&luks2(&device).header_pair().header);
        let unlocked =
            luks2(&device).unlock(Devices::together(&device), &passphrase(), &by_policy(&policy)).map(drop);
        assert_eq!(unlocked, Ok(()), "{}", self.what());
        accepted(&device, &self.key(), &self.what());
    }

    fn check_luks1(&mut self) {
        self.headers += 1;
        let device = self.device();
        let locked = LockedVolume::read(&device).expect("a header");
        let unlocked =
            locked.unlock(Devices::together(&device), &passphrase(), &UnlockOptions::default()).map(drop);
        assert_eq!(unlocked, Ok(()), "{}", self.what());
    }

    /// Makes it, as LUKS1 first or at once as LUKS2.
    fn made(&mut self, random: &mut Random) {
        let cipher = ["aes-xts-plain64 -s 512", "aes-xts-plain64 -s 256", "aes-cbc-essiv:sha256 -s 256"];
        let cipher = *random.pick(&cipher);
        if self.seed % 4 == 1 {
            let first = "--type luks1 --pbkdf-force-iterations 1000";
            self.run(&[format!("luksFormat {first} -c {cipher} vol one")]);
            self.check_luks1();
            for (to, is_luks2) in [("luks2", true), ("luks1", false), ("luks2", true)] {
                self.run(&[format!("convert --type {to} vol")]);
                if is_luks2 { self.check() } else { self.check_luks1() }
            }
        } else {
            let sector = [512, 4096][random.index(2)];
            let first = cost(random);
            let line = format!("luksFormat --type luks2 -c {cipher} --sector-size {sector} {first} vol one");
            self.run(&[line]);
            self.check();
        }
    }

    /// Changes it in some way after which it opens with the same passphrase.
    fn changed(&mut self, random: &mut Random) {
        let with = cost(random);
        let lines = match random.below(14) {
            0 => vec![format!("luksAddKey {with} -d one vol two")],
            1 => vec![format!("luksAddKey --unbound -s 256 {with} vol three")],
            2 => vec![format!("luksChangeKey {with} -d one vol one")],
            3 => vec![format!("luksConvertKey {with} -d one vol")],
            4 => vec![format!("config --label seed{} --subsystem {} vol", self.seed, random.below(9))],
            5 => vec!["config --priority prefer -S 0 vol".into()],
            6 => vec!["token add --key-description atrest:none vol".into()],
            7 => {
                let last = random.below(9);
                vec![format!("luksUUID --uuid 11111111-9e27-4efe-a4d5-15ad146c{last:04x} vol")]
            }
            8 => vec![format!("luksAddKey {with} -d one vol gone"), "luksRemoveKey vol gone".into()],
            9 => {
                let add = format!("luksAddKey {with} -S 9 -d one vol gone");
                vec![add, "luksKillSlot -q vol 9".into()]
            }
            10 => vec!["token import --json-file token vol".into()],
            11 => {
                let add = "token add --token-id 30 --key-description atrest:none vol".into();
                vec![add, "token remove --token-id 30 vol".into()]
            }
            12 => {
                // There is none the first time, and cryptsetup overwrites none.
                let _ = std::fs::remove_file(self.scratch.path("backup"));
                let backup = "luksHeaderBackup --header-backup-file backup vol".into();
                vec![backup, "luksHeaderRestore -q --header-backup-file backup vol".into()]
            }
            // The first copy is damaged, and made anew from the second.
            _ => {
                let mut bytes = self.scratch.read("vol");
                bytes[5000] ^= 1;
                self.scratch.file("vol", bytes);
                vec!["repair -q vol".into()]
            }
        };
        self.run(&lines);
        self.check();
    }

    /// What leaves no keyslot, or something to go on with.
    fn ended(&mut self, random: &mut Random) {
        match self.seed % 4 {
            // It leaves one keyslot, with another number.
            0 => {
                let with = cost(random);
                self.run(&[format!("reencrypt -q --force-offline-reencrypt -d one -S 0 {with} vol")]);
                self.check();
            }
            1 => {
                let key = self.key();
                self.run(&["erase -q vol".into()]);
                self.headers += 1;
                let device = self.device();
                let unlocked = luks2(&device).unlock(
                    Devices::together(&device),
                    &passphrase(),
                    &UnlockOptions::default(),
                );
                assert_eq!(unlocked.map(drop), Err(UnlockError::NoKeyslot));
                accepted(&device, &key, &self.what());
            }
            2 => self.begun(random),
            _ => match random.below(3) {
                0 => self.encryption_begun(),
                1 => self.encryption_begun_elsewhere(),
                _ => self.decryption_begun(random),
            },
        }
    }

    /// It opens as it is, halfway.
    fn opens_unfinished(&mut self, header: &FaultDevice, data: Option<&FaultDevice>, key: &VolumeKey) {
        self.headers += 1;
        let volume = unfinished(header, key, &self.what());
        let devices = data.map_or(Devices::together(header), |data| Devices::detached(header, data));
        let unlocked = volume.unlock(devices, &passphrase(), &UnlockOptions::default()).map(drop);
        assert_eq!(unlocked, Ok(()), "{}", self.what());
    }

    fn begun(&mut self, random: &mut Random) {
        let key = self.key();
        let how = resilience(random);
        self.run(&[format!("reencrypt -q --init-only --resilience {how} {PBKDF2} -d one -S 0 vol")]);
        self.opens_unfinished(&self.device(), None, &key);
    }

    /// Of a volume of its own: where the data lies in the clear.
    fn encryption_begun(&mut self) {
        self.scratch.file("vol", [ZERO, ZERO].concat());
        let line = "reencrypt -q --encrypt --init-only --reduce-device-size 32m";
        self.run(&[format!("{line} {PBKDF2} -d one vol")]);
        self.opens_unfinished(&self.device(), None, &key());
    }

    fn encryption_begun_elsewhere(&mut self) {
        std::fs::remove_file(self.scratch.path("vol")).expect("removed");
        self.scratch.file("data", ZERO);
        self.run(&[format!("reencrypt -q --encrypt --init-only --header vol {PBKDF2} -d one data")]);
        let data = FaultDevice::new(self.scratch.read("data"));
        self.opens_unfinished(&self.device(), Some(&data), &key());
    }

    fn decryption_begun(&mut self, random: &mut Random) {
        self.scratch.file("vol", ZERO);
        self.run(&[format!("luksFormat --type luks2 {PBKDF2} vol one")]);
        let key = self.key();
        let how = ["checksum", "journal"][random.index(2)];
        let line = "reencrypt -q --decrypt --init-only --force-offline-reencrypt --hotzone-size 256k --header header";
        self.run(&[format!("{line} --resilience {how} -d one vol")]);
        let header = FaultDevice::new(self.scratch.read("header"));
        let data = self.device();
        self.opens_unfinished(&header, Some(&data), &key);
    }
}

fn cost(random: &mut Random) -> &'static str {
    match random.below(3) {
        0 => PBKDF2,
        1 => "--pbkdf argon2id --pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1",
        _ => "--pbkdf argon2i --pbkdf-force-iterations 4 --pbkdf-memory 64 --pbkdf-parallel 2",
    }
}

fn resilience(random: &mut Random) -> &'static str {
    ["checksum", "checksum --resilience-hash sha512", "journal", "none"][random.index(4)]
}

/// Whatever cryptsetup does to volumes that nobody pinned.
#[test]
fn no_header_that_cryptsetup_made_is_refused() {
    const CAMPAIGN: Campaign = Campaign::new("headers by cryptsetup", 1, 100);
    let (mut headers, mut actions) = (0, BTreeMap::new());
    for seed in CAMPAIGN.seeds() {
        let mut random = Random::new(seed);
        let mut theirs = Theirs::new(seed);
        theirs.made(&mut random);
        for _ in 0..4 {
            theirs.changed(&mut random);
        }
        theirs.ended(&mut random);
        headers += theirs.headers;
        for (action, count) in theirs.actions {
            *actions.entry(action).or_insert(0) += count;
        }
    }
    println!("{headers} headers, none refused, after {actions:?}");
    assert!(headers > 0);
    // luksFormat, 12 that change something, two conversions, erase, and five ways to re-encrypt.
    assert!(!Campaign::is_full() || actions.len() == 21, "every action was tried: {actions:?}");
}

/// A header of a version that is not at hand.
#[derive(Deserialize)]
struct Later {
    by: String,
    did: String,
    /// What comes of it.
    becomes: String,
    metadata: String,
}

impl Later {
    /// All that `later-headers.py` made.
    fn all() -> Vec<Self> {
        serde_json::from_str(include_str!("../../vectors/later-headers.json")).expect("JSON")
    }

    /// A volume with this metadata in both copies.
    fn device(&self) -> FaultDevice {
        let mut image = formatted(FormatOptions::default()).image();
        image.resize(20 << 20, 0);
        for copy in image[..0x8000].chunks_mut(0x4000) {
            copy[4096..].fill(0);
            copy[4096..4096 + self.metadata.len()].copy_from_slice(self.metadata.as_bytes());
            copy[448..512].fill(0);
            let sum = Sha256::digest(&copy[..]);
            copy[448..480].copy_from_slice(&sum);
        }
        FaultDevice::new(image)
    }
}

/// Headers of cryptsetup 2.7.5 and 2.8.8 and of systemd 257 and 262 open as those of Debian 12 do. What is not served is refused by its name.
#[test]
fn headers_of_later_versions_open_or_are_refused_by_the_name_of_what_they_ask() {
    let mut counts = BTreeMap::new();
    for later in Later::all() {
        let what = format!("{}: {}", later.by, later.did);
        let device = later.device();
        let header = luks2(&device);
        let refusal = || opened(&device, &UnlockOptions::default()).expect_err(&what);
        match later.becomes.as_str() {
            "opens" => accepted(&device, &key(), &what),
            // Of its new key nothing is known here but that it is another.
            "other key" => {
                let policy = HeaderPolicy::of(&header.header_pair().header);
                assert_eq!(opened(&device, &by_policy(&policy)), Err(UnlockError::WrongVolumeKey), "{what}");
            }
            "unfinished" => {
                unfinished(&device, &key(), &what);
                assert_eq!(refusal(), UnlockError::ReencryptionInProgress, "{what}");
            }
            "tags" => {
                assert_eq!(header.info().segments[0].integrity_key_len, Some(32), "{what}");
                assert!(matches!(refusal(), UnlockError::Superblock(_)), "{what}: {:?}", refusal());
            }
            name => {
                let requirements = header.info().requirements;
                assert_eq!(requirements, [name], "{what}");
                let said = refusal().to_string();
                assert!(said.contains(name), "{what}: {said}");
                let typed =
                    header.unlock(Devices::together(&device), &passphrase(), &UnlockOptions::default());
                assert_eq!(typed.map(drop).expect_err(&what), refusal(), "{what}");
            }
        }
        *counts.entry(later.becomes).or_insert(0) += 1;
    }
    println!("{counts:?}");
    assert_eq!(counts.values().sum::<u32>(), 45, "{counts:?}");
    assert_eq!(counts.len(), 8, "{counts:?}");
}
