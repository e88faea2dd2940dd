//! Blocks of the tree that have been checked. How many are kept is fixed, so that no order of reads makes it grow.

use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of blocks that are kept.
const BYTES: usize = 16 << 20;
/// Fewest places, whatever a block's size.
const MIN_PLACES: usize = 64;
/// Most places, whatever a block's size.
const MAX_PLACES: usize = 4096;

/// A checked block, with its number on the device.
type Place = Mutex<Option<(u64, Arc<[u8]>)>>;

/// Each block has one place. The next that has the same takes it.
pub struct Cache(Box<[Place]>);

impl Cache {
    /// For blocks of `block` bytes, of which there are `blocks`.
    pub fn new(block: u32, blocks: u64) -> Self {
        let places = (BYTES / block as usize).clamp(MIN_PLACES, MAX_PLACES);
        // intended: more blocks than places.
        let places = usize::try_from(blocks).unwrap_or(usize::MAX).clamp(1, places);
        Self((0..places).map(|_| Place::default()).collect())
    }

    pub fn find(&self, number: u64) -> Option<Arc<[u8]>> {
        let place = self.place(number).lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().filter(|(found, _)| *found == number).map(|(_, block)| Arc::clone(block))
    }

    pub fn keep(&self, number: u64, block: &Arc<[u8]>) {
        *self.place(number).lock().unwrap_or_else(PoisonError::into_inner) =
            Some((number, Arc::clone(block)));
    }

    fn place(&self, number: u64) -> &Place {
        &self.0[(number % self.0.len() as u64) as usize]
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_share_a_place_are_not_taken_for_each_other_and_memory_is_bounded() {
        let cache = Cache::new(4096, u64::MAX);
        let places = cache.0.len() as u64;
        assert!(places * 4096 <= BYTES as u64);
        let block: Arc<[u8]> = vec![1; 4096].into();
        cache.keep(5, &block);
        assert!(cache.find(5).is_some() && cache.find(5 + places).is_none());
        cache.keep(5 + places, &block);
        assert!(cache.find(5).is_none() && cache.find(5 + places).is_some());
    }
}
