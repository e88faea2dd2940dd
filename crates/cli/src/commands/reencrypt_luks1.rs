//! `atrest reencrypt` of a volume of LUKS1: it is one of LUKS2 meanwhile.

use std::path::Path;

use atrest_device::Media;
use atrest_engine::reencrypt::{Luks1Error, begin_luks1, end_luks1};
use atrest_open::Device;
use atrest_secret::Passphrase;
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::ReencryptError;
use atrest_volume::{ChangeError, ConvertError, LockedVolume, Obstacle, PbkdfKind};
use serde_json::json;

use super::bulk::Stop;
use super::reencrypt::{begun_only, confirm, passphrases, reencrypt_options, rewrite};
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
    let begun = begin_luks1(data, header.map(|header| header as &dyn Media), &given, options);
    spinner.finish_and_clear();
    let mut rewriting = begun.map_err(|error| not_begun(error).at(path))?;
    if args.init_only {
        return begun_only(&rewriting, path, output);
    }
    if args.keep_key {
        // The data would be the same.
        rewriting.finish().map_err(|error| Failure::from(error).at(path))?;
        drop(rewriting);
        end(on, path)?;
        return output
            .done(&json!({ "event": "done" }), &format!("{}: its keyslots are made anew", path.display()));
    }
    rewrite(rewriting, path, &args.zones, None, &stop, output)?;
    end(on, path)
}

/// Makes it one of LUKS1 again.
pub fn end(header: &dyn Media, path: &Path) -> Result<(), Failure> {
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
pub fn end_interrupted(luks2: &Luks2, header: &dyn Media, path: &Path) -> Result<bool, Failure> {
    // A header that was converted has the digest 0, and the new key another one.
    let done = luks2.metadata().digest_of_segment(0).is_some_and(|digest| digest.id != 0);
    end(header, path)?;
    Ok(done)
}

fn not_begun(error: Luks1Error) -> Failure {
    let no_room = match &error {
        Luks1Error::Convert(ConvertError::Cannot(Obstacle::NoRoom)) => true,
        Luks1Error::Reencrypt(error) => match &**error {
            ReencryptError::NoRoom => true,
            ReencryptError::Change(error) => {
                matches!(**error, ChangeError::NoRoomForKeyslot { .. } | ChangeError::NoFreeKeyslot)
            }
            _ => false,
        },
        _ => false,
    };
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
            "each keyslot needs a second place meanwhile, in front of the data: `atrest key remove` makes room; or `atrest convert` copies \
             the volume into a new one",
        ),
        false => failure,
    }
}
