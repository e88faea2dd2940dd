//! What error correction covers, as one sequence of blocks: its parity is made here, and damaged blocks are repaired.

use atrest_device::{BlockDevice, DeviceError};
use atrest_format::verity::{Fec, RS_LEN};

use super::error::{Part, VerityError};
use super::layout::{Layout, Parts};
use super::reed_solomon::Code;
use super::work::{Pace, each};

/// Bytes of each of the 255 columns that are handled at a time.
const STRIP: usize = 4096;
/// Bytes read at a time when parity is made.
const RUN: usize = 64 << 10;

/// The blocks that a code covers.
pub struct Covered<'a> {
    pub parts: &'a Parts,
    pub layout: &'a Layout,
    pub fec: &'a Fec,
}

impl Covered<'_> {
    /// Reads what lies `skip` bytes into block `first`, and on through the blocks that follow it. Behind the last there are zeros.
    fn read(&self, first: Option<u64>, skip: usize, buf: &mut [u8]) -> Result<(), (Part, DeviceError)> {
        let block = u64::from(self.fec.block());
        // intended: what does not exist counts as zeros, and so does what lies behind the last block.
        buf.fill(0);
        let Some(first) = first else { return Ok(()) };
        let end = self.fec.blocks() * block;
        let boundary = self.fec.data_blocks() * block;
        let at = first * block + skip as u64;
        // cannot be cut off: at most the length of `buf`.
        let here = (end - at).min(buf.len() as u64) as usize;
        let of_data = boundary.checked_sub(at).map_or(0, |left| left.min(here as u64) as usize);
        let (data, tree) = buf[..here].split_at_mut(of_data);
        if !data.is_empty() {
            self.parts.data.read_at(at, data).map_err(|error| (Part::Data, error))?;
        }
        if !tree.is_empty() {
            let at = self.layout.tree.first() * block + (at + of_data as u64 - boundary);
            self.parts.tree.read_at(at, tree).map_err(|error| (Part::Tree, error))?;
        }
        Ok(())
    }

    /// Makes the parity of everything, and writes it.
    pub fn write_parity(&self, parity: &dyn BlockDevice, pace: &mut Pace<'_>) -> Result<(), VerityError> {
        let (block, roots) = (self.fec.block() as usize, self.fec.roots());
        let code = Code::new(roots);
        let rounds_at_once = (RUN / block).max(1) as u64;
        let items = self.fec.rounds().div_ceil(rounds_at_once);
        let buffers = || (Vec::new(), Vec::new());
        each(items, pace, buffers, |item, (made, run): &mut (Vec<u8>, Vec<u8>)| {
            let first = item * rounds_at_once;
            let rounds = rounds_at_once.min(self.fec.rounds() - first) as usize;
            run.resize(rounds * block, 0);
            made.clear();
            made.resize(rounds * block * roots, 0);
            for index in 0..self.fec.data_len() {
                // Rounds that follow each other have blocks that do.
                let read = self.read(self.fec.covered(first, index), 0, run);
                read.map_err(|(part, error)| VerityError::Device { part, error })?;
                code.feed(made, run);
            }
            let written = parity.write_at(self.fec.parity_at(first, 0), made);
            written.map_err(|error| VerityError::Device { part: Part::Parity, error })?;
            Ok(rounds as u64 * (block * self.fec.data_len()) as u64)
        })
    }

    /// Makes a block anew from the others of its codewords and their parity. First errors are looked for everywhere. Where that does
    /// not make a block that `is_right`, the block itself and what can't be read count as erased: that finds twice as many. `false` if
    /// neither helps; `out` holds nothing of use then.
    pub fn repair(
        &self,
        parity: &dyn BlockDevice,
        block: u64,
        out: &mut [u8],
        is_right: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let Some((round, index)) = self.fec.codeword(block) else { return false };
        let code = Code::new(self.fec.roots());
        [false, true].into_iter().any(|erase| {
            let strips = out.chunks_mut(STRIP).enumerate();
            let made = strips
                .map(|(strip, out)| {
                    self.repair_strip(parity, &code, (round, index), strip * STRIP, out, erase)
                })
                .all(|made| made.is_some());
            made && is_right(out)
        })
    }

    fn repair_strip(
        &self,
        parity: &dyn BlockDevice,
        code: &Code,
        (round, index): (u64, usize),
        skip: usize,
        out: &mut [u8],
        erase: bool,
    ) -> Option<()> {
        let (len, roots, data_len) = (out.len(), self.fec.roots(), self.fec.data_len());
        let mut columns = vec![0; len * data_len];
        let mut erased = Vec::new();
        for (at, column) in columns.chunks_exact_mut(len).enumerate() {
            let covered = self.fec.covered(round, at);
            let readable = self.read(covered, skip, column).is_ok();
            if !readable {
                column.fill(0);
            }
            if !readable || erase && at == index {
                erased.push(u8::try_from(at).ok()?);
            }
        }
        let mut rest = vec![0; len * roots];
        parity.read_at(self.fec.parity_at(round, u32::try_from(skip).ok()?), &mut rest).ok()?;
        let mut codeword = [0; RS_LEN];
        for (at, to) in out.iter_mut().enumerate() {
            let (data, tail) = codeword.split_at_mut(data_len);
            data.iter_mut().enumerate().for_each(|(column, byte)| *byte = columns[column * len + at]);
            tail.copy_from_slice(&rest[at * roots..(at + 1) * roots]);
            code.correct(&mut codeword, &erased)?;
            *to = codeword[index];
        }
        Some(())
    }
}
