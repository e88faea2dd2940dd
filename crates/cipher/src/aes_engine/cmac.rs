//! AES-CMAC (NIST SP 800-38B) by an engine.

use atrest_secret::wipe;

use super::AesEncrypt;
use crate::block::{Block, xor};

/// Computes AES-CMAC of a message with an engine's key, which may be one that nobody can read.
///
/// # Errors
///
/// The engine's own error.
pub fn aes_cmac<E: AesEncrypt>(engine: &mut E, message: &[u8]) -> Result<[u8; 16], E::Error> {
    let mut state = State { mac: [[0; 16]], subkey: [[0; 16]] };
    engine.encrypt(&mut state.subkey)?;
    let [subkey] = state.subkey;
    state.subkey = [double(subkey)];
    // The last block is the whole one that the message ends with, or the rest behind whole ones, which may be empty.
    let whole = message.len().div_ceil(16).max(1) - 1;
    let (blocks, last) = message.split_at(16 * whole);
    for block in blocks.as_chunks().0 {
        state.mac = [xor(&state.mac[0], block)];
        engine.encrypt(&mut state.mac)?;
    }
    let mut padded = [0; 16];
    padded[..last.len()].copy_from_slice(last);
    if let Some(behind) = padded.get_mut(last.len()) {
        *behind = 0x80;
        state.subkey = [double(state.subkey[0])];
    }
    state.mac = [xor(&xor(&state.mac[0], &padded), &state.subkey[0])];
    wipe(&mut padded);
    engine.encrypt(&mut state.mac)?;
    Ok(state.mac[0])
}

/// Wiped when dropped.
struct State {
    mac: [Block; 1],
    subkey: [Block; 1],
}

impl Drop for State {
    fn drop(&mut self) {
        wipe(self.mac.as_flattened_mut());
        wipe(self.subkey.as_flattened_mut());
    }
}

/// Multiplies by x in the field of section 5.3, big-endian.
fn double(block: Block) -> Block {
    let value = u128::from_be_bytes(block);
    let reduced = 0x87 & 0_u128.wrapping_sub(value >> 127);
    (value << 1 ^ reduced).to_be_bytes()
}
