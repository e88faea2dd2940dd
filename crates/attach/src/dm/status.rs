//! Which mappings there are, whoever made them.

use std::path::{Path, PathBuf};

use atrest_volume::CryptFlags;
use serde::Serialize;

use super::cascade;
use super::control::{Control, Found};
use super::error::DmError;
use super::integrity;
use super::message::Target;
use super::node::major_minor;

/// How the UUID of an encrypted mapping begins.
pub const PREFIX: &str = "CRYPT-";

/// The kind of a mapping of which some is not encrypted while a re-encryption is unfinished.
pub const LUKS2: &str = "LUKS2";

/// An encrypted mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// Its name below `/dev/mapper`.
    pub name: String,
    /// Such as `LUKS2`, from its UUID.
    #[serde(rename = "type")]
    pub kind: String,
    /// Cipher, as dm-crypt writes it.
    pub cipher: String,
    /// Bits in the key.
    pub key_bits: usize,
    /// Whether dm-crypt took the key from the kernel's keyring.
    pub keyring: bool,
    /// The device that holds the ciphertext.
    pub device: PathBuf,
    /// The file behind it, if that is a loop device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// First sector of the ciphertext, of 512 bytes.
    pub offset: u64,
    /// Sectors of plaintext, of 512 bytes.
    pub sectors: u64,
    /// Bytes in a data unit.
    pub sector_size: u32,
    /// Number added to the IV's.
    pub iv_offset: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether it is mounted or otherwise open.
    pub in_use: bool,
    /// Whether all I/O waits, and the kernel has no key.
    pub suspended: bool,
    /// dm-crypt's other options.
    pub flags: Vec<String>,
    /// The tags beside each data unit, if the volume is authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    /// The mappings below it that have the other ciphers of a cascade.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<String>,
}

impl Mapping {
    /// How dm-crypt works on it, as [`open`](super::open) would be told.
    pub fn crypt_flags(&self) -> CryptFlags {
        let names: Vec<String> = self.flags.iter().map(|flag| flag.replace('_', "-")).collect();
        CryptFlags::from_names(names.iter().map(String::as_str))
    }

    /// Where its header is read: the file behind a loop device that begins where the file does. What was written to the file the cache of
    /// the loop device need not know.
    pub fn source(&self) -> &Path {
        let begins_there = || {
            let name = self.device.file_name()?;
            let offset = Path::new("/sys/class/block").join(name).join("loop/offset");
            Some(std::fs::read_to_string(offset).ok()?.trim() == "0")
        };
        match &self.file {
            Some(file) if file.exists() && begins_there() == Some(true) => file,
            _ => &self.device,
        }
    }
}

/// Tags that dm-integrity keeps, and the mapping in which it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tags {
    /// The mapping's name.
    pub name: String,
    /// Bytes beside each data unit: the tag, and the nonce if it is stored.
    pub len: u32,
    /// Whether data and tags are written through a journal.
    pub journal: bool,
}

/// The encrypted mapping of that name; `None` if there is none.
///
/// # Errors
/// [`DmError::Control`] if the kernel has no device-mapper or this user may not use it, [`DmError::System`]
/// or [`DmError::Answer`] if it does not tell.
pub fn find(name: &str) -> Result<Option<Mapping>, DmError> {
    let control = Control::open()?;
    match control.status(name)? {
        Some(found) => mapping(&control, name, found),
        None => Ok(None),
    }
}

/// All encrypted mappings, by name.
///
/// # Errors
/// [`DmError::Control`] if the kernel has no device-mapper or this user may not use it, [`DmError::System`]
/// if it tells no names. A mapping that can't be understood is left out.
pub fn list() -> Result<Vec<Mapping>, DmError> {
    let control = Control::open()?;
    let mut mappings = Vec::new();
    for name in control.names()? {
        // One that has gone meanwhile, or that is of a kind that we do not know, must not hide the others.
        if let Ok(Some(found)) = control.status(&name) {
            mappings.extend(mapping(&control, &name, found).ok().flatten());
        }
    }
    // What is below another one is told with it.
    let below: Vec<String> = mappings.iter().flat_map(|mapping: &Mapping| mapping.layers.clone()).collect();
    mappings.retain(|mapping| !below.contains(&mapping.name));
    mappings.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mappings)
}

/// `None` if it is not encrypted: not made by us or cryptsetup, or its table is of another kind, such as one for integrity.
pub fn mapping(control: &Control, name: &str, found: Found) -> Result<Option<Mapping>, DmError> {
    if !found.uuid.starts_with(PREFIX) {
        return Ok(None);
    }
    let table = control.table(name)?;
    let targets = table.targets().ok_or(DmError::Answer)?;
    // intended: a UUID of another form tells no kind.
    let kind = found.uuid.split('-').nth(1).unwrap_or_default();
    let Some(line) = line_of(kind, &targets) else { return Ok(None) };
    let line = line.ok_or(DmError::Answer)?;
    let below = match line.tag_len {
        Some(len) => Some(below(control, name, &line, len)?),
        None => None,
    };
    let layers = match kind {
        cascade::KIND => cascade::below(control, name, line.device)?,
        _ => Vec::new(),
    };
    let (holder, offset, tags) = match (&below, layers.last()) {
        (Some(below), _) => (below.device.as_str(), below.offset, Some(below.tags.clone())),
        (None, Some(lowest)) => (lowest.device.as_str(), lowest.offset, None),
        (None, None) => (line.device, line.offset, None),
    };
    let (device, file) = device(holder);
    Ok(Some(Mapping {
        name: name.into(),
        kind: kind.into(),
        cipher: if layers.is_empty() { line.cipher.into() } else { cascade::cipher(line.cipher, &layers) },
        key_bits: line.key_bits + layers.iter().map(|layer| layer.key_bits).sum::<usize>(),
        keyring: line.keyring,
        device,
        file,
        offset,
        // intended: for people; the kernel makes no table of no targets, nor longer than its devices.
        sectors: targets.iter().map(|target| target.start.saturating_add(target.sectors)).max().unwrap_or(0),
        sector_size: line.sector_size,
        iv_offset: line.iv_offset,
        read_only: found.read_only,
        in_use: found.open_count > 0,
        suspended: found.suspended,
        flags: line.flags,
        tags,
        layers: layers.into_iter().map(|layer| layer.name).collect(),
    }))
}

/// The line that tells what a mapping of this kind is, if it is an encrypted one. In the middle of an encryption or decryption some targets
/// are linear, or all; a zone that could not be written fails.
fn line_of<'a>(kind: &str, targets: &[Target<'a>]) -> Option<Option<Line<'a>>> {
    let first = targets.first()?;
    let is_clear = kind == LUKS2 && matches!(first.kind, "linear" | "error");
    let of_kind = |kind: &str| targets.iter().find(|target| target.kind == kind);
    match (of_kind("crypt"), of_kind("linear")) {
        (Some(target), _) if is_clear || first.kind == "crypt" => Some(Line::parse(target.line)),
        (None, Some(target)) if is_clear => Some(Line::of_linear(target.line)),
        _ => None,
    }
}

/// The mapping that keeps the tags, and what it lies on.
struct Below {
    tags: Tags,
    device: String,
    offset: u64,
}

/// It has the name that we and cryptsetup give it, and is the device that the table above names.
fn below(control: &Control, above: &str, line: &Line<'_>, len: u32) -> Result<Below, DmError> {
    let name = integrity::name_below(above);
    let found = control.status(&name)?.ok_or(DmError::Answer)?;
    let (major, minor) = major_minor(found.device);
    if !found.uuid.starts_with(&format!("{PREFIX}{}", integrity::KIND))
        || line.device != format!("{major}:{minor}")
    {
        return Err(DmError::Answer);
    }
    let table = control.table(&name)?;
    let targets = table.targets().ok_or(DmError::Answer)?;
    let text = targets.first().filter(|target| target.kind == "integrity").map(|target| target.line);
    let text = text.and_then(|text| core::str::from_utf8(text).ok()).ok_or(DmError::Answer)?;
    let mut words = text.split_ascii_whitespace();
    let (device, offset) = (words.next(), words.next().and_then(|word| word.parse().ok()));
    let (Some(device), Some(offset), Some(mode)) = (device, offset, words.nth(1)) else {
        return Err(DmError::Answer);
    };
    Ok(Below { tags: Tags { name, len, journal: mode == "J" }, device: device.into(), offset })
}

/// A line of a dm-crypt table without its key.
pub struct Line<'a> {
    pub cipher: &'a str,
    pub key_bits: usize,
    pub keyring: bool,
    pub iv_offset: u64,
    pub device: &'a str,
    pub offset: u64,
    pub sector_size: u32,
    pub tag_len: Option<u32>,
    pub flags: Vec<String>,
}

impl<'a> Line<'a> {
    /// `None` for what is no such line.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let cipher = words.next()?;
        let key = words.next()?;
        let keyring = key.starts_with(':');
        let key_bits = match key {
            "-" => 0,
            _ if keyring => key.split(':').nth(1)?.parse::<usize>().ok()?.checked_mul(8)?,
            digits => digits.len() * 4,
        };
        let iv_offset = words.next()?.parse().ok()?;
        let device = words.next()?;
        let offset = words.next()?.parse().ok()?;
        let mut sector_size = 512;
        let mut tag_len = None;
        let mut flags = Vec::new();
        for word in words.skip(1) {
            match word.split_once(':') {
                Some(("sector_size", size)) => sector_size = size.parse().ok()?,
                Some(("integrity", rest)) => tag_len = Some(rest.split(':').next()?.parse().ok()?),
                _ => flags.push(word.into()),
            }
        }
        Some(Self { cipher, key_bits, keyring, iv_offset, device, offset, sector_size, tag_len, flags })
    }

    /// A line of dm-linear: nothing is encrypted.
    fn of_linear(line: &'a [u8]) -> Option<Self> {
        let (device, offset) = core::str::from_utf8(line).ok()?.trim_end().split_once(' ')?;
        Some(Self {
            cipher: "none",
            key_bits: 0,
            keyring: false,
            iv_offset: 0,
            device,
            offset: offset.parse().ok()?,
            sector_size: 512,
            tag_len: None,
            flags: Vec::new(),
        })
    }
}

/// The path of a device by its numbers, and the file that it shows if it is a loop device.
pub fn device(numbers: &str) -> (PathBuf, Option<PathBuf>) {
    let sys = Path::new("/sys/dev/block").join(numbers);
    let path = match sys.canonicalize().ok().and_then(|path| path.file_name().map(PathBuf::from)) {
        Some(name) => Path::new("/dev").join(name),
        None => PathBuf::from(numbers),
    };
    let file = std::fs::read_to_string(sys.join("loop/backing_file")).ok();
    (path, file.map(|file| PathBuf::from(file.trim_end_matches('\n'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_luks2_may_have_no_encrypted_part_left() {
        let target = |kind: &'static str| Target {
            start: 0,
            sectors: 8,
            kind,
            line: if kind == "crypt" { b"aes-xts-plain64 - 0 7:1 8" } else { b"7:1 8" },
        };
        let cipher = |kind: &str, targets: &[&'static str]| {
            let targets: Vec<Target<'_>> = targets.iter().map(|kind| target(kind)).collect();
            line_of(kind, &targets).map(|line| line.expect("a line").cipher.to_owned())
        };
        let (aes, none) = (Some(String::from("aes-xts-plain64")), Some(String::from("none")));
        assert_eq!(cipher("LUKS2", &["linear"]), none);
        assert_eq!(cipher("LUKS2", &["error", "linear"]), none, "the last zone could not be written");
        assert_eq!(cipher("LUKS2", &["error", "linear", "crypt"]), aes);
        assert_eq!(cipher("PLAIN", &["crypt"]), aes);
        for other in [&["error", "linear"][..], &["linear", "crypt"]] {
            assert_eq!(cipher("PLAIN", other), None);
        }
        for other in [&[][..], &["error"], &["integrity", "linear"]] {
            assert_eq!(cipher("LUKS2", other), None);
        }
    }

    #[test]
    fn lines_of_tables_are_understood() {
        let line = Line::parse(
            b"aes-xts-plain64 :64:logon:cryptsetup:1-d0 0 254:16 32768 2 allow_discards sector_size:4096",
        )
        .expect("a line");
        assert_eq!((line.cipher, line.key_bits, line.keyring), ("aes-xts-plain64", 512, true));
        assert_eq!((line.device, line.offset, line.sector_size), ("254:16", 32768, 4096));
        assert_eq!(line.flags, ["allow_discards"]);
        let line =
            Line::parse(b"aes-cbc-essiv:sha256 00112233445566778899aabbccddeeff 8 7:0 0").expect("a line");
        assert_eq!((line.key_bits, line.keyring, line.iv_offset, line.sector_size), (128, false, 8, 512));
        let line =
            Line::parse(b"capi:gcm(aes)-random :32:logon:x 0 253:0 0 2 no_read_workqueue integrity:28:aead")
                .expect("a line");
        assert_eq!((line.tag_len, line.flags), (Some(28), vec![String::from("no_read_workqueue")]));
        let line = Line::of_linear(b"254:16 32768").expect("a line");
        assert_eq!((line.cipher, line.key_bits, line.device, line.offset), ("none", 0, "254:16", 32768));
        assert!(Line::of_linear(b"254:16").is_none() && Line::of_linear(b"254:16 x").is_none());
        for bad in [&b""[..], b"aes", b"aes-xts-plain64 - x 7:0 0", b"\xff"] {
            assert!(Line::parse(bad).is_none());
        }
    }
}
