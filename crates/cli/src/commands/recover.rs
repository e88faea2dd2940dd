//! What `repair` does beside the header: it completes the zone in which a re-encryption was interrupted.

use atrest_device::Media;
use atrest_engine::reencrypt::recover_interrupted;
use atrest_engine::{Access, is_same};
use atrest_volume::{Devices, LockedVolume};

use super::reencrypt::not_luks2;
use super::target::{forget_failed_writes, open_device, with_passphrase};
use crate::args::header::RepairArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::secrets::Source;

/// Asks for the passphrase, and completes the zone.
///
/// # Errors
/// The passphrase opens no keyslot of each key, nothing protects the zone, or a device fails.
pub fn zone(args: &RepairArgs, output: &Output) -> Result<(), Failure> {
    let path = args.target.path.as_path();
    let at = |failure: Failure| failure.at(path);
    forget_failed_writes(path);
    let data = open_device(path, Access::ReadWrite)?;
    let header = match args.target.header.as_deref().filter(|header| !is_same(header, path)) {
        Some(header) => Some(open_device(header, Access::ReadWrite)?),
        None => None,
    };
    let devices = Devices::with_header(header.as_ref().map(|header| header as &dyn Media), &data);
    let locked = LockedVolume::read(devices.header).map_err(|error| at(error.into()))?;
    let Some(luks2) = locked.luks2() else { return Err(at(not_luks2())) };
    let source = Source::from(&args.secret);
    let mut rewriting =
        with_passphrase(&source, path, output, |passphrase| luks2.resume_reencryption(devices, passphrase))?;
    recover_interrupted(&mut rewriting).map(drop).map_err(|error| at(error.into()))
}
