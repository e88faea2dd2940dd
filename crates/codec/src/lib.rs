//! Reads and writes byte layouts strictly. Parsers and encoders of binary data use this crate.
//!
//! Three rules hold everywhere:
//!
//! 1. Reading past the end is an error. No missing byte reads as zero.
//! 2. Bytes that are left over are an error, once the caller says that a layout is over ([`Reader::finish`]).
//! 3. Writing what does not fit is an error. Nothing is cut off.
//!
//! # A layout of fixed length
//!
//! Most records have a length that the format states. [`decode`] and [`encode`] turn such a record into a tuple of fields
//! and back. They can't fail: the compiler compares the length of the fields with the length of the array.
//!
//! ```
//! use atrest_codec::{Be, Le, decode, encode};
//!
//! let bytes: [u8; 9] = encode((*b"AR", Le(0x0102_u16), Be(7_u32), [0xff]));
//! assert_eq!(bytes, *b"AR\x02\x01\0\0\0\x07\xff");
//!
//! let (magic, Le(version), Be(count), [flags]): ([u8; 2], Le<u16>, Be<u32>, [u8; 1]) = decode(&bytes);
//! assert_eq!((magic, version, count, flags), (*b"AR", 0x0102, 7, 0xff));
//! ```
//!
//! A field too many does not compile:
//!
//! ```compile_fail
//! let (_, _): ([u8; 2], atrest_codec::Le<u32>) = atrest_codec::decode(&[0; 5]);
//! ```
//!
//! Where only some fields of a long record matter, [`Record`] and [`RecordMut`] take the offset of a field as the format's
//! description states it. The compiler checks that the field lies in the record.
//!
//! ```
//! use atrest_codec::Record;
//!
//! let sector = [0xff; 512];
//! assert_eq!(Record::new(&sector).le16::<510>(), 0xffff);
//! ```
//!
//! # A layout of varying length
//!
//! ```
//! use atrest_codec::{ReadError, Reader, WriteError, Writer};
//!
//! /// A text with a length before it.
//! fn parse(message: &[u8]) -> Result<&[u8], ReadError> {
//!     let mut reader = Reader::new(message);
//!     let len = reader.be16()?;
//!     let text = reader.bytes(len.into())?;
//!     reader.finish()?;
//!     Ok(text)
//! }
//!
//! assert_eq!(parse(b"\0\x02hi"), Ok(&b"hi"[..]));
//! assert_eq!(parse(b"\0\x02h"), Err(ReadError::Short));
//! assert_eq!(parse(b"\0\x02hi!"), Err(ReadError::Trailing));
//!
//! let mut out = [0; 4];
//! let mut writer = Writer::new(&mut out);
//! writer.be16(2)?;
//! writer.bytes(b"hi")?;
//! assert_eq!(writer.bytes(b"!"), Err(WriteError::Full));
//! writer.finish()?;
//! assert_eq!(out, *b"\0\x02hi");
//! # Ok::<(), WriteError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

mod crc;
mod fixed;
mod reader;
mod record;
mod writer;

pub use crc::{crc32, crc32c, crc32c_without};
pub use fixed::{Be, Fixed, Le, Rows, decode, encode, split, split_mut};
pub use reader::{ReadError, Reader};
pub use record::{Record, RecordMut};
pub use writer::{WriteError, Writer};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
