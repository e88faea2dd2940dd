//! Whole volumes from and to a stream, such as a pipe: in order, and once. One thread reads while another writes.
//!
//! Nothing of this can be resumed: a stream can't be read again.

use core::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use atrest_device::{BlockDevice, DeviceError};

use super::Progress;
use crate::{Disk, Sequence};

/// Bytes that are handed over at a time.
const PIECE: usize = 1 << 20;
/// Pieces that are under way.
const PIECES: usize = 4;

/// Why a stream was not copied. What was written before stays.
#[non_exhaustive]
#[derive(Debug)]
pub enum StreamError {
    /// Reading the stream failed.
    Source(io::Error),
    /// Writing the stream failed. Its reader may have seen enough: [`ErrorKind::BrokenPipe`].
    Output(io::Error),
    /// Reading the volume failed.
    Read(DeviceError),
    /// Writing the volume failed.
    Write(DeviceError),
    /// What was written could not be made durable.
    Flush(DeviceError),
    /// The stream goes on where the volume is full.
    SourceTooLarge {
        /// Bytes of plaintext that the volume holds: all of them are written.
        volume: u64,
    },
    /// The volume is open for reading only.
    ReadOnly,
    /// A volume that comes as a stream ends before its plaintext does, or within a data unit.
    CutOff {
        /// Bytes of plaintext before that: all of them are written.
        done: u64,
    },
    /// The plaintext of a volume that comes as a stream does not lie there in order.
    NotInOrder,
}

/// Encrypts a stream into the beginning of `disk`, until it ends. What lies behind stays as it is. Returns its length when
/// everything is durable.
///
/// # Errors
/// [`StreamError`]. A stream that is too long has filled the whole volume.
pub fn encrypt_stream(
    source: &mut (dyn Read + Send),
    disk: &Disk,
    progress: &mut dyn Progress,
) -> Result<u64, StreamError> {
    if disk.is_read_only() {
        return Err(StreamError::ReadOnly);
    }
    let (size, mut done) = (disk.size(), 0);
    let fill = |piece: &mut [u8]| read_up_to(source, piece).map_err(StreamError::Source);
    pump(fill, |piece| {
        let room = size - done;
        // cannot miss: it is at most the piece's length.
        let fits = usize::try_from(room).map_or(piece.len(), |room| room.min(piece.len()));
        disk.write_at(done, &piece[..fits]).map_err(StreamError::Write)?;
        done += fits as u64;
        progress.update(done, size);
        if fits < piece.len() { Err(StreamError::SourceTooLarge { volume: size }) } else { Ok(()) }
    })?;
    disk.flush().map_err(StreamError::Flush)?;
    Ok(done)
}

/// Decrypts all of `disk` into a stream, in order. Returns its length when everything is written.
///
/// # Errors
/// [`StreamError`]. What was written before is right.
pub fn decrypt_stream(
    disk: &Disk,
    output: &mut dyn Write,
    progress: &mut dyn Progress,
) -> Result<u64, StreamError> {
    let (size, mut read) = (disk.size(), 0);
    let fill = |piece: &mut [u8]| {
        // cannot miss: it is at most the piece's length.
        let len = usize::try_from(size - read).map_or(piece.len(), |left| left.min(piece.len()));
        disk.read_at(read, &mut piece[..len]).map_err(StreamError::Read)?;
        read += len as u64;
        Ok(len)
    };
    write_out(fill, size, output, progress)
}

/// Decrypts a volume whose media is a stream, until that ends, into another one. Returns the length of the plaintext.
///
/// # Errors
/// [`StreamError`]. What was written before is right.
pub fn decrypt_sequence(
    disk: &Disk,
    media: &Sequence,
    output: &mut dyn Write,
    progress: &mut dyn Progress,
) -> Result<u64, StreamError> {
    let (start, unit) = disk.lies_in_order().ok_or(StreamError::NotInOrder)?;
    media.flow();
    let (size, mut read) = (disk.size(), 0);
    // A volume that reaches to the end of its media has the length of the stream.
    let is_open_ended = size + start + unit > media.size();
    let mut cut_off = false;
    let fill = |piece: &mut [u8]| {
        // cannot miss: it is at most the piece's length.
        let len = usize::try_from(size - read).map_or(piece.len(), |left| left.min(piece.len()));
        disk.read_alone(read, &mut piece[..len]).map_err(StreamError::Read)?;
        let whole = match media.end() {
            None => len,
            Some(end) => {
                // intended: a stream that ends before the data begin has none, and is cut off.
                let came = end.saturating_sub(start).saturating_sub(read).min(len as u64);
                cut_off = end < start || came % unit != 0 || !is_open_ended && came < len as u64;
                (came - came % unit) as usize
            }
        };
        read += whole as u64;
        if whole == 0 && cut_off {
            return Err(StreamError::CutOff { done: read });
        }
        Ok(whole)
    };
    write_out(fill, size, output, progress)
}

/// Writes out what `fill` fills, of which there are `size` bytes or fewer. Returns how many there were.
fn write_out(
    fill: impl FnMut(&mut [u8]) -> Result<usize, StreamError> + Send,
    size: u64,
    output: &mut dyn Write,
    progress: &mut dyn Progress,
) -> Result<u64, StreamError> {
    let mut done = 0;
    pump(fill, |piece| {
        output.write_all(piece).map_err(StreamError::Output)?;
        done += piece.len() as u64;
        progress.update(done, size);
        Ok(())
    })?;
    output.flush().map_err(StreamError::Output)?;
    Ok(done)
}

/// Has another thread fill pieces until one stays empty, and drains them here, in order.
fn pump(
    fill: impl FnMut(&mut [u8]) -> Result<usize, StreamError> + Send,
    mut drain: impl FnMut(&[u8]) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let (empty, to_fill) = sync_channel(PIECES);
    let (full, to_drain) = sync_channel(PIECES);
    for _ in 0..PIECES {
        // cannot fail: the other end is here, and there is room.
        let _ = empty.send(vec![0; PIECE]);
    }
    // The ends of the channels that are here go before the other side is waited for.
    thread::scope(move |scope| {
        scope.spawn(move || fill_all(fill, &to_fill, &full));
        for filled in to_drain {
            let (piece, len) = filled?;
            drain(&piece[..len])?;
            // The other side has ended where this fails, and says why.
            let _ = empty.send(piece);
        }
        Ok(())
    })
}

type Filled = Result<(Vec<u8>, usize), StreamError>;

fn fill_all(
    mut fill: impl FnMut(&mut [u8]) -> Result<usize, StreamError>,
    to_fill: &Receiver<Vec<u8>>,
    full: &SyncSender<Filled>,
) {
    for mut piece in to_fill {
        let filled = match fill(&mut piece) {
            Ok(0) => return,
            Ok(len) => Ok((piece, len)),
            Err(error) => Err(error),
        };
        // Whoever drains may have given up.
        if full.send(filled).is_err() {
            return;
        }
    }
}

/// Reads until the piece is full or the stream ends.
fn read_up_to(source: &mut (dyn Read + Send), piece: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match source.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => write!(f, "reading the stream: {error}"),
            Self::Output(error) => write!(f, "writing the stream: {error}"),
            Self::Read(error) => write!(f, "reading the volume: {error}"),
            Self::Write(error) => write!(f, "writing the volume: {error}"),
            Self::Flush(error) => write!(f, "the volume: {error}"),
            Self::SourceTooLarge { volume } => {
                write!(
                    f,
                    "the stream goes on behind the {volume} bytes that the volume holds, which are all written"
                )
            }
            Self::ReadOnly => f.write_str("the volume is open for reading only"),
            Self::CutOff { done } => {
                write!(
                    f,
                    "the stream ends within the volume: only the first {done} bytes of plaintext are there"
                )
            }
            Self::NotInOrder => f.write_str("the plaintext does not lie in order on this volume"),
        }
    }
}

impl core::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Source(error) | Self::Output(error) => Some(error),
            Self::Read(error) | Self::Write(error) | Self::Flush(error) => Some(error),
            _ => None,
        }
    }
}
