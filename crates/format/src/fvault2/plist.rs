//! Values in a property list, by the key before them. No XML is parsed beyond that: there are no entities, no includes, no depth.

use core::fmt;

/// Why a property list can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextError {
    /// It does not lie in its block, or goes on in another one.
    Place {
        /// Its first byte in the block.
        offset: u32,
        /// Its bytes.
        len: u32,
    },
    /// It is compressed.
    Compressed,
    /// It is no text.
    Text,
    /// A value is missing, or is none.
    Value(&'static str),
    /// More keys than anybody has.
    Keys(usize),
}

/// An element: its name, its attributes, and what is between its tags.
struct Element<'a> {
    name: &'a str,
    attributes: &'a str,
    text: Option<&'a str>,
}

/// The element that a text begins with, white space aside.
fn element(text: &str) -> Option<Element<'_>> {
    let (tag, behind) = text.trim_ascii_start().strip_prefix('<')?.split_once('>')?;
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let (name, attributes) = tag.split_once([' ', '\t', '\n', '\r']).unwrap_or((tag, ""));
    let text = match is_empty {
        true => None,
        false => {
            let (text, end) = behind.split_once("</")?;
            Some(text).filter(|_| end.strip_prefix(name).is_some_and(|end| end.starts_with('>')))
        }
    };
    Some(Element { name, attributes, text })
}

/// The value of an attribute, by its name with the sign behind it: `ID="`.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    attributes.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_suffix('"'))
}

/// What stands for an element that only names another one: the first one of the same name that has the identity.
fn referred<'a>(all: &'a str, name: &str, identity: &str) -> Option<&'a str> {
    let mut rest = all;
    loop {
        rest = rest.split_once('<')?.1;
        let found = rest.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t', '\n', '\r']));
        // No tag has a '<' in it. Whoever looked further for its end would look at the same text for each tag.
        let Some((tag, _)) = found.and_then(|rest| rest.split_once('<')) else { continue };
        let Some((attributes, text)) = tag.split_once('>') else { continue };
        if attribute(attributes, "ID=\"") == Some(identity) {
            return Some(text);
        }
    }
}

/// How many references are followed: each search goes through the whole list.
const MOST_REFERENCES: usize = 32;

/// Each value of this kind behind this key. One that is empty is left out, and so is what is behind more than 32 references.
pub fn values<'a>(all: &'a str, key: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let (mut rest, mut references) = (all, 0..MOST_REFERENCES);
    core::iter::from_fn(move || {
        loop {
            rest = rest.split_once("<key>")?.1;
            let behind = rest.strip_prefix(key).and_then(|rest| rest.strip_prefix("</key>"));
            let Some(found) = behind.and_then(element) else { continue };
            let named = attribute(found.attributes, "IDREF=\"");
            if named.is_some() {
                references.next()?;
            }
            let text = match (found.name, found.text, named) {
                // What stands for any value that is somewhere else, too, as macOS writes it.
                ("reference", None, Some(identity)) => referred(all, kind, identity),
                (name, None, Some(identity)) if name == kind => referred(all, kind, identity),
                (name, text, _) if name == kind => text,
                _ => continue,
            };
            if let Some(text) = text.map(str::trim_ascii).filter(|text| !text.is_empty()) {
                return Some(text);
            }
        }
    })
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { offset, len } => {
                write!(f, "a property list of {len} bytes at byte {offset} does not lie in its block")
            }
            Self::Compressed => f.write_str("the property list with the keys is compressed"),
            Self::Text => f.write_str("a property list is no text"),
            Self::Value(key) => write!(f, "a property list has no {key} that could be used"),
            Self::Keys(most) => write!(f, "the property list has more than {most} keys"),
        }
    }
}

impl core::error::Error for ContextError {}
