//! States that whoever has the keys could have written, and that no program writes.

use atrest_testkit::FaultDevice;

use super::row::moved_to;
use super::*;
use crate::luks2::Luks2;
use crate::luks2::reencrypt::{EncryptOptions, ResilienceKind, begin_encryption};
use crate::{FormatOptions, KeyslotOptions, Passphrase, PbkdfKind, PbkdfOptions};

const MIB: u64 = 1 << 20;

/// Plaintext that is being encrypted: 6 MiB of data behind a header of 3 MiB, and their head behind them.
fn encrypting() -> (FaultDevice, Reencryption) {
    let device = FaultDevice::zeroed(12 << 20);
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    let format = FormatOptions {
        data_offset: Some(3 * MIB),
        keyslots_size: Some(8 * 258_048),
        keyslot: KeyslotOptions { pbkdf, ..KeyslotOptions::default() },
        ..FormatOptions::default()
    };
    let options = EncryptOptions { format, resilience: ResilienceKind::default(), hash: None, part: None };
    begin_encryption(Devices::together(&device), &Passphrase::copy_from(b"one"), options).expect("begun");
    let state = Luks2::read(&device).expect("reads").metadata().reencryption().expect("a state");
    (device, state)
}

fn refusal(change: impl FnOnce(&mut Reencryption)) -> ReencryptError {
    let (device, mut state) = encrypting();
    change(&mut state);
    Course::new(state, Devices::together(&device), 0x8000).err().expect("refused")
}

#[test]
fn the_head_lies_behind_the_data_and_is_as_long_as_the_shift() {
    let (device, state) = encrypting();
    let head = state.moved.clone().expect("a head");
    assert_eq!((head.offset, head.size), (9 * MIB, SegmentSize::Fixed(3 * MIB)));
    Course::new(state, Devices::together(&device), 0x8000).map(drop).expect("as it was written");
    for (offset, size) in [
        (9 * MIB - 512, 3 * MIB),
        (9 * MIB + 512, 3 * MIB),
        (0, 3 * MIB),
        (9 * MIB, 3 * MIB - 512),
        (9 * MIB, 512),
    ] {
        let refused = refusal(|state| {
            let head = state.moved.as_mut().expect("a head");
            (head.offset, head.size) = (offset, SegmentSize::Fixed(size));
        });
        assert_eq!(refused, ReencryptError::DeviceSize, "{offset} {size}");
    }
}

#[test]
fn sectors_are_numbered_from_the_beginning() {
    let tweak = |segment: &mut Segment| match &mut segment.kind {
        SegmentKind::Crypt { iv_tweak, .. } => *iv_tweak = 8,
        kind => panic!("{kind:?}"),
    };
    assert_eq!(refusal(|state| tweak(&mut state.last)), ReencryptError::UnknownKind);
}

/// The row of segments before the first zone, each with one thing wrong.
#[test]
fn a_beginning_that_no_program_makes_is_refused() {
    let changes: [fn(&mut Reencryption); 9] = [
        |state| state.active[0].offset -= 512,
        |state| state.active[0].size = SegmentSize::Fixed(3 * MIB - 512),
        |state| state.active[1].offset += 512,
        |state| state.active[1].size = SegmentSize::Fixed(3 * MIB + 512),
        |state| state.active[1].size = SegmentSize::Dynamic,
        |state| state.active[1].kind = SegmentKind::Unknown("x".into()),
        |state| drop(state.active.pop()),
        |state| state.active.push(state.active[1].clone()),
        |state| state.active.swap(0, 1),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(refusal(change), ReencryptError::Row, "{number}");
    }
}

#[test]
fn an_encryption_that_moves_data_begins_at_0_and_ends_at_the_shift() {
    let changes: [fn(&mut Reencryption); 7] = [
        |state| state.previous.offset = 512,
        |state| state.last.offset += 512,
        |state| state.moved = None,
        |state| state.direction = ReencryptDirection::Forward,
        |state| state.mode = ReencryptMode::Decrypt,
        |state| state.mode = ReencryptMode::Reencrypt,
        |state| state.resilience = Resilience::Journal,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(refusal(change), ReencryptError::UnknownKind, "{number}");
    }
    let none = refusal(|state| {
        state.previous.size = SegmentSize::Fixed(0);
    });
    assert_eq!(none, ReencryptError::Misaligned { size: 0, multiple: 512 });
    let odd = refusal(|state| state.previous.size = SegmentSize::Fixed(6 * MIB - 256));
    assert_eq!(odd, ReencryptError::Misaligned { size: 6 * MIB - 256, multiple: 512 });
    assert_eq!(refusal(|state| state.previous.size = SegmentSize::Dynamic), ReencryptError::Row);
    let long = refusal(|state| state.previous.size = SegmentSize::Fixed(9 * MIB + 512));
    assert_eq!(long, ReencryptError::DeviceSize);
}

/// A re-encryption of 1 MiB at byte 1 MiB of which all is done: one segment, under the new key.
fn done() -> Course {
    let device = FaultDevice::zeroed(2 << 20);
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    let keyslot = || KeyslotOptions { pbkdf: pbkdf.clone(), ..KeyslotOptions::default() };
    let format = FormatOptions {
        data_offset: Some(MIB),
        keyslots_size: Some(3 * 258_048),
        keyslot: keyslot(),
        ..FormatOptions::default()
    };
    let (devices, one) = (Devices::together(&device), Passphrase::copy_from(b"one"));
    let luks = crate::luks2::format(devices, &one, &format).expect("formats");
    let options = crate::luks2::reencrypt::ReencryptOptions {
        keyslot: keyslot(),
        data_unit: Some(1024),
        ..Default::default()
    };
    luks.begin_reencryption(devices, &[(&one, None)], &options).expect("begun");
    let mut state = Luks2::read(&device).expect("reads").metadata().reencryption().expect("a state");
    state.active = vec![Segment { id: 0, flags: Vec::new(), ..state.last.clone() }];
    state.first_digests = state.digest_last.into_iter().collect();
    Course::new(state, devices, 0x8000).expect("as cryptsetup leaves it")
}

#[test]
fn a_course_of_which_the_mark_alone_is_left_is_told_from_every_other() {
    let course = done();
    assert_eq!((course.done(), course.total, course.only_marked()), (Ok(MIB), MIB, true));
    let changes: [fn(&mut Reencryption); 9] = [
        |state| state.mode = ReencryptMode::Encrypt,
        |state| state.hot = Some(0),
        |state| state.moved = Some(state.last.clone()),
        |state| state.active[0].offset += 512,
        |state| state.active[0].size = SegmentSize::Fixed(MIB),
        |state| state.active[0].flags.push("x".into()),
        |state| state.active[0].kind = state.previous.kind.clone(),
        |state| state.first_digests = state.digest_previous.into_iter().collect(),
        |state| state.active.push(state.active[0].clone()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut course = done();
        change(&mut course.state);
        assert!(!course.only_marked(), "{number}");
    }
}

#[test]
fn data_is_done_when_it_has_its_new_form_under_its_new_key() {
    let is_done = |change: fn(&mut Reencryption)| {
        let mut course = done();
        change(&mut course.state);
        course.is_done(&course.state.active[0])
    };
    assert!(is_done(|_| ()));
    assert!(!is_done(|state| state.active[0].kind = state.previous.kind.clone()), "of the old form");
    assert!(!is_done(|state| state.first_digests.clear()));
    assert!(!is_done(|state| state.first_digests = state.digest_previous.into_iter().collect()));
    assert!(!is_done(|state| state.first_digests.extend(state.digest_previous)), "of both keys");
    // Another key and the same form, or the same key and another form; not both the same.
    assert!(is_done(|state| state.previous.kind = state.last.kind.clone()));
    assert!(is_done(|state| state.digest_previous = state.digest_last));
    let same = |state: &mut Reencryption| {
        state.previous.kind = state.last.kind.clone();
        state.digest_previous = state.digest_last;
    };
    assert!(!is_done(same), "nothing tells the end from the beginning");
    let plain = |state: &mut Reencryption| {
        state.mode = ReencryptMode::Encrypt;
        state.first_digests.clear();
    };
    assert!(is_done(plain));
}

/// cryptsetup's `--device-size` leaves a segment with a length.
#[test]
fn all_is_done_also_where_the_last_segment_has_a_length() {
    let (device, mut state) = (FaultDevice::zeroed(4 << 20), done().state);
    state.active[0].size = SegmentSize::Fixed(MIB);
    let course = Course::new(state, Devices::together(&device), 0x8000).expect("it fits");
    assert_eq!((course.total, course.done(), course.next(MIB)), (MIB, Ok(MIB), Ok(None)));
}

#[test]
fn a_hot_zone_is_followed_by_old_data_and_the_last_one_by_none() {
    let course = done();
    let lens = |offset: u64, len: u64| -> Vec<Option<u64>> {
        let row = course.hot(&course.zone(offset, len)).expect("a row").segments;
        row.iter().filter(|segment| !segment.is_backup()).map(|segment| fixed_size(segment).ok()).collect()
    };
    assert_eq!(lens(0, 4096), [Some(4096), None]);
    assert_eq!(lens(4096, 8192), [Some(4096), Some(8192), None]);
    assert_eq!(lens(4096, MIB - 4096), [Some(4096), Some(MIB - 4096)]);
    assert_eq!(lens(0, MIB), [Some(MIB)]);
}

#[test]
fn a_part_of_the_data_counts_its_sectors_from_the_first_of_all() {
    let last = done().state.last;
    for (offset, sectors) in [(0, 0), (512, 1), (4096, 8), (MIB - 512, 2047)] {
        let part = moved_to(&last, offset, SegmentSize::Fixed(512), &["x"]);
        assert_eq!((part.offset, part.size), (MIB + offset, SegmentSize::Fixed(512)));
        assert!(matches!(part.kind, SegmentKind::Crypt { iv_tweak, .. } if iv_tweak == sectors), "{part:?}");
        assert!(part.has_flag("x"));
    }
}
