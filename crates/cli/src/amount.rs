//! Sizes as people read them. A program reads them exactly, as bytes, by `--json`.

use std::fmt;

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A number of bytes in the largest unit of which there is at least one, with one decimal place at most.
#[derive(Clone, Copy, Debug)]
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let (mut value, mut unit) = (bytes as f64, None);
        // A value that would be shown as 1024 has the next unit.
        for name in UNITS {
            if bytes < 1024 || (unit.is_some() && value < 1023.5) {
                break;
            }
            value /= 1024.0;
            unit = Some(name);
        }
        match unit {
            None if bytes == 1 => f.write_str("1 byte"),
            None => write!(f, "{bytes} bytes"),
            Some(unit) if value < 9.95 && (value * 10.0).round() % 10.0 != 0.0 => {
                write!(f, "{value:.1} {unit}")
            }
            Some(unit) => write!(f, "{value:.0} {unit}"),
        }
    }
}

/// A number of bytes exactly, and in a larger unit where it fills one.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        match bytes {
            1 => f.write_str("1 byte"),
            ..1024 => write!(f, "{bytes} bytes"),
            _ => write!(f, "{bytes} bytes ({})", Human(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_largest_unit_that_it_fills() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (10_000, "9.8 KiB"),
            (20 << 20, "20 MiB"),
            ((1 << 20) - 1, "1 MiB"),
            ((1 << 30) - (100 << 10), "1 GiB"),
            (1_610_612_736, "1.5 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(Human(bytes).to_string(), text);
        }
        assert_eq!(Bytes(20 << 20).to_string(), "20971520 bytes (20 MiB)");
        assert_eq!((Bytes(1).to_string(), Bytes(512).to_string()), ("1 byte".into(), "512 bytes".into()));
    }
}
