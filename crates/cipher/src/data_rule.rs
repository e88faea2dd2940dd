//! The rules of dm-crypt that make IVs with a key, or of the data, or alter the data (kernel, `drivers/md/dm-crypt.c`,
//! "iv modes" eboiv, elephant, tcw and lmk).
//!
//! All of them go with CBC alone. There, an IV is the same as an IV of zeros and the IV added to the first block of
//! plaintext, so that a rule is two steps around the cipher, one on the side of the plaintext, one on that of the
//! ciphertext, and no other rule or mode pays for it.

pub(crate) mod elephant;
pub(crate) mod lmk;
pub(crate) mod tcw;

use self::elephant::Elephant;
use self::tcw::Tcw;
use crate::block::{Block, BlockCipher, Direction, xor};
use crate::run::{Position, Run};

/// Units that go through all steps before the next ones do, so that they stay in the nearest cache.
const UNITS_AT_A_TIME: usize = 16;

/// A keyed rule.
pub(crate) enum DataRule<C> {
    /// BitLocker's IVs: byte offsets, encrypted under the data's key.
    Eboiv(C),
    /// BitLocker's IVs and its diffuser: byte offsets, encrypted under the data's key, and the diffuser under a second key.
    Elephant { ivs: C, diffuser: Elephant<C> },
    /// TrueCrypt's IVs and whitening before version 4.1.
    Tcw(Tcw),
}

impl<C: BlockCipher> DataRule<C> {
    /// Does what the rule asks for around `cipher`, which encrypts or decrypts units in place, with IVs of zeros.
    pub(crate) fn around(
        &self,
        direction: Direction,
        position: Position,
        run: Run<'_>,
        mut cipher: impl FnMut(Position, Run<'_>),
    ) {
        let units = run.into_blocks();
        let step = position.unit_blocks * UNITS_AT_A_TIME;
        for (i, units) in units.chunks_mut(step).enumerate() {
            let position = position.after(i * UNITS_AT_A_TIME);
            match direction {
                Direction::Encrypt => {
                    self.on_plaintext(direction, position, units);
                    cipher(position, Run::of_blocks(units));
                    self.on_ciphertext(position, units);
                }
                Direction::Decrypt => {
                    self.on_ciphertext(position, units);
                    cipher(position, Run::of_blocks(units));
                    self.on_plaintext(direction, position, units);
                }
            }
        }
    }

    fn on_plaintext(&self, direction: Direction, position: Position, units: &mut [Block]) {
        match (self, direction) {
            (Self::Eboiv(cipher), _) => add_encrypted_offsets(cipher, position, units),
            (Self::Elephant { ivs, diffuser }, Direction::Encrypt) => {
                diffuser.encrypt(position, units);
                add_encrypted_offsets(ivs, position, units);
            }
            (Self::Elephant { ivs, diffuser }, Direction::Decrypt) => {
                add_encrypted_offsets(ivs, position, units);
                diffuser.decrypt(position, units);
            }
            (Self::Tcw(tcw), _) => tcw.add_ivs(position, units),
        }
    }

    fn on_ciphertext(&self, position: Position, units: &mut [Block]) {
        match self {
            Self::Eboiv(_) | Self::Elephant { .. } => {}
            Self::Tcw(tcw) => tcw.whiten(position, units),
        }
    }
}

/// Adds BitLocker's IVs to the first blocks of at most [`UNITS_AT_A_TIME`] units.
fn add_encrypted_offsets<C: BlockCipher>(cipher: &C, position: Position, units: &mut [Block]) {
    let mut ivs: [Block; UNITS_AT_A_TIME] = core::array::from_fn(|i| byte_offset(position.after(i)));
    cipher.encrypt(&mut ivs);
    for (unit, iv) in units.chunks_mut(position.unit_blocks).zip(&ivs) {
        add_to_first(unit, iv);
    }
}

fn add_to_first(unit: &mut [Block], iv: &Block) {
    if let Some(first) = unit.first_mut() {
        *first = xor(first, iv);
    }
}

/// BitLocker's byte offset of a unit, if numbers count units: 64 bits, little-endian, then zeros.
fn byte_offset(position: Position) -> Block {
    u128::from(position.number.wrapping_mul(16 * position.unit_blocks as u64)).to_le_bytes()
}
