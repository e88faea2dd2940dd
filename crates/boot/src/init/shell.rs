//! A shell for people, where the kernel command line allows one.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Teller;
use crate::unlock::Level;

/// Shells that an initramfs may have, with what makes them one.
const SHELLS: &[(&str, &[&str])] =
    &[("/bin/sh", &[]), ("/bin/bash", &[]), ("/bin/busybox", &["sh"]), ("/usr/bin/busybox", &["sh"])];

/// Runs a shell on the console until it is left; false if there is none.
pub fn run(teller: &Teller, leaving: &str) -> bool {
    let Some((shell, arguments)) = SHELLS.iter().find(|(shell, _)| Path::new(shell).exists()) else {
        teller.say(Level::Error, "there is no shell in this initramfs");
        return false;
    };
    teller.say(Level::Error, &format!("this is a shell ({shell}); {leaving}"));
    let console = || OpenOptions::new().read(true).write(true).open("/dev/console").map(Stdio::from);
    let mut command = Command::new(shell);
    command.args(*arguments).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("PS1", "atrest# ");
    if let (Ok(input), Ok(output), Ok(error)) = (console(), console(), console()) {
        command.stdin(input).stdout(output).stderr(error);
    }
    match command.status() {
        Ok(_) => true,
        Err(error) => {
            teller.say(Level::Error, &format!("{shell} can't be started: {error}"));
            false
        }
    }
}
