//! What is understood of the kernel's answers, for the fuzz target `dm_answer`: nobody but the kernel gives one otherwise.

use atrest_volume::{CryptFlags, CryptTarget};

use super::message::{self, Message};
use super::status;
use super::table::{self, KeyPlace};

/// A line of a table: first sector, sectors, kind and text.
pub type Target = (u64, u64, String, Vec<u8>);

/// An answer, read as each kind that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The mapping's UUID.
    pub uuid: String,
    /// The mapping's device number.
    pub device: u64,
    /// How often it is open.
    pub open_count: u32,
    /// The lines of a table.
    pub targets: Option<Vec<Target>>,
    /// The names of all mappings.
    pub names: Option<Vec<String>>,
}

impl Answer {
    /// `None` for fewer bytes than the head has.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let message = Message::answered(bytes)?;
        let targets = message.targets().map(|targets| {
            let own = |target: &message::Target<'_>| {
                (target.start, target.sectors, target.kind.to_owned(), target.line.to_owned())
            };
            targets.iter().map(own).collect()
        });
        Some(Self {
            uuid: message.answered_uuid(),
            device: message.device(),
            open_count: message.open_count(),
            targets,
            names: message.names(),
        })
    }
}

/// What a line of a dm-crypt table says, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The cipher.
    pub cipher: String,
    /// Bits in the key.
    pub key_bits: usize,
    /// Whether the key is in the kernel's keyring.
    pub keyring: bool,
    /// Number added to the IV's.
    pub iv_offset: u64,
    /// The device that holds the ciphertext.
    pub device: String,
    /// Its first sector there.
    pub offset: u64,
    /// Bytes in a data unit.
    pub sector_size: u32,
    /// Bytes beside each data unit.
    pub tag_len: Option<u32>,
    /// All other options.
    pub flags: Vec<String>,
}

impl Line {
    /// `None` for what is no such line.
    pub fn read(line: &[u8]) -> Option<Self> {
        let line = status::Line::parse(line)?;
        Some(Self {
            cipher: line.cipher.into(),
            key_bits: line.key_bits,
            keyring: line.keyring,
            iv_offset: line.iv_offset,
            device: line.device.into(),
            offset: line.offset,
            sector_size: line.sector_size,
            tag_len: line.tag_len,
            flags: line.flags,
        })
    }
}

/// The line for a segment, as the kernel gets it, with the key in the keyring under this UUID or in the line.
pub fn line(target: &CryptTarget, uuid: Option<&str>, device: (u64, u64), flags: CryptFlags) -> Vec<u8> {
    let keys = uuid.map_or(KeyPlace::Table, |uuid| KeyPlace::Keyring { uuid: uuid.into() });
    table::line(target, &keys, device, flags).to_vec()
}
