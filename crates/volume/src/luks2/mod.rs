//! LUKS2 volumes: unlock, keyslots, tokens, header copies (LUKS2 On-Disk Format Specification 1.1.3).
//!
//! Every change holds the exclusive metadata lock, reads the headers again under it, makes all its checks, and then
//! writes in an order in which a power loss at any moment leaves a header that opens: keyslot areas before the
//! header copies that list them, one copy durable before the other is touched, and wiped areas verified on the media
//! before the header forgets them. FORMATS.md lists what each operation guarantees.

mod authenticated;
mod backup;
mod change;
mod create;
mod info;
mod keyslot;
pub(crate) mod media;
mod pin;
mod pin_counter;
mod pin_record;
pub mod reencrypt;
pub(crate) mod session;
mod token;
mod unlock;

pub use backup::{header_backup, header_restore, is_backup_of_sealed};
pub(crate) use create::default_key_len;
pub use create::format;
pub use pin::{BadVolumeKeyId, NewPin, PinError, Pinned, VolumeKeyId};
pub use pin_counter::{NewPinCounter, PinCounter};
pub use pin_record::PinRecord;

pub use atrest_format::luks2::{HeaderPolicy, KEYRING_TOKEN, PIN_TOKEN, PolicyFault, keyring_description};

use atrest_device::{LockMode, Media};
use atrest_format::luks2::{HeaderPair, Metadata};

use crate::OpenError;
use crate::lock::MetadataLock;

/// A LUKS2 volume of which the header was read, but whose key is not known.
#[derive(Clone, Debug)]
pub struct Luks2 {
    pair: HeaderPair,
    /// Renews the pin of the header at each change, once somebody has shown the volume key.
    pin: Option<pin::PinKey>,
    /// The volume key must be this one where it renews a pin.
    expected: Option<VolumeKeyId>,
}

impl Luks2 {
    /// Reads both header copies under a shared lock. Writes nothing.
    ///
    /// # Errors
    /// [`OpenError::NotLuks`] if there is no copy at all, [`OpenError::Luks2`] with both reasons if none can
    /// be used, [`OpenError::Device`] if reading fails.
    pub fn read(header: &dyn Media) -> Result<Self, OpenError> {
        let _lock = MetadataLock::take(header, LockMode::Shared)?;
        media::read_pair(header).map(|pair| Self { pair, pin: None, expected: None })
    }

    /// UUID.
    pub fn uuid(&self) -> &str {
        self.pair.header.binary.uuid.as_str()
    }

    /// Label, empty if there is none.
    pub fn label(&self) -> &str {
        self.pair.header.binary.label.as_str()
    }

    /// Subsystem, empty if there is none.
    pub fn subsystem(&self) -> &str {
        self.pair.header.binary.subsystem.as_str()
    }

    /// The JSON metadata, parsed.
    pub fn metadata(&self) -> &Metadata {
        &self.pair.header.metadata
    }

    /// Both header copies, with what is wrong with them.
    pub fn header_pair(&self) -> &HeaderPair {
        &self.pair
    }

    /// Bytes that header copies and keyslots area take at the start of the header device.
    pub fn header_size(&self) -> u64 {
        self.pair.header.total_size()
    }
}
