//! One volume that is to be opened.

use super::demands::Demanded;
use super::notice::{Notice, Origin, Problem};
use super::options::{Kind, Options, Place, place};
use super::spec::DeviceSpec;

/// A volume that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name below `/dev/mapper`.
    pub name: String,
    /// The device that holds it.
    pub source: DeviceSpec,
    /// Where its key is.
    pub key: Key,
    /// How it is unlocked and mapped.
    pub options: Options,
    /// Who asked for it.
    pub origin: Origin,
    /// What the kernel command line demands of volumes by UUID, by rising length of what it says of that.
    pub demanded: Vec<Demanded>,
}

/// It can't be told whether the kernel command line demands something of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsure {
    /// The UUID of which something is demanded.
    pub demanded: String,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// From `NAME.key` in one of the directories for keys, or else from a person.
    Ask,
    /// From a file or a device.
    File {
        /// Where it is.
        place: Place,
        /// The file system of its device, if that was said.
        filesystem: Option<String>,
    },
    /// From a random source, new each time: `/dev/urandom` and the like. For plain volumes.
    Random,
    /// From the standard output of a program.
    Script {
        /// The program.
        program: String,
        /// Its argument: the third field of crypttab.
        argument: String,
    },
}

/// Debian's scripts for what is done here without one, by the ends of their paths.
const PASSDEV: &str = "passdev";
const KEYCTL: &str = "decrypt_keyctl";

impl Key {
    /// A key file on no other device.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File { place: Place { path: Some(path.into()), device: None }, filesystem: None }
    }

    /// The third field of crypttab, and `luks.key=`.
    ///
    /// # Errors
    /// [`Problem::BadKey`] if the text is no key that is known, or a random one for a volume with a header.
    pub fn parse(text: &str, options: &mut Options) -> Result<Self, Problem> {
        let bad = || Problem::BadKey { text: text.into() };
        if let Some(program) = options.key_script.take() {
            return match program.rsplit('/').next() {
                Some(PASSDEV) => passdev(text, options).ok_or_else(bad),
                Some(KEYCTL) => Ok(Self::Ask),
                _ => Ok(Self::Script { program, argument: text.into() }),
            };
        }
        match text {
            "none" | "-" | "" => Ok(Self::Ask),
            "/dev/urandom" | "/dev/random" | "/dev/hw_random" | "/dev/hwrng" => match options.kind {
                Kind::Plain => Ok(Self::Random),
                Kind::Luks => Err(bad()),
            },
            _ => place(text).map(|place| Self::File { place, filesystem: None }).ok_or_else(bad),
        }
    }

    /// The device that the key is on.
    pub fn device(&self) -> Option<&DeviceSpec> {
        match self {
            Self::File { place, .. } => place.device.as_ref(),
            _ => None,
        }
    }
}

/// `DEVICE:PATH[:SECONDS]`, as Debian's script passdev takes it.
fn passdev(text: &str, options: &mut Options) -> Option<Key> {
    let (device, rest) = text.split_once(':')?;
    let (path, seconds) = match rest.rsplit_once(':') {
        Some((path, seconds)) => (path, Some(seconds.parse().ok()?)),
        None => (rest, None),
    };
    options.key_timeout = seconds.map(core::time::Duration::from_secs).or(options.key_timeout);
    let device = Some(DeviceSpec::parse(device)?);
    let path = format!("/{}", path.trim_start_matches('/'));
    Some(Key::File { place: Place { path: Some(path), device }, filesystem: None })
}

impl Entry {
    /// An entry, if name, device, key and options make sense; otherwise what is wrong is added to the notices.
    pub fn read(
        name: &str,
        source: &str,
        key: &str,
        options: &str,
        origin: &Origin,
        notices: &mut Vec<Notice>,
    ) -> Option<Self> {
        let before = notices.len();
        let mut add = |problem| notices.push(Notice { origin: origin.clone(), problem });
        if atrest_attach::dm::check_name(name).is_err() {
            add(Problem::BadName { name: name.into() });
        }
        let device = DeviceSpec::parse(source);
        if device.is_none() {
            add(Problem::BadDevice { text: source.into() });
        }
        let mut options = Options::read(options, origin, notices)?;
        let key = Key::parse(key, &mut options);
        let key = key.map_err(|problem| notices.push(Notice { origin: origin.clone(), problem })).ok()?;
        let usable = notices.get(before..).is_none_or(|new| !new.iter().any(Notice::drops_entry));
        let source = device.filter(|_| usable)?;
        Some(Self { name: name.into(), source, key, options, origin: origin.clone(), demanded: Vec::new() })
    }

    /// The device that has the header, where the header is all that is named by it; `None` if it is in a file.
    pub fn header_device(&self) -> Option<&DeviceSpec> {
        match &self.options.header {
            None => Some(&self.source),
            Some(Place { path: None, device }) => device.as_ref(),
            Some(_) => None,
        }
    }

    /// Adds what is demanded of the volume whose header has this UUID.
    ///
    /// # Errors
    /// [`Unsure`]: nothing is named by a UUID of which something is demanded, and this volume is not named by UUID and has another one.
    /// Whoever can write a header can write another UUID.
    pub fn demand(&mut self, uuid: &str) -> Result<(), Unsure> {
        let uuid = uuid.to_ascii_lowercase();
        let fits = |demanded: &&Demanded| uuid.starts_with(&demanded.id);
        for demanded in self.demanded.iter().filter(fits) {
            demanded.demands.apply(&mut self.options);
        }
        let is_named =
            matches!(self.header_device(), Some(DeviceSpec::Uuid(_) | DeviceSpec::LuksUuidPrefix(_)));
        let mut loose = self.demanded.iter().filter(|demanded| demanded.is_loose).peekable();
        match loose.peek() {
            Some(first) if !is_named => {
                let unsure = Unsure { demanded: first.id.clone() };
                loose.any(|demanded| fits(&demanded)).then_some(()).ok_or(unsure)
            }
            _ => Ok(()),
        }
    }

    /// The mappings that have to be there first: for its device, its key and its header.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let header = self.options.header.as_ref();
        [Some(&self.source), self.key.device(), header.and_then(|place| place.device.as_ref())]
            .into_iter()
            .flatten()
            .filter_map(DeviceSpec::mapping)
    }
}
