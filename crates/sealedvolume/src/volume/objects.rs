//! A store and the keys of what is in it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use atrest_secret::{Random, RandomError};

use super::patience::Health;
use super::{OpenError, Patience, Settings, Stores, VolumeError};
use crate::format::{Aead, FormatError, FormatId, Keys, Kind, MOST_OBJECT, ObjectCipher, OtherKey, Prelude};
use crate::lru::Lru;
use crate::store::{Counted, Names, ObjectStore, Put, StoreError, Traffic};

/// Objects whose ciphers are kept, at most: half a gibibyte of full ones. To make one takes longer than to decrypt a block.
const CIPHERS: usize = 64;

/// Objects of one volume.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) keys: Keys,
    /// Stores of the volumes that this one is a clone of.
    pub(crate) origins: Arc<BTreeMap<FormatId, Arc<dyn ObjectStore>>>,
    pub(crate) aead: Aead,
    pub(crate) patience: Patience,
    /// What the stores were asked for.
    pub(crate) traffic: Arc<Traffic>,
    health: Arc<Health>,
    /// Of the objects that were read last, by their salts.
    ciphers: Arc<Mutex<Ciphers>>,
}

type Ciphers = Lru<[u8; 16], (Arc<Prelude>, Arc<ObjectCipher>)>;

impl Objects {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, keys: Keys, settings: &Settings) -> Self {
        let (aead, patience, traffic) = (settings.aead, settings.patience, Arc::<Traffic>::default());
        let store = Arc::new(Counted { store, traffic: traffic.clone() });
        let ciphers = Arc::new(Mutex::new(Lru::new(CIPHERS)));
        Self {
            store,
            keys,
            origins: Arc::default(),
            aead,
            patience,
            traffic,
            health: Arc::default(),
            ciphers,
        }
    }

    /// The cipher of an object that is named by what was verified.
    pub(crate) fn cipher(&self, object: &Arc<Prelude>) -> Result<Arc<ObjectCipher>, FormatError> {
        let kept = || self.ciphers.lock().unwrap_or_else(PoisonError::into_inner); // intended: each change of it is whole.
        let known = kept().find(&object.salt);
        if let Some((_, cipher)) = known.filter(|(of, _)| of == object) {
            return Ok(cipher);
        }
        let cipher = Arc::new(self.keys.known(object)?);
        kept().keep(object.salt, 1, (Arc::clone(object), Arc::clone(&cipher)));
        Ok(cipher)
    }

    /// With the keys that a root names beside the volume's own, which is the one that has sealed the root, and the stores of other volumes.
    pub(crate) fn with(
        &self,
        epoch: u32,
        others: &[OtherKey],
        stores: Option<&Stores>,
    ) -> Result<Self, OpenError> {
        let keys = self.keys.at(epoch).with(others).map_err(|_| OpenError::Limit(FormatError::Layout))?;
        let mut origins = BTreeMap::<FormatId, Arc<dyn ObjectStore>>::new();
        for other in others.iter().filter(|other| !other.place.is_empty()) {
            if let Entry::Vacant(vacant) = origins.entry(other.format) {
                let stores = stores.ok_or(OpenError::Origin)?;
                // Why is told as one thing: the store that was asked for answers.
                let store = stores(&other.place).map_err(|_| OpenError::Origin)?;
                vacant.insert(Arc::new(Counted { store, traffic: self.traffic.clone() }));
            }
        }
        Ok(Self { keys, origins: Arc::new(origins), ..self.clone() })
    }

    /// Whether this volume has made an object, with its present key.
    pub(crate) fn made(&self, object: &Prelude) -> bool {
        (object.format, object.epoch) == (self.keys.format(), self.keys.epoch())
    }

    /// Where an object is, whichever volume has made it.
    pub(crate) fn store_of(&self, object: &Prelude) -> &Arc<dyn ObjectStore> {
        self.origins.get(&object.format).unwrap_or(&self.store) // intended: what no other volume has made is here.
    }

    /// All bytes of an object. Absent is only what the store says is.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        // One that is too long is none of the volume's, whoever asks again.
        self.again(|| self.store.get(name, MOST_OBJECT), |error| *error != StoreError::TooLong)
    }

    pub(crate) fn get_range(
        &self,
        name: &str,
        offset: u64,
        len: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.again(|| self.store.get_range(name, offset, len), |_| true)
    }

    /// All names of a kind, in ascending order.
    pub(crate) fn list(&self, kind: Kind) -> Result<Vec<String>, StoreError> {
        Names::all(|after| self.again(|| self.store.list_some(kind, after), |_| true))
    }

    /// Stores an object whose name nobody else can have given, because it is random or this session's.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), VolumeError> {
        match self.again(|| self.store.put_new(name, bytes), |_| true)? {
            Put::Stored => Ok(()),
            Put::Exists if self.holds(name, bytes)? => Ok(()),
            Put::Exists => Err(VolumeError::Unreachable(StoreError::Name)),
        }
    }

    /// Whether the object of that name is this one.
    pub(crate) fn holds(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        match self.get(name) {
            Ok(there) => Ok(there.is_some_and(|there| there == bytes)),
            Err(StoreError::TooLong) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A prelude for an object that is to be made: its salt is drawn here, its lengths are set when it is sealed.
    pub(crate) fn prelude(
        &self,
        random: &mut dyn Random,
        kind: Kind,
        number: u64,
        session: [u8; 32],
    ) -> Result<Prelude, RandomError> {
        let mut salt = [0; 16];
        random.fill(&mut salt)?;
        let (format, epoch) = (self.keys.format(), self.keys.epoch());
        Ok(Prelude { kind, aead: self.aead, slots: 0, summary_len: 0, number, format, session, salt, epoch })
    }

    pub(crate) fn again<T>(
        &self,
        ask: impl FnMut() -> Result<T, StoreError>,
        worth: impl Fn(&StoreError) -> bool,
    ) -> Result<T, StoreError> {
        self.health.ask(|| self.patience.again_if(ask, worth, || self.traffic.retried()))
    }
}
