//! The keys of a map: one that hashes names, one that authenticates entries.

use atrest_kdf::Prf;

use crate::MapError;
use crate::shape::Shape;

/// What the keys are derived from. Two maps never have the same pair of volume key and identifier.
#[derive(Clone, Copy)]
pub struct MapKey<'a> {
    /// The volume key, any length: that of the flash below, or another one.
    pub volume_key: &'a [u8],
    /// The volume's identifier.
    pub uuid: &'a [u8; 16],
}

/// A name, as it stands on the medium: the first bytes of its hash under the key.
pub type NameId = [u8; ID_LEN];

/// Bytes in a [`NameId`].
pub const ID_LEN: usize = 12;

const LABEL: &[u8] = b"atrest key value 1";

pub(crate) struct Keys {
    names: Prf,
    pub(crate) tags: Prf,
}

impl Keys {
    pub(crate) fn derive(key: &MapKey<'_>, shape: &Shape) -> Result<Self, MapError> {
        // Every byte is looked at, whatever it is.
        let any = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all | byte) != 0;
        if !any(key.volume_key) || !any(key.uuid) {
            return Err(MapError::NoKey);
        }
        let extracted = Prf::extract(key.uuid, key.volume_key);
        let sizes = [shape.unit, shape.units.into(), shape.blocks.into()].map(u32::to_le_bytes);
        let output = |purpose| Prf::new(&extracted.expand::<32>(&[LABEL, sizes.as_flattened(), &[purpose]]));
        Ok(Self { names: output(b'n'), tags: output(b't') })
    }

    pub(crate) fn id(&self, name: &[u8]) -> NameId {
        let whole = self.names.tag(&[name]);
        let mut id = NameId::default();
        id.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        id
    }
}
