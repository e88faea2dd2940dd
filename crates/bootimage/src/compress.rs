//! gzip, xz and zstd, one stream at a time: the kernel goes on behind the end of a stream, and so must we.

use std::fmt;
use std::io::{self, Read, Write};

use flate2::bufread::GzDecoder;
use lzma_rust2::{CheckType, XzOptions, XzReader, XzWriter};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// How a run of bytes is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// The .xz format.
    Xz,
    /// Zstandard frames.
    Zstd,
}

impl Compression {
    /// All of them, in the order of their names in messages.
    pub const ALL: [Self; 4] = [Self::None, Self::Gzip, Self::Xz, Self::Zstd];

    /// The name, as U-Boot and the command line spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }

    /// By the first bytes of a stream; `None` if they are of no compressed stream known here.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        let known: [(&[u8], Self); 3] = [
            (&[0x1f, 0x8b], Self::Gzip),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], Self::Xz),
            (&[0x28, 0xb5, 0x2f, 0xfd], Self::Zstd),
        ];
        known.into_iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, compression)| compression)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Kibibytes that an xz decoder may take: the dictionary of its highest preset is 64 MiB.
const XZ_MEMORY: u32 = 96 << 10;

/// A stream that could not be unpacked.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompressError {
    /// The stream ends early or is damaged.
    Damaged {
        /// How it is compressed.
        compression: Compression,
        /// What the decoder says.
        cause: String,
    },
    /// It unpacks to more than is allowed.
    TooLarge {
        /// Bytes allowed.
        limit: u64,
    },
    /// The kernel knows this compression, we don't.
    Unsupported {
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for CompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { compression, cause } => {
                write!(f, "the {compression} stream is damaged ({cause})")
            }
            Self::TooLarge { limit } => write!(f, "it unpacks to more than {limit} bytes"),
            Self::Unsupported { name } => {
                write!(f, "it is compressed with {name}; gzip, xz and zstd are known")
            }
        }
    }
}

impl std::error::Error for CompressError {}

/// Names the compressions that the kernel can be built with and that are not known here.
pub fn unsupported_name(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 5] = [
        (b"BZh", "bzip2"),
        (&[0x5d, 0, 0], "lzma"),
        (&[0x89, b'L', b'Z', b'O'], "lzo"),
        (&[0x02, 0x21, 0x4c, 0x18], "lz4"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
    ];
    known.into_iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, name)| name)
}

/// Unpacks the one stream that `bytes` begins with into at most `limit` bytes; returns it and how many bytes of input
/// it took. Whatever follows is left alone.
///
/// # Errors
/// [`CompressError::Damaged`] if the stream is damaged or cut off, [`CompressError::TooLarge`] if it unpacks
/// to more than `limit` bytes.
pub fn unpack_one(
    compression: Compression,
    bytes: &[u8],
    limit: u64,
) -> Result<(Vec<u8>, usize), CompressError> {
    let mut rest = bytes;
    let unpacked = match compression {
        Compression::None => {
            rest = &[];
            within(bytes.len(), limit).map(|()| bytes.to_vec())?
        }
        Compression::Gzip => {
            let mut decoder = GzDecoder::new(rest);
            let unpacked = read_limited(compression, &mut decoder, limit)?;
            rest = decoder.into_inner();
            unpacked
        }
        Compression::Xz => {
            let mut decoder = XzReader::new_mem_limit(rest, false, XZ_MEMORY);
            let unpacked = read_limited(compression, &mut decoder, limit)?;
            rest = decoder.into_inner();
            unpacked
        }
        Compression::Zstd => unzstd(&mut rest, limit)?,
    };
    // cannot be less: the rest is a part of it.
    Ok((unpacked, bytes.len().saturating_sub(rest.len())))
}

/// Unpacks a file that is one stream or several of them and nothing else, as kernel modules are.
///
/// # Errors
/// [`CompressError::Damaged`] if a stream is damaged or cut off, or if something else follows it.
/// [`CompressError::TooLarge`] if all of them unpack to more than `limit` bytes.
pub fn unpack_all(compression: Compression, bytes: &[u8], limit: u64) -> Result<Vec<u8>, CompressError> {
    let (mut unpacked, mut taken) = unpack_one(compression, bytes, limit)?;
    while let Some(rest) = bytes.get(taken..).filter(|rest| Compression::detect(rest) == Some(compression)) {
        // cannot be less: unpack_one stops at the limit.
        let left = limit.saturating_sub(unpacked.len() as u64);
        let (more, used) = unpack_one(compression, rest, left)?;
        unpacked.extend_from_slice(&more);
        // cannot overflow: at most the length of the file.
        taken = taken.saturating_add(used);
    }
    if taken != bytes.len() {
        return Err(damaged(compression, "something else follows it"));
    }
    Ok(unpacked)
}

/// Compresses into one stream that the kernel unpacks: xz with CRC32 (the only check that every kernel knows) and
/// without filters for machine code, gzip without a time or name. The same bytes give the same stream.
///
/// # Errors
/// The encoder's own errors. It writes to memory, so no device is behind them.
pub fn pack(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(bytes.to_vec()),
        Compression::Gzip => {
            let mut encoder =
                flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::best());
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        Compression::Xz => {
            let mut options = XzOptions::with_preset(6);
            options.set_check_sum_type(CheckType::Crc32);
            let mut encoder = XzWriter::new(Vec::new(), options)?;
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        Compression::Zstd => Ok(compress_to_vec(bytes, CompressionLevel::Fastest)),
    }
}

fn unzstd(rest: &mut &[u8], limit: u64) -> Result<Vec<u8>, CompressError> {
    let fail = |error: &dyn fmt::Display| damaged(Compression::Zstd, error);
    let mut decoder = FrameDecoder::new();
    decoder.init(&mut *rest).map_err(|error| fail(&error))?;
    let mut unpacked = Vec::new();
    loop {
        let finished = decoder
            .decode_blocks(&mut *rest, BlockDecodingStrategy::UptoBytes(1 << 20))
            .map_err(|error| fail(&error))?;
        if let Some(part) = decoder.collect() {
            // cannot overflow: bytes in memory.
            within(unpacked.len().saturating_add(part.len()), limit)?;
            unpacked.extend_from_slice(&part);
        }
        if finished {
            break;
        }
    }
    let (stored, calculated) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
    if stored.is_some() && stored != calculated {
        return Err(fail(&"its checksum is wrong"));
    }
    Ok(unpacked)
}

fn read_limited(
    compression: Compression,
    decoder: &mut impl Read,
    limit: u64,
) -> Result<Vec<u8>, CompressError> {
    let mut unpacked = Vec::new();
    // intended: one byte more than is allowed, if there is such a number.
    let read = decoder.by_ref().take(limit.saturating_add(1)).read_to_end(&mut unpacked);
    read.map_err(|error| damaged(compression, error))?;
    within(unpacked.len(), limit)?;
    Ok(unpacked)
}

fn within(len: usize, limit: u64) -> Result<(), CompressError> {
    if len as u64 > limit { Err(CompressError::TooLarge { limit }) } else { Ok(()) }
}

fn damaged(compression: Compression, cause: impl fmt::Display) -> CompressError {
    CompressError::Damaged { compression, cause: cause.to_string() }
}
