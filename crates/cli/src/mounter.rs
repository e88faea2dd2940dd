//! The program by the name `mount.atrest`, which mount(8) calls for `mount -t atrest` and a line of fstab:
//! `SOURCE DIRECTORY [-sfnvrw] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]`. It becomes `atrest mount --daemon`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::failure::Failure;

/// Exit codes of mount(8).
pub const MOUNT_FAILED: u8 = 32;

/// Options with a value that `atrest mount` has by the same name.
const VALUES: &[&str] = &[
    "config",
    "driver-options",
    "ecryptfs-cipher",
    "expect-key",
    "header",
    "key-file",
    "key-slot",
    "max-kdf-time",
    "name",
    "partition",
    "passphrase-from",
    "policy",
    "snapshot",
    "store",
    "token-id",
    "token-pin-file",
    "token-type",
    "type",
];
/// Options without one.
const FLAGS: &[&str] = &["token-only", "without-freshness"];
/// What mount(8) and systemd keep for themselves, or what says nothing here.
const OTHERS: &[&str] = &[
    "rw", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev",
    "async",
];
/// What a filesystem of the kernel and its drivers take.
const GENERIC: &[&str] = &[
    "exec",
    "noexec",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "sync",
    "dirsync",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "lazytime",
];

/// Whether the program was called by this name.
pub fn is_meant(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == "mount.atrest" || name == "mount.fuse.atrest")
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The words of `atrest` that mount it.
    Mount(Vec<OsString>),
    /// Only whether that could be asked for.
    Nothing,
}

/// `atrest`'s words for those of mount(8).
///
/// # Errors
/// If a word or an option is not known, or the source or the directory is missing.
pub fn read(words: impl Iterator<Item = OsString>) -> Result<Asked, Failure> {
    let (mut places, mut options, mut sloppy, mut fake) = (Vec::new(), Vec::new(), false, false);
    let mut words = words;
    let missing = |of: &str| Failure::parameters(format!("{of} has no value"));
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"-o" => options.push(words.next().ok_or_else(|| missing("-o"))?),
            b"-N" | b"-t" => drop(words.next().ok_or_else(|| missing("-t"))?),
            [b'-', letters @ ..] if !letters.is_empty() => {
                for letter in letters {
                    match letter {
                        b's' => sloppy = true,
                        b'f' => fake = true,
                        b'r' => options.push("ro".into()),
                        b'n' | b'v' | b'w' => {}
                        _ => return Err(unknown(&word)),
                    }
                }
            }
            _ => places.push(word),
        }
    }
    let [source, directory] = <[OsString; 2]>::try_from(places).map_err(|_| {
        Failure::parameters("a source and a directory are needed")
            .hint("as in: mount -t atrest /dev/sdx1 /mnt -o key-file=/etc/disk.key")
    })?;
    let mut asked: Vec<OsString> = vec!["mount".into(), "--daemon".into(), "--quiet".into()];
    let (mut generic, mut has_driver) = (Vec::new(), false);
    for list in &options {
        for option in list.as_bytes().split(|byte| *byte == b',').filter(|option| !option.is_empty()) {
            let mut halves = option.splitn(2, |byte| *byte == b'=');
            let name = String::from_utf8_lossy(halves.next().unwrap_or_default()).into_owned(); // intended: there is one.
            let value = halves.next().map(|value| OsString::from_vec(value.to_vec()));
            match (&*name, value) {
                ("ro", None) => asked.push("--read-only".into()),
                ("allow_other", None) => asked.push("--allow-other".into()),
                ("keyfile", Some(value)) => {
                    let mut word = OsString::from("--key-file=");
                    word.push(value);
                    asked.push(word);
                }
                ("driver", Some(value)) if value == "loop" => {
                    has_driver = true;
                    asked.push("--loop".into());
                }
                ("driver", Some(value)) if value == "auto" => {
                    has_driver = true;
                    asked.push("--driver".into());
                }
                ("driver", Some(value)) => {
                    has_driver = true;
                    let mut word = OsString::from("--driver=");
                    word.push(value);
                    asked.push(word);
                }
                (name, Some(value)) if VALUES.contains(&name) => {
                    // Joined: a value may begin with a dash.
                    let mut word = OsString::from(format!("--{name}="));
                    word.push(value);
                    asked.push(word);
                }
                (name, None) if FLAGS.contains(&name) => asked.push(format!("--{name}").into()),
                (name, None) if OTHERS.contains(&name) => {}
                (name, None) if GENERIC.contains(&name) => generic.push(name.to_owned()),
                (name, _) if name.starts_with("x-") || name.starts_with("X-") || name == "comment" => {}
                _ if sloppy => {}
                _ => return Err(unknown(OsStr::from_bytes(option))),
            }
        }
    }
    if !has_driver && generic.iter().rfind(|name| name.ends_with("exec")).is_some_and(|name| name == "noexec")
    {
        asked.push("--noexec".into());
    }
    if has_driver && !generic.is_empty() {
        asked.push(format!("--driver-options={}", generic.join(",")).into());
    }
    asked.extend(["--".into(), source, directory]);
    Ok(if fake { Asked::Nothing } else { Asked::Mount(asked) })
}

fn unknown(word: &OsStr) -> Failure {
    Failure::parameters(format!("{} is no option of mount -t atrest", word.display()))
        .hint("docs/CONFIG.md lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Asked, String> {
        read(words.split(' ').map(OsString::from)).map_err(|failure| failure.what().to_owned())
    }

    fn mounts(words: &str, ours: &str) {
        let ours: Vec<OsString> = ours.split(' ').map(OsString::from).collect();
        assert_eq!(asked(words), Ok(Asked::Mount(ours)), "{words}");
    }

    #[test]
    fn words_of_mount_become_words_of_atrest() {
        mounts("/dev/sdx /mnt -o rw", "mount --daemon --quiet -- /dev/sdx /mnt");
        mounts(
            "/dev/sdx /mnt -n -v -o ro,noauto,x-systemd.automount,key-file=/k,driver=loop,noexec,nodev",
            "mount --daemon --quiet --read-only --key-file=/k --loop --driver-options=noexec,nodev -- /dev/sdx /mnt",
        );
        mounts("/dev/sdx /mnt -o exec,noexec", "mount --daemon --quiet --noexec -- /dev/sdx /mnt");
        mounts("/dev/sdx /mnt -o noexec,exec", "mount --daemon --quiet -- /dev/sdx /mnt");
        mounts(
            "photos /mnt -r -t fuse.atrest -o passphrase-from=keyring:a:b,driver=fuse2fs",
            "mount --daemon --quiet --read-only --passphrase-from=keyring:a:b --driver=fuse2fs -- photos /mnt",
        );
        mounts("/dev/sdx /mnt -s -o nonsense", "mount --daemon --quiet -- /dev/sdx /mnt");
        assert_eq!(asked("/dev/sdx /mnt -f"), Ok(Asked::Nothing));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (words, says) in [
            ("/dev/sdx /mnt -o nonsense", "nonsense is no option of mount -t atrest"),
            ("/dev/sdx /mnt -o ro=1", "ro=1 is no option of mount -t atrest"),
            ("/dev/sdx /mnt -o run=sh", "run=sh is no option of mount -t atrest"),
            ("/dev/sdx /mnt -q", "-q is no option of mount -t atrest"),
            ("/dev/sdx", "a source and a directory are needed"),
            ("/dev/sdx /mnt -o", "-o has no value"),
        ] {
            assert_eq!(asked(words), Err(says.to_owned()));
        }
    }
}
