//! Carrying a request out on the device, and its reply: simple, or structured in one or more chunks.

use super::error::errno_of;
use super::handshake::{Export, Terms};
use super::proto::{
    ALLOCATION_CONTEXT_ID, Command, Request, allocation, chunk, chunk_header, command_flag,
    data_chunk_header, simple_reply,
};
use super::stream::{Lost, Output};
use crate::pieces::pieces;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, PoisonError};
use atrest_codec::{Be, encode};
use atrest_device::{BlockDevice, Cause, DeviceError};
use atrest_nbd::proto::errno;

/// Sends replies, one whole message at a time.
pub(super) struct Replies {
    pub terms: Terms,
    output: Mutex<Output>,
    cutter: Output,
}

/// Why a request failed, as the client is told.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    errno: u32,
    reason: String,
    /// The first byte that failed, if known.
    offset: Option<u64>,
}

impl Failure {
    pub fn new(errno: u32, reason: &str) -> Self {
        Self { errno, reason: reason.into(), offset: None }
    }

    pub fn of(error: &DeviceError) -> Self {
        let offset = (error.len > 0).then_some(error.offset);
        Self { errno: errno_of(error), reason: error.to_string(), offset }
    }
}

/// A request that several workers carry out.
pub(super) struct Parts {
    request: Request,
    left: AtomicUsize,
    failure: Mutex<Option<Failure>>,
}

impl Parts {
    pub fn new(request: Request, count: usize) -> Self {
        Self { request, left: AtomicUsize::new(count), failure: Mutex::new(None) }
    }

    /// True for the last one.
    fn end_one(&self) -> bool {
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Most extents in one block status reply.
const MAX_EXTENTS: usize = 1024;

impl Replies {
    pub fn new(terms: Terms, output: Output) -> Self {
        Self { terms, cutter: output.clone(), output: Mutex::new(output) }
    }

    /// Ends the connection at once.
    pub fn cut(&self) {
        self.cutter.cut();
    }

    pub fn send(&self, parts: &[&[u8]]) -> Result<(), Lost> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).send(parts)
    }

    /// A request that succeeded and returns nothing.
    fn success(&self, request: &Request) -> Result<(), Lost> {
        self.send(&[&simple_reply(request.cookie, 0)])
    }

    /// A request that failed as a whole.
    pub fn failure(&self, request: &Request, failure: &Failure) -> Result<(), Lost> {
        if self.terms.structured {
            self.send(&[&error_chunk(request, failure, chunk::FLAG_DONE)])
        } else {
            self.send(&[&simple_reply(request.cookie, failure.errno)])
        }
    }

    fn outcome(&self, request: &Request, outcome: Result<(), DeviceError>) -> Result<(), Lost> {
        match outcome {
            Ok(()) => self.success(request),
            Err(error) => self.failure(request, &Failure::of(&error)),
        }
    }

    /// A read's data, all of it.
    pub fn data(&self, request: &Request, data: &[u8]) -> Result<(), Lost> {
        if !self.terms.structured {
            return self.send(&[&simple_reply(request.cookie, 0), data]);
        }
        if data.is_empty() {
            return self.send(&[&chunk_header(request.cookie, chunk::FLAG_DONE, chunk::NONE, 0)]);
        }
        let header = data_chunk_header(request.cookie, chunk::FLAG_DONE, request.offset, data.len() as u32);
        self.send(&[&header, data])
    }

    /// One part of a long structured read.
    pub fn read_part(
        &self,
        parts: &Parts,
        offset: u64,
        data: &[u8],
        outcome: Result<(), DeviceError>,
    ) -> Result<(), Lost> {
        let request = &parts.request;
        let failed = outcome.err().map(|error| {
            let mut failure = Failure::of(&error);
            // One error per part, at an offset inside it.
            let inside = failure.offset.filter(|at| (offset..offset + data.len() as u64).contains(at));
            failure.offset = Some(inside.unwrap_or(offset));
            failure
        });
        // Whoever ends last sets the final flag, so the count is taken down where the messages are ordered.
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = if parts.end_one() { chunk::FLAG_DONE } else { 0 };
        match failed {
            None => {
                output.send(&[&data_chunk_header(request.cookie, flags, offset, data.len() as u32), data])
            }
            Some(failure) => output.send(&[&error_chunk(request, &failure, flags)]),
        }
    }

    /// A read of more than a chunk with a simple reply: its data must come in one piece and in order. An error
    /// after the header can't be reported, so it ends the connection, as the protocol demands.
    pub fn long_simple_read(
        &self,
        device: &dyn BlockDevice,
        request: &Request,
        buffer: &mut [u8],
    ) -> Result<(), Lost> {
        let mut pieces = pieces(request.offset, request.len.into());
        let Some((offset, len)) = pieces.next() else { return self.data(request, &[]) };
        if let Err(error) = device.read_at(offset, &mut buffer[..len]) {
            return self.failure(request, &Failure::of(&error));
        }
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.send(&[&simple_reply(request.cookie, 0), &buffer[..len]])?;
        for (offset, len) in pieces {
            device.read_at(offset, &mut buffer[..len]).map_err(|_| Lost)?;
            output.send(&[&buffer[..len]])?;
        }
        Ok(())
    }

    /// A write whose payload is all here.
    pub fn write(&self, export: &Export, request: &Request, data: &mut [u8]) -> Result<(), Lost> {
        let device = &*export.device;
        let outcome = device.write_consuming(request.offset, data).and_then(|()| force(device, request));
        self.outcome(request, outcome)
    }

    /// One part of a long write.
    pub fn write_part(
        &self,
        export: &Export,
        parts: &Parts,
        offset: u64,
        data: &mut [u8],
    ) -> Result<(), Lost> {
        if let Err(error) = export.device.write_consuming(offset, data) {
            let mut failure = parts.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| Failure::of(&error));
        }
        self.end_of_write_part(export, parts)
    }

    /// Counts one part as done, and replies after the last.
    pub fn end_of_write_part(&self, export: &Export, parts: &Parts) -> Result<(), Lost> {
        if !parts.end_one() {
            return Ok(());
        }
        let failure = parts.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        match failure {
            Some(failure) => self.failure(&parts.request, &failure),
            None => self.outcome(&parts.request, force(&*export.device, &parts.request)),
        }
    }

    /// Every command without a payload in the request.
    pub fn answer(&self, export: &Export, request: &Request) -> Result<(), Lost> {
        let device = &*export.device;
        match request.command {
            Command::Flush => self.outcome(request, device.flush()),
            Command::Trim => {
                let trimmed = match device.discard(request.offset, u64::from(request.len)) {
                    // Trimming is a hint; a device that does not trim has heard it.
                    Err(DeviceError { cause: Cause::Unsupported, .. }) => Ok(()),
                    trimmed => trimmed,
                };
                self.outcome(request, trimmed.and_then(|()| force(device, request)))
            }
            Command::WriteZeroes => {
                // A device stores zeros, so NBD_CMD_FLAG_NO_HOLE asks for what is done anyway.
                let zeroed = device.write_zeroes(request.offset, u64::from(request.len));
                self.outcome(request, zeroed.and_then(|()| force(device, request)))
            }
            Command::BlockStatus => self.block_status(device, request),
            Command::Read | Command::Write | Command::Disconnect | Command::Unknown => {
                self.failure(request, &Failure::new(errno::EINVAL, "the command is not known"))
            }
        }
    }

    fn block_status(&self, device: &dyn BlockDevice, request: &Request) -> Result<(), Lost> {
        let most = if request.has(command_flag::REQ_ONE) { 1 } else { MAX_EXTENTS };
        let mut extents: Vec<(u32, u32)> = Vec::new();
        let (mut at, end) = (request.offset, request.offset + u64::from(request.len));
        while at < end {
            let extent = match device.extent(at, end - at) {
                Ok(extent) => extent,
                Err(error) if extents.is_empty() => return self.failure(request, &Failure::of(&error)),
                // A shorter answer is allowed; the client asks again and then gets the error.
                Err(_) => break,
            };
            let len = extent.len.clamp(1, end - at);
            let flags = if extent.hole { allocation::HOLE | allocation::ZERO } else { 0 };
            let full = extents.len() == most;
            match extents.last_mut() {
                Some(last) if last.1 == flags => last.0 += len as u32,
                _ if full => break,
                _ => extents.push((len as u32, flags)),
            }
            at += len;
        }
        let mut payload = ALLOCATION_CONTEXT_ID.to_be_bytes().to_vec();
        for (len, flags) in extents {
            payload.extend(encode::<_, 8>((Be(len), Be(flags))));
        }
        let header =
            chunk_header(request.cookie, chunk::FLAG_DONE, chunk::BLOCK_STATUS, payload.len() as u32);
        self.send(&[&header, &payload])
    }
}

/// Makes a write durable before its reply, if the client asked for it.
fn force(device: &dyn BlockDevice, request: &Request) -> Result<(), DeviceError> {
    if request.has(command_flag::FUA) { device.flush() } else { Ok(()) }
}

/// An error chunk, with the failing offset where one is known that lies in the request.
fn error_chunk(request: &Request, failure: &Failure, flags: u16) -> Vec<u8> {
    let reason = failure.reason.as_bytes();
    let mut payload = encode::<_, 6>((Be(failure.errno), Be(reason.len() as u16))).to_vec();
    payload.extend(reason);
    let inside = |at: &u64| *at >= request.offset && *at - request.offset < u64::from(request.len);
    let kind = match failure.offset.filter(inside) {
        Some(offset) => {
            payload.extend(offset.to_be_bytes());
            chunk::ERROR_OFFSET
        }
        None => chunk::ERROR,
    };
    let mut wire = chunk_header(request.cookie, flags, kind, payload.len() as u32).to_vec();
    wire.append(&mut payload);
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_chunk_has_the_offset_only_if_it_lies_in_the_request() {
        let request = Request { flags: 0, command: Command::Read, cookie: 7, offset: 100, len: 50 };
        for (offset, told) in [
            (None, false),
            (Some(99), false),
            (Some(100), true),
            (Some(149), true),
            (Some(150), false),
            (Some(0), false),
            (Some(u64::MAX), false),
        ] {
            let failure = Failure { errno: errno::EIO, reason: "why".into(), offset };
            // The error's number, the length of the reason, and the reason come first.
            let mut payload = b"\0\0\0\x05\0\x03why".to_vec();
            payload.extend(offset.filter(|_| told).into_iter().flat_map(u64::to_be_bytes));
            let kind = if told { chunk::ERROR_OFFSET } else { chunk::ERROR };
            let header = chunk_header(7, chunk::FLAG_DONE, kind, payload.len() as u32);
            assert_eq!(error_chunk(&request, &failure, chunk::FLAG_DONE), [&header[..], &payload].concat());
        }
    }
}
