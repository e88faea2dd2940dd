//! Code that no registry brings: that of the authors of Adiantum, HPolyC and HCTR2, C and assembly.
//!
//! It was measured once, on another machine, together with OpenSSL 3.0's AES-256-XTS. A figure for this machine is that
//! one scaled by what the same OpenSSL reaches here: a guess, and shown as such.

use crate::case::{Case, Cipher};

/// GB/s of encryption in the cache, with 512 and with 4096 bytes in a data unit.
const MEASURED: [(Cipher, [f64; 2]); 4] = [
    (Cipher::Adiantum12, [1.54, 3.17]), // with AES-NI; 1.19 and 2.97 without
    (Cipher::Adiantum20, [1.00, 2.35]),
    (Cipher::HPolyC12, [0.68, 0.88]),
    (Cipher::Hctr2, [3.4, 4.0]),
];
/// OpenSSL 3.0's AES-256-XTS there.
const OPENSSL: [f64; 2] = [3.73, 7.23];

/// The authors' speed here, if `openssl` is that of OpenSSL 3.0's AES-256-XTS with data units of the same size.
pub fn scaled(case: &Case, openssl: f64) -> Option<f64> {
    let column = match case.unit {
        512 => 0,
        4096 => 1,
        _ => return None,
    };
    let (_, speeds) = MEASURED.iter().find(|(cipher, _)| *cipher == case.cipher)?;
    Some(speeds[column] * openssl / OPENSSL[column])
}
