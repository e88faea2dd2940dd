//! `atrest reencrypt` and `atrest encrypt --in-place`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use atrest_attach::dm;
use atrest_device::{BlockDevice, Media};
use atrest_engine::bulk::Progress;
use atrest_engine::reencrypt::{RewriteError, RewriteOptions, Rewritten, Served, run};
use atrest_engine::{Access, NewFile, is_same};
use atrest_open::Device;
use atrest_probe::reach::{self, Reach};
use atrest_secret::{Passphrase, VolumeKey};
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::{
    DecryptOptions, EncryptOptions, NewKey, ReencryptError, ReencryptKeys, ReencryptOptions, ResilienceKind,
    Rewriting, begin_encryption, begin_encryption_with_key, interrupted_conversion,
};
use atrest_volume::{
    Credential, Devices, FormatOptions, LockedVolume, OpenError, UnlockError, UnlockOptions, Volume,
    header_backup,
};
use serde_json::json;

use super::bulk::Stop;
use super::target::{forget_failed_writes, no_header, open_device, set_aside, with_passphrase};
use super::{mapping, options, reencrypt_luks1, reencrypt_mapped, reencrypt_served};
use crate::amount::Bytes;
use crate::args::bulk::EncryptArgs;
use crate::args::open::VolumeType;
use crate::args::reencrypt::{ReencryptArgs, ResilienceArg, ZoneArgs};
use crate::args::secrets::PassphraseArgs;
use crate::failure::{Code, Failure};
use crate::meter::Meter;
use crate::output::Output;
use crate::progress;
use crate::secrets::{self, Source};

/// What the header takes, twice: as cryptsetup's manual has it.
const DEFAULT_REDUCTION: u64 = 32 << 20;
/// Half of it is what a header takes at least, with the note of what was moved.
const LEAST_REDUCTION: u64 = 2 << 20;
/// Nobody else has it open.
const EXCLUSIVE: Access = Access::ReadWriteExclusive;
/// Bytes that are rewritten at once while a mapping waits.
const MAPPED_ZONE: u64 = 1 << 20;
/// A detached header, as cryptsetup makes it.
const HEADER_SIZE: u64 = 16 << 20;
/// The two copies of its metadata.
const HEADER_COPIES: u64 = 32 << 10;

pub fn reencrypt(args: &ReencryptArgs, output: &Output) -> Result<(), Failure> {
    if args.online || args.stop {
        return reencrypt_served::reencrypt(args, output);
    }
    // One that was interrupted has left it.
    if let Some(spare) = args.spare_header.as_ref().filter(|spare| spare.symlink_metadata().is_ok()) {
        reencrypt_luks1::check_spare(spare)?;
        let header = Some(spare.clone());
        return reencrypt(&ReencryptArgs { header, spare_header: None, ..args.clone() }, output);
    }
    // What the kernel has open can't be had by anybody else.
    if (args.resume || args.resume_if_begun)
        && let Some(mapping) = mapping::of(&args.path)?
    {
        return reencrypt_mapped::reencrypt(args, &mapping, output);
    }
    if args.resume || args.resume_if_begun {
        forget_failed_writes(&args.path);
    }
    let data = open_device(&args.path, Access::ReadWriteExclusive)?;
    let resumes = args.resume || (args.resume_if_begun && is_begun(args, &data));
    if args.decrypt && !resumes {
        return decrypt(args, &data, output);
    }
    let header = detached(args.header.as_deref(), &args.path, EXCLUSIVE)?;
    if resumes {
        return resume(
            &args.path,
            &data,
            header.as_ref(),
            &Given::of(args, output)?,
            &args.zones,
            None,
            output,
        );
    }
    let devices = devices(&data, header.as_ref());
    let header_path = args.header.as_deref().unwrap_or(&args.path);
    let on = header.as_ref().unwrap_or(&data);
    let read = || LockedVolume::read(devices.header).map_err(|error| no_header(error, on).at(header_path));
    let mut locked = read()?;
    if locked.luks2().is_some_and(|luks2| luks2.was_luks1() && !is_marked(&locked)) {
        // It stopped before it had begun, or when all was done.
        reencrypt_luks1::end(&data, header.as_ref(), &args.path)?;
        if locked.luks2().is_some_and(Luks2::is_kept) {
            // The file is no more, and the header where it belongs.
            drop((data, header));
            let spare_header = args.header.clone();
            return reencrypt(&ReencryptArgs { header: None, spare_header, ..args.clone() }, output);
        }
        locked = read()?;
    }
    let Some(luks2) = locked.luks2() else {
        return reencrypt_luks1::reencrypt(args, (&data, header.as_ref()), &locked, output);
    };
    let stop = Stop::on_signals()?;
    let (rewriting, _) = begin_reencryption(args, &locked, luks2, devices, output)?;
    match args.init_only {
        true => begun_only(&rewriting, &args.path, output),
        false => rewrite(rewriting, &args.path, &args.zones, None, &stop, output),
    }
}

/// Begins it with what was said, and tells the first passphrase, if there was one.
pub fn begin_reencryption<'a>(
    args: &ReencryptArgs,
    locked: &LockedVolume,
    luks2: &Luks2,
    devices: Devices<'a>,
    output: &Output,
) -> Result<(Rewriting<'a>, Option<Passphrase>), Failure> {
    if let Some(file) = &args.new_volume_key_file
        && (args.no_keyslots || args.volume_key_file.is_some())
    {
        secrets::check_kept(file)?;
    }
    let options = reencrypt_options(args, locked, output)?;
    confirm(args, output)?;
    let at = |error: ReencryptError| not_begun(error, args.reduce_device_size).at(&args.path);
    if let Some(file) = &args.volume_key_file {
        if !Source::from(&args.passphrase).is_prompt() {
            return Err(Failure::parameters(
                "--volume-key-file stands for the passphrase: one of the two is enough",
            )
            .hint("with a passphrase its keyslot is carried over; by volume key there is none afterwards"));
        }
        let key = secrets::read_volume_key(file, output)?;
        return Ok((luks2.begin_reencryption_with_key(devices, &key, &options).map_err(at)?, None));
    }
    let passphrases = passphrases(args, locked, devices.header, output)?;
    let given: Vec<(&Passphrase, Option<u32>)> = passphrases.iter().map(|(p, slot)| (p, *slot)).collect();
    let spinner = progress::spinner("deriving the keys", output);
    let begun = luks2.begin_reencryption(devices, &given, &options);
    spinner.finish_and_clear();
    let begun = begun.map_err(at)?;
    Ok((begun, passphrases.into_iter().next().map(|(first, _)| first)))
}

/// Why it does not begin. Where data moves, the cure is another distance.
fn not_begun(error: ReencryptError, shift: Option<u64>) -> Failure {
    match (error, shift) {
        (ReencryptError::DeviceSize, Some(shift)) => Failure::parameters(format!(
            "--reduce-device-size gives up {shift} bytes, and the data has not that many"
        ))
        .hint("`atrest info` shows the size of the data"),
        (ReencryptError::Misaligned { multiple, .. }, Some(shift)) => {
            Failure::parameters(format!("--reduce-device-size {shift} leaves a part of a sector or block"))
                .hint(format!("give up a multiple of {multiple} bytes"))
        }
        (error, _) => error.into(),
    }
}

/// What a re-encryption destroys is asked for before anything else.
pub fn confirm(args: &ReencryptArgs, output: &Output) -> Result<(), Failure> {
    if args.zones.resilience == Some(ResilienceArg::None) {
        output.confirm("with --resilience none a crash destroys the data that is being rewritten")?;
    }
    if let Some(shift) = args.reduce_device_size {
        if shift == 0 || !shift.is_multiple_of(512) {
            return Err(Failure::parameters(
                "--reduce-device-size must be a multiple of 512 bytes, and not 0",
            ));
        }
        output.confirm(&format!(
            "the last {shift} bytes of the data in {} are given up",
            args.path.display()
        ))?;
    }
    confirm_part(args.zones.device_size, output)
}

/// The passphrases that were given, each with the keyslot that is meant.
pub fn passphrases(
    args: &ReencryptArgs,
    locked: &LockedVolume,
    header: &dyn Media,
    output: &Output,
) -> Result<Vec<(Passphrase, Option<u32>)>, Failure> {
    let first = Source::from(&args.passphrase);
    let mut passphrases: Vec<(Passphrase, Option<u32>)> = Vec::new();
    let slot = with_passphrase(&first, &args.path, output, |passphrase| {
        let (slot, _) = locked.volume_key(header, passphrase, args.key_slot)?;
        passphrases.push((Passphrase::copy_from(passphrase.expose()), Some(slot)));
        Ok::<u32, UnlockError>(slot)
    })?;
    for path in &args.also_key_file {
        let source = Source::key_file(path);
        passphrases.push((source.read("", output)?, None));
    }
    if first.is_prompt() {
        let of_data: Vec<u32> = locked.info().keyslots.iter().map(|slot| slot.id).collect();
        for other in of_data.into_iter().filter(|id| *id != slot && locked.opens_data(*id)) {
            let keeps = args.keep_key && locked.luks2().is_some();
            let may_go = args.drop_others || args.drop_slot.contains(&other);
            let is_needed = !keeps && !args.no_keyslots && !may_go;
            if is_needed && args.also_key_file.is_empty() {
                let prompt = format!("Passphrase of keyslot {other}");
                passphrases.push((first.read(&prompt, output)?, Some(other)));
            }
        }
    }
    Ok(passphrases)
}

/// What a re-encryption is gone on with.
pub struct Given {
    pub volume_keys: Vec<VolumeKey>,
    passphrase: Source,
    /// Volume keys are enough, unless a passphrase was named.
    asks: bool,
}

impl Given {
    pub fn of(args: &ReencryptArgs, output: &Output) -> Result<Self, Failure> {
        // What a device gave has a keyslot.
        let new = args.new_volume_key_file.as_ref().filter(|file| !secrets::is_endless(file));
        let files = [args.volume_key_file.as_ref(), new];
        Self::from(files.into_iter().flatten(), &args.passphrase, output)
    }

    fn from<'f>(
        files: impl Iterator<Item = &'f PathBuf>,
        passphrase: &PassphraseArgs,
        output: &Output,
    ) -> Result<Self, Failure> {
        let volume_keys: Result<Vec<VolumeKey>, Failure> =
            files.map(|file| secrets::read_volume_key(file, output)).collect();
        let (volume_keys, passphrase) = (volume_keys?, Source::from(passphrase));
        let asks = volume_keys.is_empty() || !passphrase.is_prompt();
        Ok(Self { volume_keys, passphrase, asks })
    }

    /// Tries them, and asks for a passphrase as often as it takes.
    pub fn with<T>(
        &self,
        path: &Path,
        output: &Output,
        mut attempt: impl FnMut(ReencryptKeys<'_>) -> Result<T, ReencryptError>,
    ) -> Result<T, Failure> {
        let keys = ReencryptKeys::of_volume_keys(&self.volume_keys);
        if !self.asks {
            return attempt(keys).map_err(|error| Failure::from(error).at(path));
        }
        with_passphrase(&self.passphrase, path, output, |passphrase| {
            attempt(ReencryptKeys { passphrase: Some(passphrase), ..keys })
        })
    }

    /// Unlocks what is done: by the first volume key that is its own, or a passphrase.
    pub fn unlock(
        &self,
        luks2: &Luks2,
        devices: Devices<'_>,
        options: &UnlockOptions,
        path: &Path,
        output: &Output,
    ) -> Result<Volume, Failure> {
        let mut told = UnlockError::WrongVolumeKey;
        for key in &self.volume_keys {
            match luks2.unlock_with_key(devices, key, options) {
                Ok(volume) => return Ok(volume),
                Err(error) => told = error,
            }
        }
        if !self.asks {
            return Err(Failure::from(told).at(path));
        }
        with_passphrase(&self.passphrase, path, output, |passphrase| {
            luks2.unlock(devices, passphrase, options)
        })
    }
}

/// Whether the header says that one is in progress. What can't be read says nothing; whoever begins one is told why.
fn is_begun(args: &ReencryptArgs, data: &Device) -> bool {
    let locked = match &args.header {
        Some(header) => open_device(header, Access::ReadOnly).ok().map(|header| LockedVolume::read(&header)),
        None => Some(LockedVolume::read(data)),
    };
    let in_progress =
        |locked: LockedVolume| is_marked(&locked) || locked.luks2().is_some_and(Luks2::was_luks1);
    locked.is_some_and(|locked| locked.is_ok_and(in_progress))
}

/// Whether the header says that one is in progress.
pub fn is_marked(locked: &LockedVolume) -> bool {
    locked.info().requirements.iter().any(|name| name.contains("reencrypt"))
}

fn decrypt(args: &ReencryptArgs, data: &Device, output: &Output) -> Result<(), Failure> {
    let path = &args.path;
    let Some(header_path) = &args.header else {
        return Err(Failure::parameters("--decrypt needs --header FILE, where the header is kept meanwhile"));
    };
    let exports = header_path.symlink_metadata().is_err();
    let source = match exports {
        true => LockedVolume::read(data).map_err(|error| no_header(error, data).at(path))?,
        false => {
            let kept = open_device(header_path, Access::ReadOnly)?;
            LockedVolume::read(&kept).map_err(|error| no_header(error, &kept).at(header_path))?
        }
    };
    let Some(luks2) = source.luks2() else { return Err(not_luks2().at(path)) };
    let options = decrypt_options(args)?;
    confirm_part(args.zones.device_size, output)?;
    confirm_decryption(path, header_path, output)?;
    let stop = Stop::on_signals()?;
    // What opens nothing must leave no file behind.
    let key =
        args.volume_key_file.as_deref().map(|file| secrets::read_volume_key(file, output)).transpose()?;
    if let Some(key) = &key {
        luks2.check_volume_key(key).map_err(|error| Failure::from(error).at(path))?;
    }
    let mut right = None;
    if key.is_none() {
        with_passphrase(&Source::from(&args.passphrase), path, output, |passphrase| {
            let device: &dyn Media = data;
            if exports {
                luks2.volume_key(device, passphrase, args.key_slot)?;
            }
            right = Some(Passphrase::copy_from(passphrase.expose()));
            Ok::<(), UnlockError>(())
        })?;
    }
    if exports {
        export_header(data, path, header_path)?;
    }
    let header = detached(Some(header_path), path, EXCLUSIVE)?;
    let credential = match (&key, &right) {
        (Some(key), _) => Credential::VolumeKey(key),
        (None, Some(right)) => Credential::Passphrase(right, args.key_slot),
        (None, None) => return Err(Failure::parameters("there is no passphrase to try").at(path)),
    };
    let spinner = progress::spinner("deriving the key", output);
    let begun = luks2.begin_decryption(devices(data, header.as_ref()), credential, &options);
    spinner.finish_and_clear();
    let rewriting = begun.map_err(|error| Failure::from(error).at(path))?;
    match args.init_only {
        true => begun_only(&rewriting, path, output),
        false => rewrite(rewriting, path, &args.zones, None, &stop, output),
    }
}

/// Copies the header in front of the data to a file of its own, which must not be there.
pub fn export_header(data: &Device, path: &Path, header: &Path) -> Result<(), Failure> {
    let backup = header_backup(data).map_err(|error| Failure::from(error).at(path))?;
    let failed = |error| Failure::from(error).at(header);
    let file = NewFile::create(header, backup.len() as u64).map_err(failed)?;
    file.device().write_at(0, &backup).and_then(|()| file.device().flush()).map_err(failed)?;
    file.appear().map_err(failed)
}

/// Asks before a volume becomes plaintext whose header is kept elsewhere meanwhile.
pub fn confirm_decryption(path: &Path, header: &Path, output: &Output) -> Result<(), Failure> {
    output.confirm(&format!(
        "{} becomes plaintext; until that is done it can't be read without {}",
        path.display(),
        header.display()
    ))
}

pub fn decrypt_options(args: &ReencryptArgs) -> Result<DecryptOptions, Failure> {
    Ok(DecryptOptions {
        resilience: resilience(&args.zones),
        hash: args.zones.resilience_hash.as_deref().map(options::hash).transpose()?,
        head: args.zones.hotzone_size,
        part: args.zones.device_size,
        keyslot: options::keyslot(&args.pbkdf, None, None)?,
        overwrite_front: false,
    })
}

/// Begins the decryption of a volume whose header lies elsewhere, and tells the passphrase, if there was one.
pub fn begin_decryption<'a>(
    args: &ReencryptArgs,
    luks2: &Luks2,
    devices: Devices<'a>,
    output: &Output,
) -> Result<(Rewriting<'a>, Option<Passphrase>), Failure> {
    let path = &args.path;
    let options = decrypt_options(args)?;
    output.confirm(&format!("{} becomes plaintext", path.display()))?;
    let at = |error: ReencryptError| Failure::from(error).at(path);
    if let Some(file) = &args.volume_key_file {
        let key = secrets::read_volume_key(file, output)?;
        let begun = luks2.begin_decryption(devices, Credential::VolumeKey(&key), &options);
        return Ok((begun.map_err(at)?, None));
    }
    let mut right = None;
    with_passphrase(&Source::from(&args.passphrase), path, output, |passphrase| {
        luks2.volume_key(devices.header, passphrase, args.key_slot)?;
        right = Some(Passphrase::copy_from(passphrase.expose()));
        Ok::<(), UnlockError>(())
    })?;
    let Some(right) = right else {
        return Err(Failure::parameters("there is no passphrase to try").at(path));
    };
    let credential = Credential::Passphrase(&right, args.key_slot);
    let begun = luks2.begin_decryption(devices, credential, &options).map_err(at)?;
    Ok((begun, Some(right)))
}

pub fn not_luks2() -> Failure {
    Failure::new(
        Code::Device,
        "a LUKS1 volume is neither decrypted in place nor re-encrypted while it is served",
    )
    .hint("`atrest convert --type luks2` makes it LUKS2 first; or copy it into a new volume")
}

/// What --init-only says.
pub fn begun_only(rewriting: &Rewriting<'_>, path: &Path, output: &Output) -> Result<(), Failure> {
    let total = rewriting.total();
    output.done(
        &json!({ "event": "begun", "bytes": total }),
        &format!("{}: begun; {} are to be done", path.display(), Bytes(total)),
    )
}

pub fn encrypt_in_place(args: &EncryptArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.source;
    if args.volume.is_some() {
        return Err(Failure::parameters("--in-place encrypts SRC itself: there is no second path"));
    }
    if args.unlock.kind != VolumeType::Luks {
        return Err(Failure::parameters("--in-place makes LUKS2 volumes only"));
    }
    let (unlock, plain) = (&args.unlock, &args.unlock.plain);
    let unused = unlock.size.is_some()
        || unlock.store.is_some()
        || unlock.secret.volume_key_keyring.is_some()
        || unlock.allow_equal_xts_halves
        || unlock.single_snapshot
        || unlock.without_freshness
        || plain.offset.is_some()
        || plain.skip.is_some()
        || plain.iv_large_sectors
        || args.how.no_checkpoint;
    if unused {
        return Err(Failure::parameters(
            "an option of another kind of volume, or of the copy into one, is given with --in-place",
        )
        .hint("`atrest encrypt --help` lists those for --in-place"));
    }
    let reduction = args.in_place.reduce_device_size.unwrap_or(DEFAULT_REDUCTION);
    let shift = reduction / 2;
    if !reduction.is_multiple_of(8192) {
        return Err(Failure::parameters("--reduce-device-size must be a multiple of 8192 bytes"));
    }
    if reduction < LEAST_REDUCTION {
        return Err(Failure::parameters(format!(
            "--reduce-device-size must be at least {LEAST_REDUCTION}, of which the header takes half"
        ))
        .hint("the header has room for its keyslots with 32M, as without the option; --header FILE needs no room on the device"));
    }
    if args.in_place.data_offset.is_some() && args.unlock.header.is_none() {
        return Err(Failure::parameters("--data-offset is for data whose header is elsewhere").hint(
            "--header FILE names the place of the header; without it the data moves by half of --reduce-device-size",
        ));
    }
    let (zones, secret) = (&args.in_place.zones, &args.unlock.secret);
    if args.how.resume {
        let given = Given::from(secret.volume_key_file.iter(), &secret.passphrase, output)?;
        let data = open_device(path, Access::ReadWriteExclusive)?;
        let header = detached(args.unlock.header.as_deref(), path, EXCLUSIVE)?;
        return resume(path, &data, header.as_ref(), &given, zones, Some(shift), output);
    }
    let data = open_device(path, Access::ReadWriteExclusive)?;
    if args.unlock.header.is_none()
        && interrupted_conversion(&data, shift).map_err(|error| Failure::from(error).at(path))?.is_some()
    {
        return Err(Failure::new(
            Code::Device,
            "the header was being put in front of the data when it stopped",
        )
        .at(path)
        .hint("--resume completes it"));
    }
    refuse_volumes(&data, path)?;
    let mut options = encrypt_options(args)?;
    if let Some(file) = &secret.volume_key_file {
        if args.in_place.no_keyslots {
            secrets::check_kept(file)?;
        }
        let len = options.format.volume_key_len();
        options.format.volume_key = Some(secrets::read_volume_key_of(file, len, output)?);
    }
    let stop = Stop::on_signals()?;
    let given = options.format.volume_key.as_ref().map(|key| VolumeKey::copy_from(key.expose()));
    if let Some(name) = &args.in_place.dm {
        dm::check_free(name)?;
    }
    let passphrase = match &args.unlock.header {
        Some(header) => encrypt_detached(args, &data, header, options, &stop, output)?,
        None => encrypt_shifted(args, &data, reduction, options, &stop, output)?,
    };
    let Some(name) = &args.in_place.dm else { return Ok(()) };
    drop(data);
    let volume_keys: Vec<VolumeKey> = given.into_iter().collect();
    let keys = ReencryptKeys { volume_keys: &volume_keys, passphrase: passphrase.as_ref() };
    reencrypt_mapped::map_and_go_on(args, name, keys, &stop, output)
}

/// Goes on with an encryption that has begun, unless somebody else is to.
fn begun_encryption(
    rewriting: Rewriting<'_>,
    args: &EncryptArgs,
    stop: &Stop,
    output: &Output,
) -> Result<(), Failure> {
    match (&args.in_place.dm, args.in_place.init_only) {
        // It is mapped first.
        (Some(_), _) => Ok(()),
        (None, true) => begun_only(&rewriting, &args.source, output),
        (None, false) => {
            rewrite(rewriting, &args.source, &args.in_place.zones, args.how.threads, stop, output)
        }
    }
}

fn encrypt_detached(
    args: &EncryptArgs,
    data: &Device,
    header: &Path,
    mut options: EncryptOptions,
    stop: &Stop,
    output: &Output,
) -> Result<Option<Passphrase>, Failure> {
    if is_same(header, &args.source) {
        return Err(Failure::parameters("--header names the data itself").at(header));
    }
    if args.in_place.reduce_device_size.is_some() {
        return Err(Failure::parameters("with --header the data stays where it is: nothing is reduced"));
    }
    confirm_part(args.in_place.zones.device_size, output)?;
    let path = &args.source;
    options.format.data_offset = args.in_place.data_offset.filter(|offset| *offset > 0);
    let (from, header_size) = match options.format.data_offset {
        None => (String::new(), HEADER_SIZE),
        // No larger than what lies in front of the data, where it may be put one day.
        Some(offset) => (format!(" from byte {offset} on"), offset.min(HEADER_SIZE)),
    };
    if header_size == HEADER_SIZE {
        options.format.keyslots_size = Some(HEADER_SIZE - HEADER_COPIES);
    }
    output.confirm(&format!(
        "{} is encrypted{from}; without {} and the passphrase it can't be read any more",
        path.display(),
        header.display()
    ))?;
    let passphrase = new_passphrase(args, output)?;
    let file = NewFile::create(header, header_size).map_err(|error| Failure::from(error).at(header))?;
    let shared = file.shared();
    let spinner = progress::spinner("measuring and deriving the key", output);
    let begun = begin(Devices::detached(&*shared, data), passphrase.as_ref(), options);
    spinner.finish_and_clear();
    let rewriting = begun.map_err(|error| Failure::from(error).at(path))?;
    // Nothing is encrypted before the header is there to stay.
    file.appear().map_err(|error| Failure::from(error).at(header))?;
    begun_encryption(rewriting, args, stop, output)?;
    Ok(passphrase)
}

fn encrypt_shifted(
    args: &EncryptArgs,
    data: &Device,
    reduction: u64,
    mut options: EncryptOptions,
    stop: &Stop,
    output: &Output,
) -> Result<Option<Passphrase>, Failure> {
    let (path, zones) = (&args.source, &args.in_place.zones);
    if zones.resilience.is_some() || zones.resilience_hash.is_some() || zones.hotzone_size.is_some() {
        return Err(Failure::parameters(
            "--resilience and --hotzone-size are for --header: data that moves needs no copy, and moves by what is reduced",
        ));
    }
    // intended: of a device that is no longer than that, nothing may be in use.
    let least = data.size().saturating_sub(reduction);
    let found = reach::of(data).map_err(|error| Failure::from(error).at(path))?;
    let free = format!(
        "the last {reduction} bytes of {} are overwritten, and the rest is encrypted",
        path.display()
    );
    match found {
        Some(Reach { bytes, .. }) if bytes <= least => output.confirm(&free)?,
        Some(Reach { name, bytes, .. }) => {
            let failure = Failure::new(
                Code::Device,
                format!(
                    "the {name} on it has {bytes} bytes and reaches into the last {reduction}, which the header needs"
                ),
            );
            let hint = match data.is_disk() {
                true => reach::how_to_shrink(name, path.display(), least),
                // Of a fixed length: said twice, it is done once.
                false => format!(
                    "make the file longer, which changes nothing in it: truncate -s {} {}",
                    // intended: a file that says that it reaches further than any is shown the largest length.
                    bytes.saturating_add(reduction),
                    path.display()
                ),
            };
            return Err(failure.at(path).hint(hint));
        }
        None => {
            output.confirm(&format!("it is not known what is on it, and how far that reaches; {free}"))?
        }
    }
    let passphrase = new_passphrase(args, output)?;
    options.format.data_offset = Some(reduction / 2);
    let spinner = progress::spinner("deriving the key and moving the head of the data", output);
    let begun = begin(Devices::together(data), passphrase.as_ref(), options);
    // Now, since cryptsetup does not do it if it goes on with this: the head of the data was there.
    let begun = begun.and_then(|rewriting| rewriting.bury_head().map(|()| rewriting));
    spinner.finish_and_clear();
    let rewriting = begun.map_err(|error| no_room_behind(error, reduction).at(path))?;
    begun_encryption(rewriting, args, stop, output)?;
    Ok(passphrase)
}

/// What can be reduced, where that much can't be.
fn no_room_behind(error: ReencryptError, reduction: u64) -> Failure {
    let ReencryptError::NoSpaceBehind { has, .. } = error else { return error.into() };
    // intended: something must remain, and nothing remains of nothing. With the least reduction the note of what was moved needs room in that.
    let most = has.saturating_sub(1) / LEAST_REDUCTION * LEAST_REDUCTION;
    if reduction > most && most > LEAST_REDUCTION {
        return Failure::parameters(format!("{has} bytes are too few for --reduce-device-size {reduction}"))
            .hint(format!(
                "--reduce-device-size {most} is the most there; --header FILE needs no room on the device"
            ));
    }
    error.into()
}

/// That of the first keyslot, if there is to be one.
fn new_passphrase(args: &EncryptArgs, output: &Output) -> Result<Option<Passphrase>, Failure> {
    if args.in_place.no_keyslots {
        return Ok(None);
    }
    let prompt = format!("New passphrase for {}", args.source.display());
    Source::from(&args.unlock.secret.passphrase).read_new(&prompt, output).map(Some)
}

fn begin<'a>(
    devices: Devices<'a>,
    passphrase: Option<&Passphrase>,
    options: EncryptOptions,
) -> Result<Rewriting<'a>, ReencryptError> {
    match passphrase {
        Some(passphrase) => begin_encryption(devices, passphrase, options),
        None => begin_encryption_with_key(devices, options),
    }
}

/// What is encrypted already stays as it is.
fn refuse_volumes(data: &Device, path: &Path) -> Result<(), Failure> {
    if let Some(failure) = set_aside(data) {
        return Err(failure.at(path));
    }
    match LockedVolume::read(data) {
        Err(OpenError::NotLuks) => Ok(()),
        Ok(locked) if locked.info().requirements.iter().any(|name| name.contains("reencrypt")) => {
            Err(Failure::new(Code::Device, "an encryption is in progress on it")
                .at(path)
                .hint("--resume goes on with it"))
        }
        Ok(_) => Err(Failure::new(Code::Busy, "it is a LUKS volume already")
            .at(path)
            .hint("`atrest reencrypt` gives it another key or cipher")),
        Err(error) => Err(Failure::from(error).at(path)),
    }
}

fn resume(
    path: &Path,
    data: &Device,
    header: Option<&Device>,
    given: &Given,
    zones: &ZoneArgs,
    shift: Option<u64>,
    output: &Output,
) -> Result<(), Failure> {
    let devices = devices(data, header);
    let at = |error: ReencryptError| Failure::from(error).at(path);
    if header.is_none()
        && let Some(failure) = set_aside(data)
    {
        return Err(failure.at(path));
    }
    if LockedVolume::read(devices.header).is_err() && header.is_none() {
        let shift = shift.unwrap_or(DEFAULT_REDUCTION / 2);
        if let Some(conversion) = interrupted_conversion(data, shift).map_err(at)? {
            conversion.complete(data).map_err(at)?;
        }
    }
    let locked = LockedVolume::read(devices.header).map_err(|error| {
        Failure::from(error).at(path).hint("if it stopped before a header was there, nothing is lost: start again without --resume (with the same --reduce-device-size)")
    })?;
    let Some(luks2) = locked.luks2() else {
        return Err(Failure::parameters("no re-encryption of this LUKS1 volume is in progress")
            .at(path)
            .hint("it has not begun, or is done; without --resume it is begun"));
    };
    let was_luks1 = luks2.was_luks1();
    if was_luks1 && !is_marked(&locked) {
        return match reencrypt_luks1::end_interrupted(luks2, data, header, path)? {
            true => output.done(&json!({ "event": "done" }), &format!("{}: all was done", path.display())),
            false => Err(Failure::parameters("the re-encryption of this LUKS1 volume had not begun")
                .at(path)
                .hint("nothing is lost: start it again without --resume")),
        };
    }
    let stop = Stop::on_signals()?;
    let mut rewriting = given.with(path, output, |keys| luks2.resume_reencryption_with(devices, keys))?;
    if let Some(part) = zones.device_size {
        confirm_part(Some(part), output)?;
        rewriting.limit_to(part).map_err(at)?;
    }
    rewrite(rewriting, path, zones, None, &stop, output)?;
    match was_luks1 {
        true => reencrypt_luks1::end(data, header, path),
        false => Ok(()),
    }
}

pub fn rewrite(
    rewriting: Rewriting<'_>,
    path: &Path,
    zones: &ZoneArgs,
    threads: Option<u16>,
    stop: &Stop,
    output: &Output,
) -> Result<(), Failure> {
    rewrite_beside(rewriting, path, zones, threads, None, stop, output)
}

/// Rewrites what is left while `served` has the volume open, if somebody has.
pub fn rewrite_beside(
    mut rewriting: Rewriting<'_>,
    path: &Path,
    zones: &ZoneArgs,
    threads: Option<u16>,
    served: Option<&dyn Served>,
    stop: &Stop,
    output: &Output,
) -> Result<(), Failure> {
    let mut options = RewriteOptions::default();
    options.threads = threads.map_or(0, usize::from);
    // intended: 0 leaves the size to the rewriting.
    options.zone = zones.hotzone_size.unwrap_or(if served.is_some() { MAPPED_ZONE } else { 0 });
    options.online = served;
    options.cancel = Some(stop.asked());
    let counter = Arc::new(AtomicU64::new(0));
    options.written = Some(&counter);
    let meter = Meter::beside(path, rewriting.total(), counter.clone(), output);
    let mut listener = Listener { meter, output, last: Instant::now() };
    let result = run(&mut rewriting, options, &mut listener);
    listener.meter.finish();
    let Rewritten { bytes, resumed_from, recovered, elapsed } = result.map_err(|error| {
        let code = matches!(error, RewriteError::Cancelled { .. }).then(|| stop.code()).flatten();
        Failure::from(error).at(path).with_code(code)
    })?;
    let seconds = elapsed.as_secs_f64();
    // cannot overflow: it began where it was resumed.
    let rate = bytes.saturating_sub(resumed_from) as f64 / seconds.max(1e-9);
    if output.is_json() {
        return output.json_line(&json!({
            "event": "summary",
            "bytes": bytes,
            "resumed_from": resumed_from,
            "recovered": recovered,
            "seconds": seconds,
            "bytes_per_second": rate as u64,
        }));
    }
    let (bytes, rate) = (Bytes(bytes), rate / 1_048_576.0);
    output.done(&(), &format!("{}: {bytes} in {seconds:.1} s, {rate:.0} MiB/s", path.display()))
}

struct Listener<'a> {
    meter: Meter,
    output: &'a Output,
    last: Instant,
}

impl Progress for Listener<'_> {
    fn update(&mut self, done: u64, total: u64) {
        self.meter.set(done);
        if self.output.is_json() && self.last.elapsed() >= Duration::from_secs(1) {
            self.last = Instant::now();
            // A reader that went away is reported by the summary.
            let _ = self.output.json_line(&json!({ "event": "progress", "done": done, "total": total }));
        }
    }
}

pub fn detached(header: Option<&Path>, data: &Path, access: Access) -> Result<Option<Device>, Failure> {
    if header.is_some_and(|header| is_same(header, data)) {
        return Err(Failure::parameters("--header names the volume itself; leave it out").at(data));
    }
    header.map(|path| open_device(path, access)).transpose()
}

fn devices<'a>(data: &'a Device, header: Option<&'a Device>) -> Devices<'a> {
    Devices::with_header(header.map(|header| header as &dyn Media), data)
}

pub fn reencrypt_options(
    args: &ReencryptArgs,
    locked: &LockedVolume,
    output: &Output,
) -> Result<ReencryptOptions, Failure> {
    let key = match &args.new_volume_key_file {
        None if args.keep_key && locked.luks2().is_none() => NewKey::Anew,
        None if args.keep_key => NewKey::Keep,
        None => NewKey::Random,
        Some(file) => match options::key_len(args.key_size) {
            None => match old_key_len(locked) {
                Some(len) => NewKey::Given(secrets::read_volume_key_of(file, len, output)?),
                None => NewKey::Given(secrets::read_volume_key(file, output)?),
            },
            Some(len) => {
                let key = secrets::read_volume_key_of(file, len, output)?;
                if key.len() != len {
                    return Err(
                        Failure::parameters("the file has another number of bits than --key-size").at(file)
                    );
                }
                NewKey::Given(key)
            }
        },
    };
    Ok(ReencryptOptions {
        cipher: args.cipher.as_deref().map(options::cipher).transpose()?,
        key_len: options::key_len(args.key_size),
        data_unit: args.sector_size,
        key,
        without_keyslots: args.no_keyslots,
        part: args.zones.device_size,
        shift: args.reduce_device_size,
        resilience: resilience(&args.zones),
        hash: args.zones.resilience_hash.as_deref().map(options::hash).transpose()?,
        drop_slots: match args.drop_others {
            true => locked.info().keyslots.iter().map(|slot| slot.id).collect(),
            false => args.drop_slot.clone(),
        },
        keyslot: options::keyslot(&args.pbkdf, None, None)?,
    })
}

/// Bytes in the volume key that there is: what is taken of a device such as /dev/urandom.
fn old_key_len(locked: &LockedVolume) -> Option<usize> {
    let segment = locked.info().segments.first().and_then(|segment| segment.key_len);
    // intended: no key is so long.
    segment.and_then(|bytes| usize::try_from(bytes).ok())
}

fn encrypt_options(args: &EncryptArgs) -> Result<EncryptOptions, Failure> {
    let (unlock, place) = (&args.unlock, &args.in_place);
    let keyslot = options::keyslot(&place.pbkdf(unlock.plain.hash.as_ref()), unlock.key_slot, None)?;
    let format = FormatOptions {
        cipher: unlock.plain.cipher.as_deref().map(options::cipher).transpose()?,
        key_len: options::key_len(unlock.plain.key_size),
        data_unit: unlock.plain.sector_size,
        hash: keyslot.pbkdf.hash,
        uuid: place.uuid.clone(),
        label: place.label.clone(),
        keyslot,
        ..FormatOptions::default()
    };
    let hash = place.zones.resilience_hash.as_deref().map(options::hash).transpose()?;
    Ok(EncryptOptions { format, resilience: resilience(&place.zones), hash, part: place.zones.device_size })
}

/// What lies behind a part has no key afterwards.
pub fn confirm_part(part: Option<u64>, output: &Output) -> Result<(), Failure> {
    match part {
        Some(part) => output.confirm(&format!(
            "what lies behind the first {part} bytes of the data can't be read afterwards"
        )),
        None => Ok(()),
    }
}

fn resilience(zones: &ZoneArgs) -> ResilienceKind {
    match zones.resilience {
        None | Some(ResilienceArg::Checksum) => ResilienceKind::Checksum,
        Some(ResilienceArg::Journal) => ResilienceKind::Journal,
        Some(ResilienceArg::None) => ResilienceKind::None,
    }
}
