//! The volume that a command works on: its devices, its header, its passphrase.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use atrest_device::BlockDevice;
use atrest_engine::contents::in_the_way;
use atrest_engine::{Access, FileDevice};
use atrest_open::{Device, DeviceOpenError, MayBeWrongKey, Refused, try_keys};
use atrest_probe::{FilesystemKind, Foreign, foreign};
use atrest_secret::Passphrase;
use atrest_volume::{LockedVolume, OpenError, is_uuid, uuid_set_aside};

use super::flash;
use super::fresh::{self, Renewed};
use crate::args::key::TargetArgs;
use crate::asked::Asked;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

/// A header that was read, and the device it lies on.
pub struct Target<'a> {
    /// Path that the header lies at.
    pub path: &'a Path,
    /// The device that holds the header.
    pub device: Device,
    /// What the header says.
    pub locked: LockedVolume,
    /// What is told of each change of a pinned header.
    store: Option<Renewed<'a>>,
}

impl<'a> Target<'a> {
    /// Reads the header to look at it.
    pub fn read(args: &'a TargetArgs) -> Result<Self, Failure> {
        flash::refuse(args)?;
        flash::refuse_store(args.store.is_some())?;
        Self::open(args, Access::ReadOnly)
    }

    /// Reads the header to change it. The data may be in use meanwhile; each change takes the metadata lock. Where a trusted store is
    /// named for a pinned header, that has seen no newer one, and [`renew`](Self::renew) tells it of the change.
    pub fn change(args: &'a TargetArgs) -> Result<Self, Failure> {
        let mut target = Self::to_pin(args)?;
        if let Some(store) = args.store.as_deref() {
            let path = target.path;
            let luks2 = target.locked.luks2_mut().ok().filter(|luks2| luks2.is_pinned());
            let luks2 = luks2.ok_or_else(|| not_pinned().at(path))?;
            target.store = Some(fresh::renewed(store, luks2)?);
        }
        Ok(target)
    }

    /// Tells the trusted store of the change, if one is named.
    pub fn renew(&mut self) -> Result<(), Failure> {
        match (&mut self.store, self.locked.luks2()) {
            (Some(store), Some(luks2)) => store.put(luks2).map_err(|failure| {
                failure.within("the header is changed, but the trusted store is not told; opening it with --store does that")
            }),
            _ => Ok(()),
        }
    }

    /// Reads the header to pin it.
    pub fn to_pin(args: &'a TargetArgs) -> Result<Self, Failure> {
        Self::open(args, Access::ReadWrite)
    }

    /// Reads the header to look at it, where the caller asks the trusted store.
    pub fn to_look_at(args: &'a TargetArgs) -> Result<Self, Failure> {
        Self::open(args, Access::ReadOnly)
    }

    fn open(args: &'a TargetArgs, access: Access) -> Result<Self, Failure> {
        flash::refuse(args)?;
        let path = header_path(args);
        // Where no header is, a store was named for nothing.
        let no_header = |failure| flash::refuse_store(args.store.is_some()).err().unwrap_or(failure);
        Self::on(path, open_device(path, access)?).map_err(no_header)
    }

    /// Reads the header on a device that is open.
    pub fn on(path: &'a Path, device: Device) -> Result<Self, Failure> {
        let locked = LockedVolume::read(&device).map_err(|error| no_header(error, &device).at(path))?;
        Ok(Self::of(path, device, locked))
    }

    /// A header that was read already.
    pub fn of(path: &'a Path, device: Device, locked: LockedVolume) -> Self {
        Self { path, device, locked, store: None }
    }
}

/// A trusted store was named for a header that has none.
fn not_pinned() -> Failure {
    Failure::parameters("the header is not pinned, so that no trusted store has seen it")
        .hint("leave --store out, or pin the header: `atrest header pin --store FILE`")
}

/// What to do where the header of a sealed volume is gone.
pub const RESTORE: &str =
    "`atrest header restore URL BACKUP` puts back what `atrest header backup` has saved";

/// Has the kernel forget which writes to a device have failed before: it tells whoever flushes next, and who wrote has been told already. What
/// was lost is in the zone that is recovered.
pub fn forget_failed_writes(path: &Path) {
    // intended: that they failed is what is forgotten.
    let _ = File::open(path).and_then(|device| device.sync_all());
}

/// A volume of LUKS1 that is being re-encrypted while its header is in a file: ours, or several of cryptsetup's.
pub fn set_aside(device: &Device) -> Option<Failure> {
    // What can't be read is told by whatever reads it next.
    let uuid = uuid_set_aside(device).ok()??;
    // intended: of a UUID that is none the files can't be named.
    let uuid = if is_uuid(&uuid) { &uuid } else { "UUID" };
    let path = device.path().display();
    let what = "it is a LUKS1 volume whose re-encryption was interrupted; its header is in a file";
    Some(Failure::new(Code::Device, what).hint(format!(
        "`atrest reencrypt --resume --header FILE {path}` finishes what this program began: FILE is that of --spare-header, or \
         LUKS-{uuid}.header; in the directory with LUKS-{uuid}.log, LUKS-{uuid}.org and LUKS-{uuid}.new, `cryptsetup reencrypt {path}` \
         finishes what cryptsetup began"
    )))
}

/// Why a header can't be read, and, where none is, what is there instead.
pub fn no_header(error: OpenError, device: &Device) -> Failure {
    let OpenError::NotLuks = error else { return error.into() };
    if device.is_sealed() {
        return Failure::new(
            Code::Device,
            "the header object in the store is damaged: no LUKS2 header is in it",
        )
        .hint(RESTORE);
    }
    if device.is_stream() {
        return OpenError::NotLuks.into();
    }
    let failure = |what: &str, hint: &str| {
        Failure::new(Code::Device, format!("it is not a LUKS volume, nor encrypted flash: {what}")).hint(hint)
    };
    if let Some(failure) = set_aside(device) {
        return failure;
    }
    let found = match foreign(device) {
        Ok(found) => found,
        Err(error) => return error.into(),
    };
    match found {
        Foreign::BitLocker => failure(
            "it is encrypted by BitLocker, whose protectors Windows alone changes",
            "`atrest info` shows them, `atrest open` opens the volume",
        ),
        Foreign::FileVault => failure(
            "it is encrypted by FileVault 2, whose keys macOS alone changes",
            "`atrest info` shows what opens it, `atrest open` opens the volume",
        ),
        Foreign::Apfs => failure(
            "it holds APFS, which FileVault may encrypt",
            "macOS opens it; on Linux `fsapfsmount` of libfsapfs reads it, encrypted volumes too",
        ),
        Foreign::Filesystem(kind) => {
            let (what, hint) = not_ours(kind);
            failure(&format!("it {what}"), hint)
        }
        Foreign::Partitions(scheme) => failure(
            &format!("it has a {scheme} partition table"),
            "if the volume is in one of its partitions, name that: `lsblk` lists them",
        ),
        Foreign::Blank => failure(
            "nothing is on it",
            "is it the right file or device? A detached header is named by --header",
        ),
        Foreign::Random => failure(
            "no header was found, and what is there looks random",
            "a VeraCrypt or TrueCrypt volume looks like that: `atrest ls --type tcrypt` tries a password. So do loop-AES and plain \
             dm-crypt: `atrest ls` with --type loopaes or --type plain tries a key. They only read. Of a LUKS volume with a \
             detached header, name that by --header",
        ),
        _ => failure(
            "no header was found",
            "is it the right file or device? A detached header is named by --header",
        ),
    }
}

/// What is said of a device with this on it, and what to do with it.
fn not_ours(kind: FilesystemKind) -> (String, &'static str) {
    use FilesystemKind as Kind;
    let hint = match kind {
        Kind::DmIntegrity => "`integritysetup open` opens it; `atrest` does so under that name, too",
        Kind::DmVerity => "`atrest verity` checks and reads the data that it protects",
        Kind::Lvm => {
            "its logical volumes are devices of their own: `vgchange -ay` makes them, `lvs` lists them"
        }
        Kind::MdRaid | Kind::Bcache | Kind::Vdo | Kind::Ubi => {
            "it is a part of another device, on which the volume may be: `lsblk` shows that"
        }
        Kind::Zfs => "ZFS encrypts its datasets itself: `zpool import`, then `zfs load-key`, open them",
        Kind::Bcachefs => "bcachefs encrypts itself: `bcachefs unlock` and then `mount` open it",
        Kind::Hibernation => "a system is asleep in it, and loses its memory if that is overwritten",
        Kind::Luks1 | Kind::Luks2 => "its header is damaged: `atrest repair` mends what is known",
        _ => "mount it as it is; `atrest encrypt --in-place` encrypts it",
    };
    let holds = match kind {
        Kind::Lvm
        | Kind::MdRaid
        | Kind::Bcache
        | Kind::DmIntegrity
        | Kind::DmVerity
        | Kind::Vdo
        | Kind::Ubi => {
            format!("is {kind}")
        }
        Kind::Zfs | Kind::Bcachefs | Kind::Hibernation | Kind::Luks1 | Kind::Luks2 => format!("holds {kind}"),
        _ => format!("holds {kind}, which is not encrypted"),
    };
    (holds, hint)
}

/// Where the header lies: in the --header file, or in front of the data.
pub fn header_path(args: &TargetArgs) -> &Path {
    args.header.as_deref().unwrap_or(&args.path)
}

/// Opens a file, a block device or an export of an NBD server, or says which one could not be opened.
pub fn open_device(path: &Path, access: Access) -> Result<Device, Failure> {
    Device::open(path, access).map_err(|error| Failure::from(error).at(path))
}

/// Opens a file or block device, for what can't be done with an export. `instead` is what to do with one.
pub fn open_file(path: &Path, access: Access, instead: &str) -> Result<FileDevice, Failure> {
    match atrest_open::is_url(path) {
        true => Err(Failure::from(DeviceOpenError::NotHere).at(path).hint(instead)),
        false => FileDevice::open(path, access).map_err(|error| Failure::from(error).at(path)),
    }
}

/// What is on the device, for a question about overwriting it.
pub fn contents(device: &Device) -> String {
    known_contents(device).unwrap_or_else(|| {
        let else_than_known = match (device.is_remote(), device.is_disk()) {
            (true, _) => "whatever the server has there",
            (_, true) => "a block device and whatever is on it",
            _ => "data",
        };
        else_than_known.into()
    })
}

/// What is on a file or block device, for such a question.
pub fn contents_of_file(device: &FileDevice) -> String {
    known_contents(device).unwrap_or_else(|| {
        let else_than_known =
            if device.is_block_device() { "a block device and whatever is on it" } else { "data" };
        else_than_known.into()
    })
}

/// What is recognised on a device. `None` also if it can't be read: it may be anything then.
pub fn known_contents(device: &dyn BlockDevice) -> Option<String> {
    in_the_way(device, 0..device.size()).ok().flatten().map(|found| found.to_string())
}

/// Reads the passphrase of `path` and tries it. Somebody who types gets three tries.
pub fn with_passphrase<T, E: MayBeWrongKey + Display + Into<Failure>>(
    source: &Source,
    path: &Path,
    output: &Output,
    attempt: impl FnMut(&Passphrase) -> Result<T, E>,
) -> Result<T, Failure> {
    let mut asked = Asked::volume(source, path, output, |passphrase| passphrase);
    try_keys(&mut asked, attempt).map_err(|refused| refusal(refused, path))
}

/// Why no key was taken, said of `path`.
pub fn refusal<E: Into<Failure>>(refused: Refused<Failure, E>, path: &Path) -> Failure {
    match refused {
        Refused::Source(failure) => failure,
        Refused::Attempt(error) => error.into().at(path),
        // cannot happen: a source on the command line is read at least once.
        Refused::NoKey => Failure::parameters("there is no passphrase to try").at(path),
    }
}

/// Creates a file that only its owner can read; it must not exist.
pub fn create_private(path: &Path) -> Result<File, Failure> {
    let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    open.map_err(|error| Failure::io(&error).at(path))
}

/// Writes a private file in place of the one that is there, if there is one: that stays until the new one is on the media.
pub fn replace_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // intended: a path without a name is a directory, which the renaming refuses.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let beside = path.with_file_name(name);
    write_private(&beside, bytes)?;
    std::fs::rename(&beside, path).map_err(|error| {
        // What was written is of no use; that it can't be removed changes nothing about the error.
        let _ = std::fs::remove_file(&beside);
        Failure::io(&error).at(path)
    })
}

/// Writes a new private file that is on the media when this returns, or not there at all.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = create_private(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // What was written is of no use; that it can't be removed changes nothing about the error.
        let _ = std::fs::remove_file(path);
        Failure::io(&error).at(path)
    })
}
