//! `atrest open --reencrypt`: a volume that is served while its re-encryption goes on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use atrest_device::{BlockDevice, Media};
use atrest_engine::reencrypt::{Online, RewriteError, RewriteOptions, Served, recover_interrupted, run};
use atrest_engine::{Access, Disk, DiskOptions, is_same};
use atrest_open::Device;
use atrest_volume::{Devices, LockedVolume, UnlockOptions, Volume};

use super::reencrypt::not_luks2;
use super::target::{no_header, open_device, with_passphrase};
use crate::args::open::{OpenArgs, VolumeType};
use crate::failure::Failure;
use crate::output::Output;
use crate::secrets::Source;

/// Bytes that are rewritten at once: writes to them wait meanwhile, for the time of some flushes.
const ZONE: u64 = 1 << 20;

/// What goes on beside the serving until it is done, or the flag is set.
pub type Work<'a> = &'a mut (dyn FnMut(&AtomicBool) -> Result<(), RewriteError> + Send);

/// Opens the volume and gives it to `serve`, with what is to be done meanwhile. One that is not being re-encrypted is served alone.
pub fn open<T>(
    path: &Path,
    args: &OpenArgs,
    output: &Output,
    ready: impl FnOnce() -> Result<(), Failure>,
    serve: impl FnOnce(Arc<dyn BlockDevice>, Option<Work<'_>>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let unlock = &args.unlock;
    if unlock.kind != VolumeType::Luks
        || unlock.secret.has_volume_key()
        || unlock.size.is_some()
        || unlock.key_slot.is_some()
    {
        return Err(Failure::parameters(
            "--reencrypt is for a whole LUKS2 volume, and for a passphrase that opens it before and afterwards",
        ));
    }
    let data = Arc::new(open_device(path, Access::ReadWriteExclusive)?);
    let header = match unlock.header.as_deref().filter(|header| !is_same(header, path)) {
        Some(header) => Some(Arc::new(open_device(header, Access::ReadWriteExclusive)?)),
        None => None,
    };
    ready()?;
    let at = |failure: Failure| failure.at(path);
    let devices = Devices::with_header(header.as_deref().map(|header| header as &dyn Media), &*data);
    let read = || LockedVolume::read(devices.header);
    let on: &Device = header.as_deref().unwrap_or(&data);
    let locked = read().map_err(|error| at(no_header(error, on)))?;
    let Some(luks2) = locked.luks2() else { return Err(at(not_luks2())) };
    let mut options = DiskOptions::default();
    options.threads = args.threads.map_or(0, usize::from);
    options.allow_discards = args.allow_discards;
    let disk = |volume: Volume| -> Result<Disk, Failure> {
        let disk = Disk::new(data.clone(), volume, options.clone()).map_err(|error| at(error.into()))?;
        Ok(match &header {
            Some(header) => disk.with_header(header.clone()),
            None => disk,
        })
    };
    let source = Source::from(&unlock.secret.passphrase);
    if !locked.info().requirements.iter().any(|name| name.contains("reencrypt")) {
        let volume = with_passphrase(&source, path, output, |passphrase| {
            locked.unlock(devices, passphrase, &UnlockOptions::default())
        })?;
        return serve(Arc::new(disk(volume)?), None);
    }
    let mut rewriting =
        with_passphrase(&source, path, output, |passphrase| luks2.resume_reencryption(devices, passphrase))?;
    let moves = || {
        at(Failure::parameters("its data moves to another place, which can't be done while it is served"))
            .hint("open it without --reencrypt, or let `atrest reencrypt --resume` finish it first")
    };
    // Before anything is written.
    if rewriting.moves() {
        return Err(moves());
    }
    if recover_interrupted(&mut rewriting).map_err(|error| at(error.into()))? {
        // It was the last zone. After a decryption no key opens it any more.
        let volume = rewriting.into_done().ok_or_else(moves)?;
        return serve(Arc::new(disk(volume)?), None);
    }
    let done = rewriting.done().map_err(|error| at(error.into()))?;
    let online = Online::new(data.clone(), &mut rewriting, done, &options);
    let online = online.map_err(|error| at(error.into()))?.ok_or_else(moves)?;
    let online = Arc::new(match &header {
        Some(header) => online.with_header(header.clone()),
        None => online,
    });
    let served = online.clone();
    let mut work = |cancel: &AtomicBool| {
        let mut options = RewriteOptions::default();
        (options.threads, options.zone) = (1, ZONE);
        (options.cancel, options.online) = (Some(cancel), Some(&*served as &dyn Served));
        run(&mut rewriting, options, &mut |_, _| ()).map(drop)
    };
    serve(online, Some(&mut work))
}
