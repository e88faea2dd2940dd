//! PBKDF2 as a state machine, for programs that must do something else now and then: feed a watchdog, draw a bar,
//! notice that a person gave up.

use atrest_secret::wipe;
use digest::block_api::{Block, BlockSizeUser};
use digest::{Digest, FixedOutputReset, Output};

use super::chains::Iterated;
use crate::backend::MOST_BLOCKS;
use crate::fixed::FixedHash;
use crate::{KdfError, Sha256Backend};

/// How far a derivation is that is done in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    Unfinished {
        /// In the unit of the steps; the last step may be shorter.
        left: u64,
    },
    /// The key is there.
    Done,
}

/// A derivation with PBKDF2-HMAC, to be done in steps. One hash is named by type, so that a program contains no other.
///
/// ```
/// use atrest_kdf::{Pbkdf2, Progress, fixed};
///
/// let mut key = [0; 64];
/// let mut derivation = Pbkdf2::<fixed::Sha256>::new(b"passphrase", b"salt", 20_000, &mut key)?;
/// while derivation.step(1000) != Progress::Done {
///     // Feed the watchdog.
/// }
/// # Ok::<(), atrest_kdf::KdfError>(())
/// ```
///
/// The output is filled when [`Progress::Done`] is returned. A derivation that is dropped before leaves zeros.
/// Without `std` the stack is not wiped; a program that wants that calls [`atrest_secret::with_wiped_stack_of`] around it.
pub struct Pbkdf2<'a, H: FixedHash> {
    inner: H::Digest,
    outer: H::Digest,
    chain: H::Chain,
    salt: &'a [u8],
    out: &'a mut [u8],
    iterations: u32,
    /// Bytes of `out` that are final.
    filled: usize,
    /// Output blocks under work, and the iterations that they have had.
    active: usize,
    done: u32,
    u: [Output<H::Digest>; MOST_BLOCKS],
    t: [Output<H::Digest>; MOST_BLOCKS],
}

impl<'a, H: FixedHash> Pbkdf2<'a, H> {
    /// Begins to fill `out`, which may have any length that is not zero, and hashes the passphrase into the HMAC keys.
    ///
    /// # Errors
    /// [`KdfError::NoIterations`] for 0 iterations, [`KdfError::OutputLen`] if `out` is empty or longer than
    /// 2^32 - 1 digests.
    pub fn new(
        passphrase: &[u8],
        salt: &'a [u8],
        iterations: u32,
        out: &'a mut [u8],
    ) -> Result<Self, KdfError> {
        Self::with_backend(Sha256Backend::best(), passphrase, salt, iterations, out)
    }

    /// Begins to fill `out`, with this backend if the hash is SHA-256. Otherwise like [`new`](Self::new).
    ///
    /// # Errors
    /// Fails where [`new`](Self::new) does.
    pub fn with_backend(
        backend: Sha256Backend,
        passphrase: &[u8],
        salt: &'a [u8],
        iterations: u32,
        out: &'a mut [u8],
    ) -> Result<Self, KdfError> {
        if iterations == 0 {
            return Err(KdfError::NoIterations);
        }
        let blocks = out.len().div_ceil(<H::Digest as Digest>::output_size());
        if out.is_empty() || u32::try_from(blocks).is_err() {
            return Err(KdfError::OutputLen { len: out.len() });
        }
        wipe(out);
        Ok(Self::keyed(backend, passphrase, salt, iterations, out))
    }

    // What this and the steps need of a small stack is not needed at the same time: hence no inlining here.
    #[inline(never)]
    fn keyed(
        backend: Sha256Backend,
        passphrase: &[u8],
        salt: &'a [u8],
        iterations: u32,
        out: &'a mut [u8],
    ) -> Self {
        let mut key_blocks: [Block<H::Digest>; 2] = Default::default();
        let [inner_block, outer_block] = &mut key_blocks;
        if passphrase.len() <= H::Digest::block_size() {
            inner_block[..passphrase.len()].copy_from_slice(passphrase);
        } else {
            let mut hashed = H::Digest::digest(passphrase);
            inner_block[..hashed.len()].copy_from_slice(&hashed);
            wipe(&mut hashed);
        }
        for (inner, outer) in inner_block.iter_mut().zip(outer_block.iter_mut()) {
            *outer = *inner ^ 0x5c;
            *inner ^= 0x36;
        }
        let new = Self {
            inner: H::Digest::new_with_prefix(&*inner_block),
            outer: H::Digest::new_with_prefix(&*outer_block),
            chain: H::Chain::new(inner_block, outer_block, backend),
            salt,
            out,
            iterations,
            filled: 0,
            active: 0,
            done: 0,
            u: core::array::from_fn(|_| Output::<H::Digest>::default()),
            t: core::array::from_fn(|_| Output::<H::Digest>::default()),
        };
        key_blocks.iter_mut().for_each(|block| wipe(block));
        new
    }

    /// At most `iterations` more iterations, and at least one, on as many output blocks as are worked on side by side.
    #[inline(never)]
    pub fn step(&mut self, iterations: u32) -> Progress {
        let mut budget = iterations.max(1);
        while budget > 0 && self.filled < self.out.len() {
            if self.active == 0 {
                self.begin_blocks();
                budget -= 1;
            }
            let now = budget.min(self.iterations - self.done);
            self.chain.iterate(&mut self.u[..self.active], &mut self.t[..self.active], now);
            self.done += now;
            budget -= now;
            if self.done == self.iterations {
                self.end_blocks();
            }
        }
        match self.left() {
            0 => Progress::Done,
            left => Progress::Unfinished { left },
        }
    }

    /// Iterations that are left.
    fn left(&self) -> u64 {
        let width = <H::Digest as Digest>::output_size() * H::Chain::WIDTH;
        let groups = (self.out.len() - self.filled).div_ceil(width) as u64;
        groups * u64::from(self.iterations) - u64::from(self.done)
    }

    /// The first iteration of the next blocks.
    #[inline(never)]
    fn begin_blocks(&mut self) {
        let block_len = <H::Digest as Digest>::output_size();
        let first = self.filled / block_len;
        let missing = (self.out.len() - self.filled).div_ceil(block_len);
        self.active = missing.min(H::Chain::WIDTH);
        self.done = 1;
        for (i, (u, t)) in self.u.iter_mut().zip(&mut self.t).take(self.active).enumerate() {
            // Blocks count from 1, and were found to fit when this began.
            let number = (first + i) as u32 + 1;
            let mut run = self.inner.clone();
            Digest::update(&mut run, self.salt);
            Digest::update(&mut run, number.to_be_bytes());
            FixedOutputReset::finalize_into_reset(&mut run, u);
            run.clone_from(&self.outer);
            Digest::update(&mut run, &*u);
            FixedOutputReset::finalize_into_reset(&mut run, u);
            t.copy_from_slice(u);
        }
    }

    fn end_blocks(&mut self) {
        for t in &self.t[..self.active] {
            let (_, rest) = self.out.split_at_mut(self.filled);
            let len = t.len().min(rest.len());
            rest[..len].copy_from_slice(&t[..len]);
            self.filled += len;
        }
        self.active = 0;
        self.done = 0;
    }
}

impl<H: FixedHash> Drop for Pbkdf2<'_, H> {
    fn drop(&mut self) {
        self.u.iter_mut().chain(&mut self.t).for_each(|digest| wipe(digest));
        if self.filled < self.out.len() {
            wipe(self.out);
        }
    }
}
