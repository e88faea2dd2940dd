//! Whether the log says that the volume was unmounted: its first two pages, of which the newer counts.

use atrest_codec::Record;
use atrest_filetree::TreeError;

use super::boot::Volume;
use super::inode::Inode;
use super::record::restore;

/// Bytes in a page of the log.
const PAGE: usize = 4096;
/// Bytes in both.
const PAGES: u64 = 8192;

/// Whether nothing in the log has to be done again. A log that was wiped has nothing.
pub(super) fn is_clean(volume: &Volume, log: &Inode) -> Result<bool, TreeError> {
    let Some(data) = log.data().filter(|data| data.size() >= PAGES) else { return Ok(true) };
    let mut newest: Option<(u64, bool)> = None;
    let mut is_wiped = true;
    for at in [0, PAGE] {
        let mut page = vec![0; PAGE];
        data.read(volume, log.number, at as u64, &mut page)?;
        is_wiped &= page.iter().all(|byte| *byte == 0xff);
        newest = newest.max(state(&mut page));
    }
    // A log without a page that can be read is one that nobody has finished.
    Ok(is_wiped || newest.is_some_and(|(_, is_clean)| is_clean))
}

/// How new a restart page is, and whether it says that no one had the volume open.
fn state(page: &mut [u8]) -> Option<(u64, bool)> {
    const NOBODY: u16 = 0xffff;
    const CLEAN: u16 = 2;
    restore(page, b"RSTR")?;
    let header = Record::<32>::new(page.first_chunk()?);
    let area = page.get(usize::from(header.le16::<24>())..)?;
    let area = Record::<16>::new(area.first_chunk()?);
    Some((area.le64::<0>(), area.le16::<12>() == NOBODY || area.le16::<14>() & CLEAN != 0))
}
