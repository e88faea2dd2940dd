//! scrypt (RFC 7914), in a work area that is wiped.

use alloc::vec::Vec;

use zeroize::Zeroize;

use crate::{CostParameter, Hash, KdfError, Progress, pbkdf2};

/// How much work one derivation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScryptCost {
    /// log2 of N.
    pub log_n: u8,
    /// Block size r.
    pub r: u32,
    /// Parallelization p.
    pub p: u32,
}

impl ScryptCost {
    /// Most memory that is accepted, in bytes: 4 GiB.
    pub const MAX_MEMORY: u64 = 4 << 30;
    /// Largest p that is accepted.
    pub const MAX_P: u32 = 1 << 10;

    /// Bytes of the work area: N and p blocks of 128 r bytes, and one more.
    pub fn memory_bytes(&self) -> u64 {
        let block = 128 * u64::from(self.r);
        // intended: what overflows is more memory than is accepted.
        let n = 1u64.checked_shl(self.log_n.into()).unwrap_or(u64::MAX);
        // intended: what overflows is more memory than is accepted.
        block.saturating_mul(n.saturating_add(u64::from(self.p)).saturating_add(1))
    }

    /// Whether the parameters are defined and inside the limits above. [`scrypt()`] checks it first.
    ///
    /// # Errors
    /// [`KdfError::CostOutOfRange`], which names the first parameter that is outside. A work area that is too
    /// large is [`CostParameter::MemoryBytes`].
    pub fn check(&self) -> Result<(), KdfError> {
        let range = |parameter, value, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(KdfError::CostOutOfRange { parameter, value, min, max })
            }
        };
        range(CostParameter::Parallelization, self.p.into(), 1, Self::MAX_P.into())?;
        range(CostParameter::BlockSize, self.r.into(), 1, Self::MAX_MEMORY / 256)?;
        // At least N = 2, at most what leaves the whole area inside the limit.
        range(CostParameter::LogN, self.log_n.into(), 1, 31)?;
        range(CostParameter::MemoryBytes, self.memory_bytes(), 1, Self::MAX_MEMORY + (1 << 24))
    }
}

/// Fills `out` (any length but zero) from a passphrase and a salt.
///
/// Costs are checked before anything is allocated; with `std` also against [`available_memory`](crate::available_memory).
/// The work area is wiped. Which parts of it are read depends on the passphrase: that is how scrypt is defined, and why
/// Argon2 is preferred.
///
/// # Errors
/// [`KdfError::CostOutOfRange`] or [`KdfError::OutputLen`] for inputs that no system accepts.
/// [`KdfError::NotEnoughMemory`] or [`KdfError::AllocationFailed`] if this system can't give the work area
/// now.
///
/// With `std`, [`KdfError::TooMuchWork`] as soon as its speed so far says that the caller's
/// [`WorkLimit`](crate::WorkLimit) does not suffice, and [`KdfError::Cancelled`] once its flag is set. `out`
/// is unchanged then.
pub fn scrypt(cost: &ScryptCost, passphrase: &[u8], salt: &[u8], out: &mut [u8]) -> Result<(), KdfError> {
    cost.check()?;
    if out.is_empty() {
        return Err(KdfError::OutputLen { len: 0 });
    }
    #[cfg(feature = "std")]
    crate::memory::check_memory(cost.memory_bytes())?;
    let mut area = WorkArea::new(cost)?;
    atrest_secret::with_wiped_stack(|| {
        pbkdf2(Hash::Sha256, passphrase, salt, 1, &mut area.bytes)?;
        let mut mixing = Mixing::new(&mut area);
        crate::to_the_end(|blocks| mixing.advance(blocks))?;
        pbkdf2(Hash::Sha256, passphrase, &area.bytes, 1, out)
    })
}

/// 64 bytes as Salsa20's sixteen words, in the order of the matrix's diagonals: then each quarter of a round is one
/// operation on four words that lie side by side.
type Block = [[u32; 4]; 4];

/// Word of Salsa20's matrix that lies at each place of a [`Block`].
const DIAGONALS: [[usize; 4]; 4] = [[0, 5, 10, 15], [4, 9, 14, 3], [8, 13, 2, 7], [12, 1, 6, 11]];

/// Everything that depends on the passphrase, wiped when it is given back.
struct WorkArea {
    /// p parts of 128 r bytes.
    bytes: Vec<u8>,
    /// One part.
    x: Vec<Block>,
    /// One part XORed with one of `v`, which the next step mixes.
    y: Vec<Block>,
    /// N parts.
    v: Vec<Block>,
}

impl WorkArea {
    fn new(cost: &ScryptCost) -> Result<Self, KdfError> {
        let failed = KdfError::AllocationFailed { needs: cost.memory_bytes() };
        let blocks = usize::try_from(cost.r).ok().and_then(|r| r.checked_mul(2)).ok_or(failed)?;
        let n = 1usize.checked_shl(cost.log_n.into()).ok_or(failed)?;
        let p = usize::try_from(cost.p).map_err(|_| failed)?;
        let bytes =
            size_of::<Block>().checked_mul(blocks).and_then(|len| len.checked_mul(p)).ok_or(failed)?;
        Ok(Self {
            bytes: zeros(bytes).ok_or(failed)?,
            x: zeros(blocks).ok_or(failed)?,
            y: zeros(blocks).ok_or(failed)?,
            v: blocks.checked_mul(n).and_then(zeros).ok_or(failed)?,
        })
    }
}

fn zeros<T: Copy + Default>(len: usize) -> Option<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).ok()?;
    zeros.resize(len, T::default());
    Some(zeros)
}

impl Drop for WorkArea {
    fn drop(&mut self) {
        self.bytes.as_mut_slice().zeroize();
        for blocks in [&mut self.x, &mut self.y, &mut self.v] {
            blocks.as_flattened_mut().as_flattened_mut().zeroize();
        }
    }
}

/// scryptROMix (RFC 7914, section 5) of one part after the other, as far as it has come.
///
/// It can stop after each block of 64 bytes: a part can be so large that mixing it once takes seconds.
struct Mixing<'a> {
    area: &'a mut WorkArea,
    /// The part that is being mixed, and how many there are.
    part: usize,
    parts: usize,
    /// How often it was mixed: the first N times fill `v`, as many times again `v` is read.
    turn: usize,
    /// Blocks that this turn has mixed, and what it carries from one to the next.
    block: usize,
    carried: Block,
}

impl<'a> Mixing<'a> {
    fn new(area: &'a mut WorkArea) -> Self {
        let parts = area.bytes.len() / size_of_val(&area.x[..]);
        Self { area, part: 0, parts, turn: 0, block: 0, carried: Block::default() }
    }

    /// Mixes so many blocks more.
    fn advance(&mut self, blocks: u32) -> Progress {
        // intended: on a 16-bit machine, a smaller step.
        let mut blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        let len = self.area.x.len();
        let turns = self.area.v.len() / len * 2;
        while blocks > 0 {
            if self.block == 0 {
                self.begin_turn();
            }
            let count = blocks.min(len - self.block);
            self.mix(count);
            blocks -= count;
            self.block += count;
            if self.block < len {
                break;
            }
            (self.block, self.turn) = (0, self.turn + 1);
            if self.turn == turns {
                let WorkArea { bytes, x, .. } = &mut *self.area;
                let size = size_of_val(&x[..]);
                store(x, &mut bytes[self.part * size..][..size]);
                (self.turn, self.part) = (0, self.part + 1);
            }
            if self.part == self.parts {
                return Progress::Done;
            }
        }
        // cannot overflow: r N and r p are 2^25 at most, and p is 2^10 at most.
        let turns_left = (self.parts - self.part) as u64 * turns as u64 - self.turn as u64;
        Progress::Unfinished { left: turns_left * len as u64 - self.block as u64 }
    }

    /// Chooses what a turn mixes: the part, which `v` keeps; in the second half, the part XORed with one that `v` has kept.
    fn begin_turn(&mut self) {
        let WorkArea { bytes, x, y, v } = &mut *self.area;
        let steps = v.len() / x.len();
        if self.turn == 0 {
            load(&bytes[self.part * size_of_val(&x[..])..], x);
        }
        if self.turn < steps {
            v[self.turn * x.len()..][..x.len()].copy_from_slice(x);
        } else {
            // N is a power of two, so the low bits of the last block's first word choose.
            let chosen = x.last().map_or(0, |last| last[0][0] as usize) & (steps - 1);
            for ((y, x), v) in y.iter_mut().zip(&*x).zip(&v[chosen * x.len()..]) {
                *y = zip(x, v, |x, v| x ^ v);
            }
        }
        // cannot be empty: r is 1 at least.
        let from = if self.turn < steps { &*x } else { &*y };
        self.carried = from.last().copied().unwrap_or_default();
    }

    /// scryptBlockMix (section 4), the next `count` blocks of it: blocks with even numbers go to the first half of `x`, the others to the
    /// second.
    fn mix(&mut self, count: usize) {
        let WorkArea { x, y, v, .. } = &mut *self.area;
        let len = x.len();
        let from = if self.turn < v.len() / len { &v[self.turn * len..][..len] } else { &y[..] };
        let half = len / 2;
        let mut state = self.carried;
        for (index, block) in from.iter().enumerate().skip(self.block).take(count) {
            state = salsa20_8(&zip(&state, block, |state, block| state ^ block));
            x[index / 2 + index % 2 * half] = state;
        }
        self.carried = state;
    }
}

/// Eight rounds of Salsa20, added to what they began with (section 3).
fn salsa20_8(input: &Block) -> Block {
    let [mut a, mut b, mut c, mut d] = *input;
    for _ in 0..8 {
        b = turn(b, a, d, 7);
        c = turn(c, b, a, 9);
        d = turn(d, c, b, 13);
        a = turn(a, d, c, 18);
        // A round on columns after one on rows and the other way round: the diagonals stay where they are.
        (b, c, d) = (moved::<1>(d), moved::<2>(c), moved::<3>(b));
    }
    zip(&[a, b, c, d], input, u32::wrapping_add)
}

fn turn(changed: [u32; 4], left: [u32; 4], right: [u32; 4], bits: u32) -> [u32; 4] {
    core::array::from_fn(|i| changed[i] ^ left[i].wrapping_add(right[i]).rotate_left(bits))
}

fn moved<const BY: usize>(row: [u32; 4]) -> [u32; 4] {
    core::array::from_fn(|i| row[(i + BY) % 4])
}

fn zip(left: &Block, right: &Block, each: impl Fn(u32, u32) -> u32) -> Block {
    core::array::from_fn(|row| core::array::from_fn(|i| each(left[row][i], right[row][i])))
}

fn load(bytes: &[u8], blocks: &mut [Block]) {
    for (bytes, block) in bytes.as_chunks::<64>().0.iter().zip(blocks) {
        let words = bytes.as_chunks::<4>().0;
        *block = DIAGONALS.map(|diagonal| diagonal.map(|word| u32::from_le_bytes(words[word])));
    }
}

fn store(blocks: &[Block], bytes: &mut [u8]) {
    for (bytes, block) in bytes.as_chunks_mut::<64>().0.iter_mut().zip(blocks) {
        let words = bytes.as_chunks_mut::<4>().0;
        for (diagonal, row) in DIAGONALS.iter().zip(block) {
            for (word, value) in diagonal.iter().zip(row) {
                words[*word] = value.to_le_bytes();
            }
        }
    }
}
