//! Sealed volumes: a store of objects, by its URL, in place of a file or device.

mod beginning;
mod clones;
mod format;
mod hand_over;
mod hints;
mod rekey;
mod space;

use std::path::Path;
use std::time::Duration;

use atrest_cloud::CloudError;
use atrest_device::{Cause, LockMode};
use atrest_engine::TrustedFile;
use atrest_engine::flash::FlashOpenError;
use atrest_open::Held;
use atrest_open::sealed::{JournalFile, SealedError, SealedOptions};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::store::StoreError;
use atrest_sealedvolume::volume::{Freshness, OpenError, Patience, VolumeError};

use atrest_volume::VolumeKey;

use super::target::RESTORE;
use super::unlock::{Use, open_if};
use crate::args::open::{JournalArgs, UnlockArgs};
use crate::args::secrets::SecretArgs;
use crate::failure::{Code, Failure, numberless};
use crate::flash_errors::of_trusted;
use crate::output::Output;

pub use atrest_open::sealed::is_meant;
pub use clones::{clone, flatten};
pub use format::format;
pub use hand_over::hand_over;
pub use rekey::rekey;
pub use space::{gc, resize, snapshot, stored};

/// Says how the sealed volume that is held is opened. What is no sealed volume has no trusted store here, and no snapshots.
pub fn with_options(held: Held, path: &Path, args: &UnlockArgs, wanted: Use) -> Result<Held, Failure> {
    if !held.media().is_sealed() {
        return match &args.snapshot {
            Some(_) => {
                Err(Failure::parameters("--snapshot is for sealed volumes, which are named by a URL")
                    .at(path))
            }
            None if args.journal.journal.is_some() || args.journal.without_journal => {
                let what = "--journal and --without-journal are for sealed volumes, which are named by a URL";
                Err(Failure::parameters(what).at(path))
            }
            None => Ok(held),
        };
    }
    if args.header.is_some() {
        return Err(Failure::parameters("a sealed volume has its header in its store")
            .at(path)
            .hint("leave --header out"));
    }
    let write = wanted.write && args.snapshot.is_none();
    let freshness = match &args.store {
        _ if args.assume_torn => {
            return Err(Failure::parameters("--assume-torn is for sealed flash").at(path));
        }
        _ if args.without_freshness && write => {
            return Err(Failure::parameters(
                "--without-freshness is for reading: without its store a sealed volume can't be written",
            )
            .hint("bring its --store, or open it --read-only"));
        }
        _ if args.without_freshness => Freshness::Unverified,
        Some(store) => Freshness::Record(Box::new(trusted(store, write)?)),
        None => Freshness::Nothing,
    };
    let deadline = Duration::from_secs(args.patience.0.into());
    let patience = Patience { deadline, ..Patience::default() };
    let (snapshot, without_journal) = (args.snapshot.clone(), args.journal.without_journal);
    let journal = journal(&args.journal)?;
    Ok(held.with_sealed(SealedOptions { freshness, snapshot, patience, journal, without_journal }))
}

/// Bytes of a journal, and seconds that what it holds may wait, where nobody says.
const JOURNAL: (u64, u32) = (256 << 20, 60);

fn journal(args: &JournalArgs) -> Result<Option<JournalFile>, Failure> {
    if args.max_lag.is_some() && args.journal.is_none() {
        return Err(Failure::parameters("--max-lag is for a volume that is opened with a journal")
            .hint("--journal FILE names it; without one a flush waits until the store has everything"));
    }
    let (size, lag) = JOURNAL;
    let max_lag = Duration::from_secs(args.max_lag.unwrap_or(lag).into()); // intended: the default.
    let size = args.journal_size.unwrap_or(size); // intended: the default.
    Ok(args.journal.clone().map(|path| JournalFile { path, size, max_lag }))
}

/// The trusted store that a file is.
fn trusted(path: &Path, write: bool) -> Result<TrustedFile, Failure> {
    let mode = if write { LockMode::Exclusive } else { LockMode::Shared };
    TrustedFile::open(path, mode).map_err(|error| Failure::from(FlashOpenError::Store(error)).at(path))
}

/// A sealed volume that is open, and what keeps other processes of this machine from writing it.
struct Opened {
    volume: SealedVolume,
    /// Its volume key, and the identifier of its format.
    key: VolumeKey,
    format: [u8; 16],
    _held: Option<std::fs::File>,
}

impl Opened {
    /// Asks for the passphrase, and opens it.
    fn unlock(path: &Path, args: &UnlockArgs, write: bool, output: &Output) -> Result<Self, Failure> {
        if !is_meant(path) {
            return Err(Failure::parameters("it is no sealed volume")
                .at(path)
                .hint(format!("a sealed volume is named by the URL of its store: {}", hints::URLS)));
        }
        let wanted = Use { write, ..Use::default() };
        let (held, volume) = open_if(path, args, wanted, output, || Ok(()))?;
        let unlocked = volume.sealed().ok_or(SealedError::NoStore)?;
        let (key, format) = (VolumeKey::copy_from(unlocked.key.expose()), unlocked.format);
        let (volume, held) =
            held.sealed_volume(&volume, write).map_err(|error| Failure::from(error).at(path))?;
        Ok(Self { volume, key, format, _held: held })
    }

    /// To write it, by a passphrase or the volume key.
    fn unlock_with(
        path: &Path,
        store: Option<&Path>,
        secret: &SecretArgs,
        output: &Output,
    ) -> Result<Self, Failure> {
        let (store, secret) = (store.map(Path::to_owned), secret.clone());
        Self::unlock(path, &UnlockArgs { store, secret, ..UnlockArgs::default() }, true, output)
    }

    fn close(self, path: &Path) -> Result<(), Failure> {
        self.volume.close().map_err(|error| Failure::from(error).at(path))
    }
}

impl From<SealedError> for Failure {
    fn from(error: SealedError) -> Self {
        match error {
            SealedError::Url => {
                Self::parameters(error).hint("file:///srv/volume names the directory /srv/volume")
            }
            SealedError::Scheme => Self::parameters(error),
            SealedError::Cloud(error) => of_cloud(error),
            SealedError::CutHeader => Self::new(Code::Device, error).hint(RESTORE),
            SealedError::Store(StoreError::Os(errno)) if errno == rustix::io::Errno::NOENT.raw_os_error() => {
                Self::new(Code::Device, "the store's directory is not there")
                    .hint("`atrest format --type sealed --size SIZE URL` makes a new volume")
            }
            SealedError::Store(error) | SealedError::Open(OpenError::Unreachable(error)) => error.into(),
            SealedError::NoHeader => {
                Self::new(Code::Device, error).hint("`atrest format --type sealed --size SIZE URL` makes one")
            }
            SealedError::NoStore => {
                Self::new(Code::Device, error).hint(format!("name the store by its URL: {}", hints::URLS))
            }
            SealedError::Journal(Cause::Busy) => Self::new(Code::Busy, error)
                .hint("`atrest status` lists what is open, `atrest close` ends it"),
            SealedError::Journal(Cause::NoSpace) => Self::new(Code::Device, error)
                .hint("--journal names a file on a disk with room for it; --journal-size makes it smaller than 256M"),
            SealedError::Journal(Cause::Os(errno)) => {
                let told = std::io::Error::from_raw_os_error(errno).to_string();
                Self::new(Code::Device, format!("the journal can't be opened: {}", numberless(&told).0))
                    .hint("--journal names a file in a directory that is there, on a disk with room for it")
            }
            SealedError::JournalKind => Self::parameters(error).hint("name a file that does not exist yet"),
            SealedError::Open(error) => error.into(),
            SealedError::Volume(error) => error.into(),
            SealedError::Disk(error) => error.into(),
            error => Self::new(Code::Device, error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Os(errno) => Self::io(&std::io::Error::from_raw_os_error(errno)),
            StoreError::Held | StoreError::Read => Self::new(Code::Busy, error)
                .hint("`atrest status` lists what is open, `atrest close` ends it"),
            StoreError::Refused { status: 401 | 403 } => {
                Self::new(Code::Refused, error).hint_by_url(hints::REFUSED)
            }
            StoreError::Refused { status: 404 } => Self::new(Code::Device, error).hint_by_url(hints::NOWHERE),
            StoreError::Refused { status: 301 | 307 | 400 } => {
                Self::new(Code::Device, error).hint_by_url(hints::ELSEWHERE)
            }
            StoreError::Untrusted => Self::new(Code::Refused, error).hint_by_url(hints::UNTRUSTED),
            StoreError::Unconditional => Self::new(Code::Device, error).hint_by_url(hints::UNCONDITIONAL),
            error => Self::new(Code::Device, error),
        }
    }
}

/// Why a cloud can't be asked.
fn of_cloud(error: CloudError) -> Failure {
    match error {
        CloudError::Url => Failure::parameters(error).hint("s3://disks/laptop names objects of the bucket disks that begin with laptop/"),
        CloudError::Bucket => Failure::parameters(error).hint("as in s3://disks/laptop, where disks is the bucket"),
        CloudError::NoCredentials | CloudError::NoProfile { .. } | CloudError::Unsupported { .. } => Failure::new(Code::Refused, error).hint(
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile that AWS_PROFILE names in ~/.aws/credentials",
        ),
        CloudError::AzureUrl => Failure::parameters(error).hint("az://disks/laptop names blobs of the container disks that begin with laptop/"),
        CloudError::Container => Failure::parameters(error).hint("as in az://disks/laptop, where disks is the container"),
        CloudError::NoAzureCredentials | CloudError::AzureUnsupported { .. } => Failure::new(Code::Refused, error).hint(
            "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, AZURE_STORAGE_CONNECTION_STRING, or the section [storage] of ~/.azure/config",
        ),
        CloudError::GoogleUrl => Failure::parameters(error).hint("gs://disks/laptop names objects of the bucket disks that begin with laptop/"),
        CloudError::GoogleBucket => Failure::parameters(error).hint("as in gs://disks/laptop, where disks is the bucket"),
        CloudError::NoGoogleCredentials | CloudError::GoogleUnsupported { .. } => Failure::new(Code::Refused, error).hint(
            "`gcloud auth application-default login` makes them for a user; GOOGLE_APPLICATION_CREDENTIALS names the file of a service account",
        ),
        CloudError::GoogleRefused { .. } => Failure::new(Code::Refused, error).hint(
            "`gcloud auth application-default login` makes new ones for a user; has the key of a service account been deleted, and is this machine's clock right?",
        ),
        error => Failure::parameters(error),
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NotEmpty => {
                Self::new(Code::Busy, error).hint("name a directory that does not exist or is empty, or another prefix")
            }
            OpenError::Size => Self::parameters(error).hint("4 KiB to 1 EiB, in whole blocks of 4 KiB"),
            OpenError::StoreNeeded => Self::parameters(error).hint(
                "--store FILE names it; --without-freshness reads without, and can't tell an older state from the newest",
            ),
            OpenError::NoRecord | OpenError::Record(_) | OpenError::AnotherVolume => {
                Self::new(Code::Device, error).hint("--store names the file that was made with this volume")
            }
            OpenError::Trusted(error) => of_trusted(error),
            OpenError::RolledBack { .. } => Self::new(Code::Device, error).hint(
                "somebody put an older copy of the objects back, or some are missing: bring the newest; \
                 --without-freshness reads what is there",
            ),
            OpenError::StoreOlder { .. } => Self::new(Code::Device, error)
                .hint("was the volume written with another --store since, or this file restored? Bring the newest one"),
            OpenError::Contested { .. } => {
                Self::new(Code::Busy, error).hint("try again when nobody else writes to the volume")
            }
            OpenError::Unreadable { number } => {
                let name = atrest_sealedvolume::format::names::log(number);
                Self::new(Code::Device, error).hint(format!(
                    "restore {name} in the store from a copy, or remove it: what was flushed with it is lost then"
                ))
            }
            OpenError::JournalNeeded => Self::new(Code::Device, error).hint(
                "`atrest open --journal FILE` stores what is in it; --without-journal reads what the store has, or writes and gives the rest up",
            ),
            OpenError::JournalForeign | OpenError::JournalOfAnother => {
                Self::new(Code::Device, error).hint("--journal names the volume's own, or a file that does not exist yet")
            }
            OpenError::JournalLeft { .. } => Self::new(Code::Device, error).hint(
                "keep the file, and name another one; or give up what it holds: --without-journal beside --journal",
            ),
            OpenError::JournalOlder { .. } | OpenError::JournalGap { .. } | OpenError::JournalBranch { .. } => Self::new(Code::Device, error).hint(
                "bring the newest journal and the newest objects; --without-journal gives up what only the journal has",
            ),
            OpenError::JournalSize { .. } => {
                Self::parameters(error).hint("name a file that does not exist yet; --journal-size says how large it becomes")
            }
            OpenError::Origin => Self::new(Code::Device, error)
                .hint("a clone needs the volume that it was made of, at the URL that it had then"),
            OpenError::Unreachable(error) => error.into(),
            error => Self::new(Code::Device, error),
        }
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        match error {
            VolumeError::Fenced { .. } => Self::new(Code::Busy, error)
                .hint("whoever opened it since has it now; what was flushed before is in it"),
            VolumeError::Unreachable(error) => error.into(),
            VolumeError::Trusted(error) => of_trusted(error),
            VolumeError::Cloned { .. } => Self::new(Code::Busy, error).hint(
                "`atrest flatten` makes a clone stand alone; then `atrest snapshot release` here, with the identifier that `snapshot list` shows",
            ),
            VolumeError::NoSuchSnapshot => {
                Self::parameters(error).hint("`atrest snapshot list` names those that there are")
            }
            error => Self::new(Code::Device, error),
        }
    }
}
