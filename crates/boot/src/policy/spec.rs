//! How a configuration names a device: a path, or one of fstab's tags.

use core::fmt;
use std::path::{Path, PathBuf};

/// A device by its path or by what is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A path: a device node, a link to one, or a regular file.
    Path(PathBuf),
    /// UUID of what is on it: a LUKS header, a file system, swap space.
    Uuid(String),
    /// How the UUID of a LUKS header begins, as dracut's `rd.luks.uuid=` takes it.
    LuksUuidPrefix(String),
    /// Label of what is on it.
    Label(String),
    /// UUID of the partition.
    PartUuid(String),
    /// Name of the partition in a GPT.
    PartLabel(String),
}

type Tag = fn(String) -> DeviceSpec;

/// Where udev puts its links by tag, and what tag that is.
const LINKS: &[(&str, Tag)] = &[
    ("/dev/disk/by-uuid/", DeviceSpec::Uuid),
    ("/dev/disk/by-label/", DeviceSpec::Label),
    ("/dev/disk/by-partuuid/", DeviceSpec::PartUuid),
    ("/dev/disk/by-partlabel/", DeviceSpec::PartLabel),
];

impl DeviceSpec {
    /// `UUID=`, `LABEL=`, `PARTUUID=` or `PARTLABEL=` with a value that may be quoted, an absolute path, or Debian's `ID=` (a name
    /// below `/dev/disk/by-id`). A path below `/dev/disk/by-uuid` and the like is taken as its tag, as nobody makes these links in an
    /// initramfs without udev. `None` for anything else, such as an empty value.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((tag, value)) = text.split_once('=').filter(|(tag, _)| !tag.contains('/')) {
            let value = unquote(value);
            if value.is_empty() {
                return None;
            }
            let value = String::from(value);
            return match tag {
                "UUID" => Some(Self::Uuid(value)),
                "LABEL" => Some(Self::Label(value)),
                "PARTUUID" => Some(Self::PartUuid(value)),
                "PARTLABEL" => Some(Self::PartLabel(value)),
                "ID" => Some(Self::Path(Path::new("/dev/disk/by-id").join(value))),
                _ => None,
            };
        }
        for (directory, tag) in LINKS {
            if let Some(name) = text.strip_prefix(directory).filter(|name| !name.is_empty()) {
                return Some(tag(decode_link(name)));
            }
        }
        text.starts_with('/').then(|| Self::Path(PathBuf::from(text)))
    }

    /// Whether `text` can only be meant as a device: a tag, or a path below `/dev`.
    pub fn is_device(text: &str) -> bool {
        Self::parse(text).is_some_and(|spec| match spec {
            Self::Path(path) => path.starts_with("/dev"),
            _ => true,
        })
    }

    /// The mapping that the device is, if its path says so.
    pub fn mapping(&self) -> Option<&str> {
        match self {
            Self::Path(path) => path.strip_prefix("/dev/mapper").ok()?.to_str(),
            _ => None,
        }
    }

    /// Whether it can only be on a mapping, or in one, if these are missing: the path of one of them, or a tag of what may be in it.
    pub fn is_on_mapping(&self, missing: &[&str]) -> bool {
        match self {
            Self::Path(_) => self.mapping().is_some_and(|name| missing.contains(&name)),
            Self::PartUuid(_) | Self::PartLabel(_) => false,
            Self::Uuid(_) | Self::Label(_) | Self::LuksUuidPrefix(_) => true,
        }
    }

    /// The link that udev makes, if it runs.
    pub fn link(&self) -> Option<PathBuf> {
        let (directory, name) = match self {
            Self::Path(_) | Self::LuksUuidPrefix(_) => return None,
            Self::Uuid(value) => ("by-uuid", value.clone()),
            Self::Label(value) => ("by-label", encode_link(value)),
            Self::PartUuid(value) => ("by-partuuid", value.clone()),
            Self::PartLabel(value) => ("by-partlabel", encode_link(value)),
        };
        // A value with a slash in it would lead elsewhere.
        (!name.contains('/')).then(|| Path::new("/dev/disk").join(directory).join(name))
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Uuid(value) => write!(f, "UUID={value}"),
            Self::LuksUuidPrefix(value) => write!(f, "the LUKS volume whose UUID begins with {value}"),
            Self::Label(value) => write!(f, "LABEL={value}"),
            Self::PartUuid(value) => write!(f, "PARTUUID={value}"),
            Self::PartLabel(value) => write!(f, "PARTLABEL={value}"),
        }
    }
}

fn unquote(value: &str) -> &str {
    ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(value)
}

/// As udev names its links: what is not a letter, a digit or one of a few signs is `\xHH`, byte by byte.
fn encode_link(value: &str) -> String {
    let mut name = String::new();
    for c in value.chars() {
        if c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) || !c.is_ascii() {
            name.push(c);
        } else {
            name.push_str(&format!("\\x{:02x}", u32::from(c)));
        }
    }
    name
}

fn decode_link(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        // An escape: `\x` and two digits.
        let digits =
            after.split_at_checked(3).filter(|(digits, _)| first == b'\\' && digits.starts_with(b"x"));
        let byte = digits.and_then(|(digits, after)| {
            let digits = core::str::from_utf8(digits.get(1..)?).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        match byte {
            Some((byte, after)) => {
                bytes.push(byte);
                rest = after;
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_paths_are_told_apart() {
        let table = [
            ("UUID=2505567a-9e27", Some(DeviceSpec::Uuid("2505567a-9e27".into()))),
            ("UUID=\"2505567a-9e27\"", Some(DeviceSpec::Uuid("2505567a-9e27".into()))),
            ("LABEL=key stick", Some(DeviceSpec::Label("key stick".into()))),
            ("PARTUUID=0001-02", Some(DeviceSpec::PartUuid("0001-02".into()))),
            ("PARTLABEL='crypt root'", Some(DeviceSpec::PartLabel("crypt root".into()))),
            ("ID=ata-disk_1", Some(DeviceSpec::Path("/dev/disk/by-id/ata-disk_1".into()))),
            ("/dev/sda2", Some(DeviceSpec::Path("/dev/sda2".into()))),
            ("/dev/disk/by-uuid/1234", Some(DeviceSpec::Uuid("1234".into()))),
            ("/dev/disk/by-label/key\\x20stick", Some(DeviceSpec::Label("key stick".into()))),
            ("/srv/a=b", Some(DeviceSpec::Path("/srv/a=b".into()))),
            ("UUID=", None),
            ("sda2", None),
            ("OTHER=1", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(DeviceSpec::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn links_are_those_of_udev() {
        let link = |spec: DeviceSpec| spec.link().map(|path| path.display().to_string());
        assert_eq!(
            link(DeviceSpec::Label("key stick/1".into())),
            Some("/dev/disk/by-label/key\\x20stick\\x2f1".into())
        );
        assert_eq!(link(DeviceSpec::Uuid("../../etc".into())), None);
        assert_eq!(decode_link("a\\x20b\\x2"), "a b\\x2");
    }
}
