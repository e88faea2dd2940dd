//! Mappings of the kernel's other targets, dm-integrity and dm-verity alone: made, looked at, changed in place and removed.

use std::path::{Path, PathBuf};

use atrest_engine::FileDevice;
use atrest_secret::SecretBytes;

use super::control::{Control, Found};
use super::error::DmError;
use super::message::Message;
use super::node::major_minor;
use super::udev::{Audience, Cookie};
use super::{DataDevice, change, check_free, check_name, keyring, map, node, remove, status, uuid_of};

/// A target that can stand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data units with tags.
    Integrity,
    /// Data under a hash tree.
    Verity,
}

impl Kind {
    fn target(self) -> &'static str {
        match self {
            Self::Integrity => "integrity",
            Self::Verity => "verity",
        }
    }

    /// As UUIDs of mappings begin, behind what all of them begin with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integrity => "INTEGRITY",
            Self::Verity => "VERITY",
        }
    }
}

/// A mapping that is to be made.
pub struct NewMapping<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its target.
    pub kind: Kind,
    /// The UUID of what is mapped, if it has one.
    pub uuid: Option<&'a str>,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// What it lies on.
    pub devices: Vec<FileDevice>,
}

/// A mapping that was found. Its table may hold keys.
pub struct Stacked {
    /// Its name.
    pub name: String,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether it is open.
    pub in_use: bool,
    /// The words of its table.
    pub table: SecretBytes,
    /// What the target says of itself.
    pub state: String,
}

/// Makes a mapping. `line` makes its table's line of its devices' numbers. When it fails, nothing is left behind.
///
/// # Errors
/// As [`open`](super::open).
pub fn open(new: NewMapping<'_>, line: impl FnOnce(&[String]) -> SecretBytes) -> Result<PathBuf, DmError> {
    check_free(new.name)?;
    let control = Control::open()?;
    let devices = new.devices.into_iter().map(|device| DataDevice::new(device, new.read_only));
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    let numbers: Vec<String> = devices.iter().map(|device| numbers(device.number())).collect();
    let mut table = Message::new(new.name);
    table.target(0, new.sectors * 512, new.kind.target(), &line(&numbers));
    let uuid = uuid_of(new.kind.name(), new.uuid, new.name);
    let mapped = map(&control, new.name, &uuid, new.read_only, table, Audience::Everybody);
    // The mapping holds the loop devices from here on.
    drop(devices);
    mapped
}

/// Puts the signature of a root hash (PKCS#7) where dm-verity finds it while this thread makes a mapping, and returns the name by
/// which a table asks for it. The kernel compares it with the certificates in its trusted keyrings.
///
/// # Errors
/// [`DmError::Keyring`]: the kernel has no keyrings, or the signature is empty or longer than 32767 bytes.
pub fn add_signature(name: &str, uuid: Option<&str>, signature: &[u8]) -> Result<String, DmError> {
    let before = uuid.map_or_else(String::new, |uuid| format!("{uuid}-"));
    let description = format!("cryptsetup:{before}{name}");
    keyring::add_signature(&description, signature).map_err(DmError::Keyring)?;
    Ok(description)
}

fn numbers(device: u64) -> String {
    let (major, minor) = major_minor(device);
    format!("{major}:{minor}")
}

/// The mapping of that name and kind.
///
/// # Errors
/// [`DmError::NotOpen`] or [`DmError::OtherKind`], or why the kernel does not tell.
pub fn find(name: &str, kind: Kind) -> Result<Stacked, DmError> {
    let control = Control::open()?;
    let found = of_kind(&control, name, kind)?;
    let (table, told) = (control.table(name)?, control.state(name)?);
    let targets = table.targets().ok_or(DmError::Answer)?;
    let told = told.targets().ok_or(DmError::Answer)?;
    let ([target], [state]) = (targets.as_slice(), told.as_slice()) else { return Err(DmError::Answer) };
    if target.kind != kind.target() {
        return Err(DmError::OtherKind { name: name.into(), kind: kind.target() });
    }
    Ok(Stacked {
        name: name.into(),
        sectors: target.sectors,
        read_only: found.read_only,
        in_use: found.open_count > 0,
        table: SecretBytes::copy_from(target.line),
        state: String::from_utf8_lossy(state.line).into_owned(),
    })
}

fn of_kind(control: &Control, name: &str, kind: Kind) -> Result<Found, DmError> {
    check_name(name)?;
    let found = control.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.into() })?;
    match found.uuid.strip_prefix(status::PREFIX).is_some_and(|rest| rest.starts_with(kind.name())) {
        true => Ok(found),
        false => Err(DmError::OtherKind { name: name.into(), kind: kind.target() }),
    }
}

/// Removes a mapping: now, or as soon as nobody uses it.
///
/// # Errors
/// Those of [`find`], and [`DmError::Busy`].
pub fn close(name: &str, kind: Kind, deferred: bool) -> Result<(), DmError> {
    let control = Control::open()?;
    of_kind(&control, name, kind)?;
    if !deferred {
        return remove(&control, name);
    }
    let cookie = Cookie::new(Audience::Everybody)?;
    let told_udev = control.remove_deferred(name, cookie.event())?;
    cookie.wait(told_udev)?;
    match control.status(name)? {
        Some(_) => Ok(()),
        None => node::disappear(name),
    }
}

/// Keeps a mapping that would have been removed as soon as nobody uses it.
///
/// # Errors
/// Those of [`find`].
pub fn keep(name: &str, kind: Kind) -> Result<(), DmError> {
    let control = Control::open()?;
    of_kind(&control, name, kind)?;
    control.tell(name, b"@cancel_deferred_remove")
}

/// Gives a mapping another table of the same kind, in place.
///
/// # Errors
/// Why the kernel does not take it: the mapping stays as it was.
pub fn replace(found: &Stacked, kind: Kind, sectors: u64, line: &[u8]) -> Result<(), DmError> {
    let control = Control::open()?;
    let mut table = Message::new(&found.name);
    table.read_only(found.read_only);
    table.target(0, sectors * 512, kind.target(), line);
    change::exchange(&control, &found.name, table)
}

/// The path of a device by its numbers, and the file that it shows if it is a loop device.
pub fn device(numbers: &str) -> (PathBuf, Option<PathBuf>) {
    status::device(numbers)
}

/// Bytes of a device. A loop device is told first to look how long its file is.
///
/// # Errors
/// [`DmError::Device`] if it does not tell.
pub fn device_size(path: &Path, is_loop: bool) -> Result<u64, DmError> {
    change::device_size(path, is_loop)
}
