//! What a specification, a mapper and a test have to know of a mode: one entry for each mode, in its folder.

/// What is to be known of a mode.
pub(crate) struct Facts {
    /// The name in dm-crypt's cipher strings, or ours where no kernel has the mode.
    pub(crate) name: &'static str,
    /// How it is written in the kernel's `capi:` notation.
    pub(crate) template: Template,
    /// What it is made of.
    pub(crate) primitives: Primitives,
    /// The lengths of its keys.
    pub(crate) key_lens: KeyLens,
    /// Bytes in an IV.
    pub(crate) iv_len: usize,
    /// Which IV rules it takes.
    pub(crate) iv_rules: IvRules,
    /// Whether a run may begin and end within a data unit, at any multiple of 16 bytes. Such a run takes little of the stack.
    pub(crate) takes_parts: bool,
    /// Whether time and memory accesses are independent of keys and data where those of the cipher are.
    pub(crate) constant_time: bool,
    /// Whether the ciphertext of one moment is all that it keeps secret.
    pub(crate) single_snapshot: bool,
    /// Whether it is here for volumes that exist already, and new ones should take another.
    pub(crate) discouraged: bool,
}

/// How the kernel's crypto API composes a mode and a cipher.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Template {
    /// `mode(cipher)`
    OfCipher,
    /// `mode(inner(cipher))`, with the name of the inner mode. Other notations have no name for that.
    Around(&'static str),
    /// `cipher`
    Bare,
}

/// What a mode is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Primitives {
    /// A cipher with blocks of 16 bytes.
    BlockCipher,
    /// A cipher with blocks of 16 or of eight bytes.
    AnyBlockCipher,
    /// XChaCha and AES.
    XChaChaAndAes,
    /// ChaCha.
    ChaCha,
}

/// The lengths of a mode's keys, in bytes, shortest first. Of a cipher that takes one length only the first counts.
#[derive(Clone, Copy)]
pub(crate) enum KeyLens {
    /// Those of one key.
    OneKey(&'static [usize]),
    /// Those of one key, of two keys, of four …, which may take turns.
    InTurns(&'static [[usize; 3]; TURNS]),
}

/// Which IV rules a mode takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IvRules {
    /// Those that write a number, or encrypt it.
    Numbers,
    /// Those, and those that use the key or the data themselves.
    NumbersAndKeyed,
    /// Those that write a number of 64 bits: one of 32 bits would come again.
    Numbers64,
    /// Those that write a number, or none at all.
    NumbersOrNone,
}

/// The most keys that may take turns, and as many as loop-AES has.
pub(crate) const MAX_KEYS: usize = 64;

/// Numbers of keys that may take turns: 1, 2, 4 … [`MAX_KEYS`].
pub(crate) const TURNS: usize = MAX_KEYS.trailing_zeros() as usize + 1;

/// The lengths of one key, of two keys, of four …, from those of one.
pub(crate) const fn in_turns([a, b, c]: [usize; 3]) -> [[usize; 3]; TURNS] {
    let mut lens = [[a, b, c]; TURNS];
    let mut turns = 0;
    while turns < TURNS {
        lens[turns] = [a << turns, b << turns, c << turns];
        turns += 1;
    }
    lens
}
