//! Why a volume was not opened.

use core::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use atrest_attach::dm::DmError;
use atrest_engine::contents::Contents;
use atrest_open::DeviceOpenError;
use atrest_open::token::tpm2::{BadTpmStore, CounterError};
use atrest_volume::{OpenError, UnlockError};

use crate::console::AskError;
use crate::policy::{BadPolicyPath, DeviceSpec, Unsure};

/// Why a key can't be had.
#[non_exhaustive]
#[derive(Debug)]
pub enum KeyError {
    /// The device that it is on did not come.
    Device {
        /// Which.
        device: DeviceSpec,
        /// Seconds that it was waited for.
        seconds: u64,
    },
    /// The device that it is on can't be mounted.
    Mount {
        /// Which.
        device: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It can't be read.
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is a directory or a socket.
    NoFile {
        /// Its path.
        path: PathBuf,
    },
    /// It is a device, and nothing says how much of it is the key.
    NoSize {
        /// Its path.
        path: PathBuf,
    },
    /// Nothing is in it.
    Empty {
        /// Its path.
        path: PathBuf,
    },
    /// It ends before the key does.
    Short {
        /// Its path.
        path: PathBuf,
        /// Bytes that are there.
        has: u64,
        /// Bytes asked for.
        needs: u64,
    },
    /// It is longer than a key can be.
    TooLong {
        /// Its path.
        path: PathBuf,
    },
    /// The program can't be run.
    Script {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The program failed.
    ScriptStatus {
        /// Which.
        path: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// The kernel gives no random bytes.
    Random(io::Error),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { device, seconds } => {
                write!(f, "the key's device {device} has not come within {seconds} s")
            }
            Self::Mount { device, error } => {
                write!(f, "the key's device {} can't be mounted {error}", device.display())
            }
            Self::Read { path, error } => write!(f, "the key file {}: {error}", path.display()),
            Self::NoFile { path } => write!(f, "{} is no key file", path.display()),
            Self::NoSize { path } => {
                write!(f, "{} is a device: say by keyfile-size= how much of it is the key", path.display())
            }
            Self::Empty { path } => write!(f, "no key is in {}", path.display()),
            Self::Short { path, has, needs } => {
                write!(f, "the key in {} ends after {has} of {needs} bytes", path.display())
            }
            Self::TooLong { path } => write!(f, "{} is longer than 8 MiB, which no key is", path.display()),
            Self::Script { path, error } => write!(f, "the key script {}: {error}", path.display()),
            Self::ScriptStatus { path, status } => write!(f, "the key script {}: {status}", path.display()),
            Self::Random(error) => write!(f, "the kernel's random source: {error}"),
        }
    }
}

impl core::error::Error for KeyError {}

/// Why a volume was not opened.
#[non_exhaustive]
#[derive(Debug)]
pub enum EntryError {
    /// Its device did not come.
    Device {
        /// Which.
        device: DeviceSpec,
        /// Seconds that it was waited for.
        seconds: u64,
    },
    /// The device of its header did not come.
    HeaderDevice {
        /// Which.
        device: DeviceSpec,
        /// Seconds that it was waited for.
        seconds: u64,
    },
    /// The device of its header can't be mounted.
    HeaderMount {
        /// Which.
        device: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A device or file can't be used.
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        error: DeviceOpenError,
    },
    /// There is no header that can be read.
    Header {
        /// Where it was looked for.
        path: PathBuf,
        /// Why.
        error: Box<OpenError>,
    },
    /// It can't be unlocked, with whatever key.
    Unlock(UnlockError),
    /// No passphrase was right.
    WrongPassphrase {
        /// How often one was asked for.
        tries: u32,
    },
    /// The key was not right or not there, and nothing may be asked.
    Headless,
    /// Nobody could be asked, or nobody answered.
    Ask(AskError),
    /// The key can't be had, and it is no passphrase.
    Key(KeyError),
    /// An option is missing that a plain volume needs.
    PlainOption {
        /// Which.
        option: &'static str,
    },
    /// An option of a plain volume makes no sense.
    PlainValue {
        /// Why.
        reason: String,
    },
    /// Something is on the device that writes to a plain volume would destroy, and nobody can be asked.
    PlainOver {
        /// What.
        found: Contents,
    },
    /// What the header may say can't be read.
    HeaderPolicy {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The TPM's counter does not say that the header is the newest one.
    HeaderStore(CounterError),
    /// No counter has the name that somebody mistyped.
    BadHeaderStore(BadTpmStore),
    /// No file has the name that somebody mistyped.
    BadHeaderPolicy(BadPolicyPath),
    /// It can't be told whether something is demanded of it.
    Unsure {
        /// Its UUID.
        uuid: String,
        /// What it was compared with.
        unsure: Unsure,
    },
    /// Another volume is in its place.
    OtherKey,
    /// The header has another UUID than a moment before.
    OtherHeader,
    /// The TPM was not told which volume it is.
    NotMeasured {
        /// The PCR.
        pcr: u32,
        /// Why.
        error: Box<dyn core::error::Error>,
    },
    /// It can't be mapped.
    Map(DmError),
}

impl EntryError {
    /// The exit code of a program that could do no better: cryptsetup's.
    pub fn code(&self) -> u8 {
        match self {
            Self::WrongPassphrase { .. } | Self::Headless | Self::Ask(_) | Self::Key(_) => 2,
            Self::Unlock(UnlockError::NotEnoughMemory { .. }) => 3,
            Self::PlainOption { .. } | Self::PlainValue { .. } => 1,
            Self::Map(DmError::NameTaken { .. } | DmError::DeviceBusy | DmError::Busy { .. }) => 5,
            Self::Open { error, .. } if error.is_busy() => 5,
            _ => 4,
        }
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { device, seconds } => write!(f, "{device} has not come within {seconds} s"),
            Self::HeaderDevice { device, seconds } => {
                write!(f, "the header's device {device} has not come within {seconds} s")
            }
            Self::HeaderMount { device, error } => {
                write!(f, "the header's device {} can't be mounted {error}", device.display())
            }
            Self::Open { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Header { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Unlock(UnlockError::NotEnoughMemory { needs, has }) => write!(
                f,
                "its key derivation needs {} MiB of memory, and {} MiB can be had; add a keyslot that needs less \
                 (--pbkdf-memory)",
                needs.div_ceil(1 << 20),
                has >> 20
            ),
            Self::Unlock(error) => error.fmt(f),
            Self::WrongPassphrase { tries: 1 } => f.write_str("the passphrase was wrong"),
            Self::WrongPassphrase { tries } => write!(f, "{tries} passphrases were wrong"),
            Self::Headless => f.write_str("it has no key that opens it, and nothing may be asked (headless)"),
            Self::Ask(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::PlainOption { option } => {
                write!(f, "a plain volume has no header, so {option}= must be said")
            }
            Self::PlainValue { reason } => f.write_str(reason),
            Self::PlainOver { found } => write!(
                f,
                "there is {found}, which writes to a plain volume would destroy; with the option read-only it is opened"
            ),
            Self::HeaderPolicy { path, reason } => {
                write!(f, "the header policy {}: {reason}", path.display())
            }
            Self::HeaderStore(error) => write!(f, "header-store=: {error}"),
            Self::BadHeaderStore(error) => write!(f, "header-store=: {error}"),
            Self::BadHeaderPolicy(error) => write!(f, "the header policy: {error}"),
            Self::Unsure { uuid, unsure: Unsure { demanded } } => write!(
                f,
                "its UUID is {uuid}, and the kernel command line demands something of {demanded}, by which no volume \
                 is named, so it may be meant: name this one by UUID={uuid} if it is the right one, or mend the \
                 UUID on the kernel command line"
            ),
            Self::OtherHeader => f.write_str("its header has changed while it was opened; try again"),
            Self::OtherKey => f.write_str(
                "another volume is in its place: its key is not the one that fixate-volume-key= names",
            ),
            Self::NotMeasured { pcr, error } => {
                write!(f, "PCR {pcr} can't be extended by its key, as tpm2-measure-pcr= asks: {error}")
            }
            Self::Map(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for EntryError {}
