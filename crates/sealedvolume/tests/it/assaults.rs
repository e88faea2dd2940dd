//! A million attacks on the objects of a volume: none shows what was not written, or another state than the record names.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Aead, Kind};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, Settings};
use atrest_testkit::{Campaign, Random};

use crate::rig::bytes;
use crate::rig::plain::{Plain, settings};

/// Blocks that are written, below each branch of a map of three levels.
const WRITTEN: [u64; 6] = [0, 1, 2, 4096, (1 << 18) + 5, (1 << 24) + 9];
const BLOCKS: u64 = (1 << 24) + 10;

type Held = [u8; WRITTEN.len()];
type Objects = BTreeMap<String, Arc<Vec<u8>>>;

/// A volume, all that it ever was, and every object that was ever stored of it.
struct Victim {
    plain: Plain,
    objects: Objects,
    /// The store after each flush, and what the volume held, by the number of its head.
    states: Vec<(u64, Held, Objects)>,
    snapshot: (u64, Held),
}

impl Victim {
    fn new(format: u8, aead: Aead, map_buffer: usize) -> Self {
        let plain = Plain::new(Arc::new(MemoryStore::new()), BLOCKS, format);
        let settings = Settings { aead, map_buffer, ..settings(8) };
        let volume = plain.open_with(Access::Write, settings).expect("it opens");
        let (mut held, mut states) = ([0; WRITTEN.len()], Vec::new());
        let mut step = |writes: &[usize], held: &mut Held, value: u8| {
            for index in writes {
                held[*index] = value + *index as u8;
                volume.write_at(WRITTEN[*index] * 4096, &[held[*index]; 4096]).expect("a write");
            }
            volume.flush().expect("a flush");
            states.push((volume.head().expect("a head").number, *held, all(&plain)));
        };
        step(&[0, 1, 2, 3, 4, 5], &mut held, 10);
        let kept = (volume.add_snapshot("kept").expect("a snapshot"), held);
        step(&[1, 4], &mut held, 20);
        volume.checkpoint().expect("a checkpoint");
        step(&[2], &mut held, 30);
        step(&[5, 0], &mut held, 40);
        volume.checkpoint().expect("a checkpoint");
        step(&[3], &mut held, 50);
        volume.discard(0, 4096).expect("a trim");
        held[0] = 0;
        step(&[4], &mut held, 60);
        let objects = all(&plain);
        Self { plain, objects, states, snapshot: kept }
    }

    fn head(&self) -> u64 {
        self.states.last().expect("a state").0
    }

    /// Opens the volume over other objects. With its record it must be refused, or be as it is; without, as it was after some flush. Returns how many
    /// blocks of it are errors.
    fn shown(&self, objects: Objects, verified: bool) -> Option<usize> {
        let freshness = match verified {
            true => Freshness::Record(Box::new(self.plain.cell.clone())),
            false => Freshness::Unverified,
        };
        let (store, keys) = (Arc::new(Shown(objects)), self.plain.keys.clone());
        let volume = SealedVolume::open(store, keys, freshness, Access::Read, settings(4)).ok()?;
        let head = volume.head().expect("a head").number;
        if verified {
            assert_eq!(head, self.head(), "it opened at another state");
        }
        // Between two flushes of ours there are objects that change nothing: begins, and those that name snapshots.
        let held = self.states.iter().rev().find(|(number, ..)| *number <= head).map(|(_, held, _)| *held);
        let mut errors = compared(&volume, &held.unwrap_or([0; WRITTEN.len()])); // intended: before the first flush it is empty.
        for snapshot in volume.snapshots().expect("snapshots") {
            assert_eq!(snapshot.id, self.snapshot.0, "a snapshot that there never was");
            errors += match volume.snapshot(snapshot.id) {
                Ok(snapshot) => compared(&snapshot, &self.snapshot.1),
                Err(_) => WRITTEN.len(),
            };
        }
        Some(errors)
    }
}

fn all(plain: &Plain) -> Objects {
    plain.objects().into_iter().map(|(name, bytes)| (name, Arc::new(bytes))).collect()
}

fn compared(volume: &SealedVolume, held: &Held) -> usize {
    let mut data = [0; 4096];
    let read = |(block, want): (&u64, &u8)| match volume.read_at(block * 4096, &mut data) {
        Ok(()) => {
            assert!(data == [*want; 4096], "wrong data in block {block}");
            0
        }
        Err(_) => 1,
    };
    WRITTEN.iter().zip(held).map(read).sum()
}

/// What the attacker shows.
struct Shown(Objects);

impl ObjectStore for Shown {
    fn put_new(&self, _: &str, _: &[u8]) -> Result<Put, StoreError> {
        unreachable!("a reader stores nothing")
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<(), StoreError> {
        unreachable!("a reader stores nothing")
    }

    fn get(&self, name: &str, _: usize) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(name).map(|bytes| bytes.to_vec()))
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(name).map(|bytes| {
            let from = (offset as usize).min(bytes.len());
            bytes[from..(from + len).min(bytes.len())].to_vec()
        }))
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let of_kind = |name: &&String| atrest_sealedvolume::format::names::kind(name) == Some(kind);
        let behind = |name: &&String| after.is_none_or(|after| name.as_str() > after);
        Ok(self.0.keys().filter(of_kind).filter(behind).cloned().collect())
    }

    fn delete(&self, _: &str) -> Result<(), StoreError> {
        unreachable!("a reader deletes nothing")
    }
}

/// Victims under one key: two of each identifier, so that one has what the other has but for the salts.
fn victims() -> &'static [Victim] {
    static VICTIMS: OnceLock<Vec<Victim>> = OnceLock::new();
    VICTIMS.get_or_init(|| {
        let all = [
            (1, Aead::Aes256Gcm, 0),
            (1, Aead::Aes256Gcm, 0),
            (2, Aead::ChaCha20Poly1305, 8192),
            (2, Aead::ChaCha20Poly1305, 3),
        ];
        all.map(|(format, aead, buffer)| Victim::new(format, aead, buffer)).into()
    })
}

/// Changes something. Whether it was a single bit, which costs what it lies in at most.
fn attack(objects: &mut Objects, victim: &Victim, random: &mut Random) -> bool {
    let names: Vec<String> = objects.keys().cloned().collect();
    let Some(name) = (!names.is_empty()).then(|| random.pick(&names).clone()) else { return false };
    let any_victim = &victims()[random.index(victims().len())];
    let (_, _, any_state) = random.pick(&any_victim.states);
    let theirs: Vec<&String> = any_state.keys().collect();
    let their_name = theirs[random.index(theirs.len())];
    let their = Arc::clone(&any_state[their_name]);
    match random.below(13) {
        0..4 => {
            let bytes = Arc::make_mut(objects.get_mut(&name).expect("it is there"));
            if bytes.is_empty() {
                return false;
            }
            let at = random.index(bytes.len() * 8);
            bytes[at / 8] ^= 1 << (at % 8);
            return true;
        }
        4 => drop(objects.remove(&name)),
        5 => {
            // Cut, or longer.
            let bytes = Arc::make_mut(objects.get_mut(&name).expect("it is there"));
            match random.below(2) {
                0 => bytes.truncate(random.index(bytes.len() + 1)),
                _ => bytes.extend_from_slice(&their[..random.index(their.len() + 1)]),
            }
        }
        6 => {
            // Two change places.
            let other = random.pick(&names).clone();
            let (one, two) = (Arc::clone(&objects[&name]), Arc::clone(&objects[&other]));
            objects.insert(name, two);
            objects.insert(other, one);
        }
        7 => drop(objects.insert(name, their)), // whatever was ever stored, of this volume or another
        8 => drop(objects.insert(their_name.clone(), their)),
        9 => {
            // A piece of another object, at the same place or elsewhere.
            let bytes = Arc::make_mut(objects.get_mut(&name).expect("it is there"));
            let len = random.index(their.len().min(bytes.len()) + 1);
            let (from, to) = (random.index(their.len() - len + 1), random.index(bytes.len() - len + 1));
            let from = if random.below(2) == 0 { to.min(their.len() - len) } else { from };
            bytes[to..to + len].copy_from_slice(&their[from..from + len]);
        }
        10 => splice(objects, &name, &their, random),
        11 => {
            // An older root in the place of the newest, or none behind an older one.
            let roots: Vec<String> = names.into_iter().filter(|name| name.starts_with('c')).collect();
            let older = roots[..roots.len().saturating_sub(1)].last().cloned(); // intended: there may be none.
            if let (Some(newest), Some(older)) = (roots.last(), older) {
                match random.below(2) {
                    0 => drop(objects.insert(newest.clone(), Arc::clone(&objects[&older]))),
                    _ => drop(objects.remove(newest)),
                }
            }
        }
        // An older state, as a whole or of one kind.
        _ => {
            let (_, _, state) = random.pick(&victim.states);
            let kind = *random.pick(&["", "l", "m", "c"]);
            objects.retain(|name, _| !name.starts_with(kind));
            objects.extend(
                state
                    .iter()
                    .filter(|(name, _)| name.starts_with(kind))
                    .map(|(name, b)| (name.clone(), b.clone())),
            );
        }
    }
    false
}

/// A block, a summary or a prelude of another log object.
fn splice(objects: &mut Objects, name: &str, their: &Arc<Vec<u8>>, random: &mut Random) {
    let bytes = Arc::make_mut(objects.get_mut(name).expect("it is there"));
    if !bytes::is_log(bytes) || !bytes::is_log(their) {
        return;
    }
    let (slots, their_slots) = (bytes::slots(bytes), bytes::slots(their));
    match random.below(3) {
        0 if slots > 0 && their_slots > 0 => {
            let (to, from) = (random.index(slots), random.index(their_slots));
            let (to, from) = (bytes::slot(bytes, to), bytes::slot(their, from));
            bytes[to].copy_from_slice(&their[from]);
        }
        1 if bytes::summary(bytes) == bytes::summary(their) => {
            let range = bytes::PRELUDE..bytes::PRELUDE + bytes::summary(bytes);
            bytes[range.clone()].copy_from_slice(&their[range]);
        }
        _ => bytes[..bytes::PRELUDE].copy_from_slice(&their[..bytes::PRELUDE]),
    }
}

#[test]
fn no_attack_on_objects_shows_what_was_not_written() {
    for victim in victims() {
        assert_eq!(victim.shown(victim.objects.clone(), true), Some(0));
        assert_eq!(victim.shown(victim.objects.clone(), false), Some(0));
    }
    let (mut refused, mut whole, mut errors) = (0_u32, 0_u32, 0_u32);
    Campaign::new("sealed volume, attacks on objects", 1500, 1_000_000).run(|_, random| {
        let victim = &victims()[random.index(victims().len())];
        let mut objects = victim.objects.clone();
        let single = attack(&mut objects, victim, random);
        let more = random.below(4).min(2);
        for _ in 0..more {
            attack(&mut objects, victim, random);
        }
        let verified = random.below(4) > 0;
        match victim.shown(objects, verified) {
            None if single && more == 0 => panic!("a flipped bit cost the volume"),
            None => refused += 1,
            Some(0) => whole += 1,
            // The block as it is, and as the snapshot has it.
            Some(bad) if single && more == 0 => assert!(bad <= 2, "a flipped bit cost {bad} blocks"),
            Some(_) => errors += 1,
        }
    });
    println!("{refused} refused, {errors} with errors for some blocks, {whole} as they are");
    if Campaign::is_sample() {
        assert!(refused > 60 && errors > 100 && whole > 100, "{refused} {errors} {whole}");
    }
}
