//! `cryptdevice=DEVICE:NAME[:OPTIONS]`, `cryptkey=` and `crypto=`, as mkinitcpio's hook `encrypt` takes them.

use super::entry::{Entry, Key};
use super::notice::{Notice, Origin, Problem};
use super::options::{Kind, Options, Place, Plain};
use super::spec::DeviceSpec;

/// Where the hook looks for a key file if nothing else is said.
pub const DEFAULT_KEY: &str = "/crypto_keyfile.bin";
/// What the volume is called if nothing else is said.
const DEFAULT_NAME: &str = "root";

/// What is said of the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CryptDevice {
    device: Option<(String, Origin)>,
    key: Option<(Key, u64, Option<u64>)>,
    plain: Option<Plain>,
}

impl CryptDevice {
    /// Takes one of the three parameters.
    ///
    /// # Errors
    /// [`Problem::ParameterValue`] if there is no value, or none that the parameter has.
    pub fn add(&mut self, name: &str, value: Option<&str>, origin: &Origin) -> Result<(), Problem> {
        // intended: no value is shown as an empty one.
        let bad = || Problem::ParameterValue { value: value.unwrap_or_default().into() };
        let text = value.filter(|value| !value.is_empty()).ok_or_else(bad)?;
        match name {
            "cryptdevice" => self.device = Some((text.into(), origin.clone())),
            "cryptkey" => self.key = Some(key(text).ok_or_else(bad)?),
            _ => self.plain = Some(plain(text).ok_or_else(bad)?),
        }
        Ok(())
    }

    /// The volume, if there is one.
    pub fn entry(&self, notices: &mut Vec<Notice>) -> Option<Entry> {
        let (text, origin) = self.device.as_ref()?;
        // A PARTLABEL may hold colons, but then nobody can say where it ends.
        let mut parts = text.splitn(3, ':');
        // cannot miss: a split text has a first part.
        let device = parts.next().unwrap_or_default();
        let name = parts.next().filter(|name| !name.is_empty()).unwrap_or(DEFAULT_NAME);
        // intended: options need not be there.
        let mut entry = Entry::read(name, device, "none", parts.next().unwrap_or_default(), origin, notices)?;
        entry.key = match &self.key {
            Some((key, offset, size)) => {
                entry.options.key_offset = *offset;
                entry.options.key_size = *size;
                key.clone()
            }
            None => Key::file(DEFAULT_KEY),
        };
        if let Some(plain) = &self.plain {
            entry.options = Options { kind: Kind::Plain, plain: plain.clone(), ..entry.options };
        }
        Some(entry)
    }

    /// Whether the key is the file that need not be there.
    pub fn is_default_key(key: &Key) -> bool {
        *key == Key::file(DEFAULT_KEY)
    }
}

/// `rootfs:PATH`, `DEVICE:OFFSET:SIZE` in bytes, `DEVICE:FILESYSTEM:PATH` or `DEVICE:PATH`.
fn key(text: &str) -> Option<(Key, u64, Option<u64>)> {
    let (device, rest) = text.split_once(':')?;
    if device == "rootfs" {
        return rest.starts_with('/').then(|| (Key::file(rest), 0, None));
    }
    let device = Some(DeviceSpec::parse(device)?);
    let file = |path: &str, filesystem: Option<&str>| {
        let place =
            Place { path: Some(format!("/{}", path.trim_start_matches('/'))), device: device.clone() };
        let filesystem = filesystem.filter(|name| *name != "auto").map(String::from);
        (Key::File { place, filesystem }, 0, None)
    };
    match rest.split_once(':') {
        None if rest.starts_with('/') => Some(file(rest, None)),
        None => None,
        Some((offset, size)) if offset.bytes().all(|digit| digit.is_ascii_digit()) => {
            let place = Place { path: None, device };
            let key = Key::File { place, filesystem: None };
            Some((key, offset.parse().ok()?, Some(size.parse().ok().filter(|size| *size > 0)?)))
        }
        Some((_, "")) => None,
        Some((filesystem, path)) => Some(file(path, Some(filesystem))),
    }
}

/// `HASH:CIPHER:KEYSIZE:OFFSET:SKIP`; each may be empty.
fn plain(text: &str) -> Option<Plain> {
    let parts: Vec<&str> = text.split(':').collect();
    // The hash of a cipher's IV has a colon in front, as in aes-cbc-essiv:sha256.
    let [hash, cipher @ .., size, offset, skip] = parts.as_slice() else { return None };
    let word = |text: &str| (!text.is_empty()).then(|| String::from(text));
    let number = |text: &str| match text {
        "" => Some(0),
        digits => digits.parse::<u64>().ok(),
    };
    let bits = match *size {
        "" => None,
        digits => Some(digits.parse().ok().filter(|bits: &u32| *bits > 0 && bits.is_multiple_of(8))?),
    };
    Some(Plain {
        cipher: word(&cipher.join(":")),
        key_bits: bits,
        hash: word(hash),
        offset: number(offset)?,
        skip: number(skip)?,
        ..Plain::default()
    })
}
