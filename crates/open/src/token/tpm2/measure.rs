//! Which volume was opened, told to the TPM: PCR 15 is extended by the volume key, as systemd-cryptsetup does.

use atrest_secret::VolumeKey;
use atrest_tpm::{Bank, Device, Tpm, TpmError, keyed};

/// The PCR that systemd takes for volume keys.
pub const VOLUME_KEY_PCR: u32 = 15;

/// Whether a TPM is there.
pub fn is_there() -> bool {
    match Device::from_environment() {
        Ok(Device::Path(path)) => path.exists(),
        other => other.is_ok(),
    }
}

/// Extends a PCR in every bank by the volume key of the volume with this UUID that is mapped by this name.
///
/// # Errors
/// [`TpmError`].
pub fn measure(pcr: u32, key: &VolumeKey, name: &str, uuid: &str) -> Result<(), TpmError> {
    let mut tpm = Tpm::open(&Device::from_environment()?)?;
    tpm.measure(pcr, key.expose(), text(name, uuid).as_bytes()).map(drop)
}

/// What the SHA-256 bank is extended by, in hexadecimal digits: what systemd's `fixate-volume-key=` names a volume key by.
pub fn fixed(key: &VolumeKey, name: &str, uuid: &str) -> String {
    let [sha256, ..] = Bank::ALL;
    let value = keyed(sha256, key.expose(), text(name, uuid).as_bytes());
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is measured under the key.
fn text(name: &str, uuid: &str) -> String {
    let mut text = String::from("cryptsetup:");
    for byte in name.bytes() {
        match byte {
            b':' | b'\\' => text.push_str(&format!("\\x{byte:02x}")),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push(':');
    text.push_str(uuid);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_be_taken_for_a_uuid() {
        assert_eq!(text("root", "0-1"), "cryptsetup:root:0-1");
        assert_eq!(text("a:b\\c\n\u{e9}", "0-1"), "cryptsetup:a\\x3ab\\x5cc\\x0a\\xc3\\xa9:0-1");
    }
}
