//! `atrest reencrypt --online` of a volume that the kernel has open: its mapping follows, zone by zone.

use std::path::Path;

use atrest_attach::dm::{self, DmError, Keys, Left, Mapping, Remapped, Trial};
use atrest_device::{BlockDevice, Media};
use atrest_engine::reencrypt::{RewriteError, Served};
use atrest_engine::{Access, ReencryptionLock};
use atrest_format::luks2::{ReencryptMode, SegmentKind, SegmentSize};
use atrest_open::{Device, Held};
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::{ReencryptError, ReencryptKeys, Rewriting, SegmentKeys, Zone};
use atrest_volume::{
    Credential, Devices, LockedVolume, Protection, Segment, UnlockError, UnlockOptions, Volume, VolumeFormat,
};
use serde_json::json;

use super::bulk::Stop;
use super::options;
use super::reencrypt::{
    Given, begin_reencryption, begun_only, confirm_decryption, confirm_part, decrypt_options, detached,
    export_header, is_marked, not_luks2, rewrite_beside,
};
use super::target::{forget_failed_writes, no_header, open_device, with_passphrase};
use crate::args::bulk::EncryptArgs;
use crate::args::reencrypt::{ReencryptArgs, ZoneArgs};
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::{self, Source};

/// The mapping of a path, or the one of that name. Where a name is that of a mapping, and of a file that is something else, nobody
/// guesses.
pub fn find_or_named(path: &Path) -> Result<Option<Mapping>, Failure> {
    let named = super::mapping::find(path)?.into_iter().next();
    let found = match (&named, path.exists()) {
        (Some(_), false) => None,
        _ => super::mapping::of(path)?,
    };
    match (named, found) {
        (Some(named), Some(found)) if named.name == found.name => Ok(Some(found)),
        (Some(named), _) if path.exists() => Err(ambiguous(&named.name)),
        (named, found) => Ok(found.or(named)),
    }
}

fn ambiguous(name: &str) -> Failure {
    Failure::parameters(format!("{name} is a mapping, and something else in this directory"))
        .hint(format!("name /dev/mapper/{name} or ./{name}"))
}

pub fn reencrypt(args: &ReencryptArgs, mapping: &Mapping, output: &Output) -> Result<(), Failure> {
    // cannot overflow: the kernel counts bytes in 64 bits, too.
    let size = mapping.sectors.saturating_mul(512);
    if args.zones.device_size.is_some_and(|asked| asked != size) {
        return Err(Failure::parameters(format!("{} has {size} bytes, and all of it is open", mapping.name))
            .hint("--device-size can name no other size; `atrest resize` changes the mapping's"));
    }
    if args.reduce_device_size.is_some() {
        return Err(
            Failure::parameters("the data of a mapping can't move: it is open").hint("close it first")
        );
    }
    if let Some(header) = args.header.as_deref().filter(|header| header.symlink_metadata().is_err())
        && args.decrypt
    {
        return decrypt_over_header(args, mapping, header, output);
    }
    let path = mapping.source();
    let at = |failure: Failure| failure.at(path);
    forget_failed_writes(path);
    let data = open_device(path, Access::ReadWrite)?;
    let header = detached(args.header.as_deref(), path, Access::ReadWrite)?;
    let devices = Devices::with_header(header.as_ref().map(|header| header as &dyn Media), &data);
    let read = || {
        let on = header.as_ref().unwrap_or(&data);
        LockedVolume::read(devices.header).map_err(|error| at(no_header(error, on)))
    };
    let locked = read()?;
    let Some(luks2) = locked.luks2() else { return Err(at(not_luks2())) };
    dm::check_volume(mapping, luks2.uuid())?;
    let lock = ReencryptionLock::take(luks2.uuid());
    let lock = lock.map_err(|cause| at(Failure::new(Code::Device, cause)))?;
    let _lock = lock.ok_or_else(|| at(UnlockError::ReencryptionRuns.into()))?;
    let stop = Stop::on_signals()?;
    let given = Given::of(args, output)?;
    let resumes = args.resume || args.resume_if_begun;
    if !is_marked(&locked) {
        match dm::left(mapping)? {
            // Whoever decrypted it was killed when the mapping alone was left to close.
            Left::Whole if resumes && plaintext_offset(luks2).is_some() => {
                dm::close_deferred(&mapping.name)?;
                return output.done(
                    &json!({ "name": mapping.name, "reencryption": "done" }),
                    &format!("{} is closed: all of it is plaintext", mapping.name),
                );
            }
            Left::Whole => {}
            // Its key is to come back first, and nothing of it was re-encrypted.
            Left::Suspended => return Err(DmError::Suspended { name: mapping.name.clone() }.into()),
            Left::CutOff if resumes => {
                return settle(&given, mapping, luks2, devices, &stop, output);
            }
            Left::CutOff => return Err(at(cut_off())),
        }
    }
    let begun = match is_marked(&locked) {
        true => {
            check_sector_size(new_sector_size(luks2), mapping)?;
            None
        }
        false if args.resume => {
            return Err(at(Failure::parameters("no re-encryption of this volume is in progress")));
        }
        false if args.decrypt && (header.is_none() || !begins_at_the_start(luks2)) => {
            return Err(at(Failure::parameters(
                "with this header, which lies elsewhere already, the volume is decrypted while it is closed",
            )
            .hint("close it first; or name a file that is not there yet, to which the header in front of the data goes")));
        }
        false if args.decrypt => {
            check_can_follow(args, mapping, luks2, &data, None)?;
            let args = &of_part(args, part(luks2, &data, size));
            let (begun, passphrase) = super::reencrypt::begin_decryption(args, luks2, devices, output)?;
            drop(begun);
            Some(passphrase)
        }
        false => {
            check_sector_size(args.sector_size, mapping)?;
            let trial = trial(args, mapping)?;
            check_can_follow(args, mapping, luks2, &data, Some(&trial))?;
            let args = &of_part(args, part(luks2, &data, size));
            let (begun, passphrase) = begin_reencryption(args, &locked, luks2, devices, output)?;
            drop(begun);
            Some(passphrase)
        }
    };
    let read = Luks2::read(devices.header).map_err(|error| at(error.into()))?;
    let resume = |keys: ReencryptKeys<'_>| read.resume_reencryption_for_kernel(devices, keys);
    let (mut rewriting, old, new) = match &begun {
        Some(passphrase) => {
            let keys = ReencryptKeys { volume_keys: &given.volume_keys, passphrase: passphrase.as_ref() };
            resume(keys).map_err(|error| at(error.into()))?
        }
        None => given.with(path, output, resume)?,
    };
    if args.init_only {
        return begun_only(&rewriting, path, output);
    }
    if size < rewriting.total() {
        // Asked already where it has begun just now.
        confirm_part(begun.is_none().then_some(size), output)?;
        rewriting.limit_to(size).map_err(|error| at(error.into()))?;
    }
    go_on(mapping, rewriting, Keys { old, new }, args.header.as_deref(), &args.zones, &stop, output)
}

/// Begins to decrypt a volume whose header lies in front of its data, and goes on with it. The header goes to a file, and the head of the
/// data over it while all I/O of the mapping waits.
fn decrypt_over_header(
    args: &ReencryptArgs,
    mapping: &Mapping,
    header_path: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let path = mapping.source();
    let at = |failure: Failure| failure.at(path);
    forget_failed_writes(path);
    let data = open_device(path, Access::ReadWrite)?;
    let locked = LockedVolume::read(&data).map_err(|error| at(no_header(error, &data)))?;
    let Some(luks2) = locked.luks2() else { return Err(at(not_luks2())) };
    dm::check_volume(mapping, luks2.uuid())?;
    let lock = ReencryptionLock::take(luks2.uuid());
    let lock = lock.map_err(|cause| at(Failure::new(Code::Device, cause)))?;
    let _lock = lock.ok_or_else(|| at(UnlockError::ReencryptionRuns.into()))?;
    if is_marked(&locked) {
        return Err(at(ReencryptError::InProgress.into()));
    }
    match dm::left(mapping)? {
        Left::Whole => {}
        Left::Suspended => return Err(DmError::Suspended { name: mapping.name.clone() }.into()),
        Left::CutOff => return Err(at(cut_off())),
    }
    if part(luks2, &data, mapping.sectors * 512).is_some() {
        return Err(at(Failure::parameters(
            "all data of it moves, and the mapping shows a part of it alone",
        )
        .hint("`atrest resize` without a size lets it show all")));
    }
    check_can_follow(args, mapping, luks2, &data, None)?;
    let options = decrypt_options(args)?;
    confirm_decryption(path, header_path, output)?;
    let stop = Stop::on_signals()?;
    // What opens nothing must leave no file behind.
    let key = match args.volume_key_file.as_deref() {
        Some(file) => secrets::read_volume_key(file, output)?,
        None => with_passphrase(&Source::from(&args.passphrase), path, output, |passphrase| {
            luks2.volume_key(&data, passphrase, args.key_slot).map(|(_, key)| key)
        })?,
    };
    let unlock = UnlockOptions { keep_key: true, ..UnlockOptions::default() };
    let volume = luks2.unlock_with_key(Devices::together(&data), &key, &unlock);
    let volume = volume.map_err(|error| at(error.into()))?;
    export_header(&data, path, header_path)?;
    let header = open_device(header_path, Access::ReadWrite)?;
    let devices = Devices::detached(&header, &data);
    let _held = stop.hold();
    let paused = dm::pause(mapping, &volume)?;
    if let Err(error) = luks2.begin_decryption(devices, Credential::VolumeKey(&key), &options) {
        // Where the header does not say that it has begun, the data is where it was.
        if LockedVolume::read(devices.header).is_ok_and(|now| !is_marked(&now)) {
            paused.go_on()?;
            return Err(at(error.into()));
        }
        return Err(at(Failure::from(error)).hint(format!(
            "it has begun, and {} waits until `atrest reencrypt --resume --online {} --header {}` goes on with it",
            mapping.name,
            mapping.name,
            header_path.display()
        )));
    }
    let keys = [key];
    let read = Luks2::read(devices.header).map_err(|error| at(error.into()))?;
    let resumed = read.resume_reencryption_for_kernel(devices, ReencryptKeys::of_volume_keys(&keys));
    let (rewriting, old, new) = resumed.map_err(|error| at(error.into()))?;
    let keys = Keys { old, new };
    if args.init_only {
        drop(Remapped::new(&mapping.name, &rewriting, keys, Some(header_path))?);
        return begun_only(&rewriting, path, output);
    }
    go_on(mapping, rewriting, keys, Some(header_path), &args.zones, &stop, output)
}

fn cut_off() -> Failure {
    Failure::parameters("a re-encryption of it was cut off in its first or its last step")
        .hint("--resume lets it go on")
}

/// What is asked for, of so many bytes from the beginning alone. A beginning that leaves the data to somebody else is of all of it: the
/// mapping may have another size then.
fn of_part(args: &ReencryptArgs, part: Option<u64>) -> ReencryptArgs {
    let mut args = args.clone();
    args.zones.device_size = part.filter(|_| !args.init_only);
    args
}

/// The bytes of a mapping of `size` bytes, if its volume has more data than that.
fn part(luks2: &Luks2, data: &Device, size: u64) -> Option<u64> {
    data_size(luks2, data).is_some_and(|all| size < all).then_some(size)
}

/// Where the plaintext begins, if there is nothing else.
fn plaintext_offset(luks2: &Luks2) -> Option<u64> {
    match luks2.metadata().segments() {
        [only] if only.kind == SegmentKind::Linear => Some(only.offset),
        _ => None,
    }
}

/// Whoever re-encrypted it was killed when all was done but to let the mapping go on.
fn settle(
    given: &Given,
    mapping: &Mapping,
    luks2: &Luks2,
    devices: Devices<'_>,
    stop: &Stop,
    output: &Output,
) -> Result<(), Failure> {
    let plaintext = plaintext_offset(luks2);
    let volume = match plaintext {
        Some(media_offset) => {
            let len = mapping.sectors * 512;
            let all = Segment { start: 0, len, media_offset, protection: Protection::Identity };
            Volume::new(VolumeFormat::Luks2, vec![all]).with_uuid(luks2.uuid())
        }
        None => {
            let options = UnlockOptions { keep_key: true, ..UnlockOptions::default() };
            given.unlock(luks2, devices, &options, mapping.source(), output)?
        }
    };
    let held = stop.hold();
    dm::settle(mapping, &volume)?;
    drop(held);
    if plaintext.is_some() {
        dm::close_deferred(&mapping.name)?;
    }
    let name = &mapping.name;
    output.done(
        &json!({ "name": name, "reencryption": "done" }),
        &format!("{name} goes on, and no re-encryption of it is in progress"),
    )
}

/// Rewrites what is left, and the mapping follows.
fn go_on(
    mapping: &Mapping,
    rewriting: Rewriting<'_>,
    keys: Keys,
    header: Option<&Path>,
    zones: &ZoneArgs,
    stop: &Stop,
    output: &Output,
) -> Result<(), Failure> {
    let is_decryption = rewriting.mode() == ReencryptMode::Decrypt;
    let held = stop.hold();
    let remapped = Remapped::new(&mapping.name, &rewriting, keys, header)?;
    drop(held);
    let uncut = Uncut { remapped: &remapped, stop };
    let done = rewrite_beside(rewriting, mapping.source(), zones, None, Some(&uncut), stop, output);
    match remapped.take_error() {
        Some(error) => Err(error.into()),
        None if is_decryption && done.is_ok() => Ok(dm::close_deferred(&mapping.name)?),
        None => done,
    }
}

/// Lets no signal end the process while the mapping waits: what waits for it could not even be closed.
#[derive(Debug)]
struct Uncut<'a> {
    remapped: &'a Remapped,
    stop: &'a Stop,
}

impl Served for Uncut<'_> {
    fn enter(&self, rewriting: &Rewriting<'_>, zone: &Zone) -> Result<(), RewriteError> {
        self.stop.hold_on();
        self.remapped.enter(rewriting, zone)
    }

    fn leave(&self) -> Result<(), RewriteError> {
        let left = self.remapped.leave();
        // Otherwise it waits until `fail`.
        if left.is_ok() {
            self.stop.let_go();
        }
        left
    }

    fn fail(&self) {
        self.remapped.fail();
        self.stop.let_go();
    }

    fn is_elsewhere(&self) -> bool {
        self.remapped.is_elsewhere()
    }
}

/// Maps a volume whose encryption has begun, and goes on with it while it is open, unless that is left to somebody else.
pub fn map_and_go_on(
    args: &EncryptArgs,
    name: &str,
    keys: ReencryptKeys<'_>,
    stop: &Stop,
    output: &Output,
) -> Result<(), Failure> {
    let (path, header) = (&args.source, args.unlock.header.as_deref());
    let at = |failure: Failure| failure.at(path);
    let held = Held::open(path, header, true).map_err(|error| at(error.error.into()))?;
    let luks2 = Luks2::read(held.devices().header).map_err(|error| at(error.into()))?;
    let lock = ReencryptionLock::take(luks2.uuid());
    let lock = lock.map_err(|cause| at(Failure::new(Code::Device, cause)))?;
    let _lock = lock.ok_or_else(|| at(UnlockError::ReencryptionRuns.into()))?;
    let resumed = luks2.resume_reencryption_for_kernel(held.devices(), keys);
    let (rewriting, old, new) = resumed.map_err(|error| at(error.into()))?;
    let of_segments = SegmentKeys { old: old.as_ref(), new: new.as_ref(), keep: true };
    let volume = rewriting.as_it_is(&of_segments).map_err(|error| at(error.into()))?;
    let volume = volume.ok_or_else(|| at(DmError::NoKey.into()))?;
    drop(rewriting);
    let (media, kept) = held.into_devices();
    let media = media.into_file().map_err(|error| at(error.into()))?;
    dm::open(name, &volume, media, dm::Options::default()).map_err(|error| at(error.into()))?;
    drop((kept, volume));
    if args.in_place.init_only {
        return output.done(
            &json!({ "event": "ready", "name": name }),
            &format!("/dev/mapper/{name} is open, and its encryption has begun"),
        );
    }
    let mapping = super::mapping::find(Path::new(name))?.into_iter().next();
    let mapping = mapping.ok_or_else(|| at(DmError::NotOpen { name: name.into() }.into()))?;
    let data = open_device(mapping.source(), Access::ReadWrite)?;
    let header_device = detached(header, path, Access::ReadWrite)?;
    let devices = Devices::with_header(header_device.as_ref().map(|header| header as &dyn Media), &data);
    let resumed = luks2.resume_reencryption_for_kernel(devices, keys);
    let (rewriting, old, new) = resumed.map_err(|error| at(error.into()))?;
    go_on(&mapping, rewriting, Keys { old, new }, header, &args.in_place.zones, stop, output)
}

/// Whether the data begins where its device does, and no header lies in front of it.
fn begins_at_the_start(luks2: &Luks2) -> bool {
    luks2.metadata().segments().iter().all(|segment| segment.offset == 0)
}

/// What the mapping is to be encrypted with: as it is, but for what was asked for.
fn trial(args: &ReencryptArgs, mapping: &Mapping) -> Result<Trial, Failure> {
    let cipher = args.cipher.as_deref().map(options::cipher).transpose()?;
    let default = cipher.as_ref().map(|cipher| {
        let takes = cipher.key_lens();
        let usual = [64, 32].into_iter().find(|len| takes.contains(len));
        usual.or(takes.last().copied())
    });
    let key_len = options::key_len(args.key_size).or(default.flatten());
    Ok(Trial {
        cipher: cipher.map_or_else(|| mapping.cipher.clone(), |cipher| cipher.to_string()),
        key_len: key_len.unwrap_or(mapping.key_bits / 8),
        data_unit: args.sector_size.unwrap_or(mapping.sector_size),
    })
}

/// What would stop the re-encryption when the header says already that it has begun.
fn check_can_follow(
    args: &ReencryptArgs,
    mapping: &Mapping,
    luks2: &Luks2,
    data: &Device,
    new: Option<&Trial>,
) -> Result<(), Failure> {
    if let Some(digest) = luks2.metadata().digest_of_segment(0) {
        dm::check_key(mapping, luks2.uuid(), digest.id)?;
    }
    let Some(all) = data_size(luks2, data) else { return Ok(()) };
    // A part of it can be shown, and then that is what can follow.
    let size = all.min(mapping.sectors * 512);
    Ok(dm::check_can_follow(mapping, size, args.header.as_deref(), new)?)
}

/// The bytes of data of a volume that is one segment.
fn data_size(luks2: &Luks2, data: &Device) -> Option<u64> {
    let [segment] = luks2.metadata().segments() else { return None };
    match (segment.size, &segment.kind) {
        (SegmentSize::Fixed(size), _) => Some(size),
        (SegmentSize::Dynamic, SegmentKind::Crypt { sector_size, .. }) => {
            // intended: a device that ends before its data begins holds none, and has no mapping of this size.
            let room = data.size().saturating_sub(segment.offset);
            Some(room - room % u64::from(*sector_size).max(512))
        }
        _ => None,
    }
}

/// Of a re-encryption that has begun: the sector size afterwards.
fn new_sector_size(luks2: &Luks2) -> Option<u32> {
    let is_final = |flags: &[String]| flags.iter().any(|flag| flag == "backup-final");
    let segment = luks2.metadata().segments().iter().find(|segment| is_final(&segment.flags))?;
    match segment.kind {
        SegmentKind::Crypt { sector_size, .. } => Some(sector_size),
        _ => None,
    }
}

/// Whoever has a mapping open has been told its sector size.
fn check_sector_size(new: Option<u32>, mapping: &Mapping) -> Result<(), Failure> {
    match new {
        Some(size) if size > mapping.sector_size && mapping.in_use => Err(Failure::new(
            Code::Busy,
            format!("{} is in use, with sectors of {} bytes", mapping.name, mapping.sector_size),
        )
        .hint("larger ones would fail whoever writes single sectors: unmount it first")),
        _ => Ok(()),
    }
}
