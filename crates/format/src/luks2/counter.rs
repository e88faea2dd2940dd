//! The token that says where a TPM counts the pins of a header. Stock tools keep it, and pass it over.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Metadata;

/// Type of the token.
pub const COUNTER_TOKEN: &str = "atrest-counter";

const VERSION: u32 = 1;
/// The longest Name of a key: the number of its hash, and 64 bytes.
const NAME_MAX: usize = 66;

/// Where a counter is, and what it had when the header was pinned with it. It rises by one with each pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterToken {
    /// Index in the TPM's own memory.
    pub index: u32,
    /// Name of the TPM's storage key, by which it is known.
    pub storage_key: Vec<u8>,
    /// Number of the pin then.
    pub number: u64,
    /// What the counter had.
    pub value: u64,
}

/// The token as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(rename = "type")]
    kind: String,
    keyslots: Vec<String>,
    version: u32,
    index: String,
    #[serde(rename = "storage-key")]
    storage_key: String,
    number: String,
    value: String,
}

/// The token has another form, or there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCounterToken;

impl CounterToken {
    /// That of a header, with its number.
    ///
    /// # Errors
    /// [`BadCounterToken`]. A header that has none is no fault.
    pub fn of(metadata: &Metadata) -> Result<Option<(u32, Self)>, BadCounterToken> {
        let mut counters = metadata.tokens().iter().filter(|token| token.kind == COUNTER_TOKEN);
        let Some(token) = counters.next() else { return Ok(None) };
        let text = metadata.token_text(token.id).filter(|_| counters.next().is_none());
        let counter = text.and_then(|text| Self::parse(&text)).ok_or(BadCounterToken)?;
        Ok(Some((token.id, counter)))
    }

    /// From a token's JSON text; `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let form: Form = serde_json::from_str(text).ok()?;
        let index = u32::from_str_radix(form.index.strip_prefix("0x")?, 16).ok()?;
        let counter = Self {
            index,
            storage_key: bytes(&form.storage_key)?,
            number: form.number.parse().ok()?,
            value: form.value.parse().ok()?,
        };
        let known = form.version == VERSION && form.kind == COUNTER_TOKEN && form.keyslots.is_empty();
        // One way to write it: other digits of the same numbers are another text.
        (known && counter.to_json() == text_of(&form)).then_some(counter)
    }

    /// The token's JSON text.
    pub fn to_json(&self) -> String {
        text_of(&Form {
            kind: COUNTER_TOKEN.into(),
            keyslots: Vec::new(),
            version: VERSION,
            index: alloc::format!("{:#010x}", self.index),
            storage_key: self.storage_key.iter().map(|byte| alloc::format!("{byte:02x}")).collect(),
            number: self.number.to_string(),
            value: self.value.to_string(),
        })
    }
}

fn text_of(form: &Form) -> String {
    // cannot fail: texts and numbers.
    serde_json::to_string(form).unwrap_or_default()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() || pairs.len() > NAME_MAX {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written_and_in_no_other_form() {
        let counter =
            CounterToken { index: 0x0180_0001, storage_key: [0, 0xb, 0xfe].into(), number: 7, value: 12 };
        let text = counter.to_json();
        assert_eq!(
            text,
            r#"{"type":"atrest-counter","keyslots":[],"version":1,"index":"0x01800001","storage-key":"000bfe","number":"7","value":"12"}"#
        );
        assert_eq!(CounterToken::parse(&text), Some(counter));
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("[]", "[\"0\"]"),
            ("0x01800001", "0x1800001"),
            ("0x01800001", "01800001"),
            ("0x01800001", "0x101800001"),
            ("000bfe", "000bf"),
            ("000bfe", "000BFE"),
            ("000bfe", ""),
            ("\"7\"", "\"07\""),
            ("\"7\"", "\"-7\""),
            ("\"7\"", "7"),
            ("\"12\"", "\"18446744073709551616\""),
            ("\"12\"", "\"12\",\"more\":1"),
        ] {
            assert_eq!(CounterToken::parse(&text.replacen(from, to, 1)), None, "{to}");
        }
    }
}
