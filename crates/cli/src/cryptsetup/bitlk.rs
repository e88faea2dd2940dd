//! `bitlkDump`, in the form that cryptsetup gives it, and whether a password opens such a volume.

use std::ffi::OsString;
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;

use atrest_engine::Access;
use atrest_format::bitlocker::{Edition, Protection, REGION_LEN};
use atrest_volume::bitlocker::{BitLockerError, LockedBitLocker, Opened};
use zeroize::Zeroizing;

use super::line::{Line, as_parameter};
use super::words::Request;
use crate::commands::target::open_device;
use crate::commands::{bitlocker, time};
use crate::failure::Failure;
use crate::output::{Output, plain};

/// Shows the metadata, or the key of the data.
pub fn dump(request: &Request, words: Vec<OsString>, output: &Output) -> Result<u8, Failure> {
    let line = Line::read(words)?;
    let header = header(&line)?;
    let path = line.path.display().to_string();
    if !(request.has("dump-volume-key") || request.has("dump-master-key")) {
        std::io::stdout().write_all(metadata(&path, &header).as_bytes())?;
        return Ok(0);
    }
    output.confirm("the volume key gives whoever sees it the data")?;
    let opened = bitlocker::opened(&line.path, &header, &line.unlock.secret, output)?;
    let file = request.volume_key_file().map(Path::new);
    if let Some(file) = file {
        bitlocker::write_key(file, opened.key())?;
    }
    let text = key(&path, &header, &opened, file);
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}

/// Whether it can be opened at all. What can't is a wrong parameter here, as in cryptsetup.
pub fn check(words: Vec<OsString>) -> Result<u8, Failure> {
    checked(&Line::read(words)?).map(|_| 0)
}

/// Whether the password opens it.
pub fn test(words: Vec<OsString>, output: &Output) -> Result<u8, Failure> {
    let line = Line::read(words)?;
    let header = checked(&line)?;
    bitlocker::opened(&line.path, &header, &line.unlock.secret, output)?;
    Ok(0)
}

fn checked(line: &Line) -> Result<LockedBitLocker, Failure> {
    let header = header(line)?;
    let device = open_device(&line.path, Access::ReadOnly)?;
    let size = atrest_device::BlockDevice::size(&device);
    header.check(size).map_err(|error| as_parameter(Failure::from(error).at(&line.path)))?;
    Ok(header)
}

fn header(line: &Line) -> Result<LockedBitLocker, Failure> {
    let path = line.unlock.header.as_deref().unwrap_or(&line.path);
    let header = bitlocker::header(path, &open_device(path, Access::ReadOnly)?).map_err(as_parameter)?;
    header.ok_or_else(|| as_parameter(Failure::from(BitLockerError::NotBitLocker).at(path)))
}

/// The metadata.
fn metadata(path: &str, header: &LockedBitLocker) -> String {
    let (boot, metadata) = (header.boot(), header.metadata());
    let (mode, bits) = match metadata.method {
        Ok(method) => (method.mode(), method.key_len() * 8),
        Err(_) => ("(null)", 0),
    };
    let to_go = if boot.edition == Edition::ToGo { " To Go" } else { "" };
    // intended: as C prints what is not there.
    let description = plain(metadata.description.as_deref().unwrap_or("(null)"));
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("Info for BITLK{to_go} device {}.", plain(path)));
    line(format!("Version:      \t{}", metadata.version));
    line(format!("GUID:         \t{}", metadata.guid));
    line(format!("Sector size:  \t{} [bytes]", boot.sector_size));
    line(format!("Volume size:  \t{} [bytes]", metadata.encrypted_size));
    line(format!("Created:      \t{}", time::as_ctime(bitlocker::created(header))));
    line(format!("Description:  \t{description}"));
    line(String::from("Cipher name:  \taes"));
    line(format!("Cipher mode:  \t{mode}"));
    line(format!("Cipher key:   \t{bits} bits"));
    line(String::new());
    line(String::from("Keyslots:"));
    for (number, protector) in metadata.protectors.iter().enumerate() {
        line(format!(" {number}: VMK"));
        if let Some(name) = &protector.name {
            line(format!("\tName:       \t{}", plain(name)));
        }
        line(format!("\tGUID:       \t{}", protector.guid));
        line(format!("\tProtection: \t{}", protection(protector.protection)));
        // intended: those that have none show zeros.
        line(format!("\tSalt:       \t{}", hexadecimal(&protector.salt.unwrap_or_default())));
        if let Some(wrapped) = &protector.wrapped {
            line(format!("\tKey data size:\t{} [bytes]", wrapped.ciphertext.len()));
        }
    }
    line(format!(" {}: FVEK", metadata.protectors.len()));
    line(format!("\tKey data size:\t{} [bytes]", metadata.data_key.ciphertext.len()));
    line(String::new());
    line(String::from("Metadata segments:"));
    for (number, place) in metadata.copies.iter().enumerate() {
        line(format!(" {number}: FVE metadata area"));
        line(format!("\tOffset: \t{place} [bytes]"));
        line(format!("\tSize:   \t{REGION_LEN} [bytes]"));
    }
    line(format!(" {}: Volume header", metadata.copies.len()));
    line(format!("\tOffset: \t{} [bytes]", metadata.relocated.0));
    line(format!("\tSize:   \t{} [bytes]", metadata.relocated.1));
    line(format!("\tCipher: \taes-{mode}"));
    text
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As cryptsetup calls it.
fn protection(protection: Protection) -> &'static str {
    match protection {
        Protection::ClearKey => "VMK protected with clear key",
        Protection::Tpm => "VMK protected with TPM",
        Protection::StartupKey => "VMK protected with startup key",
        Protection::TpmPin => "VMK protected with TPM and PIN",
        Protection::RecoveryPassword => "VMK protected with recovery passphrase",
        Protection::SmartCard => "VMK protected with smart card",
        Protection::Password => "VMK protected with passphrase",
        Protection::Other(_) => "VMK with unknown protection",
    }
}

/// The key of the data, or the file that has it.
fn key(path: &str, header: &LockedBitLocker, opened: &Opened, file: Option<&Path>) -> Zeroizing<String> {
    let key = opened.key();
    // With room for all of it: what has to grow leaves a copy.
    let mut text = Zeroizing::new(String::with_capacity(path.len() + 1024 + 4 * key.len()));
    // Writing to a String can't fail.
    let _ = writeln!(text, "BITLK header information for {}", plain(path));
    let _ = writeln!(text, "Cipher name:   \taes");
    let _ = writeln!(text, "Cipher mode:   \t{}", opened.method().mode());
    let _ = writeln!(text, "UUID:          \t{}", header.metadata().guid);
    let _ = writeln!(text, "MK bits:       \t{}", key.len() * 8);
    if let Some(file) = file {
        let _ = writeln!(text, "Key stored to file {}.", plain(&file.display().to_string()));
        return text;
    }
    let _ = write!(text, "MK dump:\t");
    for (number, line) in key.expose().chunks(16).enumerate() {
        let _ = write!(text, "{}", if number > 0 { "\n\t\t" } else { "" });
        for byte in line {
            let _ = write!(text, "{byte:02x} ");
        }
    }
    let _ = writeln!(text);
    text
}
