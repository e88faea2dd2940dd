//! The JSON of Google's answers: as much of it as a list of objects and the description of one have.

use core::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Names in an answer, at most: Google sends 1000.
const NAMES: usize = 10_000;
/// Longest token that names the next page, in bytes.
const MAX_TOKEN: usize = 8192;
/// What a list says that it is.
const KIND: &str = "storage#objects";
/// What is asked for of a list.
pub(crate) const FIELDS: &str = "kind,items(name,size),nextPageToken";

/// Names in a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// With the bytes in each object, in the order in which they came.
    pub names: Vec<(String, u64)>,
    /// What names the next page, if there is one. It is not empty.
    pub next: Option<String>,
}

/// An answer to `objects.list`; `None` if it is none.
pub fn page(json: &[u8]) -> Option<Page> {
    let list: List = serde_json::from_slice(json).ok()?;
    let next = list.next.filter(|token| !token.is_empty());
    let fits = next.as_ref().is_none_or(|token| token.len() <= MAX_TOKEN);
    (list.kind == KIND && fits).then_some(Page { names: list.items.0, next })
}

/// The bytes in an object, of an answer to `objects.get`; `None` if it is none.
pub fn size(json: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Described>(json).ok()?.size.parse().ok()
}

#[derive(Deserialize)]
struct List {
    kind: String,
    #[serde(default)]
    items: Items,
    #[serde(rename = "nextPageToken")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    /// It is written as text, as numbers of 64 bits are.
    size: String,
}

#[derive(Deserialize)]
struct Described {
    size: String,
}

/// No more names than there may be: a list that has more is left before they take room.
#[derive(Default)]
struct Items(Vec<(String, u64)>);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_seq(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Items;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {NAMES} objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Items, A::Error> {
        let mut names = Vec::new();
        while let Some(Item { name, size }) = input.next_element()? {
            if names.len() == NAMES {
                return Err(serde::de::Error::invalid_length(NAMES, &self));
            }
            names.push((name, size.parse().map_err(serde::de::Error::custom)?));
        }
        Ok(Items(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_names_and_what_names_the_next_page() {
        let json = br#"{"kind": "storage#objects", "nextPageToken": "Cgx2/==", "prefixes": ["x/"],
            "items": [{"kind": "storage#object", "name": "a&b\u00fc/\"", "size": "3", "metadata": {"a": "b"}},
                      {"name": "l/1", "size": "18446744073709551615"}]}"#;
        let names = vec![("a&bü/\"".into(), 3), ("l/1".into(), u64::MAX)];
        assert_eq!(page(json), Some(Page { names, next: Some("Cgx2/==".into()) }));
        let none = Some(Page::default());
        assert_eq!(page(br#"{"kind":"storage#objects"}"#), none);
        assert_eq!(page(br#"{"kind":"storage#objects","items":[],"nextPageToken":""}"#), none);
        assert_eq!(size(br#"{"name":"a","size":"7"}"#), Some(7));
    }

    #[test]
    fn what_is_no_list_is_told() {
        let object = r#"{"name":"a","size":"1"}"#;
        let list = |items: &str| format!(r#"{{"kind":"storage#objects","items":[{items}]}}"#);
        assert!(page(list(object).as_bytes()).is_some());
        let token =
            format!(r#"{{"kind":"storage#objects","nextPageToken":"{}"}}"#, "a".repeat(MAX_TOKEN + 1));
        for bad in [
            "",
            "text",
            "<html></html>",
            "[]",
            "{}",
            r#"{"items":[]}"#,
            r#"{"kind":"storage#object","items":[]}"#,
            r#"{"kind":"storage#objects"} {}"#,
            r#"{"kind":"storage#objects","#,
            r#"{"kind":"storage#objects","kind":"storage#objects"}"#,
            r#"{"kind":"storage#objects","items":{}}"#,
            r#"{"kind":"storage#objects","items":null}"#,
            r#"{"kind":"storage#objects","nextPageToken":7}"#,
            r#"{"error":{"code":404,"message":"Not Found"}}"#,
            &list(r#"{"name":"a"}"#),
            &list(r#"{"size":"1"}"#),
            &list(r#"{"name":"a","size":"-1"}"#),
            &list(r#"{"name":"a","size":"18446744073709551616"}"#),
            &list(r#"{"name":"a","size":"1","name":"b"}"#),
            &list("7"),
            &list(&[object; NAMES + 1].join(",")),
            &token,
        ] {
            assert_eq!(page(bad.as_bytes()), None, "{bad:.80}");
        }
        assert!(page(list(&[object; NAMES].join(",")).as_bytes()).is_some());
        // What is not asked for is passed over, however deep it goes; what is asked for goes no deeper than it should.
        let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
        let ignored = format!(r#"{{"kind":"storage#objects","x":{open}{close}}}"#);
        assert_eq!(page(ignored.as_bytes()), Some(Page::default()));
        assert_eq!(page(list(&format!("{open}{close}")).as_bytes()), None);
        for bad in ["", "{}", "7", r#"{"size":""}"#, r#"{"size":"-1"}"#, r#"{"size":null}"#] {
            assert_eq!(size(bad.as_bytes()), None, "{bad}");
        }
    }
}
