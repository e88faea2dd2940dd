//! What encryption costs where data meets a medium: files are written and read in sequence and at random, plain and encrypted in turn.
//!
//! The method is that of an article on the Zynq ([`zynq`]): sizes of 10 to 2000 MiB in blocks of 1 MiB, random data, caches dropped before
//! reading; its cipher is AES-XTS with a key of 256 bits on data units of 512 bytes. Writing ends when everything is on the medium. Plain is the file or
//! device itself; encrypted is a [`Disk`](atrest_engine::Disk) on it. [`lg`] compares kinds of encryption by the method of the LG slides.

pub mod lg;
mod medium;
mod random;
mod sequential;
mod svg;
pub mod zynq;

use std::path::PathBuf;
use std::time::Duration;

pub use lg::{Contender, LgOptions, LgRow, Work, lg_chart, measure_lg};
pub use medium::Forgot;
pub use svg::chart;

use super::BenchError;
use medium::Medium;

const MIB: u64 = 1 << 20;

/// Where data is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file in this directory, which nobody else sees and which is gone afterwards.
    Directory(PathBuf),
    /// The beginning of this device, whose data is lost.
    Device(PathBuf),
}

/// What is measured.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IoOptions {
    /// Bytes that are written and read in sequence, a row for each: multiples of 1 MiB.
    pub sizes: Vec<u64>,
    /// Requests under way at a time, two rows for each (reads and writes).
    pub depths: Vec<usize>,
    /// Time for each figure of random requests.
    pub time: Duration,
    /// Threads that encrypt and decrypt; 0 is one for each processor.
    pub threads: usize,
}

impl IoOptions {
    /// The article's sizes up to `largest` bytes, and queue depths of 1, 4, 16 and 32.
    pub fn up_to(largest: u64) -> Self {
        let sizes = zynq::SIZES.map(|size| size * MIB);
        Self {
            sizes: sizes.into_iter().filter(|size| *size <= largest).collect(),
            depths: vec![1, 4, 16, 32],
            time: Duration::from_secs(2),
            threads: 0,
        }
    }
}

/// A speed measured without and with encryption, both in the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Without.
    pub plain: f64,
    /// With.
    pub encrypted: f64,
}

impl Pair {
    /// What encryption costs, in per cent of the speed without it. Negative if it was faster by chance.
    pub fn overhead(&self) -> f64 {
        (self.plain - self.encrypted) / self.plain * 100.0
    }
}

/// A line of the tables.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum IoRow {
    /// In sequence, in blocks of 1 MiB.
    Sequential {
        /// Bytes written, then read.
        size: u64,
        /// MiB/s.
        write: Pair,
        /// MiB/s.
        read: Pair,
    },
    /// 4096 bytes at random places.
    Random {
        /// Requests under way at a time.
        depth: usize,
        /// Requests per second.
        write: Pair,
        /// Requests per second.
        read: Pair,
    },
}

/// Measures, and hands over each row as soon as it is there. Gives how caches were dropped.
///
/// # Errors
/// [`BenchError::Place`] if the place can't be used, [`BenchError::Space`] if it has no room for the largest
/// size, [`BenchError::Device`] if reading or writing fails. Rows that were handed over before hold.
pub fn measure(place: &Place, options: &IoOptions, row: &mut dyn FnMut(IoRow)) -> Result<Forgot, BenchError> {
    let largest = options.sizes.iter().copied().max().unwrap_or(MIB);
    let medium = Medium::new(place, largest, options.threads)?;
    for &size in &options.sizes {
        let (write, read) = sequential::measure(&medium, size)?;
        row(IoRow::Sequential { size, write, read });
    }
    let file = random::Prepared::new(&medium, largest.min(1 << 30))?;
    for &depth in &options.depths {
        let (write, read) = file.measure(depth, options.time)?;
        row(IoRow::Random { depth, write, read });
    }
    Ok(medium.forgot())
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn every_figure_is_there_and_nothing_is_left() {
        let directory = Scratch::new();
        let mut options = IoOptions::up_to(10 * MIB);
        (options.depths, options.time) = (vec![1, 3], Duration::from_millis(20));
        let mut rows = Vec::new();
        let place = Place::Directory(directory.as_path().into());
        measure(&place, &options, &mut |row| rows.push(row)).expect("it can be written");
        assert_eq!(rows.len(), 3);
        for row in &rows {
            let (IoRow::Sequential { write, read, .. } | IoRow::Random { write, read, .. }) = row;
            for speed in [write.plain, write.encrypted, read.plain, read.encrypted] {
                assert!(speed.is_finite() && speed > 0.0, "{row:?}");
            }
        }
        assert!(matches!(rows[0], IoRow::Sequential { size: 10_485_760, .. }));
        assert_eq!(directory.as_path().read_dir().expect("a directory").count(), 0, "a file is left");
        let pair = Pair { plain: 15.95, encrypted: 14.90 };
        assert_eq!(format!("{:.1}", pair.overhead()), "6.6");
    }

    #[test]
    fn a_place_without_room_is_refused_before_anything_is_written() {
        let directory = Scratch::new();
        let place = Place::Directory(directory.as_path().into());
        let options = IoOptions { sizes: vec![1 << 60], ..IoOptions::up_to(0) };
        let refused = measure(&place, &options, &mut |_| panic!("measured"));
        assert!(matches!(refused, Err(BenchError::Space { needs, .. }) if needs == 1 << 60), "{refused:?}");
    }
}
