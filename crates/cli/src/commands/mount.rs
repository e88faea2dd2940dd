//! `atrest mount`.

use std::process::Command;
use std::sync::Arc;

use atrest_attach::driver::By;
use atrest_attach::fuse;
use atrest_attach::serve::{self, Daemonized, End, Face, Plan, ServeError, Signals, daemonize};
use atrest_attach::session::{Entry, Registry, Watched};
use atrest_device::BlockDevice;
use atrest_filetree::FileTree;
use atrest_probe::{FilesystemKind, detect};
use atrest_tree::fscrypt::Keyring;

use super::serve::{kind_of, ready_json};
use super::{drive, flash, fscrypt, inside, metrics, mount_tree, preflight, tree_keys};
use crate::args::inside::MountArgs;
use crate::failure::Failure;
use crate::output::Output;

/// What is mounted, before anybody has been told.
struct Mounted {
    face: Face,
    signals: Signals,
    writable: bool,
    /// Of a tree whose files may be encrypted one by one.
    keyring: Option<Arc<Keyring>>,
    /// The device below the filesystem, where there is one.
    disk: Option<Arc<Watched>>,
}

pub fn mount(args: &MountArgs, output: &Output) -> Result<u8, Failure> {
    if args.directory.as_os_str().is_empty() {
        return Err(Failure::parameters("the directory to mount it in is missing")
            .hint("as in: atrest mount secret.img mnt"));
    }
    // Before any thread and any secret.
    let background = match args.daemon {
        false => None,
        true => match daemonize()? {
            Daemonized::Parent { status } => return Ok(status),
            Daemonized::Child(background) => Some(background),
        },
    };
    let registry = super::serve::registry(output)?;
    preflight::check_mount(args, &registry)?;
    metrics::check_mount(args)?;
    drive::check(&args.by)?;
    let metrics_socket = metrics::bind(args.metrics.as_deref())?;
    let mut mounted = match mount_tree::open(args, output)? {
        Some(tree) => {
            let (signals, writable) = (Signals::install()?, tree.is_writable());
            let options = fuse::Options {
                shared: args.by.allow_other,
                executable: !args.noexec,
                ..fuse::Options::default()
            };
            let face = Face::Fuse(fuse::mount_posix(tree, &args.directory, &options)?);
            Mounted { face, signals, writable, keyring: None, disk: None }
        }
        None => inside_volume(args, &registry, output)?,
    };
    let name = match &args.name {
        Some(name) => Ok(name.clone()),
        None => registry.free_name(&args.volume),
    };
    let registered = name.map_err(Failure::from).and_then(|name| {
        let entry = Entry::new(&name, &args.volume, kind_of(&mounted.face), !mounted.writable)?;
        Ok((name, registry.register(entry)?))
    });
    let (name, registration) = match registered {
        Ok(registered) => registered,
        Err(failure) => {
            // The command fails for another reason, which it tells.
            match mounted.face {
                Face::Fuse(mount) => drop(mount.unmounter().unmount()),
                Face::Driven(driven) => driven.abandon(),
                Face::Nbd(_) => {}
                #[cfg(feature = "vhost-user")]
                Face::VhostUser(_) => {}
            }
            return Err(failure);
        }
    };
    if let Face::Driven(driven) = &mut mounted.face {
        let word = registration.word();
        driven.tell(Box::new(move |failure| word.fail(failure)));
    }
    let metrics = mounted.disk.and_then(|disk| {
        disk.tell(&registration);
        metrics::serve(metrics_socket, disk, &registration, &registry, output)
    });
    // Until the end: keys come and go while the files are served.
    let cache = match &mounted.face {
        Face::Fuse(mount) => mount.kernel_cache(),
        Face::Driven(_) | Face::Nbd(_) => None,
        #[cfg(feature = "vhost-user")]
        Face::VhostUser(_) => None,
    };
    let control = match mounted.keyring.zip(cache) {
        Some((keyring, cache)) => Some(tree_keys::listen(&registry, &name, keyring, cache)?),
        None => None,
    };
    let ready = output.is_json().then(|| ready_json(&mounted.face, &registration).to_string());
    let command = args.run.split_first().map(|(program, arguments)| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    });
    let end =
        serve::run(mounted.face, Plan { signals: mounted.signals, command, background, ready, gate: None });
    // Their sockets bear the name, which another volume can have as soon as this one is out of the register.
    drop((metrics, control));
    match &end {
        Ok(_) | Err(ServeError::Command { .. }) => drop(registration),
        // `close` waits for this process and finds it there.
        Err(error) => registration.fail(&error.to_string()),
    }
    match end? {
        End::Command { status, .. } => Ok(status),
        _ => Ok(0),
    }
}

/// Mounts what is inside a volume: by a driver, or by a reader of ours.
fn inside_volume(args: &MountArgs, registry: &Registry, output: &Output) -> Result<Mounted, Failure> {
    let write = args.unlock.writes_unless(args.read_only);
    let keys = fscrypt::keyring(&args.partition.fscrypt, output)?;
    let (volume, unlock, partition) = (&args.volume, &args.unlock, &args.partition);
    let mut disk = None;
    let tree = match flash::is_flash_volume(volume, unlock) {
        true if !drive::may_be_ours(&args.by) => {
            return Err(Failure::parameters(
                "encrypted flash is mounted by the reader here, which also writes; there is no driver for it",
            )
            .at(volume));
        }
        true => flash::tree(volume, unlock, partition, write, output)?,
        false => {
            let device = inside::device(volume, unlock, partition, write, output)?;
            let filesystem = detect(&*device).map_err(|error| Failure::from(error).at(volume))?;
            let by = match filesystem {
                Some(filesystem) => {
                    drive::by(&args.by, filesystem, args.read_only)?.map(|by| (filesystem, by))
                }
                None => None,
            };
            if let Some((filesystem, by)) = by {
                return driven(args, device, filesystem, by, registry, output);
            }
            let device = disk.insert(Arc::new(Watched::new(device))).clone();
            inside::read(device, volume, unlock, partition, write, keys.clone(), output)?
        }
    };
    let about = tree.about();
    let keyring = Some(keys).filter(|_| about.name == FilesystemKind::Ext4.name());
    let writable = about.writable;
    if !writable && !args.read_only {
        // intended: nothing more can be said of others.
        let more = drive::writer(about.name).unwrap_or_default();
        output.warn(format!("the files can only be read{more}"));
    }
    let signals = Signals::install()?;
    let tree: Arc<dyn FileTree> = Arc::from(tree);
    let face = Face::Fuse(fuse::mount_tree(tree, &args.directory, &fuse::Options::default())?);
    Ok(Mounted { face, signals, writable, keyring, disk })
}

fn driven(
    args: &MountArgs,
    device: Arc<dyn BlockDevice>,
    filesystem: FilesystemKind,
    by: By,
    registry: &Registry,
    output: &Output,
) -> Result<Mounted, Failure> {
    let writable = !args.read_only && !device.is_read_only();
    if !writable && !args.read_only {
        output.warn("the volume can only be read");
    }
    let signals = Signals::install()?;
    let started = drive::start(args, device, filesystem, by, registry, &signals)?;
    let face = Face::Driven(Box::new(started.driven));
    Ok(Mounted { face, signals, writable, keyring: None, disk: Some(started.disk) })
}
