//! LRW (IEEE P1619 draft, 2004; kernel `crypto/lrw.c`): the tweak of block j is K2 times (IV + j), big-endian.
//!
//! The IV is a number that each block of the data unit counts on. From i to i + 1 the tweak changes by K2 times
//! i xor (i + 1), which is one of 128 precomputed products, picked by the (public) number of trailing ones of i.

use zeroize::Zeroize;

use crate::block::{Block, BlockCipher, Direction};
use crate::gf128::{double, multiply};
use crate::mode::facts::{Facts, IvRules, KeyLens, Primitives, Template, in_turns};
use crate::mode::xex::xex;
use crate::run::Run;
use crate::tweak::{IvStream, Units};

/// What is to be known of it.
pub(crate) const FACTS: Facts = Facts {
    name: "lrw",
    template: Template::OfCipher,
    primitives: Primitives::BlockCipher,
    key_lens: KeyLens::InTurns(&in_turns([32, 40, 48])),
    iv_len: 16,
    iv_rules: IvRules::Numbers,
    takes_parts: false,
    constant_time: true,
    single_snapshot: false,
    discouraged: false,
};

/// What LRW asks of a backend.
pub(crate) trait LrwBackend: BlockCipher {
    /// LRW over whole units.
    fn lrw(&self, key: &LrwKey, direction: Direction, units: Units<'_, Self>, run: Run<'_>) {
        self::run(self, key, direction, units, run);
    }
}

/// Blocks that backends with wide registers take together, at most: they look up the products of the low bits of an index.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) const SPAN: usize = 32;

/// The tweak key and its products with 1, 11, 111, … (binary).
pub(crate) struct LrwKey {
    key: u128,
    steps: [u128; 128],
    /// Those with 0 to 31, twice, as blocks.
    #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
    pub(crate) products: [Block; 2 * SPAN],
}

impl LrwKey {
    /// From the 16 bytes that follow the cipher's own key.
    pub(crate) fn new(key: &Block) -> Self {
        let key = u128::from_be_bytes(*key);
        let mut steps = [0; 128];
        let mut power = key;
        let mut sum = 0;
        for step in &mut steps {
            sum ^= power;
            *step = sum;
            power = double(power);
        }
        Self {
            key,
            steps,
            #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
            products: core::array::from_fn(|i| multiply(key, (i % SPAN) as u128).to_be_bytes()),
        }
    }
}

/// What backends with wide registers ask for: the *bases* of an index, products of that index without its low bits and of
/// the next such number.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
impl LrwKey {
    /// Those of an index.
    pub(crate) fn bases(&self, index: u128) -> [u128; 2] {
        let base = multiply(self.key, index & !(SPAN as u128 - 1));
        [base, base ^ self.change(index)]
    }

    /// The bases of `index`, computed from those of `other`. The time depends on both numbers, of which no secret is made.
    pub(crate) fn bases_from(&self, [mut base, _]: [u128; 2], other: u128, index: u128) -> [u128; 2] {
        let mut bits = (other ^ index) & !(SPAN as u128 - 1);
        while bits != 0 {
            let bit = bits.trailing_zeros() as usize % 128;
            base ^= self.steps[bit] ^ self.steps[bit - 1];
            bits &= bits - 1;
        }
        [base, base ^ self.change(index)]
    }

    /// The bases of `index`, computed from those of an index before the last multiple of [`SPAN`].
    pub(crate) fn next_bases(&self, [_, base]: [u128; 2], index: u128) -> [u128; 2] {
        [base, base ^ self.change(index)]
    }

    /// By what the two differ.
    fn change(&self, index: u128) -> u128 {
        let low = SPAN.trailing_zeros();
        // After the last index comes 0.
        let ones = ((index >> low).trailing_ones() + low).min(127) as usize;
        self.steps[ones] ^ self.steps[low as usize - 1]
    }
}

impl Drop for LrwKey {
    fn drop(&mut self) {
        self.key.zeroize();
        self.steps.zeroize();
        #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
        self.products.zeroize();
    }
}

/// Encrypts or decrypts a run.
pub(crate) fn run<C: BlockCipher>(
    cipher: &C,
    key: &LrwKey,
    direction: Direction,
    units: Units<'_, C>,
    run: Run<'_>,
) {
    let unit_blocks = units.blocks();
    let mut starts = IvStream::new(units, None, run.blocks().div_ceil(unit_blocks));
    let (mut index, mut tweak) = (0u128, 0);
    let (mut left, mut begun) = (0, false);
    let tweaks = |to: &mut [Block]| {
        for slot in to {
            let mut follows = true;
            if left == 0 {
                left = unit_blocks;
                let start = u128::from_be_bytes(starts.next());
                // Units in a row are one row of indices, so that all but the first come without a multiplication.
                follows = begun && start == index.wrapping_add(1);
                if !follows {
                    index = start;
                    tweak = multiply(key.key, index);
                    begun = true;
                }
            }
            if follows {
                // After 128 ones the index wraps to 0: the last product takes the tweak back to 0 as it should.
                let ones = index.trailing_ones().min(127) as usize;
                tweak ^= key.steps[ones % 128];
                index = index.wrapping_add(1);
            }
            left -= 1;
            *slot = tweak.to_be_bytes();
        }
    };
    xex(cipher, direction, tweaks, run);
}

#[cfg(feature = "internals")]
pub(crate) mod tests {
    use super::*;
    use crate::backend::PortableAes;
    use crate::tweak::TweakRule;

    /// Source: the Linux kernel's `crypto/testmgr.h`, LRW(AES) counter wrap-around, blocks of index 2^128 - 1, 0 and 1.
    pub(crate) fn the_index_wraps_at_2_to_the_128() {
        let key = 0x4562_ac25_f828_176d_4c26_8414_b568_0185u128.to_be_bytes();
        let tweak_key = 0x258e_2a05_e73e_9d03_ee5a_830c_cc09_4c87u128.to_be_bytes();
        let Some(cipher) = PortableAes::new(&key) else { panic!("a good key") };
        let mut data = [*b"0123456789ABCDEF"; 3];
        let rule = TweakRule::Given([0xff; 16]);
        let units = Units::new(rule, 0, 0, 3);
        run(
            &cipher,
            &LrwKey::new(&tweak_key),
            Direction::Encrypt,
            units,
            Run::in_place(data.as_flattened_mut()),
        );
        let published = [
            0x4790_50f6_f48d_5c7f_84c7_8395_2da2_02c0u128,
            0xda7f_a3c0_882a_0a50_fbc1_7803_39fe_1de5,
            0xf1b2_73cd_65a3_df5f_e95d_4892_5463_4eb8,
        ];
        assert_eq!(data.map(u128::from_be_bytes), published);
    }
}
