//! The tree of files inside a volume, for the commands that read and change it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::Access as FileAccess;
use atrest_filetree::{
    CopyError, CopyProgress, FileTree, Kind, LastLink, Step, TreeError, TreePath, Walk, WalkError, resolve,
};
use atrest_inside::{Access, filesystem_device, open_tree_with};
use atrest_nbd::Uri;
use atrest_probe::{FilesystemKind, detect};
use atrest_tree::fscrypt::Keyring;
use indicatif::ProgressBar;

use super::target::open_device;
use super::unlock::{Use, unlock, unlock_over};
use super::{drive, ecryptfs, flash, fscrypt, pin, protectors};
use crate::args::inside::PartitionArgs;
use crate::args::open::UnlockArgs;
use crate::errors::CHECK_IT;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

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
pub fn read_only(filesystem: &str, volume: &Path) -> Failure {
    Failure::parameters(format!("{filesystem} can only be read here; FAT and LittleFS can be written"))
        .at(volume)
        .hint(drive::writes(filesystem).unwrap_or_else(|| {
            "serve the volume with `atrest open` and mount it to write to other filesystems".into()
        }))
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
    ecryptfs::refuse(&partition.ecryptfs).map_err(|failure| failure.at(volume))?;
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
    let name = tree.about().name;
    if !partition.fscrypt.are_none() && !name.starts_with("ext") {
        return Err(fscrypt::of_another_filesystem(name).at(volume));
    }
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

pub fn find(tree: &dyn FileTree, path: &Path, last: LastLink) -> Result<TreePath, Failure> {
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

/// Shows how far a copy is, and tells what is left out.
pub struct Listener<'a> {
    output: &'a Output,
    bar: ProgressBar,
}

impl<'a> Listener<'a> {
    /// A listener with a bar that nobody has to wait for.
    pub fn new(bar: ProgressBar, output: &'a Output) -> Self {
        Self { output, bar }
    }

    /// Takes the bar away.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }

    fn warn(&self, text: impl std::fmt::Display) {
        self.bar.suspend(|| self.output.warn(text));
    }
}

impl CopyProgress for Listener<'_> {
    fn advanced(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn skipped(&mut self, path: &TreePath, kind: Kind) {
        self.warn(format_args!("{path}: a {kind} is not copied"));
    }

    fn failed(&mut self, error: &CopyError) {
        self.warn(copy_failure(error.clone()).what());
    }
}

/// How many bytes the files at `entries` and below have. What can't be read counts nothing: the copy tells of it.
pub fn bytes_below(tree: &dyn FileTree, entries: &[TreePath]) -> u64 {
    let steps = entries.iter().flat_map(|entry| Walk::new(tree, entry).map_while(Result::ok));
    let sizes = steps.map(|step| match step {
        Step::Leaf(visit) if visit.kind == Kind::File => visit.metadata.map_or(0, |metadata| metadata.size),
        _ => 0,
    });
    // intended: an estimate for a bar ends at the largest number.
    sizes.fold(0, u64::saturating_add)
}

/// How many bytes the files at `paths` of the host and below have, as far as they can be looked at.
pub fn host_bytes_below(paths: &[PathBuf]) -> u64 {
    let (mut sum, mut left) = (0_u64, paths.to_vec());
    while let Some(path) = left.pop() {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => {
                let entries = std::fs::read_dir(&path).into_iter().flatten();
                left.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
            }
            // intended: an estimate for a bar ends at the largest number.
            Ok(found) if found.is_file() => sum = sum.saturating_add(found.len()),
            _ => {}
        }
    }
    sum
}

pub fn at(path: &Path) -> impl FnOnce(TreeError) -> Failure {
    move |error| Failure::from(error).at(path)
}

pub fn inner_failure(path: &TreePath, error: TreeError) -> Failure {
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

pub fn exists(path: &TreePath) -> Failure {
    Failure::new(Code::Busy, format!("{path}: it exists already")).hint("--yes replaces it")
}
