//! Repair of the keyslot table where its contents follow from the rest of the header.
//!
//! Only places and state words can be made up: offsets and stripes are the same in every header for a key length, and
//! a damaged state word does not say more than salt and iterations do. A keyslot that was read rightly is not touched.
//!
//! Of the names two follow from what they are, as cryptsetup has it: ECB has no IV, whatever is behind its name, and names of hashes are
//! in lower case.

use atrest_cipher::CipherSpec;
use atrest_kdf::Hash;

use super::header::{Fields, default_sectors};
use super::text::Text;
use super::{Header, HeaderError, SLOTS, STRIPES};

/// A repaired header and what was wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The header, checked.
    pub header: Header,
    /// What was wrong with each keyslot; nothing at all if the header was intact.
    pub slots: [Option<HeaderError>; SLOTS],
    /// Whether the name of the mode or of the hash was another one.
    pub names: bool,
}

impl Repaired {
    /// Whether anything was changed.
    pub fn changed(&self) -> bool {
        self.names || self.slots.iter().any(Option::is_some)
    }
}

/// Parses a header and repairs its keyslot table.
///
/// # Errors
/// [`HeaderError`] with what [`Header::parse`] found first, if the damage is not in the keyslot table, or if
/// the table can't be made up.
pub fn repair(bytes: &[u8]) -> Result<Repaired, HeaderError> {
    let original = match Header::parse(bytes) {
        Ok(mut header) => {
            let names = names(&mut header.fields);
            return Ok(Repaired { header, slots: Default::default(), names });
        }
        Err(error) => error,
    };
    let mut fields = Fields::parse(bytes)?;
    let mut slots: [Option<HeaderError>; SLOTS] = Default::default();
    let expected = default_sectors(fields.key_len as usize);
    let (key_len, data_sector) = (fields.key_len, fields.data_sector);

    for ((number, slot), (expected, damage)) in
        fields.slots.iter_mut().enumerate().zip(expected.into_iter().zip(&mut slots))
    {
        let Err(error) = slot.check(number, key_len, data_sector) else { continue };
        if let HeaderError::SlotState { .. } = error {
            slot.state = slot.likely_state();
        }
        if slot.check(number, key_len, data_sector).is_err() {
            slot.sector = expected;
            slot.stripes = STRIPES;
        }
        *damage = Some(error);
    }
    // Of two areas that overlap, the one that is not where it belongs is moved.
    while let Some((a, b)) = fields.overlap() {
        let displaced = |number: usize| {
            let place = fields.slots.get(number).map(|slot| (slot.sector, slot.stripes));
            place != expected.get(number).map(|&sector| (sector, STRIPES))
        };
        let Some(number) = [a, b].into_iter().find(|&number| displaced(number)) else { break };
        if let (Some(slot), Some(&sector), Some(damage)) =
            (fields.slots.get_mut(number), expected.get(number), slots.get_mut(number))
        {
            slot.sector = sector;
            slot.stripes = STRIPES;
            *damage = Some(HeaderError::AreaOverlap { a, b });
        }
    }
    let names = names(&mut fields);
    let header = Header { fields };
    match Header::parse(&header.encode()) {
        Ok(header) => Ok(Repaired { header, slots, names }),
        Err(_) => Err(original),
    }
}

/// Puts the names right that can only be meant in one way. Whether there were any.
fn names(fields: &mut Fields) -> bool {
    let mut changed = false;
    if fields.cipher_mode.as_str().starts_with("ecb-")
        && CipherSpec::from_parts(fields.cipher_name.as_str(), fields.cipher_mode.as_str()).is_err()
        && let Some(mode) = Text::new("ecb")
    {
        fields.cipher_mode = mode;
        changed = true;
    }
    let mut lower = [0; 32];
    let name = fields.hash.as_str();
    if let Some(place) = lower.get_mut(..name.len())
        && name.bytes().any(|byte| byte.is_ascii_uppercase())
    {
        place.copy_from_slice(name.as_bytes());
        place.make_ascii_lowercase();
        let known = core::str::from_utf8(place).ok().filter(|name| Hash::named(name).is_ok());
        if let Some(hash) = known.and_then(Text::new) {
            fields.hash = hash;
            changed = true;
        }
    }
    changed
}
