//! Files of a LittleFS, whatever it stands on.

use littlefs2::driver::Storage;
use littlefs2::fs::Filesystem;
use littlefs2::io::Result;
use littlefs2::path::Path;

use crate::Checksum;

/// Reads a file in parts, and prints a checksum of it.
pub fn read<S: Storage>(files: &Filesystem<'_, S>, path: &Path) -> Result<()> {
    let mut sum = Checksum::new();
    files.open_file_and_then(path, |file| {
        let mut part = [0; 100];
        loop {
            match file.read(&mut part)? {
                0 => return Ok(()),
                count => sum.add(&part[..count]),
            }
        }
    })?;
    sum.print();
    Ok(())
}
