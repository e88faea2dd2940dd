//! Whether the media holds what was written to it.

use atrest_device::{Cause, DeviceError, Media, Operation};

/// Compares the media at `offset` with `expected`, byte for byte. Returns the offset of the first byte that differs.
///
/// Reads whole blocks of `block` bytes, or of the device's physical ones if they are larger. A range that the device
/// no longer has is an error, never a part that is left out.
pub(crate) fn first_difference(
    device: &dyn Media,
    offset: u64,
    expected: &[u8],
    block: u64,
) -> Result<Option<u64>, DeviceError> {
    let len = expected.len() as u64;
    device.check_range(Operation::Read, offset, len)?;
    let block = u64::from(device.geometry().physical_block).max(block).max(1);
    // cannot overflow or be divided by 0: the range lies inside the device, and a block has a byte.
    let skip = offset.checked_rem(block).unwrap_or(0);
    let from = offset.saturating_sub(skip);
    let end = offset.saturating_add(len);
    let to = end.checked_next_multiple_of(block).unwrap_or(end).min(device.size());
    let early = DeviceError::new(Operation::Read, offset, len, Cause::UnexpectedEnd);
    let read = to.checked_sub(from).and_then(|read| usize::try_from(read).ok()).ok_or(early)?;
    let mut found = vec![0; read];
    device.read_media_at(from, &mut found)?;
    let found = usize::try_from(skip).ok().and_then(|skip| found.get(skip..)?.get(..expected.len()));
    let at = found.ok_or(early)?.iter().zip(expected).position(|(found, expected)| found != expected);
    // cannot overflow: a place in `expected`, which lies inside the device.
    Ok(at.map(|at| offset.saturating_add(at as u64)))
}

#[cfg(test)]
mod tests {
    use atrest_device::{BlockDevice, Cause};
    use atrest_testkit::FaultDevice;

    use super::first_difference;

    fn device(size: usize) -> FaultDevice {
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        FaultDevice::new(bytes)
    }

    #[test]
    fn the_first_byte_that_differs_is_told_wherever_it_lies() {
        let device = device(20_000);
        let mut expected = vec![0; 9000];
        device.read_at(5000, &mut expected).expect("reads");
        for block in [1, 512, 4096, 65_536] {
            assert_eq!(first_difference(&device, 5000, &expected, block), Ok(None));
            for at in [0, 1, 3191, 3192, 8999] {
                let mut other = expected.clone();
                other[at] ^= 1;
                assert_eq!(first_difference(&device, 5000, &other, block), Ok(Some(5000 + at as u64)));
            }
        }
    }

    /// A part that was not compared must not count as wiped.
    #[test]
    fn a_range_that_the_device_does_not_have_is_an_error() {
        let device = device(20_000);
        let mut expected = vec![0; 1000];
        device.read_at(19_000, &mut expected).expect("reads");
        assert_eq!(first_difference(&device, 19_000, &expected, 4096), Ok(None));
        for offset in [19_001, 20_000, 20_001, u64::MAX - 10, u64::MAX] {
            let error = first_difference(&device, offset, &expected, 4096).expect_err("refused");
            assert_eq!(error.cause, Cause::OutOfBounds { size: 20_000 }, "{offset}");
        }
    }
}
