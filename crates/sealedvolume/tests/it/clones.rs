//! Clones and other volume keys: nothing is lost, nothing is read without the key that belongs to it, whatever fails on the way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use atrest_device::{BlockDevice as _, Cause};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::Keys;
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, OpenError, Rewritten, Settings, Stores, VolumeError};
use atrest_secret::VolumeKey;
use atrest_testkit::{Campaign, Random};

use crate::rig::plain::{Cell, Plain, settings};
use crate::rig::through::through;

const BLOCKS: u64 = (1 << 18) + 20;
/// In several leaves, and below two branches.
const WRITTEN: [u64; 8] = [0, 1, 2, 3, 4096, 4097, 9000, (1 << 18) + 7];
/// The key of [`Plain`].
const FIRST: [u8; 32] = [9; 32];

type Held = [u8; WRITTEN.len()];

fn key(bytes: [u8; 32]) -> VolumeKey {
    VolumeKey::copy_from(&bytes)
}

fn write(volume: &SealedVolume, held: &mut Held, index: usize, value: u8) {
    held[index] = value;
    volume.write_at(WRITTEN[index] * 4096, &[value; 4096]).expect("a write");
}

fn holds(volume: &SealedVolume, held: &Held) {
    for (block, want) in WRITTEN.iter().zip(held) {
        let mut data = [77; 4096];
        volume.read_at(block * 4096, &mut data).expect("a read");
        assert!(data == [*want; 4096], "block {block} of {held:?}");
    }
}

/// Volumes by their places, each with a key of its own, which stand for what a header holds.
#[derive(Default)]
struct Cellar {
    stores: Arc<Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>>,
}

impl Cellar {
    fn stores(&self) -> Stores {
        let stores = Arc::clone(&self.stores);
        Arc::new(move |place| {
            stores.lock().expect("the cellar").get(place).cloned().ok_or(StoreError::Silent)
        })
    }

    fn settings(&self) -> Settings {
        Settings { stores: Some(self.stores()), map_buffer: 3, ..settings(4) }
    }

    fn add(&self, place: &str, store: &Arc<dyn ObjectStore>) {
        self.stores.lock().expect("the cellar").insert(place.to_owned(), Arc::clone(store));
    }

    fn open(&self, plain: &Plain) -> SealedVolume {
        plain.open_with(Access::Write, self.settings()).expect("it opens")
    }

    /// A clone of a snapshot, with a key of its own.
    fn clone_of(&self, parent: &SealedVolume, id: u64, parents: ([u8; 32], &str), format: u8) -> Plain {
        let (parents_key, place) = parents;
        let origin = parent.origin(id, &key(parents_key), place).expect("an origin");
        parent.keep_for(id, [format; 16]).expect("it is kept");
        let keys = Keys::new(&key([format; 32]), [format; 16]).expect("keys");
        let (store, cell) = (Arc::new(MemoryStore::new()), Cell::default());
        let mut freshness = Freshness::Record(Box::new(cell.clone()));
        let mut settings = self.settings();
        SealedVolume::format_clone(store.clone(), keys.clone(), &mut freshness, (origin, 4), &mut settings)
            .expect("a clone");
        Plain { store, cell, keys }
    }
}

fn collect(volume: &SealedVolume) {
    for _ in 0..3 {
        volume.touch().expect("touched");
        volume.collect(volume.garbage().expect("garbage")).expect("collected");
    }
}

#[test]
fn a_clone_goes_its_own_way_and_needs_its_parent_until_it_is_flattened() {
    let cellar = Cellar::default();
    let plain = Plain::in_memory(BLOCKS);
    cellar.add("parent", &plain.store);
    let (parent, mut held) = (cellar.open(&plain), [0; WRITTEN.len()]);
    (0..6).for_each(|index| write(&parent, &mut held, index, 10 + index as u8));
    let (id, of_snapshot) = (parent.add_snapshot("base").expect("a snapshot"), held);
    let child = cellar.clone_of(&parent, id, (FIRST, "parent"), 3);
    cellar.add("child", &child.store);
    // Both go on.
    (2..8).for_each(|index| write(&parent, &mut held, index, 20 + index as u8));
    let (volume, mut other) = (cellar.open(&child), of_snapshot);
    holds(&volume, &other);
    for index in [0, 3, 7] {
        write(&volume, &mut other, index, 30 + index as u8);
    }
    volume.discard(4096, 4096).expect("a trim");
    other[1] = 0;
    volume.close().expect("closed");
    assert_eq!(parent.remove_snapshot(id), Err(VolumeError::Cloned { clones: 1 }));
    parent.compact(100, 1000).expect("compacted");
    collect(&parent);
    holds(&parent, &held);
    // A clone of the clone, which needs all three.
    let volume = cellar.open(&child);
    let of_clone = volume.add_snapshot("again").expect("a snapshot");
    let grandchild = cellar.clone_of(&volume, of_clone, ([3; 32], "child"), 4);
    let third = cellar.open(&grandchild);
    holds(&third, &other);
    let places: Vec<String> = third.origins().expect("origins").into_iter().map(|(_, place)| place).collect();
    assert_eq!(places, ["parent", "child"]);
    // Without its parent a clone is refused, and without knowing where that is.
    let alone = child.open(Access::Read).map(drop);
    assert_eq!(alone, Err(OpenError::Origin));
    let nowhere = Settings { stores: Some(Cellar::default().stores()), ..settings(4) };
    assert_eq!(child.open_with(Access::Read, nowhere).map(drop), Err(OpenError::Origin));
    // Flattened, it needs nobody; nor does its own clone.
    let rewritten = third.rewrite().expect("rewritten");
    assert_eq!(rewritten, Rewritten { blocks: 6, left: 0 });
    assert_eq!(third.forget_keys(), Ok(0));
    collect(&third);
    third.close().expect("closed");
    holds(&grandchild.open(Access::Read).expect("it opens alone"), &other);
    assert_eq!(volume.release([4; 16]), Ok(1));
    // With a snapshot of its own it still does.
    volume.rewrite().expect("rewritten");
    assert_eq!(volume.forget_keys(), Ok(1));
    volume.remove_snapshot(of_clone).expect("removed");
    assert_eq!(volume.forget_keys(), Ok(0));
    holds(&volume, &other);
    volume.close().expect("closed");
    holds(&child.open(Access::Read).expect("it opens alone"), &other);
    assert_eq!(parent.release([3; 16]), Ok(1));
    assert_eq!(parent.release([3; 16]), Ok(0));
    parent.remove_snapshot(id).expect("removed");
    let before = plain.bytes();
    collect(&parent);
    assert!(plain.bytes() < before, "what the snapshot alone needed is gone");
    holds(&parent, &held);
}

/// A store that fails from some request on, or whose header does.
struct Failing {
    inner: Arc<dyn ObjectStore>,
    left: AtomicU32,
    dead: AtomicBool,
    /// The request at which it fails is done all the same.
    done: bool,
}

impl Failing {
    fn fails(&self) -> Result<bool, StoreError> {
        if self.dead.load(Ordering::Relaxed) {
            return Err(StoreError::Silent);
        }
        let last = self.left.fetch_sub(1, Ordering::Relaxed) == 1;
        self.dead.store(last, Ordering::Relaxed);
        if last && !self.done { Err(StoreError::Silent) } else { Ok(last) }
    }
}

impl ObjectStore for Failing {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        let last = self.fails()?;
        let put = self.inner.put_new(name, bytes)?;
        if last { Err(StoreError::Silent) } else { Ok(put) }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.fails()?;
        self.inner.put(name, bytes)
    }

    through!(inner: get, get_range, list_after, delete);
}

/// The volume key that the header holds, which opens the volume.
struct Header(Mutex<[u8; 32]>);

fn keys_of(header: &Header) -> Keys {
    Keys::new(&key(*header.0.lock().expect("the header")), [1; 16]).expect("keys")
}

/// A change of the key that dies at any request, or at the header: the volume opens with the key that the header holds, with all that was
/// flushed, and the change is done again from there.
#[test]
fn a_change_of_the_key_may_die_anywhere() {
    Campaign::new("sealed volume, keys", 40, 4_000).run(|_, random| {
        let mut plain = Plain::in_memory(BLOCKS);
        let header = Header(Mutex::new(FIRST));
        let mut held = [0; WRITTEN.len()];
        let mut snapshot = None;
        for round in 1..5_u8 {
            plain.keys = keys_of(&header);
            let volume = plain.open_with(Access::Write, few()).expect("it opens");
            holds(&volume, &held);
            for _ in 0..random.below(10) {
                let (index, value) = (random.index(WRITTEN.len()), 1 + random.below(200) as u8);
                write(&volume, &mut held, index, value);
            }
            if snapshot.is_none() && random.below(2) == 0 {
                snapshot = Some((volume.add_snapshot("a").expect("a snapshot"), held));
            }
            volume.flush().expect("a flush");
            drop(volume);
            let inner = Arc::clone(&plain.store);
            let left = AtomicU32::new(1 + random.below(40) as u32);
            let failing =
                Arc::new(Failing { inner, left, dead: AtomicBool::new(false), done: random.below(2) == 0 });
            let dying = Plain { store: failing.clone(), ..plain.clone() };
            let Ok(volume) = dying.open_with(Access::Write, few()) else { continue };
            let (old, new) = (*header.0.lock().expect("the header"), [100 + round; 32]);
            let changed = change(&volume, &header, old, new, random);
            let now = *header.0.lock().expect("the header");
            assert!(changed.is_err() || now == new);
            if matches!(changed, Err(VolumeError::Header(_))) {
                // Whatever the header says, this opening writes nothing more.
                let told = volume.write_at(0, &[1; 4096]).map_err(|error| error.cause);
                assert_eq!(told, Err(Cause::EarlierFlushFailed));
            }
            if changed.is_ok() {
                let _ = volume.rewrite().and_then(|_| volume.forget_keys());
            }
        }
        plain.keys = keys_of(&header);
        let volume = plain.open_with(Access::Write, few()).expect("it opens");
        holds(&volume, &held);
        if let Some((id, held)) = snapshot {
            holds(&volume.snapshot(id).expect("a snapshot"), &held);
            volume.remove_snapshot(id).expect("removed");
        }
        // At last all of it is under the newest key, and collected.
        let rewritten = volume.rewrite().expect("rewritten");
        assert_eq!(rewritten.left, 0);
        collect(&volume);
        assert_eq!(volume.forget_keys(), Ok(0));
        collect(&volume);
        volume.close().expect("closed");
        let reader = plain.open_with(Access::Read, few()).expect("a reader");
        holds(&reader, &held);
        let newest = *header.0.lock().expect("the header");
        if newest != FIRST {
            let before = Plain { keys: Keys::new(&key(FIRST), [1; 16]).expect("keys"), ..plain };
            assert!(before.open(Access::Read).is_err(), "the first key opens nothing any more");
        }
    });
}

fn few() -> Settings {
    Settings { map_buffer: 2, ..settings(4) }
}

fn change(
    volume: &SealedVolume,
    header: &Header,
    old: [u8; 32],
    new: [u8; 32],
    random: &mut Random,
) -> Result<(), VolumeError> {
    let how = random.below(6);
    volume.rekey(&key(old), &key(new), || {
        // Not stored, stored and not told, stored.
        if how != 0 {
            *header.0.lock().expect("the header") = new;
        }
        if how > 1 { Ok(()) } else { Err(Cause::Silent) }
    })
}

#[test]
fn a_key_that_is_not_the_volumes_changes_nothing() {
    let plain = Plain::in_memory(BLOCKS);
    let volume = plain.open(Access::Write).expect("it opens");
    let change = |old, new| volume.rekey(&key(old), &key(new), || panic!("the header is not asked for"));
    assert_eq!(change([8; 32], [7; 32]), Err(VolumeError::WrongKey));
    assert_eq!(change(FIRST, FIRST), Err(VolumeError::WrongKey));
    let short = volume.rekey(&key(FIRST), &VolumeKey::copy_from(&[7; 16]), || panic!("nor here"));
    assert_eq!(short, Err(VolumeError::WrongKey));
    let id = volume.add_snapshot("a").expect("a snapshot");
    assert!(matches!(volume.origin(id, &key([8; 32]), "here"), Err(VolumeError::WrongKey)));
    assert!(matches!(volume.origin(id, &key(FIRST), ""), Err(VolumeError::Limit(_))));
    assert!(matches!(volume.origin(id + 1, &key(FIRST), "here"), Err(VolumeError::NoSuchSnapshot)));
    for clone in 0..255 {
        volume.keep_for(id, [clone; 16]).expect("it is kept");
    }
    assert!(matches!(volume.keep_for(id, [255; 16]), Err(VolumeError::Limit(_))));
    assert_eq!(volume.clones(id).map(|clones| clones.len()), Ok(255));
    assert_eq!(volume.snapshots().expect("snapshots")[0].clones, 255);
    volume.checkpoint().expect("a checkpoint");
    drop(volume);
    let volume = plain.open(Access::Write).expect("it opens");
    assert_eq!(volume.clones(id).map(|clones| clones.len()), Ok(255));
}
