//! Attacks on each object by itself: none shows wrong data, and one flipped bit costs one unit.

use std::sync::Arc;

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::Aead;
use atrest_sealedvolume::store::{MemoryStore, ObjectStore as _};
use atrest_sealedvolume::volume::{Access, OpenError};
use atrest_testkit::Campaign;

use crate::rig::bytes;
use crate::rig::plain::{Plain, settings};

/// Blocks in two leaves of the map.
const BLOCKS: u64 = 4100;
const WRITTEN: [u64; 6] = [0, 1, 2, 3, 4096, 4099];

struct Victim {
    objects: Vec<(String, Vec<u8>)>,
    cell: Plain,
    /// What the blocks hold, and what those of the snapshot hold.
    now: [u8; 6],
    snapshot: (u64, [u8; 6]),
    head: u64,
}

/// A volume with a snapshot, two checkpoints and a tail.
fn victim(format: u8, aead: Aead) -> Victim {
    let plain = Plain::new(Arc::new(MemoryStore::new()), BLOCKS, format);
    let settings = || atrest_sealedvolume::volume::Settings { aead, ..settings(8) };
    let volume = plain.open_with(Access::Write, settings()).expect("it opens");
    let write = |volume: &SealedVolume, index: usize, value: u8| {
        volume.write_at(WRITTEN[index] * 4096, &[value; 4096]).expect("a write");
    };
    (0..6).for_each(|index| write(&volume, index, 10 + index as u8));
    let id = volume.add_snapshot("first").expect("a snapshot");
    write(&volume, 1, 21);
    volume.flush().expect("a flush");
    write(&volume, 4, 24);
    volume.checkpoint().expect("a checkpoint");
    write(&volume, 2, 32);
    write(&volume, 5, 35);
    volume.flush().expect("a flush");
    volume.discard(0, 4096).expect("a trim");
    volume.flush().expect("a flush");
    let head = volume.head().expect("a head").number;
    let (now, snapshot) = ([0, 21, 32, 13, 24, 35], (id, [10, 11, 12, 13, 14, 15]));
    Victim { objects: plain.objects(), cell: plain, now, snapshot, head }
}

/// What became of a volume whose objects were changed.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Refused(OpenError),
    /// It opened at its head; so many blocks, and so many of the snapshot, are errors.
    Opened(usize, usize),
}

impl Victim {
    /// Opens the volume over other objects. It must be refused, or be at its head with nothing wrong in it.
    fn shown(&self, objects: &[(String, Vec<u8>)]) -> Outcome {
        let store = MemoryStore::new();
        for (name, bytes) in objects {
            store.put(name, bytes).expect("it is stored");
        }
        let plain = Plain { store: Arc::new(store), ..self.cell.clone() };
        let volume = match plain.open(Access::Read) {
            Ok(volume) => volume,
            Err(error) => return Outcome::Refused(error),
        };
        assert_eq!(volume.head().expect("a head").number, self.head, "it opened at another state");
        let bad = wrong_free(&volume, &self.now);
        let (id, held) = &self.snapshot;
        assert!(volume.snapshots().expect("snapshots").iter().map(|snapshot| snapshot.id).eq([*id]));
        let bad_snapshot = volume.snapshot(*id).map_or(6, |snapshot| wrong_free(&snapshot, held));
        Outcome::Opened(bad, bad_snapshot)
    }
}

/// How many blocks are errors. None may be wrong.
fn wrong_free(volume: &SealedVolume, held: &[u8; 6]) -> usize {
    let mut buf = [0; 4096];
    let read = |(at, want): (&u64, &u8)| match volume.read_at(at * 4096, &mut buf) {
        Ok(()) => {
            assert!(buf == [*want; 4096], "wrong data in block {at}");
            0
        }
        Err(_) => 1,
    };
    WRITTEN.iter().zip(held).map(read).sum()
}

#[test]
fn what_was_written_is_there() {
    for aead in [Aead::Aes256Gcm, Aead::ChaCha20Poly1305] {
        let victim = victim(1, aead);
        assert_eq!(victim.shown(&victim.objects), Outcome::Opened(0, 0));
        assert!(victim.objects.len() > 10, "there are objects of each kind");
    }
}

#[test]
fn a_flipped_bit_costs_the_block_that_it_lies_in_at_most() {
    let victim = victim(1, Aead::Aes256Gcm);
    let mut cells = Vec::new();
    for (index, (_, bytes)) in victim.objects.iter().enumerate() {
        cells.extend((0..bytes.len() * 8).map(|bit| (index, bit)));
    }
    // Most bits are of blocks, which are all alike: of each block the first and the last of each 256.
    cells.retain(|(index, bit)| {
        let bytes = &victim.objects[*index].1;
        let edge = bytes::PRELUDE + bytes::summary(bytes);
        !(edge..bytes.len() - edge.min(bytes.len())).contains(&(bit / 8)) || bit % 256 < 2 || bytes[10] != 1
    });
    Campaign::matrix("sealed volume, flipped bits", 300).over(&cells, |(index, bit)| {
        let mut objects = victim.objects.clone();
        let name = victim.objects[*index].0.as_str();
        let bytes = &mut objects[*index].1;
        bytes[bit / 8] ^= 1 << (bit % 8);
        match victim.shown(&objects) {
            Outcome::Opened(now, snapshot) => {
                assert!(now <= 1 && snapshot <= 1, "bit {bit} of {name}: {now}, {snapshot}")
            }
            refused => panic!("bit {bit} of {} cost the volume: {refused:?}", objects[*index].0),
        }
    });
}

/// Objects that are gone, cut, longer, in each other's places, of another volume under the same key, or of an earlier one.
#[test]
fn no_object_in_the_place_of_another_is_taken_for_it() {
    let (victim, other) = (victim(1, Aead::Aes256Gcm), victim(2, Aead::Aes256Gcm));
    let again = self::victim(1, Aead::Aes256Gcm); // the same identifier once more: its own salts are all that differ
    let mut cells: Vec<(usize, Option<Vec<u8>>)> = Vec::new();
    for (index, (_, bytes)) in victim.objects.iter().enumerate() {
        cells.push((index, None));
        cells.push((index, Some(Vec::new())));
        cells.push((index, Some(bytes[..bytes.len() - 1].to_vec())));
        cells.push((index, Some([&bytes[..], &[0]].concat())));
        for from in [&victim.objects, &other.objects, &again.objects] {
            cells.extend(
                from.iter()
                    .filter(|(_, other)| other != bytes)
                    .map(|(_, other)| (index, Some(other.clone()))),
            );
        }
    }
    Campaign::matrix("sealed volume, exchanged objects", 400).over(&cells, |(index, with)| {
        let mut objects = victim.objects.clone();
        match with {
            Some(bytes) => objects[*index].1.clone_from(bytes),
            None => {
                objects.remove(*index);
            }
        }
        // Whatever it is, nothing wrong was read, and no other state was opened.
        victim.shown(&objects);
    });
}

/// Pieces of objects: a block or a summary of one in another, at each place.
#[test]
fn no_piece_of_an_object_is_taken_for_another() {
    let victim = victim(1, Aead::ChaCha20Poly1305);
    let logs: Vec<usize> =
        (0..victim.objects.len()).filter(|index| bytes::is_log(&victim.objects[*index].1)).collect();
    let mut tried = 0;
    for &to in &logs {
        for &from in &logs {
            let (target, source) = (&victim.objects[to].1, &victim.objects[from].1);
            for slot in 0..bytes::slots(target) {
                for taken in 0..bytes::slots(source) {
                    if (to, slot) == (from, taken) {
                        continue;
                    }
                    let mut objects = victim.objects.clone();
                    objects[to].1[bytes::slot(target, slot)]
                        .copy_from_slice(&source[bytes::slot(source, taken)]);
                    let outcome = victim.shown(&objects);
                    assert!(
                        matches!(outcome, Outcome::Opened(now, then) if now <= 1 && then <= 1),
                        "{outcome:?}"
                    );
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 40, "{tried}");
}

/// Each state that the store has held, shown again beside the newest record: refused, and told why.
#[test]
fn an_older_state_as_a_whole_is_refused() {
    let plain = Plain::in_memory(BLOCKS);
    let volume = plain.open(Access::Write).expect("it opens");
    let mut states = vec![plain.objects()];
    for round in 0..6 {
        volume.write_at(0, &[round; 4096]).expect("a write");
        volume.flush().expect("a flush");
        if round % 2 == 1 {
            volume.checkpoint().expect("a checkpoint");
        }
        states.push(plain.objects());
    }
    let newest = states.pop().expect("states");
    let show = |objects: &[(String, Vec<u8>)]| {
        let store = MemoryStore::new();
        objects.iter().for_each(|(name, bytes)| store.put(name, bytes).expect("it is stored"));
        let plain = Plain { store: Arc::new(store), ..plain.clone() };
        plain.open(Access::Read).map(|volume| volume.head().expect("a head")).err()
    };
    for state in &states[..] {
        assert!(matches!(show(state), None | Some(OpenError::RolledBack { .. })));
    }
    for state in &states[..5] {
        assert!(matches!(show(state), Some(OpenError::RolledBack { .. })), "{:?}", show(state));
    }
    assert_eq!(show(&newest), None);
    // And the record that was current then: the newest store is refused beside it.
    let record = *plain.cell.0.lock().expect("the cell");
    volume.write_at(0, &[9; 4096]).expect("a write");
    volume.checkpoint().expect("a checkpoint");
    *plain.cell.0.lock().expect("the cell") = record;
    assert!(matches!(plain.open(Access::Write), Err(OpenError::StoreOlder { .. })));
}
