//! `luks.uuid=`, `luks.name=`, `luks.key=`, `luks.options=`, `luks.data=`, and dracut's additions to them.

use super::demands::{Demanded, Demands};
use super::entry::{Entry, Key};
use super::notice::{Notice, Origin, Problem};
use super::options::{Kind, Options, Place};
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
                // intended: no value is shown as an empty one.
                let bad = || Problem::DemandValue { value: value.unwrap_or_default().into() };
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

    /// What fits a device, by rising length: what is said of a whole UUID beats what is said of its beginning.
    fn fitting(&self, source: &DeviceSpec) -> Vec<&Volume> {
        let mut fitting: Vec<&Volume> = self.volumes.iter().filter(|volume| volume.fits(source)).collect();
        fitting.sort_by_key(|volume| volume.id.len());
        fitting
    }

    /// Whether crypttab's entry for a device may be opened; what is said of it here beats what is said there.
    pub fn apply(&self, entry: &mut Entry, notices: &mut Vec<Notice>) -> bool {
        let fitting = self.fitting(&entry.source);
        let said = |of: fn(&Volume) -> Option<&String>| {
            fitting.iter().rev().find_map(|volume| Some((of(volume)?, &volume.origin)))
        };
        if let Some((options, origin)) = said(|volume| volume.options.as_ref()) {
            match Options::read(options, origin, notices) {
                Some(options) => entry.options = options,
                None => return false,
            }
        }
        if let Some((key, origin)) = said(|volume| volume.key.as_ref()) {
            match Key::parse(key, &mut entry.options) {
                Ok(key) => entry.key = key,
                Err(problem) => notices.push(Notice { origin: origin.clone(), problem }),
            }
        }
        self.demand(entry, &fitting);
        if !fitting.is_empty() {
            self.finish(entry, &fitting);
        }
        !self.only || fitting.iter().any(|volume| volume.open)
    }

    /// The volumes that are to be opened and that none of these entries is about.
    pub fn entries(&self, known: &[Entry], notices: &mut Vec<Notice>) -> Vec<Entry> {
        let open = self.volumes.iter().filter(|volume| volume.open);
        let new = open.filter(|volume| !known.iter().any(|entry| volume.fits(&entry.source)));
        new.filter_map(|volume| {
            let fitting = self.fitting(&volume.device);
            let related = |of: fn(&Volume) -> Option<&String>| {
                of(volume).or_else(|| fitting.iter().rev().find_map(|other| of(other)))
            };
            let name = volume.name.clone().unwrap_or_else(|| format!("luks-{}", volume.id));
            let options = related(|volume| volume.options.as_ref()).or(self.options.as_ref());
            let options = options.map_or("", String::as_str);
            let key = related(|volume| volume.key.as_ref()).or(self.key.as_ref());
            let key = key.map_or("none", String::as_str);
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
            self.demand(&mut entry, &fitting);
            self.finish(&mut entry, &fitting);
            Some(entry)
        })
        .collect()
    }

    /// Adds what is demanded of all volumes, and of those by whose UUIDs this one is named.
    pub fn demand_by_name(&self, entry: &mut Entry) {
        self.demand(entry, &[]);
    }

    /// The volumes beside `own` are those whose UUID the entry names.
    fn demand(&self, entry: &mut Entry, own: &[&Volume]) {
        self.demands.apply(&mut entry.options);
        let is_own = |volume: &Volume| own.iter().any(|own| core::ptr::eq(*own, volume));
        let named = self.volumes.iter().filter(|volume| is_own(volume) || volume.names(entry));
        let mut named: Vec<&Volume> = named.collect();
        named.sort_by_key(|volume| volume.id.len());
        for volume in named {
            volume.all_demands().apply(&mut entry.options);
        }
    }

    /// Leaves with the entries what is demanded by UUID, so that it holds for whichever has that UUID in its header. What no entry is
    /// named by is told. `left_out` are those that are not to be opened.
    pub fn leave_demands(&self, entries: &mut [Entry], left_out: &[Entry], notices: &mut Vec<Notice>) {
        let mut demanded = Vec::new();
        for volume in &self.volumes {
            let demands = volume.all_demands();
            if demands.is_empty() {
                continue;
            }
            let is_named = entries.iter().chain(left_out).any(|entry| volume.names(entry));
            let is_loose = !volume.open && !is_named;
            if is_loose {
                notices.push(Notice { origin: volume.origin.clone(), problem: Problem::NamesNone });
            }
            demanded.push(Demanded { id: volume.id.clone(), demands, is_loose });
        }
        demanded.sort_by_key(|demanded| demanded.id.len());
        // What has no header has no UUID.
        for entry in entries.iter_mut().filter(|entry| entry.options.kind == Kind::Luks) {
            entry.demanded.clone_from(&demanded);
        }
    }

    fn finish(&self, entry: &mut Entry, volumes: &[&Volume]) {
        let discards = self.discards || volumes.iter().any(|volume| volume.discards);
        entry.options.flags.allow_discards |= discards;
        entry.options.timeout = entry.options.timeout.or(self.timeout);
        entry.options.key_timeout = entry.options.key_timeout.or(self.key_timeout);
        if entry.key == Key::Ask {
            let fits = |device: &Option<DeviceSpec>| match device {
                None => true,
                Some(DeviceSpec::Uuid(id)) => volumes.iter().any(|volume| begins(&volume.id, id)),
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
            (
                DeviceSpec::Uuid(_) | DeviceSpec::LuksUuidPrefix(_),
                DeviceSpec::Uuid(uuid) | DeviceSpec::LuksUuidPrefix(uuid),
            ) => begins(&self.id, uuid),
            _ => false,
        }
    }

    /// Whether an entry names it: by its device, or by that of its header.
    fn names(&self, entry: &Entry) -> bool {
        self.fits(&entry.source) || entry.header_device().is_some_and(|device| self.fits(device))
    }

    /// What is demanded of it, also among its options.
    fn all_demands(&self) -> Demands {
        let Some(options) = &self.options else { return self.demands.clone() };
        // What is wrong with them is told where they are used.
        let Some(mut options) = Options::read(options, &self.origin, &mut Vec::new()) else {
            return Demands::unreadable();
        };
        self.demands.apply(&mut options);
        Demands::of(&options)
    }
}

/// Whether one of the two is how the other begins.
fn begins(a: &str, b: &str) -> bool {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    a.starts_with(&b) || b.starts_with(&a)
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
