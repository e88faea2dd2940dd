//! How a sealed volume lies behind its header.

use atrest_device::FlashGeometry;
use atrest_keyslot::flash::{Freshness, Params, Protection};

use super::layout::{LayoutError, SealedLayout};
use super::options::SealedOptions;

/// Erase blocks at the end of a medium that keep the records of a [`CounterStore`](super::store::CounterStore), and are not sealed. One of
/// them may go bad.
pub const COUNTER_LOG_BLOCKS: u64 = 3;

impl SealedLayout {
    /// Of the volume of a header, from the first erase block behind that. Its [`medium`](Self::medium) ends before a counter's log.
    ///
    /// # Errors
    /// [`LayoutError::OtherPayload`] if the header names another payload than its sizes lead to. Otherwise it
    /// fails where [`planned`](Self::planned) does.
    pub fn of(params: &Params) -> Result<Self, LayoutError> {
        let layout = Self::planned(params)?;
        let (header, layout_has) = (params.data_unit, layout.payload());
        if header != layout_has {
            return Err(LayoutError::OtherPayload { header, layout: layout_has });
        }
        Ok(layout)
    }

    /// Plans the volume of a header that is still to be made, with a payload of about as many bytes as `params` says. The
    /// header then names [`payload`](Self::payload).
    ///
    /// # Errors
    /// [`LayoutError::NotSealed`] if the header is not of a sealed volume, [`LayoutError::Geometry`] if there
    /// is no room behind the header, and the errors of [`new`](Self::new).
    pub fn planned(params: &Params) -> Result<Self, LayoutError> {
        let (Some(options), Protection::Sealed { tag_len, store, .. }) =
            (SealedOptions::of(params), params.protection)
        else {
            return Err(LayoutError::NotSealed);
        };
        let log = if store == Freshness::Counter { COUNTER_LOG_BLOCKS } else { 0 };
        let sizes = params.sizes;
        // Without a block left over there is no geometry.
        // intended: without a block left over there is no geometry.
        let blocks = sizes.block_count.saturating_sub(sizes.first_data_block()).saturating_sub(log);
        let medium = FlashGeometry::new(sizes.read_size, sizes.prog_size, sizes.erase_size, blocks)
            .map_err(LayoutError::Geometry)?;
        Self::new(medium, options.payload, tag_len.into(), options.tickets)
    }
}

#[cfg(test)]
mod tests {
    use atrest_keyslot::flash::{FlashCipher, FlashSizes, TicketPolicy};

    use super::*;

    /// The volume of the worked example in FORMATS.md: a header of two blocks, units of 264 bytes.
    fn params(store: Freshness, data_unit: u32) -> Params {
        Params {
            cipher: FlashCipher::ChaCha20Poly1305,
            key_len: 32,
            protection: Protection::Sealed { tag_len: 16, store, tickets: TicketPolicy::Slot },
            uuid: [0; 16],
            sizes: FlashSizes { read_size: 1, prog_size: 16, erase_size: 4096, block_count: 256 },
            data_unit,
        }
    }

    #[test]
    fn a_volume_lies_behind_the_header_and_before_a_counters_log() {
        for (store, blocks) in
            [(Freshness::Record, 254), (Freshness::Nothing, 254), (Freshness::Counter, 251)]
        {
            let layout = SealedLayout::of(&params(store, 264)).expect("a layout");
            assert_eq!((layout.payload(), layout.units(), layout.slot()), (264, 14, 48));
            assert_eq!(layout.medium().block_count(), blocks, "{store:?}");
        }
    }

    #[test]
    fn a_header_that_names_another_payload_than_its_layout_has_is_refused() {
        for wrong in [16, 252, 260, 268, 300] {
            let params = params(Freshness::Record, wrong);
            let layout = SealedLayout::planned(&params).expect("a layout").payload();
            assert_ne!(layout, wrong);
            let refused = LayoutError::OtherPayload { header: wrong, layout };
            assert_eq!(SealedLayout::of(&params), Err(refused));
        }
        let encrypted = Params { protection: Protection::Encrypted, ..params(Freshness::Record, 264) };
        assert_eq!(SealedLayout::of(&encrypted), Err(LayoutError::NotSealed));
        let mut small = params(Freshness::Counter, 264);
        small.sizes.block_count = 5;
        assert!(matches!(SealedLayout::of(&small), Err(LayoutError::Geometry(_))));
    }
}
