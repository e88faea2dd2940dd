//! Where the configuration is read from.

use std::path::Path;

use crate::policy::{Boot, CommandLine, Crypttab, Notice, Origin, OriginPlace, Policy, Problem};

/// Volumes, where everybody looks for them.
pub const CRYPTTAB: &str = "/etc/crypttab";
/// The kernel command line.
pub const CMDLINE: &str = "/proc/cmdline";

/// Reads both files, either of which may be left out. A file that can't be read is told; a crypttab that does not exist asks for nothing.
/// Bytes that are no UTF-8 are replaced, so that they name nothing.
pub fn read(crypttab: Option<&Path>, cmdline: Option<&Path>) -> Policy {
    let mut problems = Vec::new();
    let mut text = |path: &Path| match std::fs::read(path) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path == Path::new(CRYPTTAB) => None,
        Err(error) => {
            let origin = Origin { file: path.into(), place: OriginPlace::File };
            let problem = Problem::File { path: path.into(), error: error.to_string() };
            problems.push(Notice { origin, problem });
            None
        }
    };
    let crypttab = crypttab.and_then(|path| Some(Crypttab::parse(path, &text(path)?)));
    let line = cmdline.and_then(|path| Some(CommandLine::parse(path, &text(path)?)));
    let mut policy = Policy::new(crypttab, line);
    policy.notices.splice(0..0, problems);
    policy
}

/// Whether the kernel was asked to be quiet.
pub fn is_quiet() -> bool {
    std::fs::read_to_string(CMDLINE).is_ok_and(|line| line.split_whitespace().any(|word| word == "quiet"))
}

/// What init gets as its arguments: what the kernel gave this program, which is what was meant for init.
pub fn init_arguments(boot: &Boot) -> Vec<String> {
    let own: Vec<String> = std::env::args().skip(1).collect();
    if own.is_empty() { boot.arguments.clone() } else { own }
}
