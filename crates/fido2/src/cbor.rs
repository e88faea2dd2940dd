//! As much of CBOR (RFC 8949) as CTAP uses: definite lengths, integers, strings, arrays, maps, booleans.

use crate::Fido2Error;

const BAD: Fido2Error = Fido2Error::Malformed;

/// CTAP's own limit is four.
const DEPTH: u32 = 6;

/// A value, whose strings lie in what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Unsigned(u64),
    /// −1 minus this.
    Negative(u64),
    Bytes(&'a [u8]),
    Text(&'a str),
    Array(Vec<Value<'a>>),
    Map(Vec<(Value<'a>, Value<'a>)>),
    Bool(bool),
    Null,
}

impl<'a> Value<'a> {
    /// Reads one value, and that nothing follows.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fido2Error> {
        match Self::first(bytes)? {
            (value, []) => Ok(value),
            _ => Err(BAD),
        }
    }

    /// Reads one value: it, and what follows.
    pub fn first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Fido2Error> {
        let mut reader = Reader(bytes);
        let value = reader.value(DEPTH)?;
        Ok((value, reader.0))
    }

    /// What a map has under this number.
    pub fn at(&self, key: u64) -> Option<&Self> {
        self.under(&Value::Unsigned(key))
    }

    /// What a map has under this name.
    pub fn named(&self, name: &str) -> Option<&Self> {
        self.under(&Value::Text(name))
    }

    /// What a map has under this key.
    pub fn under(&self, key: &Value<'_>) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    pub fn number(&self) -> Option<u64> {
        if let Self::Unsigned(number) = self { Some(*number) } else { None }
    }

    pub fn flag(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    pub fn items(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }
}

/// Reads whatever bytes are taken for. For fuzzing.
#[doc(hidden)]
pub fn check(bytes: &[u8]) {
    let _ = Value::parse(bytes);
    let _ = crate::Info::parse(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], Fido2Error> {
        let len = usize::try_from(len).map_err(|_| BAD)?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BAD)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The major type of an item, and its number.
    fn head(&mut self) -> Result<(u8, u64), Fido2Error> {
        let first = *self.take(1)?.first().ok_or(BAD)?;
        let number = match first & 31 {
            small @ 0..24 => u64::from(small),
            long @ 24..28 => {
                let bytes = self.take(1 << (long - 24))?;
                bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
            // Reserved, or of no definite length.
            _ => return Err(BAD),
        };
        Ok((first >> 5, number))
    }

    fn value(&mut self, depth: u32) -> Result<Value<'a>, Fido2Error> {
        let depth = depth.checked_sub(1).ok_or(BAD)?;
        Ok(match self.head()? {
            (0, number) => Value::Unsigned(number),
            (1, number) => Value::Negative(number),
            (2, len) => Value::Bytes(self.take(len)?),
            (3, len) => Value::Text(core::str::from_utf8(self.take(len)?).map_err(|_| BAD)?),
            // Each item has a byte at least, so that no more are made than were sent.
            (4, count) => Value::Array((0..count).map(|_| self.value(depth)).collect::<Result<_, _>>()?),
            (5, count) => {
                let mut entries: Vec<(Value<'_>, Value<'_>)> = Vec::new();
                for _ in 0..count {
                    let (key, value) = (self.value(depth)?, self.value(depth)?);
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(BAD);
                    }
                    entries.push((key, value));
                }
                Value::Map(entries)
            }
            (7, 20) => Value::Bool(false),
            (7, 21) => Value::Bool(true),
            (7, 22) => Value::Null,
            _ => return Err(BAD),
        })
    }
}

/// A value being written. Whoever writes a map puts its keys in CTAP's order: by length, then by bytes.
#[derive(Clone, Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    fn head(mut self, major: u8, number: usize) -> Self {
        let major = major << 5;
        // No string that is sent has 64 KiB.
        match number {
            0..24 => self.0.push(major | number as u8),
            24..256 => self.0.extend([major | 24, number as u8]),
            _ => self.0.extend([major | 25, (number >> 8) as u8, number as u8]),
        }
        self
    }

    pub fn map(self, entries: usize) -> Self {
        self.head(5, entries)
    }

    pub fn array(self, items: usize) -> Self {
        self.head(4, items)
    }

    pub fn unsigned(self, number: u8) -> Self {
        self.head(0, number.into())
    }

    /// −1 minus this.
    pub fn negative(self, number: u8) -> Self {
        self.head(1, number.into())
    }

    pub fn text(self, text: &str) -> Self {
        let mut head = self.head(3, text.len());
        head.0.extend_from_slice(text.as_bytes());
        head
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut head = self.head(2, bytes.len());
        head.0.extend_from_slice(bytes);
        head
    }

    pub fn flag(mut self, flag: bool) -> Self {
        self.0.push(0xf4 | u8::from(flag));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8949, appendix A.
    #[test]
    fn values_are_those_of_the_standard() {
        let of = |bytes: &'static [u8]| Value::parse(bytes);
        assert_eq!(of(&[0x17]), Ok(Value::Unsigned(23)));
        assert_eq!(of(&[0x18, 0x64]), Ok(Value::Unsigned(100)));
        assert_eq!(of(&[0x19, 3, 0xe8]), Ok(Value::Unsigned(1000)));
        assert_eq!(of(&[0x1b, 0, 0, 0, 0xe8, 0xd4, 0xa5, 0x10, 0]), Ok(Value::Unsigned(1_000_000_000_000)));
        assert_eq!(of(&[0x38, 0x63]), Ok(Value::Negative(99)));
        assert_eq!(of(&[0x44, 1, 2, 3, 4]), Ok(Value::Bytes(&[1, 2, 3, 4])));
        assert_eq!(of(&[0x62, 0xc3, 0xbc]), Ok(Value::Text("ü")));
        assert_eq!(of(&[0xf4]), Ok(Value::Bool(false)));
        assert_eq!(of(&[0xf5]), Ok(Value::Bool(true)));
        assert_eq!(of(&[0xf6]), Ok(Value::Null));
        let map = of(&[0xa2, 0x61, 0x61, 1, 0x61, 0x62, 0x82, 2, 3]).expect("a map");
        assert_eq!(map.named("a").and_then(Value::number), Some(1));
        assert_eq!(map.named("b").and_then(Value::items).map(<[_]>::len), Some(2));
        assert_eq!(map.at(1), None);
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let deep = [0x81; 7];
        for bad in [
            &[][..],
            &[0x18],
            &[0x19, 1],
            &[0x1c],
            &[0x5f, 0xff],
            &[0x9f, 0xff],
            &[0x44, 1, 2, 3],
            &[0x61, 0xff],
            &[0x82, 1],
            &[0xa1, 1],
            &[0xa2, 1, 1, 1, 2],
            &[0xc0, 1],
            &[0xf7],
            &[0xf9, 0, 0],
            &[1, 1],
            &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &deep,
        ] {
            assert_eq!(Value::parse(bad), Err(BAD), "{bad:x?}");
        }
    }

    #[test]
    fn what_is_written_is_as_short_as_it_can_be() {
        let written = Writer::default()
            .map(2)
            .unsigned(3)
            .bytes(&[7; 24])
            .text("hi")
            .array(1)
            .negative(24)
            .flag(true)
            .0;
        let expected =
            [&[0xa2, 3, 0x58, 24][..], &[7; 24], &[0x62, b'h', b'i', 0x81, 0x38, 24, 0xf5]].concat();
        assert_eq!(written, expected);
        assert_eq!(Writer::default().bytes(&[0; 256]).0[..3], [0x59, 1, 0]);
        assert_eq!(Writer::default().unsigned(23).0, [23]);
    }
}
