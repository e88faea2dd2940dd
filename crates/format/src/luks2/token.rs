//! What tokens of types that are known say, each from its JSON text.

use alloc::string::String;

use super::json::Object;

/// The type of a token whose passphrase is a key in the kernel's keyring, as cryptsetup makes it.
pub const KEYRING_TOKEN: &str = "luks2-keyring";

/// The description of the key that a token of the type [`KEYRING_TOKEN`] names. `None` for any other text: as cryptsetup has it, such a
/// token has its type, its keyslots, a description that is not empty, and nothing else.
pub fn keyring_description(text: &str) -> Option<String> {
    let token = Object::parse(text)?;
    let string = |name| token.text(name).and_then(|text| serde_json::from_str::<String>(text).ok());
    let description = string("key_description")?;
    let whole = token.members().count() == 3 && token.text("keyslots").is_some();
    (whole && string("type")? == KEYRING_TOKEN && !description.is_empty()).then_some(description)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_the_keyring_names_a_key_and_nothing_else() {
        let good = r#"{"type":"luks2-keyring","keyslots":["0"],"key_description":"a \"b\""}"#;
        assert_eq!(keyring_description(good).as_deref(), Some("a \"b\""));
        for bad in [
            "",
            "[]",
            r#"{"type":"luks2-keyring","keyslots":[]}"#,
            r#"{"type":"luks2-keyring","keyslots":[],"key_description":""}"#,
            r#"{"type":"luks2-keyring","keyslots":[],"key_description":7}"#,
            r#"{"type":"luks2-keyring","keyslots":[],"key_description":"a","more":1}"#,
            r#"{"type":"luks2-keyring","key_description":"a","more":1}"#,
            r#"{"type":"systemd-tpm2","keyslots":[],"key_description":"a"}"#,
        ] {
            assert_eq!(keyring_description(bad), None, "{bad}");
        }
    }
}
