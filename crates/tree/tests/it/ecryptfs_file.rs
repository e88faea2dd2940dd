//! The file layer of eCryptfs over a lower file in memory: held against a plain vector, and killed after every write.

use std::io;
use std::sync::{Arc, Mutex};

use atrest_secret::{OsRandom, Passphrase};
use atrest_testkit::Random;
use atrest_tree::ecryptfs::{
    EcryptfsError, EncryptedFile, FileCipher, FileOptions, HEADER_LEN, HeaderDamage, Keys, LowerFile,
    MetadataPlace, Signature,
};

/// A lower file of which a part can't be read.
struct Unreadable(Memory, std::ops::Range<u64>);

impl LowerFile for Unreadable {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset < self.1.end && self.1.start < offset + buf.len() as u64 {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn xattr(&self) -> io::Result<Option<Vec<u8>>> {
        self.0.xattr()
    }

    fn set_xattr(&self, value: &[u8]) -> io::Result<()> {
        self.0.set_xattr(value)
    }
}

/// What a lower file consists of.
#[derive(Clone, Default)]
struct Bytes {
    file: Vec<u8>,
    xattr: Option<Vec<u8>>,
}

/// A lower file that remembers what it was after each change.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<(Bytes, Vec<Bytes>)>>);

impl Memory {
    fn of(bytes: Bytes) -> Self {
        Self(Arc::new(Mutex::new((bytes, Vec::new()))))
    }

    fn change(&self, change: impl FnOnce(&mut Bytes)) {
        let mut both = self.0.lock().expect("no panic before");
        change(&mut both.0);
        let state = both.0.clone();
        both.1.push(state);
    }

    fn bytes(&self) -> Bytes {
        self.0.lock().expect("no panic before").0.clone()
    }

    fn states(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.0.lock().expect("no panic before").1)
    }
}

impl LowerFile for Memory {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let file = &self.0.lock().expect("no panic before").0.file;
        let from = file.get(offset as usize..).unwrap_or(&[]);
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(|state| {
            let end = offset as usize + bytes.len();
            if state.file.len() < end {
                state.file.resize(end, 0);
            }
            state.file[offset as usize..end].copy_from_slice(bytes);
        });
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().file.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|state| state.file.resize(len as usize, 0));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn xattr(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.bytes().xattr)
    }

    fn set_xattr(&self, value: &[u8]) -> io::Result<()> {
        self.change(|state| state.xattr = Some(value.to_vec()));
        Ok(())
    }
}

fn options(keys: &mut Keys, place: MetadataPlace) -> FileOptions {
    let [signature, _] = keys.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase");
    FileOptions {
        cipher: FileCipher::Aes128,
        key_len: 16,
        signatures: vec![signature],
        place,
        encrypted_names: false,
    }
}

fn whole(file: &EncryptedFile<Memory>) -> Vec<u8> {
    let mut all = vec![0xaa; file.len() as usize + 10];
    let len = file.read_at(0, &mut all).expect("readable");
    all.truncate(len);
    all
}

/// One random change to both.
fn change(file: &EncryptedFile<Memory>, plain: &mut Vec<u8>, random: &mut Random, largest: u64) {
    let at = random.below(largest);
    match random.below(5) {
        0 => {
            file.set_len(at).expect("room");
            plain.resize(at as usize, 0);
        }
        1 => {
            let mut data = vec![0; random.below(9000) as usize];
            random.fill(&mut data);
            assert_eq!(file.append(&data).expect("room"), plain.len() as u64);
            plain.extend(data);
        }
        _ => {
            let longest = if random.below(4) == 0 { 60_000 } else { 6000 };
            let mut data = vec![0; random.below(longest) as usize];
            random.fill(&mut data);
            file.write_at(at, &data).expect("room");
            let end = at as usize + data.len();
            if plain.len() < end && !data.is_empty() {
                plain.resize(end, 0);
            }
            if !data.is_empty() {
                plain[at as usize..end].copy_from_slice(&data);
            }
        }
    }
}

#[test]
fn any_reads_writes_and_cuts_are_those_of_a_plain_file() {
    for (seed, place) in [(1, MetadataPlace::File), (2, MetadataPlace::Xattr)] {
        let mut keys = Keys::new();
        let options = options(&mut keys, place);
        let memory = Memory::default();
        let mut file = EncryptedFile::create(memory.clone(), &keys, &options, &mut OsRandom).expect("made");
        let (mut plain, mut random) = (Vec::new(), Random::new(seed));
        for round in 0..400 {
            change(&file, &mut plain, &mut random, 200_000);
            memory.states();
            assert_eq!(file.len(), plain.len() as u64);
            let at = random.below(plain.len() as u64 + 5000) as usize;
            let mut part = vec![0; random.below(30_000) as usize];
            let read = file.read_at(at as u64, &mut part).expect("readable");
            let expected = plain.get(at..).unwrap_or(&[]);
            assert!(part[..read] == expected[..expected.len().min(part.len())], "round {round}");
            if round % 20 == 0 {
                file = EncryptedFile::open(memory.clone(), &keys).expect("a good header");
                assert!(whole(&file) == plain, "round {round}");
                // As many extents as the contents need, and no more.
                let front = if place == MetadataPlace::File { HEADER_LEN as usize } else { 0 };
                assert_eq!(memory.bytes().file.len(), front + plain.len().next_multiple_of(4096));
            }
        }
    }
}

/// A kill between any two writes leaves a file that opens, is as long as before or after, and of which each extent is old or
/// new (or zeros, where the change was to make it longer).
#[test]
fn a_kill_between_two_writes_leaves_each_extent_old_or_new() {
    let mut keys = Keys::new();
    for place in [MetadataPlace::File, MetadataPlace::Xattr] {
        let options = options(&mut keys, place);
        let memory = Memory::default();
        let file = EncryptedFile::create(memory.clone(), &keys, &options, &mut OsRandom).expect("made");
        memory.states();
        let (mut plain, mut random) = (Vec::new(), Random::new(7));
        let mut visited = 0;
        for round in 0..300 {
            let old: Vec<u8> = plain.clone();
            change(&file, &mut plain, &mut random, 50_000);
            for state in memory.states() {
                visited += 1;
                let after = EncryptedFile::open(Memory::of(state), &keys).expect("a good header");
                let found = whole(&after);
                assert_eq!(found.len() as u64, after.len(), "round {round}: an extent is missing");
                assert!([old.len(), plain.len()].contains(&found.len()), "round {round}");
                for (i, extent) in found.chunks(4096).enumerate() {
                    let of = |bytes: &[u8]| {
                        let mut part = bytes.get(i * 4096..).unwrap_or(&[]).to_vec();
                        part.resize(extent.len(), 0);
                        part
                    };
                    assert!(extent == of(&old) || extent == of(&plain), "round {round}, extent {i}");
                }
            }
        }
        assert!(visited > 400, "{visited} states");
    }
}

#[test]
fn large_runs_are_the_same_as_small_ones() {
    let mut keys = Keys::new();
    let options = options(&mut keys, MetadataPlace::File);
    let file = EncryptedFile::create(Memory::default(), &keys, &options, &mut OsRandom).expect("made");
    let mut plain = vec![0; 5_000_001];
    Random::new(3).fill(&mut plain);
    file.write_at(0, &plain).expect("room");
    assert!(whole(&file) == plain);
    for (i, chunk) in plain.chunks(1000).enumerate() {
        let mut part = [0; 1000];
        let read = file.read_at(i as u64 * 1000, &mut part).expect("readable");
        assert!(part[..read] == *chunk, "chunk {i}");
    }
}

#[test]
fn missing_extents_are_an_error_and_what_is_before_them_is_read() {
    let mut keys = Keys::new();
    let options = options(&mut keys, MetadataPlace::File);
    let memory = Memory::default();
    let file = EncryptedFile::create(memory.clone(), &keys, &options, &mut OsRandom).expect("made");
    file.write_at(0, &[5; 20_000]).expect("room");
    memory.set_len(HEADER_LEN + 4096 + 100).expect("in memory");
    let mut all = vec![0; 20_000];
    assert_eq!(file.read_at(0, &mut all).expect("the first extent"), 4096);
    match file.read_at(4096, &mut all) {
        Err(EcryptfsError::Truncated { extent: 1, size: 20_000, lower }) => {
            assert_eq!(lower, HEADER_LEN + 4196)
        }
        other => panic!("{other:?}"),
    }
    // A hole of the lower file reads as zeros.
    memory.set_len(HEADER_LEN + 5 * 4096).expect("in memory");
    memory.write_at(HEADER_LEN + 4096, &[0; 4096]).expect("in memory");
    file.read_at(0, &mut all).expect("readable");
    assert!(all[..4096] == [5; 4096] && all[4096..] == [0; 20_000 - 4096]);
}

#[test]
fn the_key_is_found_by_its_signature_and_no_other_is_tried() {
    let mut keys = Keys::new();
    let options = options(&mut keys, MetadataPlace::File);
    let memory = Memory::default();
    EncryptedFile::create(memory.clone(), &keys, &options, &mut OsRandom).expect("made");
    let mut others = Keys::new();
    others.add_passphrase(&Passphrase::copy_from(b"wrong horse")).expect("a passphrase");
    match EncryptedFile::open(memory.clone(), &others) {
        Err(EcryptfsError::NoKey { wanted }) => assert_eq!(wanted, options.signatures),
        other => panic!("{other:?}"),
    }
    others.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase");
    EncryptedFile::open(memory, &others).expect("one of several keys");
    match EncryptedFile::open(Memory::of(Bytes { file: vec![1; 5000], xattr: None }), &others) {
        Err(EcryptfsError::NoHeader { len: 5000 }) => {}
        other => panic!("{other:?}"),
    }
}

/// A run that several cores read is short only before an extent that is missing. What the lower file refuses is an error,
/// wherever it lies: a caller takes a short read for the end of the file.
#[test]
fn what_can_not_be_read_is_an_error_in_large_runs_too() {
    let mut keys = Keys::new();
    let options = options(&mut keys, MetadataPlace::File);
    let memory = Memory::default();
    let file = EncryptedFile::create(memory.clone(), &keys, &options, &mut OsRandom).expect("made");
    let plain = Random::new(9).bytes(6 << 20);
    file.write_at(0, &plain).expect("room");
    let mut buf = vec![0; plain.len()];
    for bad in [HEADER_LEN, HEADER_LEN + (1 << 20), HEADER_LEN + (4 << 20), HEADER_LEN + (6 << 20) - 1] {
        let lower = Unreadable(memory.clone(), bad..bad + 1);
        let file = EncryptedFile::open(lower, &keys).expect("a good header");
        let read = file.read_at(0, &mut buf);
        assert!(matches!(read, Err(EcryptfsError::Io(_))), "byte {bad}: {read:?}");
    }
    // An extent that is missing ends the read before it.
    let len = memory.bytes().file.len() as u64;
    memory.set_len(len - (2 << 20)).expect("cut");
    let file = EncryptedFile::open(memory, &keys).expect("a good header");
    assert_eq!(file.read_at(0, &mut buf).expect("readable"), 4 << 20);
    assert!(buf[..4 << 20] == plain[..4 << 20]);
    // At the border of what two cores read, and in what the first of them reads.
    let mut memory = file.into_lower();
    for there in [3 << 20, 2 << 20] {
        memory.set_len(HEADER_LEN + there as u64).expect("cut");
        let file = EncryptedFile::open(memory, &keys).expect("a good header");
        assert_eq!(file.read_at(0, &mut buf).expect("readable"), there);
        assert!(buf[..there] == plain[..there]);
        memory = file.into_lower();
    }
}

/// What is overwritten in place leaves the size alone, and an extent that is not there in full is not made up.
#[test]
fn a_part_of_an_extent_is_written_only_over_the_rest_of_it() {
    let mut keys = Keys::new();
    let (lower, file) = judged(&mut keys, &[7; 20_000]);
    for (offset, len) in [(19_990, 10), (0, 20_000), (5000, 1)] {
        file.write_at(offset, &vec![8; len]).expect("room");
        assert!(lower.noted().iter().all(|(what, offset, _)| *what == "write" && *offset > 0), "{offset}");
    }
    lower.memory.set_len(HEADER_LEN + EXTENT + 100).expect("in memory");
    let before = lower.memory.bytes().file;
    for offset in [4096, 5000, 8190] {
        let refused = file.write_at(offset, b"part");
        assert!(matches!(refused, Err(EcryptfsError::Truncated { extent: 1, .. })), "{offset}: {refused:?}");
    }
    assert!(lower.memory.bytes().file == before);
    file.write_at(4096, &[9; 4096]).expect("all of it");
}

/// What was asked of a lower file: an offset and a length, where it has them.
type Call = (&'static str, u64, u64);

/// A lower file that keeps a record, and refuses what it is told to.
#[derive(Clone, Default)]
struct Judging {
    memory: Memory,
    log: Arc<Mutex<Vec<Call>>>,
    /// Writes that still succeed.
    writes: Option<Arc<Mutex<u32>>>,
    no_room: bool,
}

impl Judging {
    fn note(&self, what: &'static str, offset: u64, len: u64) {
        self.log.lock().expect("no panic before").push((what, offset, len));
    }

    fn noted(&self) -> Vec<Call> {
        std::mem::take(&mut self.log.lock().expect("no panic before"))
    }

    fn lower_len(&self) -> u64 {
        self.memory.bytes().file.len() as u64
    }
}

impl LowerFile for Judging {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.memory.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(left) = &self.writes {
            let mut left = left.lock().expect("no panic before");
            *left = left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        }
        self.note("write", offset, bytes.len() as u64);
        self.memory.write_at(offset, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.note("set_len", len, 0);
        self.memory.set_len(len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        self.note("reserve", offset, len);
        if self.no_room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.note("sync", 0, 0);
        if self.no_room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn xattr(&self) -> io::Result<Option<Vec<u8>>> {
        self.memory.xattr()
    }

    fn set_xattr(&self, value: &[u8]) -> io::Result<()> {
        self.memory.set_xattr(value)
    }
}

const EXTENT: u64 = 4096;

fn judged(keys: &mut Keys, contents: &[u8]) -> (Judging, EncryptedFile<Judging>) {
    let (lower, options) = (Judging::default(), options(keys, MetadataPlace::File));
    let file = EncryptedFile::create(lower.clone(), keys, &options, &mut OsRandom).expect("made");
    file.write_at(0, contents).expect("room");
    lower.noted();
    (lower, file)
}

/// What was cut off is out of sight first, then gone from the last extent, then from the disk. Whole extents are left alone.
#[test]
fn what_is_cut_off_is_overwritten_before_the_file_is_shorter() {
    let mut keys = Keys::new();
    let (lower, file) = judged(&mut keys, &[7; 20_000]);
    file.set_len(9000).expect("shorter");
    let end = HEADER_LEN + 3 * EXTENT;
    let last = HEADER_LEN + 2 * EXTENT;
    assert_eq!(lower.noted(), [("write", 0, 8), ("write", last, EXTENT), ("set_len", end, 0)]);
    file.set_len(8192).expect("shorter");
    assert_eq!(lower.noted(), [("write", 0, 8), ("set_len", last, 0)]);
    file.set_len(8192).expect("nothing to do");
    assert_eq!(lower.noted(), []);
    file.set_len(5000).expect("shorter");
    // Whoever reads whole pages finds nothing behind the end.
    lower.memory.write_at(0, &8192_u64.to_be_bytes()).expect("in memory");
    let mut all = vec![1; 8192];
    let longer = EncryptedFile::open(lower.memory.clone(), &keys).expect("a good header");
    assert_eq!(longer.read_at(0, &mut all).expect("readable"), 8192);
    assert!(all[..5000] == [7; 5000] && all[5000..] == [0; 3192]);
    file.set_len(0).expect("shorter");
    assert_eq!((file.len(), file.is_empty(), lower.lower_len()), (0, true, HEADER_LEN));
}

#[test]
fn a_file_that_can_not_grow_is_as_it_was() {
    let mut keys = Keys::new();
    let (mut lower, file) = judged(&mut keys, &[7; 5000]);
    // Short gaps are filled without asking, long ones only where there is room for them.
    file.set_len(5000 + (1 << 20)).expect("room");
    assert!(lower.noted().iter().all(|(what, ..)| *what == "write"));
    file.set_len(5000).expect("shorter");
    lower.noted();
    file.set_len(5001 + (1 << 20)).expect("room");
    let first = lower.noted()[0];
    let end = (5001 + (1_u64 << 20)).div_ceil(EXTENT);
    assert_eq!(first, ("reserve", HEADER_LEN + EXTENT, (end - 1) * EXTENT));
    file.set_len(5000).expect("shorter");
    lower.no_room = true;
    let before = lower.memory.bytes().file;
    let file = EncryptedFile::open(lower.clone(), &keys).expect("a good header");
    for grown in [file.set_len(3 << 20), file.write_at(3 << 20, b"x"), file.sync()] {
        assert!(matches!(grown, Err(EcryptfsError::Io(_))), "{grown:?}");
    }
    assert_eq!((file.len(), file.is_empty()), (5000, false));
    assert!(lower.memory.bytes().file == before);
    // The largest file there can be is refused for want of room, not for its size.
    let largest = (i64::MAX as u64 - HEADER_LEN) & !(EXTENT - 1);
    let grown = file.set_len(largest);
    assert!(matches!(grown, Err(EcryptfsError::Io(_))), "{grown:?}");
    // The disk is full in the middle: what there is of the zeros goes.
    lower.no_room = false;
    for writes in 0..4 {
        lower.writes = Some(Arc::new(Mutex::new(writes)));
        let file = EncryptedFile::open(lower.clone(), &keys).expect("a good header");
        let grown = file.set_len(5 << 20);
        assert!(matches!(grown, Err(EcryptfsError::Io(_))), "{grown:?}");
        assert_eq!((file.len(), lower.lower_len()), (5000, HEADER_LEN + 2 * EXTENT), "{writes}");
        lower.writes = None;
        let file = EncryptedFile::open(lower.clone(), &keys).expect("a good header");
        let mut all = [0; 6000];
        assert_eq!(file.read_at(0, &mut all).expect("readable"), 5000);
        assert!(all[..5000] == [7; 5000]);
    }
}

#[test]
fn room_is_asked_for_whole_extents_up_to_the_largest_file() {
    let mut keys = Keys::new();
    let (lower, file) = judged(&mut keys, b"");
    let largest = (i64::MAX as u64 - HEADER_LEN) & !(EXTENT - 1);
    for (offset, len, from, to) in [
        (5000, 10_000, EXTENT, 4 * EXTENT),
        (0, 1, 0, EXTENT),
        (4096, 4096, EXTENT, 2 * EXTENT),
        (0, largest, 0, largest),
        (largest - 1, 1, largest - EXTENT, largest),
    ] {
        file.reserve(offset, len).expect("nobody looks");
        assert_eq!(lower.noted(), [("reserve", HEADER_LEN + from, to - from)], "{offset} {len}");
    }
    for (offset, len) in [(0, largest + 1), (largest, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = file.reserve(offset, len);
        assert!(matches!(refused, Err(EcryptfsError::TooLarge { .. })), "{offset} {len}: {refused:?}");
    }
    for refused in [
        file.set_len(largest + 1),
        file.set_len(u64::MAX),
        file.write_at(largest, b"x"),
        file.write_at(largest - 1, b"xy"),
        file.write_at(u64::MAX, b"x"),
    ] {
        assert!(matches!(refused, Err(EcryptfsError::TooLarge { .. })), "{refused:?}");
    }
    file.write_at(u64::MAX, b"").expect("nothing to do");
    file.sync().expect("in memory");
    assert_eq!(lower.noted(), [("sync", 0, 0)]);
    assert_eq!((file.len(), file.contents_at(), file.lower().lower_len()), (0, HEADER_LEN, HEADER_LEN));
    assert_eq!(file.into_lower().lower_len(), HEADER_LEN);
}

#[test]
fn a_size_that_no_file_can_have_is_refused() {
    let mut keys = Keys::new();
    let (lower, file) = judged(&mut keys, b"");
    drop(file);
    let largest = (i64::MAX as u64 - HEADER_LEN) & !(EXTENT - 1);
    for (size, fits) in [(largest, true), (largest + 1, false), (i64::MAX as u64, false)] {
        lower.memory.write_at(0, &size.to_be_bytes()).expect("in memory");
        match EncryptedFile::open(lower.clone(), &keys) {
            Ok(file) => assert!(fits && file.len() == size, "{size}"),
            Err(EcryptfsError::Header(HeaderDamage::Size(found))) => assert!(!fits && found == size),
            Err(error) => panic!("{size}: {error:?}"),
        }
    }
}

#[test]
fn a_new_file_has_as_many_keys_as_its_header_has_room_for() {
    let mut keys = Keys::new();
    let options = options(&mut keys, MetadataPlace::File);
    let create = |signatures: Vec<Signature>| {
        let memory = Memory::default();
        let options = FileOptions { signatures, ..options.clone() };
        let made = EncryptedFile::create(memory.clone(), &keys, &options, &mut OsRandom);
        (made.map(drop), memory)
    };
    let signature = options.signatures[0];
    for (signatures, missing) in
        [(vec![], vec![]), (vec![signature, Signature([1; 8])], vec![signature, Signature([1; 8])])]
    {
        let (refused, memory) = create(signatures);
        assert!(
            matches!(&refused, Err(EcryptfsError::NoKey { wanted }) if *wanted == missing),
            "{refused:?}"
        );
        assert!(memory.bytes().file.is_empty());
    }
    // 26 bytes, 55 for each key of 16 bytes, and a zero.
    let most = (4096 - 27) / 55;
    let (made, memory) = create(vec![signature; most]);
    made.expect("there is room");
    EncryptedFile::open(memory, &keys).expect("a good header");
    let (refused, memory) = create(vec![signature; most + 1]);
    assert!(matches!(refused, Err(EcryptfsError::Header(HeaderDamage::Short { .. }))), "{refused:?}");
    assert!(memory.bytes().file.is_empty());
}

/// The first key that is there opens a file, whatever other packets it has.
#[test]
fn one_key_of_several_is_enough_and_none_is_told_apart() {
    let mut both = Keys::new();
    let ours = both.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase")[0];
    let mut theirs = Keys::new();
    let other = theirs.add_passphrase(&Passphrase::copy_from(b"battery staple")).expect("a passphrase")[0];
    let only_ours = both.clone();
    both.add_passphrase(&Passphrase::copy_from(b"battery staple")).expect("a passphrase");
    let signatures = vec![ours, other];
    let options =
        FileOptions { signatures: signatures.clone(), ..options(&mut Keys::new(), MetadataPlace::File) };
    let memory = Memory::default();
    let file = EncryptedFile::create(memory.clone(), &both, &options, &mut OsRandom).expect("made");
    file.write_at(0, b"for two").expect("room");
    for keys in [&only_ours, &theirs, &both] {
        let file = EncryptedFile::open(memory.clone(), keys).expect("one is enough");
        assert!(whole(&file) == b"for two");
    }
    match EncryptedFile::open(memory.clone(), &Keys::new()) {
        Err(EcryptfsError::NoKey { wanted }) => assert_eq!(wanted, signatures),
        other => panic!("{other:?}"),
    }
    // A public key's packet alone: version 3, signature, algorithm, a key.
    let mut packet = vec![1, 12, 3];
    packet.extend(other.0);
    packet.extend([1, 9, 9, 0]);
    memory.write_at(26, &packet).expect("in memory");
    match EncryptedFile::open(memory, &both) {
        Err(EcryptfsError::PublicKey { signature }) => assert_eq!(signature, other),
        other => panic!("{other:?}"),
    }
}
