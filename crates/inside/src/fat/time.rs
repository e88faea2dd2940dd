//! FAT's calendar times, which name no time zone: read and written as UTC. They reach from 1980 to 2107.

use std::time::{SystemTime, UNIX_EPOCH};

use fatfs::{Date, DateTime, Time, TimeProvider};

use crate::tree::Timestamp;

const DAY: i64 = 86400;

/// The clock for new and changed entries.
pub(super) static CLOCK: UtcClock = UtcClock;

#[derive(Debug)]
pub(super) struct UtcClock;

impl TimeProvider for UtcClock {
    fn get_current_date(&self) -> Date {
        self.get_current_date_time().date
    }

    fn get_current_date_time(&self) -> DateTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        date_time(Timestamp { seconds, nanoseconds: since.subsec_nanos() })
    }
}

/// The nearest time that FAT can store.
pub(super) fn date_time(time: Timestamp) -> DateTime {
    const FIRST: i64 = 315_532_800; // 1980-01-01 00:00:00
    const LAST: i64 = 4_354_819_199; // 2107-12-31 23:59:59
    let seconds = time.seconds.clamp(FIRST, LAST);
    let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let part = |value: i64| u16::try_from(value).unwrap_or(0);
    let millis = part((time.nanoseconds / 1_000_000).min(999).into());
    DateTime {
        date: Date { year: part(year), month: part(month), day: part(day) },
        time: Time { hour: part(rest / 3600), min: part(rest / 60 % 60), sec: part(rest % 60), millis },
    }
}

pub(super) fn timestamp(time: DateTime) -> Timestamp {
    let DateTime { date, time } = time;
    // A month or day of 0 is stored where there is no time at all.
    let days = days(date.year.into(), i64::from(date.month).clamp(1, 12), i64::from(date.day).max(1));
    let clock = i64::from(time.hour) * 3600 + i64::from(time.min) * 60 + i64::from(time.sec);
    Timestamp { seconds: days * DAY + clock, nanoseconds: u32::from(time.millis.min(999)) * 1_000_000 }
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
    fn dates_convert_both_ways_and_are_clamped() {
        // `date -u -d 2024-02-29T23:59:58 +%s`
        let time = Timestamp { seconds: 1_709_251_198, nanoseconds: 0 };
        let stored = date_time(time);
        assert_eq!((stored.date.year, stored.date.month, stored.date.day), (2024, 2, 29));
        assert_eq!((stored.time.hour, stored.time.min, stored.time.sec), (23, 59, 58));
        assert_eq!(timestamp(stored), time);
        assert_eq!(date_time(Timestamp { seconds: -1, nanoseconds: 0 }).date.year, 1980);
        assert_eq!(date_time(Timestamp { seconds: i64::MAX, nanoseconds: 0 }).date.year, 2107);
        for day in (3652..50_404).step_by(97) {
            let time = Timestamp { seconds: day * DAY, nanoseconds: 0 };
            assert_eq!(timestamp(date_time(time)), time);
        }
    }
}
