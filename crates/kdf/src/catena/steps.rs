//! Catena as a state machine: level after level, one node at a time.

use atrest_secret::{wipe, with_wiped_stack};
use digest::Output;

use super::graph::{Level, XorShift, hashed, node_len};
use super::{CatenaCost, CatenaDomain, CatenaInput, level_nodes};
use crate::fixed::FixedHash;
use crate::hash::with_hash;
use crate::{Hash, KdfError, Progress, to_the_end};

/// A derivation with Catena, to be done in steps. One hash is named by type, so that a program contains no other.
///
/// ```
/// use atrest_kdf::{Catena, CatenaCost, CatenaGraph, CatenaInput, Progress, fixed};
///
/// // 128 KiB, as for a chip.
/// let cost = CatenaCost::new(CatenaGraph::BitReversal, 12);
/// let input = CatenaInput { passphrase: b"passphrase", salt: b"a salt of 16 by.", ..Default::default() };
/// let (mut memory, mut key) = (vec![0; 128 << 10], [0; 32]);
/// let mut derivation = Catena::<fixed::Sha256>::new(&cost, &input, &mut memory, &mut key)?;
/// while derivation.step(100) != Progress::Done {
///     // Feed the watchdog.
/// }
/// # Ok::<(), atrest_kdf::KdfError>(())
/// ```
///
/// The memory is wiped when this is dropped. The output is filled when [`Progress::Done`] is returned; a derivation
/// that is dropped before leaves zeros. Without `std` the stack is not wiped; a program that wants that calls
/// [`atrest_secret::with_wiped_stack_of`] around it.
pub struct Catena<'a, H: FixedHash> {
    cost: CatenaCost,
    x: Output<H::Digest>,
    random: XorShift,
    level: Option<Level<H>>,
    /// The level after the one under work.
    next_garlic: u8,
    /// Whether the level under work is the one before all, which is not followed by a hash.
    is_first: bool,
    left: u64,
    memory: &'a mut [u8],
    out: &'a mut [u8],
}

impl<'a, H: FixedHash> Catena<'a, H> {
    /// Begins to fill `out`, which is at most a digest long, in as much of `memory` as the cost says.
    ///
    /// # Errors
    /// [`KdfError::CostOutOfRange`] if the cost is none that [`CatenaCost::check`] accepts,
    /// [`KdfError::OutputLen`] if `out` is empty or longer than a digest, [`KdfError::InputTooLong`] for a
    /// salt of more than 255 bytes, and [`KdfError::NotEnoughMemory`] if `memory` is shorter than
    /// [`CatenaCost::memory_bytes`].
    pub fn new(
        cost: &CatenaCost,
        input: &CatenaInput<'_>,
        memory: &'a mut [u8],
        out: &'a mut [u8],
    ) -> Result<Self, KdfError> {
        let memory = checked::<H>(cost, input.salt, memory, out)?;
        wipe(out);
        let domain = match input.domain {
            CatenaDomain::PasswordScrambling => 0,
            CatenaDomain::KeyDerivation => 1,
        };
        // Both lengths were found to fit a byte.
        let tweak = [domain, cost.lambda, out.len() as u8, input.salt.len() as u8];
        let version = hashed::<H>(&[cost.graph.version().as_bytes()]);
        let data = hashed::<H>(&[input.data]);
        let x = hashed::<H>(&[&version, &tweak, &data, input.passphrase, input.salt]);
        let random = XorShift::new::<H>(input.salt);
        let first = cost.min_garlic.div_ceil(2);
        let level = Level::new(cost.graph, cost.lambda, first, &x, random.clone());
        Ok(Self {
            cost: *cost,
            x,
            random,
            level: Some(level),
            next_garlic: cost.min_garlic,
            is_first: true,
            left: cost.nodes(),
            memory,
            out,
        })
    }

    /// Begins to turn what was derived with `cost` into what it is with a larger garlic. `hashed` is read at once; it is
    /// as long as it was then.
    ///
    /// # Errors
    /// [`KdfError::CostOutOfRange`] if `garlic` is not larger than that of `cost`. Otherwise it fails where
    /// [`new`](Self::new) does.
    pub fn update(
        cost: &CatenaCost,
        garlic: u8,
        salt: &[u8],
        memory: &'a mut [u8],
        hashed: &'a mut [u8],
    ) -> Result<Self, KdfError> {
        cost.check()?;
        // Refuses a garlic that is not larger.
        let cost = CatenaCost { min_garlic: cost.garlic + 1, garlic, ..*cost };
        let memory = checked::<H>(&cost, salt, memory, hashed)?;
        let mut x = Output::<H::Digest>::default();
        x[..hashed.len()].copy_from_slice(hashed);
        wipe(hashed);
        let random = XorShift::new::<H>(salt);
        let level = Level::new(cost.graph, cost.lambda, cost.min_garlic, &x, random.clone());
        let left =
            (cost.min_garlic..=garlic).map(|garlic| level_nodes(cost.graph, cost.lambda, garlic)).sum();
        Ok(Self {
            cost,
            x,
            random,
            level: Some(level),
            next_garlic: cost.min_garlic + 1,
            is_first: false,
            left,
            memory,
            out: hashed,
        })
    }

    /// Computes at most `nodes` more nodes, and at least one.
    pub fn step(&mut self, nodes: u32) -> Progress {
        for _ in 0..nodes.max(1) {
            let Some(level) = &mut self.level else { break };
            self.left -= 1;
            if level.advance(self.memory) {
                self.end_level();
            }
        }
        match &self.level {
            Some(_) => Progress::Unfinished { left: self.left },
            None => Progress::Done,
        }
    }

    fn end_level(&mut self) {
        self.level = None;
        let done = if self.is_first { self.cost.min_garlic.div_ceil(2) } else { self.next_garlic - 1 };
        let (len, last) = (node_len::<H>(), (1 << done) - 1);
        self.x.copy_from_slice(&self.memory[last * len..(last + 1) * len]);
        if !self.is_first {
            self.x = hashed::<H>(&[&[done], &self.x]);
            wipe(&mut self.x[self.out.len()..]);
        }
        self.is_first = false;
        if self.next_garlic > self.cost.garlic {
            self.out.copy_from_slice(&self.x[..self.out.len()]);
        } else {
            let garlic = self.next_garlic;
            self.next_garlic += 1;
            let (graph, lambda) = (self.cost.graph, self.cost.lambda);
            self.level = Some(Level::new(graph, lambda, garlic, &self.x, self.random.clone()));
        }
    }
}

/// The part of `memory` that is needed, if all parameters are fine.
fn checked<'a, H: FixedHash>(
    cost: &CatenaCost,
    salt: &[u8],
    memory: &'a mut [u8],
    out: &[u8],
) -> Result<&'a mut [u8], KdfError> {
    cost.check()?;
    if out.is_empty() || out.len() > node_len::<H>() {
        return Err(KdfError::OutputLen { len: out.len() });
    }
    if salt.len() > usize::from(u8::MAX) {
        return Err(KdfError::InputTooLong { len: salt.len() });
    }
    let needs = cost.memory_bytes(H::HASH);
    let has = memory.len() as u64;
    let too_small = KdfError::NotEnoughMemory { needs, has };
    let needed = usize::try_from(needs).map_err(|_| too_small)?;
    memory.get_mut(..needed).ok_or(too_small)
}

impl<H: FixedHash> Drop for Catena<'_, H> {
    fn drop(&mut self) {
        wipe(&mut self.x);
        wipe(self.memory);
        if self.level.is_some() {
            wipe(self.out);
        }
    }
}

/// Fills `out`, at most a digest long, in the first [`CatenaCost::memory_bytes`] bytes of `memory`, which are wiped.
///
/// # Errors
/// Fails where [`Catena::new`] does.
///
/// With `std`, [`KdfError::TooMuchWork`] as soon as it shows that the caller's
/// [`WorkLimit`](crate::WorkLimit) does not suffice, and [`KdfError::Cancelled`] once its flag is set. Then
/// `out` is zeros.
pub fn catena(
    hash: Hash,
    cost: &CatenaCost,
    input: &CatenaInput<'_>,
    memory: &mut [u8],
    out: &mut [u8],
) -> Result<(), KdfError> {
    with_wiped_stack(|| {
        with_hash!(hash, H => {
            let mut run = Catena::<H>::new(cost, input, memory, out)?;
            to_the_end(|nodes| run.step(nodes))?;
        });
        Ok(())
    })
}

/// The client-independent update: turns what was derived with `cost` into what `garlic`, which is larger, yields, without
/// the passphrase. `hashed` is replaced; its length is the output's.
///
/// # Errors
/// Fails where [`Catena::update`] does, and then leaves `hashed` unchanged.
///
/// With `std`, [`KdfError::TooMuchWork`] or [`KdfError::Cancelled`], as for [`catena()`]. Then `hashed` is
/// zeros, and what it was is lost.
pub fn catena_update(
    hash: Hash,
    cost: &CatenaCost,
    garlic: u8,
    salt: &[u8],
    memory: &mut [u8],
    hashed: &mut [u8],
) -> Result<(), KdfError> {
    with_wiped_stack(|| {
        with_hash!(hash, H => {
            let mut run = Catena::<H>::update(cost, garlic, salt, memory, hashed)?;
            to_the_end(|nodes| run.step(nodes))?;
        });
        Ok(())
    })
}
