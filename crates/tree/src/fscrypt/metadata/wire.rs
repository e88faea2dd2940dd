//! The wire format of Protocol Buffers, as far as `.fscrypt` uses it: numbers, and bytes with a length.
//!
//! A library for it would decode into types that it generates, take what appears twice in one of several ways, and allocate
//! what a length asks for. Three message types without floating point or groups need none: these fields borrow from a file
//! that is at most 16 KiB, and a field that is there twice is damage, as nobody ever wrote one.

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Wire type 0.
    Number(u64),
    /// Wire type 2: bytes, text or another message.
    Bytes(&'a [u8]),
    /// Wire types 1 and 5, which no field that we know has.
    Fixed,
}

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The fields of a message in the order in which they lie there. Ends after the first error.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    /// Field number and value.
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.number()?;
        let field = key >> 3;
        // The largest number that a field may have.
        if field == 0 || field >= 1 << 29 {
            return None;
        }
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = usize::try_from(self.number()?).ok()?;
                Value::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some((field, value))
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Seven bits in each byte, the lowest first; a set top bit says that there are more.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else { return None };
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, Value<'_>)>, Malformed> {
        Fields(bytes).collect()
    }

    /// The examples of protobuf.dev, "Encoding".
    #[test]
    fn fields_are_those_of_the_published_examples() {
        assert_eq!(all(&[0x08, 0x96, 0x01]), Ok(vec![(1, Value::Number(150))]));
        assert_eq!(all(b"\x12\x07testing"), Ok(vec![(2, Value::Bytes(b"testing"))]));
        assert_eq!(all(b"\x1a\x03\x08\x96\x01"), Ok(vec![(3, Value::Bytes(&[0x08, 0x96, 0x01]))]));
        let negative = [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(all(&negative), Ok(vec![(1, Value::Number(-2_i64 as u64))]));
        assert_eq!(all(b"\x09........\x15...."), Ok(vec![(1, Value::Fixed), (2, Value::Fixed)]));
        assert_eq!(all(b""), Ok(vec![]));
    }

    #[test]
    fn what_ends_early_or_is_too_large_is_no_message() {
        let too_many = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        for bytes in [
            &b"\x08"[..],
            b"\x08\x80",
            b"\x12\x02x",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x09.......",
            b"\x00\x00",
            b"\x0b",
            b"\x0f\x00",
            &too_many,
        ] {
            assert_eq!(all(bytes), Err(Malformed), "{bytes:x?}");
        }
    }

    #[test]
    fn field_numbers_and_values_reach_to_their_limits_and_no_further() {
        let field = |key: &[u8]| all(&[key, &[0]].concat()).map(|fields| fields[0].0);
        assert_eq!(field(&[0x08]), Ok(1));
        assert_eq!(field(&[0xf8, 0xff, 0xff, 0xff, 0x0f]), Ok((1 << 29) - 1));
        assert_eq!(field(&[0x80, 0x80, 0x80, 0x80, 0x10]), Err(Malformed));
        assert_eq!(field(&[0x80, 0x80, 0x80, 0x80, 0x20]), Err(Malformed));
        let largest = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(all(&largest), Ok(vec![(1, Value::Number(u64::MAX))]));
        // Eleven bytes, the last of which would add nothing.
        let long = [0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(all(&long), Err(Malformed));
        assert_eq!(all(b"\x12\x00"), Ok(vec![(2, Value::Bytes(b""))]));
        assert_eq!(all(b"\x15..."), Err(Malformed));
        // Nothing is read after an error.
        let mut fields = Fields(b"\x0b\x08\x01");
        assert_eq!((fields.next(), fields.next()), (Some(Err(Malformed)), None));
    }
}
