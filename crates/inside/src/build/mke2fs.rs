//! Running mke2fs, which lays out what the builder fills.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{BLOCK, BuildError};

/// What the builder writes, and nothing else, whatever mke2fs.conf says.
const FEATURES: &str = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,\
                        large_file,huge_file,dir_nlink,extra_isize,metadata_csum";
/// Where it lies when it is not found in the path, as for users whose path has no system programs.
const PLACES: [&str; 3] = ["mke2fs", "/usr/sbin/mke2fs", "/sbin/mke2fs"];

/// What to ask mke2fs for.
pub(super) struct Layout<'a> {
    pub(super) inodes: u64,
    pub(super) uuid: Option<&'a str>,
    pub(super) label: Option<&'a str>,
    pub(super) encrypt: bool,
    pub(super) stable_inodes: bool,
}

/// Makes an empty filesystem that fills the file `image`.
pub(super) fn run(image: &Path, layout: &Layout<'_>) -> Result<(), BuildError> {
    let mut features = FEATURES.to_owned();
    if layout.encrypt {
        features.push_str(",encrypt");
    }
    if layout.stable_inodes {
        features.push_str(",stable_inodes");
    }
    // Nothing is left for the kernel to do after the first mount.
    let mut extended = "lazy_itable_init=0,lazy_journal_init=0".to_owned();
    if let Some(uuid) = layout.uuid {
        extended.push_str(",hash_seed=");
        extended.push_str(uuid);
    }
    let mut args: Vec<OsString> = ["-q", "-F", "-m", "1", "-I", "256"].iter().map(OsString::from).collect();
    let mut option = |name: &str, value: &str| args.extend([OsString::from(name), OsString::from(value)]);
    option("-b", &BLOCK.to_string());
    option("-N", &layout.inodes.to_string());
    option("-O", &features);
    option("-E", &extended);
    if let Some(uuid) = layout.uuid {
        option("-U", uuid);
    }
    if let Some(label) = layout.label {
        option("-L", label);
    }
    args.push(image.into());
    let found = PLACES.iter().find_map(|program| {
        let run = Command::new(program)
            .args(&args)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output();
        match run {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            run => Some(run),
        }
    });
    let run =
        found.ok_or(BuildError::NoMke2fs)?.map_err(|error| BuildError::Mke2fs { said: error.to_string() })?;
    if run.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
    Err(BuildError::Mke2fs { said })
}
