//! What is wrong in a lower directory, file by file, and the one repair that loses nothing: a size that claims more than there
//! is.

use core::fmt;

use atrest_filetree::{FileTree, Kind, LowerError, Step, TreeError, TreePath, Visit, Walk, WalkError};
use rustix::fs::OFlags;

use super::{EXTENT, EcryptfsError, EncryptedFile, LowerFile, LowerTree, NAME_PREFIX};

const EXTENT_LEN: u64 = EXTENT as u64;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where, by plain names as far as they are known.
    pub path: TreePath,
    /// Where in the lower directory, by the names that are stored there.
    pub lower: TreePath,
    /// What.
    pub problem: Problem,
}

/// What is not as it should be.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file can't be opened.
    Unreadable(TreeError),
    /// Directories are nested too deeply: what is in this one was not looked at.
    TooDeep {
        /// Levels that are looked at.
        limit: usize,
    },
    /// This directory was found elsewhere before, perhaps above itself, and was not looked at again.
    Twice,
    /// The name can't be decrypted: damaged, or under a key that is not at hand.
    Name,
    /// The target of a link can't be decrypted.
    Target(TreeError),
    /// The lower file has fewer contents than its size claims. The ones that are there can be read.
    SizeTooLarge {
        /// Bytes of contents that the header claims.
        size: u64,
        /// Bytes that are there, in whole extents.
        there: u64,
    },
    /// The lower file is empty: it was made, and a crash came before its header was written. Nothing was in it.
    Empty,
    /// Extents of the lower file can't be read.
    Extents {
        /// The first of them.
        first: u64,
        /// How many.
        extents: u64,
        /// What the system said of the last one (`errno`).
        errno: i32,
    },
    /// Extents of the lower file are zeros, which no ciphertext is: they were never written, or are lost. They read as zeros.
    Zeros {
        /// The first of them.
        first: u64,
        /// How many.
        extents: u64,
    },
    /// Bytes follow the last extent: a crash came while the file was written or cut. They are not part of it.
    Behind {
        /// Bytes in the lower file that are no contents.
        bytes: u64,
    },
}

impl Problem {
    /// Whether something is lost or can't be read, rather than left over or seen twice.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Behind { .. } | Self::Twice)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) | Self::Target(error) => error.fmt(f),
            Self::TooDeep { limit } => {
                write!(
                    f,
                    "directories are nested more than {limit} deep; what is in this one was not looked at"
                )
            }
            Self::Twice => f.write_str("it is the same directory as one that was looked at before"),
            Self::Name => f.write_str("the name can't be decrypted: it is damaged, or its key was not given"),
            Self::SizeTooLarge { size, there } => {
                write!(f, "its header claims {size} bytes, but only {there} are there; these can be read")
            }
            Self::Extents { first, extents, errno } => write!(
                f,
                "{extents} of its extents can't be read, the first of them at byte {}: {}",
                // cannot overflow: the extent was found in the file.
                first.saturating_mul(EXTENT_LEN),
                std::io::Error::from_raw_os_error(*errno)
            ),
            Self::Zeros { first, extents } => write!(
                f,
                "{extents} of its extents are zeros in the lower file, the first of them at byte {}: never written, or lost",
                // cannot overflow: the extent was found in the file.
                first.saturating_mul(EXTENT_LEN)
            ),
            Self::Empty => f.write_str("the lower file is empty: it has no header, and nothing was in it"),
            Self::Behind { bytes } => write!(f, "{bytes} bytes follow its last extent and belong to nothing"),
        }
    }
}

/// What a check looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of contents in the files that can be read, in whole extents.
    pub bytes: u64,
    /// Everything that is not as it should be.
    pub findings: Vec<Finding>,
    /// Files with a header and a key.
    pub(super) readable: Vec<TreePath>,
}

/// Looks at every entry of a lower directory, without reading contents.
pub fn check(tree: &LowerTree) -> CheckSummary {
    let mut summary = CheckSummary::default();
    for step in Walk::by_names(tree, &TreePath::root()) {
        match step {
            Ok(Step::Enter(visit)) => {
                // intended: a count for people.
                summary.directories = summary.directories.saturating_add(1);
                summary.look_at_name(tree, &visit.path);
            }
            Ok(Step::Leave(_)) => {}
            Ok(Step::Leaf(visit)) => {
                summary.look_at_name(tree, &visit.path);
                leaf(tree, visit, &mut summary);
            }
            Err(error) => summary.unreadable(tree, error),
        }
    }
    summary
}

/// Sets the size of a file to what is there. The file is looked at anew; `false` if there is nothing to repair by now.
///
/// # Errors
/// [`TreeError::Lower`] if the lower file can't be opened to be written, or the new size can't be stored.
pub fn repair_size(tree: &LowerTree, path: &TreePath) -> Result<bool, TreeError> {
    let (Some(Problem::SizeTooLarge { there, .. }), _) = file(tree, path) else {
        return Ok(false);
    };
    let lower = tree.open_lower_for(path, OFlags::RDWR)?;
    let opened = EncryptedFile::open(lower, tree.keys())?;
    opened.set_len(there)?;
    opened.sync()?;
    Ok(true)
}

fn leaf(tree: &LowerTree, visit: Visit, summary: &mut CheckSummary) {
    let path = visit.path;
    match visit.kind {
        Kind::File => {
            // intended: a count for people.
            summary.files = summary.files.saturating_add(1);
            let (problem, bytes) = file(tree, &path);
            if let Some(problem) = problem {
                summary.add(tree, &path, problem);
            }
            if let Some(bytes) = bytes {
                // intended: a count for people.
                summary.bytes = summary.bytes.saturating_add(bytes);
                summary.readable.push(path);
            }
        }
        Kind::Link => {
            // intended: a count for people.
            summary.links = summary.links.saturating_add(1);
            if let Err(error) = tree.read_link(&path) {
                summary.add(tree, &path, Problem::Target(error));
            }
        }
        _ => {}
    }
}

/// What is wrong with a file, and how many bytes of contents it has if it can be opened.
fn file(tree: &LowerTree, path: &TreePath) -> (Option<Problem>, Option<u64>) {
    let opened = tree.open_lower(path).and_then(|file| {
        let len = LowerFile::len(&file).map_err(EcryptfsError::from)?;
        let header = EncryptedFile::header(&file)?.0;
        // With the key, too: a header whose key is not there is no use.
        EncryptedFile::open(file, tree.keys())?;
        Ok((len, header))
    });
    let (len, header) = match opened {
        Ok(opened) => opened,
        Err(TreeError::Lower(LowerError::NoHeader { len: 0 })) => return (Some(Problem::Empty), None),
        Err(TreeError::Lower(LowerError::NoHeader { .. })) if tree.passes_through() => return (None, None),
        Err(error) => return (Some(Problem::Unreadable(error)), None),
    };
    // intended: nothing is behind a header that is longer than the file.
    let behind_header = len.saturating_sub(header.contents_at);
    // cannot be less: a remainder.
    let there = behind_header.saturating_sub(behind_header % EXTENT_LEN);
    // cannot overflow: Header::parse takes up to 2^63.
    let wanted = header.size.checked_next_multiple_of(EXTENT_LEN).unwrap_or(u64::MAX);
    if wanted > there {
        return (Some(Problem::SizeTooLarge { size: header.size, there }), Some(there));
    }
    // intended: nothing is left over when extents are missing.
    let bytes = behind_header.saturating_sub(wanted);
    ((bytes > 0).then_some(Problem::Behind { bytes }), Some(wanted))
}

impl CheckSummary {
    fn look_at_name(&mut self, tree: &LowerTree, path: &TreePath) {
        if path.name().is_some_and(|name| name.starts_with(NAME_PREFIX)) {
            self.add(tree, path, Problem::Name);
        }
    }

    /// A directory that the walk can't enter.
    fn unreadable(&mut self, tree: &LowerTree, error: WalkError) {
        match error {
            WalkError::Tree { path, error } => {
                // intended: a count for people.
                self.directories = self.directories.saturating_add(1);
                self.look_at_name(tree, &path);
                self.add(tree, &path, Problem::Unreadable(error));
            }
            WalkError::TooDeep { path, limit } => self.add(tree, &path, Problem::TooDeep { limit }),
            WalkError::Twice { second: path, .. } | WalkError::SharedCluster { second: path, .. } => {
                self.add(tree, &path, Problem::Twice);
            }
            // There is no limit to the entries of a lower directory.
            _ => self.add(tree, &TreePath::root(), Problem::Unreadable(TreeError::Unsupported)),
        }
    }

    pub(super) fn add(&mut self, tree: &LowerTree, path: &TreePath, problem: Problem) {
        // intended: for people; a path that is gone has no name.
        let lower = tree.lower_path(path).unwrap_or_default();
        self.findings.push(Finding { path: path.clone(), lower, problem });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Keys;
    use super::*;

    /// What a walk can't enter, which root meets nowhere in a directory of its own.
    #[test]
    fn every_error_of_a_walk_is_a_finding() {
        let scratch = atrest_testkit::Scratch::new();
        let tree = LowerTree::open(scratch.as_path(), Keys::new(), false).expect("a directory");
        let (first, path) = (TreePath::root(), TreePath::parse("a/b").expect("a path"));
        let locked = || TreeError::Lower(LowerError::Host { errno: 13 });
        let name = TreePath::parse("ECRYPTFS_FNEK_ENCRYPTED.x").expect("a path");
        let second = || path.clone();
        for (error, at, directories, problems) in [
            (
                WalkError::Tree { path: second(), error: locked() },
                &path,
                1,
                &[Problem::Unreadable(locked())][..],
            ),
            (
                WalkError::Tree { path: name.clone(), error: locked() },
                &name,
                1,
                &[Problem::Name, Problem::Unreadable(locked())],
            ),
            (WalkError::TooDeep { path: second(), limit: 9 }, &path, 0, &[Problem::TooDeep { limit: 9 }]),
            (WalkError::Twice { first: first.clone(), second: second() }, &path, 0, &[Problem::Twice]),
            (
                WalkError::SharedCluster { cluster: 1, first: first.clone(), second: second() },
                &path,
                0,
                &[Problem::Twice],
            ),
            (
                WalkError::TooMany { path: second(), limit: 1 },
                &first,
                0,
                &[Problem::Unreadable(TreeError::Unsupported)],
            ),
        ] {
            let mut summary = CheckSummary::default();
            summary.unreadable(&tree, error);
            let found: Vec<_> = summary.findings.iter().map(|finding| finding.problem.clone()).collect();
            assert_eq!((found.as_slice(), summary.directories), (problems, directories));
            assert!(summary.findings.iter().all(|finding| finding.path == *at));
        }
    }
}
