//! GHASH (NIST SP 800-38D, 6.4) by POLYVAL's multiplier (RFC 8452, Appendix A), for GCM over data units.
//!
//! GHASH reads its blocks backwards, so that its state here is that of POLYVAL over reversed blocks.

use zeroize::Zeroize;

use crate::block::Block;
use crate::mode::ctr::CtrBackend;
use crate::mode::hctr2::{Hctr2Backend, Polyval};

/// What GCM asks of a backend beside CTR. Its hash is HCTR2's.
pub(crate) trait GcmBackend: CtrBackend + Hctr2Backend {
    /// GHASH's state after more blocks.
    fn ghash(&self, key: &Self::Hash, state: u128, blocks: &[Block]) -> u128 {
        ghash(key, state, blocks)
    }
}

/// GHASH for any CPU.
pub(crate) fn ghash(key: &impl Polyval, state: u128, blocks: &[Block]) -> u128 {
    blocks.iter().fold(state, |state, block| {
        let mut reversed = *block;
        reversed.reverse();
        key.absorb(state, &[reversed])
    })
}

/// GHASH's key: zeros, encrypted (SP 800-38D, 7.1), times x as POLYVAL reads it.
pub(crate) fn key<C: GcmBackend>(cipher: &C) -> C::Hash {
    let mut block = [[0; 16]];
    cipher.encrypt(&mut block);
    let mut number = u128::from_be_bytes(block[0]);
    // What leaves at the top comes back as x^127 + x^126 + x^121 + 1.
    let carry = (number >> 127).wrapping_neg() & (0xc2 << 120 | 1);
    number = number << 1 ^ carry;
    let mut key = C::Hash::EMPTY;
    key.set(&number.to_le_bytes());
    number.zeroize();
    block.zeroize();
    key
}
