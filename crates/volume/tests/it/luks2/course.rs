//! A whole re-encryption as its header sees it: which zone comes when, what protects it, and what is wiped at the end.

use atrest_device::BlockDevice;
use atrest_format::luks2::{Header, ReencryptMode, Segment, SegmentKind, SegmentSize};
use atrest_kdf::Hash;
use atrest_testkit::power_loss::{Event, Limits, Tearing};
use atrest_testkit::{FaultDevice, Random};
use atrest_volume::luks2::reencrypt::{
    EncryptOptions, NewKey, Protection, ReencryptError, ReencryptKeys, ReencryptOptions, ResilienceKind,
    Rewriting, SegmentKeys, Zone, begin_encryption, interrupted_conversion,
};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{
    ChangeError, Credential, CryptTarget, Devices, FormatError, FormatOptions, OptionError, UnlockError,
    UnlockOptions, Volume, VolumeKey,
};

use crate::luks2::reencrypt::store;
use crate::luks2::support::*;

const MIB: u64 = 1 << 20;
/// Where the data of a small volume begins, and how long it is.
const DATA: u64 = 2 * MIB;
const LEN: u64 = 2 * MIB;

fn options(resilience: ResilienceKind) -> ReencryptOptions {
    ReencryptOptions { keyslot: keyslot(), resilience, ..ReencryptOptions::default() }
}

fn begin<'a>(
    device: &'a FaultDevice,
    luks: &Luks2,
    options: &ReencryptOptions,
) -> Result<Rewriting<'a>, ReencryptError> {
    luks.begin_reencryption(Devices::together(device), &[(&passphrase("one"), None)], options)
}

fn key(device: &FaultDevice) -> VolumeKey {
    Luks2::read(device).expect("reads").keyslot_key(device, &passphrase("one"), None).expect("opens").1
}

/// Sectors of a range that are what they were.
fn same_sectors(before: &[u8], after: &[u8], offset: u64, len: u64) -> usize {
    let range = offset as usize..(offset + len) as usize;
    let pairs = before[range.clone()].chunks(512).zip(after[range].chunks(512));
    pairs.filter(|(before, after)| before == after).count()
}

/// All zones to the end, each with this protection; `hot` sees every zone while it is hot.
fn rewrite(
    rewriting: &mut Rewriting<'_>,
    most: u64,
    protection: &[u8],
    mut hot: impl FnMut(&Zone),
) -> Vec<Zone> {
    let mut zones = Vec::new();
    loop {
        let zone = rewriting.next(most).expect("a zone").expect("not at the end");
        rewriting.heat(&zone, protection).expect("hot");
        hot(&zone);
        zones.push(zone);
        if rewriting.cool(&zone).expect("done") {
            return zones;
        }
        assert!(zones.len() < 100, "it does not end");
    }
}

#[test]
fn zones_follow_one_another_over_all_data_and_the_header_knows_the_hot_one() {
    for resilience in [ResilienceKind::Checksum, ResilienceKind::Journal, ResilienceKind::None] {
        let (device, luks) = volume();
        let old = key(&device);
        let before = device.image();
        let mut rewriting = begin(&device, &luks, &options(resilience)).expect("begun");
        assert_eq!(device.image()[DATA as usize..], before[DATA as usize..], "no data is touched");
        assert_eq!((rewriting.total(), rewriting.done(), rewriting.interrupted()), (LEN, Ok(0), Ok(None)));
        assert_eq!((rewriting.mode(), rewriting.alignment()), (ReencryptMode::Reencrypt, 4096));
        let expected = match resilience {
            ResilienceKind::Checksum => Protection::Checksum { hash: Hash::Sha256, sector: 4096 },
            ResilienceKind::Journal => Protection::Journal,
            ResilienceKind::None => Protection::None,
        };
        let first = rewriting.next(300_000).expect("a zone").expect("there is data");
        assert_eq!(rewriting.protection(&first), expected);
        let state = rewriting.volume().metadata().reencryption().expect("a state");
        assert_eq!(state.area_size, 6 * 258_048, "all that is left");
        let protection: &[u8] = if resilience == ResilienceKind::None { &[] } else { &[0xee; 10_000] };
        let zones = rewrite(&mut rewriting, 300_000, protection, |zone| {
            let seen = Luks2::read(&device).expect("reads");
            let devices = Devices::together(&device);
            let resumed = seen.resume_reencryption(devices, &passphrase("one")).expect("it is verified");
            assert_eq!(resumed.done(), Ok(zone.offset));
            let Zone { offset, len, .. } = *zone;
            match resilience {
                ResilienceKind::None => {
                    assert_eq!(resumed.interrupted(), Err(ReencryptError::Unprotected { offset, len }));
                }
                _ => {
                    assert_eq!(resumed.interrupted(), Ok(Some(*zone)));
                    let mut read = vec![0; 9000];
                    resumed.read_protection(1000, &mut read).expect("reads");
                    assert_eq!(read, [0xee; 9000]);
                }
            }
        });
        let mut at = 0;
        for zone in &zones {
            assert_eq!((zone.offset, zone.source, zone.target), (at, DATA + at, DATA + at));
            assert_eq!(zone.len, (LEN - at).min(73 * 4096), "300000 bytes, down to a data unit");
            at += zone.len;
        }
        assert_eq!(at, LEN);

        // At the end there is one key, and nothing of the old one on the media.
        let after = Luks2::read(&device).expect("reads");
        assert!(after.metadata().config().requirements.is_empty());
        assert_eq!((after.metadata().segments().len(), after.metadata().digests().len()), (1, 1));
        assert_eq!(opens(&device, "one"), Some(1));
        assert_ne!(key(&device), old, "the data has its old key");
        let image = device.image();
        assert_eq!(same_sectors(&before, &image, 0x8000, 258_048), 0, "the old keyslot is still there");
        let area = &image[state.area_offset as usize..(state.area_offset + state.area_size) as usize];
        assert!(!area.chunks(512).any(|sector| sector == [0xee; 512]), "hashes of plaintext are still there");
        assert!(area.chunks(512).any(|sector| sector != [0; 512]));
        device.write_at(0, &before[..0x8000]).expect("writes");
        assert_eq!(opens(&device, "one"), None, "with the old header");
    }
}

#[test]
fn a_key_that_stays_keeps_its_keyslots_and_the_mark_goes() {
    let (device, luks) = volume();
    let (old, before) = (key(&device), device.image());
    let keep =
        ReencryptOptions { key: NewKey::Keep, data_unit: Some(512), ..options(ResilienceKind::Journal) };
    let mut rewriting = begin(&device, &luks, &keep).expect("begun");
    rewrite(&mut rewriting, MIB, &[], |zone| {
        let seen = Luks2::read(&device).expect("reads");
        let resumed = seen.resume_reencryption(Devices::together(&device), &passphrase("one"));
        assert_eq!(resumed.expect("it is verified").interrupted(), Ok(Some(*zone)));
    });
    assert_eq!((key(&device), opens(&device, "one")), (old, Some(0)));
    assert_eq!(same_sectors(&before, &device.image(), 0x8000, 258_048), 258_048 / 512);
    let after = Luks2::read(&device).expect("reads");
    assert_eq!((after.metadata().keyslots().len(), after.metadata().digests().len()), (1, 1));
    assert_eq!(after.info().segments[0].data_unit, 512);
}

#[test]
fn what_can_not_be_reencrypted_is_refused_before_anything_is_written() {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot()).expect("adds");
    luks.import_token(&device, None, "{\"type\":\"t\",\"keyslots\":[\"0\"]}").expect("imports");
    device.forget();
    let refused = |change: fn(&mut ReencryptOptions)| {
        let mut options = ReencryptOptions { drop_slots: vec![1], ..options(ResilienceKind::Checksum) };
        change(&mut options);
        let refused = begin(&device, &luks, &options).expect_err("refused");
        assert!(device.recording().events().is_empty(), "something was written");
        refused
    };
    let option = |error: OptionError| ReencryptError::from(error);
    assert_eq!(refused(|o| o.drop_slots = vec![]), ReencryptError::KeyslotsLeft { slots: vec![1] });
    assert_eq!(refused(|o| o.drop_slots = vec![0]), ReencryptError::KeyslotsLeft { slots: vec![1] });
    // Nobody would have the new key, or it would be no new one.
    assert_eq!(refused(|o| o.without_keyslots = true), ReencryptError::NotKept);
    let keep = |o: &mut ReencryptOptions| (o.key, o.without_keyslots) = (NewKey::Keep, true);
    assert_eq!(refused(keep), ReencryptError::NotKept);
    let (_, old) = luks.volume_key(&device, &one, None).expect("it opens");
    let by_key = |key: NewKey, without_keyslots: bool| {
        let options = ReencryptOptions { key, without_keyslots, ..options(ResilienceKind::None) };
        let begun = luks.begin_reencryption_with_key(Devices::together(&device), &old, &options);
        begun.expect_err("refused")
    };
    let new = |seed: u64| NewKey::Given(VolumeKey::copy_from(&Random::new(seed).bytes(old.len())));
    assert_eq!(by_key(NewKey::Random, true), ReencryptError::NotKept);
    assert_eq!(by_key(NewKey::Random, false), ReencryptError::NotKept);
    assert_eq!(by_key(NewKey::Given(VolumeKey::copy_from(old.expose())), true), ReencryptError::SameKey);
    assert_eq!(by_key(new(1), false), ReencryptError::KeyslotsLeft { slots: vec![0, 1] });
    let short = NewKey::Given(VolumeKey::copy_from(&[7; 33]));
    let length = OptionError::KeyLength { bytes: 33, takes: &[32, 48, 64] };
    assert_eq!(by_key(short, true), option(length));
    let wrong = VolumeKey::copy_from(&Random::new(2).bytes(old.len()));
    let given = ReencryptOptions { key: new(1), without_keyslots: true, ..options(ResilienceKind::None) };
    let begun = luks.begin_reencryption_with_key(Devices::together(&device), &wrong, &given);
    assert_eq!(begun.err(), Some(UnlockError::WrongVolumeKey.into()));
    assert!(device.recording().events().is_empty(), "something was written");
    assert_eq!(refused(|o| o.cipher = Some(spec("cipher_null-ecb"))), option(OptionError::NullCipher));
    assert_eq!(refused(|o| o.cipher = Some(spec("aes-ctr-plain64"))), option(OptionError::SingleSnapshot));
    for bytes in [0, 256, 513, 8192] {
        let mut odd = ReencryptOptions { drop_slots: vec![1], ..options(ResilienceKind::None) };
        odd.data_unit = Some(bytes);
        let error = begin(&device, &luks, &odd).expect_err("refused");
        assert_eq!(error, option(OptionError::DataUnit { bytes }));
    }
    let length = OptionError::KeyLength { bytes: 33, takes: &[32, 48, 64] };
    assert_eq!(refused(|o| o.key_len = Some(33)), option(length));
    let odd = refused(|o| (o.cipher, o.data_unit) = (Some(spec("aes-cbc-tcw")), Some(4096)));
    let rule = FormatError::Key(atrest_cipher::KeyError::IvRuleDataUnit { len: 4096 });
    assert_eq!(odd, rule.into(), "sectors of 512 bytes alone");
    let weak = option(OptionError::Pbkdf);
    assert_eq!(refused(|o| o.keyslot.pbkdf.forced_iterations = Some(999)), weak);
    let nobody = luks.begin_reencryption(Devices::together(&device), &[], &options(ResilienceKind::None));
    assert_eq!(nobody.err(), Some(UnlockError::WrongPassphrase.into()));
    let wrong = [(&passphrase("three"), None)];
    let wrong = luks.begin_reencryption(Devices::together(&device), &wrong, &options(ResilienceKind::None));
    assert_eq!(wrong.err(), Some(UnlockError::WrongPassphrase.into()));
    assert!(device.recording().events().is_empty(), "something was written");

    // With both passphrases nothing is lost; each is carried over once.
    let two = passphrase("two");
    let both = [(&one, None), (&two, Some(1)), (&one, Some(0))];
    let begun = luks.begin_reencryption(Devices::together(&device), &both, &options(ResilienceKind::None));
    let mut rewriting = begun.expect("begun");
    let again = Luks2::read(&device).expect("reads");
    assert_eq!(
        begin(&device, &again, &options(ResilienceKind::None)).err(),
        Some(ReencryptError::InProgress)
    );
    let state = again.metadata();
    assert_eq!(state.tokens()[0].keyslots, [0, 2], "a token opens the new keyslot, too");
    rewrite(&mut rewriting, LEN, &[], |_| {});
    assert_eq!((opens(&device, "one"), opens(&device, "two")), (Some(2), Some(3)));
    assert_eq!(Luks2::read(&device).expect("reads").tokens()[0].keyslots, [2]);
    // Salts and areas of both are their own.
    let after = Luks2::read(&device).expect("reads").info();
    let salts: Vec<_> = after.keyslots.iter().map(|k| k.kdf.as_ref().expect("a kdf").salt.clone()).collect();
    assert_ne!(salts[0], salts[1]);
}

/// By a volume key and a passphrase of the other key, or by both volume keys; not by one alone, while data is of the other.
#[test]
fn what_has_no_keyslots_is_gone_on_with_by_volume_keys() {
    let (device, luks) = volume();
    let (_, old) = luks.volume_key(&device, &passphrase("one"), None).expect("it opens");
    let key = |seed: u64| VolumeKey::copy_from(&Random::new(seed).bytes(old.len()));
    let options = ReencryptOptions {
        key: NewKey::Given(key(1)),
        without_keyslots: true,
        ..options(ResilienceKind::None)
    };
    let devices = Devices::together(&device);
    luks.begin_reencryption_with_key(devices, &old, &options).expect("begun");
    let luks = Luks2::read(&device).expect("reads");
    let one = passphrase("one");
    let resumed = |volume_keys: &[VolumeKey], passphrase| {
        let keys = ReencryptKeys { volume_keys, passphrase };
        luks.resume_reencryption_with(devices, keys).map(drop)
    };
    let old = || VolumeKey::copy_from(old.expose());
    assert_eq!(resumed(&[old(), key(1)], None), Ok(()));
    assert_eq!(resumed(&[key(2), key(1), old()], None), Ok(()));
    assert_eq!(resumed(&[key(1)], Some(&one)), Ok(()));
    let wrong = Err(ReencryptError::from(UnlockError::WrongVolumeKey));
    for keys in [&[][..], &[old()], &[key(1)], &[key(1), key(2)], &[old(), key(2)]] {
        assert_eq!(resumed(keys, None), wrong);
    }
    assert_eq!(
        resumed(&[], Some(&one)),
        Err(UnlockError::WrongPassphrase.into()),
        "it has no keyslot of the new key"
    );
    let both = ReencryptKeys::of_volume_keys(&[]);
    assert_eq!(luks.reencryption_keys(devices, both).err(), wrong.err());
    let (given, keys) = ([key(1), old()], [old(), key(1)]);
    let found = luks.reencryption_keys(devices, ReencryptKeys::of_volume_keys(&given));
    assert!(found.expect("both open") == keys, "in the order of before and afterwards");
}

#[test]
fn a_zone_is_no_longer_than_what_protects_it() {
    // Room for three keyslots: of one, the new one, and a journal of 63 data units.
    let device = FaultDevice::zeroed(DEVICE_SIZE);
    let with_room = |slots: u64| {
        let format = FormatOptions { keyslots_size: Some(slots * 258_048), ..small() };
        luks2::format(Devices::together(&device), &passphrase("one"), &format).expect("formats")
    };
    let luks = with_room(3);
    let mut rewriting = begin(&device, &luks, &options(ResilienceKind::Journal)).expect("begun");
    let zone = rewriting.next(u64::MAX).expect("a zone").expect("not at the end");
    assert_eq!((zone.offset, zone.len), (0, 258_048));
    assert_eq!(rewriting.next(5000).map(|zone| zone.map(|zone| zone.len)), Ok(Some(4096)));
    assert_eq!(
        rewriting.next(1).map(|zone| zone.map(|zone| zone.len)),
        Ok(Some(4096)),
        "a data unit at least"
    );
    device.forget();
    let long = vec![7; 258_049];
    assert_eq!(rewriting.heat(&zone, &long), Err(ReencryptError::Protection));
    assert!(device.recording().events().is_empty(), "something was written");
    let mut buf = vec![0; 48];
    assert_eq!(rewriting.heat(&zone, &long[..258_048]), Ok(()));
    assert_eq!(rewriting.read_protection(258_000, &mut buf), Ok(()));
    assert_eq!(buf, [7; 48]);
    for skip in [258_001, 258_048, u64::MAX] {
        assert_eq!(rewriting.read_protection(skip, &mut buf), Err(ReencryptError::Protection), "{skip}");
    }
    // A hot zone that its journal can't hold was made by nobody.
    let luks = with_room(3);
    let mut rewriting = begin(&device, &luks, &options(ResilienceKind::Journal)).expect("begun");
    let long = Zone { len: 258_048 + 4096, ..zone };
    rewriting.heat(&long, &[]).expect("hot");
    assert_eq!(rewriting.interrupted(), Err(ReencryptError::Protection));

    for resilience in [ResilienceKind::Checksum, ResilienceKind::Journal, ResilienceKind::None] {
        let luks = with_room(2);
        device.forget();
        assert_eq!(begin(&device, &luks, &options(resilience)).err(), Some(ReencryptError::NoRoom));
        assert!(device.recording().events().is_empty(), "something was written");
    }
}

#[test]
fn a_header_that_somebody_else_has_changed_is_not_overwritten() {
    let (device, luks) = volume();
    let mut rewriting = begin(&device, &luks, &options(ResilienceKind::Checksum)).expect("begun");
    let zone = rewriting.next(MIB).expect("a zone").expect("not at the end");
    let header = Luks2::read(&device).expect("reads").header_pair().header.clone();
    let changes: [fn(&mut Header); 3] = [
        |header| header.binary.sequence += 1,
        |header| header.binary.sequence -= 1,
        |header| header.binary.uuid = "01234567-89ab-4def-8123-456789abcdef".into(),
    ];
    for change in changes {
        let mut other = header.clone();
        change(&mut other);
        write(&device, &other);
        let before = device.image();
        let refused = rewriting.heat(&zone, &[]);
        assert_eq!(refused, Err(ChangeError::ChangedMeanwhile.into()));
        assert!(device.image() == before, "something was written");
    }
    write(&device, &header);
    assert_eq!(rewriting.heat(&zone, &[]), Ok(()));
    let sequence = Luks2::read(&device).expect("reads").header_pair().header.binary.sequence;
    assert_eq!(sequence, header.binary.sequence + 1);
}

fn write(device: &FaultDevice, header: &Header) {
    use atrest_format::luks2::CopyKind;
    for (kind, offset) in [(CopyKind::Primary, 0), (CopyKind::Secondary, header.binary.header_size)] {
        device.write_at(offset, &header.encode(kind, &[7; 64]).expect("it fits")).expect("written");
    }
}

#[test]
fn the_sequence_ends_before_it_begins_anew() {
    let (device, luks) = volume();
    let rewriting = begin(&device, &luks, &options(ResilienceKind::Checksum)).expect("begun");
    let zone = rewriting.next(MIB).expect("a zone").expect("not at the end");
    drop(rewriting);
    let mut header = Luks2::read(&device).expect("reads").header_pair().header.clone();
    header.binary.sequence = u64::MAX;
    write(&device, &header);
    let last = Luks2::read(&device).expect("reads");
    let mut rewriting =
        last.resume_reencryption(Devices::together(&device), &passphrase("one")).expect("verified");
    assert_eq!(rewriting.heat(&zone, &[]), Err(ChangeError::SequenceExhausted.into()));
}

/// Plaintext of which every sector is another one.
fn plaintext(len: u64) -> FaultDevice {
    FaultDevice::new(Random::new(5).bytes(len as usize))
}

fn in_place(shift: u64) -> EncryptOptions {
    let keyslots_size = Some(2 * 258_048);
    EncryptOptions {
        format: FormatOptions { data_offset: Some(shift), keyslots_size, ..small() },
        ..EncryptOptions::default()
    }
}

fn encrypting<'a>(device: &'a FaultDevice, shift: u64) -> Result<Rewriting<'a>, ReencryptError> {
    begin_encryption(Devices::together(device), &passphrase("one"), in_place(shift))
}

fn segment_len(segment: &Segment) -> u64 {
    match segment.size {
        SegmentSize::Fixed(len) => len,
        SegmentSize::Dynamic => panic!("{segment:?}"),
    }
}

/// Offset, length, source and target in MiB.
type Expected = (u64, u64, u64, u64);

#[test]
fn plaintext_makes_room_for_its_header_from_the_end_and_its_moved_head_is_wiped() {
    let all: [(u64, u64, &[Expected]); 6] = [
        // Less data than the header takes: it moves as a whole.
        (5, 2, &[(0, 1, 3, 2)]),
        (9, 4, &[(0, 1, 5, 4)]),
        (6, 2, &[(0, 2, 4, 2)]),
        (7, 2, &[(2, 1, 2, 4), (0, 2, 5, 2)]),
        (8, 2, &[(2, 2, 2, 4), (0, 2, 6, 2)]),
        (11, 2, &[(5, 2, 5, 7), (3, 2, 3, 5), (2, 1, 2, 4), (0, 2, 9, 2)]),
    ];
    for (size, shift, expected) in all {
        let device = plaintext(size * MIB);
        let before = device.image();
        let mut rewriting = encrypting(&device, shift * MIB).expect("begun");
        let image = device.image();
        let moved = ((size - shift) * MIB) as usize;
        let head = (shift.min(size - 2 * shift) * MIB) as usize;
        assert_eq!(image[moved..][..head], before[..head], "the head of the plaintext");
        assert_eq!(image[moved + head..], before[moved + head..], "nothing behind it");
        let header = Luks2::read(&device).expect("reads");
        let area = header.metadata().keyslots()[0].area.offset as usize;
        let note = &image[moved - MIB as usize..moved];
        let keyslot = &image[area..][..512];
        assert!(!note.windows(512).any(|bytes| bytes == keyslot), "the note stays, and a keyslot in it");
        let data = (shift * MIB) as usize..moved - MIB as usize;
        assert_eq!(image[data.clone()], before[data], "nothing else is touched but for the note");
        assert_eq!((rewriting.total(), rewriting.done()), ((size - 2 * shift) * MIB, Ok(0)));
        let first = rewriting.next(u64::MAX).expect("a zone").expect("there is data");
        assert_eq!(
            (rewriting.protection(&first), rewriting.mode()),
            (Protection::Elsewhere, ReencryptMode::Encrypt)
        );

        // What is unused in front of the data was plaintext.
        rewriting.bury_head().expect("buried");
        let buried = device.image();
        let header = 0x8000 + 258_048;
        assert_eq!(buried[..header], image[..header], "header and keyslot stay");
        // Also what is behind the last stripe, and the area that this re-encryption puts nothing into.
        let behind = 0x8000 + 256_000;
        assert_eq!(same_sectors(&before, &buried, behind, shift * MIB - behind), 0);
        assert_eq!(buried[(shift * MIB) as usize..], image[(shift * MIB) as usize..], "data stays");

        let mut left = rewriting.total();
        let zones = rewrite(&mut rewriting, u64::MAX, &[], |zone| {
            left -= zone.len;
            let seen = Luks2::read(&device).expect("reads");
            let resumed = seen.resume_reencryption(Devices::together(&device), &passphrase("one"));
            let resumed = resumed.expect("it is verified");
            assert_eq!(resumed.interrupted(), Ok(Some(*zone)));
            let active = seen.metadata().reencryption().expect("a state").active;
            let lens: Vec<u64> = active.iter().map(segment_len).collect();
            assert_eq!(lens.iter().sum::<u64>(), resumed.total(), "data that no segment knows");
            let image = device.image();
            resumed.bury_head().expect("nothing to bury");
            assert!(device.image() == image, "the head is buried once, before the first zone");
        });
        let zones: Vec<Expected> = zones
            .iter()
            .map(|zone| (zone.offset / MIB, zone.len / MIB, zone.source / MIB, zone.target / MIB))
            .collect();
        assert_eq!((zones.as_slice(), left), (expected, 0), "{size} {shift}");
        let image = device.image();
        let copy = image[moved..][..head].chunks(512);
        assert_eq!(
            copy.zip(before.chunks(512)).filter(|(a, b)| a == b).count(),
            0,
            "plaintext is still there"
        );
        assert_eq!(same_sectors(&before, &image, 0, shift * MIB), 0, "in front of the data, too");
        let after = Luks2::read(&device).expect("reads");
        assert_eq!((after.metadata().segments().len(), after.metadata().keyslots().len()), (1, 1));
        assert_eq!(after.metadata().data_offset(), shift * MIB);
        assert_eq!(opens(&device, "one"), Some(0));
    }
}

#[test]
fn plaintext_that_leaves_no_room_is_not_touched() {
    let refused = |size: u64, shift: Option<u64>| {
        let device = plaintext(size);
        let mut options = in_place(0);
        options.format.data_offset = shift;
        let refused = begin_encryption(Devices::together(&device), &passphrase("one"), options);
        assert!(device.recording().events().is_empty(), "something was written");
        refused.map(drop)
    };
    let space = |shift, has| Err(ReencryptError::NoSpaceBehind { needs: 2 * shift, has });
    assert_eq!(refused(2 * MIB, Some(MIB)), space(MIB, 2 * MIB));
    assert_eq!(refused(MIB, Some(MIB)), space(MIB, MIB));
    // The note of what is moved would lie on the first keyslot.
    let needs = 2 * MIB + 0x8000 + 258_048;
    let has = needs - 512;
    assert_eq!(refused(has, Some(MIB)), Err(ReencryptError::NoSpaceBehind { needs, has }));
    assert_eq!(refused(8 * MIB, Some(MIB - 4096)), space(MIB - 4096, 8 * MIB), "no room for the note");
    assert!(refused(3 * MIB + 256, Some(MIB)).is_err(), "no whole sectors");
    let nowhere = ReencryptError::from(OptionError::DataOffset { bytes: 0, header: MIB });
    assert_eq!(refused(8 * MIB, None), Err(nowhere), "where to?");
    assert!(encrypting(&plaintext(needs), MIB).is_ok(), "as small as it can be");
    assert!(encrypting(&plaintext(4 * MIB + 512), 2 * MIB).is_ok(), "one sector");
    let device = plaintext(3 * MIB);
    device.fail(atrest_testkit::fault::Fault::ReadOnly);
    let Err(ReencryptError::Change(error)) = encrypting(&device, MIB) else { panic!("not refused") };
    assert!(matches!(*error, ChangeError::Device(_)), "{error:?}");
}

/// Room for the header is left in front of it: the header can be put there later.
#[test]
fn with_a_header_elsewhere_data_that_begins_later_is_encrypted_from_there() {
    let (header, data) = (plaintext(DEVICE_SIZE as u64), plaintext(3 * MIB));
    let before = data.image();
    let devices = Devices::detached(&header, &data);
    let at = |offset| EncryptOptions {
        format: FormatOptions { data_offset: Some(offset), ..small() },
        ..EncryptOptions::default()
    };
    for offset in [2 * MIB + 512, 3 * MIB, u64::MAX - 4095] {
        let refused = begin_encryption(devices, &passphrase("one"), at(offset));
        assert!(refused.is_err(), "{offset}");
        assert!(header.recording().events().is_empty(), "{offset}: something was written");
    }
    let mut rewriting = begin_encryption(devices, &passphrase("one"), at(2 * MIB)).expect("begun");
    assert_eq!((rewriting.total(), rewriting.moves()), (MIB, false));
    let zones = rewrite(&mut rewriting, MIB / 2, &[], |_| ());
    let found: Vec<Expected> = zones.iter().map(|z| (z.offset, z.len, z.source, z.target)).collect();
    let expected = [(0, MIB / 2, 2 * MIB, 2 * MIB), (MIB / 2, MIB / 2, 5 * MIB / 2, 5 * MIB / 2)];
    assert_eq!(found, expected);
    let luks = Luks2::read(&header).expect("reads");
    assert_eq!(luks.metadata().data_offset(), 2 * MIB);
    let volume = luks.unlock(devices, &passphrase("one"), &Default::default()).expect("it opens");
    assert_eq!(volume.size(), MIB);
    assert!(data.image() == before, "the engine's part");
}

#[test]
fn with_a_header_elsewhere_the_data_stays_where_it_is() {
    let (header, data) = (plaintext(DEVICE_SIZE as u64), plaintext(MIB));
    let (before, random) = (data.image(), header.image());
    let options = EncryptOptions { format: small(), ..EncryptOptions::default() };
    let devices = Devices::detached(&header, &data);
    let mut rewriting = begin_encryption(devices, &passphrase("one"), options).expect("begun");
    assert!(data.image() == before && data.recording().events().is_empty());
    assert_eq!(same_sectors(&random, &header.image(), 0x8000, KEYSLOTS_SIZE), 0, "old keyslots are gone");
    assert_eq!(rewriting.alignment(), 512);
    let zones = rewrite(&mut rewriting, MIB / 2, &[], |zone| assert_eq!(zone.source, zone.target));
    assert_eq!(
        zones.iter().map(|zone| (zone.source, zone.len)).collect::<Vec<_>>(),
        [(0, MIB / 2), (MIB / 2, MIB / 2)]
    );
    let luks = Luks2::read(&header).expect("reads");
    let options = Default::default();
    assert_eq!(luks.unlock(devices, &passphrase("one"), &options).map(|v| v.size()).ok(), Some(MIB));
    assert!(data.image() == before, "the engine's part");
    for (header_read_only, data_read_only) in [(true, false), (false, true)] {
        let (header, data) = (plaintext(DEVICE_SIZE as u64), plaintext(MIB));
        for (device, read_only) in [(&header, header_read_only), (&data, data_read_only)] {
            if read_only {
                device.fail(atrest_testkit::fault::Fault::ReadOnly);
            }
        }
        let options = EncryptOptions { format: small(), ..EncryptOptions::default() };
        let begun = begin_encryption(Devices::detached(&header, &data), &passphrase("one"), options);
        assert!(begun.is_err());
        assert!(header.recording().events().is_empty() && data.recording().events().is_empty());
    }
}

/// Wherever the power goes, the plaintext is whole, or a header is there, or the note completes it.
#[test]
fn a_header_that_was_half_written_is_completed_by_its_note() {
    // As much data as a header takes; less; a sector.
    for (size, shift) in [(3 * MIB, MIB), (5 * MIB / 2, MIB), (4 * MIB + 512, 2 * MIB)] {
        check_half_written(size, shift);
    }
}

fn check_half_written(size: u64, shift: u64) {
    let device = plaintext(size);
    let before = device.image();
    let head = shift.min(size - 2 * shift) as usize;
    let moved = (size - shift) as usize;
    drop(encrypting(&device, shift).expect("begun"));
    let (mut untouched, mut begun, mut done) = (0, 0, 0);
    let limits = Limits { tearing: Tearing::Inside, sampled: 8, tears: 4, ..Limits::default() };
    device.recording().for_each_power_loss(&limits, |aftermath| {
        let at = aftermath.power_loss.to_string();
        let after = FaultDevice::new(aftermath.image);
        // Where a header is found, its first copy is there: cryptsetup does not go on with the second beside a superblock.
        let without_second = FaultDevice::new(after.image());
        without_second.write_at(0x4000, &[0; 0x4000]).expect("overwritten");
        assert_eq!(Luks2::read(&without_second).is_ok(), Luks2::read(&after).is_ok(), "{at}");
        match interrupted_conversion(&after, shift).expect("reads") {
            Some(conversion) => {
                conversion.complete(&after).expect("completed");
                begun += 1;
            }
            None if Luks2::read(&after).is_err() => {
                let image = after.image();
                assert_eq!(image[..head], before[..head], "{at}");
                untouched += 1;
                return;
            }
            None => done += 1,
        }
        let luks = Luks2::read(&after).expect("a header");
        let resumed = luks.resume_reencryption(Devices::together(&after), &passphrase("one"));
        assert_eq!(resumed.unwrap_or_else(|error| panic!("{at}: {error}")).done(), Ok(0));
        assert_eq!(after.image()[moved..][..head], before[..head], "{at}");
    });
    assert!(untouched > 0 && begun > 0, "{untouched} {begun} {done}");
}

#[test]
fn a_note_completes_only_the_header_that_it_is_for() {
    let device = plaintext(3 * MIB);
    let before = device.image();
    drop(encrypting(&device, MIB).expect("begun"));
    let note = 3 * MIB as usize - 2 * MIB as usize;
    let behind = note + MIB as usize;
    // As it was before the last that happened: that the note was overwritten.
    let mut whole = device.image();
    let recording = device.recording().clone();
    let first = recording.events().iter().find_map(|event| match event {
        Event::Write { offset, data } if *offset == note as u64 => Some(data),
        _ => None,
    });
    let first = first.expect("a note");
    whole[note..][..first.len()].copy_from_slice(first);
    // No header copy is written yet.
    let mut half = whole.clone();
    half[..0x8000].copy_from_slice(&before[..0x8000]);
    let found = |image: &[u8], shift: u64| {
        interrupted_conversion(&FaultDevice::new(image.to_vec()), shift).expect("reads")
    };
    let completed = FaultDevice::new(half.clone());
    found(&half, MIB).expect("begun").complete(&completed).expect("completed");
    let completed = completed.image();
    assert!(completed[..note] == whole[..note] && completed[behind..] == whole[behind..]);
    assert!(found(&completed, MIB).is_none(), "the note is gone");
    for shift in [0, 512, MIB - 512, MIB + 512, 2 * MIB, 3 * MIB, u64::MAX] {
        assert!(found(&half, shift).is_none(), "{shift}");
    }
    // Magic, size, shift, count, and the first write's offset, length and bytes; something in the middle.
    for at in [0, 15, 16, 23, 24, 31, 32, 39, 40, 47, 48, 55, 56, 1000, 200_000] {
        let mut other = half.clone();
        other[note + at] ^= 1;
        assert!(found(&other, MIB).is_none(), "byte {at} of the note");
    }
    // A sector of the head that nothing is written to, and one that is neither old nor new.
    for at in [700_000, 0x3fff, 5] {
        let mut other = half.clone();
        other[at] = !before[at] ^ u8::from(whole[at] == !before[at]);
        assert!(found(&other, MIB).is_none(), "byte {at} of the head");
    }
    // Torn within a sector.
    let mut torn = half.clone();
    torn[..100].copy_from_slice(&whole[..100]);
    assert!(found(&torn, MIB).is_some());
    // Nothing of the head was written: there is nothing to complete.
    let mut untouched = half;
    untouched[..MIB as usize].copy_from_slice(&before[..MIB as usize]);
    assert!(found(&untouched, MIB).is_none());
    assert!(found(&before, MIB).is_none(), "without a note");
    // A note that is good but for its place: of another device.
    let mut longer = untouched.clone();
    longer.extend([0; 512]);
    assert!(found(&longer, MIB).is_none());
}

#[test]
fn a_volume_is_resumed_only_with_keys_of_both_sides() {
    let (device, mut luks) = volume();
    let one = passphrase("one");
    luks.add_key(&device, Credential::Passphrase(&one, None), &passphrase("two"), &keyslot()).expect("adds");
    let options = ReencryptOptions { drop_slots: vec![1], ..options(ResilienceKind::Checksum) };
    drop(begin(&device, &luks, &options).expect("begun"));
    let luks = Luks2::read(&device).expect("reads");
    let resume =
        |text: &str| luks.resume_reencryption(Devices::together(&device), &passphrase(text)).map(drop);
    assert_eq!(resume("one"), Ok(()));
    assert_eq!(resume("two"), Err(UnlockError::WrongPassphrase.into()), "of the old key alone");
    assert_eq!(resume("three"), Err(UnlockError::WrongPassphrase.into()));
    let unlocked = |text: &str, options: &UnlockOptions| {
        luks.unlock(Devices::together(&device), &passphrase(text), options).map(|volume| volume.size())
    };
    assert_eq!(unlocked("one", &UnlockOptions::default()), Ok(LEN), "as it is at present");
    assert_eq!(unlocked("two", &UnlockOptions::default()), Err(UnlockError::WrongPassphrase));
    // Not by the key of one keyslot.
    let by_slot = UnlockOptions { slot: Some(0), ..UnlockOptions::default() };
    assert_eq!(unlocked("one", &by_slot), Err(UnlockError::ReencryptionInProgress));
    assert_eq!(luks.test_passphrase(&device, &one, None), Ok(0), "keyslots can be tested");
    // Nor is it changed meanwhile.
    let mut changed = luks.clone();
    let refused = changed.set_label(&device, Some("x"), None);
    assert_eq!(refused, Err(ChangeError::Unlock(UnlockError::ReencryptionInProgress)));
    // An unknown requirement beside it keeps it shut.
    let metadata = luks.metadata();
    let mut required = metadata.config().requirements.clone();
    required.push(atrest_format::luks2::Requirement::Unknown("of-tomorrow".into()));
    let other = metadata.compose().requirements(&required).finish().expect("within the rules");
    store(&device, &luks, other);
    let luks = Luks2::read(&device).expect("reads");
    let refused = luks.resume_reencryption(Devices::together(&device), &one).map(drop);
    let names = vec!["of-tomorrow".into()];
    assert_eq!(refused, Err(UnlockError::UnsupportedRequirement { names }.into()));
}

/// What dm-crypt is told of a volume that is half done is what its header says: of each segment the key of its side, the place, the IV. A
/// zone that is hot is in neither form, so that the table before it and the one after it are told.
#[test]
fn a_volume_that_is_half_done_has_a_target_for_each_side() {
    let (device, luks) = volume();
    let old = key(&device);
    let mut rewriting = begin(&device, &luks, &options(ResilienceKind::None)).expect("begun");
    let kernels = UnlockOptions { keep_key: true, ..UnlockOptions::default() };
    let devices = Devices::together(&device);
    let half = LEN / 2;
    let zone = rewriting.next(half).expect("a zone").expect("there is data");
    let seen = Luks2::read(&device).expect("reads");
    let (found, before, new) = seen
        .resume_reencryption_for_kernel(devices, ReencryptKeys::of_passphrase(&passphrase("one")))
        .expect("resumes");
    drop(found);
    assert_eq!(before.as_ref(), Some(&old));
    let new = new.expect("a new key");
    assert_ne!(new, old);
    let keys = SegmentKeys { old: Some(&old), new: Some(&new), keep: true };
    let told = |volume: &Volume| -> Vec<(u64, u64, u64, u64, Option<u32>, bool)> {
        assert_eq!(volume.segments().len(), volume.targets().len());
        let one = |target: &CryptTarget| {
            assert_eq!((target.cipher.as_str(), target.data_unit), ("aes-xts-plain64", 4096));
            (
                target.start,
                target.len,
                target.media_offset,
                target.iv_offset,
                target.digest,
                target.key == old,
            )
        };
        volume.targets().iter().map(one).collect()
    };
    let unlocked = || {
        let seen = Luks2::read(&device).expect("reads");
        seen.unlock(devices, &passphrase("one"), &kernels)
    };
    let untouched = [(0, LEN, DATA, 0, Some(0), true)];
    let half_done =
        [(0, half, DATA, 0, Some(1), false), (half, half, DATA + half, half / 512, Some(0), true)];
    assert_eq!(told(&unlocked().expect("as it is")), untouched);
    rewriting.heat(&zone, &[]).expect("hot");
    assert_eq!(unlocked().err(), Some(UnlockError::ReencryptionInProgress), "in neither form");
    assert_eq!(told(&rewriting.as_it_is(&keys).expect("serves").expect("keys")), untouched);
    assert_eq!(told(&rewriting.volume_after(&zone, &keys).expect("serves").expect("keys")), half_done);
    assert!(!rewriting.cool(&zone).expect("done"));
    assert_eq!(told(&unlocked().expect("as it is")), half_done);
    assert_eq!(told(&rewriting.as_it_is(&keys).expect("serves").expect("keys")), half_done);
    let without = SegmentKeys { new: None, ..keys };
    assert!(rewriting.as_it_is(&without).expect("serves").is_none(), "without the new key");
    let forgotten = SegmentKeys { keep: false, ..keys };
    let forgotten = rewriting.as_it_is(&forgotten).expect("serves").expect("keys");
    assert_eq!((forgotten.segments().len(), forgotten.targets().len()), (2, 0), "nobody asked for keys");
    let last = rewriting.next(half).expect("a zone").expect("there is data");
    let all = [(0, LEN, DATA, 0, Some(1), false)];
    assert_eq!(told(&rewriting.volume_after(&last, &keys).expect("serves").expect("keys")), all);
}

/// A format error that names no option is a fault of this program.
#[test]
fn formats_error_is_told_by_name() {
    let device = plaintext(8 * MIB);
    let mut options = in_place(MIB);
    options.format.cipher = Some(spec("cipher_null-ecb"));
    let refused = begin_encryption(Devices::together(&device), &passphrase("one"), options).err();
    let Some(ReencryptError::Format(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(*error, FormatError::Option(OptionError::NullCipher));
    assert!(device.recording().events().is_empty(), "something was written");
}

/// Half of the data is done, and a zone is hot or none: the row of segments, each with one thing wrong.
#[test]
fn a_row_in_the_middle_that_no_step_makes_is_refused() {
    let tweak = |segment: &mut Segment| match &mut segment.kind {
        SegmentKind::Crypt { iv_tweak, .. } => *iv_tweak += 8,
        kind => panic!("{kind:?}"),
    };
    let changes: [&dyn Fn(&mut Segment); 4] = [
        &|segment| segment.offset += 4096,
        // One that goes to the end of the device may have a length: cryptsetup's `--device-size`.
        &|segment| match &mut segment.size {
            SegmentSize::Fixed(len) => *len -= 4096,
            SegmentSize::Dynamic => segment.offset -= 4096,
        },
        &|segment| segment.flags.push("x".into()),
        &tweak,
    ];
    for hot in [false, true] {
        for (number, change) in changes.into_iter().enumerate() {
            for id in 0..if hot { 3 } else { 2 } {
                let (device, luks) = volume();
                let mut rewriting = begin(&device, &luks, &options(ResilienceKind::Checksum)).expect("begun");
                let zone = rewriting.next(MIB / 2).expect("a zone").expect("not at the end");
                rewriting.heat(&zone, &[]).expect("hot");
                assert_eq!(rewriting.cool(&zone), Ok(false));
                if hot {
                    let zone = rewriting.next(MIB / 2).expect("a zone").expect("not at the end");
                    rewriting.heat(&zone, &[]).expect("hot");
                }
                let luks = Luks2::read(&device).expect("reads");
                let resume = |luks: &Luks2| {
                    luks.resume_reencryption(Devices::together(&device), &passphrase("one")).map(drop)
                };
                assert_eq!(resume(&luks), Ok(()));
                let mut segments = luks.metadata().segments().to_vec();
                change(&mut segments[id]);
                let digests: Vec<(u32, Vec<u32>)> =
                    luks.metadata().digests().iter().map(|d| (d.id, d.segments.clone())).collect();
                // What overlaps is refused by the rules of the format already.
                let Ok(changed) = luks.metadata().compose().segments(&segments, &digests).finish() else {
                    continue;
                };
                store(&device, &luks, changed);
                let refused = resume(&Luks2::read(&device).expect("reads"));
                assert!(refused.is_err(), "{hot} {number} {id}");
            }
        }
    }
}
