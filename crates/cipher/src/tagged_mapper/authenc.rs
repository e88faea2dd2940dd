//! A cipher and a MAC over what it made, as the kernel's `authenc` has them: the MAC is over the sector number, the IV as the cipher gets
//! it, and the ciphertext.

use super::hmac::KeyedMac;
use super::spec::IvSource;
use super::units::{AnyIv, MOST, UnitsWithTags};
use crate::block::Direction;
use crate::keyed::AnyKeyed;
use crate::run::Run;
use crate::tweak::Associated;

/// A keyed cipher and a keyed MAC. They wipe themselves on drop.
pub(crate) struct Authenc {
    pub(crate) cipher: AnyKeyed,
    pub(crate) mac: KeyedMac,
}

impl Authenc {
    /// The IVs of units whose numbers are `step` apart, as the cipher gets them; random ones are there already.
    pub(crate) fn make_ivs(&self, source: IvSource, number: u64, step: u64, ivs: &mut [AnyIv]) {
        if source == IvSource::Random {
            return;
        }
        let mut made = [[0; 16]; MOST];
        let made = &mut made[..ivs.len()];
        self.cipher.ivs(number, step, made);
        for (iv, made) in ivs.iter_mut().zip(made) {
            iv[..16].copy_from_slice(made);
        }
    }

    pub(crate) fn run(&self, units: UnitsWithTags<'_>) {
        let mut list = [[0; 16]; MOST];
        let list = &mut list[..units.ivs.len()];
        for (to, iv) in list.iter_mut().zip(units.ivs) {
            to.copy_from_slice(&iv[..16]);
        }
        if units.direction == Direction::Encrypt {
            self.cipher.run_listed(Direction::Encrypt, list, units.unit / 16, Run::in_place(units.data));
        }
        let mut associated = [Associated::default(); MOST];
        let associated = &mut associated[..list.len()];
        for (unit, (associated, iv)) in associated.iter_mut().zip(list.iter()).enumerate() {
            associated[..8].copy_from_slice(&units.sector_of(unit).to_le_bytes());
            associated[8..].copy_from_slice(iv);
        }
        self.mac.macs((units.data, units.unit), associated, units.tags);
        if units.direction == Direction::Decrypt {
            self.cipher.run_listed(Direction::Decrypt, list, units.unit / 16, Run::in_place(units.data));
        }
    }
}
