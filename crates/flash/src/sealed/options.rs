//! What a user of sealed flash chooses.

use atrest_keyslot::flash::{Params, Protection, TicketPolicy};

use super::error::SealedError;
use super::layout::Tickets;
use super::record::RESERVES;
use super::serial::SERIAL_END;

/// How a medium keeps what was written. The record says it of what was written after it, so that a volume may be on another kind
/// of medium the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SealedMedium {
    /// Programs and erases are durable in the order in which they return.
    #[default]
    Ordered,
    /// A cache of the medium's own may lose any of them before the next sync. Every sync then writes the trusted store.
    Cached,
    /// A card: as `Cached`, units can be overwritten, and erasing need not change anything.
    Card,
}

/// When units are verified that are older than the record in the trusted store. What is newer always is when the volume is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// When they are read. Opening reads serials, and more only where that is not enough. One that fails then is
    /// [`Tampered`](atrest_device::FlashCause::Tampered) and stops nothing, like one that has failed at an opening.
    #[default]
    OnRead,
    /// When the volume is opened, and whenever they are read.
    AtOpening,
}

/// Options of a sealed volume. Payload and tickets say how the medium is laid out, and are the same whenever it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedOptions {
    /// Bytes of a unit that the user sees, about.
    pub payload: u32,
    /// Where erases are announced.
    pub tickets: Tickets,
    /// What kind of medium it is.
    pub medium: SealedMedium,
    /// The trusted store is written on every so many syncs; 1 unless wear of the store forbids it. Whoever cuts the power and
    /// writes the medium can undo the syncs since then.
    pub anchor_every: u32,
    /// So many serials (2 to this power, 3 to 22, beside a counter to 16) may be used before the store is written in any case.
    ///
    /// A power loss costs all of them, and there are 2^40: a volume survives 2^(40 - `reserve`) power losses, less what is written. The
    /// default, 12, is for 100 power losses a day for 20 years: they cost 0.3 % of the serials, and the rest seals 276 TB in units of
    /// 252 bytes. 22 is for 35 power losses a day for 20 years. [`short_lived`](Self::short_lived) allows more.
    pub reserve: u8,
    /// Whether each unit is read back after programming, and each block after erasing. Media that fail silently need it: what
    /// they did not store would be taken for tampering later.
    pub read_back: bool,
    /// When units are verified: opening reads little, or everything.
    pub verify: Verify,
}

/// The largest reserve that leaves a volume 20 years.
const LONG_LIVED: u8 = 22;
/// Marks one that does not, and was asked for by name.
const SHORT_LIVED: u8 = 1 << 7;

impl Default for SealedOptions {
    fn default() -> Self {
        Self {
            payload: 252,
            tickets: Tickets::default(),
            medium: SealedMedium::default(),
            anchor_every: 1,
            reserve: 12,
            read_back: true,
            verify: Verify::default(),
        }
    }
}

impl SealedOptions {
    /// With payload and tickets as a volume's header has them; the rest is the default. None if that volume is not sealed.
    pub fn of(params: &Params) -> Option<Self> {
        let Protection::Sealed { tickets, .. } = params.protection else { return None };
        let tickets = match tickets {
            TicketPolicy::Slot => Tickets::Slot,
            TicketPolicy::Store => Tickets::Store,
        };
        Some(Self { payload: params.data_unit, tickets, ..Self::default() })
    }

    /// A `reserve` of more than 22, up to 31, for a volume that need not survive many power losses: with 31 it is worn out after 510.
    pub const fn short_lived(reserve: u8) -> u8 {
        reserve | SHORT_LIVED
    }

    /// Power losses that a new volume with this `reserve` survives.
    pub const fn power_losses(reserve: u8) -> u64 {
        SERIAL_END.wrapping_shr((reserve & !SHORT_LIVED) as u32)
    }

    /// The power of two in `reserve`.
    pub(crate) fn reserve_bits(&self) -> u8 {
        self.reserve & !SHORT_LIVED
    }

    pub(crate) fn check(&self) -> Result<(), SealedError> {
        let reserve = self.reserve_bits();
        if self.anchor_every == 0 || !RESERVES.contains(&reserve) {
            return Err(SealedError::Option);
        }
        if reserve > LONG_LIVED && self.reserve & SHORT_LIVED == 0 {
            return Err(SealedError::ShortLived { power_losses: Self::power_losses(reserve) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use atrest_keyslot::flash::{FlashCipher, FlashSizes, Freshness};

    use super::*;

    #[test]
    fn options_are_those_of_a_sealed_header_and_there_are_none_for_another() {
        let header = |protection| Params {
            cipher: FlashCipher::ChaCha20Poly1305,
            key_len: 32,
            protection,
            uuid: [0; 16],
            sizes: FlashSizes { read_size: 1, prog_size: 16, erase_size: 4096, block_count: 256 },
            data_unit: 300,
        };
        for (policy, tickets) in [(TicketPolicy::Slot, Tickets::Slot), (TicketPolicy::Store, Tickets::Store)]
        {
            let sealed = Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: policy };
            let expected = SealedOptions { payload: 300, tickets, ..SealedOptions::default() };
            assert_eq!(SealedOptions::of(&header(sealed)), Some(expected));
        }
        assert_eq!(SealedOptions::of(&header(Protection::Encrypted)), None);
    }

    #[test]
    fn a_reserve_has_its_bounds_and_its_name() {
        let check = |reserve| SealedOptions { reserve, ..SealedOptions::default() }.check();
        let named = SealedOptions::short_lived;
        for reserve in [3, 12, 22, named(3), named(22), named(23), named(31)] {
            assert_eq!(check(reserve), Ok(()), "{reserve}");
        }
        for reserve in [0, 2, 32, 127, named(0), named(2), named(32)] {
            assert_eq!(check(reserve), Err(SealedError::Option), "{reserve}");
        }
        for (reserve, power_losses) in [(23, 1 << 17), (31, 512)] {
            assert_eq!(check(reserve), Err(SealedError::ShortLived { power_losses }), "{reserve}");
        }
        assert_eq!(named(named(25)), named(25), "whoever names it twice means the same");
        assert_eq!(
            SealedOptions { anchor_every: 0, ..SealedOptions::default() }.check(),
            Err(SealedError::Option)
        );
        assert_eq!(SealedOptions { anchor_every: 1, ..SealedOptions::default() }.check(), Ok(()));
        assert_eq!((named(25) & 127, SealedOptions::power_losses(named(25))), (25, 1 << 15));
        assert_eq!(SealedOptions { reserve: named(25), ..SealedOptions::default() }.reserve_bits(), 25);
    }
}
