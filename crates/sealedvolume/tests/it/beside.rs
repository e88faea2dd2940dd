//! Random histories of several threads at once. Each has blocks of its own, and writes, trims, reads and flushes them, while checkpoints are made
//! that the store refuses, delays, or stores and says that it has not. Others collect, compact and change the size. Then all of it crashes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind, names};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError, Settings};
use atrest_secret::VolumeKey;
use atrest_testkit::{Campaign, Random};

use crate::rig::plain::{Cell, settings};
use crate::rig::through::through;

/// Blocks of each thread.
const EACH: usize = 10;
/// Blocks in a leaf of the map.
const LEAF: u64 = 4096;
const BLOCKS: u64 = 5 * LEAF;

/// The store as one process sees it: at some request that process ends.
struct Moody {
    objects: Arc<MemoryStore>,
    random: Mutex<Random>,
    /// Requests until it ends.
    left: AtomicU64,
    dead: AtomicBool,
    /// Requests that are here have it to read.
    here: RwLock<()>,
    counts: Arc<Counts>,
}

/// What was met.
#[derive(Debug, Default)]
struct Counts {
    flushes: AtomicU64,
    refused: AtomicU64,
    lies: AtomicU64,
    crashes: AtomicU64,
    collected: AtomicU64,
    /// Of what a thread wrote behind its last flush, pieces that were there all the same.
    more: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Moody {
    /// A request comes, and is here for as long as what is returned lives.
    fn live(&self) -> Result<RwLockReadGuard<'_, ()>, StoreError> {
        let here = self.here.read().expect("no panic");
        let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if spent.is_err() && !self.dead.swap(true, Ordering::SeqCst) {
            count(&self.counts.crashes, 1);
        }
        if self.is_dead() { Err(StoreError::EarlierFailure) } else { Ok(here) }
    }

    /// The process ends, and nothing that it has sent comes any later.
    fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        drop(self.here.write().expect("no panic"));
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.lock().expect("no panic").below(bound)
    }

    fn pause(&self) {
        if self.below(8) == 0 {
            thread::sleep(Duration::from_micros(self.below(800)));
        }
    }
}

impl ObjectStore for Moody {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        let _here = self.live()?;
        self.pause();
        if names::kind(name) == Some(Kind::Log) {
            return self.objects.put_new(name, bytes);
        }
        // Roots and nodes. A session never ends by them.
        match self.below(10) {
            0 | 1 => {
                count(&self.counts.refused, 1);
                Err(StoreError::Silent)
            }
            2 | 3 => {
                count(&self.counts.lies, 1);
                self.objects.put_new(name, bytes)?;
                Err(StoreError::Silent)
            }
            4 | 5 => {
                thread::sleep(Duration::from_micros(self.below(3000)));
                self.objects.put_new(name, bytes)
            }
            _ => self.objects.put_new(name, bytes),
        }
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let _here = self.live()?;
        self.objects.get(name, most)
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let _here = self.live()?;
        self.pause();
        self.objects.get_range(name, offset, len)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let _here = self.live()?;
        self.objects.delete(name)
    }

    through!(objects: put, list_after);
}

/// What one thread knows of its blocks.
struct Part {
    number: usize,
    threads: usize,
    random: Random,
    /// After its last flush that was acknowledged: a letter for each block, 0 for zeros.
    flushed: [u8; EACH],
    /// What it has changed since.
    since: Vec<(usize, u8)>,
    letter: u8,
}

impl Part {
    fn block(&self, at: usize) -> u64 {
        at as u64 % 4 * LEAF + (at / 4 * self.threads + self.number) as u64
    }

    /// What is there after so many of its changes.
    fn after(&self, changes: usize) -> [u8; EACH] {
        let mut now = self.flushed;
        self.since[..changes].iter().for_each(|(at, letter)| now[*at] = *letter);
        now
    }

    fn read(&self, volume: &SealedVolume, at: usize) -> Option<u8> {
        let mut read = [0; 4096];
        volume.read_at(self.block(at) * 4096, &mut read).ok()?;
        assert!(read == [read[0]; 4096], "block {}", self.block(at));
        Some(read[0])
    }

    /// Works until the process ends, or for so many steps.
    fn work(&mut self, volume: &SealedVolume, store: &Moody, steps: usize) {
        for _ in 0..steps {
            let at = self.random.index(EACH);
            let done = match self.random.below(10) {
                0..4 => {
                    self.letter = self.letter % 250 + 1;
                    self.since.push((at, self.letter));
                    volume.write_at(self.block(at) * 4096, &[self.letter; 4096])
                }
                4 => {
                    self.since.push((at, 0));
                    volume.discard(self.block(at) * 4096, 4096)
                }
                5..8 => {
                    match self.read(volume, at) {
                        Some(read) => assert_eq!(read, self.after(self.since.len())[at], "block {at}"),
                        None => assert!(store.is_dead(), "block {at} of thread {} is not read", self.number),
                    }
                    Ok(())
                }
                _ => {
                    let done = volume.flush();
                    if done.is_ok() {
                        count(&store.counts.flushes, 1);
                        self.flushed = self.after(self.since.len());
                        self.since.clear();
                    }
                    done
                }
            };
            if let Err(error) = done {
                assert!(store.is_dead(), "roots and nodes end no session: {error}");
                return;
            }
        }
    }

    /// What was flushed is there, and of what came behind it the first changes, without a gap.
    fn check(&mut self, volume: &SealedVolume, counts: &Counts) {
        let there: [u8; EACH] =
            std::array::from_fn(|at| self.read(volume, at).expect("the store is honest now"));
        let kept = (0..=self.since.len()).rev().find(|changes| self.after(*changes) == there);
        let Some(kept) = kept else {
            panic!(
                "thread {}: {there:?} is there; {:?} was flushed, then {:?}",
                self.number, self.flushed, self.since
            );
        };
        count(&counts.more, kept as u64);
        self.flushed = there;
        self.since.clear();
    }
}

/// What needs the whole map, now and then, beside those who write.
fn keep_house(volume: &SealedVolume, store: &Moody, random: &mut Random, steps: usize) {
    for _ in 0..steps {
        // What a store does that refuses checkpoints is told, and is no end.
        match random.below(6) {
            0 => drop(volume.checkpoint()),
            1 => drop(volume.compact(60, 4)),
            2 => match volume.usage() {
                Ok(usage) => assert!(usage.live <= usage.stored),
                Err(error) => assert!(store.is_dead(), "{error}"),
            },
            3 => match volume.resize(BLOCKS + random.below(100)) {
                Ok(()) => {}
                Err(error) => assert!(store.is_dead(), "{error}"),
            },
            _ => {
                if let Ok(garbage) = volume.garbage() {
                    let found = garbage.names().len() as u64;
                    if volume.collect(garbage).is_ok() {
                        count(&store.counts.collected, found);
                    }
                }
            }
        }
        thread::sleep(Duration::from_micros(random.below(2000)));
    }
}

struct World {
    objects: Arc<MemoryStore>,
    cell: Cell,
    counts: Arc<Counts>,
}

impl World {
    fn keys() -> Keys {
        Keys::new(&VolumeKey::copy_from(&[9; 32]), [3; 16]).expect("keys")
    }

    fn open(
        &self,
        store: Arc<dyn ObjectStore>,
        access: Access,
        settings: Settings,
    ) -> Result<SealedVolume, OpenError> {
        SealedVolume::open(store, Self::keys(), self.record(), access, settings)
    }

    fn record(&self) -> Freshness {
        Freshness::Record(Box::new(self.cell.clone()))
    }

    fn settings(random: &mut Random) -> Settings {
        Settings {
            parallel: [1, 1, 3][random.index(3)].try_into().expect("not 0"),
            checkpoint_every: 1 + random.below(6),
            map_buffer: random.index(12),
            cached_map: [0, 2000, 16 << 20][random.index(3)],
            cached_blocks: [1, 64][random.index(2)],
            ..settings(1 + random.index(6))
        }
    }

    fn run(random: &mut Random, counts: &Arc<Counts>) {
        let world = Self { objects: Arc::default(), cell: Cell::default(), counts: Arc::clone(counts) };
        let objects: Arc<dyn ObjectStore> = world.objects.clone();
        let mut record = world.record();
        SealedVolume::format(objects.clone(), Self::keys(), &mut record, (BLOCKS, 8), &mut settings(8))
            .expect("a volume");
        let threads = 2 + random.index(3);
        let mut parts: Vec<Part> = (0..threads)
            .map(|number| {
                let random = Random::new(random.draw());
                Part { number, threads, random, flushed: [0; EACH], since: Vec::new(), letter: 0 }
            })
            .collect();
        for _ in 0..3 {
            let store = Arc::new(Moody {
                objects: Arc::clone(&world.objects),
                random: Mutex::new(Random::new(random.draw())),
                left: AtomicU64::new(20 + random.below(500)),
                dead: AtomicBool::new(false),
                here: RwLock::new(()),
                counts: Arc::clone(counts),
            });
            if let Ok(volume) = world.open(store.clone(), Access::Write, Self::settings(random)) {
                thread::scope(|scope| {
                    for part in &mut parts {
                        let (volume, store) = (&volume, &store);
                        scope.spawn(move || part.work(volume, store, 60));
                    }
                    keep_house(&volume, &store, random, 8);
                });
                drop(volume);
            }
            // Whatever of it still runs reaches nothing any more.
            store.end();
            let volume = world.open(objects.clone(), Access::Read, settings(8)).expect("it opens");
            parts.iter_mut().for_each(|part| part.check(&volume, &world.counts));
        }
        let volume = world.open(objects.clone(), Access::Write, settings(8)).expect("it opens");
        volume.close().expect("closed");
        let volume = world.open(objects, Access::Read, settings(8)).expect("it opens");
        parts.iter_mut().for_each(|part| part.check(&volume, &world.counts));
    }
}

#[test]
fn what_each_of_many_has_flushed_is_there_whatever_became_of_checkpoints_beside_them() {
    let counts = Arc::<Counts>::default();
    Campaign::new("sealed volume, beside others", 25, 5_000).run(|_, random| World::run(random, &counts));
    println!("{counts:?}");
    if Campaign::is_sample() {
        let told = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert!(told(&counts.flushes) > 500 && told(&counts.refused) > 50, "{counts:?}");
        assert!(told(&counts.lies) > 50 && told(&counts.crashes) > 5, "{counts:?}");
        assert!(told(&counts.collected) > 20 && told(&counts.more) > 20, "{counts:?}");
    }
}
