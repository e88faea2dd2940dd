//! The record in the trusted store. FORMATS.md, "Sealed flash".

use atrest_codec::{Le, decode, encode, split};
use atrest_device::TRUSTED_RECORD_LEN;

use super::error::SealedError;
use super::header::AnchoredHeader;
use super::rotation::{ROTATING, Rotation};
use super::serial::{self, Epoch, SALT_LEN, SERIAL_END, SERIAL_LEN, Salt};
use crate::header::DIGEST_LEN;

/// What a block holds: enough to add it to a sum or to take it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) block: u32,
    pub(crate) epoch: Epoch,
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
    /// Of the session that wrote this: what is newer was sealed under no other.
    pub(crate) salt: Salt,
    /// The block that was to be erased next, and what it held.
    pub(crate) victim: Option<Stamp>,
    /// Of the volume key.
    pub(crate) rotation: Rotation,
}

/// A record as it is stored: what it says of the medium with its tag, and the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    /// Over the record and the sum. The header is not under it, so that a header can be replaced where nobody has read the medium.
    pub(crate) tag: [u8; TAG],
    pub(crate) header: AnchoredHeader,
}

pub(crate) const TAG: usize = 16;
/// Bytes of a record that its tag authenticates.
pub(crate) const BODY: usize = 9 + SALT_LEN + Stamp::LEN;
const HEADER: usize = SEQUENCE_LEN + 2 * DIGEST_LEN;
/// Bytes of a header's sequence number.
const SEQUENCE_LEN: usize = 6;

/// 1 had no salts and no header.
const VERSION: u8 = 2;
const CLEAN: u8 = 1;
const VICTIM: u8 = 2;
const CACHED: u8 = 4;
const RESERVE_SHIFT: u32 = 3;
/// Reserves that a record can have. Others are left for later versions.
pub(crate) const RESERVES: core::ops::RangeInclusive<u8> = 3..=31;

/// In the place of the reserve: the volume is in another store's hands.
const HANDED_OVER: u8 = 0;

type Body = ([u8; 2], [u8; 1], [u8; 1], [u8; SERIAL_LEN], Salt, [u8; Stamp::LEN]);
type Header = ([u8; SEQUENCE_LEN], [u8; DIGEST_LEN], [u8; DIGEST_LEN]);

impl Record {
    /// The first serial that is not allowed.
    pub(crate) fn limit(&self) -> u64 {
        // cannot overflow: serials are counted by 40 bits, and a reserve is 2^31 at most.
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
        let moving = self.rotation.moving();
        let (version, _) = self.rotation.version_and_number(VERSION, 0);
        let state = flag(self.clean | moving.is_some(), CLEAN)
            | flag(self.victim.or(moving).is_some(), VICTIM)
            | flag(self.cached, CACHED)
            | self.reserve.wrapping_shl(RESERVE_SHIFT);
        let victim = moving.or(self.victim).map_or([0; Stamp::LEN], |victim| victim.to_bytes());
        let anchor = serial::to_bytes(self.anchor);
        encode::<Body, BODY>((self.mark, [version], [state], anchor, self.salt, victim))
    }

    /// `number`: what stands beside it, the header's sequence number, or the first serial under the new key.
    fn parse(body: &[u8; BODY], number: u64) -> Result<Self, SealedError> {
        let (mark, [version], [state], anchor, salt, victim): Body = decode(body);
        let reserve = state.wrapping_shr(RESERVE_SHIFT);
        if version < VERSION {
            return Err(SealedError::EarlierVersion);
        }
        if version == VERSION && reserve == HANDED_OVER {
            return Err(SealedError::HandedOver { header: number });
        }
        if version > ROTATING || !RESERVES.contains(&reserve) {
            return Err(SealedError::LaterVersion);
        }
        let mut record = Self {
            mark,
            clean: state & CLEAN != 0,
            cached: state & CACHED != 0,
            reserve,
            anchor: serial::from_bytes(anchor),
            salt,
            victim: (state & VICTIM != 0).then(|| Stamp::from_bytes(&victim)),
            rotation: Rotation::default(),
        };
        if version == ROTATING {
            record.rotation = Rotation::parse(number, &mut record.clean, &mut record.victim)?;
        }
        Ok(record)
    }
}

impl Stored {
    pub(crate) fn to_bytes(self) -> [u8; TRUSTED_RECORD_LEN] {
        let AnchoredHeader { sequence, digest, next } = self.header;
        let (_, number) = self.record.rotation.version_and_number(VERSION, sequence);
        let header: [u8; HEADER] = encode::<Header, HEADER>((sequence_bytes(number), digest, next));
        encode((self.record.body(), header, self.tag))
    }

    pub(crate) fn from_bytes(bytes: &[u8; TRUSTED_RECORD_LEN]) -> Result<Self, SealedError> {
        let (body, header, tag): ([u8; BODY], [u8; HEADER], [u8; TAG]) = decode(bytes);
        let (number, digest, next): Header = decode(&header);
        let record = Record::parse(&body, sequence_of(number))?;
        let sequence = record.rotation.header_sequence(sequence_of(number));
        Ok(Self { record, tag, header: AnchoredHeader { sequence, digest, next } })
    }

    /// What takes its place once another store has the volume. `header`: number of the header that the other store names.
    pub(crate) fn handed_over(self, header: u64) -> [u8; TRUSTED_RECORD_LEN] {
        let record = Record { reserve: HANDED_OVER, rotation: Rotation::default(), ..self.record };
        let header = AnchoredHeader { sequence: header, ..AnchoredHeader::default() };
        Self { record, tag: [0; TAG], header }.to_bytes()
    }

    /// The first bytes of a record of any version: the mark of its volume.
    pub(crate) fn mark(bytes: &[u8; TRUSTED_RECORD_LEN]) -> &[u8; 2] {
        let (mark, _): (_, &[u8; TRUSTED_RECORD_LEN - 2]) = split(bytes);
        mark
    }
}

/// Six bytes, little endian. The sequence number is below 2^40, which was checked.
fn sequence_bytes(sequence: u64) -> [u8; SEQUENCE_LEN] {
    let [a, b, c, d, e, f, ..] = sequence.to_le_bytes();
    [a, b, c, d, e, f]
}

fn sequence_of(bytes: [u8; SEQUENCE_LEN]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

impl Stamp {
    pub(crate) const LEN: usize = super::layout::TICKET_LEN;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        // A block has fewer units than 16 bits count.
        let fill = self.fill as u16;
        encode((Le(self.block), serial::to_bytes(self.epoch.serial), Le(fill), self.epoch.salt))
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let (Le(block), epoch, Le(fill), salt): (Le<u32>, [u8; SERIAL_LEN], Le<u16>, [u8; SALT_LEN]) =
            decode(bytes);
        Self { block, epoch: Epoch { serial: serial::from_bytes(epoch), salt }, fill: fill.into() }
    }
}

/// What a record says to whoever has no key, and so can't tell whether it is genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFields {
    /// The volume was closed in good order: nothing on the medium is newer.
    pub closed: bool,
    /// Serials below this one were used when it was written.
    pub anchor: u64,
    /// 2 to this power are the serials that a power loss costs.
    pub reserve: u8,
    /// Sequence number of the volume's header.
    pub header: u64,
}

impl RecordFields {
    /// None if it is none, or another version wrote it.
    pub fn of(record: &[u8; TRUSTED_RECORD_LEN]) -> Option<Self> {
        Self::read(record).ok()
    }

    /// Reads the fields of a record.
    ///
    /// # Errors
    /// [`SealedError::EarlierVersion`] or [`SealedError::LaterVersion`] if another version wrote it, or if it
    /// is no record. [`SealedError::HandedOver`] if another store has the volume now.
    pub fn read(record: &[u8; TRUSTED_RECORD_LEN]) -> Result<Self, SealedError> {
        let Stored { record, header, .. } = Stored::from_bytes(record)?;
        Ok(Self {
            closed: record.clean,
            anchor: record.anchor,
            reserve: record.reserve,
            header: header.sequence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lies_as_documented_and_reads_back() {
        let epoch = Epoch { serial: 0x35_3433_3231, salt: [0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57] };
        let record = Record {
            mark: [0xa1, 0xa2],
            clean: false,
            cached: false,
            reserve: 12,
            anchor: 0x05_0403_0201,
            salt: [0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77],
            victim: Some(Stamp { block: 0x2423_2221, epoch, fill: 0x4241 }),
            rotation: Rotation::default(),
        };
        let header = AnchoredHeader { sequence: 0x65_6463_6261, digest: [8; 12], next: [9; 12] };
        let stored = Stored { record, tag: [7; TAG], header };
        let bytes = stored.to_bytes();
        let mut expected = [7; TRUSTED_RECORD_LEN];
        expected[..40].copy_from_slice(&[
            0xa1, 0xa2, 2, 0x62, 1, 2, 3, 4, 5, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x21, 0x22, 0x23,
            0x24, 0x31, 0x32, 0x33, 0x34, 0x35, 0x41, 0x42, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x61,
            0x62, 0x63, 0x64, 0x65, 0,
        ]);
        expected[40..52].fill(8);
        expected[52..64].fill(9);
        assert_eq!(bytes, expected);
        assert_eq!(Stored::from_bytes(&bytes), Ok(stored));
        let clean = Record { clean: true, cached: true, victim: None, ..record };
        let clean = Stored { record: clean, ..stored };
        assert_eq!((clean.to_bytes()[3], Stored::from_bytes(&clean.to_bytes())), (0x65, Ok(clean)));
        let fields =
            RecordFields { closed: false, anchor: 0x05_0403_0201, reserve: 12, header: 0x65_6463_6261 };
        assert_eq!(RecordFields::of(&bytes), Some(fields));
        for (at, byte, refused) in [
            (2, 1, SealedError::EarlierVersion),
            (2, 4, SealedError::LaterVersion),
            (3, 2 << RESERVE_SHIFT, SealedError::LaterVersion),
            (3, 0, SealedError::HandedOver { header: 0x65_6463_6261 }),
        ] {
            let mut other = bytes;
            other[at] = byte;
            assert_eq!(Stored::from_bytes(&other), Err(refused));
            assert_eq!(RecordFields::of(&other), None);
        }
        // Of a rotation: its first serial is where the number of the header was, and both flags name a block that is moved.
        let moving = Stamp { block: 0x2423_2221, epoch, fill: 0x4241 };
        for (flags, clean, victim, moving) in [
            (0, false, None, None),
            (1, true, None, None),
            (2, false, Some(moving), None),
            (3, false, None, Some(moving)),
        ] {
            let mut rotating = bytes;
            (rotating[2], rotating[3]) = (3, 0x60 | flags);
            let rotation = Rotation { from: 0x65_6463_6261, moving };
            let record = Record { clean, victim, rotation, ..stored.record };
            let read = Stored { record, header: AnchoredHeader { sequence: 0, ..header }, ..stored };
            assert_eq!(Stored::from_bytes(&rotating), Ok(read), "{flags}");
            if flags > 1 {
                assert_eq!(read.to_bytes(), rotating);
            }
            for none in [[0; 6], [0, 0, 0, 0, 0, 1]] {
                rotating[34..40].copy_from_slice(&none);
                assert_eq!(Stored::from_bytes(&rotating), Err(SealedError::LaterVersion));
            }
            assert_eq!(read.handed_over(7)[..4], [0xa1, 0xa2, 2, if flags == 3 { 0 } else { flags }]);
        }
        let handed = stored.handed_over(7);
        assert_eq!((&handed[..3], handed[3] >> RESERVE_SHIFT), (&[0xa1, 0xa2, 2][..], 0));
        assert!(handed[BODY + SERIAL_LEN..].iter().all(|byte| *byte == 0), "it confirms nothing");
        assert_eq!(RecordFields::read(&handed), Err(SealedError::HandedOver { header: 7 }));
    }
}
