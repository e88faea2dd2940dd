//! `atrest reencrypt --online` of a volume that the kernel has open: its mapping follows, zone by zone.

use std::path::Path;

use atrest_attach::dm::{self, DmError, Keys, Mapping, Remapped};
use atrest_device::Media;
use atrest_engine::{Access, ReencryptionLock};
use atrest_format::luks2::{ReencryptMode, SegmentKind};
use atrest_open::Held;
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::{ReencryptKeys, Rewriting, SegmentKeys};
use atrest_volume::{
    Devices, LockedVolume, Protection, Segment, UnlockError, UnlockOptions, Volume, VolumeFormat,
};
use serde_json::json;

use super::bulk::Stop;
use super::reencrypt::{
    Given, begin_reencryption, begun_only, detached, is_marked, not_luks2, rewrite_beside,
};
use super::target::{forget_failed_writes, no_header, open_device, with_passphrase};
use crate::args::bulk::EncryptArgs;
use crate::args::reencrypt::{ReencryptArgs, ZoneArgs};
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

/// The mapping of that name or path, or the one whose data lies on that device or in that file.
pub fn find(path: &Path) -> Result<Option<Mapping>, Failure> {
    let name = path.strip_prefix("/dev/mapper").unwrap_or(path);
    if let Some(mapping) = super::mapping::find(name)?.into_iter().next() {
        return Ok(Some(mapping));
    }
    let is = |place: &Path| atrest_engine::is_same(place, path);
    let of_luks2 = |mapping: &Mapping| {
        mapping.kind == "LUKS2" && (is(&mapping.device) || mapping.file.as_deref().is_some_and(is))
    };
    Ok(super::mapping::list()?.into_iter().find(of_luks2))
}

pub fn reencrypt(args: &ReencryptArgs, mapping: &Mapping, output: &Output) -> Result<(), Failure> {
    if args.zones.device_size.is_some() {
        return Err(Failure::parameters("a part of a mapping can't be re-encrypted: all of it is open"));
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
    if !is_marked(&locked) && dm::was_left(mapping)? {
        return settle(args, mapping, luks2, devices, output);
    }
    let begun = match is_marked(&locked) {
        true => None,
        false if args.resume => {
            return Err(at(Failure::parameters("no re-encryption of this volume is in progress")));
        }
        false if args.decrypt && header.is_none() => {
            return Err(at(Failure::parameters(
                "a volume with its header in front of the data is decrypted while it is closed",
            )));
        }
        false if args.decrypt => {
            let (begun, passphrase) = super::reencrypt::begin_decryption(args, luks2, devices, output)?;
            drop(begun);
            Some(passphrase)
        }
        false => {
            check_sector_size(args, mapping)?;
            let (begun, passphrase) = begin_reencryption(args, &locked, luks2, devices, output)?;
            drop(begun);
            Some(passphrase)
        }
    };
    let read = Luks2::read(devices.header).map_err(|error| at(error.into()))?;
    let resume = |keys: ReencryptKeys<'_>| read.resume_reencryption_for_kernel(devices, keys);
    let (rewriting, old, new) = match &begun {
        Some(passphrase) => {
            let keys = ReencryptKeys { volume_keys: &given.volume_keys, passphrase: passphrase.as_ref() };
            resume(keys).map_err(|error| at(error.into()))?
        }
        None => given.with(path, output, resume)?,
    };
    if args.init_only {
        return begun_only(&rewriting, path, output);
    }
    go_on(mapping, rewriting, Keys { old, new }, args.header.as_deref(), &args.zones, &stop, output)
}

/// Whoever re-encrypted it was killed when all was done but to let the mapping go on.
fn settle(
    args: &ReencryptArgs,
    mapping: &Mapping,
    luks2: &Luks2,
    devices: Devices<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let plaintext = match luks2.metadata().segments() {
        [only] if only.kind == SegmentKind::Linear => Some(only.offset),
        _ => None,
    };
    let volume = match plaintext {
        Some(media_offset) => {
            let len = mapping.sectors * 512;
            let all = Segment { start: 0, len, media_offset, protection: Protection::Identity };
            Volume::new(VolumeFormat::Luks2, vec![all]).with_uuid(luks2.uuid())
        }
        None => {
            let options = UnlockOptions { keep_key: true, ..UnlockOptions::default() };
            with_passphrase(&Source::from(&args.passphrase), mapping.source(), output, |passphrase| {
                luks2.unlock(devices, passphrase, &options)
            })?
        }
    };
    dm::settle(mapping, &volume)?;
    if plaintext.is_some() {
        dm::close_deferred(&mapping.name)?;
    }
    let name = &mapping.name;
    output.done(
        &json!({ "name": name, "reencryption": "done" }),
        &format!("{name}: all was done, and it goes on"),
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
    let remapped = Remapped::new(&mapping.name, &rewriting, keys, header)?;
    let done = rewrite_beside(rewriting, mapping.source(), zones, None, Some(&remapped), stop, output);
    match remapped.take_error() {
        Some(error) => Err(error.into()),
        None if is_decryption && done.is_ok() => Ok(dm::close_deferred(&mapping.name)?),
        None => done,
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
    let mapping = find(Path::new(name))?.ok_or_else(|| at(DmError::NotOpen { name: name.into() }.into()))?;
    let data = open_device(mapping.source(), Access::ReadWrite)?;
    let header_device = detached(header, path, Access::ReadWrite)?;
    let devices = Devices::with_header(header_device.as_ref().map(|header| header as &dyn Media), &data);
    let resumed = luks2.resume_reencryption_for_kernel(devices, keys);
    let (rewriting, old, new) = resumed.map_err(|error| at(error.into()))?;
    go_on(&mapping, rewriting, Keys { old, new }, header, &args.in_place.zones, stop, output)
}

/// Whoever has a mapping open has been told its sector size.
fn check_sector_size(args: &ReencryptArgs, mapping: &Mapping) -> Result<(), Failure> {
    match args.sector_size {
        Some(size) if size > mapping.sector_size && mapping.in_use => Err(Failure::new(
            Code::Busy,
            format!("{} is in use, with sectors of {} bytes", mapping.name, mapping.sector_size),
        )
        .hint("larger ones would fail whoever writes single sectors: unmount it first")),
        _ => Ok(()),
    }
}
