//! `luks.uuid=`, `luks.name=`, `luks.key=`, `luks.options=`, `luks.data=`, and dracut's additions to them.

use atrest_open::token::tpm2::{BadTpmStore, TpmStore};
use atrest_volume::luks2::VolumeKeyId;

use super::entry::{Entry, Key};
use super::notice::{Notice, Origin, Problem};
use super::options::{Options, Place};
use super::spec::DeviceSpec;
use super::words;

/// What is said of volumes by their UUIDs, and of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    volumes: Vec<Volume>,
    /// Only volumes that are named here are opened (`luks.uuid=` or `luks.name=` was given).
    pub only: bool,
    key: Option<String>,
    options: Option<String>,
    /// dracut: `rd.luks.key=PATH:KEYDEVICE[:DEVICE]`; `None` fits all.
    dracut_keys: Vec<(Place, Option<DeviceSpec>)>,
    /// dracut: discards for all.
    discards: bool,
    /// What each volume must be.
    demands: Demands,
    /// dracut: seconds that the question waits.
    timeout: Option<core::time::Duration>,
    /// dracut: seconds that the key's device is waited for.
    key_timeout: Option<core::time::Duration>,
}

/// What is said of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Volume {
    /// Its UUID or how that begins, or dracut's `rd.luks.partuuid=`.
    device: DeviceSpec,
    id: String,
    /// It is to be opened, not only told about.
    open: bool,
    name: Option<String>,
    key: Option<String>,
    options: Option<String>,
    data: Option<String>,
    discards: bool,
    demands: Demands,
    origin: Origin,
}

/// What a volume must be, or it is not opened. What is mistyped lets no volume in, rather than any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Demands {
    expected_key: Option<VolumeKeyId>,
    header_policy: Option<String>,
    header_store: Option<Result<TpmStore, BadTpmStore>>,
}

impl Demands {
    /// Takes one of them, by its name. Whether it makes sense.
    fn add(&mut self, name: &str, text: Option<&str>) -> bool {
        match name {
            "expect-key" => {
                let key = text.and_then(|text| text.parse().ok());
                self.expected_key = Some(key.unwrap_or(VolumeKeyId::OF_NONE));
                key.is_some()
            }
            "header-policy" => {
                let path = text.filter(|path| path.starts_with('/'));
                // There is no file without a name.
                self.header_policy = Some(path.map_or_else(String::new, String::from));
                path.is_some()
            }
            _ => {
                let store = text.map_or(Err(BadTpmStore), str::parse);
                self.header_store = Some(store);
                store.is_ok()
            }
        }
    }

    /// Puts them in the place of what an entry demands.
    fn apply(&self, options: &mut Options) {
        options.expected_key = self.expected_key.or(options.expected_key);
        options.header_store = self.header_store.or(options.header_store);
        if self.header_policy.is_some() {
            options.header_policy.clone_from(&self.header_policy);
        }
    }
}

/// Length of a whole UUID, in characters.
const WHOLE: usize = 36;

impl Requested {
    /// Takes `luks.NAME=VALUE`, without the prefix.
    pub fn add(&mut self, name: &str, value: Option<&str>, origin: &Origin) -> Result<(), Problem> {
        // intended: no value is shown as an empty one.
        let bad = || Problem::ParameterValue { value: value.unwrap_or_default().into() };
        let text = value.filter(|value| !value.is_empty());
        match name {
            "uuid" => {
                self.volume(text.and_then(uuid).ok_or_else(bad)?, origin).open = true;
                self.only = true;
            }
            "partuuid" => {
                let id = text.ok_or_else(bad)?;
                let volume = self.volume(id, origin);
                volume.device = DeviceSpec::PartUuid(id.into());
                volume.open = true;
                self.only = true;
            }
            "name" => {
                let (id, name) = text.and_then(split).ok_or_else(bad)?;
                let volume = self.volume(id, origin);
                volume.name = Some(name.into());
                volume.open = true;
                self.only = true;
            }
            "options" => {
                let text = text.ok_or_else(bad)?;
                match split(text) {
                    Some((id, options)) => self.volume(id, origin).options = Some(options.into()),
                    None => self.options = Some(text.into()),
                }
            }
            "key" => {
                let text = text.ok_or_else(bad)?;
                match split(text) {
                    Some((id, key)) => self.volume(id, origin).key = Some(key.into()),
                    None => self.add_key(text).ok_or_else(bad)?,
                }
            }
            "data" => {
                let (id, data) = text.and_then(split).ok_or_else(bad)?;
                self.volume(id, origin).data = Some(data.into());
            }
            "expect-key" | "header-policy" | "header-store" => {
                let makes_sense = match text.and_then(split) {
                    Some((id, of_volume)) => self.volume(id, origin).demands.add(name, Some(of_volume)),
                    None => self.demands.add(name, text),
                };
                makes_sense.then_some(()).ok_or_else(bad)?;
            }
            "allow-discards" => match text {
                None => self.discards = true,
                Some(id) => self.volume(uuid(id).ok_or_else(bad)?, origin).discards = true,
            },
            "timeout" => self.timeout = text.and_then(words::span).ok_or_else(bad)?,
            "key.tout" => self.key_timeout = text.and_then(words::span).ok_or_else(bad)?,
            _ => return Err(Problem::UnknownParameter),
        }
        Ok(())
    }

    /// A key for all volumes, or in dracut's order `PATH[:KEYDEVICE[:DEVICE]]` for one.
    fn add_key(&mut self, text: &str) -> Option<()> {
        let mut parts = text.split(':');
        let path = parts.next().filter(|path| path.starts_with('/'))?;
        let key_device = parts.next().filter(|part| !part.is_empty());
        let device = parts.next().filter(|part| !part.is_empty());
        if key_device.is_none() && device.is_none() {
            self.key = Some(text.trim_end_matches(':').into());
            return Some(());
        }
        let parse = |text: Option<&str>| match text {
            None => Some(None),
            Some(text) => DeviceSpec::parse(text).map(Some),
        };
        let place = Place { path: Some(path.into()), device: parse(key_device)? };
        self.dracut_keys.push((place, parse(device)?));
        parts.next().is_none().then_some(())
    }

    fn volume(&mut self, id: &str, origin: &Origin) -> &mut Volume {
        let id = id.to_ascii_lowercase();
        let at = match self.volumes.iter().position(|volume| volume.id == id) {
            Some(at) => at,
            None => {
                let device = match id.len() {
                    WHOLE => DeviceSpec::Uuid(id.clone()),
                    _ => DeviceSpec::LuksUuidPrefix(id.clone()),
                };
                self.volumes.push(Volume {
                    device,
                    id,
                    open: false,
                    name: None,
                    key: None,
                    options: None,
                    data: None,
                    discards: false,
                    demands: Demands::default(),
                    origin: origin.clone(),
                });
                self.volumes.len() - 1
            }
        };
        &mut self.volumes[at]
    }

    /// Whether crypttab's entry for a device may be opened; what is said of it here beats what is said there.
    pub fn apply(&self, entry: &mut Entry, notices: &mut Vec<Notice>) -> bool {
        let Some(volume) = self.volumes.iter().find(|volume| volume.fits(&entry.source)) else {
            self.demands.apply(&mut entry.options);
            return !self.only;
        };
        let origin = &volume.origin;
        if let Some(options) = &volume.options {
            match Options::read(options, origin, notices) {
                Some(options) => entry.options = options,
                None => return false,
            }
        }
        if let Some(key) = &volume.key {
            match Key::parse(key, &mut entry.options) {
                Ok(key) => entry.key = key,
                Err(problem) => notices.push(Notice { origin: origin.clone(), problem }),
            }
        }
        self.finish(entry, volume);
        volume.open || !self.only
    }

    /// The volumes that are to be opened and that none of these entries is about.
    pub fn entries(&self, known: &[Entry], notices: &mut Vec<Notice>) -> Vec<Entry> {
        let open = self.volumes.iter().filter(|volume| volume.open);
        let new = open.filter(|volume| !known.iter().any(|entry| volume.fits(&entry.source)));
        new.filter_map(|volume| {
            let name = volume.name.clone().unwrap_or_else(|| format!("luks-{}", volume.id));
            let options = volume.options.as_ref().or(self.options.as_ref());
            let options = options.map_or("", String::as_str);
            let key = volume.key.as_ref().or(self.key.as_ref()).map_or("none", String::as_str);
            let origin = &volume.origin;
            // Tags were checked, and are set below as they are.
            let mut entry = Entry::read(&name, "/dev/null", key, options, origin, notices)?;
            entry.source = match &volume.data {
                None => volume.device.clone(),
                Some(data) => match DeviceSpec::parse(data) {
                    Some(data) => data,
                    None => {
                        let problem = Problem::BadDevice { text: data.clone() };
                        notices.push(Notice { origin: origin.clone(), problem });
                        return None;
                    }
                },
            };
            if volume.data.is_some() && entry.options.header.is_none() {
                // The header is on the device of that UUID.
                entry.options.header = Some(Place { path: None, device: Some(volume.device.clone()) });
            }
            self.finish(&mut entry, volume);
            Some(entry)
        })
        .collect()
    }

    fn finish(&self, entry: &mut Entry, volume: &Volume) {
        entry.options.flags.allow_discards |= self.discards || volume.discards;
        self.demands.apply(&mut entry.options);
        volume.demands.apply(&mut entry.options);
        entry.options.timeout = entry.options.timeout.or(self.timeout);
        entry.options.key_timeout = entry.options.key_timeout.or(self.key_timeout);
        if entry.key == Key::Ask {
            let fits = |device: &Option<DeviceSpec>| match device {
                None => true,
                // Either may be the beginning of a UUID only.
                Some(DeviceSpec::Uuid(id)) => {
                    let id = id.to_ascii_lowercase();
                    volume.id.starts_with(&id) || id.starts_with(&volume.id)
                }
                Some(device) => *device == entry.source,
            };
            if let Some((place, _)) = self.dracut_keys.iter().find(|(_, device)| fits(device)) {
                entry.key = Key::File { place: place.clone(), filesystem: None };
            }
        }
    }
}

impl Volume {
    fn fits(&self, source: &DeviceSpec) -> bool {
        match (&self.device, source) {
            (DeviceSpec::PartUuid(a), DeviceSpec::PartUuid(b)) => a.eq_ignore_ascii_case(b),
            (DeviceSpec::Uuid(_) | DeviceSpec::LuksUuidPrefix(_), DeviceSpec::Uuid(uuid)) => {
                uuid.to_ascii_lowercase().starts_with(&self.id)
            }
            _ => false,
        }
    }
}

/// A UUID or how one begins, which may be written `luks-UUID`.
fn uuid(text: &str) -> Option<&str> {
    let uuid = text.strip_prefix("luks-").unwrap_or(text);
    let digits = uuid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    (digits && !uuid.is_empty() && uuid.len() <= WHOLE).then_some(uuid)
}

/// `UUID=REST`.
fn split(text: &str) -> Option<(&str, &str)> {
    let (id, rest) = text.split_once('=')?;
    Some((uuid(id)?, rest)).filter(|(_, rest)| !rest.is_empty())
}
