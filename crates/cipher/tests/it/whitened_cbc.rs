//! One cipher of 16-byte blocks against the mapper with dm-crypt's IVs `tcw`, which kernels judge. Several in a chain, and short blocks, are held
//! against libgcrypt where volumes are opened (`crates/open/tests/it/tcrypt.rs`).

use crate::random::Random;
use atrest_cipher::{
    CbcCipher, CipherSpec, DataUnitCipher, DataUnitIndex, KeyError, Mapper, MapperOptions, RunError,
    WhitenedCbc,
};

fn noise(len: usize, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

#[test]
fn one_cipher_in_a_chain_is_what_dm_crypt_calls_tcw() {
    let seed: [u8; 32] = noise(32, 1).try_into().expect("32 bytes");
    let key = noise(32, 2);
    let ciphers = [(CbcCipher::Aes, "aes"), (CbcCipher::Serpent, "serpent"), (CbcCipher::Twofish, "twofish")];
    for (cipher, name) in ciphers {
        let spec: CipherSpec = format!("{name}-cbc-tcw").parse().expect("a specification");
        let options = MapperOptions { iv_offset: 7, ..MapperOptions::default() };
        let mapper = Mapper::new(&spec, &[&key[..], &seed].concat(), &options).expect("a good key");
        let chain = WhitenedCbc::new(&[(cipher, &key)], &seed, 7).expect("a good key");
        let plain = noise(5 * 512, 3);
        let (mut expected, mut run) = (plain.clone(), plain.clone());
        mapper.encrypt(DataUnitIndex(1 << 33), &mut expected).expect("whole units");
        chain.encrypt(DataUnitIndex(1 << 33), &mut run).expect("whole units");
        assert_eq!(run, expected, "{name}");
        chain.decrypt(DataUnitIndex(1 << 33), &mut run).expect("whole units");
        assert_eq!(run, plain, "{name}");
    }
}

#[test]
fn what_makes_no_chain_is_refused() {
    let seed = [3; 32];
    let made = |ciphers: &[(CbcCipher, &[u8])]| WhitenedCbc::new(ciphers, &seed, 0).map(|_| ());
    let aes: (CbcCipher, &[u8]) = (CbcCipher::Aes, &[1; 32]);
    assert_eq!(made(&[]), Err(KeyError::Chain));
    assert_eq!(made(&[aes; 4]), Err(KeyError::Chain));
    assert_eq!(made(&[aes; 3]), Ok(()));
    assert_eq!(made(&[aes, (CbcCipher::Cast5, &[1; 16])]), Err(KeyError::Chain));
    assert_eq!(made(&[aes, (CbcCipher::Twofish, &[1; 31])]), Err(KeyError::Length { len: 31 }));
    let chain = WhitenedCbc::new(&[aes], &seed, 0).expect("a good key");
    let mut run = noise(1024, 4);
    let before = run.clone();
    let partial = |len| Err(RunError::PartialDataUnit { len, data_unit: 512 });
    assert_eq!(chain.encrypt(DataUnitIndex(0), &mut run[..511]), partial(511));
    assert_eq!(chain.decrypt(DataUnitIndex(0), &mut run[..513]), partial(513));
    for len in [0, 15, 528] {
        assert_eq!(chain.decrypt_unnumbered(&mut run[..len]), partial(len));
    }
    assert_eq!(run, before);
    assert_eq!(format!("{chain:?}"), "[Aes]");
}
