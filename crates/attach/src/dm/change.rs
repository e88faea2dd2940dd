//! Changes of a mapping that is open: suspended with its key wiped, resumed, resized, or given another table in place.
//!
//! A new table is loaded first, where a wrong one is refused and nothing changes. Then I/O stops, the tables change places, and
//! I/O goes on.

use std::path::{Path, PathBuf};

use atrest_secret::SecretBytes;
use atrest_volume::{CryptFlags, CryptTarget, Volume};

use super::control::Control;
use super::error::DmError;
use super::message::Message;
use super::status::Mapping;
use super::table::{self, KeyPlace};
use super::udev::{Audience, Cookie};
use super::{encrypted, header_uuid, node, sys, uuid};

/// Stops all I/O of a LUKS mapping and wipes its key out of the kernel. What was begun is written first. Reads and writes wait until
/// [`resume`].
///
/// # Errors
/// [`DmError::NotLuks`], [`DmError::Suspended`], [`DmError::Fixed`] for one in the middle of its re-encryption, whose keys could not come
/// back, or why the kernel does not do it: I/O goes on then.
pub fn suspend(name: &str) -> Result<(), DmError> {
    let control = Control::open()?;
    let mapping = luks(&control, name)?;
    if mapping.suspended {
        return Err(DmError::Suspended { name: name.into() });
    }
    if control.table(name)?.targets().ok_or(DmError::Answer)?.len() > 1 {
        return Err(DmError::Fixed { name: name.into() });
    }
    control.suspend(name)?;
    if mapping.key_bits == 0 {
        return Ok(());
    }
    control.tell(name, b"key wipe").inspect_err(|_| {
        // The first error is the one to tell.
        let _ = go_on(&control, name);
    })
}

/// Gives a suspended mapping its key back and lets I/O go on. The volume must have kept its key.
///
/// # Errors
/// [`DmError::NotSuspended`] or [`DmError::OtherVolume`] before anything is done; [`DmError::NoKey`], [`DmError::Keyring`], or why the
/// kernel does not take the key. I/O goes on waiting then.
pub fn resume(name: &str, volume: &Volume, disable_keyring: bool) -> Result<(), DmError> {
    let control = Control::open()?;
    let mapping = luks(&control, name)?;
    if !mapping.suspended {
        return Err(DmError::NotSuspended { name: name.into() });
    }
    let target = same(&control, name, &mapping, volume)?;
    if mapping.key_bits > 0 {
        let keys = KeyPlace::choose(volume, disable_keyring)?;
        control.tell(name, &table::joined(&[b"key set ", &table::key(target, &keys)]))?;
    }
    go_on(&control, name)
}

/// Shows another number of bytes of a mapping's device; without a size, all that the device has by now. A volume whose key is in the
/// kernel's keyring must be given again.
///
/// # Errors
/// [`DmError::Size`], [`DmError::Fixed`], [`DmError::Suspended`], [`DmError::NeedsKey`] or [`DmError::OtherVolume`] before anything is
/// done; otherwise why the kernel does not take the table, and the mapping stays as it was.
pub fn resize(name: &str, size: Option<u64>, volume: Option<&Volume>) -> Result<u64, DmError> {
    let control = Control::open()?;
    let mapping = encrypted(&control, name)?;
    if mapping.suspended {
        return Err(DmError::Suspended { name: name.into() });
    }
    if mapping.keyring {
        let volume = volume.ok_or_else(|| DmError::NeedsKey { name: name.into() })?;
        same(&control, name, &mapping, volume)?;
        KeyPlace::choose(volume, false)?;
    }
    let line = only_line(&control, name, &mapping)?;
    let room = room(&mapping)?;
    let unit = u64::from(mapping.sector_size);
    // intended: what is left of a unit at the end is not shown.
    let wanted = size.unwrap_or(room - room % unit);
    if wanted == 0 || !wanted.is_multiple_of(unit) || wanted > room {
        return Err(DmError::Size { wanted, unit, room });
    }
    replace(&control, &mapping, wanted, &line)?;
    Ok(wanted)
}

/// Gives a mapping the flags that are asked for here and in the header, and no others. Key, cipher, place and size stay.
///
/// # Errors
/// [`DmError::Fixed`], [`DmError::Suspended`], [`DmError::OtherVolume`] or [`DmError::DiscardWithTags`] before anything is done;
/// otherwise why the kernel does not take the table, and the mapping stays as it was.
pub fn refresh(
    name: &str,
    volume: &Volume,
    flags: CryptFlags,
    disable_keyring: bool,
) -> Result<PathBuf, DmError> {
    let control = Control::open()?;
    let mapping = encrypted(&control, name)?;
    if mapping.suspended {
        return Err(DmError::Suspended { name: name.into() });
    }
    let target = same(&control, name, &mapping, volume)?;
    let old = only_line(&control, name, &mapping)?;
    let keys = KeyPlace::choose(volume, disable_keyring)?;
    let (old_key, device) = key_and_device(&old).ok_or(DmError::Answer)?;
    // A key that the table shows is compared; one in the keyring is known by its name, which `same` has compared.
    if !mapping.keyring && SecretBytes::copy_from(old_key) != table::key(target, &KeyPlace::Table) {
        return Err(DmError::OtherVolume { name: name.into() });
    }
    let line = table::line(target, &keys, (device, mapping.offset * 512), volume.flags().or(flags));
    replace(&control, &mapping, mapping.sectors * 512, &line)?;
    node::appear(&control, name)
}

fn luks(control: &Control, name: &str) -> Result<Mapping, DmError> {
    let mapping = encrypted(control, name)?;
    match mapping.kind.as_str() {
        "LUKS1" | "LUKS2" => Ok(mapping),
        _ => Err(DmError::NotLuks { name: name.into() }),
    }
}

/// The one target of a volume that a mapping was made of: its UUID, cipher and place are the mapping's.
fn same<'a>(
    control: &Control,
    name: &str,
    mapping: &Mapping,
    volume: &'a Volume,
) -> Result<&'a CryptTarget, DmError> {
    let found = control.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.into() })?;
    let target = match volume.targets() {
        [] => return Err(DmError::NoKey),
        [target] => target,
        _ => return Err(DmError::Fixed { name: name.into() }),
    };
    let is = header_uuid(volume).is_none_or(|_| found.uuid == uuid(name, volume))
        && target.cipher == mapping.cipher
        && target.key.len() * 8 == mapping.key_bits
        && target.iv_offset == mapping.iv_offset
        && target.data_unit == mapping.sector_size
        && (mapping.tags.is_some() || target.media_offset == mapping.offset * 512);
    if is { Ok(target) } else { Err(DmError::OtherVolume { name: name.into() }) }
}

/// The line of a mapping that has one, and no tags.
fn only_line(control: &Control, name: &str, mapping: &Mapping) -> Result<SecretBytes, DmError> {
    let table = control.table(name)?;
    match table.targets().ok_or(DmError::Answer)?.as_slice() {
        [target] if mapping.tags.is_none() && mapping.layers.is_empty() => {
            Ok(SecretBytes::copy_from(target.line))
        }
        _ => Err(DmError::Fixed { name: name.into() }),
    }
}

/// The key's word of a line, and the number of its device.
fn key_and_device(line: &[u8]) -> Option<(&[u8], u64)> {
    let mut words = line.split(|byte| *byte == b' ');
    let key = words.nth(1)?;
    let (major, minor) = core::str::from_utf8(words.nth(1)?).ok()?.split_once(':')?;
    Some((key, rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?)))
}

/// Bytes of a mapping's device behind the place where the ciphertext begins.
fn room(mapping: &Mapping) -> Result<u64, DmError> {
    let size = device_size(&mapping.device, mapping.file.is_some())?;
    // intended: a device that ends before its data begins has no room.
    Ok(size.saturating_sub(mapping.offset * 512))
}

/// Bytes of a device. A loop device is told first to look how long its file is.
pub fn device_size(device: &Path, is_loop: bool) -> Result<u64, DmError> {
    let failed = |error| DmError::Device { path: device.into(), error };
    if is_loop {
        let device = std::fs::OpenOptions::new().read(true).open(device).map_err(failed)?;
        sys::ioctl_none(std::os::fd::AsFd::as_fd(&device), sys::LOOP_SET_CAPACITY).map_err(failed)?;
    }
    let name = device.file_name().ok_or(DmError::Answer)?;
    let path = Path::new("/sys/class/block").join(name).join("size");
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let sectors: u64 = text.trim().parse().map_err(|_| DmError::Answer)?;
    sectors.checked_mul(512).ok_or(DmError::Answer)
}

/// Puts a table of one line in place of the one that a mapping has.
fn replace(control: &Control, mapping: &Mapping, size: u64, line: &[u8]) -> Result<(), DmError> {
    let name = &mapping.name;
    let mut table = Message::new(name);
    table.read_only(mapping.read_only);
    table.target(0, size, "crypt", line);
    exchange(control, name, table)
}

/// Puts a table in place of the one that a mapping has, and that it can go on with as well.
pub fn exchange(control: &Control, name: &str, table: Message) -> Result<(), DmError> {
    control.load(table)?;
    control.suspend(name)?;
    go_on(control, name).inspect_err(|_| {
        // The kernel looks at sizes last, and throws a table away that it does not take. The first error is the one to tell.
        let _ = go_on(control, name);
    })
}

/// Puts a table in place of one that is out of date, with which nobody may go on. If the kernel does not take it, a mapping whose I/O waits
/// goes on waiting.
///
/// # Errors
/// [`DmError::Waits`] if the mapping was suspended and stays so; otherwise why the kernel does not take the table.
pub fn put_right(control: &Control, name: &str, table: Message) -> Result<(), DmError> {
    let put = control.load(table).and_then(|()| control.suspend(name)).and_then(|()| go_on(control, name));
    put.or_else(|error| match control.status(name)? {
        // It was never suspended, and every zone that was cut off fails; or udev alone has not heard of it.
        Some(found) if !found.suspended => Err(error),
        _ => Err(DmError::Waits { name: name.into(), error: Box::new(error) }),
    })
}

/// Lets a mapping go on, with the table that was loaded if one was.
pub fn go_on(control: &Control, name: &str) -> Result<(), DmError> {
    let cookie = Cookie::new(Audience::Everybody)?;
    let told_udev = control.resume(name, cookie.event())?;
    cookie.wait(told_udev)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_device_are_found_in_a_line() {
        let found =
            key_and_device(b"aes-xts-plain64 :64:logon:cryptsetup:x-d0 0 254:16 32768 1 allow_discards");
        assert_eq!(found, Some((&b":64:logon:cryptsetup:x-d0"[..], rustix::fs::makedev(254, 16))));
        for bad in [&b""[..], b"aes", b"aes - 0 sda 0", b"aes - 0 8:x 0"] {
            assert_eq!(key_and_device(bad), None);
        }
    }
}
