//! An open volume as a block device of the kernel: its dm-crypt does the encryption, and nothing of ours runs any more.
//!
//! The kernel's device-mapper is spoken to directly, by its ioctls on `/dev/mapper/control`; the library that
//! cryptsetup uses for that is not needed, and neither is udev. Names, UUIDs, tables and the way udev is waited for are
//! those of cryptsetup and libdevmapper, so that `cryptsetup close`, `dmsetup` and systemd find what they expect, and
//! [`close`] takes what they made. Everything here needs root.

#[doc(hidden)]
pub mod answer;
mod cascade;
mod change;
mod control;
mod error;
mod integrity;
pub mod integrity_table;
mod keyring;
mod loop_device;
mod message;
mod node;
mod parts;
mod place;
mod remap;
pub mod stacked;
mod status;
#[allow(unsafe_code)]
mod sys;
mod table;
mod udev;
pub mod verity_table;

use std::path::PathBuf;

use atrest_engine::FileDevice;
use atrest_volume::{CryptFlags, Volume, VolumeFormat, is_uuid};

pub use change::{refresh, resize, resume, suspend};
pub use error::DmError;
pub use remap::{
    Keys, Left, Paused, Remapped, Trial, check_can_follow, check_key, check_volume, left, pause, settle,
    volume_uuid,
};
pub use status::{Mapping, find, list};

use control::Control;
pub(crate) use loop_device::LoopDevice;
use message::Message;
use parts::Part;
use table::KeyPlace;
use udev::{Audience, Cookie};

/// Longest name of a mapping, in bytes.
const MAX_NAME: usize = 127;
/// Longest UUID of a mapping, in bytes.
const MAX_UUID: usize = 128;

/// How a volume is mapped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The device refuses writes.
    pub read_only: bool,
    /// How dm-crypt works, beside what the header asks for.
    pub flags: CryptFlags,
    /// Put the key of a LUKS2 volume into the table, where `dmsetup table --showkeys` shows it, instead of the kernel's keyring.
    pub disable_keyring: bool,
}

/// Maps an unlocked volume to `/dev/mapper/NAME` and gives that path. `media` holds the data: a block device, which dm-crypt claims
/// for itself, or a file, which gets a loop device that goes when the mapping does, and stays locked as long. The volume must have
/// kept its key ([`keep_key`](atrest_volume::UnlockOptions::keep_key)).
///
/// When it fails, nothing is left behind.
///
/// # Errors
/// [`DmError::Name`] or [`DmError::NameTaken`] if the name can't be used, [`DmError::NoKey`] if the volume
/// has not kept its key, [`DmError::Shown`] for the boot sector of Windows Vista, [`DmError::DiscardWithTags`] for discards of an authenticated volume.
/// [`DmError::DeviceBusy`], [`DmError::Device`] or [`DmError::Loop`] if `media` can't be mapped,
/// [`DmError::Table`] if the kernel lacks the cipher or dm-crypt, [`DmError::Keyring`] if it does not take
/// the key, [`DmError::Udev`] or [`DmError::Node`] if no device node appears. [`DmError::Control`] if the
/// kernel has no device-mapper or this user may not use it.
pub fn open(name: &str, volume: &Volume, media: FileDevice, options: Options) -> Result<PathBuf, DmError> {
    check_free(name)?;
    let control = Control::open()?;
    let parts = parts::of(volume)?;
    let read_only = options.read_only || volume.read_only();
    let data = DataDevice::new(media, read_only)?;
    let flags = volume.flags().or(options.flags);
    if flags.allow_discards && volume.targets().iter().any(|target| target.tags.is_some()) {
        return Err(DmError::DiscardWithTags);
    }
    let keys = KeyPlace::choose(volume, options.disable_keyring)?;
    let tags = match volume.targets() {
        [only] => {
            integrity::open(&control, name, volume, only, (data.number(), read_only, flags.no_journal))?
        }
        _ => None,
    };
    let targets = volume.targets();
    let layered = match cascade::is_one(volume) {
        true => Some(cascade::open(&control, name, targets, (data.number(), read_only), flags)?),
        false => None,
    };
    let mut table = Message::new(name);
    for part in parts {
        let target = match part {
            Part::Crypt(target) => target,
            Part::Clear(segment) => {
                let line = parts::linear(data.number(), segment.media_offset);
                table.target(segment.start, segment.len, "linear", line.as_bytes());
                continue;
            }
            Part::Zeros(segment) => {
                table.target(segment.start, segment.len, "zero", b"");
                continue;
            }
        };
        let place = match (&tags, layered) {
            (Some(below), _) => (below.number, 0),
            (None, Some(below)) => (below, 0),
            (None, None) => (data.number(), target.media_offset),
        };
        table.target(target.start, target.len, "crypt", &table::line(target, &keys, place, flags));
    }
    let mapped = map(&control, name, &uuid(name, volume), read_only, table, Audience::Everybody);
    if let (Err(_), Some(below)) = (&mapped, tags) {
        // The first error is the one to tell.
        let _ = below.remove(&control);
    }
    if mapped.is_err() && layered.is_some() {
        cascade::undo(&control, name, targets.len());
    }
    // The mapping holds the loop device from here on.
    drop(data);
    mapped
}

/// Makes a mapping with this table and gives its path. When it fails, nothing is left behind.
fn map(
    control: &Control,
    name: &str,
    uuid: &str,
    read_only: bool,
    mut table: Message,
    audience: Audience,
) -> Result<PathBuf, DmError> {
    let cookie = Cookie::new(audience)?;
    let mut create = Message::new(name);
    create.uuid(uuid);
    create.read_only(read_only);
    table.read_only(read_only);
    control.create(name, create)?;
    let mapped = control.load(table).and_then(|()| control.resume(name, cookie.event()));
    let appeared =
        mapped.and_then(|told_udev| cookie.wait(told_udev)).and_then(|()| node::appear(control, name));
    if appeared.is_err() {
        // The first error is the one to tell.
        let _ = control.remove(name, 0);
    }
    appeared
}

/// Removes the mapping `name`, whoever made it; its loop device goes with it, and so do those below it that keep tags or have
/// the other ciphers of a cascade. One that is not encrypted, or that is in use, is left alone.
///
/// # Errors
/// [`DmError::NotOpen`] if there is no such mapping, [`DmError::NotCrypt`] if it is not encrypted,
/// [`DmError::Busy`] if it is in use. [`DmError::Control`] if the kernel has no device-mapper or this user
/// may not use it.
pub fn close(name: &str) -> Result<(), DmError> {
    let control = Control::open()?;
    let mapping = encrypted(&control, name)?;
    remove(&control, name)?;
    for layer in &mapping.layers {
        remove(&control, layer)?;
    }
    match mapping.tags {
        Some(below) => remove(&control, &below.name),
        None => Ok(()),
    }
}

/// Removes a mapping as soon as nobody uses it, which may be at once.
///
/// # Errors
/// As [`close`], but for [`DmError::Busy`]. [`DmError::DeferWithTags`] for one with a mapping below it, which would stay.
pub fn close_deferred(name: &str) -> Result<(), DmError> {
    let control = Control::open()?;
    let mapping = encrypted(&control, name)?;
    if mapping.tags.is_some() || !mapping.layers.is_empty() {
        return Err(DmError::DeferWithTags { name: name.into() });
    }
    let cookie = Cookie::new(Audience::Everybody)?;
    let told_udev = control.remove_deferred(name, cookie.event())?;
    cookie.wait(told_udev)?;
    match control.status(name)? {
        Some(_) => Ok(()),
        None => node::disappear(name),
    }
}

/// Keeps a mapping that [`close_deferred`] would have removed.
///
/// # Errors
/// As [`close`], but for [`DmError::Busy`].
pub fn cancel_deferred(name: &str) -> Result<(), DmError> {
    let control = Control::open()?;
    encrypted(&control, name)?;
    control.tell(name, b"@cancel_deferred_remove")
}

/// The encrypted mapping of that name.
fn encrypted(control: &Control, name: &str) -> Result<Mapping, DmError> {
    check_name(name)?;
    let found = control.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.into() })?;
    status::mapping(control, name, found)?.ok_or_else(|| DmError::NotCrypt { name: name.into() })
}

fn remove(control: &Control, name: &str) -> Result<(), DmError> {
    let cookie = Cookie::new(Audience::Everybody)?;
    let told_udev = control.remove_patiently(name, cookie.event())?;
    cookie.wait(told_udev)?;
    node::disappear(name)
}

/// Whether the kernel has device-mapper. The node in `/dev` alone does not say so. Whoever may not use it is told that when it is used.
pub fn is_there() -> bool {
    match Control::open() {
        Ok(_) => true,
        Err(DmError::Control(error)) => error.kind() == std::io::ErrorKind::PermissionDenied,
        Err(_) => false,
    }
}

/// Checks that a mapping can get this name.
///
/// # Errors
/// [`DmError::Name`] or [`DmError::NameTaken`] if it can't. [`DmError::Control`] if the kernel has no
/// device-mapper or this user may not use it.
pub fn check_free(name: &str) -> Result<(), DmError> {
    check_name(name)?;
    match Control::open()?.status(name)? {
        Some(_) => Err(DmError::NameTaken { name: name.into() }),
        None => Ok(()),
    }
}

/// Checks that libdevmapper would use the name as it is.
///
/// # Errors
/// [`DmError::Name`] if it is empty, too long, or has characters that would be escaped.
pub fn check_name(name: &str) -> Result<(), DmError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c);
    let usable = !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed);
    match usable && name != "." && name != ".." && name != "control" {
        true => Ok(()),
        false => Err(DmError::Name { name: name.into() }),
    }
}

/// The UUID of the header, if it is one: a header can hold any bytes there, and they would go into a table.
fn header_uuid(volume: &Volume) -> Option<&str> {
    volume.uuid().filter(|uuid| is_uuid(uuid))
}

/// As cryptsetup writes it: udev's and systemd's rules look at its beginning.
fn uuid(name: &str, volume: &Volume) -> String {
    let kind = match volume.format() {
        VolumeFormat::Luks1 => "LUKS1",
        VolumeFormat::Luks2 => "LUKS2",
        VolumeFormat::Plain => "PLAIN",
        VolumeFormat::Tcrypt => "TCRYPT",
        VolumeFormat::LoopAes => "LOOPAES",
        VolumeFormat::BitLocker => "BITLK",
        VolumeFormat::FileVault => "FVAULT2",
    };
    uuid_of(kind, header_uuid(volume), name)
}

fn uuid_of(kind: &str, header: Option<&str>, name: &str) -> String {
    // intended: plain volumes have no UUID.
    let header: String = header.unwrap_or_default().chars().filter(|c| *c != '-').collect();
    let between = if header.is_empty() { "" } else { "-" };
    let mut uuid = format!("{}{kind}{between}{header}-{name}", status::PREFIX);
    uuid.truncate(MAX_UUID);
    uuid
}

/// Where the ciphertext is, for the kernel.
enum DataDevice {
    Block(u64),
    Loop(LoopDevice),
}

impl DataDevice {
    fn new(media: FileDevice, read_only: bool) -> Result<Self, DmError> {
        match media.device_number() {
            // Here the device is let go: the kernel takes it only if nobody else holds it for himself.
            Some(number) => Ok(Self::Block(number)),
            None => LoopDevice::attach(&media, read_only).map(Self::Loop),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Block(number) => *number,
            Self::Loop(device) => device.number(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_libdevmapper_would_write_otherwise_are_refused() {
        for name in ["root", "luks-1f2e", "a.b:c=d@e#f+g_h", &"x".repeat(127)] {
            check_name(name).expect(name);
        }
        for name in ["", ".", "..", "control", "a/b", "a b", "a\\x20b", "\u{e4}", &"x".repeat(128)] {
            assert!(matches!(check_name(name), Err(DmError::Name { .. })), "{name}");
        }
    }

    #[test]
    fn uuids_are_those_of_cryptsetup() {
        let volume = |format| Volume::new(format, Vec::new());
        assert_eq!(uuid("swap", &volume(VolumeFormat::Plain)), "CRYPT-PLAIN-swap");
        let luks = volume(VolumeFormat::Luks2).with_uuid("2cb54a5c-2c9c-4d0d-b0b5-6a0d0d6f5d33");
        assert_eq!(uuid("root", &luks), "CRYPT-LUKS2-2cb54a5c2c9c4d0db0b56a0d0d6f5d33-root");
        assert_eq!(uuid(&"x".repeat(127), &luks).len(), MAX_UUID);
        for hostile in ["1 0 7:0 0", &"\u{20ac}".repeat(12)] {
            let luks = volume(VolumeFormat::Luks2).with_uuid(hostile);
            assert_eq!(uuid("root", &luks), "CRYPT-LUKS2-root");
        }
    }
}
