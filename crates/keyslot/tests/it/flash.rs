//! The flash header: RFC 3394, the codec against its table, and everything that a header may not say.

use std::time::{Duration, Instant};

use atrest_kdf::{CatenaCost, CatenaGraph, KdfError, WorkLimit};
use atrest_keyslot::flash::{
    AnyKdf, AtMost, ChipKdfs, Derive, DeriveError, Derived, DeviceSecret, FlashCipher, FlashKey, FlashSizes,
    Freshness, HEADER_LEN, Header, HeaderEdit, HeaderError, HmacSecret, KdfCost, MAX_PASSPHRASE_LEN, Params,
    ParamsError, Pbkdf2Kdf, Protection, SLOTS, SlotError, SlotKdf, TicketPolicy, open_slot, seal_slot,
};
use atrest_keyslot::wrap::{self, WrapError};
use atrest_secret::{Random, RandomError, SecretArray};
use sha2::{Digest, Sha256};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    digits.chunks_exact(2).map(pair).collect()
}

/// RFC 3394, section 4.1 to 4.6.
const RFC_3394: [(&str, &str, &str); 6] = [
    (
        "000102030405060708090A0B0C0D0E0F",
        "00112233445566778899AABBCCDDEEFF",
        "1FA68B0A8112B447 AEF34BD8FB5A7B82 9D3E862371D2CFE5",
    ),
    (
        "000102030405060708090A0B0C0D0E0F1011121314151617",
        "00112233445566778899AABBCCDDEEFF",
        "96778B25AE6CA435 F92B5B97C050AED2 468AB8A17AD84E5D",
    ),
    (
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
        "00112233445566778899AABBCCDDEEFF",
        "64E8C3F9CE0F5BA2 63E9777905818A2A 93C8191E7D6E8AE7",
    ),
    (
        "000102030405060708090A0B0C0D0E0F1011121314151617",
        "00112233445566778899AABBCCDDEEFF0001020304050607",
        "031D33264E15D332 68F24EC260743EDC E1C6C7DDEE725A93 6BA814915C6762D2",
    ),
    (
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
        "00112233445566778899AABBCCDDEEFF0001020304050607",
        "A8F9BC1612C68B3F F6E6F4FBE30E71E4 769C8B80A32CB895 8CD5D17D6B254DA1",
    ),
    (
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
        "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
        "28C9F404C4B810F4 CBCCB35CFB87F826 3F5786E2D80ED326 CBC7F0E71A99F43B FB988B9B7A02DD21",
    ),
];

#[test]
fn keys_are_wrapped_and_unwrapped_as_in_rfc_3394() {
    for (wrapping, key, wrapped) in RFC_3394.map(|(a, b, c)| (hex(a), hex(b), hex(c))) {
        let mut made = vec![0; key.len() + 8];
        assert_eq!(wrap::wrap(&wrapping, &key, &mut made), Ok(()));
        assert_eq!(made, wrapped);
        let mut back = vec![1; key.len()];
        assert_eq!(wrap::unwrap(&wrapping, &wrapped, &mut back), Ok(()));
        assert_eq!(back, key);
        for bit in 0..wrapped.len() * 8 {
            let mut damaged = wrapped.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(wrap::unwrap(&wrapping, &damaged, &mut back), Err(WrapError::Check));
            assert!(back.iter().all(|byte| *byte == 0), "nothing is left of what did not check");
        }
    }
}

#[test]
fn lengths_that_cannot_be_wrapped_are_refused() {
    for (key, wrapped) in [(8, 16), (16, 16), (20, 28), (0, 8), (16, 32)] {
        let outcome = wrap::wrap(&[0; 32], &vec![0; key], &mut vec![0; wrapped]);
        assert_eq!(outcome, Err(WrapError::Len { key, wrapped }));
        let outcome = wrap::unwrap(&[0; 32], &vec![0; wrapped], &mut vec![0; key]);
        assert_eq!(outcome, Err(WrapError::Len { key, wrapped }));
    }
    let outcome = wrap::wrap(&[0; 31], &[0; 16], &mut [0; 24]);
    assert_eq!(outcome, Err(WrapError::WrappingKeyLen { len: 31 }));
}

/// 1, 2, 3 …
struct Counting(u8);

impl Random for Counting {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        for byte in out {
            self.0 = self.0.wrapping_add(1);
            *byte = self.0;
        }
        Ok(())
    }
}

struct Broken;

impl Random for Broken {
    fn fill(&mut self, _: &mut [u8]) -> Result<(), RandomError> {
        Err(RandomError)
    }
}

pub fn params() -> Params {
    Params {
        cipher: FlashCipher::AesXts,
        key_len: 64,
        protection: Protection::Encrypted,
        uuid: core::array::from_fn(|i| 0xa0 + i as u8),
        sizes: FlashSizes { read_size: 1, prog_size: 16, erase_size: 4096, block_count: 64 },
        data_unit: 512,
    }
}

pub const FEW: KdfCost = KdfCost::Pbkdf2 { iterations: 10 };

pub fn volume_key(params: &Params) -> FlashKey {
    let mut key = FlashKey::empty();
    key.generate(params, &mut Counting(0)).expect("random bytes");
    key
}

/// A header with a key in these keyslots.
pub fn header(params: &Params, slots: &[(usize, &[u8], KdfCost)]) -> [u8; HEADER_LEN] {
    let mut bytes = [0x55; HEADER_LEN];
    let key = volume_key(params);
    let mut edit = HeaderEdit::create(&mut bytes, params).expect("good parameters");
    for (number, passphrase, cost) in slots {
        let kdf = SlotKdf::generate(*cost, &mut Counting(*number as u8)).expect("random bytes");
        let mut derived = Derived::zeroed();
        kdf.derive(passphrase, &mut AnyKdf, &mut derived).expect("a derivation");
        let slot = seal_slot(params, &kdf, &derived, None, &key).expect("a key");
        assert!(edit.put_slot(*number, Some(&slot)));
    }
    edit.finish(7);
    bytes
}

fn opened(bytes: &[u8; HEADER_LEN], number: usize, passphrase: &[u8]) -> Result<Vec<u8>, SlotError> {
    let header = Header::parse(bytes).expect("a header");
    let slot = header.slot(number).expect("a key");
    let mut derived = Derived::zeroed();
    slot.slot_kdf().derive(passphrase, &mut AnyKdf, &mut derived)?;
    let mut key = FlashKey::empty();
    open_slot(header.params(), &slot, &derived, None, &mut key).map(|()| key.expose().to_vec())
}

/// Puts the checksum right again after a change.
pub fn resummed(mut bytes: [u8; HEADER_LEN], change: impl FnOnce(&mut [u8])) -> [u8; HEADER_LEN] {
    change(&mut bytes);
    let sum = Sha256::digest(&bytes[..480]);
    bytes[480..].copy_from_slice(&sum);
    bytes
}

#[test]
fn fields_lie_where_the_table_says() {
    let bytes = header(&params(), &[(2, b"pass", FEW)]);
    assert_eq!(bytes[..8], *b"\x93atrest\n");
    assert_eq!(bytes[8..16], [1, 0, 1, 64, 0, 0, 0, 0]);
    assert_eq!(bytes[16..24], [7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[24..40], params().uuid);
    assert_eq!(bytes[40..52], [1, 0, 0, 0, 16, 0, 0, 0, 0, 16, 0, 0]);
    assert_eq!(bytes[52..64], [64, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0]);
    assert_eq!(bytes[64..272], [0; 208], "keyslots 0 and 1");
    assert_eq!(bytes[272..288], [1, 0, 1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[288..304], core::array::from_fn::<u8, 16, _>(|i| i as u8 + 3));
    assert_eq!(bytes[376..480], [0; 104], "keyslot 3");
    assert_eq!(bytes[480..], *Sha256::digest(&bytes[..480]));
    let header = Header::parse(&bytes).expect("a header");
    assert_eq!((*header.params(), header.sequence()), (params(), 7));
    assert_eq!(header.slots_in_use().collect::<Vec<_>>(), [2]);
}

/// The header that FORMATS.md works out, byte for byte: read from the document, made from the inputs named there.
#[test]
fn the_worked_example_is_what_comes_of_its_inputs() {
    let document = include_str!("../../../../FORMATS.md");
    let (_, example) = document.split_once("Lines that are left out are zeros.").expect("the example");
    let dump = example.split("```").nth(1).expect("its bytes");
    let mut published = [0; HEADER_LEN];
    for line in dump.lines().filter(|line| !line.is_empty()) {
        let (at, bytes) = line.split_once("  ").expect("an offset and 32 bytes");
        let at = usize::from_str_radix(at, 16).expect("an offset");
        published[at..at + 32].copy_from_slice(&hex(bytes));
    }
    let params = Params {
        cipher: FlashCipher::ChaCha20Poly1305,
        key_len: 32,
        protection: Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: TicketPolicy::Slot },
        uuid: core::array::from_fn(|i| 0x10 + i as u8),
        sizes: FlashSizes { read_size: 1, prog_size: 16, erase_size: 4096, block_count: 256 },
        data_unit: 264,
    };
    let mut key = FlashKey::empty();
    key.generate(&params, &mut Counting(0xff)).expect("random bytes");
    let mut bytes = [0x55; HEADER_LEN];
    let mut edit = HeaderEdit::create(&mut bytes, &params).expect("good parameters");
    let slots: [(usize, KdfCost, u8, &[u8]); 2] = [
        (0, KdfCost::catena(12), 0xa0, b"correct horse battery staple"),
        (2, KdfCost::Pbkdf2 { iterations: 1000 }, 0xb0, b"battery"),
    ];
    for (number, cost, salt, passphrase) in slots {
        let kdf = SlotKdf { cost, salt: core::array::from_fn(|i| salt + i as u8) };
        let mut derived = Derived::zeroed();
        kdf.derive(passphrase, &mut AnyKdf, &mut derived).expect("a derivation");
        let slot = seal_slot(&params, &kdf, &derived, None, &key).expect("a key");
        assert!(edit.put_slot(number, Some(&slot)));
    }
    edit.finish(1);
    assert_eq!(bytes, published);
    for (number, _, _, passphrase) in slots {
        assert_eq!(opened(&published, number, passphrase), Ok((0..32).collect()));
    }
}

#[test]
fn each_keyslot_opens_with_its_own_passphrase_only() {
    let slots: [(usize, &[u8], KdfCost); 4] = [
        (0, b"first", FEW),
        (1, b"second", KdfCost::catena(5)),
        (2, b"third", KdfCost::Catena(CatenaCost::new(CatenaGraph::DoubleButterfly, 4))),
        (3, b"fourth", KdfCost::Argon2id { time: 1, memory_kib: 64, lanes: 2 }),
    ];
    let bytes = header(&params(), &slots);
    let key: Vec<u8> = (1..=64).collect();
    for (number, passphrase, _) in slots {
        assert_eq!(opened(&bytes, number, passphrase), Ok(key.clone()));
        assert_eq!(opened(&bytes, (number + 1) % SLOTS, passphrase), Err(SlotError::WrongKey));
    }
}

#[test]
fn keys_of_every_length_are_wrapped() {
    for cipher in FlashCipher::ALL {
        for key_len in cipher.key_lens() {
            let protection = match cipher.is_aead() {
                true => {
                    Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: TicketPolicy::Slot }
                }
                false => Protection::Encrypted,
            };
            let params = Params { cipher: *cipher, key_len: *key_len, protection, ..params() };
            let bytes = header(&params, &[(0, b"pass", FEW)]);
            assert_eq!(Header::parse(&bytes).map(|header| *header.params()), Ok(params));
            assert_eq!(opened(&bytes, 0, b"pass").map(|key| key.len()), Ok(usize::from(*key_len)));
        }
        assert_eq!(FlashCipher::from_name(cipher.name()), Some(*cipher));
        assert_eq!(FlashCipher::from_code(cipher.code()), Some(*cipher));
        if !cipher.is_aead() {
            let spec: atrest_cipher::CipherSpec = cipher.name().parse().expect("dm-crypt's string");
            assert!(cipher.key_lens().iter().all(|len| spec.key_len_is_valid(usize::from(*len))), "{cipher}");
        }
    }
}

/// Each rule of the format, broken alone, with the checksum put right.
#[test]
fn headers_that_break_one_rule_are_refused_with_its_name() {
    let good = header(&params(), &[(1, b"pass", FEW)]);
    let refused = |at: usize, value: &[u8]| {
        let changed = resummed(good, |bytes| bytes[at..at + value.len()].copy_from_slice(value));
        Header::parse(&changed).expect_err("one rule is broken")
    };
    let slot = 64 + 104;
    assert_eq!(Header::parse(&[0xff; HEADER_LEN]), Err(HeaderError::Blank));
    assert_eq!(refused(0, b"LUKS\xba\xbe"), HeaderError::Foreign);
    assert_eq!(refused(8, &[2]), HeaderError::Version { version: 2 });
    assert_eq!(refused(8, &[0]), HeaderError::Version { version: 0 });
    assert_eq!(refused(10, &[99]), HeaderError::Params(ParamsError::Cipher { code: 99 }));
    assert_eq!(refused(11, &[16]), HeaderError::Params(ParamsError::KeyLen { bytes: 16 }));
    let protection = |bytes| HeaderError::Params(ParamsError::Protection { bytes });
    assert_eq!(refused(12, &[2, 16, 1, 0]), protection([2, 16, 1, 0]), "a cipher that can't");
    assert_eq!(refused(12, &[1, 16, 1, 0]), HeaderError::Params(ParamsError::EarlierSealed));
    assert_eq!(refused(12, &[3]), protection([3, 0, 0, 0]));
    assert_eq!(refused(13, &[1]), protection([0, 1, 0, 0]));
    let sizes = |change: fn(&mut FlashSizes)| {
        let mut sizes = params().sizes;
        change(&mut sizes);
        HeaderError::Params(ParamsError::Sizes(sizes))
    };
    assert_eq!(refused(40, &[0]), sizes(|sizes| sizes.read_size = 0));
    assert_eq!(refused(40, &[3]), sizes(|sizes| sizes.read_size = 3));
    assert_eq!(refused(44, &[17]), sizes(|sizes| sizes.prog_size = 17));
    assert_eq!(refused(48, &[0, 0]), sizes(|sizes| sizes.erase_size = 0));
    assert_eq!(refused(52, &[2]), sizes(|sizes| sizes.block_count = 2), "no room behind the header");
    assert_eq!(refused(52, &[0xff; 8]), sizes(|sizes| sizes.block_count = u64::MAX));
    assert_eq!(refused(60, &[0, 0]), HeaderError::Params(ParamsError::DataUnit { bytes: 0 }));
    assert_eq!(refused(60, &[1]), HeaderError::Params(ParamsError::DataUnit { bytes: 513 }));
    assert_eq!(refused(slot, &[0]), HeaderError::SlotJunk { slot: 1 }, "a free one holds zeros");
    assert_eq!(refused(slot, &[3]), HeaderError::SlotState { slot: 1, state: 3 });
    assert_eq!(refused(slot + 1, &[2]), HeaderError::SlotFlags { slot: 1, flags: 2 });
    assert_eq!(refused(slot + 2, &[0]), HeaderError::SlotKdf { slot: 1, kdf: 0 });
    assert_eq!(refused(slot + 2, &[5]), HeaderError::SlotKdf { slot: 1, kdf: 5 });
    assert_eq!(refused(slot + 7, &[1]), HeaderError::SlotKdf { slot: 1, kdf: 1 }, "not its parameter");
    assert_eq!(refused(slot + 15, &[1]), HeaderError::SlotJunk { slot: 1 });
    for bit in 0..480 * 8 {
        let mut damaged = good;
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = Header::parse(&damaged).expect_err("a flipped bit");
        assert!(matches!(error, HeaderError::Checksum | HeaderError::Foreign), "bit {bit}: {error:?}");
    }
}

#[test]
fn absurd_costs_are_refused_before_any_work() {
    let good = header(&params(), &[(0, b"pass", FEW)]);
    let cost = |kdf: &[u8]| {
        let changed = resummed(good, |bytes| {
            bytes[66..79].fill(0);
            bytes[66..66 + kdf.len()].copy_from_slice(kdf);
        });
        Header::parse(&changed).map(|_| ())
    };
    let refused = |cost| Err(HeaderError::SlotCost { slot: 0, cost });
    assert_eq!(cost(&[1, 0, 0, 0, 0]), refused(KdfCost::Pbkdf2 { iterations: 0 }));
    assert_eq!(cost(&[1, 0xff, 0xff, 0xff, 0xff]), refused(KdfCost::Pbkdf2 { iterations: u32::MAX }));
    assert_eq!(cost(&[1, 0, 0, 0, 0x80]), Ok(()));
    let catena = |lambda, min_garlic, garlic| {
        KdfCost::Catena(CatenaCost { graph: CatenaGraph::BitReversal, lambda, min_garlic, garlic })
    };
    for [lambda, min_garlic, garlic] in
        [[0, 5, 5], [2, 6, 5], [2, 5, 31], [2, 5, 255], [2, 0, 5], [255, 30, 30]]
    {
        assert_eq!(cost(&[2, lambda, min_garlic, garlic]), refused(catena(lambda, min_garlic, garlic)));
    }
    assert_eq!(cost(&[3, 4, 20, 20]), Ok(()));
    let argon2 = |time: u32, memory_kib: u32, lanes: u32| {
        let bytes: Vec<u8> = [4]
            .into_iter()
            .chain([time, memory_kib, lanes].iter().flat_map(|word| word.to_le_bytes()))
            .collect();
        (cost(&bytes), refused(KdfCost::Argon2id { time, memory_kib, lanes }))
    };
    for (time, memory_kib, lanes) in
        [(0, 64, 1), (1, 7, 1), (1, 64, 0), (1, 64, 9), (1, 8 << 20, 1), (1 << 20, 1 << 20, 1), (1, 1024, 65)]
    {
        let (is, expected) = argon2(time, memory_kib, lanes);
        assert_eq!(is, expected);
    }
    assert_eq!(argon2(4, 1 << 20, 4).0, Ok(()));
    let kdf = SlotKdf { cost: KdfCost::Pbkdf2 { iterations: 0 }, salt: [1; 16] };
    let made = seal_slot(&params(), &kdf, &Derived::zeroed(), None, &volume_key(&params()));
    assert_eq!(made.err(), Some(SlotError::Cost(kdf.cost)), "what would not be read is not written");
}

#[test]
fn what_is_sealed_has_a_cipher_that_authenticates_and_a_tag_and_units_that_it_takes() {
    let sealed = |cipher: FlashCipher, tag_len, data_unit| {
        let protection =
            Protection::Sealed { tag_len, store: Freshness::Record, tickets: TicketPolicy::Store };
        let key_len = cipher.key_lens()[0];
        Params { cipher, key_len, protection, data_unit, ..params() }.check()
    };
    use FlashCipher::{AesCcm, AesGcm, AesXts, Ascon128, ChaCha20Poly1305};
    for (cipher, tags) in [
        (Ascon128, [false, true]),
        (ChaCha20Poly1305, [false, true]),
        (AesCcm, [true; 2]),
        (AesGcm, [true; 2]),
        (AesXts, [false; 2]),
    ] {
        for (tag, possible) in [12, 16].into_iter().zip(tags) {
            let refused = Err(ParamsError::Protection { bytes: [2, tag, 1, 1] });
            assert_eq!(sealed(cipher, tag, 252), if possible { Ok(()) } else { refused }, "{cipher}, {tag}");
        }
        assert!(sealed(cipher, 0, 252).is_err() && sealed(cipher, 20, 252).is_err(), "{cipher}");
    }
    for bytes in [0, 12, 250, 253, 65536] {
        assert_eq!(sealed(AesCcm, 16, bytes), Err(ParamsError::DataUnit { bytes }));
    }
    assert_eq!([16, 316, 65532].map(|bytes| sealed(AesCcm, 16, bytes)), [Ok(()); 3]);
    let open = Params { cipher: AesGcm, key_len: 16, ..params() };
    assert_eq!(open.check(), Err(ParamsError::Protection { bytes: [0; 4] }), "an AEAD without tags");
}

/// Whoever changes what is encrypted and how, checksum included, makes a volume that does not open.
#[test]
fn a_header_that_was_changed_on_purpose_does_not_open() {
    let params = Params { cipher: FlashCipher::AesXts, key_len: 32, ..params() };
    let good = header(&params, &[(0, b"pass", FEW)]);
    assert!(opened(&good, 0, b"pass").is_ok());
    let changes: [(&str, usize, &[u8]); 9] = [
        ("cipher", 10, &[2]),
        ("UUID", 24, &[0]),
        ("read size", 40, &[2]),
        ("prog size", 44, &[32]),
        ("erase size", 48, &[0, 32]),
        ("blocks", 52, &[65]),
        ("data unit", 60, &[0, 4]),
        ("iterations", 67, &[11]),
        ("salt", 80, &[0]),
    ];
    for (what, at, value) in changes {
        let changed = resummed(good, |bytes| bytes[at..at + value.len()].copy_from_slice(value));
        assert_eq!(opened(&changed, 0, b"pass"), Err(SlotError::WrongKey), "{what}");
    }
    let sealed = Params {
        cipher: FlashCipher::AesGcm,
        protection: Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: TicketPolicy::Slot },
        ..params
    };
    let good = header(&sealed, &[(0, b"pass", FEW)]);
    for (what, at, value) in [("tag", 13, 12), ("store", 14, 0), ("tickets", 15, 1)] {
        let changed = resummed(good, |bytes| bytes[at] = value);
        assert_eq!(opened(&changed, 0, b"pass"), Err(SlotError::WrongKey), "{what}");
    }
    let counted = resummed(good, |bytes| bytes[16] = 9);
    assert!(opened(&counted, 0, b"pass").is_ok(), "the sequence number is no part of it");
}

#[test]
fn a_device_secret_is_needed_where_it_was_used() {
    let params = params();
    let mut bytes = header(&params, &[]);
    let kdf = SlotKdf { cost: FEW, salt: [9; 16] };
    let mut derived = Derived::zeroed();
    kdf.derive(b"pass", &mut AnyKdf, &mut derived).expect("a derivation");
    let secret = |byte| HmacSecret::new(SecretArray::new([byte; 32]));
    let slot = seal_slot(&params, &kdf, &derived, Some(&mut secret(1)), &volume_key(&params)).expect("a key");
    let mut edit = HeaderEdit::change(&mut bytes).expect("a header");
    assert!(edit.put_slot(0, Some(&slot)) && !edit.put_slot(SLOTS, None));
    edit.finish(8);
    let header = Header::parse(&bytes).expect("a header");
    let slot = header.slot(0).expect("a key");
    assert!(slot.needs_device);
    let mut key = FlashKey::empty();
    let mut open = |device: Option<u8>| {
        let mut device = device.map(secret);
        let device = device.as_mut().map(|device| device as &mut dyn DeviceSecret);
        open_slot(header.params(), &slot, &derived, device, &mut key)
    };
    assert_eq!(open(Some(1)), Ok(()));
    assert_eq!(open(Some(2)), Err(SlotError::WrongKey));
    assert_eq!(open(None), Err(SlotError::NeedsDevice));
    // Without the flag it does not open either: the flag is bound.
    let changed = resummed(bytes, |bytes| bytes[65] = 0);
    assert_eq!(opened(&changed, 0, b"pass"), Err(SlotError::WrongKey));
}

#[test]
fn passphrases_of_no_bytes_and_of_too_many_are_refused() {
    let bytes = header(&params(), &[(0, b"pass", FEW)]);
    assert_eq!(opened(&bytes, 0, b""), Err(SlotError::EmptyPassphrase));
    assert_eq!(opened(&bytes, 0, &vec![b'x'; 1 << 20]), Err(SlotError::PassphraseTooLong { len: 1 << 20 }));
    assert_eq!(opened(&bytes, 0, &[b'x'; MAX_PASSPHRASE_LEN]), Err(SlotError::WrongKey));
}

#[test]
fn derivations_in_steps_give_the_same_and_call_back() {
    let mut memory = vec![0; 128 << 10];
    for cost in [KdfCost::Pbkdf2 { iterations: 1000 }, KdfCost::catena(8)] {
        let (mut expected, mut stepped) = ([0; 32], [0; 32]);
        AnyKdf.derive(&cost, b"pass", &[3; 16], &mut expected).expect("a derivation");
        let mut calls = Vec::new();
        let mut kdf = ChipKdfs { memory: &mut memory, between: |left| calls.push(left) };
        kdf.derive(&cost, b"pass", &[3; 16], &mut stepped).expect("a derivation");
        assert_eq!(stepped, expected);
        assert!(calls.len() > 10 && calls.windows(2).all(|pair| pair[0] > pair[1]), "{calls:?}");
    }
    let mut out = [0; 32];
    let cost = KdfCost::catena(8);
    let refused = Pbkdf2Kdf(|_| {}).derive(&cost, b"pass", &[3; 16], &mut out);
    assert_eq!(refused, Err(DeriveError::NotHere(cost)));
    let mut small = ChipKdfs { memory: &mut memory[..100], between: |_| {} };
    let needs = KdfError::NotEnoughMemory { needs: 8192, has: 100 };
    assert_eq!(small.derive(&cost, b"pass", &[3; 16], &mut out), Err(DeriveError::Kdf(needs)));
}

#[test]
fn without_random_bytes_there_is_no_key_and_no_salt() {
    let mut key = FlashKey::empty();
    assert_eq!(key.generate(&params(), &mut Broken), Err(SlotError::Random));
    assert!(key.expose().is_empty());
    assert_eq!(SlotKdf::generate(FEW, &mut Broken), Err(SlotError::Random));
}

#[test]
fn a_key_of_zeros_is_none() {
    /// A source that is not connected.
    struct Silent;
    impl Random for Silent {
        fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
            out.fill(0);
            Ok(())
        }
    }
    let mut key = FlashKey::empty();
    assert_eq!(key.generate(&params(), &mut Silent), Err(SlotError::Random));
    assert!(key.expose().is_empty());
}

#[test]
fn a_key_is_not_put_into_another_volume() {
    let other = Params { uuid: [1; 16], ..params() };
    let kdf = SlotKdf { cost: FEW, salt: [1; 16] };
    let sealed = |key: &FlashKey| seal_slot(&params(), &kdf, &Derived::zeroed(), None, key).err();
    assert_eq!(sealed(&volume_key(&other)), Some(SlotError::OtherVolume));
    assert_eq!(sealed(&FlashKey::empty()), Some(SlotError::OtherVolume));
    assert_eq!(sealed(&volume_key(&params())), None);
}

#[test]
fn a_header_can_ask_a_chip_for_no_more_work_than_the_program_permits() {
    let salt = [3; 16];
    let mut out = [7; 32];
    let mut bounded = AtMost { work: 2000, kdf: Pbkdf2Kdf(|_| {}) };
    for (iterations, fits) in [(1000, true), (1001, false), (u32::MAX, false)] {
        let result = bounded.derive(&KdfCost::Pbkdf2 { iterations }, b"pass", &salt, &mut out);
        assert_eq!(result.is_ok(), fits, "{iterations}");
        if !fits {
            let work = 2 * u64::from(iterations);
            assert_eq!(result, Err(DeriveError::TooMuchWork { work, most: 2000 }));
            assert_eq!(out, [0; 32]);
        }
    }
    let catena = KdfCost::catena(12);
    let mut memory = vec![0; 128 << 10];
    let mut chip = AtMost { work: catena.work() - 1, kdf: ChipKdfs { memory: &mut memory, between: |_| {} } };
    assert!(matches!(chip.derive(&catena, b"pass", &salt, &mut out), Err(DeriveError::TooMuchWork { .. })));
    chip.work += 1;
    chip.derive(&catena, b"pass", &salt, &mut out).expect("as much as is permitted");
}

#[test]
fn a_header_can_ask_a_desk_for_no_more_time_than_the_caller_states() {
    let salt = [3; 16];
    let costs = [
        KdfCost::Pbkdf2 { iterations: u32::MAX / 2 },
        KdfCost::Catena(CatenaCost {
            graph: CatenaGraph::BitReversal,
            lambda: 255,
            min_garlic: 18,
            garlic: 18,
        }),
        KdfCost::Argon2id { time: 1 << 16, memory_kib: 1 << 16, lanes: 1 },
    ];
    for cost in costs {
        assert!(cost.is_acceptable(), "{cost}: the header itself is in order");
        let limit = WorkLimit { time: Duration::from_secs(2), ..WorkLimit::default() };
        let begun = Instant::now();
        let refused = limit.during(|| AnyKdf.derive(&cost, b"pass", &salt, &mut [0; 32]));
        assert!(
            matches!(refused, Err(DeriveError::Kdf(KdfError::TooMuchWork { limit: 2, .. }))),
            "{cost}: {refused:?}"
        );
        assert!(begun.elapsed() < Duration::from_secs(20), "{cost}");
    }
}
