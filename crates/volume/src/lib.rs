//! Encrypted volumes: create, unlock, and change their keyslots and headers.
//!
//! A [`LockedVolume`] is what a header says; unlocking it gives a [`Volume`], a list of segments, each with its
//! [`Protection`] and its place on the media. All I/O goes through [`atrest_device::Media`]. Reading
//! never writes: a damaged header copy is used around, and rewritten only by [`LockedVolume::repair`] or by a change
//! that writes both copies anyway.
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
mod cost;
mod data_mapper;
mod detect;
mod error;
mod info;
mod lock;
pub mod luks1;
pub mod luks2;
mod options;
pub mod plain;
mod protection;
mod target;
mod uuid;
mod volume;
mod wiped;

pub use atrest_secret::{Passphrase, VolumeKey};
pub use detect::{LockedVolume, format, header_backup, header_restore, repair};
pub use error::{ChangeError, FormatError, OpenError, OptionError, UnlockError};
pub use info::{
    AreaInfo, CopyInfo, DigestInfo, Info, KdfInfo, KeyslotInfo, ReencryptionInfo, SegmentInfo, TokenInfo,
};
pub use options::{
    Credential, Devices, FormatOptions, KeyslotOptions, Pbkdf, PbkdfKind, PbkdfOptions, Priority, Relabel,
    RestoreOptions, UnlockOptions, VolumeFormat,
};
pub use protection::{Cascade, CascadeError, Protection, ProtectionError};
pub use target::{CryptFlags, CryptTarget, IntegrityTags};
pub use uuid::is_uuid;
pub use volume::{Segment, Volume};
