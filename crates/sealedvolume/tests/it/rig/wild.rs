//! The store: it refuses, drops, delays, lies, and keeps everything that it was ever sent.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_testkit::Random;

use super::bytes;

pub type Bytes = Arc<Vec<u8>>;

/// How the store behaves at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Honest,
    /// It refuses, and stores what it refused or not, now or later.
    Flaky,
    /// It lies as well.
    Evil,
}

/// The inside of the store, which tests reach into.
pub struct Inner {
    pub random: Random,
    pub mode: Mode,
    /// What is shown.
    pub objects: BTreeMap<String, Bytes>,
    /// What an honest store would show: everything that it has acknowledged.
    pub honest: BTreeMap<String, Bytes>,
    /// Everything that was ever sent.
    pub sent: BTreeMap<String, Vec<Bytes>>,
    /// Puts that may land later.
    late: Vec<(String, Bytes)>,
    /// Earlier states as a whole.
    pub earlier: Vec<BTreeMap<String, Bytes>>,
    /// Requests until the client crashes.
    pub fuse: Option<u32>,
    /// A name that is refused.
    pub stuck: Option<String>,
    /// All puts are refused.
    pub refuse: bool,
    /// Hundredths of gets that are answered with a lie.
    pub lie: u64,
    /// Contents by identity: nothing else may ever be sealed with it.
    identities: HashMap<Vec<u8>, Bytes>,
    pub reused: bool,
    /// The put of each thread that was answered last with "there is one": read back alike by that thread, it counts as stored.
    doubted: HashMap<ThreadId, (String, Bytes)>,
    pub counts: Counts,
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub puts: u64,
    pub refused: u64,
    pub landed: u64,
    pub lies: u64,
    pub deletes: u64,
    pub crashes: u64,
}

#[derive(Clone)]
pub struct Wild(Arc<Mutex<Inner>>);

/// The store as one process sees it: it crashes at some request.
pub struct Client {
    store: Wild,
    pub dead: AtomicBool,
}

impl Wild {
    pub fn new(random: Random, lie: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            random,
            mode: Mode::Honest,
            objects: BTreeMap::new(),
            honest: BTreeMap::new(),
            sent: BTreeMap::new(),
            late: Vec::new(),
            earlier: Vec::new(),
            fuse: None,
            stuck: None,
            refuse: false,
            lie,
            identities: HashMap::new(),
            reused: false,
            doubted: HashMap::new(),
            counts: Counts::default(),
        })))
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics while it has the store")
    }

    pub fn client(&self) -> Arc<Client> {
        Arc::new(Client { store: self.clone(), dead: AtomicBool::new(false) })
    }
}

impl Inner {
    /// A store that is new; what was sent to the old one stays known.
    pub fn clear(&mut self) {
        self.objects.clear();
        self.honest.clear();
        self.late.clear();
    }

    /// It shows all that it has acknowledged, and nothing else.
    pub fn repent(&mut self) {
        self.objects = self.honest.clone();
        self.late.clear();
    }

    fn set(&mut self, name: &str, object: &Bytes, create: bool) -> Put {
        match self.objects.get(name) {
            Some(there) if create => {
                if **there == **object {
                    self.honest.insert(name.to_owned(), Arc::clone(object));
                }
                Put::Exists
            }
            _ => {
                self.objects.insert(name.to_owned(), Arc::clone(object));
                self.honest.insert(name.to_owned(), Arc::clone(object));
                Put::Stored
            }
        }
    }

    fn put(&mut self, name: &str, bytes: &[u8], create: bool) -> Result<Put, StoreError> {
        let object = Arc::new(bytes.to_vec());
        let put = self.put_object(name, &object, create);
        let thread = thread::current().id();
        match put {
            Ok(Put::Exists) => self.doubted.insert(thread, (name.to_owned(), object)),
            _ => self.doubted.remove(&thread),
        };
        put
    }

    fn put_object(&mut self, name: &str, object: &Bytes, create: bool) -> Result<Put, StoreError> {
        let bytes = &object[..];
        self.counts.puts += 1;
        self.sent.entry(name.to_owned()).or_default().push(Arc::clone(object));
        let before = self.identities.entry(bytes[..96].to_vec()).or_insert_with(|| Arc::clone(object));
        self.reused |= **before != *bytes;
        let chance = self.random.below(100);
        let forced = self.refuse || self.stuck.as_deref() == Some(name);
        if self.mode != Mode::Honest && (chance < 12 || forced) {
            self.counts.refused += 1;
            match self.random.below(4) {
                2 if !forced => {
                    self.set(name, object, create);
                }
                3 if !forced => self.late.push((name.to_owned(), Arc::clone(object))),
                _ => {}
            }
            return Err(StoreError::Silent);
        }
        if self.mode == Mode::Evil && chance < 16 {
            self.counts.lies += 1;
            // Not of a put without a condition: whoever sent that is told that it is stored, and then an honest store has it.
            if create && self.random.below(3) == 0 {
                return Ok(Put::Exists);
            }
            self.honest.insert(name.to_owned(), Arc::clone(object));
            return Ok(Put::Stored); // and withholds it
        }
        let put = self.set(name, object, create);
        if put == Put::Exists && self.mode == Mode::Evil && self.random.below(2) == 0 {
            self.objects.insert(name.to_owned(), Arc::clone(object));
            self.honest.insert(name.to_owned(), Arc::clone(object));
            return Ok(Put::Stored);
        }
        Ok(put)
    }

    fn get(&mut self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let answer = self.answer(name)?;
        if let (Some((put, object)), Some(shown)) = (self.doubted.get(&thread::current().id()), &answer)
            && put == name
            && **object == **shown
        {
            self.honest.insert(name.to_owned(), Arc::clone(object));
        }
        Ok(answer)
    }

    fn answer(&mut self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let chance = self.random.below(100);
        if self.mode == Mode::Flaky && chance < 4 {
            return Err(StoreError::Silent);
        }
        let lie = if name.starts_with('m') { self.lie * 4 } else { self.lie };
        if self.mode == Mode::Evil && chance < lie {
            self.counts.lies += 1;
            return self.lied(name);
        }
        Ok(self.objects.get(name).cloned())
    }

    /// A lie about an object, or the truth where there is none to tell.
    fn lied(&mut self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let there = self.objects.get(name).cloned();
        let all: Vec<&String> = self.sent.keys().collect();
        let other = &self.sent[*self.random.pick(&all)];
        let other = Arc::clone(self.random.clone().pick(other));
        match (self.random.below(7), there) {
            (0, _) => Ok(None),
            (1, _) => Err(StoreError::Silent),
            (2, _) if self.sent.contains_key(name) => {
                Ok(Some(Arc::clone(self.random.pick(&self.sent[name]))))
            }
            (3, _) => Ok(Some(other)),
            (4, Some(there)) => Ok(Some(flip(&there, &mut self.random))),
            (kind, Some(there)) if bytes::is_log(&there) && bytes::is_log(&other) => {
                let mut mixed = Vec::clone(&there);
                if kind == 6 && bytes::summary(&there) == bytes::summary(&other) {
                    let summary = bytes::PRELUDE..bytes::PRELUDE + bytes::summary(&there);
                    mixed[summary.clone()].copy_from_slice(&other[summary]);
                } else if bytes::slots(&there) > 0 {
                    // A block of another object, or of another slot.
                    let from =
                        if bytes::slots(&other) > 0 && self.random.below(5) < 3 { &other } else { &there };
                    let taken = bytes::slot(from, self.random.index(bytes::slots(from)));
                    let placed = bytes::slot(&there, self.random.index(bytes::slots(&there)));
                    mixed[placed].copy_from_slice(&from[taken]);
                }
                Ok(Some(Arc::new(mixed)))
            }
            (_, there) => Ok(there),
        }
    }

    /// Everything that was refused and may still land, does so now and then.
    fn tick(&mut self) -> bool {
        if !self.late.is_empty() && self.random.below(100) < 15 {
            let at = self.random.index(self.late.len());
            let (name, object) = self.late.swap_remove(at);
            if !self.objects.contains_key(&name) {
                self.counts.landed += 1;
                self.honest.entry(name.clone()).or_insert_with(|| Arc::clone(&object));
                self.objects.insert(name, object);
            }
        }
        match &mut self.fuse {
            Some(0) => {
                self.fuse = None;
                self.counts.crashes += 1;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

/// An object with one bit flipped.
pub fn flip(object: &[u8], random: &mut Random) -> Bytes {
    let mut flipped = object.to_vec();
    // As often in what is small as in blocks, which are most of an object.
    let edge = 512.min(flipped.len());
    let at = match random.below(3) {
        0 => random.index(edge),
        1 => flipped.len() - 1 - random.index(edge),
        _ => random.index(flipped.len()),
    };
    flipped[at] ^= 1 << random.below(8);
    Arc::new(flipped)
}

impl Client {
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// The process is gone: no request of it is carried out any more, whichever of its threads sends it.
    pub fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
        drop(self.store.inner());
    }

    /// The store, unless the client crashes now or has crashed before.
    fn reach(&self) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let mut inner = self.store.inner();
        if self.is_dead() || inner.tick() {
            self.dead.store(true, Ordering::Relaxed);
            return Err(StoreError::EarlierFailure);
        }
        Ok(inner)
    }
}

impl ObjectStore for Client {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        let put = self.reach()?.put(name, bytes, true);
        drop(self.reach()?); // a crash behind the put
        put
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let put = self.reach()?.put(name, bytes, false);
        drop(self.reach()?);
        put.map(|_| ())
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        match self.reach()?.get(name)? {
            Some(object) if object.len() > most => Err(StoreError::TooLong),
            object => Ok(object.map(|object| Vec::clone(&object))),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.reach()?.get(name)?.map(|object| {
            let from = (offset as usize).min(object.len());
            object[from..object.len().min(from + len)].to_vec()
        }))
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let mut inner = self.reach()?;
        let mut all: Vec<String> = inner.objects.keys().cloned().collect();
        if inner.mode == Mode::Evil && after.is_none() && inner.random.below(100) < inner.lie * 2 {
            inner.counts.lies += 1;
            all = inner.sent.keys().cloned().collect();
            all.retain(|_| inner.random.below(10) < 6);
        }
        all.retain(|name| names::kind(name) == Some(kind) && after.is_none_or(|after| name.as_str() > after));
        all.truncate(5);
        Ok(all)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let mut inner = self.reach()?;
        inner.counts.deletes += 1;
        if inner.mode != Mode::Honest && inner.random.below(5) == 0 {
            return if inner.random.below(2) == 0 { Ok(()) } else { Err(StoreError::Silent) };
        }
        inner.objects.remove(name);
        inner.honest.remove(name);
        Ok(())
    }
}
