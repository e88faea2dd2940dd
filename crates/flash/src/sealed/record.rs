//! The record in the trusted store. FORMATS.md, "Sealed flash".

use atrest_device::TRUSTED_RECORD_LEN;

use super::error::SealedError;
use super::serial::{self, SERIAL_END, SERIAL_LEN};

/// What a block holds: enough to add it to a sum or to take it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) block: u32,
    pub(crate) epoch: u64,
    pub(crate) fill: u32,
}

/// What is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Two bytes that depend on the keys: tells a store of another volume.
    pub(crate) mark: [u8; 2],
    /// Whether the volume was closed, so that there is nothing newer.
    pub(crate) clean: bool,
    /// Whether what is newer need not be a beginning of what was done since: whoever wrote this had a medium with a cache.
    pub(crate) cached: bool,
    /// Power of two: as many serials from the anchor on may be in use.
    pub(crate) reserve: u8,
    /// The next serial when this was written.
    pub(crate) anchor: u64,
    /// Blocks of earlier epochs are not appended to.
    pub(crate) start: u64,
    /// The block that was to be erased next, and what it held.
    pub(crate) victim: Option<Stamp>,
}

const TAG: usize = 16;
/// Bytes of a record that its tag authenticates.
pub(crate) const BODY: usize = TRUSTED_RECORD_LEN - TAG;

const CLEAN: u8 = 1;
const VICTIM: u8 = 2;
const CACHED: u8 = 4;
const RESERVE_SHIFT: u32 = 3;
/// Reserves that a record can have. Others are left for later versions.
pub(crate) const RESERVES: core::ops::RangeInclusive<u8> = 3..=31;

impl Record {
    /// The first serial that is not allowed.
    pub(crate) fn limit(&self) -> u64 {
        self.anchor.saturating_add(1_u64.wrapping_shl(self.reserve.into()))
    }

    /// Fails if a counter can't have seen this record: it was written beside another counter, or none, and brought here.
    pub(crate) fn check_counter(&self, records: Option<u64>) -> Result<(), SealedError> {
        let unused = records.map(|records| serial::unused_after(records).unwrap_or(SERIAL_END));
        match unused {
            Some(unused) if self.limit() > unused => {
                Err(SealedError::CounterBehind { limit: self.limit(), unused })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn body(&self) -> [u8; BODY] {
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        let state = flag(self.clean, CLEAN)
            | flag(self.victim.is_some(), VICTIM)
            | flag(self.cached, CACHED)
            | self.reserve.wrapping_shl(RESERVE_SHIFT);
        let mut body = [0; BODY];
        let victim = self.victim.map_or([0; Stamp::LEN], |victim| victim.to_bytes());
        let parts: [&[u8]; 5] =
            [&self.mark, &[state], &serial::to_bytes(self.anchor), &serial::to_bytes(self.start), &victim];
        let bytes = parts.into_iter().flatten();
        body.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        body
    }

    /// None if a later version wrote it.
    pub(crate) fn parse(body: &[u8; BODY]) -> Option<Self> {
        let (mark, rest) = body.split_first_chunk::<2>()?;
        let (state, rest) = rest.split_first()?;
        let (anchor, rest) = rest.split_first_chunk::<SERIAL_LEN>()?;
        let (start, rest) = rest.split_first_chunk::<SERIAL_LEN>()?;
        let victim = Stamp::from_bytes(rest.first_chunk()?);
        let reserve = state.wrapping_shr(RESERVE_SHIFT);
        if !RESERVES.contains(&reserve) {
            return None;
        }
        Some(Self {
            mark: *mark,
            clean: state & CLEAN != 0,
            cached: state & CACHED != 0,
            reserve,
            anchor: serial::from_bytes(*anchor),
            start: serial::from_bytes(*start),
            victim: (state & VICTIM != 0).then_some(victim),
        })
    }
}

impl Stamp {
    pub(crate) const LEN: usize = super::layout::TICKET_LEN;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let [a, b, c, d] = self.block.to_le_bytes();
        let [e, f, g, h, i] = serial::to_bytes(self.epoch);
        let [j, k, ..] = self.fill.to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k]
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k] = *bytes;
        Self {
            block: u32::from_le_bytes([a, b, c, d]),
            epoch: serial::from_bytes([e, f, g, h, i]),
            fill: u32::from_le_bytes([j, k, 0, 0]),
        }
    }
}

/// What a record says to whoever has no key, and so can't tell whether it is genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFields {
    /// The volume was closed in good order: nothing on the medium is newer.
    pub closed: bool,
    /// Serials below this one were used when it was written.
    pub anchor: u64,
}

impl RecordFields {
    /// None if it is none, or a later version wrote it.
    pub fn of(record: &[u8; TRUSTED_RECORD_LEN]) -> Option<Self> {
        let (body, _) = split(record)?;
        Record::parse(&body).map(|record| Self { closed: record.clean, anchor: record.anchor })
    }
}

/// Body and tag as they are stored.
pub(crate) fn join(body: &[u8; BODY], tag: &[u8; TAG]) -> [u8; TRUSTED_RECORD_LEN] {
    let mut record = [0; TRUSTED_RECORD_LEN];
    record.iter_mut().zip(body.iter().chain(tag)).for_each(|(to, from)| *to = *from);
    record
}

pub(crate) fn split(record: &[u8; TRUSTED_RECORD_LEN]) -> Option<([u8; BODY], [u8; TAG])> {
    let (body, tag) = record.split_first_chunk()?;
    Some((*body, *tag.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lies_as_documented_and_reads_back() {
        let record = Record {
            mark: [0xa1, 0xa2],
            clean: false,
            cached: false,
            reserve: 12,
            anchor: 0x05_0403_0201,
            start: 0x15_1413_1211,
            victim: Some(Stamp { block: 0x2423_2221, epoch: 0x35_3433_3231, fill: 0x4241 }),
        };
        let body = record.body();
        let expected = [
            0xa1, 0xa2, 0x62, 1, 2, 3, 4, 5, 0x11, 0x12, 0x13, 0x14, 0x15, 0x21, 0x22, 0x23, 0x24, 0x31,
            0x32, 0x33, 0x34, 0x35, 0x41, 0x42,
        ];
        assert_eq!(body, expected);
        assert_eq!(Record::parse(&body), Some(record));
        let clean = Record { clean: true, cached: true, victim: None, ..record };
        assert_eq!((clean.body()[2], Record::parse(&clean.body())), (0x65, Some(clean)));
        let mut later = body;
        later[2] = 2 << RESERVE_SHIFT;
        assert_eq!(Record::parse(&later), None);
        assert_eq!(split(&join(&body, &[7; TAG])), Some((body, [7; TAG])));
        let fields = RecordFields { closed: false, anchor: 0x05_0403_0201 };
        assert_eq!(RecordFields::of(&join(&body, &[7; TAG])), Some(fields));
        assert_eq!(RecordFields::of(&join(&later, &[7; TAG])), None);
    }
}
