//! JSON objects that keep the order of their members and the exact text of what is not understood.
//!
//! Members are parsed one level at a time, so a token or an unknown field is carried as the text it was read as.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::HeaderError;

/// Values are nested no deeper than json-c, with which cryptsetup reads the metadata, follows them.
const MAX_DEPTH: u32 = 32;
/// Bounds the memory that hostile metadata can ask for; real objects have a few dozen members at most.
const MAX_MEMBERS: usize = 1024;

/// An object with its members in the order of the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    members: Vec<(String, Box<RawValue>)>,
}

/// The text in a JSON area: everything up to the first zero byte, behind which only zeros may follow.
pub(crate) fn text_of_area(area: &[u8]) -> Result<&str, HeaderError> {
    if area.first() != Some(&b'{') {
        return Err(HeaderError::JsonStart);
    }
    let len = area.iter().position(|byte| *byte == 0).ok_or(HeaderError::JsonUnterminated)?;
    let (text, padding) = area.split_at_checked(len).ok_or(HeaderError::JsonUnterminated)?;
    if let Some(at) = padding.iter().position(|byte| *byte != 0) {
        // cannot overflow: both count bytes of one slice.
        return Err(HeaderError::JsonTrailingBytes { offset: len.saturating_add(at) as u64 });
    }
    let text =
        core::str::from_utf8(text).map_err(|e| HeaderError::JsonSyntax { offset: e.valid_up_to() as u64 })?;
    let object = text.trim_end();
    if object.len() != text.len() {
        return Err(HeaderError::JsonTrailingBytes { offset: object.len() as u64 });
    }
    Ok(text)
}

/// Checks the whole text: syntax, depth, number of members, no member named twice.
pub(crate) fn check(text: &str) -> Result<(), HeaderError> {
    let fault = Cell::new(None);
    let mut parser = serde_json::Deserializer::from_str(text);
    let outcome = Node { depth: 1, fault: &fault }.deserialize(&mut parser).and_then(|()| parser.end());
    match outcome {
        Ok(()) => Ok(()),
        Err(e) => Err(fault.get().unwrap_or(HeaderError::JsonSyntax { offset: offset_of(text, &e) })),
    }
}

fn offset_of(text: &str, error: &serde_json::Error) -> u64 {
    // cannot be less: the parser counts lines and columns from 1, and a column of 0 is the line's end before it.
    let lines = error.line().saturating_sub(1);
    // cannot overflow: no more than the bytes of one text.
    let before: usize = text.split('\n').take(lines).map(|line| line.len().saturating_add(1)).sum();
    // cannot overflow: no more than the bytes of one text.
    before.saturating_add(error.column()).saturating_sub(1) as u64
}

impl Object {
    /// Parses one object; `None` if the text is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// A member's text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    /// A member that is an object.
    pub(crate) fn object(&self, key: &str) -> Option<Object> {
        self.text(key).and_then(Object::parse)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|(name, value)| (name.as_str(), value.get()))
    }

    /// Sets a member: in its place if it exists, otherwise at the end.
    pub(crate) fn set<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        // Plain data always serialises.
        let Ok(value) = serde_json::value::to_raw_value(value) else { return };
        self.set_raw(key, value);
    }

    /// Sets a member to a text, which must be JSON.
    pub(crate) fn set_text(&mut self, key: &str, text: &str) -> Result<(), HeaderError> {
        let value = RawValue::from_string(String::from(text))
            .map_err(|e| HeaderError::JsonSyntax { offset: offset_of(text, &e) })?;
        self.set_raw(key, value);
        Ok(())
    }

    fn set_raw(&mut self, key: &str, value: Box<RawValue>) {
        match self.members.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.members.push((String::from(key), value)),
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.members.retain(|(name, _)| name != key);
    }

    /// Gives a member another name, in its place.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for (name, _) in &mut self.members {
            if name == from {
                *name = String::from(to);
            }
        }
    }

    pub(crate) fn to_text(&self) -> String {
        // cannot fail: names are strings and values are JSON texts already.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Builds an object member by member.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, Box<RawValue>)>) -> Object {
    Object { members: members.into_iter().map(|(name, value)| (String::from(name), value)).collect() }
}

/// A value as JSON text.
pub(crate) fn value<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (name, value) in &self.members {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> de::Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push(member);
                }
                Ok(Object { members })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Any value, visited for its form only.
#[derive(Clone, Copy)]
struct Node<'a> {
    depth: u32,
    fault: &'a Cell<Option<HeaderError>>,
}

impl Node<'_> {
    fn fail<E: de::Error>(&self, error: HeaderError) -> E {
        self.fault.set(Some(error));
        E::custom("")
    }

    fn inner(self) -> Self {
        // cannot overflow: the depth is compared with MAX_DEPTH at each step.
        Self { depth: self.depth.saturating_add(1), fault: self.fault }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(self.fail(HeaderError::JsonDepth));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if names.len() >= MAX_MEMBERS {
                return Err(self.fail(HeaderError::JsonMembers));
            }
            if !names.insert(name) {
                return Err(self.fail(HeaderError::JsonDuplicate));
            }
            map.next_value_seed(self.inner())?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut count = 0_usize;
        while list.next_element_seed(self.inner())?.is_some() {
            // cannot overflow: compared with MAX_MEMBERS at each step.
            count = count.saturating_add(1);
            if count > MAX_MEMBERS {
                return Err(self.fail(HeaderError::JsonMembers));
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
