//! Re-encryption of a volume of LUKS1 whose header has no room for a second place of each keyslot: for that time the header is one of LUKS2
//! in a file.
//!
//! [`keep_luks1`] fills the file, [`begin_kept`] is called once the file is there to stay, and [`end_kept`] before it goes.

use atrest_device::Media;
use atrest_secret::Passphrase;
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::{ReencryptOptions, Rewriting};
use atrest_volume::{ConvertError, Devices, LockedVolume, OpenError, export_meanwhile, import, set_aside};

use super::luks1::{HeaderCopy, Luks1Error, data_offset, put_right, quick, with_pbkdf2};

/// Bytes of the file: two places of eight keyslots, and room for hashes or a journal.
pub const KEPT_SIZE: u64 = 16 << 20;

/// Copies the header in front of the data to `kept`, as one of LUKS2. All that comes later is tried in memory before.
///
/// # Errors
/// [`Luks1Error`] as of [`begin_luks1`](super::begin_luks1). Nothing is written in front of the data, and nothing to `kept` if it could
/// not be done in memory.
pub fn keep_luks1(
    data: &dyn Media,
    kept: &dyn Media,
    passphrases: &[(&Passphrase, Option<u32>)],
    options: &ReencryptOptions,
) -> Result<(), Luks1Error> {
    if options.shift.is_some() {
        return Err(Luks1Error::ShiftDetached);
    }
    let info = LockedVolume::read(data)?.info();
    let front = HeaderCopy::of(data, data_offset(&info))?;
    let tried = HeaderCopy::empty(KEPT_SIZE, data.geometry());
    export_meanwhile(data, &tried)?;
    let mut begun = begin_kept(&front, &tried, passphrases, &quick(options))?;
    // Fails here if not even the smallest zone can be protected.
    begun.next(u64::MAX)?;
    begun.finish()?;
    drop(begun);
    end_kept(&front, &tried)?;
    export_meanwhile(data, kept)?;
    Ok(())
}

/// Begins it: the header in `kept` counts from now on, and the one in front of the data does not.
///
/// When [`run`](super::run) is done, [`end_kept`] puts a header of LUKS1 in front of the data again; so it does if this fails.
///
/// # Errors
/// [`Luks1Error`].
pub fn begin_kept<'a>(
    data: &'a dyn Media,
    kept: &'a dyn Media,
    passphrases: &[(&Passphrase, Option<u32>)],
    options: &ReencryptOptions,
) -> Result<Rewriting<'a>, Luks1Error> {
    let locked = LockedVolume::read(kept)?;
    let luks2: &Luks2 = locked.luks2().ok_or(OpenError::NotLuks)?;
    set_aside(data, luks2)?;
    let options = with_pbkdf2(options, &locked.info());
    Ok(luks2.begin_reencryption(Devices::detached(kept, data), passphrases, &options)?)
}

/// Makes a volume of LUKS1 of one whose re-encryption is done, or had not begun. `kept` has no use afterwards.
///
/// What a power loss may have left in `kept` is put right first.
///
/// # Errors
/// [`ConvertError`] as of [`import`]. The header in `kept` goes on counting then, and this can be done again.
pub fn end_kept(data: &dyn Media, kept: &dyn Media) -> Result<LockedVolume, ConvertError> {
    put_right(kept)?;
    import(kept, data)
}
