//! `atrest format --type sealed URL`.

use std::path::Path;

use atrest_device::TrustedStore as _;
use atrest_engine::flash::FlashOpenError;
use atrest_engine::{TrustedFile, TrustedFileError};
use atrest_open::sealed::Place;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{BLOCK_LEN, Kind, MOST_BLOCKS};
use atrest_sealedvolume::volume::{OpenError, Settings};
use atrest_secret::OsRandom;
use atrest_volume::{FormatError, FormatOptions, VolumeKey};
use serde_json::json;

use super::beginning::{KEY_LEN, NewVolume, WINDOW};
use crate::args::format::{FormatArgs, LuksType};
use crate::commands::options;
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};
use crate::secrets::{self, Source};

pub fn format(args: &FormatArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.path;
    let at = |failure: Failure| failure.at(path);
    check(args)?;
    let bytes = args.size.ok_or_else(|| {
        Failure::parameters("how large the volume is has to be said")
            .hint("--size 2T: what is not written takes no room")
    })?;
    if bytes == 0 || !bytes.is_multiple_of(BLOCK_LEN as u64) || bytes / BLOCK_LEN as u64 > MOST_BLOCKS {
        return Err(at(OpenError::Size.into()));
    }
    let place = Place::parse(path).map_err(|error| at(error.into()))?;
    look(&place).map_err(at)?;
    let trusted = args.flash.sealed.store.as_deref().map(|store| new_store(store, output)).transpose()?;
    let key = volume_key(args, output)?;
    let prompt = format!("New passphrase for {}", path.display());
    let passphrase = Source::from(&args.passphrase).read_new(&prompt, output)?;

    let options = FormatOptions {
        uuid: args.uuid.clone(),
        label: args.label.clone(),
        subsystem: args.subsystem.clone(),
        keyslot: options::keyslot(&args.pbkdf, args.key_slot, None)?,
        ..FormatOptions::default()
    };
    let size = (bytes / BLOCK_LEN as u64, WINDOW);
    let new = NewVolume { place: &place, key, passphrase, options, trusted };
    let made = new.begin(output, at, |begun| {
        SealedVolume::format(begun.store, begun.keys, begun.freshness, size, begun.settings)
            .map_err(|error| at(error.into()))
    })?;
    if args.flash.sealed.store.is_none() {
        output.warn(format_args!(
            "{}: without --store nobody notices that all of the objects are put back to an older state",
            path.display()
        ));
    }
    output.done(
        &json!({ "path": path_text(path), "type": "sealed", "uuid": made.uuid, "size": bytes,
                 "store": args.flash.sealed.store.as_deref().map(path_text) }),
        &format!("{}: new sealed volume of {bytes} bytes, UUID {}", path.display(), made.uuid),
    )
}

/// Options of other kinds of volumes are mistakes, not wishes.
fn check(args: &FormatArgs) -> Result<(), Failure> {
    if args.kind != LuksType::Sealed {
        return Err(Failure::parameters("a store of objects holds sealed volumes")
            .at(&args.path)
            .hint("--type sealed makes one"));
    }
    let flash = &args.flash;
    let of_flash = flash.erase_size.is_some()
        || flash.prog_size.is_some()
        || flash.read_size.is_some()
        || flash.empty
        || flash.sealed.tag_size.is_some()
        || flash.sealed.unit_size.is_some()
        || flash.sealed.tickets.is_some();
    if of_flash {
        return Err(Failure::parameters(
            "--erase-size, --prog-size, --read-size, --empty, --tag-size, --unit-size and --tickets belong to flash",
        ));
    }
    let of_others = args.cipher.is_some()
        || args.key_size.is_some()
        || args.sector_size.is_some()
        || args.integrity.is_some()
        || args.header.is_some()
        || args.offset.is_some()
        || args.align_payload.is_some()
        || args.luks2_metadata_size.is_some()
        || args.luks2_keyslots_size.is_some()
        || flash.sealed.aead.is_some();
    if of_others {
        return Err(Failure::parameters(
            "a sealed volume has AES-256-GCM, blocks of 4 KiB, and its header in the store",
        )
        .hint("leave --cipher, --aead, --key-size, --sector-size, --integrity, --header and the options of its layout out"));
    }
    Ok(())
}

/// Nothing may be in the directory: what a tool that syncs it would mix up, and what is another volume's. Behind a prefix there may be
/// no objects of a volume, and the store must keep its word.
pub(super) fn look(place: &Place) -> Result<(), Failure> {
    let taken = |what: &str, hint: &str| Err(Failure::new(Code::Busy, what.to_owned()).hint(hint));
    match place {
        Place::Directory(directory) => match std::fs::read_dir(directory) {
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(Ok(_)) => {
                    taken("the directory is not empty", "name one that does not exist, or is empty")
                }
                Some(Err(error)) => Err(Failure::io(&error)),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Failure::io(&error)),
        },
        Place::Cloud(_) => {
            let store = place.store()?;
            for kind in [Kind::Header, Kind::Log, Kind::Map, Kind::Checkpoint] {
                if !store.list_after(kind, None)?.is_empty() {
                    return taken("a volume is there already", "name another prefix");
                }
            }
            Ok(Settings::default().patience.again(|| store.probe())?)
        }
    }
}

/// The file that becomes the trusted store. One that belongs to a volume is asked about.
pub(super) fn new_store(path: &Path, output: &Output) -> Result<TrustedFile, Failure> {
    let failed = |error: TrustedFileError| Failure::from(FlashOpenError::Store(error)).at(path);
    let mut file = TrustedFile::open_or_new(path).map_err(failed)?;
    match file.record() {
        Err(TrustedFileError::Empty | TrustedFileError::Missing) => {}
        Ok(_) => {
            let shown = path.display();
            output.confirm(&format!(
                "{shown} is the trusted store of a volume, which can't be written any more without it"
            ))?;
        }
        Err(error) => return Err(failed(error)),
    }
    // What another process has stored meanwhile would be lost.
    file.claim().map_err(crate::flash_errors::of_trusted)?;
    Ok(file)
}

fn volume_key(args: &FormatArgs, output: &Output) -> Result<VolumeKey, Failure> {
    if let Some(path) = &args.volume_key_file {
        return secrets::read_volume_key_of(path, KEY_LEN, output);
    }
    if let Some(name) = &args.volume_key_keyring {
        let key = secrets::read_volume_key_in_keyring(name, output)?;
        return match key.len() {
            KEY_LEN => Ok(key),
            len => Err(Failure::parameters(format!("a sealed volume's key has {KEY_LEN} bytes, not {len}"))),
        };
    }
    Ok(VolumeKey::generate(KEY_LEN, &mut OsRandom).map_err(FormatError::from)?)
}
