//! A counter of a TPM as the trusted store of a pinned header (FORMATS.md, "Pinned headers"). It rises by one with each pin, so that an
//! older header of the same volume is one that the counter has passed.
//!
//! The header is written first, then the counter is raised, in the order of files ([`pin_record`](super::pin_record)) and for the same
//! reasons. The token that names the counter is under the MAC of the pin: who has not the key can't name another counter or another TPM.

use atrest_format::luks2::{CounterToken, Pin};

use super::Luks2;
use super::pin::PinError;

/// How far a header may be before the counter. Each change that nobody told the TPM of is one.
const MOST_AHEAD: u64 = 1000;
/// By how many pins one command makes it newer at most.
const MOST_AT_ONCE: u64 = 8;

/// The counter that a header names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinCounter {
    /// Its index in the TPM.
    pub index: u32,
    /// The Name of the TPM's storage key.
    pub storage_key: Vec<u8>,
    /// Number of the header's pin.
    number: u64,
    /// What the counter has if the header is the newest one.
    value: u64,
}

/// The counter under which a header is to be pinned, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPinCounter {
    /// Its index in the TPM.
    pub index: u32,
    /// The Name of the TPM's storage key.
    pub storage_key: Vec<u8>,
    /// What the counter has, or will have once it is where the header says. It is one less than what it is raised to once the header is
    /// pinned.
    pub value: u64,
}

impl NewPinCounter {
    /// The counter for a header that names it already. The values up to that of the header belong to headers of which nobody told the
    /// TPM: a new pin with one of them would have the value of an older header. A header that the counter has passed changes nothing.
    ///
    /// # Errors
    /// [`PinError::Ahead`] or [`PinError::Untold`], as [`PinCounter::before_change`].
    pub fn after(self, named: &PinCounter) -> Result<Self, PinError> {
        match named.before_change(self.value) {
            // What the counter has once it is raised by that.
            Ok(_) => Ok(Self { value: named.value, ..self }),
            Err(PinError::Older { .. }) => Ok(self),
            Err(error) => Err(error),
        }
    }

    /// The token for a pin of this number.
    pub(super) fn token(&self, number: u64) -> Option<CounterToken> {
        let value = self.value.checked_add(1)?;
        Some(CounterToken { index: self.index, storage_key: self.storage_key.clone(), number, value })
    }
}

impl PinCounter {
    /// How often the counter has to be raised until it is where the header says, if it has this value now.
    ///
    /// # Errors
    /// [`PinError::Older`] if the counter has passed the header, [`PinError::Ahead`] if the header is so far before it that it can't be
    /// the counter of this header.
    pub fn behind(&self, now: u64) -> Result<u64, PinError> {
        match self.value.checked_sub(now) {
            Some(behind) if behind <= MOST_AHEAD => Ok(behind),
            Some(_) => Err(PinError::Ahead),
            None => Err(PinError::Older {
                counter: self.number,
                // cannot be less: the counter has passed the header.
                least: self.number.saturating_add(now.saturating_sub(self.value)),
            }),
        }
    }

    /// What [`behind`](Self::behind) says, for a header that is to be changed: it may not be so far before the counter that the changed one
    /// is refused.
    ///
    /// # Errors
    /// Those of [`behind`](Self::behind), and [`PinError::Untold`] some steps before them: the header opens, and the TPM is told then.
    pub fn before_change(&self, now: u64) -> Result<u64, PinError> {
        let behind = self.behind(now)?;
        match behind <= MOST_AHEAD - MOST_AT_ONCE {
            true => Ok(behind),
            false => Err(PinError::Untold { changes: behind }),
        }
    }
}

impl Luks2 {
    /// The counter that the header names. What it says of itself is believed until the pin has been checked with the key.
    ///
    /// # Errors
    /// [`PinError::Missing`] if the header is not pinned, [`PinError::Uncounted`] if it names no counter, [`PinError::Token`] or
    /// [`PinError::BadCounter`] if what it says can't be read.
    pub fn pin_counter(&self) -> Result<PinCounter, PinError> {
        let pin = Pin::of(self.metadata()).map_err(PinError::Token)?;
        let (_, pin) = pin.ok_or(PinError::Missing)?;
        let token = CounterToken::of(self.metadata()).map_err(|_| PinError::BadCounter)?;
        let (_, token) = token.ok_or(PinError::Uncounted)?;
        let since = pin.counter.checked_sub(token.number);
        let value = since.and_then(|since| token.value.checked_add(since)).ok_or(PinError::BadCounter)?;
        Ok(PinCounter { index: token.index, storage_key: token.storage_key, number: pin.counter, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_counter_has_passed_is_older_and_what_is_far_before_it_is_not_its_header() {
        let counter = PinCounter { index: 0x0180_0001, storage_key: Vec::new(), number: 7, value: 5000 };
        assert_eq!(counter.behind(5000), Ok(0));
        assert_eq!(counter.behind(4999), Ok(1));
        assert_eq!(counter.behind(4000), Ok(1000));
        assert_eq!(counter.behind(3999), Err(PinError::Ahead));
        assert_eq!(counter.behind(0), Err(PinError::Ahead));
        assert_eq!(counter.behind(5002), Err(PinError::Older { counter: 7, least: 9 }));
        assert_eq!(counter.before_change(4008), Ok(992));
        // What opens, and has the counter raised then, is not taken for the header of another counter.
        assert_eq!(counter.before_change(4007), Err(PinError::Untold { changes: 993 }));
        assert_eq!(counter.before_change(4000), Err(PinError::Untold { changes: 1000 }));
        assert_eq!(counter.before_change(3999), Err(PinError::Ahead));
        assert_eq!(counter.behind(u64::MAX).err().map(|error| error.to_string().is_empty()), Some(false));
    }
}
