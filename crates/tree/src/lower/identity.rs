//! Nothing in between: names and contents are those of the lower directory.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use atrest_filetree::posix::{Errno, Outcome};
use rustix::fs::FallocateFlags;

use super::{Layer, LayerFile};

/// Shows a lower directory as it is: what another layer's work is measured against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Layer for Identity {
    type File = File;

    fn lower_name<'a>(&self, name: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(name))
    }

    fn plain_name<'a>(&self, lower: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(lower)
    }

    fn lower_target<'a>(&self, target: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(target))
    }

    fn plain_target(&self, lower: Vec<u8>) -> Outcome<Vec<u8>> {
        Ok(lower)
    }

    fn name_len(&self, lower: u32) -> u32 {
        lower
    }

    fn open(&self, lower: File, _writable: bool) -> Outcome<File> {
        Ok(lower)
    }

    fn create(&self, lower: File) -> Outcome<File> {
        Ok(lower)
    }

    fn size(&self, _lower: &File) -> Option<u64> {
        None
    }

    fn maps_sizes(&self) -> bool {
        false
    }

    fn owns_xattr(&self, _name: &[u8]) -> bool {
        false
    }
}

impl LayerFile for File {
    fn plain_len(&self) -> Option<u64> {
        None
    }

    fn lower(&self) -> Option<(&File, u64)> {
        Some((self, 0))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Outcome<usize> {
        let mut filled = 0_usize;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            // intended: the system refuses what lies behind 2^63.
            match FileExt::read_at(self, rest, offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                // cannot overflow: at most the length of the buffer.
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        self.write_all_at(data, offset).map_err(|error| errno(&error))
    }

    fn set_len(&self, len: u64) -> Outcome<()> {
        rustix::fs::ftruncate(self, len)
    }

    fn sync(&self, data_only: bool) -> Outcome<()> {
        if data_only { rustix::fs::fdatasync(self) } else { rustix::fs::fsync(self) }
    }

    fn allocate(&self, mode: u32, offset: u64, len: u64) -> Outcome<()> {
        rustix::fs::fallocate(self, FallocateFlags::from_bits_retain(mode), offset, len)
    }
}

/// The number behind an error of the system.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor that is good for nothing, and one to read.
    fn useless() -> [File; 2] {
        let place = rustix::fs::open("/proc/self/status", crate::flags::PLACE, rustix::fs::Mode::empty());
        [place.expect("it is there").into(), File::open("/proc/self/status").expect("it is there")]
    }

    #[test]
    fn what_the_system_refuses_is_told_by_its_number() {
        let [place, reading] = useless();
        assert_eq!(LayerFile::sync(&place, true), Err(Errno::BADF));
        assert_eq!(LayerFile::sync(&place, false), Err(Errno::BADF));
        assert_eq!(LayerFile::read_at(&place, 0, &mut [0]), Err(Errno::BADF));
        assert!(LayerFile::write_at(&reading, 0, b"x").is_err());
        assert!(LayerFile::set_len(&reading, 0).is_err() && LayerFile::allocate(&reading, 0, 0, 1).is_err());
        LayerFile::write_at(&reading, 0, b"").expect("nothing to do");
        assert_eq!(errno(&io::Error::from_raw_os_error(28)), Errno::NOSPC);
        assert_eq!(errno(&io::ErrorKind::WriteZero.into()), Errno::IO);
    }

    #[test]
    fn nothing_stands_between_a_tree_and_its_directory() {
        assert_eq!(Identity.lower_name(b"name"), Ok(Cow::Borrowed(&b"name"[..])));
        assert_eq!(Identity.plain_name(b"name"), Cow::Borrowed(&b"name"[..]));
        assert_eq!(Identity.lower_target(b"target"), Ok(Cow::Borrowed(&b"target"[..])));
        assert_eq!(Identity.plain_target(b"target".to_vec()), Ok(b"target".to_vec()));
        assert_eq!(Identity.name_len(255), 255);
        assert_eq!(Identity.size(&useless()[1]), None);
        assert!(!Identity.maps_sizes() && !Identity.owns_xattr(b"user.ecryptfs"));
        let [place, reading] = useless();
        assert!(Identity.open(place, false).is_ok() && Identity.create(reading).is_ok());
        let [file, _] = useless();
        assert_eq!(file.plain_len(), None);
        assert!(matches!(LayerFile::lower(&file), Some((_, 0))));
    }
}
