//! A file, link or directory: what its record and those that go on with it say.

use atrest_codec::Record;
use atrest_filetree::{Kind, TreeError};

use super::attribute::Attribute;
use super::boot::Volume;
use super::damaged;
use super::reparse::{self, Reparse};
use super::value::Value;
use crate::fault::Feature;

/// Kinds of attributes.
pub(super) mod kind {
    pub(in super::super) const STANDARD_INFORMATION: u32 = 0x10;
    pub(in super::super) const LIST: u32 = 0x20;
    pub(in super::super) const FILE_NAME: u32 = 0x30;
    pub(in super::super) const VOLUME_NAME: u32 = 0x60;
    pub(in super::super) const VOLUME_INFORMATION: u32 = 0x70;
    pub(in super::super) const DATA: u32 = 0x80;
    pub(in super::super) const INDEX_ROOT: u32 = 0x90;
    pub(in super::super) const INDEX_ALLOCATION: u32 = 0xa0;
    pub(in super::super) const BITMAP: u32 = 0xb0;
    pub(in super::super) const REPARSE_POINT: u32 = 0xc0;
}

/// Attributes of files that Windows shows.
pub(super) mod flag {
    pub(in super::super) const READ_ONLY: u32 = 0x1;
    pub(in super::super) const SYSTEM: u32 = 0x4;
    pub(in super::super) const REPARSE_POINT: u32 = 0x400;
    pub(in super::super) const ENCRYPTED: u32 = 0x4000;
    /// In the names of an index only.
    pub(in super::super) const DIRECTORY: u32 = 0x1000_0000;
}

/// MS-FSCC, section 2.1.2: no reparse point is longer.
const MAX_REPARSE: usize = 16 << 10;

/// The number of a record, by a reference to it.
pub(super) fn number(reference: u64) -> u64 {
    reference & 0xffff_ffff_ffff
}

/// How often the record had been used when the reference was made; 0 if that is not said.
pub(super) fn sequence(reference: u64) -> u16 {
    // cannot miss: 16 bits are left.
    u16::try_from(reference >> 48).unwrap_or(0)
}

pub(super) struct Inode {
    pub(super) number: u64,
    pub(super) is_directory: bool,
    pub(super) links: u32,
    pub(super) times: Times,
    flags: u32,
    attributes: Vec<Attribute>,
    reparse: Option<Reparse>,
    /// A link that ntfs-3g made: its target.
    interix: Option<Vec<u8>>,
}

/// Hundreds of nanoseconds since 1601.
#[derive(Default)]
pub(super) struct Times {
    pub(super) modified: u64,
    pub(super) changed: u64,
    pub(super) accessed: u64,
}

impl Inode {
    /// The file that has these attributes.
    pub(super) fn new(
        volume: &Volume,
        number: u64,
        is_directory: bool,
        attributes: Vec<Attribute>,
    ) -> Result<Self, TreeError> {
        let mut inode = Self {
            number,
            is_directory,
            links: 0,
            times: Times::default(),
            flags: 0,
            attributes,
            reparse: None,
            interix: None,
        };
        if let Some(information) =
            inode.resident(kind::STANDARD_INFORMATION).and_then(|value| value.first_chunk().copied())
        {
            let information = Record::<36>::new(&information);
            inode.flags = information.le32::<32>();
            inode.times = Times {
                modified: information.le64::<8>(),
                changed: information.le64::<16>(),
                accessed: information.le64::<24>(),
            };
        }
        // A short name for DOS is another name of the same link.
        const DOS: u8 = 2;
        let names = inode.attributes.iter().filter(|attribute| match &attribute.value {
            Value::Resident(name) => attribute.kind == kind::FILE_NAME && name.get(65) != Some(&DOS),
            Value::Stored(_) => false,
        });
        // cannot miss: the attributes of a file are in memory.
        inode.links = u32::try_from(names.count()).unwrap_or(u32::MAX).max(1);
        if inode.flags & flag::REPARSE_POINT != 0
            && let Some(stored) = inode.attribute(kind::REPARSE_POINT, &[])
        {
            // One with long names has no room in the record.
            let stored = stored.whole(volume, number, MAX_REPARSE)?;
            inode.reparse = Some(reparse::parse(&stored).ok_or_else(|| damaged(number))?);
        }
        if inode.flags & flag::SYSTEM != 0
            && !is_directory
            && let Some(Value::Resident(data)) = inode.data()
        {
            inode.interix = reparse::interix(data);
        }
        Ok(inode)
    }

    /// The first attribute of a kind, with this name.
    pub(super) fn attribute(&self, kind: u32, name: &[u8]) -> Option<&Value> {
        let found = self.attributes.iter().find(|attribute| attribute.kind == kind && attribute.name == name);
        found.map(|attribute| &attribute.value)
    }

    /// The value of an attribute without a name that lies in the record.
    pub(super) fn resident(&self, kind: u32) -> Option<&[u8]> {
        match self.attribute(kind, &[])? {
            Value::Resident(bytes) => Some(bytes),
            Value::Stored(_) => None,
        }
    }

    /// The contents.
    pub(super) fn data(&self) -> Option<&Value> {
        self.attribute(kind::DATA, &[])
    }

    pub(super) fn kind(&self) -> Kind {
        match (&self.reparse, &self.interix) {
            (Some(Reparse::Target(_)), _) | (_, Some(_)) => Kind::Link,
            (Some(Reparse::Special(kind)), _) => *kind,
            _ if self.is_directory => Kind::Directory,
            _ => Kind::File,
        }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.flags & flag::READ_ONLY != 0
    }

    /// Fails if what is stored is not what the file contains.
    pub(super) fn check_readable(&self) -> Result<(), TreeError> {
        if self.flags & flag::ENCRYPTED != 0 {
            return Err(Feature::NtfsEncryption.into());
        }
        match &self.reparse {
            Some(Reparse::Other(tag)) => Err(Feature::NtfsReparse { tag: *tag }.into()),
            _ => Ok(()),
        }
    }

    /// The target of a link.
    pub(super) fn target(&self) -> Result<Vec<u8>, TreeError> {
        match (&self.reparse, &self.interix) {
            (Some(Reparse::Target(target)), _) | (_, Some(target)) => Ok(target.clone()),
            _ => Err(TreeError::NotALink),
        }
    }
}
