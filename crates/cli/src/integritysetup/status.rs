//! `status`: of a mapping as integritysetup tells it, and of what a process of ours serves.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use atrest_attach::dm::DmError;
use atrest_attach::dm::integrity_table::IntegrityLine;
use atrest_attach::dm::stacked::{self, Kind, Stacked};

use crate::failure::Failure;
use crate::output::Output;
use crate::stacked as named;

pub fn status(name: &Path, output: &Output) -> Result<u8, Failure> {
    let Some(found) = named::find(Kind::Integrity, name)? else {
        return crate::cryptsetup::report::status(None, name, output);
    };
    let line = IntegrityLine::parse(&found.table).ok_or(DmError::Answer)?;
    let path = if name.starts_with("/") { name.to_owned() } else { Path::new("/dev/mapper").join(name) };
    let text = told(&path.display().to_string(), &found, &line);
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

fn told(path: &str, found: &Stacked, line: &IntegrityLine) -> String {
    let mut text = String::new();
    let mut tell = |words: std::fmt::Arguments<'_>| {
        // cannot fail: a string takes all.
        let _ = writeln!(text, "{words}");
    };
    let number = |name: &str| line.value(name).unwrap_or("0").to_owned(); // intended: as integritysetup tells what is not there
    tell(format_args!("{path} is active{}.", if found.in_use { " and is in use" } else { "" }));
    tell(format_args!("  type:    INTEGRITY"));
    tell(format_args!("  tag size: {}", line.tag_len));
    tell(format_args!("  integrity: {}", line.value("internal_hash").unwrap_or("(none)")));
    let mut device = |label: &str, numbers: &str, behind: &str| {
        let (path, file) = stacked::device(numbers);
        tell(format_args!("  {label}  {}{behind}", path.display()));
        if let Some(file) = file {
            tell(format_args!("  loop:    {}", file.display()));
        }
    };
    device("device:", &line.device, if line.tag_device.is_some() { " (detached)" } else { "" });
    if let Some(tags) = &line.tag_device {
        device("metadata device:", tags, "");
    }
    tell(format_args!("  sector size:  {} bytes", line.value("block_size").unwrap_or("512")));
    tell(format_args!("  interleave sectors: {}", number("interleave_sectors")));
    tell(format_args!("  size:    {} sectors", found.sectors));
    let mode = if found.read_only { "readonly" } else { "read/write" };
    tell(format_args!("  mode:    {mode}{}", if line.mode == 'R' { " recovery" } else { "" }));
    let failures = found.state.split_ascii_whitespace().next().unwrap_or("0"); // intended: nothing was told
    tell(format_args!("  failures: {failures}"));
    match line.mode {
        'B' => {
            tell(format_args!("  bitmap 512-byte sectors per bit: {}", number("sectors_per_bit")));
            tell(format_args!("  bitmap flush interval: {} ms", number("bitmap_flush_interval")));
            tell(format_args!("  journal: not active"));
        }
        'D' => tell(format_args!("  journal: not active")),
        _ => {
            // intended: what is no number has no size.
            let sectors: u64 = number("journal_sectors").parse().unwrap_or(0);
            tell(format_args!("  journal size: {} bytes", sectors.saturating_mul(512)));
            tell(format_args!("  journal watermark: {}%", number("journal_watermark")));
            tell(format_args!("  journal commit time: {} ms", number("commit_time")));
            if let Some(mac) = line.value("journal_mac") {
                tell(format_args!("  journal integrity MAC: {mac}"));
            }
            if let Some(cipher) = line.value("journal_crypt") {
                tell(format_args!("  journal encryption: {cipher}"));
            }
        }
    }
    if line.has("allow_discards") {
        tell(format_args!("  flags: discards "));
    }
    text
}
