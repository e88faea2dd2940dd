//! The trusted store of sealed flash: the file that --store names.

use std::path::Path;
use std::sync::Arc;

use atrest_device::{LockMode, TRUSTED_RECORD_LEN, TrustedStore};
use atrest_engine::flash::{FlashOpenError, FlashVolume, MemoryStore, SealedPlain};
use atrest_engine::flash::{open, open_sealed, open_sealed_to_read, open_without_freshness, unverified};
use atrest_engine::{Access, TrustedFile, TrustedFileError, is_same};
use atrest_flash::sealed::{HeaderAnchor, RecordFields, SealedError};
use atrest_flash::{Anchor, AnchorHeader, FlashHeaderError};
use atrest_keyslot::flash::{FlashKey, Freshness as KeptBy, Protection};

use super::COPY_FIRST;
use crate::args::format::FormatArgs;
use crate::args::open::UnlockArgs;
use crate::commands::target::open_file;
use crate::failure::{Code, Failure};
use crate::flash_errors::of_trusted;
use crate::output::Output;

/// The store of a volume that is being made.
pub struct NewStore<'a> {
    path: &'a Path,
    file: TrustedFile,
    /// The record of a volume, or what looks like one, that it held before.
    old: Option<[u8; TRUSTED_RECORD_LEN]>,
    record: Option<MemoryStore>,
}

impl<'a> NewStore<'a> {
    /// Looks whether it can be written, and what it holds.
    pub fn look(args: &'a FormatArgs) -> Result<Self, Failure> {
        let Some(path) = args.flash.sealed.store.as_deref() else {
            return Err(Failure::parameters("sealed flash needs a trusted store beside it").hint(
                "--store FILE makes one: keep it where nobody writes who can write the image or card",
            ));
        };
        if is_same(path, &args.path) {
            return Err(Failure::parameters("--store names the volume itself")
                .at(path)
                .hint("it is a file of its own, best on another device"));
        }
        let file = TrustedFile::open_or_new(path).map_err(|error| failure(error).at(path))?;
        let old = match file.record() {
            Ok(record) => Some(record),
            Err(TrustedFileError::Empty | TrustedFileError::Missing) => None,
            Err(error) => return Err(failure(error).at(path)),
        };
        Ok(Self { path, file, old, record: None })
    }

    pub fn confirm(&self, output: &Output) -> Result<(), Failure> {
        if self.old.is_none() {
            return Ok(());
        }
        let path = self.path.display();
        output.confirm(&format!(
            "{path} is the trusted store of a volume, which can't be written any more without it"
        ))
    }

    pub fn path(&self) -> &Path {
        self.path
    }

    /// Where the volume keeps its record until it is complete.
    pub fn holds(&mut self, record: MemoryStore) {
        self.record = Some(record);
    }

    /// Writes the record to the file. Fails if the volume could not be closed before.
    pub fn keep(&mut self) -> Result<(), Failure> {
        let Some(record) = &self.record else { return Ok(()) };
        let Some(record) = record.record()? else { return Ok(()) };
        self.file.store(&record).map_err(|error| of_trusted(error).at(self.path))
    }

    /// Puts the record back that was there, or takes the new one away, as the volume came to nothing.
    pub fn forget(mut self) -> Result<(), Failure> {
        let path = self.path;
        match self.old {
            Some(old) => self.file.store(&old).map_err(|error| of_trusted(error).at(path)),
            None => self.file.remove().map_err(|error| failure(error).at(path)),
        }
    }
}

/// What the store is to the commands that look into a volume.
pub enum Freshness {
    /// The volume is encrypted only.
    Encrypted,
    /// What the store says counts. Nobody else changes it while it is here.
    Store(TrustedFile),
    /// It counts for nothing.
    Without {
        /// What does not verify where a power loss can have torn it counts as never written.
        assume_torn: bool,
    },
}

impl Freshness {
    /// Looks at header, options and store, before a passphrase is asked for.
    pub fn of(volume: &FlashVolume, args: &UnlockArgs, write: bool) -> Result<Self, Failure> {
        let asked = args.store.is_some() || args.without_freshness;
        if !is_sealed(volume)? {
            return if asked { Err(FlashOpenError::NotSealed.into()) } else { Ok(Self::Encrypted) };
        }
        match &args.store {
            _ if args.without_freshness && write => Err(Failure::parameters(
                "--without-freshness is for reading: without its store a sealed volume can't be written",
            )
            .hint("bring its --store, or copy what it holds to a new volume")),
            _ if args.without_freshness => Ok(Self::Without { assume_torn: args.assume_torn }),
            Some(path) => {
                let mode = if write { LockMode::Exclusive } else { LockMode::Shared };
                let file = TrustedFile::open(path, mode).map_err(|error| failure(error).at(path))?;
                let record = file.record().map_err(|error| failure(error).at(path))?;
                fields(&record, path)?;
                Ok(Self::Store(file))
            }
            None => Err(FlashOpenError::StoreNeeded.into()),
        }
    }
}

/// A refusal, and which units are not as they were sealed, if it is about the medium as a whole.
pub fn located(error: FlashOpenError, path: &Path, key: &FlashKey) -> Failure {
    let about_all =
        matches!(error, FlashOpenError::Sealed(SealedError::NotAnchored { .. } | SealedError::Gap { .. }));
    let failure = Failure::from(error);
    if !about_all {
        return failure;
    }
    // What can't be looked at is told already.
    let Ok(device) = open_file(path, Access::ReadOnly, COPY_FIRST) else { return failure };
    let Ok(found) = open(Arc::new(device)).and_then(|volume| unverified::<SHOWN>(volume, key)) else {
        return failure;
    };
    let places = found.first.iter().flatten();
    let places: Vec<_> = places.map(|(block, unit)| format!("unit {unit} of erase block {block}")).collect();
    // cannot underflow: those that are shown are counted.
    let more = found.count.saturating_sub(places.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match places.is_empty() {
        true => failure,
        false => failure.adding(format_args!("{}{more} does not verify", places.join(", "))),
    }
}

/// Units that do not verify that are listed.
const SHOWN: usize = 4;

/// The plaintext of a sealed volume without its store, to be read.
pub fn open_unanchored(
    volume: FlashVolume,
    key: &FlashKey,
    assume_torn: bool,
    path: &Path,
    output: &Output,
) -> Result<SealedPlain, Failure> {
    let plain = open_without_freshness(volume, key, assume_torn)?;
    let more = match (plain.is_card(), assume_torn) {
        (true, _) => {
            "; nor that a unit was changed at the end of an erase block, or the first one of it, as a card knows no blank units"
        }
        (false, true) => {
            "; nor that a unit was changed at the end of an erase block, or the first one of it, as those count as torn"
        }
        (false, false) => "",
    };
    output.warn(format_args!(
        "{}: read without its trusted store. Changed, forged and moved units are found out; that all of it, or blocks \
         of it, were put back to an earlier state, or cut short, is not{more}",
        path.display()
    ));
    Ok(plain)
}

/// The plaintext of a sealed volume, as its store knows it.
pub fn open_plaintext(
    volume: FlashVolume,
    key: &FlashKey,
    store: TrustedFile,
    write: bool,
    path: &Path,
    output: &Output,
) -> Result<SealedPlain, Failure> {
    let damaged = |plain: SealedPlain| {
        if plain.is_damaged() {
            output.warn(format_args!(
                "{}: some units are not as they were stored. What is shown is right, or an error; `atrest repair --store` \
                 lists and mends what it can",
                path.display()
            ));
        }
        plain
    };
    if write {
        return open_sealed(volume, key, store).map(damaged).map_err(|error| located(error, path, key));
    }
    let record = store.record().map_err(failure)?;
    let closed = RecordFields::of(&record).is_some_and(|fields| fields.closed);
    let plain = open_sealed_to_read(volume, key, &store).map(damaged);
    let plain = plain.map_err(|error| located(error, path, key))?;
    if !closed {
        output.warn(format_args!(
            "{}: it was not closed in good order. What is shown is a state it had since its store was written last; \
             the next command that writes makes it the only one",
            path.display()
        ));
    }
    Ok(plain)
}

pub fn is_sealed(volume: &FlashVolume) -> Result<bool, Failure> {
    Ok(volume.header()?.params().protection != Protection::Encrypted)
}

/// What a record says, of the file at this path.
fn fields(record: &[u8; TRUSTED_RECORD_LEN], path: &Path) -> Result<RecordFields, Failure> {
    RecordFields::read(record).map_err(|error| match error {
        SealedError::HandedOver { .. } => Failure::from(FlashOpenError::Sealed(error)).at(path),
        _ => Failure::new(Code::Device, "it is no trusted store, or one of a later version")
            .at(path)
            .hint(crate::flash_errors::STORES),
    })
}

/// Fails if a store was named for a command that unlocks nothing, and so can't tell whose it is.
pub fn refuse(volume: &FlashVolume, store: Option<&Path>) -> Result<(), Failure> {
    match store {
        None => Ok(()),
        Some(_) if !is_sealed(volume)? => Err(FlashOpenError::NotSealed.into()),
        Some(_) => Err(Failure::parameters(
            "--store says nothing here: nothing is unlocked, and without that nobody can tell whose store it is",
        )
        .hint("leave it out; `atrest key test --store` holds a volume and its store against each other")),
    }
}

/// What a store says that was named for a command which may do without. Whose it is nobody knows yet.
pub fn look(volume: &FlashVolume, store: Option<&Path>) -> Result<Option<RecordFields>, Failure> {
    let Some(store) = store else { return Ok(None) };
    if !is_sealed(volume)? {
        return Err(FlashOpenError::NotSealed.into());
    }
    let record = TrustedFile::peek(store).map_err(|error| failure(error).at(store))?;
    fields(&record, store).map(Some)
}

/// Looks whether a store that was named for a command on keyslots belongs to the volume, and finds it as it was left.
pub fn check(path: &Path, key: &FlashKey, store: Option<&Path>) -> Result<(), Failure> {
    let Some(store) = store else { return Ok(()) };
    let file = TrustedFile::open(store, LockMode::Shared).map_err(|error| failure(error).at(store))?;
    check_file(path, key, &file)
}

fn check_file(path: &Path, key: &FlashKey, file: &TrustedFile) -> Result<(), Failure> {
    // Nobody changes what is being compared.
    let device = Arc::new(open_file(path, Access::ReadOnlyShared, COPY_FIRST)?);
    let volume = open(device).map_err(|error| Failure::from(error).at(path))?;
    open_sealed_to_read(volume, key, file).map(drop).map_err(|error| located(error, path, key).at(path))
}

/// The store of a volume whose header is changed. Nobody else uses it, or the volume with it, meanwhile.
pub struct HeldStore(Option<HeaderAnchor<TrustedFile>>);

impl HeldStore {
    /// Holds the store that was named, before anything is asked. `destroys`: what is done ends the volume, and needs no store.
    pub fn hold(volume: &FlashVolume, store: Option<&Path>, destroys: bool) -> Result<Self, Failure> {
        let kept = match volume.header()?.params().protection {
            Protection::Encrypted => None,
            Protection::Sealed { store, .. } => Some(store),
        };
        match (kept, store) {
            (None, Some(_)) => Err(FlashOpenError::NotSealed.into()),
            (Some(KeptBy::Record), Some(path)) => {
                let file =
                    TrustedFile::open(path, LockMode::Exclusive).map_err(|error| failure(error).at(path))?;
                let record = file.record().map_err(|error| failure(error).at(path))?;
                fields(&record, path)?;
                Ok(Self(Some(HeaderAnchor::new(file))))
            }
            (Some(KeptBy::Nothing | KeptBy::Counter), Some(_)) => Err(FlashOpenError::StoreElsewhere.into()),
            (Some(KeptBy::Counter), None) if !destroys => Err(Failure::from(FlashOpenError::StoreElsewhere)
                .hint("its passphrases are changed on the chip that has the counter")),
            (Some(KeptBy::Record), None) if !destroys => Err(FlashHeaderError::AnchorNeeded.into()),
            (_, None) => Ok(Self(None)),
        }
    }

    /// Fails if a store is held that does not name the header on the medium. For commands that unlock nothing.
    pub fn check_header(mut self, volume: &FlashVolume) -> Result<Self, Failure> {
        if let Some(anchor) = &mut self.0 {
            anchor.check(volume.found()?).map_err(FlashOpenError::Sealed)?;
        }
        Ok(self)
    }

    /// Looks whether it belongs to the volume, and finds it as it was left.
    pub fn check(self, path: &Path, key: &FlashKey) -> Result<Self, Failure> {
        let Some(anchor) = self.0 else { return Ok(self) };
        let file = anchor.into_store();
        check_file(path, key, &file)?;
        Ok(Self(Some(HeaderAnchor::new(file))))
    }

    /// For the change.
    pub fn anchor(&mut self) -> Anchor<'_> {
        self.0.as_mut().map(|anchor| -> &mut dyn AnchorHeader { anchor })
    }
}

fn failure(error: TrustedFileError) -> Failure {
    FlashOpenError::Store(error).into()
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn a_store_whose_volume_came_to_nothing_holds_what_it_did_before() {
        let directory = Scratch::new();
        let path = directory.path("store");
        for old in [None, Some([3; TRUSTED_RECORD_LEN])] {
            if let Some(old) = old {
                std::fs::write(&path, old).expect("written");
            }
            let file = TrustedFile::open_or_new(&path).expect("its place");
            let mut record = MemoryStore::default();
            record.store(&[9; TRUSTED_RECORD_LEN]).expect("in memory");
            let mut store = NewStore { path: &path, file, old, record: Some(record) };
            store.keep().expect("written");
            assert_eq!(std::fs::read(&path).expect("read"), [9; TRUSTED_RECORD_LEN]);
            store.forget().expect("put back");
            assert_eq!(std::fs::read(&path).ok(), old.map(Vec::from));
        }
    }
}
