//! Encrypted volumes: create, unlock, and change their keyslots and headers.
//!
//! A [`LockedVolume`] is what a header says; unlocking it gives a [`Volume`], a list of segments, each with its
//! [`Protection`] and its place on the media. All I/O goes through [`atrest_device::Media`]. Reading
//! never writes: a damaged header copy is used around, and rewritten only by [`LockedVolume::repair`] or by a change
//! that writes both copies anyway.
//!
//! A volume is made, and unlocked with its passphrase:
//!
//! ```
//! use atrest_volume::{
//!     Devices, FormatOptions, LockedVolume, Passphrase, PbkdfKind, UnlockError, UnlockOptions, VolumeFormat,
//!     format,
//! };
//!
//! // A device in memory, for an example. `atrest_engine::FileDevice` is a file or a block device.
//! let device = atrest_testkit::FaultDevice::zeroed(17 << 20);
//! let devices = Devices::together(&device);
//! let passphrase = Passphrase::copy_from(b"correct horse");
//!
//! // By default the keyslot's Argon2id takes two seconds of this machine. An example must not.
//! let mut options = FormatOptions::default();
//! options.keyslot.pbkdf.kind = Some(PbkdfKind::Pbkdf2);
//! options.keyslot.pbkdf.forced_iterations = Some(1000);
//! format(devices, VolumeFormat::Luks2, &passphrase, &options)?;
//!
//! let locked = LockedVolume::read(&device)?;
//! let volume = locked.unlock(devices, &passphrase, &UnlockOptions::default())?;
//! assert_eq!(volume.size(), 1 << 20);
//!
//! let wrong = Passphrase::copy_from(b"incorrect horse");
//! let refused = locked.unlock(devices, &wrong, &UnlockOptions::default());
//! assert!(matches!(refused, Err(UnlockError::WrongPassphrase)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

mod apart;
#[cfg(feature = "foreign")]
pub mod bitlocker;
mod convert;
mod cost;
mod data_mapper;
mod detect;
mod error;
#[cfg(feature = "foreign")]
pub mod fvault2;
mod info;
pub mod integrity;
mod lock;
pub mod loopaes;
pub mod luks1;
pub mod luks2;
mod options;
mod overwritten;
pub mod plain;
mod protection;
#[cfg(feature = "foreign")]
mod recognised;
mod target;
pub mod tcrypt;
mod uuid;
mod volume;
mod wiped;

pub use atrest_secret::{Passphrase, VolumeKey};
pub use convert::{
    ConvertError, Front, Obstacle, convert, convert_meanwhile, durable_front, export_meanwhile, front,
    import, set_aside, uuid_set_aside,
};
pub use detect::{LockedVolume, format, header_backup, header_restore, repair};
pub use error::{ChangeError, FormatError, OpenError, OptionError, UnlockError};
pub use info::{
    AreaInfo, CopyInfo, DigestInfo, Info, KdfInfo, KeyslotInfo, ReencryptionInfo, SegmentInfo, TokenInfo,
};
pub use options::{
    Credential, Devices, FormatOptions, KeyslotOptions, Pbkdf, PbkdfKind, PbkdfOptions, Priority, Relabel,
    RestoreOptions, TagOptions, UnlockOptions, VolumeFormat,
};
pub use overwritten::{Overwritten, overwritten};
pub use protection::{Cascade, CascadeError, Layer, Protection, ProtectionError};
#[cfg(feature = "foreign")]
pub use recognised::begins_as_a_file_system;
pub use target::{CryptFlags, CryptTarget, IntegrityTags};
pub use uuid::is_uuid;
pub use volume::{SealedKey, Segment, Volume};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
