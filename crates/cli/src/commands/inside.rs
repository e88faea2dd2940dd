//! `atrest ls`, `cat`, `cp`, `mkdir`, `rm` and `df`.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::Access as FileAccess;
use atrest_filetree::{
    CopyError, CopyOptions, CopyProgress, DisplayName, FileTree, Kind, LastLink, Metadata, Stop, TreeError,
    TreePath, WalkError, copy_in, copy_in_stream, copy_out, remove, resolve,
};
use atrest_inside::{Access, filesystem_device, open_tree_with};
use atrest_nbd::Uri;
use atrest_probe::{FilesystemKind, detect};
use atrest_tree::fscrypt::Keyring;
use serde_json::{Value, json};

use super::target::open_device;
use super::text::counted;
use super::unlock::{Use, unlock, unlock_over};
use super::{ecryptfs, flash, fscrypt, protectors};
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
    let mut rows = Vec::new();
    if metadata.kind == Kind::Directory {
        let mut entries = tree.list(&path).map_err(at(&args.path))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let inner = path.join(&entry.name).map_err(|error| at(&args.path)(error.into()))?;
            // Names alone need no look at each file.
            rows.push(match args.long || output.is_json() {
                true => Row::look(tree, entry.name, &inner, output),
                false => Row { name: entry.name, metadata: None, link: None, damage: None },
            });
        }
    } else {
        // intended: the root has no name.
        let name = path.name().unwrap_or_default().to_vec();
        let link = link(tree, &path, Some(&metadata))?;
        rows.push(Row { name, link, metadata: Some(metadata), damage: None });
    }
    let json: Vec<Value> = rows.iter().map(Row::json).collect();
    let text: String = rows.iter().map(|row| row.text(args.long)).collect();
    output.report(&json, &text)?;
    let damaged = rows.iter().any(|row| row.damage.is_some());
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
    let scheme = if Uri::is_meant(Path::new(text)) { text.find("://")? + 3 } else { 0 };
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

struct Row {
    name: Vec<u8>,
    link: Option<Vec<u8>>,
    metadata: Option<Metadata>,
    /// Why nothing more is known.
    damage: Option<TreeError>,
}

impl Row {
    /// What is known of an entry. One that is damaged takes no other along.
    fn look(tree: &dyn FileTree, name: Vec<u8>, path: &TreePath, output: &Output) -> Self {
        let found = tree.metadata(path);
        let metadata = found.as_ref().ok().cloned();
        let target = match &metadata {
            Some(Metadata { kind: Kind::Link, .. }) => tree.read_link(path).map(Some),
            _ => Ok(None),
        };
        let damage = found.err().or(target.as_ref().err().cloned());
        if let Some(error) = &damage {
            output.warn(format!("{path}: {error}"));
        }
        Self { name, link: target.unwrap_or(None), metadata, damage }
    }

    fn json(&self) -> Value {
        let mut row = json!({ "name": String::from_utf8_lossy(&self.name) });
        if let (Some(row), Some(damage)) = (row.as_object_mut(), &self.damage) {
            row.insert("error".into(), damage.to_string().into());
        }
        if let (Some(row), Some(metadata)) = (row.as_object_mut(), &self.metadata) {
            row.insert("kind".into(), metadata.kind.to_string().into());
            row.insert("size".into(), metadata.size.into());
            row.insert("mode".into(), format!("{:04o}", metadata.mode).into());
            row.insert("uid".into(), metadata.uid.into());
            row.insert("gid".into(), metadata.gid.into());
            row.insert("modified".into(), metadata.modified.seconds.into());
            if let Some(link) = &self.link {
                row.insert("target".into(), String::from_utf8_lossy(link).into());
            }
        }
        row
    }

    fn text(&self, long: bool) -> String {
        let name = DisplayName(&self.name);
        let metadata = match &self.metadata {
            Some(metadata) if long => metadata,
            None if long => {
                return format!("?????????? {:>5} {:>5} {:>12} {:16} {name}\n", "?", "?", "?", "?");
            }
            _ => return format!("{name}\n"),
        };
        // intended: what is no link has no target.
        let target = self.link.as_ref().map(|link| format!(" -> {}", DisplayName(link))).unwrap_or_default();
        format!(
            "{}{} {:>5} {:>5} {:>12} {} {name}{target}\n",
            letter(metadata.kind),
            mode_text(metadata.mode),
            metadata.uid,
            metadata.gid,
            metadata.size,
            time_text(metadata.modified.seconds),
        )
    }
}

/// The target of a link, whose metadata is known.
fn link(
    tree: &dyn FileTree,
    path: &TreePath,
    metadata: Option<&Metadata>,
) -> Result<Option<Vec<u8>>, Failure> {
    match metadata {
        Some(Metadata { kind: Kind::Link, .. }) => {
            tree.read_link(path).map(Some).map_err(|error| inner_failure(path, error))
        }
        _ => Ok(None),
    }
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Link => 'l',
        Kind::Pipe => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    }
}

fn mode_text(mode: u16) -> String {
    (0..9).rev().map(|bit| if mode >> bit & 1 == 1 { ['x', 'w', 'r'][bit % 3] } else { '-' }).collect()
}

/// A UTC time as `YYYY-MM-DD HH:MM`, by the proleptic Gregorian calendar.
fn time_text(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March, in eras of 400 years: leap days come last and need no special case.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02} {:02}:{:02}", second / 3600, second / 60 % 60)
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

    #[test]
    fn times_are_those_of_the_calendar() {
        // `date -u -d @N +'%F %R'`
        assert_eq!(time_text(0), "1970-01-01 00:00");
        assert_eq!(time_text(951_782_400), "2000-02-29 00:00");
        assert_eq!(time_text(1_767_225_599), "2025-12-31 23:59");
        assert_eq!(time_text(-1), "1969-12-31 23:59");
        assert_eq!(time_text(4_107_542_400), "2100-03-01 00:00");
    }

    #[test]
    fn modes_are_written_as_ls_does() {
        assert_eq!(mode_text(0o750), "rwxr-x---");
        assert_eq!(mode_text(0o4644), "rw-r--r--");
    }
}
