//! A sample that a seed determines.

/// Returns `count` of the items, or all if there are fewer, in the order in which they came.
pub fn sample<T>(items: Vec<T>, count: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut keyed: Vec<_> =
        items.into_iter().enumerate().map(|(at, item)| (random(&mut state), at, item)).collect();
    keyed.sort_by_key(|(key, at, _)| (*key, *at));
    keyed.truncate(count);
    keyed.sort_by_key(|(_, at, _)| *at);
    keyed.into_iter().map(|(_, _, item)| item).collect()
}

/// SplitMix64, by Steele, Lea and Flood.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::sample;

    #[test]
    fn a_seed_determines_the_sample() {
        let all: Vec<u32> = (0..1000).collect();
        let one = sample(all.clone(), 100, 1);
        assert_eq!(one, sample(all.clone(), 100, 1));
        assert_ne!(one, sample(all.clone(), 100, 2));
        assert!(one.is_sorted() && one.len() == 100);
        assert_eq!(sample(all.clone(), 2000, 1), all);
    }
}
