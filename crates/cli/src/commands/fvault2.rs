//! FileVault 2: what the metadata says, and the key that opens a volume.

use std::path::Path;

use atrest_open::Device;
use atrest_volume::VolumeKey;
use atrest_volume::fvault2::{LockedFileVault, is_one};
use serde_json::json;

use super::target;
use crate::args::open::UnlockArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::secrets::Source;

/// The metadata of the volume on a device; `None` if it is no FileVault volume.
pub fn header(path: &Path, device: &Device) -> Result<Option<LockedFileVault>, Failure> {
    if device.is_stream() || !is_one(device) {
        return Ok(None);
    }
    LockedFileVault::read(device).map(Some).map_err(|error| Failure::from(error).at(path))
}

/// The key of the data, by the password that is asked for.
pub fn key(
    path: &Path,
    header: &LockedFileVault,
    unlock: &UnlockArgs,
    output: &Output,
) -> Result<VolumeKey, Failure> {
    let source = Source::from(&unlock.secret.passphrase);
    target::with_passphrase(&source, path, output, |passphrase| header.unlock(passphrase, unlock.key_slot))
}

/// `atrest info` of a FileVault volume.
pub fn info(header: &LockedFileVault, output: &Output) -> Result<(), Failure> {
    let (volume, context) = (header.logical_volume(), header.context());
    let status = context.conversion.as_deref().unwrap_or("not said");
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:>14}  {value}\n"));
    line("type", String::from("FileVault 2 (CoreStorage)"));
    line("UUID", header.header().uuid.to_string());
    line("family", volume.family.to_string());
    line("conversion", status.to_owned());
    line("cipher", String::from("aes-xts-plain64, 256 bits"));
    line("data", format!("{} bytes at {}", volume.size, header.data_offset()));
    for (number, kek) in context.keks.iter().enumerate() {
        line(&format!("user {number}"), format!("PBKDF2-HMAC-SHA-256, {} iterations", kek.iterations));
    }
    let users: Vec<_> = context.keks.iter().map(|kek| json!({ "iterations": kek.iterations })).collect();
    let data = json!({
        "format": "filevault",
        "uuid": header.header().uuid.to_string(),
        "family": volume.family.to_string(),
        "conversion": context.conversion,
        "cipher": "aes-xts-plain64",
        "offset": header.data_offset(),
        "size": volume.size,
        "users": users,
    });
    output.report(&data, &text)
}
