//! FAT's calendar times, which name no time zone: read and written as UTC. They reach from 1980 to 2107.
//! FAT specification, section 6.

use std::time::{SystemTime, UNIX_EPOCH};

use atrest_filetree::Timestamp;

const DAY: i64 = 86400;

/// The time now.
pub(super) fn now() -> Timestamp {
    // intended: FAT has no times before 1980. A clock that shows one is taken for the first of them.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        // cannot overflow: a clock has 63 bits of seconds.
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Date, time (in steps of two seconds) and hundredths beyond it of the nearest time that FAT can store.
pub(super) fn fields(time: Timestamp) -> (u16, u16, u8) {
    const FIRST: i64 = 315_532_800; // 1980-01-01 00:00:00
    const LAST: i64 = 4_354_819_199; // 2107-12-31 23:59:59
    let seconds = time.seconds.clamp(FIRST, LAST);
    let (year, month, day) = civil(seconds.div_euclid(DAY));
    let rest = seconds.rem_euclid(DAY);
    let date = (year - 1980) << 9 | month << 5 | day;
    let (hours, minutes, pairs) = (rest / 3600, rest / 60 % 60, rest % 60 / 2);
    let clock = hours << 11 | minutes << 5 | pairs;
    let hundredths = rest % 2 * 100 + i64::from(time.nanoseconds.min(999_999_999) / 10_000_000);
    // cannot miss: the clamp keeps all of them in range.
    (
        u16::try_from(date).unwrap_or(0),
        u16::try_from(clock).unwrap_or(0),
        u8::try_from(hundredths).unwrap_or(0),
    )
}

/// The time that stored fields mean. A date of 0, which stands for none, becomes 1980-01-01.
pub(crate) fn timestamp(date: u16, clock: u16, hundredths: u8) -> Timestamp {
    let (date, clock, hundredths) = (i64::from(date), i64::from(clock), i64::from(hundredths.min(199)));
    let days = days(1980 + (date >> 9), (date >> 5 & 0xf).clamp(1, 12), (date & 0x1f).max(1));
    let of_day = (clock >> 11) * 3600 + (clock >> 5 & 0x3f) * 60 + (clock & 0x1f) * 2;
    // cannot miss: less than a second.
    let nanoseconds = u32::try_from(hundredths % 100 * 10_000_000).unwrap_or(0);
    Timestamp { seconds: days * DAY + of_day + hundredths / 100, nanoseconds }
}
/// Days since 1970-01-01 of a date of the Gregorian calendar. The year starts in March, so that the leap day is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_convert_both_ways_and_are_clamped() {
        // `date -u -d 2024-02-29T23:59:58 +%s`
        let time = Timestamp { seconds: 1_709_251_198, nanoseconds: 0 };
        let (date, clock, hundredths) = fields(time);
        assert_eq!((date, clock, hundredths), (44 << 9 | 2 << 5 | 29, 23 << 11 | 59 << 5 | 29, 0));
        assert_eq!(timestamp(date, clock, hundredths), time);
        assert_eq!(fields(Timestamp { seconds: -1, nanoseconds: 0 }).0, 1 << 5 | 1);
        assert_eq!(fields(Timestamp { seconds: i64::MAX, nanoseconds: 0 }).0, 127 << 9 | 12 << 5 | 31);
        for day in (3652..50_404).step_by(97) {
            let time = Timestamp { seconds: day * DAY + 12_345, nanoseconds: 670_000_000 };
            let (date, clock, hundredths) = fields(time);
            assert_eq!(timestamp(date, clock, hundredths), time);
        }
        for date in [0, !0] {
            timestamp(date, !0, !0);
        }
    }
}
