//! New volumes, with cryptsetup 2.6.1's defaults.

use core::str::FromStr;

use atrest_cipher::{CipherSpec, Mapper, MapperOptions, TaggedMapper};
use atrest_device::{Cause, DeviceError, LockMode, Media, Operation};
use atrest_format::integrity::{Flags, Layout as TagLayout, NewLayout};
use atrest_format::luks2::{
    AREA_ALIGNMENT, BINARY_SIZE, BinaryHeader, Checksum, Config, HEADER_SIZES, Header, HeaderPair, Integrity,
    Keyslot, MAX_BYTES, MAX_KEYSLOTS, MAX_KEYSLOTS_SIZE, Metadata, Requirement, SegmentKind, SegmentSize,
    area_size,
};
use atrest_format::luks2::{Priority as FormatPriority, Segment as FormatSegment};
use atrest_kdf::Hash;
use atrest_secret::{OsRandom, Random, with_wiped_stack};

use super::keyslot::{self, Plan, Sealed};
use super::{Luks2, media};
use crate::lock::MetadataLock;
use crate::{
    ChangeError, Devices, FormatError, FormatOptions, KeyslotOptions, OptionError, Passphrase, PbkdfKind,
    Priority, TagOptions, VolumeKey, uuid,
};

/// Where the data starts by default, and so how much both header copies and the keyslots area take together.
const DEFAULT_TOTAL: u64 = 16 << 20;
/// Bytes in the key of a sealed volume.
const SEALED_KEY_LEN: usize = 32;
const DEFAULT_CIPHER: &str = "aes-xts-plain64";
/// Bytes that are wiped at a time.
const STEP: usize = 1 << 20;

/// Creates a volume with one keyslot. What was before the data on the header device is overwritten: zeros in the
/// place of old header copies and signatures, random bytes in the keyslots area. Data is left as it is.
///
/// # Errors
/// Fails where [`format`](crate::format()) of all formats does.
pub fn format(
    devices: Devices<'_>,
    passphrase: &Passphrase,
    options: &FormatOptions,
) -> Result<Luks2, FormatError> {
    if devices.header.is_read_only() {
        return Err(DeviceError::new(Operation::Write, 0, 0, Cause::ReadOnly).into());
    }
    let plan = plan(devices, options)?;
    let (header, sealed) = build(&plan, passphrase, options)?;
    let device = devices.header;
    let _lock = MetadataLock::take(device, LockMode::Exclusive)?;
    // The first copy goes first: a half-written volume must not look like the one that was there before.
    device.write_zeroes(0, header.metadata.keyslots_start())?;
    device.flush()?;
    fill_random(device, header.metadata.keyslots_start(), plan.layout.keyslots_size)?;
    if !devices.detached {
        let end = header.total_size();
        // cannot be less: `layout` puts data behind the keyslots area.
        device.write_zeroes(end, plan.layout.data_offset.saturating_sub(end))?;
    }
    device.write_at(sealed.keyslot.area.offset, &sealed.material)?;
    device.flush()?;
    media::write_fresh_pair(device, &header).map_err(|error| match error {
        ChangeError::Device(e) => FormatError::Device(e),
        ChangeError::Random(e) => FormatError::Random(e),
        _ => FormatError::Header,
    })?;
    Ok(Luks2 { pair: HeaderPair { header, primary: None, secondary: None }, pin: None, expected: None })
}

/// Everything that is decided before anything is derived or written.
pub(super) struct CreatePlan {
    encryption: String,
    integrity: Option<Integrity>,
    key: VolumeKey,
    data_unit: u32,
    hash: Hash,
    layout: Layout,
    area_cipher: CipherSpec,
    area_key_len: usize,
    slot: u32,
    uuid: String,
    sealed: Option<[u8; 16]>,
}

impl CreatePlan {
    /// The volume key.
    pub(super) fn key(&self) -> &VolumeKey {
        &self.key
    }
}

#[derive(Clone, Copy)]
struct Layout {
    header_size: u64,
    keyslots_size: u64,
    data_offset: u64,
}

pub(super) fn plan(devices: Devices<'_>, options: &FormatOptions) -> Result<CreatePlan, FormatError> {
    let (data_cipher, key_len) = data_cipher(options)?;
    for text in [&options.label, &options.subsystem].into_iter().flatten() {
        check_label(text)?;
    }
    let uuid = match &options.uuid {
        Some(uuid) => {
            uuid::check(uuid)?;
            uuid.to_ascii_lowercase()
        }
        None => uuid::random()?,
    };
    // intended: the first keyslot unless another one is asked for.
    let slot = options.keyslot.slot.unwrap_or(0);
    if slot >= MAX_KEYSLOTS {
        return Err(OptionError::SlotNumber { slot, count: MAX_KEYSLOTS }.into());
    }
    let data_unit = data_unit(devices.data, options)?;
    let layout = layout(devices, options, data_unit, key_len)?;
    let key = volume_key(options, key_len)?;
    // Refuses weak keys (equal XTS halves) before anything is encrypted with them.
    let unit = MapperOptions { data_unit: data_unit as usize, ..MapperOptions::default() };
    let (area_cipher, area_key_len) = match &data_cipher {
        DataCipher::Plain(cipher) => {
            with_wiped_stack(|| Mapper::new(cipher, key.expose(), &unit).map(drop))
                .map_err(FormatError::Key)?;
            match options.sealed {
                None => area_cipher(&options.keyslot, Some(cipher), key_len)?,
                // What seals is no cipher for an area.
                Some(_) => area_cipher(&options.keyslot, None, 0)?,
            }
        }
        DataCipher::Tagged(tags) => {
            let made = || TaggedMapper::new(tags.spec(), key.expose(), tags.mac_key_len(), &unit).map(drop);
            with_wiped_stack(made).map_err(FormatError::Key)?;
            room_for_tags(devices.data, layout.data_offset, (data_unit, tags.spec().tag_len()))?;
            // As cryptsetup has it: the usual cipher with its longest key.
            area_cipher(&options.keyslot, None, 0)?
        }
    };
    let hash = options.hash.unwrap_or(Hash::Sha256);
    let (encryption, integrity) = data_cipher.into_names();
    Ok(CreatePlan {
        encryption,
        integrity,
        key,
        data_unit,
        hash,
        layout,
        area_cipher,
        area_key_len,
        slot,
        uuid,
        sealed: options.sealed,
    })
}

/// What encrypts the data.
enum DataCipher {
    Plain(CipherSpec),
    Tagged(TagOptions),
}

impl DataCipher {
    /// As a segment has it.
    fn into_names(self) -> (String, Option<Integrity>) {
        let none = || String::from("none");
        match self {
            Self::Plain(cipher) => (cipher.to_string(), None),
            Self::Tagged(tags) => {
                let integrity = Integrity {
                    key_size: tags.mac_key_len().and_then(|len| u32::try_from(len).ok()),
                    kind: tags.integrity,
                    journal_encryption: none(),
                    journal_integrity: none(),
                };
                (tags.encryption, Some(integrity))
            }
        }
    }
}

/// The cipher of the data, and the bytes of the volume key.
fn data_cipher(options: &FormatOptions) -> Result<(DataCipher, usize), FormatError> {
    if let Some(tags) = &options.tags {
        let key_len = tags.key_len(options.key_len);
        if !tags.spec().key_len_is_valid(key_len, tags.mac_key_len()) {
            // intended: of the cipher's own key, which is what was asked for.
            let bytes = options.key_len.unwrap_or(key_len);
            return Err(OptionError::KeyLength { bytes, takes: tags.spec().cipher_key_lens() }.into());
        }
        return Ok((DataCipher::Tagged(tags.clone()), key_len));
    }
    let cipher = match &options.cipher {
        Some(cipher) => cipher.clone(),
        None => CipherSpec::from_str(DEFAULT_CIPHER).map_err(OptionError::UnsupportedCipher)?,
    };
    if cipher.is_null() {
        return Err(OptionError::NullCipher.into());
    }
    if cipher.is_single_snapshot() {
        return Err(OptionError::SingleSnapshot.into());
    }
    if options.sealed.is_some() {
        return Ok((DataCipher::Plain(cipher), SEALED_KEY_LEN));
    }
    let key_len = options.key_len.or(options.volume_key.as_ref().map(VolumeKey::len));
    let key_len = key_len.unwrap_or_else(|| default_key_len(&cipher));
    if !cipher.key_len_is_valid(key_len) {
        return Err(OptionError::KeyLength { bytes: key_len, takes: cipher.key_lens() }.into());
    }
    Ok((DataCipher::Plain(cipher), key_len))
}

/// Fails if dm-integrity's layout leaves no room for data.
fn room_for_tags(
    data: &dyn Media,
    offset: u64,
    (data_unit, tag_len): (u32, usize),
) -> Result<(), FormatError> {
    // intended: nothing is there behind the end.
    let size = data.size().saturating_sub(offset);
    let new = NewLayout {
        data_unit,
        // cannot fail: tags of hashes and nonces have at most 64 and 32 bytes.
        tag_len: u16::try_from(tag_len).unwrap_or(u16::MAX),
        interleave: 0,
        journal: None,
        flags: Flags { fixed_padding: true, ..Flags::default() },
        salt: [0; 16],
        size,
        data_size: None,
    };
    match TagLayout::create(&new) {
        Ok(_) => Ok(()),
        Err(_) => Err(OptionError::NoRoomForTags { has: size }.into()),
    }
}

fn volume_key(options: &FormatOptions, key_len: usize) -> Result<VolumeKey, FormatError> {
    match &options.volume_key {
        Some(key) if key.len() != key_len => {
            Err(OptionError::VolumeKeyLength { has: key.len(), needs: key_len }.into())
        }
        Some(key) if key.is_zeros() => Err(OptionError::ZeroVolumeKey.into()),
        Some(key) => Ok(VolumeKey::copy_from(key.expose())),
        None => Ok(VolumeKey::generate(key_len, &mut OsRandom)?),
    }
}

fn data_unit(data: &dyn Media, options: &FormatOptions) -> Result<u32, FormatError> {
    let geometry = data.geometry();
    let chosen = match options.data_unit {
        Some(unit) => unit,
        // Like cryptsetup: 4096 where the device writes such blocks, begins with one and is made of whole ones.
        None if geometry.physical_block >= 4096
            && geometry.alignment_offset == 0
            && data.size().is_multiple_of(4096) =>
        {
            4096
        }
        None => 512,
    };
    match matches!(chosen, 512 | 1024 | 2048 | 4096) {
        true => Ok(chosen),
        false => Err(OptionError::DataUnit { bytes: chosen }.into()),
    }
}

fn layout(
    devices: Devices<'_>,
    options: &FormatOptions,
    data_unit: u32,
    key_len: usize,
) -> Result<Layout, FormatError> {
    let header_size = options.metadata_size.unwrap_or(0x4000);
    if !HEADER_SIZES.contains(&header_size) {
        return Err(OptionError::MetadataSize { bytes: header_size }.into());
    }
    // cannot overflow: one of HEADER_SIZES.
    let start = header_size.saturating_mul(2);
    // cannot fail: a cipher takes keys of this length.
    let least = area_size(u32::try_from(key_len).unwrap_or(u32::MAX));
    if let Some(bytes) = options.data_offset
        && bytes != 0
        // cannot overflow: both are a few MiB.
        && (!bytes.is_multiple_of(AREA_ALIGNMENT) || bytes < start.saturating_add(least))
    {
        // cannot overflow: both are a few MiB.
        return Err(OptionError::DataOffset { bytes, header: start.saturating_add(least) }.into());
    }
    let before_data =
        // cannot be less: compared above.
        options.data_offset.filter(|bytes| *bytes != 0).map(|bytes| bytes.saturating_sub(start));
    let keyslots_size = match (options.keyslots_size, before_data) {
        (Some(bytes), _)
            if !bytes.is_multiple_of(AREA_ALIGNMENT) || bytes > MAX_KEYSLOTS_SIZE || bytes < least =>
        {
            return Err(OptionError::KeyslotsSize { bytes }.into());
        }
        (Some(bytes), Some(room)) if bytes > room => {
            return Err(OptionError::KeyslotsSize { bytes }.into());
        }
        (Some(bytes), _) => bytes,
        (None, Some(room)) => room.min(MAX_KEYSLOTS_SIZE),
        (None, None) => {
            // intended: no room on a device that is smaller.
            let room = devices.header.size().saturating_sub(start);
            let whole = room & !(AREA_ALIGNMENT - 1);
            // cannot be less: both header copies take 8 MiB at most.
            let wanted = DEFAULT_TOTAL.saturating_sub(start);
            // A detached header may be on a small device; in front of data nothing is saved by a small area.
            if devices.detached { wanted.min(whole).max(least) } else { wanted }
        }
    };
    // cannot overflow: at most 8 MiB and MAX_KEYSLOTS_SIZE.
    let total = start.saturating_add(keyslots_size);
    let data_offset = match (options.data_offset, devices.detached) {
        (Some(0), false) => return Err(OptionError::DataOffset { bytes: 0, header: total }.into()),
        (Some(bytes), _) => bytes,
        (None, true) => 0,
        (None, false) => aligned(total, devices.data, options, data_unit)?,
    };
    // intended: data that begins behind the end is refused below; until then it is empty.
    let data = devices.data.size().saturating_sub(data_offset);
    devices.check_apart(total, data_offset, data).map_err(OptionError::from)?;
    let too_small = |device: &dyn Media, needs: u64| match device.size() < needs {
        true => Err(FormatError::Option(OptionError::DeviceTooSmall { needs, has: device.size() })),
        false => Ok(()),
    };
    too_small(devices.header, total)?;
    let needs = data_offset.checked_add(data_unit.into());
    // Nor does the format hold a larger offset.
    let needs = needs.filter(|_| data_offset <= MAX_BYTES);
    let far = OptionError::DataOffset { bytes: data_offset, header: total };
    too_small(devices.data, needs.ok_or(far)?)?;
    Ok(Layout { header_size, keyslots_size, data_offset })
}

/// The first place behind the header that is aligned as the device likes it, or as was asked for.
fn aligned(
    total: u64,
    data: &dyn Media,
    options: &FormatOptions,
    data_unit: u32,
) -> Result<u64, FormatError> {
    let geometry = data.geometry();
    let (alignment, first) = match options.data_alignment {
        Some(asked) => (asked, 0),
        None => (geometry.optimal_alignment.into(), geometry.alignment_offset.into()),
    };
    let alignment = alignment.max(AREA_ALIGNMENT);
    let place = total.checked_next_multiple_of(alignment).and_then(|place| place.checked_add(first));
    place
        .filter(|place| place.is_multiple_of(data_unit.into()))
        .ok_or(FormatError::Option(OptionError::DataOffset { bytes: alignment, header: total }))
}

/// Derives, seals and describes. Takes the time that the key derivation takes; writes nothing.
pub(super) fn build(
    plan: &CreatePlan,
    passphrase: &Passphrase,
    options: &FormatOptions,
) -> Result<(Header, Sealed), FormatError> {
    let pbkdf = &options.keyslot.pbkdf;
    let keyslot = Plan {
        id: plan.slot,
        pbkdf: pbkdf.resolve::<FormatError>(PbkdfKind::Argon2id, plan.hash, plan.area_key_len)?,
        area_cipher: plan.area_cipher.clone(),
        area_key_len: plan.area_key_len,
        af_hash: options.keyslot.af_hash.unwrap_or(plan.hash),
        priority: priority(options.keyslot.priority),
    };
    // cannot overflow: one of HEADER_SIZES.
    let start = plan.layout.header_size.saturating_mul(2);
    let sealed = keyslot::seal::<FormatError>(&keyslot, start, &plan.key, passphrase)?;
    let header = header(plan, options, core::slice::from_ref(&sealed.keyslot))?;
    Ok((header, sealed))
}

/// Describes a volume that its key alone opens.
pub(super) fn build_without_keyslot(
    plan: &CreatePlan,
    options: &FormatOptions,
) -> Result<Header, FormatError> {
    header(plan, options, &[])
}

fn header(plan: &CreatePlan, options: &FormatOptions, keyslots: &[Keyslot]) -> Result<Header, FormatError> {
    let forced = options.keyslot.pbkdf.forced_iterations.is_some();
    let slots = keyslots.iter().map(|keyslot| keyslot.id).collect();
    let digest = keyslot::new_digest::<FormatError>(0, &plan.key, plan.hash, forced, slots, vec![0])?;
    let segment = FormatSegment {
        id: 0,
        offset: plan.layout.data_offset,
        size: SegmentSize::Dynamic,
        flags: Vec::new(),
        kind: match plan.sealed {
            Some(format) => SegmentKind::Sealed { format },
            None => SegmentKind::Crypt {
                encryption: plan.encryption.clone(),
                sector_size: plan.data_unit,
                iv_tweak: 0,
                integrity: plan.integrity.clone(),
            },
        },
    };
    let config = Config {
        // cannot be less: one of HEADER_SIZES.
        json_size: plan.layout.header_size.saturating_sub(BINARY_SIZE as u64),
        keyslots_size: plan.layout.keyslots_size,
        flags: Vec::new(),
        requirements: plan.sealed.iter().map(|_| Requirement::Sealed).collect(),
    };
    let metadata = Metadata::create(keyslots, &[segment], &[digest], &config);
    let binary = BinaryHeader {
        header_size: plan.layout.header_size,
        sequence: 1,
        // intended: none is an empty text.
        label: options.label.as_deref().unwrap_or_default().into(),
        // intended: none is an empty text.
        subsystem: options.subsystem.as_deref().unwrap_or_default().into(),
        uuid: plan.uuid.as_str().into(),
        checksum: Checksum::Sha256,
    };
    let metadata = metadata.map_err(|_| FormatError::Header)?;
    Ok(Header { binary, metadata })
}

pub(super) fn fill_random(device: &dyn Media, offset: u64, size: u64) -> Result<(), FormatError> {
    device.check_range(Operation::Write, offset, size)?;
    // cannot overflow: the range lies inside the device.
    let end = offset.saturating_add(size);
    let mut at = offset;
    let mut noise = vec![0; STEP];
    while at < end {
        // cannot be less: the loop ends at `end`.
        let step = usize::try_from(end.saturating_sub(at)).unwrap_or(STEP).min(STEP);
        // cannot be out of range: a step is at most STEP.
        let piece = noise.get_mut(..step).unwrap_or(&mut []);
        OsRandom.fill(piece)?;
        device.write_at(at, piece)?;
        // cannot overflow: not beyond `end`.
        at = at.saturating_add(step as u64);
    }
    Ok(())
}

/// The longest key that cryptsetup would choose: 64 bytes for XTS, otherwise 32, or what the cipher takes.
pub(crate) fn default_key_len(cipher: &CipherSpec) -> usize {
    let lens = cipher.key_lens();
    let len = [64, 32].into_iter().find(|len| lens.contains(len));
    // intended: a key of no bytes is refused for a cipher that has no keys.
    len.or(lens.last().copied()).unwrap_or(0)
}

/// Cipher and key length of a keyslot area: as asked for, or the data's with a key as long as the data's, or the
/// default where that does not fit.
pub(super) fn area_cipher(
    options: &KeyslotOptions,
    data: Option<&CipherSpec>,
    data_key_len: usize,
) -> Result<(CipherSpec, usize), OptionError> {
    let fallback = || CipherSpec::from_str(DEFAULT_CIPHER).map_err(OptionError::UnsupportedCipher);
    let cipher = match (&options.area_cipher, data) {
        (Some(cipher), _) => cipher.clone(),
        (None, Some(data)) if suits_an_area(data) && data.key_len_is_valid(data_key_len) => data.clone(),
        _ => fallback()?,
    };
    if cipher.is_null() {
        return Err(OptionError::NullCipher);
    }
    if cipher.is_single_snapshot() {
        return Err(OptionError::SingleSnapshot);
    }
    let same = options.area_cipher.is_none() && cipher.key_len_is_valid(data_key_len);
    let default = if same { data_key_len } else { default_key_len(&cipher) };
    let key_len = options.area_key_len.unwrap_or(default);
    match cipher.key_len_is_valid(key_len) {
        true => Ok((cipher, key_len)),
        false => Err(OptionError::KeyLength { bytes: key_len, takes: cipher.key_lens() }),
    }
}

/// cryptsetup takes no IV rules of other disk encryptions there.
fn suits_an_area(cipher: &CipherSpec) -> bool {
    !cipher.is_null() && !cipher.is_single_snapshot() && !cipher.has_keyed_iv()
}

/// Labels and subsystems are at most 47 bytes, without zero bytes.
pub(super) fn check_label(text: &str) -> Result<(), OptionError> {
    match text.len() > 47 || text.bytes().any(|byte| byte == 0) {
        true => Err(OptionError::LabelLength { bytes: text.len() }),
        false => Ok(()),
    }
}

pub(super) fn priority(priority: Priority) -> FormatPriority {
    match priority {
        Priority::Ignore => FormatPriority::Ignore,
        Priority::Normal => FormatPriority::Normal,
        Priority::Prefer => FormatPriority::Prefer,
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::FaultDevice;

    use super::*;

    #[test]
    fn a_keyslots_area_has_room_for_a_keyslot_and_not_more_than_128_mib() {
        let device = FaultDevice::zeroed(4 << 20);
        let size = |bytes: u64| {
            let options = FormatOptions { keyslots_size: Some(bytes), ..FormatOptions::default() };
            match layout(Devices::together(&device), &options, 512, 64) {
                Ok(layout) => Ok(layout.keyslots_size),
                Err(FormatError::Option(error)) => Err(error),
                Err(error) => panic!("{error}"),
            }
        };
        for bytes in [0, 4096, 258_048 - 4096, 258_048 + 512, 258_049, (128 << 20) + 4096, 1 << 40] {
            assert_eq!(size(bytes), Err(OptionError::KeyslotsSize { bytes }));
        }
        assert_eq!((size(258_048), size(258_048 + 4096)), (Ok(258_048), Ok(258_048 + 4096)));
        assert!(
            matches!(size(128 << 20), Err(OptionError::DeviceTooSmall { .. })),
            "on a device that is larger"
        );
    }

    #[test]
    fn an_area_has_the_cipher_of_the_data_and_a_key_as_long_if_both_fit() {
        let spec = |text: &str| text.parse::<CipherSpec>().expect("known");
        let found = |options: &KeyslotOptions, data: Option<&str>, len: usize| {
            area_cipher(options, data.map(spec).as_ref(), len).map(|(cipher, len)| (cipher.to_string(), len))
        };
        let is = |cipher: &str, len: usize| Ok((String::from(cipher), len));
        let none = KeyslotOptions::default();
        assert_eq!(found(&none, Some("serpent-xts-plain64"), 32), is("serpent-xts-plain64", 32));
        assert_eq!(found(&none, Some("serpent-xts-plain64"), 40), is("aes-xts-plain64", 64));
        assert_eq!(found(&none, Some("aes-cbc-tcw"), 32), is("aes-xts-plain64", 32));
        assert_eq!(found(&none, None, 32), is("aes-xts-plain64", 32));
        assert_eq!(found(&none, None, 33), is("aes-xts-plain64", 64));
        let asked =
            KeyslotOptions { area_cipher: Some(spec("aes-cbc-plain64")), ..KeyslotOptions::default() };
        assert_eq!(found(&asked, Some("serpent-xts-plain64"), 16), is("aes-cbc-plain64", 32));
        let long = KeyslotOptions { area_key_len: Some(48), ..KeyslotOptions::default() };
        assert_eq!(found(&long, Some("aes-xts-plain64"), 64), is("aes-xts-plain64", 48));
    }

    #[test]
    fn ciphers_without_secrecy_or_with_keys_for_their_ivs_encrypt_no_area() {
        for (cipher, suits) in [
            ("aes-xts-plain64", true),
            ("aes-cbc-essiv:sha256", true),
            ("aes-lrw-benbi", true),
            ("cipher_null-ecb", false),
            ("aes-ctr-plain64", false),
            ("aes:64-cbc-lmk", false),
            ("aes-cbc-tcw", false),
        ] {
            assert_eq!(suits_an_area(&cipher.parse().expect("known")), suits, "{cipher}");
        }
    }

    #[test]
    fn labels_are_of_47_bytes_and_keys_of_64_or_32_where_the_cipher_has_them() {
        assert_eq!(check_label(&"x".repeat(47)), Ok(()));
        assert_eq!(check_label(&"x".repeat(48)), Err(OptionError::LabelLength { bytes: 48 }));
        assert_eq!(check_label("a\0b"), Err(OptionError::LabelLength { bytes: 3 }));
        let len = |cipher: &str| default_key_len(&cipher.parse().expect("known"));
        let lens = ["aes-xts-plain64", "aes-cbc-plain64", "aes-lrw-benbi", "des3_ede-cbc-plain64"].map(len);
        assert_eq!(lens, [64, 32, 32, 24]);
    }

    #[test]
    fn header_and_data_may_fill_their_devices() {
        let place = |header: u64, data: u64| {
            let (header, data) = (FaultDevice::zeroed(header as usize), FaultDevice::zeroed(data as usize));
            let options = FormatOptions { keyslots_size: Some(258_048), ..FormatOptions::default() };
            match layout(Devices::detached(&header, &data), &options, 4096, 64) {
                Ok(layout) => Ok(layout.data_offset),
                Err(FormatError::Option(error)) => Err(error),
                Err(error) => panic!("{error}"),
            }
        };
        let small = |needs, has| Err(OptionError::DeviceTooSmall { needs, has });
        let total = 0x8000 + 258_048;
        assert_eq!(place(total, 4096), Ok(0));
        assert_eq!(place(total - 1, 4096), small(total, total - 1));
        assert_eq!(place(total, 4095), small(4096, 4095));
    }

    #[test]
    fn an_iv_rule_that_does_not_take_the_data_unit_is_refused() {
        let device = FaultDevice::zeroed(4 << 20);
        let made = |data_unit: u32| {
            let cipher = Some("aes-cbc-tcw".parse().expect("known"));
            let options = FormatOptions {
                cipher,
                data_unit: Some(data_unit),
                keyslots_size: Some(1 << 20),
                ..FormatOptions::default()
            };
            plan(Devices::together(&device), &options).map(|plan| plan.data_unit)
        };
        assert_eq!(made(512), Ok(512));
        let refused = atrest_cipher::KeyError::IvRuleDataUnit { len: 4096 };
        assert_eq!(made(4096), Err(FormatError::Key(refused)));
    }

    #[test]
    fn noise_fills_a_range_to_its_last_byte_or_none_of_it() {
        let device = FaultDevice::zeroed(3 << 20);
        let end = 3 << 20;
        for (offset, size) in [(0, end + 1), (end - 512, 1024), (end, 1), (u64::MAX, 1)] {
            assert!(
                matches!(fill_random(&device, offset, size), Err(FormatError::Device(_))),
                "{offset} {size}"
            );
            assert!(device.recording().events().is_empty(), "a part was written");
        }
        fill_random(&device, 512, end - 1024).expect("fills");
        let image = device.image();
        let blank = |sector: &&[u8]| sector.iter().all(|byte| *byte == 0);
        let blanks: Vec<usize> =
            (0..).zip(image.chunks(512)).filter(|(_, sector)| blank(sector)).map(|(at, _)| at).collect();
        assert_eq!(blanks, [0, image.len() / 512 - 1]);
    }
}
