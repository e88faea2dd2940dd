//! Objects of a sealed volume: as they come, and with tags that fit, as whoever has the key can make them.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use atrest_device::TRUSTED_RECORD_LEN;
use atrest_sealedvolume::format::{
    Aead, Extent, FANOUT, JOURNAL_HEAD, JournalHead, JournalMark, JournalRecord, Keys, Kind, MOST_LEVEL,
    MOST_SLOTS, Node, Operation, OtherKey, PRELUDE_LEN, Part, Prelude, RECORD_FRONT, Record, RecordFront,
    Root, Run, SnapshotRef, Summary, log_len, node_place, open_log, open_log_front, open_node, open_root,
    seal_node, seal_root, span,
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
    match choice % 7 {
        0 => raw(number, reader.0),
        1 => log(number, u32::from(reader.u8() % 4), reader.0),
        2 => node(u32::from(reader.u8()) % (MOST_LEVEL + 1), number, reader.0),
        3 => checkpoint(number, reader.0),
        4 => record(&reader.array()),
        5 => journal(reader.0),
        _ => journal_record(number, reader.0),
    }
}

/// The head of a journal's half, and what stands before a record.
fn journal(bytes: &[u8]) -> bool {
    if let Some(front) = bytes.first_chunk::<RECORD_FRONT>()
        && let Ok(front) = RecordFront::decode(front)
    {
        assert!(front.record_len() as u64 <= front.room() && front.room() % JOURNAL_HEAD as u64 == 0);
    }
    let mut head = [0; JOURNAL_HEAD];
    let len = bytes.len().min(JOURNAL_HEAD);
    head[..len].copy_from_slice(&bytes[..len]);
    let journal = keys().journal(0).expect("its key");
    let opened = journal.open_head(&head);
    let Ok((peeked, format)) = JournalHead::peek(&head) else {
        assert!(opened.is_err());
        return false;
    };
    assert!(opened.is_err() || opened == Ok(peeked));
    let of = Keys::at_epoch(&VolumeKey::copy_from(&[7; 32]), format, peeked.epoch).expect("keys");
    let again = of.journal(peeked.epoch).expect("its key").encode_head(&peeked);
    assert_eq!(again[..JOURNAL_HEAD - 32], head[..JOURNAL_HEAD - 32]);
    true
}

/// What is sealed in a record of a journal.
fn journal_record(number: u64, clear: &[u8]) -> bool {
    const BLOCKS: u64 = 1000;
    let Ok(record) = JournalRecord::decode(number, clear, BLOCKS) else { return false };
    let stored: u64 = record.extents.iter().filter(|run| !run.trim).map(|run| run.len).sum();
    assert_eq!(stored * 4096, record.data.len() as u64);
    assert!(record.extents.iter().all(|run| run.start + run.len <= BLOCKS));
    // Sealed again and opened it is the same.
    let journal = keys().journal(0).expect("its key");
    let id = NonZeroU32::MIN;
    let before = journal.first_chain(id);
    let blocks: Vec<_> = record.data.as_chunks::<4096>().0.iter().collect();
    let at = (id, number.max(1), &before);
    let sealed = journal.seal(at, (Aead::ChaCha20Poly1305, [9; 16]), &record.extents, &blocks);
    let (sealed, _) = sealed.expect("it was one");
    let (again, _) = journal.open(at, &sealed, BLOCKS).expect("it was sealed");
    assert!(again.extents == record.extents && again.data == record.data);
    true
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
    assert!(open_node(keys(), &prelude(Kind::Map, number, 0, bytes.len()), false, bytes).is_err());
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

fn node(level: u32, number: u64, clear: &[u8]) -> bool {
    let prelude = prelude(Kind::Map, number, level, clear.len());
    let (cipher, _) = keys().seal(&prelude);
    let mut bytes = clear.to_vec();
    let tag = cipher.seal(Part::NodeA, &[], &mut bytes).expect("sealed");
    let Ok(node) = open_node(keys(), &prelude, false, &[&bytes[..], &tag].concat()) else { return false };
    let (first, end) = (number * span(level), (number + 1) * span(level));
    assert!(node.runs.windows(2).all(|pair| pair[0].start + pair[0].len <= pair[1].start));
    assert!(node.runs.iter().all(|run| run.start >= first && run.start + run.len <= end && run.len > 0));
    assert!(level > 0 || node.children.is_empty() && node.runs.iter().all(|run| run.place.is_some()));
    assert!(node.children.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert!(node.children.iter().all(|child| child.slots + 1 == level && child.number / FANOUT == number));
    let (prelude, again) = seal_node(keys(), prelude, &node).expect("it was one");
    for second in [false, true] {
        let (offset, len) = node_place(&prelude, second).expect("it lies there");
        let sealed = &again[offset as usize..offset as usize + len];
        assert_eq!(open_node(keys(), &prelude, second, sealed), Ok(node.clone()));
    }
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
    Prelude {
        kind,
        aead: Aead::ChaCha20Poly1305,
        slots,
        summary_len,
        number,
        format,
        session,
        salt,
        epoch: 0,
    }
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
        journal: None,
        extents: vec![run(0, 20, true), run(300, 2, false), run(5, 1, false)],
        operations: vec![
            Operation::SnapshotAdded { id: 9, name: name.clone(), checkpoint: 7, salt },
            Operation::SnapshotRemoved { id: 3 },
            Operation::Resized { blocks: 900 },
            Operation::SnapshotCloned { id: 3, clone: [7; 16] },
            Operation::CloneGone { id: 3, clone: [7; 16] },
        ],
    };
    let log = summary.encode().expect("a summary");
    let id = NonZeroU32::MIN;
    let chain = [5; 32];
    let marked = Summary { journal: Some(JournalMark::new(id, 7, &chain)), ..summary.clone() };
    let marked = marked.encode().expect("a summary");
    let journal = keys().journal(0).expect("its key");
    let head = JournalHead { epoch: 0, id, first: 1, before: journal.first_chain(id) };
    let head = journal.encode_head(&head);
    // A trim of 20 blocks and a write of one.
    let body = [&[2, 0, 0, 0, 1, 0, 0, 0, 0, 41, 40, 2][..], &[7; 4096]].concat();
    let begin = Summary { begin: true, extents: Vec::new(), operations: Vec::new(), ..summary };
    let begin = begin.encode().expect("a summary");
    let object = prelude(Kind::Log, 9, 3, 9);
    let below = prelude(Kind::Map, 1, 0, 70);
    let stored = |start, len, slot| Run { start, len, place: Some((object, slot)) };
    let leaf = Node { children: Vec::new(), runs: vec![stored(5, 1, 2), stored(299, 2, 0)] };
    let hole = Run { start: 100, len: 5000, place: None };
    let branch = Node { children: vec![below], runs: vec![hole, stored(9000, 2, 1)] };
    let map = Some(prelude(Kind::Map, 0, 1, 70));
    let other = OtherKey {
        format: [7; 16],
        epoch: 1,
        key: VolumeKey::copy_from(&[8; 32]),
        place: "file:///a".into(),
    };
    let (keys_of, clones) = (vec![other], vec![[7; 16]]);
    let snapshots = vec![SnapshotRef { id: 9, name, checkpoint: 7, salt, clones }];
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
        journal: None,
        map,
        keys: keys_of,
        snapshots,
    };
    let (_, sealed) = seal_root(keys(), prelude(Kind::Checkpoint, 9, 0, 0), &root).expect("a root");
    let root = opened_root(&sealed);
    let record = Record { closed: true, format: [1; 16], number: 9, chain, journal: None, session: [2; 12] };
    vec![
        ("prelude", [&[0, 9][..], &keys().seal(&prelude(Kind::Log, 9, 3, 40)).1].concat()),
        ("log", [&[1, 9, 3][..], &log].concat()),
        ("begin", [&[1, 9, 0][..], &begin].concat()),
        ("leaf", [&[2, 0, 0][..], &clear_node(0, &leaf)].concat()),
        ("branch", [&[2, 0, 1][..], &clear_node(1, &branch)].concat()),
        ("root", [&[3, 9][..], &root].concat()),
        ("record", [&[4, 0][..], &record.encode()].concat()),
        ("marked", [&[1, 9, 3][..], &marked].concat()),
        ("journal", [&[5, 0][..], &head].concat()),
        ("journal-record", [&[6, 1][..], &body].concat()),
    ]
}

/// What is sealed in a map object.
fn clear_node(level: u32, node: &Node) -> Vec<u8> {
    let (prelude, bytes) = seal_node(keys(), prelude(Kind::Map, 0, level, 0), node).expect("a node");
    let (offset, len) = node_place(&prelude, false).expect("it lies there");
    let sealed = &bytes[offset as usize..offset as usize + len];
    let (clear, tag) = sealed.split_last_chunk::<16>().expect("a tag");
    let mut clear = clear.to_vec();
    keys().seal(&prelude).0.open(Part::NodeA, &[], &mut clear, tag).expect("its tag");
    clear
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
