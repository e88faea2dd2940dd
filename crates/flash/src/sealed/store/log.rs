//! Entries of one size in erase blocks, one behind the other, block after block in a ring: what stores that are not atomic lie in.

use atrest_device::{FlashCause, FlashError, TrustedStoreError};

use super::{FlashDevice, twin};
use crate::sealed::store_error::failed;

/// How often a place is read before it is believed to hold nothing of ours, and what was written there, to stay.
const READS: usize = 3;

/// All erase blocks of a medium. `N` is the room for an entry, rounded up to prog units.
#[derive(Debug)]
pub(super) struct Log<D, const N: usize> {
    device: D,
    entry_len: u32,
    /// Where the next entry goes: block and index in it.
    next: (u64, u32),
    /// Nothing was written since everything was cleared that could be: what is there all the same stands in bad blocks.
    cleared: bool,
}

/// What a log was found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// What was looked for, in this block.
    Found(u64),
    /// At most one entry in each block that is not whole: the first was cut.
    Nothing,
    /// Something else.
    Other,
}

#[twin]
impl<D: FlashDevice, const N: usize> Log<D, N> {
    /// Reads nothing yet.
    pub(super) fn new(device: D, entry_len: usize) -> Result<Self, TrustedStoreError> {
        let log = Self { device, entry_len: entry_len as u32, next: (0, 0), cleared: false };
        let (stride, geometry) = (log.stride(), log.device.geometry());
        if (N as u64) < u64::from(stride) {
            return Err(log.too_small());
        }
        if log.per_block() == 0 || geometry.block_count() < 2 {
            // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
            let needs = stride.saturating_mul(2);
            return Err(TrustedStoreError::TooSmall { needs, has: geometry.size() });
        }
        Ok(log)
    }

    pub(super) fn into_device(self) -> D {
        self.device
    }

    /// Reads all entries, and shows each until it is taken or has been read often enough. The last one taken is what was looked for; the next
    /// goes behind everything in its block.
    pub(super) async fn look(
        &mut self,
        mut takes: impl FnMut(&[u8]) -> bool,
    ) -> Result<Contents, TrustedStoreError> {
        let (mut found, mut used, mut nothing) = (None, false, true);
        for block in 0..self.blocks() {
            let (mut free, mut here) = (0, false);
            for index in 0..self.per_block() {
                let mut bytes = [0; N];
                let mut blank = false;
                for _ in 0..READS {
                    let cell = self.read(block, index, &mut bytes).await?;
                    blank = cell.is_some_and(|cell| self.is_blank(cell));
                    let taken = !blank && cell.is_some_and(&mut takes);
                    here |= taken;
                    if blank || taken {
                        break;
                    }
                }
                if !blank {
                    // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
                    free = index.saturating_add(1);
                }
            }
            (used, nothing) = (used | (free > 0), nothing & (free <= 1));
            if here {
                found = Some((block, free));
            }
        }
        // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
        let last = self.blocks().saturating_sub(1);
        // In the end what was nothing of ours is erased first.
        self.next = found.unwrap_or(if used { (last, u32::MAX) } else { (0, 0) });
        Ok(match found {
            Some((block, _)) => Contents::Found(block),
            None if nothing || self.cleared => Contents::Nothing,
            None => Contents::Other,
        })
    }

    /// Writes an entry where it then reads right: in the next place, or at the beginning of another block, which is erased, but never
    /// `home`. Returns the block.
    pub(super) async fn append(&mut self, entry: &[u8], home: Option<u64>) -> Result<u64, TrustedStoreError> {
        let (first, index) = self.next;
        let mut failure = TrustedStoreError::WornOut;
        if index < self.per_block() {
            match self.place(first, index, entry).await? {
                Ok(()) => return Ok(first),
                Err(error) => failure = error,
            }
        }
        for at in 1..=self.blocks() {
            // There are two blocks at least.
            // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
            let block = first.wrapping_add(at).checked_rem(self.blocks()).unwrap_or(0);
            if home == Some(block) {
                continue;
            }
            let done = match self.erase(block).await {
                Ok(()) => self.place(block, 0, entry).await?,
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => return Ok(block),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Makes every place blank, except in blocks that can't be: two others are needed. Until something is written those don't count,
    /// nor what can't be read there.
    pub(super) async fn clear(&mut self) -> Result<(), TrustedStoreError> {
        let (mut good, mut failure) = (0_u64, TrustedStoreError::WornOut);
        for block in 0..self.blocks() {
            match self.clear_block(block).await {
                // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
                Ok(()) => good = good.saturating_add(1),
                Err(error) => failure = error,
            }
        }
        self.device.sync().await.map_err(failed)?;
        if good < 2 {
            return Err(failure);
        }
        // Erased once more before the first is used: it may be a bad one.
        // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
        (self.next, self.cleared) = ((self.blocks().saturating_sub(1), u32::MAX), true);
        Ok(())
    }

    async fn clear_block(&mut self, block: u64) -> Result<(), TrustedStoreError> {
        self.erase(block).await?;
        if self.device.erased_byte().is_none() {
            // A card: what was erased may still be there.
            let blank = [BLANK; N];
            let cell = blank.get(..self.stride() as usize).ok_or(self.too_small())?;
            for index in 0..self.per_block() {
                self.device.prog(self.address(block, index), cell).await.map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Programs an entry and reads it back. The inner error is that of the place, the outer one of the medium.
    async fn place(
        &mut self,
        block: u64,
        index: u32,
        entry: &[u8],
    ) -> Result<Result<(), TrustedStoreError>, TrustedStoreError> {
        // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
        (self.next, self.cleared) = ((block, index.saturating_add(1)), false);
        let mut bytes = [0; N];
        bytes.iter_mut().zip(entry).for_each(|(to, from)| *to = *from);
        let cell = bytes.get(..self.stride() as usize).ok_or(self.too_small())?;
        if let Err(error) = self.device.prog(self.address(block, index), cell).await {
            return Ok(Err(failed(error)));
        }
        self.device.sync().await.map_err(failed)?;
        for _ in 0..READS {
            let mut found = [0; N];
            match self.read(block, index, &mut found).await {
                Ok(Some(cell)) if cell.starts_with(entry) => {}
                Ok(_) => return Ok(Err(TrustedStoreError::WornOut)),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// What stands in a place; none if the medium's own code refuses to read it.
    async fn read<'a>(
        &mut self,
        block: u64,
        index: u32,
        bytes: &'a mut [u8; N],
    ) -> Result<Option<&'a [u8]>, TrustedStoreError> {
        let (address, stride) = (self.address(block, index), self.stride());
        let cell = bytes.get_mut(..stride as usize).ok_or(self.too_small())?;
        match self.device.read(address, cell).await {
            Ok(()) => Ok(Some(cell)),
            Err(FlashError { cause: FlashCause::Uncorrectable | FlashCause::BadBlock { .. }, .. }) => {
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// An entry does not fit into the room for one: looked at when this was made.
    fn too_small(&self) -> TrustedStoreError {
        TrustedStoreError::TooSmall { needs: self.stride(), has: N as u64 }
    }

    async fn erase(&mut self, block: u64) -> Result<(), TrustedStoreError> {
        let erase_size = self.device.geometry().erase_size();
        self.device.erase(self.address(block, 0), erase_size.into()).await.map_err(failed)
    }

    fn is_blank(&self, cell: &[u8]) -> bool {
        let erased = self.device.erased_byte().unwrap_or(BLANK);
        cell.iter().all(|byte| *byte == erased)
    }

    /// Bytes from one entry to the next.
    fn stride(&self) -> u32 {
        let prog = self.device.geometry().prog_size();
        // What is past 32 bits has no room in N either, and is refused for that.
        // intended: what is past 32 bits has no room in N, and is refused for that.
        self.entry_len.checked_next_multiple_of(prog).unwrap_or(u32::MAX)
    }

    fn blocks(&self) -> u64 {
        self.device.geometry().block_count()
    }

    /// At least one, or the log was refused. An entry has bytes, so the division has a result.
    fn per_block(&self) -> u32 {
        // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
        self.device.geometry().erase_size().checked_div(self.stride()).unwrap_or(0)
    }

    /// Of a place on the medium, whose size 64 bits count.
    fn address(&self, block: u64, index: u32) -> u64 {
        // cannot overflow: the medium has two blocks or more, whose bytes 64 bits count; an entry fits into a block.
        let start = block.saturating_mul(self.device.geometry().erase_size().into());
        start.saturating_add(u64::from(index).saturating_mul(self.stride().into()))
    }
}

/// What a place on a card holds that nothing was written to since the log was cleared.
const BLANK: u8 = 0xff;
