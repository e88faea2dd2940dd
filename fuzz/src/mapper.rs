//! What the kernel's device-mapper answers: the table of a mapping, a line in it, the names of all mappings.

use arbitrary::{Result, Unstructured};
use atrest_attach::dm::answer::{Answer, Line, line};
use atrest_volume::{CryptFlags, CryptTarget, IntegrityTags, VolumeKey};

/// Bytes of `struct dm_ioctl`, and where its numbers lie (`linux/dm-ioctl.h`).
const HEAD: usize = 312;
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const OPEN_COUNT: usize = 24;
const DEVICE: usize = 40;
const UUID: usize = 176;
/// Bytes of `struct dm_target_spec`.
const SPEC: usize = 40;

/// An answer as it is, and answers and lines as the kernel makes them.
pub fn dm_answer(data: &[u8]) {
    let _ = Line::read(data);
    bounded(data);
    let mut u = Unstructured::new(data);
    // Where the input ends there is no more in them.
    let _ = table(&mut u).and_then(|()| names(&mut u)).and_then(|()| crypt_line(&mut u));
}

/// Whatever an answer says, no more comes of it than it has bytes for.
fn bounded(bytes: &[u8]) {
    let Some(answer) = Answer::read(bytes) else {
        assert!(bytes.len() < HEAD);
        return;
    };
    assert!(answer.uuid.len() <= 3 * 129, "each byte that is no text takes three");
    let room = bytes.len() - HEAD;
    if let Some(targets) = answer.targets {
        assert!(targets.len() <= bytes.len(), "{} lines in {room} bytes", targets.len());
        assert!(targets.iter().all(|(_, _, kind, line)| kind.len() <= 16 && line.len() <= bytes.len()));
    }
    if let Some(names) = answer.names {
        assert!(names.len() <= bytes.len(), "{} names in {room} bytes", names.len());
        assert!(names.iter().all(|name| name.len() <= bytes.len() && !name.contains('\0')));
    }
}

/// A head that says where its data is.
fn head(uuid: &str, device: u64, open: u32, count: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    let size = (HEAD + data.len()) as u32;
    for (at, number) in
        [(DATA_SIZE, size), (DATA_START, HEAD as u32), (TARGET_COUNT, count), (OPEN_COUNT, open)]
    {
        bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }
    bytes[DEVICE..DEVICE + 8].copy_from_slice(&device.to_ne_bytes());
    bytes[UUID..UUID + uuid.len()].copy_from_slice(uuid.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Letters that names and lines are made of.
fn text(u: &mut Unstructured<'_>, longest: usize) -> Result<String> {
    const LETTERS: &[u8] = b"abcxyz019-_:. ()\xc3\xa4";
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(0..=longest)? {
        bytes.push(*u.choose(LETTERS)?);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A table is read as it was put together; changed anywhere, it is still bounded.
fn table(u: &mut Unstructured<'_>) -> Result<()> {
    let mut targets = Vec::new();
    let mut data = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        let (start, sectors) = (u.arbitrary()?, u.arbitrary()?);
        let kind = *u.choose(&["crypt", "integrity", "linear", "sixteen letters."])?;
        let line = text(u, 30)?.into_bytes();
        let next = data.len() + (SPEC + line.len() + 1).next_multiple_of(8);
        let [a, b]: [u64; 2] = [start, sectors];
        data.extend([a.to_ne_bytes(), b.to_ne_bytes()].concat());
        data.extend([0_u32.to_ne_bytes(), (next as u32).to_ne_bytes()].concat());
        data.extend(kind.bytes().chain([0; 16]).take(16));
        data.extend_from_slice(&line);
        data.resize(next, 0);
        targets.push((start, sectors, kind.to_owned(), line));
    }
    let (uuid, device, open) = (text(u, 40)?, u.arbitrary()?, u.arbitrary()?);
    let mut bytes = head(&uuid, device, open, targets.len() as u32, &data);
    let answer = Answer::read(&bytes).expect("a whole head");
    assert_eq!((answer.uuid, answer.device, answer.open_count), (uuid, device, open));
    assert_eq!(answer.targets, Some(targets));
    change(&mut bytes, u)
}

/// Answers and lines for the seeds.
pub fn dm_answer_seeds() -> [Vec<u8>; 4] {
    let line = b"aes-xts-plain64 :64:logon:cryptsetup:1-d0 0 254:16 32768 2 allow_discards sector_size:4096";
    let mut target = [0_u64.to_ne_bytes(), 2048_u64.to_ne_bytes()].concat();
    target.extend([0_u32.to_ne_bytes(), 136_u32.to_ne_bytes()].concat());
    target.extend(b"crypt\0\0\0\0\0\0\0\0\0\0\0");
    target.extend_from_slice(line);
    target.resize(136, 0);
    let mut names = Vec::new();
    for (number, next, name) in [(0xfd00_u64, 24_u32, b"root\0\0\0\0"), (0xfd01, 0, b"swap\0\0\0\0")] {
        names.extend([&number.to_ne_bytes()[..], &next.to_ne_bytes(), name, &[0; 4]].concat());
    }
    let short = b"aes-cbc-essiv:sha256 00112233445566778899aabbccddeeff 8 7:0 0";
    [
        head("CRYPT-LUKS2-0123456789abcdef-root", 0xfd00, 1, 1, &target),
        head("", 0, 0, 0, &names),
        line.to_vec(),
        short.to_vec(),
    ]
}

/// So are names.
fn names(u: &mut Unstructured<'_>) -> Result<()> {
    let mut names = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        names.push(text(u, 20)?);
    }
    let mut data = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let len = (12 + name.len() + 1).next_multiple_of(8);
        let next = if number + 1 == names.len() { 0 } else { len as u32 };
        let start = data.len();
        data.extend_from_slice(&(0xfd00 + number as u64).to_ne_bytes());
        data.extend_from_slice(&next.to_ne_bytes());
        data.extend_from_slice(name.as_bytes());
        data.resize(start + len, 0);
    }
    let mut bytes = head("", 0, 0, 0, &data);
    assert_eq!(Answer::read(&bytes).expect("a whole head").names, Some(names));
    change(&mut bytes, u)
}

fn change(bytes: &mut [u8], u: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..u.int_in_range(0..=3)? {
        let at = u.choose_index(bytes.len())?;
        bytes[at] = u.arbitrary()?;
        // The numbers that lead through an answer.
        let place = *u.choose(&[DATA_SIZE, DATA_START, TARGET_COUNT, HEAD + 8, HEAD + 20])?;
        if place + 4 <= bytes.len() && u.arbitrary()? {
            let number: u32 = u.arbitrary()?;
            bytes[place..place + 4].copy_from_slice(&number.to_ne_bytes());
        }
        bounded(bytes);
    }
    Ok(())
}

/// A line that we give the kernel says the same when the kernel gives it back.
fn crypt_line(u: &mut Unstructured<'_>) -> Result<()> {
    let key: Vec<u8> = (0..*u.choose(&[0, 16, 32, 64, 96])?).map(|i: u8| i ^ 0x5a).collect();
    let tags = IntegrityTags { len: u.arbitrary()?, provided: 1 << 20, key_len: None };
    let tags = u.arbitrary::<bool>()?.then_some(tags);
    let target = CryptTarget {
        start: 0,
        len: 1 << 20,
        media_offset: 0,
        cipher: (*u.choose(&["aes-xts-plain64", "capi:gcm(aes)-random", "cipher_null-ecb"])?).into(),
        key: VolumeKey::copy_from(&key),
        digest: u.arbitrary()?,
        iv_offset: u.arbitrary()?,
        data_unit: *u.choose(&[512, 1024, 2048, 4096])?,
        iv_large: u.arbitrary()?,
        tags,
    };
    let [allow_discards, same_cpu_crypt, submit_from_crypt_cpus, no_read_workqueue, no_write_workqueue] =
        u.arbitrary()?;
    let flags = CryptFlags {
        allow_discards,
        same_cpu_crypt,
        submit_from_crypt_cpus,
        no_read_workqueue,
        no_write_workqueue,
        no_journal: false,
    };
    let uuid = u.arbitrary::<bool>()?.then_some("01234567-89ab-4def-8123-456789abcdef");
    let offset = u64::from(u.arbitrary::<u32>()?) * 512;
    let made = line(&target, uuid, (0xfd03, offset), flags);
    let read = Line::read(&made).expect("it is one that we make");
    let names = [
        (allow_discards, "allow_discards"),
        (same_cpu_crypt, "same_cpu_crypt"),
        (submit_from_crypt_cpus, "submit_from_crypt_cpus"),
        (no_read_workqueue, "no_read_workqueue"),
        (no_write_workqueue, "no_write_workqueue"),
        (target.iv_large, "iv_large_sectors"),
    ];
    let expected = Line {
        cipher: target.cipher,
        key_bits: 8 * key.len(),
        keyring: uuid.is_some(),
        iv_offset: target.iv_offset,
        device: "253:3".into(),
        offset: offset / 512,
        sector_size: target.data_unit,
        tag_len: tags.map(|tags| tags.len),
        flags: names.into_iter().filter(|(set, _)| *set).map(|(_, name)| name.into()).collect(),
    };
    assert_eq!(read, expected);
    Ok(())
}
