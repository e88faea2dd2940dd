//! BitLocker volumes: what their metadata says, the key that opens one, and a backup of what opens it.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use atrest_device::BlockDevice;
use atrest_open::{Device, Key};
use atrest_volume::bitlocker::{LockedBitLocker, Opened, is_one};
use atrest_volume::{UnlockError, VolumeKey};
use serde_json::{Value, json};

use super::target::{self, create_private};
use crate::args::secrets::SecretArgs;
use crate::asked::Asked;
use crate::failure::Failure;
use crate::output::{Output, path_text, plain};
use crate::secrets::Source;

/// The metadata of the volume on a device; `None` if it is no BitLocker volume.
pub fn header(path: &Path, device: &Device) -> Result<Option<LockedBitLocker>, Failure> {
    if device.is_stream() || !is_one(device) {
        return Ok(None);
    }
    LockedBitLocker::read(device).map(Some).map_err(|error| Failure::from(error).at(path))
}

/// The key of the data: of the device itself if it lies there in the clear, or by what is asked for.
pub fn opened(
    path: &Path,
    header: &LockedBitLocker,
    secret: &SecretArgs,
    output: &Output,
) -> Result<Opened, Failure> {
    let at = |error: UnlockError| Failure::from(error).at(path);
    if let Some(opened) = header.unlock_with_clear_key().map_err(at)? {
        return Ok(opened);
    }
    let source = Source::from(&secret.passphrase);
    let mut asked = Asked::volume(&source, path, output, Key::Passphrase);
    let opened = atrest_open::try_keys(&mut asked, |key| match key {
        Key::Passphrase(passphrase) => header.unlock(passphrase, None),
        // cannot happen: the source makes no other keys.
        _ => Err(UnlockError::NoKeyslot),
    });
    opened.map_err(|refused| target::refusal(refused, path))
}

/// `atrest info` of a BitLocker volume.
pub fn info(header: &LockedBitLocker, output: &Output) -> Result<(), Failure> {
    let metadata = header.metadata();
    let (now, next) = metadata.states;
    let cipher = match metadata.method {
        Ok(method) => format!("aes-{}", method.mode()),
        Err(number) => format!("method {number:#06x}, which is not known"),
    };
    let protectors: Vec<(u32, _)> = (0..).zip(&metadata.protectors).collect();
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        text.push_str(&format!("{name:>14}  {}\n", plain(&value)));
    };
    line("type", String::from("BitLocker"));
    line("GUID", metadata.guid.to_string());
    if let Some(description) = &metadata.description {
        line("description", description.clone());
    }
    line("created", super::time::text(created(header)));
    let state =
        if header.boot().on_write { String::from("encrypted where it is written") } else { now.to_string() };
    line("state", if now == next { state.clone() } else { format!("{state}, to become {next}") });
    line("cipher", format!("{cipher}, {} bits", metadata.method.map_or(0, |method| method.key_len() * 8)));
    line("data unit", format!("{} bytes", header.boot().sector_size));
    line("encrypted", format!("{} bytes", metadata.encrypted_size));
    for (place, error) in header.copies() {
        let state = error.map_or(String::from("intact"), |error| format!("DAMAGED: {error}"));
        line("metadata", format!("at {place}: {state}"));
    }
    for (number, protector) in &protectors {
        let name = protector.name.as_ref().map_or(String::new(), |name| format!(", \"{name}\""));
        line(&format!("protector {number}"), format!("{}{name}, {}", protector.protection, protector.guid));
    }
    if !header.may_be_written() {
        line(
            "access",
            String::from(
                "read-only: it is of Vista, not encrypted as a whole, or a copy of the metadata is damaged",
            ),
        );
    }
    let listed: Vec<Value> = protectors
        .iter()
        .map(|(number, protector)| {
            json!({
                "id": number,
                "protection": protector.protection.to_string(),
                "guid": protector.guid.to_string(),
                "name": protector.name,
            })
        })
        .collect();
    let copies: Vec<Value> = header
        .copies()
        .iter()
        .map(|(place, error)| json!({ "offset": place, "damage": error.map(|error| error.to_string()) }))
        .collect();
    let data = json!({
        "format": "bitlocker",
        "uuid": metadata.guid.to_string(),
        "description": metadata.description,
        "created": created(header),
        "state": state,
        "next_state": next.to_string(),
        "cipher": cipher,
        "key_len": metadata.method.ok().map(|method| method.key_len()),
        "data_unit": header.boot().sector_size,
        "encrypted_size": metadata.encrypted_size,
        "writable": header.may_be_written(),
        "copies": copies,
        "protectors": listed,
    });
    output.report(&data, &text)
}

/// When the volume was encrypted, in seconds since 1970.
pub fn created(header: &LockedBitLocker) -> i64 {
    const FROM_1601_TO_1970: i64 = 11_644_473_600;
    // cannot overflow: a tenth of a millionth of 64 bits.
    (header.metadata().created / 10_000_000) as i64 - FROM_1601_TO_1970
}

/// Writes the boot sector and the metadata to a file, each to its own place: the file serves as a detached header.
pub fn backup(
    file: &Path,
    path: &Path,
    device: &Device,
    header: &LockedBitLocker,
    output: &Output,
) -> Result<(), Failure> {
    let ranges = header.backup_ranges(device.size());
    let mut parts = Vec::new();
    for range in &ranges {
        // cannot be cut off: 64 KiB at most.
        let mut bytes = vec![0; (range.end - range.start) as usize];
        device.read_at(range.start, &mut bytes).map_err(|error| Failure::from(error).at(path))?;
        parts.push(bytes);
    }
    let mut out = create_private(file)?;
    let written = ranges.iter().zip(&parts).try_for_each(|(range, bytes)| {
        out.seek(SeekFrom::Start(range.start))?;
        out.write_all(bytes)
    });
    written.and_then(|()| out.sync_all()).map_err(|error| {
        // What was written is of no use; that it can't be removed changes nothing about the error.
        let _ = std::fs::remove_file(file);
        Failure::io(&error).at(file)
    })?;
    let bytes: usize = parts.iter().map(Vec::len).sum();
    output.done(
        &json!({ "file": path_text(file), "bytes": bytes }),
        &format!(
            "{}: metadata of {} in {bytes} bytes; --header takes the file",
            file.display(),
            path.display()
        ),
    )
}

/// Writes the key of the data to a new file.
pub fn write_key(file: &Path, key: &VolumeKey) -> Result<(), Failure> {
    target::write_private(file, key.expose())
}
