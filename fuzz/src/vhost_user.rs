//! What a hostile guest puts into a virtqueue, over vhost-user to the real server.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use atrest_attach::vhost_user::{Options, Server};

use crate::faces::{directory, has_panicked, watch_panics};
use crate::{Image, Reader};
use guest::{DATA, Descriptor, GUEST, Guest, MEMORY, SIZE};

/// The front-end and the driver of the tests.
#[allow(dead_code, missing_docs)]
#[path = "../../crates/attach/tests/common/guest.rs"]
mod guest;

/// A running server on a device of 1 MiB.
fn server() -> &'static Path {
    static SERVER: OnceLock<std::path::PathBuf> = OnceLock::new();
    SERVER.get_or_init(|| {
        watch_panics();
        let socket = directory().join("vhost.sock");
        let options = Options { workers: 2, ..Options::default() };
        let server = Server::bind(Image::new(1 << 20, &[0x5a; 4096]), &socket, options);
        let server = server.expect("the socket can be bound");
        std::thread::spawn(move || server.run());
        socket
    })
}

/// One chain: its head, how many descriptors there are, the descriptors, and what lies where most of them point to.
pub fn vhost_user(data: &[u8]) {
    static KEPT: Mutex<Option<Guest>> = Mutex::new(None);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut guest = kept.take().unwrap_or_else(|| Guest::connect(server(), 1, 0));
    let mut reader = Reader(data);
    let (head, count) = (reader.u16(), u16::from(reader.u8()) % 17);
    let descriptors: Vec<Descriptor> = (0..count)
        .map(|_| Descriptor {
            address: near(reader.u64()),
            len: reader.u32(),
            flags: reader.u16(),
            next: reader.u16(),
        })
        .collect();
    guest.write_memory(GUEST, &[0; 16 * SIZE as usize]);
    guest.put(0, 0, &descriptors);
    let mut first = [0; 1 << 16];
    let len = reader.0.len().min(first.len());
    first[..len].copy_from_slice(&reader.0[..len]);
    guest.write_memory(DATA, &first);
    guest.offer(0, head);
    // A queue that was given up is gone with its conversation.
    if let Some((given, written)) = guest.given_back(0) {
        assert_eq!(given, head);
        let room: u64 = descriptors.iter().map(|descriptor| u64::from(descriptor.len)).sum();
        // Tables that descriptors name hold more of them.
        let indirect = descriptors.iter().any(|descriptor| descriptor.flags & guest::INDIRECT != 0);
        assert!(indirect || u64::from(written) <= room * u64::from(SIZE), "{written} bytes into {room}");
        *kept = Some(guest);
    }
    assert!(!has_panicked(), "the server has panicked");
}

/// Most addresses lie in the memory, or just outside.
fn near(raw: u64) -> u64 {
    match raw >> 56 {
        0xff => raw,
        0xfe => GUEST - 4096 + raw % (MEMORY + 8192),
        _ => DATA + raw % (1 << 16),
    }
}

/// A chain for the seeds: a request's header, and descriptors with their lengths and flags one behind the other.
pub fn vhost_user_seed(kind: u32, sector: u64, parts: &[(u32, u16)], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, parts.len() as u8];
    let mut at = 0u64;
    for (next, (len, flags)) in (1u16..).zip(parts) {
        let more = if usize::from(next) < parts.len() { guest::NEXT } else { 0 };
        bytes.extend((at % (1 << 16)).to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend((flags | more).to_le_bytes());
        bytes.extend(next.to_le_bytes());
        at += u64::from(*len);
    }
    bytes.extend(guest::header(kind, sector));
    bytes.extend(data);
    bytes
}
