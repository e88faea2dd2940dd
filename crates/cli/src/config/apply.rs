//! Names in place of paths: what a command says of a volume is completed by what the configuration says of it.
//!
//! A name wins over a file of the same name in the working directory, as whoever can put a file there must not choose what is
//! opened. `./photos` is always the file. A command that destroys what is there shows first what a name stands for.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use atrest_engine::Access;
use atrest_open::Device;
use atrest_volume::LockedVolume;
use atrest_volume::luks2::VolumeKeyId;
use clap::ValueEnum;

use super::{Config, Settings};
use crate::args::driver::{DriverArgs, DriverName};
use crate::args::header::HeaderCommand;
use crate::args::key::{KeyCommand, TargetArgs};
use crate::args::open::{OpenArgs, PlainArgs, UnlockArgs, VolumeType};
use crate::args::sealed::{SnapshotCommand, TwoKeysArgs};
use crate::args::secrets::{PassphraseArgs, PassphraseFrom, SecretArgs};
use crate::args::token::TokenCommand;
use crate::args::{Command, inside};
use crate::commands;
use crate::failure::Failure;
use crate::output::Output;

/// What a command does to the volume that is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It reads, or changes what can be changed back.
    Works,
    /// What is there can't be read afterwards.
    Destroys(&'static str),
}
use Does::{Destroys, Works};

/// Completes what the command says by the configuration, and finds out whose passphrase is asked for from a keyring.
///
/// # Errors
/// If a name would have a command destroy what nobody has seen, and if a value of the configuration means nothing to it.
pub fn apply(command: &mut Command, config: &Config, output: &Output) -> Result<(), Failure> {
    let names = Names { config, output };
    match command {
        Command::Open(args) => names.open(args)?,
        Command::Mount(args) => names.mount(args)?,
        Command::Close(args) => names.session(&mut args.name)?,
        Command::Status(args) => {
            if let Some(name) = &mut args.name {
                names.session(name)?;
            }
        }
        Command::Suspend(_) | Command::Unlock(_) => {}
        Command::Resume(args) => names.again(&args.name, &mut args.again)?,
        Command::Resize(args) => names.again(&args.name, &mut args.again)?,
        Command::Format(args) => {
            if let Some(volume) = names.volume(&mut args.path, Destroys("format"))? {
                fill(&mut args.header, volume.path("header"));
                fill(&mut args.flash.sealed.store, volume.path("store"));
            }
        }
        Command::Info(args) => {
            names.target(&mut args.target, Works, |volume| {
                kind(&mut args.foreign.kind, volume)?;
                if commands::foreign::is_tcrypt(args.foreign.kind) {
                    fill(&mut args.narrow.cipher, volume.text("cipher").map(str::to_owned));
                    fill(&mut args.narrow.hash, volume.text("hash").map(str::to_owned));
                }
                passphrase(&mut args.passphrase, volume)
            })?;
            names.identify(&mut args.passphrase, &args.target.path, args.target.header.as_deref())?;
        }
        Command::Uuid(args) => names.target(&mut args.target, Works, |_| Ok(()))?,
        Command::IsLuks(args) => names.target(&mut args.target, Works, |_| Ok(()))?,
        Command::Erase(args) => names.target(&mut args.target, Destroys("erase"), |_| Ok(()))?,
        Command::Repair(args) => names.with_passphrase(&mut args.target, Works, &mut args.secret)?,
        Command::Key(command) => names.key(command)?,
        Command::Header(command) => names.header(command)?,
        Command::Token(command) => names.token(command)?,
        Command::Convert(args) => {
            if let Some(volume) = names.volume(&mut args.path, Works)? {
                kind(&mut args.from, volume)?;
                fill(&mut args.header, volume.path("header"));
                plain(&mut args.plain, volume);
                secret(&mut args.secret, volume)?;
            }
            names.identify(&mut args.secret.passphrase, &args.path, args.header.as_deref())?;
        }
        Command::Reencrypt(args) if !args.online && !args.stop => {
            let loses = args.decrypt
                || args.reduce_device_size.is_some()
                || args.no_keyslots
                || args.drop_others
                || !args.drop_slot.is_empty();
            let does = if loses { Destroys("reencrypt") } else { Works };
            if let Some(volume) = names.volume(&mut args.path, does)? {
                fill(&mut args.header, volume.path("header"));
                passphrase(&mut args.passphrase, volume)?;
            }
            names.identify(&mut args.passphrase, &args.path, args.header.as_deref())?;
        }
        Command::Reencrypt(_) => {}
        Command::Encrypt(args) => {
            let place = match &mut args.volume {
                Some(volume) => volume,
                None => &mut args.source,
            };
            names.unlocked(place, Destroys("encrypt"), &mut args.unlock)?;
        }
        Command::Decrypt(args) => names.unlocked(&mut args.volume, Works, &mut args.unlock).map(drop)?,
        Command::Scrub(args) => names.unlocked(&mut args.path, Works, &mut args.unlock).map(drop)?,
        Command::HandOver(args) => {
            names.volume(&mut args.path, Works)?;
        }
        Command::Snapshot(command) => {
            let (path, unlock) = match command {
                SnapshotCommand::Add(args) => (&mut args.path, &mut args.unlock),
                SnapshotCommand::Remove(args) => (&mut args.path, &mut args.unlock),
                SnapshotCommand::Release(args) => (&mut args.path, &mut args.unlock),
                SnapshotCommand::List(args) => (&mut args.path, &mut args.unlock),
            };
            names.unlocked(path, Works, unlock)?;
        }
        Command::Gc(args) => names.unlocked(&mut args.path, Works, &mut args.unlock).map(drop)?,
        Command::Flatten(args) => names.unlocked(&mut args.path, Works, &mut args.unlock).map(drop)?,
        Command::Clone(args) => names.sealed(&mut args.path, &mut args.keys)?,
        Command::Rekey(args) => names.sealed(&mut args.path, &mut args.keys)?,
        Command::Ls(args) => names.places(&mut args.places, &mut args.unlock, &mut args.partition)?,
        Command::Cat(args) => names.places(&mut args.places, &mut args.unlock, &mut args.partition)?,
        Command::Mkdir(args) => names.places(&mut args.places, &mut args.unlock, &mut args.partition)?,
        Command::Rm(args) => names.places(&mut args.places, &mut args.unlock, &mut args.partition)?,
        Command::Mv(args) => names.places(&mut args.places, &mut args.unlock, &mut args.partition)?,
        Command::Cp(args) => {
            for word in &mut args.paths {
                names.place(word, &mut args.unlock, &mut args.partition)?;
            }
        }
        Command::Df(args) => {
            if let Some(volume) = names.unlocked(&mut args.volume, Works, &mut args.unlock)? {
                partition(&mut args.partition, volume);
            }
        }
        Command::Image(_)
        | Command::Fit(_)
        | Command::Initramfs(_)
        | Command::Tree(_)
        | Command::Verity(_)
        | Command::Passphrase(_)
        | Command::Kdf(_)
        | Command::Complete(_)
        | Command::Bench(_)
        | Command::Config(_)
        | Command::Completions(_)
        | Command::Man(_) => {}
    }
    Ok(())
}

/// The names that are known.
struct Names<'a> {
    config: &'a Config,
    output: &'a Output,
}

impl<'a> Names<'a> {
    /// The volume that a word is the name of.
    fn find(&self, word: &OsStr) -> Option<(&'a str, &'a Settings)> {
        let (name, volume) = self.config.volumes.get_key_value(word.to_str()?)?;
        Some((name.as_str(), volume))
    }

    /// Puts the path in place of a name.
    fn volume(&self, word: &mut PathBuf, does: Does) -> Result<Option<&'a Settings>, Failure> {
        let Some((name, volume)) = self.find(word.as_os_str()) else { return Ok(None) };
        let Some(path) = volume.path("path") else { return Ok(None) };
        let place = self.config.at(volume.line("path"));
        if word.symlink_metadata().is_ok() {
            self.output.warn(format_args!(
                "{name} is the volume {} of {place}; the file here is ./{name}",
                path.display()
            ));
        }
        if let Destroys(command) = does {
            let instead = || format!("write the path: atrest {command} --yes {}", path.display());
            if self.output.says_yes() {
                return Err(Failure::parameters(format!(
                    "{name} stands for {} ({place}), and with --yes nobody is asked whether that is meant",
                    path.display()
                ))
                .hint(instead()));
            }
            let warning = format!(
                "{name} stands for {} ({place}): `{command}` overwrites what is there",
                path.display()
            );
            self.output.confirm_or(&warning, instead)?;
        }
        *word = path;
        Ok(Some(volume))
    }

    fn unlocked(
        &self,
        word: &mut PathBuf,
        does: Does,
        unlock: &mut UnlockArgs,
    ) -> Result<Option<&'a Settings>, Failure> {
        let found = self.volume(word, does)?;
        if let Some(volume) = found {
            complete(unlock, volume)?;
        }
        self.identify(&mut unlock.secret.passphrase, word, unlock.header.as_deref())?;
        Ok(found)
    }

    fn open(&self, args: &mut OpenArgs) -> Result<(), Failure> {
        // `--nbd NAME` reads like `--nbd SOCKET`.
        if args.path.is_none()
            && let Some(Some(name)) = &args.nbd
        {
            args.path = Some(name.clone());
            args.nbd = Some(None);
        }
        let Some(path) = &mut args.path else { return Ok(()) };
        let name = path.to_string_lossy().into_owned();
        let Some(volume) = self.unlocked(path, Works, &mut args.unlock)? else {
            fill(&mut args.threads, self.threads(None).filter(|_| args.dm.is_none()));
            return Ok(());
        };
        if !args.has_face() {
            let socket = volume.path("socket");
            match volume.text("face") {
                Some("fuse") => args.fuse = volume.path("directory"),
                Some("nbd") => args.nbd = Some(socket),
                Some("vhost-user") => args.vhost_user = socket,
                Some("dm") => args.dm = Some(name.clone()),
                _ => {}
            }
        }
        if args.dm.is_none() {
            fill(&mut args.name, Some(name));
            fill(&mut args.threads, self.threads(Some(volume)));
        }
        args.read_only |= volume.flag("read-only");
        args.allow_discards |= volume.flag("allow-discards");
        Ok(())
    }

    fn threads(&self, volume: Option<&Settings>) -> Option<u16> {
        let threads = volume.and_then(|volume| volume.number("threads"));
        let threads = threads.or_else(|| self.config.defaults.number("threads"));
        threads.filter(|threads| *threads > 0).and_then(|threads| u16::try_from(threads).ok())
    }

    fn mount(&self, args: &mut inside::MountArgs) -> Result<(), Failure> {
        let name = args.volume.to_string_lossy().into_owned();
        let found = self.unlocked(&mut args.volume, Works, &mut args.unlock)?;
        let Some(volume) = found else { return Ok(()) };
        driver(&mut args.by, volume)?;
        if args.directory.as_os_str().is_empty() {
            args.directory = volume.path("directory").unwrap_or_default(); // intended: without one it is told as missing.
        }
        fill(&mut args.name, Some(name));
        args.read_only |= volume.flag("read-only");
        partition(&mut args.partition, volume);
        Ok(())
    }

    /// What is open is known by its name, or by the path that the name stands for.
    fn session(&self, word: &mut PathBuf) -> Result<(), Failure> {
        let Some((_, volume)) = self.find(word.as_os_str()) else { return Ok(()) };
        let is_open = !commands::registry(self.output)?.find_all(word.as_path())?.is_empty()
            || commands::mapping::find(word).is_ok_and(|found| !found.is_empty());
        if let (false, Some(path)) = (is_open, volume.path("path"))
            && !commands::registry(self.output)?.find_all(&path)?.is_empty()
        {
            *word = path;
        }
        Ok(())
    }

    /// A volume that is open already: its name there is the one here.
    fn again(&self, name: &str, again: &mut crate::args::mapped::AgainArgs) -> Result<(), Failure> {
        let Some((_, volume)) = self.find(OsStr::new(name)) else { return Ok(()) };
        fill(&mut again.header, volume.path("header"));
        fill(&mut again.by.key_slot, slot(volume));
        secret(&mut again.by.secret, volume)?;
        match volume.path("path") {
            Some(path) => self.identify(&mut again.by.secret.passphrase, &path, again.header.as_deref()),
            None => Ok(()),
        }
    }

    fn target(
        &self,
        target: &mut TargetArgs,
        does: Does,
        more: impl FnOnce(&Settings) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(volume) = self.volume(&mut target.path, does)? else { return Ok(()) };
        fill(&mut target.header, volume.path("header"));
        more(volume)
    }

    fn with_passphrase(
        &self,
        target: &mut TargetArgs,
        does: Does,
        args: &mut PassphraseArgs,
    ) -> Result<(), Failure> {
        self.target(target, does, |volume| passphrase(args, volume))?;
        self.identify(args, &target.path, target.header.as_deref())
    }

    fn with_secret(&self, target: &mut TargetArgs, args: &mut SecretArgs) -> Result<(), Failure> {
        let mut store = None;
        self.target(target, Works, |volume| {
            store = volume.path("store");
            secret(args, volume)
        })?;
        fill(&mut target.store, store);
        self.identify(&mut args.passphrase, &target.path, target.header.as_deref())
    }

    fn key(&self, command: &mut KeyCommand) -> Result<(), Failure> {
        match command {
            KeyCommand::Add(args) => self.with_secret(&mut args.target, &mut args.secret),
            KeyCommand::Replace(args) => self.with_secret(&mut args.target, &mut args.by.secret),
            KeyCommand::Test(args) => self.with_secret(&mut args.target, &mut args.secret),
            KeyCommand::Change(args) => {
                let (mut store, mut of) = (None, VolumeType::Luks);
                self.target(&mut args.target, Works, |volume| {
                    store = volume.path("store");
                    kind(&mut of, volume)?;
                    if commands::foreign::is_tcrypt(of) {
                        fill(&mut args.changed.old_hash, volume.text("hash").map(str::to_owned));
                    }
                    passphrase(&mut args.passphrase, volume)
                })?;
                fill(&mut args.target.store, store);
                if args.foreign.kind == VolumeType::Luks {
                    args.foreign.kind = of;
                }
                let header = args.target.header.as_deref();
                self.identify(&mut args.passphrase, &args.target.path, header)
            }
            KeyCommand::Remove(args) => {
                self.with_passphrase(&mut args.target, Destroys("key remove"), &mut args.passphrase)
            }
            KeyCommand::Kill(args) => {
                self.with_passphrase(&mut args.target, Destroys("key kill"), &mut args.passphrase)
            }
            KeyCommand::List(args) => self.target(&mut args.target, Works, |_| Ok(())),
            KeyCommand::Export(args) => self.with_passphrase(&mut args.target, Works, &mut args.passphrase),
            KeyCommand::Priority(args) => self.with_passphrase(&mut args.target, Works, &mut args.passphrase),
            KeyCommand::Remember(args) => self.with_passphrase(&mut args.target, Works, &mut args.passphrase),
            KeyCommand::Forget(args) => self.target(&mut args.target, Works, |_| Ok(())),
        }
    }

    fn header(&self, command: &mut HeaderCommand) -> Result<(), Failure> {
        match command {
            HeaderCommand::Backup(args) => {
                let mut of = args.kind;
                self.target(&mut args.target, Works, |volume| kind(&mut of, volume))?;
                args.kind = of;
                Ok(())
            }
            HeaderCommand::Restore(args) => {
                self.target(&mut args.target, Destroys("header restore"), |_| Ok(()))
            }
            HeaderCommand::Set(args) => self.target(&mut args.target, Works, |_| Ok(())),
            HeaderCommand::Pin(args) => {
                self.target(&mut args.target, Works, |volume| secret(&mut args.by.secret, volume))?;
                let header = args.target.header.as_deref();
                self.identify(&mut args.by.secret.passphrase, &args.target.path, header)
            }
        }
    }

    fn token(&self, command: &mut TokenCommand) -> Result<(), Failure> {
        match command {
            TokenCommand::List(args) => self.target(&mut args.target, Works, |_| Ok(())),
            TokenCommand::Add(args) => self.target(&mut args.target, Works, |_| Ok(())),
            TokenCommand::Export(args) => self.target(&mut args.target, Works, |_| Ok(())),
            TokenCommand::Import(args) => self.with_passphrase(&mut args.target, Works, &mut args.passphrase),
            TokenCommand::Remove(args) => self.with_passphrase(&mut args.target, Works, &mut args.passphrase),
            TokenCommand::Unassign(args) => {
                self.with_passphrase(&mut args.target, Works, &mut args.passphrase)
            }
        }
    }

    fn sealed(&self, path: &mut PathBuf, keys: &mut TwoKeysArgs) -> Result<(), Failure> {
        if let Some(volume) = self.volume(path, Works)? {
            fill(&mut keys.store, volume.path("store"));
            secret(&mut keys.secret, volume)?;
        }
        self.identify(&mut keys.secret.passphrase, path, None)
    }

    /// `NAME:/path…`, or a name and then paths.
    fn places(
        &self,
        words: &mut [PathBuf],
        unlock: &mut UnlockArgs,
        part: &mut inside::PartitionArgs,
    ) -> Result<(), Failure> {
        let Some((first, rest)) = words.split_first_mut() else { return Ok(()) };
        if let Some(volume) = self.volume(first, Works)? {
            complete(unlock, volume)?;
            partition(part, volume);
            return self.identify(&mut unlock.secret.passphrase, first, unlock.header.as_deref());
        }
        if commands::place_of(first).is_none() {
            return self.identify(&mut unlock.secret.passphrase, first, unlock.header.as_deref());
        }
        for word in std::iter::once(first).chain(rest) {
            self.place(word, unlock, part)?;
        }
        Ok(())
    }

    /// `NAME:/path`. Everything else is as it is.
    fn place(
        &self,
        word: &mut PathBuf,
        unlock: &mut UnlockArgs,
        part: &mut inside::PartitionArgs,
    ) -> Result<(), Failure> {
        let text = word.as_os_str().as_bytes();
        let Some(colon) = text.windows(2).position(|pair| pair == b":/") else {
            return match commands::place_of(word) {
                Some((path, _)) => {
                    self.identify(&mut unlock.secret.passphrase, &path, unlock.header.as_deref())
                }
                None => Ok(()),
            };
        };
        let mut path = PathBuf::from(OsStr::from_bytes(&text[..colon]));
        let rest = text[colon..].to_vec();
        let Some(volume) = self.volume(&mut path, Works)? else {
            return match commands::place_of(word) {
                Some((path, _)) => {
                    self.identify(&mut unlock.secret.passphrase, &path, unlock.header.as_deref())
                }
                None => Ok(()),
            };
        };
        complete(unlock, volume)?;
        partition(part, volume);
        self.identify(&mut unlock.secret.passphrase, &path, unlock.header.as_deref())?;
        let mut whole = path.into_os_string().into_vec();
        whole.extend(rest);
        *word = std::ffi::OsString::from_vec(whole).into();
        Ok(())
    }

    /// A passphrase of a keyring is found by the UUID of its volume, unless something else is said.
    fn identify(&self, args: &mut PassphraseArgs, path: &Path, header: Option<&Path>) -> Result<(), Failure> {
        let missing = matches!(
            args.passphrase_from,
            Some(PassphraseFrom::Keyring(None) | PassphraseFrom::SecretService(None))
        );
        if missing {
            let uuid = uuid(header.unwrap_or(path))?;
            if let Some(from) = &mut args.passphrase_from {
                from.identify(&uuid);
            }
        }
        Ok(())
    }
}

/// The UUID of a volume that has a LUKS header.
pub fn uuid(path: &Path) -> Result<String, Failure> {
    let device = Device::open(path, Access::ReadOnly).map_err(|error| Failure::from(error).at(path))?;
    match LockedVolume::read(&device) {
        Ok(locked) => Ok(locked.info().uuid),
        Err(error) => Err(commands::target::no_header(error, &device)
            .at(path)
            .hint("only LUKS volumes have a UUID here: name the secret, as in keyring:DESCRIPTION or secret-service:ID")),
    }
}

/// Sets what the command line left open.
fn fill<T>(place: &mut Option<T>, value: Option<T>) {
    if place.is_none() {
        *place = value;
    }
}

fn kind(place: &mut VolumeType, volume: &Settings) -> Result<(), Failure> {
    let Some(text) = volume.text("type").filter(|_| *place == VolumeType::Luks) else { return Ok(()) };
    *place = VolumeType::from_str(text, false).map_err(Failure::parameters)?;
    Ok(())
}

fn slot(volume: &Settings) -> Option<u32> {
    volume.number("key-slot").and_then(|slot| u32::try_from(slot).ok())
}

fn complete(unlock: &mut UnlockArgs, volume: &Settings) -> Result<(), Failure> {
    kind(&mut unlock.kind, volume)?;
    fill(&mut unlock.header, volume.path("header"));
    if !unlock.without_freshness {
        fill(&mut unlock.store, volume.path("store"));
    }
    if !unlock.journal.without_journal {
        fill(&mut unlock.journal.journal, volume.path("journal"));
    }
    fill(&mut unlock.key_slot, slot(volume));
    fill(&mut unlock.expect.policy, volume.path("policy"));
    if let (None, Some(id)) = (&unlock.expect.expect_key, volume.text("expect-key")) {
        let id =
            id.parse::<VolumeKeyId>().map_err(|error| Failure::parameters(format!("expect-key: {error}")))?;
        unlock.expect.expect_key = Some(id);
    }
    plain(&mut unlock.plain, volume);
    if unlock.tokens.are_named() {
        return Ok(());
    }
    secret(&mut unlock.secret, volume)
}

fn plain(plain: &mut PlainArgs, volume: &Settings) {
    let text = |key: &str| volume.text(key).map(str::to_owned);
    let small = |key: &str| volume.number(key).and_then(|number| u32::try_from(number).ok());
    fill(&mut plain.cipher, text("cipher"));
    fill(&mut plain.hash, text("hash"));
    fill(&mut plain.key_size, small("key-size"));
    fill(&mut plain.offset, volume.number("offset"));
    fill(&mut plain.skip, volume.number("skip"));
    fill(&mut plain.sector_size, small("sector-size"));
}

fn secret(args: &mut SecretArgs, volume: &Settings) -> Result<(), Failure> {
    match args.has_volume_key() {
        true => Ok(()),
        false => passphrase(&mut args.passphrase, volume),
    }
}

fn passphrase(args: &mut PassphraseArgs, volume: &Settings) -> Result<(), Failure> {
    if !args.is_asked_for() || args.words {
        return Ok(());
    }
    args.key_file = volume.path("key-file");
    args.passphrase_from = match volume.text("passphrase-from") {
        // It was checked when the file was read.
        Some(text) => Some(text.parse().map_err(Failure::parameters)?),
        None => None,
    };
    Ok(())
}

fn partition(args: &mut inside::PartitionArgs, volume: &Settings) {
    fill(&mut args.partition, volume.number("partition").and_then(|number| u32::try_from(number).ok()));
}

fn driver(by: &mut DriverArgs, volume: &Settings) -> Result<(), Failure> {
    if by.driver.is_none() && !by.kernel {
        match volume.text("driver") {
            Some("loop") => by.kernel = true,
            Some("auto") => by.driver = Some(None),
            None => {}
            Some(name) => {
                by.driver = Some(Some(DriverName::from_str(name, false).map_err(Failure::parameters)?));
            }
        }
    }
    if by.driver_options.is_empty() {
        by.driver_options.extend(volume.text("driver-options").map(str::to_owned));
    }
    Ok(())
}
