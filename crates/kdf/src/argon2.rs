//! Argon2i and Argon2id, version 1.3 (RFC 9106), computed by a library crate in a work area that is wiped.

use alloc::vec::Vec;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::Zeroize;

use crate::{CostParameter, KdfError};

/// Which Argon2. Argon2d is not used by any format here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argon2Kind {
    /// Argon2i: memory is addressed independently of the passphrase.
    I,
    /// Argon2id: independently in the first half of the first pass only.
    Id,
}

/// How much work one derivation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Which Argon2.
    pub kind: Argon2Kind,
    /// Passes over the memory.
    pub time: u32,
    /// KiB of memory.
    pub memory_kib: u32,
    /// Lanes, which may be computed by as many threads.
    pub lanes: u32,
}

impl Argon2Cost {
    /// Most memory that is accepted, in KiB: 4 GiB, as in cryptsetup.
    pub const MAX_MEMORY_KIB: u32 = 4 << 20;
    /// Most lanes that are accepted. cryptsetup writes at most 4, google/fscrypt one for each processor, up to this. Lanes share the
    /// memory, and never are there more threads than processors.
    pub const MAX_LANES: u32 = 255;
    /// Most passes times KiB that are accepted: some hours on any machine. More is an attack on our time.
    pub const MAX_WORK: u64 = 1 << 34;

    /// Bytes of the work area.
    pub const fn memory_bytes(&self) -> u64 {
        self.memory_kib as u64 * Block::SIZE as u64
    }

    /// Whether the parameters lie inside what RFC 9106 defines and the limits above. [`argon2()`] checks it first.
    ///
    /// # Errors
    /// [`KdfError::CostOutOfRange`], which names the first parameter that is outside.
    pub fn check(&self) -> Result<(), KdfError> {
        let range = |parameter, value, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(KdfError::CostOutOfRange { parameter, value, min, max })
            }
        };
        range(CostParameter::Lanes, self.lanes.into(), 1, Self::MAX_LANES.into())?;
        let min_memory = 8 * u64::from(self.lanes);
        range(CostParameter::MemoryKib, self.memory_kib.into(), min_memory, Self::MAX_MEMORY_KIB.into())?;
        range(CostParameter::Time, self.time.into(), 1, u32::MAX.into())?;
        range(CostParameter::Work, u64::from(self.time) * u64::from(self.memory_kib), 1, Self::MAX_WORK)
    }
}

/// Fills `out` (4 bytes or more) from a passphrase and a salt of 8 bytes or more.
///
/// Costs are checked before anything is allocated; with `std` also against [`available_memory`](crate::available_memory).
/// The work area is wiped. With `std`, lanes are computed by threads that are started for this derivation alone, whose
/// stacks are wiped too; where the system refuses threads there are fewer of them, and the result is the same.
///
/// # Errors
/// [`KdfError::CostOutOfRange`], [`KdfError::OutputLen`], [`KdfError::SaltTooShort`] or
/// [`KdfError::InputTooLong`] for inputs that no system accepts. [`KdfError::NotEnoughMemory`] or
/// [`KdfError::AllocationFailed`] if this system can't give the work area now.
///
/// With `std`, [`KdfError::TooMuchWork`] if a short measurement says that the caller's
/// [`WorkLimit`](crate::WorkLimit) does not suffice, and [`KdfError::Cancelled`] if its flag is set. Neither
/// is looked at once the derivation has begun.
pub fn argon2(cost: &Argon2Cost, passphrase: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), KdfError> {
    cost.check()?;
    if out.len() < Params::MIN_OUTPUT_LEN || u32::try_from(out.len()).is_err() {
        return Err(KdfError::OutputLen { len: out.len() });
    }
    if salt.len() < argon2::MIN_SALT_LEN {
        return Err(KdfError::SaltTooShort { len: salt.len(), min: argon2::MIN_SALT_LEN });
    }
    for input in [passphrase, salt] {
        if u32::try_from(input.len()).is_err() {
            return Err(KdfError::InputTooLong { len: input.len() });
        }
    }
    #[cfg(feature = "std")]
    {
        crate::memory::check_memory(cost.memory_bytes())?;
        let sample =
            Argon2Cost { time: 1, memory_kib: cost.memory_kib.min(SAMPLE_KIB.max(8 * cost.lanes)), ..*cost };
        let measure = || {
            let mut key = [0; 32];
            unbounded(&sample, b"a passphrase", b"some salt of any value", &mut key)?;
            Ok(u64::from(sample.memory_kib))
        };
        let work = u64::from(cost.time) * u64::from(cost.memory_kib);
        crate::limit::at_once(work, QUICK_WORK, measure, || unbounded(cost, passphrase, salt, out))
    }
    #[cfg(not(feature = "std"))]
    unbounded(cost, passphrase, salt, out)
}

/// Derives without a look at the time. All parameters were checked.
fn unbounded(cost: &Argon2Cost, passphrase: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), KdfError> {
    let needs = cost.memory_bytes();
    let mut area = WorkArea::new(cost.memory_kib)?;
    let algorithm = match cost.kind {
        Argon2Kind::I => Algorithm::Argon2i,
        Argon2Kind::Id => Algorithm::Argon2id,
    };
    // The parameters and lengths were checked above; the library could still only complain about them.
    let params = Params::new(cost.memory_kib, cost.time, cost.lanes, Some(out.len()))
        .map_err(|_| KdfError::OutputLen { len: out.len() })?;
    let derive = || {
        Argon2::new(algorithm, Version::V0x13, params)
            .hash_password_into_with_memory(passphrase, salt, out, &mut area.0[..])
            .map_err(|_| KdfError::AllocationFailed { needs })
    };
    #[cfg(feature = "std")]
    return crate::lanes::on_own_threads(cost.lanes, derive);
    #[cfg(not(feature = "std"))]
    atrest_secret::with_wiped_stack(derive)
}

/// KiB of memory of a derivation that tells how fast this machine is: more than a core's cache, and some milliseconds.
#[cfg(feature = "std")]
const SAMPLE_KIB: u32 = 16 << 10;
/// Passes times KiB that no machine needs many seconds for: 4 GiB.
#[cfg(feature = "std")]
const QUICK_WORK: u64 = 4 << 20;

/// Argon2's memory, wiped when it is given back.
struct WorkArea(Vec<Block>);

impl WorkArea {
    fn new(blocks: u32) -> Result<Self, KdfError> {
        let failed = KdfError::AllocationFailed { needs: u64::from(blocks) * Block::SIZE as u64 };
        let blocks = usize::try_from(blocks).map_err(|_| failed)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(blocks).map_err(|_| failed)?;
        memory.resize(blocks, Block::new());
        Ok(Self(memory))
    }
}

impl Drop for WorkArea {
    fn drop(&mut self) {
        for block in &mut self.0 {
            block.zeroize();
        }
    }
}
