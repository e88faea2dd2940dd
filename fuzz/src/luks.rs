//! LUKS headers, metadata, backups and keyslots.

use std::sync::{Arc, OnceLock};

use atrest_cipher::{AesXts, KeyPlace};
use atrest_device::BlockDevice;
use atrest_format::integrity::Superblock;
use atrest_format::luks2::{
    BinaryHeader, Checksum, CopyKind, DigestKind, Header, HeaderPolicy, KEYRING_TOKEN, Kdf, KeyslotKind,
    MAX_BYTES, Metadata, Pin, Priority as Order, SegmentSize, keyring_description,
};
use atrest_kdf::fixed::Sha256;
use atrest_kdf::{Hash, digest};
use atrest_keyslot::luks1::{self as slots, Header as Luks1Header, HeaderParts};
use atrest_keyslot::{af, area};
use atrest_secret::{Random as Source, RandomError};
use atrest_volume::{
    Devices, FormatOptions, KeyslotOptions, LockedVolume, Passphrase, PbkdfKind, PbkdfOptions,
    RestoreOptions, UnlockOptions, VolumeFormat, header_backup, header_restore as restore, repair,
};

use crate::{Image, Reader};

/// Iterations that one input may cost. Headers may rightly ask for more; then the keyslot is not tried.
const MAX_ITERATIONS: u32 = 2000;
/// Large enough for every layout in the seeds.
const DEVICE: u64 = 64 << 20;

/// Whoever fuzzes knows the passphrase of the seeds.
pub(crate) fn passphrase() -> Passphrase {
    Passphrase::copy_from(b"fuzz")
}

/// A LUKS1 header: parsed, encoded, repaired, used on a device. What follows the header lies from byte 4096 on.
pub fn luks1_header(data: &[u8]) {
    let _ = slots::repair(data);
    let parsed = Luks1Header::parse(data);
    let mut cheap = true;
    if let Ok(header) = &parsed {
        assert_eq!(header.encode()[..], data[..592], "encoding changes a header");
        let again = Luks1Header::parse(&header.encode()).expect("what was parsed parses again");
        assert_eq!(again.encode(), header.encode());
        for len in [0, 5, 6, 8, 208, 591] {
            assert!(Luks1Header::parse(&data[..len]).is_err(), "a header of {len} bytes");
        }
        cheap = header.digest_iterations() <= MAX_ITERATIONS;
        for (number, slot) in header.slots() {
            cheap &= slot.iterations <= MAX_ITERATIONS;
            let _ = (header.area(number), header.is_in_use(number));
        }
        let _ = (header.cipher(), header.hash(), header.areas_end());
    }
    let (head, areas) = data.split_at(data.len().min(592));
    let image = Image::new(DEVICE, head);
    let _ = image.write_at(4096, &areas[..areas.len().min(1 << 20)]);
    image.reset_writes();
    use_volume(&image, cheap);
    if let (Ok(header), true) = (&parsed, cheap) {
        chip_agrees(&image, header);
    }
    let _ = repair(&*image);
}

/// A chip opens what the desk opens, with the same key, and refuses the rest for the same reason; if it is a chip's cipher at all.
fn chip_agrees(image: &Image, header: &Luks1Header) {
    if slots::check_for_chip::<Sha256>(header).is_err() {
        return;
    }
    let mut place = KeyPlace::<AesXts>::empty();
    let mut means =
        slots::ChipUnlock { cipher: &mut place, most_iterations: MAX_ITERATIONS, between: |_| {} };
    for number in 0..slots::SLOTS {
        let (offset, len) = header.area(number).expect("eight keyslots");
        // Others are refused on both sides, where the device is known.
        if offset + len as u64 > image.size() {
            continue;
        }
        let mut area = vec![0; len];
        image.read_at(offset, &mut area).expect("inside");
        let mut key = vec![0; header.key_len()];
        let stripes = header.slot(number).map_or(0, |slot| slot.stripes);
        let desk = if header.is_in_use(number) && stripes > slots::STRIPES {
            Err(slots::SlotError::TooManyStripes { stripes, most: slots::STRIPES })
        } else {
            slots::open(header, number, b"fuzz", &mut area, &mut key)
        };

        let mut chip_key = slots::ChipKey::empty();
        let mut sector = Box::new([0; 512]);
        let read = |number: u64, sector: &mut Box<[u8; 512]>| image.read_at(number * 512, &mut sector[..]);
        let chip = means.open::<Sha256, _, _>(header, number, b"fuzz", &mut sector, read, &mut chip_key);
        assert_eq!(chip, desk.clone().map_err(slots::StreamError::Slot), "keyslot {number}");
        assert_eq!(chip_key.expose(), if desk.is_ok() { &key[..] } else { &[] }, "keyslot {number}");
        assert!(sector.iter().all(|&byte| byte == 0), "not wiped");
    }
}

/// What a person does with a volume that someone gave them.
fn use_volume(image: &Arc<Image>, cheap: bool) {
    let Ok(volume) = LockedVolume::read(&**image) else { return };
    let _ = volume.info();
    let _ = volume.uuid();
    if cheap {
        let devices = Devices::together(&**image);
        let for_the_kernel = UnlockOptions { keep_key: true, ..UnlockOptions::default() };
        let _ = volume.unlock(devices, &passphrase(), &for_the_kernel);
        if let Ok(volume) = volume.unlock(devices, &passphrase(), &UnlockOptions::default()) {
            let end = volume.segments().iter().map(|segment| segment.start + segment.len).max();
            assert_eq!(end.unwrap_or(0), volume.size());
        }
    }
    if let Ok(backup) = header_backup(&**image) {
        assert!(backup.len() as u64 <= image.size() + 4096, "a backup of {} bytes", backup.len());
    }
    assert_eq!(image.writes(), 0, "reading has written");
}

/// One copy of a LUKS2 header: the binary part, then JSON. The checksum is made right, so that the rest is looked at.
pub fn luks2_header(data: &[u8]) {
    let _ = Header::parse(data, CopyKind::Primary, 0);
    // The one of dm-integrity, which authenticated volumes have beside their header.
    if let Ok(superblock) = Superblock::parse(&[b"integrt\0", data].concat()) {
        assert_eq!(superblock.provided % u64::from(superblock.data_unit), 0);
        assert!((512..=4096).contains(&superblock.data_unit));
    }
    let mut bytes = data.to_vec();
    let size = data.get(8..16).map_or(0, |field| u64::from_be_bytes(field.try_into().expect("8 bytes")));
    bytes.resize(if (16384..=65536).contains(&size) { size as usize } else { 16384 }, 0);
    seal(&mut bytes);
    for (copy, offset) in [(CopyKind::Primary, 0), (CopyKind::Secondary, size)] {
        let Ok(header) = Header::parse(&bytes, copy, offset) else { continue };
        let encoded = header.encode(copy, &[7; 64]).expect("it fitted before");
        let again = Header::parse(&encoded, copy, offset).expect("what was parsed parses again");
        assert_eq!(again.binary, header.binary);
        assert_eq!(again.metadata.to_json(), header.metadata.to_json());
        check_pin(&header, &again);
        for len in [0, 5, 511, 512, 4095, 4096, encoded.len() - 1] {
            assert!(Header::parse(&encoded[..len], copy, offset).is_err(), "a copy of {len} bytes");
        }
    }
}

/// What a pin authenticates is the same of the same header, and its policy reads as it is written.
fn check_pin(header: &Header, again: &Header) {
    assert_eq!(again.fields(None), header.fields(None));
    let policy = HeaderPolicy::of(header);
    assert_eq!(HeaderPolicy::parse(&policy.to_json()), Ok(policy.clone()));
    let _ = policy.check(again);
    if let Ok(Some((id, pin))) = Pin::of(&header.metadata) {
        assert_eq!(pin.authenticated(header, id), pin.authenticated(again, id));
        let _ = pin.policy.check(header);
        let written = header.metadata.with_token(id, &pin.to_json());
        if let Ok(written) = written {
            assert_eq!(Pin::of(&written), Ok(Some((id, pin))));
        }
    }
}

/// Makes the checksum of a header copy right.
fn seal(copy: &mut [u8]) {
    let name = copy[72..104].split(|&byte| byte == 0).next().unwrap_or(&[]);
    let Some(hash) = core::str::from_utf8(name).ok().and_then(Hash::from_name) else { return };
    copy[448..512].fill(0);
    let mut sum = [0; 64];
    let len = digest(hash, &[copy], &mut sum).min(64);
    copy[448..448 + len].copy_from_slice(&sum[..len]);
}

/// The JSON area that holds a text: the smallest of the permitted sizes.
fn json_area(text: &[u8]) -> Option<Vec<u8>> {
    let size = [16384, 32768, 65536].into_iter().map(|size| size - 4096).find(|size| text.len() < *size)?;
    let mut area = text.to_vec();
    area.resize(size, 0);
    Some(area)
}

/// LUKS2 metadata: what is accepted is the same after printing, and every change gives metadata that is accepted.
pub fn luks2_json(data: &[u8]) {
    let Some(area) = json_area(data) else { return };
    let Ok(metadata) = Metadata::parse(&area) else { return };
    check_metadata(&metadata);
    let _ = (metadata.data_offset(), metadata.keyslots_start(), metadata.keyslots_end());
    let _ = (metadata.free_keyslot(), metadata.free_digest(), metadata.free_area(258_048));
    if let Ok(state) = metadata.reencryption() {
        let _ = state.verified_metadata();
    }
    for token in metadata.tokens() {
        // What names a key has it as text, whatever else the token has.
        let text = metadata.token_text(token.id).expect("a token has its text");
        if let Some(description) = keyring_description(&text) {
            assert!(token.kind == KEYRING_TOKEN && !description.is_empty(), "{text}");
        }
    }
    let ids: Vec<u32> = metadata.keyslots().iter().map(|keyslot| keyslot.id).take(3).collect();
    let mut changed = vec![metadata.without_keyslots(&ids)];
    for &id in &ids {
        changed.push(metadata.without_keyslot(id));
        changed.push(metadata.with_priority(id, Order::Prefer));
        if let Some(keyslot) = metadata.keyslot(id) {
            let mut moved = keyslot.clone();
            moved.id = metadata.free_keyslot().unwrap_or(id);
            changed.push(metadata.with_keyslot_replaced(id, &moved));
        }
    }
    let token = r#"{"type":"fuzz","keyslots":[],"x": 1.0e2 }"#;
    let id = metadata.free_token().unwrap_or(0);
    changed.push(metadata.with_token(id, token));
    if let Ok(with) = metadata.with_token(id, token) {
        assert_eq!(with.token_text(id).as_deref(), Some(token), "a token's text has changed");
        changed.push(with.without_token(id));
    }
    changed.push(metadata.with_token(id, core::str::from_utf8(data).unwrap_or("")));
    for metadata in changed.into_iter().flatten() {
        check_metadata(&metadata);
    }
}

fn check_metadata(metadata: &Metadata) {
    let text = metadata.to_json();
    let mut area = text.clone().into_bytes();
    let size = metadata.config().json_size as usize;
    assert!(area.len() < size.min(4 << 20), "metadata of {} bytes for an area of {size}", area.len());
    area.resize(size, 0);
    let again = Metadata::parse(&area).expect("what was accepted is accepted again");
    assert_eq!(again.to_json(), text);
    // Whatever is computed from offsets and sizes fits in 64 bits, three of them added up as well.
    for keyslot in metadata.keyslots() {
        let area = &keyslot.area;
        assert_eq!(area.offset.checked_add(area.size), Some(area.end()));
        assert!(area.end() <= metadata.keyslots_end());
    }
    for segment in metadata.segments() {
        let size = match segment.size {
            SegmentSize::Fixed(size) => size,
            SegmentSize::Dynamic => 0,
        };
        assert!(segment.offset <= MAX_BYTES && size <= MAX_BYTES, "segment {}", segment.id);
    }
    let mut areas: Vec<(u64, u64)> =
        metadata.keyslots().iter().map(|keyslot| (keyslot.area.offset, keyslot.area.size)).collect();
    areas.sort_unstable();
    assert!(areas.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "areas overlap");
    assert!(areas.iter().all(|(start, len)| start + len <= metadata.keyslots_end()));
}

/// A whole LUKS2 volume around a JSON text: read, unlocked, changed, repaired.
pub fn luks2_volume(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let Some(area) = json_area(data) else { return };
    let binary = BinaryHeader {
        header_size: area.len() as u64 + 4096,
        sequence: 3,
        label: "label".into(),
        subsystem: "".into(),
        uuid: "01234567-89ab-4def-8123-456789abcdef".into(),
        checksum: Checksum::Sha256,
    };
    let Ok(first) = binary.encode(CopyKind::Primary, &[1; 64], text) else { return };
    let Ok(second) = binary.encode(CopyKind::Secondary, &[2; 64], text) else { return };
    let image = Image::new(DEVICE, &first);
    let _ = image.write_at(binary.header_size, &second);
    image.reset_writes();
    let cheap = Metadata::parse(&area).is_ok_and(|metadata| is_cheap(&metadata));
    use_volume(&image, cheap);
    if let Ok(backup) = header_backup(&*image)
        && backup.len() <= 2 << 20
    {
        let other = Image::new(DEVICE, &[]);
        let restored = restore(&*other, &backup, RestoreOptions::default());
        assert!(restored.is_err() || LockedVolume::read(&*other).is_ok(), "what was restored can't be read");
    }
    let Ok(mut volume) = LockedVolume::read(&*image) else { return };
    let Some(luks2) = volume.luks2_mut().ok() else { return };
    let slots: Vec<u32> = luks2.metadata().keyslots().iter().map(|keyslot| keyslot.id).collect();
    let _ = luks2.set_label(&*image, Some("new"), None);
    for slot in slots.into_iter().take(1) {
        let _ = luks2.kill_slot(&*image, slot, true);
    }
    // Wiping more than the seeds have only takes longer.
    if luks2.header_size() <= 2 << 20 {
        let _ = luks2.erase(&*image);
    }
    assert!(LockedVolume::read(&*image).is_ok(), "changes have made the header unreadable");
    // One copy is lost; the other must bring it back.
    let _ = image.write_at(0, &[0; 512]);
    let mut volume = LockedVolume::read(&*image).expect("the second copy is good");
    volume.repair(&*image).expect("one good copy is enough");
    assert!(LockedVolume::read(&*image).is_ok());
}

pub(crate) fn is_cheap(metadata: &Metadata) -> bool {
    let slots = metadata.keyslots().iter().all(|keyslot| match &keyslot.kind {
        KeyslotKind::Luks2 { kdf: Kdf::Pbkdf2 { iterations, .. }, .. } => *iterations <= MAX_ITERATIONS,
        KeyslotKind::Luks2 { kdf: Kdf::Argon2i(cost) | Kdf::Argon2id(cost), .. } => {
            cost.memory_kib <= 64 && cost.time <= 8 && cost.lanes <= 8
        }
        _ => true,
    });
    let digests = metadata.digests().iter().all(|digest| match &digest.kind {
        DigestKind::Pbkdf2 { iterations, .. } => *iterations <= MAX_ITERATIONS,
        _ => true,
    });
    slots && digests && metadata.keyslots().len() <= 4
}

/// The start of a volume and a backup of its header, made once.
fn volume_and_backup(format: VolumeFormat) -> &'static (Vec<u8>, Vec<u8>) {
    static MADE: [OnceLock<(Vec<u8>, Vec<u8>)>; 2] = [OnceLock::new(), OnceLock::new()];
    MADE[usize::from(format == VolumeFormat::Luks2)].get_or_init(|| {
        let image = Image::new(4 << 20, &[]);
        let kind = Some(PbkdfKind::Pbkdf2);
        let pbkdf = PbkdfOptions { kind, forced_iterations: Some(1000), ..PbkdfOptions::default() };
        let options = FormatOptions {
            key_len: Some(32),
            metadata_size: (format == VolumeFormat::Luks2).then_some(16384),
            keyslots_size: (format == VolumeFormat::Luks2).then_some(131_072),
            data_offset: Some(3 << 20),
            keyslot: KeyslotOptions { pbkdf, ..KeyslotOptions::default() },
            ..FormatOptions::default()
        };
        atrest_volume::format(Devices::together(&*image), format, &passphrase(), &options).expect("it fits");
        let backup = header_backup(&*image).expect("just made");
        let mut bytes = vec![0; backup.len()];
        image.read_at(0, &mut bytes).expect("inside");
        (bytes, backup)
    })
}

/// A header backup with some bytes changed: refused before anything is written, or restored to something readable.
pub fn header_restore(data: &[u8]) {
    let mut reader = Reader(data);
    let flags = reader.u8();
    let format = if flags & 1 == 0 { VolumeFormat::Luks2 } else { VolumeFormat::Luks1 };
    let (volume, backup) = volume_and_backup(format);
    let mut backup = backup.clone();
    backup.truncate(match flags & 2 {
        0 => backup.len(),
        _ => reader.u32() as usize % (backup.len() + 1),
    });
    while !reader.0.is_empty() && !backup.is_empty() {
        // Mostly the header copies; three bytes reach everywhere.
        let at =
            if flags & 4 == 0 { usize::from(reader.u16()) } else { reader.u32() as usize } % backup.len();
        let len = usize::from(reader.u8() % 32 + 1).min(backup.len() - at);
        let new = reader.bytes(len);
        backup[at..at + new.len()].copy_from_slice(new);
    }
    if format == VolumeFormat::Luks2 && flags & 8 != 0 && backup.len() >= 32768 {
        let (first, rest) = backup.split_at_mut(16384);
        seal(first);
        seal(&mut rest[..16384]);
    }
    let image = Image::new(4 << 20, if flags & 16 == 0 { volume } else { &[] });
    let options = RestoreOptions { replace_other: flags & 32 != 0, ..RestoreOptions::default() };
    match restore(&*image, &backup, options) {
        Ok(()) => restored(&image, &backup, if flags & 16 == 0 { volume } else { &[] }, options),
        Err(_) => assert_eq!(image.writes(), 0, "a refused backup was written in part"),
    }
}

/// A backup that was accepted for a device with these contents: all of it is there now, and no part of it would have done.
fn restored(image: &Image, backup: &[u8], contents: &[u8], options: RestoreOptions) {
    drop(LockedVolume::read(image).expect("what was restored can be read"));
    let again = header_backup(image).expect("what was restored can be backed up");
    let (areas, needs) = match Luks1Header::parse(backup) {
        Ok(header) => {
            let areas = (0..slots::SLOTS).filter_map(|number| header.area(number));
            (areas.map(|(at, len)| at as usize..at as usize + len).collect(), header.areas_end() as usize)
        }
        Err(_) => {
            let header_size = u64::from_be_bytes(again[8..16].try_into().expect("8 bytes")) as usize;
            let keyslots = 2 * header_size..again.len();
            (vec![keyslots], again.len())
        }
    };
    for area in areas {
        assert!(again.get(area.clone()) == backup.get(area.clone()), "other keyslots at {area:?}");
    }
    for len in [0, 1, 591, 592, 4096, needs / 2, needs - 1].into_iter().filter(|len| *len < needs) {
        let image = Image::new(4 << 20, contents);
        assert!(restore(&*image, &backup[..len], options).is_err(), "{len} of {needs} bytes are restored");
        assert_eq!(image.writes(), 0, "a backup that is cut off was written in part");
    }
}

/// Keyslot material: the splitter, areas of any length, and a LUKS1 keyslot with any contents.
pub fn keyslot(data: &[u8]) {
    const HASHES: [Hash; 4] = [Hash::Sha1, Hash::Sha256, Hash::Sha512, Hash::Ripemd160];
    const SPECS: [&str; 6] = [
        "aes-xts-plain64",
        "aes-cbc-essiv:sha256",
        "serpent-xts-plain",
        "aes-lrw-benbi",
        "aes-ecb",
        "cipher_null-ecb",
    ];
    let mut reader = Reader(data);
    let hash = HASHES[usize::from(reader.u8()) % HASHES.len()];
    let spec = SPECS[usize::from(reader.u8()) % SPECS.len()].parse().expect("a valid specification");
    let (key_len, stripes) = (usize::from(reader.u8()), u32::from(reader.u16() % 64));
    let key = reader.bytes(key_len).to_vec();
    let mut split = vec![0; key.len() * stripes as usize + usize::from(reader.u8())];
    if af::split(hash, &key, stripes, &mut Counter(0), &mut split).is_ok() {
        let mut merged = vec![0; key.len()];
        af::merge(hash, &split, stripes, &mut merged).expect("what was split merges");
        assert_eq!(merged, key);
        let needs = key.len() * stripes as usize;
        for len in [0, needs / 2, needs - 1] {
            let place = &mut split[..len];
            assert!(af::merge(hash, place, stripes, &mut merged).is_err(), "{len} of {needs} bytes merge");
            assert!(
                af::split(hash, &key, stripes, &mut Counter(0), place).is_err(),
                "split into {len} bytes"
            );
        }
    }
    let _ = af::split_len(reader.u32() as usize, reader.u32());
    let mut contents = reader.0.to_vec();
    let plain = contents.clone();
    if area::encrypt(&spec, &key, &mut contents).is_ok() {
        area::decrypt(&spec, &key, &mut contents).expect("the same key and length");
        assert_eq!(contents, plain);
        if let Some((_, cut)) = contents.split_last_mut() {
            assert!(area::encrypt(&spec, &key, cut).is_err(), "an area that is cut off is encrypted");
            assert!(area::decrypt(&spec, &key, cut).is_err(), "an area that is cut off is decrypted");
        }
        assert_eq!(contents, plain, "what is refused is left as it is");
    }
    let mut merged = vec![0; key.len()];
    let _ = af::merge(hash, &contents, stripes, &mut merged);
    let parts = HeaderParts {
        cipher_name: "aes",
        cipher_mode: "xts-plain64",
        hash,
        key_len: key.len(),
        digest: [1; 20],
        digest_salt: [2; 32],
        digest_iterations: 1,
        uuid: "01234567-89ab-4def-8123-456789abcdef",
        data_sector: None,
        alignment: 8,
    };
    let Ok(mut header) = Luks1Header::new(&parts) else { return };
    // Larger areas only take longer.
    if key.len() > 32 {
        return;
    }
    if header.use_slot(0, 1, [3; 32]).is_ok() {
        assert_eq!(Luks1Header::parse(&header.encode()).map(|again| again.encode()), Ok(header.encode()));
        contents.resize(header.area(0).map_or(0, |(_, len)| len.min(1 << 20)), 0);
        let opened = slots::open(&header, 0, b"fuzz", &mut contents, &mut merged);
        assert!(opened.is_err(), "a keyslot without a key opens");
        assert!(merged.iter().all(|&byte| byte == 0) && contents.iter().all(|&byte| byte == 0), "not wiped");
    }
}

/// Not random at all, and the same every time.
struct Counter(u8);

impl Source for Counter {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        for byte in out {
            self.0 = self.0.wrapping_mul(5).wrapping_add(1);
            *byte = self.0;
        }
        Ok(())
    }
}
