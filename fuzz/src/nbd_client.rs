//! The client of NBD: what a server says, from its first byte on, or behind a handshake that is right. A read of it then gives
//! what a short model of the replies gives (doc/proto.md of the NBD project, "Transmission phase").

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};

/// More than this does not fit in the socket before the client begins.
const LONGEST: usize = 64 << 10;

/// What is read first.
const OFFSET: u64 = 4096;
const LEN: usize = 256;

/// The number of the context in the handshakes.
const CONTEXT: u32 = 9;

/// What a server says: replies behind a handshake with structured replies (first byte 0), without them (1), with blocks of 512
/// bytes (2); or everything.
pub fn nbd_client(data: &[u8]) {
    let (kind, says) = data.split_first().unwrap_or((&0, &[]));
    let handshake = match kind {
        0 => structured(&[]),
        1 => simple(),
        2 => structured(&reply(7, 3, &[&[0, 3][..], &numbers([512, 4096, 1 << 20])].concat())),
        _ => Vec::new(),
    };
    let says = &says[..says.len().min(LONGEST)];
    let (mut server, socket) = UnixStream::pair().expect("a pair of sockets");
    server.write_all(&[&handshake[..], says].concat()).expect("room for it");
    server.shutdown(Shutdown::Write).expect("nothing more comes");
    let mut options = Options::default();
    options.handshake = Duration::from_secs(20);
    options.silence = Duration::from_secs(20);
    let uri = Uri::parse("nbd+unix:///?socket=here").expect("a URI");
    match Export::negotiate(socket.into(), uri, true, options) {
        Ok(export) => {
            let mut read = [0xa5; LEN];
            let outcome = export.read_at(OFFSET, &mut read).is_ok();
            if let 0..=2 = *kind {
                // Of a block of 512 bytes the whole one is asked for.
                let len = if *kind == 2 { 2 * LEN } else { LEN };
                let expected = model(says, *kind != 1, len).map(|bytes| bytes[..LEN].to_vec());
                assert_eq!(outcome.then(|| read.to_vec()), expected, "for {says:x?}");
            }
            // The rest of it goes to whatever asks.
            let _ = export.extent(1 << 19, 1 << 19);
            let _ = export.write_at(1, &[7; 700]);
            let _ = export.discard(0, 1 << 20);
            let _ = export.flush();
            let _ = export.read_at(0, &mut vec![0; 10_000]);
        }
        Err(error) => assert!(handshake.is_empty(), "{error}"),
    }
    // What the client said, to its end.
    let _ = server.read_to_end(&mut Vec::new());
}

/// What a read of `asked` bytes at [`OFFSET`] gives if the server says this: `None` for any error.
fn model(mut says: &[u8], structured: bool, asked: usize) -> Option<Vec<u8>> {
    const DONE: u16 = 1;
    let mut bytes = vec![None; asked];
    let mut failed = false;
    loop {
        match (u32::from_be_bytes(take(&mut says)?), structured) {
            (0x6744_6698, _) => {
                let error = u32::from_be_bytes(take(&mut says)?);
                let cookie = u64::from_be_bytes(take(&mut says)?);
                if cookie != 1 || error != 0 || structured {
                    return None;
                }
                return Some(says.get(..asked)?.to_vec());
            }
            (0x668e_33ef, true) => {}
            _ => return None,
        }
        let flags = u16::from_be_bytes(take(&mut says)?);
        let kind = u16::from_be_bytes(take(&mut says)?);
        if u64::from_be_bytes(take(&mut says)?) != 1 {
            return None;
        }
        let len = u32::from_be_bytes(take(&mut says)?) as usize;
        let (chunk, rest) = says.split_at_checked(len)?;
        says = rest;
        let mut left = chunk;
        match (kind, len) {
            (0, 0) => {}
            (1, 9..) | (2, 12) => {
                let offset = u64::from_be_bytes(take(&mut left)?);
                let zeros;
                let new = match kind {
                    1 => left,
                    _ => {
                        let len = u32::from_be_bytes(take(&mut left)?) as usize;
                        zeros = vec![0; len.min(asked + 1)];
                        &zeros[..]
                    }
                };
                let at = usize::try_from(offset.checked_sub(OFFSET)?).ok()?;
                let place = bytes.get_mut(at..at.checked_add(new.len())?)?;
                if new.is_empty() || place.iter().any(Option::is_some) {
                    return None;
                }
                place.iter_mut().zip(new).for_each(|(place, new)| *place = Some(*new));
            }
            (kind, 6..=4110) if kind >> 15 == 1 => {
                if u32::from_be_bytes(take(&mut left)?) == 0 {
                    return None;
                }
                failed = true;
            }
            _ => return None,
        }
        if flags & DONE != 0 {
            return if failed { None } else { bytes.into_iter().collect() };
        }
    }
}

fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = left.split_first_chunk()?;
    *left = rest;
    Some(*taken)
}

fn numbers<const N: usize>(numbers: [u32; N]) -> Vec<u8> {
    numbers.map(u32::to_be_bytes).concat()
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let head = numbers([option, kind, data.len() as u32]);
    [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &head, data].concat()
}

/// Flags of all that is offered, and a size of 1 MiB.
fn export() -> Vec<u8> {
    let flags: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;
    let terms = [&[0, 0][..], &(1_u64 << 20).to_be_bytes(), &flags.to_be_bytes()].concat();
    [reply(7, 3, &terms), reply(7, 1, &[])].concat()
}

fn structured(more: &[u8]) -> Vec<u8> {
    let context = [&CONTEXT.to_be_bytes()[..], b"base:allocation"].concat();
    let parts =
        [&b"NBDMAGICIHAVEOPT\0\x03"[..], &reply(8, 1, &[]), &reply(10, 4, &context), &reply(10, 1, &[])];
    [&parts.concat()[..], more, &export()].concat()
}

fn simple() -> Vec<u8> {
    [&b"NBDMAGICIHAVEOPT\0\x03"[..], &reply(8, 1 << 31 | 1, &[]), &export()].concat()
}

/// Inputs that are right, or nearly so.
pub fn nbd_client_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let chunk = |flags: u16, kind: u16, data: &[u8]| {
        let head = [&0x668e_33ef_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
        [&head[..], &1_u64.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let at = |offset: u64, rest: &[u8]| [&offset.to_be_bytes()[..], rest].concat();
    let whole = chunk(1, 1, &at(OFFSET, &[7; LEN]));
    let parts = [
        chunk(0, 1, &at(OFFSET + 100, &[1; 100])),
        chunk(0, 2, &at(OFFSET, &100_u32.to_be_bytes())),
        chunk(0, 1, &at(OFFSET + 200, &[2; 56])),
        chunk(1, 0, &[]),
    ]
    .concat();
    let error = chunk(1, 0x8002, &[&[0, 0, 0, 5, 0, 3][..], b"why", &OFFSET.to_be_bytes()].concat());
    let data: Vec<u8> = (0..LEN).map(|byte| byte as u8).collect();
    let plain = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &1_u64.to_be_bytes(), &data].concat();
    let status = |cookie: u8| {
        let mut status = chunk(1, 5, &numbers([CONTEXT, 1 << 18, 3]));
        status[15] = cookie;
        status
    };
    let second = [&whole[..], &status(2)].concat();
    let seed = |kind: u8, says: &[u8]| [&[kind], says].concat();
    vec![
        ("whole", seed(0, &whole)),
        ("parts", seed(0, &parts)),
        ("error", seed(0, &error)),
        ("status", seed(0, &second)),
        ("simple", seed(1, &plain)),
        ("blocks", seed(2, &chunk(1, 1, &at(OFFSET, &[7; 512])))),
        ("handshake", seed(3, &[structured(&reply(7, 3, &[0, 1, b'x'])), whole.clone()].concat())),
        (
            "old",
            seed(
                3,
                &[&b"NBDMAGICIHAVEOPT\0\0"[..], &(1_u64 << 20).to_be_bytes(), &[0, 5], &[0; 124]].concat(),
            ),
        ),
        ("refused", seed(3, &[&b"NBDMAGICIHAVEOPT\0\x03"[..], &reply(8, 1 << 31 | 5, b"TLS")].concat())),
    ]
}
