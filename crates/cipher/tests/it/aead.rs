//! The AEADs against published vectors, and what comes of forgeries.
#![cfg(feature = "aead")]

use atrest_cipher::aead::{
    Aead, Aes128Ccm, Aes128CcmTag96, Aes128Gcm, Aes128GcmTag96, Aes256Ccm, Aes256CcmTag96, Aes256Gcm,
    Aes256GcmTag96, AsconAead128, ChaCha20Poly1305, OpenError, SealError,
};
use atrest_cipher::{AesGcm, BackendChoice, EngineCcm, KeyError, SoftwareAes};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

/// Sealing gives `published`, which is ciphertext and tag, and opening gives the plaintext back; with anything changed it
/// gives zeros.
fn check<A: Aead>(key: &[u8], nonce: &[u8], associated: &[u8], plain: &[u8], published: &[u8]) {
    assert_eq!((key.len(), nonce.len()), (A::KEY_LEN, A::NONCE_LEN), "{}", A::NAME);
    let (ciphertext, published_tag) = published.split_at(plain.len());
    let cipher = A::new(key).expect("a good key");
    let of = |bytes: &[u8]| {
        let mut nonce = A::Nonce::default();
        nonce.as_mut().copy_from_slice(bytes);
        nonce
    };
    let tag_of = |bytes: &[u8]| A::Tag::try_from(bytes).ok().expect("a tag");
    let mut data = plain.to_vec();
    let tag = cipher.seal(&of(nonce), associated, &mut data).expect("not too long");
    assert_eq!(data, ciphertext, "{}", A::NAME);
    assert_eq!(tag.as_ref(), published_tag, "{}", A::NAME);
    cipher.open(&of(nonce), associated, &mut data, &tag).expect("the tag fits");
    assert_eq!(data, plain, "{}", A::NAME);

    let refused = |nonce: &[u8], associated: &[u8], ciphertext: &[u8], tag: &[u8]| {
        let mut data = ciphertext.to_vec();
        let opened = cipher.open(&of(nonce), associated, &mut data, &tag_of(tag));
        assert_eq!(opened, Err(OpenError::Forged), "{}", A::NAME);
        assert!(data.iter().all(|byte| *byte == 0), "{} leaves something of what was forged", A::NAME);
    };
    let flips = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let flipped = |bit: usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        (0..bytes.len() * 8).map(flipped).collect()
    };
    flips(published_tag).iter().for_each(|tag| refused(nonce, associated, ciphertext, tag));
    flips(nonce).iter().for_each(|nonce| refused(nonce, associated, ciphertext, published_tag));
    flips(associated).iter().for_each(|associated| refused(nonce, associated, ciphertext, published_tag));
    flips(ciphertext).iter().for_each(|ciphertext| refused(nonce, associated, ciphertext, published_tag));
    if let Some((_, shorter)) = ciphertext.split_last().map(|(last, rest)| (last, rest.to_vec())) {
        refused(nonce, associated, &shorter, published_tag);
    }
    for len in (0..40).filter(|len| *len != A::KEY_LEN) {
        assert_eq!(A::new(&vec![1; len]).err(), Some(KeyError::Length { len }), "{}", A::NAME);
    }
    let mut wrong_key = key.to_vec();
    wrong_key[0] ^= 1;
    let other = A::new(&wrong_key).expect("a good key");
    let mut data = ciphertext.to_vec();
    assert_eq!(other.open(&of(nonce), associated, &mut data, &tag), Err(OpenError::Forged));
}

/// Source: the known answers of the designers' implementation of SP 800-232 (ascon-c, `LWC_AEAD_KAT_128_128.txt`), counts
/// 1, 2, 5, 33, 68, 69, 153 and 1057; key and nonce are 00 01 … 0f.
#[test]
fn ascon_agrees_with_its_designers_known_answers() {
    let counting = |len: u8| -> Vec<u8> { (0..len).collect() };
    let key = counting(16);
    for (plain, associated, published) in [
        (0, 0, "4427D64B8E1E1451FC445960F0839BB0"),
        (0, 1, "103AB79D913A0321287715A979BB8585"),
        (0, 4, "C6FF3CF70575B144B955820D9BC7685E"),
        (0, 32, "22133A313FBF0B38029A45870AADC542"),
        (2, 1, "25FB41D2732019820A0F8BAB4248B35E7B0B"),
        (2, 2, "49E57017A30E8073D1FA284AC8346110F89F"),
        (4, 20, "C305EB0E9A9A7833C5F6FB36BD82F1C78C322678"),
        (
            32,
            0,
            "E770D289D2A44AEE7CD0A48ECE5274E381BAD7E163DCC4970F7873610DEBBEB1A28657F6E82FE53D08B09EFF9330BD2B",
        ),
    ] {
        check::<AsconAead128>(&key, &key, &counting(associated), &counting(plain), &bytes(published));
    }
}

/// Source: an independent implementation, the crate `ascon-aead128`, at all lengths around the borders of blocks.
#[test]
fn ascon_agrees_with_another_implementation_at_every_length() {
    use ascon_aead128::aead::{AeadInOut, KeyInit};

    let some = |seed: usize, len: usize| -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(167) ^ seed.wrapping_mul(91) ^ ((i * i) >> 3)) as u8).collect()
    };
    for len in (0..=70).chain([127, 128, 129, 424]) {
        for associated in [0, 1, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33] {
            let (key, nonce) = (some(len, 16), some(associated + 100, 16));
            let (plain, associated) = (some(len + 3, len), some(associated, associated));
            let library = ascon_aead128::AsconAead128::new_from_slice(&key).expect("a key");
            let mut published = plain.clone();
            let nonce_of = nonce.as_slice().try_into().expect("a nonce");
            let tag = library.encrypt_inout_detached(nonce_of, &associated, published.as_mut_slice().into());
            published.extend_from_slice(&tag.expect("not too long"));
            check::<AsconAead128>(&key, &nonce, &associated, &plain, &published);
        }
    }
}

/// Source: RFC 8439, 2.8.2.
#[test]
fn chacha20_poly1305_agrees_with_rfc_8439() {
    let key: Vec<u8> = (0x80..0xa0).collect();
    let plain = b"Ladies and Gentlemen of the class of '99: \
        If I could offer you only one tip for the future, sunscreen would be it.";
    let published = bytes(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b
        1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
        3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
    );
    let (nonce, associated) = (bytes("070000004041424344454647"), bytes("50515253c0c1c2c3c4c5c6c7"));
    check::<ChaCha20Poly1305>(&key, &nonce, &associated, plain, &published);
}

/// Source: McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 4 and 16. A shorter tag is the start of the
/// long one (SP 800-38D, 7.1).
#[test]
fn gcm_agrees_with_its_submission() {
    let (key, nonce) = (bytes("feffe9928665731c6d6a8f9467308308"), bytes("cafebabefacedbaddecaf888"));
    let associated = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    let plain = bytes(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    );
    let published = bytes(
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
        21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091
        5bc94fbc3221a5db94fae95ae7121a47",
    );
    check::<Aes128Gcm>(&key, &nonce, &associated, &plain, &published);
    check::<AesGcm<16>>(&key, &nonce, &associated, &plain, &published);
    check::<Aes128GcmTag96>(&key, &nonce, &associated, &plain, &published[..published.len() - 4]);
    let published = bytes(
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
        8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662
        76fc6ece0f4e1768cddf8853bb2d551b",
    );
    let key = key.repeat(2);
    check::<Aes256Gcm>(&key, &nonce, &associated, &plain, &published);
    check::<AesGcm<32>>(&key, &nonce, &associated, &plain, &published);
    check::<Aes256GcmTag96>(&key, &nonce, &associated, &plain, &published[..published.len() - 4]);
}

/// Source: an independent implementation, the crate `aes-gcm`, at all lengths around the borders of blocks and of batches.
#[test]
fn gcm_of_every_backend_agrees_with_another_implementation_at_every_length() {
    let some = |seed: usize, len: usize| -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(167) ^ seed.wrapping_mul(91) ^ ((i * i) >> 3)) as u8).collect()
    };
    let borders =
        [127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1040, 4095, 4096, 4097, 4112, 70_000];
    for backend in BackendChoice::detected() {
        for len in (0..=70).chain(borders) {
            for associated in [0, 1, 8, 15, 16, 17, 33, 300] {
                let (key, nonce) = (some(len, 32), some(associated + 100, 12));
                let (plain, associated) = (some(len + 3, len), some(associated, associated));
                let nonce: [u8; 12] = nonce.try_into().expect("12 bytes");
                let (mut other, mut ours) = (plain.clone(), plain.clone());
                let library = Aes256Gcm::new(&key).expect("a key");
                let published = library.seal(&nonce, &associated, &mut other).expect("not too long");
                let cipher = AesGcm::<32>::with_backend(&key, Some(backend)).expect("a key");
                let tag = cipher.seal(&nonce, &associated, &mut ours).expect("not too long");
                assert!((&ours, tag) == (&other, published), "{} bytes on {}", len, backend.name());
                let again = cipher.several(|cipher| {
                    let open =
                        |data: &mut Vec<u8>, tag: &[u8; 16]| cipher.open(&nonce, &associated, data, tag);
                    assert_eq!(open(&mut other, &[7; 16]), Err(OpenError::Forged));
                    open(&mut ours, &tag).expect("it is whole");
                    assert!(
                        ours == plain && other.iter().all(|byte| *byte == 0),
                        "{} bytes on {}",
                        len,
                        backend.name()
                    );
                    cipher.seal(&nonce, &associated, &mut ours).expect("not too long")
                });
                assert_eq!(again, tag);
                cipher.open(&nonce, &associated, &mut ours, &tag).expect("it is whole");
                assert!(ours == plain, "{} bytes on {}", len, backend.name());
            }
        }
    }
    assert_eq!(AesGcm::<32>::new(&[1; 16]).expect_err("short"), KeyError::Length { len: 16 });
    assert_eq!(AesGcm::<16>::new(&[1; 32]).expect_err("long"), KeyError::Length { len: 32 });
}

/// Source: NIST CAVP, `VPT128.rsp` (nonces of 13 and tags of 16 bytes).
#[test]
fn ccm_agrees_with_nist() {
    let published = bytes(
        "1faeb0ee2ca2cd52f0aa3966578344f24e69b742c4ab37ab
        1123301219c70599b7c373ad4b3ad67b",
    );
    let (key, nonce) = (bytes("d24a3d3dde8c84830280cb87abad0bb3"), bytes("f1100035bb24a8d26004e0e24b"));
    let plain = bytes("7c86135ed9c2a515aaae0e9a208133897269220f30870006");
    check::<Aes128Ccm>(&key, &nonce, &[], &plain, &published);
    check::<EngineCcm<SoftwareAes, 16>>(&key, &nonce, &[], &plain, &published);
}

/// Source: OpenSSL 3 (`AESCCM` of Python's cryptography 48). In CCM the length of the tag goes into the tag.
#[test]
fn ccm_agrees_with_openssl_for_both_keys_and_tags() {
    let counting = |first: u8, len: u8| -> Vec<u8> { (first..first + len).collect() };
    let (nonce, associated) = (counting(0x10, 13), counting(0, 20));
    let (key, plain) = (counting(0x40, 32), counting(0x20, 37));
    let published = |hex: &str| bytes(hex);
    let ciphertext = "69915dad1e84c6376a68c2967e4dab615ae0fd1faec44cc484828529463ccf7232ec7cb9e0";
    let long = published(&format!("{ciphertext}0777b1e6268a97763fd504d93950c420"));
    check::<Aes128Ccm>(&key[..16], &nonce, &associated, &plain, &long);
    check::<EngineCcm<SoftwareAes, 16>>(&key[..16], &nonce, &associated, &plain, &long);
    let short = published(&format!("{ciphertext}df9d6684de2cb6edd3d200d5"));
    check::<Aes128CcmTag96>(&key[..16], &nonce, &associated, &plain, &short);
    let ciphertext = "40527dbf457197dcf6b47b20e974d1741c6ad6948f9f0e50e55923a959acf67c1c945d6d4a";
    let long = published(&format!("{ciphertext}7854382ec0c34c0560412d6071bfa805"));
    check::<Aes256Ccm>(&key, &nonce, &associated, &plain, &long);
    check::<EngineCcm<SoftwareAes, 32>>(&key, &nonce, &associated, &plain, &long);
    let short = published(&format!("{ciphertext}d1ffe7a535343c51d1b29d55"));
    check::<Aes256CcmTag96>(&key, &nonce, &associated, &plain, &short);
}

#[test]
fn what_is_too_long_for_ccm_is_refused_and_left_alone() {
    let cipher = Aes128Ccm::new(&[1; 16]).expect("a good key");
    let mut data = vec![7; 65_536];
    let refused = cipher.seal(&[0; 13], &[1; 3], &mut data);
    assert_eq!(refused, Err(SealError::TooLong { data: 65_536, associated: 3 }));
    assert!(data.iter().all(|byte| *byte == 7));
    assert!(cipher.seal(&[0; 13], &[], &mut data[..65_535]).is_ok());
}
