//! `atrest mount --at-login`: a unit of the user's systemd that mounts a volume when the user logs in.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::inside::MountArgs;
use crate::commands::target::replace_private;
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};

/// Writes the unit, or removes it. `words` are those of this command, behind the program.
///
/// # Errors
/// If the unit can't be written, and if a unit of that name was not written by this command.
pub fn at_login(
    args: &MountArgs,
    named: Option<&Path>,
    words: &[OsString],
    output: &Output,
) -> Result<(), Failure> {
    if !args.run.is_empty() {
        return Err(Failure::parameters("--run does not go with --at-login: a unit runs until logout")
            .hint("`systemctl --user edit` adds commands to the unit once it is there"));
    }
    let name = unit_name(args);
    let directory = units()?;
    let path = directory.join(&name);
    let there = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::io(&error).at(&path)),
    };
    if there.as_ref().is_some_and(|text| !text.starts_with(MARK)) {
        return Err(Failure::new(Code::Busy, "this unit was not written by atrest")
            .at(&path)
            .hint("--name gives the unit another name"));
    }
    if args.remove {
        return remove(&path, &name, there.is_some(), output);
    }
    let program = env::current_exe().map_err(|error| Failure::io(&error).within("where this program is"))?;
    let here = env::current_dir().map_err(|error| Failure::io(&error).within("where this is"))?;
    let text = unit(args, &program, &here, named, words)?;
    if !args.directory.is_dir() {
        return Err(Failure::parameters("there is no directory to mount it in")
            .at(&args.directory)
            .hint("make it first, and name it behind the volume"));
    }
    if there.is_some_and(|there| there.lines().nth(1) != Some(of(args).as_str())) {
        return Err(Failure::new(Code::Busy, "this unit mounts another volume, or in another directory")
            .at(&path)
            .hint("--name gives the unit of this one another name"));
    }
    if args.unlock.secret.are_none() && !args.unlock.tokens.are_named() {
        output.warn(
            "nobody can be asked for a passphrase at login: unless a token opens the volume, `atrest key remember` and \
             --passphrase-from secret-service, or --key-file, let it open",
        );
    }
    std::fs::create_dir_all(&directory).map_err(|error| Failure::io(&error).at(&directory))?;
    replace_private(&path, text.as_bytes())?;
    output.done(
        &json!({ "unit": name, "path": path_text(&path) }),
        &format!(
            "{} is written; `systemctl --user daemon-reload && systemctl --user enable --now {name}` has it mount the volume at login",
            path.display()
        ),
    )
}

fn remove(path: &Path, name: &str, is_there: bool, output: &Output) -> Result<(), Failure> {
    if !is_there {
        return Err(Failure::new(Code::Device, "there is no such unit")
            .at(path)
            .hint("`systemctl --user list-unit-files 'atrest-*'` lists those that there are"));
    }
    // Enabling made this link, which would lead nowhere.
    let link = path.with_file_name("default.target.wants").join(name);
    for path in [&link, path] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::io(&error).at(path));
            }
            _ => {}
        }
    }
    output.done(
        &json!({ "removed": name }),
        &format!("{} is removed; what is mounted stays so until logout or `atrest close`", path.display()),
    )
}

/// What a unit begins with that this command has written.
const MARK: &str = "# Written by `atrest mount --at-login`";

fn unit_name(args: &MountArgs) -> String {
    let name = args.name.as_deref().map(OsStr::new).or(args.volume.file_stem());
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let plain: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    format!("atrest-{plain}.service")
}

/// Where the user's units are.
fn units() -> Result<PathBuf, Failure> {
    let base = super::file::base()
        .ok_or_else(|| Failure::parameters("it is not known where the user's units are").hint("set HOME"))?;
    Ok(base.join("systemd/user"))
}

fn unit(
    args: &MountArgs,
    program: &Path,
    here: &Path,
    named: Option<&Path>,
    words: &[OsString],
) -> Result<String, Failure> {
    let mut line = quoted(program.as_os_str())?;
    // What the environment said here, it does not say there. An empty name stands for no file.
    if named.is_none()
        && let Some(config) = env::var_os(super::file::VARIABLE)
    {
        line.push_str(" --config ");
        line.push_str(&quoted(&config)?);
    }
    for word in words.iter().filter(|word| *word != "--at-login" && *word != "--daemon") {
        line.push(' ');
        line.push_str(&quoted(word)?);
    }
    Ok(format!(
        "{MARK}, which changes and removes it.
{of}
[Unit]
Description=Encrypted volume {volume}
After=default.target gnome-keyring-daemon.service

[Service]
Type=notify
WorkingDirectory={here}
ExecStart={line}
Restart=no
TimeoutStopSec=300

[Install]
WantedBy=default.target
",
        of = of(args),
        volume = plain_text(&args.volume),
        here = directory(here)?,
    ))
}

/// The line of a unit that tells which volume it mounts where.
fn of(args: &MountArgs) -> String {
    let whole = |path: &Path| match std::path::absolute(path) {
        Ok(path) => plain_text(&path),
        Err(_) => plain_text(path), // intended: a URL is no path.
    };
    format!("# {} in {}", whole(&args.volume), whole(&args.directory))
}

fn plain_text(path: &Path) -> String {
    let text = path.to_string_lossy().replace('%', "%%");
    // A backslash at the end would take the next line along.
    text.chars().map(|letter| if letter.is_control() || letter == '\\' { '?' } else { letter }).collect()
}

/// A word of a unit's command line, as systemd.syntax(7) and systemd.service(5) have it.
fn quoted(word: &OsStr) -> Result<String, Failure> {
    let text = escaped(word)?;
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$");
    Ok(format!("\"{text}\""))
}

/// A directory, whose name can't take the next line of the unit along.
fn directory(path: &Path) -> Result<String, Failure> {
    if path.as_os_str().as_bytes().ends_with(b"\\") {
        return Err(Failure::parameters(
            "a unit can't begin in a directory whose name ends with a backslash",
        )
        .at(path));
    }
    escaped(path.as_os_str())
}

/// Text of a unit in which % stands for itself.
fn escaped(word: &OsStr) -> Result<String, Failure> {
    let text = std::str::from_utf8(word.as_bytes()).ok().filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| {
        Failure::parameters("a unit can't have names that are not UTF-8, or have control characters")
            .hint("name the volume in the configuration, and mount it by that name")
    })?;
    Ok(text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_what_they_are_in_a_unit() {
        for (word, text) in [
            ("plain", "\"plain\""),
            ("a b", "\"a b\""),
            ("100%", "\"100%%\""),
            ("$HOME", "\"$$HOME\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
        ] {
            assert_eq!(quoted(OsStr::new(word)).expect("quoted"), text);
        }
        assert!(quoted(OsStr::new("a\nExecStart=/bin/sh")).is_err());
        assert!(quoted(OsStr::from_bytes(b"a\xff")).is_err());
    }
}
