//! Data units with tags: each backend against libraries and a reference, and what comes of forgeries.
#![cfg(all(feature = "aead", feature = "hashes"))]

use atrest_cipher::aead::{Aead, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};
use atrest_cipher::{
    BackendChoice, DataUnitIndex, KeyError, MapperOptions, RunError, Tagged, TaggedMapper, TaggedSpec,
    TaggedSpecError, VectorChoice,
};
use ccm::aead::AeadInOut;
use hmac::{Hmac, Mac};

use crate::random::Random;
use crate::reference::{self, aegis::aegis};

/// Ciphertext and tag of one data unit, with the IV that its tag ends with.
type Judge = fn(key: &[u8], sector: u64, offset: u64, iv: &[u8], unit: &[u8]) -> (Vec<u8>, Vec<u8>);

fn associated(sector: u64, iv: &[u8]) -> Vec<u8> {
    [&sector.to_le_bytes()[..], iv].concat()
}

fn library<A: Aead>(key: &[u8], sector: u64, iv: &[u8], unit: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut nonce = A::Nonce::default();
    nonce.as_mut().copy_from_slice(iv);
    let mut data = unit.to_vec();
    let tag = A::new(key).expect("a key").seal(&nonce, &associated(sector, iv), &mut data).expect("short");
    (data, tag.as_ref().to_vec())
}

fn plain64(number: u64, len: usize) -> Vec<u8> {
    let mut iv = vec![0; len];
    iv[..8].copy_from_slice(&number.to_le_bytes());
    iv
}

fn ccm<C: AeadInOut + aes::cipher::KeyInit>(
    key: &[u8],
    sector: u64,
    iv: &[u8],
    unit: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let (key, salt) = key.split_at(key.len() - 3);
    let cipher = C::new_from_slice(key).expect("a key");
    let nonce = [salt, iv].concat();
    let nonce = nonce[..].try_into().expect("a nonce");
    let mut data = unit.to_vec();
    let sector = sector.to_le_bytes();
    let tag = cipher.encrypt_inout_detached(nonce, &sector, (&mut data[..]).into()).expect("short");
    (data, tag.to_vec())
}

type Ccm128 = ccm::Ccm<aes::Aes128, ccm::consts::U16, ccm::consts::U11>;
type Ccm256 = ccm::Ccm<aes::Aes256, ccm::consts::U16, ccm::consts::U11>;

/// A cipher of the mapper, and a library's HMAC over what it made.
fn authenc<M: Mac + hmac::KeyInit>(
    (spec, mac_len): (&str, usize),
    key: &[u8],
    (sector, offset): (u64, u64),
    random: &[u8],
    unit: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let (cipher_key, mac_key) = key.split_at(key.len() - mac_len);
    let parts: Vec<&str> = spec.split('-').collect();
    let iv: [u8; 16] = match (random, parts[2]) {
        ([], "plain64") => plain64(sector + offset, 16).try_into().expect("sixteen"),
        // The kernel hashes both keys, and the MAC is over the IV as the cipher gets it.
        ([], _) => reference::iv("essiv:sha256", "aes", key, sector + offset),
        (random, _) => random.try_into().expect("sixteen"),
    };
    let data = reference::unit(true, parts[0], parts[1], cipher_key, iv, unit);
    let mut mac = <M as hmac::KeyInit>::new_from_slice(mac_key).expect("any length");
    mac.update(&associated(sector, &iv));
    mac.update(&data);
    (data, mac.finalize().into_bytes().to_vec())
}

/// Encryption, integrity, bytes in a key, bytes in a random IV, what says what is right.
const CIPHERS: [(&str, &str, usize, usize, Judge); 18] = [
    ("aes-gcm-random", "aead", 16, 12, |key, sector, _, iv, unit| {
        library::<Aes128Gcm>(key, sector, iv, unit)
    }),
    ("aes-gcm-random", "aead", 32, 12, |key, sector, _, iv, unit| {
        library::<Aes256Gcm>(key, sector, iv, unit)
    }),
    ("aes-gcm-plain64", "aead", 32, 0, |key, sector, offset, _, unit| {
        library::<Aes256Gcm>(key, sector, &plain64(sector + offset, 12), unit)
    }),
    ("serpent-gcm-random", "aead", 32, 12, |key, sector, _, iv, unit| {
        gcm_by_hand("serpent", key, sector, iv, unit)
    }),
    ("twofish-gcm-random", "aead", 24, 12, |key, sector, _, iv, unit| {
        gcm_by_hand("twofish", key, sector, iv, unit)
    }),
    ("camellia-gcm-random", "aead", 16, 12, |key, sector, _, iv, unit| {
        gcm_by_hand("camellia", key, sector, iv, unit)
    }),
    ("aes-ccm-random", "aead", 19, 8, |key, sector, _, iv, unit| ccm::<Ccm128>(key, sector, iv, unit)),
    ("aes-ccm-random", "aead", 35, 8, |key, sector, _, iv, unit| ccm::<Ccm256>(key, sector, iv, unit)),
    ("chacha20-random", "poly1305", 32, 12, |key, sector, _, iv, unit| {
        library::<ChaCha20Poly1305>(key, sector, iv, unit)
    }),
    ("chacha20-plain64", "poly1305", 32, 0, |key, sector, offset, _, unit| {
        library::<ChaCha20Poly1305>(key, sector, &plain64(sector + offset, 12), unit)
    }),
    ("aegis128-random", "aead", 16, 16, |key, sector, _, iv, unit| {
        let (data, tag) = aegis(key, iv, &associated(sector, iv), unit);
        (data, tag.to_vec())
    }),
    ("aegis256-random", "aead", 32, 32, |key, sector, _, iv, unit| {
        let (data, tag) = aegis(key, iv, &associated(sector, iv), unit);
        (data, tag.to_vec())
    }),
    ("aes-xts-plain64", "hmac(sha256)", 96, 0, |key, sector, offset, iv, unit| {
        authenc::<Hmac<sha2::Sha256>>(("aes-xts-plain64", 32), key, (sector, offset), iv, unit)
    }),
    ("aes-xts-random", "hmac(sha256)", 64, 16, |key, sector, offset, iv, unit| {
        authenc::<Hmac<sha2::Sha256>>(("aes-xts-plain64", 32), key, (sector, offset), iv, unit)
    }),
    ("aes-cbc-essiv:sha256", "hmac(sha256)", 64, 0, |key, sector, offset, iv, unit| {
        authenc::<Hmac<sha2::Sha256>>(("aes-cbc-essiv:sha256", 32), key, (sector, offset), iv, unit)
    }),
    ("aes-cbc-random", "hmac(sha512)", 96, 16, |key, sector, offset, iv, unit| {
        authenc::<Hmac<sha2::Sha512>>(("aes-cbc-plain64", 64), key, (sector, offset), iv, unit)
    }),
    ("serpent-xts-plain64", "hmac(sha1)", 84, 0, |key, sector, offset, iv, unit| {
        authenc::<Hmac<sha1::Sha1>>(("serpent-xts-plain64", 20), key, (sector, offset), iv, unit)
    }),
    ("twofish-xts-random", "hmac(sha512)", 128, 16, |key, sector, offset, iv, unit| {
        authenc::<Hmac<sha2::Sha512>>(("twofish-xts-plain64", 64), key, (sector, offset), iv, unit)
    }),
];

/// GCM as SP 800-38D is written.
fn gcm_by_hand(cipher: &str, key: &[u8], sector: u64, iv: &[u8], unit: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let cipher = reference::cipher(cipher, key);
    let encrypted = |block: [u8; 16]| u128::from_be_bytes(cipher.encrypt(block));
    let times = |x: u128, mut v: u128| {
        let mut z = 0;
        for bit in (0..128).rev() {
            if x >> bit & 1 == 1 {
                z ^= v;
            }
            v = (v >> 1) ^ ((v & 1) * (0xe1 << 120));
        }
        z
    };
    let counter = |number: u32| {
        let mut block = [0; 16];
        block[..12].copy_from_slice(iv);
        block[12..].copy_from_slice(&number.to_be_bytes());
        encrypted(block)
    };
    let data: Vec<u8> = (2..)
        .zip(unit.chunks(16))
        .flat_map(|(number, block)| {
            let block: [u8; 16] = block.try_into().expect("whole");
            (u128::from_be_bytes(block) ^ counter(number)).to_be_bytes()
        })
        .collect();
    let h = encrypted([0; 16]);
    let mut hashed = associated(sector, iv);
    hashed.resize(32, 0);
    hashed.extend(&data);
    hashed.extend(160u64.to_be_bytes());
    hashed.extend((8 * data.len() as u64).to_be_bytes());
    let state = hashed
        .chunks(16)
        .fold(0, |state, block| times(state ^ u128::from_be_bytes(block.try_into().expect("whole")), h));
    (data, (state ^ counter(1)).to_be_bytes().to_vec())
}

/// Source: draft-irtf-cfrg-aegis-aead, Appendix A.3, test vectors 1, 3 and 4.
#[test]
fn the_reference_of_aegis_256_agrees_with_the_draft() {
    let mut key = [0; 32];
    (key[0], key[1]) = (0x10, 0x01);
    let mut nonce = [0; 32];
    (nonce[0], nonce[2]) = (0x10, 0x02);
    let counting: Vec<u8> = (0..32).collect();
    for (associated, plain, ciphertext, tag) in [
        (
            &[][..],
            &[0; 16][..],
            "754fc3d8c973246dcc6d741412a4b236",
            0x3fe9_1994_768b_332e_d7f5_70a1_9ec5_896e_u128,
        ),
        (
            &counting[..8],
            &counting[..],
            "f373079ed84b2709faee373584585d60accd191db310ef5d8b11833df9dec711",
            0x8d86_f91e_e606_e9ff_26a0_1b64_ccbd_d91d,
        ),
    ] {
        let (data, made) = aegis(&key, &nonce, associated, plain);
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((hex.as_str(), u128::from_be_bytes(made)), (ciphertext, tag));
    }
}

#[test]
fn every_backend_makes_ciphertext_and_tags_of_each_unit_as_the_judge_does() {
    let mut noise = Random::new(19);
    for (encryption, integrity, key_len, random_len, judge) in CIPHERS {
        let spec = TaggedSpec::new(encryption, integrity).expect(encryption);
        let key = noise.bytes(key_len);
        for (data_unit, units) in [(512, 1), (512, 7), (512, 41), (1024, 3), (2048, 2), (4096, 11), (4096, 0)]
        {
            let plain = noise.bytes(data_unit * units);
            let first = noise.index(1 << 30) as u64;
            let offset = if data_unit == 512 { 1000 } else { 0 };
            let tag_len = spec.tag_len();
            let tags = noise.bytes(tag_len * units);
            let (mut wanted, mut wanted_tags) = (Vec::new(), Vec::new());
            for (i, (unit, tag)) in plain.chunks(data_unit).zip(tags.chunks(tag_len)).enumerate() {
                let random = &tag[tag_len - random_len..];
                let sector = (first + i as u64) * (data_unit as u64 / 512);
                let (data, made) = judge(&key, sector, offset, random, unit);
                wanted.extend(data);
                wanted_tags.extend([&made, random].concat());
            }
            let backends = BackendChoice::detected().map(|backend| (backend, None));
            let vectors = VectorChoice::detected().map(|vectors| (BackendChoice::best(), Some(vectors)));
            for (backend, vectors) in backends.chain(vectors) {
                let beside = vectors.map_or("what it brings", VectorChoice::name);
                let on = format!("{} beside {beside}", backend.name());
                let what = format!("{encryption} {integrity}, {units} of {data_unit} on {on}");
                let options = MapperOptions {
                    data_unit,
                    iv_offset: offset,
                    backend: Some(backend),
                    vectors,
                    ..MapperOptions::default()
                };
                let cipher = TaggedMapper::new(&spec, &key, None, &options).expect(&what);
                assert_eq!((cipher.tag_len(), cipher.random_len()), (tag_len, random_len));
                let shift = noise.index(16);
                let mut place = vec![0xa5; plain.len() + 32];
                place[shift..shift + plain.len()].copy_from_slice(&plain);
                let mut made = tags.clone();
                let run = &mut place[shift..shift + plain.len()];
                cipher.seal(DataUnitIndex(first), run, &mut made).expect(&what);
                assert!(*run == wanted, "{what}");
                assert_eq!(made, wanted_tags, "{what}");
                cipher
                    .open(DataUnitIndex(first), run, &made, &mut |unit| panic!("{what}: {unit:?}"))
                    .expect(&what);
                assert!(*run == plain, "{what}");
                assert!(
                    place
                        .iter()
                        .enumerate()
                        .all(|(at, byte)| { (shift..shift + plain.len()).contains(&at) || *byte == 0xa5 }),
                    "{what} wrote beside the run"
                );
            }
        }
    }
}

#[test]
fn a_unit_that_was_changed_moved_or_has_another_tag_is_zeros_and_the_others_are_not() {
    let mut noise = Random::new(20);
    for (encryption, integrity, key_len, ..) in CIPHERS {
        let spec = TaggedSpec::new(encryption, integrity).expect(encryption);
        let key = noise.bytes(key_len);
        for backend in BackendChoice::detected() {
            let options = MapperOptions { backend: Some(backend), ..MapperOptions::default() };
            let cipher = TaggedMapper::new(&spec, &key, None, &options).expect(encryption);
            let (units, tag_len) = (37, cipher.tag_len());
            let plain = noise.bytes(512 * units);
            let (mut run, mut tags) = (plain.clone(), noise.bytes(tag_len * units));
            cipher.seal(DataUnitIndex(5), &mut run, &mut tags).expect("whole");
            let opened = |first: u64, mut run: Vec<u8>, tags: &[u8]| {
                let mut forged = Vec::new();
                cipher
                    .open(DataUnitIndex(first), &mut run, tags, &mut |unit| forged.push(unit.0))
                    .expect("whole");
                for (i, (unit, plain)) in run.chunks(512).zip(plain.chunks(512)).enumerate() {
                    match forged.contains(&(first + i as u64)) {
                        true => assert!(unit.iter().all(|byte| *byte == 0), "{encryption} leaves something"),
                        false => assert_eq!(unit, plain),
                    }
                }
                forged
            };
            assert_eq!(opened(5, run.clone(), &tags), [0; 0]);
            for _ in 0..8 {
                let (a, b, bit) = (noise.index(units), noise.index(units), noise.index(8));
                let mut changed = run.clone();
                changed[512 * a + noise.index(512)] ^= 1 << bit;
                let mut changed_tags = tags.clone();
                changed_tags[tag_len * b + noise.index(tag_len)] ^= 1 << bit;
                let (a, b) = (5 + a as u64, 5 + b as u64);
                assert_eq!(opened(5, changed.clone(), &tags), [a], "{encryption}");
                assert_eq!(opened(5, run.clone(), &changed_tags), [b], "{encryption}");
                let mut both = vec![a.min(b), a.max(b)];
                both.dedup();
                assert_eq!(opened(5, changed, &changed_tags), both, "{encryption}");
            }
            let all: Vec<u64> = (6..6 + units as u64).collect();
            assert_eq!(opened(6, run.clone(), &tags), all, "{encryption}: a sector is authenticated");
        }
    }
}

#[test]
fn keys_lengths_and_names_that_do_not_fit_are_refused() {
    for (encryption, integrity, error) in [
        ("aes-xts-plain64", "crc32c", TaggedSpecError::Unknown),
        ("aes-xts-plain64", "aead", TaggedSpecError::Unknown),
        ("aes-xts-random", "none", TaggedSpecError::Unknown),
        ("aes-ctr-plain64", "hmac(sha256)", TaggedSpecError::Unknown),
        ("aes-gcm-lmk", "aead", TaggedSpecError::Unknown),
        ("aes-gcm-random) 0", "aead", TaggedSpecError::Unknown),
        ("blowfish-gcm-random", "aead", TaggedSpecError::Unknown),
        ("aes", "aead", TaggedSpecError::Unknown),
        ("aegis128-random", "poly1305", TaggedSpecError::Unknown),
        ("chacha20-random", "aead", TaggedSpecError::Unknown),
        ("aes-random", "hmac(sha256)", TaggedSpecError::Unknown),
        ("aes-cbc-tcw", "hmac(sha256)", TaggedSpecError::Unknown),
        ("cipher_null-xts-plain64", "hmac(sha256)", TaggedSpecError::Unknown),
        ("aes-xts-plain64", "phmac(sha256)", TaggedSpecError::ProtectedKey),
    ] {
        assert_eq!(TaggedSpec::new(encryption, integrity), Err(error), "{encryption} {integrity}");
    }
    let unknown = TaggedSpec::new("aes-xts-plain64 0 7:0", "hmac(sha256)");
    assert!(matches!(unknown, Err(TaggedSpecError::Cipher(_))), "{unknown:?}");

    let spec = |encryption: &str, integrity: &str| TaggedSpec::new(encryption, integrity).expect("known");
    let options = MapperOptions::default();
    let hmac = spec("aes-xts-random", "hmac(sha256)");
    assert_eq!((hmac.tag_len(), hmac.random_len(), hmac.mac_key_len()), (48, 16, Some(32)));
    let refused = |spec: &TaggedSpec, len: usize, mac: Option<usize>| {
        TaggedMapper::new(spec, &vec![1; len], mac, &options).err()
    };
    let mut key: Vec<u8> = (0..104).collect();
    for (len, mac) in [(96, None), (64, None), (96, Some(32)), (104, Some(40)), (33, Some(1))] {
        assert!(TaggedMapper::new(&hmac, &key[..len], mac, &options).is_ok(), "{len} {mac:?}");
    }
    for (len, mac) in [(95, None), (31, None), (64, Some(0)), (96, Some(40)), (32, Some(33))] {
        assert_eq!(refused(&hmac, len, mac), Some(KeyError::Length { len }), "{len} {mac:?}");
    }
    key[32..64].copy_from_slice(&(0..32).collect::<Vec<u8>>());
    assert_eq!(TaggedMapper::new(&hmac, &key[..96], None, &options).err(), Some(KeyError::EqualXtsHalves));
    for (encryption, integrity, fits) in [
        ("aes-gcm-random", "aead", &[16, 24, 32][..]),
        ("aes-ccm-random", "aead", &[19, 27, 35]),
        ("aegis128-random", "aead", &[16]),
        ("aegis256-random", "aead", &[32]),
        ("chacha20-random", "poly1305", &[32]),
    ] {
        let spec = spec(encryption, integrity);
        for len in 0..70 {
            let error = (!fits.contains(&len)).then_some(KeyError::Length { len });
            assert_eq!(refused(&spec, len, None), error, "{encryption} {len}");
            assert!(refused(&spec, len, Some(16)).is_some(), "there is no key of a MAC");
        }
    }
    for (encryption, integrity, repeats) in [
        ("aes-gcm-random", "aead", false),
        ("aes-gcm-plain64", "aead", true),
        ("aegis128-plain", "aead", true),
        ("chacha20-plain64", "poly1305", true),
        ("aes-xts-plain64", "hmac(sha1)", false),
    ] {
        assert_eq!(spec(encryption, integrity).repeats_nonces(), repeats, "{encryption}");
    }
    for data_unit in [0, 16, 256, 768, 8192] {
        let options = MapperOptions { data_unit, ..options };
        let made = TaggedMapper::new(&hmac, &key[..64], None, &options);
        assert_eq!(made.err(), Some(KeyError::DataUnit { len: data_unit }));
    }
    let cipher = TaggedMapper::new(&hmac, &(0..64).collect::<Vec<u8>>(), None, &options).expect("fits");
    let (mut run, mut tags) = ([7; 1024], [7; 96]);
    let partial = RunError::PartialDataUnit { len: 1023, data_unit: 512 };
    let first = DataUnitIndex(0);
    assert_eq!(cipher.seal(first, &mut run[..1023], &mut tags), Err(partial));
    assert_eq!(cipher.open(first, &mut run[..1023], &tags, &mut |_| ()), Err(partial));
    let mismatch = RunError::LengthMismatch { src: 95, dst: 96 };
    assert_eq!(cipher.seal(first, &mut run, &mut tags[..95]), Err(mismatch));
    assert_eq!(cipher.open(first, &mut run, &tags[..95], &mut |_| ()), Err(mismatch));
    assert_eq!((run, tags), ([7; 1024], [7; 96]), "nothing is written");
}
