//! Volumes whose data units carry tags: an authenticated cipher above dm-integrity's layout, which keeps the tags.

use atrest_cipher::{
    DataUnitIndex, KeyError, MapperOptions, RunError, Tagged, TaggedMapper, TaggedSpec, TaggedSpecError,
};
use atrest_device::Media;
use atrest_format::integrity::{SUPERBLOCK_LEN, Superblock};
use atrest_format::luks2::Integrity;
use atrest_secret::Locked;

use crate::{CryptTarget, IntegrityTags, Protection, UnlockError, UnlockOptions, VolumeKey};

/// What makes the tags of a segment.
#[derive(Debug, PartialEq, Eq)]
pub struct Authentication {
    pub spec: TaggedSpec,
    /// Bytes of the key that are the MAC's, if it is not as many as usual.
    pub mac_key_len: Option<usize>,
}

impl Authentication {
    /// From the words of a LUKS2 segment, `aes-xts-plain64` and `hmac(sha256)`, and the bytes in the key of both.
    pub fn new(encryption: &str, integrity: &Integrity, key_len: usize) -> Result<Self, UnlockError> {
        if integrity.journal_encryption != "none" || integrity.journal_integrity != "none" {
            return Err(UnlockError::UnknownIntegrity);
        }
        let spec = TaggedSpec::new(encryption, &integrity.kind).map_err(|error| match error {
            TaggedSpecError::Cipher(error) => UnlockError::UnsupportedCipher(error),
            TaggedSpecError::ProtectedKey => UnlockError::ProtectedKey,
            _ => UnlockError::UnknownIntegrity,
        })?;
        let mac_key_len = integrity.key_size.map(|bytes| bytes as usize);
        let mac_key_len = mac_key_len.filter(|len| spec.mac_key_len() != Some(*len));
        match spec.key_len_is_valid(key_len, mac_key_len) {
            true => Ok(Self { spec, mac_key_len }),
            false => Err(UnlockError::Key(KeyError::Length { len: key_len })),
        }
    }

    /// Bytes beside each data unit.
    pub fn tag_len(&self) -> u32 {
        // cannot fail: tags of hashes and nonces have at most 64 and 32 bytes.
        u32::try_from(self.spec.tag_len()).unwrap_or(u32::MAX)
    }

    /// The keyed cipher.
    pub fn protection(
        &self,
        key: &VolumeKey,
        (iv_offset, data_unit): (u64, u32),
        options: &UnlockOptions,
    ) -> Result<Protection, KeyError> {
        let strict = MapperOptions {
            data_unit: data_unit as usize,
            iv_offset,
            backend: options.backend,
            allow_equal_xts_halves: options.allow_equal_xts_halves,
            ..MapperOptions::default()
        };
        let made =
            Locked::try_new_with(|| TaggedMapper::new(&self.spec, key.expose(), self.mac_key_len, &strict))?;
        Ok(Protection::Tagged(Box::new(InLockedMemory(made))))
    }
}

/// The keys do not leave locked memory.
struct InLockedMemory(Locked<TaggedMapper>);

impl Tagged for InLockedMemory {
    fn data_unit(&self) -> usize {
        self.0.data_unit()
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn random_len(&self) -> usize {
        self.0.random_len()
    }

    fn seal(&self, first: DataUnitIndex, run: &mut [u8], tags: &mut [u8]) -> Result<(), RunError> {
        self.0.seal(first, run, tags)
    }

    fn open(
        &self,
        first: DataUnitIndex,
        run: &mut [u8],
        tags: &[u8],
        forged: &mut dyn FnMut(DataUnitIndex),
    ) -> Result<(), RunError> {
        self.0.open(first, run, tags, forged)
    }
}

/// The whole volume: dm-integrity's superblock at byte `offset` of the data device says how long it is.
pub fn target(
    data: &dyn Media,
    (offset, iv_offset, data_unit): (u64, u64, u32),
    authentication: &Authentication,
    key: &VolumeKey,
) -> Result<CryptTarget, UnlockError> {
    let tags = tags(data, offset, authentication, data_unit)?;
    Ok(CryptTarget {
        start: 0,
        len: tags.provided,
        media_offset: offset,
        cipher: authentication.spec.to_string(),
        key: VolumeKey::copy_from(key.expose()),
        digest: None,
        iv_offset,
        data_unit,
        iv_large: false,
        tags: Some(tags),
    })
}

fn tags(
    data: &dyn Media,
    offset: u64,
    authentication: &Authentication,
    data_unit: u32,
) -> Result<IntegrityTags, UnlockError> {
    let has = data.size();
    // intended: for people; what overflows is larger than every device.
    let needs = |bytes: u64| UnlockError::DataDeviceTooSmall { needs: offset.saturating_add(bytes), has };
    // intended: nothing is there behind the end.
    let rest = has.saturating_sub(offset);
    let overhead = SUPERBLOCK_LEN as u64;
    if rest < overhead {
        return Err(needs(overhead));
    }
    let mut bytes = [0; 512];
    data.read_at(offset, &mut bytes)?;
    let superblock = Superblock::parse(&bytes).map_err(UnlockError::Superblock)?;
    let tag_len = authentication.tag_len();
    if superblock.data_unit != data_unit || u32::from(superblock.tag_len) != tag_len {
        return Err(UnlockError::OtherIntegrity {
            tag_len: superblock.tag_len.into(),
            data_unit: superblock.data_unit,
            expected: (tag_len, data_unit),
        });
    }
    let end = superblock.provided.checked_add(overhead).ok_or(needs(u64::MAX))?;
    if superblock.provided == 0 || end > rest {
        return Err(needs(end));
    }
    let key_len = authentication.mac_key_len.and_then(|len| u32::try_from(len).ok());
    Ok(IntegrityTags { len: tag_len, provided: superblock.provided, key_len })
}

#[cfg(test)]
mod tests {
    use atrest_format::integrity::SuperblockError;
    use atrest_testkit::FaultDevice;

    use super::*;

    fn integrity_of(kind: &str) -> Integrity {
        let none = || String::from("none");
        Integrity { kind: kind.into(), journal_encryption: none(), journal_integrity: none(), key_size: None }
    }

    #[test]
    fn names_and_lengths_are_those_of_cryptsetup() {
        // From `dmsetup table` of what cryptsetup 2.6.1 opens.
        for (encryption, integrity, key_len, name, tag_len) in [
            ("aes-xts-plain64", "hmac(sha256)", 96, "capi:authenc(hmac(sha256),xts(aes))-plain64", 32),
            ("aes-xts-random", "hmac(sha256)", 96, "capi:authenc(hmac(sha256),xts(aes))-random", 48),
            (
                "aes-cbc-essiv:sha256",
                "hmac(sha256)",
                64,
                "capi:authenc(hmac(sha256),cbc(aes))-essiv:sha256",
                32,
            ),
            ("serpent-xts-plain64", "hmac(sha1)", 84, "capi:authenc(hmac(sha1),xts(serpent))-plain64", 20),
            ("twofish-cbc-plain", "hmac(sha512)", 96, "capi:authenc(hmac(sha512),cbc(twofish))-plain", 64),
            ("aes-xts-random", "hmac(sha512)", 128, "capi:authenc(hmac(sha512),xts(aes))-random", 80),
            ("aes-gcm-random", "aead", 32, "capi:gcm(aes)-random", 28),
            ("aes-ccm-random", "aead", 35, "capi:rfc4309(ccm(aes))-random", 24),
            ("camellia-gcm-random", "aead", 24, "capi:gcm(camellia)-random", 28),
            ("chacha20-random", "poly1305", 32, "capi:rfc7539(chacha20,poly1305)-random", 28),
            ("aegis128-random", "aead", 16, "capi:aegis128-random", 32),
        ] {
            let found = Authentication::new(encryption, &integrity_of(integrity), key_len).expect(encryption);
            assert_eq!((found.spec.to_string(), found.tag_len()), (name.into(), tag_len));
            assert!(!found.spec.repeats_nonces());
        }
        for (encryption, integrity, key_len, name) in [
            ("aes-gcm-plain64", "aead", 16, "capi:gcm(aes)-plain64"),
            ("aegis128-plain", "aead", 16, "capi:aegis128-plain"),
            ("chacha20-plain64", "poly1305", 32, "capi:rfc7539(chacha20,poly1305)-plain64"),
        ] {
            let found = Authentication::new(encryption, &integrity_of(integrity), key_len).expect(encryption);
            assert_eq!((found.spec.to_string(), found.tag_len()), (name.into(), 16));
            assert!(found.spec.repeats_nonces(), "a number is a nonce that comes again");
        }
    }

    #[test]
    fn what_is_not_known_or_does_not_fit_is_refused() {
        for (encryption, integrity, error) in [
            ("aes-xts-plain64", "crc32c", UnlockError::UnknownIntegrity),
            ("aes-xts-random", "none", UnlockError::UnknownIntegrity),
            ("aes-xts-plain64", "phmac(sha256)", UnlockError::ProtectedKey),
            ("aes-gcm-random", "aead", UnlockError::Key(KeyError::Length { len: 96 })),
        ] {
            let refused = Authentication::new(encryption, &integrity_of(integrity), 96);
            assert_eq!(refused, Err(error), "{encryption} {integrity}");
        }
        let refused = Authentication::new("aes-xts-plain64 0 7:0", &integrity_of("hmac(sha256)"), 96);
        assert!(matches!(refused, Err(UnlockError::UnsupportedCipher(_))), "{refused:?}");
        let hmac = integrity_of("hmac(sha256)");
        for other in [
            Integrity { journal_encryption: "aes".into(), ..hmac.clone() },
            Integrity { journal_integrity: "hmac(sha256)".into(), ..hmac.clone() },
        ] {
            let refused = Authentication::new("aes-xts-plain64", &other, 96);
            assert_eq!(refused, Err(UnlockError::UnknownIntegrity));
        }
        let with = |key_size: u32, key_len: usize| {
            let integrity = Integrity { key_size: Some(key_size), ..hmac.clone() };
            Authentication::new("aes-xts-plain64", &integrity, key_len).map(|found| found.mac_key_len)
        };
        assert_eq!((with(32, 96), with(64, 128)), (Ok(None), Ok(Some(64))));
        assert_eq!(with(64, 96), Ok(Some(64)), "the cipher has the rest");
        assert_eq!(with(33, 96), Err(UnlockError::Key(KeyError::Length { len: 96 })));
    }

    /// A device with dm-integrity's superblock at byte 4096: version 4, tags of so many bytes, data units of 2^`log2` sectors.
    fn integrity(tag_len: u16, sectors: u64, log2: u8, size: usize) -> FaultDevice {
        let mut image = vec![0; size];
        let superblock = &mut image[4096..];
        superblock[..8].copy_from_slice(b"integrt\0");
        (superblock[8], superblock[28]) = (4, log2);
        // Areas of 2^15 sectors, one section of journal, runs of tags padded to 4096 bytes.
        (superblock[9], superblock[12], superblock[24]) = (15, 1, 8);
        superblock[10..12].copy_from_slice(&tag_len.to_le_bytes());
        superblock[16..24].copy_from_slice(&sectors.to_le_bytes());
        FaultDevice::new(image)
    }

    fn open(data: &FaultDevice) -> Result<CryptTarget, UnlockError> {
        let gcm = Authentication::new("aes-gcm-random", &integrity_of("aead"), 32).expect("known");
        target(data, (4096, 7, 4096), &gcm, &VolumeKey::copy_from(&[3; 32]))
    }

    #[test]
    fn a_volume_with_tags_is_as_long_as_its_superblock_says() {
        let target = open(&integrity(28, 16, 3, 4096 + 4096 + 8192)).expect("opens");
        assert_eq!((target.start, target.len, target.media_offset), (0, 8192, 4096));
        assert_eq!((target.cipher.as_str(), target.key.expose()), ("capi:gcm(aes)-random", &[3; 32][..]));
        assert_eq!((target.iv_offset, target.data_unit, target.iv_large), (7, 4096, false));
        assert_eq!(target.tags, Some(IntegrityTags { len: 28, provided: 8192, key_len: None }));
    }

    #[test]
    fn tags_of_another_volume_and_data_that_is_not_there_are_refused() {
        let small = |needs: u64, has: u64| Some(UnlockError::DataDeviceTooSmall { needs, has });
        let other = |tag_len: u32, data_unit: u32| {
            Some(UnlockError::OtherIntegrity { tag_len, data_unit, expected: (28, 4096) })
        };
        for (tag_len, sectors, log2, size, refused) in [
            (28, 16, 3, 16_383, small(16_384, 16_383)),
            (28, 8, 3, 8191, small(8192, 8191)),
            (28, 0, 3, 16_384, small(8192, 16_384)),
            (28, u64::MAX >> 9 & !7, 3, 16_384, small(u64::MAX, 16_384)),
            (16, 16, 3, 16_384, other(16, 4096)),
            (28, 16, 2, 16_384, other(28, 2048)),
            (28, 16, 4, 16_384, Some(UnlockError::Superblock(SuperblockError::DataUnit { log2_sectors: 4 }))),
        ] {
            assert_eq!(
                open(&integrity(tag_len, sectors, log2, size)).err(),
                refused,
                "{tag_len} {sectors} {log2} {size}"
            );
        }
        assert_eq!(
            open(&FaultDevice::zeroed(8192)).err(),
            Some(UnlockError::Superblock(SuperblockError::Missing))
        );
        assert_eq!(open(&FaultDevice::zeroed(512)).err(), small(8192, 512));
    }
}
