//! One volume whose device is there: its header, its keys in turn, and its mapping.

use core::str::FromStr;
use std::path::{Path, PathBuf};

use atrest_attach::dm;
use atrest_cipher::CipherSpec;
use atrest_device::Media;
use atrest_engine::contents::{Contents, in_the_way};
use atrest_engine::{Access, FileDevice, is_same};
use atrest_kdf::WorkLimit;
use atrest_kdf::plain::PlainHash;
use atrest_secret::{Passphrase, SecretBytes};
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use atrest_volume::{Devices, LockedVolume, UnlockError, UnlockOptions, Volume};

use super::error::EntryError;
use super::{Level, Unlocker};
use crate::mounts::OnDevice;
use crate::policy::{Entry, Key, Kind};

/// Tokens that are passphrases, and ask for nothing else.
const PASSPHRASES: &[&str] = &["systemd-recovery"];

/// Unlocks and maps the volume on a device.
pub fn open(unlocker: &Unlocker<'_>, entry: &Entry, source: &Path) -> Result<PathBuf, EntryError> {
    let access = if entry.options.read_only { Access::ReadOnlyShared } else { Access::ReadWriteExclusive };
    let media =
        FileDevice::open(source, access).map_err(|error| EntryError::Open { path: source.into(), error })?;
    let volume = match entry.options.kind {
        Kind::Luks => luks(unlocker, entry, source, &media)?,
        Kind::Plain => plain(unlocker, entry, source, &media)?,
    };
    if volume.read_only() && !entry.options.read_only {
        unlocker.say(Level::Warning, entry, format_args!("it can only be read"));
    }
    let options = dm::Options {
        read_only: entry.options.read_only,
        flags: entry.options.flags,
        ..dm::Options::default()
    };
    dm::open(&entry.name, &volume, media, options).map_err(EntryError::Map)
}

fn unlock_options(entry: &Entry) -> UnlockOptions {
    UnlockOptions {
        slot: entry.options.key_slot,
        read_only: entry.options.read_only,
        keep_key: true,
        ..UnlockOptions::default()
    }
}

/// A header on another device or in a file. The mount goes last.
struct Header {
    device: FileDevice,
    path: PathBuf,
    _mount: Option<OnDevice>,
}

impl Header {
    fn open(unlocker: &Unlocker<'_>, entry: &Entry, source: &Path) -> Result<Option<Self>, EntryError> {
        let Some(place) = &entry.options.header else { return Ok(None) };
        let mut mount = None;
        // intended: a header that is a whole device has no path in it, and gets that of the device below.
        let mut path = PathBuf::from(place.path.as_deref().unwrap_or_default());
        if let Some(spec) = &place.device {
            let limit = unlocker.limit(entry);
            let device = unlocker.find(entry, spec, limit).ok_or_else(|| EntryError::HeaderDevice {
                device: spec.clone(),
                seconds: limit.map_or(0, |limit| limit.as_secs()),
            })?;
            path = match &place.path {
                None => device,
                Some(file) => {
                    let mounted = OnDevice::mount(&device, None)
                        .map_err(|error| EntryError::HeaderMount { device, error })?;
                    mount.insert(mounted).path(file)
                }
            };
        }
        // The volume's own device is open and locked already.
        if is_same(&path, source) {
            return Ok(None);
        }
        let device = FileDevice::open(&path, Access::ReadOnlyShared)
            .map_err(|error| EntryError::Open { path: path.clone(), error })?;
        Ok(Some(Self { device, path, _mount: mount }))
    }
}

fn luks(
    unlocker: &Unlocker<'_>,
    entry: &Entry,
    source: &Path,
    media: &FileDevice,
) -> Result<Volume, EntryError> {
    let header = Header::open(unlocker, entry, source)?;
    let devices = Devices::with_header(header.as_ref().map(|header| &header.device as &dyn Media), media);
    let path = header.as_ref().map_or(source, |header| &header.path);
    let locked = LockedVolume::read(devices.header)
        .map_err(|error| EntryError::Header { path: path.into(), error: Box::new(error) })?;
    for token in locked.info().tokens {
        if !PASSPHRASES.contains(&token.kind.as_str()) {
            let text = format_args!(
                "its token {} ({}) can't be served here and is passed over",
                token.id, token.kind
            );
            unlocker.say(Level::Warning, entry, text);
        }
    }
    // Told before anybody is asked for a passphrase.
    locked.check_place(devices).map_err(EntryError::Unlock)?;
    let options = unlock_options(entry);
    unlocker.with_keys(entry, source, &mut |passphrase| {
        // All keyslots together.
        WorkLimit::default().during(|| locked.unlock(devices, passphrase, &options))
    })
}

fn plain(
    unlocker: &Unlocker<'_>,
    entry: &Entry,
    source: &Path,
    media: &FileDevice,
) -> Result<Volume, EntryError> {
    let wanted = &entry.options.plain;
    let bad = |reason: &dyn core::fmt::Display| EntryError::PlainValue { reason: reason.to_string() };
    let cipher = wanted.cipher.as_deref().ok_or(EntryError::PlainOption { option: "cipher" })?;
    let bits = wanted.key_bits.ok_or(EntryError::PlainOption { option: "size" })?;
    let cipher = CipherSpec::from_str(cipher).map_err(|error| bad(&error))?;
    let mut options = PlainOptions::new(cipher, bits as usize / 8);
    options.offset = wanted.offset;
    options.skip = wanted.skip;
    options.data_unit = wanted.sector_size.unwrap_or(512);
    options.size = wanted.sectors;
    // Everything that can be wrong without a key is found before anybody is asked for one.
    if let Some(found) = not_over_anything(media, &options, entry.options.read_only)? {
        unlocker.say(
            Level::Warning,
            entry,
            format_args!("there is {found}; read as a plain volume it is noise"),
        );
    }
    let unlock = unlock_options(entry);
    let open = |key: PlainKey<'_>| plain::open(media, &options, key, &unlock).map_err(EntryError::Plain);
    let bytes: SecretBytes = match &entry.key {
        Key::Ask => {
            let hash = wanted.hash.as_deref().ok_or(EntryError::PlainOption { option: "hash" })?;
            let hash = PlainHash::from_str(hash).map_err(|error| bad(&error))?;
            let passphrase = Passphrase::new(unlocker.ask(entry, source)?);
            return open(PlainKey::Passphrase(&passphrase, hash));
        }
        _ => unlocker.key(entry, source, 0, options.key_len).map_err(EntryError::Key)?,
    };
    open(PlainKey::KeyFile(&bytes))
}

/// Fails if something is on the device that writes to the plain volume would destroy: at boot nobody is asked. Returns what it
/// is where nothing is written.
fn not_over_anything(
    media: &FileDevice,
    options: &PlainOptions,
    read_only: bool,
) -> Result<Option<Contents>, EntryError> {
    let range = plain::place(media, options).map_err(EntryError::Plain)?;
    let found =
        in_the_way(media, range).map_err(|error| EntryError::Open { path: media.path().into(), error })?;
    match found {
        Some(found) if !read_only => Err(EntryError::PlainOver { found }),
        found => Ok(found),
    }
}

/// Whether another key may do better.
pub fn is_wrong_key(error: &UnlockError) -> bool {
    matches!(
        error,
        UnlockError::WrongPassphrase
            | UnlockError::WrongPassphraseOrDamaged { .. }
            | UnlockError::KeyslotDamaged { .. }
    )
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn a_plain_volume_is_not_mapped_over_something_else_but_for_reading() {
        let options = PlainOptions::new("aes-xts-plain64".parse().expect("a cipher"), 64);
        let dir = Scratch::new();
        let path = dir.path("device");
        let look = |image: &[u8], read_only| {
            std::fs::write(&path, image).expect("written");
            let media = FileDevice::open(&path, Access::ReadOnly).expect("opens");
            not_over_anything(&media, &options, read_only)
        };
        let mut image = vec![0; 1 << 20];
        assert!(matches!(look(&image, false), Ok(None)));
        for (at, signature) in
            [(0, &b"XFSB"[..]), (8, b"littlefs"), (512, b"EFI PART"), (65526, b"SWAPSPACE2")]
        {
            image[at..at + signature.len()].copy_from_slice(signature);
            assert!(matches!(look(&image, false), Err(EntryError::PlainOver { .. })), "{signature:?}");
            assert!(matches!(look(&image, true), Ok(Some(_))), "{signature:?}");
            image[at..at + signature.len()].fill(0);
        }
    }
}
