//! What a directory holds, before anybody takes it for a lower directory: a folder of plain documents must not get encrypted files
//! among its own.

use core::fmt;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, openat, statat};

use super::Header;
use super::lower::LowerFile;
use super::name::NAME_PREFIX;
use crate::flags;

/// Entries that are looked at, level by level from the top: large enough to find a folder of documents for what it is, and
/// small enough for the time of a mount.
const ENTRIES: usize = 4096;

/// What a directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survey {
    /// Nothing.
    Empty,
    /// Files of eCryptfs, and none that is not encrypted.
    Ecryptfs,
    /// Files of eCryptfs, and at least one that is not encrypted.
    Mixed {
        /// One that is not encrypted, by its path below the directory.
        plain: PathBuf,
    },
    /// Nothing of eCryptfs.
    Plain {
        /// An entry, by its path below the directory: a file with contents, if one was found.
        entry: PathBuf,
    },
    /// The directory of another program that encrypts files.
    Foreign(ForeignTree),
}

/// Another program that keeps encrypted files in a directory.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignTree {
    /// gocryptfs (`gocryptfs.conf`, or `.gocryptfs.reverse.conf`).
    Gocryptfs,
    /// EncFS (`.encfs6.xml` and its predecessors).
    Encfs,
    /// CryFS (`cryfs.config`).
    Cryfs,
    /// securefs (`.securefs.json`).
    Securefs,
    /// Cryptomator (`vault.cryptomator`, `masterkey.cryptomator`).
    Cryptomator,
}

/// By which file each is known.
const FOREIGN: &[(&[u8], ForeignTree)] = &[
    (b"gocryptfs.conf", ForeignTree::Gocryptfs),
    (b".gocryptfs.reverse.conf", ForeignTree::Gocryptfs),
    (b".encfs6.xml", ForeignTree::Encfs),
    (b".encfs5", ForeignTree::Encfs),
    (b".encfs4", ForeignTree::Encfs),
    (b"cryfs.config", ForeignTree::Cryfs),
    (b".securefs.json", ForeignTree::Securefs),
    (b"vault.cryptomator", ForeignTree::Cryptomator),
    (b"masterkey.cryptomator", ForeignTree::Cryptomator),
];

/// Looks at a directory and what is below it, at the first 4096 entries, level by level. Follows no link and changes nothing.
///
/// A file is of eCryptfs if its first bytes, or its attribute `user.ecryptfs`, have the marker of a header. So is an entry of any kind
/// whose name begins as encrypted names do. A file without contents says nothing, nor does a directory, link, pipe, socket or device
/// with a plain name, nor a file that can't be read.
///
/// # Errors
/// The system's error if the directory can't be opened, or fails while it or one below it is read.
pub fn survey(directory: &Path) -> io::Result<Survey> {
    let mut found = Found::default();
    let mut left = ENTRIES;
    let mut waiting = VecDeque::from([PathBuf::new()]);
    while let Some(path) = waiting.pop_front() {
        let is_top = path.as_os_str().is_empty();
        // The directory itself may be named by a link.
        let flags = if is_top { flags::DIRECTORY } else { flags::INNER_DIRECTORY };
        let opened = match openat(CWD, directory.join(&path), flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(error) if is_top => return Err(error.into()),
            // It went meanwhile, or is not for us to read.
            Err(_) => continue,
        };
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Some(rest) = left.checked_sub(1) else { return Ok(found.verdict()) };
            left = rest;
            let inner = path.join(os_str(name));
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            if name.to_bytes().starts_with(NAME_PREFIX) {
                found.ecryptfs = true;
            }
            match kind {
                FileType::Directory => waiting.push_back(inner.clone()),
                FileType::RegularFile => match evidence(&opened, name) {
                    Evidence::Header => found.ecryptfs = true,
                    Evidence::Plain => {
                        let foreign = FOREIGN.iter().find(|(known, _)| is_top && name.to_bytes() == *known);
                        found.foreign = found.foreign.or(foreign.map(|(_, tree)| *tree));
                        found.plain.get_or_insert_with(|| inner.clone());
                    }
                    Evidence::Nothing => {}
                },
                _ => {}
            }
            found.any.get_or_insert(inner);
            if found.ecryptfs && found.plain.is_some() {
                return Ok(found.verdict());
            }
        }
    }
    Ok(found.verdict())
}

/// What was found so far.
#[derive(Default)]
struct Found {
    any: Option<PathBuf>,
    ecryptfs: bool,
    plain: Option<PathBuf>,
    foreign: Option<ForeignTree>,
}

impl Found {
    fn verdict(self) -> Survey {
        match self {
            Self { any: None, .. } => Survey::Empty,
            Self { ecryptfs: true, plain: None, .. } => Survey::Ecryptfs,
            Self { ecryptfs: true, plain: Some(plain), .. } => Survey::Mixed { plain },
            Self { foreign: Some(tree), .. } => Survey::Foreign(tree),
            Self { any: Some(any), plain, .. } => Survey::Plain { entry: plain.unwrap_or(any) },
        }
    }
}

/// What one file says of its directory.
enum Evidence {
    /// It has a header of eCryptfs.
    Header,
    /// It has contents, and no header.
    Plain,
    /// It is empty, or can't be read.
    Nothing,
}

fn evidence(directory: impl std::os::fd::AsFd, name: &CStr) -> Evidence {
    let Ok(opened) = openat(directory, name, flags::INNER_FILE, Mode::empty()) else {
        return Evidence::Nothing;
    };
    let file = File::from(opened);
    let mut bytes = [0; 16];
    match LowerFile::read_at(&file, 0, &mut bytes) {
        Ok(read) if bytes.get(..read).is_some_and(Header::is_header) => Evidence::Header,
        Ok(read) => match file.xattr() {
            Ok(Some(attribute)) if Header::is_header(&attribute) => Evidence::Header,
            _ if read == 0 => Evidence::Nothing,
            _ => Evidence::Plain,
        },
        Err(_) => Evidence::Nothing,
    }
}

fn os_str(name: &CStr) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())
}

impl fmt::Display for ForeignTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gocryptfs => "gocryptfs",
            Self::Encfs => "EncFS",
            Self::Cryfs => "CryFS",
            Self::Securefs => "securefs",
            Self::Cryptomator => "Cryptomator",
        })
    }
}
