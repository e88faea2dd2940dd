//! Bytes that nobody meant well: errors, never a panic.

use atrest_format::luks2::{CopyKind, Header, Metadata, header_size};

use atrest_testkit::Random;

use crate::sample::{area, metadata};

#[test]
fn mutated_metadata_parses_or_fails_and_what_parses_writes_itself_back() {
    let text = metadata().to_string();
    let pieces = [
        "0",
        "9",
        "-",
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "18446744073709551615",
        "e",
        "\\",
        "\u{1}",
        "true",
    ];
    let mut random = Random::new(2);
    let mut passed = 0;
    for round in 0..20_000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=random.index(3) {
            let at = random.index(bytes.len());
            let end = (at + random.index(4)).min(bytes.len());
            bytes.splice(at..end, pieces[random.index(pieces.len())].bytes());
        }
        bytes.resize(12288, 0);
        if let Ok(parsed) = Metadata::parse(&bytes) {
            passed += 1;
            let again = Metadata::parse(&area(&parsed.to_json()));
            assert_eq!(again.expect("parses again").to_json(), parsed.to_json(), "round {round}");
            let _ = parsed.free_area(258_048);
            for keyslot in parsed.keyslots() {
                let _ = parsed.without_keyslot(keyslot.id);
            }
        }
    }
    assert!(passed > 20, "only {passed} mutations passed: the sample is too brittle to say anything");
}

#[test]
fn any_bytes_are_an_error() {
    let mut random = Random::new(3);
    for len in [0, 1, 6, 8, 264, 511, 4095, 4096, 4097, 16384] {
        let bytes: Vec<u8> = random.bytes(len);
        for copy in [CopyKind::Primary, CopyKind::Secondary] {
            assert!(Header::parse(&bytes, copy, 0).is_err());
            assert!(header_size(&bytes, copy, u64::MAX).is_err());
        }
        assert!(Metadata::parse(&bytes).is_err());
    }
}
