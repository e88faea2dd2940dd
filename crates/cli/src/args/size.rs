//! Sizes with units: `256M`, `256MiB`, `1GB`, `4096`, `2048s`.

use std::time::Duration;

/// Bytes named by `text`: a number with an optional unit. K, M, G, T and KiB, MiB, GiB, TiB are powers of 1024;
/// KB, MB, GB, TB powers of 1000 (all as in cryptsetup); `s` is 512-byte sectors.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|_| String::from("a size is a number and perhaps a unit, as in 256M"))?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "s" => 512,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            return Err(format!(
                "unknown unit \"{unit}\"; known are K, M, G, T, KiB..TiB, KB..TB and s (sectors)"
            ));
        }
    };
    number.checked_mul(factor).ok_or_else(|| String::from("the size does not fit in 64 bits"))
}

/// A time named by `text`: a number of seconds (`2s`) or milliseconds (`1500ms`), from one millisecond to an hour.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => return Err(String::from("a time is a number and a unit, as in 2s or 1500ms")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| String::from("a time is a whole number and a unit, as in 2s or 1500ms"))?;
    match number.checked_mul(factor) {
        Some(ms @ 1..=3_600_000) => Ok(Duration::from_millis(ms)),
        _ => Err(String::from("the time is not between a millisecond and an hour")),
    }
}

/// Bits of a key, a multiple of 8.
pub fn parse_key_bits(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(bits) if bits > 0 && bits % 8 == 0 => Ok(bits),
        Ok(_) => Err(String::from("a key size is counted in bits, a multiple of 8")),
        Err(_) => Err(String::from("a key size is a number of bits, as in 512")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(parse_time("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_time("1500ms"), Ok(Duration::from_millis(1500)));
        for bad in ["", "2", "s", "0s", "1.5s", "-1s", "3601s", "99999999999999999999s", "2m"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn units_are_those_of_cryptsetup() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("8s"), Ok(4096));
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size("1GB"), Ok(1_000_000_000));
        assert_eq!(parse_size("1t"), Ok(1 << 40));
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "M", "-1", "1.5G", "12Q", "99999999999999999999", "16777216T", "1 G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn key_sizes_are_whole_bytes() {
        assert_eq!(parse_key_bits("512"), Ok(512));
        for text in ["0", "511", "512b", ""] {
            assert!(parse_key_bits(text).is_err(), "{text}");
        }
    }
}
