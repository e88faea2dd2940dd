//! Tables made after the manual pages: systemd's crypttab(5) and systemd-cryptsetup-generator(8), Debian's crypttab(5),
//! dracut.cmdline(7), and mkinitcpio's description of its hook `encrypt`.

mod cmdline;
mod crypttab;

use std::path::Path;

use super::*;

fn crypttab(text: &str) -> Crypttab {
    Crypttab::parse(Path::new("/etc/crypttab"), text)
}

fn line(text: &str) -> CommandLine {
    CommandLine::parse(Path::new("/proc/cmdline"), text)
}

fn messages(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(ToString::to_string).collect()
}

fn names(policy: &Policy) -> Vec<&str> {
    policy.entries.iter().map(|entry| entry.name.as_str()).collect()
}
