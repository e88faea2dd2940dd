//! The fast opening: what a medium holds by the serials that stand in its cells, if the record confirms it. docs/SEALED-FLASH.md, "The
//! fast opening", has why this is enough.
//!
//! Of a block that is older than the record the salt is read, the serial of its first unit, and as few other serials as tell how many units it
//! holds. None of them is believed: the record's tag is over the sum of these of all blocks. What is newer than the record is verified.

use atrest_cipher::aead::Aead;
use atrest_codec::decode;
use atrest_device::FlashCause;

use super::cells::Cells;
use super::error::SealedError;
use super::layout::TICKET_LEN;
use super::record::Record;
use super::scan::Scan;
use super::serial::{self, Epoch, SALTS_LEN, SERIAL_END, SERIAL_LEN, Salt};
use super::table::BlockState;
use super::volume::stamp;
use super::{FlashDevice, twin};

/// How much of the blocks that are older than the record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Serials and salts.
    Serials,
    /// The first unit and the last one as well, which have to verify: a cut program or erase, and what was there before the volume was
    /// made, can leave serials.
    Ends,
    /// Every unit, which has to verify.
    Units,
}

#[twin]
impl Scan {
    /// To look only so far.
    pub(crate) fn reaching(record: &Record, reach: Reach) -> Self {
        let mut scan = Self::new(record);
        scan.reach = reach;
        scan
    }

    /// The state of a block by what stands in it. One that has something newer than the record is read unit by unit.
    pub(crate) async fn read_block_by_serials<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        block: u32,
    ) -> Result<BlockState, SealedError> {
        let medium = SealedError::Medium;
        let Some((first, [salt, second])) = cells.first_mark(block).await.map_err(medium)? else {
            return Ok(BlockState::VOID);
        };
        if !stands(first, 0) {
            return Ok(BlockState::VOID);
        }
        // Which of two salts it is the unit's tag tells. A newer first unit saves the search for the last one, which is newer as well.
        if salt != second || first >= self.anchor {
            return self.read_block(cells, block).await;
        }
        let epoch = Epoch { serial: first, salt };
        let (last, newest) = cells.last_held(block, first).await.map_err(medium)?;
        if newest >= self.anchor || self.has_newer_ticket(cells, block).await? {
            return self.read_block(cells, block).await;
        }
        if self.reach == Reach::Ends && !cells.has_ends(block, epoch, last).await.map_err(medium)? {
            return self.read_block(cells, block).await;
        }
        // cannot overflow: units of a block are counted by 14 bits.
        let state = BlockState::holding(epoch, last.saturating_add(1));
        self.sum = self.sum.wrapping_add(cells.keys.share(stamp(block, &state)));
        Ok(state)
    }

    /// Whether something newer than the record seems to stand in a block's slot. After a close in good order nothing does.
    async fn has_newer_ticket<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &self,
        cells: &mut Cells<A, D, B>,
        block: u32,
    ) -> Result<bool, SealedError> {
        if self.clean || cells.layout.slot() == 0 {
            return Ok(false);
        }
        let found = cells.ticket_serial(block).await.map_err(SealedError::Medium)?;
        Ok(found.is_some_and(|serial| serial >= self.anchor && stands(serial, 0)))
    }

    /// Reads unit by unit what was announced for an erase, as a cut one may have left serials alone.
    pub(crate) async fn read_announced<A: Aead, D: FlashDevice, B: AsMut<[u8]>>(
        &mut self,
        cells: &mut Cells<A, D, B>,
        table: &mut [BlockState],
    ) -> Result<(), SealedError> {
        for (_, ticket) in self.tickets.into_iter().flatten() {
            let Some(state) = table.get_mut(ticket.block as usize) else { return Err(self.not_anchored()) };
            // What has something newer was read so already, and is refused: no such block is announced before it is anchored.
            if state.fill() != 0 && state.epoch().serial < self.anchor && !state.is_in_flight() {
                self.sum = self.sum.wrapping_sub(cells.keys.share(stamp(ticket.block, state)));
                *state = self.read_block(cells, ticket.block).await?;
            }
        }
        Ok(())
    }
}

#[twin]
impl<A: Aead, D: FlashDevice, B: AsMut<[u8]>> Cells<A, D, B> {
    /// The last unit that a block holds if the serials in it are right, and its serial. They rise from the first unit on, so halving finds
    /// the end.
    async fn last_held(&mut self, block: u32, first: u64) -> Result<(u32, u64), FlashCause> {
        let (mut last, mut newest) = (0_u32, first);
        let mut end = self.layout.units();
        while let Some(left) = end.checked_sub(last).filter(|left| *left > 1) {
            // cannot overflow: units of a block are counted by 14 bits.
            let unit = last.saturating_add(left.div_ceil(2));
            match self.unit_serial(block, unit).await? {
                Some(serial) if stands(serial, newest) => (last, newest) = (unit, serial),
                _ => end = unit,
            }
        }
        Ok((last, newest))
    }

    /// Whether the first unit of a block verifies under this epoch, and so does the last one.
    async fn has_ends(&mut self, block: u32, epoch: Epoch, last: u32) -> Result<bool, FlashCause> {
        Ok(self.open_unit(block, 0, epoch).await?.is_some()
            && (last == 0 || self.open_unit(block, last, epoch).await?.is_some()))
    }

    /// The serial that stands in unit 0 of a block, and the two salts behind it. None if the medium's own code refuses to read them.
    async fn first_mark(&mut self, block: u32) -> Result<Option<(u64, [Salt; 2])>, FlashCause> {
        let (address, payload) = (self.layout.unit_address(block, 0), self.layout.payload());
        // cannot underflow: the payload is a part of the unit.
        let len = self.layout.unit_len(0).saturating_sub(payload);
        let Some(bytes) = self.read_behind(address, payload, len).await? else { return Ok(None) };
        let salts = bytes.last_chunk::<SALTS_LEN>().map(decode);
        Ok(serial_of(bytes).zip(salts).map(|(serial, (first, second))| (serial, [first, second])))
    }

    async fn unit_serial(&mut self, block: u32, unit: u32) -> Result<Option<u64>, FlashCause> {
        let address = self.layout.unit_address(block, unit);
        Ok(self.read_behind(address, self.layout.payload(), SERIAL_LEN as u32).await?.and_then(serial_of))
    }

    async fn ticket_serial(&mut self, block: u32) -> Result<Option<u64>, FlashCause> {
        let address = self.layout.slot_address(block);
        Ok(self.read_behind(address, TICKET_LEN as u32, SERIAL_LEN as u32).await?.and_then(serial_of))
    }

    /// So many bytes behind the data of a cell, read without the rest of it as far as the medium can. None if its own code refuses to.
    async fn read_behind(&mut self, address: u64, data: u32, len: u32) -> Result<Option<&[u8]>, FlashCause> {
        let read_size = self.layout.medium().read_size();
        // cannot be missing: no size of a geometry is 0.
        let before = data.checked_rem(read_size).unwrap_or(0);
        // cannot overflow: a cell lies in an erase block, of which 32 bits count the bytes, and its address was found to fit.
        let address = address.saturating_add(data.saturating_sub(before).into());
        let end = before.saturating_add(len);
        let whole = end.checked_next_multiple_of(read_size).unwrap_or(end);
        let bytes = self.read_bytes(address, whole).await?;
        Ok(bytes.and_then(|bytes| bytes.get(before as usize..end as usize)))
    }
}

fn serial_of(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| serial::from_bytes(*bytes))
}

/// Whether a cell with this serial may have been sealed after another. None has 0, nor the one that blank flash shows.
fn stands(serial: u64, after: u64) -> bool {
    const BLANK: u64 = SERIAL_END - 1;
    serial > after && serial != BLANK
}
