//! A line of a dm-crypt table (the kernel's `admin-guide/device-mapper/dm-crypt.rst`).

use atrest_secret::SecretBytes;
use atrest_volume::{CryptFlags, CryptTarget, Volume, VolumeFormat};

use super::error::DmError;
use super::header_uuid;
use super::keyring;
use super::node::major_minor;

/// Where dm-crypt finds the key.
pub enum KeyPlace {
    /// In the table itself, as hexadecimal digits.
    Table,
    /// In the kernel's keyring.
    Keyring {
        /// UUID of the volume, which is in the key's name.
        uuid: String,
    },
}

impl KeyPlace {
    /// As cryptsetup does: LUKS2 volumes take the keyring, where the kernel has one. Their keys are put into it.
    pub fn choose(volume: &Volume, disable_keyring: bool) -> Result<Self, DmError> {
        let (VolumeFormat::Luks2, Some(uuid), false) =
            (volume.format(), header_uuid(volume), disable_keyring)
        else {
            return Ok(Self::Table);
        };
        for target in volume.targets() {
            let Some(digest) = target.digest else { return Ok(Self::Table) };
            let added = keyring::add(&keyring::description(uuid, digest), target.key.expose());
            if !added.map_err(DmError::Keyring)? {
                return Ok(Self::Table);
            }
        }
        Ok(Self::Keyring { uuid: uuid.into() })
    }
}

/// The line for a segment whose ciphertext begins at byte `offset` of the device of that number. It may hold the key.
pub fn line(
    target: &CryptTarget,
    keys: &KeyPlace,
    (device, offset): (u64, u64),
    flags: CryptFlags,
) -> SecretBytes {
    let (major, minor) = major_minor(device);
    let offset = offset / 512;
    let rest = format!(" {} {major}:{minor} {offset}{}", target.iv_offset, options(target, flags));
    joined(&[format!("{} ", target.cipher).as_bytes(), &key(target, keys), rest.as_bytes()])
}

/// The word of a line that is the key, or says where it is.
pub fn key(target: &CryptTarget, keys: &KeyPlace) -> SecretBytes {
    match keys {
        KeyPlace::Keyring { uuid } => {
            // intended: LUKS1 has one digest without a number, which cryptsetup counts as 0.
            let description = keyring::description(uuid, target.digest.unwrap_or(0));
            let name = format!(":{}:logon:{description}", target.key.len());
            SecretBytes::copy_from(name.as_bytes())
        }
        KeyPlace::Table if target.key.is_empty() => SecretBytes::copy_from(b"-"),
        KeyPlace::Table => hex(target.key.expose()),
    }
}

/// All parts, one behind the other.
pub fn joined(parts: &[&[u8]]) -> SecretBytes {
    let mut all = SecretBytes::zeroed(parts.iter().map(|part| part.len()).sum());
    let mut rest = &mut all[..];
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = behind;
    }
    all
}

/// The optional parameters with their number, and a space in front; nothing if there are none.
fn options(target: &CryptTarget, flags: CryptFlags) -> String {
    let mut words = Vec::new();
    let mut add = |wanted: bool, word: &str| words.extend(wanted.then(|| String::from(word)));
    add(flags.allow_discards, "allow_discards");
    add(flags.same_cpu_crypt, "same_cpu_crypt");
    add(flags.submit_from_crypt_cpus, "submit_from_crypt_cpus");
    add(flags.no_read_workqueue, "no_read_workqueue");
    add(flags.no_write_workqueue, "no_write_workqueue");
    if let Some(tags) = target.tags {
        add(true, &format!("integrity:{}:aead", tags.len));
        if let Some(len) = tags.key_len {
            add(true, &format!("integrity_key_size:{len}"));
        }
    }
    add(target.data_unit != 512, &format!("sector_size:{}", target.data_unit));
    add(target.iv_large, "iv_large_sectors");
    match words.len() {
        0 => String::new(),
        count => format!(" {count} {}", words.join(" ")),
    }
}

/// Hexadecimal digits, made without looking anything up by the key.
pub fn hex(key: &[u8]) -> SecretBytes {
    let mut digits = SecretBytes::zeroed(2 * key.len());
    for (pair, byte) in digits.chunks_exact_mut(2).zip(key) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    digits
}

/// '0' to '9' or 'a' to 'f', without a branch: for 10 and more the subtraction wraps and its sign fills a mask.
fn digit(nibble: u8) -> u8 {
    let letters = (9_u8.wrapping_sub(nibble) as i8 >> 7) as u8;
    b'0' + nibble + (letters & (b'a' - b'0' - 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_everybody() {
        let all: Vec<u8> = (0..=255).collect();
        let expected: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(&hex(&all)[..], expected.as_bytes());
    }
}
