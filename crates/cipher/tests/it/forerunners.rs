//! The references of HCTR and HCH, which exist to be compared with.

use crate::reference::hctr::{hch, hctr};

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn rising(step: usize, first: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (step * i + first) as u8).collect()
}

/// Source: what the implementation in Python in github.com/google/hctr2 (`python/hctr.py`, commit 0635078) makes of
/// these inputs.
#[test]
fn hctr_agrees_with_the_implementation_of_hctr2s_authors() {
    for (key_len, tweak_len, len, theirs) in [
        (16, 16, 16, "0a77ad4e2f6e10871b764bb3fb7b5d92"),
        (16, 0, 16, "023914383f4cab373479a401424d8603"),
        (
            32,
            16,
            48,
            "b1e1358887fc0e314f8148f260a3fe089941a804065be6a3598da72326d0e179ac0641c2ec441e5b947965758ba20441",
        ),
        (24, 5, 37, "7068e46532494c90454b81492648009e55c09748e9cef3b749cfab057f3ff9170a6cede8d2"),
        (
            32,
            32,
            131,
            "400d1b93769ce3a6318660986918751d1a9addd23dbaa89db3b365bdef57e0c9ecfc33eb2eb5d80f59781f92f602fd59\
             402c838ab1778e64f99e5ff3f81340fb36bbca2a7af5c750a643fd8d751629186c46cba8e26327013088da2c9f2913ef\
             fdee5931d10bccc1d549a8d8d98178d0077dda29053b8bf67123fe407bc44b21fa4694",
        ),
    ] {
        let (key, tweak, plain) = (rising(7, 1, 16 + key_len), rising(5, 3, tweak_len), rising(11, 9, len));
        let encrypted = hctr(true, "aes", &key, &tweak, &plain);
        assert_eq!(encrypted, bytes(theirs), "{len} bytes");
        assert_eq!(hctr(false, "aes", &key, &tweak, &encrypted), plain, "{len} bytes");
    }
}

/// No vectors of HCH were ever published: this is what its paper promises, not that the bytes are those of another program.
#[test]
fn hch_comes_back_and_makes_a_unit_one_block() {
    let key = rising(7, 1, 32);
    for len in [17, 31, 32, 33, 48, 512, 4096] {
        let (plain, tweak) = (rising(3, 5, len), [9; 16]);
        let encrypted = hch(true, "aes", &key, tweak, &plain);
        assert_eq!(hch(false, "aes", &key, tweak, &encrypted), plain, "{len} bytes");
        for (changed, other_tweak) in [(Some(0), tweak), (Some(len - 1), tweak), (None, [8; 16])] {
            let mut plain = plain.clone();
            if let Some(at) = changed {
                plain[at] ^= 1;
            }
            let other = hch(true, "aes", &key, other_tweak, &plain);
            let kept = other.iter().zip(&encrypted).filter(|(a, b)| a == b).count();
            // One byte in 256 is the same by chance.
            assert!(kept <= 6 + len / 64, "{kept} bytes of {len} were kept");
        }
    }
}
