//! The tags of a new volume, laid out behind `atrest format`.

use atrest_engine::integrity;
use atrest_volume::{Devices, LockedVolume, TagOptions, UnlockOptions, VolumeKey};

use super::format::Media;
use crate::args::format::FormatArgs;
use crate::failure::Failure;
use crate::meter::Meter;
use crate::output::Output;

/// Lays out tags and journal, and fills the data with zeros unless that is not wanted.
pub(super) fn lay_out(
    args: &FormatArgs,
    (devices, data): (Devices<'_>, &Media<'_>),
    locked: &LockedVolume,
    (tags, key): (&TagOptions, Option<&VolumeKey>),
    output: &Output,
) -> Result<(), Failure> {
    let media = data.block_device();
    let info = locked.info();
    let (Some(segment), Some(key)) = (info.segments.first(), key) else { return Ok(()) };
    let failed = |error| Failure::from(error).at(&args.path);
    // cannot fail: tags of hashes and nonces have at most 64 and 32 bytes.
    let tag_len = u16::try_from(tags.spec().tag_len()).unwrap_or(u16::MAX);
    let place = (segment.data_unit, tag_len);
    let legacy = args.integrity_legacy_padding;
    integrity::lay_out(std::sync::Arc::clone(&media), segment.offset, place, legacy).map_err(failed)?;
    if args.integrity_no_wipe {
        return Ok(());
    }
    let volume = locked.unlock_with_key(devices, key, &UnlockOptions::default());
    let volume = volume.map_err(|error| Failure::from(error).at(&args.path))?;
    let mut meter = Meter::new(&args.path, volume.size(), output);
    let wiped = integrity::wipe_volume(&media, volume, &mut |done, _| meter.set(done));
    meter.finish();
    wiped.map_err(failed)
}
