//! Cipher strings: what dm-crypt reads is read, printed the same, or refused by a name of its own.

use atrest_cipher::{CipherSpec, DataUnitIndex, Feature, Mapper, MapperOptions, SpecError};

fn parse(spec: &str) -> Result<CipherSpec, SpecError> {
    spec.parse()
}

#[test]
fn what_dm_crypt_writes_is_read_and_printed_the_same() {
    for spec in [
        "aes-xts-plain64",
        "aes-xts-plain",
        "aes-cbc-essiv:sha256",
        "aes-cbc-essiv:wp256",
        "aes-cbc-essiv:sha3-256",
        "aes-cbc-essiv:blake2b-256",
        "aes-cbc-essiv:blake2s-128",
        "aes-cbc-essiv:rmd128",
        "aes-cbc-plain64be",
        "aes-cbc-null",
        "aes-lrw-benbi",
        "aes-ecb",
        "aes-ecb-null",
        "serpent-xts-essiv:sha256",
        "serpent-cbc-essiv:sha1",
        "twofish-lrw-benbi",
        "camellia-xts-plain64",
        "kuznyechik-xts-plain64",
        "xchacha12,aes-adiantum-plain64",
        "xchacha20,aes-adiantum-plain64be",
        "xchacha20,aes-adiantum-null",
        "capi:adiantum(xchacha12,aes)-plain64",
        "aes:64-cbc-lmk",
        "aes:64-cbc-plain",
        "aes:2-xts-plain64",
        "twofish:4-cbc-essiv:sha256",
        "aes-cbc-tcw",
        "serpent-cbc-tcw",
        "aes-cbc-eboiv",
        "capi:cbc(aes)-eboiv",
        "aes-cbc-elephant",
        "capi:cbc(aes)-elephant",
        "aes-ctr-plain64",
        "aes-hctr2-plain64",
        "aes-xex1-plain64",
        "capi:hctr2(aes)-plain64",
        "serpent-hctr2-plain64be",
        "blowfish-cbc-plain64",
        "blowfish-cbc-essiv:sha256",
        "cast5-cbc-plain64",
        "des3_ede-cbc-benbi",
        "capi:ecb(des3_ede)",
        "speck128-xts-plain64",
        "capi:xts(speck128)-plain64",
        "noekeon-xts-plain64",
        "chacha12-stream-plain64",
        "chacha20-stream-plain64be",
        "capi:chacha20-plain64be",
        "capi:chacha12-plain64be",
        "capi:cts(cbc(aes))-plain64",
        "capi:cts(cbc(serpent))-essiv:sha256",
        "capi:essiv(cts(cbc(aes)),sha256)-plain64",
        "cipher_null-ecb",
        "cipher_null-cbc-plain",
        "capi:cbc(aes)-essiv:sha256",
        "capi:xts(aes)-plain64",
        "capi:ecb(aes)",
        "capi:lrw(serpent)-benbi",
        "capi:essiv(cbc(aes),sha256)-plain64",
        "capi:essiv(cbc(aes),sha256)-plain",
    ] {
        assert_eq!(parse(spec).map(|spec| spec.to_string()), Ok(spec.to_owned()));
    }
}

#[test]
fn shorthands_mean_what_they_mean_in_dm_crypt() {
    for (short, long) in [
        ("aes", "aes-cbc-plain"),
        ("aes-plain", "aes-cbc-plain"),
        ("twofish", "twofish-cbc-plain"),
        ("xchacha12,aes,nhpoly1305-adiantum-plain64", "xchacha12,aes-adiantum-plain64"),
        ("capi:adiantum(xchacha20,aes,nhpoly1305)-plain", "capi:adiantum(xchacha20,aes)-plain"),
        ("aes:1-cbc-plain", "aes-cbc-plain"),
        ("cipher_null", "cipher_null-ecb"),
        ("null", "cipher_null-ecb"),
    ] {
        assert_eq!(parse(short).map(|spec| spec.to_string()), Ok(long.to_owned()), "{short}");
    }
}

#[test]
fn the_two_fields_of_a_luks1_header_give_the_same_as_the_whole_string() {
    for (name, mode, whole) in [
        ("aes", "xts-plain64", "aes-xts-plain64"),
        ("aes", "cbc-essiv:sha256", "aes-cbc-essiv:sha256"),
        ("aes", "ecb", "aes-ecb"),
        ("aes", "plain", "aes-cbc-plain"),
        ("xchacha12,aes", "adiantum-plain64", "xchacha12,aes-adiantum-plain64"),
        ("capi:xts(aes)", "plain64", "capi:xts(aes)-plain64"),
    ] {
        assert_eq!(CipherSpec::from_parts(name, mode), parse(whole), "{name} {mode}");
        let spec = parse(whole).expect(whole);
        if !whole.starts_with("capi:") {
            assert_eq!(format!("{}-{}", spec.cipher_name(), spec.mode()), spec.to_string());
        }
    }
    assert_eq!(CipherSpec::from_parts("aes-xts", "plain64"), Err(SpecError::Syntax));
    // cryptsetup 2.6.1 makes `aes-` of an empty mode, which neither its own cipher code nor dm-crypt takes.
    for cipher in ["aes", "cipher_null", "capi:xts(aes)"] {
        assert_eq!(CipherSpec::from_parts(cipher, ""), Err(SpecError::Syntax), "{cipher}");
        assert_eq!(parse(&format!("{cipher}-")), Err(SpecError::Syntax), "{cipher}-");
    }
}

#[test]
fn only_the_null_cipher_is_null() {
    assert!(parse("cipher_null-ecb").expect("good").is_null());
    assert!(parse("capi:ecb(cipher_null)").expect("good").is_null());
    assert!(!parse("aes-ecb").expect("good").is_null());
    assert!(!parse("cipher_null-ecb").expect("good").key_len_is_valid(32));
}

/// dm-crypt has no HPolyC; the names follow its rules.
#[test]
fn hpolyc_goes_by_names_of_the_same_form() {
    for spec in
        ["xchacha12,aes-hpolyc-plain64", "xchacha20,aes-hpolyc-plain64", "capi:hpolyc(xchacha12,aes)-plain64"]
    {
        assert_eq!(parse(spec).map(|spec| spec.to_string()), Ok(spec.to_owned()));
        assert_eq!(parse(spec).map(|spec| spec.key_lens()), Ok(&[32][..]));
    }
}

#[test]
fn what_is_known_but_not_there_yet_is_refused_by_name() {
    for (spec, feature) in [
        ("xchacha12,twofish-adiantum-plain64", Feature::Adiantum),
        ("capi:adiantum(xchacha8,aes)-plain64", Feature::Adiantum),
        ("capi:adiantum(xchacha12-avx2,aes-aesni,nhpoly1305-avx2)-plain64", Feature::Adiantum),
        ("aes-gcm-random", Feature::Authenticated),
        ("capi:authenc(hmac(sha256),xts(aes))-random", Feature::Authenticated),
        ("aegis128-random", Feature::Authenticated),
        ("aes:64-xts-lmk", Feature::Lmk),
        ("blowfish:64-cbc-lmk", Feature::Lmk),
        ("aes:32-cbc-lmk", Feature::MultiKey),
        ("aes-cbc-lmk", Feature::MultiKey),
        ("capi:cbc(aes)-lmk", Feature::MultiKey),
        ("aes:128-cbc-plain", Feature::MultiKey),
        ("aes:2-cbc-tcw", Feature::MultiKey),
        ("aes:2-cbc-elephant", Feature::MultiKey),
        ("blowfish:2-cbc-plain64", Feature::MultiKey),
        ("aes-xts-tcw", Feature::Tcw),
        ("aes-ecb-eboiv", Feature::Eboiv),
        ("serpent-cbc-elephant", Feature::Elephant),
        ("capi:essiv(cbc(aes),sha256)-eboiv", Feature::CapiTemplate),
        ("cast6-xts-plain64", Feature::Cast6),
        ("aes-cbc-essiv:md5", Feature::OldHash),
        ("capi:cts(xts(aes))-plain64", Feature::CapiTemplate),
        ("aes-cts-plain64", Feature::OtherMode),
        ("chacha20-random", Feature::Authenticated),
        ("speck64-xts-plain64", Feature::OtherCipher),
        ("capi:cbc(essiv(aes))-plain64", Feature::CapiTemplate),
        ("capi:essiv(cbc(aes),sha256)-essiv:sha256", Feature::CapiTemplate),
    ] {
        assert_eq!(parse(spec), Err(SpecError::Unsupported { feature }), "{spec}");
    }
}

#[test]
fn bad_strings_are_refused_with_what_is_bad_about_them() {
    for (spec, error) in [
        ("", SpecError::Syntax),
        ("-", SpecError::Syntax),
        ("-xts-plain64", SpecError::Syntax),
        ("aes-", SpecError::Syntax),
        ("aes--plain64", SpecError::Syntax),
        ("aes-xts-", SpecError::Syntax),
        ("aes:x-cbc-plain", SpecError::Syntax),
        ("aes:3-cbc-plain", SpecError::KeyCount { count: 3 }),
        ("aes:0-cbc-plain", SpecError::KeyCount { count: 0 }),
        ("blowfish-xts-plain64", SpecError::Combination),
        ("capi:lrw(cast5)-benbi", SpecError::Combination),
        ("des3_ede-ctr-plain64", SpecError::Combination),
        ("xchacha12,aes-hctr2-plain64", SpecError::Combination),
        ("cast5-xex1-plain64", SpecError::Combination),
        ("blowfish-hctr2-plain64", SpecError::Combination),
        ("aes-hctr2-essiv:sha256", SpecError::IvLength { len: 32 }),
        ("aes-cbc-tcw:8", SpecError::UnexpectedIvOptions),
        ("cast5-cbc-essiv:sha256", SpecError::EssivHashLength { len: 32 }),
        ("aes-xts", SpecError::MissingIv),
        ("capi:xts(aes)", SpecError::MissingIv),
        ("capi:chacha20", SpecError::MissingIv),
        ("capi:xts-plain64", SpecError::Syntax),
        ("chacha20-xts-plain64", SpecError::Combination),
        ("aes-stream-plain64", SpecError::Combination),
        ("chacha20", SpecError::Combination),
        ("chacha20-stream-essiv:sha256", SpecError::IvLength { len: 8 }),
        ("chacha20-stream-null", SpecError::Keystream),
        ("capi:cts(cbc(blowfish))-plain64", SpecError::Unsupported { feature: Feature::CapiTemplate }),
        ("capi:cts(cbc(aes))", SpecError::MissingIv),
        ("capi:cts(cbc())-plain64", SpecError::Syntax),
        ("aes-cbc-essiv", SpecError::MissingHash),
        ("aes-cbc-essiv:", SpecError::MissingHash),
        ("aes-cbc-essiv:sha256x", SpecError::UnknownHash),
        ("aes-cbc-essiv:sha1", SpecError::EssivHashLength { len: 20 }),
        ("aes-cbc-essiv:sha512", SpecError::EssivHashLength { len: 64 }),
        ("camellia-cbc-essiv:wp384", SpecError::EssivHashLength { len: 48 }),
        ("aes-adiantum-plain64", SpecError::Combination),
        ("xchacha12,aes-xts-plain64", SpecError::Combination),
        ("xchacha12,aes", SpecError::Combination),
        ("xchacha12,aes,nhpoly1305-hpolyc-plain64", SpecError::Unsupported { feature: Feature::Adiantum }),
        ("cipher_null-adiantum-plain64", SpecError::Combination),
        ("capi:ecb(xchacha20,aes)", SpecError::Combination),
        ("xchacha12,aes-adiantum", SpecError::MissingIv),
        ("xchacha12,aes-adiantum-essiv:sha256", SpecError::IvLength { len: 32 }),
        ("xchacha12,aes-hpolyc-essiv:sha256", SpecError::IvLength { len: 12 }),
        ("capi:essiv(adiantum(xchacha12,aes),sha256)-plain64", SpecError::IvLength { len: 32 }),
        ("aes-xts-plain64:x", SpecError::UnexpectedIvOptions),
        ("aes-xts-plain64-x", SpecError::UnknownIv),
        ("aes-xtc-plain64", SpecError::UnknownMode),
        ("AES-xts-plain64", SpecError::UnknownCipher),
        ("a\u{e9}s-xts-plain64", SpecError::UnknownCipher),
        ("capi:", SpecError::Syntax),
        ("capi:xts", SpecError::Syntax),
        ("capi:xts(aes-plain64", SpecError::Syntax),
        ("capi:xts(aes)plain64", SpecError::Syntax),
        ("capi:(aes)-plain64", SpecError::Syntax),
        ("capi:xts()-plain64", SpecError::Syntax),
        ("capi:essiv(cbc(aes))-plain64", SpecError::MissingHash),
    ] {
        assert_eq!(parse(spec), Err(error), "{spec}");
        let text = error.to_string();
        assert!(!text.is_empty() && !text.ends_with('.'), "{text}");
    }
}

#[test]
fn what_is_there_for_old_volumes_only_says_so() {
    for spec in [
        "speck128-xts-plain64",
        "noekeon-xts-plain64",
        "capi:cbc(speck128)-plain64",
        "blowfish-cbc-plain64",
        "cast5-cbc-plain64",
        "des3_ede-cbc-plain64",
        "aes-ecb",
    ] {
        assert!(parse(spec).expect(spec).is_discouraged(), "{spec}");
    }
    for spec in ["aes-xts-plain64", "aes-cbc-essiv:sha256", "serpent-xts-plain64", "aes-hctr2-plain64"] {
        assert!(!parse(spec).expect(spec).is_discouraged(), "{spec}");
    }
}

#[test]
fn both_notations_of_essiv_encrypt_the_same() {
    let key: Vec<u8> = (0..32).collect();
    let run = |spec: &str| {
        let mapper = Mapper::new(&parse(spec).expect(spec), &key, &MapperOptions::default()).expect(spec);
        let mut data = [9; 1024];
        mapper.encrypt(DataUnitIndex(1 << 33), &mut data).expect("whole units");
        data
    };
    let classic = run("aes-cbc-essiv:sha256");
    assert_eq!(run("capi:cbc(aes)-essiv:sha256"), classic);
    assert_eq!(run("capi:essiv(cbc(aes),sha256)-plain64"), classic);
    assert_ne!(run("capi:essiv(cbc(aes),sha256)-plain"), classic);
}

#[test]
fn essiv_keys_the_cipher_with_the_hash_of_the_whole_key() {
    use aes::cipher::{BlockCipherEncrypt, KeyInit};
    use sha2::Digest;
    let key: Vec<u8> = (0..32).collect();
    for (name, salt) in [
        ("sha256", sha2::Sha256::digest(&key).to_vec()),
        ("wp256", whirlpool::Whirlpool::digest(&key)[..32].to_vec()),
        ("sha3-256", sha3::Sha3_256::digest(&key).to_vec()),
        ("rmd256", ripemd::Ripemd256::digest(&key).to_vec()),
        ("blake2s-256", blake2::Blake2s256::digest(&key).to_vec()),
    ] {
        let spec = parse(&format!("aes-cbc-essiv:{name}")).expect(name);
        let mapper = Mapper::new(&spec, &key, &MapperOptions::default()).expect(name);
        let mut data = [0; 512];
        mapper.encrypt(DataUnitIndex(5), &mut data).expect("whole units");
        let mut block = aes::Block::default();
        block[0] = 5;
        aes::Aes256::new_from_slice(&salt).expect("32 bytes").encrypt_block(&mut block);
        aes::Aes256::new_from_slice(&key).expect("32 bytes").encrypt_block(&mut block);
        assert_eq!(data[..16], block[..], "{name}");
    }
}
