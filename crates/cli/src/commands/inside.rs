//! `atrest ls`, `cat`, `cp`, `mkdir`, `rm` and `df`.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::Access as FileAccess;
use atrest_filetree::{
    CopyError, CopyOptions, CopyProgress, FileTree, Kind, LastLink, Stop, TreeError, TreePath, WalkError,
    copy_in, copy_in_stream, copy_out, remove, resolve,
};
use atrest_inside::{Access, filesystem_device, open_tree_with};
use atrest_nbd::Uri;
use atrest_probe::{FilesystemKind, detect};
use atrest_tree::fscrypt::Keyring;
use serde_json::json;

use super::listing::{Row, Rows};
use super::target::open_device;
use super::text::counted;
use super::unlock::{Use, is_sealed, unlock, unlock_over};
use super::{ecryptfs, flash, fscrypt, pin, protectors};
use crate::args::inside::{CatArgs, CpArgs, DfArgs, LsArgs, MkdirArgs, PartitionArgs, RmArgs};
use crate::args::open::UnlockArgs;
use crate::errors::CHECK_IT;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;
use crate::streams;

pub fn ls(args: &LsArgs, output: &Output) -> Result<u8, Failure> {
    let tree = open(&args.volume, &args.unlock, &args.partition, false, output)?;
    let tree = &*tree;
    let path = find(tree, &args.path, LastLink::Follow)?;
    let metadata = tree.metadata(&path).map_err(at(&args.path))?;
    // Names alone need no look at each file.
    let looks = args.long || output.is_json();
    let rows = match metadata.kind {
        Kind::Directory => Rows::of_directory(tree, &path, looks).map_err(at(&args.path))?,
        _ => Rows::of_one(&path, &metadata),
    };
    let mut damaged = false;
    let shown = rows.iter().map(|row| {
        let inner = if metadata.kind == Kind::Directory { path.join(row.name) } else { Ok(path.clone()) };
        let row = row.look(tree, &inner.map_err(|error| at(&args.path)(error.into()))?, output);
        damaged |= row.damage.is_some();
        Ok(row)
    });
    output.report_each(shown, Row::json, |row| row.text(args.long))?;
    Ok(if damaged { Code::Device as u8 } else { 0 })
}

pub fn cat(args: &CatArgs, output: &Output) -> Result<(), Failure> {
    let volume = streams::volume(&args.volume, &args.unlock.secret)?;
    let tree = open(&volume, &args.unlock, &args.partition, false, output)?;
    print(&*tree, &args.path)
}

/// Writes a file to standard output.
fn print(tree: &dyn FileTree, inner: &Path) -> Result<(), Failure> {
    let path = find(tree, inner, LastLink::Follow)?;
    let mut out = io::stdout().lock();
    let mut failure = None;
    let read = tree.read_to(&path, &mut |piece| {
        out.write_all(piece).map_err(|error| {
            failure = Some(error);
            Stop
        })
    });
    if let Some(error) = failure {
        return Err(Failure::io(&error));
    }
    read.map_err(at(inner))?;
    Ok(out.flush()?)
}

pub fn cp(args: &CpArgs, output: &Output) -> Result<u8, Failure> {
    let (volume, inner, local, inward) = match (split(&args.source), split(&args.destination)) {
        (Some((volume, inner)), None) => (volume, inner, &args.destination, false),
        (None, Some((volume, inner))) => (volume, inner, &args.source, true),
        _ => {
            return Err(Failure::parameters(
                "one side must be VOLUME:/path, and the other a path of this system",
            )
            .hint("as in: atrest cp secret.img:/etc/hostname ."));
        }
    };
    let is_stream = streams::is_stream(Path::new(local));
    if is_stream && (args.recursive || args.preserve) {
        return Err(Failure::parameters("\"-\" is one file, without directories and permissions")
            .hint("leave --recursive and --preserve out, or name a path"));
    }
    let mut source = match is_stream && inward {
        true => Some(streams::input(&args.unlock.secret)?),
        false => None,
    };
    let tree = open_as_it_is(&volume, &args.unlock, &args.partition, inward, output)?;
    if inward && args.keep_going {
        return Err(Failure::parameters("--keep-going is for copies out of a volume"));
    }
    // What can't be made can be overwritten.
    if inward && !tree.about().writable && (is_stream || !tree.overwrites()) {
        return Err(read_only(tree.about().name, &volume));
    }
    let options = CopyOptions {
        recursive: args.recursive,
        overwrite: output.says_yes(),
        preserve_permissions: args.preserve,
        keep_going: args.keep_going,
    };
    let mut listener = Listener { output };
    if is_stream && !inward {
        return print(&*tree, &inner).map(|()| 0);
    }
    let copied = if let Some(source) = &mut source {
        let to = find(&*tree, &inner, LastLink::Follow)?;
        copy_in_stream(source, &*tree, &to, &options, &mut listener)
    } else if inward {
        let to = find(&*tree, &inner, LastLink::Follow)?;
        copy_in(Path::new(local), &*tree, &to, &options, &mut listener)
    } else {
        let from = find(&*tree, &inner, LastLink::Keep)?;
        copy_out(&*tree, &from, Path::new(local), &options, &mut listener)
    };
    let done = copied.map_err(copy_failure)?;
    output.done(
        &json!({
            "files": done.files, "directories": done.directories, "links": done.links,
            "bytes": done.bytes, "skipped": done.skipped, "failed": done.failed,
        }),
        &format!(
            "{}, {}, {}, {}{}",
            counted(done.files, "file", "files"),
            counted(done.directories, "directory", "directories"),
            counted(done.links, "link", "links"),
            counted(done.bytes, "byte", "bytes"),
            if args.keep_going {
                format!("; {} left out", done.failed + done.skipped)
            } else {
                String::new()
            },
        ),
    )?;
    Ok(if done.failed == 0 { 0 } else { Code::Device as u8 })
}

/// `VOLUME:/path` in its two halves; `None` for a path of this system.
fn split(text: &str) -> Option<(PathBuf, PathBuf)> {
    if text.starts_with("./") || text.starts_with("../") {
        // A local name may contain anything; a volume there is written with its directory all the same.
        let colon = text.rfind(":/")?;
        let place = Path::new(&text[..colon]);
        return (place.is_file() || place.is_dir()).then(|| (text[..colon].into(), text[colon + 1..].into()));
    }
    // The first one of a URI is that of its scheme.
    let path = Path::new(text);
    let scheme = if Uri::is_meant(path) || is_sealed(path) { text.find("://")? + 3 } else { 0 };
    let colon = scheme + text[scheme..].find(":/")?;
    Some((text[..colon].into(), text[colon + 1..].into()))
}

pub fn mkdir(args: &MkdirArgs, output: &Output) -> Result<(), Failure> {
    let tree = open(&args.volume, &args.unlock, &args.partition, true, output)?;
    let tree = &*tree;
    let mut missing =
        vec![find(tree, &args.path, LastLink::Follow).or_else(|failure| {
            match args.parents {
                true => TreePath::parse(args.path.as_os_str().as_bytes())
                    .map_err(|error| at(&args.path)(error.into())),
                false => Err(failure),
            }
        })?];
    while let Some(parent) = missing.last().filter(|_| args.parents).and_then(TreePath::parent) {
        missing.push(parent);
    }
    while let Some(path) = missing.pop() {
        match tree.make_dir(&path) {
            Err(TreeError::Exists) if args.parents && is_dir(tree, &path) => {}
            Err(TreeError::Exists) => {
                return Err(Failure::new(Code::Busy, format!("{path}: it exists already")));
            }
            made => made.map_err(|error| inner_failure(&path, error))?,
        }
    }
    tree.flush().map_err(at(&args.volume))?;
    output.done(&json!({ "made": args.path.to_string_lossy() }), &format!("{} is made", args.path.display()))
}

fn is_dir(tree: &dyn FileTree, path: &TreePath) -> bool {
    tree.metadata(path).is_ok_and(|found| found.kind == Kind::Directory)
}

pub fn rm(args: &RmArgs, output: &Output) -> Result<(), Failure> {
    let tree = open(&args.volume, &args.unlock, &args.partition, true, output)?;
    let path = find(&*tree, &args.path, LastLink::Keep)?;
    let removed = remove(&*tree, &path, args.recursive).map_err(|error| copy_failure(error.into()))?;
    tree.flush().map_err(at(&args.volume))?;
    output.done(&json!({ "removed": removed }), &format!("{} removed", counted(removed, "entry", "entries")))
}

pub fn df(args: &DfArgs, output: &Output) -> Result<(), Failure> {
    let tree = open(&args.volume, &args.unlock, &args.partition, false, output)?;
    let (about, space) = (tree.about(), tree.space().map_err(at(&args.volume))?);
    // cannot overflow: a filesystem lies inside its device.
    let bytes = |blocks: u64| blocks.saturating_mul(space.block_size.into());
    let (size, free) = (bytes(space.blocks), bytes(space.free));
    // cannot overflow: readers count no more free blocks than there are.
    let used = size.saturating_sub(free);
    output.report(
        &json!({
            "filesystem": about.name, "block_size": space.block_size, "blocks": space.blocks, "free_blocks": space.free,
            "size": size, "used": used, "free": free,
        }),
        &format!("{}: {size} bytes, {used} used, {free} free ({} of {})", about.name, counted(space.blocks, "block", "blocks"), space.block_size),
    )
}

/// Unlocks the volume and opens the filesystem in it, which can be written if that is asked for.
pub fn open(
    volume: &Path,
    unlock_args: &UnlockArgs,
    partition: &PartitionArgs,
    write: bool,
    output: &Output,
) -> Result<Box<dyn FileTree>, Failure> {
    let tree = open_as_it_is(volume, unlock_args, partition, write, output)?;
    let about = tree.about();
    if write && !about.writable {
        return Err(read_only(about.name, volume));
    }
    Ok(tree)
}

/// What is said where a filesystem can't be written.
fn read_only(filesystem: &str, volume: &Path) -> Failure {
    Failure::parameters(format!("{filesystem} can only be read here; FAT and LittleFS can be written"))
        .at(volume)
        .hint("serve the volume with `atrest open` and mount it to write to other filesystems")
}

/// Unlocks the volume and opens the filesystem in it; a directory is opened as eCryptfs. A filesystem that can't be written
/// is opened all the same: [`open`] refuses it if `write` is set.
pub fn open_as_it_is(
    volume: &Path,
    unlock_args: &UnlockArgs,
    partition: &PartitionArgs,
    write: bool,
    output: &Output,
) -> Result<Box<dyn FileTree>, Failure> {
    if volume.is_dir() {
        fscrypt::refuse(&partition.fscrypt)?;
        pin::refuse(&unlock_args.expect, volume)?;
        return Ok(Box::new(ecryptfs::open(
            volume,
            &partition.ecryptfs,
            &unlock_args.secret.passphrase,
            output,
        )?));
    }
    let keyring = fscrypt::keyring(&partition.fscrypt, output)?;
    if unlock_args.single_snapshot {
        keyring.acknowledge_single_snapshot();
    }
    open_with(volume, unlock_args, partition, write, keyring, output)
}

/// Unlocks the volume on a file or block device and opens the filesystem in it. The keys of `keyring` decrypt what that
/// filesystem itself encrypts; those of the protectors that were named are added. An ext2, ext3 or ext4 is opened without a
/// volume, too.
pub fn open_with(
    volume: &Path,
    unlock_args: &UnlockArgs,
    partition: &PartitionArgs,
    write: bool,
    keyring: Arc<Keyring>,
    output: &Output,
) -> Result<Box<dyn FileTree>, Failure> {
    if flash::is_flash_volume(volume, unlock_args) {
        return flash::tree(volume, unlock_args, partition, write, output);
    }
    let device = device(volume, unlock_args, partition, write, output)?;
    read(device, volume, unlock_args, partition, write, keyring, output)
}

/// The device on which the filesystem inside a volume starts.
pub fn device(
    volume: &Path,
    unlock_args: &UnlockArgs,
    partition: &PartitionArgs,
    write: bool,
    output: &Output,
) -> Result<Arc<dyn BlockDevice>, Failure> {
    let wanted = Use { write, ..Use::default() };
    let disk: Arc<dyn BlockDevice> = if Uri::is_meant(volume) {
        // Opened once: some servers let in one client, and end when it has gone.
        let device = open_device(volume, wanted.held_access())?;
        match unlock_args.names_no_volume() && is_ext4(&device) {
            true => Arc::new(device),
            false => Arc::new(unlock_over(device, unlock_args, wanted, output)?.disk),
        }
    } else {
        let access = if write { FileAccess::ReadWrite } else { FileAccess::ReadOnly };
        match is_bare_ext4(volume, unlock_args) {
            true => Arc::new(open_device(volume, access)?),
            false => Arc::new(unlock(volume, unlock_args, wanted, output)?.disk),
        }
    };
    filesystem_device(disk, partition.partition).map_err(|error| Failure::from(error).at(volume))
}

/// Opens what is on such a device by a reader of ours, with what `--fscrypt-protector` gives.
pub fn read(
    device: Arc<dyn BlockDevice>,
    volume: &Path,
    unlock_args: &UnlockArgs,
    partition: &PartitionArgs,
    write: bool,
    keyring: Arc<Keyring>,
    output: &Output,
) -> Result<Box<dyn FileTree>, Failure> {
    let access = if write { Access::ReadWrite } else { Access::ReadOnly };
    let tree = open_tree_with(device, access, Some(keyring.clone())).map_err(at(volume))?;
    let typed = Source::typed(&unlock_args.secret.passphrase, protectors::INSTEAD);
    let given = &partition.fscrypt.protectors.fscrypt_protector;
    for unlocked in protectors::unlock(&*tree, volume, given, &typed, output)? {
        keyring.add(unlocked.key).map_err(Failure::parameters)?;
    }
    let about = tree.about();
    for note in &about.notes {
        output.warn(format!("{}: {note}", volume.display()));
    }
    Ok(tree)
}

/// Whether an ext2, ext3 or ext4 begins at the first byte: no volume, but directories in it may be encrypted. Other filesystems
/// encrypt nothing, so they are no business of ours: whoever names one has mistaken it for a volume.
fn is_bare_ext4(volume: &Path, unlock_args: &UnlockArgs) -> bool {
    if !unlock_args.names_no_volume() {
        return false;
    }
    open_device(volume, FileAccess::ReadOnly).is_ok_and(|device| is_ext4(&device))
}

fn is_ext4(device: &dyn BlockDevice) -> bool {
    matches!(detect(device), Ok(Some(FilesystemKind::Ext2 | FilesystemKind::Ext3 | FilesystemKind::Ext4)))
}

fn find(tree: &dyn FileTree, path: &Path, last: LastLink) -> Result<TreePath, Failure> {
    let found = resolve(tree, path.as_os_str().as_bytes(), last);
    // The last name of a path need not be there, but what is read must be.
    let missing = match &found {
        Ok(found) => tree.metadata(found).is_err_and(|error| error == TreeError::NotFound),
        Err(error) => *error == TreeError::NotFound,
    };
    match locked_above(tree, path).filter(|_| missing) {
        Some(locked) => Err(locked),
        None => found.map_err(at(path)),
    }
}

/// Where a name is not found, that may be because its directory is locked, and shows other names.
fn locked_above(tree: &dyn FileTree, path: &Path) -> Option<Failure> {
    let deepest = path.ancestors().skip(1).find_map(|above| {
        let found = resolve(tree, above.as_os_str().as_bytes(), LastLink::Follow).ok();
        found.filter(|found| tree.metadata(found).is_ok())
    })?;
    match tree.check_readable(&deepest) {
        Err(locked @ (TreeError::Locked { .. } | TreeError::Encrypted { .. })) => {
            Some(inner_failure(&deepest, locked))
        }
        _ => None,
    }
}

pub struct Listener<'a> {
    pub output: &'a Output,
}

impl CopyProgress for Listener<'_> {
    fn skipped(&mut self, path: &TreePath, kind: Kind) {
        self.output.warn(format!("{path}: a {kind} is not copied"));
    }

    fn failed(&mut self, error: &CopyError) {
        self.output.warn(copy_failure(error.clone()).what());
    }
}

fn at(path: &Path) -> impl FnOnce(TreeError) -> Failure {
    move |error| Failure::from(error).at(path)
}

fn inner_failure(path: &TreePath, error: TreeError) -> Failure {
    let failure = Failure::from(error);
    let what = failure.what().to_owned();
    failure.saying(format!("{path}: {what}"))
}

pub fn copy_failure(error: CopyError) -> Failure {
    match error {
        CopyError::Tree { path, error: TreeError::Exists } => exists(&path),
        CopyError::Tree { path, error } => inner_failure(&path, error),
        CopyError::Host { path, errno } => Failure::io(&io::Error::from_raw_os_error(errno)).at(&path),
        error @ CopyError::Walk(WalkError::TooDeep { .. }) => Failure::new(Code::Device, error),
        error @ (CopyError::Walk(_) | CopyError::LargerThanFilesystem { .. }) => {
            Failure::new(Code::Device, error).hint(CHECK_IT)
        }
        error => Failure::new(Code::Device, error),
    }
}

fn exists(path: &TreePath) -> Failure {
    Failure::new(Code::Busy, format!("{path}: it exists already")).hint("--yes replaces it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_path_is_split_at_its_colon() {
        assert_eq!(split("a.img:/x/y"), Some(("a.img".into(), "/x/y".into())));
        assert_eq!(split("/dev/sdx:/"), Some(("/dev/sdx".into(), "/".into())));
        assert_eq!(split("a.img:/x:/y"), Some(("a.img".into(), "/x:/y".into())));
        assert_eq!(split("nbd://host:1/x:/y"), Some(("nbd://host:1/x".into(), "/y".into())));
        assert_eq!(split("nbd://[::1]:/y"), Some(("nbd://[::1]".into(), "/y".into())));
        let socket = "nbd+unix:///?socket=/run/x.sock";
        assert_eq!(split(&format!("{socket}:/y:/z")), Some((socket.into(), "/y:/z".into())));
        for local in ["nbd://host/x", socket, "plain", "/etc/passwd", "c:file", "./no-such-volume:/x"] {
            assert_eq!(split(local), None, "{local}");
        }
    }
}
