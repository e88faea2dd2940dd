//! AWS Signature Version 4, in the header `Authorization` ("Authenticating Requests: Using the Authorization Header", API reference of S3).

use std::fmt::Write as _;
use std::time::SystemTime;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::s3::credentials::Credentials;
use crate::time;

/// What is signed of a request. Names of headers are in lower case, in ascending order.
pub(crate) struct Unsigned<'a> {
    pub(crate) method: &'a str,
    /// Encoded, with the slash that it begins with.
    pub(crate) path: &'a str,
    /// Encoded, in the order of its names, without the question mark.
    pub(crate) query: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body, in hexadecimal digits.
    pub(crate) body: &'a str,
}

/// The value of the header `Authorization`. The headers must have `host`, `x-amz-content-sha256` and `x-amz-date`, of `at`.
pub(crate) fn authorization(
    request: &Unsigned<'_>,
    credentials: &Credentials,
    region: &str,
    at: SystemTime,
) -> String {
    let stamp = time::basic(at);
    let day = &stamp[..8]; // A date has eight digits, and no letter before that.
    let scope = format!("{day}/{region}/s3/aws4_request");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
    let mut names = String::new();
    for (name, value) in request.headers {
        let separator = if names.is_empty() { "" } else { ";" };
        names.push_str(separator);
        names.push_str(name);
        canonical.push_str(&format!("{name}:{}\n", value.trim()));
    }
    canonical.push_str(&format!("\n{names}\n{}", request.body));
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", digest(canonical.as_bytes()));

    let mut key = b"AWS4".to_vec();
    key.extend_from_slice(&credentials.secret);
    let mut signing = mac(&key, day.as_bytes());
    atrest_secret::wipe(&mut key);
    for part in [region, "s3", "aws4_request"] {
        let next = mac(&signing, part.as_bytes());
        atrest_secret::wipe(&mut signing);
        signing = next;
    }
    let signature = hex(&mac(&signing, text.as_bytes()));
    atrest_secret::wipe(&mut signing);
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        credentials.id
    )
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// What S3 takes for a part of a path or of a query: letters, digits and `-._~` as they are, all else by its bytes. A slash is left
/// where it separates (`keep`).
pub(crate) fn encoded(text: &str, keep: Option<u8>) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ if Some(byte) == keep => out.push(char::from(byte)),
            _ => push_hex(&mut out, "%", byte, true),
        }
    }
    out
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| push_hex(&mut out, "", *byte, false));
    out
}

fn push_hex(out: &mut String, before: &str, byte: u8, upper: bool) {
    // Writing to a String does not fail.
    let _ = if upper { write!(out, "{before}{byte:02X}") } else { write!(out, "{before}{byte:02x}") };
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const DATE: &str = "20130524T000000Z";
    const HOST: &str = "examplebucket.s3.amazonaws.com";

    fn signature(method: &str, path: &str, query: &str, more: &[(&str, &str)], body: &[u8]) -> String {
        let credentials =
            Credentials::new("AKIAIOSFODNN7EXAMPLE", b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None);
        let body = digest(body);
        let mut headers = vec![("host", HOST), ("x-amz-content-sha256", body.as_str()), ("x-amz-date", DATE)];
        headers.extend_from_slice(more);
        headers.sort_unstable();
        let request = Unsigned { method, path, query, headers: &headers, body: &body };
        let at = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let value = authorization(&request, &credentials, "us-east-1", at);
        assert!(value.starts_with("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders="));
        value.rsplit_once("Signature=").expect("a signature").1.to_owned()
    }

    /// The four examples of "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk".
    #[test]
    fn the_published_examples_have_their_signatures() {
        assert_eq!(
            signature("GET", "/test.txt", "", &[("range", "bytes=0-9")], b""),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let put = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        assert_eq!(
            signature("PUT", &encoded("/test$file.text", Some(b'/')), "", &put, b"Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        assert_eq!(
            signature("GET", "/", "lifecycle=", &[], b""),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("GET", "/", "max-keys=2&prefix=J", &[], b""),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn what_is_no_plain_letter_is_encoded() {
        assert_eq!(encoded("a b/ü~-._$", None), "a%20b%2F%C3%BC~-._%24");
        assert_eq!(encoded("a/b+c", Some(b'/')), "a/b%2Bc");
    }
}
