//! A counter of the TPM as the trusted store of a pinned header: `--store tpm2:INDEX`.

use core::fmt;
use core::str::FromStr;

use atrest_tpm::{Counter, Device, Parent, Tpm, TpmError};
use atrest_volume::luks2::{NewPinCounter, PinCounter, PinError};

/// What names a counter, where a file could be named as well.
const PREFIX: &str = "tpm2:";

/// A counter of this machine's TPM, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TpmStore(Counter);

/// What is in the place of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A counter that the header does not name: it may be another volume's.
    Other,
    /// The counter that the header names, with this value.
    Named(u64),
    /// Nothing, where the header names a counter of this TPM.
    Gone,
}

/// Why a counter does not confirm a header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterError {
    /// The TPM did not do it.
    Tpm(TpmError),
    /// The header is not the one that the counter has seen.
    Pin(PinError),
}

impl From<TpmError> for CounterError {
    fn from(error: TpmError) -> Self {
        Self::Tpm(error)
    }
}

impl From<PinError> for CounterError {
    fn from(error: PinError) -> Self {
        Self::Pin(error)
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tpm(error) => error.fmt(f),
            Self::Pin(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CounterError {}

/// The text names no counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTpmStore;

impl fmt::Display for BadTpmStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a counter of the TPM is named as tpm2:0x01800000 to tpm2:0x01bfffff")
    }
}

impl core::error::Error for BadTpmStore {}

impl FromStr for TpmStore {
    type Err = BadTpmStore;

    fn from_str(text: &str) -> Result<Self, BadTpmStore> {
        let digits = text.strip_prefix(PREFIX).and_then(|index| index.strip_prefix("0x"));
        let index = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let index = index.and_then(|index| u32::from_str_radix(index, 16).ok()).ok_or(BadTpmStore)?;
        Counter::at(index).map(Self).map_err(|_| BadTpmStore)
    }
}

impl fmt::Display for TpmStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:#010x}", self.0.index())
    }
}

impl TpmStore {
    /// What is said where a header names it, and it is [gone](Found::Gone).
    pub fn gone(self) -> CounterError {
        TpmError::NoCounter { index: self.0.index() }.into()
    }

    /// Whether a text means a counter, rightly written or not, and no file.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Looks what is there before a header is pinned. Nothing is made.
    ///
    /// # Errors
    /// [`TpmError`].
    pub fn look(self, named: Option<&PinCounter>) -> Result<Found, TpmError> {
        let mut tpm = Tpm::open(&Device::from_environment()?)?;
        let there = tpm.has_counter(self.0)?;
        let named = named.filter(|named| named.index == self.0.index());
        let parent = match named.map(|named| tpm.storage_root_named(&named.storage_key)) {
            Some(Ok(parent)) => Some(parent),
            // It is the counter of another TPM, or of this one before it was cleared.
            None | Some(Err(TpmError::OtherParent | TpmError::NoSuchKey { .. })) => None,
            Some(Err(error)) => return Err(error),
        };
        match (there, parent) {
            (true, Some(parent)) => tpm.counter(self.0, &parent).map(Found::Named),
            (true, None) => Ok(Found::Other),
            (false, Some(_)) => Ok(Found::Gone),
            (false, None) => Ok(Found::Nothing),
        }
    }

    /// The counter for a header that is to be pinned. It is made if it is not there.
    ///
    /// # Errors
    /// [`TpmError`].
    pub fn for_new_pin(self) -> Result<NewPinCounter, TpmError> {
        let mut tpm = Tpm::open(&Device::from_environment()?)?;
        let parent = tpm.storage_root()?;
        tpm.make_counter(self.0)?;
        let value = tpm.counter(self.0, &parent)?;
        let storage_key = parent.name().to_vec();
        Ok(NewPinCounter { index: self.0.index(), storage_key, value })
    }

    /// Checks that the counter has not passed a header which is to be changed, and can follow it.
    ///
    /// # Errors
    /// [`CounterError`].
    pub fn check_before_change(self, named: &PinCounter) -> Result<(), CounterError> {
        let (mut tpm, parent) = self.of(named)?;
        named.before_change(tpm.counter(self.0, &parent)?)?;
        Ok(())
    }

    /// Checks that the counter has not passed a header: how often it is still to be raised, which only who has the volume key may do.
    ///
    /// # Errors
    /// [`CounterError`].
    pub fn check(self, named: &PinCounter) -> Result<u64, CounterError> {
        let (mut tpm, parent) = self.of(named)?;
        Ok(named.behind(tpm.counter(self.0, &parent)?)?)
    }

    /// Raises the counter until it is where the header says.
    ///
    /// # Errors
    /// [`CounterError`]. A TPM that does not raise it: [`TpmError::Malformed`].
    pub fn catch_up(self, named: &PinCounter) -> Result<(), CounterError> {
        let (mut tpm, parent) = self.of(named)?;
        let behind = named.behind(tpm.counter(self.0, &parent)?)?;
        if behind == 0 {
            return Ok(());
        }
        tpm.raise_counter(self.0, &parent, behind)?;
        match named.behind(tpm.counter(self.0, &parent)?)? {
            0 => Ok(()),
            _ => Err(TpmError::Malformed.into()),
        }
    }

    fn of(self, named: &PinCounter) -> Result<(Tpm, Parent), CounterError> {
        if named.index != self.0.index() {
            return Err(PinError::OtherCounter { index: named.index }.into());
        }
        let mut tpm = Tpm::open(&Device::from_environment()?)?;
        let parent = tpm.storage_root_named(&named.storage_key)?;
        Ok((tpm, parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_read_as_it_is_printed() {
        let store: TpmStore = "tpm2:0x1800001".parse().expect("a counter");
        assert_eq!(store.to_string(), "tpm2:0x01800001");
        assert_eq!(store.to_string().parse(), Ok(store));
        for bad in [
            "tpm2:",
            "tpm2:0x",
            "tpm2:1",
            "tpm2:0x017fffff",
            "tpm2:0x1c00000",
            "tpm2:0x+1800001",
            "0x1800001",
        ] {
            assert_eq!(bad.parse::<TpmStore>(), Err(BadTpmStore), "{bad}");
        }
        assert!(TpmStore::is_meant("tpm2:x") && !TpmStore::is_meant("./tpm2:0x1800001"));
    }
}
