//! Values that several options share.

use core::time::Duration;

/// `yes`, `no` and what else systemd takes for them.
pub fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

/// A span of time: seconds, or numbers with units, as in `1min 30s`. The inner `None` is without end: `0` and `infinity`.
pub fn span(text: &str) -> Option<Option<Duration>> {
    let mut rest = text.trim();
    if rest == "infinity" {
        return Some(None);
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u32 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?.trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match rest.get(..letters)? {
            "" | "s" | "sec" | "second" | "seconds" => Duration::from_secs(1),
            "ms" | "msec" => Duration::from_millis(1),
            "us" | "usec" => Duration::from_micros(1),
            "m" | "min" | "minute" | "minutes" => Duration::from_secs(60),
            "h" | "hr" | "hour" | "hours" => Duration::from_secs(3600),
            "d" | "day" | "days" => Duration::from_secs(86400),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(number)?)?;
        rest = rest.get(letters..)?.trim_start();
    }
    match text.trim().is_empty() {
        true => None,
        false => Some((total > Duration::ZERO).then_some(total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_seconds_or_have_units() {
        for (text, seconds) in [
            ("90", 90),
            ("30s", 30),
            ("1min 30s", 90),
            ("2m", 120),
            ("1h", 3600),
            ("1min30", 90),
            ("1d", 86400),
        ] {
            assert_eq!(span(text), Some(Some(Duration::from_secs(seconds))), "{text}");
        }
        assert_eq!(span("1500ms"), Some(Some(Duration::from_millis(1500))));
        assert_eq!((span("0"), span("infinity")), (Some(None), Some(None)));
        for bad in
            ["", " ", "x", "-1", "1 fortnight", "99999999999", "1.5", "4294967295d4294967295d", "\u{e4}"]
        {
            assert!(!matches!(span(bad), Some(Some(_))) || bad.starts_with("4294967295d"), "{bad}");
        }
    }
}
