//! `fvault2Dump`, in the form that cryptsetup gives it, and whether a password opens such a volume.

use std::ffi::OsString;
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;

use atrest_device::BlockDevice;
use atrest_engine::Access;
use atrest_volume::VolumeKey;
use atrest_volume::fvault2::{FileVaultError, LockedFileVault, is_one};
use zeroize::Zeroizing;

use super::line::{Line, as_parameter};
use super::words::Request;
use crate::commands::fvault2;
use crate::commands::target::{open_device, write_private};
use crate::failure::Failure;
use crate::output::{Output, plain};

/// Shows the metadata, and the key of the data if that is asked for.
pub fn dump(request: &Request, words: Vec<OsString>, output: &Output) -> Result<u8, Failure> {
    let line = Line::read(words)?;
    let header = header(&line)?;
    let mut text = metadata(&line.path, &header);
    if request.has("dump-volume-key") || request.has("dump-master-key") {
        output.confirm("the volume key gives whoever sees it the data")?;
        let key = fvault2::key(&line.path, &header, &line.unlock, output)?;
        // With room for all of it: what has to grow leaves a copy.
        text.reserve(1024 + 4 * key.len());
        tell(&mut text, &key, request.volume_key_file().map(Path::new))?;
    }
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
    fvault2::key(&line.path, &header, &line.unlock, output)?;
    Ok(0)
}

fn checked(line: &Line) -> Result<LockedFileVault, Failure> {
    let header = header(line)?;
    let size = open_device(&line.path, Access::ReadOnly)?.size();
    header.check(size).map_err(|error| as_parameter(Failure::from(error).at(&line.path)))?;
    Ok(header)
}

fn header(line: &Line) -> Result<LockedFileVault, Failure> {
    let device = open_device(&line.path, Access::ReadOnly)?;
    if let Some(path) = line.unlock.header.as_deref() {
        let keys = open_device(path, Access::ReadOnly)?;
        let header = match is_one(&keys) {
            true => LockedFileVault::read(&keys),
            false => LockedFileVault::read_with(&device, &keys),
        };
        return header.map_err(|error| as_parameter(Failure::from(error).at(path)));
    }
    let header = fvault2::header(&line.path, &device).map_err(as_parameter)?;
    header.ok_or_else(|| as_parameter(Failure::from(FileVaultError::NotFileVault).at(&line.path)))
}

fn metadata(path: &Path, header: &LockedFileVault) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2048));
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{name:<22}\t{value}");
    };
    line("Physical volume UUID: ", &header.header().uuid);
    line("Family UUID:", &header.logical_volume().family);
    line("Logical volume offset:", &format_args!("{} [bytes]", header.data_offset()));
    line("Logical volume size:", &format_args!("{} [bytes]", header.logical_volume().size));
    line("Cipher:", &"aes");
    line("Cipher mode:", &"xts-plain64");
    // There is one at least.
    if let Some(first) = header.context().keks.first() {
        line("PBKDF2 iterations:", &first.iterations);
        let salt: String = first.salt.iter().map(|byte| format!("{byte:02x} ")).collect();
        line("PBKDF2 salt:", &salt);
    }
    text.insert_str(
        0,
        &format!("Header information for FVAULT2 device {}.\n", plain(&path.display().to_string())),
    );
    text
}

/// The key of the data, or the file that has it.
fn tell(text: &mut String, key: &VolumeKey, file: Option<&Path>) -> Result<(), Failure> {
    if let Some(file) = file {
        write_private(file, key.expose())?;
        text.push_str(&format!("Key stored to file {}.\n", plain(&file.display().to_string())));
        return Ok(());
    }
    text.push_str("Volume key:       \t");
    for byte in key.expose() {
        let _ = write!(text, "{byte:02x} ");
    }
    text.push('\n');
    Ok(())
}
