//! `atrest convert`: a volume of another format, where it is or as a copy.

use std::path::Path;
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::{Access, Disk, bulk, is_same};
use atrest_open::{Format, Key, OneKey, Options};
use atrest_secret::Passphrase;
use atrest_volume::{ChangeError, ConvertError, Devices, FormatOptions, VolumeFormat};
use serde_json::json;

use super::bulk::{Listener, Stop, checkpoint_path, interrupted, options as bulk_options};
use super::format::{Place, path_is_new};
use super::target::{header_path, no_header, open_device};
use super::unlock::{Use, unlock};
use super::{flash, options};
use crate::args::convert::ConvertArgs;
use crate::args::header::LuksVersion;
use crate::args::key::TargetArgs;
use crate::args::open::VolumeType;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress;
use crate::secrets::Source;

/// Bytes that a volume of LUKS2 has in front of its data.
const HEADER: u64 = 16 << 20;

pub fn convert(args: &ConvertArgs, output: &Output) -> Result<(), Failure> {
    match (&args.destination, args.kind) {
        (Some(destination), _) => copy(args, destination, output),
        (None, Some(version)) => in_place(args, version, output),
        // cannot happen: the parser wants one of them.
        (None, None) => Err(Failure::parameters("DST or --type is missing")),
    }
}

/// Makes LUKS1 of LUKS2 where it is, or the other way round.
fn in_place(args: &ConvertArgs, version: LuksVersion, output: &Output) -> Result<(), Failure> {
    if args.from != VolumeType::Luks {
        return Err(Failure::parameters("--from is for a copy, and DST is missing")
            .hint("only LUKS volumes are converted where they are; others are copied into DST"));
    }
    if args.how.resume {
        return Err(Failure::parameters("--resume is for a copy, and DST is missing")
            .hint("a conversion in place is done at once, and leaves nothing to resume"));
    }
    let target =
        TargetArgs { path: args.path.clone(), header: args.header.clone(), store: args.store.clone() };
    flash::refuse(&target)?;
    flash::refuse_store(target.store.is_some())?;
    // Nobody may have the data open, wherever the header is.
    let data = target.header.as_ref().map(|_| open_device(&target.path, Access::ReadWriteExclusive));
    let data = data.transpose()?;
    let path = header_path(&target);
    let device = open_device(path, Access::ReadWriteExclusive)?;
    let (to, name) = match version {
        LuksVersion::Luks1 => (VolumeFormat::Luks1, "LUKS1"),
        LuksVersion::Luks2 => (VolumeFormat::Luks2, "LUKS2"),
    };
    atrest_volume::convert(&device, to).map_err(|error| match error {
        ConvertError::Change(ChangeError::Open(error)) => no_header(error, &device).at(path),
        error => Failure::from(error).at(path),
    })?;
    drop(data);
    output.done(&json!({ "type": name }), &format!("{} is a volume of {name} now", path.display()))
}

/// Copies a volume into a new one, and compares the two.
fn copy(args: &ConvertArgs, destination: &Path, output: &Output) -> Result<(), Failure> {
    if is_same(&args.path, destination) {
        return Err(Failure::parameters("the source and the copy are the same file")
            .at(destination)
            .hint("--type luks1 or luks2 instead of DST converts a LUKS volume where it is; other formats are copied"));
    }
    let wanted = Use { threads: args.how.threads, ..Use::default() };
    let source = unlock(&args.path, &args.source(), wanted, output)?;
    let checkpoint = checkpoint_path(destination, &args.path, &args.how)?;
    let disk = match args.how.resume {
        true => unlock(destination, &args.copy(), Use { write: true, ..wanted }, output)?.disk,
        false => {
            if let Some(told) = interrupted(&args.how, checkpoint.as_deref()) {
                output.warn(format_args!("this run starts again; {told}"));
            }
            make(args, destination, source.disk.size(), output)?
        }
    };
    let disk = Arc::new(disk);
    let mut how = bulk_options(&args.how, checkpoint.as_deref(), source.modified);
    let stop = Stop::on_signals()?;
    how.cancel = Some(stop.asked());
    let mut listener = Listener::new(source.disk.size(), output);
    let result = bulk::encrypt(&source.disk, &disk, how, &mut listener);
    listener.finish(result, &stop, checkpoint.as_deref(), destination)?;
    check(&source.disk, &disk, &stop, destination, output)
}

/// Makes a volume with room for so many bytes, and opens it.
fn make(args: &ConvertArgs, path: &Path, bytes: u64, output: &Output) -> Result<Disk, Failure> {
    let needs = bytes
        .checked_add(HEADER)
        .ok_or_else(|| Failure::parameters("the volume is too large to be copied"))?;
    let place = Place::look(path, path_is_new(path).then_some(needs))?;
    if place.size() < needs {
        let has = place.size();
        return Err(Failure::new(
            Code::Device,
            format!("it has {has} bytes, and a volume with this plaintext needs {needs}"),
        )
        .at(path)
        .hint("name a file that does not exist, which is made as large as it must be, or a larger device"));
    }
    place.confirm(output)?;
    let prompt = format!("New passphrase for {}", path.display());
    let passphrase = Source::from(&args.new).read_new(&prompt, output)?;
    let keyslot = options::keyslot(&args.keyslot.pbkdf(), None, None)?;
    let media = place.open()?;
    let spinner = progress::spinner("measuring and deriving the key", output);
    // Not where the device would like it: behind that there might be less room than was looked for.
    let options = FormatOptions { keyslot, data_offset: Some(HEADER), ..FormatOptions::default() };
    let made =
        atrest_volume::format(Devices::together(media.device()), VolumeFormat::Luks2, &passphrase, &options);
    spinner.finish_and_clear();
    made.map_err(|error| Failure::from(error).at(path))?;
    media.appear()?;
    let mut key = OneKey::new(Key::Passphrase(Passphrase::copy_from(passphrase.expose())));
    let mut how = Options::default();
    how.write = true;
    how.disk.threads = args.how.threads.map_or(0, usize::from);
    atrest_open::open(path, &Format::ByHeader, &mut key, &how)
        .map_err(|error| Failure::new(Code::Device, error).at(path))
}

/// Reads both again, and compares every byte.
fn check(source: &Disk, copy: &Arc<Disk>, stop: &Stop, path: &Path, output: &Output) -> Result<(), Failure> {
    let mut listener = Listener::new(source.size(), output);
    let compared = bulk::compare(source, &**copy, Some(stop.asked()), &mut listener);
    listener.end();
    compared.map_err(|error| match error {
        bulk::BulkError::Cancelled { .. } => Failure::from(error)
            .with_code(stop.exit_code(&error))
            .at(path)
            .hint("the copy is complete; it was not compared to its end"),
        error => Failure::from(error).at(path),
    })?;
    if output.is_json() {
        return output.json_line(&json!({ "event": "compared", "bytes": source.size() }));
    }
    output.done(&(), &format!("{}: every byte is that of the source", path.display()))
}
