//! From a locked volume to its plaintext as a block device.

use std::path::Path;
use std::str::FromStr;
use std::time::SystemTime;

use atrest_device::SECTOR_SIZE;
use atrest_engine::{Access, Disk, DiskOptions};
use atrest_kdf::plain::PlainHash;
use atrest_open::{Device, Format, Held, HeldError, Key, Locked, Refused, Reopen};
use atrest_volume::plain::PlainOptions;
use atrest_volume::{UnlockOptions, Volume, VolumeFormat};

use super::{flash, foreign, fresh, options, pin, target, tokens};
use crate::args::open::{UnlockArgs, VolumeType};
use crate::asked::Asked;
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
    /// Long reads are decrypted from the mapped file.
    pub map: bool,
}

impl Use {
    /// How a device is opened for it.
    pub fn held_access(self) -> Access {
        if self.write { Access::ReadWriteExclusive } else { Access::ReadOnlyShared }
    }
}

/// An unlocked volume.
pub struct Unlocked {
    /// Its plaintext.
    pub disk: Disk,
    /// When the media was last written, where that is known.
    pub modified: Option<SystemTime>,
    /// What it is opened again with when its key was taken away; a volume without a header can't be.
    pub reopen: Option<Reopen>,
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
    let (held, volume) = open_if(path, args, wanted, output, ready)?;
    joined(path, held, volume, args, wanted)
}

/// Unlocks as [`unlock_if`] does, and shows the volume with its key to `also`. The key is not kept afterwards.
pub fn unlock_with_key<T>(
    path: &Path,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
    ready: impl FnOnce() -> Result<(), Failure>,
    also: impl FnOnce(&Volume) -> Result<T, Failure>,
) -> Result<(Unlocked, T), Failure> {
    let (held, volume) = open_if(path, args, Use { keep_key: true, ..wanted }, output, ready)?;
    let done = also(&volume)?;
    let unlocked = joined(path, held, volume.with_targets(Vec::new()), args, wanted)?;
    Ok((unlocked, done))
}

/// Unlocks a volume that the kernel has open, for its key. The device is read only, and nobody is kept from it.
pub fn again(path: &Path, args: &UnlockArgs, output: &Output) -> Result<Volume, Failure> {
    let wanted = Use { keep_key: true, ..Use::default() };
    open_unlocked(path, Access::ReadOnly, args, wanted, output).map(|(_, volume)| volume)
}

/// Opens the devices without a lock, so that others may use them, asks for the passphrase and unlocks.
pub fn open_unlocked(
    path: &Path,
    access: Access,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
) -> Result<(Held, Volume), Failure> {
    check(path, args, wanted)?;
    let held = with_header(Held::over(target::open_device(path, access)?), args)?;
    let held = with_sealed(held, path, args, wanted)?;
    let volume = volume_in(path, &held, args, wanted, output)?;
    Ok((held, volume))
}

/// Unlocks the volume on a device that is open already.
pub fn unlock_over(
    device: Device,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
) -> Result<Unlocked, Failure> {
    let path = device.path().to_owned();
    check(&path, args, wanted)?;
    let held = with_header(Held::over(device), args)?;
    let held = with_sealed(held, &path, args, wanted)?;
    let volume = volume_in(&path, &held, args, wanted, output)?;
    joined(&path, held, volume, args, wanted)
}

/// The plaintext of a volume that is unlocked.
fn joined(
    path: &Path,
    held: Held,
    volume: Volume,
    args: &UnlockArgs,
    wanted: Use,
) -> Result<Unlocked, Failure> {
    let mut options = DiskOptions::default();
    options.threads = wanted.threads.map_or(0, usize::from);
    options.allow_discards = wanted.allow_discards;
    options.read_only = !wanted.write;
    let modified = held.media().modified();
    // One that was left in the middle of a re-encryption has two keys.
    let is_luks = matches!(volume.format(), VolumeFormat::Luks1 | VolumeFormat::Luks2);
    let has_one_key = args.kind == VolumeType::Luks && is_luks && volume.segments().len() == 1;
    let again = (Format::ByHeader, UnlockOptions { slot: None, ..unlock_options(args, wanted)? });
    let opened = held.disk_for_long(volume, options, again);
    let (disk, reopen) = opened.map_err(|error| Failure::from(error).at(path))?;
    Ok(Unlocked { disk, modified, reopen: reopen.filter(|_| has_one_key) })
}

/// Opens the devices, calls `ready`, asks for the passphrase and unlocks, but makes no [`Disk`] as [`unlock_if`] does. For
/// callers that leave the encryption to somebody else, such as dm-crypt.
pub fn open_if(
    path: &Path,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
    ready: impl FnOnce() -> Result<(), Failure>,
) -> Result<(Held, Volume), Failure> {
    check(path, args, wanted)?;
    let held = Held::open(path, None, wanted.write).map_err(not_held)?;
    let held = with_header(held, args)?;
    let held = with_sealed(held, path, args, wanted)?;
    let held = if wanted.map { held.mapped().map_err(not_mapped)? } else { held };
    ready()?;
    let volume = volume_in(path, &held, args, wanted, output)?;
    Ok((held, volume))
}

fn with_header(held: Held, args: &UnlockArgs) -> Result<Held, Failure> {
    match &args.header {
        Some(header) => held.with_header(header).map_err(not_held),
        None if args.tcrypt.tcrypt_system => held.with_drive().map_err(not_held),
        None => Ok(held),
    }
}

/// What is said of a sealed volume, which a URL names, goes with it.
#[cfg(feature = "whole")]
fn with_sealed(held: Held, path: &Path, args: &UnlockArgs, wanted: Use) -> Result<Held, Failure> {
    super::sealed::with_options(held, path, args, wanted)
}

#[cfg(not(feature = "whole"))]
fn with_sealed(held: Held, path: &Path, args: &UnlockArgs, _: Use) -> Result<Held, Failure> {
    match &args.snapshot {
        Some(_) => Err(Failure::parameters("this program opens no sealed volumes").at(path)),
        None => Ok(held),
    }
}

/// Whether a path is the URL of a store of sealed objects.
pub(super) fn is_sealed(path: &Path) -> bool {
    #[cfg(feature = "whole")]
    if super::sealed::is_meant(path) {
        return true;
    }
    let _ = path;
    false
}

fn not_mapped(error: HeldError) -> Failure {
    not_held(error).hint("leave --map out: it makes reads faster and changes nothing else")
}

fn not_held(HeldError { path, error }: HeldError) -> Failure {
    Failure::from(error).at(&path)
}

/// Unlocks the volume, and limits it to the size that the options name.
fn volume_in(
    path: &Path,
    held: &Held,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
) -> Result<Volume, Failure> {
    let format = format(path, args)?;
    let mut volume = volume(path, held, &format, args, wanted, output)?;
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
    Ok(volume)
}

/// Options of one type with the other type are mistakes, not wishes.
fn check(path: &Path, args: &UnlockArgs, wanted: Use) -> Result<(), Failure> {
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
    // A pinned header has a store as well; without encrypted flash nothing has one.
    let has_store = cfg!(feature = "whole") && args.kind == VolumeType::Luks;
    let refused = args.without_freshness || (args.store.is_some() && !has_store);
    flash::refuse_store(!is_sealed(path) && refused)?;
    args.tokens.check(&args.secret)?;
    let plain = &args.plain;
    let only_plain = plain.sector_size.is_some() || plain.iv_large_sectors;
    let has_place = plain.key_size.is_some() || plain.offset.is_some() || plain.skip.is_some() || only_plain;
    let is_tcrypt = foreign::is_tcrypt(args.kind);
    if !is_tcrypt && (!args.tcrypt.are_none() || args.protect.protect_hidden) {
        return Err(Failure::parameters("the options of TrueCrypt and VeraCrypt belong to --type tcrypt"));
    }
    let has_plain = plain.cipher.is_some()
        || plain.key_size.is_some()
        || plain.hash.is_some()
        || plain.offset.is_some()
        || plain.skip.is_some()
        || plain.sector_size.is_some()
        || plain.iv_large_sectors;
    match args.kind {
        VolumeType::Luks | VolumeType::Bitlk | VolumeType::Fvault2 if has_plain => Err(Failure::parameters(
            "--cipher, --key-size, --hash, --offset, --skip, --sector-size and --iv-large-sectors belong to plain mode; \
             the header says all that itself",
        )
        .hint("for a volume without a header: --type plain")),
        VolumeType::Plain if args.header.is_some() || args.key_slot.is_some() => {
            Err(Failure::parameters("a plain volume has no header and no keyslots"))
        }
        VolumeType::Loopaes if args.header.is_some() || args.key_slot.is_some() || only_plain => {
            Err(Failure::parameters(
                "a loop-AES volume has no header, no keyslots, and sectors of 512 bytes",
            ))
        }
        _ if is_tcrypt && (args.key_slot.is_some() || has_place) => Err(Failure::parameters(
            "the header of a TrueCrypt or VeraCrypt volume has no keyslots, and says where the data is",
        )),
        VolumeType::Plain if args.tokens.are_named() => {
            Err(Failure::parameters("a plain volume has no header, which could have tokens"))
        }
        _ => Ok(()),
    }
}

fn unlock_options(args: &UnlockArgs, wanted: Use) -> Result<UnlockOptions, Failure> {
    let options = UnlockOptions {
        slot: args.key_slot,
        read_only: !wanted.write,
        allow_equal_xts_halves: args.allow_equal_xts_halves,
        single_snapshot: args.single_snapshot,
        keep_key: wanted.keep_key,
        ..UnlockOptions::default()
    };
    pin::expected(&args.expect, options)
}

/// What the options say of the volume.
fn format(path: &Path, args: &UnlockArgs) -> Result<Format, Failure> {
    match args.kind {
        VolumeType::Luks => Ok(Format::ByHeader),
        VolumeType::Plain => plain(args),
        VolumeType::Loopaes => foreign::loopaes(args),
        VolumeType::Tcrypt | VolumeType::Truecrypt | VolumeType::Veracrypt => {
            foreign::tcrypt(args, None).map(foreign::as_format)
        }
        VolumeType::Bitlk => Ok(Format::BitLocker),
        VolumeType::Fvault2 => Ok(Format::FileVault),
        VolumeType::Ecryptfs | VolumeType::Directory => Err(no_volume().at(path)),
    }
}

fn plain(args: &UnlockArgs) -> Result<Format, Failure> {
    let plain = &args.plain;
    let cipher = plain.cipher.as_deref().ok_or_else(|| needed("--cipher"))?;
    let key_len = options::key_len(plain.key_size).ok_or_else(|| needed("--key-size"))?;
    let mut options = PlainOptions::new(options::cipher(cipher)?, key_len);
    // intended: data and IVs begin at 0.
    options.offset = plain.offset.unwrap_or(0);
    options.skip = plain.skip.unwrap_or(0);
    options.size = args.size.map(|bytes| bytes / SECTOR_SIZE);
    options.data_unit = plain.sector_size.unwrap_or(512);
    options.iv_large = plain.iv_large_sectors;
    // What makes no key is not looked at.
    let hash = plain.hash.as_deref().filter(|_| !is_key_itself(args));
    let hash = hash.map(PlainHash::from_str).transpose().map_err(Failure::parameters)?;
    Ok(Format::Plain { options, hash })
}

/// Defaults differ between versions of cryptsetup, and a wrong one shows garbage and writes garbage.
fn needed(option: &str) -> Failure {
    Failure::parameters(format!("a plain volume has no header, so {option} must be said"))
        .hint("cryptsetup's defaults: -c aes-cbc-essiv:sha256 -s 256 --hash ripemd160 up to 2.6, -c aes-xts-plain64 -s 256 --hash sha256 from 2.7 on")
}

/// Looks for the volume, asks for its key and unlocks it.
fn volume(
    path: &Path,
    held: &Held,
    format: &Format,
    args: &UnlockArgs,
    wanted: Use,
    output: &Output,
) -> Result<Volume, Failure> {
    let at = |failure: Failure| failure.at(path);
    if args.kind == VolumeType::Luks && !held.is_detached() && flash::is_on(held.media()) {
        return Err(Failure::new(Code::Device, "it is encrypted flash, which is not served as one file")
            .at(path)
            .hint(match held.media().is_remote() {
                true => flash::COPY_FIRST,
                false => "`atrest mount` shows the files in it; ls, cat and cp work without a mount",
            }));
    }
    let locked = held.locked(format).map_err(|error| {
        let not_there = || target::no_header(error, held.header()).at(args.header.as_deref().unwrap_or(path));
        flash::refuse_store(args.store.is_some() && !is_sealed(path)).err().unwrap_or_else(not_there)
    })?;
    // Told before anybody types a passphrase.
    locked.check().map_err(|error| at(error.into()))?;
    let mut options = UnlockOptions { sealed: held.media().is_sealed(), ..unlock_options(args, wanted)? };
    let seen = fresh::Seen::of(path, args, &*locked)?;
    options.seen = seen.record();
    locked.check_expected(&options).map_err(|error| at(error.into()))?;
    not_over_anything(path, &*locked, wanted, output)?;
    let volume = by_key(path, held, format, &*locked, args, &options, output)?;
    seen.now(&*locked)?;
    Ok(volume)
}

/// Asks for the key, and unlocks.
fn by_key(
    path: &Path,
    held: &Held,
    format: &Format,
    locked: &dyn Locked,
    args: &UnlockArgs,
    options: &UnlockOptions,
    output: &Output,
) -> Result<Volume, Failure> {
    let at = |failure: Failure| failure.at(path);
    let source = Source::from(&args.secret.passphrase);
    check_hash(format, args, output)?;
    if foreign::is_tcrypt(args.kind) {
        return foreign::unlock(path, held, args, options, output);
    }
    if let Some(key) = secrets::volume_key(&args.secret, output)? {
        return locked.try_key(&Key::Volume(key), options).map_err(|error| at(error.into()));
    }
    if args.kind == VolumeType::Loopaes {
        let key = Key::File(foreign::lines(&source, output)?);
        return locked.try_key(&key, options).map_err(|error| at(error.into()));
    }
    let key = if source.is_key_file() { Key::File } else { Key::Passphrase };
    let all = if source.is_prompt() || args.tokens.are_named() { locked.tokens() } else { Vec::new() };
    let chosen = tokens::chosen(all, &args.tokens, output).map_err(at)?;
    tokens::check_stdin(&source, &args.tokens)?;
    let mut keys = tokens::first(chosen, &args.tokens, Asked::volume(&source, path, output, key));
    let opened = atrest_open::unlock(locked, &mut keys, options);
    opened.map_err(|error| {
        let nobody_asked =
            matches!(&error, Refused::Source(failure) if failure.code() == Code::Parameters as u8);
        let failure = tokens::why(error, &args.tokens, keys.failed(), path);
        match nobody_asked && !keys.failed().is_empty() {
            true => failure.adding(tokens::sentences(keys.failed())),
            false => failure,
        }
    })
}

/// A plain volume hashes what is typed, and never what is in a key file.
fn check_hash(format: &Format, args: &UnlockArgs, output: &Output) -> Result<(), Failure> {
    let Format::Plain { hash, .. } = format else { return Ok(()) };
    match is_key_itself(args) {
        true if args.plain.hash.is_some() => {
            output.warn("--hash is ignored: a key file holds the key itself");
        }
        false if hash.is_none() => return Err(needed("--hash")),
        _ => {}
    }
    Ok(())
}

/// Whether what the options name is the key of a plain volume, and no passphrase.
fn is_key_itself(args: &UnlockArgs) -> bool {
    Source::from(&args.secret.passphrase).is_key_file() || args.secret.has_volume_key()
}

/// A plain volume can't be told from anything else that is on the device. What can is asked about before it is written over.
fn not_over_anything(path: &Path, locked: &dyn Locked, wanted: Use, output: &Output) -> Result<(), Failure> {
    let Some(found) = locked.in_the_way().map_err(|error| Failure::from(error).at(path))? else {
        return Ok(());
    };
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
