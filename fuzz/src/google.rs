//! What a server of Google Cloud Storage and one of tokens answer: the JSON in it.

use atrest_cloud::untrusted::{google_page, google_size, granted};

/// A byte that says what is read, and what a server sends.
pub fn google(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    match choice % 3 {
        0 => {
            if let Some(page) = google_page(data) {
                assert!(page.names.len() <= 10_000);
                let next = page.next.as_ref().map_or(0, String::len);
                assert!(page.names.iter().map(|(key, _)| key.len()).sum::<usize>() + next <= data.len());
                assert!(page.next.is_none_or(|token| !token.is_empty()));
            }
        }
        1 => {
            if let Some(size) = google_size(data) {
                assert!(size.to_string().len() <= data.len());
            }
        }
        _ => {
            if let Some(granted) = granted(data) {
                let secret = &granted.secret[..];
                assert!(!secret.is_empty() && secret.len() <= data.len());
                assert!(secret.iter().all(u8::is_ascii_graphic), "no line ends in it");
                assert!(!format!("{granted:?}").contains("secret"));
            }
        }
    }
}

/// Answers as servers send them.
pub fn google_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let list = "{\n  \"kind\": \"storage#objects\",\n  \"nextPageToken\": \"CgV2L2wvMQ==\",\n  \"items\": [\n    {\n      \"name\": \"v/l/0000000000000001\",\n      \
                \"size\": \"5\"\n    },\n    {\"kind\": \"storage#object\", \"name\": \"a\\u00fc\\\"/\", \"size\": \"18446744073709551615\"}\n  ]\n}\n";
    let with = |choice: u8, text: &str| [&[choice], text.as_bytes()].concat();
    vec![
        ("list", with(0, list)),
        ("nothing", with(0, "{\"kind\":\"storage#objects\"}\n")),
        (
            "error",
            with(
                0,
                "{\"error\":{\"code\":404,\"message\":\"Not Found\",\"errors\":[{\"domain\":\"global\",\"reason\":\"notFound\"}]}}",
            ),
        ),
        ("size", with(1, "{\n  \"size\": \"8388608\"\n}\n")),
        (
            "token",
            with(
                2,
                "{\n  \"access_token\": \"ya29.c.x-y_z\",\n  \"expires_in\": 3599,\n  \"token_type\": \"Bearer\",\n  \"scope\": \"a\"\n}",
            ),
        ),
        ("refused", with(2, "{\"error\":\"invalid_grant\",\"error_description\":\"Invalid JWT\"}")),
    ]
}
