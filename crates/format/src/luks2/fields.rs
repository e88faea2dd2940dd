//! All that a header says, as a list of fields that does not depend on how its JSON text is written: what a pin authenticates.
//!
//! cryptsetup writes the whole JSON text anew at each change, so not its bytes count, but what they mean: members in any order, spaces and
//! escapes. What no field tells is what differs between the two copies (magic, offset, salt, checksum) and the sequence number.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::json::Object;
use super::{Header, Section};

/// One field: its place, such as `segments.0.encryption`, and its value as JSON text of one form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeaderField {
    /// The names of the members that lead to it, joined by points. Points in a name have a backslash before them.
    pub path: String,
    /// JSON text without spaces; the members of objects in the order of their names.
    pub value: String,
}

impl Header {
    /// All fields but those of one token, in the order of their paths.
    pub fn fields(&self, but_token: Option<u32>) -> Vec<HeaderField> {
        let binary = &self.binary;
        let mut fields = Vec::new();
        for (path, text) in [
            // No member's name begins so: brackets have a backslash before them, too.
            ("(header).label", binary.label.as_str()),
            ("(header).subsystem", binary.subsystem.as_str()),
            ("(header).uuid", binary.uuid.as_str()),
        ] {
            fields.push(HeaderField { path: path.into(), value: text_value(text) });
        }
        fields.push(HeaderField { path: "(header).size".into(), value: binary.header_size.to_string() });
        let mut document = self.metadata.document.clone();
        if let Some(id) = but_token
            && let Some(mut tokens) = document.object(Section::Tokens.name())
        {
            tokens.remove(&super::metadata::number_text(id));
            document.set(Section::Tokens.name(), &tokens);
        }
        flatten("", &document, &mut fields);
        fields.sort();
        fields
    }
}

/// The fields of an object, each with `prefix` in front of its path.
pub(crate) fn flatten(prefix: &str, object: &Object, fields: &mut Vec<HeaderField>) {
    for (name, text) in object.members() {
        let mut path = String::from(prefix);
        if !path.is_empty() {
            path.push('.');
        }
        for letter in name.chars() {
            if matches!(letter, '.' | '\\' | '(') {
                path.push('\\');
            }
            path.push(letter);
        }
        match Object::parse(text) {
            Some(inner) if inner.members().next().is_some() => flatten(&path, &inner, fields),
            _ => fields.push(HeaderField { path, value: canonical(text) }),
        }
    }
}

/// A JSON text in one form. Numbers keep their digits: two ways to write a number are two values.
fn canonical(text: &str) -> String {
    let text = text.trim();
    match text.bytes().next() {
        Some(b'"') => match serde_json::from_str::<String>(text) {
            Ok(string) => text_value(&string),
            // cannot happen: the parser of the header has read it.
            Err(_) => text.into(),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(items) => {
                let items: Vec<String> = items.iter().map(|item| canonical(item.get())).collect();
                alloc::format!("[{}]", items.join(","))
            }
            // cannot happen: the parser of the header has read it.
            Err(_) => text.into(),
        },
        Some(b'{') => match Object::parse(text) {
            Some(object) => {
                let mut members: Vec<String> = object
                    .members()
                    .map(|(name, value)| alloc::format!("{}:{}", text_value(name), canonical(value)))
                    .collect();
                members.sort();
                alloc::format!("{{{}}}", members.join(","))
            }
            // cannot happen: the parser of the header has read it.
            None => text.into(),
        },
        _ => text.into(),
    }
}

fn text_value(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        flatten("", &Object::parse(text).expect("an object"), &mut fields);
        fields.sort();
        fields.into_iter().map(|field| (field.path, field.value)).collect()
    }

    #[test]
    fn the_form_of_the_text_does_not_matter_and_its_meaning_does() {
        let one = fields(r#"{"a":{"b":"x/y","c":[1, {"q":"z","p":2}]},"d":1,"e":{}}"#);
        let other =
            fields("{ \"e\" : { } , \"d\":1,\"a\":{\"c\":[1,{\"p\":2,\"q\":\"\\u007a\"}],\"b\":\"x\\/y\"}}");
        assert_eq!(one, other);
        let paths: Vec<&str> = one.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a.b", "a.c", "d", "e"]);
        assert_eq!(one[1].1, r#"[1,{"p":2,"q":"z"}]"#);
        for different in [
            r#"{"a":{"b":"x/z","c":[1,{"p":2,"q":"z"}]},"d":1,"e":{}}"#,
            r#"{"a":{"b":"x/y","c":[{"p":2,"q":"z"},1]},"d":1,"e":{}}"#,
            r#"{"a":{"b":"x/y","c":[1,{"p":2,"q":"z"}]},"d":"1","e":{}}"#,
            r#"{"a":{"b":"x/y","c":[1,{"p":2,"q":"z"}]},"d":1.0,"e":{}}"#,
            r#"{"a":{"b":"x/y","c":[1,{"p":2,"q":"z"}]},"d":1,"e":"{}"}"#,
            r#"{"a":{"b":"x/y","c":[1,{"p":2,"q":"z"}]},"d":1,"e":[]}"#,
            r#"{"a":{"b":"x/y","c":[1,{"p":2,"q":"z"}]},"d":1}"#,
            r#"{"a":{"b":"x/y","c":"[1,{\"p\":2,\"q\":\"z\"}]"},"d":1,"e":{}}"#,
        ] {
            assert_ne!(fields(different), one, "{different}");
        }
    }

    #[test]
    fn no_name_can_be_taken_for_a_path() {
        assert_ne!(fields(r#"{"a.b":1}"#), fields(r#"{"a":{"b":1}}"#));
        assert_ne!(fields(r#"{"a\\.b":1}"#), fields(r#"{"a\\":{"b":1}}"#));
        assert_eq!(fields(r#"{"(header)":{"uuid":1}}"#)[0].0, "\\(header).uuid");
    }
}
