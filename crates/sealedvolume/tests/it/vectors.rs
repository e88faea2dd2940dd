//! Every byte of the format, against a program in Python that shares no code with us: `tests/vectors/sealed-volume.py`.

use atrest_sealedvolume::format::{
    Aead, Extent, FormatError, Keys, Kind, Leaf, LeafEntry, LeafRef, LogObject, Operation, Prelude, Record,
    Root, SnapshotRef, Summary, open_leaf, open_log, open_root, seal_leaf, seal_log, seal_root,
};
use atrest_secret::VolumeKey;
use sha2::{Digest, Sha256};

const PRELUDE: &str = "\
    93617473766f6c0a0000010203000000c0000000000000000900000000000000101112131415161718191a1b1c1d1e1f4041\
    42434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f25dd6da9\
    bb20ef5641b3e021a378f5000eaca2ed43ad57ff023743cbd4847233";
const SUMMARY: &str = "\
    0000000000000000020000000000000008000000000000000a00000000000000808182838485868788898a8b8c8d8e8f9091\
    92939495969798999a9b9c9d9e9f29d141accd75aa1f17977ecba233b7f4b7d203e6c612aa5af93677a37e90aa2be8030000\
    000000000300000003000000000000000000000000000000000000000029b00404d104020109000000000000000700000000\
    000000000102030405060708090a0b0c0d0e0f046e616d65020300000000000000038403000000000000";
const LOG: &str = "1d1d00d5a8c3295203e9fd5c75aabddb12b1a24a5ec5345dfe8236094b686b47";
const CHAIN: &str = "0c3a7074dfdfc260845fc97e90570e0dbf61f5c2bc1520b815b37016e4a3507e";
const LEAF: &str = "\
    93617473766f6c0a00000202000000004c000000000000000000000000000000101112131415161718191a1b1c1d1e1f4041\
    42434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6fb02daff6\
    d341bb0fdf711153501bb9905630363076718d8416915ea401e9d8995e5d3667e4b355ebbbc00a640a4bedbbdc3be4a04dcd\
    fcce2b1280716abe5836e77f85f94235affbd936f318a51243e830d660bfbe39e88515d5c6015a1373194e29706291c794c5\
    5286e7f2a502d4f53ab9c5b105812c871e4c9d80";
const CHECKPOINT: &str = "99963432fe26c203c01d65305c0011caa1f2ade3bcdb1186a9252f3fb71b91b7";
const RECORD: &str = "\
    957600000100101112131415161718191a1b1c1d1e1f09000000000000000c3a7074dfdfc260845fc97e90570e0dbf61f5c2\
    bc1520b815b37016e4a3507e404142434445464748494a4b000000000000";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ascending<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|at| from + at as u8)
}

fn keys() -> Keys {
    Keys::new(&VolumeKey::copy_from(&ascending::<32>(0)), ascending(0x10)).expect("keys")
}

fn prelude(kind: Kind, number: u64) -> Prelude {
    let (format, session, salt) = (ascending(0x10), ascending(0x40), ascending(0x60));
    Prelude { kind, aead: Aead::ChaCha20Poly1305, slots: 0, summary_len: 0, number, format, session, salt }
}

fn summary() -> Summary {
    let run = |start, len, trim| Extent { start, len, trim };
    let (name, salt) = ("name".to_owned(), ascending(0));
    Summary {
        begin: false,
        ordinal: 2,
        before: 8,
        before_chain: ascending(0x80),
        successor: 10,
        tags: [0; 32],
        blocks: 1000,
        extents: vec![run(0, 20, true), run(300, 2, false), run(5, 1, false)],
        operations: vec![
            Operation::SnapshotAdded { id: 9, name, checkpoint: 7, salt },
            Operation::SnapshotRemoved { id: 3 },
            Operation::Resized { blocks: 900 },
        ],
    }
}

fn log() -> (LogObject, Vec<u8>) {
    let (one, two, three) = ([1; 4096], [2; 4096], [3; 4096]);
    let blocks = [(300, &one), (301, &two), (5, &three)];
    let sealed = seal_log(&keys(), prelude(Kind::Log, 9), summary(), &blocks).expect("a log object");
    (sealed.object, sealed.bytes)
}

#[test]
fn a_log_object_has_the_bytes_of_the_format() {
    let (object, bytes) = log();
    assert_eq!(hex(&bytes[..128]), PRELUDE);
    assert_eq!(hex(&object.summary.encode().expect("a summary")), SUMMARY);
    assert_eq!(hex(&Sha256::digest(&bytes)), LOG);
    assert_eq!(hex(&object.chain), CHAIN);
    assert_eq!(open_log(&keys(), 9, &bytes), Ok(object));
    assert_eq!(open_log(&keys(), 8, &bytes), Err(FormatError::AnotherObject));
}

#[test]
fn a_map_object_a_checkpoint_and_a_record_have_the_bytes_of_the_format() {
    let (object, _) = log();
    let entry = |start, len, slot| LeafEntry { start, len, object: object.prelude, slot };
    let leaf = Leaf { entries: vec![entry(5, 1, 2), entry(300, 2, 0)] };
    let (made, bytes) = seal_leaf(&keys(), prelude(Kind::Map, 0), &leaf).expect("a leaf");
    assert_eq!(hex(&bytes), LEAF);
    assert_eq!(open_leaf(&keys(), &made, &bytes), Ok(leaf));

    let (session, salt) = (made.session, made.salt);
    let leaf = LeafRef { number: 0, session, salt, len: made.summary_len, aead: made.aead };
    let snapshot = SnapshotRef { id: 9, name: "name".to_owned(), checkpoint: 7, salt: ascending(0) };
    let (number, chain, successor, ordinal) = (9, object.chain, 10, 2);
    let (window, blocks, leaves, snapshots) = (32, 1000, vec![leaf], vec![snapshot]);
    let trusted = true;
    let root =
        Root { number, chain, successor, session, ordinal, window, trusted, blocks, leaves, snapshots };
    let (made, bytes) = seal_root(&keys(), prelude(Kind::Checkpoint, 0), &root).expect("a checkpoint");
    assert_eq!(hex(&Sha256::digest(&bytes)), CHECKPOINT);
    assert_eq!(open_root(&keys(), 9, &bytes), Ok((made, root.clone())));
    // Nothing is sealed that no reader would take.
    let snapshot = |id| SnapshotRef { id, ..root.snapshots[0].clone() };
    let sealed = |count| {
        let root = Root { snapshots: (0..count).map(snapshot).collect(), ..root.clone() };
        seal_root(&keys(), prelude(Kind::Checkpoint, 0), &root).map(|(_, bytes)| bytes)
    };
    assert!(open_root(&keys(), 9, &sealed(65_536).expect("a checkpoint")).is_ok());
    assert_eq!(sealed(65_537), Err(FormatError::Limit));

    let session = ascending(0x40);
    let record = Record { closed: true, format: ascending(0x10), number: 9, chain: object.chain, session };
    assert_eq!(hex(&record.encode()), RECORD);
    assert_eq!(Record::decode(&record.encode()), Ok(record));
}

/// A reader takes nothing but what a writer makes: each byte of a summary, of a leaf and of a root is looked at.
#[test]
fn what_is_laid_out_otherwise_is_refused() {
    let good = log().0.summary.encode().expect("a summary");
    let decode = |bytes: &[u8]| Summary::decode(bytes, 9, 3);
    assert!(decode(&good).is_ok());
    for cut in 0..good.len() {
        assert!(decode(&good[..cut]).is_err(), "cut at {cut}");
    }
    assert_eq!(decode(&[&good[..], &[0]].concat()), Err(FormatError::Layout));
    // Slots that are too many or too few, a number that does not come behind, a size that the extents leave.
    assert_eq!(Summary::decode(&good, 9, 2), Err(FormatError::Layout));
    assert_eq!(Summary::decode(&good, 9, 4), Err(FormatError::Layout));
    assert_eq!(Summary::decode(&good, 8, 3), Err(FormatError::Limit));
    assert_eq!(Summary::decode(&good, 10, 3), Err(FormatError::Limit));
    for (at, value) in
        [(0, 1), (0, 2), (1, 1), (7, 1), (97, 0), (104, 2), (104, 4), (108, 1), (108, 2), (112, 1), (127, 1)]
    {
        let mut bad = good.clone();
        assert_ne!(bad[at], value, "nothing is changed at {at}");
        bad[at] = value;
        let told = decode(&bad);
        assert!(told.is_err(), "byte {at} as {value}: {told:?}");
    }
    // A size that no volume has.
    for blocks in [0, (1_u64 << 48) + 1] {
        let mut bad = good.clone();
        let at = bad.len() - 8;
        bad[at..].copy_from_slice(&blocks.to_le_bytes());
        assert_eq!(decode(&bad), Err(FormatError::Limit));
    }
    let record = Record::decode(&[0; 80]);
    assert_eq!(record, Err(FormatError::Foreign));
}
