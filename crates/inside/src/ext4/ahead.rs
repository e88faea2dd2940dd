//! Reading a large file ahead of whoever takes it: the next pieces are read and decrypted while one is being written elsewhere.

use std::sync::mpsc::sync_channel;
use std::thread;

use super::PIECE;
use atrest_filetree::{Stop, TreeError};

/// Pieces that are ready and not yet taken, at most.
const READY: usize = 2;

/// Hands a file of `size` bytes to `sink`, piece by piece and in order. `read` fills a buffer from an offset on and says how
/// many bytes there were.
pub(crate) fn read(
    size: u64,
    read: &(impl Fn(&mut Vec<u8>, u64) -> Result<usize, TreeError> + Sync),
    sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
) -> Result<u64, TreeError> {
    thread::scope(|scope| {
        let (ready, taken) = sync_channel(READY);
        // Buffers come back: fresh memory would cost as much as reading into it.
        // cannot overflow: both are small constants.
        let (back, spare) = sync_channel::<Vec<u8>>(READY.saturating_add(2));
        let reader = thread::Builder::new().spawn_scoped(scope, move || {
            let mut offset = 0_u64;
            while offset < size {
                let mut buf = spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(PIECE));
                let outcome = read(&mut buf, offset);
                let len = *outcome.as_ref().unwrap_or(&0);
                // Nobody takes any more, or there is no more.
                if ready.send(outcome.map(|len| (buf, len))).is_err() || len == 0 {
                    return;
                }
                // cannot overflow: the sum is at most the size of the file.
                offset = offset.saturating_add(len as u64);
            }
        });
        let mut offset = 0_u64;
        if reader.is_err() {
            // The system starts no thread: slower, and the same.
            let mut buf = Vec::new();
            while offset < size {
                let len = read(&mut buf, offset)?;
                if len == 0 {
                    break;
                }
                // cannot miss or overflow: `read` says how much of the buffer it filled.
                sink(buf.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: offset })?;
                offset = offset.saturating_add(len as u64);
            }
            return Ok(offset);
        }
        for outcome in taken {
            let (buf, len) = outcome?;
            // cannot miss or overflow: `read` says how much of the buffer it filled.
            sink(buf.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: offset })?;
            offset = offset.saturating_add(len as u64);
            // It may be that nobody needs another buffer.
            _ = back.try_send(buf);
        }
        Ok(offset)
    })
}
