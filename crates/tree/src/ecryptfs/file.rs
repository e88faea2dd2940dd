//! An encrypted file over its lower file.
//!
//! An extent is written whole, by one write with its neighbours, so that a kill leaves each of them old or new. The size in
//! the header follows the contents when a file grows and precedes them when it is cut: at no moment does it cover an extent
//! that was not written. The module reads no holes: where a file grows by nothing, zeros are encrypted.

use std::fs::File;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use atrest_secret::Random;

use super::contents::Contents;
use super::header::{HEADER_READ, MetadataPlace, SIZE_LEN};
use super::packet::{FileKeyPacket, PacketSet};
use super::{
    EXTENT, EcryptfsError, FileCipher, HEADER_LEN, Header, HeaderDamage, Keys, LowerFile, Signature,
};

const EXTENT_LEN: u64 = EXTENT as u64;
/// Masks an offset to where its extent begins.
const BEFORE_EXTENT: u64 = !(EXTENT_LEN - 1);
/// Masks a length to whole extents.
const WHOLE_EXTENTS: usize = !(EXTENT - 1);
/// Most that is encrypted before it is written.
const PIECE: usize = 1 << 20;
const LAST_OF_PIECE: u64 = PIECE as u64 - 1;

/// How a new file is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The cipher (mount option `ecryptfs_cipher`).
    pub cipher: FileCipher,
    /// Bytes in the file's key (`ecryptfs_key_bytes`).
    pub key_len: usize,
    /// The keys that wrap it (`ecryptfs_sig`).
    pub signatures: Vec<Signature>,
    /// Where its header goes (`ecryptfs_xattr_metadata`).
    pub place: MetadataPlace,
    /// Whether its tree has encrypted names (`ecryptfs_fnek_sig`): a flag that nothing depends on.
    pub encrypted_names: bool,
}

/// A lower file opened with its key: contents in plain, to be read and written at any offset by many threads.
///
/// There must be one for a lower file and no other that writes: the size is known here only.
pub struct EncryptedFile<L = File> {
    lower: L,
    place: MetadataPlace,
    contents_at: u64,
    contents: Contents,
    /// Held for reading while extents are read, for writing while they are changed.
    state: RwLock<State>,
}

struct State {
    size: u64,
    /// The attribute as it is, where the header is one.
    xattr: Vec<u8>,
}

impl<L: LowerFile> EncryptedFile<L> {
    /// Makes an encrypted file without contents of an empty lower file.
    ///
    /// # Errors
    /// [`EcryptfsError::NoKey`] if a key that is to wrap the file's own is not at hand, or none is named.
    /// [`EcryptfsError::Header`] if the header has no room for so many wrapped keys, [`EcryptfsError::KeyLength`]
    /// if the cipher takes no key of this length. [`EcryptfsError::Random`] without random bytes,
    /// [`EcryptfsError::Io`] if the header can't be written.
    pub fn create(
        lower: L,
        keys: &Keys,
        options: &FileOptions,
        random: &mut dyn Random,
    ) -> Result<Self, EcryptfsError> {
        let wanted = || EcryptfsError::NoKey { wanted: options.signatures.clone() };
        let mut tokens = Vec::new();
        for signature in &options.signatures {
            tokens.push(&**keys.find(*signature).ok_or_else(wanted)?);
        }
        if tokens.is_empty() {
            return Err(wanted());
        }
        let (contents, packets) = Contents::generate(options.cipher, options.key_len, &tokens, random)?;
        let mut header = Header::new_bytes(&packets, options.place, options.encrypted_names, random)?;
        if header.len() > HEADER_READ {
            return Err(HeaderDamage::Short { len: HEADER_READ }.into());
        }
        let contents_at = match options.place {
            MetadataPlace::File => {
                header.resize(HEADER_LEN as usize, 0);
                lower.write_at(0, &header)?;
                HEADER_LEN
            }
            MetadataPlace::Xattr => {
                lower.set_xattr(&header)?;
                0
            }
        };
        let state = RwLock::new(State { size: 0, xattr: header });
        Ok(Self { lower, place: options.place, contents_at, contents, state })
    }

    /// Opens an encrypted file with whichever key is there for it.
    ///
    /// # Errors
    /// [`EcryptfsError::NoKey`] if no key at hand opens it, [`EcryptfsError::PublicKey`] if no passphrase can.
    /// [`EcryptfsError::KeyLength`] if the cipher takes no key of the length that is wrapped. Otherwise it fails
    /// where [`header`](Self::header) does.
    pub fn open(lower: L, keys: &Keys) -> Result<Self, EcryptfsError> {
        let (header, place, xattr) = read_header(&lower)?;
        let contents = unwrap(&header.packets, keys)?;
        if header.size > max_size(header.contents_at) {
            return Err(HeaderDamage::Size(header.size).into());
        }
        let state = RwLock::new(State { size: header.size, xattr });
        Ok(Self { lower, place, contents_at: header.contents_at, contents, state })
    }

    /// The header of a lower file and where it is, without a key.
    ///
    /// # Errors
    /// [`EcryptfsError::NoHeader`] if there is none in the file nor beside it, [`EcryptfsError::Io`] if reading
    /// fails. A header that can't be used fails where [`Header::parse`] does.
    pub fn header(lower: &L) -> Result<(Header, MetadataPlace), EcryptfsError> {
        read_header(lower).map(|(header, place, _)| (header, place))
    }

    /// The size of the contents of a lower file that is not opened, as the kernel finds it: of the header no more is looked at.
    ///
    /// # Errors
    /// [`EcryptfsError::NoHeader`] if nothing says a size, [`EcryptfsError::Io`] if it can't be read.
    pub fn size(lower: &L) -> Result<u64, EcryptfsError> {
        let mut start = [0; SIZE_LEN];
        let read = lower.read_at(0, &mut start)?;
        if let Some(size) = Header::size_of(&start).filter(|_| read == SIZE_LEN) {
            return Ok(size);
        }
        let xattr = lower.xattr()?;
        let size = xattr.and_then(|xattr| Header::size_of(xattr.first_chunk()?));
        size.ok_or(EcryptfsError::NoHeader { len: lower.len()? })
    }

    /// The lower file.
    pub fn lower(&self) -> &L {
        &self.lower
    }

    /// Where contents begin in the lower file.
    pub fn contents_at(&self) -> u64 {
        self.contents_at
    }

    /// Bytes of contents.
    pub fn len(&self) -> u64 {
        self.read_state().size
    }

    /// Whether there are no contents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads into `buf` and returns how many bytes there were: fewer at the end of the file, or before an extent that the
    /// lower file lacks.
    ///
    /// # Errors
    /// [`EcryptfsError::Truncated`] if `offset` lies in an extent that the lower file lacks, [`EcryptfsError::Io`]
    /// if reading fails.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, EcryptfsError> {
        let state = self.read_state();
        // intended: nothing is there behind the end.
        let there = state.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        // cannot be out of range: at most the length of `buf`.
        let buf = buf.get_mut(..there).unwrap_or(&mut []);
        self.read_part(&state, offset, buf)
    }

    /// Writes all of `data`, behind the end, too: what is between is zeros then.
    ///
    /// # Errors
    /// [`EcryptfsError::TooLarge`] beyond the largest size of a file. [`EcryptfsError::Truncated`] if the lower
    /// file lacks an extent that is to be changed in part, [`EcryptfsError::Io`] if it can't be read or written. A
    /// part of `data` may have been written then.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), EcryptfsError> {
        let mut state = self.write_state();
        self.write_locked(&mut state, offset, data)
    }

    /// Writes all of `data` at the end, wherever that is by now, and returns where that was.
    ///
    /// # Errors
    /// Fails where [`write_at`](Self::write_at) does.
    pub fn append(&self, data: &[u8]) -> Result<u64, EcryptfsError> {
        let mut state = self.write_state();
        let offset = state.size;
        self.write_locked(&mut state, offset, data)?;
        Ok(offset)
    }

    /// Cuts the file, or makes it longer by zeros.
    ///
    /// # Errors
    /// [`EcryptfsError::TooLarge`] beyond the largest size of a file. Otherwise it fails where
    /// [`write_at`](Self::write_at) does. A file that was to be cut may have its new size by then.
    pub fn set_len(&self, size: u64) -> Result<(), EcryptfsError> {
        let mut state = self.write_state();
        if size > max_size(self.contents_at) {
            return Err(EcryptfsError::TooLarge { size });
        }
        if size > state.size {
            self.zeros_to(&state, size)?;
            return self.set_size(&mut state, size);
        }
        if size == state.size {
            return Ok(());
        }
        // Whatever happens after this, what was cut off is out of sight.
        self.set_size(&mut state, size)?;
        let inside = (size % EXTENT_LEN) as usize;
        if inside > 0 {
            // Nothing of it is left for someone who reads whole pages.
            // cannot be less: a remainder.
            self.put(size, size, Filling::Zeros(EXTENT.saturating_sub(inside)))?;
        }
        // cannot overflow: max_size has whole extents.
        let extents = size.div_ceil(EXTENT_LEN).saturating_mul(EXTENT_LEN);
        // cannot overflow: max_size leaves room for the header.
        Ok(self.lower.set_len(self.contents_at.saturating_add(extents))?)
    }

    /// Sets room aside in the lower file for the extents of these bytes, without making it longer.
    ///
    /// # Errors
    /// [`EcryptfsError::TooLarge`] beyond the largest size of a file, [`EcryptfsError::Io`] with `ENOSPC` if there
    /// is no room.
    pub fn reserve(&self, offset: u64, len: u64) -> Result<(), EcryptfsError> {
        let first = offset / EXTENT_LEN;
        // intended: what overflows is too large.
        let end = offset.saturating_add(len).div_ceil(EXTENT_LEN);
        // intended: what overflows is too large.
        if end.saturating_mul(EXTENT_LEN) > max_size(self.contents_at) {
            // intended: for people.
            return Err(EcryptfsError::TooLarge { size: offset.saturating_add(len) });
        }
        let from = self.place_of(first);
        // cannot be less: the end is not before the first.
        Ok(self.lower.reserve(from, self.place_of(end).saturating_sub(from))?)
    }

    /// Makes all that was written before durable in the lower file.
    ///
    /// # Errors
    /// [`EcryptfsError::Io`]: what was written may be lost.
    pub fn sync(&self) -> Result<(), EcryptfsError> {
        Ok(self.lower.sync()?)
    }

    /// Gives the lower file back; the key is wiped.
    pub fn into_lower(self) -> L {
        self.lower
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is inside the file; short before an extent that is not there.
    fn read_part(&self, state: &State, offset: u64, buf: &mut [u8]) -> Result<usize, EcryptfsError> {
        // Cores read and decrypt a part each.
        if self.contents.worth_two_cores(buf.len()) {
            // cannot overflow: inside the file.
            let middle = offset.saturating_add(buf.len() as u64 / 2) & BEFORE_EXTENT;
            // cannot be less: a run that is worth two cores has many extents.
            let left_len = middle.saturating_sub(offset) as usize;
            let (left, right) = buf.split_at_mut(left_len);
            let (left, right) = rayon_core::join(
                || self.read_part(state, offset, left),
                || self.read_part(state, middle, right),
            );
            let left = left?;
            if left < left_len {
                return Ok(left);
            }
            let right = match right {
                Ok(right) => right,
                // As at the end of the loop below: what is there before the gap was read.
                Err(EcryptfsError::Truncated { .. }) if left_len > 0 => 0,
                Err(error) => return Err(error),
            };
            // cannot overflow: at most the length of `buf`.
            return Ok(left_len.saturating_add(right));
        }
        let mut done = 0_usize;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            // cannot overflow: inside the file.
            let at = offset.saturating_add(done as u64);
            let inside = (at % EXTENT_LEN) as usize;
            let read = if inside == 0 && rest.len() >= EXTENT {
                let whole = rest.len() & WHOLE_EXTENTS;
                // cannot be out of range: no more than the rest.
                self.read_extents(state, at / EXTENT_LEN, rest.get_mut(..whole).unwrap_or(&mut []))
            } else {
                let mut extent = WipedBytes::new(EXTENT);
                self.read_extents(state, at / EXTENT_LEN, &mut extent.bytes).map(|read| {
                    // cannot be out of range: both are at most an extent.
                    let from = extent.bytes.get(inside..read.max(inside)).unwrap_or(&[]);
                    rest.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                    from.len().min(rest.len())
                })
            };
            match read {
                // cannot overflow: at most the length of `buf`.
                Ok(read) => done = done.saturating_add(read),
                Err(EcryptfsError::Truncated { .. }) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Reads whole extents; as many as there are, and at least one.
    fn read_extents(&self, state: &State, first: u64, run: &mut [u8]) -> Result<usize, EcryptfsError> {
        let from = self.place_of(first);
        let read = self.lower.read_at(from, run)? & WHOLE_EXTENTS;
        if read == 0 {
            let lower = self.lower.len()?;
            return Err(EcryptfsError::Truncated { extent: first, size: state.size, lower });
        }
        // cannot be out of range: no more was asked for.
        self.contents.decrypt(first, run.get_mut(..read).unwrap_or(&mut []));
        Ok(read)
    }

    fn write_locked(&self, state: &mut State, offset: u64, data: &[u8]) -> Result<(), EcryptfsError> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= max_size(self.contents_at));
        // intended: for people.
        let end = end.ok_or(EcryptfsError::TooLarge { size: offset.saturating_add(data.len() as u64) })?;
        let mut covered = state.size;
        if offset > state.size {
            self.zeros_to(state, offset)?;
            covered = offset;
        }
        self.put(covered, offset, Filling::Data(data))?;
        if end > state.size {
            self.set_size(state, end)?;
        }
        Ok(())
    }

    /// Zeros from the end of the contents to there. The size stays as it is.
    fn zeros_to(&self, state: &State, end: u64) -> Result<(), EcryptfsError> {
        let written = self.write_zeros(state, end);
        if written.is_err() {
            // What there is of them belongs to nobody: the room may be wanted elsewhere.
            let extents = state.size.div_ceil(EXTENT_LEN);
            let _ = self.lower.set_len(self.place_of(extents));
        }
        written
    }

    fn write_zeros(&self, state: &State, end: u64) -> Result<(), EcryptfsError> {
        let mut at = state.size;
        // intended: nothing to do when it is long enough.
        if end.saturating_sub(at) > PIECE as u64 {
            // Rather than to find only in the end that so much can't be written.
            // cannot be less: compared above.
            self.reserve(at, end.saturating_sub(at))?;
        }
        while at < end {
            // To the end of a piece, so that all but the first are whole extents.
            // cannot overflow: at most 2^63.
            let stop = (at | LAST_OF_PIECE).saturating_add(1).min(end);
            // cannot be less: `stop` lies behind `at`.
            self.put(at, at, Filling::Zeros(stop.saturating_sub(at) as usize))?;
            at = stop;
        }
        Ok(())
    }

    /// Writes extents of which the bytes before `size` are contents; what is behind them is zeros, whatever it was.
    fn put(&self, size: u64, offset: u64, filling: Filling<'_>) -> Result<(), EcryptfsError> {
        let mut at = offset;
        // cannot overflow: write_locked and set_len have compared the end with max_size.
        let end = offset.saturating_add(filling.len() as u64);
        let mut buffer = WipedBytes::new(0);
        while at < end {
            let first = at / EXTENT_LEN;
            // cannot overflow: not behind `at`.
            let start = first.saturating_mul(EXTENT_LEN);
            // intended: `end` is less.
            let stop = start.saturating_add(PIECE as u64).min(end);
            // cannot be less: `stop` lies behind `start`.
            let extents = stop.saturating_sub(start).div_ceil(EXTENT_LEN);
            // cannot overflow: max_size has whole extents.
            let run_end = start.saturating_add(extents.saturating_mul(EXTENT_LEN));
            // cannot overflow: at most a piece.
            let run = buffer.of(extents.saturating_mul(EXTENT_LEN) as usize);
            if at > start {
                // cannot be out of range: a run has an extent.
                self.read_old(size, first, run.get_mut(..EXTENT).unwrap_or(&mut []))?;
            }
            // The last one, if it was not the first, too.
            // cannot overflow: an extent of the file.
            let number = first.saturating_add(extents).saturating_sub(1);
            if stop < run_end.min(size) && (number != first || at == start) {
                // cannot be less: a run has an extent.
                let last = run.len().saturating_sub(EXTENT);
                // cannot be out of range: less than the length.
                self.read_old(size, number, run.get_mut(last..).unwrap_or(&mut []))?;
            }
            // cannot be less: the piece begins before both.
            let inside = at.saturating_sub(start) as usize..stop.saturating_sub(start) as usize;
            // cannot be less: it began there.
            let done = at.saturating_sub(offset) as usize;
            // cannot be out of range: the run reaches to the end of the piece.
            filling.fill(done, run.get_mut(inside).unwrap_or(&mut []));
            self.contents.encrypt(first, run);
            self.lower.write_at(self.place_of(first), run)?;
            buffer.are_ciphertext();
            at = stop;
        }
        Ok(())
    }

    /// An extent as it is, zeros behind `size`.
    fn read_old(&self, size: u64, extent: u64, run: &mut [u8]) -> Result<(), EcryptfsError> {
        // cannot overflow: an extent of the file.
        let start = extent.saturating_mul(EXTENT_LEN);
        // intended: nothing of it is valid behind the end.
        let valid = size.saturating_sub(start).min(EXTENT_LEN) as usize;
        if valid > 0 {
            let from = self.place_of(extent);
            if self.lower.read_at(from, run)? < EXTENT {
                return Err(EcryptfsError::Truncated { extent, size, lower: self.lower.len()? });
            }
            self.contents.decrypt(extent, run);
        }
        run.iter_mut().skip(valid).for_each(|byte| *byte = 0);
        Ok(())
    }

    fn set_size(&self, state: &mut State, size: u64) -> Result<(), EcryptfsError> {
        let field = size.to_be_bytes();
        match self.place {
            MetadataPlace::File => self.lower.write_at(0, &field)?,
            MetadataPlace::Xattr => {
                state.xattr.iter_mut().zip(field).for_each(|(to, from)| *to = from);
                self.lower.set_xattr(&state.xattr)?;
            }
        }
        state.size = size;
        Ok(())
    }

    fn place_of(&self, extent: u64) -> u64 {
        // cannot overflow: max_size leaves room for the header.
        self.contents_at.saturating_add(extent.saturating_mul(EXTENT_LEN))
    }
}

impl<L> core::fmt::Debug for EncryptedFile<L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EncryptedFile").field("place", &self.place).finish_non_exhaustive()
    }
}

/// What is written.
#[derive(Clone, Copy)]
enum Filling<'a> {
    Zeros(usize),
    Data(&'a [u8]),
}

impl Filling<'_> {
    fn len(self) -> usize {
        match self {
            Self::Zeros(len) => len,
            Self::Data(data) => data.len(),
        }
    }

    /// The part from byte `done` on.
    fn fill(self, done: usize, out: &mut [u8]) {
        match self {
            Self::Zeros(_) => out.fill(0),
            Self::Data(data) => {
                // cannot overflow: at most the length of the data.
                let end = done.saturating_add(out.len());
                // cannot be out of range: the pieces add up to the data.
                out.copy_from_slice(data.get(done..end).unwrap_or(&[]));
            }
        }
    }
}

/// Contents on their way, wiped. Files are larger than what can be locked.
struct WipedBytes {
    bytes: Vec<u8>,
    /// Whether there may be contents in them.
    plain: bool,
}

impl WipedBytes {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], plain: true }
    }

    /// So many zeros.
    fn of(&mut self, len: usize) -> &mut [u8] {
        self.plain = true;
        self.bytes.clear();
        self.bytes.resize(len, 0);
        &mut self.bytes
    }

    /// All of them have been encrypted. Wiping a long run takes longer than that did.
    fn are_ciphertext(&mut self) {
        self.plain = false;
    }
}

impl Drop for WipedBytes {
    fn drop(&mut self) {
        if self.plain {
            atrest_secret::wipe(&mut self.bytes);
        }
        #[cfg(test)]
        tests::LEFT.set(std::mem::take(&mut self.bytes));
    }
}

/// In the file; if that has none, in the attribute.
fn read_header<L: LowerFile>(lower: &L) -> Result<(Header, MetadataPlace, Vec<u8>), EcryptfsError> {
    let mut head = vec![0; HEADER_READ];
    let read = lower.read_at(0, &mut head)?;
    head.truncate(read);
    if Header::is_header(&head) {
        return Ok((Header::parse(&head, MetadataPlace::File)?, MetadataPlace::File, Vec::new()));
    }
    match lower.xattr()? {
        Some(xattr) if Header::is_header(&xattr) => {
            Ok((Header::parse(&xattr, MetadataPlace::Xattr)?, MetadataPlace::Xattr, xattr))
        }
        _ => Err(EcryptfsError::NoHeader { len: lower.len()? }),
    }
}

/// With the first packet that there is a key for.
fn unwrap(packets: &PacketSet, keys: &Keys) -> Result<Contents, EcryptfsError> {
    for packet in &packets.0 {
        if let FileKeyPacket::Passphrase(wrapped) = packet
            && let Some(token) = keys.find(wrapped.signature)
        {
            return Contents::unwrap(wrapped, token);
        }
    }
    match packets.0.as_slice() {
        [FileKeyPacket::PublicKey { signature }] => Err(EcryptfsError::PublicKey { signature: *signature }),
        _ => Err(EcryptfsError::NoKey { wanted: packets.signatures().collect() }),
    }
}

/// Lower files have offsets of 63 bits.
fn max_size(contents_at: u64) -> u64 {
    // intended: a header that fills all there is leaves no room.
    (i64::MAX as u64).saturating_sub(contents_at) & BEFORE_EXTENT
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// What the last buffer held as it was given back.
        pub(super) static LEFT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }

    #[test]
    fn contents_that_were_not_encrypted_are_wiped() {
        let mut buffer = WipedBytes::new(100);
        buffer.bytes.fill(7);
        drop(buffer);
        assert_eq!(LEFT.take(), [0; 100], "as it was read");
        let mut buffer = WipedBytes::new(0);
        assert_eq!(buffer.of(64), [0; 64]);
        buffer.of(64).fill(7);
        buffer.are_ciphertext();
        assert_eq!(buffer.of(80), [0; 80]);
        buffer.bytes.fill(8);
        drop(buffer);
        assert_eq!(LEFT.take(), [0; 80], "a second filling");
        let mut buffer = WipedBytes::new(0);
        buffer.of(64).fill(9);
        buffer.are_ciphertext();
        drop(buffer);
        assert_eq!(LEFT.take(), [9; 64], "what is on the disk by now is no secret");
    }

    #[test]
    fn no_file_ends_behind_the_largest_offset() {
        for (contents_at, largest) in
            [(0, (1 << 63) - 4096), (HEADER_LEN, (1 << 63) - 3 * 4096), ((1 << 63) - 4096, 0), (u64::MAX, 0)]
        {
            assert_eq!(max_size(contents_at), largest, "{contents_at}");
        }
    }
}
