//! A front-end and the driver in its guest, written for tests: memory in a memfd, and split queues by section 2.7 of the
//! virtio specification, so that a test can put anything into them.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Where the guest's memory begins, for the guest and for the front-end.
pub const GUEST: u64 = 0x10_0000;
pub const USER: u64 = 0x7000_0000_0000;
pub const MEMORY: u64 = 16 << 20;
/// Where data may lie: behind the queues.
pub const DATA: u64 = GUEST + (1 << 20);

/// Descriptors of a queue.
pub const SIZE: u16 = 128;
/// Bytes from one queue to the next, and where its parts are.
const STRIDE: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

pub const OK: u8 = 0;
pub const IOERR: u8 = 1;
pub const UNSUPP: u8 = 2;
/// What a test puts where the status goes.
pub const NO_STATUS: u8 = 0xee;

/// Features that a driver takes unless a test says otherwise.
pub const FLUSH: u64 = 1 << 9;
pub const EVENT_IDX: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;

/// A descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

impl Descriptor {
    pub fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

/// A part of a request: what the device reads, or how much it may write.
pub enum Part<'a> {
    Read(&'a [u8]),
    Write(u32),
}

pub struct Guest {
    pub front_end: Frontend,
    pub features: u64,
    pub memory: GuestMemoryMmap<()>,
    pub queues: Vec<Queue>,
    /// The front-end's connection, once more.
    connection: UnixStream,
    /// Kept open as the memory's file.
    _file: std::fs::File,
}

pub struct Queue {
    base: u64,
    kick: EventFd,
    call: EventFd,
    error: EventFd,
    /// Of both.
    events: Epoll,
    available: u16,
    pub used: u16,
}

impl Guest {
    /// Connects, and sets up memory and so many queues with all features but those of `without`.
    pub fn connect(socket: &Path, queues: usize, without: u64) -> Guest {
        let mut guest = Guest::greet(socket, without);
        guest.share_memory();
        for index in 0..queues {
            guest.add_queue(index);
        }
        guest
    }

    /// Connects and takes the features.
    pub fn greet(socket: &Path, without: u64) -> Guest {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let connection = stream.try_clone().unwrap();
        let mut front_end = Frontend::from_stream(stream, 64);
        front_end.set_owner().unwrap();
        let features = front_end.get_features().unwrap();
        assert_ne!(features & PROTOCOL_FEATURES, 0);
        let protocol = front_end.get_protocol_features().unwrap();
        let known = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK;
        assert_eq!(protocol, known);
        front_end.set_protocol_features(protocol).unwrap();
        front_end.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        front_end.set_features(features & !without).unwrap();
        let file = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = std::fs::File::from(file);
        file.set_len(MEMORY).unwrap();
        let place = FileOffset::new(file.try_clone().unwrap(), 0);
        let ranges = [(GuestAddress(GUEST), MEMORY as usize, Some(place))];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        Guest { front_end, features, memory, queues: Vec::new(), connection, _file: file }
    }

    pub fn region(&self) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST,
            memory_size: MEMORY,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self._file.as_raw_fd(),
        }
    }

    pub fn share_memory(&self) {
        self.front_end.set_mem_table(&[self.region()]).unwrap();
    }

    fn add_queue(&mut self, index: usize) {
        let base = GUEST + index as u64 * STRIDE;
        let event = || EventFd::new(EFD_NONBLOCK).unwrap();
        let (call, error, events) = (event(), event(), Epoll::new().unwrap());
        for source in [&call, &error] {
            let wanted = EpollEvent::new(EventSet::IN, 0);
            events.ctl(ControlOperation::Add, source.as_raw_fd(), wanted).unwrap();
        }
        let queue = Queue { base, kick: event(), call, error, events, available: 0, used: 0 };
        self.queues.push(queue);
        self.start_queue(index);
    }

    /// Starts a queue where it is.
    pub fn start_queue(&mut self, index: usize) {
        let queue = &self.queues[index];
        self.front_end.set_vring_num(index, SIZE).unwrap();
        self.front_end.set_vring_base(index, queue.available).unwrap();
        self.front_end.set_vring_addr(index, &queue.addresses()).unwrap();
        self.front_end.set_vring_err(index, &queue.error).unwrap();
        self.front_end.set_vring_call(index, &queue.call).unwrap();
        self.front_end.set_vring_kick(index, &queue.kick).unwrap();
        self.front_end.set_vring_enable(index, true).unwrap();
    }

    /// Whether the server has gone.
    pub fn is_left(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut connection = [PollFd::new(&self.connection, PollFlags::RDHUP)];
        poll(&mut connection, Some(&Timespec::default())).unwrap() > 0
    }

    pub fn config(&mut self) -> Vec<u8> {
        let space = vec![0; 60];
        self.front_end.get_config(0, 60, VhostUserConfigFlags::WRITABLE, &space).unwrap().1
    }

    pub fn write_memory(&self, address: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(address)).unwrap();
    }

    pub fn read_memory(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, GuestAddress(address)).unwrap();
        bytes
    }

    fn load16(&self, address: u64) -> u16 {
        let order = std::sync::atomic::Ordering::SeqCst;
        u16::from_le(self.memory.load(GuestAddress(address), order).unwrap())
    }

    fn store16(&self, address: u64, value: u16) {
        let order = std::sync::atomic::Ordering::SeqCst;
        self.memory.store(value.to_le(), GuestAddress(address), order).unwrap();
    }

    /// Puts descriptors into a queue's table, from `at` on.
    pub fn put(&self, queue: usize, at: u16, descriptors: &[Descriptor]) {
        for (index, descriptor) in (u64::from(at)..).zip(descriptors) {
            self.write_memory(self.queues[queue].base + index * 16, &descriptor.bytes());
        }
    }

    /// Makes a chain available and kicks.
    pub fn offer(&mut self, queue: usize, head: u16) {
        let ring = self.queues[queue].base + AVAILABLE;
        let available = self.queues[queue].available;
        self.store16(ring + 4 + u64::from(available % SIZE) * 2, head);
        self.set_available(queue, available.wrapping_add(1));
    }

    /// Sets the index of the available ring, whatever there is, and kicks.
    pub fn set_available(&mut self, queue: usize, available: u16) {
        self.store16(self.queues[queue].base + AVAILABLE + 2, available);
        self.queues[queue].available = available;
        self.queues[queue].kick.write(1).unwrap();
    }

    /// Waits until a chain is given back, with its head and how much was written; `None` if the queue was given up.
    pub fn given_back(&mut self, queue: usize) -> Option<(u16, u32)> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let ring = self.queues[queue].base + USED;
        // The interrupt that is wanted next, where the feature is taken.
        self.store16(self.queues[queue].base + AVAILABLE + 4 + u64::from(SIZE) * 2, self.queues[queue].used);
        while self.load16(ring + 2) == self.queues[queue].used {
            assert!(Instant::now() < deadline, "the request is not given back");
            let here = &self.queues[queue];
            here.events.wait(60_000, &mut [EpollEvent::default(); 2]).unwrap();
            if here.error.read().is_ok() {
                return None;
            }
            let _ = here.call.read();
        }
        self.given_back_already(queue)
    }

    /// A chain that is given back, without waiting for it.
    pub fn given_back_already(&mut self, queue: usize) -> Option<(u16, u32)> {
        let ring = self.queues[queue].base + USED;
        if self.load16(ring + 2) == self.queues[queue].used {
            return None;
        }
        let used = &mut self.queues[queue].used;
        let entry = ring + 4 + u64::from(*used % SIZE) * 8;
        *used = used.wrapping_add(1);
        let entry = self.read_memory(entry, 8);
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        Some((word(0) as u16, word(4)))
    }

    /// Sends one request as descriptors one behind the other, and its data likewise. Returns the status, what the device
    /// wrote before that, and the length that it says it has written.
    pub fn request(&mut self, queue: usize, parts: &[Part<'_>]) -> (u8, Vec<u8>, u32) {
        let mut at = DATA;
        let mut writes = Vec::new();
        let mut descriptors: Vec<Descriptor> = (1..)
            .zip(parts)
            .map(|(next, part)| {
                let (len, flags) = match part {
                    Part::Read(bytes) => {
                        self.write_memory(at, bytes);
                        (bytes.len() as u32, NEXT)
                    }
                    Part::Write(len) => {
                        self.write_memory(at, &vec![NO_STATUS; *len as usize]);
                        writes.push((at, *len));
                        (*len, NEXT | WRITE)
                    }
                };
                let descriptor = Descriptor { address: at, len, flags, next };
                at += u64::from(len);
                descriptor
            })
            .collect();
        descriptors.last_mut().unwrap().flags &= !NEXT;
        self.put(queue, 0, &descriptors);
        self.offer(queue, 0);
        let (head, len) = self.given_back(queue).expect("the queue goes on");
        assert_eq!(head, 0);
        let mut written: Vec<u8> = Vec::new();
        for (at, len) in writes {
            written.extend(self.read_memory(at, len as usize));
        }
        let status = written.pop().unwrap_or(NO_STATUS);
        (status, written, len)
    }

    pub fn read(&mut self, sector: u64, len: u32) -> (u8, Vec<u8>) {
        let (status, data, written) =
            self.request(0, &[Part::Read(&header(0, sector)), Part::Write(len), Part::Write(1)]);
        if status == OK {
            assert_eq!(written, len + 1);
        }
        (status, data)
    }

    pub fn write(&mut self, sector: u64, data: &[u8]) -> u8 {
        self.request(0, &[Part::Read(&header(1, sector)), Part::Read(data), Part::Write(1)]).0
    }

    pub fn flush(&mut self) -> u8 {
        self.request(0, &[Part::Read(&header(4, 0)), Part::Write(1)]).0
    }

    /// Discards (11) or writes zeroes (13) in ranges of sectors, with flags.
    pub fn ranges(&mut self, kind: u32, ranges: &[(u64, u32, u32)]) -> u8 {
        let bytes: Vec<u8> = ranges
            .iter()
            .flat_map(|(sector, sectors, flags)| {
                [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
            })
            .collect();
        self.request(0, &[Part::Read(&header(kind, 0)), Part::Read(&bytes), Part::Write(1)]).0
    }
}

impl Queue {
    pub fn addresses(&self) -> VringConfigData {
        let user = self.base - GUEST + USER;
        VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: user,
            used_ring_addr: user + USED,
            avail_ring_addr: user + AVAILABLE,
            log_addr: None,
        }
    }
}

/// The first 16 bytes of a request.
pub fn header(kind: u32, sector: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[8..].copy_from_slice(&sector.to_le_bytes());
    bytes
}
