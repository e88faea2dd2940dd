//! CCM (NIST SP 800-38C) as RFC 4309 has it and dm-crypt uses it: the key ends with three bytes of salt, which begin the nonce, the
//! other eight are the IV, and the associated data is the sector number alone.

use super::units::UnitsWithTags;
use crate::backend::MadeOfAes;
use crate::block::{Block, Direction, LANES, xor};
use crate::mode::AnyMode;
use crate::mode::ctr::CtrBackend;
use crate::run::Run;
use crate::tweak::Units;

/// A keyed block cipher in CCM. Wipes itself on drop.
pub(crate) struct Ccm<C> {
    cipher: C,
    salt: [u8; SALT_LEN],
}

/// Bytes of salt at the end of the key.
pub(crate) const SALT_LEN: usize = 3;

/// [`Ccm`] with whichever AES.
pub(crate) struct InCcm;

impl MadeOfAes for InCcm {
    type With<C: AnyMode> = Ccm<C>;
}

/// First byte of the block that the MAC begins with: associated data, a tag of 16 bytes, lengths of four bytes (SP 800-38C, A.2.1).
const MAC_FLAGS: u8 = (1 << 6) | (((16 - 2) / 2) << 3) | (4 - 1);

/// First byte of a counter block (SP 800-38C, A.3).
const COUNTER_FLAGS: u8 = 4 - 1;

impl<C: CtrBackend> Ccm<C> {
    pub(crate) fn new(cipher: C, salt: [u8; SALT_LEN]) -> Self {
        Self { cipher, salt }
    }

    pub(crate) fn run(&self, units: UnitsWithTags<'_>) {
        // A MAC is a chain: several units side by side fill the cipher's pipeline.
        units.in_groups(LANES, |units| self.few(units));
    }

    fn few(&self, mut units: UnitsWithTags<'_>) {
        let unit_blocks = units.unit / 16;
        let mut counters = [[0; 16]; LANES];
        let mut starts = [[0; 16]; LANES];
        let (counters, starts) = (&mut counters[..units.ivs.len()], &mut starts[..units.ivs.len()]);
        for ((counter, start), iv) in counters.iter_mut().zip(&mut *starts).zip(units.ivs) {
            *counter = self.block(COUNTER_FLAGS, &iv[..8], 0);
            *start = self.block(COUNTER_FLAGS, &iv[..8], 1);
        }
        if units.direction == Direction::Encrypt {
            self.mac(&mut units);
        }
        self.cipher.ctr(Units::listed(starts, unit_blocks), Run::in_place(units.data));
        if units.direction == Direction::Decrypt {
            self.mac(&mut units);
        }
        self.cipher.encrypt(counters);
        for (tag, counter) in units.tags.iter_mut().zip(counters.iter()) {
            tag.iter_mut().zip(counter).for_each(|(tag, mask)| *tag ^= mask);
        }
        atrest_secret::wipe(counters.as_flattened_mut());
    }

    /// A block with the nonce, and a number behind it.
    fn block(&self, flags: u8, iv: &[u8], number: u32) -> Block {
        let mut block = [0; 16];
        block[0] = flags;
        block[1..4].copy_from_slice(&self.salt);
        block[4..12].copy_from_slice(iv);
        block[12..].copy_from_slice(&number.to_be_bytes());
        block
    }

    /// CBC-MACs of plaintext, side by side, at the start of the tags.
    fn mac(&self, units: &mut UnitsWithTags<'_>) {
        let mut chains = [[0; 16]; LANES];
        let chains = &mut chains[..units.ivs.len()];
        for (chain, iv) in chains.iter_mut().zip(units.ivs) {
            // Units are far shorter than 4 GiB.
            *chain = self.block(MAC_FLAGS, &iv[..8], units.unit as u32);
        }
        self.cipher.encrypt(chains);
        for (i, chain) in chains.iter_mut().enumerate() {
            // Two bytes say how long the associated data is, zeros fill the block.
            let mut associated = [0; 16];
            associated[1] = 8;
            associated[2..10].copy_from_slice(&units.sector_of(i).to_le_bytes());
            *chain = xor(chain, &associated);
        }
        self.cipher.encrypt(chains);
        for at in (0..units.unit).step_by(16) {
            for (chain, unit) in chains.iter_mut().zip(units.data.chunks(units.unit)) {
                if let Some(block) = unit[at..].first_chunk() {
                    *chain = xor(chain, block);
                }
            }
            self.cipher.encrypt(chains);
        }
        for (tag, chain) in units.tags.iter_mut().zip(chains.iter()) {
            tag[..16].copy_from_slice(chain);
        }
        atrest_secret::wipe(chains.as_flattened_mut());
    }
}

impl<C> Drop for Ccm<C> {
    fn drop(&mut self) {
        atrest_secret::wipe(&mut self.salt);
    }
}
