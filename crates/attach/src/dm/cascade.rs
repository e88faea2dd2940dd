//! The mappings of a cascade: dm-crypt has one cipher in each, so that they lie one on the other. The lowest is on the device. Names are those of
//! cryptsetup: NAME on top, NAME_1 below it, and so on.

use atrest_volume::{CryptFlags, CryptTarget, Volume};

use super::control::Control;
use super::error::DmError;
use super::message::Message;
use super::node::major_minor;
use super::status::{Line, PREFIX};
use super::table::{self, KeyPlace};
use super::udev::Audience;
use super::{MAX_NAME, map, remove, uuid_of};

/// Kind of volumes that are cascades, as their mappings' UUIDs have it.
pub const KIND: &str = "TCRYPT";
/// Most ciphers below the first that any volume has.
const DEPTH: usize = 2;

/// A mapping below another one.
pub struct Layer {
    pub name: String,
    pub cipher: String,
    pub key_bits: usize,
    /// What it lies on, by its numbers.
    pub device: String,
    pub offset: u64,
}

/// Name of the mapping so many below the top one.
fn name_below(top: &str, depth: usize) -> String {
    format!("{top}_{depth}")
}

/// Whether a volume is a cascade: one segment that takes several ciphers.
pub fn is_one(volume: &Volume) -> bool {
    volume.segments().len() == 1 && volume.targets().len() > 1
}

/// Makes the mappings below the top one, and gives the number of the device that this lies on. When it fails, nothing is left behind.
pub fn open(
    control: &Control,
    top: &str,
    targets: &[CryptTarget],
    (device, read_only): (u64, bool),
    flags: CryptFlags,
) -> Result<u64, DmError> {
    let names: Vec<_> = (1..targets.len()).map(|depth| name_below(top, depth)).collect();
    for name in &names {
        if name.len() > MAX_NAME {
            return Err(DmError::Name { name: name.clone() });
        }
        if control.status(name)?.is_some() {
            return Err(DmError::NameTaken { name: name.clone() });
        }
    }
    let mut below = device;
    let mut made: Vec<&str> = Vec::new();
    for (name, target) in names.iter().zip(targets.iter().skip(1)).rev() {
        let offset = if made.is_empty() { target.media_offset } else { 0 };
        let mut table = Message::new(name);
        table.target(0, target.len, "crypt", &table::line(target, &KeyPlace::Table, (below, offset), flags));
        let mapped = map(control, name, &uuid_of(KIND, None, name), read_only, table, Audience::Mapping);
        let number = mapped.and_then(|_| control.status(name)?.ok_or(DmError::Answer));
        match number {
            Ok(found) => below = found.device,
            Err(error) => {
                close(control, made.into_iter().rev());
                return Err(error);
            }
        }
        made.push(name);
    }
    Ok(below)
}

/// Removes layers after a failure, the upper ones first. The first error is the one to tell.
fn close<'a>(control: &Control, names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        let _ = remove(control, name);
    }
}

/// Removes the layers below a mapping that could not be made.
pub fn undo(control: &Control, top: &str, count: usize) {
    let names: Vec<_> = (1..count).map(|depth| name_below(top, depth)).collect();
    close(control, names.iter().map(String::as_str));
}

/// The layers below a mapping whose table names the device `on`, the uppermost first. What lies there by chance under such a name is none.
pub fn below(control: &Control, top: &str, on: &str) -> Result<Vec<Layer>, DmError> {
    let mut layers: Vec<Layer> = Vec::new();
    for depth in 1..=DEPTH {
        let name = name_below(top, depth);
        let Some(found) = control.status(&name)? else { break };
        let (major, minor) = major_minor(found.device);
        let above = layers.last().map_or(on, |layer| layer.device.as_str());
        if !found.uuid.starts_with(&format!("{PREFIX}{KIND}")) || above != format!("{major}:{minor}") {
            break;
        }
        let table = control.table(&name)?;
        let targets = table.targets().ok_or(DmError::Answer)?;
        let Some(target) = targets.first().filter(|target| target.kind == "crypt") else { break };
        let line = Line::parse(target.line).ok_or(DmError::Answer)?;
        layers.push(Layer {
            cipher: line.cipher.into(),
            key_bits: line.key_bits,
            device: line.device.into(),
            offset: line.offset,
            name,
        });
    }
    Ok(layers)
}

/// The name of a cascade as cryptsetup tells it: all ciphers, and the mode that they share.
pub fn cipher(top: &str, layers: &[Layer]) -> String {
    let mut ciphers = Vec::new();
    let mut mode = "";
    for whole in core::iter::once(top).chain(layers.iter().map(|layer| layer.cipher.as_str())) {
        let (cipher, rest) = whole.split_once('-').unwrap_or((whole, ""));
        ciphers.push(cipher);
        mode = rest;
    }
    format!("{}-{mode}", ciphers.join("-"))
}
