//! How the data, its tree and the parity fit together, and on which devices they are.

use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_format::verity::{Fec, Parameters, SUPERBLOCK_LEN, Superblock, Tree, TreePlace};
use atrest_kdf::Hash;

use super::error::{Part, VerityError};
use super::hasher::Hasher;

/// The devices. One device can be several of them.
#[derive(Clone)]
pub struct Parts {
    /// What is protected.
    pub data: Arc<dyn BlockDevice>,
    /// What holds the tree.
    pub tree: Arc<dyn BlockDevice>,
    /// What holds the parity of error correction, if there is one.
    pub parity: Option<Arc<dyn BlockDevice>>,
}

/// Which of the parts are on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// The data and the tree.
    pub data_tree: bool,
    /// The data and the parity.
    pub data_parity: bool,
    /// The tree and the parity.
    pub tree_parity: bool,
}

/// What error correction is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FecOptions {
    /// Bytes of parity in a codeword of 255.
    pub roots: u32,
    /// Where the parity begins on its device, in bytes.
    pub offset: u64,
}

/// The parameters of a tree with everything that follows from them.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) parameters: Parameters,
    pub(super) place: TreePlace,
    pub(super) tree: Tree,
    pub(super) hasher: Hasher,
    pub(super) fec: Option<Fec>,
}

impl Layout {
    /// Lays out a tree.
    ///
    /// # Errors
    /// [`VerityError::Hash`] if the hash is not known, [`VerityError::Tree`] if there is no such tree.
    pub fn new(parameters: Parameters, place: TreePlace) -> Result<Self, VerityError> {
        let hash = Hash::named(parameters.hash()).map_err(VerityError::Hash)?;
        let hasher = Hasher::new(hash, parameters.hash_type(), parameters.salt());
        let tree = Tree::new(&parameters, hasher.len(), place).map_err(VerityError::Tree)?;
        Ok(Self { parameters, place, tree, hasher, fec: None })
    }

    /// Reads the superblock at byte `offset` of a device, and lays out its tree.
    ///
    /// # Errors
    /// [`VerityError::Superblock`] if there is none that can be used, [`VerityError::Device`] if it can't be read. Otherwise it fails
    /// where [`new`](Self::new) does.
    pub fn read(device: &dyn BlockDevice, offset: u64) -> Result<(Superblock, Self), VerityError> {
        let mut bytes = [0; SUPERBLOCK_LEN];
        let read = device.read_at(offset, &mut bytes);
        read.map_err(|error| VerityError::Device { part: Part::Tree, error })?;
        let superblock = Superblock::parse(&bytes).map_err(VerityError::Superblock)?;
        let layout = Self::new(superblock.parameters.clone(), TreePlace { offset, superblock: true })?;
        Ok((superblock, layout))
    }

    /// Adds error correction. It covers the data, the tree, and what follows the tree: up to the parity, if that is on the
    /// same device, else up to the end of the tree's device, which has `tree_size` bytes.
    ///
    /// # Errors
    /// [`VerityError::Fec`] if there is no such code, [`VerityError::Overlap`] if the parity would begin before the end of
    /// the tree, [`VerityError::TooShort`] if the tree's device is.
    pub fn with_fec(
        mut self,
        options: FecOptions,
        tree_size: u64,
        together: Together,
    ) -> Result<Self, VerityError> {
        let block = self.parameters.hash_block();
        let tree_end = self.tree.end_bytes();
        let covered_end = if together.tree_parity { options.offset } else { tree_size };
        let hash_blocks = (covered_end / u64::from(block)).checked_sub(self.tree.first());
        let hash_blocks =
            hash_blocks.filter(|_| covered_end >= tree_end).ok_or(match together.tree_parity {
                true => VerityError::Overlap { first: Part::Tree, second: Part::Parity },
                false => VerityError::TooShort { part: Part::Tree, size: tree_size, needed: tree_end },
            })?;
        let sizes = (self.parameters.data_block(), block);
        let blocks = (self.parameters.data_blocks(), hash_blocks);
        let fec = Fec::new(options.roots, sizes, blocks, options.offset).map_err(VerityError::Fec)?;
        self.fec = Some(fec);
        Ok(self)
    }

    /// Checks that parts on one device do not overlap.
    ///
    /// # Errors
    /// [`VerityError::Overlap`] names the two that do.
    pub fn check_overlap(&self, together: Together) -> Result<(), VerityError> {
        let data_end = self.parameters.data_len();
        if together.data_tree && self.place.offset < data_end {
            return Err(VerityError::Overlap { first: Part::Data, second: Part::Tree });
        }
        match &self.fec {
            Some(fec) if together.data_parity && fec.offset() < data_end => {
                Err(VerityError::Overlap { first: Part::Data, second: Part::Parity })
            }
            Some(fec) if together.tree_parity && fec.offset() < self.tree.end_bytes() => {
                Err(VerityError::Overlap { first: Part::Tree, second: Part::Parity })
            }
            _ => Ok(()),
        }
    }

    /// Checks that each device is long enough.
    ///
    /// # Errors
    /// [`VerityError::TooShort`] for the first that is not.
    pub fn check_sizes(&self, parts: &Parts) -> Result<(), VerityError> {
        let long_enough = |part: Part, device: &dyn BlockDevice, needed: u64| match device.size() {
            size if size < needed => Err(VerityError::TooShort { part, size, needed }),
            _ => Ok(()),
        };
        long_enough(Part::Data, &*parts.data, self.parameters.data_len())?;
        long_enough(Part::Tree, &*parts.tree, self.tree.needed_bytes())?;
        match (&self.fec, &parts.parity) {
            (Some(fec), Some(parity)) => long_enough(Part::Parity, &**parity, fec.end()),
            _ => Ok(()),
        }
    }

    /// What the hashes depend on.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Where the tree is.
    pub fn place(&self) -> TreePlace {
        self.place
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Error correction, if there is any.
    pub fn fec(&self) -> Option<&Fec> {
        self.fec.as_ref()
    }
}
