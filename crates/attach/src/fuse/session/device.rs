//! The kernel's requests by `/dev/fuse`: each is read whole, and answered by a write.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, readv, writev};

use super::dispatch::answer;
use super::stop::Stop;
use crate::fuse::filesystem::Filesystem;
use crate::fuse::protocol::abi::{REQUEST_HEADER, opcode};
use crate::fuse::protocol::{Body, Header, MAX_TRANSFER, Offer, Reply, Wishes, operation_len, reply_header};
use crate::sys;

/// Bytes of the largest record that follows a request's header.
const LARGEST_OPERATION: usize = 88;
/// The bytes before the data of a write, which so begin at the buffer's start: header and record.
const HEAD: usize = REQUEST_HEADER + 40;

/// One way to the kernel; a request that came by it is answered by it.
pub struct Channel {
    kernel: Arc<OwnedFd>,
    /// What else it waits for: then its descriptor does not block.
    stop: Option<Stop>,
}

/// Where a request is put.
struct Message {
    head: [u8; HEAD],
    buffer: Vec<u8>,
}

/// A request that was read, apart from its body.
struct Taken {
    header: Header,
    operation: [u8; LARGEST_OPERATION],
    operation_len: usize,
    /// Bytes of the body, at the buffer's start.
    len: usize,
}

impl Channel {
    pub fn new(kernel: Arc<OwnedFd>) -> Self {
        Self { kernel, stop: None }
    }

    /// Has it end at a word as well. It costs a system call for each request.
    pub fn stopped_by(mut self, stop: Stop) -> io::Result<Self> {
        let flags = fcntl_getfl(&self.kernel)?;
        fcntl_setfl(&self.kernel, flags | OFlags::NONBLOCK)?;
        self.stop = Some(stop);
        Ok(self)
    }

    /// Another way to the same mount. Threads with one of their own share no lock in the kernel.
    pub fn another(&self) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        sys::join_fuse_mount(device.as_fd(), self.kernel.as_fd())?;
        Ok(Self { kernel: Arc::new(device.into()), stop: None })
    }

    /// Answers the kernel's first request: how they talk. `wishes` are those for what the kernel offers.
    pub fn agree(&self, wishes: impl FnOnce(&Offer) -> Wishes) -> io::Result<()> {
        let mut message = Message::new();
        loop {
            let Some(taken) = self.take(&mut message)? else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let first = message.buffer.get(..taken.len);
            let Some(first) = first.filter(|_| taken.header.opcode == opcode::INIT) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel did not begin with INIT"));
            };
            let offer = match Offer::parse(first) {
                Ok(offer) => offer,
                Err(error) => {
                    self.reply(&taken.header, &message, &Reply::Error(Errno::PROTO))?;
                    return Err(io::Error::new(io::ErrorKind::Unsupported, error));
                }
            };
            if offer.is_ahead() {
                let version = offer.agree(Wishes(0)).encode();
                self.reply(&taken.header, &message, &Reply::Bytes(version.to_vec()))?;
                continue;
            }
            let agreed = offer.agree(wishes(&offer)).encode();
            return self.reply(&taken.header, &message, &Reply::Bytes(agreed.to_vec()));
        }
    }

    /// Answers requests until nothing is mounted any more, or the session ends.
    pub fn serve(&self, filesystem: &dyn Filesystem) -> io::Result<()> {
        let mut message = Message::new();
        while let Some(taken) = self.take(&mut message)? {
            let operation = taken.operation.get(..taken.operation_len).ok_or(Errno::INVAL)?;
            let body = Body { buffer: &mut message.buffer, len: taken.len };
            let reply = answer(filesystem, &taken.header, operation, body);
            self.reply(&taken.header, &message, &reply)?;
        }
        Ok(())
    }

    /// The next request. None if nothing is mounted any more, or the session ends.
    fn take(&self, message: &mut Message) -> io::Result<Option<Taken>> {
        loop {
            if let Some(stop) = &self.stop
                && !stop.wait_or_readable(self.kernel.as_fd())?
            {
                return Ok(None);
            }
            let mut parts = [IoSliceMut::new(&mut message.head), IoSliceMut::new(&mut message.buffer)];
            match readv(&self.kernel, &mut parts) {
                Ok(len) => {
                    let damaged =
                        || io::Error::new(io::ErrorKind::InvalidData, "the kernel sent part of a request");
                    return message.sort(len).map(Some).ok_or_else(damaged);
                }
                // A signal, or a caller who gave up before this read had begun.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                // It is unmounted; the other where a thread was about to take a last message, such as that a file was closed.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn reply(&self, header: &Header, message: &Message, reply: &Reply) -> io::Result<()> {
        let (error, body): (i32, &[u8]) = match reply {
            Reply::Silence => return Ok(()),
            Reply::Error(error) => (-error.raw_os_error(), &[]),
            Reply::Bytes(bytes) => (0, bytes),
            Reply::Record(record) => (0, record.as_bytes()),
            Reply::InBuffer(len) => (0, message.buffer.get(..*len).ok_or(Errno::IO)?),
        };
        let head = reply_header(header.unique, error, body.len());
        match writev(&self.kernel, &[IoSlice::new(&head), IoSlice::new(body)]) {
            Ok(_) => Ok(()),
            // The caller gave up, or it was unmounted by force.
            Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Message {
    fn new() -> Self {
        Self { head: [0; HEAD], buffer: vec![0; MAX_TRANSFER as usize] }
    }

    /// Sorts `len` bytes that were read, so that the body begins where the buffer does. None if they are no whole request.
    fn sort(&mut self, len: usize) -> Option<Taken> {
        let (header, front) = self.head.split_first_chunk::<REQUEST_HEADER>()?;
        let header = Header::decode(header);
        if header.len as usize != len {
            return None;
        }
        let rest = len.checked_sub(REQUEST_HEADER)?;
        // intended: what is not known here is refused, whatever follows its header.
        let operation_len = operation_len(header.opcode).unwrap_or(0);
        let body_len = rest.checked_sub(operation_len).filter(|&len| len <= self.buffer.len())?;
        let mut operation = [0; LARGEST_OPERATION];
        let in_front = operation_len.min(front.len());
        let (of_operation, of_body) = front.split_at(in_front);
        operation.get_mut(..in_front)?.copy_from_slice(of_operation);
        if operation_len >= front.len() {
            let more = operation_len - front.len();
            operation.get_mut(in_front..operation_len)?.copy_from_slice(self.buffer.get(..more)?);
            if more > 0 {
                self.buffer.copy_within(more..more + body_len, 0);
            }
        } else {
            // Names and the like: short.
            let behind = of_body.len().min(body_len);
            let moved = body_len - behind;
            self.buffer.copy_within(..moved, behind);
            self.buffer.get_mut(..behind)?.copy_from_slice(of_body.get(..behind)?);
        }
        Some(Taken { header, operation, operation_len, len: body_len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as the kernel puts it into the two parts.
    fn put(opcode: u32, behind_header: &[u8], claimed: usize) -> (Message, usize) {
        let len = REQUEST_HEADER + behind_header.len();
        let mut whole = (claimed as u32).to_ne_bytes().to_vec();
        whole.extend(opcode.to_ne_bytes());
        whole.resize(REQUEST_HEADER, 0);
        whole.extend(behind_header);
        let mut message = Message { head: [0xee; HEAD], buffer: vec![0xee; 4096] };
        let in_head = len.min(HEAD);
        message.head[..in_head].copy_from_slice(&whole[..in_head]);
        message.buffer[..len - in_head].copy_from_slice(&whole[in_head..]);
        (message, len)
    }

    #[test]
    fn a_request_is_sorted_into_its_record_and_its_body() {
        let bytes: Vec<u8> = (1..=250).collect();
        for opcode in 1..50 {
            let record = operation_len(opcode).unwrap_or(0);
            for len in 0..bytes.len() {
                let (mut message, whole) = put(opcode, &bytes[..len], REQUEST_HEADER + len);
                let taken = message.sort(whole);
                assert_eq!(taken.is_some(), len >= record, "{opcode} {len}");
                let Some(taken) = taken else { continue };
                assert_eq!(taken.operation[..taken.operation_len], bytes[..record]);
                assert_eq!(message.buffer[..taken.len], bytes[record..len], "{opcode} {len}");
            }
        }
    }

    #[test]
    fn a_request_of_another_length_than_it_says_is_refused() {
        let (mut message, len) = put(opcode::INIT, &[0; 16], REQUEST_HEADER + 17);
        assert!(message.sort(len).is_none());
        assert!(message.sort(REQUEST_HEADER - 1).is_none());
        let (mut message, len) = put(opcode::INIT, &[0; 4096 + 40], REQUEST_HEADER + 4096 + 40);
        assert!(message.sort(len).is_none(), "longer than the buffer");
    }
}
