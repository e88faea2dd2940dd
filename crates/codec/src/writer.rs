//! Puts fields into a buffer from the front.

use core::fmt;

use crate::Fixed;

/// The fields and the buffer do not fit together.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The buffer has no room for the field.
    Full,
    /// The buffer has bytes that no field filled.
    Unfilled,
}

/// A buffer that is filled from front to back.
///
/// A method that fails writes nothing.
#[derive(Debug)]
pub struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Returns a writer that fills `buffer`.
    #[inline]
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { rest: buffer }
    }

    /// Returns how many bytes can still be written.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// [`WriteError::Full`] if they do not fit. All methods that write share this.
    #[inline(always)]
    pub fn bytes(&mut self, field: &[u8]) -> Result<(), WriteError> {
        self.place(field.len())?.copy_from_slice(field);
        Ok(())
    }

    /// Writes `len` zeros.
    ///
    /// # Errors
    /// [`WriteError::Full`].
    #[inline]
    pub fn zeros(&mut self, len: usize) -> Result<(), WriteError> {
        self.place(len)?.fill(0);
        Ok(())
    }

    /// Returns the next `len` bytes, for the caller to fill.
    ///
    /// # Errors
    /// [`WriteError::Full`].
    #[inline(always)]
    pub fn place(&mut self, len: usize) -> Result<&'a mut [u8], WriteError> {
        if len > self.rest.len() {
            return Err(WriteError::Full);
        }
        let buffer = core::mem::take(&mut self.rest);
        let (place, rest) = buffer.split_at_mut_checked(len).ok_or(WriteError::Full)?;
        self.rest = rest;
        Ok(place)
    }

    /// Writes a field or a group of fields whose length is fixed.
    ///
    /// # Errors
    /// [`WriteError::Full`].
    #[inline]
    pub fn field<T: Fixed>(&mut self, field: T) -> Result<(), WriteError> {
        let mut place = Writer::new(self.place(T::LEN)?);
        field.write(&mut place)
    }

    /// Ends the layout.
    ///
    /// # Errors
    /// [`WriteError::Unfilled`] if the buffer is longer than the layout.
    #[inline]
    pub const fn finish(self) -> Result<(), WriteError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WriteError::Unfilled) }
    }

    /// Ends a layout that the format fills up with zeros. The rest of the buffer becomes zeros.
    #[inline]
    pub fn finish_zeros(self) {
        self.rest.fill(0);
    }
}

macro_rules! numbers {
    ($($name:ident $number:ident $to:ident $order:literal;)*) => {
        impl Writer<'_> {
            $(
                #[doc = concat!("Writes a `", stringify!($number), "`", $order, ".")]
                ///
                /// # Errors
                /// [`WriteError::Full`].
                #[inline]
                pub fn $name(&mut self, field: $number) -> Result<(), WriteError> {
                    self.bytes(&field.$to())
                }
            )*
        }
    };
}

numbers! {
    u8 u8 to_le_bytes "";
    le16 u16 to_le_bytes ", the lowest byte first";
    le32 u32 to_le_bytes ", the lowest byte first";
    le64 u64 to_le_bytes ", the lowest byte first";
    be16 u16 to_be_bytes ", the highest byte first";
    be32 u32 to_be_bytes ", the highest byte first";
    be64 u64 to_be_bytes ", the highest byte first";
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the data is longer than its place",
            Self::Unfilled => "the data is shorter than its place",
        })
    }
}

impl core::error::Error for WriteError {}
