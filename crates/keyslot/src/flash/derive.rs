//! Key derivations that a program has on board. One that names [`Pbkdf2Kdf`] contains no Catena, and so on.

use core::fmt;

#[cfg(feature = "catena")]
use atrest_kdf::{Catena, CatenaDomain, CatenaInput};
use atrest_kdf::{KdfError, Pbkdf2, Progress, fixed};

use super::SLOT_SALT_LEN;
use super::cost::KdfCost;

/// Iterations or nodes between two calls of a program's own function: a few milliseconds on a microcontroller.
const STEP: u32 = 64;

/// Derives the 32 bytes of a keyslot.
pub trait Derive {
    /// Fills `out`. After an error, nothing in it was derived from the passphrase.
    ///
    /// # Errors
    /// [`DeriveError::NotHere`] if this program does not contain the derivation that `cost` names.
    /// [`DeriveError::Kdf`] if the derivation refuses the cost or its memory. [`DeriveError::TooMuchWork`]
    /// under [`AtMost`] alone.
    fn derive(
        &mut self,
        cost: &KdfCost,
        passphrase: &[u8],
        salt: &[u8; SLOT_SALT_LEN],
        out: &mut [u8; 32],
    ) -> Result<(), DeriveError>;
}

/// Why nothing was derived. No passphrase makes it succeed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeriveError {
    /// This program does not contain that derivation.
    NotHere(KdfCost),
    /// The derivation was refused; too little memory is the usual reason.
    Kdf(KdfError),
    /// The keyslot asks for more work than [`AtMost`] permits. Nothing was derived.
    TooMuchWork {
        /// [`KdfCost::work`] of the keyslot.
        work: u64,
        /// What is permitted.
        most: u64,
    },
}

/// A derivation with a bound: for chips, which have no clock to bound it by.
///
/// A header can ask for [`MAX_WORK`](super::MAX_WORK) hash calls in each of its keyslots, which keeps a chip busy for days.
/// A program that knows what its keyslots cost permits a little more than that.
///
/// ```
/// use atrest_keyslot::flash::{AtMost, Pbkdf2Kdf};
///
/// let mut kdf = AtMost { work: 2 * 20_000, kdf: Pbkdf2Kdf(|_left: u64| {}) }; // PBKDF2 takes two hash calls for an iteration
/// # let _ = &mut kdf;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AtMost<K> {
    /// Most work of one keyslot, as [`KdfCost::work`] counts it.
    pub work: u64,
    /// The derivation.
    pub kdf: K,
}

impl<K: Derive> Derive for AtMost<K> {
    fn derive(
        &mut self,
        cost: &KdfCost,
        passphrase: &[u8],
        salt: &[u8; SLOT_SALT_LEN],
        out: &mut [u8; 32],
    ) -> Result<(), DeriveError> {
        let (work, most) = (cost.work(), self.work);
        if work > most {
            out.fill(0);
            return Err(DeriveError::TooMuchWork { work, most });
        }
        self.kdf.derive(cost, passphrase, salt, out)
    }
}

/// PBKDF2 alone. The function is called every few milliseconds of work with the iterations that are left: for a watchdog, or a bar.
pub struct Pbkdf2Kdf<F>(pub F);

/// PBKDF2 and Catena, in memory that the program lends. A garlic of 12 takes 128 KiB.
#[cfg(feature = "catena")]
pub struct ChipKdfs<'m, F> {
    /// Work area of Catena. It is wiped after use.
    pub memory: &'m mut [u8],
    /// Called every few milliseconds of work with what is left, in iterations or nodes.
    pub between: F,
}

impl<F: FnMut(u64)> Derive for Pbkdf2Kdf<F> {
    fn derive(
        &mut self,
        cost: &KdfCost,
        passphrase: &[u8],
        salt: &[u8; SLOT_SALT_LEN],
        out: &mut [u8; 32],
    ) -> Result<(), DeriveError> {
        match cost {
            KdfCost::Pbkdf2 { iterations } => {
                // Used where it is: moved out of the result, it would be on the stack twice.
                match &mut Pbkdf2::<fixed::Sha256>::new(passphrase, salt, *iterations, out) {
                    Ok(run) => {
                        while let Progress::Unfinished { left } = run.step(STEP) {
                            (self.0)(left);
                        }
                        Ok(())
                    }
                    Err(error) => Err((*error).into()),
                }
            }
            _ => Err(DeriveError::NotHere(*cost)),
        }
    }
}

#[cfg(feature = "catena")]
impl<F: FnMut(u64)> Derive for ChipKdfs<'_, F> {
    fn derive(
        &mut self,
        cost: &KdfCost,
        passphrase: &[u8],
        salt: &[u8; SLOT_SALT_LEN],
        out: &mut [u8; 32],
    ) -> Result<(), DeriveError> {
        match cost {
            KdfCost::Catena(catena) => {
                let input = catena_input(passphrase, salt);
                match &mut Catena::<fixed::Sha256>::new(catena, &input, self.memory, out) {
                    Ok(run) => {
                        while let Progress::Unfinished { left } = run.step(STEP) {
                            (self.between)(left);
                        }
                        Ok(())
                    }
                    Err(error) => Err((*error).into()),
                }
            }
            _ => Pbkdf2Kdf(&mut self.between).derive(cost, passphrase, salt, out),
        }
    }
}

#[cfg(feature = "catena")]
fn catena_input<'a>(passphrase: &'a [u8], salt: &'a [u8; SLOT_SALT_LEN]) -> CatenaInput<'a> {
    CatenaInput { domain: CatenaDomain::KeyDerivation, passphrase, salt, data: b"" }
}

/// All of them, Argon2id too, in memory from the heap. Each derivation is done in one go.
#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyKdf;

#[cfg(feature = "alloc")]
impl Derive for AnyKdf {
    fn derive(
        &mut self,
        cost: &KdfCost,
        passphrase: &[u8],
        salt: &[u8; SLOT_SALT_LEN],
        out: &mut [u8; 32],
    ) -> Result<(), DeriveError> {
        use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, argon2, catena, pbkdf2};

        match cost {
            KdfCost::Pbkdf2 { iterations } => pbkdf2(Hash::Sha256, passphrase, salt, *iterations, out)?,
            KdfCost::Catena(cost) => {
                let mut memory = work_area(cost.memory_bytes(Hash::Sha256))?;
                catena(Hash::Sha256, cost, &catena_input(passphrase, salt), &mut memory, out)?;
            }
            KdfCost::Argon2id { time, memory_kib, lanes } => {
                let (time, memory_kib, lanes) = (*time, *memory_kib, *lanes);
                let cost = Argon2Cost { kind: Argon2Kind::Id, time, memory_kib, lanes };
                argon2(&cost, passphrase, salt, out)?;
            }
        }
        Ok(())
    }
}

/// Catena's memory, if the system has it.
#[cfg(feature = "alloc")]
fn work_area(needs: u64) -> Result<alloc::vec::Vec<u8>, DeriveError> {
    #[cfg(feature = "std")]
    atrest_kdf::check_memory(needs)?;
    let failed = DeriveError::Kdf(KdfError::AllocationFailed { needs });
    let len = usize::try_from(needs).map_err(|_| failed)?;
    let mut memory = alloc::vec::Vec::new();
    memory.try_reserve_exact(len).map_err(|_| failed)?;
    memory.resize(len, 0);
    Ok(memory)
}

impl From<KdfError> for DeriveError {
    fn from(error: KdfError) -> Self {
        Self::Kdf(error)
    }
}

impl<F> fmt::Debug for Pbkdf2Kdf<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pbkdf2Kdf(..)")
    }
}

#[cfg(feature = "catena")]
impl<F> fmt::Debug for ChipKdfs<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChipKdfs(..)")
    }
}

impl fmt::Display for DeriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere(cost) => write!(f, "this program does not contain {}", cost.name()),
            Self::Kdf(error) => error.fmt(f),
            Self::TooMuchWork { work, most } => {
                write!(f, "the keyslot asks for {work} hash calls, and {most} are permitted")
            }
        }
    }
}

impl core::error::Error for DeriveError {}
