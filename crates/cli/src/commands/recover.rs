//! What `repair` does beside the header: it verifies a re-encryption in progress, adds the verification where there is none, and completes
//! the zone in which it was interrupted.

use atrest_device::Media;
use atrest_engine::reencrypt::recover_interrupted;
use atrest_engine::{Access, is_same};
use atrest_volume::luks2::reencrypt::Unfinished;
use atrest_volume::{Devices, LockedVolume};

use super::reencrypt::not_luks2;
use super::target::{forget_failed_writes, open_device, with_passphrase};
use crate::args::header::RepairArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::secrets::Source;

/// Asks for the passphrase, and does what a re-encryption in this state needs.
///
/// # Errors
/// The passphrase opens no keyslot of each key, the keys don't verify what the header says, nobody confirms what nothing verifies,
/// nothing protects the zone, or a device fails.
pub fn reencryption(args: &RepairArgs, state: Unfinished, output: &Output) -> Result<(), Failure> {
    let path = args.target.path.as_path();
    let at = |failure: Failure| failure.at(path);
    if state == Unfinished::Unverified {
        output.confirm(&format!(
            "{}: a re-encryption is in progress, and nothing shows that it was begun by somebody with the passphrase. \
             What the header says of it (`atrest info`) is taken as meant",
            path.display()
        ))?;
    }
    forget_failed_writes(path);
    let data = open_device(path, Access::ReadWrite)?;
    let header = match args.target.header.as_deref().filter(|header| !is_same(header, path)) {
        Some(header) => Some(open_device(header, Access::ReadWrite)?),
        None => None,
    };
    let devices = Devices::with_header(header.as_ref().map(|header| header as &dyn Media), &data);
    let mut locked = LockedVolume::read(devices.header).map_err(|error| at(error.into()))?;
    let source = Source::from(&args.secret);
    if state == Unfinished::Unverified {
        let Ok(luks2) = locked.luks2_mut() else { return Err(at(not_luks2())) };
        return with_passphrase(&source, path, output, |passphrase| {
            luks2.add_verification(devices, passphrase)
        });
    }
    let Some(luks2) = locked.luks2() else { return Err(at(not_luks2())) };
    let mut rewriting =
        with_passphrase(&source, path, output, |passphrase| luks2.resume_reencryption(devices, passphrase))?;
    match state {
        Unfinished::Interrupted => {
            recover_interrupted(&mut rewriting).map(drop).map_err(|error| at(error.into()))
        }
        _ => Ok(()),
    }
}
