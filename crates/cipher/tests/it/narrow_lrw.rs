//! LRW with blocks of eight bytes against the checksums in TrueCrypt's own self-test ("TestLegacyModes" of its Volume/EncryptionTest.cpp, from version
//! 5.0 on): no other program has this mode. Those of CBC stand beside them and are checked, too.

use crate::random::Random;
use atrest_cipher::{CbcCipher, DataUnitCipher, DataUnitIndex, KeyError, NarrowLrw, RunError, WhitenedCbc};

/// Two sectors, whose bytes are also the key; the tweak's key, or the seed of IVs; the number of the first sector.
fn self_test() -> (Vec<u8>, [u8; 32], u64) {
    ((0..1024).map(|at| at as u8).collect(), core::array::from_fn(|at| at as u8), 0x0234_5678_90ab_cdef)
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn truecrypt_has_the_same_checksums() {
    let (plain, seed, sector) = self_test();
    let tweak_key = seed.first_chunk().expect("long enough");
    for (cipher, len, lrw, cbc) in [
        (CbcCipher::BlowfishLe, 56, 0xf94d_5300, 0x0338_99a1),
        (CbcCipher::Cast5, 16, 0x3397_1e82, 0x331c_ecc7),
        (CbcCipher::Des3Ede, 24, 0x2b20_bb84, 0xfe49_7d0c),
    ] {
        // In LRW sectors are counted from the data on, which is behind one sector.
        let narrow = NarrowLrw::new(cipher, &plain[..len], tweak_key, sector - 1).expect("a good key");
        let chain = WhitenedCbc::new(&[(cipher, &plain[..len])], &seed, sector).expect("a good key");
        for (mode, expected) in [(&narrow as &dyn DataUnitCipher, lrw), (&chain, cbc)] {
            let mut run = plain.clone();
            mode.encrypt(DataUnitIndex(0), &mut run).expect("whole units");
            assert_eq!(crc32(&run), expected, "{cipher:?} has {:08x}", crc32(&run));
            mode.decrypt(DataUnitIndex(0), &mut run).expect("whole units");
            assert!(run == plain, "{cipher:?}");
        }
    }
    for (cipher, expected) in [(CbcCipher::Aes, 0x2274_f53d), (CbcCipher::Serpent, 0x42df_f3d4)] {
        let mut run = plain.clone();
        let chain = WhitenedCbc::new(&[(cipher, &plain[..32])], &seed, sector).expect("a good key");
        chain.encrypt(DataUnitIndex(0), &mut run).expect("whole units");
        assert_eq!(crc32(&run), expected, "{cipher:?}");
    }
}

#[test]
fn each_unit_is_decrypted_as_it_was_wherever_a_run_begins() {
    let plain = Random::new(5).bytes(9 * 512);
    for first in [0, 1, (1 << 58) - 3, u64::MAX - 4] {
        let lrw = NarrowLrw::new(CbcCipher::Cast5, &[7; 16], b"tweakkey", 0).expect("a good key");
        let mut run = plain.clone();
        lrw.encrypt(DataUnitIndex(first), &mut run).expect("whole units");
        let shifted = NarrowLrw::new(CbcCipher::Cast5, &[7; 16], b"tweakkey", first).expect("a good key");
        for (number, unit) in run.chunks_mut(512).enumerate() {
            shifted.decrypt(DataUnitIndex(number as u64), unit).expect("a unit");
        }
        assert!(run == plain, "from {first} on");
    }
    // The header is what unit 0 would be.
    let lrw = NarrowLrw::new(CbcCipher::Des3Ede, &plain[..24], b"tweakkey", 0).expect("a good key");
    let mut unit = plain[..512].to_vec();
    lrw.encrypt(DataUnitIndex(0), &mut unit).expect("a unit");
    lrw.decrypt_unnumbered(&mut unit[..448]).expect("whole blocks");
    assert!(unit[..448] == plain[..448] && unit[448..] != plain[448..512]);
}

#[test]
fn long_blocks_and_parts_of_units_are_refused() {
    let made = |cipher, key: &[u8]| NarrowLrw::new(cipher, key, &[1; 8], 0).map(|_| ());
    assert_eq!(made(CbcCipher::Aes, &[1; 32]), Err(KeyError::Block { len: 16 }));
    assert_eq!(made(CbcCipher::Des3Ede, &[1; 23]), Err(KeyError::Length { len: 23 }));
    let lrw = NarrowLrw::new(CbcCipher::Cast5, &[1; 16], &[1; 8], 0).expect("a good key");
    let mut run = [9; 1024];
    let partial = |len| Err(RunError::PartialDataUnit { len, data_unit: 512 });
    assert_eq!(lrw.encrypt(DataUnitIndex(0), &mut run[..511]), partial(511));
    assert_eq!(lrw.decrypt(DataUnitIndex(0), &mut run[..520]), partial(520));
    for len in [0, 7, 520] {
        assert_eq!(lrw.decrypt_unnumbered(&mut run[..len]), partial(len));
    }
    assert_eq!(run, [9; 1024]);
    assert_eq!(format!("{lrw:?}"), "NarrowLrw(Cast5)");
}
