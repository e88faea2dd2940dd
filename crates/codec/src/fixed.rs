//! Layouts of fixed length. Their length is a constant, so the compiler checks that a record is neither too short nor
//! too long for its fields.
//!
//! Everything here is inlined whatever the level of optimisation: then the compiler sees that no error can occur and that
//! no copy is needed. What remains on a microcontroller are loads and stores.

use crate::{ReadError, Reader, WriteError, Writer};

/// A field of fixed length, or several in a row: byte arrays, [`Le`], [`Be`], [`Rows`] and tuples of them.
///
/// Sealed: [`decode`] and [`encode`] rely on `LEN`.
pub trait Fixed: Copy + sealed::Sealed {
    /// Length in bytes.
    const LEN: usize;

    /// Takes the field off a reader.
    ///
    /// # Errors
    /// [`ReadError::Short`] if fewer than `LEN` bytes are left.
    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError>;

    /// Writes the field.
    ///
    /// # Errors
    /// [`WriteError::Full`] if fewer than `LEN` bytes are left.
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError>;
}

/// A number whose lowest byte comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Le<T>(pub T);

/// A number whose highest byte comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Be<T>(pub T);

/// `N` rows of fields, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows<T, const N: usize>(pub [T; N]);

/// Returns the fields of a record.
///
/// Does not compile unless the fields are as long as the record.
#[inline(always)]
pub fn decode<T: Fixed, const N: usize>(record: &[u8; N]) -> T {
    const { assert!(T::LEN == N, "the fields are not as long as the record") };
    match T::read(&mut Reader::new(record)) {
        Ok(fields) => fields,
        Err(_) => unreachable!("a field has the length that its type states"),
    }
}

/// Returns the record that consists of these fields.
///
/// Does not compile unless the record is as long as the fields.
#[inline(always)]
pub fn encode<T: Fixed, const N: usize>(fields: T) -> [u8; N] {
    const { assert!(T::LEN == N, "the fields are not as long as the record") };
    let mut record = [0; N];
    match fields.write(&mut Writer::new(&mut record)) {
        Ok(()) => record,
        Err(_) => unreachable!("a field has the length that its type states"),
    }
}

/// Returns the two parts of a record without copying them.
///
/// Does not compile unless the parts are together as long as the record.
#[inline(always)]
pub const fn split<const A: usize, const B: usize, const N: usize>(record: &[u8; N]) -> (&[u8; A], &[u8; B]) {
    const { assert_sum(A, B, N) };
    match (record.first_chunk(), record.last_chunk()) {
        (Some(first), Some(last)) => (first, last),
        _ => unreachable!(),
    }
}

/// Returns the two parts of a record to be changed.
///
/// Does not compile unless the parts are together as long as the record.
#[inline(always)]
pub const fn split_mut<const A: usize, const B: usize, const N: usize>(
    record: &mut [u8; N],
) -> (&mut [u8; A], &mut [u8; B]) {
    const { assert_sum(A, B, N) };
    let Some((first, rest)) = record.split_first_chunk_mut() else { unreachable!() };
    let Some(last) = rest.first_chunk_mut() else { unreachable!() };
    (first, last)
}

const fn assert_sum(a: usize, b: usize, n: usize) {
    assert!(matches!(a.checked_add(b), Some(sum) if sum == n), "the parts are not as long as the record");
}

impl<const N: usize> Fixed for [u8; N] {
    const LEN: usize = N;

    #[inline(always)]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        reader.array()
    }

    #[inline(always)]
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        writer.bytes(self)
    }
}

impl<T: Fixed, const N: usize> Fixed for Rows<T, N> {
    // An overflow here stops the build.
    #[allow(clippy::arithmetic_side_effects)]
    const LEN: usize = T::LEN * N;

    #[inline(always)]
    fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        const { assert!(N > 0, "there is at least one row") };
        let mut rows = [T::read(reader)?; N];
        for row in rows.iter_mut().skip(1) {
            *row = T::read(reader)?;
        }
        Ok(Self(rows))
    }

    #[inline(always)]
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        self.0.iter().try_for_each(|row| row.write(writer))
    }
}

macro_rules! numbers {
    ($($number:ident)*) => {
        $(
            impl Fixed for Le<$number> {
                const LEN: usize = size_of::<$number>();

                #[inline(always)]
                fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
                    reader.array().map(|bytes| Self($number::from_le_bytes(bytes)))
                }

                #[inline(always)]
                fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
                    writer.bytes(&self.0.to_le_bytes())
                }
            }

            impl Fixed for Be<$number> {
                const LEN: usize = size_of::<$number>();

                #[inline(always)]
                fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
                    reader.array().map(|bytes| Self($number::from_be_bytes(bytes)))
                }

                #[inline(always)]
                fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
                    writer.bytes(&self.0.to_be_bytes())
                }
            }

            impl sealed::Sealed for Le<$number> {}
            impl sealed::Sealed for Be<$number> {}
        )*
    };
}

numbers! { u16 u32 u64 }

macro_rules! tuples {
    ($($($field:ident)+;)*) => {
        $(
            impl<$($field: Fixed),+> Fixed for ($($field,)+) {
                // An overflow here stops the build.
                #[allow(clippy::arithmetic_side_effects)]
                const LEN: usize = 0 $(+ $field::LEN)+;

                #[inline(always)]
                fn read(reader: &mut Reader<'_>) -> Result<Self, ReadError> {
                    Ok(($($field::read(reader)?,)+))
                }

                #[inline(always)]
                #[allow(non_snake_case)]
                fn write(&self, writer: &mut Writer<'_>) -> Result<(), WriteError> {
                    let ($($field,)+) = self;
                    $($field.write(writer)?;)+
                    Ok(())
                }
            }

            impl<$($field: Fixed),+> sealed::Sealed for ($($field,)+) {}
        )*
    };
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}

mod sealed {
    /// Implemented by this module alone.
    pub trait Sealed {}
    impl<const N: usize> Sealed for [u8; N] {}
    impl<T: super::Fixed, const N: usize> Sealed for super::Rows<T, N> {}
}
