//! The comparison of the LG slides ([`slides`]) once more: what encryption costs by where it is done, how that scales with cores, what read-ahead
//! and several threads give.
//!
//! Each [`Contender`] has files of its own in one directory, of the same sizes, which the same code reads and writes; what differs is the
//! mapper, the number of keys and the size of a data unit. Contenders take turns, forwards and backwards, and medians count. "Cores" are CPUs that
//! the measuring threads may run on; what the kernel does by itself (writing back, interrupts) may run elsewhere. Before each reading
//! the kernel drops the files' pages.

mod contender;
mod run;
pub mod slides;
mod svg;

use std::time::Duration;

pub use contender::Contender;
pub use svg::lg_chart;

use super::medium::Medium;
use super::sequential::random_data;
use super::{MIB, Place};
use crate::BenchError;
use contender::Files;
use run::on_cores;

/// Files of each contender.
const FILES: usize = 4;

/// What is measured.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LgOptions {
    /// Bytes in the files of each contender together, at least 4 MiB.
    pub size: u64,
    /// Time for each figure that is not bound by the size.
    pub time: Duration,
    /// Numbers of cores.
    pub cores: Vec<usize>,
    /// Turns of which the median counts.
    pub turns: usize,
}

impl LgOptions {
    /// Files of `size` bytes together, one core, two, and all that there are, three turns.
    pub fn of(size: u64) -> Self {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let mut cores: Vec<usize> = [1, 2, all].into_iter().filter(|cores| *cores <= all).collect();
        cores.sort_unstable();
        cores.dedup();
        Self { size, time: Duration::from_secs(1), cores, turns: 3 }
    }
}

/// What is done to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Written in sequence, 1 MiB at a time, until it is on the medium; encrypted on all of the cores.
    Write,
    /// Read in sequence, 1 MiB at a time and 4 MiB ahead; decrypted on all of the cores. MiB/s.
    Read,
    /// Read in sequence, 1 MiB at a time and 4 MiB ahead; decrypted on one thread. MiB/s.
    ReadOneThread,
    /// Read in sequence, 4 KiB at a time, while what follows is read ahead. MiB/s.
    ReadPages,
    /// Read in sequence, 4 KiB at a time, with nothing read ahead. MiB/s. Beside [`ReadPages`](Self::ReadPages) it shows
    /// what read-ahead gives, and not what larger requests give.
    ReadNotAhead,
    /// 4 KiB read at random places, one request for each core under way, the kernel reading ahead as it likes. Requests per second.
    Random,
    /// 4 KiB read at random places, one request for each core under way, with nothing read ahead. Requests per second.
    RandomNotAhead,
}

impl Work {
    /// In the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Write,
        Self::Read,
        Self::ReadOneThread,
        Self::ReadPages,
        Self::ReadNotAhead,
        Self::Random,
        Self::RandomNotAhead,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::ReadOneThread => "read, one thread",
            Self::ReadPages => "read by 4 KiB",
            Self::ReadNotAhead => "read by 4 KiB, no read-ahead",
            Self::Random => "random read",
            Self::RandomNotAhead => "random read, no read-ahead",
        }
    }

    /// Whether its figures are requests of 4 KiB per second instead of MiB/s.
    pub fn counts_requests(self) -> bool {
        matches!(self, Self::Random | Self::RandomNotAhead)
    }
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LgRow {
    /// What was done.
    pub work: Work,
    /// On how many cores.
    pub cores: usize,
    /// MiB/s or requests per second, in the order of [`Contender::ALL`].
    pub speeds: [f64; 5],
}

impl LgRow {
    /// A contender's figure.
    pub fn of(&self, contender: Contender) -> f64 {
        Contender::ALL
            .iter()
            .zip(self.speeds)
            .find(|(one, _)| **one == contender)
            .map_or(0.0, |(_, speed)| speed)
    }

    /// What a contender loses against plain files, in per cent; negative if it was faster.
    pub fn overhead(&self, contender: Contender) -> f64 {
        (1.0 - self.of(contender) / self.of(Contender::Plain)) * 100.0
    }
}

/// Measures in a directory, and hands over each row as soon as it is there.
///
/// # Errors
/// [`BenchError::Place`] if the place is no directory or can't be used, [`BenchError::Space`] if it has no
/// room, [`BenchError::Device`] if reading or writing fails. Rows that were handed over before hold.
pub fn measure_lg(place: &Place, options: &LgOptions, row: &mut dyn FnMut(LgRow)) -> Result<(), BenchError> {
    // The files lie beside one another, which on a device they would not.
    let Place::Directory(_) = place else {
        return Err(BenchError::Place(std::io::ErrorKind::NotADirectory));
    };
    let size = (options.size / FILES as u64 / MIB).max(1) * MIB;
    let medium = Medium::new(place, size * (FILES * Contender::ALL.len()) as u64, 0)?;
    let data = random_data()?;
    let mut files = Vec::new();
    for contender in Contender::ALL {
        files.push(Files::new(&medium, contender, size, &data)?);
    }
    for work in Work::ALL {
        for &cores in &options.cores {
            // One thread on one core is what the row before has.
            if work == Work::ReadOneThread && cores == 1 {
                continue;
            }
            let speeds = on_cores(cores, || run::turns(&files, work, cores, options, &data))??;
            row(LgRow { work, cores, speeds });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn every_figure_is_there_and_nothing_is_left() {
        let directory = Scratch::new();
        let place = Place::Directory(directory.as_path().into());
        let options = LgOptions {
            time: Duration::from_millis(20),
            cores: vec![1, 2],
            turns: 1,
            ..LgOptions::of(4 * MIB)
        };
        let mut rows = Vec::new();
        measure_lg(&place, &options, &mut |row| rows.push(row)).expect("it can be written");
        assert_eq!(rows.len(), 13);
        for row in &rows {
            assert!(row.speeds.iter().all(|speed| speed.is_finite() && *speed > 0.0), "{row:?}");
        }
        assert_eq!(directory.as_path().read_dir().expect("a directory").count(), 0, "a file is left");
        let chart = lg_chart(&rows);
        assert_eq!(chart.matches("<rect class=\"bar\"").count(), 13 * 5, "{chart}");
        assert!(!chart.contains("NaN"), "{chart}");
    }

    #[test]
    fn a_device_is_refused() {
        let place = Place::Device("/dev/null".into());
        let refused = measure_lg(&place, &LgOptions::of(MIB), &mut |_| panic!("measured"));
        assert_eq!(refused, Err(BenchError::Place(std::io::ErrorKind::NotADirectory)));
    }

    #[test]
    fn overhead_is_what_is_lost_against_plain() {
        let row = LgRow { work: Work::Read, cores: 1, speeds: [200.0, 80.0, 100.0, 50.0, 220.0] };
        assert_eq!(row.overhead(Contender::Fscrypt), 75.0);
        assert!(row.overhead(Contender::Ecryptfs) < 0.0);
    }
}
