//! Every byte of the format, against a program in Python that shares no code with us: `tests/vectors/sealed-volume.py`.

use std::num::NonZeroU32;

use atrest_sealedvolume::format::{
    Aead, Extent, FormatError, JournalHead, JournalMark, JournalPoint, Keys, Kind, LogObject, Node,
    Operation, OtherKey, Prelude, Record, Root, Run, SnapshotRef, Summary, half, node_place, open_log,
    open_node, open_root, seal_log, seal_node, seal_root,
};
use atrest_secret::VolumeKey;
use sha2::{Digest, Sha256};

const PRELUDE: &str = "\
    93617473766f6c0a0100010203000000f2000000050000000900000000000000101112131415161718191a1b1c1d1e1f4041\
    42434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f8925f2a6\
    df650e33c853554ed0af0ad50e93d42520b4838b908d4a56f6553001";
const SUMMARY: &str = "\
    0000000000000000020000000000000008000000000000000a00000000000000808182838485868788898a8b8c8d8e8f9091\
    92939495969798999a9b9c9d9e9f1a9398173fa504f5f668841339f26c289d38a24964d628836cb9d0f942f6ab42e8030000\
    000000000300000005000000000000000000000000000000000000000029b00404d104020109000000000000000700000000\
    000000000102030405060708090a0b0c0d0e0f046e616d650203000000000000000384030000000000000403000000000000\
    00707172737475767778797a7b7c7d7e7f050200000000000000707172737475767778797a7b7c7d7e7f";
const LOG: &str = "dbe06459a418ea5a9699aceacd766c962556f0a0c3ff7cbebebd7ca43bec7960";
const CHAIN: &str = "7299a2b9f361f6dbe58e1831c59f46ffe63b798229629d9bf627c0e7ddcdcd70";
const LEAF: &str = "234fe816f99e644ef39065bc8e3fcb43f2d383c58672a21b93153d5dd08d9ba9";
const BRANCH: &str = "196fdc7892fbf0f462553f9ad3e566c9046d6fef2c31c27092cc352dde0c536f";
const CHECKPOINT: &str = "649e24dc191d14c57f5d73982b0be450924dcb01773c40cc15470708cea6ae1e";
const RECORD: &str = "\
    957601000100101112131415161718191a1b1c1d1e1f09000000000000007299a2b9f361f6dbe58e1831c59f46ffe63b7982\
    29629d9bf627c0e7ddcdcd70404142434445464748494a4b000000000000";

const JOURNAL_HEAD: &str = "d445a0f810e0a6464f630a37c736c34463df2f2338d0695e8409539960bde827";
const JOURNAL_RECORD: &str = "4aeca8e06d39cf8970639488b2a2cc779184ab5294afd97ce456cf2d860e21b0";
const JOURNAL_CHAIN: &str = "37b1b41dd21bcdf821dd9dfe517fb5b5cc49bd83fdfdfa44e1ebdd46b866c888";
const MARKED_SUMMARY: &str = "253c5e6f10436ed0a2d4ccaac99e193f85326642f44a5fb0534ba3f6a66afb60";
const MARKED_CHECKPOINT: &str = "13c41de91bfb789d28fb7dfb9902d275f1e0bbb01e1c539a06a01eace1610d06";
const MARKED_RECORD: &str = "\
    957601000001101112131415161718191a1b1c1d1e1f09000000000000007299a2b9f361f6dbe58e1831c59f46ff37b1b41d\
    d21bcdf821dd9dfe517fb5b5404142434445464748494a4b2c0100000000";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ascending<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|at| from + at as u8)
}

fn keys() -> Keys {
    Keys::at_epoch(&VolumeKey::copy_from(&ascending::<32>(0)), ascending(0x10), 5).expect("keys")
}

fn prelude(kind: Kind, number: u64) -> Prelude {
    let (format, session, salt) = (ascending(0x10), ascending(0x40), ascending(0x60));
    let (aead, slots, summary_len, epoch) = (Aead::ChaCha20Poly1305, 0, 0, 5);
    Prelude { kind, aead, slots, summary_len, number, format, session, salt, epoch }
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
        journal: None,
        extents: vec![run(0, 20, true), run(300, 2, false), run(5, 1, false)],
        operations: vec![
            Operation::SnapshotAdded { id: 9, name, checkpoint: 7, salt },
            Operation::SnapshotRemoved { id: 3 },
            Operation::Resized { blocks: 900 },
            Operation::SnapshotCloned { id: 3, clone: ascending(0x70) },
            Operation::CloneGone { id: 2, clone: ascending(0x70) },
        ],
    }
}

fn log() -> (LogObject, Vec<u8>) {
    let (one, two, three) = ([1; 4096], [2; 4096], [3; 4096]);
    let blocks = [(300, &one), (301, &two), (5, &three)];
    let sealed = seal_log(&keys(), prelude(Kind::Log, 9), summary(), &blocks).expect("a log object");
    (sealed.object, sealed.bytes)
}

/// A leaf, and the branch above it.
fn nodes(object: &LogObject) -> (Node, Node) {
    let stored = |start, len, slot| Run { start, len, place: Some((object.prelude, slot)) };
    let leaf = Node { children: Vec::new(), runs: vec![stored(8197, 1, 2), stored(8492, 2, 0)] };
    let other = Prelude {
        kind: Kind::Log,
        aead: Aead::Aes256Gcm,
        slots: 300,
        summary_len: 500,
        number: 77,
        format: ascending(0x70),
        session: ascending(0x20),
        salt: ascending(0x60),
        epoch: 0,
    };
    let runs = vec![
        Run { start: 100, len: 4900, place: None },
        Run { start: 9000, len: 1, place: Some((other, 200)) },
    ];
    let (made, _) = seal_node(&keys(), prelude(Kind::Map, 2), &leaf).expect("a leaf");
    (leaf, Node { children: vec![made], runs })
}

fn root(chain: [u8; 32]) -> Root {
    let (_, branch) = nodes(&log().0);
    let (made, _) =
        seal_node(&keys(), Prelude { slots: 1, ..prelude(Kind::Map, 0) }, &branch).expect("a branch");
    let (key, place) = (VolumeKey::copy_from(&ascending::<32>(0x90)), "file:///".to_owned());
    let other = OtherKey { format: ascending(0x70), epoch: 0, key, place };
    let (name, clones) = ("name".to_owned(), vec![ascending(0x70)]);
    let snapshot = SnapshotRef { id: 9, name, checkpoint: 7, salt: ascending(0), clones };
    Root {
        number: 9,
        chain,
        successor: 10,
        session: ascending(0x40),
        ordinal: 2,
        window: 32,
        trusted: true,
        blocks: 1000,
        journal: None,
        map: Some(made),
        keys: vec![other],
        snapshots: vec![snapshot],
    }
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
fn map_objects_a_checkpoint_and_a_record_have_the_bytes_of_the_format() {
    let object = log().0;
    let (leaf, branch) = nodes(&object);
    let (made, bytes) = seal_node(&keys(), prelude(Kind::Map, 2), &leaf).expect("a leaf");
    assert_eq!(hex(&Sha256::digest(&bytes)), LEAF);
    assert_eq!(both(&made, &bytes), [Ok(leaf.clone()), Ok(leaf)]);

    let (made, bytes) =
        seal_node(&keys(), Prelude { slots: 1, ..prelude(Kind::Map, 0) }, &branch).expect("a branch");
    assert_eq!(hex(&Sha256::digest(&bytes)), BRANCH);
    assert_eq!(both(&made, &bytes), [Ok(branch.clone()), Ok(branch)]);

    let root = root(object.chain);
    assert_eq!(root.map, Some(made));
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

    let (chain, journal, session) = (object.chain, None, ascending(0x40));
    let record = Record { closed: true, format: ascending(0x10), number: 9, chain, journal, session };
    assert_eq!(hex(&record.encode()), RECORD);
    assert_eq!(Record::decode(&record.encode()), Ok(record));
}

#[test]
fn a_journal_and_what_is_said_of_it_have_the_bytes_of_the_format() {
    let keys = keys();
    let journal = keys.journal(5).expect("the key of its epoch");
    assert_eq!(keys.journal(4).err(), Some(FormatError::Key));
    let id = NonZeroU32::new(0x1122_3344).expect("not 0");
    let before = journal.first_chain(id);
    let head = JournalHead { epoch: 5, id, first: 1, before };
    let bytes = journal.encode_head(&head);
    assert_eq!(hex(&Sha256::digest(bytes)), JOURNAL_HEAD);
    assert_eq!(journal.open_head(&bytes), Ok(head));

    let (object, _) = log();
    let extents = object.summary.extents.clone();
    let data: Vec<[u8; 4096]> = [1, 2, 3].map(|byte| [byte; 4096]).to_vec();
    let blocks: Vec<_> = data.iter().collect();
    let sealed = journal.seal((id, 1, &before), (Aead::ChaCha20Poly1305, ascending(0x60)), &extents, &blocks);
    let (bytes, chain) = sealed.expect("a record");
    assert_eq!((hex(&Sha256::digest(&bytes)), hex(&chain)), (JOURNAL_RECORD.into(), JOURNAL_CHAIN.into()));
    let (record, after) = journal.open((id, 1, &before), &bytes, 1000).expect("it is one");
    assert_eq!((record.extents.clone(), record.data.clone(), after), (extents, data.concat(), chain));
    // It is the one behind another record, of another number, of another journal; it is cut; its volume is smaller.
    let other = NonZeroU32::MIN;
    assert_eq!(journal.open((id, 1, &chain), &bytes, 1000).err(), Some(FormatError::Tag));
    assert_eq!(journal.open((id, 2, &before), &bytes, 1000).err(), Some(FormatError::AnotherObject));
    assert_eq!(journal.open((other, 1, &before), &bytes, 1000).err(), Some(FormatError::Tag));
    assert_eq!(journal.open((id, 1, &before), &bytes[..8000], 1000).err(), Some(FormatError::Length));
    assert_eq!(journal.open((id, 1, &before), &bytes, 301).err(), Some(FormatError::Limit));

    let mark = Some(JournalMark::new(id, 7, &chain));
    let summary = Summary { journal: mark, ..object.summary.clone() };
    let bytes = summary.encode().expect("a summary");
    assert_eq!(hex(&Sha256::digest(&bytes)), MARKED_SUMMARY);
    assert_eq!(Summary::decode(&bytes, 9, 3), Ok(summary));
    let root = Root { journal: mark, ..root(object.chain) };
    let (made, bytes) = seal_root(&keys, prelude(Kind::Checkpoint, 0), &root).expect("a checkpoint");
    assert_eq!(hex(&Sha256::digest(&bytes)), MARKED_CHECKPOINT);
    assert_eq!(open_root(&keys, 9, &bytes), Ok((made, root)));
    let point = JournalPoint { number: 300, chain: half(&chain) };
    let (format, session) = (ascending(0x10), ascending(0x40));
    let journal = Some(point);
    let record = Record { closed: false, format, number: 9, chain: object.chain, journal, session };
    let bytes = record.encode();
    assert_eq!(hex(&bytes), MARKED_RECORD);
    let read = Record::decode(&bytes).expect("a record");
    assert_eq!((read.journal, read.number, read.is_at(&object.chain)), (journal, 9, true));
    assert!(!read.is_at(&chain));
    // Closed with a journal, flags that there are not, and a number without a journal.
    for (at, value) in [(4, 1), (5, 2), (5, 0)] {
        let mut bad = bytes;
        bad[at] = value;
        assert_eq!(Record::decode(&bad), Err(FormatError::Layout), "byte {at}");
    }
}

/// A node by each of its two copies.
fn both(made: &Prelude, bytes: &[u8]) -> [Result<Node, FormatError>; 2] {
    [false, true].map(|second| {
        let (offset, len) = node_place(made, second)?;
        open_node(&keys(), made, second, &bytes[offset as usize..offset as usize + len])
    })
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
    for (at, value) in [
        (0, 1),
        (0, 2),
        (1, 1),
        (3, 1),
        (120, 1),
        (127, 1),
        (97, 0),
        (104, 2),
        (104, 4),
        (108, 4),
        (108, 6),
        (120, 1),
        (127, 1),
    ] {
        let mut bad = good.clone();
        assert_ne!(bad[at], value, "nothing is changed at {at}");
        bad[at] = value;
        let told = decode(&bad);
        assert!(told.is_err(), "byte {at} as {value}: {told:?}");
    }
    // A size that no volume has.
    for blocks in [0, (1_u64 << 48) + 1] {
        let mut bad = good.clone();
        let at = bad.len() - 2 * 25 - 8;
        bad[at..at + 8].copy_from_slice(&blocks.to_le_bytes());
        assert_eq!(decode(&bad), Err(FormatError::Limit));
    }
    let record = Record::decode(&[0; 80]);
    assert_eq!(record, Err(FormatError::Foreign));
}
