//! The LUKS1 header and splitter agree with headers that cryptsetup wrote and refuse what no header may say.

use atrest_cipher::CipherSpec;
use atrest_kdf::Hash;
use atrest_keyslot::area::{self, AreaError};
use atrest_keyslot::luks1::{
    self, HEADER_LEN, Header, HeaderError, HeaderParts, SlotError, SlotState, TextField, repair,
};
use atrest_keyslot::{af, af::AfError};
use atrest_secret::{OsRandom, Random, RandomError};

/// The header of `cryptsetup luksFormat --type luks1` (2.6.1, aes-xts-plain64, sha256, 512 bits), keyslot 0 in use.
pub fn cryptsetups_header() -> Vec<u8> {
    let text = include_str!("../luks1-header.hex");
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal"))
        .collect()
}

pub fn parts(key_len: usize) -> HeaderParts<'static> {
    HeaderParts {
        cipher_name: "aes",
        cipher_mode: "xts-plain64",
        hash: Hash::Sha256,
        key_len,
        uuid: "fed8022a-a715-4380-acb3-dd5c0639a0b8",
        data_sector: None,
        alignment: 2048,
        digest: [1; 20],
        digest_salt: [2; 32],
        digest_iterations: 1000,
    }
}

#[test]
fn cryptsetups_header_is_read_as_luksdump_prints_it_and_encoded_byte_for_byte() {
    let bytes = cryptsetups_header();
    let header = Header::parse(&bytes).expect("a good header");
    assert_eq!(header.cipher_name(), "aes");
    assert_eq!(header.cipher_mode(), "xts-plain64");
    assert_eq!(header.hash(), Some(Hash::Sha256));
    assert_eq!(header.data_sector(), 4096);
    assert_eq!(header.key_len(), 64);
    assert_eq!(header.digest_iterations(), 1000);
    assert_eq!(header.uuid(), "fed8022a-a715-4380-acb3-dd5c0639a0b8");
    let in_use: Vec<usize> =
        header.slots().filter(|(_, slot)| slot.state == SlotState::InUse).map(|(number, _)| number).collect();
    assert_eq!(in_use, [0]);
    assert_eq!(header.area(0), Some((4096, 256_000)));
    assert_eq!(header.area(7), Some((0xdd0 * 512, 256_000)));
    assert_eq!(header.area(8), None);
    assert_eq!(header.encode()[..], bytes[..HEADER_LEN]);
}

#[test]
fn what_follows_the_end_of_a_text_is_kept() {
    let mut bytes = cryptsetups_header();
    bytes[8 + 20] = 0xa5;
    bytes[168 + 39] = 0x5a;
    let header = Header::parse(&bytes).expect("junk behind a text is allowed");
    assert_eq!(header.cipher_name(), "aes");
    assert_eq!(header.encode()[..], bytes[..HEADER_LEN]);
}

#[test]
fn a_new_header_has_cryptsetups_layout() {
    let made = Header::new(&parts(64)).expect("valid");
    let read = Header::parse(&cryptsetups_header()).expect("a good header");
    assert_eq!(made.data_sector(), read.data_sector());
    for (ours, theirs) in made.slots().zip(read.slots()) {
        assert_eq!((ours.1.sector, ours.1.stripes), (theirs.1.sector, theirs.1.stripes), "{}", ours.0);
    }
    // A key whose stripes do not fill sectors: 24 * 4000 = 187.5 sectors, placed every 192 (seen with cryptsetup 2.6.1).
    let made = Header::new(&parts(24)).expect("valid");
    assert_eq!(
        made.slots().map(|(_, slot)| slot.sector).collect::<Vec<_>>(),
        [8, 200, 392, 584, 776, 968, 1160, 1352]
    );
    assert_eq!(made.data_sector(), 2048);
    assert_eq!(made.area(0), Some((4096, 188 * 512)));
    // --align-payload=8 with a 512-bit key (4040 in cryptsetup 2.6.1).
    let tight = HeaderParts { alignment: 8, ..parts(64) };
    assert_eq!(Header::new(&tight).expect("valid").data_sector(), 4040);
    let detached = HeaderParts { data_sector: Some(0), ..parts(64) };
    assert_eq!(Header::new(&detached).expect("valid").data_sector(), 0);
    let inside = HeaderParts { data_sector: Some(4032), ..parts(64) };
    assert!(matches!(Header::new(&inside), Err(HeaderError::AreaInsideData { slot: 7, .. })));
}

/// One defect each, and the error that names it.
#[test]
fn headers_with_one_defect_are_refused_by_name() {
    type Defect = (&'static str, fn(&mut Vec<u8>), HeaderError);
    fn put(bytes: &mut [u8], at: usize, number: u32) {
        bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    const SLOT: usize = 208;
    let defects: [Defect; 20] = [
        ("truncated", |b| b.truncate(591), HeaderError::Truncated { has: 591 }),
        ("empty", |b| b.clear(), HeaderError::Truncated { has: 0 }),
        ("magic", |b| b[5] = 0xbf, HeaderError::Magic),
        ("version", |b| b[7] = 2, HeaderError::Version { version: 2 }),
        ("cipher empty", |b| b[8] = 0, HeaderError::Text { field: TextField::CipherName }),
        ("cipher endless", |b| b[8..40].fill(b'a'), HeaderError::Text { field: TextField::CipherName }),
        ("mode not text", |b| b[41] = 0x80, HeaderError::Text { field: TextField::CipherMode }),
        ("hash with a space", |b| b[73] = b' ', HeaderError::Text { field: TextField::Hash }),
        ("uuid endless", |b| b[168..208].fill(b'0'), HeaderError::Text { field: TextField::Uuid }),
        ("no key", |b| put(b, 108, 0), HeaderError::KeyLen { bytes: 0 }),
        ("huge key", |b| put(b, 108, 0xffff_ffff), HeaderError::KeyLen { bytes: 0xffff_ffff }),
        ("digest iterations", |b| put(b, 164, 0), HeaderError::DigestIterations),
        ("state", |b| put(b, SLOT, 0x00ac_71f2), HeaderError::SlotState { slot: 0, word: 0x00ac_71f2 }),
        ("iterations", |b| put(b, SLOT + 4, 0), HeaderError::SlotIterations { slot: 0 }),
        ("no stripes", |b| put(b, SLOT + 44, 0), HeaderError::Stripes { slot: 0, stripes: 0 }),
        (
            "huge stripes",
            |b| put(b, SLOT + 48 + 44, u32::MAX),
            HeaderError::Stripes { slot: 1, stripes: u32::MAX },
        ),
        ("inside header", |b| put(b, SLOT + 40, 1), HeaderError::AreaInsideHeader { slot: 0, sector: 1 }),
        (
            "inside data",
            |b| put(b, SLOT + 7 * 48 + 40, 3597),
            HeaderError::AreaInsideData { slot: 7, end: 4097, data: 4096 },
        ),
        (
            "behind everything",
            |b| put(b, SLOT + 7 * 48 + 40, u32::MAX),
            HeaderError::AreaInsideData { slot: 7, end: 0xffff_ffff + 500, data: 4096 },
        ),
        ("overlap", |b| put(b, SLOT + 3 * 48 + 40, 1008 + 499), HeaderError::AreaOverlap { a: 2, b: 3 }),
    ];
    for (name, damage, expected) in defects {
        let mut bytes = cryptsetups_header();
        damage(&mut bytes);
        assert_eq!(Header::parse(&bytes), Err(expected), "{name}");
    }
}

#[test]
fn every_changed_byte_parses_to_itself_or_is_refused() {
    let bytes = cryptsetups_header();
    let mut refused = 0;
    for at in 0..HEADER_LEN {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            match Header::parse(&changed) {
                Ok(header) => assert_eq!(header.encode()[..], changed[..HEADER_LEN], "byte {at} = {value}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 400, "only {refused} changes were refused");
}

#[test]
fn a_sealed_keyslot_opens_with_its_passphrase_only() {
    let key: Vec<u8> = (0..64).collect();
    let digest = luks1::new_digest(Hash::Sha256, &key, &[2; 32], 1000).expect("valid");
    let mut header = Header::new(&HeaderParts { digest, ..parts(64) }).expect("valid");
    let (_, len) = header.area(2).expect("a slot");
    let mut sealed = vec![0; len];
    luks1::seal(&header, 2, b"secret", (1000, &[7; 32]), &key, &mut OsRandom, &mut sealed).expect("sealed");

    let mut out = vec![0xee; 64];
    assert_eq!(
        luks1::open(&header, 2, b"secret", &mut sealed.clone(), &mut out),
        Err(SlotError::NotInUse),
        "the header does not list the keyslot yet"
    );
    assert_eq!(header.use_slot(8, 1000, [7; 32]), Err(HeaderError::NoSuchSlot { slot: 8 }));
    header.use_slot(2, 1000, [7; 32]).expect("a slot");
    let mut area = sealed.clone();
    luks1::open(&header, 2, b"secret", &mut area, &mut out).expect("opens");
    assert_eq!(out, key);
    assert!(area.iter().all(|&byte| byte == 0), "the work area is wiped");

    let mut area = sealed.clone();
    assert_eq!(luks1::open(&header, 2, b"Secret", &mut area, &mut out), Err(SlotError::WrongKey));
    assert!(
        out.iter().all(|&byte| byte == 0) && area.iter().all(|&byte| byte == 0),
        "nothing is left behind"
    );
    let mut damaged = sealed.clone();
    damaged[123_456] ^= 1;
    assert_eq!(luks1::open(&header, 2, b"secret", &mut damaged, &mut out), Err(SlotError::WrongKey));
    assert_eq!(
        luks1::open(&header, 2, b"secret", &mut sealed.clone()[..512], &mut out),
        Err(SlotError::BufferLen { has: 512, needs: len })
    );
    header.free_slot(2);
    assert_eq!(luks1::open(&header, 2, b"secret", &mut sealed.clone(), &mut out), Err(SlotError::NotInUse));
}

#[test]
fn headers_that_keep_no_secrets_or_name_unknown_algorithms_do_not_open() {
    let named = |name: &str, mode: &str, hash: &str| {
        let mut bytes = cryptsetups_header();
        for (at, text) in [(8, name), (40, mode), (72, hash)] {
            bytes[at..at + 32].fill(0);
            bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        let header = Header::parse(&bytes).expect("unknown names are no damage");
        let (_, len) = header.area(0).expect("a slot");
        luks1::open(&header, 0, b"", &mut vec![0; len], &mut [0; 64])
    };
    assert_eq!(named("cipher_null", "ecb", "sha256"), Err(SlotError::NullCipher));
    assert!(matches!(named("rot13", "ecb", "sha256"), Err(SlotError::UnsupportedCipher(_))));
    assert_eq!(named("aes", "xts-plain64", "crc32"), Err(SlotError::UnsupportedHash));
    assert_eq!(
        named("aes", "xts-plain64", "blake2s-128"),
        Err(SlotError::UnsupportedHash),
        "16-byte digests"
    );
    assert_eq!(named("aes", "cbc-plain64", "sha256"), Err(SlotError::KeyLenForCipher { bytes: 64 }));
    assert_eq!(named("aes", "xts-plain64", "sha256"), Err(SlotError::WrongKey));
}

#[test]
fn repair_makes_up_only_what_follows_from_the_rest() {
    let good = cryptsetups_header();
    assert!(!repair(&good).expect("intact").changed());

    let mut bytes = good.clone();
    bytes[208..212].fill(0x11); // the state of keyslot 0, which has salt and iterations
    bytes[208 + 2 * 48..208 + 2 * 48 + 4].fill(0x22); // and of keyslot 2, which has none
    bytes[208 + 5 * 48 + 40..208 + 5 * 48 + 48].fill(0xff); // offset and stripes of keyslot 5
    bytes[208 + 6 * 48 + 42] = 0x0a; // keyslot 6 overlaps keyslot 5
    let repaired = repair(&bytes).expect("can be repaired");
    assert_eq!(repaired.header.encode()[..], good[..HEADER_LEN]);
    assert!(matches!(repaired.slots[0], Some(HeaderError::SlotState { slot: 0, word: 0x1111_1111 })));
    assert!(repaired.slots[1].is_none() && repaired.slots[5].is_some() && repaired.slots[6].is_some());

    let mut bytes = good.clone();
    bytes[108..112].fill(0); // the key's length can't be made up
    assert_eq!(repair(&bytes), Err(HeaderError::KeyLen { bytes: 0 }));
    let mut bytes = good;
    bytes[212..216].fill(0); // neither can iterations
    assert_eq!(repair(&bytes), Err(HeaderError::SlotIterations { slot: 0 }));
}

/// Every "random" stripe byte counts up, so that the split is reproducible.
struct Counting(u8);

impl Random for Counting {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        for byte in out {
            *byte = self.0;
            self.0 = self.0.wrapping_add(1);
        }
        Ok(())
    }
}

/// Computed by a transcription of the specification's formulas into Python's hashlib.
#[test]
fn the_splitter_agrees_with_the_specifications_formulas() {
    for (hash, key_len, stripes, last_stripe) in AF_VECTORS {
        let key: Vec<u8> = (0..key_len).map(|i| (i * 7) as u8).collect();
        let mut out = vec![0; key.len() * stripes as usize];
        af::split(hash, &key, stripes, &mut Counting(3), &mut out).expect("splits");
        let last: String = out[out.len() - key.len()..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(last, last_stripe, "{hash} {key_len} {stripes}");
        let mut merged = vec![0xee; key.len()];
        af::merge(hash, &out, stripes, &mut merged).expect("merges");
        assert_eq!(merged, key);
        if stripes > 1 {
            out[0] ^= 1;
            af::merge(hash, &out, stripes, &mut merged).expect("merges");
            assert_ne!(merged, key);
        }
    }
}

#[test]
fn the_splitter_refuses_lengths_that_do_not_fit_and_a_random_source_that_fails() {
    struct Broken;
    impl Random for Broken {
        fn fill(&mut self, _: &mut [u8]) -> Result<(), RandomError> {
            Err(RandomError)
        }
    }
    let mut out = [0; 64];
    assert_eq!(af::split(Hash::Sha256, &[], 4, &mut OsRandom, &mut out), Err(AfError::NothingToSplit));
    assert_eq!(af::split(Hash::Sha256, &[1], 0, &mut OsRandom, &mut out), Err(AfError::NothingToSplit));
    assert_eq!(
        af::split(Hash::Sha256, &[1; 16], 5, &mut OsRandom, &mut out),
        Err(AfError::BufferLen { has: 64, needs: 80 })
    );
    assert_eq!(
        af::split(Hash::Sha256, &[1; 16], 4, &mut Broken, &mut out),
        Err(AfError::Random(RandomError))
    );
    assert_eq!(
        af::merge(Hash::Sha256, &[0; 15], 1, &mut [0; 16]),
        Err(AfError::BufferLen { has: 15, needs: 16 })
    );
}

#[test]
fn an_area_is_a_whole_number_of_units_under_a_real_cipher() {
    let spec: CipherSpec = "aes-xts-plain64".parse().expect("known");
    let key: Vec<u8> = (0..64).collect();
    let mut buffer = [0x5a; 1024];
    area::encrypt(&spec, &key, &mut buffer).expect("encrypts");
    assert_ne!(buffer[..512], buffer[512..], "IVs count from unit to unit");
    area::decrypt(&spec, &key, &mut buffer).expect("decrypts");
    assert_eq!(buffer, [0x5a; 1024]);
    assert!(matches!(area::encrypt(&spec, &key, &mut buffer[..500]), Err(AreaError::Run(_))));
    assert!(matches!(area::encrypt(&spec, &key[..63], &mut buffer), Err(AreaError::Key(_))));
    let null: CipherSpec = "cipher_null-ecb".parse().expect("known");
    assert_eq!(area::encrypt(&null, &key, &mut buffer), Err(AreaError::NullCipher));
}

const AF_VECTORS: [(Hash, u32, u32, &str); 6] = [
    (Hash::Sha1, 32, 4000, "a5c1f75e022296d455439db26577ec1df75a099f7115dbbbc94ebc72c768d35f"),
    (
        Hash::Sha256,
        64,
        4000,
        "84e226a0309af918b75ea3ce0dcebc537b7592cff92c52d39b67f57be6a9a997e2778929b94377b5b91350152d952d2229b9234171ab949a6bb2b055549c2d05",
    ),
    (Hash::Sha256, 24, 17, "85c069ca0e910d8e3de1a44c5608d1a47cbe0ad23a182115"),
    (
        Hash::Sha512,
        64,
        3,
        "f60dd9ddee0744154e155ff99aa688514facc5a90b389b666423b0e63b50bdc2c1b3c734be9e1602e034250ecf15967a7836d54626ab1c98f319fb9b30cc2742",
    ),
    (
        Hash::Ripemd160,
        48,
        5,
        "7ad2f9b57e761deb77e529dc8abbe8cebb1512f3d6bf660ad6ae20ce61a770b14fc027dd357fa7bc2274cc06ab01b943",
    ),
    (Hash::Sha256, 16, 1, "00070e151c232a31383f464d545b6269"),
];
