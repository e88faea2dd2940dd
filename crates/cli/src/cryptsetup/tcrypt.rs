//! `tcryptDump`, in the form that cryptsetup gives it, and whether a password opens such a volume.

use std::ffi::OsString;
use std::fmt::Write;
use std::io::Write as _;

use atrest_format::tcrypt::Magic;
use atrest_open::Held;
use atrest_volume::UnlockOptions;
use atrest_volume::tcrypt::Opened;
use zeroize::Zeroizing;

use super::line::Line;
use super::volume_key::with_key;
use super::words::Request;
use crate::commands::foreign;
use crate::failure::Failure;
use crate::output::{Output, plain};

/// Opens a header with the password, and shows it if it is to be `shown`.
pub fn dump(request: &Request, words: Vec<OsString>, shown: bool, output: &Output) -> Result<u8, Failure> {
    let line = Line::read(words)?;
    let keys_too = request.has("dump-volume-key") || request.has("dump-master-key");
    if shown && keys_too {
        output.confirm("the volume key gives whoever sees it the data")?;
    }
    let at = |failure: Failure| failure.at(&line.path);
    let not_held = |error: atrest_open::HeldError| Failure::from(error.error).at(&error.path);
    let held = Held::open(&line.path, line.unlock.header.as_deref(), false).map_err(not_held)?;
    let held = if line.unlock.tcrypt.tcrypt_system { held.with_drive().map_err(not_held)? } else { held };
    let opened = foreign::header(&line.path, &held, &line.unlock, output)?;
    if !shown {
        return Ok(0);
    }
    let path = line.path.display().to_string();
    let mut text = String::new();
    let written = if keys_too {
        let options =
            UnlockOptions { read_only: true, allow_equal_xts_halves: true, ..UnlockOptions::default() };
        let size = atrest_device::BlockDevice::size(held.media());
        let volume = opened.volume(size, &options).map_err(|error| at(error.into()))?;
        // cannot be none: such a volume is one segment.
        let start = volume.segments().first().map_or(0, |segment| segment.media_offset);
        let material = &*opened.header().keys;
        let keys: Vec<_> = (0..opened.chain().ciphers.len())
            .filter_map(|index| opened.chain().key(index, material))
            .collect();
        let keys: Vec<&[u8]> = keys.iter().map(|(key, len)| &key[..*len]).collect();
        let written = before_keys(&mut text, &path, &opened, start);
        written.map(|()| with_key(text.as_bytes(), &keys))
    } else {
        header(&mut text, &path, &opened).map(|()| Zeroizing::new(text.into_bytes()))
    };
    let text = written.map_err(|_| Failure::parameters("the header can't be shown"))?;
    std::io::stdout().write_all(&text)?;
    Ok(0)
}

fn title(text: &mut String, path: &str, opened: &Opened) -> std::fmt::Result {
    let family = match opened.header().magic {
        Magic::TrueCrypt => "TCRYPT",
        Magic::VeraCrypt => "VERACRYPT",
    };
    writeln!(text, "{family} header information for {}", plain(path))
}

/// Bits of all keys together.
fn bits(opened: &Opened) -> usize {
    let chain = opened.chain();
    // Each cipher in LRW has the tweak's key beside its own, the last one in CBC the seed of IVs and whitening.
    (0..chain.ciphers.len())
        .filter_map(|index| chain.key(index, &*opened.header().keys))
        .map(|(_, len)| len * 8)
        .sum()
}

fn header(text: &mut String, path: &str, opened: &Opened) -> std::fmt::Result {
    let header = opened.header();
    title(text, path, opened)?;
    writeln!(text, "Version:       \t{}", header.version)?;
    writeln!(text, "Driver req.:\t{:x}.{:x}", header.program >> 8, header.program & 0xff)?;
    writeln!(text, "Sector size:\t{}", header.sector_size)?;
    writeln!(text, "MK offset:\t{}", if header.data_start == 0 { 512 } else { header.data_start })?;
    writeln!(text, "PBKDF2 hash:\t{}", opened.derivation().hash)?;
    writeln!(text, "Cipher chain:\t{}", opened.chain().name())?;
    writeln!(text, "Cipher mode:\t{}", opened.chain().mode_name())?;
    writeln!(text, "MK bits:       \t{}", bits(opened))
}

fn before_keys(text: &mut String, path: &str, opened: &Opened, start: u64) -> std::fmt::Result {
    // cryptsetup says so of VeraCrypt, too.
    writeln!(text, "TCRYPT header information for {}", plain(path))?;
    writeln!(text, "Cipher chain:  \t{}", opened.chain().name())?;
    writeln!(text, "Cipher mode:   \t{}", opened.chain().mode_name())?;
    writeln!(text, "Payload offset:\t{}", start / 512)?;
    writeln!(text, "MK bits:       \t{}", bits(opened))?;
    write!(text, "MK dump:\t")
}
