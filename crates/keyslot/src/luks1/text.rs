//! Text fields of fixed size: printable ASCII, ended by a zero byte. What follows the zero is kept, not read.

use core::fmt;

/// The bytes of a text field, checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// Checks bytes from a header; the text may be empty.
    pub(super) fn from_bytes(bytes: [u8; N]) -> Option<Self> {
        let text = Self(bytes);
        let len = bytes.iter().position(|&byte| byte == 0)?;
        let printable = bytes.iter().take(len).all(|byte| byte.is_ascii_graphic());
        printable.then_some(text)
    }

    /// Checks bytes from a header; the text must not be empty.
    pub(super) fn from_bytes_not_empty(bytes: [u8; N]) -> Option<Self> {
        Self::from_bytes(bytes).filter(|text| !text.as_str().is_empty())
    }

    /// A field with this text and zeros behind it, if the text fits.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Self::from_bytes_not_empty(bytes)
    }

    pub(super) fn as_str(&self) -> &str {
        // cannot be empty: splitting yields one part at least.
        let text = self.0.split(|&byte| byte == 0).next().unwrap_or_default();
        // cannot fail: `from_bytes` takes printable ASCII alone.
        core::str::from_utf8(text).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
