//! Volumes of other programs: what the options say of TrueCrypt's, VeraCrypt's and loop-AES's, and how they are unlocked.

use std::path::Path;
use std::process::{Command, Stdio};

use atrest_device::{BlockDevice, SECTOR_SIZE};
use atrest_format::loopaes::is_pgp;
use atrest_kdf::Hash;
use atrest_kdf::tcrypt::Family;
use atrest_open::{Format, Held, OneKey, Refused};
use atrest_secret::Passphrase;
use atrest_volume::loopaes::LoopAesOptions;
use atrest_volume::tcrypt::{LockedTcrypt, Opened, TcryptError, TcryptOptions};
use atrest_volume::{UnlockOptions, Volume};

use super::options;
use super::target;
use crate::args::open::{UnlockArgs, VolumeType};
use crate::asked::Asked;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress;
use crate::secrets::{self, Source};

pub fn is_tcrypt(kind: VolumeType) -> bool {
    matches!(kind, VolumeType::Tcrypt | VolumeType::Truecrypt | VolumeType::Veracrypt)
}

/// What the options say of a loop-AES volume.
pub fn loopaes(args: &UnlockArgs) -> Result<Format, Failure> {
    let (plain, usual) = (&args.plain, LoopAesOptions::default());
    let hash =
        |name: &str| Hash::named(name).map_err(|error| Failure::parameters(format!("{name}: {error}")));
    Ok(Format::LoopAes(LoopAesOptions {
        cipher: plain.cipher.clone().unwrap_or(usual.cipher),
        key_len: options::key_len(plain.key_size).unwrap_or(usual.key_len),
        hash: plain.hash.as_deref().map(hash).transpose()?,
        // intended: data begins at 0.
        offset: plain.offset.unwrap_or(0),
        skip: plain.skip,
        size: args.size.map(|bytes| bytes / SECTOR_SIZE),
    }))
}

/// The lines of a loop-AES key file, which GnuPG decrypts if it is one of its messages.
pub fn lines(source: &Source, output: &Output) -> Result<Passphrase, Failure> {
    let Source::File { path, .. } = source else {
        return Err(Failure::parameters("a loop-AES volume has a key file: --key-file FILE is missing")
            .hint("--key-file - takes its lines from standard input"));
    };
    let file = source.read("", output)?;
    match is_pgp(file.expose()) {
        true if source.is_key_file() => decrypted(path, output),
        _ => Ok(file),
    }
}

/// What gpg makes of a file. It asks for its passphrase itself.
fn decrypted(path: &Path, output: &Output) -> Result<Passphrase, Failure> {
    let run = Command::new("gpg")
        .args(["--quiet", "--decrypt", "--"])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Failure::new(
                Code::Device,
                format!("the key file is encrypted by GnuPG, and gpg can't be started: {error}"),
            )
            .at(path)
            .hint("install gpg, or pipe what it decrypts elsewhere into --key-file -")
        })?;
    secrets::read_from_program(run, None, output)
        .map_err(|failure| failure.within("gpg has not decrypted the key file").at(path))
}

/// What the options say of a TrueCrypt or VeraCrypt volume.
pub fn tcrypt(args: &UnlockArgs, asked_pim: Option<u32>) -> Result<TcryptOptions, Failure> {
    Ok(TcryptOptions {
        family: match args.kind {
            VolumeType::Truecrypt => Some(Family::TrueCrypt),
            VolumeType::Veracrypt => Some(Family::VeraCrypt),
            _ => None,
        },
        hidden: args.tcrypt.tcrypt_hidden,
        backup: args.tcrypt.tcrypt_backup,
        system: args.tcrypt.tcrypt_system,
        partition: None,
        hash: args.plain.hash.clone(),
        cipher: args.plain.cipher.clone(),
        pim: asked_pim.or(args.tcrypt.veracrypt_pim),
        key_files: secrets::read_tcrypt_key_files(&args.tcrypt.tcrypt_keyfile)?,
    })
}

pub fn as_format(options: TcryptOptions) -> Format {
    Format::Tcrypt { options, progress: Some(progress::derivations_left) }
}

/// Said of a wrong password that a person typed.
const WRONG: &str = "nothing opens with this password";

/// Asks for the password, and the PIM if that is wished, and unlocks the volume.
pub fn unlock(
    path: &Path,
    held: &Held,
    args: &UnlockArgs,
    options: &UnlockOptions,
    output: &Output,
) -> Result<Volume, Failure> {
    let opened = header(path, held, args, output)?;
    let size = held.media().size();
    let volume = match args.protect.protect_hidden {
        true => opened.volume_protecting(&hidden(path, held, args, output)?, size, options),
        false => opened.volume(size, options),
    };
    volume.map_err(|error| Failure::from(error).at(path))
}

/// The hidden volume's header, of a volume that is opened by its own.
fn hidden(path: &Path, held: &Held, args: &UnlockArgs, output: &Output) -> Result<Opened, Failure> {
    let options = TcryptOptions {
        hidden: true,
        // It may be made in another way than the outer one.
        hash: None,
        cipher: None,
        pim: args.protect.protect_pim,
        key_files: secrets::read_tcrypt_key_files(&args.protect.protect_tcrypt_keyfile)?,
        ..tcrypt(args, None)?
    };
    let source = args
        .protect
        .protect_key_file
        .as_deref()
        .map_or_else(|| Source::typed(&args.secret.passphrase, "--protect-key-file FILE"), Source::key_file);
    secrets::refuse_sharing_stdin(&Source::from(&args.secret.passphrase), &source)?;
    let locked =
        LockedTcrypt::read(held.header(), &options).map_err(|error| Failure::from(error).at(path))?;
    let prompt = format!("Password for the hidden volume in {}", path.display());
    let mut asked = Asked::new(&source, prompt, WRONG, output, |passphrase| passphrase);
    let opened = atrest_open::try_keys(&mut asked, |key| {
        atrest_open::try_tcrypt(&locked, key, Some(progress::derivations_left))
    });
    opened.map_err(|refused| target::refusal(refused, path))
}

/// The header that the password opens, found by trying what there is to try.
pub fn header(path: &Path, held: &Held, args: &UnlockArgs, output: &Output) -> Result<Opened, Failure> {
    if args.secret.has_volume_key() {
        return Err(Failure::from(TcryptError::VolumeKey).at(path));
    }
    let source = Source::from(&args.secret.passphrase);
    let prompt = format!("Password for {}", path.display());
    let read = |mut options: TcryptOptions| {
        if options.system {
            let place = held.partition().map_err(|error| Failure::from(error.error).at(&error.path))?;
            options.partition = place.map(|place| place.start);
        }
        LockedTcrypt::read(held.header(), &options).map_err(|error| Failure::from(error).at(path))
    };
    let attempt = |locked: &LockedTcrypt, passphrase: &Passphrase| {
        atrest_open::try_tcrypt(locked, passphrase, Some(progress::derivations_left))
    };
    let opened = if args.tcrypt.veracrypt_query_pim {
        let passphrase = source.read(&prompt, output)?;
        let locked = read(tcrypt(args, Some(ask_pim(args, output)?))?)?;
        let tried = || atrest_open::try_keys(&mut OneKey::new(passphrase), |key| attempt(&locked, key));
        progress::counted("deriving keys", output, tried).map_err(|refused| match refused {
            Refused::NoKey => Refused::NoKey,
            Refused::Source(never) => match never {},
            Refused::Attempt(error) => Refused::Attempt(error),
        })
    } else {
        let locked = read(tcrypt(args, None)?)?;
        let mut asked = Asked::new(&source, prompt, WRONG, output, |passphrase| passphrase);
        atrest_open::try_keys(&mut asked, |key| attempt(&locked, key))
    };
    opened.map_err(|refused| target::refusal(refused, path))
}

/// The PIM, behind the password: from the terminal, or the next line of standard input.
fn ask_pim(args: &UnlockArgs, output: &Output) -> Result<u32, Failure> {
    let source = Source::typed(&args.secret.passphrase, "--veracrypt-pim PIM");
    let typed = source.read("PIM", output)?;
    let number = core::str::from_utf8(typed.expose()).ok().and_then(|text| text.trim().parse().ok());
    number.filter(|pim| *pim != 0).ok_or_else(|| Failure::parameters("a PIM is a number, and more than 0"))
}
