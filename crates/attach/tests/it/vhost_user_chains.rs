//! Chains of descriptors that break the rules, many of them, also while the guest changes what the device reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atrest_testkit::{Campaign, Random};
use vm_memory::{Bytes, GuestAddress};

use super::vhost_user::served;
use crate::common::guest::{
    DATA, Descriptor, EVENT_IDX, FLUSH, GUEST, Guest, INDIRECT, IOERR, MEMORY, NEXT, NO_STATUS, OK, SIZE,
    UNSUPP, WRITE, header,
};

/// What became of the chains of a campaign.
#[derive(Default)]
struct Counts {
    chains: AtomicU64,
    ok: AtomicU64,
    refused: AtomicU64,
    unsupported: AtomicU64,
    silent: AtomicU64,
    changed: AtomicU64,
    over_queues: AtomicU64,
    queues: AtomicU64,
}

/// Chains of descriptors at random, with lengths, addresses and flags that break the rules: each comes back, or its queue is
/// given up; nothing panics, nothing hangs, and a good request is carried out afterwards.
#[test]
fn malformed_chains_cost_a_request_or_a_queue_and_nothing_else() {
    let counts = Counts::default();
    Campaign::new("malformed virtio chains", 150, 20_000).run(|_, random| {
        let (memory, serving) = served();
        let mut guest = Guest::connect(&serving.socket, 1, *random.pick(&[0, FLUSH, EVENT_IDX]));
        let end = AtomicBool::new(false);
        let scribbling = random.below(4) == 0;
        let (memory_of_guest, mut scribbler) = (guest.memory.clone(), Random::new(random.draw()));
        std::thread::scope(|scope| {
            let _end = EndOnDrop(&end);
            if scribbling {
                scope.spawn(|| scribble(&memory_of_guest, &mut scribbler, &end));
            }
            send(&mut guest, random, scribbling, &counts);
        });
        drop(guest);
        let mut guest = Guest::connect(&serving.socket, 1, 0);
        let expected = memory.copy();
        assert_eq!(guest.read(0, 4096), (OK, expected[..4096].to_vec()));
        drop(guest);
        serving.stop().unwrap();
    });
    let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
    println!(
        "malformed virtio chains: {} chains, of which {} were carried out, {} failed, {} were not supported, {} had no \
         place for a status or were cut short, {} were changed meanwhile, {} went over their own queue, and {} cost their queue",
        count(&counts.chains),
        count(&counts.ok),
        count(&counts.refused),
        count(&counts.unsupported),
        count(&counts.silent),
        count(&counts.changed),
        count(&counts.over_queues),
        count(&counts.queues),
    );
}

/// Sends a few chains, until the queue is given up.
fn send(guest: &mut Guest, random: &mut Random, scribbling: bool, counts: &Counts) {
    for _ in 0..random.below(12) {
        let status = DATA + random.below(MEMORY - (DATA - GUEST));
        let Chain { head, status, over_queues } = malformed(guest, random, status);
        counts.chains.fetch_add(1, Ordering::Relaxed);
        guest.offer(0, head);
        let Some((given, _)) = guest.given_back(0) else {
            counts.queues.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if given != head && (over_queues || scribbling) {
            // The guest had data read over its own queue, which says anything now.
            counts.over_queues.fetch_add(1, Ordering::Relaxed);
            return;
        }
        assert_eq!(given, head);
        let told = match status.filter(|_| !scribbling).map(|at| guest.read_memory(at, 1)[0]) {
            Some(OK) => &counts.ok,
            Some(IOERR) => &counts.refused,
            Some(UNSUPP) => &counts.unsupported,
            _ if scribbling => &counts.changed,
            _ => &counts.silent,
        };
        told.fetch_add(1, Ordering::Relaxed);
        if over_queues {
            return;
        }
    }
}

/// Changes the table of descriptors, the header and data again and again.
fn scribble(memory: &vm_memory::GuestMemoryMmap<()>, random: &mut Random, end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        let table = GUEST + random.below(u64::from(SIZE)) * 16;
        let (at, bytes) = match random.below(3) {
            // The length or the flags of a descriptor.
            0 => (table + 8, vec![random.below(8) as u8; 1]),
            1 => (table + 12, vec![random.below(8) as u8, 0]),
            _ => (DATA + random.below(64), random.bytes(4)),
        };
        memory.write_slice(&bytes, GuestAddress(at)).unwrap();
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Chain {
    head: u16,
    /// Where its status should come, if it has a place for one.
    status: Option<u64>,
    /// It may have the device write over the queues.
    over_queues: bool,
}

/// Puts a chain that is mostly a good one.
fn malformed(guest: &mut Guest, random: &mut Random, at: u64) -> Chain {
    let kind = *random.pick(&[0, 0, 0, 1, 1, 1, 4, 8, 11, 13, 2, u32::MAX]);
    let somewhere = random.below(8192);
    let sector =
        *random.pick(&[0, 1, 8191, 8192, u64::MAX, 1 << 55, somewhere, somewhere, somewhere, somewhere]);
    let address = |random: &mut Random| {
        let somewhere = DATA + random.below(1 << 20);
        *random.pick(&[
            somewhere,
            somewhere,
            somewhere,
            somewhere,
            somewhere,
            somewhere,
            DATA,
            GUEST,
            GUEST + 0x8000,
            GUEST + MEMORY - 1,
            GUEST + MEMORY,
            0,
            u64::MAX,
            u64::MAX - 511,
            1 << 63,
        ])
    };
    let len = |random: &mut Random| {
        *random.pick(&[512, 4096, 512, 1024, 512, 512, 4096, 1, 0, 16, 511, 1 << 20, 1 << 31, u32::MAX])
    };
    let count = *random.pick(&[2, 2, 3, 3, 3, 3, 4, 5, 1, 9]);
    let mut chain: Vec<Descriptor> = Vec::new();
    // One in 60 begins behind the table.
    let head = match random.below(60) {
        0 => SIZE + random.below(1000) as u16,
        _ => random.below(u64::from(SIZE)) as u16,
    };
    let mut next = head;
    let mut places = vec![head % SIZE];
    for index in 0..count {
        let good = random.below(10) > 0;
        let last = index + 1 == count;
        let (mut flags, mut bytes, mut place) = match index {
            0 => (0, 16, DATA),
            _ if last => (WRITE, 1, at),
            _ => (if kind == 0 || kind == 8 { WRITE } else { 0 }, len(random), address(random)),
        };
        if !last {
            flags |= NEXT;
        }
        if !good {
            match random.below(5) {
                0 => flags = random.below(8) as u16,
                1 => flags ^= WRITE,
                2 => bytes = len(random),
                3 => place = address(random),
                _ => flags |= INDIRECT,
            }
        }
        next = match random.below(40) {
            0 => random.below(300) as u16,
            1 => head,
            _ => (next + 1) % SIZE,
        };
        chain.push(Descriptor { address: place, len: bytes, flags, next });
        places.push(next % SIZE);
    }
    guest.write_memory(DATA, &header(kind, sector));
    // What an indirect table or a range would be read from.
    guest.write_memory(DATA + 16, &random.bytes(512));
    guest.write_memory(at, &[NO_STATUS]);
    for (place, descriptor) in places.into_iter().zip(&chain) {
        guest.put(0, place, &[*descriptor]);
    }
    let is_status = |last: &&Descriptor| last.address == at && last.flags == WRITE && last.len == 1;
    let writes_low = |part: &Descriptor| part.flags & WRITE != 0 && part.address < DATA;
    Chain {
        head,
        status: chain.last().filter(is_status).map(|_| at),
        over_queues: chain.iter().any(|part| part.flags & INDIRECT != 0 || writes_low(part)),
    }
}
