//! Published vectors, on every backend. Each names its source.

use crate::recording::{Start, record};
use atrest_cipher::{BackendChoice, Cipher, CipherSpec, DataUnitIndex, Mapper, MapperOptions, Xts};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

/// One data unit, encrypted and decrypted by every backend, must be what is published.
fn check(name: &str, key: &str, number: u64, plain: &[u8], published: &[u8]) {
    let spec: CipherSpec = name.parse().expect(name);
    for backend in BackendChoice::detected() {
        let options = MapperOptions {
            data_unit: plain.len(),
            iv_offset: number,
            backend: Some(backend),
            ..MapperOptions::default()
        };
        let mapper = Mapper::new(&spec, &bytes(key), &options).expect("a good key");
        if backend == BackendChoice::portable() {
            record(name, &bytes(key), &options, Start::Unit(0), true, (plain, published));
            record(name, &bytes(key), &options, Start::Unit(0), false, (published, plain));
        }
        let mut data = plain.to_vec();
        mapper.encrypt(DataUnitIndex(0), &mut data).expect("a whole unit");
        assert_eq!(data, published, "{spec} on {}", mapper.backend_name());
        mapper.decrypt(DataUnitIndex(0), &mut data).expect("a whole unit");
        assert_eq!(data, plain, "{spec} on {}", mapper.backend_name());
    }
}

/// Source: IEEE 1619-2018, Annex B, vectors 1 (with equal halves, so not through a mapper for new data), 2 and 3.
#[test]
fn xts_aes_128_agrees_with_the_short_vectors_of_ieee_1619() {
    let options = MapperOptions { allow_equal_xts_halves: true, ..MapperOptions::default() };
    let xts = Xts::new(Cipher::Aes, &[0; 32], &options).expect("a good key");
    let mut data = [0; 32];
    xts.encrypt(&[0; 16], &mut data).expect("long enough");
    assert_eq!(data[..], bytes("917cf69ebd68b2ec9b9fe9a3eadda692cd43d2f59598ed858c02c2652fbf922e"));

    let spec = "aes-xts-plain64";
    let published = bytes("c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0");
    let key = "1111111111111111111111111111111122222222222222222222222222222222";
    check(spec, key, 0x33_3333_3333, &[0x44; 32], &published);
    let published = bytes("af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89");
    let key = "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f022222222222222222222222222222222";
    check(spec, key, 0x33_3333_3333, &[0x44; 32], &published);
}

fn counting() -> Vec<u8> {
    (0..512).map(|i| i as u8).collect()
}

/// Source: IEEE 1619-2018, Annex B, vector 4.
#[test]
fn xts_aes_128_agrees_with_ieee_1619_vector_4() {
    let published = bytes(
        "27a7479befa1d476489f308cd4cfa6e2a96e4bbe3208ff25287dd3819616e89c
        c78cf7f5e543445f8333d8fa7f56000005279fa5d8b5e4ad40e736ddb4d35412
        328063fd2aab53e5ea1e0a9f332500a5df9487d07a5c92cc512c8866c7e860ce
        93fdf166a24912b422976146ae20ce846bb7dc9ba94a767aaef20c0d61ad0265
        5ea92dc4c4e41a8952c651d33174be51a10c421110e6d81588ede82103a252d8
        a750e8768defffed9122810aaeb99f9172af82b604dc4b8e51bcb08235a6f434
        1332e4ca60482a4ba1a03b3e65008fc5da76b70bf1690db4eae29c5f1badd03c
        5ccf2a55d705ddcd86d449511ceb7ec30bf12b1fa35b913f9f747a8afd1b130e
        94bff94effd01a91735ca1726acd0b197c4e5b03393697e126826fb6bbde8ecc
        1e08298516e2c9ed03ff3c1b7860f6de76d4cecd94c8119855ef5297ca67e9f3
        e7ff72b1e99785ca0a7e7720c5b36dc6d72cac9574c8cbbc2f801e23e56fd344
        b07f22154beba0f08ce8891e643ed995c94d9a69c9f1b5f499027a78572aeebd
        74d20cc39881c213ee770b1010e4bea718846977ae119f7a023ab58cca0ad752
        afe656bb3c17256a9f6e9bf19fdd5a38fc82bbe872c5539edb609ef4f79c203e
        bb140f2e583cb2ad15b4aa5b655016a8449277dbd477ef2c8d6c017db738b18d
        eb4a427d1923ce3ff262735779a418f20a282df920147beabe421ee5319d0568",
    );
    let key = "2718281828459045235360287471352631415926535897932384626433832795";
    check("aes-xts-plain64", key, 0, &counting(), &published);
}

/// Source: IEEE 1619-2018, Annex B, vector 10.
#[test]
fn xts_aes_256_agrees_with_ieee_1619_vector_10() {
    let published = bytes(
        "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b
        5d31e276f8fe4a8d66b317f9ac683f44680a86ac35adfc3345befecb4bb188fd
        5776926c49a3095eb108fd1098baec70aaa66999a72a82f27d848b21d4a741b0
        c5cd4d5fff9dac89aeba122961d03a757123e9870f8acf1000020887891429ca
        2a3e7a7d7df7b10355165c8b9a6d0a7de8b062c4500dc4cd120c0f7418dae3d0
        b5781c34803fa75421c790dfe1de1834f280d7667b327f6c8cd7557e12ac3a0f
        93ec05c52e0493ef31a12d3d9260f79a289d6a379bc70c50841473d1a8cc81ec
        583e9645e07b8d9670655ba5bbcfecc6dc3966380ad8fecb17b6ba02469a020a
        84e18e8f84252070c13e9f1f289be54fbc481457778f616015e1327a02b140f1
        505eb309326d68378f8374595c849d84f4c333ec4423885143cb47bd71c5edae
        9be69a2ffeceb1bec9de244fbe15992b11b77c040f12bd8f6a975a44a0f90c29
        a9abc3d4d893927284c58754cce294529f8614dcd2aba991925fedc4ae74ffac
        6e333b93eb4aff0479da9a410e4450e0dd7ae4c6e2910900575da401fc07059f
        645e8b7e9bfdef33943054ff84011493c27b3429eaedb4ed5376441a77ed4385
        1ad77f16f541dfd269d50d6a5f14fb0aab1cbb4c1550be97f7ab4066193c4caa
        773dad38014bd2092fa755c824bb5e54c4f36ffda9fcea70b9c6e693e148c151",
    );
    let key = "2718281828459045235360287471352662497757247093699959574966967627
        3141592653589793238462643383279502884197169399375105820974944592";
    check("aes-xts-plain64", key, 0xff, &counting(), &published);
}

/// Source: IEEE 1619-2018, Annex B, vectors 15 to 18.
#[test]
fn xts_aes_128_steals_ciphertext_as_ieee_1619_does() {
    let key = bytes("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0");
    let tweak: [u8; 16] = bytes("9a785634120000000000000000000000").try_into().expect("16 bytes");
    for published in [
        "6c1625db4671522d3d7599601de7ca09ed",
        "d069444b7a7e0cab09e24447d24deb1fedbf",
        "e5df1351c0544ba1350b3363cd8ef4beedbf9d",
        "9d84c813f719aa2c7be3f66171c7c5c2edbf9dac",
    ] {
        let published = bytes(published);
        let plain: Vec<u8> = (0..published.len() as u8).collect();
        for backend in BackendChoice::detected() {
            let options = MapperOptions { backend: Some(backend), ..MapperOptions::default() };
            let xts = Xts::new(Cipher::Aes, &key, &options).expect("a good key");
            if backend == BackendChoice::portable() {
                record("aes", &key, &options, Start::Tweak(tweak), true, (&plain, &published));
                record("aes", &key, &options, Start::Tweak(tweak), false, (&published, &plain));
            }
            let mut data = plain.clone();
            xts.encrypt(&tweak, &mut data).expect("long enough");
            assert_eq!(data, published, "{}", xts.backend_name());
            xts.decrypt(&tweak, &mut data).expect("long enough");
            assert_eq!(data, plain, "{}", xts.backend_name());
        }
    }
}

const SP_800_38A_PLAIN: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
    30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
const SP_800_38A_KEYS: [&str; 3] = [
    "2b7e151628aed2a6abf7158809cf4f3c",
    "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
];

/// Source: NIST SP 800-38A, F.1.
#[test]
fn ecb_agrees_with_nist_sp_800_38a() {
    let published = [
        "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf
        43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4",
        "bd334f1d6e45f25ff712a214571fa5cc974104846d0ad3ad7734ecb3ecee4eef
        ef7afd2270e2e60adce0ba2face6444e9a4b41ba738d6c72fb16691603c18e0e",
        "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870
        b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
    ];
    for (key, published) in SP_800_38A_KEYS.iter().zip(published) {
        check("aes-ecb", key, 0, &bytes(SP_800_38A_PLAIN), &bytes(published));
    }
}

/// Source: NIST SP 800-38A, F.2. Its IV 00010203…0f is no dm-crypt IV, so it goes into the first block: with a zero IV,
/// the plaintext's first block xor the IV gives the same ciphertext.
#[test]
fn cbc_agrees_with_nist_sp_800_38a() {
    let published = [
        "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2
        73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
        "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a
        571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d
        39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
    ];
    let mut plain = bytes(SP_800_38A_PLAIN);
    for (i, byte) in plain.iter_mut().take(16).enumerate() {
        *byte ^= i as u8;
    }
    for (key, published) in SP_800_38A_KEYS.iter().zip(published) {
        check("aes-cbc-null", key, 0, &plain, &bytes(published));
    }
}

/// Source: IEEE P1619 draft (2004), LRW-32-AES 1 to 7; the index is the IV, big-endian.
#[test]
fn lrw_agrees_with_the_ieee_p1619_draft() {
    for (key, index, published) in [
        (
            "4562ac25f828176d4c268414b5680185258e2a05e73e9d03ee5a830ccc094c87",
            1,
            "f1b273cd65a3df5fe95d489254634eb8",
        ),
        (
            "59704714f557478cd779e80f548879440d48f0b7b15a53ea1caa6b29c2cafbaf",
            2,
            "00c82bae95bbcde5274f0769b260e136",
        ),
        (
            "d82a9134b26a565030fe69e2377f9847cdf90b160c648fb6b00d0d1bae85871f",
            2 << 32,
            "76322183ed8ff182f9596203690e5e01",
        ),
        (
            "0f6aeff8d3d2bb152583f73c1f012874cac6bc354d4a655490ae61cf7baebdccade494c54a29ae70",
            1,
            "9c0f152f55a2d8f0d67b8f9e2822bc41",
        ),
        (
            "8ad4ee102fbd81fff886ceac93c5adc6a01907c09df7bbdd5213b2b7f0ff11d8d608d0cd2eb1176f",
            2 << 32,
            "d4276a7f14913d65c860480287e33406",
        ),
        (
            "f8d476ffd646ee6c2384cb1c77d6195dfef1a9f37bbc8d21a79c21f8cb900289
            a845348ec8c5b5f126f50e76fefd1b1e",
            1,
            "bd06b8e1db98899ec498e491cf1c702b",
        ),
        (
            "fb7615b23d80891dd470980bc79584c8b2fb64ce6097878d17fce45a49e830b7
            6e7817e72d5e12d46064047af12f9e0c",
            2 << 32,
            "5b908ec1abdd675f3d698a9553c89ce5",
        ),
    ] {
        check("aes-lrw-plain64be", key, index, b"0123456789ABCDEF", &bytes(published));
    }
}

/// Sources: RFC 3713, Appendix A, for Camellia; the Twofish submission's `ecb_ival.txt`, first vector of each key
/// length; the Linux kernel's `crypto/testmgr.h` for Serpent, which also fixes the byte order that dm-crypt uses.
#[test]
fn the_other_ciphers_agree_with_their_publications() {
    let plain = bytes("0123456789abcdeffedcba9876543210");
    let key = "0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff";
    for (key, published) in [
        (&key[..32], "67673138549669730857065648eabe43"),
        (&key[..48], "b4993401b3e996f84ee5cee7d79b09b9"),
        (key, "9acc237dff16d76c20ef7c919e3a7509"),
    ] {
        check("camellia-ecb", key, 0, &plain, &bytes(published));
    }
    for (key_len, published) in [
        (16, "9f589f5cf6122c32b6bfec2f2ae8c35a"),
        (24, "efa71f788965bd4453f860178fc19101"),
        (32, "57ff739d4dc92c1bd7fc01700cc8216f"),
    ] {
        check("twofish-ecb", &"00".repeat(key_len), 0, &[0; 16], &bytes(published));
    }
    let counting = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    for (key, published) in [
        (&counting[..32], "4c7d8a328072a22c823e4a1f3acda16d"),
        (counting, "de269ff833e432b85b2e88d2701ce75c"),
    ] {
        check("serpent-ecb", key, 0, &bytes(&counting[..32]), &bytes(published));
    }
}

/// Source: RFC 7801, section 5.5; the round keys of section 5.4 are seen in it, too.
#[test]
fn kuznyechik_agrees_with_rfc_7801() {
    let key = "8899aabbccddeeff0011223344556677fedcba98765432100123456789abcdef";
    let plain = bytes("1122334455667700ffeeddccbbaa9988");
    check("kuznyechik-ecb", key, 0, &plain, &bytes("7f679d90bebc24305a468d42b9d4edcd"));
}

/// Sources: ePrint 2013/404, appendix C, whose words the kernel writes little-endian (`crypto/testmgr.h` of Linux 4.18 has
/// the same bytes); `NoekeonDirectRef.c` of the NOEKEON submission to NESSIE.
#[test]
fn the_ciphers_that_are_not_recommended_agree_with_their_publications() {
    let counting = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    for (key, plain, published) in [
        (&counting[..32], &b" made it equival"[..], "180d575cdffe60786532787951985da6"),
        (&counting[..48], b"ent to Chief Har", "86183ce05d18bcf9665513133acfe41b"),
        (counting, b"pooner. In those", "438f189c8db4ee4e3ef5c00504010941"),
    ] {
        check("speck128-ecb", key, 0, plain, &bytes(published));
    }
    for (key, plain, published) in [
        ("00".repeat(16), "00".repeat(16), "b1656851699e29fa24b70148503d2dfc"),
        ("ff".repeat(16), "ff".repeat(16), "2a78421b87c7d0924f26113f1d1349b2"),
        (
            "b1656851699e29fa24b70148503d2dfc".into(),
            "2a78421b87c7d0924f26113f1d1349b2".into(),
            "e2f687e07b75660ffc372233bc47532c",
        ),
    ] {
        check("noekeon-ecb", &key, 0, &bytes(&plain), &bytes(published));
    }
}

/// Sources: B. Schneier's Blowfish vectors (`vectors.txt`); RFC 2144, B.1; NIST SP 800-67, the first two blocks of
/// Appendix B.
#[test]
fn the_ciphers_with_short_blocks_agree_with_their_publications() {
    let twice = |hex: &str| bytes(&hex.repeat(2));
    for (spec, key, plain, published) in [
        ("blowfish-ecb", "0123456789abcdef", "1111111111111111", "61f9c3802281b096"),
        ("cast5-ecb", "0123456712345678234567893456789a", "0123456789abcdef", "238b4fe5847e44b2"),
        ("cast5-ecb", "01234567123456782345", "0123456789abcdef", "eb6a711a2c02271b"),
        ("cast5-ecb", "0123456712", "0123456789abcdef", "7ac816d16e9b302e"),
    ] {
        check(spec, key, 0, &twice(plain), &twice(published));
    }
    let key = "0123456789abcdef23456789abcdef01456789abcdef0123";
    let published = bytes("a826fd8ce53b855fcce21c8112256fe6");
    check("des3_ede-ecb", key, 0, b"The qufck brown ", &published);
}
