//! Text fields of the binary header (LUKS2 specification, section 2.1). The specification says nothing of an encoding,
//! and cryptsetup writes whatever bytes it is given: they are kept as they are.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

/// The bytes of a text field without the NULs behind them, and what a person is shown for them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HeaderText {
    bytes: Vec<u8>,
    shown: String,
}

impl HeaderText {
    /// The bytes on the media.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text; bytes that are not UTF-8 as `\xff`.
    pub fn as_str(&self) -> &str {
        &self.shown
    }
}

impl From<&[u8]> for HeaderText {
    fn from(bytes: &[u8]) -> Self {
        let mut shown = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            shown.push_str(chunk.valid());
            for byte in chunk.invalid() {
                // Writing to a string can't fail.
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
        Self { bytes: bytes.to_vec(), shown }
    }
}

impl From<&str> for HeaderText {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for HeaderText {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}
