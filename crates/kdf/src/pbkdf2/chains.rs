//! The iterations of PBKDF2 after the first, for each kind of hash: two HMAC runs over one digest.
//!
//! For SHA-1 and SHA-2 the loop works on the compression function itself: the states after the inner and outer key
//! blocks are computed once, the message always fits one padded block, and only the digest inside that block changes.
//! The other hashes clone their keyed states instead.

use digest::{Digest, Output};
use zeroize::Zeroize;

use crate::backend::{Keyed, MAX_BLOCKS, Sha256Backend, Words};
#[cfg(target_arch = "x86_64")]
use crate::backend::{Sha512Lanes, sha512};

/// HMAC under one key, iterated.
pub trait Iterated<D: Digest> {
    /// How many output blocks are worked on side by side, at most [`MOST_BLOCKS`](crate::backend::MOST_BLOCKS).
    const WIDTH: usize = 1;

    /// Takes the inner and outer key blocks (the key XOR ipad, the key XOR opad).
    fn new(inner_block: &[u8], outer_block: &[u8], backend: Sha256Backend) -> Self;

    /// Goes `count` iterations on from each of `u`, which it replaces, and XORs what each yields to its `t`.
    /// There are as many of `t` as of `u`, at most `WIDTH`.
    fn iterate(&self, u: &mut [Output<D>], t: &mut [Output<D>], count: u32);
}

/// Any hash: the keyed states are cloned for each run. They wipe themselves.
#[cfg(any(
    feature = "blake2",
    feature = "ripemd",
    feature = "sha3",
    feature = "streebog",
    feature = "whirlpool"
))]
pub struct Cloning<D> {
    inner: D,
    outer: D,
}

#[cfg(any(
    feature = "blake2",
    feature = "ripemd",
    feature = "sha3",
    feature = "streebog",
    feature = "whirlpool"
))]
impl<D: Digest + Clone> Iterated<D> for Cloning<D> {
    fn new(inner_block: &[u8], outer_block: &[u8], _: Sha256Backend) -> Self {
        Self { inner: D::new_with_prefix(inner_block), outer: D::new_with_prefix(outer_block) }
    }

    fn iterate(&self, u: &mut [Output<D>], t: &mut [Output<D>], count: u32) {
        for (u, t) in u.iter_mut().zip(t) {
            for _ in 0..count {
                let mut run = self.inner.clone();
                run.update(&*u);
                run.finalize_into(u);
                let mut run = self.outer.clone();
                run.update(&*u);
                run.finalize_into(u);
                for (t, u) in t.iter_mut().zip(u.iter()) {
                    *t ^= u;
                }
            }
        }
    }
}

/// The hashes of VeraCrypt beside SHA-2, by vectors where the CPU has them.
#[cfg(all(
    target_arch = "x86_64",
    any(feature = "blake2", feature = "ripemd", feature = "streebog", feature = "whirlpool")
))]
mod beside {
    use digest::{Digest, Output};
    use zeroize::Zeroize;

    use super::{Cloning, Iterated, Sha256Backend};
    use crate::backend::MOST_BLOCKS;
    use crate::backend::beside::{BLOCK, Beside, KeyBlocks};

    /// HMAC with one of them. Without vectors it is the library's, one block after the other.
    pub struct Vectors<B: Beside> {
        pub(super) one: Cloning<B::Digest>,
        pub(super) key: KeyBlocks,
        pub(super) proof: Option<B::Proof>,
    }

    impl<B: Beside> Iterated<B::Digest> for Vectors<B> {
        const WIDTH: usize = B::WIDTH;

        fn new(inner_block: &[u8], outer_block: &[u8], backend: Sha256Backend) -> Self {
            let mut key = KeyBlocks { inner: [0; BLOCK], outer: [0; BLOCK] };
            key.inner.copy_from_slice(inner_block);
            key.outer.copy_from_slice(outer_block);
            let one = Iterated::<B::Digest>::new(inner_block, outer_block, backend);
            Self { one, key, proof: B::detected().next() }
        }

        #[inline(never)] // see `Pbkdf2::with_backend`
        fn iterate(&self, u: &mut [Output<B::Digest>], t: &mut [Output<B::Digest>], count: u32) {
            let Some(proof) = self.proof else {
                return self.one.iterate(u, t, count);
            };
            let mut padded = [[[0; BLOCK]; MOST_BLOCKS]; 2];
            let [u_padded, t_padded] = &mut padded;
            let (u_padded, t_padded) = (&mut u_padded[..u.len()], &mut t_padded[..t.len()]);
            for (digest, padded) in u.iter().chain(&*t).zip(u_padded.iter_mut().chain(&mut *t_padded)) {
                padded[..digest.len()].copy_from_slice(digest);
            }
            B::iterate(proof, &self.key, u_padded, t_padded, count);
            for (digest, padded) in u.iter_mut().chain(t).zip(u_padded.iter().chain(&*t_padded)) {
                let len = <B::Digest as Digest>::output_size();
                digest.copy_from_slice(&padded[..len]);
            }
            padded.zeroize();
        }
    }
}

/// The chain of a hash that has an implementation beside the library's on x86-64.
macro_rules! beside_the_library {
    ($($feature:literal $name:ident of $digest:ty;)*) => {$(
        #[cfg(all(target_arch = "x86_64", feature = $feature))]
        pub type $name = beside::Vectors<crate::backend::beside::$name>;
        #[cfg(all(not(target_arch = "x86_64"), feature = $feature))]
        pub type $name = Cloning<$digest>;
    )*};
}

beside_the_library! {
    "ripemd" Ripemd160 of ripemd::Ripemd160;
    "whirlpool" Whirlpool of whirlpool::Whirlpool;
    "streebog" Streebog512 of streebog::Streebog512;
    "blake2" Blake2s256 of blake2::Blake2s256;
}

/// SHA-256, by a backend that works on several blocks side by side.
pub struct Lanes {
    key: Keyed,
    backend: Sha256Backend,
}

impl<D: Digest> Iterated<D> for Lanes {
    const WIDTH: usize = MAX_BLOCKS;

    fn new(inner_block: &[u8], outer_block: &[u8], backend: Sha256Backend) -> Self {
        let key = Keyed { inner: narrow::sha256(inner_block), outer: narrow::sha256(outer_block) };
        Self { key, backend }
    }

    #[inline(never)] // see `Pbkdf2::with_backend`
    fn iterate(&self, u: &mut [Output<D>], t: &mut [Output<D>], count: u32) {
        let mut words = [[Words::default(); MAX_BLOCKS]; 2];
        let [u_words, t_words] = &mut words;
        let (u_words, t_words) = (&mut u_words[..u.len()], &mut t_words[..t.len()]);
        for (bytes, words) in u.iter().chain(&*t).zip(u_words.iter_mut().chain(&mut *t_words)) {
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_be_bytes(*bytes);
            }
        }
        self.backend.iterate(&self.key, u_words, t_words, count);
        for (bytes, words) in u.iter_mut().chain(t).zip(u_words.iter().chain(&*t_words)) {
            for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *bytes = word.to_be_bytes();
            }
        }
        words.zeroize();
    }
}

/// SHA-512, by vectors where there are several blocks and the CPU has them.
#[cfg(target_arch = "x86_64")]
pub struct WideSha512 {
    one: narrow::Sha512,
    vectors: Option<Sha512Lanes>,
}

/// SHA-512, one block after the other.
#[cfg(not(target_arch = "x86_64"))]
pub use narrow::Sha512 as WideSha512;

#[cfg(target_arch = "x86_64")]
impl<D: Digest> Iterated<D> for WideSha512 {
    const WIDTH: usize = sha512::LANES;

    fn new(inner_block: &[u8], outer_block: &[u8], backend: Sha256Backend) -> Self {
        let one = <narrow::Sha512 as Iterated<D>>::new(inner_block, outer_block, backend);
        Self { one, vectors: Sha512Lanes::detected().next() }
    }

    #[inline(never)] // see `Pbkdf2::with_backend`
    fn iterate(&self, u: &mut [Output<D>], t: &mut [Output<D>], count: u32) {
        let Some(vectors) = self.vectors.filter(|_| u.len() > 1) else {
            return <narrow::Sha512 as Iterated<D>>::iterate(&self.one, u, t, count);
        };
        let mut words = [[sha512::Words::default(); sha512::LANES]; 2];
        let [u_words, t_words] = &mut words;
        let (u_words, t_words) = (&mut u_words[..u.len()], &mut t_words[..t.len()]);
        for (bytes, words) in u.iter().chain(&*t).zip(u_words.iter_mut().chain(&mut *t_words)) {
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_be_bytes(*bytes);
            }
        }
        let mut key = sha512::Keyed { inner: self.one.inner, outer: self.one.outer };
        vectors.iterate(&key, u_words, t_words, count);
        key.inner.zeroize();
        key.outer.zeroize();
        for (bytes, words) in u.iter_mut().chain(t).zip(u_words.iter().chain(&*t_words)) {
            for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *bytes = word.to_be_bytes();
            }
        }
        words.zeroize();
    }
}

/// The rest of SHA-1 and SHA-2 on their compression functions. The initial values are those of FIPS 180-4, section 5.3; that they
/// are right is checked by the published vectors, since U1 comes from the library's own hash.
pub mod narrow {
    use super::{Digest, Iterated, Output, Sha256Backend, Words, Zeroize};

    /// The state of SHA-256 after one block.
    pub(super) fn sha256(block: &[u8]) -> Words {
        let mut state =
            [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
        sha2::block_api::compress256(&mut state, block.as_chunks().0);
        state
    }

    macro_rules! compression_loop {
        ($name:ident, $word:ty, $words:literal, $digest_words:literal, $block:literal, $compress:path, $initial:expr) => {
            #[doc = concat!("HMAC-", stringify!($name), ".")]
            pub struct $name {
                pub(super) inner: [$word; $words],
                pub(super) outer: [$word; $words],
            }

            impl $name {
                const INITIAL: [$word; $words] = $initial;
                const WORD: usize = size_of::<$word>();

                fn keyed(block: &[u8]) -> [$word; $words] {
                    let mut state = Self::INITIAL;
                    let mut padded = [0u8; $block];
                    padded.copy_from_slice(block);
                    $compress(&mut state, &[padded]);
                    padded.zeroize();
                    state
                }

                fn iterate_one(&self, u: &mut [u8], t: &mut [u8], count: u32) {
                    const DIGEST: usize = $digest_words * size_of::<$word>();
                    const BITS: u64 = ($block + DIGEST as u64) * 8;
                    let mut block = [[0u8; $block]];
                    block[0][..DIGEST].copy_from_slice(u);
                    block[0][DIGEST] = 0x80;
                    block[0][$block - 8..].copy_from_slice(&BITS.to_be_bytes());
                    let mut sum = [0 as $word; $digest_words];
                    let mut state = self.inner;
                    for _ in 0..count {
                        state = self.inner;
                        $compress(&mut state, &block);
                        for (bytes, word) in block[0][..DIGEST].chunks_exact_mut(Self::WORD).zip(state) {
                            bytes.copy_from_slice(&word.to_be_bytes());
                        }
                        state = self.outer;
                        $compress(&mut state, &block);
                        for (bytes, word) in block[0][..DIGEST].chunks_exact_mut(Self::WORD).zip(state) {
                            bytes.copy_from_slice(&word.to_be_bytes());
                        }
                        for (sum, word) in sum.iter_mut().zip(state) {
                            *sum ^= word;
                        }
                    }
                    u.copy_from_slice(&block[0][..DIGEST]);
                    for (bytes, word) in t.chunks_exact_mut(Self::WORD).zip(sum) {
                        for (byte, term) in bytes.iter_mut().zip(word.to_be_bytes()) {
                            *byte ^= term;
                        }
                    }
                    block.zeroize();
                    sum.zeroize();
                    state.zeroize();
                }
            }

            impl<D: Digest> Iterated<D> for $name {
                fn new(inner_block: &[u8], outer_block: &[u8], _: Sha256Backend) -> Self {
                    Self { inner: Self::keyed(inner_block), outer: Self::keyed(outer_block) }
                }

                fn iterate(&self, u: &mut [Output<D>], t: &mut [Output<D>], count: u32) {
                    for (u, t) in u.iter_mut().zip(t) {
                        self.iterate_one(u, t, count);
                    }
                }
            }

            impl Drop for $name {
                fn drop(&mut self) {
                    self.inner.zeroize();
                    self.outer.zeroize();
                }
            }
        };
    }

    #[cfg(feature = "sha1")]
    compression_loop!(
        Sha1,
        u32,
        5,
        5,
        64,
        sha1::block_api::compress,
        [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0]
    );
    compression_loop!(
        Sha224,
        u32,
        8,
        7,
        64,
        sha2::block_api::compress256,
        [0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4,]
    );
    compression_loop!(
        Sha384,
        u64,
        8,
        6,
        128,
        sha2::block_api::compress512,
        [
            0xcbbb9d5dc1059ed8,
            0x629a292a367cd507,
            0x9159015a3070dd17,
            0x152fecd8f70e5939,
            0x67332667ffc00b31,
            0x8eb44a8768581511,
            0xdb0c2e0d64f98fa7,
            0x47b5481dbefa4fa4,
        ]
    );
    compression_loop!(
        Sha512,
        u64,
        8,
        8,
        128,
        sha2::block_api::compress512,
        [
            0x6a09e667f3bcc908,
            0xbb67ae8584caa73b,
            0x3c6ef372fe94f82b,
            0xa54ff53a5f1d36f1,
            0x510e527fade682d1,
            0x9b05688c2b3e6c1f,
            0x1f83d9abfb41bd6b,
            0x5be0cd19137e2179,
        ]
    );
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    type Block = Output<sha2::Sha512>;

    /// As many blocks as are worked on at once, or fewer, are what each of them is alone by the library, whatever the instructions.
    #[test]
    fn blocks_of_other_hashes_side_by_side_are_what_each_is_alone() {
        use crate::backend::beside::{self as hashes, Beside, KeyBlocks};

        fn check<B: Beside>(name: &str) -> usize {
            let (inner, outer) = ([0x36; 64], core::array::from_fn(|i| 0xf0 ^ i as u8));
            let one =
                || <Cloning<B::Digest> as Iterated<B::Digest>>::new(&inner, &outer, Sha256Backend::best());
            let block = |number: u8| B::Digest::digest([number]);
            let mut kinds = 0;
            for proof in B::detected() {
                let key = KeyBlocks { inner, outer };
                let wide = beside::Vectors::<B> { one: one(), key, proof: Some(proof) };
                for blocks in 1..=B::WIDTH as u8 {
                    let mut u: Vec<_> = (0..blocks).map(block).collect();
                    let mut t: Vec<_> = (0..blocks).map(|number| block(number + 100)).collect();
                    let (mut lone_u, mut lone_t) = (u.clone(), t.clone());
                    wide.iterate(&mut u, &mut t, 5);
                    one().iterate(&mut lone_u, &mut lone_t, 5);
                    assert!(u == lone_u && t == lone_t, "{name}, {proof:?}, {blocks} blocks");
                }
                kinds += 1;
            }
            kinds
        }

        let words = [check::<hashes::Ripemd160>("ripemd160"), check::<hashes::Blake2s256>("blake2s-256")];
        let rows = [check::<hashes::Whirlpool>("whirlpool"), check::<hashes::Streebog512>("stribog512")];
        assert!(words.iter().all(|kinds| *kinds > 0) || !std::arch::is_x86_feature_detected!("avx2"));
        assert!(rows.iter().all(|kinds| *kinds > 0) || !std::arch::is_x86_feature_detected!("avx512vbmi"));
    }

    /// Up to four blocks at once are what each of them is alone, whatever the instructions.
    #[test]
    fn blocks_of_sha512_side_by_side_are_what_each_is_alone() {
        let keys = [[0x36; 128], [0x5c; 128]];
        let one =
            || <narrow::Sha512 as Iterated<sha2::Sha512>>::new(&keys[0], &keys[1], Sha256Backend::best());
        let block = |number: u8| sha2::Sha512::digest([number]);
        let mut kinds = 0;
        for vectors in Sha512Lanes::detected() {
            let wide = WideSha512 { one: one(), vectors: Some(vectors) };
            for blocks in 1..=sha512::LANES as u8 {
                let mut u: Vec<Block> = (0..blocks).map(block).collect();
                let mut t: Vec<Block> = (0..blocks).map(|number| block(number + 100)).collect();
                let (mut lone_u, mut lone_t) = (u.clone(), t.clone());
                Iterated::<sha2::Sha512>::iterate(&wide, &mut u, &mut t, 5);
                Iterated::<sha2::Sha512>::iterate(&one(), &mut lone_u, &mut lone_t, 5);
                assert_eq!((u, t), (lone_u, lone_t), "{vectors:?}, {blocks} blocks");
            }
            kinds += 1;
        }
        assert!(kinds > 0 || !std::arch::is_x86_feature_detected!("avx2"));
    }
}
