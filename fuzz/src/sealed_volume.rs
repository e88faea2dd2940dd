//! Objects of a sealed volume: as they come, and with tags that fit, as whoever has the key can make them.

use std::sync::OnceLock;

use atrest_device::TRUSTED_RECORD_LEN;
use atrest_sealedvolume::format::{
    Aead, Extent, Keys, Kind, LeafRef, MOST_SLOTS, Operation, PRELUDE_LEN, Part, Prelude, Record, Root,
    SnapshotRef, Summary, log_len, open_leaf, open_log, open_log_front, open_root, seal_leaf, seal_root,
};
use atrest_secret::VolumeKey;

use crate::Reader;

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys::new(&VolumeKey::copy_from(&[7; 32]), [1; 16]).expect("keys"))
}

/// A kind, a number, and an object or what is sealed in one.
pub fn sealed_volume(data: &[u8]) {
    sealed_volume_is_taken(data);
}

/// Whether an input is something that the format has.
pub fn sealed_volume_is_taken(data: &[u8]) -> bool {
    let mut reader = Reader(data);
    let (choice, number) = (reader.u8(), u64::from(reader.u8()));
    match choice % 5 {
        0 => raw(number, reader.0),
        1 => log(number, u32::from(reader.u8() % 4), reader.0),
        2 => leaf(number, reader.0),
        3 => checkpoint(number, reader.0),
        _ => record(&reader.array()),
    }
}

/// Bytes that were not made with the key are no object; a prelude is read as it would be written.
fn raw(number: u64, bytes: &[u8]) -> bool {
    let mut taken = false;
    if let Some(first) = bytes.first_chunk::<PRELUDE_LEN>()
        && let Ok((prelude, commitment)) = Prelude::decode(first)
    {
        taken = true;
        assert_eq!(prelude.encode(commitment), *first);
        assert!(prelude.slots <= MOST_SLOTS && (prelude.kind != Kind::Log || log_len(&prelude).is_ok()));
    }
    assert!(open_log(keys(), number, bytes).is_err());
    // A prelude can be one of ours; a summary behind it that is sealed can not.
    assert!(!matches!(open_log_front(keys(), number, bytes), Ok(Ok(_))));
    assert!(open_root(keys(), number, bytes).is_err());
    assert!(open_leaf(keys(), &prelude(Kind::Map, number, 0, bytes.len()), bytes).is_err());
    taken
}

fn log(number: u64, slots: u32, clear: &[u8]) -> bool {
    let prelude = prelude(Kind::Log, number, slots, clear.len());
    let (cipher, front) = keys().seal(&prelude);
    let sealed = |part| {
        let mut bytes = clear.to_vec();
        let tag = cipher.seal(part, &[], &mut bytes).expect("sealed");
        [&bytes[..], &tag].concat()
    };
    let blocks = vec![0; slots as usize * 4112];
    let bytes = [&front[..], &sealed(Part::SummaryA), &blocks, &sealed(Part::SummaryB), &front].concat();
    let whole = open_log(keys(), number, &bytes);
    assert_eq!(whole.as_ref().map(|object| &object.summary), Summary::decode(clear, number, slots).as_ref());
    if let Ok(object) = &whole {
        // Every summary has one encoding, and a reader of the front alone reads the same.
        assert_eq!(object.summary.encode().as_deref(), Ok(clear));
        assert_eq!(open_log_front(keys(), number, &bytes), Ok(Ok(object.clone())));
        let stored: u64 = object.summary.extents.iter().filter(|run| !run.trim).map(|run| run.len).sum();
        assert_eq!(stored, u64::from(slots));
        assert!(object.summary.extents.iter().all(|run| run.start + run.len <= object.summary.blocks));
    }
    whole.is_ok()
}

fn leaf(number: u64, clear: &[u8]) -> bool {
    let prelude = prelude(Kind::Map, number, 0, clear.len());
    let (cipher, front) = keys().seal(&prelude);
    let mut bytes = clear.to_vec();
    let tag = cipher.seal(Part::Leaf, &[], &mut bytes).expect("sealed");
    let Ok(leaf) = open_leaf(keys(), &prelude, &[&front[..], &bytes, &tag].concat()) else { return false };
    let ends = leaf.entries.windows(2).all(|pair| pair[0].start + pair[0].len <= pair[1].start);
    assert!(ends && leaf.entries.iter().all(|entry| entry.start / 4096 == number && entry.len > 0));
    let (prelude, again) = seal_leaf(keys(), prelude, &leaf).expect("it was one");
    assert_eq!(open_leaf(keys(), &prelude, &again), Ok(leaf));
    true
}

fn checkpoint(number: u64, clear: &[u8]) -> bool {
    let prelude = prelude(Kind::Checkpoint, number, 0, clear.len());
    let (cipher, front) = keys().seal(&prelude);
    let sealed = |part| {
        let mut bytes = clear.to_vec();
        let tag = cipher.seal(part, &[], &mut bytes).expect("sealed");
        [&bytes[..], &tag].concat()
    };
    let bytes = [&front[..], &sealed(Part::RootA), &sealed(Part::RootB), &front].concat();
    let Ok((prelude, root)) = open_root(keys(), number, &bytes) else { return false };
    assert_eq!(seal_root(keys(), prelude, &root), Ok((prelude, bytes)));
    true
}

fn record(bytes: &[u8; TRUSTED_RECORD_LEN]) -> bool {
    let Ok(record) = Record::decode(bytes) else { return false };
    assert_eq!(record.encode(), *bytes);
    true
}

fn prelude(kind: Kind, number: u64, slots: u32, len: usize) -> Prelude {
    let (format, session, salt) = ([1; 16], [2; 32], [3; 16]);
    // Inputs have 256 KiB at most.
    let summary_len = u32::try_from(len).expect("a short input");
    Prelude { kind, aead: Aead::ChaCha20Poly1305, slots, summary_len, number, format, session, salt }
}

/// One input of each kind that is taken.
pub fn sealed_volume_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let run = |start, len, trim| Extent { start, len, trim };
    let (name, salt) = ("name".to_owned(), [4; 16]);
    let summary = Summary {
        begin: false,
        ordinal: 2,
        before: 8,
        before_chain: [5; 32],
        successor: 10,
        tags: [6; 32],
        blocks: 1000,
        extents: vec![run(0, 20, true), run(300, 2, false), run(5, 1, false)],
        operations: vec![
            Operation::SnapshotAdded { id: 9, name: name.clone(), checkpoint: 7, salt },
            Operation::SnapshotRemoved { id: 3 },
            Operation::Resized { blocks: 900 },
        ],
    };
    let log = summary.encode().expect("a summary");
    let begin = Summary { begin: true, extents: Vec::new(), operations: Vec::new(), ..summary };
    let begin = begin.encode().expect("a summary");
    // One object, and two runs in it: counts in LEB128.
    let object =
        [&9_u64.to_le_bytes()[..], &[2; 32], &[3; 16], &3_u32.to_le_bytes(), &9_u32.to_le_bytes(), &[2]]
            .concat();
    let leaf = [&[1][..], &object, &[2, 5, 1, 0, 2], &[0xa6, 2, 2, 0, 0]].concat();
    let leaves = vec![LeafRef { number: 0, session: [2; 32], salt: [3; 16], len: 9, aead: Aead::Aes256Gcm }];
    let snapshots = vec![SnapshotRef { id: 9, name, checkpoint: 7, salt }];
    let (session, chain) = ([2; 32], [5; 32]);
    let root = Root {
        number: 9,
        chain,
        successor: 10,
        session,
        ordinal: 2,
        window: 4,
        trusted: true,
        blocks: 1000,
        leaves,
        snapshots,
    };
    let (_, sealed) = seal_root(keys(), prelude(Kind::Checkpoint, 9, 0, 0), &root).expect("a root");
    let root = opened_root(&sealed);
    let record = Record { closed: true, format: [1; 16], number: 9, chain, session: [2; 12] };
    vec![
        ("prelude", [&[0, 9][..], &keys().seal(&prelude(Kind::Log, 9, 3, 40)).1].concat()),
        ("log", [&[1, 9, 3][..], &log].concat()),
        ("begin", [&[1, 9, 0][..], &begin].concat()),
        ("leaf", [&[2, 0][..], &leaf].concat()),
        ("root", [&[3, 9][..], &root].concat()),
        ("record", [&[4, 0][..], &record.encode()].concat()),
    ]
}

/// What is sealed in a checkpoint.
fn opened_root(bytes: &[u8]) -> Vec<u8> {
    let (cipher, prelude) = keys().open(bytes.first_chunk().expect("a prelude")).expect("it is ours");
    let (front, len) = (PRELUDE_LEN, prelude.summary_len as usize);
    let mut clear = bytes[front..front + len].to_vec();
    let tag = bytes[front + len..front + len + 16].try_into().expect("a tag");
    cipher.open(Part::RootA, &[], &mut clear, &tag).expect("its tag");
    clear
}
