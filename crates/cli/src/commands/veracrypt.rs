//! Headers of TrueCrypt and VeraCrypt that are made, shown, saved, put back, and encrypted under another password.

use std::path::Path;

use atrest_device::BlockDevice;
use atrest_engine::Access;
use atrest_format::tcrypt::{GROUP_LEN, Magic};
use atrest_kdf::Hash;
use atrest_open::Held;
use atrest_secret::OsRandom;
use atrest_volume::tcrypt::{
    LockedTcrypt, NewPassword, NewTcrypt, Opened, TcryptOptions, chain_named, create,
};
use serde_json::json;

use super::foreign;
use super::format::Place;
use super::target::{contents, known_contents, open_device, write_private};
use crate::args::format::FormatArgs;
use crate::args::header::{HeaderRestoreArgs, InfoArgs};
use crate::args::key::{KeyChangeArgs, TargetArgs};
use crate::args::open::{PlainArgs, UnlockArgs, VolumeType};
use crate::args::secrets::{PassphraseArgs, SecretArgs};
use crate::args::tcrypt::{ChangedTcryptArgs, NarrowArgs, NewTcryptArgs, TcryptTargetArgs};
use crate::failure::Failure;
use crate::output::{Output, path_text};
use crate::progress;
use crate::secrets::{self, Source, refuse_sharing_stdin};

/// Refuses what only a VeraCrypt volume is told.
pub fn refuse_options(args: &NewTcryptArgs) -> Result<(), Failure> {
    match args.are_none() {
        true => Ok(()),
        false => Err(Failure::parameters(
            "--tcrypt-keyfile, --veracrypt-pim, --hidden-size and --quick are for --type veracrypt",
        )),
    }
}

/// Refuses types that the commands on headers do not know, and what they are not told of LUKS.
pub fn refuse_others(args: &TcryptTargetArgs, narrow: &NarrowArgs) -> Result<(), Failure> {
    match args.kind {
        VolumeType::Luks if !narrow.are_none() => {
            Err(Failure::parameters("--hash and --cipher are for --type tcrypt, truecrypt and veracrypt"))
        }
        VolumeType::Luks if args.tcrypt.are_none() => Ok(()),
        VolumeType::Luks => Err(Failure::parameters(
            "--tcrypt-… and --veracrypt-… are for --type tcrypt, truecrypt and veracrypt",
        )),
        kind if foreign::is_tcrypt(kind) => Ok(()),
        _ => Err(Failure::parameters("a volume of this type has no header")),
    }
}

/// Refuses what only the change of such a volume's password is told.
pub fn refuse_others_of_change(args: &KeyChangeArgs) -> Result<(), Failure> {
    let changed = &args.changed;
    let is_told = !changed.new_tcrypt_keyfile.is_empty() || changed.new_veracrypt_pim.is_some();
    match args.foreign.kind {
        VolumeType::Luks if is_told => Err(Failure::parameters(
            "--new-tcrypt-keyfile and --new-veracrypt-pim are for --type tcrypt, truecrypt and veracrypt",
        )),
        VolumeType::Luks if changed.old_hash.is_some() => {
            Err(Failure::parameters("--old-hash is for --type tcrypt, truecrypt and veracrypt"))
        }
        _ => refuse_others(&args.foreign, &NarrowArgs::default()),
    }
}

/// What is tried with the old password.
fn old_header(changed: &ChangedTcryptArgs) -> NarrowArgs {
    NarrowArgs { hash: changed.old_hash.clone(), cipher: None }
}

/// A LUKS volume has these, and a VeraCrypt volume has not.
fn refuse_luks_options(args: &FormatArgs) -> Result<(), Failure> {
    let pbkdf = &args.pbkdf;
    let said = [
        (args.key_size.is_some(), "--key-size"),
        (args.sector_size.is_some(), "--sector-size"),
        (args.integrity.is_some(), "--integrity"),
        (args.label.is_some(), "--label"),
        (args.subsystem.is_some(), "--subsystem"),
        (args.uuid.is_some(), "--uuid"),
        (args.key_slot.is_some(), "--key-slot"),
        (args.luks2_metadata_size.is_some(), "--luks2-metadata-size"),
        (args.luks2_keyslots_size.is_some(), "--luks2-keyslots-size"),
        (args.align_payload.is_some(), "--align-payload"),
        (args.offset.is_some(), "--offset"),
        (args.header.is_some(), "--header"),
        (args.volume_key_file.is_some(), "--volume-key-file"),
        (pbkdf.pbkdf.is_some(), "--pbkdf"),
        (pbkdf.iter_time.is_some(), "--iter-time"),
        (pbkdf.pbkdf_memory.is_some(), "--pbkdf-memory"),
        (pbkdf.for_memory.is_some(), "--for-memory"),
        (pbkdf.for_time.is_some(), "--for-time"),
        (pbkdf.pbkdf_parallel.is_some(), "--pbkdf-parallel"),
        (pbkdf.pbkdf_force_iterations.is_some(), "--pbkdf-force-iterations"),
        (pbkdf.garlic.is_some(), "--garlic"),
        (pbkdf.keyslot_cipher.is_some(), "--keyslot-cipher"),
        (pbkdf.keyslot_key_size.is_some(), "--keyslot-key-size"),
    ];
    match said.into_iter().find(|(is_said, _)| *is_said) {
        Some((_, option)) => Err(Failure::parameters(format!("{option} is not for VeraCrypt volumes"))
            .hint("--cipher, --hash, --veracrypt-pim and --tcrypt-keyfile are")),
        None => Ok(()),
    }
}

fn hash(name: &str) -> Result<Hash, Failure> {
    Hash::named(name).map_err(|error| Failure::parameters(format!("{name}: {error}")))
}

pub fn format(args: &FormatArgs, output: &Output) -> Result<(), Failure> {
    refuse_luks_options(args)?;
    let name = args.cipher.as_deref().unwrap_or("aes");
    let chain = chain_named(name).ok_or_else(|| {
        Failure::parameters(format!("VeraCrypt has no ciphers {name}"))
            .hint("aes, serpent, twofish, camellia, kuznyechik, or a cascade such as serpent-twofish-aes")
    })?;
    let hash = args.pbkdf.hash.as_deref().map_or(Ok(Hash::Sha512), hash)?;
    let place = Place::look(&args.path, args.size)?;
    place.confirm(output)?;
    let key_files = secrets::read_tcrypt_key_files(&args.tcrypt.tcrypt_keyfile)?;
    let source = Source::from(&args.passphrase);
    let hidden_source = args
        .tcrypt
        .hidden_key_file
        .as_deref()
        .map_or_else(|| Source::typed(&args.passphrase, "--hidden-key-file FILE"), Source::key_file);
    if args.tcrypt.hidden_size.is_some() {
        refuse_sharing_stdin(&source, &hidden_source)?;
    }
    let passphrase = source.read_new(&format!("New password for {}", args.path.display()), output)?;
    let hidden = match args.tcrypt.hidden_size {
        Some(size) => Some((hidden_source.read_new("New password for the hidden volume", output)?, size)),
        None => None,
    };
    if hidden.as_ref().is_some_and(|(hidden, _)| hidden.expose() == passphrase.expose()) {
        return Err(Failure::parameters("the hidden volume has the password of the outer one")
            .hint("whoever gets the one from you has both then: take another"));
    }
    let password =
        |passphrase| NewPassword { passphrase, key_files: &key_files, pim: args.tcrypt.veracrypt_pim, hash };
    let new = NewTcrypt {
        chain,
        password: password(&passphrase),
        hidden: hidden.as_ref().map(|(passphrase, size)| (password(passphrase), *size)),
    };
    let media = place.open()?;
    let bar = progress::bytes_bar(media.device().size(), output);
    let mut filled = |done| bar.set_position(done);
    let filling: Option<&mut dyn FnMut(u64)> = if args.tcrypt.quick { None } else { Some(&mut filled) };
    let made = create(media.device(), &new, &mut OsRandom, filling);
    bar.finish_and_clear();
    made.map_err(|error| Failure::from(error).at(&args.path))?;
    media.appear()?;
    output.done(
        &json!({ "path": path_text(&args.path), "type": "veracrypt", "cipher": chain.name(), "hash": hash.name(), "hidden": hidden.is_some() }),
        &format!("{}: new VeraCrypt volume, {} and {hash}", args.path.display(), chain.name()),
    )
}

/// What `open` would be told to open the volume.
fn unlocked_by(foreign: &TcryptTargetArgs, narrow: &NarrowArgs, passphrase: &PassphraseArgs) -> UnlockArgs {
    UnlockArgs {
        kind: foreign.kind,
        plain: PlainArgs { cipher: narrow.cipher.clone(), hash: narrow.hash.clone(), ..PlainArgs::default() },
        tcrypt: foreign.tcrypt.clone(),
        secret: SecretArgs {
            passphrase: passphrase.clone(),
            volume_key_file: None,
            volume_key_keyring: None,
        },
        ..UnlockArgs::default()
    }
}

fn held(target: &TargetArgs, write: bool) -> Result<Held, Failure> {
    if target.store.is_some() {
        return Err(Failure::parameters("--store is for sealed volumes"));
    }
    Held::open(&target.path, target.header.as_deref(), write)
        .map_err(|error| Failure::from(error.error).at(&error.path))
}

pub fn change(args: &KeyChangeArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    if args.keep_passphrase || args.key_slot.is_some() || args.new_key_slot.is_some() {
        return Err(Failure::parameters(
            "a volume of this type has one password: --keep-passphrase, --key-slot and --new-key-slot are not for it",
        ));
    }
    let unlock = unlocked_by(&args.foreign, &old_header(&args.changed), &args.passphrase);
    let wanted = args.pbkdf.hash.as_deref().map(hash).transpose()?;
    let held = held(&args.target, true)?;
    let (old, new) = (Source::from(&args.passphrase), Source::from(&args.new));
    refuse_sharing_stdin(&old, &new)?;
    let opened = foreign::header(path, &held, &unlock, output)?;
    let passphrase = new.read_new("New password", output)?;
    let new = NewPassword {
        passphrase: &passphrase,
        key_files: &secrets::read_tcrypt_key_files(&args.changed.new_tcrypt_keyfile)?,
        pim: args.changed.new_veracrypt_pim,
        hash: wanted.unwrap_or(opened.derivation().hash),
    };
    let spinner = progress::spinner("deriving the keys of both headers", output);
    let changed = opened.change_password(held.header(), &new, &mut OsRandom);
    spinner.finish_and_clear();
    changed.map_err(|error| Failure::from(error).at(path))?;
    output.done(
        &json!({ "path": path_text(path), "hash": new.hash.name() }),
        &format!("{}: both headers open with the new password", path.display()),
    )
}

pub fn info(args: &InfoArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let held = held(&args.target, false)?;
    let unlock = unlocked_by(&args.foreign, &args.narrow, &args.passphrase);
    let opened = foreign::header(path, &held, &unlock, output)?;
    let (header, derivation) = (opened.header(), opened.derivation());
    let program = match header.magic {
        Magic::TrueCrypt => "TrueCrypt",
        Magic::VeraCrypt => "VeraCrypt",
    };
    let least = format!("{:x}.{:x}", header.program >> 8, header.program & 0xff);
    let (hash, cipher) = (derivation.hash.name(), opened.chain().name());
    let mode = opened.chain().mode_name();
    let report = json!({
        "type": program, "version": header.version, "least_program": least, "hash": hash,
        "iterations": derivation.iterations, "cipher": cipher, "mode": mode, "hidden": opened.place().is_hidden(),
        "data_offset": header.data_start, "size": header.size, "sector_size": header.sector_size, "flags": header.flags,
    });
    let text = format!(
        "type:        {program}, version {} of the header, needs {program} {least}\n\
         derivation:  PBKDF2-HMAC-{hash}, {} iterations\n\
         cipher:      {cipher}, {mode}\n\
         hidden:      {}\n\
         data:        {} bytes from byte {} on, made for sectors of {} bytes",
        header.version,
        derivation.iterations,
        if opened.place().is_hidden() { "yes" } else { "no (whether one is in it can't be told)" },
        header.size,
        header.data_start,
        header.sector_size,
    );
    output.report(&report, &text)
}

/// The normal header and the hidden one, or the noise that is in its place, as they are: VeraCrypt's backups lie out the same.
pub fn backup(path: &Path, file: &Path, output: &Output) -> Result<(), Failure> {
    let device = open_device(path, Access::ReadOnly)?;
    let mut group = vec![0; GROUP_LEN];
    device.read_at(0, &mut group).map_err(|error| Failure::from(error).at(path))?;
    write_private(file, &group)?;
    output.done(
        &json!({ "file": path_text(file), "bytes": group.len() }),
        &format!(
            "{}: the headers of {}, if it is such a volume; whoever knows its password can open it by them",
            file.display(),
            path.display()
        ),
    )
}

pub fn restore(args: &HeaderRestoreArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let held = held(&args.target, true)?;
    let foreign = &args.foreign;
    let unlock = unlocked_by(foreign, &args.narrow, &args.passphrase);
    if foreign.tcrypt.tcrypt_system {
        return Err(Failure::parameters("the header of an encrypted system is restored by its rescue disk"));
    }
    let told = foreign::tcrypt(&unlock, None)?;
    let source = Source::from(&args.passphrase);
    let passphrase = source.read("Password of the backup", output)?;
    let spinner = progress::spinner("deriving keys", output);
    let opened = match &args.file {
        Some(file) => open_device(file, Access::ReadOnly)
            .and_then(|device| opened(&device, &told, &passphrase).map_err(|failure| failure.at(file))),
        None => opened(held.header(), &told, &passphrase).map_err(|failure| failure.at(path)),
    };
    spinner.finish_and_clear();
    let opened = opened?;
    // Nothing shows whose headers are there now. A copy was made for this device, unless that got other contents since.
    let device = held.header();
    let contents = match args.file {
        Some(_) => device.holds_data().then(|| contents(device)),
        None => known_contents(device),
    };
    if let Some(contents) = contents {
        output.confirm(&format!("{} holds {contents}; its headers are replaced", path.display()))?;
    }
    let spinner = progress::spinner("deriving the keys of both headers", output);
    let restored = opened.restore(held.header(), (&passphrase, &told.key_files), &mut OsRandom);
    spinner.finish_and_clear();
    restored.map_err(|error| Failure::from(error).at(path))?;
    output.done(
        &json!({ "path": path_text(path), "file": args.file.as_deref().map(path_text) }),
        &format!("{}: both headers restored", path.display()),
    )
}

fn opened(
    device: &dyn atrest_device::Media,
    told: &TcryptOptions,
    passphrase: &atrest_secret::Passphrase,
) -> Result<Opened, Failure> {
    let locked = LockedTcrypt::read(device, told).map_err(Failure::from)?;
    Ok(atrest_open::try_tcrypt(&locked, passphrase, None)?)
}
