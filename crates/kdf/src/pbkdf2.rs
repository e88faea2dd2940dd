//! PBKDF2 (RFC 8018, section 5.2) with HMAC (RFC 2104) over any [`Hash`].
//!
//! An iteration is two HMAC runs over one digest. For SHA-1 and SHA-2 the loop works on the compression function
//! itself: the states after the inner and outer key blocks are computed once, the message always fits one padded
//! block, and only the digest inside that block changes. The other hashes clone their keyed states instead.

use atrest_secret::with_wiped_stack;
use digest::block_api::BlockSizeUser;
use digest::{Digest, Output};
use zeroize::Zeroize;

use crate::hash::with_hash;
use crate::{Hash, KdfError};

/// Longest HMAC block of any [`Hash`]: SHA3-224's rate.
const MAX_BLOCK: usize = 144;

/// Fills `out` with PBKDF2-HMAC. `out` may have any length that is not zero.
pub fn pbkdf2(
    hash: Hash,
    passphrase: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) -> Result<(), KdfError> {
    if iterations == 0 {
        return Err(KdfError::NoIterations);
    }
    let output_len = hash.output_len();
    if out.is_empty() || u32::try_from(out.len().div_ceil(output_len)).is_err() {
        return Err(KdfError::OutputLen { len: out.len() });
    }
    with_wiped_stack(|| match hash {
        Hash::Sha1 => run::<sha1::Sha1, narrow::Sha1>(passphrase, salt, iterations, out),
        Hash::Sha224 => run::<sha2::Sha224, narrow::Sha224>(passphrase, salt, iterations, out),
        Hash::Sha256 => run::<sha2::Sha256, narrow::Sha256>(passphrase, salt, iterations, out),
        Hash::Sha384 => run::<sha2::Sha384, narrow::Sha384>(passphrase, salt, iterations, out),
        Hash::Sha512 => run::<sha2::Sha512, narrow::Sha512>(passphrase, salt, iterations, out),
        _ => with_hash!(hash, D => run::<D, Cloning<D>>(passphrase, salt, iterations, out)),
    });
    Ok(())
}

/// The iterations after the first, over states that hold the HMAC key.
trait Iterated<D: Digest> {
    /// Takes the inner and outer key blocks (the key XOR ipad, the key XOR opad).
    fn new(inner_block: &[u8], outer_block: &[u8]) -> Self;

    /// With `u` = U1, XORs U2 to Ucount into `t`.
    fn iterate(&self, u: &mut Output<D>, t: &mut Output<D>, count: u32);
}

fn run<D: Digest + BlockSizeUser + Clone, L: Iterated<D>>(
    passphrase: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) {
    let mut inner_block = [0u8; MAX_BLOCK];
    let mut outer_block = [0u8; MAX_BLOCK];
    let block_len = D::block_size();
    let inner_block = &mut inner_block[..block_len];
    let outer_block = &mut outer_block[..block_len];
    if passphrase.len() <= block_len {
        inner_block[..passphrase.len()].copy_from_slice(passphrase);
    } else {
        let mut hashed = D::digest(passphrase);
        inner_block[..hashed.len()].copy_from_slice(&hashed);
        hashed.zeroize();
    }
    for (inner, outer) in inner_block.iter_mut().zip(outer_block.iter_mut()) {
        *outer = *inner ^ 0x5c;
        *inner ^= 0x36;
    }
    let keyed = L::new(inner_block, outer_block);
    let inner = D::new_with_prefix(&*inner_block);
    let outer = D::new_with_prefix(&*outer_block);
    inner_block.zeroize();
    outer_block.zeroize();

    for (chunk, index) in out.chunks_mut(<D as Digest>::output_size()).zip(1u32..) {
        let mut first = inner.clone().chain_update(salt).chain_update(index.to_be_bytes()).finalize();
        let mut u = outer.clone().chain_update(&first).finalize();
        let mut t = u.clone();
        keyed.iterate(&mut u, &mut t, iterations);
        chunk.copy_from_slice(&t[..chunk.len()]);
        first.zeroize();
        u.zeroize();
        t.zeroize();
    }
}

/// Any hash: the keyed states are cloned for each run. They wipe themselves.
struct Cloning<D> {
    inner: D,
    outer: D,
}

impl<D: Digest + Clone> Iterated<D> for Cloning<D> {
    fn new(inner_block: &[u8], outer_block: &[u8]) -> Self {
        Self { inner: D::new_with_prefix(inner_block), outer: D::new_with_prefix(outer_block) }
    }

    fn iterate(&self, u: &mut Output<D>, t: &mut Output<D>, count: u32) {
        for _ in 1..count {
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

/// SHA-1 and SHA-2 on their compression functions. The initial values are those of FIPS 180-4, section 5.3; that they
/// are right is checked by the published vectors, since U1 comes from the library's own hash.
mod narrow {
    use super::{Digest, Iterated, Output, Zeroize};

    macro_rules! compression_loop {
        ($name:ident, $word:ty, $words:literal, $digest_words:literal, $block:literal, $compress:path, $initial:expr) => {
            pub(super) struct $name {
                inner: [$word; $words],
                outer: [$word; $words],
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
            }

            impl<D: Digest> Iterated<D> for $name {
                fn new(inner_block: &[u8], outer_block: &[u8]) -> Self {
                    Self { inner: Self::keyed(inner_block), outer: Self::keyed(outer_block) }
                }

                fn iterate(&self, u: &mut Output<D>, t: &mut Output<D>, count: u32) {
                    const DIGEST: usize = $digest_words * size_of::<$word>();
                    const BITS: u64 = ($block + DIGEST as u64) * 8;
                    let mut block = [[0u8; $block]];
                    block[0][..DIGEST].copy_from_slice(u);
                    block[0][DIGEST] = 0x80;
                    block[0][$block - 8..].copy_from_slice(&BITS.to_be_bytes());
                    let mut sum = [0 as $word; $digest_words];
                    let mut state = self.inner;
                    for _ in 1..count {
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

            impl Drop for $name {
                fn drop(&mut self) {
                    self.inner.zeroize();
                    self.outer.zeroize();
                }
            }
        };
    }

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
        Sha256,
        u32,
        8,
        8,
        64,
        sha2::block_api::compress256,
        [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,]
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
