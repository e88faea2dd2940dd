//! Reads the record of `crates/cipher/tests/recording`.

use atrest_cipher::MapperOptions;

/// Where a run starts.
pub enum Start<'a> {
    /// At a data unit, for a mapper.
    Unit(u64),
    /// Under a tweak, for `Xts`.
    Tweak(&'a [u8; 16]),
}

/// One run with what becomes of it.
pub struct Case<'a> {
    pub spec: &'a str,
    pub key: &'a [u8],
    pub options: MapperOptions,
    pub start: Start<'a>,
    pub encrypt: bool,
    pub input: &'a [u8],
    pub output: &'a [u8],
}

impl<'a> Case<'a> {
    /// Whether vectors do most of it, and not AES.
    pub fn is_of_vectors(&self) -> bool {
        ["adiantum", "hpolyc", "chacha"].iter().any(|name| self.spec.contains(name))
    }

    /// The first case of a record, and the rest of it.
    pub fn read(record: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut fields = Fields(record);
        let is_xts = fields.byte()? == 1;
        let spec = fields.counted()?;
        let key = fields.counted()?;
        let options = MapperOptions {
            data_unit: u32::from_le_bytes(*fields.array()?) as usize,
            iv_offset: u64::from_le_bytes(*fields.array()?),
            iv_large: fields.byte()? == 1,
            allow_equal_xts_halves: fields.byte()? == 1,
            // The cases write to nothing that is kept.
            single_snapshot: true,
            ..MapperOptions::default()
        };
        let start = if is_xts {
            Start::Tweak(fields.array()?)
        } else {
            Start::Unit(u64::from_le_bytes(*fields.array()?))
        };
        let encrypt = fields.byte()? == 1;
        let len = u32::from_le_bytes(*fields.array()?) as usize;
        let input = fields.bytes(len)?;
        let output = fields.bytes(len)?;
        let spec = core::str::from_utf8(spec).ok()?;
        Some((Self { spec, key, options, start, encrypt, input, output }, fields.0))
    }
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(field)
    }

    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| *byte)
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = u16::from_le_bytes(*self.array()?);
        self.bytes(usize::from(len))
    }
}
