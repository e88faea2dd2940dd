//! The seeded generator, against its publication.

use atrest_testkit::Random;

/// Source: <https://prng.di.unimi.it/splitmix64.c>, the first outputs for x = 1234567.
#[test]
fn equals_the_published_sequence_of_seed_1234567() {
    let mut random = Random::new(1_234_567);
    let first: Vec<u64> = (0..3).map(|_| random.draw()).collect();
    assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn shuffle_keeps_every_item() {
    let mut items: Vec<u32> = (0..100).collect();
    Random::new(7).shuffle(&mut items);
    assert_ne!(items, (0..100).collect::<Vec<_>>());
    items.sort_unstable();
    assert_eq!(items, (0..100).collect::<Vec<_>>());
}

#[test]
fn bytes_and_numbers_below_a_bound_are_those_of_the_sequence() {
    let mut random = Random::new(7);
    let words: Vec<u8> = (0..3).flat_map(|_| random.draw().to_le_bytes()).collect();
    assert_eq!(Random::new(7).bytes(20), words[..20]);
    let mut random = Random::new(7);
    assert!((0..1000).all(|_| random.below(3) < 3 && random.index(5) < 5));
}
