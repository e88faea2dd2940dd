//! What a header's sizes ask of this machine's memory, looked at before it is taken: whoever wrote the header chose them, and a file with
//! holes is as large as anybody likes.

use atrest_device::FlashGeometry;
use atrest_kdf::available_memory;

use super::FlashOpenError;

/// Largest prog unit and erase block. Chips have 32 KiB and 4 MiB, cards count 64 MiB as a block at most; a program and a
/// block of a file system are kept in memory as a whole.
pub(super) const MOST_PROG: u32 = 1 << 20;
pub(super) const MOST_ERASE: u32 = 256 << 20;

/// Whether its units are such as some flash has.
pub(super) fn check_units(geometry: FlashGeometry) -> Result<(), FlashOpenError> {
    let (prog_size, erase_size) = (geometry.prog_size(), geometry.erase_size());
    if prog_size > MOST_PROG || erase_size > MOST_ERASE {
        return Err(FlashOpenError::UnitsTooLarge { prog_size, erase_size });
    }
    Ok(())
}

/// Whether there is room for so many values of a type.
pub(super) fn check_room<T>(count: u64) -> Result<(), FlashOpenError> {
    // intended: what overflows is more than any memory.
    let needs = count.saturating_mul(size_of::<T>() as u64);
    // intended: where it is not known, the allocation itself tells.
    let has = available_memory().unwrap_or(u64::MAX);
    let short = FlashOpenError::NotEnoughMemory { needs, has };
    if needs > has {
        return Err(short);
    }
    let count = usize::try_from(count).map_err(|_| short)?;
    // Given back at once: who asked takes it the ordinary way.
    Vec::<T>::new().try_reserve_exact(count).map_err(|_| short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_any_flash_are_possible_and_absurd_ones_are_not() {
        let check = |prog, erase| check_units(FlashGeometry::new(1, prog, erase, 4).expect("a geometry"));
        assert_eq!(check(1, 128).and(check(32 << 10, 4 << 20)).and(check(MOST_PROG, MOST_ERASE)), Ok(()));
        for (prog_size, erase_size) in [(2 << 20, 2 << 20), (1 << 31, 1 << 31), (1, 257 << 20), (1, u32::MAX)]
        {
            let refused = Err(FlashOpenError::UnitsTooLarge { prog_size, erase_size });
            assert_eq!(check(prog_size, erase_size), refused);
        }
    }

    #[test]
    fn room_is_asked_for_and_not_taken() {
        assert_eq!(check_room::<u64>(1 << 10), Ok(()));
        for count in [1 << 45, u64::MAX] {
            assert!(matches!(
                check_room::<u64>(count),
                Err(FlashOpenError::NotEnoughMemory { needs, .. }) if needs >= 1 << 48
            ));
        }
    }
}
