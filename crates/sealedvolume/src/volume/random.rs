//! The source of salts, which several threads have.

use std::sync::{Arc, Mutex};

use atrest_secret::{Random, RandomError};

use super::RandomSource;

#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<RandomSource>>);

impl Shared {
    pub(crate) fn new(random: RandomSource) -> Self {
        Self(Arc::new(Mutex::new(random)))
    }
}

impl Random for Shared {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        // One that panicked may have yielded anything.
        self.0.lock().map_err(|_| RandomError)?.fill(out)
    }
}
