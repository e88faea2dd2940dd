//! A stream as a device, for a volume that comes through a pipe: its header is kept, and the data behind it pass once, in order.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation, Unshared};

use crate::sys;

/// A header with all keyslots is shorter: LUKS2's metadata take at most 8 MiB, and their keyslots 128.
const MAX_HEAD: u64 = 136 << 20;
/// How long a stream is taken to be: nobody knows.
const SIZE: u64 = 1 << 62;

/// A stream whose beginning can be read at any place, and whose rest once and in order.
///
/// It counts as endless. Behind its end it reads as zeros, once the rest is being read: [`end`](Self::end) says where that was.
pub struct Sequence {
    state: Mutex<State>,
}

struct State {
    source: Box<dyn Read + Send>,
    /// What came first.
    head: Vec<u8>,
    /// Bytes that have come.
    come: u64,
    /// Nothing more is kept.
    flows: bool,
    end: Option<u64>,
    /// Reading failed: what came before that is not known.
    failed: bool,
}

impl Sequence {
    /// The stream of a program or a pipe.
    pub fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            state: Mutex::new(State {
                source,
                head: Vec::new(),
                come: 0,
                flows: false,
                end: None,
                failed: false,
            }),
        }
    }

    /// From now on what comes is not kept.
    pub fn flow(&self) {
        self.state().flows = true;
    }

    /// How long the stream was, once it has ended.
    pub fn end(&self) -> Option<u64> {
        self.state().end
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reads on until `buf` is full or the stream ends, and returns how much came.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.failed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut filled = 0;
        while filled < buf.len() && self.end.is_none() {
            match self.source.read(&mut buf[filled..]) {
                Ok(0) => self.end = Some(self.come),
                Ok(read) => {
                    filled += read;
                    self.come += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            }
        }
        Ok(filled)
    }

    /// Keeps the stream's beginning up to byte `end`.
    fn keep(&mut self, end: u64) -> Result<(), Cause> {
        if end > MAX_HEAD {
            return Err(Cause::Unsupported);
        }
        let (old, new) = (self.head.len(), (end as usize).max(self.head.len()));
        let mut head = std::mem::take(&mut self.head);
        head.resize(new, 0);
        let read = self.read(&mut head[old..]).map_err(|error| sys::cause(&error))?;
        head.truncate(old + read);
        self.head = head;
        if self.head.len() < new { Err(Cause::UnexpectedEnd) } else { Ok(()) }
    }

    /// Passes over what lies before byte `offset`.
    fn pass(&mut self, offset: u64) -> Result<(), Cause> {
        let mut sink = [0; 4096];
        while self.come < offset && self.end.is_none() {
            let step = (offset - self.come).min(sink.len() as u64) as usize;
            self.read(&mut sink[..step]).map_err(|error| sys::cause(&error))?;
        }
        Ok(())
    }

    fn fill(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), Cause> {
        // cannot overflow: the range lies inside the device.
        let end = offset + buf.len() as u64;
        if !self.flows {
            self.keep(end)?;
        }
        let kept = self.head.len() as u64;
        // intended: behind the head nothing comes from it.
        let from_head = kept.min(end).saturating_sub(offset) as usize;
        if from_head > 0 {
            buf[..from_head].copy_from_slice(&self.head[offset as usize..][..from_head]);
        }
        let (rest, at) = (&mut buf[from_head..], offset + from_head as u64);
        if rest.is_empty() {
            return Ok(());
        }
        self.pass(at)?;
        if self.come > at && self.end.is_none() {
            // It came, and was not kept.
            return Err(Cause::Unsupported);
        }
        let read = self.read(rest).map_err(|error| sys::cause(&error))?;
        rest[read..].fill(0);
        Ok(())
    }
}

impl BlockDevice for Sequence {
    fn size(&self) -> u64 {
        SIZE
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len() as u64;
        self.check_range(Operation::Read, offset, len)?;
        let filled = self.state().fill(offset, buf);
        filled.map_err(|cause| DeviceError::new(Operation::Read, offset, len, cause))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::new(Operation::Write, offset, data.len() as u64, Cause::ReadOnly))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Unshared for Sequence {}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Sequence").field("come", &state.come).field("end", &state.end).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that comes in small pieces.
    fn sequence(len: usize) -> (Sequence, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
        struct Slow(io::Cursor<Vec<u8>>);
        impl Read for Slow {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                let len = buf.len().min(100);
                self.0.read(&mut buf[..len])
            }
        }
        (Sequence::new(Box::new(Slow(io::Cursor::new(bytes.clone())))), bytes)
    }

    fn read(sequence: &Sequence, offset: u64, len: usize) -> Result<Vec<u8>, Cause> {
        let mut buf = vec![0xee; len];
        sequence.read_at(offset, &mut buf).map(|()| buf).map_err(|error| error.cause)
    }

    #[test]
    fn the_beginning_is_read_at_any_place_and_the_rest_once() {
        let (sequence, bytes) = sequence(10_000);
        assert_eq!(read(&sequence, 1000, 500), Ok(bytes[1000..1500].to_vec()));
        assert_eq!(read(&sequence, 0, 20), Ok(bytes[..20].to_vec()));
        assert_eq!(read(&sequence, 0, 10_001), Err(Cause::UnexpectedEnd));
        assert_eq!(read(&sequence, MAX_HEAD, 1), Err(Cause::Unsupported));
        let (sequence, bytes) = self::sequence(10_000);
        assert_eq!(read(&sequence, 0, 1500), Ok(bytes[..1500].to_vec()));
        sequence.flow();
        // Partly kept, then what is passed over, then in order.
        assert_eq!(read(&sequence, 1400, 200), Ok(bytes[1400..1600].to_vec()));
        assert_eq!(read(&sequence, 3000, 1000), Ok(bytes[3000..4000].to_vec()));
        assert_eq!(read(&sequence, 3999, 2), Err(Cause::Unsupported));
        assert_eq!(read(&sequence, 10, 10), Ok(bytes[10..20].to_vec()));
        assert_eq!(
            (sequence.end(), read(&sequence, 9_990, 20).map(|read| read[..10] == bytes[9_990..])),
            (None, Ok(true))
        );
        assert_eq!(sequence.end(), Some(10_000));
        assert_eq!(read(&sequence, 20_000, 5), Ok(vec![0; 5]));
    }

    #[test]
    fn a_stream_that_failed_is_not_read_on() {
        struct Failing(u32);
        impl Read for Failing {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    2 => Err(io::Error::from_raw_os_error(libc::EIO)),
                    _ => {
                        buf[0] = 1;
                        Ok(1)
                    }
                }
            }
        }
        let sequence = Sequence::new(Box::new(Failing(0)));
        assert_eq!(read(&sequence, 0, 2), Err(Cause::Os(libc::EIO)));
        assert!(read(&sequence, 0, 2).is_err(), "the byte before the failure is lost");
    }
}
