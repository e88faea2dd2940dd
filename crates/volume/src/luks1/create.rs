//! Creating a LUKS1 volume as cryptsetup does: areas from byte 4096 on, data at the next aligned offset.

use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_device::{LockMode, Media, SECTOR_SIZE};
use atrest_kdf::{Hash, calibrate};
use atrest_keyslot::luks1::{self, DIGEST_LEN, Header, HeaderError, HeaderParts, SALT_LEN, SLOTS};
use atrest_secret::{OsRandom, Random, with_wiped_stack};

use super::change::{Sealed, check_options, iterations, seal_error};
use super::media::HEADER_AREA;
use super::{Luks1, media};
use crate::lock::MetadataLock;
use crate::{ChangeError, Devices, FormatError, FormatOptions, OptionError, Passphrase, VolumeKey, uuid};

const DEFAULT_CIPHER: &str = "aes-xts-plain64";
/// Multiple that data offsets given by number must have, as in cryptsetup.
const OFFSET_MULTIPLE: u64 = 4096;

/// Creates a volume. All checks come before the first write.
///
/// The old header is wiped and flushed before anything else is written, and the new one is written last: a power loss
/// leaves no LUKS header at all or the finished one.
///
/// # Errors
/// Fails where [`format`](crate::format()) of all formats does.
pub fn format(
    devices: Devices<'_>,
    passphrase: &Passphrase,
    options: &FormatOptions,
) -> Result<Luks1, FormatError> {
    let plan = Plan::new(devices, options)?;
    let generated;
    let key = match &options.volume_key {
        Some(key) => key,
        None => {
            generated = VolumeKey::generate(plan.key_len, &mut OsRandom)?;
            &generated
        }
    };
    plan.check_key(key)?;

    let mut digest_salt = [0; SALT_LEN];
    OsRandom.fill(&mut digest_salt)?;
    let pbkdf = &options.keyslot.pbkdf;
    let slot_iterations = iterations(pbkdf, plan.hash, key.len());
    let digest_iterations = match pbkdf.forced_iterations {
        Some(_) => calibrate::MIN_PBKDF2_ITERATIONS,
        None => an_eighth_of_a_second(slot_iterations, pbkdf.time.as_millis()),
    };
    let digest = luks1::new_digest(plan.hash, key.expose(), &digest_salt, digest_iterations)
        .map_err(|error| format_error(seal_error(error, 0)))?;
    let mut header = plan.header(digest, digest_salt, digest_iterations)?;
    // intended: the first keyslot unless another one is asked for.
    let number = options.keyslot.slot.unwrap_or(0) as usize;
    let sealed = Sealed::new(&header, number, passphrase, slot_iterations, key).map_err(format_error)?;

    let device = devices.header;
    let _lock = MetadataLock::take(device, LockMode::Exclusive)?;
    device.write_at(0, &[0; HEADER_AREA])?;
    device.flush()?;
    for other in 0..SLOTS {
        let Some((offset, len)) = header.area(other) else { continue };
        if other == number {
            device.write_at(sealed.offset, &sealed.area)?;
        } else {
            // What an earlier header left there may be a keyslot.
            let mut noise = vec![0; len];
            OsRandom.fill(&mut noise)?;
            device.write_at(offset, &noise)?;
        }
    }
    device.flush()?;
    sealed.list(&mut header);
    media::write_header(device, &header)?;
    Ok(Luks1 { header })
}

/// What the options come to.
struct Plan {
    cipher: CipherSpec,
    cipher_text: String,
    key_len: usize,
    hash: Hash,
    uuid: String,
    data_sector: u32,
}

impl Plan {
    fn new(devices: Devices<'_>, options: &FormatOptions) -> Result<Self, FormatError> {
        let cipher = match &options.cipher {
            Some(cipher) => cipher.clone(),
            None => DEFAULT_CIPHER.parse().map_err(OptionError::UnsupportedCipher)?,
        };
        if cipher.is_null() {
            return Err(OptionError::NullCipher.into());
        }
        if cipher.is_single_snapshot() {
            return Err(OptionError::SingleSnapshot.into());
        }
        // intended: a key of no bytes is refused for a cipher that has no keys.
        let longest = cipher.key_lens().last().copied().unwrap_or(0);
        let given = options.volume_key.as_ref().map(VolumeKey::len);
        let key_len = options.key_len.or(given).unwrap_or(longest);
        if !cipher.key_len_is_valid(key_len) {
            return Err(OptionError::KeyLength { bytes: key_len, takes: cipher.key_lens() }.into());
        }
        match options.data_unit {
            None | Some(512) => {}
            Some(bytes) => return Err(OptionError::DataUnitLuks1 { bytes }.into()),
        }
        if options.tags.is_some()
            || options.label.is_some()
            || options.subsystem.is_some()
            || options.metadata_size.is_some()
            || options.keyslots_size.is_some()
        {
            return Err(OptionError::NotInFormat.into());
        }
        let hash = options.hash.unwrap_or(Hash::Sha256);
        if hash.output_len() < DIGEST_LEN {
            return Err(OptionError::Pbkdf.into());
        }
        check_options(&options.keyslot, hash)?;
        let uuid = match &options.uuid {
            Some(uuid) => {
                uuid::check(uuid)?;
                uuid.clone()
            }
            None => uuid::random()?,
        };
        let mut plan = Self { cipher_text: cipher.to_string(), cipher, key_len, hash, uuid, data_sector: 0 };
        plan.data_sector = plan.place_data(devices, options)?;
        Ok(plan)
    }

    /// The first sector of the data; also checks that the devices are large enough.
    fn place_data(&self, devices: Devices<'_>, options: &FormatOptions) -> Result<u32, FormatError> {
        let areas_end = self.header([0; DIGEST_LEN], [0; SALT_LEN], 1)?.areas_end();
        let offset = match (options.data_offset, options.data_alignment) {
            (Some(offset), _) => offset,
            (None, None) if devices.detached => 0,
            (None, asked) => {
                let alignment = asked.unwrap_or_else(|| default_alignment(devices.data)).max(SECTOR_SIZE);
                let far = OptionError::DataOffset { bytes: alignment, header: areas_end };
                let first = if asked.is_some() { 0 } else { devices.data.geometry().alignment_offset.into() };
                let place = areas_end.checked_next_multiple_of(alignment);
                place.and_then(|place| place.checked_add(first)).ok_or(far)?
            }
        };
        let bad = OptionError::DataOffset { bytes: offset, header: areas_end };
        let multiple = if options.data_offset.is_some() { OFFSET_MULTIPLE } else { SECTOR_SIZE };
        if !offset.is_multiple_of(multiple) {
            return Err(bad.into());
        }
        if (offset != 0 || !devices.detached) && offset < areas_end {
            return Err(bad.into());
        }
        // intended: data that begins behind the end is refused below; until then it is empty.
        let data = devices.data.size().saturating_sub(offset);
        devices.check_apart(areas_end, offset, data).map_err(OptionError::from)?;
        // intended: what overflows is larger than every device.
        let needs = if devices.detached { areas_end } else { offset.saturating_add(SECTOR_SIZE) };
        let has = devices.header.size();
        if has < needs.max(HEADER_AREA as u64) {
            return Err(OptionError::DeviceTooSmall { needs, has }.into());
        }
        u32::try_from(offset / SECTOR_SIZE).map_err(|_| bad.into())
    }

    /// The header without keyslots.
    fn header(
        &self,
        digest: [u8; DIGEST_LEN],
        digest_salt: [u8; SALT_LEN],
        digest_iterations: u32,
    ) -> Result<Header, FormatError> {
        // dm-crypt's form has the cipher's name up to the first hyphen.
        let (cipher_name, cipher_mode) = self.cipher_text.split_once('-').ok_or(OptionError::NotInFormat)?;
        let header = Header::new(&HeaderParts {
            cipher_name,
            cipher_mode,
            hash: self.hash,
            key_len: self.key_len,
            uuid: &self.uuid,
            data_sector: Some(self.data_sector),
            alignment: 1,
            digest,
            digest_salt,
            digest_iterations,
        })
        .map_err(|error| match error {
            HeaderError::Text { .. } => FormatError::Option(OptionError::NotInFormat),
            _ => FormatError::Header,
        })?;
        // A name that does not come back from the two fields as it went in has no place in this format.
        if header.cipher().as_ref() != Ok(&self.cipher) {
            return Err(OptionError::NotInFormat.into());
        }
        Ok(header)
    }

    /// Whether the volume key fits and is not weak.
    fn check_key(&self, key: &VolumeKey) -> Result<(), FormatError> {
        if key.len() != self.key_len {
            return Err(OptionError::VolumeKeyLength { has: key.len(), needs: self.key_len }.into());
        }
        if key.is_zeros() {
            return Err(OptionError::ZeroVolumeKey.into());
        }
        // Refuses equal halves of an XTS key, say.
        with_wiped_stack(|| Mapper::new(&self.cipher, key.expose(), &MapperOptions::default()).map(drop))
            .map_err(FormatError::Key)
    }
}

/// 1 MiB, unless the device wants a multiple that 1 MiB is not.
fn default_alignment(device: &dyn Media) -> u64 {
    const USUAL: u64 = 1 << 20;
    let optimal = u64::from(device.geometry().optimal_alignment);
    match USUAL.checked_rem(optimal) {
        Some(0) | None => USUAL,
        Some(_) => optimal,
    }
}

/// Iterations for checking the volume key's digest, from those of a keyslot that take `millis`.
fn an_eighth_of_a_second(iterations: u32, millis: u128) -> u32 {
    let wanted = u128::from(iterations)
        // cannot overflow: numbers of 32 and 64 bits in 128.
        .saturating_mul(calibrate::DIGEST_TIME.as_millis())
        .checked_div(millis)
        // intended: no time measured, so the least number of iterations.
        .unwrap_or(0);
    // intended: as many iterations as the header can hold.
    u32::try_from(wanted).unwrap_or(u32::MAX).max(calibrate::MIN_PBKDF2_ITERATIONS)
}

fn format_error(error: ChangeError) -> FormatError {
    match error {
        ChangeError::Device(error) => FormatError::Device(error),
        ChangeError::Option(error) => FormatError::Option(error),
        ChangeError::Random(error) => FormatError::Random(error),
        ChangeError::Kdf(error) => error.into(),
        ChangeError::NotEnoughMemory { needs, has } => FormatError::NotEnoughMemory { needs, has },
        ChangeError::Area(error) => FormatError::Area(error),
        ChangeError::Af(error) => FormatError::Af(error),
        _ => FormatError::Header,
    }
}

#[cfg(test)]
mod tests {
    use atrest_device::{Cause, DeviceError, Operation};
    use atrest_kdf::KdfError;
    use atrest_keyslot::af::AfError;
    use atrest_keyslot::area::AreaError;
    use atrest_secret::RandomError;

    use super::*;

    #[test]
    fn the_failure_of_the_first_keyslot_keeps_its_name() {
        let device = DeviceError::new(Operation::Write, 0, 512, Cause::Gone);
        for (error, expected) in [
            (ChangeError::Device(device), FormatError::Device(device)),
            (OptionError::Pbkdf.into(), OptionError::Pbkdf.into()),
            (ChangeError::Random(RandomError), FormatError::Random(RandomError)),
            (ChangeError::Kdf(KdfError::NoIterations), FormatError::Kdf(KdfError::NoIterations)),
            (
                ChangeError::Kdf(KdfError::NotEnoughMemory { needs: 2, has: 1 }),
                FormatError::NotEnoughMemory { needs: 2, has: 1 },
            ),
            (
                ChangeError::NotEnoughMemory { needs: 2, has: 1 },
                FormatError::NotEnoughMemory { needs: 2, has: 1 },
            ),
            (ChangeError::Area(AreaError::NullCipher), FormatError::Area(AreaError::NullCipher)),
            (ChangeError::Af(AfError::TooLarge), FormatError::Af(AfError::TooLarge)),
            (ChangeError::NoFreeKeyslot, FormatError::Header),
        ] {
            assert_eq!(format_error(error), expected);
        }
    }

    #[test]
    fn the_digest_takes_an_eighth_of_a_second_and_1000_iterations_at_least() {
        assert_eq!(an_eighth_of_a_second(80_000, 1000), 10_000);
        assert_eq!(an_eighth_of_a_second(80_000, 2000), 5000);
        assert_eq!(an_eighth_of_a_second(8001, 1000), 1000);
        assert_eq!(an_eighth_of_a_second(7999, 1000), 1000);
        assert_eq!(an_eighth_of_a_second(80_000, 0), 1000);
        assert_eq!(an_eighth_of_a_second(u32::MAX, 1), u32::MAX);
    }
}
