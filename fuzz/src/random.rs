//! The seeded generator of the sample and of the JSON mutations.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % (limit as u64).max(1)) as usize
    }
}

/// Changes an input blindly: bits, bytes, numbers, cuts, copies.
pub fn mutate(data: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(5) {
        let at = random.below(data.len());
        let len = random.below(9).min(data.len() - at);
        match random.below(8) {
            0 => data.truncate(at),
            1 => {
                let piece = data[at..at + len].to_vec();
                let to = random.below(data.len() + 1);
                data.splice(to..to, piece);
            }
            2 => drop(data.drain(at..at + len)),
            3 => data[at..at + len].fill([0, 0xff, b'0', b'"'][random.below(4)]),
            4 if at + 4 <= data.len() => {
                let value = (random.next() as u32) >> random.below(32);
                data[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            5 if at + 4 <= data.len() => {
                let value = (random.next() as u32) >> random.below(32);
                data[at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
            _ if at < data.len() => data[at] ^= 1 << random.below(8),
            _ => data.push(random.next() as u8),
        }
    }
}
