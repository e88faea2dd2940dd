//! How the position of a data unit becomes its IV: dm-crypt's rules (kernel, `drivers/md/dm-crypt.c`, "iv modes").
//!
//! The rule is a type of its own, orthogonal to cipher and mode: the modes see nothing but finished IVs. Rules that
//! read or alter the data, or need a key of their own, are in [`data_rule`](crate::data_rule).

use crate::block::{Block, BlockCipher, LANES, WIDE};

/// The value that makes a data unit's encryption its own.
pub(crate) type Iv = [u8; 16];

/// What a MAC authenticates before a data unit: the number of its first sector, and its IV as the cipher gets it.
pub(crate) type Associated = [u8; 24];

/// How a number is written into an IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberForm {
    /// Always zero.
    Null,
    /// The low 32 bits, little-endian, then zeros.
    Plain,
    /// 64 bits, little-endian, then zeros.
    Plain64,
    /// Zeros, then 64 bits, big-endian.
    Plain64Be,
    /// Zeros, then the 1-based number of the unit's first cipher block, 64 bits, big-endian. A number counts 512 bytes.
    Benbi,
}

impl NumberForm {
    /// 512 bytes hold 2^5 cipher blocks of 16 bytes.
    const BENBI_SHIFT: u32 = 5;

    pub(crate) fn iv(self, number: u64) -> Iv {
        match self {
            Self::Null => [0; 16],
            Self::Plain => u128::from(number & 0xffff_ffff).to_le_bytes(),
            Self::Plain64 => u128::from(number).to_le_bytes(),
            Self::Plain64Be => u128::from(number).to_be_bytes(),
            Self::Benbi => u128::from((number << Self::BENBI_SHIFT).wrapping_add(1)).to_be_bytes(),
        }
    }

    /// For ciphers with blocks of eight bytes, of which 512 bytes hold 2^6.
    #[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
    pub(crate) fn short_iv(self, number: u64) -> [u8; 8] {
        match self {
            Self::Null => [0; 8],
            Self::Plain => (number & 0xffff_ffff).to_le_bytes(),
            Self::Plain64 => number.to_le_bytes(),
            Self::Plain64Be => number.to_be_bytes(),
            Self::Benbi => (number << 6).wrapping_add(1).to_be_bytes(),
        }
    }

    /// Writes an IV of any length of at least eight bytes, as the kernel does for modes whose IVs are no cipher block.
    pub(crate) fn write(self, number: u64, iv: &mut [u8]) {
        iv.fill(0);
        let (little, big) = match self {
            Self::Null => (None, None),
            Self::Plain => (Some(number & 0xffff_ffff), None),
            Self::Plain64 => (Some(number), None),
            Self::Plain64Be => (None, Some(number)),
            Self::Benbi => (None, Some((number << Self::BENBI_SHIFT).wrapping_add(1))),
        };
        if let (Some(number), Some(start)) = (little, iv.first_chunk_mut()) {
            *start = number.to_le_bytes();
        }
        if let (Some(number), Some(end)) = (big, iv.last_chunk_mut()) {
            *end = number.to_be_bytes();
        }
    }
}

/// A keyed rule. `C` is the cipher of ESSIV, or a reference to it: a rule by reference is small, whatever the cipher.
pub(crate) enum TweakRule<C> {
    /// The number itself, written out.
    Number(NumberForm),
    /// The written number encrypted under a hash of the key (ESSIV).
    Encrypted(NumberForm, C),
    /// An IV given by the caller, for one data unit.
    Given(Iv),
}

impl<C> TweakRule<C> {
    /// The rule without its own copy of the cipher.
    pub(crate) fn by_ref(&self) -> TweakRule<&C> {
        match self {
            Self::Number(form) => TweakRule::Number(*form),
            Self::Encrypted(form, cipher) => TweakRule::Encrypted(*form, cipher),
            Self::Given(iv) => TweakRule::Given(*iv),
        }
    }
}

impl<C: BlockCipher> TweakRule<&C> {
    /// The IVs of consecutive units, whose numbers are `step` apart and wrap as the kernel's do.
    fn fill(&self, first: u64, step: u64, ivs: &mut [Iv]) {
        match self {
            Self::Number(form) => write_numbers(*form, first, step, ivs),
            Self::Encrypted(form, cipher) => {
                write_numbers(*form, first, step, ivs);
                cipher.encrypt(ivs);
            }
            Self::Given(iv) => ivs.fill(*iv),
        }
    }
}

fn write_numbers(form: NumberForm, first: u64, step: u64, ivs: &mut [Iv]) {
    let mut number = first;
    for iv in ivs {
        *iv = form.iv(number);
        number = number.wrapping_add(step);
    }
}

/// Where the IVs of a run's data units come from.
enum Source<'a, C> {
    Rule(TweakRule<&'a C>),
    /// Those that are still to be used, given by the caller.
    Listed(&'a [Iv]),
}

/// The IVs of a run's data units, in order.
pub(crate) struct Units<'a, C> {
    source: Source<'a, C>,
    number: u64,
    step: u64,
    blocks: usize,
}

impl<'a, C: BlockCipher> Units<'a, C> {
    /// Units of `blocks` cipher blocks (at least one), the first of them numbered `number`, the others `step` apart.
    pub(crate) fn new(rule: TweakRule<&'a C>, number: u64, step: u64, blocks: usize) -> Self {
        Self { source: Source::Rule(rule), number, step, blocks: blocks.max(1) }
    }

    /// Units of `blocks` cipher blocks (at least one), each with the IV that is listed for it; past the list, with zeros.
    pub(crate) fn listed(ivs: &'a [Iv], blocks: usize) -> Self {
        Self { source: Source::Listed(ivs), number: 0, step: 0, blocks: blocks.max(1) }
    }

    /// Whether the IVs say nothing of a key.
    #[allow(dead_code, reason = "only backends with wide registers ask for it")]
    pub(crate) fn are_public(&self) -> bool {
        matches!(self.source, Source::Rule(TweakRule::Number(_)))
    }

    /// Cipher blocks in a data unit.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The IV of the next unit, where the mode takes one that is no cipher block. Numbers only: no cipher encrypts it.
    pub(crate) fn next_of_any_length(&mut self, iv: &mut [u8]) {
        let given = match &mut self.source {
            Source::Rule(TweakRule::Number(form) | TweakRule::Encrypted(form, _)) => {
                form.write(self.number, iv);
                None
            }
            Source::Rule(TweakRule::Given(given)) => Some(*given),
            // cannot be empty: whoever lists IVs lists one for each unit of the run.
            Source::Listed(ivs) => Some(ivs.split_off_first().copied().unwrap_or_default()),
        };
        if let Some(given) = given {
            iv.fill(0);
            iv.iter_mut().zip(given).for_each(|(to, from)| *to = from);
        }
        self.number = self.number.wrapping_add(self.step);
    }

    /// The IVs of the next `ivs.len()` units.
    pub(crate) fn fill(&mut self, ivs: &mut [Iv]) {
        match &mut self.source {
            Source::Rule(rule) => rule.fill(self.number, self.step, ivs),
            Source::Listed(left) => {
                ivs.fill([0; 16]);
                let (next, rest) = left.split_at(left.len().min(ivs.len()));
                ivs.iter_mut().zip(next).for_each(|(to, from)| *to = *from);
                *left = rest;
            }
        }
        self.number = self.number.wrapping_add(self.step.wrapping_mul(ivs.len() as u64));
    }
}

/// IVs that a stream keeps ahead: only on x86-64 there are ciphers that want so many at once.
const AHEAD: usize = if cfg!(target_arch = "x86_64") { WIDE } else { LANES };

/// IVs (or what a cipher makes of them) one at a time, computed [`LANES`] at a time, or [`WIDE`] for ciphers that are.
pub(crate) struct IvStream<'a, C> {
    units: Units<'a, C>,
    /// Encrypts each IV, where the mode asks for that.
    cipher: Option<&'a C>,
    ahead: [Block; AHEAD],
    /// How many are computed at once.
    together: usize,
    at: usize,
    remaining: usize,
}

impl<'a, C: BlockCipher> IvStream<'a, C> {
    /// For `count` units.
    pub(crate) fn new(units: Units<'a, C>, cipher: Option<&'a C>, count: usize) -> Self {
        let together = if cipher.is_some_and(BlockCipher::is_wide) { AHEAD } else { LANES };
        Self { units, cipher, ahead: [[0; 16]; AHEAD], together, at: together, remaining: count }
    }

    /// The next unit's IV. Past the last unit it repeats what it has.
    pub(crate) fn next(&mut self) -> Block {
        if self.at >= self.together {
            let count = self.remaining.min(self.together);
            let ahead = &mut self.ahead[..count];
            self.units.fill(ahead);
            if let Some(cipher) = self.cipher {
                cipher.encrypt(ahead);
            }
            self.remaining -= count;
            self.at = 0;
        }
        let iv = self.ahead[self.at % AHEAD];
        self.at += 1;
        iv
    }
}
