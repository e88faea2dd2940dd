//! `--store` with a pinned header: the file says which header was seen last (docs/TOKENS.md). Headers are written before the file is.

use std::path::Path;

use atrest_device::{LockMode, TrustedStore};
use atrest_engine::flash::FlashOpenError;
use atrest_engine::{TrustedFile, TrustedFileError};
use atrest_open::Locked;
use atrest_secret::VolumeKey;
use atrest_volume::luks2::{Luks2, PinRecord};
use atrest_volume::{UnlockError, UnlockOptions};

use super::unlock::is_sealed;
use crate::args::header::HeaderPinArgs;
use crate::args::open::UnlockArgs;
use crate::failure::{Code, Failure};
use crate::flash_errors::of_trusted;
use crate::output::Output;

/// A store that is told of a pinned header, locked.
pub struct Store<'a> {
    path: &'a Path,
    file: TrustedFile,
    /// What it has; nothing, if it is new.
    seen: Option<PinRecord>,
}

/// The store that is named for a header which is pinned now.
pub fn store(args: &HeaderPinArgs) -> Result<Option<Store<'_>>, Failure> {
    let Some(path) = args.target.store.as_deref() else { return Ok(None) };
    let file = TrustedFile::open_or_new(path).map_err(|error| of_store(error, path))?;
    let seen = match file.record() {
        Ok(bytes) => Some(PinRecord::decode(&bytes).ok_or_else(|| not_ours(path))?),
        Err(TrustedFileError::Missing | TrustedFileError::Empty) => None,
        Err(error) => return Err(of_store(error, path)),
    };
    Ok(Some(Store { path, file, seen }))
}

impl Store<'_> {
    /// The number that the store has seen. A header that is older than that is pinned only after somebody has agreed: it has the keyslots
    /// of its time.
    pub fn beyond(
        &self,
        luks2: &Luks2,
        key: &VolumeKey,
        accept: bool,
        output: &Output,
    ) -> Result<u64, Failure> {
        let Some(seen) = &self.seen else { return Ok(0) };
        luks2.check_record(key, seen).map_err(|error| {
            let failure = Failure::from(error).at(self.path);
            failure.hint("if it was re-encrypted, make a new store: name a file that does not exist")
        })?;
        match luks2.check_seen(seen) {
            Ok(()) => {}
            Err(stale) if accept => output.confirm(&format!("{stale}; it is pinned as it is now"))?,
            Err(stale) => {
                return Err(Failure::from(UnlockError::Pin(stale)).at(self.path));
            }
        }
        Ok(seen.counter)
    }

    /// Tells it of the header.
    pub fn put(&mut self, now: &PinRecord) -> Result<(), Failure> {
        put(&mut self.file, now, self.path)
    }
}

/// What the trusted store has seen of the volume, if one is named for a pinned header.
pub fn seen(path: &Path, args: &UnlockArgs) -> Result<Option<PinRecord>, Failure> {
    args.store.as_deref().filter(|_| !is_sealed(path)).map(in_file).transpose()
}

/// Tells the trusted store of the header that has led to the key, if it is newer than what the store has.
pub fn now_seen(args: &UnlockArgs, options: &UnlockOptions, locked: &dyn Locked) -> Result<(), Failure> {
    let (Some(path), Some(seen)) = (args.store.as_deref(), &options.seen) else { return Ok(()) };
    // cannot be none: a header without a pin was refused.
    let Some(now) = locked.pin_record(seen.key).filter(|now| now.counter > seen.counter) else {
        return Ok(());
    };
    let mut file = TrustedFile::open(path, LockMode::Exclusive).map_err(|error| of_store(error, path))?;
    let bytes = file.record().map_err(|error| of_store(error, path))?;
    let record = PinRecord::decode(&bytes).ok_or_else(|| not_ours(path))?;
    // Another program may have told it meanwhile.
    match record.key == now.key && record.counter < now.counter {
        true => put(&mut file, &now, path),
        false => Ok(()),
    }
}

/// What the file at `path` holds, whoever uses it.
fn in_file(path: &Path) -> Result<PinRecord, Failure> {
    let bytes = TrustedFile::peek(path).map_err(|error| of_store(error, path))?;
    PinRecord::decode(&bytes).ok_or_else(|| not_ours(path))
}

fn put(file: &mut TrustedFile, now: &PinRecord, path: &Path) -> Result<(), Failure> {
    file.store(&now.encode()).map_err(|error| of_trusted(error).at(path))
}

fn of_store(error: TrustedFileError, path: &Path) -> Failure {
    Failure::from(FlashOpenError::Store(error)).at(path)
}

fn not_ours(path: &Path) -> Failure {
    Failure::new(Code::Device, "it is no trusted store of a pinned header")
        .at(path)
        .hint("`atrest header pin --store FILE` makes one; sealed volumes have others")
}
