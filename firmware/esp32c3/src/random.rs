//! The chip's random source.

use atrest_secret::{Random, RandomError};
use esp_hal::rng::Trng;

/// esp-hal's true random numbers. They exist while its `TrngSource` feeds the generator with noise of the ADC; without one,
/// nothing is filled.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChipRandom;

impl Random for ChipRandom {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        Trng::try_new().map_err(|_| RandomError)?.read(out);
        Ok(())
    }
}
