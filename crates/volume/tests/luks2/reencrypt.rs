//! Metadata of a re-encryption that somebody without the keys has changed.

use atrest_device::BlockDevice;
use atrest_format::luks2::{CopyKind, Header, Metadata, Segment, SegmentKind};
use atrest_testkit::FaultDevice;
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::{ReencryptError, ReencryptOptions};
use atrest_volume::{Devices, UnlockError};

use crate::support::{keyslot, passphrase, volume};

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
