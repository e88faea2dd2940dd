//! From the typed errors of the rooms below to a sentence, a hint and an exit code.

use std::io;

use atrest_attach::dm::DmError;
use atrest_attach::driver::DriverError;
use atrest_attach::fuse::MountError;
use atrest_attach::nbd::BindError;
#[cfg(feature = "whole")]
use atrest_attach::nbd::TlsError;
use atrest_attach::serve::{DaemonError, ServeError};
use atrest_attach::session::{CloseError, Distrust, SessionError};
use atrest_cipher::KeyError;
use atrest_device::{Cause, DeviceError, Operation};
use atrest_engine::DiskError;
use atrest_engine::bulk::{BulkError, StreamError};
use atrest_engine::integrity::IntegrityError;
use atrest_engine::reencrypt::RewriteError;
use atrest_engine::verity::{SuperblockError, VerityError};
use atrest_filetree::{EncryptionFault, KeyName, LowerError, TreeError};
use atrest_format::bitlocker::LayoutError as BitLockerLayout;
use atrest_format::loopaes::KeyFileError;
use atrest_format::luks2::{HeaderError as Luks2HeaderError, ReencryptionFault};
use atrest_format::tcrypt::LayoutError;
use atrest_inside::{ChoiceError, LittleFsDamage, LittleFsFault};
use atrest_kdf::KdfError;
use atrest_keyslot::luks1::HeaderError as Luks1HeaderError;
use atrest_nbd::ConnectError;
use atrest_nbd::wire::WireError;
use atrest_open::{DeviceOpenError, DiskOpenError};
use atrest_volume::bitlocker::BitLockerError;
use atrest_volume::fvault2::FileVaultError;
use atrest_volume::loopaes::LoopAesError;
use atrest_volume::luks2::PinError;
use atrest_volume::luks2::reencrypt::ReencryptError;
use atrest_volume::plain::PlainOpenError;
use atrest_volume::tcrypt::{TcryptError, TcryptWriteError};
use atrest_volume::{ChangeError, ConvertError, FormatError, Obstacle, OpenError, OptionError, UnlockError};

use crate::failure::{Code, Failure};

const MEMORY_HINT: &str = "close other programs, or use a machine (or container limit) with more memory; \
                           --pbkdf-memory sets the memory of new keyslots";
const EQUAL_HALVES_HINT: &str =
    "--allow-equal-xts-halves reads it all the same; copy what it holds to a new volume";
const CLIENT_CERTIFICATES: &str = "tls-certificates=DIR holds ca-cert.pem, and client-cert.pem with client-key.pem where the server wants them";
const RESUME_HINT: &str = "--resume goes on where it stopped";
const UNKNOWN_HINT: &str =
    "a newer version of this program or cryptsetup may know it; `atrest info` shows the header";

const TAGS_HINT: &str = "--integrity hmac-sha256 goes with aes-xts-plain64, poly1305 with chacha20-random, aead with aes-gcm-random or \
     aegis128-random";

impl From<VerityError> for Failure {
    fn from(error: VerityError) -> Self {
        match error {
            VerityError::Device { error, .. } => error.into(),
            VerityError::Superblock(SuperblockError::Missing) => Self::new(Code::Device, error)
                .hint("--hash-offset says where it is; a tree without one is opened with --no-superblock"),
            VerityError::Superblock(_) => Self::new(Code::Device, error)
                .hint("format the tree again from data that you trust, or restore it from a copy"),
            VerityError::TooShort { .. } => Self::new(Code::Device, error)
                .hint("it was cut off, or it belongs to another tree; restore it from a copy"),
            VerityError::Overlap { .. } => {
                Self::parameters(error).hint("choose larger offsets, or fewer --data-blocks")
            }
            _ => Self::parameters(error),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        match (error.operation, error.cause) {
            (Operation::Open, Cause::Os(errno)) => Self::io(&io::Error::from_raw_os_error(errno)),
            (Operation::Open, Cause::Unsupported) => {
                Self::new(Code::Device, "it is neither a regular file nor a block device")
            }
            (Operation::Open | Operation::Lock, Cause::Busy) => {
                Self::new(Code::Busy, "it is busy: another process uses it").hint(
                    "`atrest status` shows what is open; a mounted or mapped block device is busy as well, and so is \
                     the file behind a loop device in use (`losetup -l`)",
                )
            }
            (Operation::Open, Cause::OutOfReach) => Self::new(
                Code::Busy,
                "the file behind the loop device can't be opened, so others can't be kept from writing to it",
            )
            .hint("open that file itself (`losetup -l` names it), as a user who may write to it, or try --read-only"),
            (Operation::Open, Cause::NoSpace) => Self::new(Code::Device, Cause::NoSpace),
            (Operation::Open, Cause::ReadOnly) => {
                Self::new(Code::Refused, "it lies on a read-only filesystem").hint("try --read-only")
            }
            (_, Cause::Os(errno)) => {
                let reason = io::Error::from_raw_os_error(errno);
                let code = match Self::io(&reason).code() {
                    2 => Code::Refused,
                    3 => Code::Memory,
                    _ => Code::Device,
                };
                let DeviceError { operation, offset, len, .. } = error;
                Self::new(
                    code,
                    match operation {
                        Operation::Flush => format!("what was written can't be made durable: {reason}"),
                        _ => format!("{operation} of {len} bytes at offset {offset} failed: {reason}"),
                    },
                )
            }
            (_, Cause::NoSpace) => Self::new(Code::Device, error)
                .hint("free some space and try again; what was acknowledged before is safe"),
            (_, Cause::WrongHash { .. }) => Self::new(Code::Refused, error)
                .hint("`atrest verity verify` names all that was changed; --fec-device repairs, where there is parity"),
            (_, Cause::Busy) => Self::new(Code::Busy, error),
            (_, Cause::UnexpectedEnd | Cause::OutOfBounds { .. }) => {
                Self::new(Code::Device, error).hint("was the file or device cut off?")
            }
            (_, Cause::Gone | Cause::Silent) => Self::new(Code::Device, error).hint(
                "the device or the server that has it is gone, or does not answer; what was written last may be lost, so look \
                 at what is there before you start again",
            ),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<DeviceOpenError> for Failure {
    fn from(error: DeviceOpenError) -> Self {
        match error {
            DeviceOpenError::Device(error) => error.into(),
            DeviceOpenError::Nbd(error) => error.into(),
            #[cfg(feature = "whole")]
            DeviceOpenError::Sealed(error) => error.into(),
            DeviceOpenError::UriEncoding => {
                Self::parameters(error).hint("write other bytes as % and two hexadecimal digits")
            }
            error => Self::new(Code::Device, error),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match &error {
            ConnectError::Uri(_) | ConnectError::NoCertificates => Code::Parameters,
            ConnectError::TlsRequired | ConnectError::ReadOnly => Code::Refused,
            ConnectError::Connect(error) if error.kind() == io::ErrorKind::PermissionDenied => Code::Refused,
            #[cfg(feature = "whole")]
            ConnectError::Tls(error) => return Self::new(Code::Parameters, error).hint(CLIENT_CERTIFICATES),
            _ => Code::Device,
        };
        let hint = match &error {
            ConnectError::Uri(_) => {
                "as in nbd://host:10809/export or nbd+unix:///export?socket=/run/nbd.sock; a file of such a name is \
                 written ./nbd:…"
            }
            ConnectError::Resolve(_) => "check the host's name",
            ConnectError::Connect(_) => "is the server running, and listening there?",
            ConnectError::NoCertificates => {
                "?tls-certificates=DIR names a directory with ca-cert.pem, the authority that signs the server's certificate"
            }
            ConnectError::Wire(WireError::Tls(_)) => {
                "the certificate must be for the host that the URI names, or for tls-hostname=NAME, and of an authority in \
                 ca-cert.pem"
            }
            ConnectError::Wire(WireError::Silent) => {
                "does it serve somebody else? Some servers let in one client at a time"
            }
            ConnectError::Wire(_) => {
                "does the server know the export, and this client's certificate if it wants one?"
            }
            ConnectError::TlsRequired => "nbds:// and nbds+unix:// speak TLS",
            ConnectError::TlsRefused { .. } => {
                "nbd:// and nbd+unix:// do without TLS: whoever sits between could read and change everything that is not \
                 encrypted"
            }
            ConnectError::UnknownExport => "`nbdinfo --list URI` shows the exports that a server has",
            ConnectError::ReadOnly => "try --read-only, or have the server serve it to be written",
            ConnectError::NotNbd => "check the port or socket",
            _ => return Self::new(code, error),
        };
        Self::new(code, error).hint(hint)
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Self::io(&error),
            StreamError::Source(error) => Self::io(&error).within("standard input"),
            StreamError::Output(error) => Self::io(&error).within("standard output"),
            StreamError::Read(error) | StreamError::Write(error) | StreamError::Flush(error) => error.into(),
            StreamError::CutOff { .. } => {
                Self::new(Code::Device, error).hint("did the program before the pipe end too early?")
            }
            StreamError::NotInOrder => {
                Self::new(Code::Device, error).hint("a pipe can't bring it: copy the volume to a file first")
            }
            StreamError::SourceTooLarge { .. } => {
                Self::new(Code::Device, error).hint("make a larger volume: `atrest format --size`")
            }
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Device(device) => device.into(),
            OpenError::NotLuks => Self::new(Code::Device, "it is not a LUKS volume, nor encrypted flash: no header was found")
                .hint("is it the right file or device? A detached header is named by --header"),
            OpenError::UnknownVersion { .. } => Self::new(Code::Device, error).hint(UNKNOWN_HINT),
            OpenError::Luks1(Luks1HeaderError::Truncated { .. })
            | OpenError::Luks2 { primary: Luks2HeaderError::TooShort { .. }, .. } => {
                Self::new(Code::Device, error).hint("was the image cut off? `atrest header restore` brings a saved header back")
            }
            OpenError::Luks1(_) | OpenError::Luks2 { .. } => Self::new(Code::Device, error)
                .hint("`atrest repair` mends what can be mended; otherwise restore a backup with `atrest header restore`"),
            _ => Self::new(Code::Device, error),
        }
    }
}

/// A derivation that takes longer than --max-kdf-time.
pub fn too_much_work(error: KdfError) -> Failure {
    Failure::new(Code::Device, error).hint(
        "--max-kdf-time SECONDS permits more; a header that somebody else wrote may only be made to keep your machine busy",
    )
}

impl From<UnlockError> for Failure {
    fn from(error: UnlockError) -> Self {
        match error {
            UnlockError::Device(device) => device.into(),
            UnlockError::Plain(plain) => plain.into(),
            UnlockError::LoopAes(LoopAesError::Plain(plain)) => plain.into(),
            UnlockError::LoopAes(error @ LoopAesError::KeyFile(KeyFileError::Encrypted)) => {
                Self::parameters(error).hint("gpg --decrypt FILE | atrest … --key-file -")
            }
            UnlockError::LoopAes(error) => Self::parameters(error),
            UnlockError::Tcrypt(error) => error.into(),
            UnlockError::BitLocker(error) => error.into(),
            UnlockError::FileVault(error) => error.into(),
            UnlockError::WrongPassphrase => Self::new(Code::Refused, "wrong passphrase: no keyslot opens with it")
                .hint("check keyboard layout, Caps Lock and a newline at the end of a key file; `atrest key list` shows the keyslots"),
            UnlockError::WrongPassphraseOrDamaged { .. } => Self::new(Code::Refused, format!("wrong passphrase: {error}"))
                .hint("check the passphrase first; if it is that of the damaged keyslot, only a header backup has it"),
            UnlockError::WrongVolumeKey => {
                Self::new(Code::Refused, error).hint("--volume-key-file takes the file that `atrest key export` wrote")
            }
            UnlockError::NoSuchKeyslot { .. } => {
                Self::new(Code::Parameters, error).hint("`atrest key list` shows the keyslots in use")
            }
            UnlockError::NoKeyslot => Self::new(Code::Parameters, error)
                .hint("--key-slot tries one that is to be ignored; if all are erased, only a header backup or --volume-key-file opens it"),
            UnlockError::KeyslotDamaged { .. } => Self::new(Code::Device, error)
                .hint("restore a backup with `atrest header restore`, or open it with --volume-key-file"),
            UnlockError::Unbound { .. } => {
                Self::new(Code::Refused, error).hint("use a passphrase of a keyslot that belongs to the data")
            }
            UnlockError::UnsupportedCipher(_)
            | UnlockError::UnsupportedHash
            | UnlockError::UnsupportedType
            | UnlockError::UnsupportedRequirement { .. }
            | UnlockError::UnknownIntegrity => Self::new(Code::Device, error).hint(UNKNOWN_HINT),
            UnlockError::SealedElsewhere => Self::new(Code::Device, error)
                .hint("name the store by its URL: file:///path, s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX"),
            UnlockError::Authenticated => {
                Self::new(Code::Device, error).hint("copy the data to a new volume: `atrest decrypt`, `atrest format`")
            }
            UnlockError::Superblock(_) | UnlockError::OtherIntegrity { .. } => Self::new(Code::Device, error)
                .hint("the place where the tags are has been overwritten; without it the data can't be read"),
            UnlockError::NotItsFront => Self::new(Code::Device, error).hint(NOT_ITS_FRONT),
            UnlockError::ReencryptionRuns => Self::new(Code::Busy, error)
                .hint("wait for it, or stop it; `atrest open` can be tried again then"),
            UnlockError::ReencryptionInProgress => {
                Self::new(Code::Device, error).hint("`atrest reencrypt --resume` goes on with it")
            }
            UnlockError::HeaderPolicy(_) | UnlockError::OtherVolumeKey { .. } | UnlockError::TooCheap { .. } => {
                Self::new(Code::Refused, error).hint("nothing was written; compare the header with a backup: `atrest info --metadata`")
            }
            UnlockError::Pin(PinError::Older { .. } | PinError::Other { .. }) => Self::new(Code::Refused, error).hint(
                "somebody may have put an older header back, which old passphrases open: restore the newest one, nothing opens before. Only if \
                 you know why it is there, and have looked at its keyslots: `atrest header pin --store FILE --accept`",
            ),
            UnlockError::Pin(PinError::Uncounted | PinError::OtherCounter { .. } | PinError::BadCounter | PinError::Ahead) => {
                Self::new(Code::Refused, error).hint(
                    "--store names the counter under which the header was pinned; `atrest header pin --store tpm2:INDEX` pins it under one",
                )
            }
            UnlockError::Pin(PinError::Untold { .. }) => Self::new(Code::Refused, error)
                .hint("`atrest open --store tpm2:INDEX` tells it, and so does everything else that opens the volume with --store"),
            UnlockError::Pin(_) => Self::new(Code::Refused, error)
                .hint("if the change was meant: `atrest header pin --accept`; if not, restore a backup of the header"),
            UnlockError::NotEnoughMemory { .. } => Self::new(Code::Memory, error).hint(MEMORY_HINT),
            UnlockError::Kdf(kdf @ KdfError::TooMuchWork { .. }) => too_much_work(kdf),
            UnlockError::Key(KeyError::EqualXtsHalves) => Self::new(Code::Device, error).hint(EQUAL_HALVES_HINT),
            UnlockError::DataOverHeader { .. } => Self::new(Code::Device, error).hint(
                "if it is a detached header, name the device with the data, and this file by --header",
            ),
            UnlockError::DataDeviceTooSmall { .. } => {
                Self::new(Code::Device, error).hint("is the image cut off, or does the header belong to another one?")
            }
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<OptionError> for Failure {
    fn from(error: OptionError) -> Self {
        match error {
            OptionError::DeviceTooSmall { .. } => Self::new(Code::Device, error)
                .hint("a LUKS2 header takes 16 MiB by default; choose a larger --size"),
            OptionError::RepeatedNonces => Self::parameters(error).hint("the same cipher with -random"),
            OptionError::Tags(_) => Self::parameters(error).hint(TAGS_HINT),
            OptionError::NotInFormat => Self::parameters(error).hint("LUKS2 has it: --type luks2"),
            _ => Self::parameters(error),
        }
    }
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Device(device) => device.into(),
            FormatError::Option(option) => option.into(),
            FormatError::NotEnoughMemory { .. } => Self::new(Code::Memory, error).hint(MEMORY_HINT),
            FormatError::Kdf(kdf @ KdfError::TooMuchWork { .. }) => too_much_work(kdf),
            FormatError::Kdf(_) => Self::parameters(error),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<ReencryptError> for Failure {
    fn from(error: ReencryptError) -> Self {
        match error {
            ReencryptError::Change(change) => (*change).into(),
            ReencryptError::Format(format) => (*format).into(),
            ReencryptError::State(ReencryptionFault::None) => {
                Self::new(Code::Device, error).hint("it may be done already: `atrest info` shows the header")
            }
            ReencryptError::State(_) => Self::new(Code::Device, error),
            ReencryptError::InProgress => {
                Self::new(Code::Busy, error).hint("`atrest reencrypt --resume` goes on with it")
            }
            ReencryptError::UnknownKind => {
                Self::new(Code::Device, error).hint("`cryptsetup reencrypt --resume-only` goes on with it")
            }
            ReencryptError::ForeignFront { .. } => {
                Self::new(Code::Device, error).hint("is it the device that this header was exported from?")
            }
            ReencryptError::OldKeyGone => Self::new(Code::Device, error)
                .hint("only a header backup from before the end of the re-encryption has it"),
            ReencryptError::KeyslotsLeft { .. } => Self::parameters(error)
                .hint("--also-key-file FILE gives a passphrase of one more, --drop-slot N lets keyslot N go, --no-keyslots all of them"),
            ReencryptError::NotKept => Self::parameters(error).hint(
                "--new-volume-key-file FILE gives it; a passphrase instead of --volume-key-file gets a keyslot",
            ),
            ReencryptError::SameKey => Self::parameters(error)
                .hint("--keep-key changes the sector size or the cipher alone"),
            ReencryptError::Part { .. } => Self::parameters(error)
                .hint("--device-size is at most the size of the data, and stays the same to the end"),
            ReencryptError::Misaligned { .. } => {
                Self::parameters(error).hint("choose a smaller --sector-size, or --resilience journal")
            }
            ReencryptError::NoRoom => Self::parameters(error).hint("remove a keyslot that is not needed"),
            ReencryptError::NoSpaceBehind { .. } => {
                Self::parameters(error).hint("use --header FILE, which needs no room on the device")
            }
            ReencryptError::Unprotected { .. } => Self::new(Code::Device, error)
                .hint("it ran with --resilience none; a backup has what was there"),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<RewriteError> for Failure {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::State(state) => (*state).into(),
            RewriteError::Data(device) => Self::from(device).hint(RESUME_HINT),
            RewriteError::Cancelled { .. } => Self::new(Code::Device, error).hint(RESUME_HINT),
            RewriteError::Running => {
                Self::new(Code::Busy, error).hint("it can be resumed when that process has ended")
            }
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Device(device) => device.into(),
            ChangeError::Open(open) => open.into(),
            ChangeError::Unlock(unlock) => unlock.into(),
            ChangeError::Option(option) => option.into(),
            ChangeError::NotEnoughMemory { .. } => Self::new(Code::Memory, error).hint(MEMORY_HINT),
            ChangeError::Kdf(kdf @ KdfError::TooMuchWork { .. }) => too_much_work(kdf),
            ChangeError::Kdf(_) | ChangeError::NotInFormat | ChangeError::BadToken => Self::parameters(error),
            ChangeError::Pinned => Self::new(Code::Refused, error)
                .hint("`atrest header pin` takes a passphrase, and pins the header anew after a change by another program"),
            ChangeError::PinnedReencryption => Self::new(Code::Refused, error)
                .hint("`atrest token remove` takes the pin away; pin the header again afterwards"),
            ChangeError::NoFreeDigest => Self::parameters(error)
                .hint("remove a keyslot of a key of its own with `atrest key remove` first"),
            ChangeError::NoFreeKeyslot => Self::parameters(error).hint("remove one with `atrest key remove` first"),
            ChangeError::KeyslotInUse { .. } => Self::parameters(error).hint("`atrest key list` shows which are free"),
            ChangeError::NoSuchKeyslot { .. } => {
                Self::parameters(error).hint("`atrest key list` shows the keyslots in use")
            }
            ChangeError::LastKeyslot { .. } => {
                Self::parameters(error).hint("`atrest erase` is the command that makes a volume unreadable")
            }
            ChangeError::NoSuchToken { .. } => Self::parameters(error).hint("`atrest token list` shows the tokens"),
            ChangeError::TokenInUse => Self::new(Code::Busy, error).hint("--token-replace replaces it"),
            ChangeError::ChangedMeanwhile => Self::new(Code::Busy, error),
            ChangeError::BackupOfAnotherVolume | ChangeError::BackupLayoutDiffers => Self::new(Code::Device, error)
                .hint("is it the right backup? --replace-other-volume restores it all the same, and loses the present data"),
            ChangeError::BackupOfDetachedHeader => Self::new(Code::Device, error)
                .hint("name the file that the header is for by --header"),
            ChangeError::WipeNotVerified { .. } => Self::new(Code::Device, error)
                .hint("the media does not overwrite in place or is failing: treat the old passphrase as still valid"),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<IntegrityError> for Failure {
    fn from(error: IntegrityError) -> Self {
        Self::new(Code::Device, error)
    }
}

/// Of a header in a file, and what is in front of the data.
const NOT_ITS_FRONT: &str = "is it the right device? keep the file, unless the volume opens without --header";

impl From<ConvertError> for Failure {
    fn from(error: ConvertError) -> Self {
        match error {
            ConvertError::Change(error) => error.into(),
            ConvertError::Cannot(Obstacle::Damaged) => {
                Self::new(Code::Device, error).hint("`atrest repair` rewrites it from the other one")
            }
            ConvertError::Cannot(Obstacle::OtherFront | Obstacle::LaterFront) => {
                Self::new(Code::Device, error).hint(NOT_ITS_FRONT)
            }
            ConvertError::Cannot(Obstacle::NoRoom) => {
                Self::parameters(error).hint("remove a keyslot, of the numbers 0 to 5, with `atrest key remove` first")
            }
            ConvertError::Cannot(Obstacle::Keyslot { .. }) => Self::parameters(error).hint(
                "`atrest key change --keep-passphrase --pbkdf pbkdf2` makes it such a one; `atrest key list` shows them",
            ),
            ConvertError::Cannot(Obstacle::Tokens) => Self::parameters(error).hint("`atrest token remove` removes them"),
            ConvertError::Cannot(Obstacle::Texts) => {
                Self::parameters(error).hint("`atrest header set --label= --subsystem=` clears the first two")
            }
            error => Self::parameters(error),
        }
    }
}

impl From<DiskOpenError> for Failure {
    fn from(error: DiskOpenError) -> Self {
        match error {
            DiskOpenError::Disk(error) => error.into(),
            #[cfg(feature = "whole")]
            DiskOpenError::Sealed(error) => error.into(),
            error => Self::new(Code::Device, error),
        }
    }
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::MediaTooSmall { .. } => Self::new(Code::Device, error).hint("was the image cut off?"),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<BulkError> for Failure {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::SourceTooLarge { .. } => {
                Self::new(Code::Device, error).hint("make a larger volume: `atrest format --size`")
            }
            BulkError::NoCheckpoint => {
                Self::parameters(error).hint("leave --resume out to start from the beginning")
            }
            BulkError::CheckpointMismatch(_) | BulkError::CheckpointDamaged => {
                Self::new(Code::Device, error).hint("leave --resume out to start from the beginning")
            }
            BulkError::CheckpointFile(cause) => {
                let opening = DeviceError::new(Operation::Open, 0, 0, cause);
                Self::from(opening).within("the checkpoint can't be kept")
            }
            BulkError::Destination(device) => device.into(),
            BulkError::Read(device) => Self::from(device).within("reading the source"),
            BulkError::Write(device) | BulkError::Flush(device) => {
                Self::from(device).within("writing the output")
            }
            BulkError::ReadBack(device) => Self::from(device).within("reading the copy"),
            BulkError::Differs { .. } => Self::new(Code::Device, error)
                .hint("keep the source: its media, that of the copy or the memory of this machine is faulty"),
            _ => Self::new(Code::Device, error),
        }
    }
}

/// What helps where a filesystem is damaged.
pub const CHECK_IT: &str = "a check of the filesystem (fsck) may mend it, on a copy first; `atrest cp -r --keep-going` saves what can be read";

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Device(device) => device.into(),
            TreeError::UnknownFilesystem => Self::new(Code::Device, "no known filesystem is inside").hint(
                "ext2, ext3, ext4, NTFS, exFAT, FAT and LittleFS are read; `atrest open` serves the volume for everything else",
            ),
            TreeError::UnsupportedFormat(_) => {
                Self::new(Code::Device, error).hint("serve the volume with `atrest open` and mount it")
            }
            TreeError::Exists => Self::new(Code::Busy, error).hint("--yes replaces it"),
            TreeError::IsADirectory => Self::new(Code::Device, error).hint("cp -r copies directories"),
            TreeError::ReadOnly => Self::new(Code::Refused, error).hint(
                "ext4 is read here, and files in it are only overwritten; `atrest mount VOLUME DIR --driver` makes some, by fuse2fs. As root, \
                 `atrest open VOLUME --fuse DIR` and mount -o loop DIR/volume /mnt do, too",
            ),
            TreeError::NoSpace => Self::new(Code::Device, error).hint("remove something first, or use a larger medium; what was there is unharmed"),
            TreeError::LargerThanDevice { .. } => Self::new(Code::Device, error).hint("was the image or card cut off?"),
            TreeError::Flash(error) => error.into(),
            TreeError::Filesystem(_) => match error.fault() {
                Some(LittleFsFault::Unusable(_)) => Self::parameters(error)
                    .hint("choose a larger --size or --erase-size, or --empty to put nothing inside"),
                Some(LittleFsFault::Refused(_)) => Self::new(Code::Device, error)
                    .hint("was it made for a medium of other sizes? Nothing was written"),
                _ => Self::new(Code::Device, error),
            },
            TreeError::OtherSize { .. } | TreeError::CannotGrow { .. } | TreeError::NotAllocated { .. } => Self::new(Code::Refused, error)
                .hint("serve the volume with `atrest open` and mount it to change it in other ways"),
            TreeError::NotClean => Self::new(Code::Device, error).hint("mount it once, or run e2fsck on it"),
            TreeError::Protected => Self::new(Code::Refused, error),
            TreeError::Path(_) => Self::parameters(error),
            TreeError::Lower(LowerError::NoKey { .. }) => Self::new(Code::Refused, error)
                .hint("is the passphrase right? Another one can be given beside it by --ecryptfs-passphrase-file"),
            TreeError::Locked { .. } => Self::new(Code::Refused, error).hint(
                "--fscrypt-key gives a key; --fscrypt-protector unlocks what google/fscrypt keeps (`atrest tree policies` lists it)",
            ),
            TreeError::Encryption { fault, .. } => encryption(fault, error),
            TreeError::Corrupt(_) if error.fault::<LittleFsDamage>().is_some() => Self::new(Code::Device, error)
                .hint("is there a LittleFS inside? `atrest format --type flash` makes one, and loses what is there"),
            TreeError::Corrupt(_) | TreeError::SharedDirectory { .. } => {
                Self::new(Code::Device, error).hint(CHECK_IT)
            }
            TreeError::Lower(LowerError::Truncated { .. }) => Self::new(Code::Device, error)
                .hint("what is before it can be read; `atrest tree check --repair` sets the size to what is there"),
            TreeError::Lower(LowerError::UnknownHeader) => {
                Self::new(Code::Device, error).hint("it is damaged, or a newer version of this program may know it")
            }
            TreeError::Lower(LowerError::Header) => Self::new(Code::Device, error)
                .hint("the file's key was in it: only a backup has it; other files are not concerned"),
            TreeError::Lower(LowerError::NoHeader { .. }) => {
                Self::new(Code::Device, error).hint("--ecryptfs-passthrough reads files that are not encrypted")
            }
            _ => Self::new(Code::Device, error),
        }
    }
}

/// What is wrong with an inode's encryption: the key that was given, or the inode.
fn encryption(fault: EncryptionFault, error: TreeError) -> Failure {
    match fault {
        EncryptionFault::Implausible(KeyName::Descriptor(_)) => Failure::new(Code::Refused, error)
            .hint("is it the right file, and the right DESCRIPTOR before it in --fscrypt-key?"),
        EncryptionFault::KeyTooShort { .. } => Failure::new(Code::Refused, error)
            .hint("is the key file whole? --fscrypt-key takes every byte of it"),
        EncryptionFault::Version(_) | EncryptionFault::Modes { .. } | EncryptionFault::Flags(_) => {
            Failure::new(Code::Device, error).hint("a newer kernel or version of this program may know it")
        }
        EncryptionFault::SingleSnapshot => Failure::new(Code::Refused, error)
            .hint("--single-snapshot says that nobody sees the medium both before and after"),
        EncryptionFault::PlaintextLength { .. } => Failure::new(Code::Refused, error),
        _ => Failure::new(Code::Device, error).hint(
            "it is damaged, and only a backup has it; `atrest cp -r --keep-going` saves what can be read",
        ),
    }
}

impl From<ChoiceError> for Failure {
    fn from(error: ChoiceError) -> Self {
        let candidates: Vec<String> = error.candidates().iter().map(ToString::to_string).collect();
        let failure = match error {
            ChoiceError::Device(device) => return device.into(),
            ChoiceError::NoTable => return Self::parameters(error).hint("leave --partition out"),
            ChoiceError::NoSuchPartition { .. } => Self::parameters(error),
            ChoiceError::Several { .. } => Self::parameters(format!("{error}; choose one by --partition")),
            _ => Self::new(Code::Device, error),
        };
        match candidates.is_empty() {
            true => failure,
            false => failure.hint(candidates.join("; ")),
        }
    }
}

impl From<BitLockerError> for Failure {
    fn from(error: BitLockerError) -> Self {
        match error {
            BitLockerError::NotOpened { .. } => Self::new(Code::Refused, error).hint(
                "a recovery password has 48 digits and dashes; a startup key is given by --key-file FILE.BEK",
            ),
            BitLockerError::NoneToTry { .. } => Self::parameters(error)
                .hint("in Windows, `manage-bde -protectors -add` adds a recovery password"),
            BitLockerError::KeyLen { .. } => Self::parameters(error),
            BitLockerError::OnWrite
            | BitLockerError::State(_)
            | BitLockerError::Layout(BitLockerLayout::Converting { .. }) => Self::new(Code::Device, error).hint(
                "Windows completes the encryption or takes it away: `manage-bde -status` tells how far it is",
            ),
            BitLockerError::Boot(_) | BitLockerError::Metadata(_) | BitLockerError::Layout(_) => {
                Self::new(Code::Device, error)
                    .hint("is the image whole? --header FILE takes what `atrest header backup` has written")
            }
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<FileVaultError> for Failure {
    fn from(error: FileVaultError) -> Self {
        match error {
            FileVaultError::NotOpened { .. } => {
                Self::new(Code::Refused, error).hint("a recovery key is given with its dashes")
            }
            FileVaultError::KeyLen { .. } => Self::parameters(error),
            FileVaultError::Conversion(_) => Self::new(Code::Device, error)
                .hint("macOS completes it: `diskutil cs list` tells how far it is"),
            FileVaultError::Missing("keys") => Self::new(Code::Device, error).hint(
                "those of a system of macOS 10.7 or 10.8 lie in its recovery partition: \
                     `--type fvault2 --header EncryptedRoot.plist.wipekey` names the file",
            ),
            FileVaultError::Several(_) | FileVaultError::Extents => Self::new(Code::Device, error)
                .hint("macOS opens it; a Fusion drive has a part of its data on another device"),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<TcryptError> for Failure {
    fn from(error: TcryptError) -> Self {
        match error {
            TcryptError::NotOpened { .. } => Self::new(Code::Refused, error).hint(
                "--tcrypt-hidden opens a hidden volume, --tcrypt-system an encrypted system, --tcrypt-backup by the other copy of the header; a PIM and \
                 key files have to be said, too",
            ),
            TcryptError::NothingToTry => {
                Self::parameters(error).hint("--hash and --cipher take a part of a name, such as sha512 and twofish")
            }
            TcryptError::Argon2 => Self::parameters(error)
                .hint("VeraCrypt changes the volume to another one: \"Set Header Key Derivation Algorithm\""),
            TcryptError::Kdf(_) | TcryptError::VolumeKey => Self::parameters(error),
            TcryptError::Layout(LayoutError::Unfinished { .. }) => {
                Self::new(Code::Device, error).hint("let the program that began it complete it")
            }
            TcryptError::Layout(LayoutError::Outside { .. }) => Self::new(Code::Device, error)
                .hint("is the image cut off, or does the header belong to another one?"),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<TcryptWriteError> for Failure {
    fn from(error: TcryptWriteError) -> Self {
        match error {
            TcryptWriteError::Device(device) => device.into(),
            TcryptWriteError::Tcrypt(tcrypt) => tcrypt.into(),
            TcryptWriteError::Unlock(unlock) => (*unlock).into(),
            TcryptWriteError::Kdf(kdf @ KdfError::TooMuchWork { .. }) => too_much_work(kdf),
            TcryptWriteError::Hash { .. } => {
                Self::parameters(error).hint("--hash sha512, sha256, blake2s-256, whirlpool or stribog512")
            }
            TcryptWriteError::NoCopy | TcryptWriteError::Truncated { .. } => Self::new(Code::Device, error)
                .hint("copy what it holds to a new volume: `atrest format --type veracrypt`"),
            TcryptWriteError::Random => Self::new(Code::Device, error),
            _ => Self::parameters(error),
        }
    }
}

impl From<PlainOpenError> for Failure {
    fn from(error: PlainOpenError) -> Self {
        match error {
            PlainOpenError::Key(KeyError::EqualXtsHalves) => Self::parameters(error).hint(EQUAL_HALVES_HINT),
            _ => Self::parameters(error),
        }
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        Self::new(Code::Device, error).hint("leave --daemon out, and let a service manager or `&` do it")
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        match &error {
            BindError::InUse { .. } => {
                Self::new(Code::Busy, error).hint("`atrest status` shows what is open")
            }
            BindError::Tcp { error: reason, .. } if reason.kind() == io::ErrorKind::AddrInUse => {
                Self::new(Code::Busy, error)
            }
            BindError::Socket { error: reason, .. } | BindError::Tcp { error: reason, .. } => {
                Self::io(reason).saying(error)
            }
            BindError::System(reason) => Self::io(reason),
            BindError::NotLoopback { .. } => Self::parameters(error).hint(
                "serve it with TLS (--tls-cert DIR), or on a loopback address and reach it through an ssh tunnel; \
                 --insecure does without either",
            ),
            _ => Self::parameters(error),
        }
    }
}

#[cfg(feature = "whole")]
impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Self {
        match &error {
            TlsError::Read { path, error } => Self::io(error).at(path),
            TlsError::Exposed { path, .. } => {
                let hint = format!("make it yours alone: chmod 600 {}", path.display());
                Self::new(Code::Refused, error).hint(hint)
            }
            _ => Self::parameters(error),
        }
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Self {
        match &error {
            MountError::NoFuseDevice | MountError::NoFusermount => Self::new(Code::Device, error)
                .hint("--nbd needs no FUSE; `atrest ls`, `cat` and `cp` need neither"),
            MountError::FuseDevice(reason) => {
                Self::io(reason).saying(error).hint("ask for access to /dev/fuse, or use --nbd")
            }
            MountError::Directory { path, error: reason } if reason.kind() == io::ErrorKind::NotFound => {
                Self::new(Code::Device, format!("{}: there is no such directory", path.display()))
                    .hint(format!("make it first: mkdir -p {}", path.display()))
            }
            MountError::Directory { error: reason, .. } | MountError::Mount { error: reason, .. } => {
                Self::io(reason).saying(error)
            }
            MountError::NotEmpty { .. } => Self::new(Code::Busy, error).hint("choose an empty directory"),
            _ => Self::parameters(error),
        }
    }
}

/// How Debian installs a package.
pub const APT: &str = "apt install";

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Mount(mount) => mount.into(),
            DriverError::Missing { program } => Self::new(Code::Device, error).hint(match program.package() {
                Some(package) => format!("{APT} {package}; as root, --loop uses the kernel's own filesystem"),
                None => format!(
                    "Debian has no package of {program}, which is part of the Linux Kernel Library (github.com/lkl/linux); \
                     as root, --loop uses the kernel's own filesystem"
                ),
            }),
            DriverError::Setuid { .. } => Self::new(Code::Refused, error).hint(
                "ask root to put the line `user_allow_other` into /etc/fuse.conf; the volume stays in a directory of your own",
            ),
            DriverError::Place { error: ref reason, .. } | DriverError::Start { error: ref reason, .. } => {
                Self::io(reason).saying(error)
            }
            DriverError::Comma { .. } => {
                Self::parameters(error).hint("set XDG_RUNTIME_DIR to another directory of your own with mode 0700")
            }
            DriverError::Refused { program: "fuse2fs", .. } => Self::new(Code::Device, error).hint(
                "check it: `atrest open VOLUME --fuse DIR --run sh -c 'e2fsck -f \"$ATREST_PATH\"'`; --read-only may mount it",
            ),
            DriverError::Refused { program: "exfat-fuse", .. } => Self::new(Code::Device, error)
                .hint("--read-only may mount it; without root it needs user namespaces, which this system may forbid"),
            DriverError::Refused { .. } => Self::new(Code::Device, error).hint("--read-only may mount it"),
            DriverError::Loop(ref reason) => Self::io(reason).saying(error).hint("--driver needs no loop device"),
            DriverError::System(ref reason) => Self::io(reason).saying(error),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match &error {
            SessionError::NameTaken { .. } | SessionError::Foreign { .. } => {
                Self::new(Code::Busy, error).hint("choose another one by --name")
            }
            SessionError::Untrusted { path, why } => {
                let hint = match why {
                    Distrust::Owner { .. } => String::from(
                        "set XDG_RUNTIME_DIR to a directory of your own with mode 0700, or ask root to remove this one",
                    ),
                    Distrust::Mode { .. } => format!(
                        "if nobody else has written to it: chmod 700 {0}; otherwise remove it",
                        path.display()
                    ),
                    Distrust::NotSticky { .. } => String::from(
                        "ask root for `chmod 1777`, or set XDG_RUNTIME_DIR to a directory of your own with mode 0700",
                    ),
                    _ => String::from("remove it, or set XDG_RUNTIME_DIR to a directory of your own"),
                };
                Self::new(Code::Refused, &error).hint(hint)
            }
            SessionError::File { error: reason, .. } => Self::io(reason).saying(error),
            _ => Self::parameters(error),
        }
    }
}

impl From<CloseError> for Failure {
    fn from(error: CloseError) -> Self {
        match error {
            CloseError::NotOpen { .. } => {
                Self::new(Code::Device, error).hint("`atrest status` shows what is open")
            }
            CloseError::Ambiguous { .. } => {
                Self::new(Code::Busy, error).hint("close it by one of these names")
            }
            CloseError::Busy { .. } => {
                Self::new(Code::Busy, error).hint("end the programs that use it (`fuser -v` lists them)")
            }
            CloseError::Detached { .. } => Self::new(Code::Busy, error).hint(
                "it was unmounted lazily; end the programs that use it, and it is written back and closed",
            ),
            CloseError::Timeout { .. } => {
                Self::new(Code::Busy, error).hint("it may still be writing back; try again later")
            }
            CloseError::Session(session) => session.into(),
            CloseError::System(ref reason) => Self::io(reason).saying(error),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<DmError> for Failure {
    fn from(error: DmError) -> Self {
        match &error {
            DmError::Name { .. } => Self::parameters(error),
            DmError::NameTaken { .. } => {
                Self::new(Code::Busy, error).hint("choose another NAME; `atrest status` shows what is open")
            }
            DmError::Shown => Self::parameters(error).hint("--nbd and --fuse show it"),
            DmError::NotOpen { .. } | DmError::NotCrypt { .. } | DmError::OtherKind { .. } => {
                Self::new(Code::Device, error).hint("`atrest status` shows what is open")
            }
            DmError::Suspended { name } => {
                let hint = format!("`atrest resume {name}` lets it go on");
                Self::new(Code::Parameters, error).hint(hint)
            }
            DmError::NotSuspended { .. } | DmError::NotLuks { .. } | DmError::Size { .. } => {
                Self::parameters(error)
            }
            DmError::Waits { .. } => Self::new(Code::Device, error).hint(
                "nothing is lost: `atrest reencrypt --resume --online` tries again, or close it and open it anew",
            ),
            DmError::DeferWithTags { .. } => Self::parameters(error).hint("close it when nobody uses it"),
            DmError::Fixed { .. } => Self::parameters(error).hint("close it and open it anew"),
            DmError::Busy { .. } => Self::new(Code::Busy, error)
                .hint("unmount it, and remove what is mapped on top of it (`lsblk` shows both)"),
            DmError::DeviceBusy => Self::new(Code::Busy, error)
                .hint("is it mounted, mapped already, or open in another process? `lsblk` shows it"),
            DmError::Control(reason) if reason.kind() == io::ErrorKind::PermissionDenied => {
                Self::new(Code::Refused, error).hint("--dm is for root; --fuse and --nbd work without")
            }
            DmError::Control(_) => Self::new(Code::Device, error)
                .hint("`modprobe dm-crypt` loads it; --fuse and --nbd need no help of the kernel"),
            DmError::Table(_) => Self::new(Code::Device, error).hint(
                "`dmesg` says why; where the kernel lacks the cipher, --fuse and --nbd work all the same",
            ),
            DmError::Keyring(_) => {
                Self::new(Code::Device, error).hint("--disable-keyring puts the key into the table instead")
            }
            DmError::Udev { .. } => Self::new(Code::Device, error).hint(
                "is this a container that sees udev's socket of the host? `--fuse` and `--nbd` need no udev",
            ),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match &error {
            ServeError::Command { .. } => Self::parameters(error),
            _ => Self::new(Code::Device, error),
        }
    }
}
