//! The reference of any mode by the names of its parts: what a mapper has to make of one data unit.

use super::wide_block::{self, Design};
use super::{dm_crypt, hctr2, iv, unit};

/// Cipher, mode and IV rule, as in `aes-xts-plain64`; stolen ciphertext is mode `cts`. `key` is the whole key, `number` what
/// the IV counts.
pub fn data_unit(
    encrypt: bool,
    (cipher, mode, rule): (&str, &str, &str),
    key: &[u8],
    number: u64,
    data: &[u8],
) -> Vec<u8> {
    let rounds = if cipher.contains("12") { 12 } else { 20 };
    match (mode, rule) {
        ("cbc", "eboiv" | "tcw" | "elephant" | "lmk") => {
            dm_crypt::cbc_unit(encrypt, cipher, rule, key, number, data)
        }
        ("ctr", _) => dm_crypt::ctr_unit(cipher, key, iv(rule, cipher, key, number), data),
        ("stream", _) => {
            wide_block::chacha_stream(rounds, key, *long_iv(rule, number, 8).as_array().unwrap(), data)
        }
        ("adiantum", _) => {
            let tweak = long_iv(rule, number, 32);
            wide_block::unit(encrypt, Design::Adiantum, rounds, key, &tweak, data)
        }
        ("hpolyc", _) => {
            let tweak = long_iv(rule, number, 12);
            wide_block::unit(encrypt, Design::HPolyC, rounds, key, &tweak, data)
        }
        ("hctr2", _) => hctr2::unit(encrypt, cipher, key, &long_iv(rule, number, 32), data),
        _ => unit(encrypt, cipher, mode, key, iv(rule, cipher, key, number), data),
    }
}

/// An IV of any length of at least eight bytes.
fn long_iv(rule: &str, number: u64, len: usize) -> Vec<u8> {
    let mut iv = vec![0; len];
    match rule {
        "plain64" => iv[..8].copy_from_slice(&number.to_le_bytes()),
        "plain64be" => iv[len - 8..].copy_from_slice(&number.to_be_bytes()),
        other => panic!("no reference for {other}"),
    }
    iv
}
