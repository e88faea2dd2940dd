//! The name of integritysetup: whoever starts this program as `integritysetup` or `atrest-integritysetup` gets its actions and options for
//! dm-integrity without encryption. docs/INTEGRITY.md says which there are.

mod args;
mod mapped;
mod status;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use atrest_attach::dm::stacked::Kind;
use atrest_device::BlockDevice;
use atrest_engine::integrity::{
    self, Integrity, IntegrityError, Mode, NewIntegrity, OpenOptions, Recalculate, Superblock,
};
use atrest_engine::{Access, Disk, DiskOptions};
use atrest_open::Device;
use atrest_secret::SecretBytes;
use atrest_volume::integrity::{Checksum, Hash, HashSpec, JournalCipherSpec};
use clap::Parser;

use crate::args::{Cli, Command, GlobalArgs};
use crate::commands::scrub::scrub_disk as scrub;
use crate::commands::serve;
use crate::failure::{Code, Failure};
use crate::meter::{Lines, Meter};
use crate::output::Output;
use crate::stacked::{self, Removal};
use crate::{commands, secrets};
#[cfg(test)]
pub use args::Args as CommandLine;
use args::{Action, Args};

/// Whether a program of this name is to behave as integritysetup.
pub fn is_meant(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == "integritysetup" || name == "atrest-integritysetup")
}

/// Does what the words ask for.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let line = std::iter::once(OsString::from("integritysetup")).chain(words);
    let args = match Args::try_parse_from(line) {
        Ok(args) => args,
        Err(error) => return crate::refused(&error),
    };
    let result = perform(&args);
    let code = match result {
        Ok(code) => code,
        Err(failure) => {
            failure.print(false);
            failure.code()
        }
    };
    if args.verbose && code == 0 {
        println!("Command successful.");
    }
    ExitCode::from(code)
}

fn perform(args: &Args) -> Result<u8, Failure> {
    if args.version {
        println!("integritysetup {} (atrest)", env!("CARGO_PKG_VERSION"));
        return Ok(0);
    }
    if args.integrity_inline {
        return Err(not_supported(
            "--integrity-inline",
            "it needs a drive with room for tags in its sectors",
        ));
    }
    let quiet = args.q || args.batch_mode;
    let output =
        Output::new(&GlobalArgs { json: false, quiet, yes: quiet, max_kdf_time: None, config: None })
            .telling(Lines::asked(args.progress_json, args.progress_frequency, quiet));
    let Some(action) = args.action else { return Err(Failure::parameters("the action is missing")) };
    let operands: Vec<&Path> = args.operands.iter().map(PathBuf::as_path).collect();
    match (action, operands.as_slice()) {
        (Action::Format, [device, ..]) => format(device, args, &output).map(|()| 0),
        (Action::Open, [device, name, ..]) => match face(args)? {
            Face::Mapping => mapped::open(device, name, args, &output),
            Face::Process(words) => open(device, name, &words, args, &output),
        },
        (Action::Close, [name, ..]) => close(name, args, &output),
        (Action::Status, [name, ..]) => status::status(name, &output),
        (Action::Dump, [device, ..]) => dump(device).map(|()| 0),
        (Action::Scrub, [device, ..]) => scrub(&unchecked(device, args, true, &output)?, &output),
        (Action::Resize, [name, ..]) => mapped::resize(name, args, &output).map(|()| 0),
        (Action::Open, _) => Err(Failure::parameters("open needs a device and a name")),
        (Action::Format | Action::Dump | Action::Scrub, _) => Err(Failure::parameters("it needs a device")),
        (Action::Close | Action::Status | Action::Resize, _) => Err(Failure::parameters("it needs a name")),
    }
}

fn not_supported(option: &str, why: &str) -> Failure {
    Failure::parameters(format!("{option} is not supported: {why}"))
}

/// How the data is shown.
enum Face {
    Mapping,
    /// The words that `atrest open` has for it.
    Process(Vec<OsString>),
}

/// --face, or $ATREST_FACE, or a mapping where the kernel can make one, and else NBD.
fn face(args: &Args) -> Result<Face, Failure> {
    let fuse = |directory: &OsStr| Face::Process(vec!["--fuse".into(), directory.into()]);
    let asked = match &args.fuse {
        Some(directory) => return Ok(fuse(directory.as_os_str())),
        None => args.face.clone().or_else(|| std::env::var("ATREST_FACE").ok()),
    };
    match asked.as_deref() {
        Some("dm") => Ok(Face::Mapping),
        None if atrest_attach::dm::is_there() => Ok(Face::Mapping),
        None | Some("nbd") => Ok(Face::Process(vec!["--nbd".into()])),
        Some(face) => match face.strip_prefix("fuse:").filter(|directory| !directory.is_empty()) {
            Some(directory) => Ok(fuse(directory.as_ref())),
            None => Err(Failure::parameters(format!("--face {face}: there is no such way to show data"))
                .hint("dm maps it in the kernel, nbd serves it on a socket, fuse:DIR as a file in DIR")),
        },
    }
}

fn close(name: &Path, args: &Args, output: &Output) -> Result<u8, Failure> {
    let removal = Removal::asked(args.kernel.deferred, args.kernel.cancel_deferred);
    if stacked::close(Kind::Integrity, name, removal)? {
        return Ok(0);
    }
    served_alone(args)?;
    atrest(&["close".as_ref(), name.as_os_str()], output)
}

/// Refuses what only a mapping can do.
fn served_alone(args: &Args) -> Result<(), Failure> {
    match args.kernel.first() {
        Some((option, why)) => Err(not_supported(option, why)),
        None => Ok(()),
    }
}

/// Runs a command of `atrest`.
fn atrest(words: &[&OsStr], output: &Output) -> Result<u8, Failure> {
    let cli = parsed(words)?;
    commands::run(&cli, output)
}

fn parsed(words: &[&OsStr]) -> Result<Cli, Failure> {
    let line = std::iter::once("atrest".as_ref()).chain(words.iter().copied());
    Cli::try_parse_from(line).map_err(|error| Failure::parameters(error.to_string()))
}

/// The hash of the tags, and its key.
fn tag_hash(args: &Args, output: &Output) -> Result<Hash, Failure> {
    hash(&args.integrity, args.integrity_key_file.as_deref(), args.integrity_key_size, output)
}

/// The hash of the journal, where it has one.
fn journal_hash(args: &Args, output: &Output) -> Result<Option<Hash>, Failure> {
    let Some(name) = &args.journal_integrity else {
        return match args.journal_integrity_key_file {
            None => Ok(None),
            Some(_) => Err(Failure::parameters("--journal-integrity-key-file needs --journal-integrity")),
        };
    };
    let hash =
        hash(name, args.journal_integrity_key_file.as_deref(), args.journal_integrity_key_size, output)?;
    match hash.spec().is_keyed() {
        true => Ok(Some(hash)),
        false => {
            Err(Failure::parameters("the journal's hash has a key: hmac-sha1, hmac-sha256 or hmac-sha512"))
        }
    }
}

fn hash(name: &str, file: Option<&Path>, size: Option<u64>, output: &Output) -> Result<Hash, Failure> {
    let spec: HashSpec = name.parse().map_err(Failure::parameters)?;
    Hash::new(spec, key(file, size, output)?.as_deref()).map_err(Failure::parameters)
}

fn key(file: Option<&Path>, size: Option<u64>, output: &Output) -> Result<Option<SecretBytes>, Failure> {
    match (file, size) {
        (None, None) => Ok(None),
        (Some(file), Some(size)) => Ok(Some(secrets::read_hash_key(file, size, output)?)),
        _ => Err(Failure::parameters("a key needs both its file and its size in bytes")),
    }
}

/// The cipher of the journal and its key, where it has one.
fn journal_cipher(args: &Args, output: &Output) -> Result<Option<(JournalCipherSpec, SecretBytes)>, Failure> {
    let key = key(args.journal_crypt_key_file.as_deref(), args.journal_crypt_key_size, output)?;
    match (&args.journal_crypt, key) {
        (None, None) => Ok(None),
        (Some(name), Some(key)) => Ok(Some((name.parse().map_err(Failure::parameters)?, key))),
        (Some(_), None) => Err(Failure::parameters("--journal-crypt needs --journal-crypt-key-file")),
        (None, Some(_)) => Err(Failure::parameters("--journal-crypt-key-file needs --journal-crypt")),
    }
}

fn device(path: &Path, access: Access) -> Result<Arc<dyn BlockDevice>, Failure> {
    match Device::open(path, access) {
        Ok(device) => Ok(Arc::new(device)),
        Err(error) => Err(Failure::from(error).at(path)),
    }
}

fn data_device(args: &Args, access: Access) -> Result<Option<Arc<dyn BlockDevice>>, Failure> {
    args.data_device.as_deref().map(|path| device(path, access)).transpose()
}

fn failed(path: &Path) -> impl Fn(IntegrityError) -> Failure {
    move |error| {
        let failure = Failure::from(atrest_engine::DiskError::from(error)).at(path);
        match error {
            IntegrityError::DirtyBitmap => failure.hint(
                "-B opens it as it was written, and computes the tags where it was written last",
            ),
            IntegrityError::Recalculating { .. } => failure.hint(
                "with a key, tags are computed only where the journal has a keyed hash, which protects the superblock; \
                 --integrity-legacy-recalculate computes them all the same",
            ),
            _ => failure,
        }
    }
}

/// What makes and checks the tags of a device.
fn checksum(hash: Hash, superblock: &Superblock) -> Result<Checksum, Failure> {
    let salt = superblock.flags.fixed_hmac.then_some(superblock.salt);
    let (unit, tag) = (superblock.data_unit as usize, superblock.tag_len.into());
    Ok(Checksum::new(hash, unit, tag).map_err(Failure::parameters)?.with_salt(salt))
}

fn format(path: &Path, args: &Args, output: &Output) -> Result<(), Failure> {
    let hash = tag_hash(args, output)?;
    let journal_hash = journal_hash(args, output)?;
    let digest_len = hash.spec().digest_len();
    let mut new = NewIntegrity::default();
    new.data_unit = args.sector_size;
    // cannot be more: the longest digest has 64 bytes.
    new.tag_len = args.tag_size.unwrap_or(digest_len as u16);
    new.interleave = args.interleave_sectors;
    new.journal = match args.journal_size {
        None => None,
        Some(size) => {
            Some(u32::try_from(size / 512).map_err(|_| Failure::parameters("the journal is too long"))?)
        }
    };
    (new.legacy_padding, new.legacy_hmac) = (args.integrity_legacy_padding, args.integrity_legacy_hmac);
    new.overwrite = true;
    let media = device(path, Access::ReadWriteExclusive)?;
    let data = data_device(args, Access::ReadWriteExclusive)?;
    new.data.clone_from(&data);
    let keyed = journal_hash.is_some();
    new.journal_hash = journal_hash;
    new.journal_cipher = journal_cipher(args, output)?;
    output.confirm(&format!("This will overwrite data on {} irrevocably.", path.display()))?;
    if usize::from(new.tag_len) != digest_len {
        output.warn(format!(
            "tags of {} bytes are not as long as {}, which has {digest_len}",
            new.tag_len,
            hash.spec().kernel_name(),
        ));
    }
    let tag_len = new.tag_len;
    let superblock = integrity::create(media.clone(), 0, new).map_err(failed(path))?;
    output.note(format!(
        "Formatted with tag size {tag_len}, internal integrity {}.",
        hash.spec().kernel_name()
    ));
    if args.no_wipe {
        return Ok(());
    }
    output.note("Wiping device to initialize integrity checksum.");
    let mut options = OpenOptions::default();
    options.data = data;
    options.journal_hash = if keyed { self::journal_hash(args, output)? } else { None };
    options.journal_cipher = journal_cipher(args, output)?;
    let mut meter = Meter::new(path, superblock.provided, output);
    let tagged = Box::new(checksum(hash, &superblock)?);
    Integrity::wipe(media, 0, tagged, options, &mut |done, _| meter.set(done)).map_err(failed(path))?;
    meter.finish();
    Ok(())
}

/// Serves the data by a process of ours.
fn open(path: &Path, name: &Path, face: &[OsString], args: &Args, output: &Output) -> Result<u8, Failure> {
    served_alone(args)?;
    let mut words: Vec<&OsStr> =
        vec!["open".as_ref(), path.as_os_str(), "--daemon".as_ref(), "--name".as_ref()];
    words.push(name.as_os_str());
    if args.readonly {
        words.push("--read-only".as_ref());
    }
    words.extend(face.iter().map(OsString::as_os_str));
    let Command::Open(face) = parsed(&words)?.command else {
        return Err(Failure::parameters("open is not understood"));
    };
    serve::present(&face, path, None, output, |ready| {
        ready()?;
        Ok(Arc::new(disk(path, args, output)?))
    })
}

/// The data of a device, of which the first unit is right: another hash than the one it was made with fails everywhere.
fn disk(path: &Path, args: &Args, output: &Output) -> Result<Disk, Failure> {
    let disk = unchecked(path, args, args.readonly, output)?;
    let mut first = vec![0; disk.data_unit()];
    disk.read_at(0, &mut first).map_err(|error| {
        Failure::new(Code::Device, error).at(path).hint(
            "is it the hash and the key that the device was formatted with? The superblock does not say",
        )
    })?;
    Ok(disk)
}

fn unchecked(path: &Path, args: &Args, read_only: bool, output: &Output) -> Result<Disk, Failure> {
    let access = if read_only { Access::ReadOnlyShared } else { Access::ReadWriteExclusive };
    let media = device(path, access)?;
    let superblock = integrity::read_superblock(&*media, 0).map_err(failed(path))?;
    let hash = tag_hash(args, output)?;
    let mut options = OpenOptions::default();
    options.mode = match (args.integrity_bitmap_mode, args.integrity_no_journal) {
        (true, _) => Mode::Bitmap,
        (_, true) => Mode::Direct,
        _ => Mode::Journal,
    };
    options.sectors_per_bit = args.bitmap_sectors_per_bit;
    options.flush_time = args.bitmap_flush_time.map(|time| Duration::from_millis(time.into()));
    options.recalculate = match (args.integrity_recalculate, args.integrity_recalculate_reset) {
        (_, true) => Recalculate::Again,
        (true, _) => Recalculate::Start,
        _ => Recalculate::Missing,
    };
    options.legacy_recalculate = args.integrity_legacy_recalculate;
    options.data = data_device(args, access)?;
    options.journal_hash = journal_hash(args, output)?;
    options.journal_cipher = journal_cipher(args, output)?;
    options.unkeyed = !hash.spec().is_keyed();
    options.read_only = read_only;
    let tagged = Box::new(checksum(hash, &superblock)?);
    let opened = Integrity::open(media.clone(), 0, tagged, options).map_err(failed(path))?;
    let mut options = DiskOptions::default();
    options.read_only = read_only;
    Ok(Disk::of_integrity(media, opened, options)?)
}

/// Prints the superblock in integritysetup's form.
fn dump(path: &Path) -> Result<(), Failure> {
    let media = device(path, Access::ReadOnly)?;
    let superblock = integrity::read_superblock(&*media, 0).map_err(failed(path))?;
    print!("{}", dumped(path, &superblock));
    Ok(())
}

fn dumped(path: &Path, superblock: &Superblock) -> String {
    let flags = superblock.flags;
    let mut text = String::new();
    let lines: [(&str, u64); 6] = [
        ("superblock_version", superblock.version.into()),
        ("log2_interleave_sectors", superblock.log2_interleave.into()),
        ("integrity_tag_size", superblock.tag_len.into()),
        ("journal_sections", superblock.journal_sections.into()),
        ("provided_data_sectors", superblock.provided / 512),
        ("sector_size", superblock.data_unit.into()),
    ];
    let mut line = |name: &str, value: &dyn std::fmt::Display| text.push_str(&format!("{name} {value}\n"));
    line("Info for integrity device", &format_args!("{}.", path.display()));
    lines.iter().for_each(|(name, value)| line(name, value));
    if superblock.version >= 2 && flags.recalculating {
        line("recalc_sector", &superblock.recalculate);
    }
    line("log2_blocks_per_bitmap", &superblock.log2_units_per_bit);
    let names = [
        (flags.journal_mac, "have_journal_mac "),
        (flags.recalculating, "recalculating "),
        (flags.dirty_bitmap, "dirty_bitmap "),
        (flags.fixed_padding, "fix_padding "),
        (flags.fixed_hmac, "fix_hmac "),
    ];
    let names: String = names.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    line("flags", &names);
    text
}
