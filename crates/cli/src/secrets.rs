//! Passphrases and volume keys from terminals, files and file descriptors, straight into locked memory.
//! What counts as the passphrase in each case is cryptsetup's rule, written down in docs/CLI.md.

mod asked_program;
pub mod service;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Instant;

use atrest_attach::serve::keep_from_commands;
use atrest_engine::keyring;
use atrest_kdf::tcrypt::{KeyFiles, MAX_KEY_FILE as MAX_TCRYPT_KEY_FILE};
use atrest_kdf::words::{WordsError, max_len, normalise};
use atrest_secret::{Passphrase, SecretBytes, VolumeKey, with_wiped_stack};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, SeekFrom};

use crate::args::secrets::{NewPassphraseArgs, PassphraseArgs, PassphraseFrom, SecretArgs};
use crate::failure::{Code, Failure};
use crate::output::{Output, Questions};
use crate::prompt::ask;

/// cryptsetup's limit for key files.
pub const MAX_KEY_FILE: usize = 8 << 20;

/// One place a passphrase can come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A key file; `-` is standard input.
    File { path: PathBuf, offset: u64, size: Option<u64> },
    /// An open file descriptor.
    Descriptor(u32),
    /// The key of type `user` with this description, in the kernel's keyring.
    Keyring(String),
    /// A secret of the desktop's secret service.
    SecretService(String),
    /// The terminal.
    Prompt {
        /// What is typed is a passphrase of words.
        words: bool,
        /// It is asked for twice, although it is none that is new.
        verify: bool,
        /// The options that give it where there is no terminal.
        instead: &'static str,
    },
}

impl From<&PassphraseArgs> for Source {
    fn from(args: &PassphraseArgs) -> Self {
        let prompt = Self::typed(args, "--key-file FILE, --key-file - (standard input) or --passphrase-fd N");
        let file = (args.key_file.as_deref(), args.keyfile_offset, args.keyfile_size);
        match &args.passphrase_from {
            // intended: what was not identified is refused when it is read.
            Some(PassphraseFrom::Keyring(name)) => Self::Keyring(name.clone().unwrap_or_default()),
            Some(PassphraseFrom::SecretService(id)) => Self::SecretService(id.clone().unwrap_or_default()),
            None => Self::new(file, args.passphrase_fd, args.key_description.as_deref(), prompt),
        }
    }
}

impl From<&NewPassphraseArgs> for Source {
    fn from(args: &NewPassphraseArgs) -> Self {
        let prompt = Self::Prompt {
            words: args.new_words,
            verify: true,
            instead: "--new-key-file FILE, --new-key-file - (standard input) or --new-passphrase-fd N",
        };
        let file = (args.new_key_file.as_deref(), args.new_keyfile_offset, args.new_keyfile_size);
        Self::new(file, args.new_passphrase_fd, args.new_key_description.as_deref(), prompt)
    }
}

impl Source {
    fn new(
        (file, offset, size): (Option<&Path>, Option<u64>, Option<u64>),
        fd: Option<u32>,
        description: Option<&str>,
        prompt: Self,
    ) -> Self {
        match (file, fd, description) {
            // intended: a file is read from its start.
            (Some(path), _, _) => Self::File { path: path.into(), offset: offset.unwrap_or(0), size },
            (None, Some(fd), _) => Self::Descriptor(fd),
            (None, None, Some(description)) => Self::Keyring(description.into()),
            (None, None, None) => prompt,
        }
    }

    /// What a person types, in the way that `args` says. Without a terminal the options `instead` are named.
    pub fn typed(args: &PassphraseArgs, instead: &'static str) -> Self {
        Self::Prompt { words: args.words, verify: args.verify_passphrase, instead }
    }

    /// A whole key file.
    pub fn key_file(path: &Path) -> Self {
        Self::File { path: path.to_path_buf(), offset: 0, size: None }
    }

    /// Whether a person types it.
    pub fn is_prompt(&self) -> bool {
        matches!(self, Self::Prompt { .. })
    }

    /// Whether it is a named key file (not standard input), which plain mode never hashes.
    pub fn is_key_file(&self) -> bool {
        matches!(self, Self::File { path, .. } if path.as_os_str() != "-")
    }

    /// Whether it is standard input, by whatever name.
    pub fn reads_stdin(&self) -> bool {
        match self {
            Self::File { path, .. } => ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"]
                .iter()
                .any(|name| path.as_os_str() == *name),
            Self::Descriptor(fd) => *fd == 0,
            Self::Keyring(_) | Self::SecretService(_) | Self::Prompt { .. } => false,
        }
    }

    /// The passphrase that opens something. A terminal asks for `prompt`, and with --verify-passphrase once more.
    pub fn read(&self, prompt: &str, output: &Output) -> Result<Passphrase, Failure> {
        let passphrase = self.read_once(prompt, output)?;
        match self {
            Self::Prompt { verify: true, .. } => self.verified(passphrase, prompt, output),
            _ => Ok(passphrase),
        }
    }

    /// The passphrase, if it is one that need not be there: a line of standard input that has ended is none.
    pub fn read_if_any(&self, output: &Output) -> Result<Option<Passphrase>, Failure> {
        match self {
            Self::Prompt { .. } if output.reads_lines() => {
                Ok(read_line(output.questions())?.map(Passphrase::new))
            }
            Self::Prompt { .. } => Ok(None),
            _ => self.read("", output).map(Some),
        }
    }

    /// A new passphrase: a terminal asks twice, and it must not be empty.
    pub fn read_new(&self, prompt: &str, output: &Output) -> Result<Passphrase, Failure> {
        let passphrase = self.read_once(prompt, output)?;
        if passphrase.expose().is_empty() {
            return Err(Failure::parameters("a new passphrase must not be empty"));
        }
        self.verified(passphrase, prompt, output)
    }

    fn read_once(&self, prompt: &str, output: &Output) -> Result<Passphrase, Failure> {
        let bytes = match self {
            Self::File { path, offset, size } => read_key_file(path, *offset, *size, output)?,
            Self::Descriptor(fd) => read_descriptor(*fd)?,
            Self::Keyring(name) | Self::SecretService(name) if name.is_empty() => return Err(unnamed()),
            Self::Keyring(description) => {
                let name = keyring::Name::user(description);
                // A session that PAM has not begun has no way to its user's keyring.
                if keyring::key(&name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                    keyring::reach_user();
                }
                read_keyring(&name)?
            }
            Self::SecretService(id) => return service::look_up(id, output),
            Self::Prompt { .. } if output.reads_lines() => read_line(output.questions())?
                .ok_or_else(|| Failure::parameters("standard input ends before a passphrase"))?,
            Self::Prompt { words, instead, .. } => typed(&format!("{prompt}: "), *words, instead, output)?,
        };
        output.warn_if_unlocked();
        Ok(Passphrase::new(bytes))
    }

    /// The passphrase, if it was typed the same a second time. What was not typed can't be mistyped.
    fn verified(&self, passphrase: Passphrase, prompt: &str, output: &Output) -> Result<Passphrase, Failure> {
        let Self::Prompt { words, instead, .. } = self else { return Ok(passphrase) };
        if output.reads_lines() {
            return Ok(passphrase);
        }
        let again = typed(&format!("{prompt} once more: "), *words, instead, output)?;
        match passphrase == Passphrase::new(again) {
            true => Ok(passphrase),
            false => Err(Failure::new(Code::Refused, "the two passphrases differ; nothing was changed")),
        }
    }
}

/// The next line of standard input, without its newline. What follows stays there for the next question.
/// None if there is nothing at all.
fn read_line(questions: Questions) -> Result<Option<SecretBytes>, Failure> {
    let stdin = io::stdin();
    skip(stdin.as_fd(), questions.skip)?;
    let limit = match questions.bytes {
        None | Some(0) => MAX_KEY_FILE,
        Some(bytes) => {
            usize::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_KEY_FILE).ok_or_else(too_long)?
        }
    };
    let mut line = SecretBytes::zeroed(limit.min(512));
    let mut filled = 0;
    let mut next = SecretBytes::zeroed(1);
    let whole = loop {
        // One byte is looked at behind the longest line; one of a length that was asked for ends there.
        if filled == limit && questions.bytes.is_some_and(|bytes| bytes > 0) {
            break true;
        }
        match rustix::io::read(stdin.as_fd(), &mut next[..]) {
            Ok(0) => break false,
            Ok(_) if next[0] == b'\n' => break true,
            Ok(_) if filled == limit => return Err(too_long()),
            Ok(_) => {
                if filled == line.len() {
                    let mut larger = SecretBytes::zeroed((filled * 2).min(limit));
                    larger[..filled].copy_from_slice(&line);
                    line = larger;
                }
                line[filled] = next[0];
                filled += 1;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    };
    line.truncate(filled);
    match questions.bytes {
        _ if filled == 0 && !whole => Ok(None),
        Some(bytes) if (filled as u64) < bytes => {
            Err(Failure::parameters(format!("the line ends after {filled} of {bytes} bytes")))
        }
        _ => Ok(Some(line)),
    }
}

/// How often words with a typo are asked for.
const TRIES: u32 = 3;

/// What is typed at the question, in the normal form if it is words. Words with a typo are asked for again.
fn typed(prompt: &str, words: bool, instead: &str, output: &Output) -> Result<SecretBytes, Failure> {
    let mut tries = if words { TRIES } else { 1 };
    loop {
        tries -= 1;
        let line = ask(prompt, instead, output.questions().timeout)?;
        if !words {
            return Ok(line);
        }
        match normal_form(&line) {
            Err(failure) if tries > 0 => {
                failure.print(false);
                eprintln!("atrest: try again");
            }
            form => return form,
        }
    }
}

fn normal_form(line: &SecretBytes) -> Result<SecretBytes, Failure> {
    let mut normal = SecretBytes::zeroed(max_len(line.len() / 4 + 1));
    // It has an array on its stack that says something about the line.
    let (len, _) = with_wiped_stack(|| normalise(line, &mut normal)).map_err(|error| {
        let mut hint =
            String::from("`atrest passphrase` makes passphrases of words; leave out --words for any other");
        // Words that are like a part of the passphrase are for the person at the terminal, and for no log.
        if let WordsError::Unknown { near: [Some(first), ..], .. } = error
            && io::stderr().is_terminal()
        {
            hint = format!("did you mean \"{first}\"?");
            if let WordsError::Unknown { near: [_, Some(second), third], .. } = error {
                hint = match third {
                    None => format!("did you mean \"{first}\" or \"{second}\"?"),
                    Some(third) => format!("did you mean \"{first}\", \"{second}\" or \"{third}\"?"),
                };
            }
        }
        Failure::parameters(error).hint(hint)
    })?;
    normal.truncate(len);
    Ok(normal)
}

/// Both passphrases of a command can't come from standard input: the first would take everything.
pub fn refuse_sharing_stdin(a: &Source, b: &Source) -> Result<(), Failure> {
    if a.reads_stdin() && b.reads_stdin() {
        return Err(Failure::parameters(
            "the existing and the new passphrase can't both come from standard input",
        )
        .hint("give one of them by --passphrase-fd N, --new-passphrase-fd N or as a file"));
    }
    Ok(())
}

/// The volume key that the options name, if they name one. Its length is checked by whoever uses it.
pub fn volume_key(args: &SecretArgs, output: &Output) -> Result<Option<VolumeKey>, Failure> {
    match (&args.volume_key_file, &args.volume_key_keyring) {
        (Some(path), _) => read_volume_key(path, output).map(Some),
        (None, Some(name)) => read_volume_key_in_keyring(name, output).map(Some),
        (None, None) => Ok(None),
    }
}

/// A volume key: the whole file.
pub fn read_volume_key(path: &Path, output: &Output) -> Result<VolumeKey, Failure> {
    let bytes = read_key_file(path, 0, None, output)?;
    a_volume_key(bytes, output).map_err(|failure| failure.at(path))
}

/// A volume key: a whole key of the kernel's keyring.
pub fn read_volume_key_in_keyring(name: &keyring::Name, output: &Output) -> Result<VolumeKey, Failure> {
    a_volume_key(read_keyring(name)?, output)
}

fn a_volume_key(bytes: SecretBytes, output: &Output) -> Result<VolumeKey, Failure> {
    if bytes.is_empty() || bytes.len() > VolumeKey::MAX_LEN {
        return Err(Failure::parameters(format!(
            "{} bytes are no volume key; the longest has {}",
            bytes.len(),
            VolumeKey::MAX_LEN
        )));
    }
    output.warn_if_unlocked();
    Ok(VolumeKey::new(bytes))
}

/// A passphrase of a keyring is found by the UUID of its volume, which not everything has.
fn unnamed() -> Failure {
    Failure::parameters("it is not known which passphrase of the keyring is meant")
        .hint("name it: keyring:DESCRIPTION or secret-service:ID")
}

/// What a key of the kernel's keyring holds.
fn read_keyring(name: &keyring::Name) -> Result<SecretBytes, Failure> {
    keyring::key(name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::parameters(format!("the kernel's keyring has no {name}"))
            .hint("`keyctl show` lists what this session has"),
        io::ErrorKind::Unsupported => Failure::parameters(format!("the {name} can't be read: {error}"))
            .hint("only the kernel reads keys of type logon: take one of type user"),
        _ => Failure::parameters(format!("the {name} can't be read: {error}")),
    })
}

/// Whether a file gives other bytes each time that it is read, as /dev/urandom does: then a keyslot must hold what was read.
pub fn is_endless(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

/// Refuses a volume key that nobody would have afterwards, because no keyslot is made for it.
pub fn check_kept(path: &Path) -> Result<(), Failure> {
    match is_endless(path) {
        true => Err(Failure::parameters(
            "nobody would have the volume key: a device gives another one each time, and no keyslot is made",
        )
        .at(path)
        .hint("make a file with the key first, and keep it")),
        false => Ok(()),
    }
}

/// A volume key of so many bytes: the whole file, or as much of a device such as /dev/urandom.
pub fn read_volume_key_of(path: &Path, len: usize, output: &Output) -> Result<VolumeKey, Failure> {
    if !is_endless(path) {
        return read_volume_key(path, output);
    }
    let bytes = read_key_file(path, 0, Some(len as u64), output)?;
    output.warn_if_unlocked();
    Ok(VolumeKey::new(bytes))
}

/// The key of a hash: so many bytes from the beginning of a file.
pub fn read_hash_key(path: &Path, len: u64, output: &Output) -> Result<SecretBytes, Failure> {
    let bytes = read_key_file(path, 0, Some(len), output)?;
    output.warn_if_unlocked();
    Ok(bytes)
}

/// A master key of fscrypt: the whole file. Its length is checked by whoever uses it.
pub fn read_fscrypt_key(path: &Path, output: &Output) -> Result<SecretBytes, Failure> {
    let key = read_key_file(path, 0, None, output)?;
    output.warn_if_unlocked();
    Ok(key)
}

fn read_key_file(
    path: &Path,
    offset: u64,
    size: Option<u64>,
    output: &Output,
) -> Result<SecretBytes, Failure> {
    let limit = match size {
        None => MAX_KEY_FILE,
        Some(0) => return Err(Failure::parameters("--keyfile-size 0 leaves no passphrase")),
        Some(size) => usize::try_from(size).ok().filter(|size| *size <= MAX_KEY_FILE).ok_or_else(too_long)?,
    };
    let secret = if path.as_os_str() == "-" {
        let stdin = io::stdin();
        skip(stdin.as_fd(), offset)?;
        let secret = read_at_most(stdin.as_fd(), limit, size.is_some())?;
        forget_stdin()?;
        secret
    } else {
        if let Some(number) = descriptor_of(path) {
            // One that is not open is no file either, as the next line finds.
            let _ = keep_from_commands(number);
        }
        let file = File::open(path).map_err(|error| key_file_failure(&error).at(path))?;
        if file.metadata()?.is_dir() {
            return Err(Failure::parameters("the key file is a directory").at(path));
        }
        warn_if_others_can_read(&file, path, output)?;
        skip(file.as_fd(), offset).map_err(|failure| failure.at(path))?;
        read_at_most(file.as_fd(), limit, size.is_some()).map_err(|failure| failure.at(path))?
    };
    match size {
        _ if secret.is_empty() => Err(Failure::parameters("the key file is empty")
            .at(path)
            .hint("is it the right file, and --keyfile-offset not too large?")),
        Some(size) if (secret.len() as u64) < size => {
            Err(Failure::parameters(format!("the key file ends after {} of {size} bytes", secret.len()))
                .at(path)
                .hint("is it cut off, or --keyfile-offset too large?"))
        }
        _ => Ok(secret),
    }
}

/// What a program prints, once it has ended well. What is printed after `end` is not waited for: a process that the program has started may
/// hold the pipe, and have left the group that is ended with the program.
pub fn read_from_program(
    mut run: Child,
    end: Option<Instant>,
    output: &Output,
) -> Result<Passphrase, Failure> {
    let printed = match &run.stdout {
        Some(stdout) => read_until(stdout.as_fd(), MAX_KEY_FILE, false, end),
        // cannot happen: whoever starts a program to read from it connects that.
        None => Err(Failure::new(Code::Device, "it prints nothing")),
    };
    // What is not read any more ends it.
    drop(run.stdout.take());
    let ended = run.wait()?;
    let printed = printed?;
    if !ended.success() {
        return Err(Failure::new(Code::Refused, ended));
    }
    output.warn_if_unlocked();
    Ok(Passphrase::new(printed))
}

/// Key files of TrueCrypt and VeraCrypt, mixed: files, and all that are not hidden of directories.
pub fn read_tcrypt_key_files(paths: &[PathBuf]) -> Result<KeyFiles, Failure> {
    let mut files = KeyFiles::default();
    for path in paths {
        if !std::fs::metadata(path).map_err(|error| key_file_failure(&error).at(path))?.is_dir() {
            add_key_file(&mut files, path)?;
            continue;
        }
        let mut found = 0;
        for entry in std::fs::read_dir(path).map_err(|error| key_file_failure(&error).at(path))? {
            let entry = entry?;
            // What a link leads to, or a device yields, is no file of this directory.
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !is_hidden && entry.file_type()?.is_file() {
                add_key_file(&mut files, &entry.path())?;
                found += 1;
            }
        }
        if found == 0 {
            return Err(Failure::parameters("no key file is in this directory").at(path));
        }
    }
    Ok(files)
}

fn add_key_file(files: &mut KeyFiles, path: &Path) -> Result<(), Failure> {
    let file = File::open(path).map_err(|error| key_file_failure(&error).at(path))?;
    let bytes = read_at_most(file.as_fd(), MAX_TCRYPT_KEY_FILE, true).map_err(|failure| failure.at(path))?;
    if bytes.is_empty() {
        return Err(Failure::parameters("the key file is empty")
            .at(path)
            .hint("it would add nothing to the password"));
    }
    files.add(&bytes);
    Ok(())
}

/// A key file that can't be opened is a wrong parameter, as in cryptsetup; the volume may be in order.
fn key_file_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::parameters("there is no such key file")
            .hint("a passphrase is asked for on the terminal where --key-file is left out"),
        _ => Failure::io(error),
    }
}

fn warn_if_others_can_read(file: &File, path: &Path, output: &Output) -> Result<(), Failure> {
    let stat = rustix::fs::fstat(file).map_err(io::Error::from)?;
    let others = Mode::from_raw_mode(stat.st_mode).intersects(Mode::ROTH | Mode::WOTH);
    if others && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        output.warn(format!("every user can read the key file {0} (chmod 600 {0})", path.display()));
    }
    Ok(())
}

/// The descriptor of this process that a path such as /dev/fd/3 stands for.
fn descriptor_of(path: &Path) -> Option<u32> {
    let path = path.to_str()?;
    let number = path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/"))?;
    // The first three are the command's own, whatever they lead to.
    number.parse().ok().filter(|number| *number > 2)
}

/// What was read from standard input could be read again by a command that `--run` starts, if it is a file. A terminal
/// remembers nothing and stays.
fn forget_stdin() -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        let null = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null).map_err(io::Error::from)?;
    }
    Ok(())
}

/// Everything up to the end; one trailing newline belongs to whoever wrote the line, not to the passphrase. Nothing at
/// all means that a descriptor was closed or a program failed, and no passphrase; only a person can mean it.
fn read_descriptor(number: u32) -> Result<SecretBytes, Failure> {
    let (mut secret, terminal) = if number == 0 {
        let stdin = io::stdin();
        let secret = read_at_most(stdin.as_fd(), MAX_KEY_FILE, false)?;
        let terminal = stdin.is_terminal();
        forget_stdin()?;
        (secret, terminal)
    } else {
        let own = own_descriptor(number)?;
        keep_from_commands(number)?;
        (read_at_most(own.as_fd(), MAX_KEY_FILE, false)?, own.is_terminal())
    };
    if secret.is_empty() && !terminal {
        return Err(Failure::parameters(format!("nothing can be read from file descriptor {number}"))
            .hint("an empty passphrase is an empty line"));
    }
    if secret.last() == Some(&b'\n') {
        secret.truncate(secret.len() - 1);
    }
    Ok(secret)
}

/// A duplicate of this process's descriptor `number`. `pidfd_getfd` keeps its position and works for sockets;
/// where the kernel or a sandbox refuses it, the descriptor's own name is opened instead.
pub fn own_descriptor(number: u32) -> Result<OwnedFd, Failure> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let not_open = || {
        Failure::parameters(format!("file descriptor {number} is not open"))
            .hint("as in: --passphrase-fd 3 3< file")
    };
    let raw = i32::try_from(number).map_err(|_| not_open())?;
    let duplicate = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|own| pidfd_getfd(own, raw, PidfdGetfdFlags::empty()));
    match duplicate {
        Ok(duplicate) => Ok(duplicate),
        Err(rustix::io::Errno::BADF) => Err(not_open()),
        Err(_) => File::open(format!("/proc/self/fd/{number}")).map(OwnedFd::from).map_err(|_| not_open()),
    }
}

fn skip(fd: impl AsFd, offset: u64) -> Result<(), Failure> {
    // From where standard input stands, which may be in the middle of a file.
    let forward =
        i64::try_from(offset).map_err(|_| Failure::parameters("the key file ends before its offset"))?;
    if offset == 0 || rustix::fs::seek(&fd, SeekFrom::Current(forward)).is_ok() {
        return Ok(());
    }
    // A pipe: read and forget.
    let mut left = offset;
    let mut scratch = SecretBytes::zeroed(4096);
    while left > 0 {
        let want = left.min(scratch.len() as u64) as usize;
        match rustix::io::read(&fd, &mut scratch[..want]) {
            Ok(0) => break,
            Ok(read) => left -= read as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    Ok(())
}

/// Reads to the end of `fd`. More than `limit` bytes are an error, or left alone if `cut` is set.
fn read_at_most(fd: impl AsFd, limit: usize, cut: bool) -> Result<SecretBytes, Failure> {
    read_until(fd, limit, cut, None)
}

/// Reads as [`read_at_most`] does. That it takes longer than to `end` is an error.
fn read_until(fd: impl AsFd, limit: usize, cut: bool, end: Option<Instant>) -> Result<SecretBytes, Failure> {
    let mut secret = SecretBytes::zeroed(limit.min(4096));
    let mut filled = 0;
    loop {
        if filled == secret.len() {
            if filled == limit {
                if !cut {
                    wait_until(&fd, end)?;
                    if !at_end(&fd)? {
                        return Err(too_long());
                    }
                }
                break;
            }
            let mut larger = SecretBytes::zeroed((filled * 2).min(limit));
            larger[..filled].copy_from_slice(&secret);
            secret = larger;
        }
        wait_until(&fd, end)?;
        match rustix::io::read(&fd, &mut secret[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    secret.truncate(filled);
    Ok(secret)
}

/// Waits until there is something to read, or nothing will be.
fn wait_until(fd: impl AsFd, end: Option<Instant>) -> Result<(), Failure> {
    let Some(end) = end else { return Ok(()) };
    loop {
        // intended: behind its end no time is left. One that is longer than a system can wait has no end.
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], left.as_ref()) {
            Ok(0) => return Err(Failure::new(Code::Refused, "what it prints does not end")),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

fn at_end(fd: impl AsFd) -> Result<bool, Failure> {
    let mut probe = SecretBytes::zeroed(1);
    Ok(rustix::io::read(&fd, &mut probe[..]).map_err(io::Error::from)? == 0)
}

fn too_long() -> Failure {
    Failure::parameters(format!("a key file has at most {MAX_KEY_FILE} bytes"))
        .hint("choose a part of it by --keyfile-offset and --keyfile-size")
}
