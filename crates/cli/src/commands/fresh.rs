//! `--store` with a pinned header: a file or a counter of the TPM says which header was seen last (docs/TOKENS.md). Headers are written
//! before the store is told.

use std::path::Path;

use atrest_device::{LockMode, TrustedStore};
use atrest_engine::flash::FlashOpenError;
use atrest_engine::{TrustedFile, TrustedFileError};
use atrest_open::Locked;
use atrest_open::token::tpm2::{CounterError, Found, TpmStore};
use atrest_secret::VolumeKey;
use atrest_volume::UnlockError;
use atrest_volume::luks2::{Luks2, NewPin, PinCounter, PinError, PinRecord, VolumeKeyId};

use super::unlock::is_sealed;
use crate::args::open::UnlockArgs;
use crate::failure::{Code, Failure};
use crate::flash_errors::of_trusted;
use crate::output::Output;

/// What `--store` names.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    File(&'a Path),
    Tpm(&'a Path, TpmStore),
}

impl<'a> Place<'a> {
    fn of(path: &'a Path) -> Result<Self, Failure> {
        match path.to_str().filter(|text| TpmStore::is_meant(text)) {
            Some(text) => {
                let store = text.parse().map_err(|error| Failure::parameters(error).at(path))?;
                Ok(Self::Tpm(path, store))
            }
            None => Ok(Self::File(path)),
        }
    }
}

/// A store that is told of a header which is pinned now; a file is locked.
pub struct NewStore<'a> {
    path: &'a Path,
    kind: NewKind,
}

enum NewKind {
    /// The file, and what it has: nothing, if it is new.
    File(Box<TrustedFile>, Option<PinRecord>),
    Tpm(TpmStore),
}

/// The store that is named for a header which is pinned now.
pub fn new_store(path: &Path) -> Result<NewStore<'_>, Failure> {
    let kind = match Place::of(path)? {
        Place::Tpm(_, store) => NewKind::Tpm(store),
        Place::File(path) => {
            let file = TrustedFile::open_or_new(path).map_err(|error| of_store(error, path))?;
            let seen = match file.record() {
                Ok(bytes) => Some(PinRecord::decode(&bytes).ok_or_else(|| not_ours(path))?),
                Err(TrustedFileError::Missing | TrustedFileError::Empty) => None,
                Err(error) => return Err(of_store(error, path)),
            };
            NewKind::File(Box::new(file), seen)
        }
    };
    Ok(NewStore { path, kind })
}

impl NewStore<'_> {
    /// How the header is to be pinned. One that is older than what the store has seen is pinned only after somebody has agreed: it has
    /// the keyslots of its time.
    pub fn pin(
        &self,
        luks2: &Luks2,
        key: &VolumeKey,
        accept: bool,
        output: &Output,
    ) -> Result<NewPin, Failure> {
        let new = NewPin { accept, ..NewPin::default() };
        match &self.kind {
            NewKind::File(_, None) => Ok(new),
            NewKind::File(_, Some(seen)) => {
                luks2.check_record(key, seen).map_err(|error| {
                    let failure = Failure::from(error).at(self.path);
                    failure.hint("if it was re-encrypted, make a new store: name a file that does not exist")
                })?;
                self.agreed(luks2.check_seen(seen), accept, output)?;
                Ok(NewPin { beyond: seen.counter, ..new })
            }
            NewKind::Tpm(store) => {
                self.look(*store, luks2, accept, output)?;
                Ok(new)
            }
        }
    }

    /// Asks whether a header may be pinned under what is in the counter's place.
    fn look(&self, store: TpmStore, luks2: &Luks2, accept: bool, output: &Output) -> Result<(), Failure> {
        // intended: a header that names no counter, or none that can be read, gets one.
        let named = luks2.pin_counter().ok();
        let found = store.look(named.as_ref()).map_err(|error| self.failed(error.into()))?;
        match (found, named) {
            (Found::Named(value), Some(named)) => {
                self.agreed(named.before_change(value).map(drop), accept, output)
            }
            (Found::Gone, _) if accept => output.confirm(&format!(
                "{store} is gone from the TPM, so that nothing says how new the header is; it is pinned as it is now"
            )),
            (Found::Gone, _) => Err(self.failed(store.gone())),
            (Found::Other, _) => output.confirm(&format!(
                "the TPM has a counter at {store} already, which this header does not name; another volume that names it is refused afterwards"
            )),
            // One that is found is named only where the header names one.
            (Found::Nothing | Found::Named(_), _) => Ok(()),
        }
    }

    /// Makes what the header is to name, if that is not there. Everybody has been asked.
    pub fn make(&self, luks2: &Luks2, new: NewPin) -> Result<NewPin, Failure> {
        let NewKind::Tpm(store) = &self.kind else { return Ok(new) };
        let counter = store.for_new_pin().map_err(|error| self.failed(error.into()))?;
        let counter = match luks2.pin_counter() {
            Ok(named) if named.index == counter.index && named.storage_key == counter.storage_key => {
                counter.after(&named).map_err(|error| self.failed(error.into()))?
            }
            _ => counter,
        };
        Ok(NewPin { counter: Some(counter), ..new })
    }

    fn agreed(&self, seen: Result<(), PinError>, accept: bool, output: &Output) -> Result<(), Failure> {
        match seen {
            Ok(()) => Ok(()),
            // Nobody can agree to a header whose value the counter can't reach.
            Err(stale) if accept && !matches!(stale, PinError::Ahead | PinError::Untold { .. }) => {
                output.confirm(&format!("{stale}; it is pinned as it is now"))
            }
            Err(stale) => Err(Failure::from(UnlockError::Pin(stale)).at(self.path)),
        }
    }

    /// Tells it of the header, which is pinned.
    pub fn put(self, luks2: &Luks2, key: &VolumeKey) -> Result<(), Failure> {
        match self.kind {
            NewKind::File(mut file, _) => match record_of(luks2, key) {
                Some(record) => put(&mut file, &record, self.path),
                // cannot be: it was pinned just now.
                None => Ok(()),
            },
            NewKind::Tpm(store) => raise(store, luks2.pin_counter(), self.path),
        }
    }

    fn failed(&self, error: CounterError) -> Failure {
        of_counter(error, self.path)
    }
}

fn record_of(luks2: &Luks2, key: &VolumeKey) -> Option<PinRecord> {
    luks2.pin_record(VolumeKeyId::of(key)).ok().flatten()
}

/// A store that is told of each change of a header that is pinned; a file is locked meanwhile.
pub struct Renewed<'a> {
    path: &'a Path,
    kind: RenewedKind,
    /// Number of the header that the store has been asked about.
    number: u64,
}

enum RenewedKind {
    File(Box<TrustedFile>, PinRecord),
    Tpm(TpmStore),
}

/// The store that is named for a header which is changed now: it has seen this header, or an older one.
pub fn renewed<'a>(path: &'a Path, luks2: &mut Luks2) -> Result<Renewed<'a>, Failure> {
    let kind = match Place::of(path)? {
        Place::File(path) => {
            let file = TrustedFile::open(path, LockMode::Exclusive).map_err(|error| of_store(error, path))?;
            let bytes = file.record().map_err(|error| of_store(error, path))?;
            let seen = PinRecord::decode(&bytes).ok_or_else(|| not_ours(path))?;
            luks2.check_seen(&seen).map_err(|error| Failure::from(UnlockError::Pin(error)).at(path))?;
            luks2.expect(seen.key);
            RenewedKind::File(Box::new(file), seen)
        }
        Place::Tpm(path, store) => {
            let named = luks2.pin_counter().map_err(CounterError::from);
            let seen = named.and_then(|named| store.check_before_change(&named));
            seen.map_err(|error| of_counter(error, path))?;
            RenewedKind::Tpm(store)
        }
    };
    let number = number(luks2).map_err(|error| Failure::from(UnlockError::Pin(error)).at(path))?;
    Ok(Renewed { path, kind, number })
}

fn number(luks2: &Luks2) -> Result<u64, PinError> {
    // The number is the same by any key.
    luks2.pin_record(VolumeKeyId::OF_NONE)?.map(|record| record.counter).ok_or(PinError::Missing)
}

impl Renewed<'_> {
    /// Tells it of the header as it is now.
    pub fn put(&mut self, luks2: &Luks2) -> Result<(), Failure> {
        // Whoever removes the last keyslot leaves the pin as it was: nothing opens that header.
        if luks2.is_pinned() && luks2.has_keyslot() {
            let now = number(luks2).map_err(|error| Failure::from(UnlockError::Pin(error)).at(self.path))?;
            if now <= self.number {
                // cannot be: each change counts up from the header that the store was asked about.
                let (counter, least) = (now, self.number.saturating_add(1));
                return Err(Failure::from(UnlockError::Pin(PinError::Older { counter, least })).at(self.path));
            }
            self.number = now;
        }
        match &mut self.kind {
            RenewedKind::File(file, seen) => {
                let now = luks2.pin_record(seen.key).ok().flatten();
                match now.filter(|now| now.counter > seen.counter) {
                    Some(now) => put(file, &now, self.path),
                    // The last keyslot is gone, or the pin, which the store keeps out from now on.
                    None => Ok(()),
                }
            }
            RenewedKind::Tpm(store) if luks2.is_pinned() => raise(*store, luks2.pin_counter(), self.path),
            RenewedKind::Tpm(_) => Ok(()),
        }
    }
}

/// What a store has seen of a volume that is to be opened.
pub enum Seen<'a> {
    /// None is named, or it is a sealed volume's.
    Nothing,
    File(&'a Path, PinRecord),
    /// The counter, and how often it has to be raised.
    Tpm(&'a Path, TpmStore, u64),
}

impl<'a> Seen<'a> {
    /// Asks the store that is named for a pinned header, before anybody is asked for a passphrase.
    pub fn of(path: &Path, args: &'a UnlockArgs, locked: &dyn Locked) -> Result<Self, Failure> {
        match args.store.as_deref().filter(|_| !is_sealed(path)) {
            None => Ok(Self::Nothing),
            Some(store) => Self::by(store, || locked.pin_counter()),
        }
    }

    /// Asks this store.
    pub fn by(
        store: &'a Path,
        counter: impl FnOnce() -> Result<PinCounter, PinError>,
    ) -> Result<Self, Failure> {
        match Place::of(store)? {
            Place::File(path) => {
                let bytes = TrustedFile::peek(path).map_err(|error| of_store(error, path))?;
                Ok(Self::File(path, PinRecord::decode(&bytes).ok_or_else(|| not_ours(path))?))
            }
            Place::Tpm(path, tpm) => Ok(Self::Tpm(path, tpm, confirmed(tpm, counter(), path)?)),
        }
    }

    /// What a file has seen.
    pub fn record(&self) -> Option<PinRecord> {
        match self {
            Self::File(_, record) => Some(*record),
            Self::Nothing | Self::Tpm(..) => None,
        }
    }

    /// Tells the store of the header that has led to the key, if it is newer than what the store has.
    pub fn now(&self, locked: &dyn Locked) -> Result<(), Failure> {
        match self {
            Self::Nothing | Self::Tpm(_, _, 0) => Ok(()),
            Self::Tpm(path, store, _) => raise(*store, locked.pin_counter(), path),
            Self::File(path, seen) => {
                // cannot be none: a header without a pin was refused.
                let Some(now) = locked.pin_record(seen.key).filter(|now| now.counter > seen.counter) else {
                    return Ok(());
                };
                newer(path, &now)
            }
        }
    }
}

/// Replaces what the file has, if that is older.
fn newer(path: &Path, now: &PinRecord) -> Result<(), Failure> {
    let mut file = TrustedFile::open(path, LockMode::Exclusive).map_err(|error| of_store(error, path))?;
    let bytes = file.record().map_err(|error| of_store(error, path))?;
    let record = PinRecord::decode(&bytes).ok_or_else(|| not_ours(path))?;
    // Another program may have told it meanwhile.
    match record.key == now.key && record.counter < now.counter {
        true => put(&mut file, now, path),
        false => Ok(()),
    }
}

fn confirmed(store: TpmStore, named: Result<PinCounter, PinError>, path: &Path) -> Result<u64, Failure> {
    let behind = named.map_err(CounterError::from).and_then(|named| store.check(&named));
    behind.map_err(|error| of_counter(error, path))
}

fn raise(store: TpmStore, named: Result<PinCounter, PinError>, path: &Path) -> Result<(), Failure> {
    let raised = named.map_err(CounterError::from).and_then(|named| store.catch_up(&named));
    raised.map_err(|error| of_counter(error, path))
}

fn put(file: &mut TrustedFile, now: &PinRecord, path: &Path) -> Result<(), Failure> {
    file.store(&now.encode()).map_err(|error| of_trusted(error).at(path))
}

fn of_store(error: TrustedFileError, path: &Path) -> Failure {
    Failure::from(FlashOpenError::Store(error)).at(path)
}

fn of_counter(error: CounterError, path: &Path) -> Failure {
    match error {
        CounterError::Pin(error) => Failure::from(UnlockError::Pin(error)).at(path),
        error => Failure::new(Code::Refused, error).at(path).hint(
            "nothing says that the header is the newest one. On another machine, or after the TPM was cleared: \
             `atrest header pin --store tpm2:INDEX` with a free index, once you have looked at the keyslots",
        ),
    }
}

fn not_ours(path: &Path) -> Failure {
    Failure::new(Code::Device, "it is no trusted store of a pinned header")
        .at(path)
        .hint("`atrest header pin --store FILE` makes one; sealed volumes have others")
}

#[cfg(test)]
mod tests {
    use atrest_testkit::FaultDevice;
    use atrest_volume::{Devices, FormatOptions, KeyslotOptions, LockedVolume, VolumeFormat};
    use atrest_volume::{Passphrase, PbkdfKind, PbkdfOptions};

    use super::*;

    #[test]
    fn a_header_that_is_no_newer_than_the_one_that_was_asked_about_is_not_told() {
        let device = FaultDevice::zeroed(1 << 20);
        let mut bytes = [7; 64];
        bytes[0] = 1;
        let key = VolumeKey::copy_from(&bytes);
        let pbkdf = PbkdfOptions {
            kind: Some(PbkdfKind::Pbkdf2),
            forced_iterations: Some(1000),
            ..PbkdfOptions::default()
        };
        let options = FormatOptions {
            keyslots_size: Some(3 * 258_048),
            data_offset: Some(900 << 10),
            volume_key: Some(VolumeKey::copy_from(&bytes)),
            keyslot: KeyslotOptions { pbkdf, ..KeyslotOptions::default() },
            ..FormatOptions::default()
        };
        let passphrase = Passphrase::copy_from(b"one");
        atrest_volume::format(Devices::together(&device), VolumeFormat::Luks2, &passphrase, &options)
            .expect("formats");
        let mut locked = LockedVolume::read(&device).expect("a header");
        let luks2 = locked.luks2_mut().expect("LUKS2");
        luks2.pin(&device, &key, &NewPin::default()).expect("pins");
        let mut store = Renewed {
            path: Path::new("store"),
            kind: RenewedKind::Tpm("tpm2:0x01800001".parse().expect("a counter")),
            number: number(luks2).expect("a pin"),
        };
        let failure = format!("{:?}", store.put(luks2).expect_err("it is the same header"));
        assert!(failure.contains("pinned as number 1, and number 2"), "{failure}");
        // Nothing opens a header without keyslots, which keeps its pin.
        luks2.remove_keyslots(&device, &[0], true).expect("removes");
        let failure = format!("{:?}", store.put(luks2).expect_err("it names no counter"));
        assert!(failure.contains("names no counter"), "{failure}");
    }
}
