//! Reading everything once, to learn what can't be read: data units whose tags are wrong, and sectors that the media lost.

use atrest_device::{BlockDevice, DeviceError};

/// Bytes that are read at a time while nothing fails.
const STEP: u64 = 1 << 20;

/// Reads all of a device. Where a read fails, each data unit of it is read alone, and `failed` hears of those that fail, in order.
/// `progress` hears how many bytes were looked at. Returns how many data units failed.
pub fn scrub(
    device: &dyn BlockDevice,
    data_unit: usize,
    progress: &mut dyn FnMut(u64),
    failed: &mut dyn FnMut(u64, DeviceError),
) -> u64 {
    let (size, unit) = (device.size(), data_unit.max(1) as u64);
    let mut buffer = vec![0; STEP.next_multiple_of(unit) as usize];
    let (mut done, mut count) = (0, 0);
    while done < size {
        // Nothing is stored of a hole.
        if let Ok(hole) = device.extent(done, size - done)
            && hole.hole
            && hole.len > 0
        {
            done += hole.len;
            progress(done);
            continue;
        }
        let len = (size - done).min(buffer.len() as u64);
        if device.read_at(done, &mut buffer[..len as usize]).is_err() {
            let end = done + len;
            let mut at = done;
            while at < end {
                let piece = unit.min(end - at);
                if let Err(error) = device.read_at(at, &mut buffer[..piece as usize]) {
                    count += 1;
                    failed(at / unit, error);
                }
                at += piece;
            }
        }
        done += len;
        progress(done);
    }
    count
}

#[cfg(test)]
mod tests {
    use atrest_testkit::FaultDevice;
    use atrest_testkit::fault::Fault;

    use super::*;

    #[test]
    fn each_unit_that_can_not_be_read_is_named_and_no_other() {
        let media = FaultDevice::zeroed((3 << 20) + 512);
        for (offset, len) in [(0, 1), (5000, 1), ((1 << 20) - 1, 2), (3 << 20, 512)] {
            media.fail(Fault::UnreadableRange { offset, len });
        }
        let (mut found, mut last) = (Vec::new(), 0);
        let count =
            scrub(&media, 4096, &mut |done| last = done, &mut |unit, error| found.push((unit, error.offset)));
        assert_eq!((count, last), (5, media.size()));
        assert_eq!(found.iter().map(|(unit, _)| *unit).collect::<Vec<_>>(), [0, 1, 255, 256, 768]);
    }
}
