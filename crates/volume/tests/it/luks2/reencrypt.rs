//! Metadata of a re-encryption that somebody without the keys has changed.

use atrest_device::BlockDevice;
use atrest_format::luks2::{CopyKind, Header, Metadata, ReencryptionFault, Segment, SegmentKind};
use atrest_testkit::fault::Fault;
use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_testkit::{Campaign, FaultDevice, Random};
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::{ReencryptError, ReencryptOptions};
use atrest_volume::{ChangeError, Devices, UnlockError};

use crate::luks2::support::{keyslot, opens, passphrase, volume};

fn begun() -> (FaultDevice, Luks2) {
    let (device, luks) = volume();
    let options = ReencryptOptions { keyslot: keyslot(), ..ReencryptOptions::default() };
    luks.begin_reencryption(Devices::together(&device), &[(&passphrase("one"), None)], &options)
        .expect("begun");
    let luks = Luks2::read(&device).expect("reads");
    (device, luks)
}

/// Puts other segments into both header copies.
pub fn with_segments(device: &FaultDevice, luks: &Luks2, change: &dyn Fn(&mut Segment)) {
    let metadata = luks.metadata();
    let mut segments = metadata.segments().to_vec();
    segments.iter_mut().for_each(change);
    let digests: Vec<(u32, Vec<u32>)> =
        metadata.digests().iter().map(|d| (d.id, d.segments.clone())).collect();
    store(device, luks, metadata.compose().segments(&segments, &digests).finish().expect("within the rules"));
}

pub fn store(device: &FaultDevice, luks: &Luks2, metadata: Metadata) {
    let header = Header { binary: luks.header_pair().header.binary.clone(), metadata };
    for (kind, offset) in [(CopyKind::Primary, 0), (CopyKind::Secondary, header.binary.header_size)] {
        device.write_at(offset, &header.encode(kind, &[7; 64]).expect("it fits")).expect("written");
    }
    device.forget();
}

fn refusal(device: &FaultDevice) -> ReencryptError {
    let luks = Luks2::read(device).expect("reads");
    let refused = luks.resume_reencryption(Devices::together(device), &passphrase("one"));
    assert!(device.recording().events().is_empty(), "something was written");
    refused.expect_err("refused")
}

#[test]
fn whoever_has_the_passphrase_resumes_and_nobody_else() {
    let (device, luks) = begun();
    let devices = Devices::together(&device);
    let rewriting = luks.resume_reencryption(devices, &passphrase("one")).expect("it is verified");
    assert_eq!((rewriting.done(), rewriting.interrupted()), (Ok(0), Ok(None)));
    let wrong = luks.resume_reencryption(devices, &passphrase("two")).expect_err("refused");
    assert_eq!(wrong, UnlockError::WrongPassphrase.into());
}

#[test]
fn changed_backup_segments_are_not_verified() {
    let changes: [&dyn Fn(&mut Segment); 3] = [
        &|segment| {
            if segment.has_flag("backup-final") {
                segment.offset += 1 << 20;
            }
        },
        &|segment| {
            if segment.has_flag("backup-final")
                && let SegmentKind::Crypt { encryption, .. } = &mut segment.kind
            {
                *encryption = "aes-xts-plain".into();
            }
        },
        &|segment| {
            if segment.has_flag("backup-previous")
                && let SegmentKind::Crypt { sector_size, .. } = &mut segment.kind
            {
                *sector_size = 1024;
            }
        },
    ];
    for change in changes {
        let (device, luks) = begun();
        with_segments(&device, &luks, change);
        assert_eq!(refusal(&device), ReencryptError::NotVerified);
    }
}

#[test]
fn active_segments_that_no_step_makes_are_refused() {
    let (device, luks) = begun();
    with_segments(&device, &luks, &|segment| {
        if segment.id == 0 {
            segment.offset += 4096;
        }
    });
    assert_eq!(refusal(&device), ReencryptError::Row);
}

/// As cryptsetup leaves it when it is killed at its end: all data is done, the mark is still there, and the old keyslot
/// is wiped, listed or not.
fn ended(listed: bool) -> (FaultDevice, Luks2) {
    let (device, luks) = begun();
    let metadata = luks.metadata();
    let flagged =
        |flag: &str| metadata.segments().iter().find(|s| s.has_flag(flag)).expect("a backup").clone();
    let (previous, last) = (flagged("backup-previous"), flagged("backup-final"));
    let digest = |segment: &Segment| metadata.digest_of_segment(segment.id).expect("a digest").id;
    let active = Segment { id: 0, flags: Vec::new(), ..last.clone() };
    let row = [active, Segment { id: 1, ..previous.clone() }, Segment { id: 2, ..last.clone() }];
    let digests = [(digest(&previous), vec![1]), (digest(&last), vec![0, 2])];
    let area = metadata.keyslot(0).expect("the old keyslot").area.clone();
    let mut next = metadata.compose().segments(&row, &digests);
    if !listed {
        next = next.without_keyslot(0);
    }
    store(&device, &luks, next.finish().expect("within the rules"));
    device.write_at(area.offset, &Random::new(7).bytes(area.size as usize)).expect("wiped");
    device.forget();
    let luks = Luks2::read(&device).expect("reads");
    (device, luks)
}

#[test]
fn an_end_without_the_old_keyslots_is_finished_with_the_new_key_also_after_a_power_loss() {
    for listed in [true, false] {
        let (device, luks) = ended(listed);
        let devices = Devices::together(&device);
        let wrong = luks.resume_reencryption(devices, &passphrase("two")).expect_err("refused");
        assert_eq!(wrong, UnlockError::WrongPassphrase.into());
        let mut rewriting =
            luks.resume_reencryption(devices, &passphrase("one")).expect("only the end is left");
        assert_eq!(rewriting.done(), Ok(rewriting.total()));
        assert_eq!(rewriting.next(1 << 20), Ok(None), "data would be rewritten");
        assert!(device.recording().events().is_empty(), "something was written");
        rewriting.finish().expect("finished");
        device.acknowledge(1);
        device.flush().expect("flushes");
        let (sampled, tears) = if Campaign::is_full() { (512, 64) } else { (16, 4) };
        let limits = Limits { tearing: Tearing::Inside, sampled, tears, ..Limits::default() };
        let visited = device.recording().for_each_power_loss(&limits, |aftermath| {
            let after = FaultDevice::new(aftermath.image);
            let luks = Luks2::read(&after).expect("a header");
            let devices = Devices::together(&after);
            match luks.resume_reencryption(devices, &passphrase("one")) {
                Ok(mut rewriting) => rewriting.finish().expect("finished again"),
                Err(error) => assert_eq!(error, ReencryptError::State(ReencryptionFault::None)),
            }
            assert_eq!(opens(&after, "one"), Some(1), "{}", aftermath.power_loss);
            let luks = Luks2::read(&after).expect("a header");
            assert!(luks.metadata().config().requirements.is_empty());
            assert_eq!(luks.metadata().segments().len(), 1);
        });
        assert!(visited > 8, "only {visited} states");
    }
}

/// A sector that can't be read now may be read tomorrow: its keyslot is not lost.
#[test]
fn a_failing_device_is_no_reason_to_go_on_without_a_key() {
    for listed in [true, false] {
        for slot in [0, 1] {
            let (device, luks) = ended(listed);
            let Some(keyslot) = luks.metadata().keyslot(slot) else { continue };
            device.fail(Fault::UnreadableRange { offset: keyslot.area.offset, len: 512 });
            let refused = refusal(&device);
            let ReencryptError::Change(error) = &refused else { panic!("{refused:?}") };
            assert!(
                matches!(**error, ChangeError::Unlock(UnlockError::Device(_))),
                "{listed} {slot}: {error:?}"
            );
        }
    }
}

#[test]
fn what_is_not_all_done_is_not_finished_without_the_old_key() {
    let changes: [&dyn Fn(&mut Segment); 3] = [
        &|segment| segment.flags = vec!["in-reencryption".into()],
        &|segment| segment.offset += 4096,
        &|segment| segment.size = atrest_format::luks2::SegmentSize::Fixed(4096),
    ];
    for listed in [true, false] {
        for change in changes {
            let (device, luks) = ended(listed);
            with_segments(&device, &luks, &|segment| {
                if segment.id == 0 {
                    change(segment);
                }
            });
            refusal(&device);
        }
        // The active segment belongs to the old key.
        let (device, luks) = ended(listed);
        let metadata = luks.metadata();
        let digests: Vec<(u32, Vec<u32>)> = metadata
            .digests()
            .iter()
            .filter(|digest| !digest.segments.is_empty())
            .map(|digest| (digest.id, if digest.segments == [1] { vec![0, 1] } else { vec![2] }))
            .collect();
        let segments = metadata.segments().to_vec();
        store(
            &device,
            &luks,
            metadata.compose().segments(&segments, &digests).finish().expect("by the rules"),
        );
        let expected = match listed {
            true => UnlockError::WrongPassphrase.into(),
            false => ReencryptError::OldKeyGone,
        };
        assert_eq!(refusal(&device), expected);
    }
}
