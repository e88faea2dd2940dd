//! One volume whose device is there: its header, its keys in turn, and its mapping.

use core::str::FromStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_attach::dm;
use atrest_cipher::CipherSpec;
use atrest_engine::contents::Contents;
use atrest_kdf::plain::PlainHash;
use atrest_open::token::tpm2::{self, TpmStore};
use atrest_open::token::{Token, TokensFirst};
use atrest_open::{Format, Held, HeldError, Locked, Refused};
use atrest_volume::luks2::HeaderPolicy;
use atrest_volume::plain::PlainOptions;
use atrest_volume::{LockedVolume, UnlockOptions, Volume};

use super::error::EntryError;
use super::keys::Keys;
use super::{Level, Unlocker};
use crate::mounts::OnDevice;
use crate::policy::{Entry, Key, Kind, Measured};

/// Tokens that are passphrases, and ask for nothing else.
const PASSPHRASES: &[&str] = &["systemd-recovery"];

/// Unlocks and maps the volume on a device.
pub fn open(unlocker: &Unlocker<'_>, entry: &Entry, source: &Path) -> Result<PathBuf, EntryError> {
    let refused = |HeldError { path, error }| EntryError::Open { path, error };
    // The data is locked while the header's device is waited for.
    let mut held = Held::open(source, None, !entry.options.read_only).map_err(refused)?;
    let header = HeaderPlace::find(unlocker, entry)?;
    if let Some(path) = &header.path {
        held = held.with_header(path).map_err(refused)?;
    }
    let (entry, uuid) = &demanded(entry, &held)?;
    let volume = unlock(unlocker, entry, source, &held, header.path.as_deref())?;
    unchanged(uuid.as_deref(), volume.uuid())?;
    proven(unlocker, entry, &volume)?;
    if volume.read_only() && !entry.options.read_only {
        unlocker.say(Level::Warning, entry, format_args!("it can only be read"));
    }
    let options = dm::Options {
        read_only: entry.options.read_only,
        flags: entry.options.flags,
        ..dm::Options::default()
    };
    // A header on a device of its own is closed here, and what was mounted for it goes.
    let (media, _) = held.into_devices();
    drop(header);
    let media = media.into_file().map_err(|error| EntryError::Open { path: source.into(), error })?;
    dm::open(&entry.name, &volume, media, options).map_err(EntryError::Map)
}

/// The entry with what the kernel command line demands of the UUID that the header has, and that UUID, if anything is demanded by UUID.
fn demanded(entry: &Entry, held: &Held) -> Result<(Entry, Option<String>), EntryError> {
    let mut entry = entry.clone();
    if entry.demanded.is_empty() {
        return Ok((entry, None));
    }
    let read = LockedVolume::read(held.devices().header);
    let path = held.header().path();
    let read = read.map_err(|error| EntryError::Header { path: path.into(), error: Box::new(error) })?;
    // A header may say anything, and steers no terminal by it.
    let shown = || read.uuid().chars().filter(char::is_ascii_graphic).collect();
    entry.demand(read.uuid()).map_err(|unsure| EntryError::Unsure { uuid: shown(), unsure })?;
    Ok((entry, Some(read.uuid().into())))
}

/// Checks that the volume has the UUID by which it was told what is demanded of it. A drive may show another header when it is read again.
fn unchanged(read: Option<&str>, opened: Option<&str>) -> Result<(), EntryError> {
    if read.is_some() && read != opened { Err(EntryError::OtherHeader) } else { Ok(()) }
}

/// Checks that it is the volume that was meant, and tells the TPM which one it is, before anything is mapped.
fn proven(unlocker: &Unlocker<'_>, entry: &Entry, volume: &Volume) -> Result<(), EntryError> {
    let (Some(key), Some(uuid)) = (volume.targets().first().map(|target| &target.key), volume.uuid()) else {
        return match (&entry.options.fixed_key, entry.options.measured) {
            (Some(_), _) => Err(EntryError::OtherKey),
            (None, Measured::Pcr(pcr)) => {
                Err(EntryError::NotMeasured { pcr, error: "the volume has no UUID to be named by".into() })
            }
            _ => Ok(()),
        };
    };
    if entry.options.fixed_key.as_ref().is_some_and(|fixed| *fixed != tpm2::fixed(key, &entry.name, uuid)) {
        return Err(EntryError::OtherKey);
    }
    let (pcr, wanted) = match entry.options.measured {
        Measured::No => return Ok(()),
        Measured::Unsaid if !unlocker.measures || !tpm2::is_there() => return Ok(()),
        Measured::Unsaid => (tpm2::VOLUME_KEY_PCR, false),
        Measured::Pcr(pcr) => (pcr, true),
    };
    unlocker.wait_for_tpm(entry);
    match tpm2::measure(pcr, key, &entry.name, uuid) {
        Ok(()) => Ok(()),
        Err(error) if wanted => Err(EntryError::NotMeasured { pcr, error: Box::new(error) }),
        Err(error) => {
            let text = format_args!("PCR {pcr} does not tell which volume was opened: {error}");
            unlocker.say(Level::Warning, entry, text);
            Ok(())
        }
    }
}

fn unlock_options(entry: &Entry) -> Result<UnlockOptions, EntryError> {
    let policy = entry.options.header_policy.as_ref().map(|path| {
        let path = path.as_ref().map_err(|error| EntryError::BadHeaderPolicy(error.clone()))?;
        let refused = |reason: String| EntryError::HeaderPolicy { path: path.into(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        HeaderPolicy::parse(&text).map(Arc::new).map_err(refused)
    });
    Ok(UnlockOptions {
        slot: entry.options.key_slot,
        read_only: entry.options.read_only,
        keep_key: true,
        policy: policy.transpose()?,
        expected_key: entry.options.expected_key,
        ..UnlockOptions::default()
    })
}

/// Where a header on another device or in a file is, with what is mounted for it.
struct HeaderPlace {
    path: Option<PathBuf>,
    _mount: Option<OnDevice>,
}

impl HeaderPlace {
    fn find(unlocker: &Unlocker<'_>, entry: &Entry) -> Result<Self, EntryError> {
        let mut mount = None;
        let place = match (&entry.options.header, entry.options.kind) {
            (Some(place), Kind::Luks) => place,
            _ => return Ok(Self { path: None, _mount: None }),
        };
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
        Ok(Self { path: Some(path), _mount: mount })
    }
}

/// Looks for the volume, and tries the keys that the policy names until one is right.
fn unlock(
    unlocker: &Unlocker<'_>,
    entry: &Entry,
    source: &Path,
    held: &Held,
    header: Option<&Path>,
) -> Result<Volume, EntryError> {
    let format = match entry.options.kind {
        Kind::Luks => Format::ByHeader,
        Kind::Plain => plain(entry)?,
    };
    let path = header.unwrap_or(source);
    let locked = held
        .locked(&format)
        .map_err(|error| EntryError::Header { path: path.into(), error: Box::new(error) })?;
    for token in locked.tokens() {
        if !PASSPHRASES.contains(&token.info.kind.as_str()) && !token.is_known() {
            let text = format_args!(
                "its token {} ({}) can't be served here and is passed over",
                token.info.id, token.info.kind
            );
            unlocker.say(Level::Warning, entry, text);
        }
    }
    // Everything that can be wrong without a key is found before anybody is asked for one.
    locked.check().map_err(EntryError::Unlock)?;
    let options = unlock_options(entry)?;
    locked.check_expected(&options).map_err(EntryError::Unlock)?;
    let behind = header_store(unlocker, entry, &*locked)?;
    let found = locked
        .in_the_way()
        .map_err(|error| EntryError::Open { path: held.media().path().into(), error: error.into() })?;
    if let Some(found) = not_written_over(found, entry.options.read_only)? {
        let text = format_args!("there is {found}; read as a plain volume it is noise");
        unlocker.say(Level::Warning, entry, text);
    }
    let volume = match &format {
        Format::Plain { options: plain, hash } => {
            if matches!(entry.key, Key::Ask) && hash.is_none() {
                return Err(EntryError::PlainOption { option: "hash" });
            }
            let key = unlocker.plain_key(entry, source, plain.key_len)?;
            locked.try_key(&key, &options).map_err(EntryError::Unlock)
        }
        // Crypttab has no volumes of other programs; a build for all programs knows them.
        _ => {
            let keys = Keys::new(unlocker, entry, source);
            let known = |token: &Token| token.is_known();
            // As systemd does: where a key is named, tokens are not looked at.
            let tokens = match &entry.key {
                Key::Ask => locked.tokens().into_iter().filter(known).collect(),
                _ => Vec::new(),
            };
            let opened = atrest_open::unlock(&*locked, &mut TokensFirst::new(tokens, false, keys), &options);
            opened.map_err(|refused| match refused {
                Refused::Source(error) => error,
                Refused::Attempt(error) => EntryError::Unlock(error),
                // cannot happen: in the end somebody is asked, or an error says why nobody is.
                Refused::NoKey => EntryError::Headless,
            })
        }
    }?;
    if let Some(store) = behind {
        // Somebody changed the header, and the counter was not told. The volume is open, so the pin is checked: it was made with the key.
        locked
            .pin_counter()
            .map_err(Into::into)
            .and_then(|named| store.catch_up(&named))
            .map_err(EntryError::HeaderStore)?;
    }
    Ok(volume)
}

/// Has the TPM say that the header is the newest one. Returns the counter if it has to be raised once the volume is open.
fn header_store(
    unlocker: &Unlocker<'_>,
    entry: &Entry,
    locked: &dyn Locked,
) -> Result<Option<TpmStore>, EntryError> {
    let Some(store) = entry.options.header_store else { return Ok(None) };
    let store = store.map_err(EntryError::BadHeaderStore)?;
    unlocker.wait_for_tpm(entry);
    let behind = locked.pin_counter().map_err(Into::into).and_then(|named| store.check(&named));
    Ok((behind.map_err(EntryError::HeaderStore)? > 0).then_some(store))
}

/// What the policy says of a volume without a header.
fn plain(entry: &Entry) -> Result<Format, EntryError> {
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
    // A key file is the key: what hash the policy names for it is not looked at.
    let hash = wanted.hash.as_deref().filter(|_| matches!(entry.key, Key::Ask));
    let hash = hash.map(PlainHash::from_str).transpose().map_err(|error| bad(&error))?;
    Ok(Format::Plain { options, hash })
}

/// Fails if something is on the device that writes to the plain volume would destroy: at boot nobody is asked. Returns what it
/// is where nothing is written.
fn not_written_over(found: Option<Contents>, read_only: bool) -> Result<Option<Contents>, EntryError> {
    match found {
        Some(found) if !read_only => Err(EntryError::PlainOver { found }),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use atrest_engine::{Access, FileDevice};
    use atrest_secret::Passphrase;
    use atrest_testkit::Scratch;
    use atrest_volume::{Devices, FormatOptions, KeyslotOptions, PbkdfKind, PbkdfOptions, VolumeFormat};

    use super::*;
    use crate::policy::{CommandLine, Crypttab, Policy};

    /// Fills a file with a LUKS2 volume, and returns its UUID.
    fn luks2(path: &Path) -> String {
        std::fs::write(path, vec![0; 20 << 20]).expect("written");
        let device = FileDevice::open(path, Access::ReadWrite).expect("opens");
        let kind = Some(PbkdfKind::Pbkdf2);
        let pbkdf = PbkdfOptions { kind, forced_iterations: Some(1000), ..PbkdfOptions::default() };
        let keyslot = KeyslotOptions { pbkdf, ..KeyslotOptions::default() };
        let options = FormatOptions { keyslot, ..FormatOptions::default() };
        let passphrase = Passphrase::copy_from(b"correct horse");
        atrest_volume::format(Devices::together(&device), VolumeFormat::Luks2, &passphrase, &options)
            .expect("formatted");
        LockedVolume::read(&device).expect("a header").uuid().into()
    }

    #[test]
    fn demands_by_uuid_hold_for_the_header_that_has_it_however_its_device_is_named() {
        let dir = Scratch::new();
        let (image, key) = (dir.path("image"), dir.file("key", "correct horse"));
        let uuid = luks2(&image);
        let refusal = |place: &str, words: &str| {
            let line = |text: &str| CommandLine::parse(Path::new("cmdline"), text);
            let device = image.display();
            let policy = match place {
                "crypttab" => {
                    let table = format!("v {device} {} luks,read-only", key.display());
                    Policy::new(Some(Crypttab::parse(Path::new("crypttab"), &table)), Some(line(words)))
                }
                _ => {
                    let key = key.display();
                    let words = format!("cryptdevice={device}:v:read-only cryptkey=rootfs:{key} {words}");
                    Policy::new(None, Some(line(&words)))
                }
            };
            let [entry] = &policy.entries[..] else { panic!("one entry: {policy:?}") };
            let held = Held::open(&image, None, false).expect("opens");
            let unlocker = Unlocker::new(&|_, _| {}, None);
            let unlocked = demanded(entry, &held)
                .and_then(|(entry, _)| unlock(&unlocker, &entry, &image, &held, None).map(drop));
            unlocked.err().map_or(String::new(), |error| error.to_string())
        };
        let other = "99999999-9e27-4efe-a4d5-15ad146c258b";
        let wrong = "1".repeat(32);
        for place in ["crypttab", "cryptdevice"] {
            assert_eq!(refusal(place, ""), "", "{place}");
            for id in [&uuid, &uuid[..8], &uuid.to_uppercase()] {
                let stays = |words: &str, why: &str| {
                    let said = refusal(place, words);
                    assert!(said.contains(why), "{place} {words}: {said:?}");
                };
                stays(&format!("luks.header-policy={id}=/nowhere/policy"), "/nowhere/policy");
                stays(&format!("luks.header-policy={id}=name"), "\"name\" is no absolute path");
                stays(&format!("luks.header-store={id}=tpm2:1"), "header-store=");
                stays(&format!("luks.expect-key={id}={wrong}"), "");
                assert_ne!(refusal(place, &format!("luks.expect-key={id}={wrong}")), "", "{place} {id}");
                let options = format!("luks.options={id}=expect-key={wrong}");
                assert_ne!(refusal(place, &options), "", "{place} {id}");
            }
            // A header with another UUID may have been put there.
            let said = refusal(place, &format!("luks.expect-key={other}={wrong}"));
            assert!(said.contains(&uuid) && said.contains(other), "{said}");
        }
        let named = format!("luks.expect-key={other}={wrong}");
        let table = format!("v {} none luks\nw UUID={other}", image.display());
        let policy = Policy::new(
            Some(Crypttab::parse(Path::new("crypttab"), &table)),
            Some(CommandLine::parse(Path::new("cmdline"), &named)),
        );
        let held = Held::open(&image, None, false).expect("opens");
        let (entry, _) = demanded(&policy.entries[0], &held).expect("it is meant for the other");
        assert_eq!(entry.options.expected_key, None);
    }

    #[test]
    fn a_header_that_changes_while_it_is_opened_is_refused() {
        assert!(unchanged(None, None).is_ok() && unchanged(None, Some("a")).is_ok());
        assert!(unchanged(Some("a"), Some("a")).is_ok());
        for opened in [None, Some("b")] {
            assert!(matches!(unchanged(Some("a"), opened), Err(EntryError::OtherHeader)));
        }
    }

    #[test]
    fn a_header_is_looked_for_where_there_can_be_one() {
        let text = "v /dev/vda none luks,header=/nowhere/header";
        let policy = Policy::new(Some(Crypttab::parse(Path::new("crypttab"), text)), None);
        let [entry] = &policy.entries[..] else { panic!("one entry: {policy:?}") };
        let unlocker = Unlocker::new(&|_, _| {}, None);
        let path = |entry: &Entry| HeaderPlace::find(&unlocker, entry).expect("no device is waited for").path;
        assert_eq!(path(entry), Some("/nowhere/header".into()));
        let mut plain = entry.clone();
        plain.options.kind = Kind::Plain;
        assert_eq!(path(&plain), None);
    }

    #[test]
    fn a_plain_volume_is_not_mapped_over_something_else_but_for_reading() {
        let options = PlainOptions::new("aes-xts-plain64".parse().expect("a cipher"), 64);
        let dir = Scratch::new();
        let path = dir.path("device");
        let format = Format::Plain { options, hash: None };
        let look = |image: &[u8], read_only| {
            std::fs::write(&path, image).expect("written");
            let held = Held::open(&path, None, false).expect("opens");
            let locked = held.locked(&format).expect("no header is needed");
            not_written_over(locked.in_the_way().expect("it can be read"), read_only)
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
