//! Whether what `reencrypt` is asked for fits the volume that there is: its type, and what is in progress on it.

use std::ffi::OsStr;
use std::path::Path;

use atrest_engine::Access;
use atrest_format::luks2::{ReencryptMode, Reencryption, Resilience};
use atrest_volume::{LockedVolume, VolumeFormat, is_uuid, uuid_set_aside};

use super::words::Request;
use crate::commands::target::open_device;
use crate::failure::Failure;

/// # Errors
/// Where --type, --encrypt, --decrypt or --resilience say something else than the header. What can't be read is told by what comes next.
pub fn check(request: &Request) -> Result<(), Failure> {
    let Some(locked) = found(request) else { return check_made(request) };
    check_type(request, &locked)?;
    let begun = locked.luks2().and_then(|luks2| luks2.metadata().reencryption().ok());
    match &begun {
        Some(begun) => check_begun(request, begun),
        None => check_new(request, &locked),
    }
}

/// Whether it is a volume of LUKS1, or was one when its re-encryption began.
pub fn is_luks1(request: &Request) -> bool {
    found(request).is_some_and(|locked| {
        let was_luks1 = locked.luks2().is_some_and(|luks2| luks2.was_luks1());
        was_luks1 || matches!(locked.info().format, VolumeFormat::Luks1)
    })
}

/// Where the header of a volume of LUKS1 is kept if it has no room where it is: in this directory, where cryptsetup keeps such headers, too.
pub fn spare_header(request: &Request) -> Option<String> {
    if request.has("header") || request.has("decrypt") || request.has("reduce-device-size") {
        return None;
    }
    let device = open_device(Path::new(request.operands.first()?), Access::ReadOnly).ok()?;
    let uuid = match uuid_set_aside(&device).ok()? {
        Some(uuid) => uuid,
        None => match LockedVolume::read(&device).ok()? {
            locked @ LockedVolume::Luks1(_) => locked.uuid().to_owned(),
            LockedVolume::Luks2(_) => return None,
        },
    };
    is_uuid(&uuid).then(|| format!("LUKS-{uuid}.header"))
}

/// The header that is meant, if there is one.
fn found(request: &Request) -> Option<LockedVolume> {
    let device = request.operands.first().map(Path::new);
    let header = request.text("header").map(Path::new);
    // A header that `--decrypt` is to make is still on the device.
    let path = header.filter(|header| header.exists()).or(device)?;
    LockedVolume::read(&open_device(path, Access::ReadOnly).ok()?).ok()
}

/// Of what is encrypted where it is.
fn check_made(request: &Request) -> Result<(), Failure> {
    match request.has("encrypt") && request.text("type").is_some_and(|kind| kind == "luks1") {
        true => Err(Failure::parameters(
            "reencrypt --encrypt --type luks1: only volumes of LUKS2 are made where the data is",
        )
        .hint("leave --type out; or copy the data into a volume that `luksFormat --type luks1` makes")),
        false => Ok(()),
    }
}

fn check_type(request: &Request, locked: &LockedVolume) -> Result<(), Failure> {
    // One of LUKS1 is one of LUKS2 while it is re-encrypted.
    let was_luks1 = locked.luks2().is_some_and(|luks2| luks2.was_luks1());
    let is = match locked.info().format {
        VolumeFormat::Luks1 => "luks1",
        _ if was_luks1 => return Ok(()),
        _ => "luks2",
    };
    match request.text("type").and_then(OsStr::to_str) {
        Some(kind @ ("luks1" | "luks2")) if kind != is => {
            Err(Failure::parameters(format!("--type {kind}: the volume is one of {is}"))
                .hint("leave --type out; `cryptsetup convert --type` changes it"))
        }
        _ => Ok(()),
    }
}

fn check_begun(request: &Request, begun: &Reencryption) -> Result<(), Failure> {
    let mode = match begun.mode {
        ReencryptMode::Encrypt => "an encryption",
        ReencryptMode::Reencrypt => "a re-encryption",
        ReencryptMode::Decrypt => "a decryption",
    };
    for (option, its) in [("encrypt", ReencryptMode::Encrypt), ("decrypt", ReencryptMode::Decrypt)] {
        if request.has(option) && begun.mode != its {
            return Err(Failure::parameters(format!("--{option}: {mode} of it is in progress"))
                .hint("--resume-only goes on with that"));
        }
    }
    let fits: &[&str] = match begun.resilience {
        Resilience::None | Resilience::Journal | Resilience::Checksum(_) => &["none", "journal", "checksum"],
        Resilience::DataShift(_) => &["datashift"],
        Resilience::DataShiftJournal(_) | Resilience::DataShiftChecksum(..) => {
            &["journal", "checksum", "datashift-journal", "datashift-checksum"]
        }
    };
    check_kind(request, fits, &format!("{mode} that was begun so"))
}

/// How data survives that is moved, or stays where it is.
fn check_new(request: &Request, locked: &LockedVolume) -> Result<(), Failure> {
    let offset = locked.info().segments.first().map_or(0, |segment| segment.offset);
    let moves = request.has("reduce-device-size");
    match (request.has("encrypt"), request.has("decrypt")) {
        (true, _) => Ok(()),
        (false, true) if offset > 0 => check_kind(
            request,
            &["journal", "checksum", "datashift-journal", "datashift-checksum"],
            "a decryption that moves the data",
        ),
        (false, _) if moves => Ok(()),
        (false, _) => check_kind(
            request,
            &["none", "journal", "checksum"],
            "a re-encryption that does not move the data",
        ),
    }
}

fn check_kind(request: &Request, fits: &[&str], what: &str) -> Result<(), Failure> {
    match request.text("resilience").and_then(OsStr::to_str) {
        Some(kind) if !fits.contains(&kind) => {
            Err(Failure::parameters(format!("--resilience {kind} does not go with {what}"))
                .hint(format!("there {} can be chosen; or leave it out", fits.join(", "))))
        }
        _ => Ok(()),
    }
}
