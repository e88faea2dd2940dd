//! `-`, which is standard input or standard output where a command takes it.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::FileType;

use crate::args::secrets::SecretArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::secrets::Source;

/// Where standard input is as a file, if it is one.
const STDIN: &str = "/dev/stdin";

/// Whether a path stands for a stream. A file of this name is written ./- instead.
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether a path stands for a stream that is neither a file nor a block device, nor a terminal.
pub fn is_pipe(path: &Path) -> Result<bool, Failure> {
    Ok(is_stream(path) && !is_seekable()? && !io::stdin().is_terminal())
}

fn is_seekable() -> Result<bool, Failure> {
    let stat = rustix::fs::fstat(io::stdin()).map_err(io::Error::from)?;
    Ok(matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::BlockDevice))
}

/// Standard input as data. Its passphrase must come from elsewhere, and nobody types it.
pub fn input(secret: &SecretArgs) -> Result<File, Failure> {
    refuse_secret(secret)?;
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(Failure::parameters("\"-\" is standard input, and that is a terminal")
            .hint("send a file or the output of another program there, as in: zstdcat disk.zst | atrest encrypt - secret.img"));
    }
    own(stdin)
}

/// Standard output for data that are no text. A terminal gets them only if that was said.
pub fn output(output: &Output) -> Result<File, Failure> {
    let stdout = io::stdout();
    if output.is_json() {
        return Err(Failure::parameters("\"-\" is standard output, where the answers of --json go, too")
            .hint("leave --json out, or name a file"));
    }
    if stdout.is_terminal() && !output.says_yes() {
        return Err(Failure::parameters("\"-\" is standard output, and that is a terminal: it would be steered by what is on the disk")
            .hint("send it to a file or another program, as in: atrest decrypt secret.img - | zstd > disk.zst; --yes writes it all the same"));
    }
    own(stdout)
}

/// The path of a volume that is read at any place: `-` is standard input, if that is a file or a block device.
pub fn volume<'a>(path: &'a Path, secret: &SecretArgs) -> Result<Cow<'a, Path>, Failure> {
    if !is_stream(path) {
        return Ok(path.into());
    }
    refuse_secret(secret)?;
    match is_seekable()? {
        true => Ok(Path::new(STDIN).into()),
        false => Err(Failure::parameters("\"-\" is standard input, which can't be read at any place: it is no file")
            .hint("a volume is not read in order: name the file, send it there by < FILE, or copy it to a file first")),
    }
}

/// Standard input holds the data, so the passphrase is not there.
fn refuse_secret(secret: &SecretArgs) -> Result<(), Failure> {
    let key = secret.volume_key_file.as_deref();
    if Source::from(&secret.passphrase).reads_stdin() || key.is_some_and(is_stream) {
        return Err(Failure::parameters("the data and the passphrase can't both come from standard input")
            .hint("give the passphrase by --key-file FILE or --passphrase-fd N, or leave both out: the terminal is asked"));
    }
    Ok(())
}

/// The stream without a buffer of its own.
fn own(stream: impl AsFd) -> Result<File, Failure> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}
