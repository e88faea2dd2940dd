//! Many requests of several queues at once, on an encrypted volume whose data units are larger than a sector.

use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::{Disk, DiskOptions};
use atrest_testkit::Random;
use atrest_volume::UnlockOptions;
use atrest_volume::plain::{self, PlainKey, PlainOptions};

use super::vhost_user::Serving;
use crate::common::Memory;
use crate::common::guest::{DATA, Descriptor, Guest, NEXT, NO_STATUS, OK, WRITE, header};

const VOLUME: u64 = 4 << 20;
const QUEUES: usize = 4;
/// Chains of three descriptors that a queue has at once.
const CHAINS: usize = 40;
/// Writes of a sector each. Eight sectors share a data unit.
const WRITES: usize = 18_000;

fn volume() -> Arc<Disk> {
    let cipher = "xchacha12,aes-adiantum-plain64".parse().unwrap();
    let options = PlainOptions { data_unit: 4096, iv_large: true, ..PlainOptions::new(cipher, 32) };
    let media = Arc::new(Memory::new(VOLUME));
    let key = Random::new(7).bytes(32);
    let unlock = UnlockOptions::default();
    let volume = plain::open(&*media, &options, PlainKey::KeyFile(&key), &unlock).unwrap();
    Arc::new(Disk::new(media, volume, DiskOptions::default()).unwrap())
}

#[test]
fn no_write_of_a_sector_is_lost_beside_others_in_its_data_unit() {
    let volume = volume();
    let mut expected = Random::new(1).bytes(VOLUME as usize);
    volume.write_at(0, &expected).unwrap();
    let serving = Serving::start(volume.clone());
    let mut guest = Guest::connect(&serving.socket, QUEUES, 0);
    let mut random = Random::new(2);
    let mut written = 0;
    while written < WRITES {
        // Neighbours, so that all queues work on the same few data units. No sector twice: either could win.
        let mut sectors: Vec<u64> = (0..(QUEUES * CHAINS) as u64).collect();
        random.shuffle(&mut sectors);
        let first = random.below(VOLUME / 512 - sectors.len() as u64);
        for (number, sector) in sectors.iter().map(|sector| first + sector).enumerate() {
            let (queue, chain) = (number % QUEUES, (number / QUEUES) as u16);
            let at = DATA + number as u64 * 1024;
            let data = random.bytes(512);
            guest.write_memory(at, &[&header(1, sector)[..], &data, &[NO_STATUS]].concat());
            expected[sector as usize * 512..][..512].copy_from_slice(&data);
            let head = chain * 3;
            let chain = [
                Descriptor { address: at, len: 16, flags: NEXT, next: head + 1 },
                Descriptor { address: at + 16, len: 512, flags: NEXT, next: head + 2 },
                Descriptor { address: at + 528, len: 1, flags: WRITE, next: 0 },
            ];
            guest.put(queue, head, &chain);
            guest.offer(queue, head);
        }
        for number in 0..sectors.len() {
            let (head, len) = guest.given_back(number % QUEUES).expect("the queue goes on");
            assert!(len == 1 && head % 3 == 0);
        }
        for number in 0..sectors.len() as u64 {
            assert_eq!(guest.read_memory(DATA + number * 1024 + 528, 1), [OK]);
        }
        written += sectors.len();
    }
    let mut holds = vec![0; VOLUME as usize];
    volume.read_at(0, &mut holds).unwrap();
    let lost =
        (0..VOLUME as usize / 512).filter(|at| holds[at * 512..][..512] != expected[at * 512..][..512]);
    assert_eq!(lost.count(), 0, "sectors lost of {written} that were written");
}
