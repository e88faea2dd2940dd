//! What a user of sealed flash chooses.

use atrest_keyslot::flash::{Params, Protection, TicketPolicy};

use super::layout::Tickets;
use super::record::RESERVES;

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
    /// So many serials (2 to this power, 3 to 31, beside a counter to 16) may be used before the store is written in any case.
    pub reserve: u8,
    /// Whether each unit is read back after programming, and each block after erasing. Media that fail silently need it: what
    /// they did not store would be taken for tampering later.
    pub read_back: bool,
}

impl Default for SealedOptions {
    fn default() -> Self {
        Self {
            payload: 252,
            tickets: Tickets::default(),
            medium: SealedMedium::default(),
            anchor_every: 1,
            reserve: 12,
            read_back: true,
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

    pub(crate) fn are_possible(&self) -> bool {
        self.anchor_every != 0 && RESERVES.contains(&self.reserve)
    }
}
