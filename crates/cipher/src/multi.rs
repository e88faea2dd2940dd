//! Several keys in turn (dm-crypt's `aes:64-…`, made for loop-AES): the sector's number says which.

use atrest_secret::SecretArray;

use crate::block::Direction;
use crate::data_rule::lmk::{Lmk, SEED_LEN};
use crate::key_error::KeyError;
use crate::mode::facts::MAX_KEYS;
use crate::options::MapperOptions;
use crate::run::{Position, Run, RunError};
use crate::spec::{CipherSpec, KeyedRule};

/// Units that go through all steps before the next ones do: every key for two of them.
const UNITS_AT_A_TIME: usize = 2 * MAX_KEYS;

/// Bytes in the longest of keys, times as many as there may be, and loop-AES's seed.
const MAX_LEN: usize = 64 * MAX_KEYS;

/// What each key is expanded to, for as long as a run needs it.
pub(crate) trait OneKey: Sized {
    /// Expands `key` for `spec`.
    fn new(spec: &CipherSpec, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError>;

    /// Encrypts or decrypts a run.
    fn run(&self, direction: Direction, position: Position, run: Run<'_>) -> Result<(), RunError>;

    /// Name of the backend.
    fn backend_name(&self) -> &'static str;

    /// Whether time and memory accesses are independent of keys and data.
    fn is_constant_time(&self) -> bool;
}

/// The keys as they were given. Their schedules would need far more memory than a mapper may take, so a run expands
/// each key that it needs, once.
pub(crate) struct MultiKeyed {
    keys: SecretArray<MAX_LEN>,
    key_len: usize,
    count: usize,
    /// What a single key is for.
    spec: CipherSpec,
    options: MapperOptions,
    lmk: Option<Lmk>,
}

impl MultiKeyed {
    /// Splits `key`, whose length fits `spec`, and tries each part.
    pub(crate) fn new<K: OneKey>(
        spec: &CipherSpec,
        key: &[u8],
        options: &MapperOptions,
    ) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        if !spec.key_len_is_valid(key.len()) {
            return Err(wrong_length);
        }
        let count = spec.key_count();
        // As in the kernel, a remainder says that there is one more key, of which the seed is the start.
        let seeded = !key.len().is_multiple_of(count);
        let key_len = key.len() / (count + usize::from(seeded));
        let (keys, seed) = key.split_at_checked(key_len * count).ok_or(wrong_length)?;
        let lmk = match spec.iv.keyed {
            Some(KeyedRule::Lmk) => Some(Lmk::new(seed.first_chunk::<SEED_LEN>())),
            _ => None,
        };
        let mut multi = Self {
            keys: SecretArray::zeroed(),
            key_len,
            count,
            spec: spec.with_one_key(),
            options: *options,
            lmk,
        };
        multi.keys.get_mut(..keys.len()).ok_or(wrong_length)?.copy_from_slice(keys);
        for key in keys.chunks(key_len) {
            K::new(&multi.spec, key, options)?;
        }
        // What was accepted once is not looked at again.
        multi.options.allow_equal_xts_halves = true;
        Ok(multi)
    }

    /// Encrypts or decrypts a run.
    ///
    /// # Errors
    /// [`RunError::KeyRefused`] if a key is refused that was accepted before. Then nothing may pass for encrypted.
    pub(crate) fn run<K: OneKey>(
        &self,
        direction: Direction,
        position: Position,
        run: Run<'_>,
    ) -> Result<(), RunError> {
        let units = run.into_blocks();
        for (i, units) in units.chunks_mut(position.unit_blocks * UNITS_AT_A_TIME).enumerate() {
            let position = position.after(i * UNITS_AT_A_TIME);
            if let (Some(lmk), Direction::Encrypt) = (&self.lmk, direction) {
                lmk.apply(position, units);
            }
            for (index, key) in self.keys.chunks(self.key_len).take(self.count).enumerate() {
                let mut keyed = None;
                for (i, unit) in units.chunks_mut(position.unit_blocks).enumerate() {
                    let position = position.after(i);
                    if self.key_index(position) != index {
                        continue;
                    }
                    let keyed = match &mut keyed {
                        Some(keyed) => keyed,
                        none => none.insert(
                            K::new(&self.spec, key, &self.options).map_err(|_| RunError::KeyRefused)?,
                        ),
                    };
                    keyed.run(direction, position, Run::of_blocks(unit))?;
                }
            }
            if let (Some(lmk), Direction::Decrypt) = (&self.lmk, direction) {
                lmk.apply(position, units);
            }
        }
        Ok(())
    }

    /// The kernel goes by the number of the unit's first 512-byte sector, also where IVs count units.
    fn key_index(&self, position: Position) -> usize {
        let unit_sectors = (position.unit_blocks / 32).max(1) as u64;
        let sector = position.number.wrapping_mul(unit_sectors / position.step.max(1));
        (sector % self.count as u64) as usize
    }

    /// Name of the backend.
    pub(crate) fn backend_name<K: OneKey>(&self) -> &'static str {
        self.any::<K>().map_or("portable", |keyed| keyed.backend_name())
    }

    /// Whether time and memory accesses are independent of keys and data.
    pub(crate) fn is_constant_time<K: OneKey>(&self) -> bool {
        self.any::<K>().is_some_and(|keyed| keyed.is_constant_time())
    }

    /// What any of the keys makes.
    fn any<K: OneKey>(&self) -> Option<K> {
        K::new(&self.spec, self.keys.get(..self.key_len)?, &self.options).ok()
    }
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;
    use crate::keyed::AnyKeyed;

    /// Were a key refused that set-up took, a run would have to say so: units that were not encrypted look like it.
    pub(crate) fn a_key_that_is_refused_is_an_error_and_not_a_unit_of_zeros() {
        let spec: CipherSpec = "aes:2-cbc-plain64".parse().expect("a cipher");
        let mut multi =
            MultiKeyed::new::<AnyKeyed>(&spec, &[7; 64], &MapperOptions::default()).expect("two keys");
        let position = Position { number: 0, step: 1, unit_blocks: 32, skipped: 0 };
        let mut unit = [1; 512];
        assert_eq!(multi.run::<AnyKeyed>(Direction::Encrypt, position, Run::in_place(&mut unit)), Ok(()));
        assert_ne!(unit, [1; 512]);
        // AES has no keys of 31 bytes.
        multi.key_len = 31;
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let mut unit = [1; 512];
            assert_eq!(
                multi.run::<AnyKeyed>(direction, position, Run::in_place(&mut unit)),
                Err(RunError::KeyRefused)
            );
            assert_eq!(unit, [1; 512], "the unit was replaced");
        }
    }
}
