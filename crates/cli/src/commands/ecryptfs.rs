//! eCryptfs directories: their keys, and `atrest tree check`, `export` and `passphrase`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use atrest_filetree::{LowerError, TreeError};
use atrest_secret::{OsRandom, Passphrase, SecretBytes};
use atrest_tree::ecryptfs::{
    self, EcryptfsError, ExportProgress, Keys, LowerTree, Problem, Survey, WrappedError, WrappedPassphrase,
    WrappedVersion,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::inside::copy_failure;
use super::text::counted;
use crate::args::ecryptfs::{ChangeArgs, EcryptfsArgs, TreeCheckArgs, TreeExportArgs, UnwrapArgs, WrapArgs};
use crate::args::secrets::PassphraseArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress::bytes_bar;
use crate::secrets::{Source, own_descriptor, refuse_sharing_stdin};

/// What a lower directory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is read only.
    Read,
    /// New files may be encrypted in it.
    Write,
}

/// Refuses keys of a tree where a volume is named.
pub fn refuse(args: &EcryptfsArgs) -> Result<(), Failure> {
    let given = !args.ecryptfs_passphrase_file.is_empty()
        || args.ecryptfs_passphrase_fd.is_some()
        || args.wrapped_passphrase.is_some()
        || args.ecryptfs_passthrough;
    match given {
        true => Err(Failure::parameters(
            "--ecryptfs-passphrase-file, --ecryptfs-passphrase-fd, --wrapped-passphrase and --ecryptfs-passthrough are for \
             eCryptfs directories, and this is none",
        )
        .hint("name the lower directory, such as ~/.Private; a volume takes --key-file")),
        false => Ok(()),
    }
}

/// Looks at what `lower` holds, before any passphrase is asked for. Says whether a new tree begins there.
pub fn look(lower: &Path, args: &EcryptfsArgs, purpose: Purpose) -> Result<bool, Failure> {
    let found = ecryptfs::survey(lower).map_err(|error| Failure::io(&error).at(lower))?;
    let refused = |what: String| Err(Failure::new(Code::Device, what).at(lower));
    match found {
        Survey::Empty => Ok(purpose == Purpose::Write),
        Survey::Ecryptfs => Ok(false),
        Survey::Foreign(tree) => refused(format!("this is a directory of {tree}, not of eCryptfs"))
            .map_err(|failure| failure.hint(format!("{tree} itself opens it"))),
        _ if args.ecryptfs_passthrough => Ok(false),
        Survey::Mixed { .. } if purpose == Purpose::Read => Ok(false),
        Survey::Mixed { plain } => {
            refused(format!("it has both encrypted files and others, such as {}", plain.display())).map_err(
                |failure| {
                    failure.hint(
                        "--read-only mounts it without a risk; --ecryptfs-passthrough serves the others as they are, and encrypts new files among them",
                    )
                },
            )
        }
        Survey::Plain { entry } => {
            refused(format!("nothing in it is encrypted by eCryptfs; it holds {}", entry.display())).map_err(
                |failure| {
                    failure.hint(
                        "an empty directory begins a new tree; --ecryptfs-passthrough takes this one, and new files are encrypted among those that are not",
                    )
                },
            )
        }
    }
}

/// How a tree's passphrase is given without a terminal.
const INSTEAD: &str = "--ecryptfs-passphrase-file FILE or --ecryptfs-passphrase-fd N";

/// Options that give the passphrase of a volume. To take no notice of them would ask for what was given.
fn refuse_volume_options(given: &PassphraseArgs) -> Result<(), Failure> {
    let option = match given {
        PassphraseArgs { key_file: Some(_), .. } => "--key-file",
        PassphraseArgs { passphrase_fd: Some(_), .. } => "--passphrase-fd",
        PassphraseArgs { key_description: Some(_), .. } => "--key-description",
        PassphraseArgs { passphrase_from: Some(_), .. } => "--passphrase-from",
        _ => return Ok(()),
    };
    Err(Failure::parameters(format!("{option} is for volumes, and this is an eCryptfs directory"))
        .hint(format!("give its passphrase by {INSTEAD}")))
}

/// What is said before a person chooses the passphrase of a new tree.
const WORTH: &str = "eCryptfs derives its keys weakly: 65,536 rounds of SHA-512 with a salt that is the same everywhere. One graphics \
                     card tries some 100,000 passphrases a second, on all trees of the world at once. `atrest passphrase` makes one of 10 \
                     words, which withstands that";

/// A passphrase for a tree that begins now: one that is typed is asked for twice.
pub fn new_keys(
    args: &EcryptfsArgs,
    given: &PassphraseArgs,
    lower: &Path,
    output: &Output,
) -> Result<Keys, Failure> {
    let is_typed = args.ecryptfs_passphrase_file.is_empty() && args.ecryptfs_passphrase_fd.is_none();
    if !is_typed || args.wrapped_passphrase.is_some() {
        return keys(args, given, lower, output);
    }
    refuse_volume_options(given)?;
    output.note(WORTH);
    let prompt = format!("New passphrase of {} (weakly hashed: choose 10 random words)", lower.display());
    let passphrase = line(Source::typed(given, INSTEAD).read_new(&prompt, output)?);
    let mut keys = Keys::new();
    keys.add_passphrase(&passphrase)?;
    Ok(keys)
}

/// The keys that the arguments name, or one that is asked for.
pub fn keys(
    args: &EcryptfsArgs,
    given: &PassphraseArgs,
    lower: &Path,
    output: &Output,
) -> Result<Keys, Failure> {
    refuse_volume_options(given)?;
    let mut sources: Vec<Source> =
        args.ecryptfs_passphrase_file.iter().map(|file| Source::key_file(file)).collect();
    sources.extend(args.ecryptfs_passphrase_fd.map(Source::Descriptor));
    if sources.is_empty() {
        sources.push(Source::typed(given, INSTEAD));
    }
    let prompt = match &args.wrapped_passphrase {
        None => format!("Passphrase of {}", lower.display()),
        Some(wrapped) => format!("Passphrase for {}", wrapped.display()),
    };
    let mut keys = Keys::new();
    for source in sources {
        let mut passphrase = line(source.read(&prompt, output)?);
        if let Some(file) = &args.wrapped_passphrase {
            passphrase = wrapped(file)?.unwrap(&passphrase).map_err(|error| Failure::from(error).at(file))?;
        }
        keys.add_passphrase(&passphrase)?;
    }
    Ok(keys)
}

/// Opens a lower directory to be read.
pub fn open(
    lower: &Path,
    args: &EcryptfsArgs,
    given: &PassphraseArgs,
    output: &Output,
) -> Result<LowerTree, Failure> {
    look(lower, args, Purpose::Read)?;
    let keys = keys(args, given, lower, output)?;
    LowerTree::open(lower, keys, args.ecryptfs_passthrough).map_err(|error| Failure::from(error).at(lower))
}

pub fn check(args: &TreeCheckArgs, output: &Output) -> Result<u8, Failure> {
    let tree = open(&args.lower, &args.keys, &PassphraseArgs::default(), output)?;
    let mut summary = ecryptfs::check(&tree);
    if args.contents {
        let bar = bytes_bar(summary.bytes, output);
        ecryptfs::check_contents(&tree, &mut summary, &|bytes| bar.inc(bytes));
        bar.finish_and_clear();
    }
    let mut rows = Vec::new();
    let mut text = String::new();
    let mut damaged = false;
    for finding in &summary.findings {
        let large = matches!(finding.problem, Problem::SizeTooLarge { .. });
        let mut repaired = false;
        if args.repair && large {
            output.confirm(&format!("{}: {}; the size is set to that", finding.path, finding.problem))?;
            repaired = ecryptfs::repair_size(&tree, &finding.path)?;
        }
        damaged |= finding.problem.is_damage() && !repaired;
        let note = if repaired { " (repaired)" } else { "" };
        text += &format!("{}: {}{note}\n", finding.path, finding.problem);
        rows.push(json!({
            "path": finding.path.to_string(), "lower": finding.lower.to_string(), "problem": name(&finding.problem),
            "text": finding.problem.to_string(), "damage": finding.problem.is_damage(), "repaired": repaired,
        }));
    }
    text += &format!(
        "{}, {}, {}: {}\n",
        counted(summary.files, "file", "files"),
        counted(summary.directories, "directory", "directories"),
        counted(summary.links, "link", "links"),
        match summary.findings.len() {
            0 => "all in order".to_owned(),
            count => counted(count as u64, "finding", "findings"),
        }
    );
    let json: Value = json!({
        "files": summary.files, "directories": summary.directories, "links": summary.links, "bytes": summary.bytes,
        "contents_read": args.contents, "findings": rows,
    });
    output.report(&json, &text)?;
    Ok(if damaged { Code::Device as u8 } else { 0 })
}

fn name(problem: &Problem) -> &'static str {
    match problem {
        Problem::Unreadable(TreeError::Lower(LowerError::NoKey { .. })) => "no-key",
        Problem::Unreadable(TreeError::Lower(LowerError::NoHeader { .. })) => "no-header",
        Problem::Unreadable(_) => "unreadable",
        Problem::Name => "name",
        Problem::Target(_) => "target",
        Problem::SizeTooLarge { .. } => "size-too-large",
        Problem::Extents { .. } => "extents",
        Problem::Zeros { .. } => "zeros",
        Problem::Empty => "empty",
        Problem::Behind { .. } => "behind-end",
        Problem::TooDeep { .. } => "too-deep",
        Problem::Twice => "twice",
        _ => "other",
    }
}

pub fn export(args: &TreeExportArgs, output: &Output) -> Result<u8, Failure> {
    if args.destination.symlink_metadata().is_ok() {
        return Err(Failure::new(Code::Busy, "it exists already").at(&args.destination));
    }
    let tree = open(&args.lower, &args.keys, &PassphraseArgs::default(), output)?;
    let bar = Bar(bytes_bar(0, output));
    let exported = ecryptfs::export(&tree, &args.destination, args.preserve, &bar);
    bar.0.finish_and_clear();
    let done = exported.map_err(copy_failure)?;
    for (_, error) in &done.failed {
        output.warn(copy_failure(error.clone()).what().to_owned());
    }
    output.done(
        &json!({
            "files": done.files, "directories": done.directories, "links": done.links, "bytes": done.bytes,
            "skipped": done.skipped,
            "failed": done.failed.iter().map(|(path, error)| json!({
                "path": path.to_string(), "error": error.to_string(),
            })).collect::<Vec<_>>(),
        }),
        &format!(
            "{}, {}, {}, {}; {} left out",
            counted(done.files, "file", "files"),
            counted(done.directories, "directory", "directories"),
            counted(done.links, "link", "links"),
            counted(done.bytes, "byte", "bytes"),
            done.failed.len() as u64 + done.skipped,
        ),
    )?;
    Ok(if done.failed.is_empty() { 0 } else { Code::Device as u8 })
}

/// A bar that learns how long it is.
struct Bar(ProgressBar);

impl ExportProgress for Bar {
    fn begins(&self, bytes: u64) {
        self.0.set_length(bytes);
    }

    fn advanced(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

pub fn wrap(args: &WrapArgs, output: &Output) -> Result<(), Failure> {
    if args.file.symlink_metadata().is_ok() && !output.says_yes() {
        return Err(Failure::new(Code::Busy, "it exists already").at(&args.file).hint("--yes replaces it"));
    }
    let inner = match &args.ecryptfs_passphrase_file {
        Some(file) => Source::key_file(file),
        None => Source::typed(&PassphraseArgs::default(), "--ecryptfs-passphrase-file FILE"),
    };
    let wrapping = Source::from(&args.wrapping);
    refuse_sharing_stdin(&inner, &wrapping)?;
    let passphrase = line(inner.read_new("Passphrase of the tree", output)?);
    let wrapping = line(wrapping.read_new("Passphrase to wrap it under", output)?);
    let wrapped = WrappedPassphrase::wrap(&passphrase, &wrapping, WrappedVersion::V2, &mut OsRandom)?;
    replace(&args.file, &wrapped.to_bytes())?;
    output.done(&json!({ "path": args.file.to_string_lossy() }), &format!("{} is made", args.file.display()))
}

pub fn unwrap(args: &UnwrapArgs, output: &Output) -> Result<(), Failure> {
    let wrapped = wrapped(&args.file)?;
    // Before a passphrase is asked for.
    let mut to: File = match (&args.to, args.to_fd) {
        (Some(path), _) => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| Failure::io(&error).at(path))?,
        (None, Some(fd)) => own_descriptor(fd)?.into(),
        (None, None) => return Err(Failure::parameters("--to or --to-fd says where the passphrase goes")),
    };
    let result = Source::from(&args.wrapping)
        .read(&format!("Passphrase for {}", args.file.display()), output)
        .and_then(|wrapping| Ok(wrapped.unwrap(&line(wrapping))?))
        .and_then(|passphrase| Ok(to.write_all(passphrase.expose())?));
    if let (Err(_), Some(path)) = (&result, &args.to) {
        // It is ours, and holds nothing yet.
        let _ = fs::remove_file(path);
    }
    result.map_err(|failure| failure.at(&args.file))
}

pub fn change(args: &ChangeArgs, output: &Output) -> Result<(), Failure> {
    let (old, new) = (Source::from(&args.wrapping), Source::from(&args.new));
    refuse_sharing_stdin(&old, &new)?;
    let wrapped = wrapped(&args.file)?;
    let old = line(old.read(&format!("Passphrase for {}", args.file.display()), output)?);
    let passphrase = wrapped.unwrap(&old).map_err(|error| Failure::from(error).at(&args.file))?;
    let new = line(new.read_new("New passphrase", output)?);
    let wrapped = WrappedPassphrase::wrap(&passphrase, &new, WrappedVersion::V2, &mut OsRandom)?;
    replace(&args.file, &wrapped.to_bytes())?;
    output.done(
        &json!({ "path": args.file.to_string_lossy() }),
        &format!("{} is wrapped under the new passphrase", args.file.display()),
    )
}

/// Without the newline that ends it: people write passphrases of eCryptfs with editors.
fn line(passphrase: Passphrase) -> Passphrase {
    match passphrase.expose().strip_suffix(b"\n") {
        Some(line) => Passphrase::new(SecretBytes::copy_from(line)),
        None => passphrase,
    }
}

fn wrapped(file: &Path) -> Result<WrappedPassphrase, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|opened| {
        use io::Read;
        // Longer ones are none.
        opened.take(4096).read_to_end(&mut bytes)
    });
    read.map_err(|error| Failure::io(&error).at(file))?;
    WrappedPassphrase::parse(&bytes).map_err(|error| Failure::from(error).at(file))
}

/// The old file stays until the new one is on the media.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // cannot miss: a file was read at this path.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map_err(|error| Failure::io(&error).at(path))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Failure::io(&error).at(parent))
}

impl From<EcryptfsError> for Failure {
    fn from(error: EcryptfsError) -> Self {
        match error {
            EcryptfsError::Io(error) => Self::io(&error),
            EcryptfsError::PassphraseTooLong { .. } => Self::parameters(error),
            EcryptfsError::NoKey { .. } => Self::new(Code::Refused, error),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<WrappedError> for Failure {
    fn from(error: WrappedError) -> Self {
        match error {
            WrappedError::WrongPassphrase { .. } => Self::new(Code::Refused, error),
            WrappedError::Unusable { .. } => Self::parameters(error),
            _ => Self::new(Code::Device, error),
        }
    }
}
