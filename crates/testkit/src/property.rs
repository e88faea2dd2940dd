//! Properties over generated values, by proptest: a value for which one fails is made as small as it goes before it is shown.
//!
//! Values follow from the rotation that samples of campaigns follow from, too: each commit tries others, and `ATREST_ROTATION=N`
//! tries the same again.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use proptest;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::Campaign;
use crate::campaign::rotation;

/// Most attempts to make a value smaller.
const SHRINKS: u32 = 200;

/// Holds a property against so many values in `make test`, and so many in whole campaigns. It fails by a panic.
///
/// # Panics
/// When it fails for a value, which the message shows.
pub fn hold<S: Strategy>(name: &str, sample: u32, whole: u32, values: S, property: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let cases = if Campaign::is_full() { whole } else { sample };
    println!("property {name}: {cases} values, ATREST_ROTATION={}", rotation());
    let config = Config { cases, max_shrink_iters: SHRINKS, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed(name)));
    let result = runner.run(&values, |value| {
        // Its message goes where the test prints; the last one is that of the smallest value.
        catch_unwind(AssertUnwindSafe(|| property(value))).map_err(|_| TestCaseError::fail("it panicked"))
    });
    if let Err(error) = result {
        panic!("property {name}, ATREST_ROTATION={}: {error}", rotation());
    }
}

/// Another one for each property.
fn seed(name: &str) -> [u8; 32] {
    let mut random =
        crate::Random::new(name.bytes().fold(rotation(), |seed, byte| seed.rotate_left(8) ^ u64::from(byte)));
    let mut seed = [0; 32];
    random.fill(&mut seed);
    seed
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_value_for_which_a_property_fails_is_shown_as_small_as_it_goes() {
        let fails = || hold("test", 200, 200, 0..100_000_u32, |value| assert!(value < 1_000, "too large"));
        let message = *catch_unwind(fails).expect_err("it fails").downcast::<String>().expect("a text");
        assert!(message.contains("minimal failing input: 1000"), "{message}");
    }

    #[test]
    fn values_are_the_same_in_each_run_and_others_for_another_property() {
        let values = |name| {
            let seen = Mutex::new(Vec::new());
            hold(name, 20, 20, 0..u64::MAX, |value| seen.lock().expect("nobody panics").push(value));
            seen.into_inner().expect("nobody panics")
        };
        assert_eq!(values("one"), values("one"));
        assert_ne!(values("one"), values("two"));
    }
}
