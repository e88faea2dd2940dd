//! `atrest open`, `close` and `status`.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atrest_attach::dm::Mapping;
use atrest_attach::nbd::BindError;
use atrest_attach::serve::{self, Background, Daemonized, End, Face, Plan, ServeError, Signals, daemonize};
use atrest_attach::session::{CloseError, Entry, Kind, Registration, Registry, SessionError, Watched};
#[cfg(feature = "vhost-user")]
use atrest_attach::vhost_user;
use atrest_attach::{fuse, nbd};
use atrest_device::BlockDevice;
use atrest_engine::reencrypt::RewriteError;
use atrest_volume::Volume;
use serde::Serialize;
use serde_json::{Value, json};

use super::metrics::Told;
use super::online::{self, Work};
use super::suspend::{self, Keys};
use super::unlock::{Use, is_sealed, unlock_if, unlock_with_key};
use super::{link, mapping, metrics, preflight};
use crate::args::open::{CloseArgs, OpenArgs, StatusArgs};
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};
use crate::{progress, usage};

/// How long `close` waits for everything to be written back.
const CLOSE_LIMIT: Duration = Duration::from_secs(300);
/// How often a free name is looked for, and the pause between.
const NAME_TRIES: u32 = 100;
const NAME_PAUSE: Duration = Duration::from_millis(20);
/// What is said to a user whom the kernel does not tell everything.
const NOT_ROOT: &str = "; what the kernel encrypts is shown to root only";

/// Requests of a client that are answered at once where each may wait for a store of objects.
const STORE_WORKERS: usize = 32;

/// This user's list of open volumes. Says so if it is not where it usually is.
pub fn registry(output: &Output) -> Result<Registry, Failure> {
    let registry = Registry::open()?;
    if let Some(reason) = registry.passed_over() {
        output.warn(format!("{reason}; another directory beside it is used"));
    }
    Ok(registry)
}

pub fn open(args: &OpenArgs, output: &Output) -> Result<u8, Failure> {
    let Some((path, socket)) = args.path_and_socket() else {
        return Err(Failure::parameters("PATH is missing: the file or block device that holds the volume"));
    };
    if !args.has_face() {
        return Err(usage::no_face());
    }
    if args.dm.is_some() && is_sealed(path) {
        return Err(Failure::parameters("no kernel knows sealed volumes")
            .at(path)
            .hint("--nbd, --fuse and the other faces open it"));
    }
    if let Some(name) = &args.dm {
        return mapping::open(name, path, args, output);
    }
    let wanted = Use {
        write: args.unlock.writes_unless(args.read_only),
        allow_discards: args.allow_discards,
        threads: args.threads,
        map: args.map,
        ..Use::default()
    };
    staged(args, path, socket, output, |stage| {
        let registry = stage.registry;
        let ready = || preflight::check(args, socket, registry);
        if args.reencrypt {
            return online::open(path, args, output, ready, |disk, work| {
                let keys = Keys::Stay(if work.is_some() { suspend::REENCRYPTED } else { suspend::OTHERWISE });
                stand(args, stage, (disk, keys), work, output)
            });
        }
        let Some(keyring) = link::keyring_for(args.link_vk_to_keyring.as_ref(), &args.unlock)? else {
            let unlocked = unlock_if(path, &args.unlock, wanted, output, ready)?;
            return stand(args, stage, suspend::gated(unlocked), None, output);
        };
        let put = |volume: &Volume| link::put(Some(&keyring), volume);
        let (unlocked, linked) = unlock_with_key(path, &args.unlock, wanted, output, ready, put)?;
        let ended = stand(args, stage, suspend::gated(unlocked), None, output)?;
        link::keep(linked);
        Ok(ended)
    })
}

/// Serves a device by the face that was asked for, until that ends. `device` opens it, and calls what it is given before anything that
/// takes long or asks a person: that looks whether the face can be had.
pub fn present(
    args: &OpenArgs,
    path: &Path,
    socket: Option<&Path>,
    output: &Output,
    device: impl FnOnce(&dyn Fn() -> Result<(), Failure>) -> Result<Arc<dyn BlockDevice>, Failure>,
) -> Result<u8, Failure> {
    staged(args, path, socket, output, |stage| {
        let disk = device(&|| preflight::check(args, socket, stage.registry))?;
        stand(args, stage, (disk, Keys::Stay(suspend::NO_KEY)), None, output)
    })
}

/// What a volume is served with.
struct Stage<'a> {
    path: &'a Path,
    socket: Option<&'a Path>,
    tls: Option<nbd::Tls>,
    background: Option<Background>,
    registry: &'a Registry,
}

/// Goes to the background if that was asked for, before any thread and any secret, and does `then` there.
fn staged(
    args: &OpenArgs,
    path: &Path,
    socket: Option<&Path>,
    output: &Output,
    then: impl FnOnce(Stage<'_>) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let background = match args.daemon {
        false => None,
        true => match daemonize()? {
            Daemonized::Parent { status } => return Ok(status),
            Daemonized::Child(background) => Some(background),
        },
    };
    let registry = registry(output)?;
    let tls = match &args.tls.tls_cert {
        Some(directory) => Some(server_tls(directory, args.tls.tls_verify_peer)?),
        None => None,
    };
    then(Stage { path, socket, tls, background, registry: &registry })
}

#[cfg(feature = "whole")]
fn server_tls(directory: &Path, verify_peer: bool) -> Result<nbd::Tls, Failure> {
    Ok(nbd::Tls::load(directory, verify_peer)?)
}

#[cfg(not(feature = "whole"))]
fn server_tls(directory: &Path, _: bool) -> Result<nbd::Tls, Failure> {
    Err(Failure::parameters("this program was built without TLS")
        .at(directory)
        .hint("the whole `atrest` has it"))
}

/// Serves an open volume, and does what is to be done meanwhile.
fn stand(
    args: &OpenArgs,
    stage: Stage<'_>,
    (disk, keys): (Arc<dyn BlockDevice>, Keys),
    work: Option<Work<'_>>,
    output: &Output,
) -> Result<u8, Failure> {
    let Stage { path, socket, tls, background, registry } = stage;
    let disk = Arc::new(Watched::new(disk));
    let read_only = disk.is_read_only();
    if read_only && !args.read_only {
        output.warn("the volume can only be read");
    }
    let signals = Signals::install()?;
    // The program that takes cryptsetup's place shows no figures.
    #[cfg(feature = "whole")]
    let metrics_socket = metrics::bind(args.metrics.as_deref())?;
    #[cfg(not(feature = "whole"))]
    if let Some(socket) = &args.metrics {
        return Err(Failure::parameters("this program was built without figures")
            .at(socket)
            .hint("the whole `atrest` has them"));
    }
    let (face, registration) = stand_up(args, path, socket, tls, disk.clone(), registry)?;
    disk.tell(&registration);
    #[cfg(feature = "whole")]
    let metrics = metrics::serve(metrics_socket, disk, &registration, registry, output);
    if let Face::Nbd(server) = &face
        && let Some(warning) = server.warning()
    {
        output.warn(warning);
    }
    let ready = output.is_json().then(|| ready_json(&face, &registration).to_string());
    let gate = keys.gate();
    let known = match &face {
        Face::Fuse(mount) => mount.known_size(),
        _ => None,
    };
    let control = suspend::listen((keys, known), &registration, registry, output);
    let plan = Plan { signals, command: command(&args.run), background, ready, gate };
    let end = match work {
        None => serve::run(face, plan),
        Some(work) => beside(work, path, output, || serve::run(face, plan)),
    };
    // Both answer under the session's name.
    #[cfg(feature = "whole")]
    drop(metrics);
    drop(control);
    match &end {
        Ok(_) | Err(ServeError::Command { .. }) => drop(registration),
        // `close` waits for this process and finds it there.
        Err(error) => registration.fail(&error.to_string()),
    }
    match end? {
        End::Command { status, killed } => {
            if killed {
                output.warn("the command was killed: a second SIGTERM came before it had ended");
            }
            Ok(status)
        }
        _ => Ok(0),
    }
}

/// Works on a thread of its own until `serve` has ended.
fn beside<T>(work: Work<'_>, path: &Path, output: &Output, serve: impl FnOnce() -> T) -> T {
    let cancel = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| match work(&cancel) {
            Ok(()) => output.note(format_args!("{}: the re-encryption is done", path.display())),
            Err(RewriteError::Cancelled { done, total }) => {
                output.note(format_args!("{}: {done} of {total} bytes are re-encrypted", path.display()));
            }
            Err(error) => output.warn(format_args!(
                "the re-encryption of {} has failed, and nothing is written to it any more: {error}",
                path.display()
            )),
        });
        let end = serve();
        cancel.store(true, Ordering::Release);
        if let Err(panic) = working.join() {
            std::panic::resume_unwind(panic);
        }
        end
    })
}

/// Makes the face and tells `status` and `close` of it. A name that nobody chose may be taken by another process
/// between the look and the use: then the next one is tried.
fn stand_up(
    args: &OpenArgs,
    path: &Path,
    socket: Option<&Path>,
    tls: Option<nbd::Tls>,
    disk: Arc<Watched>,
    registry: &Registry,
) -> Result<(Face, Registration), Failure> {
    let mut tries = if args.name.is_some() { 1 } else { NAME_TRIES };
    let read_only = disk.is_read_only();
    let mut options = nbd::Options { tls, insecure: args.tls.insecure, ..nbd::Options::default() };
    if disk.store_requests().is_some() {
        // Each waits for the store.
        options.workers = options.workers.max(STORE_WORKERS);
    }
    let mut face = match (&args.fuse, &args.vhost_user) {
        (Some(directory), _) => {
            Some(Face::Fuse(fuse::mount(disk.clone(), directory, &fuse::Options::default())?))
        }
        #[cfg(feature = "vhost-user")]
        (None, Some(socket)) => {
            let name = args.name.as_deref().map(AsRef::as_ref).or(path.file_stem());
            let id = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let mut options = vhost_user::Options { id, ..vhost_user::Options::default() };
            if disk.store_requests().is_some() {
                options.workers = options.workers.max(STORE_WORKERS);
            }
            Some(Face::VhostUser(vhost_user::Server::bind(disk.clone(), socket, options)?))
        }
        #[cfg(not(feature = "vhost-user"))]
        (None, Some(_)) => {
            return Err(Failure::parameters("this program serves no virtual machines")
                .hint("`atrest open --vhost-user` does, on 64-bit processors"));
        }
        (None, None) => None,
    };
    loop {
        tries -= 1;
        let name = match &args.name {
            Some(name) => name.clone(),
            None => registry.free_name(path)?,
        };
        let standing = match face.take() {
            Some(face) => face,
            None => {
                let endpoint = match (args.nbd_tcp, socket) {
                    (Some(address), _) => nbd::Endpoint::Tcp(address),
                    (None, Some(socket)) => nbd::Endpoint::Unix(socket.to_path_buf()),
                    (None, None) => nbd::Endpoint::Unix(registry.socket(&name)?),
                };
                match nbd::Server::bind(disk.clone(), &endpoint, options.clone()) {
                    Err(BindError::InUse { .. }) if socket.is_none() && tries > 0 => {
                        std::thread::sleep(NAME_PAUSE);
                        continue;
                    }
                    bound => Face::Nbd(bound?),
                }
            }
        };
        match registry.register(Entry::new(&name, path, kind_of(&standing), read_only)?) {
            Ok(registration) => return Ok((standing, registration)),
            Err(SessionError::NameTaken { .. }) if tries > 0 => {
                // A socket that bears the name goes with it; anything else can be kept.
                let bears_name =
                    matches!(standing, Face::Nbd(_)) && args.nbd_tcp.is_none() && socket.is_none();
                face = (!bears_name).then_some(standing);
                std::thread::sleep(NAME_PAUSE);
            }
            Err(error) => {
                if let Face::Fuse(mount) = &standing {
                    // The command fails for another reason, which it tells.
                    let _ = mount.unmounter().unmount();
                }
                return Err(error.into());
            }
        }
    }
}

/// How a face is reached.
pub fn kind_of(face: &Face) -> Kind {
    match face {
        Face::Nbd(server) => Kind::of_server(server),
        Face::Fuse(mount) => Kind::of_mount(mount),
        Face::Driven(driven) => Kind::of_driven(driven),
        #[cfg(feature = "vhost-user")]
        Face::VhostUser(server) => Kind::of_disk(server),
    }
}

/// What says with --json that the volume can be used.
pub fn ready_json(face: &Face, registration: &Registration) -> Value {
    let name = registration.entry().name;
    match face {
        Face::Nbd(server) => json!({ "event": "ready", "name": name, "uri": server.uri() }),
        Face::Fuse(mount) => json!({ "event": "ready", "name": name, "path": path_text(&mount.place()) }),
        Face::Driven(driven) => {
            json!({ "event": "ready", "name": name, "path": path_text(driven.directory()) })
        }
        #[cfg(feature = "vhost-user")]
        Face::VhostUser(server) => {
            json!({ "event": "ready", "name": name, "socket": path_text(server.socket()) })
        }
    }
}

fn command(words: &[OsString]) -> Option<Command> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

pub fn close(args: &CloseArgs, output: &Output) -> Result<(), Failure> {
    let registry = registry(output)?;
    if args.deferred || args.cancel_deferred {
        if !registry.find_all(&args.name)?.is_empty() {
            let what = "--deferred and --cancel-deferred are for mappings of the kernel, and this volume is served by a process";
            return Err(Failure::parameters(what).hint("`atrest close` waits for whoever uses it"));
        }
        let otherwise = CloseError::NotOpen { name: args.name.to_string_lossy().into_owned() };
        return mapping::close(args, otherwise.into(), output);
    }
    let spinner = progress::spinner("waiting until everything is written back", output);
    let closed = registry.close(&args.name, CLOSE_LIMIT);
    spinner.finish_and_clear();
    let entry = match closed {
        Err(error @ CloseError::NotOpen { .. }) => return mapping::close(args, error.into(), output),
        closed => closed?,
    };
    output.done(&json!({ "closed": entry.name }), &format!("{} is closed", entry.name))
}

pub fn status(args: &StatusArgs, output: &Output) -> Result<(), Failure> {
    let registry = registry(output)?;
    let (entries, mappings) = match &args.name {
        None => (registry.list()?, mapping::list()?),
        Some(name) => {
            let entries = registry.find_all(name)?;
            let mappings = if entries.is_empty() { mapping::find(name)? } else { Vec::new() };
            (entries, mappings)
        }
    };
    if let (Some(name), true, true) = (&args.name, entries.is_empty(), mappings.is_empty()) {
        return Err(Failure::new(Code::Device, format!("no open volume is called {}", name.display()))
            .hint("`atrest status` without a name lists all"));
    }
    let told = match output.is_json() || args.name.is_some() {
        true => metrics::ask_all(&entries, &registry),
        false => Vec::new(),
    };
    let mut lines: Vec<String> = entries.iter().map(line).collect();
    if args.name.is_some() {
        let living = lines.iter_mut().zip(&entries).zip(&told).filter(|((_, entry), _)| !entry.has_ended());
        living.for_each(|((line, _), told)| line.push_str(&metrics::lines(told)));
    }
    lines.extend(mappings.iter().map(mapping::line));
    let served = entries.iter().zip(&told).map(|(entry, told)| Status::Served { entry, told: told.into() });
    let all: Vec<Status<'_>> = served.chain(mappings.iter().map(Status::Mapped)).collect();
    if lines.is_empty() {
        let alone = if rustix::process::geteuid().is_root() { "" } else { NOT_ROOT };
        lines.push(format!("nothing is open{alone}\n"));
    }
    output.report(&all, &lines.concat())
}

/// An open volume in JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Status<'a> {
    /// Served by a process of ours.
    Served {
        #[serde(flatten)]
        entry: &'a Entry,
        #[serde(flatten)]
        told: Told<'a>,
    },
    /// Encrypted by the kernel.
    Mapped(&'a Mapping),
}

/// Where an open volume is to be found.
pub fn place(kind: &Kind) -> String {
    match kind {
        Kind::NbdUnix { uri, .. } | Kind::NbdTcp { uri, .. } => uri.clone(),
        Kind::Fuse { driver: Some(driver), .. } => {
            format!("{} (by {})", driver.directory.display(), driver.program)
        }
        Kind::VhostUser { socket } => format!("vhost-user {}", socket.display()),
        Kind::Fuse { directory, tree: true, .. } => directory.display().to_string(),
        Kind::Fuse { directory, .. } => directory.join(fuse::FILE_NAME).display().to_string(),
    }
}

fn line(entry: &Entry) -> String {
    let place = place(&entry.kind);
    let mode = if entry.read_only { "read-only" } else { "read-write" };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    if let Some(failed) = entry.failed.as_ref().filter(|_| entry.has_ended()) {
        return format!(
            "{}: {} was closed, but not in order: {failed}; `atrest close {}` clears this\n",
            entry.name,
            entry.path.display(),
            entry.name
        );
    }
    let mode = match &entry.failed {
        None if entry.suspended => format!("{mode}, suspended"),
        Some(failed) if entry.kind.driver().is_some() => format!("failed ({failed})"),
        Some(failed) => format!("failed: writes are refused ({failed})"),
        None => String::from(mode),
    };
    // intended: a clock that was set back shows no time.
    let minutes = now.saturating_sub(entry.since) / 60;
    format!(
        "{}: {} at {place}, {mode}, for {minutes} min, process {}\n",
        entry.name,
        entry.path.display(),
        entry.pid()
    )
}
