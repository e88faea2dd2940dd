//! The map of large volumes: trees of any depth, whose nodes hand down what is too much for them, are what an array of blocks is.

use std::collections::BTreeMap;

use atrest_device::{BlockDevice as _, Extent};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::volume::{Access, Settings};
use atrest_testkit::{Campaign, Random};

use crate::rig::plain::{Plain, settings};

/// Blocks that are written lie near these: in leaves and branches of each level.
const NEAR: [u64; 9] = [
    0,
    4096,
    8 * 4096,
    64 * 4096,
    65 * 4096,
    9 * 64 * 4096,
    64 * 64 * 4096,
    64 * 64 * 64 * 4096,
    5 * 64 * 64 * 64 * 4096,
];
const BLOCKS: u64 = 1 << 34;

/// What blocks hold. One that is not here holds zeros.
type Held = BTreeMap<u64, u8>;

#[test]
fn a_map_of_any_depth_is_an_array_of_blocks() {
    Campaign::new("sealed volume, deep maps", 12, 3_000).run(|_, random| {
        let plain = Plain::in_memory(BLOCKS);
        let map_buffer = *random.pick(&[0, 2, 6, 20]);
        let open = || {
            let settings = Settings { map_buffer, cached_map: 3000, ..settings(8) };
            plain.open_with(Access::Write, settings).expect("it opens")
        };
        let (mut volume, mut held, mut snapshots) = (open(), Held::new(), Vec::new());
        for round in 0..120 {
            match random.below(24) {
                0..12 => write(&volume, &mut held, random, 1 + round as u8),
                12 => trim(&volume, &mut held, random),
                13..17 => volume.checkpoint().expect("a checkpoint"),
                17 => {
                    volume.close().expect("closed");
                    volume = open();
                }
                18 if snapshots.len() < 3 => {
                    snapshots.push((volume.add_snapshot("a").expect("a snapshot"), held.clone()));
                }
                19 if !snapshots.is_empty() => {
                    let (id, _) = snapshots.swap_remove(random.index(snapshots.len()));
                    volume.remove_snapshot(id).expect("removed");
                }
                20 => {
                    volume.compact(90, 16).expect("compacted");
                }
                21 => volume.collect(volume.garbage().expect("garbage")).expect("collected"),
                22 => {
                    volume.flush().expect("a flush");
                    let live = volume.usage().expect("it is counted").live;
                    assert_eq!(live, held.len() as u64);
                }
                _ => look(&volume, &held, random),
            }
        }
        volume.flush().expect("a flush");
        all(&volume, &held);
        all(&plain.open(Access::Read).expect("a reader"), &held);
        for (id, held) in &snapshots {
            all(&volume.snapshot(*id).expect("a snapshot"), held);
        }
    });
}

fn somewhere(random: &mut Random) -> u64 {
    let near = *random.pick(&NEAR);
    near + random.below(40)
}

fn write(volume: &SealedVolume, held: &mut Held, random: &mut Random, value: u8) {
    let (start, len) = (somewhere(random), 1 + random.below(12));
    volume.write_at(start * 4096, &vec![value; len as usize * 4096]).expect("a write");
    held.extend((start..start + len).map(|block| (block, value)));
    if random.below(3) == 0 {
        volume.flush().expect("a flush");
    }
}

/// A few blocks, all that lies between two places, or whole leaves and branches.
fn trim(volume: &SealedVolume, held: &mut Held, random: &mut Random) {
    let (start, end) = match random.below(3) {
        0 => {
            let start = somewhere(random);
            (start, start + 1 + random.below(20))
        }
        1 => {
            let ends = [somewhere(random), somewhere(random)];
            (ends[0].min(ends[1]), ends[0].max(ends[1]))
        }
        _ => {
            let start = *random.pick(&NEAR);
            (start, start + (4096 << (6 * random.below(3))))
        }
    };
    volume.discard(start * 4096, (end - start) * 4096).expect("a trim");
    held.retain(|block, _| !(start..end).contains(block));
}

fn look(volume: &SealedVolume, held: &Held, random: &mut Random) {
    let (start, len) = (somewhere(random), 1 + random.below(30));
    let mut read = vec![7; len as usize * 4096];
    volume.read_at(start * 4096, &mut read).expect("a read");
    for (block, data) in (start..).zip(read.chunks(4096)) {
        let want = held.get(&block).copied().unwrap_or(0); // intended: what was not written holds zeros.
        assert!(data.iter().all(|byte| *byte == want), "block {block}");
    }
}

/// Every block that holds something, and every hole, of the whole volume.
fn all(volume: &SealedVolume, held: &Held) {
    let (mut at, mut stored) = (0, Held::new());
    while at < BLOCKS {
        let Extent { len, hole } = volume.extent(at * 4096, (BLOCKS - at) * 4096).expect("an extent");
        assert!(len > 0 && len.is_multiple_of(4096), "{len} bytes");
        if !hole {
            for block in at..at + len / 4096 {
                let mut data = [0; 4096];
                volume.read_at(block * 4096, &mut data).expect("a read");
                assert!(data == [data[0]; 4096]);
                stored.insert(block, data[0]);
            }
        }
        at += len / 4096;
    }
    assert_eq!(stored, *held);
}
