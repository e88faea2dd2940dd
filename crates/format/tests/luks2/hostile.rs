//! Bytes that nobody meant well: errors, never a panic.

use atrest_format::luks2::{CopyKind, Header, Metadata, header_size};

use crate::sample::{area, metadata};

/// splitmix64: enough to sample mutations, and replayable.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

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
    let mut draw = Draw(2);
    let mut passed = 0;
    for round in 0..20_000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=draw.below(3) {
            let at = draw.below(bytes.len());
            let end = (at + draw.below(4)).min(bytes.len());
            bytes.splice(at..end, pieces[draw.below(pieces.len())].bytes());
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
    let mut draw = Draw(3);
    for len in [0, 1, 6, 8, 264, 511, 4095, 4096, 4097, 16384] {
        let bytes: Vec<u8> = (0..len).map(|_| draw.next() as u8).collect();
        for copy in [CopyKind::Primary, CopyKind::Secondary] {
            assert!(Header::parse(&bytes, copy, 0).is_err());
            assert!(header_size(&bytes, copy, u64::MAX).is_err());
        }
        assert!(Metadata::parse(&bytes).is_err());
    }
}
