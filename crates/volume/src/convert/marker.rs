//! What a header of LUKS2 says of a volume that is one of LUKS1 and is only re-encrypted: tokens, of which each keyslot has one with the
//! number that it had. A re-encryption lets tokens follow the keyslots, so that each gets its number back.

use atrest_format::luks2::{HEADER_IN_FILE, HeaderError, Metadata, Token};
use atrest_keyslot::luks1::SLOTS;

use crate::luks2::Luks2;

/// Type of such a token, with the number behind it.
const KIND: &str = "atrest-luks1-";

impl Luks2 {
    /// Whether it is a volume of LUKS1 whose header is one of LUKS2 for the time of a re-encryption.
    pub fn was_luks1(&self) -> bool {
        self.metadata().tokens().iter().any(|token| number_in(token).is_some())
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
    token.kind == HEADER_IN_FILE
}

/// With the token of a header in a file.
pub(super) fn kept(metadata: Metadata) -> Result<Metadata, HeaderError> {
    // Those of keyslots have their numbers.
    metadata.with_token(SLOTS as u32, &format!(r#"{{"type":"{HEADER_IN_FILE}","keyslots":[]}}"#))
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
