//! Images as fuzz inputs: only what is not zero, so that a filesystem of megabytes is an input of kilobytes.
//!
//! Eight bytes of head (flags, three unused bytes, size in sectors), then records of a sector number (le32) and the
//! sector's 512 bytes. A sector that no record names is zero; sector numbers wrap at the size.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use atrest_device::{BlockDevice, DeviceError, Geometry, Operation, Unshared};

const SECTOR: usize = 512;
const RECORD: usize = 4 + SECTOR;
/// Largest image: 1 GiB.
const MAX_SECTORS: u32 = 1 << 21;

/// A device of which only the sectors that are not zero are kept.
#[derive(Default)]
pub struct Image {
    size: u64,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    sectors: HashMap<u64, [u8; SECTOR]>,
    writes: u64,
}

impl Image {
    /// An image of `size` bytes that starts with `bytes`.
    pub fn new(size: u64, bytes: &[u8]) -> Arc<Self> {
        let image = Self { size, ..Self::default() };
        let len = bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        let _ = image.write_at(0, &bytes[..len]);
        image.state.write().unwrap().writes = 0;
        Arc::new(image)
    }

    /// The flags and the image that an input stands for.
    pub fn decode(data: &[u8]) -> (u8, Arc<Self>) {
        let head: [u8; 8] = core::array::from_fn(|i| data.get(i).copied().unwrap_or(0));
        let sectors = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]) % MAX_SECTORS);
        let mut state = State::default();
        for record in data.get(8..).unwrap_or(&[]).chunks(RECORD) {
            let Some((number, bytes)) = record.split_first_chunk::<4>() else { continue };
            let mut sector = [0; SECTOR];
            sector[..bytes.len()].copy_from_slice(bytes);
            if let Some(number) = u64::from(u32::from_le_bytes(*number)).checked_rem(sectors) {
                state.sectors.insert(number, sector);
            }
        }
        (head[0], Arc::new(Self { size: sectors * SECTOR as u64, state: RwLock::new(state) }))
    }

    /// The input that stands for an image.
    pub fn encode(flags: u8, image: &[u8]) -> Vec<u8> {
        let sectors = image.len().div_ceil(SECTOR) as u32;
        let mut out = vec![flags, 0, 0, 0];
        out.extend_from_slice(&sectors.to_le_bytes());
        for (number, bytes) in (0_u32..).zip(image.chunks(SECTOR)) {
            if bytes.iter().any(|&byte| byte != 0) {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(bytes);
                out.resize(out.len() + SECTOR - bytes.len(), 0);
            }
        }
        out
    }

    /// Forgets how many writes there were.
    pub fn reset_writes(&self) {
        self.state.write().unwrap().writes = 0;
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.state.read().unwrap().writes
    }
}

impl BlockDevice for Image {
    fn size(&self) -> u64 {
        self.size
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let state = self.state.read().unwrap();
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let within = (at % SECTOR as u64) as usize;
            let len = (SECTOR - within).min(buf.len() - done);
            match state.sectors.get(&(at / SECTOR as u64)) {
                Some(sector) => buf[done..done + len].copy_from_slice(&sector[within..within + len]),
                None => buf[done..done + len].fill(0),
            }
            done += len;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        let mut state = self.state.write().unwrap();
        state.writes += 1;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % SECTOR as u64) as usize;
            let len = (SECTOR - within).min(data.len() - done);
            let part = &data[done..done + len];
            let number = at / SECTOR as u64;
            // Zeros over nothing are nothing.
            if part.iter().any(|&byte| byte != 0) || state.sectors.contains_key(&number) {
                state.sectors.entry(number).or_insert([0; SECTOR])[within..within + len]
                    .copy_from_slice(part);
            }
            done += len;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Unshared for Image {}
