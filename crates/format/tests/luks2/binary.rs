//! The binary header: one defect at a time, and which of two copies counts.

use atrest_format::luks2::{
    BinaryHeader, Checksum, CopyKind, Header, HeaderError, HeaderPair, Metadata, header_size,
};

use sha2::{Digest, Sha256};

use crate::sample::{area, metadata};

fn header(sequence: u64) -> Header {
    let binary = BinaryHeader {
        header_size: 0x4000,
        sequence,
        label: "label".into(),
        subsystem: "subsystem".into(),
        uuid: "3a26dfd2-096e-44cf-b9ba-98b49baf4980".into(),
        checksum: Checksum::Sha256,
    };
    Header { binary, metadata: Metadata::parse(&area(&metadata().to_string())).expect("passes") }
}

fn primary(sequence: u64) -> Vec<u8> {
    header(sequence).encode(CopyKind::Primary, &[7; 64]).expect("encodes")
}

fn secondary(sequence: u64) -> Vec<u8> {
    header(sequence).encode(CopyKind::Secondary, &[8; 64]).expect("encodes")
}

fn parse(bytes: &[u8]) -> Result<Header, HeaderError> {
    Header::parse(bytes, CopyKind::Primary, 0)
}

fn spoilt(change: impl FnOnce(&mut Vec<u8>)) -> HeaderError {
    let mut bytes = primary(3);
    change(&mut bytes);
    parse(&bytes).expect_err("noticed")
}

#[test]
fn fields_lie_where_the_specification_puts_them() {
    let bytes = primary(3);
    assert_eq!(bytes.len(), 0x4000);
    assert_eq!(&bytes[..24], b"LUKS\xBA\xBE\x00\x02\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\x03");
    assert_eq!(&bytes[24..30], b"label\0");
    assert_eq!(&bytes[72..79], b"sha256\0");
    assert_eq!(&bytes[104..168], [7; 64]);
    assert_eq!(&bytes[168..204], b"3a26dfd2-096e-44cf-b9ba-98b49baf4980");
    assert_eq!(&bytes[208..218], b"subsystem\0");
    assert_eq!(&bytes[256..264], [0; 8]);
    assert_eq!(&bytes[480..4096], [0; 3616]);
    assert_eq!(&bytes[4096..4109], b"{\"keyslots\":{");
    let second = secondary(3);
    assert_eq!(&second[..6], b"SKUL\xBA\xBE");
    assert_eq!(&second[256..264], 0x4000_u64.to_be_bytes());
}

#[test]
fn what_is_encoded_parses_back_the_same() {
    for checksum in [Checksum::Sha1, Checksum::Sha256, Checksum::Sha384, Checksum::Sha512] {
        let mut header = header(9);
        header.binary.checksum = checksum;
        let bytes = header.encode(CopyKind::Secondary, &[1; 64]).expect("encodes");
        let back = Header::parse(&bytes, CopyKind::Secondary, 0x4000).expect("parses");
        assert_eq!(back.binary, header.binary);
        assert_eq!(back.metadata.to_json(), header.metadata.to_json());
        assert_eq!(back.total_size(), 16_777_216, "the sample's keyslots area ends there");
    }
}

#[test]
fn each_defect_has_its_error() {
    assert_eq!(spoilt(|b| b[0] = b'l'), HeaderError::Magic);
    assert_eq!(spoilt(|b| b[7] = 3), HeaderError::Version { version: 3 });
    assert_eq!(spoilt(|b| b[14] = 0x50), HeaderError::HeaderSize { bytes: 0x5000 });
    assert_eq!(spoilt(|b| b[8] = 0xFF), HeaderError::HeaderSize { bytes: 0xFF00_0000_0000_4000 });
    assert_eq!(spoilt(|b| b[263] = 1), HeaderError::HeaderOffset { claims: 1, found: 0 });
    assert_eq!(spoilt(|b| b[72] = b'x'), HeaderError::ChecksumAlgorithm);
    assert_eq!(spoilt(|b| b[72] = 0xFF), HeaderError::ChecksumAlgorithm);
    for at in [16, 24, 104, 168, 208, 300, 448, 479, 512, 4095, 4096, 0x3FFF] {
        assert_eq!(spoilt(|b| b[at] ^= 1), HeaderError::ChecksumMismatch, "byte {at}");
    }
    assert_eq!(spoilt(|b| b.truncate(0x3FFF)), HeaderError::TooShort { needs: 0x4000, has: 0x3FFF });
    assert_eq!(spoilt(|b| b.truncate(5)), HeaderError::TooShort { needs: 4096, has: 5 });
    // A copy in the other's place is none.
    let moved = Header::parse(&secondary(3), CopyKind::Secondary, 0x8000).expect_err("refused");
    assert_eq!(moved, HeaderError::HeaderOffset { claims: 0x4000, found: 0x8000 });
    assert_eq!(header_size(&primary(3), CopyKind::Primary, 0), Ok(0x4000));
}

#[test]
fn texts_that_do_not_fit_are_not_written() {
    let encode = |change: &dyn Fn(&mut BinaryHeader)| {
        let mut header = header(1);
        change(&mut header.binary);
        header.encode(CopyKind::Primary, &[0; 64]).expect_err("refused")
    };
    assert_eq!(encode(&|b| b.label = "x".repeat(48).into()), HeaderError::BinaryText { field: "label" });
    assert_eq!(encode(&|b| b.subsystem = "a\0b".into()), HeaderError::BinaryText { field: "subsystem" });
    assert_eq!(encode(&|b| b.uuid = "x".repeat(40).into()), HeaderError::BinaryText { field: "uuid" });
}

#[test]
fn texts_in_no_encoding_are_kept_byte_for_byte() {
    let mut header = header(1);
    let texts: [&[u8]; 3] = [b"l\xffab\xc3", b"\x80", b"not \xfe a UUID"];
    let [label, subsystem, uuid] = texts;
    header.binary.label = label.into();
    header.binary.subsystem = subsystem.into();
    header.binary.uuid = uuid.into();
    let bytes = header.encode(CopyKind::Primary, &[0; 64]).expect("encodes");
    assert_eq!(&bytes[24..30], b"l\xffab\xc3\0");
    let back = parse(&bytes).expect("parses");
    assert_eq!(back.binary, header.binary);
    assert_eq!(back.binary.label.as_str(), "l\\xffab\\xc3");
    assert_eq!(back.encode(CopyKind::Primary, &[0; 64]).expect("encodes"), bytes);
}

#[test]
fn the_newer_good_copy_counts() {
    let second = |bytes: &[u8]| Header::parse(bytes, CopyKind::Secondary, 0x4000);
    let choose = |a: &[u8], b: &[u8]| HeaderPair::choose(parse(a), second(b));
    let broken = |mut bytes: Vec<u8>| {
        bytes[500] ^= 1;
        bytes[470] ^= 1;
        bytes
    };
    let pair = choose(&primary(3), &secondary(3)).expect("both good");
    assert_eq!((pair.primary, pair.secondary), (None, None));
    let pair = choose(&primary(4), &secondary(3)).expect("first");
    assert_eq!((pair.header.binary.sequence, pair.primary), (4, None));
    assert_eq!(pair.secondary, Some(HeaderError::Outdated { sequence: 3, newest: 4 }));
    let pair = choose(&primary(3), &secondary(4)).expect("second");
    assert_eq!((pair.header.binary.sequence, pair.secondary), (4, None));
    assert_eq!(pair.primary, Some(HeaderError::Outdated { sequence: 3, newest: 4 }));
    // A damaged copy does not count, however new it claims to be.
    let pair = choose(&broken(primary(9)), &secondary(3)).expect("second");
    assert_eq!((pair.header.binary.sequence, pair.primary), (3, Some(HeaderError::ChecksumMismatch)));
    let pair = choose(&primary(3), &broken(secondary(9))).expect("first");
    assert_eq!((pair.header.binary.sequence, pair.secondary), (3, Some(HeaderError::ChecksumMismatch)));
    let both = choose(&broken(primary(3)), &broken(secondary(3))).expect_err("none");
    assert_eq!(both, (HeaderError::ChecksumMismatch, HeaderError::ChecksumMismatch));
    let mut other = header(3);
    other.binary.label = "other".into();
    let other = other.encode(CopyKind::Secondary, &[8; 64]).expect("encodes");
    assert_eq!(choose(&primary(3), &other).expect("first").secondary, Some(HeaderError::Differs));
}

/// A copy of every length: one byte short is refused, and so is every shorter one.
#[test]
fn a_copy_that_ends_early_is_refused_at_every_length() {
    let bytes = primary(3);
    for len in (0..600).chain([4095, 4096, 4097, 0x4000 - 1]) {
        let error = parse(&bytes[..len]).expect_err("too short");
        assert!(matches!(error, HeaderError::TooShort { .. }), "{len}: {error:?}");
    }
    assert!(parse(&bytes).is_ok());
}

/// The longest texts that fit their fields with a NUL, and the first ones that do not.
#[test]
fn a_text_that_does_not_fit_is_refused_and_not_cut() {
    type Set = fn(&mut BinaryHeader, &str);
    let fields: [(Set, usize); 3] = [
        (|header, text| header.label = text.into(), 48),
        (|header, text| header.subsystem = text.into(), 48),
        (|header, text| header.uuid = text.into(), 40),
    ];
    for (set, len) in fields {
        let mut header = header(3);
        set(&mut header.binary, &"x".repeat(len - 1));
        let bytes = header.encode(CopyKind::Primary, &[7; 64]).expect("fits");
        assert_eq!(parse(&bytes).expect("parses").binary, header.binary);
        for text in ["x".repeat(len), "x".repeat(len + 1), "a\0b".into()] {
            set(&mut header.binary, &text);
            let error = header.encode(CopyKind::Primary, &[7; 64]).expect_err("refused");
            assert!(matches!(error, HeaderError::BinaryText { .. }), "{text:?}: {error:?}");
        }
    }
}

#[test]
fn a_text_that_is_not_ended_is_ended_by_the_last_byte_of_its_field() {
    let mut bytes = primary(3);
    bytes[24..72].fill(b'x');
    bytes[448..512].fill(0);
    let sum = Sha256::digest(&bytes);
    bytes[448..480].copy_from_slice(&sum);
    assert_eq!(parse(&bytes).expect("parses").binary.label.as_str(), "x".repeat(47));
}

#[test]
fn a_text_fills_the_json_area_but_for_a_zero_behind_it() {
    let header = header(1).binary;
    let json =
        |len: usize| header.encode(CopyKind::Primary, &[0; 64], &"x".repeat(len)).map(|bytes| bytes.len());
    assert_eq!(json(12_287), Ok(0x4000));
    assert_eq!(json(12_288), Err(HeaderError::TooShort { needs: 12_289, has: 12_288 }));
    for header_size in [0, 4096, 0x5000, 0x80_0000] {
        let odd = BinaryHeader { header_size, ..header.clone() };
        let refused = odd.encode(CopyKind::Primary, &[0; 64], "x").map(drop);
        assert_eq!(refused, Err(HeaderError::HeaderSize { bytes: header_size }));
    }
}

#[test]
fn each_copy_lies_where_it_says_and_nowhere_else() {
    for (bytes, copy, at) in [(primary(3), CopyKind::Primary, 0), (secondary(3), CopyKind::Secondary, 0x4000)]
    {
        assert_eq!(header_size(&bytes[..512], copy, at), Ok(0x4000));
        assert_eq!(
            header_size(&bytes[..511], copy, at),
            Err(HeaderError::TooShort { needs: 4096, has: 511 })
        );
        for other in [0, 0x4000, 0x8000] {
            assert_eq!(header_size(&bytes, copy, other).is_ok(), other == at, "{copy:?} at {other}");
        }
    }
    // A second copy that claims the place of the first one, which is no multiple of its size.
    let mut second = secondary(3);
    second[256..264].fill(0);
    let refused = header_size(&second, CopyKind::Secondary, 0);
    assert_eq!(refused, Err(HeaderError::HeaderOffset { claims: 0, found: 0 }));
    assert_eq!(header_size(&secondary(3), CopyKind::Primary, 0x4000), Err(HeaderError::Magic));
}
