//! Derived keys and digests agree with published vectors and with independent implementations.

use atrest_kdf::plain::{PlainHash, PlainHashError};
use atrest_kdf::{
    Argon2Cost, Argon2Kind, CostParameter, Hash, KdfError, ScryptCost, argon2, digest, pbkdf2, scrypt,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn derived(hash: &str, passphrase: &[u8], salt: &[u8], iterations: u32, len: usize) -> String {
    let mut out = vec![0; len];
    pbkdf2(Hash::from_name(hash).expect("a known hash"), passphrase, salt, iterations, &mut out)
        .expect("valid inputs");
    hex(&out)
}

/// RFC 6070, all vectors but the one of 16777216 iterations.
#[test]
fn pbkdf2_sha1_agrees_with_rfc_6070() {
    assert_eq!(derived("sha1", b"password", b"salt", 1, 20), "0c60c80f961f0e71f3a9b524af6012062fe037a6");
    assert_eq!(derived("sha1", b"password", b"salt", 2, 20), "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957");
    assert_eq!(derived("sha1", b"password", b"salt", 4096, 20), "4b007901b765489abead49d926f721d065a429c1");
    assert_eq!(
        derived("sha1", b"passwordPASSWORDpassword", b"saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096, 25),
        "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038"
    );
    assert_eq!(derived("sha1", b"pass\0word", b"sa\0lt", 4096, 16), "56fa6aa75548099dcc37d7f03425e0c3");
}

/// RFC 7914, section 11.
#[test]
fn pbkdf2_sha256_agrees_with_rfc_7914() {
    assert_eq!(
        derived("sha256", b"passwd", b"salt", 1, 64),
        "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
         49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"
    );
    assert_eq!(
        derived("sha256", b"Password", b"NaCl", 80000, 64),
        "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56\
         a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d"
    );
}

/// RFC 7914, section 12, all vectors but the one that takes 1 GiB.
#[test]
fn scrypt_agrees_with_rfc_7914() {
    let derived = |passphrase: &[u8], salt: &[u8], log_n, r, p| {
        let mut out = [0; 64];
        scrypt(&ScryptCost { log_n, r, p }, passphrase, salt, &mut out).expect("valid inputs");
        hex(&out)
    };
    assert_eq!(
        derived(b"", b"", 4, 1, 1),
        "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442\
         fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906"
    );
    assert_eq!(
        derived(b"password", b"NaCl", 10, 8, 16),
        "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162\
         2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"
    );
    assert_eq!(
        derived(b"pleaseletmein", b"SodiumChloride", 14, 8, 1),
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2\
         d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    );
}

/// The test program of the reference implementation (phc-winner-argon2, src/test.c), version 0x13. RFC 9106's own
/// vectors take a secret and associated data, which no format here uses.
#[test]
fn argon2_agrees_with_its_reference_implementation() {
    let derived = |kind, time, memory_kib, lanes, passphrase: &[u8], salt: &[u8]| {
        let mut out = [0; 32];
        argon2(&Argon2Cost { kind, time, memory_kib, lanes }, passphrase, salt, &mut out)
            .expect("valid inputs");
        hex(&out)
    };
    let (i, id) = (Argon2Kind::I, Argon2Kind::Id);
    for (kind, time, memory, lanes, passphrase, expected) in [
        (i, 2, 65536, 1, "password", "c1628832147d9720c5bd1cfd61367078729f6dfb6f8fea9ff98158e0d7816ed0"),
        (i, 2, 256, 1, "password", "89e9029f4637b295beb027056a7336c414fadd43f6b208645281cb214a56452f"),
        (i, 2, 256, 2, "password", "4ff5ce2769a1d7f4c8a491df09d41a9fbe90e5eb02155a13e4c01e20cd4eab61"),
        (id, 2, 65536, 1, "password", "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7"),
        (id, 2, 256, 1, "password", "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe"),
        (id, 2, 256, 2, "password", "6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037"),
        (
            id,
            2,
            65536,
            1,
            "differentpassword",
            "0b84d652cf6b0c4beaef0dfe278ba6a80df6696281d7e0d2891b817d8c458fde",
        ),
    ] {
        let what = format!("{kind:?} t={time} m={memory} p={lanes} {passphrase}");
        assert_eq!(
            derived(kind, time, memory, lanes, passphrase.as_bytes(), b"somesalt"),
            expected,
            "{what}"
        );
    }
}

#[test]
fn costs_of_a_hostile_header_are_refused_by_name() {
    let base = Argon2Cost { kind: Argon2Kind::Id, time: 4, memory_kib: 1024, lanes: 1 };
    let refused = |cost: Argon2Cost| match argon2(&cost, b"", b"12345678", &mut [0; 32]) {
        Err(KdfError::CostOutOfRange { parameter, .. }) => parameter,
        other => panic!("{cost:?}: {other:?}"),
    };
    assert_eq!(refused(Argon2Cost { memory_kib: u32::MAX, ..base }), CostParameter::MemoryKib);
    assert_eq!(refused(Argon2Cost { memory_kib: 7, ..base }), CostParameter::MemoryKib);
    assert_eq!(refused(Argon2Cost { memory_kib: 31, lanes: 4, ..base }), CostParameter::MemoryKib);
    assert_eq!(refused(Argon2Cost { lanes: 0, ..base }), CostParameter::Lanes);
    assert_eq!(refused(Argon2Cost { lanes: u32::MAX, ..base }), CostParameter::Lanes);
    assert_eq!(refused(Argon2Cost { time: 0, ..base }), CostParameter::Time);
    assert_eq!(refused(Argon2Cost { time: u32::MAX, memory_kib: 4 << 20, ..base }), CostParameter::Work);

    let scrypt_refused =
        |log_n, r, p| scrypt(&ScryptCost { log_n, r, p }, b"", b"", &mut [0; 32]).expect_err("refused");
    for (log_n, r, p) in [(0, 8, 1), (255, 8, 1), (31, 8, 1), (10, 0, 1), (10, u32::MAX, 1), (10, 8, 0)] {
        assert!(
            matches!(scrypt_refused(log_n, r, p), KdfError::CostOutOfRange { .. }),
            "log_n={log_n} r={r} p={p}"
        );
    }
    let too_large = scrypt_refused(31, 8, 1);
    let is_memory = matches!(too_large, KdfError::CostOutOfRange { parameter: CostParameter::MemoryBytes, value, .. } if value > 1 << 41);
    assert!(is_memory, "{too_large:?}");
    assert!(too_large.to_string().contains("the scrypt memory (bytes) is"), "{too_large}");
}

#[test]
fn inputs_that_the_functions_do_not_define_are_errors() {
    assert_eq!(pbkdf2(Hash::Sha256, b"", b"", 0, &mut [0; 32]), Err(KdfError::NoIterations));
    assert_eq!(pbkdf2(Hash::Sha256, b"", b"", 1, &mut []), Err(KdfError::OutputLen { len: 0 }));
    let cost = Argon2Cost { kind: Argon2Kind::Id, time: 1, memory_kib: 8, lanes: 1 };
    assert_eq!(argon2(&cost, b"", b"12345678", &mut [0; 3]), Err(KdfError::OutputLen { len: 3 }));
    assert_eq!(argon2(&cost, b"", b"1234567", &mut [0; 32]), Err(KdfError::SaltTooShort { len: 7, min: 8 }));
    assert!(scrypt(&ScryptCost { log_n: 4, r: 1, p: 1 }, b"", b"", &mut []).is_err());
}

#[test]
fn a_digest_is_cut_to_a_short_buffer_and_never_overruns_a_long_one() {
    let mut long = [0xee; 40];
    assert_eq!(digest(Hash::Sha1, &[b"a", b"", b"bc"], &mut long), 20);
    assert_eq!(hex(&long[..20]), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert!(long[20..].iter().all(|&byte| byte == 0xee));
    let mut short = [0; 4];
    assert_eq!(digest(Hash::Sha1, &[b"abc"], &mut short), 4);
    assert_eq!(hex(&short), "a9993e36");
}

#[test]
fn names_are_found_in_any_case_and_by_the_kernels_aliases() {
    for hash in Hash::ALL {
        assert_eq!(Hash::from_name(hash.name()), Some(hash));
        assert_eq!(Hash::from_name(&hash.name().to_uppercase()), Some(hash));
    }
    assert_eq!(Hash::from_name("rmd160"), Some(Hash::Ripemd160));
    assert_eq!(Hash::from_name("wp512"), Some(Hash::Whirlpool));
    assert_eq!(Hash::from_name("sha256 "), None);
    assert_eq!(Hash::from_name(""), None);
}

/// Computed by libcryptsetup 2.6.1 itself: `crypt_format` of type PLAIN, then `crypt_volume_key_get`.
#[test]
fn plain_mode_keys_agree_with_libcryptsetup() {
    for (rule, passphrase, len, expected) in [
        (
            "ripemd160",
            "correct horse",
            32,
            "424573ebba1ce1abc618a416178f79ad83442dfccd852f665c5536c935adea5c",
        ),
        (
            "sha256",
            "correct horse",
            64,
            "4104d36f8da2c254349f85836793ebe029e0c957063a34c91c2e9203187b5631\
             c51aefc7f409f4df0888cd78c638b969db451fa1e040e06e2a9ed77f2ae083d5",
        ),
        (
            "sha256:16",
            "correct horse",
            32,
            "4104d36f8da2c254349f85836793ebe000000000000000000000000000000000",
        ),
        (
            "sha1",
            "x",
            64,
            "11f6ad8ec52a2984abaafd7c3b516503785c2072fbbaa352087076804841c999\
             d4ac493a4734fd3b6f22995eb25f53b6b9d4c9ed81dc92e23adf90efb5fe73e5",
        ),
        ("plain", "abcdefgh", 12, "616263646566676800000000"),
        ("plain", "abcdefgh", 4, "61626364"),
        ("plain:4", "abcdefgh", 8, "6162636400000000"),
    ] {
        let mut key = vec![0xff; len];
        rule.parse::<PlainHash>().expect("a known rule").derive(passphrase.as_bytes(), &mut key).expect(rule);
        assert_eq!(hex(&key), expected, "{rule}");
    }
}

#[test]
fn plain_mode_rules_that_make_weak_or_undefined_keys_are_refused() {
    let parse = |text: &str| text.parse::<PlainHash>();
    assert_eq!(parse("md4"), Err(PlainHashError::UnknownHash));
    assert_eq!(parse("sha256:"), Err(PlainHashError::BadLength));
    assert_eq!(parse("sha256:x"), Err(PlainHashError::BadLength));
    // cryptsetup takes this one and makes a key of zeros.
    assert_eq!(parse("sha256:0"), Err(PlainHashError::BadLength));
    let too_long = parse("sha512:40").expect("parses").derive(b"abc", &mut [0; 32]);
    assert_eq!(too_long, Err(PlainHashError::LongerThanKey { hash: 40, key: 32 }));
    let too_short = parse("plain:12").expect("parses").derive(b"abcdefgh", &mut [0; 32]);
    assert_eq!(too_short, Err(PlainHashError::PassphraseTooShort { len: 8, needs: 12 }));
    for text in ["sha256:16", "plain", "plain:4", "ripemd160"] {
        assert_eq!(parse(text).expect(text).to_string(), text);
    }
}

/// A passphrase longer than every HMAC block, so that it is hashed first.
const LONG: &str = "a passphrase that is longer than every hash's block, \
    a passphrase that is longer than every hash's block, \
    a passphrase that is longer than every hash's block, \
    a passphrase that is longer than every hash's block, ";

/// Digests of `abc`; PBKDF2 of (`password`, `salt`, 25 iterations, 77 bytes: a run of several blocks whose last one
/// is cut) and of (`LONG`, `NaCl`, 3 iterations, 20 bytes).
struct Vector {
    hash: &'static str,
    abc: &'static str,
    short: &'static str,
    long: &'static str,
}

#[test]
fn every_hash_agrees_with_independent_implementations() {
    assert_eq!(VECTORS.len(), Hash::ALL.len());
    for vector in &VECTORS {
        let hash = Hash::from_name(vector.hash).expect(vector.hash);
        let mut out = vec![0; hash.output_len()];
        assert_eq!(digest(hash, &[b"abc"], &mut out), out.len());
        assert_eq!(hex(&out), vector.abc, "{hash}");
        assert_eq!(derived(vector.hash, b"password", b"salt", 25, 77), vector.short, "{hash}");
        assert_eq!(derived(vector.hash, LONG.as_bytes(), b"NaCl", 3, 20), vector.long, "{hash}");
    }
}

/// Computed by CPython's hashlib and hmac (OpenSSL 3.0 underneath, BLAKE2 by its reference code) with PBKDF2 spelled
/// out over them, Whirlpool by `openssl kdf` and `openssl dgst`, Streebog by libgcrypt 1.10.
#[rustfmt::skip]
const VECTORS: [Vector; 20] = [
    Vector {
        hash: "sha1",
        abc: "a9993e364706816aba3e25717850c26c9cd0d89d",
        short: "9979c7cf7da5fc3f136f6642125f454b45806e32583489ef9262162a9aceed57279a65e5d547db919404f1321afb9920923a95892cf9264600bd81cf90cc623259087a1e8c007a5e6f3d1e5d17",
        long: "b22fe505333a512a32902aae62162b87ebd2fee7",
    },
    Vector {
        hash: "sha224",
        abc: "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        short: "c11e9087291371bf943dd76e1e7bbd98f94d790b3661d6d57e4fbb1cca0cc687cf8828907fa164921e1049bbb2bac0cc42525e5be38f1272cda4ac6737f9fd147d8cd4b7cc9b1e715517662fca",
        long: "4885c03e2fceb0aef86e1646014ed5c7e9e222b0",
    },
    Vector {
        hash: "sha256",
        abc: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        short: "4566fffd388dd05d05da674bffa3d70568898e95070a8b19d85bc88d96168473917c2a70eb7f4346abb360109a3dcd4cbf2b45baede5c4fa0f41e4390b80997208bd800fde4a7cd45a4515ff87",
        long: "1b4a1e2529233fdb3386fe0713f71704f2ffb293",
    },
    Vector {
        hash: "sha384",
        abc: "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
        short: "76bb93af7f35cf6037443e3e59cb32fdef9e91755bfed11ee940224fc745a387a8c81d756729bfcf18fb13ebebe5a3193f694193a681809dc46be8c738dcd3c9a7c9eb3ac3f481c3008e503c55",
        long: "a6525a4d1116ebd149dd6ca6b876ade07ae2843f",
    },
    Vector {
        hash: "sha512",
        abc: "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        short: "24eea352c75ec202724d7f3d658c2d91879c9545283b6832c342137c2082107c0f9cea81d6d323199666d941389205b6ba36d5adf1b45167a63d6ea54dd721be01943b41da9abb00a7a0b08cb0",
        long: "3b19cd80db9d27ba23cfac3e35b46bbe50a4f19a",
    },
    Vector {
        hash: "sha3-224",
        abc: "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
        short: "00b680e115e5bd09bb85da2af428ed4af24599e597a2433adf2c0dfd28467fcf72ed8ca152458247a4d9a954ad4c74896d27d13ec7f05f6583a96657470acecd70bb9b3e72d689be9f086b3cb9",
        long: "ea81e9bbf6433c348b8702d09784d479bc8121b8",
    },
    Vector {
        hash: "sha3-256",
        abc: "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
        short: "2c1a319a871d0f2424b3866896ce16c0ccc242d1d701c5d79223eccdef2cb8d11f1a554118f0e263703600f5fc64a5ff59844e0a24556743f2d2d9f0e8cf2d16d5b222e557a5af35c869cf1323",
        long: "15155e60904c9017306470deebeca17812cb42a3",
    },
    Vector {
        hash: "sha3-384",
        abc: "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
        short: "90aca5d457081081268c3eb813127a51a30bf549831c9b8d05ced966085185d462f11f7dcb0af84b1ad57014d102a286556617dc6233a8ff3ebcfb822fe7c53f19917de089d8c35f6e1f7b50ef",
        long: "5d1bac4e7fb08524efb5676b9a485d12905f7f3d",
    },
    Vector {
        hash: "sha3-512",
        abc: "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
        short: "6ce058ad52aa910c00bff978965542120b3c473cca8f8364509996bdd76129c82d3a3307336a3552eb6fce6d81830ffe76f5db62c7e05b790cbc839e090a0dcc672cbe8bfe94dd6b71df3e27c6",
        long: "572b5f02d4a38faee08368d59019e26856e7eab1",
    },
    Vector {
        hash: "ripemd160",
        abc: "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc",
        short: "12246c1fb34fe5b15ae4a36ab9274df2a7cba56cbaf83d4f475ecf50c7d5dec18596e9fb127a582826b25c984cbf87216e374f6a369688f84cafb7c0ea30e544bcbf1e8ebb47bcc453f416cb54",
        long: "e4d60194d1383c229bba3b184ab50f9428b796aa",
    },
    Vector {
        hash: "whirlpool",
        abc: "4e2448a4c6f486bb16b6562c73b4020bf3043e3a731bce721ae1b303d97e6d4c7181eebdb6c57e277d0e34957114cbd6c797fc9d95d8b582d225292076d4eef5",
        short: "3bc4f25e76e9bd51beaebe060306b63d6b595e3c6deabd38adc172e817513f320b1983351cf1dbd201d7305d6f27c0c14c0fe9fabc5391d61f5348448c15a9113eb68c1da29a463eea00d6b820",
        long: "37dcffabc45c9fc60c610de03a21439e5cbb2165",
    },
    Vector {
        hash: "stribog512",
        abc: "28156e28317da7c98f4fe2bed6b542d0dab85bb224445fcedaf75d46e26d7eb8d5997f3e0915dd6b7f0aab08d9c8beb0d8c64bae2ab8b3c8c6bc53b3bf0db728",
        short: "769bc739d13e143468b61f424cbc93e4eb329ea41cafae8b8d412a2795d5c896df828186fc632a5a84f253c31327466b0d78c4cade5b651d5ecc31f1fdd58f2295083759178416d8a54b26a668",
        long: "795de8b8a7137c096f283ee127d7991f0839faa5",
    },
    Vector {
        hash: "blake2b-160",
        abc: "384264f676f39536840523f284921cdc68b6846b",
        short: "ec5f0ed87a32ac37d7734553d48050834a0a68df6695c901e44216085c89592fc39f0be9c3c5207f610040c1166a8c44301d175630385346f437727a8af41c1639e0e9dcfe087cc5691cd434a0",
        long: "56711b1842ed147702618f8f1fcab34768297e41",
    },
    Vector {
        hash: "blake2b-256",
        abc: "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
        short: "7e85d45f08de4f7837941d0cf7b8957146e5032bea082dd98932aa7f41788f2cd721dd5c6f3a734a9116f732d8a231695288bf87326e602bf8ab18b207a2bc83bad9ab855bad8dc22bf48b0158",
        long: "0da3377810ba55da8b652a8ccfd27c7bb2c404b7",
    },
    Vector {
        hash: "blake2b-384",
        abc: "6f56a82c8e7ef526dfe182eb5212f7db9df1317e57815dbda46083fc30f54ee6c66ba83be64b302d7cba6ce15bb556f4",
        short: "34ffdefd2b9be98dd4dc9aa4c6bccceb73713524f2b86fb2872d0b8808d85d0b842c7545a623a228ee9cebff696ccc93340a4fe7ad848fc827579afaac0cc32d52e3948c479e211eb082e4ca9f",
        long: "54fdbc66290804200e9d7a3a12a27a9b3342694f",
    },
    Vector {
        hash: "blake2b-512",
        abc: "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
        short: "eb5347bcc25bce1a0573ee570d23f6f09fb67cbd1fa77e108a2ccd765373712f17fdc6f30a034922007dd4b5e56d39fb3ba7c2946e41965768cb38c300b81536e12a54f761b4149fabd88b5bc3",
        long: "9d659a3033643bf7b2d9e2cfdebf468eab692114",
    },
    Vector {
        hash: "blake2s-128",
        abc: "aa4938119b1dc7b87cbad0ffd200d0ae",
        short: "59033a664948434685e4b01fe8ba726b3c28a71c307a043b5101a9dbf4ecb2758c82d2685371f7a8330efa99b8724a0011b3810a895502f40f2735d3f2c88199e7e7824cf798f37d6b784cabfc",
        long: "92267e9fbe1092f3ee447180c04e49f8ab7c6259",
    },
    Vector {
        hash: "blake2s-160",
        abc: "5ae3b99be29b01834c3b508521ede60438f8de17",
        short: "e203722d57ae9517653fc9eff9bf3275494008e699117234c49a8c217f7c7af278d93243dac325d0ff1d5448cf94d313848c9c76cd42f7ae0b78d4dd37da9143e5008c5a038ba036fc197847af",
        long: "86508fb4fe7b7b24023103af6112b2cbf4535d77",
    },
    Vector {
        hash: "blake2s-224",
        abc: "0b033fc226df7abde29f67a05d3dc62cf271ef3dfea4d387407fbd55",
        short: "a56cda63b075e54f890a3886f4b13c29dbbda877d887d834917750b5312fa25b28122eab18beada4d7da1551f439066c02f869c3e84696196b76f2a3121b212e038da66162e602515707d5fe9a",
        long: "94ce50914018aa46a44c3fac4176e29e8d925187",
    },
    Vector {
        hash: "blake2s-256",
        abc: "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982",
        short: "a1e2612324a04c6783284b105d09efcde8cb53641835df14776d38b3dae77614a06ece28b0d60b234251e2fe6018d436a3d4da84876b316b9190aee7855c61d75da74e7154b5bd366336de7a39",
        long: "8ff5cce6c94b7663a4dc5697a86e204cd23cf301",
    },
];
