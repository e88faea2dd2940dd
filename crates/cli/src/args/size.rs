//! Sizes with units: `256M`, `256MiB`, `1GB`, `4096`, `2048s`.

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
