//! Kinds and times, between what trees say and what FUSE says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atrest_inside::{Kind, Timestamp};
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

pub fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let (seconds, part) = (before.as_secs().cast_signed(), before.subsec_nanos());
            // The earliest time there is has no positive counterpart: its negation is itself.
            let seconds = seconds.wrapping_neg();
            match part {
                0 => Timestamp { seconds, nanoseconds: 0 },
                part => Timestamp { seconds: seconds - 1, nanoseconds: 1_000_000_000 - part },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_on_both_sides_of_1970() {
        for (seconds, nanoseconds) in
            [(0, 0), (1, 5), (-1, 0), (-1, 999_999_999), (-7, 1), (1 << 33, 7), (i64::MIN, 0)]
        {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(timestamp(system_time(time)), time);
        }
    }
}
