//! From a locked volume to its plaintext as a block device.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use atrest_device::{Media, SECTOR_SIZE};
use atrest_engine::contents::in_the_way;
use atrest_engine::{Access, Disk, DiskOptions, FileDevice, is_same};
use atrest_kdf::plain::PlainHash;
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use atrest_volume::{Devices, LockedVolume, UnlockOptions, Volume};

use super::target::{open_device, with_passphrase};
use super::{flash, options, target};
use crate::args::open::{UnlockArgs, VolumeType};
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::{self, Source};

/// What the plaintext is wanted for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    /// It is written too: nobody else may have it open. Otherwise other readers may.
    pub write: bool,
    /// Discards reach the media.
    pub allow_discards: bool,
    /// Threads; `None` is one for each processor.
    pub threads: Option<u16>,
    /// The kernel encrypts: it needs the key itself.
    pub keep_key: bool,
}

/// A volume that has been unlocked, and what it lies on, held so that nobody else changes it.
pub struct Opened {
    /// Holds the data.
    pub media: FileDevice,
    /// Holds the header, if that is elsewhere.
    pub header: Option<Arc<FileDevice>>,
    /// Where everything is, and how it is encrypted.
    pub volume: Volume,
}

/// An unlocked volume.
pub struct Unlocked {
    /// Its plaintext.
    pub disk: Disk,
    /// When the media was last written, where that is known.
    pub modified: Option<SystemTime>,
}

/// Opens the devices, reads the header, asks for the passphrase and unlocks.
pub fn unlock(path: &Path, args: &UnlockArgs, wanted: Use, output: &Output) -> Result<Unlocked, Failure> {
    unlock_if(path, args, wanted, output, || Ok(()))
}

/// Opens the devices, calls `ready`, then asks for the passphrase and unlocks. What `ready` looks at is known before anybody
/// types a passphrase.
pub fn unlock_if(
    path: &Path,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
    ready: impl FnOnce() -> Result<(), Failure>,
) -> Result<Unlocked, Failure> {
    let Opened { media, header, volume } = open_if(path, args, wanted, output, ready)?;
    let mut options = DiskOptions::default();
    options.threads = wanted.threads.map_or(0, usize::from);
    options.allow_discards = wanted.allow_discards;
    options.read_only = !wanted.write;
    let modified = media.modified();
    let disk = Disk::new(Arc::new(media), volume, options).map_err(|error| Failure::from(error).at(path))?;
    let disk = match header {
        Some(header) => disk.with_header(header),
        None => disk,
    };
    Ok(Unlocked { disk, modified })
}

/// Opens the devices, calls `ready`, asks for the passphrase and unlocks, but makes no [`Disk`] as [`unlock_if`] does. For
/// callers that leave the encryption to somebody else, such as dm-crypt.
pub fn open_if(
    path: &Path,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
    ready: impl FnOnce() -> Result<(), Failure>,
) -> Result<Opened, Failure> {
    let access = if wanted.write { Access::ReadWriteExclusive } else { Access::ReadOnlyShared };
    check(args, wanted)?;
    let media = open_device(path, access)?;
    let header = header(path, args)?;
    ready()?;
    let mut volume = match args.kind {
        VolumeType::Luks => luks(path, &media, header.as_deref(), args, wanted, output)?,
        VolumeType::Plain => plain(path, &media, args, wanted, output)?,
        VolumeType::Ecryptfs | VolumeType::Directory => return Err(no_volume().at(path)),
    };
    if let Some(size) = args.size {
        let (has, unit) = (volume.size(), volume.data_unit() as u64);
        if size > has {
            return Err(Failure::parameters(format!(
                "--size {size} is more than the {has} bytes of plaintext"
            ))
            .at(path));
        }
        volume.limit(size);
        if volume.size() != size {
            let possible = volume.size().max(unit);
            return Err(Failure::parameters(format!(
                "--size {size} is not possible in data units of {unit} bytes; {possible} bytes would be"
            ))
            .at(path));
        }
    }
    Ok(Opened { media, header, volume })
}

/// Options of one type with the other type are mistakes, not wishes.
fn check(args: &UnlockArgs, wanted: Use) -> Result<(), Failure> {
    if wanted.write && args.allow_equal_xts_halves {
        return Err(Failure::parameters(
            "--allow-equal-xts-halves is for reading: nothing is written with such a key",
        )
        .hint("copy what the volume holds to a new one"));
    }
    if let Some(size) = args.size.filter(|size| *size == 0 || !size.is_multiple_of(SECTOR_SIZE)) {
        let possible = (size / SECTOR_SIZE).max(1) * SECTOR_SIZE;
        return Err(Failure::parameters(format!("--size {size} is not possible; {possible} bytes would be"))
            .hint("a view has whole data units: a multiple of 512 bytes, or of the volume's sector size"));
    }
    flash::refuse_store(args.store.is_some() || args.without_freshness)?;
    let plain = &args.plain;
    let has_plain = plain.cipher.is_some()
        || plain.key_size.is_some()
        || plain.hash.is_some()
        || plain.offset.is_some()
        || plain.skip.is_some()
        || plain.sector_size.is_some()
        || plain.iv_large_sectors;
    match args.kind {
        VolumeType::Luks if has_plain => Err(Failure::parameters(
            "--cipher, --key-size, --hash, --offset, --skip, --sector-size and --iv-large-sectors belong to plain mode; \
             a LUKS header says all that itself",
        )
        .hint("for a volume without a header: --type plain")),
        VolumeType::Plain if args.header.is_some() || args.key_slot.is_some() => {
            Err(Failure::parameters("a plain volume has no header and no keyslots"))
        }
        _ => Ok(()),
    }
}

/// The device with the detached header, locked so that nobody formats or restores it while the volume is open.
/// Keyslots can be changed all the same.
fn header(path: &Path, args: &UnlockArgs) -> Result<Option<Arc<FileDevice>>, Failure> {
    let Some(header) = &args.header else { return Ok(None) };
    // The volume's own device is locked already.
    match is_same(header, path) {
        true => Ok(None),
        false => open_device(header, Access::ReadOnlyShared).map(|device| Some(Arc::new(device))),
    }
}

fn unlock_options(args: &UnlockArgs, wanted: Use) -> UnlockOptions {
    UnlockOptions {
        read_only: !wanted.write,
        allow_equal_xts_halves: args.allow_equal_xts_halves,
        single_snapshot: args.single_snapshot,
        keep_key: wanted.keep_key,
        ..UnlockOptions::default()
    }
}

fn luks(
    path: &Path,
    media: &FileDevice,
    header: Option<&FileDevice>,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
) -> Result<Volume, Failure> {
    let devices = Devices::with_header(header.map(|header| header as &dyn Media), media);
    if header.is_none() && flash::is_on(media) {
        return Err(Failure::new(Code::Device, "it is encrypted flash, which is not served as one file")
            .at(path)
            .hint("`atrest mount` shows the files in it; ls, cat and cp work without a mount"));
    }
    let header_path = args.header.as_deref().unwrap_or(path);
    let holds_header = header.unwrap_or(media);
    let locked = LockedVolume::read(devices.header)
        .map_err(|error| target::no_header(error, holds_header).at(header_path))?;
    // Told before anybody types a passphrase.
    locked.check_place(devices).map_err(|error| Failure::from(error).at(path))?;
    let options = UnlockOptions { slot: args.key_slot, ..unlock_options(args, wanted) };
    if let Some(file) = &args.secret.volume_key_file {
        let key = secrets::read_volume_key(file, output)?;
        return locked
            .unlock_with_key(devices, &key, &options)
            .map_err(|error| Failure::from(error).at(path));
    }
    let source = Source::from(&args.secret.passphrase);
    let opened =
        with_passphrase(&source, path, output, |passphrase| locked.unlock(devices, passphrase, &options));
    opened.map_err(|failure| match source.is_prompt() && failure.code() == Code::Parameters as u8 {
        true => target::with_tokens(failure, &locked),
        false => failure,
    })
}

fn plain(
    path: &Path,
    media: &FileDevice,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
) -> Result<Volume, Failure> {
    let plain = &args.plain;
    let source = Source::from(&args.secret.passphrase);
    // Defaults differ between versions of cryptsetup, and a wrong one shows garbage and writes garbage.
    let needed = |option: &str| {
        Failure::parameters(format!("a plain volume has no header, so {option} must be said"))
            .hint("cryptsetup's defaults: -c aes-cbc-essiv:sha256 -s 256 --hash ripemd160 up to 2.6, -c aes-xts-plain64 -s 256 --hash sha256 from 2.7 on")
    };
    let cipher = plain.cipher.as_deref().ok_or_else(|| needed("--cipher"))?;
    let key_len = options::key_len(plain.key_size).ok_or_else(|| needed("--key-size"))?;
    let mut options = PlainOptions::new(options::cipher(cipher)?, key_len);
    // intended: data and IVs begin at 0.
    options.offset = plain.offset.unwrap_or(0);
    options.skip = plain.skip.unwrap_or(0);
    options.size = args.size.map(|bytes| bytes / SECTOR_SIZE);
    options.data_unit = plain.sector_size.unwrap_or(512);
    options.iv_large = plain.iv_large_sectors;
    let unlock = unlock_options(args, wanted);
    not_over_anything(path, media, &options, wanted, output)?;
    if plain.hash.is_some() && (source.is_key_file() || args.secret.volume_key_file.is_some()) {
        output.warn("--hash is ignored: a key file holds the key itself");
    }
    let opened = if let Some(file) = &args.secret.volume_key_file {
        let key = secrets::read_volume_key(file, output)?;
        plain::open(media, &options, PlainKey::KeyFile(key.expose()), &unlock)
    } else {
        let prompt = format!("Passphrase for {}", path.display());
        if source.is_key_file() {
            let key = source.read(&prompt, output)?;
            plain::open(media, &options, PlainKey::KeyFile(key.expose()), &unlock)
        } else {
            let hash = plain.hash.as_deref().ok_or_else(|| needed("--hash"))?;
            let hash = PlainHash::from_str(hash).map_err(Failure::parameters)?;
            let passphrase = source.read(&prompt, output)?;
            plain::open(media, &options, PlainKey::Passphrase(&passphrase, hash), &unlock)
        }
    };
    opened.map_err(|error| Failure::from(error).at(path))
}

/// A plain volume can't be told from anything else that is on the device. What can is asked about before it is written over.
fn not_over_anything(
    path: &Path,
    media: &FileDevice,
    options: &PlainOptions,
    wanted: Use,
    output: &Output,
) -> Result<(), Failure> {
    let at = |failure: Failure| failure.at(path);
    let range = plain::place(media, options).map_err(|error| at(error.into()))?;
    let Some(found) = in_the_way(media, range).map_err(|error| at(error.into()))? else { return Ok(()) };
    let path = path.display();
    if wanted.write {
        return output.confirm(&format!("{path} holds {found}; writes to it as a plain volume destroy that"));
    }
    output.warn(format_args!("{path} holds {found}; read as a plain volume it is noise"));
    Ok(())
}

/// A directory was meant, and a volume is there or is needed.
fn no_volume() -> Failure {
    Failure::parameters("this is no directory, or the command works on volumes only")
        .hint("`atrest mount LOWER DIR --type ecryptfs` mounts a lower directory of eCryptfs")
}
