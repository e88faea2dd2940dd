//! Reading `.fscrypt` from the filesystem that it describes, through whatever reads its files.

use core::fmt;

use atrest_filetree::{DisplayName, FileTree, Kind, LastLink, TreeError, TreePath, resolve};

use super::error::{MetadataError, RecordDamage, UnlockError};
use super::hex::ProtectorDescriptor;
use super::record::{Policy, Protector, parse_policy, parse_protector};
use super::unlock::{Unlocked, unlock};

/// Most bytes of a record, as in fscrypt.
const MAX_RECORD: u64 = 16 << 10;
/// Most entries of a directory that are looked at. fscrypt has no limit; a person has some protectors, a host some users.
const MAX_RECORDS: usize = 4096;
/// fscrypt writes a record under such a name first, and renames it then: one that is left over belongs to nobody.
const UNFINISHED: &[u8] = b".tmp";

/// All that `.fscrypt` says.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    policies: Vec<Policy>,
    protectors: Vec<Protector>,
    links: Vec<Link>,
    damaged: Vec<Damaged>,
}

/// A protector that lies on another filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name there.
    pub descriptor: ProtectorDescriptor,
    /// Which filesystem that is, as it is written: a line `UUID=…`, a line `PATH=…`, or both.
    pub target: String,
}

/// A file that is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where it lies.
    pub path: TreePath,
    /// What is wrong with it.
    pub damage: RecordDamage,
}

impl Metadata {
    /// Reads all policies and protectors of a filesystem. A record that is damaged is listed as such; the others stay usable.
    ///
    /// # Errors
    /// [`MetadataError::NotSetUp`] if there are no directories of policies and protectors,
    /// [`MetadataError::TooManyRecords`] if one has more entries than are looked at. [`MetadataError::Tree`] if one
    /// can't be read.
    pub fn read(tree: &dyn FileTree) -> Result<Self, MetadataError> {
        let mut metadata = Self::default();
        for (path, name) in records(tree, b"/.fscrypt/policies")? {
            let parsed = contents(tree, &path).and_then(|file| parse_policy(&file)).and_then(|policy| {
                match policy.key_name.to_string().as_bytes() == name {
                    true => Ok(policy),
                    false => Err(RecordDamage::NameMismatch),
                }
            });
            match parsed {
                Ok(policy) => metadata.policies.push(policy),
                Err(damage) => metadata.damaged.push(Damaged { path, damage }),
            }
        }
        for (path, name) in records(tree, b"/.fscrypt/protectors")? {
            let damage = match name.strip_suffix(b".link") {
                Some(name) => link(tree, &path, name).map(|link| metadata.links.push(link)),
                None => protector(tree, &path, &name).map(|protector| metadata.protectors.push(protector)),
            };
            if let Err(damage) = damage {
                metadata.damaged.push(Damaged { path, damage });
            }
        }
        Ok(metadata)
    }

    /// Takes over those protectors of another filesystem that this one links to; returns how many those are.
    pub fn follow_links(&mut self, other: &Metadata) -> usize {
        let before = self.links.len();
        self.links.retain(|link| {
            match other.protectors.iter().find(|protector| protector.descriptor == link.descriptor) {
                Some(protector) => {
                    self.protectors.push(protector.clone());
                    false
                }
                None => true,
            }
        });
        // cannot be less: links were removed.
        before.saturating_sub(self.links.len())
    }

    /// Policies, by descriptor.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Protectors that are here, by descriptor.
    pub fn protectors(&self) -> &[Protector] {
        &self.protectors
    }

    /// Protectors that are on other filesystems.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Files that are no records.
    pub fn damaged(&self) -> &[Damaged] {
        &self.damaged
    }

    /// The protector that a person means by a descriptor or a name; the only one if nothing is said.
    ///
    /// # Errors
    /// [`ChooseError::Ambiguous`] if several fit. If none does, [`ChooseError::Linked`] or [`ChooseError::Damaged`]
    /// with what would, and otherwise [`ChooseError::None`].
    pub fn choose(&self, wanted: Option<&str>) -> Result<&Protector, ChooseError> {
        let fits = |protector: &&Protector| match wanted {
            None => true,
            Some(text) => text == protector.name || text == protector.descriptor.to_string(),
        };
        let mut fitting = self.protectors.iter().filter(fits);
        if let Some(protector) = fitting.next() {
            return match fitting.count() {
                0 => Ok(protector),
                // cannot overflow: counts what is in memory.
                others => Err(ChooseError::Ambiguous { count: others.saturating_add(1) }),
            };
        }
        let linked = |link: &&Link| wanted.is_none_or(|text| text == link.descriptor.to_string());
        if let Some(link) = self.links.iter().find(linked) {
            return Err(ChooseError::Linked(link.clone()));
        }
        let damaged = |damaged: &&Damaged| damaged.path.name() == wanted.map(str::as_bytes);
        match self.damaged.iter().find(damaged) {
            Some(damaged) => Err(ChooseError::Damaged(damaged.clone())),
            None => Err(ChooseError::None),
        }
    }

    /// Unlocks a protector by its passphrase (the bytes of its text, without the end of the line) or its raw key, and with it
    /// the master keys of all policies that it protects.
    ///
    /// A passphrase is hashed at the costs that the protector states, after those and the memory that there is were checked.
    ///
    /// # Errors
    /// [`UnlockError::WrongSecret`] if it is not the protector's, [`UnlockError::RawKeyLen`] if it can't be
    /// anybody's. [`UnlockError::Kdf`] if the passphrase can't be hashed, as without the memory for it.
    /// [`UnlockError::ProtectsNothing`] if no policy is protected by it, [`UnlockError::DamagedPolicyKey`] if none
    /// of those that are can be unlocked.
    pub fn unlock(&self, protector: &Protector, secret: &[u8]) -> Result<Unlocked, UnlockError> {
        unlock(protector, &self.policies, secret)
    }
}

/// No protector, or more than one, is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChooseError {
    /// There is none of that name or descriptor.
    None,
    /// There are several.
    Ambiguous {
        /// How many.
        count: usize,
    },
    /// It lies on another filesystem.
    Linked(Link),
    /// Its record is damaged.
    Damaged(Damaged),
}

impl fmt::Display for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("there is no such protector"),
            Self::Ambiguous { count } => write!(f, "{count} protectors could be meant"),
            Self::Linked(link) => write!(
                f,
                "protector {} lies on another filesystem ({})",
                link.descriptor,
                DisplayName(link.target.replace('\n', ", ").as_bytes())
            ),
            Self::Damaged(damaged) => write!(f, "{}: {}", damaged.path, damaged.damage),
        }
    }
}

impl core::error::Error for ChooseError {}

/// Path and name of each entry of a directory, by name.
fn records(tree: &dyn FileTree, directory: &[u8]) -> Result<Vec<(TreePath, Vec<u8>)>, MetadataError> {
    // An administrator may have made `.fscrypt` a link to a directory elsewhere on the filesystem.
    let directory = resolve(tree, directory, LastLink::Follow).and_then(|path| match tree.metadata(&path) {
        Ok(found) if found.kind == Kind::Directory => Ok(path),
        Ok(_) => Err(TreeError::NotADirectory),
        Err(error) => Err(error),
    });
    let directory = match directory {
        Err(TreeError::NotFound | TreeError::NotADirectory) => return Err(MetadataError::NotSetUp),
        directory => directory?,
    };
    let entries = tree.list(&directory)?;
    if entries.len() > MAX_RECORDS {
        return Err(MetadataError::TooManyRecords { limit: MAX_RECORDS });
    }
    let mut records = Vec::new();
    for entry in entries.into_iter().filter(|entry| !entry.name.starts_with(UNFINISHED)) {
        records.push((directory.join(&entry.name).map_err(TreeError::from)?, entry.name));
    }
    records.sort();
    Ok(records)
}

fn protector(tree: &dyn FileTree, path: &TreePath, name: &[u8]) -> Result<Protector, RecordDamage> {
    let protector = parse_protector(&contents(tree, path)?)?;
    match protector.descriptor.to_string().as_bytes() == name {
        true => Ok(protector),
        false => Err(RecordDamage::NameMismatch),
    }
}

fn link(tree: &dyn FileTree, path: &TreePath, name: &[u8]) -> Result<Link, RecordDamage> {
    let descriptor = ProtectorDescriptor::parse(name).ok_or(RecordDamage::Name)?;
    let target = String::from_utf8(contents(tree, path)?).map_err(|_| RecordDamage::Malformed)?;
    Ok(Link { descriptor, target: target.trim_end().to_owned() })
}

/// A whole file, which is small. Links are not followed, as fscrypt does not.
fn contents(tree: &dyn FileTree, path: &TreePath) -> Result<Vec<u8>, RecordDamage> {
    let found = tree.metadata(path).map_err(RecordDamage::Tree)?;
    if found.kind != Kind::File {
        return Err(RecordDamage::NotAFile);
    }
    if found.size > MAX_RECORD {
        return Err(RecordDamage::TooLarge { size: found.size, limit: MAX_RECORD });
    }
    let mut file = Vec::new();
    let mut piece = [0; 4096];
    while (file.len() as u64) < found.size {
        let read = tree.read_at(path, file.len() as u64, &mut piece).map_err(RecordDamage::Tree)?;
        let Some(read) = piece.get(..read).filter(|read| !read.is_empty()) else { break };
        file.extend_from_slice(read);
    }
    Ok(file)
}
