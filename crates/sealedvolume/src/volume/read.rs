//! Reading: where a block lies, and whether it is what was written.

use std::sync::Arc;

use super::VolumeError;
use super::batch::Found;
use super::core::{Core, Plaintext};
use super::extents::Place;
use super::nodes::{Fetched, Lacks};
use crate::format::{BLOCK_LEN, BLOCK_SEALED, Parts, Prelude, names, open_block, slot_offset};

/// Blocks that one request to the store asks for, at most: 1 MiB.
const JOINED: u64 = 256;

impl Core {
    /// Fills `out` from byte `offset`, which the caller has checked.
    pub(crate) fn read(&mut self, offset: u64, mut out: &mut [u8]) -> Result<(), VolumeError> {
        let (mut block, mut within) = (offset / BLOCK_LEN as u64, (offset % BLOCK_LEN as u64) as usize);
        while !out.is_empty() {
            if within == 0 && out.len() >= BLOCK_LEN {
                let whole = out.len() / BLOCK_LEN;
                let done = self.read_run(block, &mut out[..whole * BLOCK_LEN])?;
                out = &mut out[done as usize * BLOCK_LEN..];
                block += done;
                continue;
            }
            let mut edge = [0; BLOCK_LEN];
            self.read_run(block, &mut edge)?;
            let len = out.len().min(BLOCK_LEN - within);
            out[..len].copy_from_slice(&edge[within..within + len]);
            atrest_secret::wipe(&mut edge);
            out = &mut out[len..];
            (block, within) = (block + 1, 0);
        }
        Ok(())
    }

    /// Reads blocks from one on that lie together, into the beginning of `out`. Returns how many.
    fn read_run(&mut self, block: u64, out: &mut [u8]) -> Result<u64, VolumeError> {
        let (len, place) = self.place(block)?;
        let len = len.min((out.len() / BLOCK_LEN) as u64);
        let out = &mut out[..len as usize * BLOCK_LEN];
        match place {
            Whereabouts::Here(data) => {
                out[..BLOCK_LEN].copy_from_slice(&**data);
                Ok(1)
            }
            Whereabouts::Placed(Place::Hole) => {
                out.fill(0);
                Ok(len)
            }
            Whereabouts::Placed(Place::Stored(object, slot)) => {
                let len = len.min(JOINED);
                self.read_stored(&object, slot, block, &mut out[..len as usize * BLOCK_LEN])?;
                Ok(len)
            }
        }
    }

    /// Where a block is, the batch included, and how many from it on are there together.
    pub(super) fn place(&self, block: u64) -> Result<(u64, Whereabouts), VolumeError> {
        self.place_by(block, || self.state.place(&self.objects, block))
    }

    /// [`place`](Self::place) by what of the map is in memory.
    pub(super) fn place_here(&self, fetched: &Fetched, block: u64) -> Result<(u64, Whereabouts), Lacks> {
        self.place_by(block, || self.state.place_here(fetched, block))
    }

    fn place_by<E>(
        &self,
        block: u64,
        find: impl FnOnce() -> Result<(u64, Place), E>,
    ) -> Result<(u64, Whereabouts), E> {
        let found = self.writer.as_ref().map_or(Err(u64::MAX), |writer| writer.batch.find(block));
        let unknown = match found {
            Ok(Found::Data(data)) => return Ok((1, Whereabouts::Here(Box::new(Plaintext(*data))))),
            Ok(Found::Zeros(len)) => return Ok((len, Whereabouts::Placed(Place::Hole))),
            Err(unknown) => unknown,
        };
        let (len, place) = find()?;
        Ok((len.min(unknown), Whereabouts::Placed(place)))
    }

    /// How many blocks from one on are holes, or are none.
    pub(crate) fn extent(&self, fetched: &Fetched, block: u64, most: u64) -> Result<(u64, bool), Lacks> {
        let (len, place) = self.place_here(fetched, block)?;
        Ok((len.min(most), matches!(place, Whereabouts::Placed(Place::Hole))))
    }

    /// Reads blocks that lie in neighbouring slots of an object.
    pub(crate) fn read_stored(
        &mut self,
        object: &Arc<Prelude>,
        slot: u32,
        block: u64,
        out: &mut [u8],
    ) -> Result<(), VolumeError> {
        let blocks = out.as_chunks_mut::<BLOCK_LEN>().0;
        let mut known = 0;
        for (to, at) in blocks.iter_mut().zip(slot..) {
            let Some(cached) = self.cache.find(&(object.salt, at)) else { break };
            *to = **cached;
            known += 1;
        }
        let (blocks, first) = (&mut blocks[known..], slot + known as u32);
        if blocks.is_empty() {
            return Ok(());
        }
        let cipher = self.objects.cipher(object)?;
        let sealed = self.fetch(object, first, blocks.len(), block + known as u64)?;
        let mut sealed = sealed.chunks(BLOCK_SEALED);
        let mut whole = Vec::with_capacity(blocks.len());
        cipher.several(|parts| {
            for (to, at) in blocks.iter_mut().zip(first..) {
                whole.push(opens(parts, at, block + u64::from(at - slot), sealed.next(), to));
            }
        });
        for ((to, at), whole) in blocks.iter_mut().zip(first..).zip(whole) {
            if !whole {
                // Once more, from the store: the way there may have damaged it.
                let address = block + u64::from(at - slot);
                let again = self.fetch(object, at, 1, address)?;
                if !cipher.several(|parts| opens(parts, at, address, Some(&again), to)) {
                    return Err(VolumeError::Damaged { block: address });
                }
            }
            self.cache.keep((object.salt, at), 1, Arc::new(Plaintext(*to)));
        }
        Ok(())
    }

    /// Sealed blocks as they lie in an object, fewer where it ends: of one that is not stored yet, from memory.
    fn fetch(&self, object: &Prelude, slot: u32, count: usize, block: u64) -> Result<Vec<u8>, VolumeError> {
        let (offset, len) = (slot_offset(object, slot)?, count * BLOCK_SEALED);
        if let Some(queued) = self.writer.as_ref().and_then(|writer| writer.uploads.find(object)) {
            let offset = offset as usize; // within bytes that are in memory
            return Ok(queued.bytes[offset..offset + len].to_vec());
        }
        let store = self.objects.store_of(object);
        let found =
            self.objects.again(|| store.get_range(&names::log(object.number), offset, len), |_| true)?;
        found.ok_or(VolumeError::Missing { block })
    }
}

/// Where a block is.
pub(super) enum Whereabouts {
    Here(Box<Plaintext>),
    Placed(Place),
}

pub(super) fn opens(
    parts: Parts<'_>,
    slot: u32,
    address: u64,
    sealed: Option<&[u8]>,
    out: &mut [u8; BLOCK_LEN],
) -> bool {
    let whole = sealed.and_then(|sealed| sealed.first_chunk::<BLOCK_SEALED>());
    whole.is_some_and(|sealed| open_block(parts, slot, address, sealed, out).is_ok())
}
