//! Dates as S3 and HTTP write them, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// `20130524T000000Z`. A clock before 1970 is told as 1970: the server refuses such a signature.
pub(crate) fn basic(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / DAY);
    let of_day = seconds % DAY;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// `Fri, 24 May 2013 00:00:00 GMT` (RFC 9110, section 5.6.7).
pub(crate) fn of_http(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / DAY);
    let (weekday, month) = (DAYS[(seconds / DAY % 7) as usize], MONTHS[(month - 1) as usize]);
    let of_day = seconds % DAY;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// `2013-05-24T00:00:00Z`, also with a fraction of the second, which is left out.
pub(crate) fn extended(text: &str) -> Option<SystemTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let time = time.split('.').next()?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let parts: Vec<u64> = text.split(by).map(str::parse).collect::<Result<_, _>>().ok()?;
        parts.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !fits {
        return None;
    }
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Year, month and day, so many days after 1970 began. Years are counted from March, so that the leap day is the last one
/// (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Days from the beginning of 1970 to a date since.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `date --utc` says.
    #[test]
    fn dates_are_written_and_read() {
        for (seconds, short, long) in [
            (0, "19700101T000000Z", "1970-01-01T00:00:00Z"),
            (951_782_399, "20000228T235959Z", "2000-02-28T23:59:59Z"),
            (951_782_400, "20000229T000000Z", "2000-02-29T00:00:00Z"),
            (1_369_353_600, "20130524T000000Z", "2013-05-24T00:00:00Z"),
            (4_107_542_400, "21000301T000000Z", "2100-03-01T00:00:00Z"),
        ] {
            let at = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!((basic(at).as_str(), extended(long)), (short, Some(at)));
        }
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (1_369_353_600, "Fri, 24 May 2013 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        ] {
            assert_eq!(of_http(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(extended("2013-05-24T00:00:00.123Z"), extended("2013-05-24T00:00:00Z"));
        for bad in [
            "",
            "2013-05-24",
            "2013-13-24T00:00:00Z",
            "2013-05-24T24:00:00Z",
            "2013-05T00:00:00Z",
            "1969-12-31T00:00:00Z",
        ] {
            assert_eq!(extended(bad), None, "{bad}");
        }
    }
}
