//! Records of fixed length of which only some fields matter. A field is named by its offset, as format descriptions
//! do, and the compiler checks that it lies in the record.
//!
//! Inlined for the reason that [`decode`](crate::decode) is.

/// A record whose fields are read by their offset.
///
/// ```
/// use atrest_codec::Record;
///
/// let record = Record::new(b"\x01\0\x02\0\0\0");
/// assert_eq!((record.le16::<0>(), record.le32::<2>()), (1, 2));
/// assert_eq!(record.array::<2, 3>(), b"\x02\0\0");
/// ```
///
/// A field that reaches past the end does not compile:
///
/// ```compile_fail
/// atrest_codec::Record::new(b"\x01\0\x02\0\0\0").le32::<3>();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Record<'a, const N: usize>(&'a [u8; N]);

/// A record whose fields are written by their offset.
///
/// ```
/// use atrest_codec::RecordMut;
///
/// let mut bytes = [0; 6];
/// let mut record = RecordMut::new(&mut bytes);
/// record.set_le16::<0>(1);
/// record.set_be32::<2>(2);
/// assert_eq!(bytes, *b"\x01\0\0\0\0\x02");
/// ```
///
/// A field that does not fit does not compile:
///
/// ```compile_fail
/// atrest_codec::RecordMut::new(&mut [0; 6]).set_le32::<3>(1);
/// ```
#[derive(Debug)]
pub struct RecordMut<'a, const N: usize>(&'a mut [u8; N]);

impl<'a, const N: usize> Record<'a, N> {
    /// Returns the fields of `record`.
    #[inline(always)]
    pub const fn new(record: &'a [u8; N]) -> Self {
        Self(record)
    }

    /// Returns the bytes of the whole record.
    #[inline(always)]
    pub const fn bytes(self) -> &'a [u8; N] {
        self.0
    }

    /// Returns the `LEN` bytes from byte `AT` on.
    #[inline(always)]
    pub const fn array<const AT: usize, const LEN: usize>(self) -> &'a [u8; LEN] {
        const { assert_inside(AT, LEN, N) };
        let Some((_, rest)) = self.0.split_at_checked(AT) else { unreachable!() };
        let Some(field) = rest.first_chunk() else { unreachable!() };
        field
    }
}

impl<'a, const N: usize> RecordMut<'a, N> {
    /// Returns the fields of `record`, to be changed.
    #[inline(always)]
    pub const fn new(record: &'a mut [u8; N]) -> Self {
        Self(record)
    }

    /// Writes bytes from byte `AT` on.
    #[inline(always)]
    pub const fn set<const AT: usize, const LEN: usize>(&mut self, field: &[u8; LEN]) {
        const { assert_inside(AT, LEN, N) };
        let Some((_, rest)) = self.0.split_at_mut_checked(AT) else { unreachable!() };
        let Some(place) = rest.first_chunk_mut() else { unreachable!() };
        *place = *field;
    }
}

const fn assert_inside(at: usize, len: usize, record: usize) {
    assert!(matches!(at.checked_add(len), Some(end) if end <= record), "the field lies in the record");
}

macro_rules! numbers {
    ($($get:ident $set:ident $number:ident $len:literal $from:ident $to:ident $order:literal;)*) => {
        impl<const N: usize> Record<'_, N> {
            $(
                #[doc = concat!("Returns the `", stringify!($number), "` at byte `AT`", $order, ".")]
                #[inline(always)]
                pub const fn $get<const AT: usize>(self) -> $number {
                    $number::$from(*self.array::<AT, $len>())
                }
            )*
        }

        impl<const N: usize> RecordMut<'_, N> {
            $(
                #[doc = concat!("Writes a `", stringify!($number), "` at byte `AT`", $order, ".")]
                #[inline(always)]
                pub const fn $set<const AT: usize>(&mut self, number: $number) {
                    self.set::<AT, $len>(&number.$to());
                }
            )*
        }
    };
}

numbers! {
    u8 set_u8 u8 1 from_le_bytes to_le_bytes "";
    le16 set_le16 u16 2 from_le_bytes to_le_bytes ", the lowest byte first";
    le32 set_le32 u32 4 from_le_bytes to_le_bytes ", the lowest byte first";
    le64 set_le64 u64 8 from_le_bytes to_le_bytes ", the lowest byte first";
    be16 set_be16 u16 2 from_be_bytes to_be_bytes ", the highest byte first";
    be32 set_be32 u32 4 from_be_bytes to_be_bytes ", the highest byte first";
    be64 set_be64 u64 8 from_be_bytes to_be_bytes ", the highest byte first";
}
