//! Shared Key: the header `Authorization` ("Authorize with Shared Key", reference of the REST API).

use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Headers whose values are signed in this order, empty where there is none. The length has its place before the second of them.
const BEFORE: [&str; 2] = ["content-encoding", "content-language"];
const BEHIND: [&str; 8] = [
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// What is signed of a request.
pub(crate) struct Unsigned<'a> {
    pub(crate) method: &'a str,
    /// Encoded, with the slash that it begins with.
    pub(crate) path: &'a str,
    /// Not encoded, in the order of its names in lower case.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// Names in lower case. Those that begin with `x-ms-` are in ascending order.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// Bytes in the body.
    pub(crate) len: usize,
}

/// The value of the header `Authorization`. The headers must have `x-ms-date` and `x-ms-version`.
pub(crate) fn authorization(request: &Unsigned<'_>, account: &str, key: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.update(text(request, account).as_bytes());
    let signature: [u8; 32] = mac.finalize().into_bytes().into();
    format!("SharedKey {account}:{}", Base64::encode_string(&signature))
}

fn text(request: &Unsigned<'_>, account: &str) -> String {
    let value =
        |name: &str| request.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let mut text = format!("{}\n", request.method);
    let mut line = |value: Option<&str>| {
        text.push_str(value.unwrap_or("")); // intended: an absent header is an empty line.
        text.push('\n');
    };
    BEFORE.iter().for_each(|name| line(value(name)));
    let len = request.len.to_string();
    line(Some(len.as_str()).filter(|_| request.len > 0));
    BEHIND.iter().for_each(|name| line(value(name)));
    for (name, value) in request.headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
        text.push_str(&format!("{name}:{}\n", value.trim()));
    }
    text.push_str(&format!("/{account}{}", request.path));
    for (name, value) in request.query {
        text.push_str(&format!("\n{}:{value}", name.to_ascii_lowercase()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published key of every emulator.
    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const DATE: (&str, &str) = ("x-ms-date", "Fri, 24 May 2013 00:00:00 GMT");
    const VERSION: (&str, &str) = ("x-ms-version", "2026-02-06");

    /// What Azure's own library for JavaScript signs (@azure/storage-blob 12.33.0).
    #[test]
    fn requests_are_signed_as_by_the_library_of_azure() {
        let key = Base64::decode_vec(KEY).expect("base64");
        let signed = |account: &str, request: &Unsigned<'_>| authorization(request, account, &key);
        let (method, path) = ("GET", "/laptop/a%20volume/l/0000000000000001");
        let headers = [("range", "bytes=2-4"), DATE, VERSION];
        assert_eq!(
            signed("disks", &Unsigned { method, path, query: &[], headers: &headers, len: 0 }),
            "SharedKey disks:MeAlwvHJ9Ti7jNNE/ngeARzlEaksOfUVrv5UFk7i9/g="
        );
        let (method, path) = ("PUT", "/laptop/v/l/0000000000000001");
        let headers = [("if-none-match", "*"), ("x-ms-blob-type", "BlockBlob"), DATE, VERSION];
        assert_eq!(
            signed("disks", &Unsigned { method, path, query: &[], headers: &headers, len: 5 }),
            "SharedKey disks:mcY55hSscLu/nnkuZzNn1TzFIUvN2tTiRX7R4Se8HAc="
        );
        let (method, path, headers) = ("GET", "/devstoreaccount1/laptop", [DATE, VERSION]);
        let query = [
            ("comp", "list"),
            ("marker", "x="),
            ("maxresults", "1000"),
            ("prefix", "a v/l/"),
            ("restype", "container"),
            ("startFrom", "a v/l/0000000000000001"),
        ];
        assert_eq!(
            signed("devstoreaccount1", &Unsigned { method, path, query: &query, headers: &headers, len: 0 }),
            "SharedKey devstoreaccount1:RBwoK1xzuL86vkHvb/LbzjIkcppHyDzkVnUiS6v/IVM="
        );
    }
}
