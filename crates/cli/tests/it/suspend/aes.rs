//! The key expansion of AES-256 (FIPS 197, sections 5.2 and 5.3.5), written for a search in memory: slow, and not for use.

use atrest_secret::SecretBytes;

/// The product in AES's field.
fn product(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = a << 1 ^ if a & 0x80 != 0 { 0x1b } else { 0 };
        b >>= 1;
    }
    product
}

fn substitute(byte: u8) -> u8 {
    // The inverse, by Fermat: the group has 255 elements.
    let inverse = (0..254).fold(1, |power, _| product(power, byte));
    (1..5).fold(inverse ^ 0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

/// One column by the inverse of MixColumns.
fn unmixed(column: [u8; 4]) -> [u8; 4] {
    let factors = [14, 11, 13, 9];
    core::array::from_fn(|row| {
        (0..4).fold(0, |sum, at| sum ^ product(column[at], factors[(at + 4 - row) % 4]))
    })
}

/// The 15 round keys of encryption, and the 13 of the equivalent decryption that differ from them.
pub fn round_keys(key: &[u8]) -> Vec<SecretBytes> {
    let mut words: Vec<[u8; 4]> = key.chunks(4).map(|word| word.try_into().expect("four bytes")).collect();
    assert_eq!(words.len(), 8, "a key of AES-256");
    let mut constant = 1;
    while words.len() < 60 {
        let mut word = words[words.len() - 1];
        if words.len().is_multiple_of(8) {
            word.rotate_left(1);
            word = word.map(substitute);
            word[0] ^= constant;
            constant = product(constant, 2);
        } else if words.len() % 8 == 4 {
            word = word.map(substitute);
        }
        let before = words[words.len() - 8];
        words.push(core::array::from_fn(|at| word[at] ^ before[at]));
    }
    let joined = |words: &[[u8; 4]]| SecretBytes::copy_from(words.as_flattened());
    let unmixed: Vec<_> = words.iter().map(|word| unmixed(*word)).collect();
    words.chunks(4).map(joined).chain(unmixed[4..56].chunks(4).map(joined)).collect()
}

/// FIPS 197, appendix A.3: the first key and the last word of its expansion.
#[test]
fn the_expansion_is_that_of_the_standard() {
    let key: Vec<u8> = (0..32)
        .map(|at| {
            let hex = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
            u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal")
        })
        .collect();
    let keys = round_keys(&key);
    assert_eq!(keys[14][12..], [0x70, 0x6c, 0x63, 0x1e]);
    assert_eq!(keys[2][..4], [0x9b, 0xa3, 0x54, 0x11]);
    assert_eq!(keys.len(), 28);
}
