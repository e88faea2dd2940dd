//! What the caller asks for is what a LUKS1 header says, up to the last value that fits.

use atrest_cipher::KeyError;
use atrest_device::{BlockDevice, Geometry};
use atrest_kdf::Hash;
use atrest_keyslot::luks1::Header;
use atrest_testkit::{FaultDevice, ShapedDevice};
use atrest_volume::luks1::{self, Luks1};
use atrest_volume::{
    ChangeError, Credential, Devices, FormatError, FormatOptions, KeyslotOptions, OptionError, PbkdfKind,
    PbkdfOptions, Priority, Relabel, UnlockError, UnlockOptions, VolumeKey,
};

use crate::luks1::common::{fast, opens, pass, small, small_options, small_with};

/// End of the last area of a small volume: eight areas of 125 sectors, every 128.
const AREAS: u64 = 4096 + 8 * 65_536 - 3 * 512;

#[test]
fn data_lies_behind_the_areas_where_it_is_asked_for() {
    let device = FaultDevice::zeroed(4 << 20);
    let place = |data_offset: Option<u64>, data_alignment: Option<u64>, likes: u32| {
        let device = ShapedDevice(&device, Geometry { optimal_alignment: likes, ..Geometry::default() });
        let options = FormatOptions { data_offset, data_alignment, ..small_options() };
        let made = luks1::format(Devices::together(&device), &pass("one"), &options);
        made.map(|volume| volume.info().segments[0].offset)
    };
    const MIB: u32 = 1 << 20;
    let bad = |bytes| Err(FormatError::Option(OptionError::DataOffset { bytes, header: AREAS }));
    assert_eq!(place(None, None, MIB), Ok(1 << 20));
    assert_eq!(place(None, None, 0), Ok(1 << 20));
    assert_eq!(place(None, None, 4096), Ok(1 << 20), "1 MiB is a multiple");
    assert_eq!(place(None, None, 3 << 19), Ok(3 << 19), "and here it is none");
    assert_eq!(place(None, Some(512), MIB), Ok(AREAS));
    assert_eq!(place(None, Some(1), MIB), Ok(AREAS));
    assert_eq!(place(None, Some(4096), MIB), Ok(AREAS.next_multiple_of(4096)));
    assert_eq!(place(None, Some(1000), MIB), bad(AREAS.next_multiple_of(1000)));
    assert_eq!(place(None, Some(u64::MAX), MIB), bad(u64::MAX));
    let first = AREAS.next_multiple_of(4096);
    assert_eq!(place(Some(first), None, MIB), Ok(first));
    assert_eq!(place(Some(first - 4096), None, MIB), bad(first - 4096));
    assert_eq!(place(Some(first + 512), None, MIB), bad(first + 512));
    assert_eq!(place(Some(0), None, MIB), bad(0));
    assert!(place(Some(1 << 50), None, MIB).is_err());

    let fits = |len: u64| {
        luks1::format(Devices::together(&FaultDevice::zeroed(len as usize)), &pass("one"), &small_options())
            .map(drop)
    };
    assert_eq!(fits((1 << 20) + 512), Ok(()));
    let needs = (1 << 20) + 512;
    let small = OptionError::DeviceTooSmall { needs, has: needs - 1 };
    assert_eq!(fits(needs - 1), Err(FormatError::Option(small)));
    let data = FaultDevice::zeroed(4096);
    let detached = |len: u64| {
        let header = FaultDevice::zeroed(len as usize);
        let made = luks1::format(Devices::detached(&header, &data), &pass("one"), &small_options());
        made.map(|volume| volume.info().segments[0].offset)
    };
    assert_eq!(detached(AREAS), Ok(0));
    let small = OptionError::DeviceTooSmall { needs: AREAS, has: AREAS - 1 };
    assert_eq!(detached(AREAS - 1), Err(FormatError::Option(small)));
}

#[test]
fn what_luks1_does_not_have_is_not_added_to_it_either() {
    let (device, mut volume) = small();
    let one = pass("one");
    let refused = |volume: &mut Luks1, options: KeyslotOptions| {
        let added = volume.add_key(&device, Credential::Passphrase(&one, None), &pass("two"), &options);
        let changed = volume.change_key(&device, &one, None, &pass("two"), &options);
        assert!(device.recording().events().is_empty(), "something was written");
        assert_eq!(added, changed);
        added.expect_err("refused")
    };
    let pbkdf = |pbkdf: PbkdfOptions| KeyslotOptions { pbkdf, ..KeyslotOptions::default() };
    let forced = |iterations| PbkdfOptions { forced_iterations: Some(iterations), ..PbkdfOptions::default() };
    let argon2 = PbkdfOptions { kind: Some(PbkdfKind::Argon2id), ..forced(1000) };
    let weak = ChangeError::Option(OptionError::Pbkdf);
    assert_eq!(refused(&mut volume, pbkdf(argon2)), weak);
    assert_eq!(refused(&mut volume, pbkdf(forced(999))), weak);
    assert_eq!(refused(&mut volume, pbkdf(PbkdfOptions { hash: Some(Hash::Sha512), ..forced(1000) })), weak);
    let other = ChangeError::Option(OptionError::NotInFormat);
    let cipher = Some("aes-xts-plain64".parse().expect("known"));
    assert_eq!(refused(&mut volume, KeyslotOptions { area_cipher: cipher, ..fast() }), other);
    assert_eq!(refused(&mut volume, KeyslotOptions { area_key_len: Some(32), ..fast() }), other);
    assert_eq!(refused(&mut volume, KeyslotOptions { af_hash: Some(Hash::Sha1), ..fast() }), other);
    assert_eq!(refused(&mut volume, KeyslotOptions { priority: Priority::Ignore, ..fast() }), other);
    let number = ChangeError::Option(OptionError::SlotNumber { slot: 8, count: 8 });
    assert_eq!(refused(&mut volume, KeyslotOptions { slot: Some(8), ..fast() }), number);
    // The header's own hash may be named.
    let same = KeyslotOptions {
        af_hash: Some(Hash::Sha256),
        pbkdf: PbkdfOptions { hash: Some(Hash::Sha256), kind: Some(PbkdfKind::Pbkdf2), ..forced(1000) },
        ..fast()
    };
    assert_eq!(volume.add_key(&device, Credential::Passphrase(&one, None), &pass("two"), &same), Ok(1));
    for new in [
        Relabel { label: Some("x"), ..Relabel::default() },
        Relabel { subsystem: Some("x"), ..Relabel::default() },
    ] {
        assert_eq!(volume.relabel(&device, &new), Err(ChangeError::NotInFormat));
    }
}

#[test]
fn iterations_salts_and_uuid_are_those_of_the_header() {
    let device = FaultDevice::zeroed(4 << 20);
    let keyslot = KeyslotOptions {
        pbkdf: PbkdfOptions { forced_iterations: Some(1234), ..PbkdfOptions::default() },
        slot: Some(3),
        ..KeyslotOptions::default()
    };
    let uuid = String::from("01234567-89ab-4def-8123-456789abcdef");
    let options = FormatOptions { keyslot, uuid: Some(uuid.clone()), ..small_options() };
    let mut volume = luks1::format(Devices::together(&device), &pass("one"), &options).expect("formats");
    assert_eq!(volume, Luks1::read(&device).expect("reads"));
    let header = Header::parse(&device.image()).expect("a header");
    let slot = header.slot(3).expect("a keyslot");
    assert_eq!((slot.iterations, header.digest_iterations(), header.uuid()), (1234, 1000, uuid.as_str()));
    let info = volume.info();
    let hexadecimal = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    assert_eq!(info.keyslots[0].kdf.as_ref().expect("a kdf").salt, hexadecimal(&slot.salt));
    assert_eq!(info.digests[0].salt.as_ref(), Some(&hexadecimal(header.digest_salt())));
    assert_eq!(info.digests[0].digest.as_ref(), Some(&hexadecimal(header.digest())));
    assert_eq!((info.keyslots_size, info.metadata_size), (AREAS - 4096, 592));
    assert_eq!(info.keyslots.iter().map(|keyslot| keyslot.id).collect::<Vec<_>>(), [3]);
    assert_eq!(opens(&device, "one"), Ok(3));
    volume.set_uuid(&device, "11234567-89ab-4def-8123-456789abcdef").expect("sets");
    assert_eq!(Luks1::read(&device).expect("reads").uuid(), "11234567-89ab-4def-8123-456789abcdef");

    // Without a number forced, the clock decides, and never less than the least.
    let quick = PbkdfOptions { time: core::time::Duration::from_millis(1), ..PbkdfOptions::default() };
    let keyslot = KeyslotOptions { pbkdf: quick, ..KeyslotOptions::default() };
    luks1::format(Devices::together(&device), &pass("one"), &FormatOptions { keyslot, ..small_options() })
        .expect("formats");
    let header = Header::parse(&device.image()).expect("a header");
    assert!(header.slot(0).expect("a keyslot").iterations >= 1000 && header.digest_iterations() >= 1000);
}

#[test]
fn nothing_that_is_drawn_is_drawn_twice() {
    let mut drawn: Vec<Vec<u8>> = Vec::new();
    for _ in 0..2 {
        let device = FaultDevice::new(vec![0x5a; 4 << 20]);
        let mut volume =
            luks1::format(Devices::together(&device), &pass("one"), &small_options()).expect("formats");
        let one = pass("one");
        volume.add_key(&device, Credential::Passphrase(&one, None), &one, &fast()).expect("adds");
        let image = device.image();
        let header = Header::parse(&image).expect("a header");
        drawn.extend([
            header.digest_salt().to_vec(),
            header.digest().to_vec(),
            header.uuid().as_bytes().to_vec(),
        ]);
        drawn.extend((0..2).map(|slot| header.slot(slot).expect("a keyslot").salt.to_vec()));
        // Areas in use and noise in the others: no sector is one byte over and over.
        for slot in 0..8 {
            let (offset, len) = header.area(slot).expect("an area");
            let area = &image[offset as usize..][..len];
            assert!(!area.chunks(512).any(|sector| sector.iter().all(|byte| *byte == sector[0])), "{slot}");
            drawn.push(area[..64].to_vec());
        }
        assert_eq!(image[592..4096], [0; 3504], "between header and areas");
        assert!(image[1 << 20..].iter().all(|byte| *byte == 0x5a), "the data is left as it is");
        drawn.push(volume.volume_key(&device, &one, None).expect("opens").1.expose().to_vec());
        volume.erase(&device).expect("erases");
        drawn.extend(
            (0..8)
                .map(|slot| device.image()[header.area(slot).expect("an area").0 as usize..][..64].to_vec()),
        );
    }
    let count = drawn.len();
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), count);
}

#[test]
fn the_failure_of_a_keyslot_is_told_by_name() {
    let named = |at: usize, text: &str| {
        let mut image = small().0.image();
        image[at..at + 32].fill(0);
        image[at..at + text.len()].copy_from_slice(text.as_bytes());
        let device = FaultDevice::new(image);
        Luks1::read(&device)
            .expect("a header")
            .test_passphrase(&device, &pass("one"), None)
            .expect_err("refused")
    };
    assert_eq!(named(40, "xts-plain64"), UnlockError::Key(KeyError::Length { len: 16 }));
    assert_eq!(named(72, "md2"), UnlockError::UnsupportedHash);
    // A keyslot that would take for ever does not keep others from opening; nor does one without its area.
    let (device, volume) = small_with(&["one", "two"]);
    let key = volume.volume_key(&device, &pass("two"), None).expect("opens").1;
    let slow = || atrest_kdf::WorkLimit { time: core::time::Duration::from_secs(2), ..Default::default() };
    device.write_at(208 + 4, &u32::MAX.to_be_bytes()).expect("iterations of keyslot 0");
    let volume = Luks1::read(&device).expect("a header");
    assert_eq!(slow().during(|| volume.test_passphrase(&device, &pass("two"), None)), Ok(1));
    let refused = slow().during(|| volume.test_passphrase(&device, &pass("one"), None));
    assert!(matches!(refused, Err(UnlockError::Kdf(_))), "{refused:?}");
    assert_eq!(
        volume.unlock_with_key(Devices::together(&device), &key, &UnlockOptions::default()).map(drop),
        Ok(())
    );
    let other = VolumeKey::copy_from(&[7; 16]);
    let refused = volume.unlock_with_key(Devices::together(&device), &other, &UnlockOptions::default());
    assert_eq!(refused.map(drop), Err(UnlockError::WrongVolumeKey));
}
