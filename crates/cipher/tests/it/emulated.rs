//! Long lists of cases on an emulated CPU, which takes twenty times as long: a sample, another one at each commit.

/// One case of so many runs. It is a prime number that divides the length of no inner loop, so that each sample has every cipher,
/// size and length.
const ONE_OF: u64 = 7;

/// Says of one case after the other whether it runs: all of them do, but on an emulated CPU those that `$ATREST_ROTATION`
/// chooses. `ATREST_CAMPAIGN=full` runs all there, too.
pub fn sample() -> impl FnMut() -> bool {
    let whole = std::env::var("ATREST_CAMPAIGN").is_ok_and(|value| value == "full");
    let one_of = if cfg!(target_arch = "x86_64") || whole { 1 } else { ONE_OF };
    let rotation: u64 = std::env::var("ATREST_ROTATION").map_or(1, |text| text.parse().expect("a number"));
    if one_of > 1 {
        println!("one case of {one_of}, by ATREST_ROTATION={rotation}");
    }
    let mut number = rotation % one_of;
    move || {
        number = (number + 1) % one_of;
        number == 0
    }
}
