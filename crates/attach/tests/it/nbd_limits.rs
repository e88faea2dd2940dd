//! The bounds of the NBD server, each on both of its sides, and devices that say odd things.

use crate::common::raw::*;
use crate::common::{BLOCK, Memory, Serving};
use atrest_attach::nbd::{BindError, Endpoint, Options, Server};
use atrest_device::{BlockDevice, Cause, DeviceError, Extent, Geometry, Operation};
use atrest_testkit::{Scratch, wait_until};
use std::error::Error;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const EINVAL: u32 = 22;
const ESHUTDOWN: u32 = 108;
const UNSUPPORTED: u32 = 0x8000_0001;
const TOO_BIG: u32 = 0x8000_0009;
/// Longest payload.
const LONGEST: u32 = 32 << 20;

/// What a device says of a range: offset and length.
type Told = fn(u64, u64) -> Result<Extent, DeviceError>;

/// A device of zeros with room for the longest request. It counts what is written, and tells extents as it is told to.
struct Zeros {
    written: AtomicU64,
    extent: Told,
}

impl BlockDevice for Zeros {
    fn size(&self) -> u64 {
        u64::from(LONGEST) + 4096
    }
    fn geometry(&self) -> Geometry {
        Geometry::default()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        buf.fill(0);
        Ok(())
    }
    fn write_at(&self, _: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.written.fetch_add(data.len() as u64, Ordering::SeqCst);
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        (self.extent)(offset, len)
    }
}

fn zeros(extent: Told) -> (Arc<Zeros>, Serving) {
    let zeros = Arc::new(Zeros { written: AtomicU64::new(0), extent });
    (zeros.clone(), Serving::start(zeros))
}

fn plain(_: u64, len: u64) -> Result<Extent, DeviceError> {
    Ok(Extent { len, hole: false })
}

#[test]
fn a_request_has_32_mib_at_most() {
    let (zeros, serving) = zeros(plain);
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(READ, 0, 1, 0, LONGEST);
    let (data, errors) = raw.structured_read(1, 0, LONGEST as usize);
    assert!(errors.is_empty() && data.len() == LONGEST as usize);
    raw.request(READ, 0, 2, 0, LONGEST + 1);
    assert_eq!(raw.error(), EINVAL);
    let payload = vec![1; LONGEST as usize];
    // One that is refused for another reason is read off the stream, which stays in step.
    for (flags, written) in [(1 << 9, 0), (0, u64::from(LONGEST))] {
        raw.request(WRITE, flags, 3, 0, LONGEST);
        raw.send(&payload);
        match flags {
            0 => assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 3 }),
            _ => assert_eq!(raw.error(), EINVAL),
        }
        assert_eq!(zeros.written.load(Ordering::SeqCst), written);
    }
    raw.request(WRITE, 0, 4, 0, LONGEST + 1);
    assert_eq!(raw.error(), EINVAL);
    assert!(raw.is_closed(), "what can't rightly come isn't waited for");
}

#[test]
fn an_option_has_16_kib_and_up_to_a_mib_is_skipped() {
    let (_zeros, serving) = zeros(plain);
    let mut raw = Raw::connect(&serving.socket);
    for (len, answer) in [(16 << 10, UNSUPPORTED), ((16 << 10) + 1, TOO_BIG), (1 << 20, TOO_BIG)] {
        assert_eq!(raw.option(99, &vec![0; len])[0].0, answer, "{len}");
    }
    raw.send(b"IHAVEOPT\0\0\0\x63\0\x10\0\x01");
    assert!(raw.is_closed());
    // The old way in has no reply for an error.
    let mut raw = Raw::connect(&serving.socket);
    raw.send(b"IHAVEOPT\0\0\0\x01\0\0\x40\x01");
    assert!(raw.is_closed());
}

#[test]
fn a_client_has_512_options() {
    let (_zeros, serving) = zeros(plain);
    for (before, served) in [(511, true), (512, false)] {
        let mut raw = Raw::connect(&serving.socket);
        for _ in 0..before {
            assert_eq!(raw.option(99, &[])[0].0, UNSUPPORTED);
        }
        if served {
            assert_eq!(raw.option(GO, &[0; 6]).last(), Some(&(ACK, vec![])));
        } else {
            assert!(raw.is_closed());
        }
    }
}

#[test]
fn the_name_of_an_export_is_one_that_the_protocol_has() {
    let scratch = Scratch::new();
    let bind = |name: &str| {
        let options = Options { export: name.into(), ..Options::default() };
        Server::bind(Arc::new(Memory::new(BLOCK)), &Endpoint::Unix(scratch.path("s")), options).map(|_| ())
    };
    bind(&"x".repeat(4096)).expect("as long as a name may be");
    for (name, len) in [("x".repeat(4097), 4097), ("a\0b".into(), 3), ("\0".into(), 1)] {
        let refused = bind(&name).expect_err("no such name");
        assert!(matches!(refused, BindError::ExportName { len: told } if told == len), "{refused}");
        assert!(refused.source().is_none());
    }
    assert_eq!(std::fs::read_dir(scratch.as_path()).unwrap().count(), 0, "nothing is left behind");
}

/// Asks for the block status of a range: length and flags of each extent.
fn status(raw: &mut Raw, offset: u64, len: u32) -> Vec<(u32, u32)> {
    raw.request(BLOCK_STATUS, 0, 1, offset, len);
    let Reply::Chunk { flags: 1, kind: 5, payload, .. } = raw.reply() else { panic!("no block status") };
    let words: Vec<u32> =
        payload[4..].chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    words.chunks(2).map(|extent| (extent[0], extent[1])).collect()
}

#[test]
fn block_status_covers_what_was_asked_for_whatever_the_device_says() {
    let longer = |_, len| Ok(Extent { len: len + 100_000, hole: true });
    let empty = |at, _| Ok(Extent { len: 0, hole: at >= 8 });
    let piecemeal = |at: u64, len: u64| Ok(Extent { len: len.min(10), hole: at < 95 });
    let broken = |at: u64, len: u64| match at {
        ..50 => Ok(Extent { len: len.min(50 - at), hole: false }),
        _ => Err(DeviceError::new(Operation::Read, at, 1, Cause::Os(5))),
    };
    let cases: [(Told, &[(u32, u32)]); 4] = [
        (longer, &[(95, 3)]),
        (empty, &[(3, 0), (92, 3)]),
        (piecemeal, &[(90, 3), (5, 0)]),
        (broken, &[(45, 0)]),
    ];
    for (index, (extent, expected)) in cases.into_iter().enumerate() {
        let (_zeros, serving) = zeros(extent);
        let mut raw = Raw::transmission(&serving.socket, true);
        assert_eq!(status(&mut raw, 5, 95), expected, "case {index}");
        if index == 3 {
            // What was not answered is asked for again, and then the error is told.
            raw.request(BLOCK_STATUS, 0, 2, 50, 45);
            assert_eq!(raw.error(), 5);
        }
    }
}

#[test]
fn a_block_status_has_1024_extents_at_most() {
    let (_zeros, serving) = zeros(|at, _| Ok(Extent { len: 4096 - at % 4096, hole: at / 4096 % 2 == 1 }));
    let mut raw = Raw::transmission(&serving.socket, true);
    let extents = status(&mut raw, 0, 2000 * 4096);
    let expected = (0..1024).map(|index| (4096, if index % 2 == 1 { 3 } else { 0 }));
    assert!(extents.into_iter().eq(expected));
    let short = status(&mut raw, 0, 1024 * 4096);
    assert_eq!(short.len(), 1024);
}

/// One worker, so that the second request is taken off the socket with the first and waits until the first is done.
#[test]
fn what_was_not_begun_when_the_server_stops_is_refused() {
    let memory = Arc::new(Memory::new(8 * BLOCK));
    let serving = Serving::with(memory.clone(), Options { workers: 1, ..Options::default() });
    memory.open_gate(false);
    let mut raw = Raw::transmission(&serving.socket, true);
    let request = |command: u16, cookie: u64| {
        let mut wire = 0x2560_9513_u32.to_be_bytes().to_vec();
        wire.extend([&[0; 2][..], &command.to_be_bytes(), &cookie.to_be_bytes(), &[0; 8]].concat());
        wire.extend(512_u32.to_be_bytes());
        wire
    };
    raw.send(&[request(WRITE, 1), vec![7; 512], request(WRITE, 2), vec![8; 512]].concat());
    wait_until("the write is under way", || memory.waiting.load(Ordering::SeqCst) == 1);
    serving.shutdown.start();
    wait_until("nobody new is taken", || !serving.socket.exists());
    memory.open_gate(true);
    assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 1 });
    assert_eq!(raw.error(), ESHUTDOWN);
    serving.stop().unwrap();
    assert_eq!(memory.copy()[..512], [7; 512]);
}

#[test]
fn a_socket_that_took_the_place_of_ours_stays() {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let bind =
        || Server::bind(Arc::new(Memory::new(BLOCK)), &Endpoint::Unix(path.clone()), Options::default());
    let first = bind().unwrap();
    std::fs::remove_file(&path).unwrap();
    let second = bind().unwrap();
    drop(first);
    drop(UnixStream::connect(&path).expect("the second still listens"));
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_socket_is_made_in_a_directory_and_nowhere_else() {
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo");
    scratch.tool("mkfifo").arg(&fifo).ok();
    // Nobody writes to it, so opening it for reading would wait for ever.
    for (path, errno) in
        [(fifo.join("s"), libc::ENOTDIR), (scratch.path("gone/s"), libc::ENOENT), ("/".into(), libc::EISDIR)]
    {
        let endpoint = Endpoint::Unix(path.clone());
        let refused = Server::bind(Arc::new(Memory::new(BLOCK)), &endpoint, Options::default());
        let refused = refused.err().expect("no directory");
        let source = refused.source().and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(errno), "{}", path.display());
    }
}

#[test]
fn an_address_that_is_taken_is_told_with_its_cause() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Tcp(held.local_addr().unwrap());
    let refused = Server::bind(Arc::new(Memory::new(BLOCK)), &endpoint, Options::default());
    let refused = refused.err().expect("it is taken");
    let source = refused.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(libc::EADDRINUSE));
}

#[test]
fn an_error_is_placed_in_the_part_of_a_read_that_it_belongs_to() {
    let memory = Arc::new(Memory::new(512 * BLOCK));
    let serving = Serving::start(memory.clone());
    let mut raw = Raw::transmission(&serving.socket, true);
    // The device names the block, which may begin in front of what was asked for.
    for (block, offset, told) in
        [(3, 0, 3 * BLOCK), (3, 3 * BLOCK + 100, 3 * BLOCK + 100), (64, 0, 64 * BLOCK), (0, 0, 0)]
    {
        *memory.broken.lock().unwrap() = Some((block, Cause::Os(5)));
        raw.request(READ, 0, 1, offset, 1 << 20);
        assert_eq!(raw.structured_read(1, offset, 1 << 20).1, [(5, told)], "block {block} from {offset}");
    }
}

/// What wakes a server is nobody else's: a program that is started gets no such descriptor.
#[test]
fn a_server_s_own_descriptors_are_closed_in_the_programs_that_are_started() {
    let (_zeros, serving) = zeros(plain);
    drop(Raw::transmission(&serving.socket, true));
    let mut eventfds = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        // Other tests close theirs meanwhile.
        let Ok(target) = std::fs::read_link(&path) else { continue };
        let info = format!("/proc/self/fdinfo/{}", path.file_name().unwrap().display());
        let Ok(info) = std::fs::read_to_string(info) else { continue };
        if target.to_str() == Some("anon_inode:[eventfd]") {
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
            let flags = i32::from_str_radix(flags.trim(), 8).expect("an octal number");
            let both = libc::O_CLOEXEC | libc::O_NONBLOCK;
            assert_eq!(flags & both, both, "{info}");
            eventfds += 1;
        }
    }
    assert!(eventfds > 0, "no server has one");
}
