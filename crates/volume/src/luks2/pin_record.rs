//! What a trusted store keeps of a pinned header: the newest one that was seen (FORMATS.md, "Pinned headers"). With it an older pinned
//! header of the same volume is refused.
//!
//! A change writes the header first, then the store. A cut between leaves a header that is newer than the store: only who has the volume
//! key can have made it, so it is taken, and the store is told when the volume is next opened. The other order would leave a store that
//! is newer than every header there is, and a volume that nobody can open. Until the store is told, the header before the change can be put
//! back unnoticed, as if the change had never begun; whoever made it has not been told that it was done.

use atrest_codec::{Le, decode, encode};
use atrest_device::TRUSTED_RECORD_LEN;
use atrest_format::luks2::Pin;

use super::Luks2;
use super::pin::{PinError, VolumeKeyId};
use crate::{UnlockError, VolumeKey};

const MARK: [u8; 2] = [0x95, 0x70];
const VERSION: u16 = 1;

/// The newest pinned header of a volume that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinRecord {
    /// The volume's key.
    pub key: VolumeKeyId,
    /// The header's number.
    pub counter: u64,
    /// Its MAC: after a cut two headers can have the same number.
    pub mac: [u8; 32],
}

impl PinRecord {
    /// Its bytes.
    pub fn encode(&self) -> [u8; TRUSTED_RECORD_LEN] {
        encode((MARK, Le(VERSION), self.key.bytes(), Le(self.counter), self.mac, [0; 20]))
    }

    /// The record that these bytes are; `None` if they are that of another kind of volume, or of a version that is not known.
    pub fn decode(bytes: &[u8; TRUSTED_RECORD_LEN]) -> Option<Self> {
        type Fields = ([u8; 2], Le<u16>, [u8; 16], Le<u64>, [u8; 32], [u8; 20]);
        let (mark, Le(version), key, Le(counter), mac, rest): Fields = decode(bytes);
        let ours = (mark, version, rest) == (MARK, VERSION, [0; 20]);
        ours.then_some(Self { key: VolumeKeyId::from(key), counter, mac })
    }
}

impl Luks2 {
    /// What a trusted store is to keep of this header, once it has been checked with the key of this identifier; `None` if it is not
    /// pinned.
    ///
    /// # Errors
    /// [`PinError::Token`].
    pub fn pin_record(&self, key: VolumeKeyId) -> Result<Option<PinRecord>, PinError> {
        let pin = Pin::of(self.metadata()).map_err(PinError::Token)?;
        Ok(pin.map(|(_, pin)| PinRecord { key, counter: pin.counter, mac: pin.mac }))
    }

    /// Checks that the header is the one that was seen last, or a newer one. What it says of itself is believed until
    /// [`check_pin`](Self::check_pin) has the key.
    ///
    /// # Errors
    /// [`PinError::Missing`], [`PinError::Older`], [`PinError::Other`] or [`PinError::Token`].
    pub fn check_seen(&self, seen: &PinRecord) -> Result<(), PinError> {
        let found = self.pin_record(seen.key)?.ok_or(PinError::Missing)?;
        match found.counter.cmp(&seen.counter) {
            core::cmp::Ordering::Less => Err(PinError::Older { counter: found.counter, least: seen.counter }),
            core::cmp::Ordering::Equal if found != *seen => Err(PinError::Other { counter: seen.counter }),
            _ => Ok(()),
        }
    }

    /// Checks that a record is of the volume with this key.
    ///
    /// # Errors
    /// [`UnlockError::OtherVolumeKey`].
    pub fn check_record(&self, key: &VolumeKey, seen: &PinRecord) -> Result<(), UnlockError> {
        let (expected, found) = (seen.key, VolumeKeyId::of(key));
        match expected == found {
            true => Ok(()),
            false => {
                Err(UnlockError::OtherVolumeKey { expected: expected.to_string(), found: found.to_string() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_fields_where_the_format_says() {
        let record = PinRecord { key: VolumeKeyId::from([7; 16]), counter: 0x0102, mac: [9; 32] };
        let mut bytes = [0; TRUSTED_RECORD_LEN];
        bytes[..4].copy_from_slice(&[0x95, 0x70, 1, 0]);
        bytes[4..20].fill(7);
        bytes[20..22].copy_from_slice(&[2, 1]);
        bytes[28..60].fill(9);
        assert_eq!(record.encode(), bytes);
        assert_eq!(PinRecord::decode(&bytes), Some(record));
        for at in [0, 1, 2, 3, 60, 79] {
            let mut other = bytes;
            other[at] ^= 1;
            assert_eq!(PinRecord::decode(&other), None, "byte {at}");
        }
    }
}
