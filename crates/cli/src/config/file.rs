//! Where the configuration file is, and whether it may be believed.

use std::env;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::way;
use crate::failure::{Code, Failure};

/// A longer file is none that a person wrote.
const LONGEST: u64 = 1 << 20;
/// Names the file, in the environment.
pub const VARIABLE: &str = "ATREST_CONFIG";

/// Where the file is to be, and whether somebody named it.
pub fn place(named: Option<&Path>) -> Option<(PathBuf, bool)> {
    if let Some(path) = named {
        return (!path.as_os_str().is_empty()).then(|| (path.to_owned(), true));
    }
    if let Some(path) = env::var_os(VARIABLE) {
        return (!path.is_empty()).then(|| (path.into(), true));
    }
    Some((base()?.join("atrest/config.toml"), false))
}

/// Where the user's configurations are, if the environment says so.
pub fn base() -> Option<PathBuf> {
    // What is no absolute path counts nothing, says the XDG Base Directory Specification.
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
}

/// The file and its text. `None` if nobody named one and there is none in its usual place.
///
/// # Errors
/// If it is not there though it was named, can't be read, or could have been written by somebody else.
pub fn read(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, Failure> {
    let Some((path, is_named)) = place(named) else { return Ok(None) };
    // A pipe that nobody writes would be waited for.
    let mut file = match File::options().read(true).custom_flags(without_waiting()).open(&path) {
        // A place that this user can't even look at, as after `sudo` with another user's HOME, is not this user's.
        Err(_) if !is_named && path.symlink_metadata().is_err() => return Ok(None),
        opened => opened.map_err(|error| Failure::io(&error).at(&path))?,
    };
    let found = file.metadata().map_err(|error| Failure::io(&error).at(&path))?;
    if !found.is_file() {
        return Err(Failure::parameters("the configuration is no file")
            .at(&path)
            .hint("--config '' reads none"));
    }
    believe(&found, "the configuration").map_err(|failure| failure.at(&path))?;
    way::check(&path)?;
    let mut text = String::new();
    let read = file.by_ref().take(LONGEST + 1).read_to_string(&mut text);
    match read {
        Ok(len) if len as u64 > LONGEST => {
            Err(Failure::parameters(format!("the configuration has more than {LONGEST} bytes")).at(&path))
        }
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(Failure::parameters("the configuration is not UTF-8 text").at(&path))
        }
        read => read.map(|_| Some((path.clone(), text))).map_err(|error| Failure::io(&error).at(&path)),
    }
}

/// `O_NONBLOCK`, as the system's interface has it.
fn without_waiting() -> i32 {
    i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0) // intended: without it the file opens as well.
}

/// Fails if anybody but this user and root can write it: it says which devices are opened and written.
pub(super) fn believe(found: &Metadata, what: &str) -> Result<(), Failure> {
    owned(found, what)?;
    if found.mode() & 0o022 != 0 {
        return Err(Failure::new(Code::Refused, format!("others can write {what}"))
            .hint("take that from them first: chmod go-w"));
    }
    Ok(())
}

/// Fails if it belongs to neither this user nor root.
pub(super) fn owned(found: &Metadata, what: &str) -> Result<(), Failure> {
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user && found.uid() != 0 {
        return Err(Failure::new(Code::Refused, format!("{what} belongs to another user ({})", found.uid()))
            .hint(format!("--config FILE or {VARIABLE} names your own; --config '' reads none")));
    }
    Ok(())
}
