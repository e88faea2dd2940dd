//! Kernel modules: `/etc/atrest/modules` has one path a line, below `/lib/modules/VERSION`, in the order in which they are loaded;
//! parameters can follow. Whoever made the initramfs has put dependencies first.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::system::{finit_module, uname};

use crate::unlock::Level;

const LIST: &str = "/etc/atrest/modules";
/// `MODULE_INIT_COMPRESSED_FILE`: the kernel takes the module out of its compression itself.
const COMPRESSED: i32 = 4;

/// Loads all of them. One that can't be loaded is told, and the others are loaded: it may not be needed on this machine.
pub fn load_all(say: &dyn Fn(Level, &str)) {
    let Ok(list) = std::fs::read_to_string(LIST) else { return };
    let version = uname().release().to_string_lossy().into_owned();
    let directory = Path::new("/lib/modules").join(&version);
    for (number, line) in list.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (path, parameters) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let path = directory.join(path.trim_start_matches('/'));
        if let Err(error) = load(&path, parameters.trim()) {
            say(Level::Warning, &format!("{LIST}:{}: {}: {error}", number + 1, path.display()));
        }
    }
}

fn load(path: &Path, parameters: &str) -> io::Result<()> {
    let compressed = path.extension().is_some_and(|extension| extension != "ko");
    let words = CString::new(parameters).map_err(|_| io::ErrorKind::InvalidInput)?;
    let file = File::open(path)?;
    let error = match finit_module(&file, &words, if compressed { COMPRESSED } else { 0 }) {
        // It is there already.
        Ok(()) | Err(Errno::EXIST) => return Ok(()),
        Err(error) => error,
    };
    // A kernel before 5.17, or one that can't decompress: a program in the initramfs may.
    let by_program =
        compressed && matches!(error, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOEXEC | Errno::NOSYS);
    if by_program && load_by_program(path, parameters) {
        return Ok(());
    }
    if by_program {
        let what = format!(
            "the kernel does not decompress modules ({error}), and no modprobe or insmod in the initramfs did; \
             put it there uncompressed"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Err(error.into())
}

/// By kmod's modprobe, or busybox's.
fn load_by_program(path: &Path, parameters: &str) -> bool {
    // intended: a path without a name is no module that a program finds, and it fails then.
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = file.split('.').next().unwrap_or_default();
    let programs = ["/sbin/modprobe", "/usr/sbin/modprobe", "/bin/modprobe"].map(PathBuf::from);
    let known = programs.into_iter().find(|program| program.exists());
    known.is_some_and(|program| {
        let words = parameters.split_whitespace();
        Command::new(program).arg(name).args(words).status().is_ok_and(|status| status.success())
    })
}
