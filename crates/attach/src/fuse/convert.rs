//! Kinds and times, between what trees say and what FUSE says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atrest_filetree::{Kind, Timestamp};
use fuser::FileType;

pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Pipe => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// Nanoseconds count forward, also before 1970.
pub fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole =
        if time.seconds < 0 { UNIX_EPOCH.checked_sub(seconds) } else { UNIX_EPOCH.checked_add(seconds) };
    let exact = whole.and_then(|whole| whole.checked_add(Duration::from_nanos(time.nanoseconds.into())));
    exact.unwrap_or(UNIX_EPOCH)
}

/// A time as `fuser` hands it over. Of one before 1970 it takes the nanoseconds, which count forward, off the seconds.
pub fn sent_time(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            // The earliest time there is has no positive counterpart: its negation is itself.
            let seconds = before.as_secs().cast_signed().wrapping_neg();
            Timestamp { seconds, nanoseconds: before.subsec_nanos() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_right_on_both_sides_of_1970() {
        for (seconds, nanoseconds, exactly) in [
            (0, 0, 0),
            (1, 5, 1_000_000_005),
            (-1, 0, -1_000_000_000),
            (-1, 999_999_999, -1),
            (-7, 1, -6_999_999_999),
        ] {
            let time = system_time(Timestamp { seconds, nanoseconds });
            let found = match time.duration_since(UNIX_EPOCH) {
                Ok(since) => since.as_nanos() as i64,
                Err(before) => -(before.duration().as_nanos() as i64),
            };
            assert_eq!(found, exactly);
            // As fuser does it.
            let part = Duration::new(seconds.unsigned_abs(), nanoseconds);
            let sent = if seconds < 0 { UNIX_EPOCH - part } else { UNIX_EPOCH + part };
            assert_eq!(sent_time(sent), Timestamp { seconds, nanoseconds });
        }
    }
}
