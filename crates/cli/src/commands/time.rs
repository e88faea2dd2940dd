//! Seconds since 1970 as people write them, in UTC: the calendar of Gregory, by whole eras of 400 years.

use core::fmt;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY: i64 = 86400;
/// Days in 400 years.
const ERA: i64 = 146_097;
/// Days from March of the year 0, where eras begin, to 1970.
const TO_1970: i64 = 719_468;

/// A day and the time of that day.
struct Moment {
    year: i64,
    /// 0 is January.
    month: usize,
    day: i64,
    weekday: usize,
    second: i64,
}

impl Moment {
    fn new(seconds: i64) -> Self {
        let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let from_march = days + TO_1970;
        let (era, day_of_era) = (from_march.div_euclid(ERA), from_march.rem_euclid(ERA));
        // Leap days come every 4 years, but for 100, and for 400.
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Months from March on have 153 days in five.
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let year = era * 400 + year_of_era + i64::from(month >= 10);
        Self { year, month: ((month + 2) % 12) as usize, day, weekday: days.rem_euclid(7) as usize, second }
    }
}

/// `2020-01-30 07:58`.
pub fn to_the_minute(seconds: i64) -> String {
    let Moment { year, month, day, second, .. } = Moment::new(seconds);
    format!("{year:04}-{:02}-{day:02} {:02}:{:02}", month + 1, second / 3600, second / 60 % 60)
}

/// `2020-01-30 07:58:31 UTC`.
pub fn text(seconds: i64) -> String {
    let Moment { year, month, day, second, .. } = Moment::new(seconds);
    format!("{year:04}-{:02}-{day:02} {} UTC", month + 1, Clock(second))
}

/// `Thu Jan 30 07:58:31 2020`, as C's ctime has it in UTC.
pub fn as_ctime(seconds: i64) -> String {
    let Moment { year, month, day, weekday, second } = Moment::new(seconds);
    format!("{} {} {day:>2} {} {year}", DAYS[weekday], MONTHS[month], Clock(second))
}

struct Clock(i64);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:{:02}", self.0 / 3600, self.0 / 60 % 60, self.0 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_program_date() {
        // By `date --utc --date @N`.
        for (seconds, ctime) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_399, "Mon Feb 28 23:59:59 2000"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_580_371_111, "Thu Jan 30 07:58:31 2020"),
            (4_107_542_400, "Mon Mar  1 00:00:00 2100"),
            (-11_644_473_600, "Mon Jan  1 00:00:00 1601"),
            (-1, "Wed Dec 31 23:59:59 1969"),
        ] {
            assert_eq!(as_ctime(seconds), ctime);
        }
        // By `date --utc --date @N '+%F %R'`.
        for (seconds, minute) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_767_225_599, "2025-12-31 23:59"),
            (-1, "1969-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(to_the_minute(seconds), minute);
        }
        assert_eq!(text(1_580_371_111), "2020-01-30 07:58:31 UTC");
    }
}
