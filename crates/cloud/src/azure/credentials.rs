//! Who asks: by a key of the account, by a shared access signature, or as a managed identity.

use std::fmt;

use atrest_secret::{SecretBytes, wipe};
use base64ct::{Base64, Encoding};

use crate::azure::identity::Identity;

/// Longest key of an account, in base64: Azure's have 88 letters.
const MAX_KEY: usize = 1024;

pub(crate) enum Credentials {
    /// It signs each request.
    Key { account: String, key: SecretBytes },
    /// It is a part of each query: whoever has it may ask as we do.
    Signature(SecretBytes),
    /// What the machine is, which is asked for a token.
    Identity(Identity),
}

impl Credentials {
    /// By a key of an account, in base64. `None` if it is none.
    pub(crate) fn key(account: &str, text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_KEY {
            return None;
        }
        let mut key = SecretBytes::zeroed(text.len() / 4 * 3 + 3);
        let len = Base64::decode(text.trim(), &mut key).ok()?.len();
        key.truncate(len);
        (len > 0).then(|| Self::Key { account: account.into(), key })
    }

    /// By a shared access signature, with or without the question mark before it. `None` if it is none.
    pub(crate) fn signature(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('?').unwrap_or(text); // intended: Azure's portal shows it with one.
        let fine = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        let signed = text.split('&').any(|part| part.len() > 4 && part.starts_with("sig="));
        (fine && signed).then(|| Self::Signature(SecretBytes::copy_from(text.as_bytes())))
    }

    /// Whether a request has what others could ask by, and does not only prove that we know it.
    pub(crate) fn are_sent(&self) -> bool {
        !matches!(self, Self::Key { .. })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { account, .. } => {
                f.debug_struct("Key").field("account", account).finish_non_exhaustive()
            }
            Self::Signature(_) => f.write_str("Signature(..)"),
            Self::Identity(_) => f.write_str("Identity(..)"),
        }
    }
}

/// A text with secrets, which is wiped.
pub(crate) struct Text(pub(crate) String);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        wipe(&mut std::mem::take(&mut self.0).into_bytes());
    }
}
