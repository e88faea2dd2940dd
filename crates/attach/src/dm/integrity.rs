//! The mapping below an authenticated one: dm-integrity keeps a tag beside each data unit, and a journal that writes both as one
//! (the kernel's `admin-guide/device-mapper/dm-integrity.rst`). It has no key.

use atrest_volume::{CryptTarget, Volume};

use super::control::Control;
use super::error::DmError;
use super::message::Message;
use super::node::major_minor;
use super::udev::Audience;
use super::{MAX_NAME, header_uuid, map, remove, uuid_of};

/// How its UUID begins, after that of all mappings.
pub const KIND: &str = "INTEGRITY";
/// Behind the name of the mapping above.
const SUFFIX: &str = "_dif";

/// A mapping that holds tags and data.
pub struct Below {
    /// Its device number.
    pub number: u64,
    name: String,
}

/// Its name, by that of the mapping above.
pub fn name_below(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// Makes it, if the target has tags: with the data device's number, whether it is for reading only, and whether to leave out the journal.
pub fn open(
    control: &Control,
    above: &str,
    volume: &Volume,
    target: &CryptTarget,
    (device, read_only, no_journal): (u64, bool, bool),
) -> Result<Option<Below>, DmError> {
    let Some(tags) = target.tags else { return Ok(None) };
    let name = name_below(above);
    if name.len() > MAX_NAME {
        return Err(DmError::Name { name });
    }
    if control.status(&name)?.is_some() {
        return Err(DmError::NameTaken { name });
    }
    let (major, minor) = major_minor(device);
    let (start, mode) = (target.media_offset / 512, if no_journal { 'D' } else { 'J' });
    let options = match target.data_unit {
        512 => "0".into(),
        unit => format!("1 block_size:{unit}"),
    };
    let line = format!("{major}:{minor} {start} {} {mode} {options}", tags.len);
    let mut table = Message::new(&name);
    table.target(0, tags.provided, "integrity", line.as_bytes());
    let uuid = uuid_of(KIND, header_uuid(volume), &name);
    map(control, &name, &uuid, read_only, table, Audience::Mapping)?;
    let number = control.status(&name)?.map(|found| found.device);
    Ok(number.map(|number| Below { number, name }))
}

impl Below {
    /// Removes it.
    pub fn remove(self, control: &Control) -> Result<(), DmError> {
        remove(control, &self.name)
    }
}
