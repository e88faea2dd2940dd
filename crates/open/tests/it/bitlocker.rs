//! BitLocker volumes that libgcrypt has encrypted, opened in every way that they can be. Their judges are dislocker and cryptsetup.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use atrest_device::{BlockDevice, Cause};
use atrest_engine::Disk;
use atrest_format::bitlocker::{BootError, LayoutError, MetadataError, Protection, State};
use atrest_open::{Error, Format, Key, OneKey, Options, Refused};
use atrest_secret::Passphrase;
use atrest_testkit::bitlocker::BitLocker;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};
use atrest_volume::bitlocker::BitLockerError;
use atrest_volume::{UnlockError, VolumeKey};

const DEFECTS: Campaign = Campaign::new("headers of BitLocker with one defect", 300, 3000);
/// Where the tests have data: in what was moved, behind it, between and behind the metadata.
const DATA: [(u64, usize); 4] = [(0, 4096), (8192, 4096), (0x28000, 8192), (0x7e000, 8192)];

struct Place {
    directory: Scratch,
    random: Random,
}

impl Place {
    fn new() -> Self {
        Self { directory: Scratch::new(), random: Random::new(20) }
    }

    fn path(&self) -> PathBuf {
        self.directory.path("volume")
    }

    fn startup(&self) -> PathBuf {
        self.directory.path("startup.BEK")
    }

    /// Makes a volume with data in it.
    fn make(&mut self, volume: BitLocker) -> BitLocker {
        let mut plain = Vec::new();
        for (at, len) in DATA {
            let mut bytes = self.random.bytes(len);
            if at == 0 {
                // What is shown instead of Vista's signature, and its judge looks for.
                bytes[..11].copy_from_slice(b"\xebR\x90NTFS    ");
                bytes[11..13].copy_from_slice(&(volume.sector as u16).to_le_bytes());
                bytes[56..64].copy_from_slice(&5_u64.to_le_bytes());
            }
            plain.push((at, bytes));
        }
        let volume = BitLocker { plain, ..volume };
        volume.make(&self.path(), &self.startup());
        volume
    }

    fn key(&self) -> Key {
        Key::File(Passphrase::copy_from(&fs::read(self.startup()).expect("a startup key")))
    }

    fn open(&self, key: Key, write: bool) -> Result<Disk, UnlockError> {
        let mut options = Options::default();
        options.write = write;
        match atrest_open::open(&self.path(), &Format::ByHeader, &mut OneKey::new(key), &options) {
            Ok(disk) => Ok(disk),
            Err(Error::Unlock(Refused::Attempt(error))) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    /// What dislocker makes of the whole volume.
    fn dislocked(&self) -> Vec<u8> {
        let out = self.directory.path("dislocked");
        let words = ["-q", "-s", "-V"];
        let done = Program::named("dislocker-file")
            .args(words)
            .arg(self.path())
            .arg("-f")
            .arg(self.startup())
            .arg("--")
            .arg(&out);
        done.ok();
        let bytes = fs::read(&out).expect("dislocker's file");
        fs::remove_file(&out).expect("dislocker's file");
        bytes
    }
}

fn all_of(disk: &Disk) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(disk.size()).expect("short")];
    disk.read_at(0, &mut bytes).expect("reads");
    bytes
}

fn password(text: &str) -> Key {
    Key::Passphrase(Passphrase::copy_from(text.as_bytes()))
}

fn refused(place: &Place, key: Key) -> BitLockerError {
    match place.open(key, true) {
        Err(UnlockError::BitLocker(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Where volumes differ, which says more than their bytes.
fn differences(one: &[u8], other: &[u8]) -> Vec<usize> {
    assert_eq!(one.len(), other.len());
    one.chunks(512)
        .zip(other.chunks(512))
        .enumerate()
        .filter(|(_, (a, b))| a != b)
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn each_cipher_and_edition_reads_as_dislocker_reads_it() {
    let mut place = Place::new();
    let seven = (0x8000..=0x8005).map(|method| BitLocker { method, ..BitLocker::default() });
    let others = [
        BitLocker { sector: 4096, ..BitLocker::default() },
        BitLocker { sector: 4096, method: 0x8002, ..BitLocker::default() },
        BitLocker { edition: "to-go", method: 0x8003, ..BitLocker::default() },
        BitLocker { edition: "to-go", method: 0x8003, entry: false, ..BitLocker::default() },
    ];
    for volume in seven.chain(others) {
        let volume = place.make(volume);
        let told = format!("{:#x} {} {}", volume.method, volume.edition, volume.sector);
        let shown = all_of(&place.open(place.key(), false).expect(&told));
        for (at, bytes) in &volume.plain {
            assert!(shown[*at as usize..].starts_with(bytes), "{told}: at {at:#x}");
        }
        for at in BitLocker::PLACES.into_iter().chain([0x70000]) {
            assert_eq!(shown[at as usize..][..8192], [0; 8192], "{told}: at {at:#x}");
        }
        // That of Debian knows no sectors of 4096 bytes, and wants the entry.
        if volume.sector == 512 && volume.entry {
            assert_eq!(differences(&shown, &place.dislocked()), [0; 0], "{told}");
        }
    }
}

#[test]
fn a_volume_of_vista_is_shown_with_the_boot_sector_of_ntfs() {
    let mut place = Place::new();
    for method in [0x8000, 0x8003] {
        let volume = place.make(BitLocker { edition: "vista", method, ..BitLocker::default() });
        let shown = all_of(&place.open(place.key(), false).expect("opens"));
        let stored = fs::read(place.path()).expect("the volume");
        assert_eq!(shown[..11], *b"\xebR\x90NTFS    ");
        assert_eq!(shown[56..64], 5_u64.to_le_bytes());
        assert_eq!((&shown[11..56], &shown[64..8192]), (&stored[11..56], &stored[64..8192]));
        for (at, bytes) in volume.plain.iter().filter(|(at, _)| *at > 0) {
            assert!(shown[*at as usize..].starts_with(bytes), "at {at:#x}");
        }
        // Of the first sector dislocker leaves the cluster of the second MFT as it is stored.
        let mut dislocked = place.dislocked();
        assert_eq!(dislocked[56..64], stored[56..64]);
        dislocked[56..64].copy_from_slice(&5_u64.to_le_bytes());
        assert_eq!(differences(&shown, &dislocked), [0; 0], "{method:#x}");
        assert!(place.open(place.key(), true).expect("opens").is_read_only());
    }
}

#[test]
fn passwords_recovery_passwords_startup_keys_and_clear_keys_open_their_protectors() {
    const RECOVERY: &str = "042647-302313-590458-071500-554323-116567-412181-516978";
    let mut place = Place::new();
    let protectors = vec![("tpm", ""), ("password", "a password"), ("recovery", RECOVERY), ("startup", "")];
    place.make(BitLocker { protectors, ..BitLocker::default() });
    let shown = all_of(&place.open(place.key(), false).expect("a startup key"));
    for given in ["a password", RECOVERY] {
        assert_eq!(all_of(&place.open(password(given), false).expect(given)), shown);
        let file = place.directory.path("secret");
        fs::write(&file, given).expect("a file");
        let told =
            Program::named("cryptsetup").args(["open", "--type=bitlk", "--test-passphrase", "--key-file"]);
        told.arg(&file).arg(place.path()).ok();
    }
    let kinds = [Protection::Tpm, Protection::Password, Protection::RecoveryPassword, Protection::StartupKey];
    let none = BitLockerError::NotOpened { protectors: kinds.into() };
    // The last digits of one group, and of the next: no longer a multiple of 11.
    let wrong = RECOVERY.replace("042647", "042648");
    for given in ["password", wrong.as_str(), ""] {
        assert_eq!(refused(&place, password(given)), none);
    }
    assert_eq!(refused(&place, Key::File(Passphrase::copy_from(b"\xff\xfe"))), none);
    // A startup key of another protector.
    let mut other = fs::read(place.startup()).expect("a startup key");
    other[31] ^= 1;
    assert_eq!(refused(&place, Key::File(Passphrase::copy_from(&other))), none);

    let clear = BitLocker { protectors: vec![("card", ""), ("clear", "")], ..BitLocker::default() };
    place.make(clear.clone());
    let mut no_keys = OneKey::new(password("nobody asks for it"));
    let disk = atrest_open::open(&place.path(), &Format::BitLocker, &mut no_keys, &Options::default());
    assert_eq!(disk.expect("its key lies beside it").size(), BitLocker::SIZE);
    place.make(BitLocker { protectors: vec![("card", ""), ("tpm", "")], ..clear });
    let kinds = vec![Protection::SmartCard, Protection::Tpm];
    assert_eq!(refused(&place, password("x")), BitLockerError::NoneToTry { protectors: kinds });
}

#[test]
fn the_key_of_the_data_opens_what_has_no_other() {
    let mut place = Place::new();
    place.make(BitLocker { method: 0x8000, ..BitLocker::default() });
    let held = atrest_open::Held::open(&place.path(), None, false).expect("a file");
    let header = atrest_volume::bitlocker::LockedBitLocker::read(held.header()).expect("a header");
    let startup = Passphrase::copy_from(&fs::read(place.startup()).expect("a startup key"));
    let key = header.unlock(&startup, None).expect("opens").key().expose().to_vec();
    let shown = all_of(&place.open(place.key(), false).expect("opens"));
    drop(held);
    let with = |key: &[u8]| place.open(Key::Volume(VolumeKey::copy_from(key)), true);
    let by_key = with(&key).expect("its key");
    assert_eq!(all_of(&by_key), shown);
    // Nothing but a file system shows that it is the right one.
    assert!(by_key.is_read_only());
    drop(by_key);
    let disk = place.open(place.key(), true).expect("opens");
    disk.write_at(510, &[0x55, 0xaa]).expect("writes");
    disk.flush().expect("flushes");
    drop(disk);
    assert!(!with(&key).expect("its key").is_read_only());
    assert!(with(&[7; 32]).expect("nothing refuses it").is_read_only());
    let short = refused(&place, Key::Volume(VolumeKey::copy_from(&key[..16])));
    assert_eq!(short, BitLockerError::KeyLen { has: 16, needs: 32 });
}

#[test]
fn what_is_written_is_there_for_dislocker_and_nothing_is_written_over_the_metadata() {
    let mut place = Place::new();
    for method in [0x8001, 0x8002, 0x8005] {
        place.make(BitLocker { method, ..BitLocker::default() });
        let before = fs::read(place.path()).expect("the volume");
        let disk = Arc::new(place.open(place.key(), true).expect("opens"));
        let mut expected = all_of(&disk);
        // Of what was moved, over its end, and up to the metadata.
        for (at, len) in [(100, 9000), (0x2ff00, 0x100), (0x40000, 4096), (0x7fe00, 512)] {
            let data = place.random.bytes(len);
            disk.write_at(at, &data).expect("writes");
            expected[at as usize..][..len].copy_from_slice(&data);
        }
        for at in BitLocker::PLACES.into_iter().chain([0x70000]) {
            for (at, len) in [(at, 512), (at + 100, 3), (at + 512, 1024)] {
                let refused = disk.write_at(at, &vec![1; len]).expect_err("BitLocker's own");
                assert_eq!(refused.cause, Cause::Unsupported);
                let refused = disk.write_zeroes(at, len as u64).expect_err("BitLocker's own");
                assert_eq!(refused.cause, Cause::Unsupported);
            }
        }
        disk.flush().expect("flushes");
        drop(disk);
        assert_eq!(differences(&expected, &all_of(&place.open(place.key(), false).expect("opens"))), [0; 0]);
        assert_eq!(differences(&expected, &place.dislocked()), [0; 0], "{method:#x}");
        let after = fs::read(place.path()).expect("the volume");
        for at in BitLocker::PLACES {
            assert_eq!(before[at as usize..][..0x10000], after[at as usize..][..0x10000]);
        }
        assert_eq!(before[..8192], after[..8192]);
    }
}

#[test]
fn a_discard_that_is_passed_on_leaves_the_metadata_alone() {
    let mut place = Place::new();
    place.make(BitLocker::default());
    let before = fs::read(place.path()).expect("the volume");
    let mut options = Options::default();
    (options.write, options.disk.allow_discards) = (true, true);
    let mut keys = OneKey::new(place.key());
    let disk = atrest_open::open(&place.path(), &Format::ByHeader, &mut keys, &options).expect("opens");
    disk.discard(0, disk.size()).expect("discards");
    drop(disk);
    let after = fs::read(place.path()).expect("the volume");
    for at in BitLocker::PLACES {
        assert_eq!(before[at as usize..][..0x10000], after[at as usize..][..0x10000]);
    }
    assert_eq!(before[..8192], after[..8192]);
    assert_ne!(before, after);
}

#[test]
fn a_volume_that_is_encrypted_in_part_can_be_read_alone() {
    let mut place = Place::new();
    for states in [[2, 4], [5, 4], [5, 1]] {
        let volume = place.make(BitLocker { states, encrypted: 0x48000, ..BitLocker::default() });
        let disk = place.open(place.key(), true).expect("opens");
        assert!(disk.is_read_only());
        let shown = all_of(&disk);
        for (at, bytes) in &volume.plain {
            assert!(shown[*at as usize..].starts_with(bytes), "at {at:#x}");
        }
        let stored = fs::read(place.path()).expect("the volume");
        assert_eq!(shown[0x60000..0x70000], stored[0x60000..0x70000]);
        // dislocker shows what is encrypted.
        let dislocked = place.dislocked();
        assert_eq!(dislocked.len(), 0x48000);
        assert_eq!(differences(&shown[..0x48000], &dislocked), [0; 0], "{states:?}");
    }
    place.make(BitLocker { states: [4, 3], ..BitLocker::default() });
    assert_eq!(refused(&place, place.key()), BitLockerError::State(State::OnWrite));
    place.make(BitLocker { states: [0, 4], ..BitLocker::default() });
    assert_eq!(refused(&place, place.key()), BitLockerError::State(State::Other(0)));
    place.make(BitLocker { on_write: true, ..BitLocker::default() });
    assert_eq!(refused(&place, place.key()), BitLockerError::OnWrite);
    let half = BitLocker { states: [2, 4], encrypted: 0x48000, converting: 0x10000, ..BitLocker::default() };
    place.make(half.clone());
    let converting = LayoutError::Converting { offset: 0x48000, len: 0x10000 };
    assert_eq!(refused(&place, place.key()), BitLockerError::Layout(converting));
    // Once the conversion has stopped in order, nothing is in between.
    place.make(BitLocker { states: [5, 4], ..half });
    assert!(place.open(place.key(), true).expect("opens").is_read_only());
    place.make(BitLocker { encrypted: 0x80200, ..BitLocker::default() });
    let size = LayoutError::Size { encrypted: 0x80200, device: BitLocker::SIZE };
    assert_eq!(refused(&place, place.key()), BitLockerError::Layout(size));
    place.make(BitLocker { relocated: (0x50000, 8192), ..BitLocker::default() });
    let over = LayoutError::Overlap { offset: 0x50000 };
    assert_eq!(refused(&place, place.key()), BitLockerError::Layout(over));
    place.make(BitLocker { relocated: (0x70000, 0x20000), ..BitLocker::default() });
    assert!(matches!(refused(&place, place.key()), BitLockerError::Layout(_)));
}

#[test]
fn a_damaged_copy_of_the_metadata_is_used_around_and_keeps_the_volume_from_being_written() {
    let mut place = Place::new();
    place.make(BitLocker::default());
    let sound = fs::read(place.path()).expect("the volume");
    let shown = all_of(&place.open(place.key(), false).expect("opens"));
    for damaged in [&BitLocker::PLACES[..1], &BitLocker::PLACES[1..]] {
        let mut bytes = sound.clone();
        damaged.iter().for_each(|at| bytes[*at as usize + 200] ^= 1);
        fs::write(place.path(), &bytes).expect("writes");
        let disk = place.open(place.key(), true).expect("another copy is right");
        assert!(disk.is_read_only());
        assert_eq!(all_of(&disk), shown);
    }
    let mut bytes = sound.clone();
    BitLocker::PLACES.iter().for_each(|at| bytes[*at as usize + 200] ^= 1);
    fs::write(place.path(), &bytes).expect("writes");
    assert_eq!(refused(&place, place.key()), BitLockerError::Metadata(MetadataError::Checksum));
    // A checksum that was put right does not help: the key of the volume has a hash of it, too.
    let mut bytes = sound.clone();
    for at in BitLocker::PLACES {
        with_checksum(&mut bytes[at as usize..], |block| block[16] ^= 0x80);
    }
    fs::write(place.path(), &bytes).expect("writes");
    assert!(matches!(refused(&place, place.key()), BitLockerError::Layout(_) | BitLockerError::Validation));
    let mut bytes = sound;
    bytes[160] ^= 1;
    fs::write(place.path(), &bytes).expect("writes");
    assert!(matches!(refused(&place, place.key()), BitLockerError::Boot(BootError::Guid(_))));
}

/// Changes a block of metadata, and puts its checksum right.
fn with_checksum(region: &mut [u8], change: impl FnOnce(&mut [u8])) {
    let len = usize::from(u16::from_le_bytes([region[8], region[9]])) * 16;
    change(&mut region[..len]);
    let mut crc = !0_u32;
    for byte in &region[..len] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    region[len + 4..len + 8].copy_from_slice(&(!crc).to_le_bytes());
}

#[test]
fn three_hundred_headers_with_one_defect_show_the_same_or_are_refused_and_stay() {
    let mut place = Place::new();
    place.make(BitLocker::default());
    let sound = fs::read(place.path()).expect("the volume");
    let shown = all_of(&place.open(place.key(), false).expect("opens"));
    let (same, refusals) = (Cell::new(0), Cell::new(0));
    DEFECTS.run(|_, random| {
        let mut bytes = sound.clone();
        damage(&mut bytes, random);
        fs::write(place.path(), &bytes).expect("writes");
        match atrest_open::open(&place.path(), &Format::BitLocker, &mut OneKey::new(place.key()), &writing())
        {
            Ok(disk) => {
                assert_eq!(differences(&all_of(&disk), &shown), [0; 0]);
                same.set(same.get() + 1);
            }
            Err(Error::Unlock(Refused::Attempt(_))) => refusals.set(refusals.get() + 1),
            Err(other) => panic!("{other}"),
        }
        assert!(fs::read(place.path()).expect("the volume") == bytes, "something was written");
    });
    let (same, refusals) = (same.get(), refusals.get());
    assert!(!Campaign::is_sample() || (same > 30 && refusals > 30), "{same} {refusals}");
}

/// Turns one bit of the boot sector, or of up to three copies of the metadata, whose checksums may be put right.
fn damage(bytes: &mut [u8], random: &mut Random) {
    let (bit, copies) = (1_u8 << random.below(8), 1 + random.index(3));
    let choice = random.below(3);
    if choice == 0 {
        bytes[random.index(200)] ^= bit;
        return;
    }
    let at = random.index(800);
    for place in &BitLocker::PLACES[..copies] {
        let region = &mut bytes[*place as usize..][..0x10000];
        // With the size of the block the checksum is elsewhere.
        if choice == 1 && at != 8 && at != 9 {
            with_checksum(region, |block| block.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit));
        } else {
            region[at] ^= bit;
        }
    }
}

fn writing() -> Options<'static> {
    let mut options = Options::default();
    options.write = true;
    options
}

#[test]
fn cryptsetup_says_the_same_of_what_was_made() {
    let mut place = Place::new();
    place.make(BitLocker { protectors: vec![("startup", ""), ("tpm", "")], ..BitLocker::default() });
    let told = Program::named("cryptsetup").arg("bitlkDump").arg(place.path()).ok().text();
    for words in ["xts-plain64", "VMK protected with startup key", "VMK protected with TPM", "458752 [bytes]"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
}
