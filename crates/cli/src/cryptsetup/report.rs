//! Answers in the words of cryptsetup that scripts read.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use atrest_attach::dm::Mapping;
use atrest_attach::session::Entry;
use atrest_engine::Access;
use atrest_volume::LockedVolume;

use super::words::Request;
use crate::args::header::LuksVersion;
use crate::commands::header::is_luks_of;
use crate::commands::{is_marked, mapping, place, registry, target};
use crate::failure::Failure;
use crate::output::{Output, plain};

/// `luksUUID`: the UUID alone, on a line.
pub fn uuid(request: &Request) -> Result<u8, Failure> {
    let info = header(request)?.info();
    writeln!(std::io::stdout(), "{}", plain(&info.uuid))?;
    Ok(0)
}

/// `isLuks`: says nothing, and ends with 1 if it is none of that type.
pub fn is_luks(request: &Request) -> Result<u8, Failure> {
    let version = match request.kind.as_deref() {
        Some("luks1") => Some(LuksVersion::Luks1),
        Some("luks2") => Some(LuksVersion::Luks2),
        _ => None,
    };
    Ok(u8::from(!is_luks_of(request.header(), version)?))
}

/// The header that the request is about.
pub fn header(request: &Request) -> Result<LockedVolume, Failure> {
    let path = request.header();
    let device = target::open_device(path, Access::ReadOnly)?;
    LockedVolume::read(&device).map_err(|error| target::no_header(error, &device).at(path))
}

/// `status`: of a mapping as cryptsetup tells it, and of what a process of ours serves in the same form. Its header is on its device
/// unless another place is named.
pub fn status(header: Option<&Path>, name: &Path, output: &Output) -> Result<u8, Failure> {
    let shown = name.strip_prefix("/dev/mapper").unwrap_or(name);
    let entries = registry(output)?.find_all(shown)?;
    let text = match (entries.iter().find(|entry| !entry.has_ended()), mapping::find(shown)?.first()) {
        (Some(entry), _) => served(entry),
        (None, Some(mapping)) => mapped(mapping, &kind(mapping, header), is_unfinished(mapping, header)),
        (None, None) => {
            writeln!(std::io::stdout(), "/dev/mapper/{} is inactive.", shown.display())?;
            return Ok(4);
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// Flags of dm-crypt in the order in which cryptsetup tells them, and its names for them.
const FLAGS: &[(&str, &str)] = &[
    ("allow_discards", "discards "),
    ("same_cpu_crypt", "same_cpu_crypt "),
    ("submit_from_crypt_cpus", "submit_from_crypt_cpus "),
    ("no_read_workqueue", "no_read_workqueue "),
    ("no_write_workqueue", "no_write_workqueue"),
];

/// The type as cryptsetup tells it: of LUKS only where it finds the header.
fn kind(mapping: &Mapping, header: Option<&Path>) -> String {
    let header = header.unwrap_or(&mapping.device);
    match mapping.kind.starts_with("LUKS") && !is_luks_of(header, None).is_ok_and(|is| is) {
        true => String::from("n/a"),
        false => mapping.kind.clone(),
    }
}

/// Whether its header says that a re-encryption is not finished.
fn is_unfinished(mapping: &Mapping, header: Option<&Path>) -> bool {
    // intended: what can't be read says nothing, as the type does.
    let device = target::open_device(header.unwrap_or(mapping.source()), Access::ReadOnly).ok();
    let locked = device.and_then(|device| LockedVolume::read(&device).ok());
    mapping.kind == "LUKS2" && locked.is_some_and(|locked| is_marked(&locked))
}

fn mapped(mapping: &Mapping, kind: &str, is_unfinished: bool) -> String {
    let used = if mapping.in_use { " and is in use" } else { "" };
    let mut text = format!("/dev/mapper/{} is active{used}.\n", mapping.name);
    let mut line = |name: &str, value: &str| {
        // cannot fail: it goes into a string.
        let _ = writeln!(text, "  {name}{}", plain(value));
    };
    line("type:    ", kind);
    if is_unfinished {
        line("reencryption:  ", "in-progress");
    }
    line("cipher:  ", &mapping.cipher);
    line("keysize: ", &format!("{} bits", mapping.key_bits));
    line("key location: ", if mapping.keyring { "keyring" } else { "dm-crypt" });
    line("device:  ", &mapping.device.display().to_string());
    if let Some(file) = &mapping.file {
        line("loop:    ", &file.display().to_string());
    }
    line("sector size:  ", &mapping.sector_size.to_string());
    line("offset:  ", &format!("{} sectors", mapping.offset));
    line("size:    ", &format!("{} sectors", mapping.sectors));
    if mapping.iv_offset != 0 {
        line("skipped: ", &format!("{} sectors", mapping.iv_offset));
    }
    let mode = if mapping.read_only { "readonly" } else { "read/write" };
    line("mode:    ", &format!("{mode}{}", if mapping.suspended { " (suspended)" } else { "" }));
    let flags: String = FLAGS
        .iter()
        .filter(|(kernel, _)| mapping.flags.iter().any(|flag| flag == kernel))
        .map(|(_, ours)| *ours)
        .collect();
    if !flags.is_empty() {
        // Not through `plain`: a space stands behind each.
        let _ = writeln!(text, "  flags:   {flags}");
    }
    text
}

fn served(entry: &Entry) -> String {
    let mode = if entry.read_only { "readonly" } else { "read/write" };
    let mode = format!("{mode}{}", if entry.suspended { " (suspended)" } else { "" });
    format!(
        "{} is active.\n  type:    served by atrest, process {}\n  device:  {}\n  face:    {}\n  mode:    {mode}\n",
        plain(&entry.name),
        entry.pid(),
        plain(&entry.path.display().to_string()),
        plain(&place(&entry.kind)),
    )
}
