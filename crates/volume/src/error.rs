//! What can go wrong, one type per operation, shared by all formats.

use core::fmt;

use atrest_cipher::{KeyError, SpecError, TaggedSpecError};
use atrest_device::DeviceError;
use atrest_format::integrity::SuperblockError;
use atrest_format::luks2::HeaderError as Luks2HeaderError;
use atrest_kdf::KdfError;
use atrest_keyslot::af::AfError;
use atrest_keyslot::area::AreaError;
use atrest_keyslot::luks1::HeaderError as Luks1HeaderError;
use atrest_secret::RandomError;

use crate::apart::Overlap;
#[cfg(feature = "foreign")]
use crate::bitlocker::BitLockerError;
#[cfg(feature = "foreign")]
use crate::fvault2::FileVaultError;
use crate::loopaes::LoopAesError;
use crate::luks2::{PinError, PolicyFault};
use crate::plain::PlainOpenError;
use crate::tcrypt::TcryptError;

/// Why a header could not be read.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The device failed.
    Device(DeviceError),
    /// No LUKS header is on the device.
    NotLuks,
    /// A LUKS header of a version that does not exist.
    UnknownVersion {
        /// The version.
        version: u16,
    },
    /// The LUKS1 header is damaged or not acceptable.
    Luks1(Luks1HeaderError),
    /// No copy of the LUKS2 header can be used.
    Luks2 {
        /// What is wrong with the first copy.
        primary: Luks2HeaderError,
        /// What is wrong with the second copy.
        secondary: Luks2HeaderError,
    },
    /// The keyslot areas lie so far from the header that no backup of them is made.
    BackupTooLarge {
        /// Bytes up to the end of the last area.
        needs: u64,
        /// Most bytes in a backup.
        most: u64,
    },
}

/// Why a volume could not be unlocked.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnlockError {
    /// The device failed.
    Device(DeviceError),
    /// No keyslot opens with the passphrase.
    WrongPassphrase,
    /// The volume key does not belong to this volume.
    WrongVolumeKey,
    /// The keyslot does not exist or holds no key.
    NoSuchKeyslot {
        /// Its number.
        slot: u32,
    },
    /// The volume has no keyslot at all that could be tried.
    NoKeyslot,
    /// A keyslot area can't be what was written: it has sectors of one repeated byte, or lies beyond the device's end.
    /// No intact keyslot could be tried.
    KeyslotDamaged {
        /// The keyslot.
        slot: u32,
        /// First byte on the device that can't be right.
        offset: u64,
    },
    /// No intact keyslot opens with the passphrase, and this one, which might, is damaged.
    WrongPassphraseOrDamaged {
        /// The damaged keyslot.
        slot: u32,
    },
    /// The keyslot opens, but its key belongs to no segment (an unbound keyslot).
    Unbound {
        /// The keyslot.
        slot: u32,
    },
    /// A cipher that this build does not know.
    UnsupportedCipher(SpecError),
    /// A key does not fit its cipher.
    Key(KeyError),
    /// A key derivation failed or is not known.
    Kdf(KdfError),
    /// The key derivation needs more memory than there is.
    NotEnoughMemory {
        /// Bytes needed.
        needs: u64,
        /// Bytes that can be had.
        has: u64,
    },
    /// A plain volume can't be opened.
    Plain(PlainOpenError),
    /// A loop-AES volume can't be opened.
    LoopAes(LoopAesError),
    /// A TrueCrypt or VeraCrypt volume can't be opened.
    Tcrypt(TcryptError),
    /// A BitLocker volume can't be opened.
    #[cfg(feature = "foreign")]
    BitLocker(BitLockerError),
    /// A FileVault volume can't be opened.
    #[cfg(feature = "foreign")]
    FileVault(FileVaultError),
    /// A keyslot area could not be decrypted.
    Area(AreaError),
    /// The key could not be put together from its stripes.
    Af(AfError),
    /// A hash that this build does not know, in a keyslot or digest.
    UnsupportedHash,
    /// The header has a keyslot, digest or segment type that this build does not know.
    UnsupportedType,
    /// The header asks for something that this build does not know.
    UnsupportedRequirement {
        /// What the requirements are called.
        names: Vec<String>,
    },
    /// The data lies in sealed objects, and the device is no store of them, or the other way round.
    SealedElsewhere,
    /// A re-encryption is in progress or was interrupted; it has to be finished first.
    ReencryptionInProgress,
    /// The header lies in a file, and does not count: the one that it was made of is not set aside in front of the data.
    NotItsFront,
    /// Another process goes on with the re-encryption of the volume at this moment, or has it open as it is until that goes on.
    ReencryptionRuns,
    /// The volume is authenticated: its data units have tags, which a re-encryption does not make.
    Authenticated,
    /// The drive encrypts the data itself (`opal`, in any version).
    Opal,
    /// The tags lie in metadata of the drive's own, which the kernel alone reads (`inline-hw-tags`).
    InlineTags,
    /// The key of the MAC is one that only special hardware can use (`phmac`).
    ProtectedKey,
    /// The volume has tags of a kind that is not known.
    UnknownIntegrity,
    /// The data of an authenticated volume does not begin with a superblock of dm-integrity that can be used.
    Superblock(SuperblockError),
    /// dm-integrity's superblock says something else than the header.
    OtherIntegrity {
        /// Bytes of tag, by the superblock.
        tag_len: u32,
        /// Bytes in a data unit, by the superblock.
        data_unit: u32,
        /// Both, by the header.
        expected: (u32, u32),
    },
    /// Header and data are one device, and the data would lie over the header: it is a detached header whose data is on
    /// another device, or somebody changed where the data begins.
    DataOverHeader {
        /// First byte of the data on the data device.
        data: u64,
        /// End of the header on the header device.
        header: u64,
    },
    /// The data device ends before the data does.
    DataDeviceTooSmall {
        /// Bytes the device must have.
        needs: u64,
        /// Bytes it has.
        has: u64,
    },
    /// A digest in the header is not well-formed for its hash.
    BadDigest,
    /// The header says what the policy does not allow.
    HeaderPolicy(PolicyFault),
    /// The header is not as it was pinned, or not pinned as the policy asks.
    Pin(PinError),
    /// The volume key is another one than the caller expects.
    OtherVolumeKey {
        /// Its identifier.
        expected: String,
        /// The one that was found.
        found: String,
    },
    /// A keyslot whose derivation is cheaper than any that was ever made.
    TooCheap {
        /// The keyslot.
        slot: u32,
    },
}

/// Why options can't be used.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// The cipher is not known.
    UnsupportedCipher(SpecError),
    /// A null cipher keeps nothing secret.
    NullCipher,
    /// The cipher is safe for a single snapshot only, and a volume and its keyslots are written again and again.
    SingleSnapshot,
    /// The authenticated cipher is not known, or the names of the two parts do not belong together.
    Tags(TaggedSpecError),
    /// The authenticated cipher takes a unit's number for a nonce: data that is written twice would give plaintext and keys away.
    RepeatedNonces,
    /// There is no MAC that could have a key, or none has keys of this length.
    MacKeyLength {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Tags and journal leave no room for data on the device.
    NoRoomForTags {
        /// Bytes from the start of the data on.
        has: u64,
    },
    /// The cipher has no keys of this length.
    KeyLength {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes that its keys can have, shortest first.
        takes: &'static [usize],
    },
    /// The given volume key is not as long as the options say.
    VolumeKeyLength {
        /// Bytes it has.
        has: usize,
        /// Bytes it must have.
        needs: usize,
    },
    /// The sector size is not 512, 1024, 2048 or 4096.
    DataUnit {
        /// Bytes asked for.
        bytes: u32,
    },
    /// LUKS1 has sectors of 512 bytes.
    DataUnitLuks1 {
        /// Bytes asked for.
        bytes: u32,
    },
    /// A LUKS2 metadata size is 16 KiB · 2^n up to 4 MiB.
    MetadataSize {
        /// Bytes asked for.
        bytes: u64,
    },
    /// A LUKS2 keyslots area is a multiple of 4096 up to 128 MiB.
    KeyslotsSize {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The data offset is misaligned or lies inside the header.
    DataOffset {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that the header takes.
        header: u64,
    },
    /// The header's device is the data device under another name, and the data would lie over the header.
    DataOverHeader {
        /// First byte of the data on the data device.
        data: u64,
        /// Bytes that the header takes.
        header: u64,
    },
    /// The given volume key is all zeros: nobody chose it.
    ZeroVolumeKey,
    /// Not a UUID.
    Uuid,
    /// The nil UUID, which identifies nothing.
    NilUuid,
    /// The label or subsystem is longer than 47 bytes or holds a zero byte.
    LabelLength {
        /// Bytes it has.
        bytes: usize,
    },
    /// The keyslot number does not exist in this format.
    SlotNumber {
        /// The number.
        slot: u32,
        /// How many keyslots the format has.
        count: u32,
    },
    /// A key derivation that the format does not have, or a cost out of its bounds.
    Pbkdf,
    /// The format does not have the option at all (such as labels in LUKS1).
    NotInFormat,
    /// The device is too small.
    DeviceTooSmall {
        /// Bytes needed.
        needs: u64,
        /// Bytes there are.
        has: u64,
    },
}

/// Why a volume could not be created.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The device failed. The device may hold a part of the new header.
    Device(DeviceError),
    /// An option can't be used. Nothing was written.
    Option(OptionError),
    /// A key derivation failed. Nothing was written.
    Kdf(KdfError),
    /// The key derivation needs more memory than there is. Nothing was written.
    NotEnoughMemory {
        /// Bytes needed.
        needs: u64,
        /// Bytes that can be had.
        has: u64,
    },
    /// A keyslot area could not be encrypted. Nothing was written.
    Area(AreaError),
    /// The key could not be split into stripes. Nothing was written.
    Af(AfError),
    /// The volume key does not suit its cipher. Nothing was written.
    Key(KeyError),
    /// The random source failed. The device may hold a part of the new header.
    Random(RandomError),
    /// The new header does not pass our own checks: a fault of this program.
    Header,
}

/// Why a header or keyslot could not be changed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// The device failed. What was acknowledged before still holds.
    Device(DeviceError),
    /// The header could not be read.
    Open(OpenError),
    /// The credential did not open the volume, or the header asks for something that is not known or not finished.
    Unlock(UnlockError),
    /// An option can't be used.
    Option(OptionError),
    /// The random source failed.
    Random(RandomError),
    /// A key derivation failed.
    Kdf(KdfError),
    /// The key derivation needs more memory than there is.
    NotEnoughMemory {
        /// Bytes needed.
        needs: u64,
        /// Bytes that can be had.
        has: u64,
    },
    /// A keyslot area could not be encrypted.
    Area(AreaError),
    /// The key could not be split into stripes.
    Af(AfError),
    /// The changed header would not pass our own checks. Nothing was written.
    Header(Luks2HeaderError),
    /// The header's sequence number can't be counted up any more.
    SequenceExhausted,
    /// All keyslots are in use.
    NoFreeKeyslot,
    /// All digests are in use: each key of its own, which belongs to no data segment, has one.
    NoFreeDigest,
    /// The keyslot is in use.
    KeyslotInUse {
        /// Its number.
        slot: u32,
    },
    /// The keyslot holds no key.
    NoSuchKeyslot {
        /// Its number.
        slot: u32,
    },
    /// It is the last keyslot that opens the volume, and the caller did not say that it may go.
    LastKeyslot {
        /// Its number.
        slot: u32,
    },
    /// The keyslots area has no gap that is long enough.
    NoRoomForKeyslot {
        /// Bytes needed.
        needs: u64,
    },
    /// The JSON metadata does not fit its area.
    MetadataFull {
        /// Bytes needed.
        needs: u64,
        /// Bytes there are.
        has: u64,
    },
    /// The wiped area still holds old data on the media. After a removal the keyslot is still listed; after a change
    /// only the new passphrase opens the volume, but the old key material could be recovered.
    WipeNotVerified {
        /// First byte that was not overwritten.
        offset: u64,
    },
    /// The header changed between reading and locking in a way that makes the operation meaningless.
    ChangedMeanwhile,
    /// The token does not exist.
    NoSuchToken {
        /// Its number.
        token: u32,
    },
    /// The token number is in use, or all are.
    TokenInUse,
    /// The token is not valid JSON of a token object, or names keyslots that do not exist.
    BadToken,
    /// The backup is not one of this format, is damaged, or its size is not what its header says.
    BadBackup(OpenError),
    /// The backup's length is not what its header says.
    BackupLength {
        /// Bytes it has.
        has: u64,
        /// Bytes it must have.
        needs: u64,
    },
    /// The backup belongs to another volume, and the caller did not say that it may be replaced.
    BackupOfAnotherVolume,
    /// The backup places data at another offset or has other sizes than the header on the device.
    BackupLayoutDiffers,
    /// The backup is of a detached header, and the device is not known to be for a header alone.
    BackupOfDetachedHeader,
    /// There is nothing to repair.
    NothingToRepair,
    /// The format does not have this (such as priorities in LUKS1).
    NotInFormat,
    /// The header is pinned, and nobody has shown the key that renews its pin.
    Pinned,
    /// The header is pinned, and a re-encryption changes it at each step.
    PinnedReencryption,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(e) => e.fmt(f),
            Self::NotLuks => f.write_str("no LUKS header was found"),
            Self::UnknownVersion { version } => write!(f, "LUKS version {version} is not known"),
            Self::Luks1(e) => write!(f, "the LUKS1 header can't be used: {e}"),
            Self::Luks2 { primary: short @ Luks2HeaderError::TooShort { .. }, secondary }
                if short == secondary =>
            {
                write!(f, "the LUKS2 header is cut off: {short}")
            }
            Self::Luks2 { primary, secondary } if primary == secondary => {
                write!(f, "neither copy of the LUKS2 header can be used: {primary}")
            }
            Self::Luks2 { primary, secondary } => write!(
                f,
                "neither copy of the LUKS2 header can be used (first: {primary}; second: {secondary})"
            ),
            Self::BackupTooLarge { needs, most } => write!(
                f,
                "the header's keyslots end at byte {needs}; a backup of them has {most} bytes at most"
            ),
        }
    }
}

impl fmt::Display for UnlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(e) => e.fmt(f),
            Self::WrongPassphrase => f.write_str("no keyslot opens with this passphrase"),
            Self::WrongVolumeKey => f.write_str("this volume key does not belong to the volume"),
            Self::NoSuchKeyslot { slot } => write!(f, "keyslot {slot} holds no key"),
            Self::NoKeyslot => f.write_str("the volume has no keyslot that could be tried"),
            Self::KeyslotDamaged { slot, offset } => {
                write!(
                    f,
                    "keyslot {slot} is damaged: its area at offset {offset} has been overwritten or is cut off"
                )
            }
            Self::WrongPassphraseOrDamaged { slot } => {
                write!(f, "no intact keyslot opens with this passphrase, and keyslot {slot} is damaged")
            }
            Self::Unbound { slot } => {
                write!(f, "keyslot {slot} opens, but its key belongs to no data segment")
            }
            Self::UnsupportedCipher(e) => write!(f, "the cipher is not supported: {e}"),
            Self::Key(e) => write!(f, "the key does not fit its cipher: {e}"),
            Self::Kdf(e) => write!(f, "the key derivation failed: {e}"),
            Self::NotEnoughMemory { needs, has } => write_memory(f, *needs, *has),
            Self::Plain(e) => e.fmt(f),
            Self::LoopAes(e) => e.fmt(f),
            Self::Tcrypt(e) => e.fmt(f),
            #[cfg(feature = "foreign")]
            Self::BitLocker(e) => e.fmt(f),
            #[cfg(feature = "foreign")]
            Self::FileVault(e) => e.fmt(f),
            Self::Area(e) => e.fmt(f),
            Self::Af(e) => e.fmt(f),
            Self::UnsupportedHash => f.write_str("the header names a hash that is not supported"),
            Self::UnsupportedType => {
                f.write_str("the header has a keyslot, digest or segment of an unknown type")
            }
            // A header may say anything, and steers no terminal by it.
            Self::UnsupportedRequirement { names } => {
                write!(f, "the header asks for what this version does not know: {names:?}")
            }
            Self::SealedElsewhere => {
                f.write_str("the header is that of a sealed volume, whose data lies in a store beside it")
            }
            Self::NotItsFront => f.write_str(
                "this header does not count: the one that it was made of is not in front of the data, or still counts itself",
            ),
            Self::ReencryptionRuns => f.write_str("another process is re-encrypting the volume"),
            Self::ReencryptionInProgress => {
                f.write_str("a re-encryption is not finished; the volume can be opened when it is")
            }
            Self::Authenticated => f.write_str(
                "the volume is authenticated, and volumes with integrity tags can't be re-encrypted",
            ),
            Self::Opal => {
                f.write_str("the drive encrypts the data itself (opal), which takes its own commands")
            }
            Self::InlineTags => f.write_str(
                "the integrity tags of the volume lie in metadata of the drive's own (inline-hw-tags)",
            ),
            Self::ProtectedKey => f.write_str(
                "the integrity key of the volume is one that only special hardware can use (phmac)",
            ),
            Self::UnknownIntegrity => {
                f.write_str("the volume has integrity tags of a kind that is not known")
            }
            Self::Superblock(error) => error.fmt(f),
            Self::OtherIntegrity { tag_len, data_unit, expected: (tag, unit) } => write!(
                f,
                "dm-integrity has tags of {tag_len} bytes for data units of {data_unit}; by the header they are {tag} for {unit}"
            ),
            Self::DataOverHeader { data, header } => Overlap { data: *data, header: *header }.fmt(f),
            Self::DataDeviceTooSmall { needs, has } => {
                write!(f, "the data device has {has} bytes, but the volume needs {needs}")
            }
            Self::BadDigest => f.write_str("the header's digest does not fit its hash"),
            Self::HeaderPolicy(fault) => write!(f, "the header is not what the policy allows: {fault}"),
            Self::Pin(error) => error.fmt(f),
            Self::OtherVolumeKey { expected, found } => {
                write!(f, "another volume is in its place: its key is {found}, and {expected} is expected")
            }
            Self::TooCheap { slot } => write!(
                f,
                "the key derivation of keyslot {slot} is cheaper than any that was ever made: somebody has changed the header"
            ),
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedCipher(e) => write!(f, "the cipher is not supported: {e}"),
            Self::NullCipher => f.write_str("a null cipher keeps nothing secret"),
            Self::SingleSnapshot => f.write_str(
                "the cipher is safe for a single snapshot only, not for what is written again and again",
            ),
            Self::Tags(error) => error.fmt(f),
            Self::RepeatedNonces => f.write_str(
                "the cipher takes a sector's number for its nonce, and gives data and keys away when a sector is written twice",
            ),
            Self::MacKeyLength { bytes } => {
                write!(f, "the volume has no MAC that takes a key of {bytes} bytes")
            }
            Self::NoRoomForTags { has } => {
                write!(f, "{has} bytes are too few for a journal, tags and data")
            }
            Self::KeyLength { bytes, takes } => write!(
                f,
                "the cipher has no keys of {} bits; it takes {} bits",
                // cannot overflow: for people; keys in memory are shorter.
                bytes.saturating_mul(8),
                atrest_format::plain::KeySizes(takes)
            ),
            Self::VolumeKeyLength { has, needs } => {
                write!(f, "the volume key has {has} bytes instead of {needs}")
            }
            Self::DataUnit { bytes } => write!(
                f,
                "sectors of {bytes} bytes are not possible; they have 512, 1024, 2048 or 4096 bytes"
            ),
            Self::DataUnitLuks1 { bytes } => {
                write!(f, "sectors of {bytes} bytes are not possible in LUKS1; they have 512 bytes")
            }
            Self::MetadataSize { bytes } => {
                write!(f, "a metadata size of {bytes} bytes is not possible (16 KiB to 4 MiB, powers of two)")
            }
            Self::KeyslotsSize { bytes } => write!(
                f,
                "a keyslots area of {bytes} bytes is not possible (multiples of 4096 up to 128 MiB, at least one keyslot)"
            ),
            Self::DataOffset { bytes, header } => {
                write!(
                    f,
                    "data can't start at byte {bytes}: the header takes {header} bytes, and offsets are aligned"
                )
            }
            Self::DataOverHeader { data, header } => Overlap { data: *data, header: *header }.fmt(f),
            Self::ZeroVolumeKey => f.write_str("the volume key is all zeros, which anybody can guess"),
            Self::Uuid => f.write_str("not a UUID"),
            Self::NilUuid => f.write_str("the nil UUID identifies no volume"),
            Self::LabelLength { bytes } => {
                write!(f, "a label or subsystem has at most 47 bytes and no zero byte, this one has {bytes}")
            }
            Self::SlotNumber { slot, count } => {
                write!(f, "there is no keyslot {slot}: they are numbered from 0 to below {count}")
            }
            Self::Pbkdf => {
                f.write_str("the format does not have this key derivation, or its cost is out of bounds")
            }
            Self::NotInFormat => f.write_str("the format does not have this option"),
            Self::DeviceTooSmall { needs, has } => {
                write!(f, "the device has {has} bytes, but at least {needs} are needed")
            }
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(e) => e.fmt(f),
            Self::Option(e) => e.fmt(f),
            Self::Kdf(e) => write!(f, "the key derivation failed: {e}"),
            Self::NotEnoughMemory { needs, has } => write_memory(f, *needs, *has),
            Self::Area(e) => e.fmt(f),
            Self::Af(e) => e.fmt(f),
            Self::Key(e) => write!(f, "the volume key does not suit its cipher: {e}"),
            Self::Random(e) => e.fmt(f),
            Self::Header => f.write_str("the new header fails this program's own checks"),
        }
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(e) => e.fmt(f),
            Self::Open(e) => e.fmt(f),
            Self::Unlock(e) => e.fmt(f),
            Self::Option(e) => e.fmt(f),
            Self::Random(e) => e.fmt(f),
            Self::Kdf(e) => write!(f, "the key derivation failed: {e}"),
            Self::NotEnoughMemory { needs, has } => write_memory(f, *needs, *has),
            Self::Area(e) => e.fmt(f),
            Self::Af(e) => e.fmt(f),
            Self::Header(e) => write!(f, "the changed header would not be valid: {e}"),
            Self::SequenceExhausted => {
                f.write_str("the header's sequence number can't be counted up any more")
            }
            Self::NoFreeKeyslot => f.write_str("all keyslots are in use"),
            Self::NoFreeDigest => f.write_str("all digests of the header are in use"),
            Self::KeyslotInUse { slot } => write!(f, "keyslot {slot} is in use"),
            Self::NoSuchKeyslot { slot } => write!(f, "keyslot {slot} holds no key"),
            Self::LastKeyslot { slot } => {
                write!(f, "keyslot {slot} is the last one that opens the volume; without it the data is lost")
            }
            Self::NoRoomForKeyslot { needs } => {
                write!(f, "the keyslots area has no gap of {needs} bytes for another keyslot")
            }
            Self::MetadataFull { needs, has } => {
                write!(f, "the metadata needs {needs} bytes, but its area has {has}")
            }
            Self::WipeNotVerified { offset } => {
                write!(f, "the wiped area still holds old data on the media at offset {offset}")
            }
            Self::ChangedMeanwhile => f.write_str("another program changed the header meanwhile; try again"),
            Self::NoSuchToken { token } => write!(f, "token {token} does not exist"),
            Self::TokenInUse => f.write_str("the token number is in use, or all are"),
            Self::BadToken => f.write_str("the token is no JSON object with a type and existing keyslots"),
            Self::BadBackup(e) => write!(f, "the header backup can't be used: {e}"),
            Self::BackupLength { has, needs } => {
                write!(f, "the header backup has {has} bytes instead of {needs}")
            }
            Self::BackupOfAnotherVolume => f.write_str("the header backup belongs to another volume"),
            Self::BackupLayoutDiffers => f.write_str(
                "the header backup has another data offset or other sizes than the header on the device",
            ),
            Self::BackupOfDetachedHeader => f.write_str(
                "the backup is of a detached header; here it would overwrite the beginning of the data",
            ),
            Self::NothingToRepair => {
                f.write_str("both copies of the header are intact; there is nothing to repair")
            }
            Self::NotInFormat => f.write_str("the format does not have this"),
            Self::Pinned => {
                f.write_str("the header is pinned, and changes to it need a passphrase of the volume")
            }
            Self::PinnedReencryption => {
                f.write_str("the header is pinned, and a re-encryption would change it at each step")
            }
        }
    }
}

fn write_memory(f: &mut fmt::Formatter<'_>, needs: u64, has: u64) -> fmt::Result {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    write!(f, "the key derivation needs {} MiB of memory, but only {} MiB can be had", mib(needs), mib(has))
}

/// The error behind an error: that of the variants named, each of which holds one.
macro_rules! source {
    ($($error:ident: $($(#[$when:meta])? $variant:ident)*;)*) => {
        $(impl core::error::Error for $error {
            fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
                match self {
                    $($(#[$when])? Self::$variant(cause) => Some(cause),)*
                    _ => None,
                }
            }
        })*
    };
}
pub(crate) use source;

source! {
    OpenError: Device Luks1;
    UnlockError: Device UnsupportedCipher Key Kdf Plain LoopAes Tcrypt #[cfg(feature = "foreign")] BitLocker #[cfg(feature = "foreign")] FileVault Area Af Superblock;
    OptionError: UnsupportedCipher Tags;
    FormatError: Device Option Kdf Area Af Key Random;
    ChangeError: Device Open Unlock Option Random Kdf Area Af Header BadBackup;
}

/// Errors that are one variant of a wider one.
macro_rules! from {
    ($($error:ident::$variant:ident($cause:ty),)*) => {
        $(impl From<$cause> for $error {
            fn from(cause: $cause) -> Self {
                Self::$variant(cause)
            }
        })*
    };
}

from! {
    ChangeError::Area(AreaError),
    ChangeError::Device(DeviceError),
    ChangeError::Open(OpenError),
    ChangeError::Option(OptionError),
    ChangeError::Random(RandomError),
    ChangeError::Unlock(UnlockError),
    FormatError::Area(AreaError),
    FormatError::Device(DeviceError),
    FormatError::Option(OptionError),
    FormatError::Random(RandomError),
    OpenError::Device(DeviceError),
    UnlockError::Af(AfError),
    UnlockError::Device(DeviceError),
    UnlockError::Key(KeyError),
    UnlockError::Plain(PlainOpenError),
    UnlockError::LoopAes(LoopAesError),
    UnlockError::Tcrypt(TcryptError),
}

#[cfg(feature = "foreign")]
impl From<FileVaultError> for UnlockError {
    fn from(cause: FileVaultError) -> Self {
        Self::FileVault(cause)
    }
}

#[cfg(feature = "foreign")]
impl From<BitLockerError> for UnlockError {
    fn from(cause: BitLockerError) -> Self {
        Self::BitLocker(cause)
    }
}

impl From<KdfError> for UnlockError {
    fn from(e: KdfError) -> Self {
        match e {
            KdfError::NotEnoughMemory { needs, has } => Self::NotEnoughMemory { needs, has },
            other => Self::Kdf(other),
        }
    }
}

impl From<KdfError> for FormatError {
    fn from(e: KdfError) -> Self {
        match e {
            KdfError::NotEnoughMemory { needs, has } => Self::NotEnoughMemory { needs, has },
            other => Self::Kdf(other),
        }
    }
}

impl From<KdfError> for ChangeError {
    fn from(e: KdfError) -> Self {
        match e {
            KdfError::NotEnoughMemory { needs, has } => Self::NotEnoughMemory { needs, has },
            other => Self::Kdf(other),
        }
    }
}

impl From<AreaError> for UnlockError {
    fn from(e: AreaError) -> Self {
        match e {
            AreaError::Key(e) => Self::Key(e),
            other => Self::Area(other),
        }
    }
}

impl From<AfError> for FormatError {
    fn from(e: AfError) -> Self {
        match e {
            AfError::Random(e) => Self::Random(e),
            other => Self::Af(other),
        }
    }
}

impl From<AfError> for ChangeError {
    fn from(e: AfError) -> Self {
        match e {
            AfError::Random(e) => Self::Random(e),
            other => Self::Af(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::error::Error as _;

    use atrest_device::{Cause, Operation};

    use super::*;
    use crate::luks2::reencrypt::ReencryptError;

    #[test]
    fn the_error_behind_an_error_can_be_asked_for() {
        let device = DeviceError::new(Operation::Read, 0, 512, Cause::Os(5));
        let open = OpenError::Device(device);
        let change = ChangeError::Open(open.clone());
        let behind = change.source().expect("the header could not be read");
        assert_eq!(behind.downcast_ref(), Some(&open));
        assert_eq!(behind.source().and_then(|source| source.downcast_ref()), Some(&device));
        let key = UnlockError::Key(KeyError::NullCipher);
        assert_eq!(key.source().and_then(|source| source.downcast_ref()), Some(&KeyError::NullCipher));
        assert!(UnlockError::WrongPassphrase.source().is_none());
        let reencrypt = ReencryptError::Wipe(Box::new(change.clone()));
        assert_eq!(reencrypt.source().and_then(|source| source.downcast_ref()), Some(&change));
    }
}
