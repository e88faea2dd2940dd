//! Bitmap mode and the computation of missing tags: power losses, and what is refused.

use atrest_device::Cause;
use atrest_format::integrity::Layout;
use atrest_testkit::power_loss::Limits;
use atrest_testkit::{Campaign, Random};

use super::*;

const SIZE: usize = 700 << 10;

fn options(kind: Kind, mode: Mode) -> OpenOptions {
    // Small regions, so that there are several.
    OpenOptions { unkeyed: true, sectors_per_bit: Some(64), ..kind.options(mode, false) }
}

fn open(kind: Kind, media: &Arc<FaultDevice>, options: OpenOptions) -> Integrity {
    let superblock = read_superblock(&**media, 0).expect("a superblock");
    let opened = Integrity::open(media.clone(), 0, kind.tagged(&superblock), options);
    opened.unwrap_or_else(|error| panic!("{kind:?}: {error}"))
}

fn stored(media: &FaultDevice) -> (Superblock, Layout) {
    let image = media.image();
    let superblock = Superblock::parse(&image).expect("a superblock");
    (superblock, Layout::new(&superblock, image.len() as u64, None).expect("it lies there"))
}

/// Spoils the tag of a unit.
fn spoil(media: &FaultDevice, layout: &Layout, unit: u64) {
    let at = layout.span(unit, 1).expect("a unit").tags;
    let mut tag = [0];
    media.read_at(at, &mut tag).expect("read");
    media.write_at(at, &[tag[0] ^ 0x55]).expect("spoilt");
}

fn unit_of(number: u64, step: u64, unit: usize) -> Vec<u8> {
    if step == 0 { vec![0; unit] } else { Random::new(number << 32 | step).bytes(unit) }
}

#[test]
fn what_was_flushed_in_bitmap_mode_survives_every_power_loss_and_no_tag_is_wrong_afterwards() {
    Campaign::new("dm-integrity's bitmap, power losses", 3, 150).run(|seed, random| {
        let mut kind = [KINDS[0], KINDS[2], KINDS[3]][seed as usize % 3].clear();
        kind.journal = [Some(1), Some(400)][random.index(2)];
        let media = kind.made(SIZE, 0);
        let unit = kind.unit as usize;
        let units = stored(&media).1.units().min(44);
        let from = random.below(3);
        if from == 0 {
            // All tags are still to be computed when it is opened.
            let (_, layout) = stored(&media);
            for number in 0..layout.units() {
                spoil(&media, &layout, number);
            }
        }
        media.forget();
        let mut written: Vec<(u64, u64)> = Vec::new();
        {
            let mut wanted = options(kind, Mode::Bitmap);
            wanted.recalculate = if from == 0 { Recalculate::Again } else { Recalculate::Missing };
            wanted.flush_time = Some(Duration::from_millis(1));
            let open = open(kind, &media, wanted);
            for step in 1..=12 {
                let first = random.below(units - 4);
                for number in first..=first + random.below(4) {
                    open.write(number * unit as u64, &mut unit_of(number, step, unit)).expect("written");
                    written.push((number, step));
                }
                if random.below(3) == 0 {
                    open.flush().expect("flushed");
                    media.acknowledge(step);
                }
                if random.below(3) == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
        let limits = Limits { exhaustive: 3, sampled: 3, tears: 1, seed, ..Default::default() };
        let visited = media.recording().for_each_power_loss(&limits, |after| {
            let promised = after.acknowledged.iter().copied().max().unwrap_or(0);
            for mode in [Mode::Bitmap, Mode::Journal] {
                let left = Arc::new(FaultDevice::new(after.image.clone()));
                let mut wanted = options(kind, mode);
                // Before the superblock says it, nobody knows that tags are missing.
                let unsaid = !stored(&left).0.flags.recalculating;
                if from == 0 && unsaid {
                    wanted.recalculate = Recalculate::Again;
                }
                let open = open(kind, &left, wanted);
                open.wait_until_recalculated().expect("computed");
                let mut found = vec![0; unit];
                for number in 0..open.size() / unit as u64 {
                    let read = open.read(number * unit as u64, &mut found);
                    read.unwrap_or_else(|error| panic!("{kind:?} {seed} {}: {error}", after.power_loss));
                    let of_unit = || written.iter().filter(|(other, _)| *other == number);
                    let newest = of_unit().map(|(_, step)| *step).max().unwrap_or(0);
                    // What was not flushed may be anything.
                    if newest <= promised {
                        assert!(
                            found == unit_of(number, newest, unit),
                            "{kind:?} {seed} {}: unit {number}",
                            after.power_loss
                        );
                    }
                }
                drop(open);
                assert!(!stored(&left).0.flags.dirty_bitmap, "closed");
            }
        });
        assert!(visited > 20, "{visited} states");
    });
}

#[test]
fn marks_are_on_the_media_before_the_data_and_go_with_time_and_at_the_end() {
    let kind = KINDS[0];
    let media = kind.made(SIZE, 0);
    let mut wanted = options(kind, Mode::Bitmap);
    wanted.flush_time = Some(Duration::from_millis(5));
    let served = open(kind, &media, wanted);
    let marks = || media.image()[4096..8192].iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert!(stored(&media).0.flags.dirty_bitmap && marks() == 0);
    served.write(512 * 63, &mut [7; 1024]).expect("written");
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while marks() > 0 {
        assert!(std::time::Instant::now() < deadline, "the marks stay");
        std::thread::yield_now();
    }
    drop(served);
    let (superblock, layout) = stored(&media);
    assert!(!superblock.flags.dirty_bitmap && !superblock.flags.recalculating);
    let (mut opened, mut run) = (Vec::new(), [0; 512]);
    for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
        let open = open(kind, &media, options(kind, mode));
        open.read(512 * 64, &mut run).expect("it is right");
        opened.push(run);
    }
    assert!(opened.iter().all(|run| *run == [7; 512]));
    spoil(&media, &layout, 64);
    let open = open(kind, &media, options(kind, Mode::Bitmap));
    assert!(open.read(512 * 64, &mut run).is_err(), "nothing that was closed is taken for marked");
}

#[test]
fn only_marked_regions_are_computed_again_after_a_crash() {
    let kind = KINDS[0];
    let media = kind.made(SIZE, 0);
    let left = {
        let open = open(kind, &media, options(kind, Mode::Bitmap));
        open.write(512 * 100, &mut [7; 512]).expect("written");
        Arc::new(FaultDevice::new(media.image()))
    };
    let (superblock, layout) = stored(&left);
    assert!(superblock.flags.dirty_bitmap);
    for unit in [64, 100, 127, 128, 63] {
        spoil(&left, &layout, unit);
    }
    let image = left.image();
    for (mode, sectors, read_only) in [
        (Mode::Bitmap, Some(64), false),
        (Mode::Bitmap, None, false),
        (Mode::Journal, Some(64), false),
        (Mode::Direct, None, false),
        (Mode::Journal, None, true),
    ] {
        let left = Arc::new(FaultDevice::new(image.clone()));
        let wanted = OpenOptions { sectors_per_bit: sectors, read_only, ..options(kind, mode) };
        let open = open(kind, &left, wanted);
        let before = left.counts();
        if !read_only {
            open.wait_until_recalculated().expect("computed");
        }
        let mut run = [0; 512];
        for unit in [64, 100, 127] {
            open.read(unit * 512, &mut run).unwrap_or_else(|error| panic!("{mode:?} {read_only}: {error}"));
        }
        // A coarser bitmap marks its whole region.
        if sectors.is_some() || mode != Mode::Bitmap {
            for unit in [63, 128] {
                let error = open.read(unit * 512, &mut run).expect_err("outside of the region");
                assert_eq!(error.cause, Cause::Tag { unit });
            }
        }
        if read_only {
            assert_eq!(left.counts(), before, "a reader writes nothing");
        }
    }
}

#[test]
fn tags_are_computed_once_and_again_only_if_that_is_asked_for() {
    let kind = KINDS[3].clear();
    let media = Arc::new(FaultDevice::zeroed(SIZE));
    create(media.clone(), 0, kind.wanted(None)).expect("there is room");
    let (_, layout) = stored(&media);
    let data = Random::new(4).bytes(1024);
    media.write_at(layout.span(77, 1).expect("a unit").data, &data).expect("written");
    for mode in [Mode::Journal, Mode::Direct, Mode::Bitmap] {
        let media = Arc::new(FaultDevice::new(media.image()));
        let with = |recalculate| OpenOptions { recalculate, ..options(kind, mode) };
        let start = open(kind, &media, with(Recalculate::Start));
        start.write(1024 * 78, &mut data.clone()).expect("written meanwhile");
        start.flush().expect("flushed");
        start.wait_until_recalculated().expect("computed");
        let mut run = [0; 1024];
        for unit in [77, 78] {
            start.read(1024 * unit, &mut run).expect("right");
            assert_eq!(run[..], data);
        }
        drop(start);
        let (superblock, _) = stored(&media);
        assert!(superblock.flags.recalculating && superblock.recalculate << 9 == superblock.provided);
        spoil(&media, &layout, 77);
        let again = open(kind, &media, with(Recalculate::Start));
        again.wait_until_recalculated().expect("nothing to do");
        assert_eq!(
            again.read(1024 * 77, &mut run).map_err(|error| error.cause),
            Err(Cause::Tag { unit: 77 })
        );
        drop(again);
        let reset = open(kind, &media, with(Recalculate::Again));
        reset.wait_until_recalculated().expect("computed");
        reset.read(1024 * 77, &mut run).expect("right");
        assert_eq!(run[..], data);
    }
}

/// What the kernel's `dm_integrity_disable_recalculate` says: with a key only if the superblock is authenticated.
#[test]
fn with_a_key_tags_are_computed_only_where_an_attacker_could_not_have_asked_for_it() {
    let kind = |journal_mac, tags| Kind { journal_mac, tags, ..KINDS[2].clear() };
    for (journal_mac, legacy_hmac, tags, allowed) in [
        (false, false, "hmac-sha256", false),
        (true, false, "hmac-sha256", true),
        (false, true, "hmac-sha256", false),
        (true, true, "hmac-sha256", false),
        (false, false, "sha256", true),
        (false, true, "sha256", true),
        (true, true, "sha256", false),
    ] {
        let kind = kind(journal_mac, tags);
        let media = Arc::new(FaultDevice::zeroed(SIZE));
        create(media.clone(), 0, NewIntegrity { legacy_hmac, ..kind.wanted(None) }).expect("there is room");
        let (superblock, _) = stored(&media);
        let unkeyed = tags == "sha256";
        for (legacy_recalculate, allowed) in [(false, allowed), (true, true)] {
            let before = media.counts();
            let options = OpenOptions {
                unkeyed,
                legacy_recalculate,
                recalculate: Recalculate::Again,
                ..kind.options(Mode::Journal, false)
            };
            let opened = Integrity::open(media.clone(), 0, kind.tagged(&superblock), options);
            match allowed {
                true => opened.expect("allowed").wait_until_recalculated().expect("computed"),
                false => {
                    assert_eq!(opened.err(), Some(IntegrityError::Recalculating { sector: 0 }));
                    assert_eq!(media.counts(), before, "nothing is written");
                }
            }
        }
    }
}

#[test]
fn a_crash_in_bitmap_mode_with_a_key_is_mended_in_that_mode_alone() {
    let kind = Kind { journal_mac: false, ..KINDS[2].clear() };
    let media = kind.made(SIZE, 0);
    let keyed = |mode| OpenOptions { unkeyed: false, ..options(kind, mode) };
    let left = {
        let open = open(kind, &media, keyed(Mode::Bitmap));
        open.write(4096, &mut [7; 4096]).expect("written");
        media.image()
    };
    let superblock = Superblock::parse(&left).expect("a superblock");
    for (mode, recalculate) in [(Mode::Journal, Recalculate::Missing), (Mode::Bitmap, Recalculate::Again)] {
        let media = Arc::new(FaultDevice::new(left.clone()));
        let options = OpenOptions { recalculate, ..keyed(mode) };
        let opened = Integrity::open(media.clone(), 0, kind.tagged(&superblock), options);
        assert_eq!(opened.err(), Some(IntegrityError::DirtyBitmap));
        assert_eq!(media.counts().0, 0, "nothing is written");
    }
    let media = Arc::new(FaultDevice::new(left));
    let open = open(kind, &media, keyed(Mode::Bitmap));
    open.wait_until_recalculated().expect("computed");
    let mut run = [0; 4096];
    open.read(4096, &mut run).expect("right");
    assert_eq!(run, [7; 4096]);
}
