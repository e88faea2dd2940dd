//! Why a volume can't be mapped, or a mapping be removed.

use core::fmt;
use std::io;
use std::path::PathBuf;

/// Why device-mapper did not do what it was asked for.
#[non_exhaustive]
#[derive(Debug)]
pub enum DmError {
    /// The name is empty, longer than 127 bytes, or holds other characters than ASCII letters, digits and `#+-.:=@_`.
    Name {
        /// The name.
        name: String,
    },
    /// A mapping has the name.
    NameTaken {
        /// The name.
        name: String,
    },
    /// No mapping has the name.
    NotOpen {
        /// The name.
        name: String,
    },
    /// The mapping is something else than an encrypted volume.
    NotCrypt {
        /// Its name.
        name: String,
    },
    /// The mapping is of another kind than the one that was asked for.
    OtherKind {
        /// Its name.
        name: String,
        /// The target that was asked for.
        kind: &'static str,
    },
    /// The mapping is in use: mounted, or part of another one.
    Busy {
        /// Its name.
        name: String,
    },
    /// The volume was unlocked without keeping its key.
    NoKey,
    /// A part of the volume is shown as something else than it is (the boot sector of Windows Vista), which no target of the kernel does.
    Shown,
    /// The kernel has no device-mapper, or it may not be used here.
    Control(io::Error),
    /// Discards were asked for, which a volume with integrity tags can't pass on.
    DiscardWithTags,
    /// The device that holds the volume can't be used.
    Device {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// Another mapping, mount or process holds the device that the volume is on.
    DeviceBusy,
    /// No loop device for a volume in a file.
    Loop {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// The kernel does not take the table: it lacks the cipher, or dm-crypt altogether.
    Table(io::Error),
    /// The kernel did not take the key into its keyring.
    Keyring(io::Error),
    /// udev did not answer in time.
    Udev {
        /// Seconds that it was waited for.
        seconds: u64,
    },
    /// The device node can't be made or removed.
    Node {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// All I/O of the mapping waits already, and the kernel has no key.
    Suspended {
        /// Its name.
        name: String,
    },
    /// No I/O of the mapping waits.
    NotSuspended {
        /// Its name.
        name: String,
    },
    /// A volume without a header can't be suspended: nothing would tell whether the key that comes back is the right one.
    NotLuks {
        /// Its name.
        name: String,
    },
    /// The volume that was unlocked is not the one that is mapped, or has another key, cipher or place.
    OtherVolume {
        /// The mapping's name.
        name: String,
    },
    /// The kernel has the key in its keyring, out of which it must be given again.
    NeedsKey {
        /// The mapping's name.
        name: String,
    },
    /// A size that the mapping can't have.
    Size {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes in its data units, which the size is a multiple of.
        unit: u64,
        /// Bytes that its device has room for.
        room: u64,
    },
    /// The mapping has more than one segment, or tags beside its data units: its table can't be replaced by one of another size.
    Fixed {
        /// Its name.
        name: String,
    },
    /// The header of a volume that is re-encrypted lies on a file system on the volume itself, or may lie there, and can't be written while
    /// that waits.
    HeaderAbove {
        /// The mapping's name.
        name: String,
        /// The header's file.
        path: PathBuf,
    },
    /// All I/O of the mapping waits: the table that it has is out of date, and the kernel does not take the one of now.
    Waits {
        /// The mapping's name.
        name: String,
        /// Why it does not.
        error: Box<DmError>,
    },
    /// A mapping with tags has one below it, which would stay.
    DeferWithTags {
        /// Its name.
        name: String,
    },
    /// The kernel refused the request.
    System {
        /// What was asked for.
        request: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// The kernel's answer makes no sense.
    Answer,
}

impl fmt::Display for DmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => write!(
                f,
                "{name:?} is not a name for a mapping: use up to 127 letters, digits and '#+-.:=@_'"
            ),
            // cryptsetup's words: scripts look for them.
            Self::NameTaken { name } => write!(f, "Device {name} already exists"),
            Self::NotOpen { name } => write!(f, "there is no /dev/mapper/{name}"),
            Self::OtherKind { name, kind } => write!(f, "{name} is no mapping of dm-{kind}"),
            Self::NotCrypt { name } => write!(f, "/dev/mapper/{name} is not an encrypted volume"),
            Self::Busy { name } => write!(f, "/dev/mapper/{name} is in use"),
            Self::Shown => f.write_str(
                "the start of the volume is shown as something else than it is, which the kernel can't do",
            ),
            Self::NoKey => f.write_str("the volume was unlocked without keeping its key for the kernel"),
            Self::DiscardWithTags => {
                f.write_str("a volume with integrity tags passes no discards on: the tags of what is gone would not verify")
            }
            Self::Control(error) => write!(f, "device-mapper can't be used: /dev/mapper/control: {error}"),
            Self::Device { path, error } => write!(f, "{}: {error}", path.display()),
            Self::DeviceBusy => f.write_str("the device that holds the volume is in use"),
            Self::Loop { path, error } => write!(f, "no loop device for {}: {error}", path.display()),
            Self::Table(error) => write!(f, "the kernel does not take the volume's table: {error}"),
            Self::Keyring(error) => write!(f, "the kernel's keyring does not take the key: {error}"),
            Self::Udev { seconds } => {
                write!(f, "udev has not answered for {seconds} s")
            }
            Self::Node { path, error } => write!(f, "the device node {}: {error}", path.display()),
            Self::Suspended { name } => write!(f, "/dev/mapper/{name} is suspended"),
            Self::NotSuspended { name } => write!(f, "/dev/mapper/{name} is not suspended"),
            Self::NotLuks { name } => {
                write!(f, "/dev/mapper/{name} is no LUKS volume: nothing would tell a wrong key from the right one afterwards")
            }
            Self::OtherVolume { name } => {
                write!(f, "the volume is not the one that /dev/mapper/{name} is made of, or its key, cipher or place differ")
            }
            Self::NeedsKey { name } => {
                write!(f, "/dev/mapper/{name} has its key from the kernel's keyring, where it is needed again")
            }
            Self::Size { wanted, unit, room } => {
                write!(f, "{wanted} bytes are no size for it: a multiple of {unit}, up to the {room} bytes that its device has room for")
            }
            Self::Fixed { name } => {
                write!(f, "/dev/mapper/{name} has several segments or integrity tags, and keeps the table that it has")
            }
            Self::HeaderAbove { name, path } => {
                write!(f, "the header {} lies on /dev/mapper/{name} itself, which waits while it is written; or on a file system that does not tell where it lies (btrfs, overlay)", path.display())
            }
            Self::Waits { name, error } => {
                write!(f, "all I/O of /dev/mapper/{name} waits, since its table is out of date and no other is taken: {error}")
            }
            Self::DeferWithTags { name } => {
                write!(f, "/dev/mapper/{name} has integrity tags: the mapping that keeps them would stay")
            }
            Self::System { request, error } => write!(f, "device-mapper: {request}: {error}"),
            Self::Answer => f.write_str("the kernel's device-mapper gave an answer that makes no sense"),
        }
    }
}

impl core::error::Error for DmError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Control(error) | Self::Table(error) | Self::Keyring(error) => Some(error),
            Self::Device { error, .. }
            | Self::Loop { error, .. }
            | Self::Node { error, .. }
            | Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
