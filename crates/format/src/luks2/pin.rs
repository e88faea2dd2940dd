//! The token of a pinned header: a MAC over all that the header says. Stock tools keep it, and pass it over.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use base64ct::{Base64, Base64Unpadded, Encoding};
use serde::{Deserialize, Serialize};

use super::fields::{HeaderField, flatten};
use super::json::Object;
use super::{Header, HeaderPolicy, Metadata};

/// Type of the token.
pub const PIN_TOKEN: &str = "atrest-pin";
/// Bytes of the MAC.
pub const PIN_MAC_LEN: usize = 32;
/// Bytes of a field's mark.
pub const MARK_LEN: usize = 3;

const VERSION: u32 = 1;
/// What the MAC covers begins so.
const PREFIX: &[u8] = b"atrest pinned header 1\0";

/// What the token of a pinned header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Counts how often the header was pinned and changed.
    pub counter: u64,
    /// What the header said then, in short.
    pub policy: HeaderPolicy,
    /// Marks of the fields of each object: they tell what was changed, and authenticate nothing.
    pub marks: Marks,
    /// The MAC.
    pub mac: [u8; PIN_MAC_LEN],
}

/// Marks of fields, by the object that the fields are of.
pub type Marks = BTreeMap<String, Vec<[u8; MARK_LEN]>>;

/// The token as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(rename = "type")]
    kind: String,
    keyslots: Vec<String>,
    version: u32,
    counter: String,
    policy: HeaderPolicy,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    mac: String,
}

/// Why the token of a pinned header can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinFault {
    /// There are several.
    Several,
    /// It is not of the form that is known.
    Malformed,
}

impl Pin {
    /// The pin of a header, with its number, and the pin as it stands.
    ///
    /// # Errors
    /// [`PinFault`]. A header that is not pinned is no fault, and has none.
    pub fn of(metadata: &Metadata) -> Result<Option<(u32, Self)>, PinFault> {
        let mut pins = metadata.tokens().iter().filter(|token| token.kind == PIN_TOKEN);
        let Some(token) = pins.next() else { return Ok(None) };
        if pins.next().is_some() {
            return Err(PinFault::Several);
        }
        let text = metadata.token_text(token.id).ok_or(PinFault::Malformed)?;
        let pin = Self::parse(&text).ok_or(PinFault::Malformed)?;
        Ok(Some((token.id, pin)))
    }

    fn parse(text: &str) -> Option<Self> {
        let form: Form = serde_json::from_str(text).ok()?;
        let known = form.version == VERSION && form.kind == PIN_TOKEN && form.keyslots.is_empty();
        let counter: u64 = form.counter.parse().ok().filter(|_| known)?;
        let mut mac = [0; PIN_MAC_LEN];
        if counter.to_string() != form.counter
            || Base64::decode(&form.mac, &mut mac).ok()?.len() != PIN_MAC_LEN
        {
            return None;
        }
        let mut marks = Marks::new();
        for (object, text) in form.fields {
            let bytes = Base64Unpadded::decode_vec(&text).ok()?;
            let (whole, rest) = bytes.as_chunks::<MARK_LEN>();
            if !rest.is_empty() {
                return None;
            }
            marks.insert(object, whole.to_vec());
        }
        Some(Self { counter, policy: form.policy, marks, mac })
    }

    /// The token's JSON text.
    pub fn to_json(&self) -> String {
        let fields = self
            .marks
            .iter()
            .map(|(object, marks)| (object.clone(), Base64Unpadded::encode_string(&marks.concat())));
        self.form(fields.collect(), Base64::encode_string(&self.mac))
    }

    fn form(&self, fields: BTreeMap<String, String>, mac: String) -> String {
        let form = Form {
            kind: PIN_TOKEN.into(),
            keyslots: Vec::new(),
            version: VERSION,
            counter: self.counter.to_string(),
            policy: self.policy.clone(),
            fields,
            mac,
        };
        // cannot fail: texts and numbers.
        serde_json::to_string(&form).unwrap_or_default()
    }

    /// What the MAC covers: all that the header says but for the token `id`, and of that token all but marks and MAC.
    pub fn authenticated(&self, header: &Header, id: u32) -> Vec<u8> {
        let mut fields = header.fields(Some(id));
        let own = Object::parse(&self.form(BTreeMap::new(), String::new()));
        // cannot be none: the text of an object.
        flatten("(pin)", &own.unwrap_or_default(), &mut fields);
        let mut bytes = PREFIX.to_vec();
        for field in &fields {
            for text in [&field.path, &field.value] {
                bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        bytes
    }
}

impl HeaderField {
    /// The object that the field is of: `keyslots.0`, `config`.
    pub fn object(&self) -> &str {
        let mut points = self.path.match_indices('.').map(|(at, _)| at);
        let end = match self.path.split('.').next() {
            Some("keyslots" | "tokens" | "segments" | "digests") => points.nth(1),
            _ => points.next(),
        };
        // intended: what has no point is an object of its own.
        end.and_then(|end| self.path.get(..end)).unwrap_or(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_of_a_numbered_object_or_of_a_section() {
        let object =
            |path: &str| HeaderField { path: path.into(), value: String::new() }.object().to_string();
        assert_eq!(object("keyslots.0.kdf.time"), "keyslots.0");
        assert_eq!(object("tokens.3.keyslots"), "tokens.3");
        assert_eq!(object("config.json_size"), "config");
        assert_eq!(object("config.requirements.mandatory"), "config");
        assert_eq!(object("(header).uuid"), "(header)");
        assert_eq!(object("tokens"), "tokens");
        assert_eq!(object("segments.0"), "segments.0");
    }
}
