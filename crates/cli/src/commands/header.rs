//! `atrest info`, `header …`, `erase` and `repair`.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use atrest_engine::{Access, is_same};
use atrest_open::Device;
use atrest_volume::luks2::reencrypt::Unfinished;
use atrest_volume::luks2::{Luks2, is_backup_of_sealed};
use atrest_volume::{
    ChangeError, Info, LockedVolume, OpenError, Relabel, RestoreOptions, VolumeFormat, header_backup,
    header_restore, overwritten,
};
use serde_json::json;

use super::target::{Target, contents, header_path, open_device, write_private};
use super::{bitlocker, flash, foreign, fvault2, pin, recover, text, veracrypt};
use crate::args::header::{
    EraseArgs, HeaderBackupArgs, HeaderRestoreArgs, HeaderSetArgs, InfoArgs, IsLuksArgs, LuksVersion,
    RepairArgs, UuidArgs,
};
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};

/// No header is larger: two metadata areas of 4 MiB and 128 MiB of keyslot areas, with room to spare.
const MAX_BACKUP: u64 = 256 << 20;

pub fn info(args: &InfoArgs, output: &Output) -> Result<(), Failure> {
    veracrypt::refuse_others(&args.foreign, &args.narrow)?;
    if !foreign::is_tcrypt(args.foreign.kind) && flash::is_flash(&args.target) {
        return flash::info(args, output);
    }
    if foreign::is_tcrypt(args.foreign.kind) {
        return veracrypt::info(args, output);
    }
    flash::refuse_store(args.target.store.is_some())?;
    let path = header_path(&args.target);
    let device = open_device(path, Access::ReadOnly)?;
    let not_luks = || match args.unlock {
        true => Err(Failure::parameters("--unlock is for LUKS volumes").at(path)),
        false => Ok(()),
    };
    if let Some(header) = bitlocker::header(path, &device)? {
        not_luks()?;
        return bitlocker::info(&header, output);
    }
    if let Some(header) = fvault2::header(path, &device)? {
        not_luks()?;
        return fvault2::info(&header, output);
    }
    let target = Target::on(path, device)?;
    #[cfg(feature = "whole")]
    if !args.metadata
        && !args.unlock
        && let Some(device) = target.device.sealed()
    {
        let stored = super::sealed::stored(device).map_err(|error| Failure::from(error).at(path))?;
        let info = target.locked.info();
        let mut data = json!(info);
        data["stored"] = json!(stored);
        let mut shown = format!("{}{}", text::info(&info), stored.text());
        for (entry, requests) in super::metrics::of_open(path, output)? {
            shown.push_str(&format!("open as {}: {}\n", entry.name, super::metrics::of_store(&requests)));
            data["open"][&entry.name] = json!(requests);
        }
        return output.report(&data, &shown);
    }
    if args.metadata {
        let luks2 = target.locked.luks2().ok_or(ChangeError::NotInFormat);
        let luks2 = luks2.map_err(|error| Failure::from(error).at(target.path))?;
        return Ok(writeln!(std::io::stdout(), "{}", indented(&luks2.metadata_text()))?);
    }
    let info = target.locked.info();
    warn_of_memory(&info, args.for_memory, output);
    if args.unlock {
        let id = pin::key_id(&target, &args.passphrase, output)?.to_string();
        let mut value = json!(info);
        if let Some(object) = value.as_object_mut() {
            object.insert("key_id".into(), id.as_str().into());
        }
        return output.report(&value, &format!("{}key: {id}\n", text::info(&info)));
    }
    output.report(&info, &text::info(&info))
}

/// Warns of keyslots that the machine which is meant has too little memory for: another one, or this.
fn warn_of_memory(info: &Info, other: Option<u64>, output: &Output) {
    let Some(has) = other.or_else(atrest_kdf::available_memory) else { return };
    for keyslot in &info.keyslots {
        let kib = keyslot.kdf.as_ref().and_then(|kdf| kdf.memory_kib);
        if let Some(needs) = kib.map(|kib| u64::from(kib) * 1024).filter(|needs| *needs > has) {
            let machine = if other.is_some() { "that machine" } else { "this machine" };
            output.warn(format_args!(
                "keyslot {} needs {} KiB of memory, and {machine} has {} KiB of it: `atrest key change --for-memory` makes it need less",
                keyslot.id,
                needs / 1024,
                has / 1024
            ));
        }
    }
}

/// JSON text with a line for each member, as json-c writes it for cryptsetup. What is in strings stays as it is.
pub fn indented(text: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut in_string, mut escaped, mut opened) = (0_usize, false, false, false);
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    for letter in text.chars() {
        if in_string {
            out.push(letter);
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            continue;
        }
        if letter.is_ascii_whitespace() {
            continue;
        }
        if matches!(letter, '}' | ']') {
            // cannot be less: the text is balanced, or it would not have been read.
            depth = depth.saturating_sub(1);
            new_line(&mut out, depth);
        } else if opened {
            new_line(&mut out, depth);
        }
        out.push(letter);
        opened = matches!(letter, '{' | '[' | ',');
        depth += usize::from(matches!(letter, '{' | '['));
        in_string = letter == '"';
    }
    out
}

pub fn uuid(args: &UuidArgs, output: &Output) -> Result<(), Failure> {
    let info = Target::read(&args.target)?.locked.info();
    output.report(&json!({ "uuid": info.uuid }), &info.uuid)
}

/// Whether a LUKS header is on the device, and of the version that is asked for.
pub fn is_luks_of(path: &Path, version: Option<LuksVersion>) -> Result<bool, Failure> {
    let device = open_device(path, Access::ReadOnly)?;
    let format = match LockedVolume::read(&device) {
        Ok(locked) => locked.info().format,
        // It could not be read: nobody knows.
        Err(OpenError::Device(error)) => return Err(Failure::from(OpenError::Device(error)).at(path)),
        Err(_) => return Ok(false),
    };
    Ok(match version {
        Some(LuksVersion::Luks1) => format == VolumeFormat::Luks1,
        Some(LuksVersion::Luks2) => format == VolumeFormat::Luks2,
        None => true,
    })
}

pub fn is_luks(args: &IsLuksArgs, output: &Output) -> Result<u8, Failure> {
    let is = is_luks_of(header_path(&args.target), args.kind)?;
    if output.is_json() {
        output.report(&json!({ "luks": is }), "")?;
    }
    Ok(if is { 0 } else { Code::Device as u8 })
}

pub fn backup(args: &HeaderBackupArgs, output: &Output) -> Result<(), Failure> {
    flash::refuse_store(args.target.store.is_some())?;
    let path = header_path(&args.target);
    if foreign::is_tcrypt(args.kind) {
        return veracrypt::backup(path, &args.file, output);
    }
    flash::refuse(&args.target)?;
    let device = open_device(path, Access::ReadOnly)?;
    if let Some(header) = bitlocker::header(path, &device)? {
        return bitlocker::backup(&args.file, path, &device, &header, output);
    }
    let backup = header_backup(&device).map_err(|error| Failure::from(error).at(path))?;
    write_private(&args.file, &backup)?;
    output.done(
        &json!({ "file": path_text(&args.file), "bytes": backup.len() }),
        &format!("{}: header of {} in {} bytes", args.file.display(), path.display(), backup.len()),
    )
}

pub fn restore(args: &HeaderRestoreArgs, output: &Output) -> Result<(), Failure> {
    flash::refuse_store(args.target.store.is_some())?;
    veracrypt::refuse_others(&args.foreign, &args.narrow)?;
    if foreign::is_tcrypt(args.foreign.kind) {
        return veracrypt::restore(args, output);
    }
    // cannot be none: only --tcrypt-backup lets it be left out.
    let file = args.file.as_deref().ok_or_else(|| Failure::parameters("FILE, the backup, is missing"))?;
    let path = header_path(&args.target);
    let mut backup = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MAX_BACKUP + 1).read_to_end(&mut backup));
    read.map_err(|error| Failure::io(&error).at(file))?;
    if backup.len() as u64 > MAX_BACKUP {
        return Err(Failure::parameters("it is too large for a header backup").at(file));
    }
    // The use lock: nobody may have the data open while its header is replaced.
    let device = Device::open_to_restore(path).map_err(|error| Failure::from(error).at(path))?;
    if device.is_sealed() {
        let of_sealed = is_backup_of_sealed(&backup);
        if !of_sealed.map_err(|error| Failure::from(ChangeError::BadBackup(error)).at(file))? {
            return Err(Failure::new(Code::Device, "the backup is not of a sealed volume")
                .at(file)
                .hint("name the backup that was made of this volume's header"));
        }
    }
    let replace_other = args.replace_other_volume;
    if device.holds_data() {
        let (path, contents) = (path.display(), contents(&device));
        let loss = match replace_other {
            true => "what was written with it can't be read afterwards",
            false => "its header and all its passphrases are replaced",
        };
        output.confirm(&format!("{path} holds {contents}; {loss}"))?;
    }
    // A header file that is the volume itself is not on a device of its own. A header object is.
    let detached = device.is_sealed()
        || args.target.header.as_deref().is_some_and(|header| !is_same(header, &args.target.path));
    let options = RestoreOptions { replace_other, detached };
    let restored = header_restore(&device, &backup, options);
    restored.map_err(|error| match error {
        ChangeError::BadBackup(_) | ChangeError::BackupLength { .. } => Failure::from(error).at(file),
        error => Failure::from(error).at(path),
    })?;
    output.done(
        &json!({ "path": path_text(path), "file": path_text(file), "bytes": backup.len() }),
        &format!("{}: header restored from {}", path.display(), file.display()),
    )
}

pub fn set(args: &HeaderSetArgs, output: &Output) -> Result<(), Failure> {
    let mut target = Target::change(&args.target)?;
    pin::authorize(&mut target, &args.passphrase, output)?;
    let new = Relabel {
        label: args.label.as_deref(),
        subsystem: args.subsystem.as_deref(),
        uuid: args.uuid.as_deref(),
    };
    let set = target.locked.relabel(&target.device, &new);
    set.map_err(|error| Failure::from(error).at(target.path))?;
    target.renew()?;
    let info = target.locked.info();
    output.done(
        &json!({ "uuid": info.uuid, "label": info.label, "subsystem": info.subsystem }),
        &format!("UUID {}, label \"{}\", subsystem \"{}\"", info.uuid, info.label, info.subsystem),
    )
}

pub fn erase(args: &EraseArgs, output: &Output) -> Result<(), Failure> {
    if flash::is_flash(&args.target) {
        return flash::erase(args, output);
    }
    let mut target = Target::change(&args.target)?;
    let slots = target.locked.info().keyslots.len();
    let path = target.path.display();
    output.confirm(&format!(
        "every keyslot of {path} ({slots} in use) is wiped; its data can't be read afterwards"
    ))?;
    let erased = target.locked.erase(&target.device);
    erased.map_err(|error| Failure::from(error).at(target.path))?;
    let wiped = text::counted(slots as u64, "keyslot", "keyslots");
    output.done(&json!({ "erased": slots }), &format!("{path}: {wiped} wiped"))
}

pub fn repair(args: &RepairArgs, output: &Output) -> Result<(), Failure> {
    if flash::is_flash(&args.target) {
        return flash::repair(args, output);
    }
    let path = header_path(&args.target);
    let device = open_device(path, Access::ReadWrite)?;
    let damage: Vec<String> = match LockedVolume::read(&device) {
        Ok(locked) => locked.info().copies.into_iter().filter_map(|copy| copy.damage).collect(),
        Err(error @ (OpenError::Luks1(_) | OpenError::Luks2 { .. })) => vec![error.to_string()],
        Err(error) => return Err(Failure::from(error).at(path)),
    };
    let shown = path.display();
    if !damage.is_empty() {
        output.confirm(&format!("the header of {shown} is rewritten ({})", damage.join("; ")))?;
    }
    let repaired = match atrest_volume::repair(&device) {
        Ok(_) => true,
        Err(ChangeError::NothingToRepair) => false,
        Err(error) => return Err(Failure::from(error).at(path)),
    };
    let locked = LockedVolume::read(&device).map_err(|error| Failure::from(error).at(path))?;
    let overwritten = overwritten(&device, &locked.info()).map_err(|error| Failure::from(error).at(path))?;
    for found in &overwritten {
        output.warn(format_args!(
            "{shown}: something was written over the area of keyslot {}: {} not random, the first at byte {:#x}. \
             Its passphrase will hardly open the volume; a backup of the header has the area as it was",
            found.keyslot,
            text::counted(found.sectors, "sector of it is", "sectors of it are"),
            found.first
        ));
    }
    let unfinished = locked.luks2().map_or(Ok(Unfinished::Nothing), Luks2::unfinished);
    let unfinished = unfinished.map_err(|error| Failure::from(error).at(path))?;
    if unfinished != Unfinished::Nothing {
        drop(device);
        recover::reencryption(args, unfinished, output)?;
    }
    let recovered = unfinished == Unfinished::Interrupted;
    let verified = unfinished == Unfinished::Unverified;
    let text = match (repaired, overwritten.is_empty()) {
        _ if recovered => "the zone in which the re-encryption was interrupted is done",
        _ if verified => "the re-encryption is verified by its keys from now on, and can be gone on with",
        (true, _) => "the header is whole again",
        (false, true) => "nothing needs repair",
        (false, false) => "the header is whole, but can't make up what was in a keyslot's area",
    };
    let areas: Vec<_> = overwritten
        .iter()
        .map(|found| json!({ "keyslot": found.keyslot, "sectors": found.sectors, "first": found.first }))
        .collect();
    let report = json!({
        "repaired": repaired, "damage": damage, "overwritten": areas, "recovered": recovered, "verified": verified,
    });
    output.done(&report, &format!("{shown}: {text}"))
}
