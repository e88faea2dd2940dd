//! From what a caller asks for to the cost that a keyslot stores.

use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, KdfError, calibrate};

use crate::{OptionError, Pbkdf, PbkdfKind, PbkdfOptions};

impl PbkdfOptions {
    /// The derivation with its cost: as forced, or calibrated by the clock (which takes a few seconds).
    /// `kind` and `hash` are the format's defaults; the derived key has `key_len` bytes.
    pub(crate) fn resolve<E>(&self, kind: PbkdfKind, hash: Hash, key_len: usize) -> Result<Pbkdf, E>
    where
        E: From<OptionError> + From<KdfError>,
    {
        let argon2 = |kind| self.argon2(kind).map(Pbkdf::Argon2);
        match self.kind.unwrap_or(kind) {
            PbkdfKind::Pbkdf2 => {
                let hash = self.hash.unwrap_or(hash);
                let iterations = match self.forced_iterations {
                    Some(iterations) if iterations < calibrate::MIN_PBKDF2_ITERATIONS => {
                        return Err(OptionError::Pbkdf.into());
                    }
                    Some(iterations) => iterations,
                    None => calibrate::pbkdf2_iterations(hash, key_len, self.time),
                };
                Ok(Pbkdf::Pbkdf2 { hash, iterations })
            }
            PbkdfKind::Argon2i => argon2(Argon2Kind::I),
            PbkdfKind::Argon2id => argon2(Argon2Kind::Id),
        }
    }

    fn argon2<E>(&self, kind: Argon2Kind) -> Result<Argon2Cost, E>
    where
        E: From<OptionError> + From<KdfError>,
    {
        let limit = calibrate::default_argon2_limit(kind);
        let max = Argon2Cost {
            kind,
            time: self.forced_iterations.unwrap_or(limit.time),
            memory_kib: self.memory_kib.unwrap_or(limit.memory_kib),
            lanes: self.lanes.unwrap_or(limit.lanes),
        };
        let too_small =
            max.time < calibrate::MIN_ARGON2_TIME || max.memory_kib < calibrate::MIN_ARGON2_MEMORY_KIB;
        if too_small || max.lanes == 0 || max.lanes > calibrate::MAX_ARGON2_LANES {
            return Err(OptionError::Pbkdf.into());
        }
        let cost = match self.forced_iterations {
            Some(_) => max,
            None => calibrate::argon2_cost(kind, max, self.time)?,
        };
        cost.check()?;
        Ok(cost)
    }
}
