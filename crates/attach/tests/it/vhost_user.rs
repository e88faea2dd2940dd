//! The vhost-user face against a front-end of our own, which can break every rule.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use atrest_attach::vhost_user::{BindError, Options, RunError, Server, Shutdown};
use atrest_device::{BlockDevice, Cause};
use atrest_testkit::{Random, Scratch, wait_until};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;

use crate::common::guest::{
    DATA, Descriptor, EVENT_IDX, FLUSH, Guest, INDIRECT, IOERR, MEMORY, NEXT, NO_STATUS, OK, Part, SIZE,
    UNSUPP, WRITE, header,
};
use crate::common::{BLOCK, Memory};

const VOLUME: u64 = 4 << 20;

pub struct Serving {
    _directory: Scratch,
    pub socket: PathBuf,
    shutdown: Shutdown,
    thread: Option<JoinHandle<Result<(), RunError>>>,
    memory: Option<Arc<Memory>>,
}

impl Serving {
    pub fn start(device: Arc<dyn BlockDevice>) -> Serving {
        Serving::with(device, Options { id: "a name of more than 20 bytes".into(), ..Options::default() })
    }

    fn with(device: Arc<dyn BlockDevice>, options: Options) -> Serving {
        let directory = Scratch::new();
        let socket = directory.path("socket");
        let server = Server::bind(device, &socket, options).unwrap();
        let shutdown = server.shutdown();
        let thread = Some(std::thread::spawn(|| server.run()));
        Serving { _directory: directory, socket, shutdown, thread, memory: None }
    }

    pub fn stop(mut self) -> Result<(), RunError> {
        self.shutdown.start();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // A test that failed has left writes waiting.
        if let (true, Some(memory)) = (std::thread::panicking(), &self.memory) {
            memory.open_gate(true);
        }
        self.shutdown.start();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn served() -> (Arc<Memory>, Serving) {
    let memory = Arc::new(Memory::new(VOLUME));
    let mut serving = Serving::start(memory.clone());
    serving.memory = Some(memory.clone());
    (memory, serving)
}

#[test]
fn what_is_read_and_written_is_what_the_device_holds() {
    let (memory, serving) = served();
    for without in [0, EVENT_IDX] {
        let mut guest = Guest::connect(&serving.socket, 1, without);
        let mut random = Random::new(3);
        for (sector, len) in
            [(0, 512), (1, 512), (7, 4096), (511, 1 << 20), (8191, 512), (0, 4 << 20), (8192, 0)]
        {
            let range = sector as usize * 512..sector as usize * 512 + len as usize;
            assert_eq!(
                guest.read(sector, len),
                (OK, memory.copy()[range.clone()].to_vec()),
                "{sector} {len}"
            );
            let mut expected = memory.copy();
            let data = random.bytes(len as usize);
            expected[range].copy_from_slice(&data);
            assert_eq!(guest.write(sector, &data), OK);
            assert!(memory.copy() == expected, "{sector} {len}");
        }
    }
    // However it is cut into descriptors: the header in pieces, the status behind data.
    let mut guest = Guest::connect(&serving.socket, 1, 0);
    let head = header(0, 5);
    let parts =
        [Part::Read(&head[..3]), Part::Read(&[]), Part::Read(&head[3..]), Part::Write(100), Part::Write(413)];
    assert_eq!(guest.request(0, &parts), (OK, memory.copy()[2560..3072].to_vec(), 513));
    let head = [&header(1, 9)[..], &[7; 500]].concat();
    assert_eq!(guest.request(0, &[Part::Read(&head), Part::Read(&[8; 12]), Part::Write(3)]).0, OK);
    assert_eq!(memory.copy()[4608..5120], [vec![7; 500], vec![8; 12]].concat());
}

#[test]
fn the_configuration_tells_of_size_blocks_queues_and_limits() {
    let (_, serving) = served();
    let mut guest = Guest::greet(&serving.socket, 0);
    let config = guest.config();
    let le = |at: usize, len: usize| {
        config[at..at + len].iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte))
    };
    assert_eq!(le(0, 8), VOLUME / 512, "capacity");
    assert_eq!(le(12, 4), 126, "seg_max");
    assert_eq!(le(20, 4), BLOCK, "blk_size");
    assert_eq!((le(24, 1), le(25, 1), le(26, 2), le(28, 4)), (0, 0, 1, (1 << 20) / BLOCK), "topology");
    assert_eq!(le(34, 2), 64, "num_queues");
    assert_eq!((le(36, 4), le(40, 4), le(44, 4)), ((1 << 30) / 512, 32, 8), "discard");
    assert_eq!((le(48, 4), le(52, 4), le(56, 1)), ((64 << 20) / 512, 1, 0), "write zeroes");
    // SEG_MAX, BLK_SIZE, FLUSH, TOPOLOGY, MQ, DISCARD, WRITE_ZEROES; INDIRECT_DESC, EVENT_IDX; VERSION_1; no RO.
    let offered = [2, 6, 9, 10, 12, 13, 14, 28, 29, 30, 32].map(|bit| 1u64 << bit);
    assert_eq!(guest.features, offered.iter().sum::<u64>());
    assert_eq!(guest.front_end.get_queue_num().unwrap(), 64);
    // What is not offered can't be taken.
    assert!(guest.front_end.set_features(guest.features | 1 << 5).is_err());
    drop(guest);

    let read_only = Serving::start(Arc::new(Memory::read_only(VOLUME)));
    let mut guest = Guest::connect(&read_only.socket, 1, 0);
    assert_eq!(guest.features & (1 << 5 | 1 << 13 | 1 << 14), 1 << 5);
    assert_eq!(guest.write(0, &[1; 512]), IOERR);
    assert_eq!(guest.ranges(11, &[(0, 8, 0)]), IOERR);
    assert_eq!(guest.ranges(13, &[(0, 8, 0)]), IOERR);
    assert_eq!((guest.flush(), guest.read(0, 512).0), (OK, OK));
}

#[test]
fn the_device_has_an_id_of_20_bytes_and_no_other_commands() {
    let (_, serving) = served();
    let mut guest = Guest::connect(&serving.socket, 1, 0);
    let id = guest.request(0, &[Part::Read(&header(8, 0)), Part::Write(20), Part::Write(1)]);
    assert_eq!(id, (OK, b"a name of more than ".to_vec(), 21));
    assert_eq!(guest.request(0, &[Part::Read(&header(8, 0)), Part::Write(19), Part::Write(1)]).0, IOERR);
    for unknown in [2, 3, 5, 9, 14, 16, u32::MAX] {
        assert_eq!(
            guest.request(0, &[Part::Read(&header(unknown, 0)), Part::Write(1)]).0,
            UNSUPP,
            "{unknown}"
        );
    }
}

#[test]
fn ranges_that_are_none_are_refused_and_change_nothing() {
    let (memory, serving) = served();
    let before = memory.copy();
    let mut guest = Guest::connect(&serving.socket, 1, 0);
    let sectors = VOLUME / 512;
    for (sector, len) in
        [(sectors, 512), (sectors - 1, 1024), (u64::MAX, 512), (1 << 55, 512), (0, 511), (0, 1), (3, 513)]
    {
        assert_eq!(guest.read(sector, len).0, IOERR, "{sector} {len}");
        assert_eq!(guest.write(sector, &vec![1; len as usize]), IOERR, "{sector} {len}");
    }
    for kind in [11, 13] {
        let longest = if kind == 11 { 1 << 21 } else { 1 << 17 };
        for (sector, sectors) in
            [(sectors, 1), (sectors - 1, 2), (u64::MAX, 1), (1 << 55, 8), (0, longest + 1)]
        {
            assert_eq!(guest.ranges(kind, &[(sector, sectors, 0)]), IOERR, "{kind} {sector} {sectors}");
        }
        // Flags that are not known; for discard `unmap` is one of them.
        assert_eq!(guest.ranges(kind, &[(0, 8, 2)]), UNSUPP);
        assert_eq!(guest.ranges(kind, &[(0, 8, 1 << 31)]), UNSUPP);
        assert_eq!(guest.ranges(kind, &[]), IOERR);
        let half = [0; 8];
        let odd = [Part::Read(&header(kind, 0)), Part::Read(&half), Part::Write(1)];
        assert_eq!(guest.request(0, &odd).0, IOERR);
        let many = vec![(0, 8, 0); if kind == 11 { 33 } else { 2 }];
        assert_eq!(guest.ranges(kind, &many), IOERR);
    }
    assert_eq!(guest.ranges(11, &[(0, 8, 1)]), UNSUPP);
    // One range that is none, and the good one before it is left alone too.
    assert_eq!(guest.ranges(11, &[(0, 8, 0), (sectors, 8, 0)]), IOERR);
    assert!(memory.copy() == before);
}

#[test]
fn discards_and_zeroes_reach_the_device_at_any_sector() {
    let (memory, serving) = served();
    let mut guest = Guest::connect(&serving.socket, 1, 0);
    let mut expected = memory.copy();
    // Blocks of 4096 that lie wholly inside are discarded.
    assert_eq!(guest.ranges(11, &[(8, 8, 0), (17, 30, 0)]), OK);
    expected[4096..8192].fill(0);
    expected[12288..20480].fill(0);
    assert!(memory.copy() == expected && memory.discards.load(Ordering::SeqCst) == 2);
    for (sector, sectors, unmap) in [(100, 1, 0), (203, 700, 1)] {
        assert_eq!(guest.ranges(13, &[(sector, sectors, unmap)]), OK);
        expected[sector as usize * 512..][..sectors as usize * 512].fill(0);
        assert!(memory.copy() == expected);
    }
}

#[test]
fn a_guest_that_does_not_flush_has_every_write_flushed() {
    let (memory, serving) = served();
    let mut flushing = Guest::connect(&serving.socket, 1, 0);
    assert_eq!((flushing.write(0, &[1; 512]), memory.flushes.load(Ordering::SeqCst)), (OK, 0));
    assert_eq!((flushing.flush(), memory.flushes.load(Ordering::SeqCst)), (OK, 1));
    drop(flushing);
    let mut guest = Guest::connect(&serving.socket, 1, FLUSH);
    assert_eq!((guest.write(0, &[1; 512]), memory.flushes.load(Ordering::SeqCst)), (OK, 2));
    assert_eq!((guest.ranges(11, &[(8, 8, 0)]), memory.flushes.load(Ordering::SeqCst)), (OK, 3));
    assert_eq!((guest.ranges(13, &[(8, 8, 0)]), memory.flushes.load(Ordering::SeqCst)), (OK, 4));
    assert_eq!((guest.read(0, 512).0, memory.flushes.load(Ordering::SeqCst)), (OK, 4));
    memory.flush_fails.store(true, Ordering::SeqCst);
    assert_eq!(guest.write(0, &[1; 512]), IOERR);
}

#[test]
fn errors_of_the_device_are_told_and_cost_one_request() {
    let (memory, serving) = served();
    let mut guest = Guest::connect(&serving.socket, 1, 0);
    for cause in [Cause::Os(libc::EIO), Cause::NoSpace, Cause::Gone, Cause::Tampered] {
        *memory.broken.lock().unwrap() = Some((100, cause));
        assert_eq!(guest.read(800, 512).0, IOERR);
        // Far into a long request.
        let (status, data) = guest.read(0, 1 << 20);
        assert_eq!(status, IOERR);
        assert_eq!(data[..256 << 10], memory.copy()[..256 << 10]);
        assert_eq!(guest.write(800, &[1; 4096]), IOERR);
        assert_eq!(guest.ranges(11, &[(800, 8, 0)]), IOERR);
        assert_eq!(guest.ranges(13, &[(800, 8, 0)]), IOERR);
        *memory.broken.lock().unwrap() = None;
        assert_eq!(guest.read(800, 512).0, OK);
    }
    memory.flush_fails.store(true, Ordering::SeqCst);
    assert_eq!(guest.flush(), IOERR);
    drop(guest);
    assert!(matches!(serving.stop(), Err(RunError::Flush(_))));
}

#[test]
fn requests_of_several_queues_are_under_way_at_once_and_end_in_any_order() {
    let (memory, serving) = served();
    let mut guest = Guest::connect(&serving.socket, 2, 0);
    memory.open_gate(false);
    // Two writes wait in the first queue; a read behind them, and one in the other queue, do not.
    let places = [DATA, DATA + 0x1000, DATA + 0x2000];
    for (index, kind) in [(0, 1u32), (1, 1), (2, 0)] {
        let at = places[index];
        guest.write_memory(at, &header(kind, index as u64 * 8));
        guest.write_memory(at + 16, &[index as u8; 512]);
        guest.write_memory(at + 528, &[NO_STATUS]);
        let data = if kind == 0 { WRITE } else { 0 };
        let first = index as u16 * 3;
        guest.put(
            0,
            first,
            &[
                Descriptor { address: at, len: 16, flags: NEXT, next: first + 1 },
                Descriptor { address: at + 16, len: 512, flags: NEXT | data, next: first + 2 },
                Descriptor { address: at + 528, len: 1, flags: WRITE, next: 0 },
            ],
        );
        guest.offer(0, first);
        // Each comes when those before it are under way.
        wait_until("the writes wait", || memory.waiting.load(Ordering::SeqCst) == (index as u64 + 1).min(2));
    }
    assert_eq!(guest.given_back(0), Some((6, 513)));
    assert_eq!(guest.read_memory(places[2] + 528, 1), [OK]);
    guest.write_memory(DATA + 0x8000, &header(0, 0));
    guest.put(
        1,
        0,
        &[
            Descriptor { address: DATA + 0x8000, len: 16, flags: NEXT, next: 1 },
            Descriptor { address: DATA + 0x9000, len: 513, flags: WRITE, next: 0 },
        ],
    );
    guest.offer(1, 0);
    assert_eq!(guest.given_back(1), Some((0, 513)));
    memory.open_gate(true);
    let mut heads = [guest.given_back(0).unwrap().0, guest.given_back(0).unwrap().0];
    heads.sort_unstable();
    assert_eq!(heads, [0, 3]);
    assert_eq!((memory.copy()[0], memory.copy()[4096]), (0, 1));
}

#[test]
fn a_queue_that_is_stopped_has_finished_what_it_took_and_goes_on_where_it_was() {
    let (memory, serving) = served();
    let mut guest = Guest::connect(&serving.socket, 1, 0);
    assert_eq!(guest.write(0, &[1; 512]), OK);
    memory.open_gate(false);
    guest.write_memory(DATA, &[&header(1, 8)[..], &[9; 512]].concat());
    guest.put(
        0,
        0,
        &[
            Descriptor { address: DATA, len: 528, flags: NEXT, next: 1 },
            Descriptor { address: DATA + 528, len: 1, flags: WRITE, next: 0 },
        ],
    );
    guest.offer(0, 0);
    wait_until("the write waits", || memory.waiting.load(Ordering::SeqCst) == 1);
    let opener = memory.clone();
    let front_end = guest.front_end.clone();
    let stopping = std::thread::spawn(move || front_end.get_vring_base(0).unwrap());
    opener.open_gate(true);
    assert_eq!(stopping.join().unwrap(), 2);
    // It had been given back before the queue had stopped.
    assert_eq!(guest.given_back(0), Some((0, 1)));
    assert_eq!(memory.copy()[4096], 9);
    guest.start_queue(0);
    assert_eq!(guest.read(8, 512), (OK, vec![9; 512]));
    // A queue that is off takes nothing.
    guest.front_end.set_vring_enable(0, false).unwrap();
    guest.write_memory(DATA, &[&header(1, 8)[..], &[5; 512]].concat());
    guest.put(
        0,
        0,
        &[
            Descriptor { address: DATA, len: 528, flags: NEXT, next: 1 },
            Descriptor { address: DATA + 528, len: 1, flags: WRITE, next: 0 },
        ],
    );
    guest.offer(0, 0);
    guest.config();
    assert_eq!(memory.copy()[4096], 9);
    guest.front_end.set_vring_enable(0, true).unwrap();
    assert_eq!(guest.given_back(0), Some((0, 1)));
    assert_eq!(memory.copy()[4096], 5);
}

#[test]
fn the_end_takes_nothing_more_finishes_what_was_taken_and_flushes() {
    let (memory, serving) = served();
    let socket = serving.socket.clone();
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut guest = Guest::connect(&socket, 1, 0);
    memory.open_gate(false);
    guest.write_memory(DATA, &[&header(1, 8)[..], &[9; 512]].concat());
    guest.put(
        0,
        0,
        &[
            Descriptor { address: DATA, len: 528, flags: NEXT, next: 1 },
            Descriptor { address: DATA + 528, len: 1, flags: WRITE, next: 0 },
        ],
    );
    guest.offer(0, 0);
    wait_until("the write waits", || memory.waiting.load(Ordering::SeqCst) == 1);
    let ending = std::thread::spawn(move || serving.stop());
    // The socket goes first.
    wait_until("the socket is gone", || !socket.exists());
    memory.open_gate(true);
    ending.join().unwrap().unwrap();
    assert_eq!(guest.given_back(0), Some((0, 1)));
    assert_eq!((memory.copy()[4096], memory.flushes.load(Ordering::SeqCst)), (9, 1));
    assert!(!memory.flushed_early.load(Ordering::SeqCst) && !socket.exists());
}

#[test]
fn one_front_end_is_served_at_a_time_and_the_next_one_when_it_has_gone() {
    let memory = Arc::new(Memory::new(VOLUME));
    let turn = Duration::from_millis(50);
    let serving = Serving::with(memory.clone(), Options { turn, ..Options::default() });
    assert!(matches!(
        Server::bind(memory.clone(), &serving.socket, Options::default()),
        Err(BindError::InUse { .. })
    ));
    for round in 0..3u8 {
        let mut guest = Guest::connect(&serving.socket, 1, 0);
        // Another one waits for its turn, and is then told by the end of its connection.
        let mut other = UnixStream::connect(&serving.socket).unwrap();
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut other, &mut byte).unwrap_or(0), 0);
        assert_eq!(guest.write(0, &[round; 512]), OK);
        assert_eq!(guest.read(0, 512), (OK, vec![round; 512]));
    }
}

#[test]
fn memory_and_queues_that_are_none_end_the_conversation_and_not_the_server() {
    let (_, serving) = served();
    type Break = fn(&mut Guest) -> vhost::Result<()>;
    let breaks: [Break; 9] = [
        |guest| guest.front_end.set_vring_num(0, 3),
        |guest| guest.front_end.set_vring_num(0, 2048),
        |guest| guest.front_end.set_vring_num(0, 0),
        // One that does not fit into the memory where it is.
        |guest| {
            let mut addresses = guest.queues[0].addresses();
            addresses.desc_table_addr += MEMORY - 16;
            guest.front_end.set_vring_addr(0, &addresses)
        },
        |guest| {
            let mut addresses = guest.queues[0].addresses();
            addresses.used_ring_addr -= 1 << 30;
            guest.front_end.set_vring_addr(0, &addresses)
        },
        |guest| {
            let mut addresses = guest.queues[0].addresses();
            addresses.avail_ring_addr += 1;
            guest.front_end.set_vring_addr(0, &addresses)
        },
        // A file that is shorter than what it is said to hold.
        |guest| {
            let mut region = guest.region();
            region.memory_size *= 2;
            guest.front_end.set_mem_table(&[region]).map(drop)
        },
        // Twice the same addresses.
        |guest| guest.front_end.set_mem_table(&[guest.region(), guest.region()]).map(drop),
        |guest| {
            let event = vmm_sys_util::eventfd::EventFd::new(0).unwrap();
            // The front-end's side counts only up to what it was told.
            guest.front_end.set_vring_kick(63, &event)?;
            guest.front_end.set_vring_base(63, 0)?;
            guest.front_end.set_vring_enable(63, true)?;
            // A queue without addresses waits for them; then they are none.
            let mut addresses = guest.queues[0].addresses();
            addresses.desc_table_addr = 0;
            guest.front_end.set_vring_addr(63, &addresses)
        },
    ];
    for (number, broken) in breaks.iter().enumerate() {
        let mut guest = Guest::connect(&serving.socket, 1, 0);
        assert_eq!(guest.read(0, 512).0, OK);
        assert!(broken(&mut guest).is_err(), "{number}");
        assert!(guest.front_end.get_features().is_err(), "{number}: the conversation goes on");
    }
    assert_eq!(Guest::connect(&serving.socket, 1, 0).read(0, 512).0, OK);
}

#[test]
fn indexes_and_heads_that_are_none_cost_their_queue() {
    let (_, serving) = served();
    let breaks: [fn(&mut Guest); 3] = [
        // More chains than the queue has descriptors.
        |guest| guest.set_available(0, SIZE + 7),
        |guest| guest.set_available(0, u16::MAX),
        // A chain that begins behind the table.
        |guest| guest.offer(0, SIZE),
    ];
    for (number, broken) in breaks.iter().enumerate() {
        let mut guest = Guest::connect(&serving.socket, 2, 0);
        broken(&mut guest);
        assert_eq!(guest.given_back(0), None, "{number}");
        guest.queues.swap(0, 1);
        // The other queue, and the server, go on.
        guest.write_memory(DATA, &header(4, 0));
        guest.put(
            0,
            0,
            &[
                Descriptor { address: DATA, len: 16, flags: NEXT, next: 1 },
                Descriptor { address: DATA + 16, len: 1, flags: WRITE, next: 0 },
            ],
        );
        guest.offer(0, 0);
        assert_eq!(guest.given_back(0), Some((0, 1)), "{number}");
        assert_eq!(guest.read_memory(DATA + 16, 1), [OK], "{number}");
    }
}

#[test]
fn requests_come_in_indirect_tables_too() {
    let (memory, serving) = served();
    let mut guest = Guest::connect(&serving.socket, 1, 0);
    let table = DATA + 0x10_0000;
    guest.write_memory(DATA, &header(0, 3));
    for (index, descriptor) in [
        Descriptor { address: DATA, len: 16, flags: NEXT, next: 2 },
        Descriptor { address: DATA + 528, len: 1, flags: WRITE, next: 0 },
        Descriptor { address: DATA + 16, len: 512, flags: NEXT | WRITE, next: 1 },
    ]
    .iter()
    .enumerate()
    {
        guest.write_memory(table + index as u64 * 16, &descriptor.bytes());
    }
    guest.put(0, 7, &[Descriptor { address: table, len: 48, flags: INDIRECT, next: 0 }]);
    guest.offer(0, 7);
    assert_eq!(guest.given_back(0), Some((7, 513)));
    assert_eq!(guest.read_memory(DATA + 16, 513), [&memory.copy()[1536..2048], &[OK]].concat());
}
