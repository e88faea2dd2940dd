//! Takes fields off the front of a slice.

use core::fmt;

use crate::Fixed;

/// The bytes are not laid out as the format says.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// A field reaches past the end.
    Short,
    /// Bytes follow the last field.
    Trailing,
    /// A byte is set that the format keeps zero.
    NotZero,
}

/// Bytes that are read from front to back.
///
/// A method that fails takes nothing, so that the next one starts at the same byte.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader of all of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns a reader that starts at byte `offset` of `bytes`.
    ///
    /// # Errors
    /// [`ReadError::Short`] if there are fewer than `offset` bytes.
    #[inline]
    pub const fn at(bytes: &'a [u8], offset: usize) -> Result<Self, ReadError> {
        match bytes.split_at_checked(offset) {
            Some((_, rest)) => Ok(Self { rest }),
            None => Err(ReadError::Short),
        }
    }

    /// Returns how many bytes are left.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Takes the next `N` bytes.
    ///
    /// # Errors
    /// [`ReadError::Short`] if there are fewer. All methods that take a field share this.
    #[inline(always)]
    pub const fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        match self.array_ref() {
            Ok(field) => Ok(*field),
            Err(error) => Err(error),
        }
    }

    /// Takes the next `N` bytes without copying them.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline(always)]
    pub const fn array_ref<const N: usize>(&mut self) -> Result<&'a [u8; N], ReadError> {
        match self.rest.split_first_chunk() {
            Some((field, rest)) => {
                self.rest = rest;
                Ok(field)
            }
            None => Err(ReadError::Short),
        }
    }

    /// Takes the next `len` bytes.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub const fn bytes(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        match self.rest.split_at_checked(len) {
            Some((field, rest)) => {
                self.rest = rest;
                Ok(field)
            }
            None => Err(ReadError::Short),
        }
    }

    /// Takes the next `len` bytes as a layout of its own.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub const fn sub(&mut self, len: usize) -> Result<Self, ReadError> {
        match self.bytes(len) {
            Ok(bytes) => Ok(Self::new(bytes)),
            Err(error) => Err(error),
        }
    }

    /// Takes everything that is left.
    #[inline]
    pub const fn rest(&mut self) -> &'a [u8] {
        let (rest, end) = self.rest.split_at(self.rest.len());
        self.rest = end;
        rest
    }

    /// Takes the next `len` bytes, which must be zeros.
    ///
    /// # Errors
    /// [`ReadError::Short`], [`ReadError::NotZero`].
    #[inline]
    pub fn zeros(&mut self, len: usize) -> Result<(), ReadError> {
        let (padding, rest) = self.rest.split_at_checked(len).ok_or(ReadError::Short)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(ReadError::NotZero);
        }
        self.rest = rest;
        Ok(())
    }

    /// Takes a field or a group of fields whose length is fixed.
    ///
    /// # Errors
    /// [`ReadError::Short`].
    #[inline]
    pub fn field<T: Fixed>(&mut self) -> Result<T, ReadError> {
        let mut ahead = *self;
        let field = T::read(&mut ahead)?;
        *self = ahead;
        Ok(field)
    }

    /// Ends the layout.
    ///
    /// # Errors
    /// [`ReadError::Trailing`] if bytes are left.
    #[inline]
    pub const fn finish(self) -> Result<(), ReadError> {
        if self.rest.is_empty() { Ok(()) } else { Err(ReadError::Trailing) }
    }

    /// Ends a layout that the format fills up with zeros.
    ///
    /// # Errors
    /// [`ReadError::NotZero`] if anything else is left.
    #[inline]
    pub fn finish_zeros(mut self) -> Result<(), ReadError> {
        self.zeros(self.rest.len())
    }
}

macro_rules! numbers {
    ($($name:ident $number:ident $from:ident $order:literal;)*) => {
        impl Reader<'_> {
            $(
                #[doc = concat!("Takes a `", stringify!($number), "`", $order, ".")]
                ///
                /// # Errors
                /// [`ReadError::Short`].
                #[inline]
                pub const fn $name(&mut self) -> Result<$number, ReadError> {
                    match self.array() {
                        Ok(bytes) => Ok($number::$from(bytes)),
                        Err(error) => Err(error),
                    }
                }
            )*
        }
    };
}

numbers! {
    u8 u8 from_le_bytes "";
    le16 u16 from_le_bytes ", the lowest byte first";
    le32 u32 from_le_bytes ", the lowest byte first";
    le64 u64 from_le_bytes ", the lowest byte first";
    be16 u16 from_be_bytes ", the highest byte first";
    be32 u32 from_be_bytes ", the highest byte first";
    be64 u64 from_be_bytes ", the highest byte first";
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the data ends inside a field",
            Self::Trailing => "data follows the last field",
            Self::NotZero => "a reserved byte is not zero",
        })
    }
}

impl core::error::Error for ReadError {}
