//! `atrest suspend`, `resume` and `resize`: of what a process of ours serves, and what answers them in that process. Mappings of the kernel are
//! in `mapping.rs`.

use std::path::Path;
use std::sync::Arc;

use atrest_attach::control::{Answer, Control, Request, ask};
use atrest_attach::fuse::KnownSize;
use atrest_attach::gate::Gate;
use atrest_attach::session::{Entry, Kind, Registration, Registry, Word};
use atrest_device::{BlockDevice, Media};
use atrest_engine::Access;
use atrest_open::{Reopen, Room};
use atrest_secret::VolumeKey;
use atrest_volume::luks2::reencrypt::ReencryptKeys;
use atrest_volume::{Devices, LockedVolume};
use serde_json::json;

use super::reencrypt_served::Rewritten;
use super::target::{open_device, with_passphrase};
use super::unlock::{Unlocked, again};
use super::{link, mapping, serve};
use crate::args::mapped::{ResizeArgs, ResumeArgs, SuspendArgs};
use crate::args::open::{UnlockArgs, VolumeType};
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

/// Why the keys of some volumes stay.
pub const REENCRYPTED: &str =
    "it is being re-encrypted: close it, and open it without --reencrypt to suspend it";
pub const OTHERWISE: &str = "it was opened with --reencrypt: close it, and open it without to suspend it";
pub const NO_KEY: &str = "it has no volume key in a header, which would be wiped and asked for again";
const FIXED: &str = "its size is what it is: it has no LUKS header, integrity tags, or several segments";
const NO_HEADER: &str = "it has no header that tells one volume key from another, or two keys until its re-encryption is finished";

/// What becomes of a volume's keys while it is suspended.
pub enum Keys {
    /// They go, and come back.
    Go(Arc<Gate>, Arc<Reopen>),
    /// It can't be suspended, for this reason.
    Stay(&'static str),
}

impl Keys {
    pub fn gate(&self) -> Option<Arc<Gate>> {
        match self {
            Self::Go(gate, _) => Some(gate.clone()),
            Self::Stay(_) => None,
        }
    }
}

/// The plaintext of a volume, which can be suspended if its header knows its key.
pub fn gated(unlocked: Unlocked) -> (Arc<dyn BlockDevice>, Keys) {
    match unlocked.reopen {
        Some(reopen) => {
            let gate = Arc::new(Gate::new(unlocked.disk));
            (gate.clone(), Keys::Go(gate, Arc::new(reopen)))
        }
        None => (Arc::new(unlocked.disk), Keys::Stay(NO_HEADER)),
    }
}

/// Lets the volume be suspended for as long as this lives.
pub fn listen(
    (keys, known): (Keys, Option<KnownSize>),
    registration: &Registration,
    registry: &Registry,
    output: &Output,
) -> Option<Control> {
    let (name, word) = (registration.entry().name, registration.word());
    let socket = registry.control_socket(&name).map_err(Failure::from);
    let control = socket.and_then(|socket| {
        let rewritten = Rewritten::default();
        let answer = move |request: Request<'_>| change(&keys, &rewritten, known.as_ref(), &word, &request);
        Control::listen(&socket, answer).map_err(|error| Failure::from(error).at(&socket))
    });
    // The volume can be used all the same.
    control.inspect_err(|failure| output.warn(format!("it can't be suspended: {}", failure.what()))).ok()
}

fn change(
    keys: &Keys,
    rewritten: &Rewritten,
    known: Option<&KnownSize>,
    word: &Word,
    request: &Request<'_>,
) -> Answer {
    let (gate, reopen) = match keys {
        Keys::Go(gate, reopen) => (gate, reopen),
        Keys::Stay(_) if matches!(request, Request::Resize { .. }) => return Err(FIXED.into()),
        Keys::Stay(REENCRYPTED) if of_reencryption(request) => {
            return Err(
                "it was opened with --reencrypt, which goes on until all is done or it is closed".into()
            );
        }
        Keys::Stay(why) => return Err((*why).into()),
    };
    match request {
        Request::Suspend => {
            gate.check_open().map_err(|error| error.to_string())?;
            // Nobody could give it its key back, and whoever waited would wait until it is closed.
            reopen.check().map_err(|error| format!("it could not be resumed afterwards: {error}"))?;
            gate.hold().map_err(|error| error.to_string())?;
            word.suspended(true);
        }
        Request::Resume { key } => {
            let disk = reopen.open(key).map_err(|error| format!("it stays suspended: {error}"))?;
            gate.restore(disk).map_err(|error| error.to_string())?;
            word.suspended(false);
        }
        Request::Resize { size } => {
            let size = resize_by(gate, reopen, *size)?;
            // As soon as it is asked for, the new one is told.
            if let Some(known) = known {
                known.forget();
            }
            return Ok(size.to_string());
        }
        Request::Reencrypt { .. } | Request::StopReencryption | Request::Reencryption => {
            return rewritten.answer(request, gate, reopen);
        }
        Request::Add { .. } | Request::Remove { .. } | Request::List => {
            return Err("a volume is served, and no files with keys of their own".into());
        }
    }
    Ok(String::new())
}

fn of_reencryption(request: &Request<'_>) -> bool {
    matches!(request, Request::Reencrypt { .. } | Request::StopReencryption | Request::Reencryption)
}

/// Shows so many bytes, or all that there is room for, and returns how many.
fn resize_by(gate: &Gate, reopen: &Reopen, size: Option<u64>) -> Result<u64, String> {
    let room = reopen.room().map_err(|error| error.to_string())?;
    let Some(Room { bytes: room, unit }) = room else { return Err(FIXED.into()) };
    let size = size.unwrap_or(room);
    if size == 0 || !size.is_multiple_of(unit) || size > room {
        return Err(format!(
            "{size} bytes are no size for it: a multiple of {unit}, up to the {room} bytes that its device has room for"
        ));
    }
    gate.resize(size).map_err(|error| error.to_string())?;
    reopen.resized(size);
    Ok(size)
}

pub fn suspend(args: &SuspendArgs, output: &Output) -> Result<(), Failure> {
    let registry = serve::registry(output)?;
    let Some(entry) = registry.find(&args.name)? else { return mapping::suspend(args, output) };
    tell(&registry, &entry, &Request::Suspend)?;
    suspended(&entry.name, output)
}

pub fn resume(args: &ResumeArgs, output: &Output) -> Result<(), Failure> {
    let registry = serve::registry(output)?;
    let Some(entry) = registry.find(&args.name)? else { return mapping::resume(args, output) };
    // Told before anybody types a passphrase.
    if !entry.suspended {
        return Err(Failure::parameters(format!("{} is not suspended", entry.name)));
    }
    let keyring = link::keyring(args.link_vk_to_keyring.as_ref())?;
    let key = key_again(&entry.path, &args.again.unlock(), output)?;
    let linked = keyring.as_ref().map(|found| link::put_key(found, &key)).transpose()?;
    tell(&registry, &entry, &Request::Resume { key: key.expose() })?;
    link::keep(linked);
    resumed(&entry.name, output)
}

/// The volume key of what is suspended. Its header may say by now that a re-encryption has begun.
fn key_again(path: &Path, unlock: &UnlockArgs, output: &Output) -> Result<VolumeKey, Failure> {
    if unlock.kind == VolumeType::Luks && !unlock.secret.has_volume_key() {
        let data = open_device(path, Access::ReadOnly)?;
        let header = unlock.header.as_deref().map(|path| open_device(path, Access::ReadOnly)).transpose()?;
        let devices = Devices::with_header(header.as_ref().map(|header| header as &dyn Media), &data);
        // What can't be read is told below.
        if let Ok(locked) = LockedVolume::read(devices.header)
            && let Some(luks2) = locked.luks2()
            && luks2.info().requirements.iter().any(|name| name.contains("reencrypt"))
        {
            let source = Source::from(&unlock.secret.passphrase);
            let keys = with_passphrase(&source, path, output, |passphrase| {
                luks2.reencryption_keys(devices, ReencryptKeys::of_passphrase(passphrase))
            })?;
            let first = keys.into_iter().next();
            return first.ok_or_else(|| Failure::parameters("it has no volume key").at(path));
        }
    }
    let volume = again(path, unlock, output)?;
    match volume.targets() {
        [target] => Ok(VolumeKey::copy_from(target.key.expose())),
        _ => Err(Failure::parameters("it has more than one volume key by now").at(path)),
    }
}

pub fn resize(args: &ResizeArgs, output: &Output) -> Result<(), Failure> {
    #[cfg(feature = "whole")]
    if super::sealed::is_meant(Path::new(&args.name)) {
        let unlock = UnlockArgs { store: args.store.clone(), ..args.again.unlock() };
        return super::sealed::resize(Path::new(&args.name), args.size, &unlock, output);
    }
    let registry = serve::registry(output)?;
    let Some(entry) = registry.find(&args.name)? else { return mapping::resize(args, output) };
    let told = tell(&registry, &entry, &Request::Resize { size: args.size })?;
    let size = told.parse().map_err(|_| Failure::new(Code::Device, "another version of atrest serves it"))?;
    resized(&entry.name, size, output)
}

/// Asks the process that serves it.
pub fn tell(registry: &Registry, entry: &Entry, request: &Request<'_>) -> Result<String, Failure> {
    if matches!(&entry.kind, Kind::Fuse { tree: true, .. } | Kind::Fuse { driver: Some(_), .. }) {
        return Err(Failure::parameters(format!(
            "{} serves the files in a volume, not the volume",
            entry.name
        ))
        .hint("`atrest close` wipes its keys; what `atrest open` serves can be suspended and resized"));
    }
    let asked = ask(&registry.control_socket(&entry.name)?, request);
    asked.map_err(|error| Failure::new(Code::Refused, format!("{}: {error}", entry.name)))
}

pub fn suspended(name: &str, output: &Output) -> Result<(), Failure> {
    let text = format!("{name} is suspended: `atrest resume {name}` lets it go on");
    output.done(&json!({ "suspended": name }), &text)
}

pub fn resized(name: &str, size: u64, output: &Output) -> Result<(), Failure> {
    output.done(&json!({ "name": name, "size": size }), &format!("{name} has {size} bytes"))
}

pub fn resumed(name: &str, output: &Output) -> Result<(), Failure> {
    output.done(&json!({ "resumed": name }), &format!("{name} goes on"))
}
