//! What a header of LUKS2 says of a volume that is one of LUKS1 and is only re-encrypted: tokens, of which each keyslot has one with the
//! number that it had. A re-encryption lets tokens follow the keyslots, so that each gets its number back.

use atrest_format::luks2::{HEADER_IN_FILE, HeaderError, Metadata, Token};
use atrest_kdf::{Hash, digest};
use atrest_keyslot::luks1::{HEADER_LEN, SLOTS};

use super::SECTOR;
use crate::luks2::Luks2;

/// Type of such a token, with the number behind it.
const KIND: &str = "atrest-luks1-";

impl Luks2 {
    /// Whether it is a volume of LUKS1 whose header is one of LUKS2 for the time of a re-encryption.
    pub fn was_luks1(&self) -> bool {
        self.metadata().tokens().iter().any(is_marker)
    }

    /// Whether the header is in a file for that time, and goes back in front of the data.
    pub fn is_kept(&self) -> bool {
        self.metadata().tokens().iter().any(is_kept)
    }

    /// Whether the keyslot is one of those that LUKS1 had, or was made in place of one.
    pub fn is_of_luks1(&self, keyslot: u32) -> bool {
        number(self.metadata(), keyslot).is_some()
    }
}

/// Whether a token is one of these.
pub(super) fn is_marker(token: &Token) -> bool {
    is_kept(token) || number_in(token).is_some()
}

/// Whether a token is that of a header in a file.
pub(super) fn is_kept(token: &Token) -> bool {
    token.kind.starts_with(HEADER_IN_FILE)
}

/// With the token of a header in a file, which says of which header in front of the data it was made.
pub(super) fn kept(metadata: Metadata, of: &[u8; HEADER_LEN]) -> Result<Metadata, HeaderError> {
    let Exported { first_sector, all } = Exported::of(of);
    let kind = format!("{HEADER_IN_FILE}-{first_sector}-{all}");
    // Those of keyslots have their numbers.
    metadata.with_token(SLOTS as u32, &format!(r#"{{"type":"{kind}","keyslots":[]}}"#))
}

/// What the token of a header in a file tells of the header in front of the data: SHA-256 of its first sector, and of all of it.
pub(super) struct Exported {
    first_sector: String,
    all: String,
}

impl Exported {
    fn of(header: &[u8; HEADER_LEN]) -> Self {
        Self { first_sector: sha256(header.iter().take(SECTOR)), all: sha256(header.iter()) }
    }

    /// Whether it was this header.
    pub(super) fn is_of(&self, header: &[u8; HEADER_LEN]) -> bool {
        self.all == Self::of(header).all
    }

    /// Whether it was one with this first sector.
    pub(super) fn is_of_its_first_sector(&self, header: &[u8; HEADER_LEN]) -> bool {
        self.first_sector == Self::of(header).first_sector
    }
}

/// In lower hexadecimal digits.
fn sha256<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    let bytes: Vec<u8> = bytes.copied().collect();
    let mut out = [0; 32];
    digest(Hash::Sha256, &[&bytes], &mut out);
    out.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the token of a header in a file tells.
pub(super) fn exported(metadata: &Metadata) -> Option<Exported> {
    metadata.tokens().iter().find_map(|token| {
        let (first_sector, all) =
            token.kind.strip_prefix(HEADER_IN_FILE)?.strip_prefix('-')?.split_once('-')?;
        Some(Exported { first_sector: first_sector.into(), all: all.into() })
    })
}

/// With a token for each keyslot.
pub(super) fn marked(metadata: Metadata) -> Result<Metadata, HeaderError> {
    let ids = metadata.keyslots().iter().map(|keyslot| keyslot.id);
    let ids: Vec<u32> = ids.collect();
    ids.into_iter().try_fold(metadata, |metadata, id| metadata.with_token(id, &text(id)))
}

fn text(slot: u32) -> String {
    format!(r#"{{"type":"{KIND}{slot}","keyslots":["{slot}"]}}"#)
}

/// The number in LUKS1 that a token tells.
pub(super) fn number_in(token: &Token) -> Option<u32> {
    let number = token.kind.strip_prefix(KIND)?.parse().ok()?;
    ((number as usize) < SLOTS).then_some(number)
}

/// The number that a keyslot had in LUKS1.
pub(super) fn number(metadata: &Metadata, keyslot: u32) -> Option<u32> {
    let mut tokens = metadata.tokens().iter().filter(|token| token.keyslots.contains(&keyslot));
    tokens.find_map(number_in)
}
