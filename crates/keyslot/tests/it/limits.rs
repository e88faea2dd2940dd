//! The last number that is accepted, and the first that is not, of everything that a header says.

use atrest_cipher::KeyError;
use atrest_kdf::{CatenaCost, CatenaGraph, Hash, KdfError, WorkLimit, available_memory};
use atrest_keyslot::af::{self, AfError, split_len};
use atrest_keyslot::flash::{
    AnyKdf, Derive, DeriveError, FlashCipher, FlashSizes, Freshness, HEADER_LEN, HeaderEdit, KdfCost,
    MAX_WORK, Params, ParamsError, Protection, TicketPolicy,
};
use atrest_keyslot::luks1::{
    self, Header, HeaderError, HeaderParts, SlotError, SlotState, TextField, area_sectors, repair,
};
use atrest_keyslot::wrap::{self, WrapError};
use atrest_secret::OsRandom;

use crate::luks1::{cryptsetups_header, parts};

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}

/// Of the first keyslot.
const SLOT: usize = 208;

/// A header with all areas of one stripe, one behind the other from sector 2 on, and its data behind them.
fn tight(key_len: u32) -> Vec<u8> {
    let mut bytes = cryptsetups_header();
    put(&mut bytes, 108, key_len);
    let sectors = area_sectors(key_len as usize, 1) as u32;
    for slot in 0..8 {
        put(&mut bytes, SLOT + slot * 48 + 40, 2 + slot as u32 * sectors);
        put(&mut bytes, SLOT + slot * 48 + 44, 1);
    }
    put(&mut bytes, 104, 2 + 8 * sectors);
    bytes
}

#[test]
fn areas_may_touch_each_other_the_header_and_the_data_and_no_more() {
    let good = tight(64);
    let header = Header::parse(&good).expect("nothing overlaps");
    assert_eq!(header.areas_end(), 10 * 512);
    let with = |at: usize, number: u32| {
        let mut bytes = good.clone();
        put(&mut bytes, at, number);
        Header::parse(&bytes).map(|header| header.areas_end())
    };
    assert_eq!(with(SLOT + 40, 1), Err(HeaderError::AreaInsideHeader { slot: 0, sector: 1 }));
    assert_eq!(with(104, 9), Err(HeaderError::AreaInsideData { slot: 7, end: 10, data: 9 }));
    assert_eq!(with(104, 0), Ok(10 * 512), "data on another device");
    // A stripe more than a sector holds.
    assert_eq!(with(SLOT + 44, 8), Ok(10 * 512));
    assert_eq!(with(SLOT + 44, 9), Err(HeaderError::AreaOverlap { a: 0, b: 1 }));
    assert_eq!(with(SLOT + 3 * 48 + 40, 4), Err(HeaderError::AreaOverlap { a: 2, b: 3 }));
    assert_eq!(with(SLOT + 3 * 48 + 40, 6), Err(HeaderError::AreaOverlap { a: 3, b: 4 }));
    assert_eq!(with(SLOT + 40, 9), Err(HeaderError::AreaOverlap { a: 0, b: 7 }));
}

#[test]
fn keys_and_stripes_have_a_most() {
    assert_eq!(Header::parse(&tight(512)).map(|header| header.key_len()), Ok(512));
    assert_eq!(Header::parse(&tight(513)), Err(HeaderError::KeyLen { bytes: 513 }));
    assert_eq!(Header::parse(&tight(1)).map(|header| header.area(7)), Ok(Some((9 * 512, 512))));
    let with_stripes = |stripes| {
        let mut bytes = tight(1);
        put(&mut bytes, 104, 0);
        put(&mut bytes, SLOT + 7 * 48 + 44, stripes);
        Header::parse(&bytes).map(|header| header.area(7))
    };
    assert_eq!(with_stripes(1 << 16), Ok(Some((9 * 512, 1 << 16))));
    let stripes = (1 << 16) + 1;
    assert_eq!(with_stripes(stripes), Err(HeaderError::Stripes { slot: 7, stripes }));
    assert_eq!([0, 1, 512, 513].map(|len| area_sectors(len, 1)), [0, 1, 1, 2]);

    for (key_len, possible) in [(0, false), (1, true), (512, true), (513, false), (usize::MAX, false)] {
        let made = Header::new(&HeaderParts { data_sector: Some(0), ..parts(key_len) });
        assert_eq!(made.is_ok(), possible, "{key_len}");
        if !possible {
            let bytes = u32::try_from(key_len).unwrap_or(u32::MAX);
            assert_eq!(made, Err(HeaderError::KeyLen { bytes }));
        }
    }
}

#[test]
fn texts_fill_their_fields_up_to_the_zero_behind_them() {
    let mut header = Header::new(&parts(64)).expect("valid");
    let refused = Err(HeaderError::Text { field: TextField::Uuid });
    assert_eq!(header.set_uuid(&"x".repeat(39)), Ok(()));
    assert_eq!(Header::parse(&header.encode()).as_ref(), Ok(&header));
    for text in ["x".repeat(40), "x".repeat(41), String::new(), "a b".into(), "\u{e9}".into()] {
        assert_eq!(header.set_uuid(&text), refused, "{text}");
    }
    assert_eq!(header.uuid(), "x".repeat(39), "what was refused has changed nothing");
    let with = |change: fn(&mut HeaderParts<'_>)| {
        let mut parts = parts(64);
        change(&mut parts);
        Header::new(&parts).map(drop)
    };
    let text = |field| Err(HeaderError::Text { field });
    assert_eq!(with(|parts| parts.cipher_name = ""), text(TextField::CipherName));
    assert_eq!(with(|parts| parts.cipher_mode = "xts plain64"), text(TextField::CipherMode));
    assert_eq!(with(|parts| parts.uuid = ""), text(TextField::Uuid));
    assert_eq!(with(|parts| parts.digest_iterations = 0), Err(HeaderError::DigestIterations));
    // cryptsetup reads headers without a UUID.
    let mut bytes = cryptsetups_header();
    bytes[168] = 0;
    assert_eq!(Header::parse(&bytes).expect("no damage").uuid(), "");
}

#[test]
fn a_keyslot_that_is_used_has_iterations_and_one_that_is_freed_keeps_nothing() {
    let mut header = Header::new(&parts(64)).expect("valid");
    let before = header.clone();
    assert_eq!(header.use_slot(3, 0, [7; 32]), Err(HeaderError::SlotIterations { slot: 3 }));
    assert_eq!(header.use_slot(8, 9, [7; 32]), Err(HeaderError::NoSuchSlot { slot: 8 }));
    header.free_slot(8);
    assert_eq!(header, before);
    header.use_slot(3, 9, [7; 32]).expect("a keyslot");
    let slot = header.slot(3).expect("there is one");
    assert_eq!((slot.state, slot.iterations, slot.salt), (SlotState::InUse, 9, [7; 32]));
    assert_eq!((0..9).map(|slot| header.is_in_use(slot)).filter(|used| *used).count(), 1);
    assert!(header.is_in_use(3));
    header.free_slot(3);
    assert_eq!(header, before, "salt or iterations are left");
}

#[test]
fn digests_of_20_bytes_are_long_enough_and_shorter_ones_are_not() {
    let hash = |name: &str| {
        let mut bytes = cryptsetups_header();
        bytes[72..104].fill(0);
        bytes[72..72 + name.len()].copy_from_slice(name.as_bytes());
        Header::parse(&bytes).expect("names are no damage").hash()
    };
    assert_eq!(hash("sha1"), Some(Hash::Sha1));
    assert_eq!(hash("ripemd160"), Some(Hash::Ripemd160));
    assert_eq!(hash("blake2s-128"), None);
}

#[test]
fn a_damaged_state_word_is_that_of_a_used_keyslot_only_with_iterations_and_a_salt() {
    for (iterations, salt, used) in [(9, 7, true), (9, 0, false), (0, 7, false), (0, 0, false)] {
        let mut bytes = cryptsetups_header();
        put(&mut bytes, SLOT + 48, 0x1111_1111);
        put(&mut bytes, SLOT + 48 + 4, iterations);
        bytes[SLOT + 48 + 8..SLOT + 48 + 40].fill(salt);
        let repaired = repair(&bytes).expect("can be repaired");
        assert_eq!(repaired.header.is_in_use(1), used, "{iterations} {salt}");
        assert!(repaired.changed());
    }
}

#[test]
fn a_keyslot_is_sealed_and_a_key_checked_only_with_the_lengths_that_the_header_says() {
    let key: Vec<u8> = (0..64).collect();
    let digest = luks1::new_digest(Hash::Sha256, &key, &[2; 32], 1000).expect("valid");
    let header = Header::new(&HeaderParts { digest, ..parts(64) }).expect("valid");
    let (_, len) = header.area(0).expect("a slot");
    let seal = |header: &Header, number, key: &[u8], len: usize| {
        let mut area = vec![0x5a; len];
        let sealed = luks1::seal(header, number, b"one", (1000, &[7; 32]), key, &mut OsRandom, &mut area);
        (sealed, area.iter().all(|byte| *byte == 0))
    };
    let short = |has, needs| (Err(SlotError::BufferLen { has, needs }), true);
    assert_eq!(seal(&header, 0, &key, len).0, Ok(()));
    assert_eq!(seal(&header, 0, &key[..63], len), short(63, 64));
    assert_eq!(seal(&header, 0, &key, len - 512), short(len - 512, len));
    assert_eq!(seal(&header, 8, &key, len), (Err(SlotError::NotInUse), true));
    let other = Header::new(&HeaderParts { cipher_mode: "cbc-plain64", ..parts(64) }).expect("valid");
    assert_eq!(seal(&other, 0, &key, len), (Err(SlotError::KeyLenForCipher { bytes: 64 }), true));
    let null = HeaderParts { cipher_name: "cipher_null", cipher_mode: "ecb", ..parts(64) };
    assert_eq!(seal(&Header::new(&null).expect("valid"), 0, &key, len), (Err(SlotError::NullCipher), true));

    assert_eq!(luks1::check_key(&header, &key), Ok(()));
    assert_eq!(luks1::check_key(&header, &key[..63]), Err(SlotError::BufferLen { has: 63, needs: 64 }));
    let mut other = key.clone();
    other[63] ^= 1;
    assert_eq!(luks1::check_key(&header, &other), Err(SlotError::WrongKey));
    let zero = luks1::new_digest(Hash::Sha256, &key, &[2; 32], 0);
    assert!(matches!(zero, Err(SlotError::Kdf(_))), "{zero:?}");
}

#[test]
fn a_split_is_as_long_as_its_stripes_and_never_too_long_to_count() {
    assert_eq!(split_len(16, 4), Ok(64));
    assert_eq!(split_len(1, 1), Ok(1));
    assert_eq!(split_len(0, 4), Err(AfError::NothingToSplit));
    assert_eq!(split_len(4, 0), Err(AfError::NothingToSplit));
    assert_eq!(split_len(usize::MAX, 2), Err(AfError::TooLarge));
    assert_eq!(split_len(usize::MAX, 1), Ok(usize::MAX));
    let nothing = af::merge(Hash::Sha256, &[1; 64], 4, &mut []);
    assert_eq!(nothing, Err(AfError::NothingToSplit));
    let nothing = af::merge(Hash::Sha256, &[1; 64], 0, &mut [0; 16]);
    assert_eq!(nothing, Err(AfError::NothingToSplit));
}

#[test]
fn keys_of_16_bytes_to_64_kib_are_wrapped() {
    for key_len in [16, 24, 65_536] {
        let key: Vec<u8> = (0..key_len).map(|i| i as u8).collect();
        let (mut wrapped, mut back) = (vec![0; key_len + 8], vec![0; key_len]);
        assert_eq!(wrap::wrap(&[5; 32], &key, &mut wrapped), Ok(()));
        assert_eq!(wrap::unwrap(&[5; 32], &wrapped, &mut back), Ok(()));
        assert_eq!(back, key);
        let other = wrap::unwrap(&[6; 32], &wrapped, &mut back);
        assert_eq!((other, back.iter().all(|byte| *byte == 0)), (Err(WrapError::Check), true));
    }
    for (key, wrapped) in [(65_544, 65_552), (12, 20), (18, 26)] {
        let refused = Err(WrapError::Len { key, wrapped });
        assert_eq!(wrap::wrap(&[0; 32], &vec![0; key], &mut vec![0; wrapped]), refused);
        assert_eq!(wrap::unwrap(&[0; 32], &vec![0; wrapped], &mut vec![0; key]), refused);
    }
    let refused = wrap::unwrap(&[0; 31], &[0; 24], &mut [0; 16]);
    assert_eq!(refused, Err(WrapError::WrappingKeyLen { len: 31 }));
}

#[test]
fn costs_are_accepted_up_to_the_most_work_memory_and_lanes() {
    let pbkdf2 = |iterations| KdfCost::Pbkdf2 { iterations };
    let argon2 = |time, memory_kib, lanes| KdfCost::Argon2id { time, memory_kib, lanes };
    let catena = |lambda, garlic| {
        KdfCost::Catena(CatenaCost { graph: CatenaGraph::BitReversal, lambda, min_garlic: garlic, garlic })
    };
    assert_eq!(pbkdf2(1 << 31).work(), MAX_WORK);
    assert_eq!(argon2(1 << 10, 4 << 20, 1).work(), MAX_WORK);
    for (cost, accepted) in [
        (pbkdf2(1), true),
        (pbkdf2(1 << 31), true),
        (pbkdf2((1 << 31) + 1), false),
        (argon2(1, 8, 1), true),
        (argon2(1, 512, 64), true),
        (argon2(1, 511, 64), false),
        (argon2(1, 520, 65), false),
        (argon2(1 << 10, 4 << 20, 1), true),
        (argon2((1 << 10) + 1, 4 << 20, 1), false),
        (argon2(1, (4 << 20) + 1, 1), false),
        (argon2(1, u32::MAX, u32::MAX), false),
        (catena(1, 1), true),
        (catena(0, 1), false),
    ] {
        assert_eq!(cost.is_acceptable(), accepted, "{cost:?}");
    }
    assert_eq!(catena(0, 1).work(), u64::MAX, "what is not defined has no end");
    assert_eq!([pbkdf2(9).memory_bytes(), argon2(1, 64, 1).memory_bytes()], [0, 65_536]);
    assert_eq!(KdfCost::catena(12).memory_bytes(), 128 << 10);
}

#[test]
fn more_memory_than_there_is_is_refused_before_it_is_asked_for() {
    let cost = KdfCost::catena(30);
    let needs = cost.memory_bytes();
    let limit = WorkLimit { time: std::time::Duration::from_millis(1), ..WorkLimit::default() };
    let refused = limit.during(|| AnyKdf.derive(&cost, b"pass", &[3; 16], &mut [0; 32]));
    match available_memory().filter(|has| *has < needs) {
        Some(_) => assert!(
            matches!(refused, Err(DeriveError::Kdf(KdfError::NotEnoughMemory { needs: n, has })) if n == needs && has < n),
            "{refused:?}"
        ),
        None => assert!(refused.is_err()),
    }
}

#[test]
fn a_medium_has_room_for_both_headers_and_a_block_behind_them() {
    let params = |erase_size: u32, block_count: u64| Params {
        cipher: FlashCipher::AesXts,
        key_len: 64,
        protection: Protection::Encrypted,
        uuid: [7; 16],
        sizes: FlashSizes { read_size: 1, prog_size: 1, erase_size, block_count },
        data_unit: 512,
    };
    for (erase_size, blocks_per_copy) in [(1, 512), (256, 2), (511, 2), (512, 1), (513, 1), (4096, 1)] {
        let least = 2 * blocks_per_copy + 1;
        let sizes = params(erase_size, least).sizes;
        assert_eq!((sizes.blocks_per_copy(), sizes.first_data_block()), (blocks_per_copy, least - 1));
        assert_eq!(sizes.size(), least * u64::from(erase_size));
        assert_eq!(params(erase_size, least).check(), Ok(()), "{erase_size}");
        let short = params(erase_size, least - 1);
        assert_eq!(short.check(), Err(ParamsError::Sizes(short.sizes)), "{erase_size}");
        let made = HeaderEdit::create(&mut [0; HEADER_LEN], &short).map(drop);
        assert!(made.is_err(), "what would not be read is not written");
    }
    let nothing = params(0, 5000);
    assert_eq!(nothing.check(), Err(ParamsError::Sizes(nothing.sizes)), "blocks of no bytes");
    let largest = u64::MAX / 4096;
    assert_eq!(params(4096, largest).check(), Ok(()));
    assert!(params(4096, largest + 1).check().is_err(), "its size does not fit 64 bits");
    let Params { sizes, .. } = params(4096, 64);
    for (read_size, prog_size) in [(0, 16), (16, 0), (32, 16), (16, 24), (0, 0)] {
        let sizes = FlashSizes { read_size, prog_size, ..sizes };
        assert_eq!(Params { sizes, ..params(4096, 64) }.check(), Err(ParamsError::Sizes(sizes)));
    }
}

/// Every level of protection is read as what was written.
#[test]
fn protection_is_read_as_it_was_written() {
    let all = [Freshness::Nothing, Freshness::Record, Freshness::Counter];
    for (number, store) in (0..).zip(all) {
        for (ticket, tickets) in [(0, TicketPolicy::Slot), (1, TicketPolicy::Store)] {
            for tag_len in [12, 16] {
                let params = Params {
                    cipher: FlashCipher::AesGcm,
                    key_len: 16,
                    protection: Protection::Sealed { tag_len, store, tickets },
                    data_unit: 252,
                    ..crate::flash::params()
                };
                let bytes = crate::flash::header(&params, &[]);
                assert_eq!(bytes[12..16], [2, tag_len, number, ticket]);
                let read = atrest_keyslot::flash::Header::parse(&bytes).map(|header| *header.params());
                assert_eq!(read, Ok(params));
            }
        }
    }
    for (at, value) in [(14, 3), (15, 2)] {
        let sealed = Params {
            cipher: FlashCipher::AesGcm,
            key_len: 16,
            protection: Protection::Sealed { tag_len: 16, store: all[0], tickets: TicketPolicy::Slot },
            data_unit: 252,
            ..crate::flash::params()
        };
        let changed = crate::flash::resummed(crate::flash::header(&sealed, &[]), |bytes| bytes[at] = value);
        assert!(atrest_keyslot::flash::Header::parse(&changed).is_err(), "byte {at} is {value}");
    }
}

/// Both halves of XTS keys must differ in areas, too: an area's key is derived, so equal halves are somebody's mistake.
#[test]
fn an_area_is_not_encrypted_with_a_weak_key() {
    let spec = "aes-xts-plain64".parse().expect("known");
    let mut area = [0x5a; 512];
    let refused = atrest_keyslot::area::encrypt(&spec, &[7; 64], &mut area);
    assert_eq!(refused, Err(atrest_keyslot::area::AreaError::Key(KeyError::EqualXtsHalves)));
    let null = "cipher_null-ecb".parse().expect("known");
    let refused = atrest_keyslot::area::decrypt(&null, &[7; 64], &mut area);
    assert_eq!(refused, Err(atrest_keyslot::area::AreaError::NullCipher));
    assert_eq!(area, [0x5a; 512]);
}
