//! Passphrases in the desktop's secret service (GNOME Keyring, KWallet, KeePassXC), through the program `secret-tool` of libsecret.
//!
//! The program has the D-Bus library and the session that hides secrets on the bus, and is installed where such a service is.
//! A D-Bus library in here would be some sixty crates that every volume's key passes by. Secrets go through pipes only.
//!
//! They have the attributes that GNOME's Files and Disks give to the passphrases of LUKS volumes, so both know the other's.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use atrest_secret::Passphrase;

use super::asked_program::{Asked, Said};
use super::read_from_program;
use crate::failure::{Code, Failure};
use crate::output::Output;

const PROGRAM: &str = "secret-tool";
/// GNOME's schema, and its attribute with the volume's UUID.
const SCHEMA: [&str; 2] = ["xdg:schema", "org.gnome.GVfs.Luks.Password"];
const ATTRIBUTE: &str = "gvfs-luks-uuid";

/// The secret with this identifier.
pub fn look_up(id: &str, output: &Output) -> Result<Passphrase, Failure> {
    let mut command = program(&["lookup"], id);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (run, asked) = Asked::start(&mut command).map_err(|error| absent(&error))?;
    let found = read_from_program(run, Some(asked.end()), output);
    match (found, asked.said()) {
        (Ok(found), _) => Ok(found),
        (Err(_), Err(late)) => Err(late),
        (Err(_), Ok(said)) => Err(missing(id, told(&said))),
    }
}

/// Stores a secret, in the place of one that is there.
pub fn store(id: &str, label: &str, passphrase: &Passphrase) -> Result<(), Failure> {
    check(passphrase)?;
    let label = format!("--label={label}");
    let mut command = Command::new(PROGRAM);
    command.arg("store").arg(label).args(SCHEMA).args([ATTRIBUTE, id]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut run, asked) = Asked::start(&mut command).map_err(|error| absent(&error))?;
    // What it did not take is told by how it ends.
    let written = run.stdin.take().map(|mut stdin| stdin.write_all(passphrase.expose()));
    let ended = run.wait()?;
    let said = asked.said()?;
    match (ended.success(), written) {
        (true, Some(Ok(()))) => Ok(()),
        _ => Err(refused("does not keep the passphrase", told(&said))),
    }
}

/// Whether a service may run: the program that asks it is there, and so is the bus of a desktop.
pub fn may_run() -> bool {
    let bus = std::env::var_os("XDG_RUNTIME_DIR").map(|at| Path::new(&at).join("bus"));
    if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_none() && !bus.is_some_and(|bus| bus.exists()) {
        return false;
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|at| at.join(PROGRAM).is_file()))
}

/// Removes a secret. Whether there was one.
pub fn clear(id: &str) -> Result<bool, Failure> {
    let mut command = program(&["clear"], id);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    removed(&mut command)
}

/// Runs the program that removes a secret.
fn removed(command: &mut Command) -> Result<bool, Failure> {
    let (mut run, asked) = Asked::start(command).map_err(|error| absent(&error))?;
    let ended = run.wait()?;
    match (ended.code(), told(&asked.said()?)) {
        (Some(0), _) => Ok(true),
        // So it ends, and says nothing, where there is nothing.
        (Some(1), "") => Ok(false),
        (_, "") => Err(refused("does not remove the passphrase", &format!("secret-tool: {ended}"))),
        (_, said) => Err(refused("does not remove the passphrase", said)),
    }
}

/// Secrets there are text: what is not would come back as something else.
fn check(passphrase: &Passphrase) -> Result<(), Failure> {
    let bytes = passphrase.expose();
    match std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0) && !bytes.is_empty() {
        true => Ok(()),
        false => Err(Failure::parameters("the secret service keeps text alone, and this passphrase is none")
            .hint("--in keyring keeps any bytes, until the machine is switched off")),
    }
}

fn program(words: &[&str], id: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    // Without the schema: other programs store their secrets under others.
    command.args(words).args([ATTRIBUTE, id]);
    command
}

fn absent(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::new(
            Code::Device,
            "the program secret-tool, which asks the secret service, is not installed",
        )
        .hint(
            "install it as root: apt-get install libsecret-tools (or your system's package of that program)",
        ),
        _ => Failure::io(error).within("secret-tool can't be started"),
    }
}

fn missing(id: &str, said: &str) -> Failure {
    match said.is_empty() {
        true => Failure::new(Code::Refused, format!("the secret service has no passphrase for {id}"))
            .hint("`atrest key remember --in secret-service` stores it; is the service unlocked?"),
        false => refused("gives no passphrase", said),
    }
}

fn refused(what: &str, said: &str) -> Failure {
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    Failure::new(Code::Refused, format!("the secret service {what}{said}"))
        .hint("it runs in a desktop session, as gnome-keyring-daemon or kwalletd do, and must be unlocked")
}

/// What the program says of itself, on one line. Empty if it says nothing; not if what it says may come yet.
fn told(said: &Said) -> &str {
    match said.text.lines().next() {
        Some(line) => line.strip_prefix("secret-tool: ").unwrap_or(line),
        None if said.is_all => "",
        None => "a process that secret-tool started still runs, and may say more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed_by(script: &str) -> Result<bool, Failure> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        removed(&mut command)
    }

    #[test]
    fn nothing_is_stored_only_where_the_program_has_said_all_and_that_is_nothing() {
        assert!(matches!(removed_by("exit 0"), Ok(true)));
        assert!(matches!(removed_by("exit 1"), Ok(false)));
        for (silent, end) in [("kill -9 $$", "signal: 9"), ("exit 127", "exit status: 127")] {
            let died = removed_by(silent).expect_err("nobody has said that there is nothing");
            assert!(died.what().contains(end), "{}", died.what());
        }
        let locked = removed_by("echo 'secret-tool: locked' >&2; exit 1").expect_err("locked");
        assert_eq!(locked.what(), "the secret service does not remove the passphrase: locked");
        // Whoever holds the pipe may have something to say.
        let unheard = removed_by("sleep 60 & exit 1").expect_err("not all was said");
        assert!(unheard.what().contains("still runs"), "{}", unheard.what());
    }
}
