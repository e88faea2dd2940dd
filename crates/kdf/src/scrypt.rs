//! scrypt (RFC 7914), computed by a library crate.

use scrypt::Params;

use crate::{CostParameter, KdfError};

/// How much work one derivation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScryptCost {
    /// log2 of N.
    pub log_n: u8,
    /// Block size r.
    pub r: u32,
    /// Parallelization p.
    pub p: u32,
}

impl ScryptCost {
    /// Most memory that is accepted, in bytes: 4 GiB.
    pub const MAX_MEMORY: u64 = 4 << 30;
    /// Largest p that is accepted.
    pub const MAX_P: u32 = 1 << 10;

    /// Bytes of the work area: N and p blocks of 128 r bytes, and one more.
    pub fn memory_bytes(&self) -> u64 {
        let block = 128 * u64::from(self.r);
        let n = 1u64.checked_shl(self.log_n.into()).unwrap_or(u64::MAX);
        block.saturating_mul(n.saturating_add(u64::from(self.p)).saturating_add(1))
    }

    /// Whether the parameters are defined and inside the limits above. [`scrypt()`] checks it first.
    pub fn check(&self) -> Result<(), KdfError> {
        let range = |parameter, value, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(KdfError::CostOutOfRange { parameter, value, min, max })
            }
        };
        range(CostParameter::Parallelization, self.p.into(), 1, Self::MAX_P.into())?;
        range(CostParameter::BlockSize, self.r.into(), 1, Self::MAX_MEMORY / 256)?;
        // At least N = 2, at most what leaves the whole area inside the limit.
        range(CostParameter::LogN, self.log_n.into(), 1, 31)?;
        range(CostParameter::Work, self.memory_bytes(), 1, Self::MAX_MEMORY + (1 << 24))
    }
}

/// Fills `out` (any length but zero) from a passphrase and a salt.
///
/// Costs are checked before anything is allocated; with `std` also against [`available_memory`](crate::available_memory).
/// The library gives its work area back to the allocator without wiping it.
pub fn scrypt(cost: &ScryptCost, passphrase: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), KdfError> {
    cost.check()?;
    let too_long = KdfError::OutputLen { len: out.len() };
    #[cfg(feature = "std")]
    crate::memory::check(cost.memory_bytes())?;
    let params = Params::new(cost.log_n, cost.r, cost.p).map_err(|_| KdfError::CostOutOfRange {
        parameter: CostParameter::LogN,
        value: cost.log_n.into(),
        min: 1,
        max: 31,
    })?;
    atrest_secret::with_wiped_stack(|| scrypt::scrypt(passphrase, salt, &params, out)).map_err(|_| too_long)
}
