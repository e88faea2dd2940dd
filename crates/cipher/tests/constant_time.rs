//! AES and what is built on it must not branch on secrets or use them as an index: checked by valgrind's memcheck, with key and data marked
//! undefined (the method of Langley's ctgrind). The test runs itself under valgrind and looks at the exit code.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "../../testkit/src/valgrind.rs"]
#[allow(dead_code, reason = "these tests have no use for all of it")]
mod valgrind;

use atrest_cipher::aead::{
    Aead, Aes128Ccm, Aes128Gcm, Aes256CcmTag96, Aes256Gcm, AsconAead128, ChaCha20Poly1305,
};
use atrest_cipher::{
    AesGcm, BackendChoice, DataUnitIndex, Mapper, MapperOptions, Tagged as _, TaggedMapper, TaggedSpec,
    VectorChoice, internals,
};
use valgrind::{leaks, make_public, make_secret};

/// Specifications of AES and the lengths of their keys, for every backend.
const BLOCK_MODES: [(&str, usize); 15] = [
    ("aes-xts-plain64", 64),
    ("aes-xts-plain64", 48),
    ("aes-xts-plain64", 32),
    ("aes-cbc-plain64", 32),
    ("aes-lrw-benbi", 48),
    ("aes-ecb", 16),
    ("aes-cbc-eboiv", 32),
    ("aes-cbc-elephant", 64),
    ("aes-cbc-tcw", 64),
    ("aes:64-cbc-lmk", 65 * 16),
    ("aes-ctr-plain64", 32),
    ("capi:cts(cbc(aes))-plain64", 32),
    ("aes-xex1-plain64", 32),
    ("aes-hctr2-plain64", 32),
    ("aes-hctr2-plain64", 16),
];

/// Specifications of modes that use vectors beside AES.
const VECTOR_MODES: [&str; 6] = [
    "xchacha12,aes-adiantum-plain64",
    "xchacha20,aes-adiantum-plain64be",
    "xchacha12,aes-hpolyc-plain64",
    "xchacha20,aes-hpolyc-plain64",
    "chacha12-stream-plain64",
    "chacha20-stream-plain64",
];

#[test]
fn every_mode_that_is_marked_as_constant_time_is_looked_at() {
    let looked_at: Vec<&str> = BLOCK_MODES.map(|(spec, _)| spec).into_iter().chain(VECTOR_MODES).collect();
    let missing: Vec<_> = internals::modes_without(&looked_at).filter(|(_, marked)| *marked).collect();
    assert!(missing.is_empty(), "neither BLOCK_MODES nor VECTOR_MODES has {missing:?}");
}

#[test]
fn aes_neither_branches_on_secrets_nor_reads_tables_with_them() {
    if let Some(leaks) = leaks("aes", |_| use_secrets()) {
        leaks.assert_only_in(&[]);
    }
}

#[test]
fn the_check_sees_a_table_planted_in_the_portable_aes() {
    let use_both = |_: &str| internals::encrypt_with_a_table_planted(make_secret, make_public);
    if let Some(leaks) = leaks("both", use_both) {
        leaks.assert_only_in(&["Leaky"]);
    }
}

#[test]
fn the_check_sees_a_branch_planted_in_a_vector() {
    let use_both = |_: &str| internals::encrypt_with_a_branch_planted(make_secret, make_public);
    if let Some(leaks) = leaks("both", use_both) {
        leaks.assert_only_in(&["Leaky"]);
    }
}

#[test]
fn the_check_sees_a_table_read_at_a_secret_index() {
    let use_camellia = |_: &str| {
        let spec = "camellia-cbc-plain64".parse().expect("a good specification");
        let mapper = Mapper::new(&spec, &[7; 16], &MapperOptions::default());
        let mut data = [1; 512];
        make_secret(&mut data);
        mapper.expect("a good key").encrypt(DataUnitIndex(0), &mut data).expect("a whole unit");
    };
    if let Some(leaks) = leaks("camellia", use_camellia) {
        leaks.assert_only_in(&["camellia"]);
    }
}

/// Whether a tag fits is told, by a library or by us: the branches on that are to be seen, and no others.
#[test]
fn authenticating_ciphers_tell_whether_a_tag_fits_and_nothing_else() {
    if let Some(leaks) = leaks("aeads", |_| use_aeads()) {
        let places = leaks.places();
        let is_verdict = |place: &&str| {
            let told = [
                "::decrypt_inout",
                "map_err<(), aead::Error",
                "expect<(), atrest_cipher::aead::OpenError>",
                // Ascon's mode is ours, and so is GCM of the backends. They compare with `subtle`, whose answer becomes a bool there.
                "<atrest_cipher::aead::ascon::AsconAead128 as atrest_cipher::aead::Aead>::open",
                "atrest_cipher::aes_gcm::Several<_>::open",
                "from (src/lib.rs:",
            ];
            told.iter().any(|function| place.contains(function))
        };
        assert!(places.iter().any(is_verdict) && places.iter().all(is_verdict), "{leaks}");
    }
}

/// A tag that is made tells nothing. That of a unit that is opened is compared, and only that it does not fit is told.
#[test]
fn tags_of_data_units_are_made_in_constant_time() {
    if let Some(leaks) = leaks("tagged", |_| use_tagged()) {
        leaks.assert_only_in(&[]);
    }
}

fn use_tagged() {
    for (encryption, integrity, key_len) in [
        ("aes-gcm-random", "aead", 16),
        ("aes-ccm-random", "aead", 35),
        ("aegis128-random", "aead", 16),
        ("aegis256-plain64", "aead", 32),
        ("chacha20-random", "poly1305", 32),
        ("aes-xts-plain64", "hmac(sha1)", 64 + 20),
        ("aes-xts-random", "hmac(sha256)", 64 + 32),
        ("aes-cbc-plain64", "hmac(sha512)", 32 + 64),
    ] {
        let backends = BackendChoice::detected().map(|backend| (Some(backend), None));
        for (backend, vectors) in
            backends.chain(VectorChoice::detected().map(|vectors| (None, Some(vectors))))
        {
            let options =
                MapperOptions { backend, vectors, allow_equal_xts_halves: true, ..MapperOptions::default() };
            let spec = TaggedSpec::new(encryption, integrity).expect(encryption);
            let mut key: Vec<u8> = (0..key_len).map(|i| i as u8).collect();
            make_secret(&mut key);
            let cipher = TaggedMapper::new(&spec, &key, None, &options).expect(encryption);
            for units in [1, 20] {
                let (mut data, mut tags) = (vec![3; units * 512], vec![4; units * cipher.tag_len()]);
                make_secret(&mut data);
                cipher.seal(DataUnitIndex(1), &mut data, &mut tags).expect("whole units");
                // What lies on the medium.
                make_public(&mut data);
                make_public(&mut tags);
                assert_ne!(data, vec![3; units * 512], "{encryption}");
            }
        }
    }
}

fn use_aeads() {
    use_aead::<AsconAead128>();
    use_aead::<ChaCha20Poly1305>();
    use_aead::<Aes128Gcm>();
    use_aead::<Aes256Gcm>();
    use_aead::<AesGcm<32>>();
    use_aead::<Aes128Ccm>();
    use_aead::<Aes256CcmTag96>();
}

fn use_aead<A: Aead>() {
    let mut key = vec![7; A::KEY_LEN];
    make_secret(&mut key);
    let cipher = A::new(&key).expect("a good key");
    for len in [0, 16, 75] {
        let mut data = vec![3; len];
        make_secret(&mut data);
        let nonce = A::Nonce::default();
        let tag = cipher.seal(&nonce, b"associated", &mut data).expect("seals");
        let mut public = tag.as_ref().to_vec();
        make_public(&mut public);
        make_public(&mut data);
        let Ok(tag) = A::Tag::try_from(&public) else { panic!("a tag has the length of a tag") };
        cipher.open(&nonce, b"associated", &mut data, &tag).expect("opens");
        make_public(&mut data);
        assert!(data.iter().all(|byte| *byte == 3), "{}", A::NAME);
    }
}

/// Every backend and mode, both ways, with key and data undefined.
fn use_secrets() {
    for backend in BackendChoice::detected() {
        for (spec, key_len) in BLOCK_MODES {
            let options = MapperOptions {
                backend: Some(backend),
                // Whether the halves are equal is made public, by an error; that branch is not looked at here.
                allow_equal_xts_halves: true,
                single_snapshot: true,
                ..MapperOptions::default()
            };
            use_secrets_in(spec, key_len, &options);
        }
    }
    for (spec, key_len) in [("speck128-xts-plain64", 64), ("noekeon-xts-plain64", 32)] {
        let options = MapperOptions { allow_equal_xts_halves: true, ..MapperOptions::default() };
        use_secrets_in(spec, key_len, &options);
    }
    // valgrind has no AVX-512, and says so to those who ask the CPU.
    for vectors in VectorChoice::detected() {
        let options = MapperOptions {
            allow_equal_xts_halves: true,
            vectors: Some(vectors),
            ..MapperOptions::default()
        };
        use_secrets_in("serpent-xts-plain64", 64, &options);
        for spec in VECTOR_MODES {
            for data_unit in [512, 528, 2048] {
                let options = MapperOptions {
                    data_unit,
                    single_snapshot: true,
                    vectors: Some(vectors),
                    ..MapperOptions::default()
                };
                use_secrets_in(spec, 32, &options);
            }
        }
    }
}

/// Key set-up, encryption and decryption with key and data undefined.
fn use_secrets_in(spec: &str, key_len: usize, options: &MapperOptions) {
    let mut key: Vec<u8> = (0..key_len).map(|i| i as u8).collect();
    make_secret(&mut key);
    let mapper = Mapper::new(&spec.parse().expect(spec), &key, options).expect(spec);
    let mut data = vec![3; 9 * options.data_unit];
    make_secret(&mut data);
    mapper.encrypt(DataUnitIndex(1), &mut data).expect("whole units");
    mapper.decrypt(DataUnitIndex(1), &mut data).expect("whole units");
    make_public(&mut data);
    assert!(data.iter().all(|byte| *byte == 3), "{spec} on {}", mapper.backend_name());
}
