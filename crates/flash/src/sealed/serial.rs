//! Serials and salts, which together make the nonces. A volume uses each serial, of 40 bits, for one sealing. Each session draws a salt,
//! so that two copies of a volume, or two volumes made under one key, share no nonce though they count the same serials.

use atrest_secret::Random;

/// Bytes in a serial.
pub(crate) const SERIAL_LEN: usize = 5;

/// Bytes in a salt: with a serial they make a nonce of 12 bytes.
pub(crate) const SALT_LEN: usize = 7;

/// What is drawn at random for each session.
pub(crate) type Salt = [u8; SALT_LEN];

/// Bytes that the salt takes on the medium: it stands twice, so that one wrong byte does not cost the block.
pub(crate) const SALTS_LEN: usize = 2 * SALT_LEN;

/// What names the contents of a block: the serial of its first unit, and the salt of the session that began it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) serial: u64,
    pub(crate) salt: Salt,
}

/// Serials are below this.
pub(crate) const SERIAL_END: u64 = 1 << 40;

/// Serials that a record allows are of so many bits at most, where nobody but a counter knows how many records there were.
pub(crate) const RECORD_BITS: u8 = 16;

/// The first serial that can't have been used under so many records. None if there is no such.
pub(crate) fn unused_after(records: u64) -> Option<u64> {
    let first = records.checked_add(1)?.checked_mul(1 << RECORD_BITS)?;
    (first < SERIAL_END).then_some(first)
}

/// Five bytes, little endian. The serial is below [`SERIAL_END`].
pub(crate) fn to_bytes(serial: u64) -> [u8; SERIAL_LEN] {
    let [a, b, c, d, e, ..] = serial.to_le_bytes();
    [a, b, c, d, e]
}

pub(crate) fn from_bytes(bytes: [u8; SERIAL_LEN]) -> u64 {
    let [a, b, c, d, e] = bytes;
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
}

/// A salt for a session. None if the source fails, or gives what a source does that is not connected.
pub(crate) fn draw(random: &mut dyn Random) -> Option<Salt> {
    let mut salt = Salt::default();
    random.fill(&mut salt).ok()?;
    let same = salt.iter().all(|byte| Some(byte) == salt.first());
    (!same).then_some(salt)
}

#[cfg(test)]
mod tests {
    use atrest_secret::RandomError;

    use super::*;

    #[test]
    fn serials_behind_all_records_are_65536_a_record_and_end_before_two_to_the_fortieth() {
        assert_eq!([0, 1, 41].map(unused_after), [Some(0x1_0000), Some(0x2_0000), Some(0x2a_0000)]);
        assert_eq!(unused_after(0xff_fffe), Some(0xff_ffff_0000));
        assert_eq!([0xff_ffff, u64::MAX >> 16, u64::MAX - 1, u64::MAX].map(unused_after), [None; 4]);
    }

    #[test]
    fn a_serial_is_five_bytes_little_endian() {
        assert_eq!(to_bytes(0x05_0403_0201), [1, 2, 3, 4, 5]);
        for serial in [0, 1, 0x05_0403_0201, SERIAL_END - 1] {
            assert_eq!(from_bytes(to_bytes(serial)), serial);
        }
    }

    struct Gives(Result<Salt, RandomError>);

    impl Random for Gives {
        fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
            out.copy_from_slice(&self.0?);
            Ok(())
        }
    }

    #[test]
    fn a_salt_is_what_was_drawn_unless_all_its_bytes_are_one() {
        for salt in [[1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(draw(&mut Gives(Ok(salt))), Some(salt));
        }
        for byte in [0, 0xff, 0x5a] {
            assert_eq!(draw(&mut Gives(Ok([byte; SALT_LEN]))), None, "{byte}");
        }
        assert_eq!(draw(&mut Gives(Err(RandomError))), None);
    }
}
