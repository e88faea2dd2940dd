//! States that whoever has the keys could have written, and that no program writes.

use atrest_testkit::FaultDevice;

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
    let options = EncryptOptions { format, resilience: ResilienceKind::default(), hash: None };
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
