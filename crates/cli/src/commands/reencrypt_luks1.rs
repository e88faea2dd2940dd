//! `atrest reencrypt` of a volume of LUKS1: it is one of LUKS2 meanwhile.

use std::fs;
use std::path::Path;

use atrest_device::{BlockDevice, DeviceError, Media};
use atrest_engine::reencrypt::{
    KEPT_SIZE, Luks1Error, begin_kept, begin_luks1, end_kept, end_luks1, keep_luks1,
};
use atrest_engine::{Access, FileDevice, NewFile};
use atrest_open::Device;
use atrest_secret::Passphrase;
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::{ReencryptError, ReencryptOptions};
use atrest_volume::{
    ChangeError, ConvertError, Front, LockedVolume, Obstacle, PbkdfKind, durable_front, front,
};
use serde_json::json;

use super::bulk::Stop;
use super::reencrypt::{begun_only, confirm, is_marked, passphrases, reencrypt_options, rewrite};
use super::target::open_device;
use crate::args::reencrypt::ReencryptArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress;

/// Bytes of which a header of LUKS1 needs no more, also while each keyslot has two places.
const ROOM: u64 = 4 << 20;
const ONLY_LUKS2: &str = "`atrest convert --type luks2` makes the volume one of LUKS2, which has that";

pub fn reencrypt(
    args: &ReencryptArgs,
    (data, header): (&Device, Option<&Device>),
    locked: &LockedVolume,
    output: &Output,
) -> Result<(), Failure> {
    let path = &args.path;
    let options = reencrypt_options(args, locked, output)?;
    let refused =
        |what: &str| Err(Failure::parameters(format!("{what} is not for LUKS1")).at(path).hint(ONLY_LUKS2));
    if args.sector_size.is_some_and(|bytes| bytes != 512) {
        return refused("a sector size other than 512 bytes");
    }
    if args.no_keyslots || args.volume_key_file.is_some() {
        return refused("a re-encryption without keyslots");
    }
    if args.keep_key && (args.cipher.is_some() || args.reduce_device_size.is_some()) {
        return Err(Failure::parameters(
            "with its key kept, only the keyslots of a LUKS1 volume are made anew",
        )
        .at(path)
        .hint("leave out --keep-key"));
    }
    if options.keyslot.pbkdf.kind.is_some_and(|kind| kind != PbkdfKind::Pbkdf2) {
        return refused("another key derivation than PBKDF2");
    }
    confirm(args, output)?;
    let on: &dyn Media = header.unwrap_or(data);
    let given = passphrases(args, locked, on, output)?;
    let given: Vec<(&Passphrase, Option<u32>)> = given.iter().map(|(p, slot)| (p, *slot)).collect();
    let stop = Stop::on_signals()?;
    let spinner = progress::spinner("deriving the keys", output);
    let mut begun = begin_luks1(data, header.map(|header| header as &dyn Media), &given, &options);
    let kept = match (&begun, &args.spare_header) {
        (Err(error), Some(spare)) if is_for_room(error) => {
            Some(keep(data, spare, &given, &options, output).map_err(|error| error.at(path))?)
        }
        _ => None,
    };
    if let Some(kept) = &kept {
        begun = begin_kept(data, kept, &given, &options);
    }
    spinner.finish_and_clear();
    let header = kept.as_ref().or(header);
    let mut rewriting = match begun {
        Ok(rewriting) => rewriting,
        Err(error) => {
            let failure = not_begun(error).at(path);
            return Err(match &kept {
                Some(kept) => given_up(failure, data, kept, path),
                None => failure,
            });
        }
    };
    if args.init_only {
        return begun_only(&rewriting, path, output);
    }
    if args.keep_key {
        // The data would be the same.
        rewriting.finish().map_err(|error| Failure::from(error).at(path))?;
        drop(rewriting);
        end(data, header, path)?;
        return output
            .done(&json!({ "event": "done" }), &format!("{}: its keyslots are made anew", path.display()));
    }
    rewrite(rewriting, path, &args.zones, None, &stop, output)?;
    end(data, header, path)
}

/// Refuses a file that is there and is no header of a volume of LUKS1 that is being re-encrypted.
pub fn check_spare(spare: &Path) -> Result<(), Failure> {
    let file = open_device(spare, Access::ReadOnly)?;
    match LockedVolume::read(&file) {
        Ok(locked) if locked.luks2().is_some_and(Luks2::is_kept) => Ok(()),
        _ => Err(Failure::parameters(
            "the file is there already, and is no header of an interrupted re-encryption",
        )
        .at(spare)
        .hint("--spare-header takes the name of a new file")),
    }
}

/// Copies the header in front of the data to a file.
fn keep(
    data: &Device,
    spare: &Path,
    given: &[(&Passphrase, Option<u32>)],
    options: &ReencryptOptions,
    output: &Output,
) -> Result<Device, Failure> {
    let failed = |error| Failure::from(error).at(spare);
    let file = NewFile::create(spare, KEPT_SIZE).map_err(failed)?;
    fill(file.device()).map_err(failed)?;
    keep_luks1(data, file.device(), given, options).map_err(not_begun)?;
    file.appear().map_err(failed)?;
    let what =
        format!("until it is done nothing can be read without {}: the header is there", spare.display());
    output.note(what);
    open_device(spare, Access::ReadWriteExclusive)
}

/// It did not begin, and the header is in front of the data again, if that can be.
fn given_up(failure: Failure, data: &Device, kept: &Device, path: &Path) -> Failure {
    let begun = LockedVolume::read(kept).is_ok_and(|locked| is_marked(&locked));
    match begun {
        false if end(data, Some(kept), path).is_ok() => failure,
        _ => failure.hint(format!(
            "the header is in {}: `atrest reencrypt --resume --header {} {}`",
            kept.path().display(),
            kept.path().display(),
            path.display()
        )),
    }
}

/// Makes it one of LUKS1 again. A header in a file goes back in front of the data.
pub fn end(data: &Device, header: Option<&Device>, path: &Path) -> Result<(), Failure> {
    let Some(header) = header else { return end_where_it_is(data, path) };
    let locked = LockedVolume::read(header).map_err(|error| Failure::from(error).at(header.path()))?;
    match locked.luks2() {
        Some(luks2) if luks2.is_kept() => {
            end_in_front(data, luks2, header).map_err(|error| {
                if error == ConvertError::Cannot(Obstacle::OtherFront) {
                    return Failure::from(error).at(header.path());
                }
                let what = format!("the header does not go back in front of the data: {error}");
                let again = format!(
                    "`atrest reencrypt --resume --header {} {}` tries again",
                    header.path().display(),
                    path.display()
                );
                Failure::new(Code::Device, what).at(header.path()).hint(again)
            })?;
            remove(header)
        }
        _ => end_where_it_is(header, path),
    }
}

fn end_in_front(data: &Device, luks2: &Luks2, kept: &Device) -> Result<(), ConvertError> {
    match front(data, luks2)? {
        Front::SetAside => end_kept(data, kept).map(drop),
        // It had not begun, or the header is there already: on the media, too, and not in a cache alone.
        found @ (Front::Exported | Front::PutBack) if durable_front(data, luks2)? == found => Ok(()),
        Front::Exported | Front::PutBack | Front::Other => Err(Obstacle::OtherFront.into()),
    }
}

/// Takes the room for the file now. Later a full disk would be an error in the middle.
fn fill(file: &FileDevice) -> Result<(), DeviceError> {
    file.write_at(0, &vec![0; KEPT_SIZE as usize])
}

/// Removes a file that has keyslots and no use. Its name goes first: half of it would be no header, and say nothing.
fn remove(kept: &Device) -> Result<(), Failure> {
    let path = kept.path();
    let failed = |error: &dyn std::fmt::Display| {
        let what = format!(
            "all is done, and the header is in front of the data; but this file is not removed: {error}"
        );
        Failure::new(Code::Device, what).at(path)
    };
    // Who gave it a device keeps that.
    if path.is_file() {
        fs::remove_file(path).map_err(|error| failed(&error))?;
        // intended: a name without a directory is in this one.
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| failed(&error))?;
    }
    let wiped = kept.write_zeroes(0, KEPT_SIZE.min(kept.size())).and_then(|()| kept.flush());
    wiped.map_err(|error| failed(&error))
}

fn end_where_it_is(header: &dyn Media, path: &Path) -> Result<(), Failure> {
    match end_luks1(header) {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = format!(
                "no re-encryption is under way, but it stays a volume of LUKS2, which can be used: {error}"
            );
            Err(Failure::new(Code::Device, what).at(path).hint("`atrest convert --type luks1` tries again"))
        }
    }
}

/// Ends what had not begun, or was done when it stopped. Returns whether it was done.
pub fn end_interrupted(
    luks2: &Luks2,
    data: &Device,
    header: Option<&Device>,
    path: &Path,
) -> Result<bool, Failure> {
    // A header that was converted has the digest 0, and the new key another one.
    let done = luks2.metadata().digest_of_segment(0).is_some_and(|digest| digest.id != 0);
    end(data, header, path)?;
    Ok(done)
}

/// Whether there is no room for a second place of each keyslot.
fn is_for_room(error: &Luks1Error) -> bool {
    match error {
        Luks1Error::Convert(ConvertError::Cannot(Obstacle::NoRoom)) => true,
        Luks1Error::Reencrypt(error) => match &**error {
            ReencryptError::NoRoom => true,
            ReencryptError::Change(error) => {
                matches!(**error, ChangeError::NoRoomForKeyslot { .. } | ChangeError::NoFreeKeyslot)
            }
            _ => false,
        },
        _ => false,
    }
}

fn not_begun(error: Luks1Error) -> Failure {
    let no_room = is_for_room(&error);
    let text = error.to_string();
    let failure = match error {
        Luks1Error::Dropped { slots, error } => {
            let gone =
                format!("keyslots {slots:?} are removed already, but the re-encryption does not begin");
            return not_begun(*error).within(&gone);
        }
        Luks1Error::ShiftDetached => {
            Failure::parameters(text).hint("leave --reduce-device-size out: all data stays")
        }
        // Where so little is left, nothing has to move.
        Luks1Error::ShiftTooFar { most } if most < ROOM => {
            Failure::parameters(text).hint("leave --reduce-device-size out: the header has room enough")
        }
        Luks1Error::ShiftTooFar { .. } => Failure::parameters(text)
            .hint(format!("--reduce-device-size {}M gives eight keyslots room enough", ROOM >> 20)),
        Luks1Error::Convert(error) => Failure::from(error),
        Luks1Error::Reencrypt(error) => Failure::from(*error),
        _ => Failure::new(Code::Device, text),
    };
    match no_room {
        true => failure.hint(
            "each keyslot needs a second place meanwhile, in front of the data: --spare-header FILE keeps the header in a file until it is \
             done; or `atrest key remove` makes room",
        ),
        false => failure,
    }
}
