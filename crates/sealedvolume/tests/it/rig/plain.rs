//! Volumes in memory without tricks.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError, Patience, Settings};
use atrest_secret::VolumeKey;

/// A trusted store in memory.
#[derive(Clone, Default)]
pub struct Cell(pub Arc<Mutex<Option<[u8; TRUSTED_RECORD_LEN]>>>);

impl TrustedStore for Cell {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        Ok(*self.0.lock().expect("the cell"))
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        *self.0.lock().expect("the cell") = Some(*record);
        Ok(())
    }
}

/// A volume and its trusted store.
#[derive(Clone)]
pub struct Plain {
    pub store: Arc<dyn ObjectStore>,
    pub cell: Cell,
    pub keys: Keys,
}

impl Plain {
    /// A new volume of so many blocks.
    pub fn new(store: Arc<dyn ObjectStore>, blocks: u64, format: u8) -> Self {
        let keys = Keys::new(&VolumeKey::copy_from(&[9; 32]), [format; 16]).expect("keys");
        let plain = Self { store, cell: Cell::default(), keys };
        plain.format(blocks).expect("a new volume");
        plain
    }

    pub fn in_memory(blocks: u64) -> Self {
        Self::new(Arc::new(MemoryStore::new()), blocks, 1)
    }

    pub fn format(&self, blocks: u64) -> Result<(), OpenError> {
        let mut freshness = Freshness::Record(Box::new(self.cell.clone()));
        let (store, keys) = (Arc::clone(&self.store), self.keys.clone());
        SealedVolume::format(store, keys, &mut freshness, (blocks, 4), &mut settings(8))
    }

    pub fn open(&self, access: Access) -> Result<SealedVolume, OpenError> {
        self.open_with(access, settings(8))
    }

    pub fn open_with(&self, access: Access, settings: Settings) -> Result<SealedVolume, OpenError> {
        let freshness = Freshness::Record(Box::new(self.cell.clone()));
        SealedVolume::open(Arc::clone(&self.store), self.keys.clone(), freshness, access, settings)
    }

    /// Every object.
    pub fn objects(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for kind in [Kind::Log, Kind::Map, Kind::Checkpoint] {
            for name in self.store.list_after(kind, None).expect("a list") {
                let bytes =
                    self.store.get(&name, usize::MAX >> 1).expect("the store answers").expect("it is listed");
                all.push((name, bytes));
            }
        }
        all
    }

    pub fn bytes(&self) -> usize {
        self.objects().iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// Batches of so many blocks, and a store that is asked twice.
pub fn settings(batch: usize) -> Settings {
    let patience = Patience {
        tries: NonZeroU32::new(2).expect("not 0"),
        first_pause: Duration::ZERO,
        ..Patience::default()
    };
    Settings { batch, patience, checkpoint_every: 16, ..Settings::default() }
}
