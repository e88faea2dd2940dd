//! Volumes whose data units carry tags: dm-crypt with an AEAD, above dm-integrity, which keeps the tags. Only the kernel opens them.

use core::str::FromStr;

use atrest_cipher::{CipherSpec, KeyError};
use atrest_device::Media;
use atrest_format::integrity::{SUPERBLOCK_LEN, Superblock};

use crate::{CryptTarget, IntegrityTags, UnlockError, VolumeKey};

/// Block ciphers of 16-byte blocks, for which the kernel has these modes.
const CIPHERS: [&str; 4] = ["aes", "serpent", "twofish", "camellia"];

/// What dm-crypt is told of an authenticated cipher.
#[derive(Debug, PartialEq, Eq)]
pub struct AuthenticatedCipher {
    /// The cipher by dm-crypt's own name.
    pub name: String,
    /// Bytes beside each data unit: the tag, and the nonce if it is a random one.
    pub tag_len: u32,
    /// A nonce that comes twice gives the key away, and writing a data unit again takes the same one.
    pub repeats_nonces: bool,
}

/// From the words of a LUKS2 segment, `aes-xts-plain64` and `hmac(sha256)`, and the bytes in the key of both.
pub fn aead(encryption: &str, integrity: &str, key_len: usize) -> Result<AuthenticatedCipher, UnlockError> {
    let unknown = || UnlockError::UnknownIntegrity;
    let (cipher, iv) = encryption.rsplit_once('-').ok_or_else(unknown)?;
    let counted = matches!(iv, "random" | "plain" | "plain64");
    let fits = |lens: &[usize]| match lens.contains(&key_len) {
        true => Ok(()),
        false => Err(UnlockError::Key(KeyError::Length { len: key_len })),
    };
    let (template, tag_len, nonce_len, fragile) = match (integrity, cipher.split_once('-')) {
        ("aead", Some((block, "gcm"))) if counted && CIPHERS.contains(&block) => {
            fits(&[16, 24, 32])?;
            (format!("gcm({block})"), 16, 12, true)
        }
        ("aead", None) if counted && cipher == "aegis128" => {
            fits(&[16])?;
            ("aegis128".into(), 16, 16, true)
        }
        ("poly1305", None) if counted && cipher == "chacha20" => {
            fits(&[32])?;
            ("rfc7539(chacha20,poly1305)".into(), 16, 12, true)
        }
        (mac, Some((block, mode @ ("xts" | "cbc")))) if CIPHERS.contains(&block) => {
            let tag_len: u32 = match mac {
                "hmac(sha1)" => 20,
                "hmac(sha256)" => 32,
                "hmac(sha512)" => 64,
                _ => return Err(unknown()),
            };
            // The key of the MAC, which is as long as its tag, follows the cipher's.
            let rest = usize::try_from(tag_len).ok().and_then(|mac| key_len.checked_sub(mac));
            let plain = encryption.replace("-random", "-plain64");
            let spec = CipherSpec::from_str(&plain).map_err(UnlockError::UnsupportedCipher)?;
            if spec.has_keyed_iv() {
                return Err(unknown());
            }
            if !rest.is_some_and(|len| spec.key_len_is_valid(len)) {
                return Err(UnlockError::Key(KeyError::Length { len: key_len }));
            }
            (format!("authenc({mac},{mode}({block}))"), tag_len, 16, false)
        }
        _ => return Err(unknown()),
    };
    let random_nonce = if iv == "random" { nonce_len } else { 0 };
    Ok(AuthenticatedCipher {
        name: format!("capi:{template}-{iv}"),
        // cannot overflow: tags of hashes and nonces have at most 64 and 16 bytes.
        tag_len: tag_len.saturating_add(random_nonce),
        repeats_nonces: fragile && random_nonce == 0,
    })
}

/// The whole volume: dm-integrity's superblock at byte `offset` of the data device says how long it is.
pub fn target(
    data: &dyn Media,
    (offset, iv_offset, data_unit): (u64, u64, u32),
    aead: AuthenticatedCipher,
    key: &VolumeKey,
) -> Result<CryptTarget, UnlockError> {
    let tags = tags(data, offset, &aead, data_unit)?;
    Ok(CryptTarget {
        start: 0,
        len: tags.provided,
        media_offset: offset,
        cipher: aead.name,
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
    aead: &AuthenticatedCipher,
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
    if superblock.data_unit != data_unit || u32::from(superblock.tag_len) != aead.tag_len {
        return Err(UnlockError::OtherIntegrity {
            tag_len: superblock.tag_len.into(),
            data_unit: superblock.data_unit,
            expected: (aead.tag_len, data_unit),
        });
    }
    let end = superblock.provided.checked_add(overhead).ok_or(needs(u64::MAX))?;
    if superblock.provided == 0 || end > rest {
        return Err(needs(end));
    }
    Ok(IntegrityTags { len: aead.tag_len, provided: superblock.provided })
}

#[cfg(test)]
mod tests {
    use atrest_format::integrity::SuperblockError;
    use atrest_testkit::FaultDevice;

    use super::*;

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
            ("camellia-gcm-random", "aead", 24, "capi:gcm(camellia)-random", 28),
            ("chacha20-random", "poly1305", 32, "capi:rfc7539(chacha20,poly1305)-random", 28),
            ("aegis128-random", "aead", 16, "capi:aegis128-random", 32),
        ] {
            let expected = AuthenticatedCipher { name: name.into(), tag_len, repeats_nonces: false };
            assert_eq!(aead(encryption, integrity, key_len), Ok(expected));
        }
        for (encryption, integrity, key_len, name) in [
            ("aes-gcm-plain64", "aead", 16, "capi:gcm(aes)-plain64"),
            ("aegis128-plain", "aead", 16, "capi:aegis128-plain"),
            ("chacha20-plain64", "poly1305", 32, "capi:rfc7539(chacha20,poly1305)-plain64"),
        ] {
            let expected = AuthenticatedCipher { name: name.into(), tag_len: 16, repeats_nonces: true };
            assert_eq!(
                aead(encryption, integrity, key_len),
                Ok(expected),
                "a number is a nonce that comes again"
            );
        }
    }

    #[test]
    fn what_is_not_known_or_does_not_fit_is_refused() {
        for (encryption, integrity) in [
            ("aes-xts-plain64", "crc32c"),
            ("aes-xts-plain64", "aead"),
            ("aes-ctr-plain64", "hmac(sha256)"),
            ("cipher_null-xts-plain64", "hmac(sha256)"),
            ("aes-gcm-random) 0", "aead"),
            ("aes-gcm-lmk", "aead"),
            ("blowfish-gcm-random", "aead"),
            ("aes", "aead"),
            ("aegis256-random", "aead"),
            ("aegis128-lmk", "aead"),
            ("aegis128-random", "poly1305"),
            ("chacha20-lmk", "poly1305"),
            ("chacha20-random", "aead"),
            ("aes-random", "hmac(sha256)"),
            ("blowfish-cbc-plain64", "hmac(sha256)"),
            // Keys of their own, of which the key of the MAC says nothing.
            ("aes-cbc-tcw", "hmac(sha256)"),
        ] {
            let refused = aead(encryption, integrity, 96);
            assert_eq!(refused, Err(UnlockError::UnknownIntegrity), "{encryption} {integrity}");
        }
        for encryption in ["aes-xts-plain64 0 7:0", "aes-cbc-essiv:sha256 0 7:0"] {
            let refused = aead(encryption, "hmac(sha256)", 96);
            assert!(matches!(refused, Err(UnlockError::UnsupportedCipher(_))), "{refused:?}");
        }
        for (encryption, integrity, key_len) in [
            ("aes-xts-plain64", "hmac(sha256)", 81),
            ("aes-xts-plain64", "hmac(sha256)", 16),
            ("aes-gcm-random", "aead", 64),
            ("chacha20-random", "poly1305", 16),
            ("aegis128-random", "aead", 32),
        ] {
            let refused = aead(encryption, integrity, key_len);
            assert_eq!(refused, Err(UnlockError::Key(KeyError::Length { len: key_len })), "{encryption}");
        }
    }

    /// A device with dm-integrity's superblock at byte 4096: version 4, tags of so many bytes, data units of 2^`log2` sectors.
    fn integrity(tag_len: u16, sectors: u64, log2: u8, size: usize) -> FaultDevice {
        let mut image = vec![0; size];
        let superblock = &mut image[4096..];
        superblock[..8].copy_from_slice(b"integrt\0");
        (superblock[8], superblock[28]) = (4, log2);
        superblock[10..12].copy_from_slice(&tag_len.to_le_bytes());
        superblock[16..24].copy_from_slice(&sectors.to_le_bytes());
        FaultDevice::new(image)
    }

    fn open(data: &FaultDevice) -> Result<CryptTarget, UnlockError> {
        let gcm = aead("aes-gcm-random", "aead", 32).expect("known");
        target(data, (4096, 7, 4096), gcm, &VolumeKey::copy_from(&[3; 32]))
    }

    #[test]
    fn a_volume_with_tags_is_as_long_as_its_superblock_says() {
        let target = open(&integrity(28, 16, 3, 4096 + 4096 + 8192)).expect("opens");
        assert_eq!((target.start, target.len, target.media_offset), (0, 8192, 4096));
        assert_eq!((target.cipher.as_str(), target.key.expose()), ("capi:gcm(aes)-random", &[3; 32][..]));
        assert_eq!((target.iv_offset, target.data_unit, target.iv_large), (7, 4096, false));
        assert_eq!(target.tags, Some(IntegrityTags { len: 28, provided: 8192 }));
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
