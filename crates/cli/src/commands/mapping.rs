//! `open --dm`, and mappings of the kernel for `suspend`, `resume`, `resize`, `close` and `status`.

use std::path::Path;

use atrest_attach::dm::{self, DmError, Mapping, Options};
use atrest_attach::session::CloseError;
use atrest_engine::{Access, ReencryptionLock};
use atrest_volume::{CryptFlags, LockedVolume, UnlockError, Volume, VolumeFormat};
use serde_json::json;

use super::link;
use super::reencrypt::is_marked;
use super::target::open_device;
use super::unlock::{Use, again, open_if, open_unlocked};
use crate::args::mapped::{ResizeArgs, ResumeArgs, SuspendArgs};
use crate::args::open::{CloseArgs, OpenArgs, VolumeType};
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};

pub fn open(name: &str, path: &Path, args: &OpenArgs, output: &Output) -> Result<u8, Failure> {
    let options = options(args);
    if args.refresh {
        let volume = asked_alone(again(path, &args.unlock, output)?, args);
        let mapped = dm::refresh(name, &volume, options.flags, options.disable_keyring)?;
        persist(path, args, options.flags)?;
        let report = json!({ "event": "ready", "name": name, "path": path_text(&mapped) });
        output.done(&report, &format!("{} is refreshed", mapped.display()))?;
        return Ok(0);
    }
    dm::check_free(name)?;
    let keyring = link::keyring_for(args.link_vk_to_keyring.as_ref(), &args.unlock)?;
    let wanted = Use { write: args.unlock.writes_unless(args.read_only), keep_key: true, ..Use::default() };
    let (held, volume) = match args.shared {
        true if args.unlock.kind != VolumeType::Plain => {
            return Err(Failure::parameters(
                "--shared is for plain mode: a LUKS volume has its device to itself",
            ));
        }
        true => {
            let access = if wanted.write { Access::ReadWrite } else { Access::ReadOnly };
            open_unlocked(path, access, &args.unlock, wanted, output)?
        }
        false => open_if(path, &args.unlock, wanted, output, || Ok(()))?,
    };
    if volume.format() == VolumeFormat::Tcrypt && volume.targets().is_empty() {
        let text = "no kernel has the ciphers of this volume: it is of a TCRYPT legacy mode";
        return Err(Failure::parameters(text).at(path).hint("--nbd, --fuse and the other faces open it"));
    }
    if volume.protected().is_some() {
        return Err(Failure::parameters("the kernel protects no hidden volume").at(path).hint(
            "--nbd, --fuse and the other faces do; or --dm with --read-only, without --protect-hidden",
        ));
    }
    // What had not been encrypted yet is mapped; of what has been decrypted, the header says nothing any more.
    if volume.format() == VolumeFormat::Luks2
        && volume.targets().is_empty()
        && LockedVolume::read(held.devices().header).is_ok_and(|now| !is_marked(&now))
    {
        let text = "the last zone of its decryption is done now: all of it is plaintext, and no key opens it";
        return Err(Failure::new(Code::Device, text).at(path).hint("the data is there without a mapping"));
    }
    let volume = asked_alone(volume, args);
    if volume.read_only() && !args.read_only {
        output.warn("the volume can only be read");
    }
    let (media, header) = held.into_devices();
    let media = media.into_file().map_err(|error| {
        let hint = "have the kernel connect first, and name its device: nbd-client -unix SOCKET /dev/nbd0";
        Failure::from(error).at(path).hint(hint)
    })?;
    let linked = link::put(keyring.as_ref(), &volume)?;
    let mapped = dm::open(name, &volume, media, options).map_err(|error| Failure::from(error).at(path))?;
    link::keep(linked);
    drop(header);
    persist(path, args, options.flags)?;
    let report = json!({ "event": "ready", "name": name, "path": path_text(&mapped) });
    output.done(&report, &format!("{} is open", mapped.display()))?;
    Ok(0)
}

/// How the options ask the kernel to map a volume.
fn options(args: &OpenArgs) -> Options {
    let kernel = args.kernel;
    Options {
        read_only: args.read_only,
        flags: CryptFlags {
            allow_discards: args.allow_discards,
            same_cpu_crypt: kernel.same_cpu_crypt,
            submit_from_crypt_cpus: kernel.submit_from_crypt_cpus,
            no_read_workqueue: kernel.no_read_workqueue,
            no_write_workqueue: kernel.no_write_workqueue,
            no_journal: kernel.no_journal,
        },
        disable_keyring: kernel.disable_keyring,
    }
}

/// With --persistent, what the header has asked for until now counts no more.
fn asked_alone(volume: Volume, args: &OpenArgs) -> Volume {
    if args.persistent { volume.with_flags(CryptFlags::default()) } else { volume }
}

/// With --persistent: has the header ask for what the volume was opened with.
fn persist(path: &Path, args: &OpenArgs, flags: CryptFlags) -> Result<(), Failure> {
    if !args.persistent {
        return Ok(());
    }
    if args.unlock.kind != VolumeType::Luks {
        return Err(Failure::parameters(
            "--persistent is for LUKS2: a plain volume has no header to ask for it",
        ));
    }
    let path = args.unlock.header.as_deref().unwrap_or(path);
    let device = open_device(path, Access::ReadWrite)?;
    let changed = LockedVolume::read(&device).map_err(Failure::from).and_then(|mut locked| {
        let luks2 = locked.luks2_mut()?;
        Ok(luks2.set_flags(&device, flags)?)
    });
    changed.map_err(|failure| failure.at(path).within("it is mapped, but its header could not be changed"))
}

pub fn suspend(args: &SuspendArgs, output: &Output) -> Result<(), Failure> {
    // The keys of one that is being re-encrypted could not come back.
    let uuid = dm::volume_uuid(&args.name).map_err(|error| told(error, &args.name))?;
    let lock = uuid.map(|uuid| ReencryptionLock::take(&uuid)).transpose();
    let lock = lock.map_err(|cause| Failure::new(Code::Device, cause))?;
    if matches!(lock, Some(None)) {
        return Err(UnlockError::ReencryptionRuns.into());
    }
    dm::suspend(&args.name).map_err(|error| told(error, &args.name))?;
    super::suspend::suspended(&args.name, output)
}

/// The mapping of that name, which a volume is to be unlocked for again.
fn mapped(name: &str) -> Result<Mapping, Failure> {
    let found = dm::check_name(name).and_then(|()| dm::find(name)).map_err(|error| told(error, name))?;
    found.ok_or_else(|| not_open(name))
}

/// What is said of a name that no process serves either: where there can be no mapping of it, nothing of that name is open.
fn told(error: DmError, name: &str) -> Failure {
    match error {
        DmError::NotOpen { .. } | DmError::Name { .. } | DmError::Control(_) => not_open(name),
        error => error.into(),
    }
}

fn not_open(name: &str) -> Failure {
    CloseError::NotOpen { name: name.into() }.into()
}

pub fn resume(args: &ResumeArgs, output: &Output) -> Result<(), Failure> {
    let mapping = mapped(&args.name)?;
    // Told before anybody types a passphrase.
    if !mapping.suspended {
        return Err(DmError::NotSuspended { name: mapping.name }.into());
    }
    let keyring = link::keyring(args.link_vk_to_keyring.as_ref())?;
    let volume = again(mapping.source(), &args.again.unlock(), output)?;
    let linked = link::put(keyring.as_ref(), &volume)?;
    dm::resume(&args.name, &volume, args.disable_keyring)?;
    link::keep(linked);
    super::suspend::resumed(&args.name, output)
}

pub fn resize(args: &ResizeArgs, output: &Output) -> Result<(), Failure> {
    let mapping = mapped(&args.name)?;
    let volume = match mapping.keyring && !mapping.suspended {
        true => Some(again(mapping.source(), &args.again.unlock(), output)?),
        false => None,
    };
    let size = dm::resize(&args.name, args.size, volume.as_ref())?;
    super::suspend::resized(&args.name, size, output)
}

/// Removes a mapping of that name; where there can be none, `otherwise` is why nothing was closed.
pub fn close(args: &CloseArgs, otherwise: Failure, output: &Output) -> Result<(), Failure> {
    let name = args.name.strip_prefix("/dev/mapper").unwrap_or(&args.name);
    let Some(name) = name.to_str().filter(|name| dm::check_name(name).is_ok()) else { return Err(otherwise) };
    let (closed, text) = match (args.deferred, args.cancel_deferred) {
        (true, _) => (dm::close_deferred(name), format!("{name} is closed as soon as nobody uses it")),
        (_, true) => (dm::cancel_deferred(name), format!("{name} stays open")),
        _ => (dm::close(name), format!("{name} is closed")),
    };
    match closed {
        Ok(()) if args.cancel_deferred => output.done(&json!({ "kept": name }), &text),
        Ok(()) => output.done(&json!({ "closed": name }), &text),
        Err(DmError::NotOpen { .. } | DmError::Control(_)) => Err(otherwise),
        Err(error) => Err(error.into()),
    }
}

/// All mappings; none for whoever may not see them.
pub fn list() -> Result<Vec<Mapping>, Failure> {
    match dm::list() {
        Err(DmError::Control(_)) => Ok(Vec::new()),
        listed => Ok(listed?),
    }
}

/// The mapping of that name, if there is one.
pub fn find(name: &Path) -> Result<Vec<Mapping>, Failure> {
    let Some(name) = name.to_str().filter(|name| dm::check_name(name).is_ok()) else { return Ok(Vec::new()) };
    match dm::find(name) {
        Err(DmError::Control(_)) => Ok(Vec::new()),
        found => Ok(found?.into_iter().collect()),
    }
}

/// The mapping at `/dev/mapper/NAME`, or the one whose data lies on that device or in that file.
pub fn of(path: &Path) -> Result<Option<Mapping>, Failure> {
    if let Ok(name) = path.strip_prefix("/dev/mapper")
        && let Some(mapping) = find(name)?.into_iter().next()
    {
        return Ok(Some(mapping));
    }
    let is = |place: &Path| atrest_engine::is_same(place, path);
    let of_luks2 = |mapping: &Mapping| {
        mapping.kind == "LUKS2" && (is(&mapping.device) || mapping.file.as_deref().is_some_and(is))
    };
    Ok(list()?.into_iter().find(of_luks2))
}

pub fn line(mapping: &Mapping) -> String {
    let place = mapping.file.as_ref().unwrap_or(&mapping.device);
    let mode = if mapping.read_only { "read-only" } else { "read-write" };
    let used = match (mapping.suspended, mapping.in_use) {
        (true, _) => "suspended",
        (false, true) => "in use",
        (false, false) => "not in use",
    };
    let tags = mapping.tags.as_ref();
    let tags =
        // intended: without integrity there are no tags.
        tags.map(|tags| format!(", {}-byte tags in /dev/mapper/{}", tags.len, tags.name)).unwrap_or_default();
    format!(
        "{}: {} at /dev/mapper/{}, {mode}, {}, {}, {}-bit key{tags}, by the kernel, {used}\n",
        mapping.name,
        place.display(),
        mapping.name,
        mapping.kind,
        mapping.cipher,
        mapping.key_bits
    )
}
