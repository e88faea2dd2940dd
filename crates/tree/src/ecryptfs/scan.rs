//! What reading all of the lower files finds. There are no tags: a byte that was changed decrypts to other bytes, and nothing tells.

use std::sync::{Mutex, PoisonError};

use atrest_filetree::TreePath;

use super::check::{CheckSummary, Problem};
use super::{EXTENT, EncryptedFile, Header, LowerFile, LowerTree};

/// Read at once, in whole extents.
const PIECE: usize = 256 * EXTENT;

/// Reads the contents of all files that `check` found in order, on all cores, and adds what is wrong with them. `progress` is
/// called with bytes that were read, from any thread; all of them are [`CheckSummary::bytes`].
pub fn check_contents(tree: &LowerTree, summary: &mut CheckSummary, progress: &(dyn Fn(u64) + Sync)) {
    let found = Mutex::new(Vec::new());
    rayon_core::scope(|scope| {
        for path in &summary.readable {
            let found = &found;
            scope.spawn(move |_| {
                let problems = read(tree, path, progress);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.extend(problems.into_iter().map(|problem| (path.clone(), problem)));
            });
        }
    });
    for (path, problem) in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        summary.add(tree, &path, problem);
    }
    summary.findings.sort_by(|a, b| a.path.cmp(&b.path));
}

fn read(tree: &LowerTree, path: &TreePath, progress: &(dyn Fn(u64) + Sync)) -> Vec<Problem> {
    let opened = tree.open_lower(path).and_then(|lower| {
        let header = EncryptedFile::header(&lower)?.0;
        Ok((lower, header))
    });
    match opened {
        Ok((lower, header)) => scan(&lower, &header, progress),
        Err(error) => vec![Problem::Unreadable(error)],
    }
}

/// Extents of one kind: the first of them, and how many there are in all.
#[derive(Default)]
struct Extents {
    first: Option<u64>,
    count: u64,
}

impl Extents {
    fn add(&mut self, extent: u64) {
        self.first.get_or_insert(extent);
        // intended: a count for people.
        self.count = self.count.saturating_add(1);
    }
}

/// Reads all extents that the header claims and the lower file has.
fn scan<L: LowerFile>(lower: &L, header: &Header, progress: &(dyn Fn(u64) + Sync)) -> Vec<Problem> {
    let (mut zeros, mut failed, mut errno) = (Extents::default(), Extents::default(), 0);
    let extents = header.size.div_ceil(EXTENT as u64);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    'file: while at < extents {
        // intended: what overflows lies behind the end of every file.
        let offset = |extent: u64| header.contents_at.saturating_add(extent.saturating_mul(EXTENT as u64));
        // intended: as much as fits a piece.
        let left = usize::try_from(extents.saturating_sub(at)).unwrap_or(usize::MAX);
        // intended: as much as fits a piece.
        let wanted = left.saturating_mul(EXTENT).min(PIECE);
        // cannot be out of range: at most a piece.
        let piece = piece.get_mut(..wanted).unwrap_or(&mut []);
        // Around what can't be read, extent by extent.
        let whole = lower.read_at(offset(at), piece);
        let steps = if whole.is_ok() { wanted } else { EXTENT };
        for run in piece.chunks_mut(steps) {
            let read = match &whole {
                Ok(read) => Ok(*read),
                Err(_) => lower.read_at(offset(at), run),
            };
            match read {
                Ok(read) => {
                    // cannot be out of range: no more was asked for.
                    for extent in run.get(..read).unwrap_or(&[]).as_chunks::<EXTENT>().0 {
                        if extent.iter().all(|byte| *byte == 0) {
                            zeros.add(at);
                        }
                        // cannot overflow: at most the number of extents.
                        at = at.saturating_add(1);
                    }
                    progress(read as u64);
                    // The rest is not there, which the size told.
                    if read < run.len() {
                        break 'file;
                    }
                }
                Err(error) => {
                    failed.add(at);
                    errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
                    // cannot overflow: at most the number of extents.
                    at = at.saturating_add(1);
                    progress(run.len() as u64);
                }
            }
        }
    }
    let zeros = zeros.first.map(|first| Problem::Zeros { first, extents: zeros.count });
    let failed = failed.first.map(|first| Problem::Extents { first, extents: failed.count, errno });
    failed.into_iter().chain(zeros).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecryptfs::PacketSet;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Extents of ones, some of zeros, and some that the disk does not give.
    struct Disk {
        extents: u64,
        zeros: &'static [u64],
        failing: &'static [u64],
    }

    impl LowerFile for Disk {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            let first = offset / EXTENT as u64 - 2;
            let mut read = 0;
            for (extent, bytes) in (first..self.extents).zip(buf.chunks_mut(EXTENT)) {
                if self.failing.contains(&extent) {
                    return Err(io::Error::from_raw_os_error(5));
                }
                bytes.fill(u8::from(!self.zeros.contains(&extent)));
                read += bytes.len();
            }
            Ok(read)
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn len(&self) -> io::Result<u64> {
            Ok((self.extents + 2) * EXTENT as u64)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn xattr(&self) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn set_xattr(&self, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn found(disk: &Disk, size: u64) -> (Vec<Problem>, u64) {
        let packets = PacketSet(Vec::new());
        let header = Header { size, version: 3, encrypted_names: false, contents_at: 8192, packets };
        let read = AtomicU64::new(0);
        let problems = scan(disk, &header, &|bytes| {
            read.fetch_add(bytes, Ordering::Relaxed);
        });
        (problems, read.into_inner() / EXTENT as u64)
    }

    #[test]
    fn extents_that_fail_or_are_zeros_are_found_wherever_they_are() {
        let size = 1000 * EXTENT as u64;
        let sound = Disk { extents: 1000, zeros: &[], failing: &[] };
        assert_eq!(found(&sound, size - 5), (vec![], 1000));
        let bad = Disk { extents: 1000, zeros: &[0, 256, 999], failing: &[255, 257, 700] };
        let failed = Problem::Extents { first: 255, extents: 3, errno: 5 };
        assert_eq!(found(&bad, size), (vec![failed, Problem::Zeros { first: 0, extents: 3 }], 1000));
        // What is behind the end belongs to nothing, and what is missing there is told by the size.
        assert_eq!(found(&bad, size - EXTENT as u64).0[1], Problem::Zeros { first: 0, extents: 2 });
        assert_eq!(found(&sound, size * 2), (vec![], 1000));
        assert_eq!(found(&bad, 0), (vec![], 0));
    }
}
