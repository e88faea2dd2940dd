//! cryptsetup and qemu-img agree with every byte, in both directions.

use std::fs;
use std::path::Path;

use atrest_cipher::{AesXts, KeyPlace};
use atrest_kdf::Hash;
use atrest_kdf::fixed::Sha256;
use atrest_keyslot::luks1::{ChipKey, ChipUnlock, Header};
use atrest_testkit::cryptsetup::{Cryptsetup, cryptsetup};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, FaultDevice, Random, Scratch};
use atrest_volume::luks1::{self, Luks1};
use atrest_volume::{
    Credential, Devices, FormatOptions, RestoreOptions, UnlockOptions, VolumeKey, header_backup,
    header_restore,
};

use crate::luks1::common::{fast, fill, in_slot, key_bytes, opens, options, pass, plaintext};

/// What cryptsetup can do without help from a kernel: the ciphers that its library has for keyslots.
const CIPHERS: [(&str, usize); 8] = [
    ("aes-xts-plain64", 64),
    ("aes-xts-plain64", 32),
    ("aes-cbc-essiv:sha256", 32),
    ("aes-cbc-essiv:sha256", 24),
    ("aes-cbc-plain64", 16),
    ("aes-cbc-plain", 24),
    ("aes-ecb", 32),
    ("camellia-cbc-plain64", 32),
];

/// The hashes of cryptsetup with OpenSSL, which Debian has.
const HASHES: [Hash; 13] = [
    Hash::Sha1,
    Hash::Sha224,
    Hash::Sha256,
    Hash::Sha384,
    Hash::Sha512,
    Hash::Sha3_224,
    Hash::Sha3_256,
    Hash::Sha3_384,
    Hash::Sha3_512,
    Hash::Ripemd160,
    Hash::Whirlpool,
    Hash::Blake2b512,
    Hash::Blake2s256,
];

/// Every cipher with SHA-256 and every hash with the default cipher.
fn matrix() -> impl Iterator<Item = (&'static str, usize, Hash)> {
    let ciphers = CIPHERS.into_iter().map(|(cipher, key_len)| (cipher, key_len, Hash::Sha256));
    let hashes = HASHES.into_iter().map(|hash| ("aes-xts-plain64", 64, hash));
    ciphers.chain(hashes)
}

fn seen_by_cryptsetup(scratch: &Scratch, image: &[u8], key: &str) -> Cryptsetup {
    Cryptsetup::new(&scratch.file("volume", image), &scratch.file("key", key))
}

fn load(path: &Path) -> FaultDevice {
    FaultDevice::new(fs::read(path).expect("read"))
}

#[test]
fn cryptsetup_opens_dumps_and_extends_what_we_format() {
    for (cipher, key_len, hash) in matrix() {
        let what = format!("{cipher} {key_len} {hash}");
        let scratch = Scratch::new();
        let device = FaultDevice::zeroed(4 << 20);
        let ours = luks1::format(Devices::together(&device), &pass("ours"), &options(cipher, key_len, hash))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let theirs = seen_by_cryptsetup(&scratch, &device.image(), "ours");
        theirs.assert_opens();
        let (_, key) = ours.volume_key(&device, &pass("ours"), None).expect("opens");
        assert_eq!(theirs.volume_key(scratch.as_path()), key_bytes(&key), "{what}");

        let dump = theirs.dump();
        let field = |name: &str| {
            let line = dump.lines().find(|line| line.starts_with(name)).expect(name);
            line[name.len()..].trim().to_owned()
        };
        assert_eq!(field("UUID:"), ours.uuid());
        assert_eq!(format!("{}-{}", field("Cipher name:"), field("Cipher mode:")), cipher);
        assert_eq!(field("Hash spec:"), hash.name());
        assert_eq!(field("MK bits:"), (key_len * 8).to_string());

        theirs.add_key(&scratch.file("new", b"theirs"), "--pbkdf-force-iterations 1000");
        let device = load(&scratch.path("volume"));
        assert_eq!(opens(&device, "theirs"), Ok(1), "{what}");
        assert_eq!(opens(&device, "ours"), Ok(0), "{what}");
    }
}

#[test]
fn we_open_extend_and_shorten_what_cryptsetup_formats() {
    for (cipher, key_len, hash) in matrix() {
        let what = format!("{cipher} {key_len} {hash}");
        let scratch = Scratch::new();
        let theirs = seen_by_cryptsetup(&scratch, &vec![0; 4 << 20], "theirs");
        theirs.format(&format!(
            "--type luks1 --pbkdf-force-iterations 1000 --cipher {cipher} --key-size {} --hash {hash} --key-slot 3",
            key_len * 8
        ));
        let device = load(&scratch.path("volume"));
        let mut ours = Luks1::read(&device).expect(&what);
        let (slot, key) = ours.volume_key(&device, &pass("theirs"), None).expect(&what);
        assert_eq!(slot, 3);
        assert_eq!(key_bytes(&key), theirs.volume_key(scratch.as_path()), "{what}");
        ours.unlock(Devices::together(&device), &pass("theirs"), &UnlockOptions::default()).expect(&what);

        let credential = Credential::Passphrase(&pass("theirs"), None);
        assert_eq!(ours.add_key(&device, credential, &pass("ours"), &in_slot(7)), Ok(7));
        seen_by_cryptsetup(&scratch, &device.image(), "ours").assert_opens();
        seen_by_cryptsetup(&scratch, &device.image(), "theirs").assert_opens();
        ours.remove_key(&device, &pass("theirs"), false).expect("another is left");
        seen_by_cryptsetup(&scratch, &device.image(), "theirs").assert_refuses();
        seen_by_cryptsetup(&scratch, &device.image(), "ours").assert_opens();
    }
}

#[test]
fn the_layout_is_cryptsetups_for_every_placement_option() {
    let scratch = Scratch::new();
    let key = scratch.file("key", b"one");
    // cryptsetup's words, ours, and whether the header is detached. Sizes that share no multiple on purpose.
    let sectors = |n: u64| Some(n * 512);
    let placements: [(&str, FormatOptions, bool); 7] = [
        ("", FormatOptions::default(), false),
        ("--align-payload 8", FormatOptions { data_alignment: sectors(8), ..Default::default() }, false),
        (
            "--align-payload 3000",
            FormatOptions { data_alignment: sectors(3000), ..Default::default() },
            false,
        ),
        (
            "--align-payload 8192",
            FormatOptions { data_alignment: sectors(8192), ..Default::default() },
            false,
        ),
        ("--offset 5000", FormatOptions { data_offset: sectors(5000), ..Default::default() }, false),
        ("", FormatOptions::default(), true),
        ("--offset 8192", FormatOptions { data_offset: sectors(8192), ..Default::default() }, true),
    ];
    for (words, placement, detached) in placements {
        let data = scratch.file("data", vec![0; 8 << 20]);
        let header = scratch.path("header");
        let _ = fs::remove_file(&header);
        let mut program = cryptsetup("luksFormat --type luks1 --pbkdf-force-iterations 1000").words(words);
        if detached {
            program = program.arg("--header").arg(&header);
        }
        program.arg(&data).arg(&key).ok();
        let theirs = Luks1::read(&load(if detached { &header } else { &data })).expect(words);

        let data = FaultDevice::zeroed(8 << 20);
        let header = FaultDevice::zeroed(4 << 20);
        let devices = if detached { Devices::detached(&header, &data) } else { Devices::together(&data) };
        let options = FormatOptions { keyslot: fast(), ..placement };
        let ours = luks1::format(devices, &pass("one"), &options).expect(words);
        let (ours, theirs) = (ours.info(), theirs.info());
        assert_eq!(ours.segments[0].offset, theirs.segments[0].offset, "{words} {detached}");
        assert_eq!(ours.segments[0].cipher, theirs.segments[0].cipher);
        assert_eq!(ours.segments[0].key_len, theirs.segments[0].key_len);
        assert_eq!(ours.keyslots_size, theirs.keyslots_size);
        let area = |info: &atrest_volume::Info| info.keyslots[0].area.as_ref().map(|a| (a.offset, a.size));
        assert_eq!(area(&ours), area(&theirs));
        assert_eq!(ours.digests[0].iterations, theirs.digests[0].iterations);
    }
}

#[test]
fn a_detached_header_of_either_side_opens_on_the_other() {
    let scratch = Scratch::new();
    let (header, data) = (FaultDevice::zeroed(2068480), FaultDevice::zeroed(1 << 20));
    let devices = Devices::detached(&header, &data);
    let options = FormatOptions { keyslot: fast(), ..Default::default() };
    let ours = luks1::format(devices, &pass("one"), &options).expect("formats");
    let volume = ours.unlock(devices, &pass("one"), &UnlockOptions::default()).expect("opens");
    assert_eq!((volume.size(), volume.segments()[0].media_offset), (1 << 20, 0));
    assert!(data.recording().events().is_empty(), "the data device is not written to");
    seen_by_cryptsetup(&scratch, &header.image(), "one").assert_opens();
}

#[test]
fn header_backups_are_cryptsetups_byte_for_byte_and_restore_on_either_side() {
    for (cipher, key_size) in [("aes-xts-plain64", 512), ("aes-cbc-plain64", 192)] {
        let scratch = Scratch::new();
        let theirs = seen_by_cryptsetup(&scratch, &vec![0x5a; 4 << 20], "one");
        theirs.format(&format!(
            "--type luks1 --pbkdf-force-iterations 1000 --cipher {cipher} --key-size {key_size}"
        ));
        let backup = scratch.path("backup");
        cryptsetup("luksHeaderBackup --header-backup-file").arg(&backup).arg(scratch.path("volume")).ok();
        let expected = fs::read(&backup).expect("read");
        let device = load(&scratch.path("volume"));
        let ours = header_backup(&device).expect("backs up");
        assert_eq!(ours.len(), expected.len(), "{cipher}");
        assert!(ours == expected, "{cipher}: the backups differ");

        let mut destroyed = device.image();
        destroyed[..1 << 20].fill(0);
        let device = FaultDevice::new(destroyed.clone());
        header_restore(&device, &expected, RestoreOptions::default()).expect("restores theirs");
        assert_eq!(opens(&device, "one"), Ok(0));

        let theirs = seen_by_cryptsetup(&scratch, &destroyed, "one");
        let file = scratch.file("ours", &ours);
        cryptsetup("luksHeaderRestore --header-backup-file").arg(&file).arg(scratch.path("volume")).ok();
        theirs.assert_opens();
    }
}

#[test]
fn uuid_and_erasure_are_seen_by_cryptsetup() {
    let scratch = Scratch::new();
    let device = FaultDevice::zeroed(4 << 20);
    let options = FormatOptions { keyslot: in_slot(6), ..Default::default() };
    let mut ours = luks1::format(Devices::together(&device), &pass("one"), &options).expect("formats");
    let uuid = "01234567-89ab-4def-8123-456789abcdef";
    ours.set_uuid(&device, uuid).expect("set");
    let theirs = seen_by_cryptsetup(&scratch, &device.image(), "one");
    theirs.assert_opens();
    assert!(theirs.dump().contains(uuid));
    ours.erase(&device).expect("erased");
    let theirs = seen_by_cryptsetup(&scratch, &device.image(), "one");
    assert!(!theirs.test("").is_ok());
    assert!(!theirs.dump().contains("ENABLED"), "{}", theirs.dump());
}

/// qemu writes data, not only headers, and knows Serpent and Twofish.
#[test]
fn qemu_img_and_we_decrypt_each_others_data() {
    let mut random = Random::new(7);
    let mut data = vec![0; 1 << 20];
    random.fill(&mut data);
    let cases = [
        ("", "aes-xts-plain64", 64, Hash::Sha1),
        (
            "aes-128,cipher-mode=cbc,ivgen-alg=essiv,ivgen-hash-alg=sha256",
            "aes-cbc-essiv:sha256",
            16,
            Hash::Sha512,
        ),
        ("", "aes-cbc-plain", 32, Hash::Ripemd160),
        ("serpent-256,cipher-mode=xts,ivgen-alg=plain64", "serpent-xts-plain64", 64, Hash::Sha256),
        ("", "serpent-cbc-essiv:sha256", 16, Hash::Sha1),
        ("", "twofish-xts-plain64", 64, Hash::Sha512),
        ("twofish-256,cipher-mode=cbc,ivgen-alg=plain64", "twofish-cbc-plain64", 32, Hash::Sha224),
    ];
    // qemu measures its own speed for seconds where it makes a volume, so ciphers and hashes share them, and one is made at each commit.
    let made: Vec<&str> = cases.iter().map(|(made, ..)| *made).filter(|made| !made.is_empty()).collect();
    let made = Campaign::matrix("LUKS1 by QEMU", 1).chosen(&made);
    for (made_by_qemu, cipher, key_len, hash) in cases {
        let what = format!("{cipher} {key_len} {hash}");
        let scratch = Scratch::new();
        let raw = scratch.file("raw", &data);
        let secret = format!("secret,id=s,file={}", scratch.file("key", b"pw").display());
        let qemu = || Program::named("qemu-img").words("convert --object").arg(&secret);

        if made.contains(&made_by_qemu) {
            let made = scratch.path("made");
            qemu()
                .words("-f raw -O luks -o")
                .arg(format!("key-secret=s,iter-time=10,cipher-alg={made_by_qemu},hash-alg={hash}"))
                .arg(&raw)
                .arg(&made)
                .ok_making_luks_by_qemu();
            let device = load(&made);
            let theirs = Luks1::read(&device).expect(&what);
            assert_eq!(theirs.info().segments[0].cipher, cipher);
            let volume = theirs
                .unlock(Devices::together(&device), &pass("pw"), &UnlockOptions::default())
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(plaintext(&volume, &device.image())[..data.len()] == data[..], "{what}: data differs");
        }

        let device = FaultDevice::zeroed((4 << 20) + data.len());
        let placed = FormatOptions { data_offset: Some(4 << 20), ..options(cipher, key_len, hash) };
        let ours = luks1::format(Devices::together(&device), &pass("pw"), &placed).expect(&what);
        let volume =
            ours.unlock(Devices::together(&device), &pass("pw"), &UnlockOptions::default()).expect("opens");
        let mut image = device.image();
        fill(&volume, &mut image, &data);
        let written = scratch.file("written", &image);
        let read = scratch.path("read");
        qemu()
            .arg("--image-opts")
            .arg(format!("driver=luks,key-secret=s,file.driver=file,file.filename={}", written.display()))
            .words("-O raw")
            .arg(&read)
            .ok();
        assert!(fs::read(&read).expect("read") == data, "{what}: qemu reads other data");
    }
}

#[test]
fn a_volume_key_file_opens_on_both_sides() {
    let scratch = Scratch::new();
    let key: Vec<u8> = (1..=64).collect();
    let device = FaultDevice::zeroed(4 << 20);
    let options =
        FormatOptions { volume_key: Some(VolumeKey::copy_from(&key)), keyslot: fast(), ..Default::default() };
    let ours = luks1::format(Devices::together(&device), &pass("one"), &options).expect("formats");
    let devices = Devices::together(&device);
    ours.unlock_with_key(devices, &VolumeKey::copy_from(&key), &UnlockOptions::default()).expect("opens");
    let theirs = seen_by_cryptsetup(&scratch, &device.image(), "one");
    assert_eq!(theirs.volume_key(scratch.as_path()), key);
    let file = scratch.file("volume-key", &key);
    cryptsetup("open --test-passphrase --volume-key-file").arg(&file).arg(scratch.path("volume")).ok();
}

/// A volume of few iterations, as `--pbkdf-force-iterations` makes it, opens on a microcontroller.
#[test]
fn a_chip_opens_what_we_format() {
    for key_len in [32, 64] {
        let device = FaultDevice::zeroed(4 << 20);
        let options = options("aes-xts-plain64", key_len, Hash::Sha256);
        let mut ours = luks1::format(Devices::together(&device), &pass("one"), &options).expect("formats");
        let credential = Credential::Passphrase(&pass("one"), None);
        assert_eq!(ours.add_key(&device, credential, &pass("two"), &in_slot(5)), Ok(5));
        let (_, key) = ours.volume_key(&device, &pass("one"), None).expect("opens");

        let image = device.image();
        let header = Header::parse(&image).expect("a header");
        let read = |number: u64, sector: &mut Box<[u8; 512]>| -> Result<(), std::convert::Infallible> {
            sector.copy_from_slice(&image[number as usize * 512..][..512]);
            Ok(())
        };
        let mut place = KeyPlace::<AesXts>::empty();
        let mut chip = ChipUnlock { cipher: &mut place, most_iterations: 1000, between: |_| {} };
        for (slot, passphrase) in [(0, b"one"), (5, b"two")] {
            let (mut sector, mut found) = (Box::new([0; 512]), ChipKey::empty());
            let opened = chip.open::<Sha256, _, _>(&header, slot, passphrase, &mut sector, read, &mut found);
            assert_eq!(opened, Ok(()), "keyslot {slot}");
            assert_eq!(found.expose(), key_bytes(&key), "keyslot {slot}");
        }
    }
}
