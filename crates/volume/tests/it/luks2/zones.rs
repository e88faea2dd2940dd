//! Zones of a re-encryption against a model of the medium: at any moment the segments in the header tell of every sector where
//! it lies and under which key, whatever the sizes are and wherever it stops.
//!
//! Nothing is encrypted here. A sector holds what it stands for: its number, and the key that it is said to be under.

use atrest_device::BlockDevice;
use atrest_format::luks2::{Segment, SegmentKind, SegmentSize};
use atrest_testkit::FaultDevice;
use atrest_testkit::property::hold;
use atrest_testkit::property::proptest::prelude::*;
use atrest_volume::luks2::reencrypt::{
    EncryptOptions, ReencryptOptions, ResilienceKind, Rewriting, Zone, begin_encryption,
};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{Devices, FormatOptions};

use crate::luks2::support::{KEYSLOTS_SIZE, keyslot, passphrase, small};

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;
/// By how much plaintext moves to make room for a header.
const SHIFT: u64 = 3 * MIB;

/// Under which key a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Plain = 1,
    Old,
    New,
}

fn sector(side: Side, number: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    bytes[0] = side as u8;
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// What is done.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A volume, header in front, gets another key and data units of so many bytes.
    Reencrypt(ResilienceKind, u32),
    /// Plaintext gets a detached header.
    Detached(ResilienceKind),
    /// Plaintext moves to make room for a header.
    Moved,
}

/// A course of events: the size in units of 4 KiB, the most bytes of each zone, and after which of them the run stops, with
/// its zone half written.
#[derive(Clone, Debug)]
struct Course {
    what: What,
    size: u64,
    zones: Vec<(u64, bool)>,
}

fn courses() -> impl Strategy<Value = Course> {
    let resilience = || {
        prop::sample::select(vec![ResilienceKind::Checksum, ResilienceKind::Journal, ResilienceKind::None])
    };
    let what = prop_oneof![
        3 => (resilience(), prop::sample::select(vec![512_u32, 1024, 4096]))
            .prop_map(|(resilience, unit)| What::Reencrypt(resilience, unit)),
        2 => resilience().prop_map(What::Detached),
        4 => Just(What::Moved),
    ];
    let zones = prop::collection::vec((1..200_000_u64, any::<bool>()), 1..8);
    (what, 1..60_u64, zones).prop_map(|(what, size, zones)| Course { what, size, zones })
}

/// The devices, and where the data of the volume begins.
struct Media {
    header: Option<FaultDevice>,
    data: FaultDevice,
    total: u64,
}

impl Media {
    fn devices(&self) -> Devices<'_> {
        match &self.header {
            Some(header) => Devices::detached(header, &self.data),
            None => Devices::together(&self.data),
        }
    }

    fn read(&self) -> Luks2 {
        Luks2::read(self.devices().header).expect("reads")
    }

    fn put(&self, at: u64, side: Side, number: u64) {
        self.data.write_at(at, &sector(side, number)).expect("writes");
    }

    fn begin(course: &Course) -> Self {
        let one = passphrase("one");
        match course.what {
            What::Reencrypt(resilience, data_unit) => {
                let offset = 0x8000 + KEYSLOTS_SIZE + (1 << 20);
                let offset = offset.next_multiple_of(MIB);
                let total = 4096 * course.size;
                let media =
                    Self { header: None, data: FaultDevice::zeroed((offset + total) as usize), total };
                let format = FormatOptions { data_offset: Some(offset), data_unit: Some(512), ..small() };
                let luks = luks2::format(media.devices(), &one, &format).expect("formats");
                (0..total / SECTOR).for_each(|number| media.put(offset + SECTOR * number, Side::Old, number));
                let options = ReencryptOptions {
                    data_unit: Some(data_unit),
                    resilience,
                    keyslot: keyslot(),
                    ..ReencryptOptions::default()
                };
                luks.begin_reencryption(media.devices(), &[(&one, None)], &options).expect("begins");
                media
            }
            What::Detached(resilience) => {
                let total = 4096 * course.size;
                let header = Some(FaultDevice::zeroed(4 << 20));
                let media = Self { header, data: FaultDevice::zeroed(total as usize), total };
                (0..total / SECTOR).for_each(|number| media.put(SECTOR * number, Side::Plain, number));
                let options = EncryptOptions { format: small(), resilience, hash: None, part: None };
                begin_encryption(media.devices(), &one, options).expect("begins");
                media
            }
            What::Moved => {
                // Less than a shift of data, or more.
                let total = (4096 * course.size * 31) % (3 * SHIFT);
                let data = FaultDevice::zeroed((total + 2 * SHIFT) as usize);
                let media = Self { header: None, data, total };
                (0..total / SECTOR).for_each(|number| media.put(SECTOR * number, Side::Plain, number));
                let format = FormatOptions { data_offset: Some(SHIFT), ..small() };
                let options =
                    EncryptOptions { format, resilience: ResilienceKind::default(), hash: None, part: None };
                begin_encryption(media.devices(), &one, options).expect("begins");
                media
            }
        }
    }

    /// Holds every sector against what the header says of it. Of a zone that is hot nothing is said.
    fn check(&self) {
        let (luks, image) = (self.read(), self.data.image());
        let metadata = luks.metadata();
        let state = metadata.reencryption().ok();
        let active = metadata.segments().iter().filter(|segment| {
            !["backup-previous", "backup-final", "backup-moved-segment"]
                .iter()
                .any(|flag| segment.has_flag(flag))
        });
        let mut at = 0;
        for segment in active {
            let len = match segment.size {
                SegmentSize::Fixed(len) => len,
                SegmentSize::Dynamic => self.total - at,
            };
            let side = self.side(&luks, segment, state.as_ref().and_then(|state| state.digest_previous));
            if !segment.has_flag("in-reencryption") {
                for skip in (0..len).step_by(SECTOR as usize) {
                    let place = (segment.offset + skip) as usize;
                    let found = &image[place..place + SECTOR as usize];
                    let expected = sector(side, (at + skip) / SECTOR);
                    assert!(found == expected, "sector {} is not {side:?} at {place}", (at + skip) / SECTOR);
                }
            }
            at += len;
        }
        assert_eq!(at, self.total, "the segments are as long as the data");
    }

    fn side(&self, luks: &Luks2, segment: &Segment, previous: Option<u32>) -> Side {
        match (&segment.kind, luks.metadata().digest_of_segment(segment.id)) {
            (SegmentKind::Linear, None) => Side::Plain,
            (SegmentKind::Crypt { .. }, Some(digest)) if Some(digest.id) == previous => Side::Old,
            (SegmentKind::Crypt { .. }, Some(_)) => Side::New,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a part of a zone, from the first sector on, from what it held.
    fn write(&self, zone: &Zone, held: &[u8], sectors: u64) {
        for (number, held) in
            (zone.offset / SECTOR..).zip(held.chunks(SECTOR as usize)).take(sectors as usize)
        {
            let sides = [Side::Plain, Side::Old];
            assert!(
                sides.iter().any(|side| held == sector(*side, number)),
                "sector {number} was not read from {zone:?}"
            );
            self.put(zone.target + number * SECTOR - zone.offset, Side::New, number);
        }
    }
}

fn resume(media: &Media) -> Rewriting<'_> {
    media.read().resume_reencryption(media.devices(), &passphrase("one")).expect("it is verified")
}

/// Does a zone. If the run is to stop in it, another run finds it, and does it from what was there.
fn do_zone<'a>(
    media: &'a Media,
    mut rewriting: Rewriting<'a>,
    zone: Zone,
    stops: bool,
) -> (Rewriting<'a>, bool) {
    let mut held = vec![0; zone.len as usize];
    media.data.read_at(zone.source, &mut held).expect("reads");
    if matches!(rewriting.protection(&zone), luks2::reencrypt::Protection::Elsewhere) {
        let apart = zone.source + zone.len <= zone.target || zone.target + zone.len <= zone.source;
        assert!(apart, "{zone:?} overwrites what it is made of");
    }
    rewriting.heat(&zone, &[]).expect("heats");
    media.check();
    let protects = !matches!(rewriting.protection(&zone), luks2::reencrypt::Protection::None);
    if stops && protects {
        media.write(&zone, &held, zone.len / SECTOR / 2);
        media.check();
        drop(rewriting);
        rewriting = resume(media);
        assert_eq!(rewriting.interrupted(), Ok(Some(zone)));
    }
    media.write(&zone, &held, zone.len / SECTOR);
    let ended = rewriting.cool(&zone).expect("cools");
    media.check();
    (rewriting, ended)
}

#[test]
fn segments_tell_where_every_sector_is_and_under_which_key() {
    hold("reencryption-zones", 10, 1000, courses(), |course| {
        let media = Media::begin(&course);
        media.check();
        let mut rewriting = resume(&media);
        assert_eq!((rewriting.total(), rewriting.done()), (media.total, Ok(0)));
        let mut sizes = course.zones.iter().cycle();
        let mut done = 0;
        loop {
            media.data.forget();
            let (most, stops) = *sizes.next().expect("without end");
            // Small zones of many sectors would take for ever.
            let most = most.max(media.total / 12);
            let zone = rewriting.next(most).expect("a zone").expect("there is more to do");
            done += zone.len;
            let ended;
            (rewriting, ended) = do_zone(&media, rewriting, zone, stops);
            assert_eq!(ended, done == media.total, "{done} of {} are done", media.total);
            if ended {
                break;
            }
            assert_eq!(rewriting.done(), Ok(done));
        }
        if matches!(course.what, What::Moved) {
            // The head is not there any more.
            let image = media.data.image();
            let head = image[image.len() - SHIFT as usize..].chunks(SECTOR as usize);
            assert!((0..).zip(head).all(|(number, found)| found != sector(Side::Plain, number)));
        }
        assert!(media.read().metadata().reencryption().is_err());
    });
}
