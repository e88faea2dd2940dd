//! Long lists of numbers as text: `1-20,25`.

/// Returns ascending numbers as text.
pub fn write(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next).filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Returns the numbers that a text has.
pub fn read(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for run in text.split(',').filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        numbers.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_come_back() {
        for (numbers, text) in [(&[][..], ""), (&[7], "7"), (&[1, 2, 3, 5, 8, 9], "1-3,5,8-9")] {
            assert_eq!(super::write(numbers), text);
            assert_eq!(super::read(text).as_deref(), Some(numbers));
        }
        assert_eq!(super::read("1-x"), None);
    }
}
