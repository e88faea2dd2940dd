//! What can be known to fail before anybody types a passphrase: the name of an open volume, the place where it is to be
//! served, and the command of --run. Each is looked at again when it is used.

use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use atrest_attach::fuse::MountError;
use atrest_attach::nbd::{BindError, Endpoint};
use atrest_attach::serve::ServeError;
use atrest_attach::session::{Registry, SessionError};
use rustix::fs::Access;

use crate::args::inside::MountArgs;
use crate::args::open::OpenArgs;
use crate::failure::Failure;

/// Looks at everything that `open` will need besides the volume. `socket` is the one that was asked for.
pub fn check(args: &OpenArgs, socket: Option<&Path>, registry: &Registry) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        free_name(name, registry)?;
    }
    if let Some(address) = args.nbd_tcp {
        tcp(address, args.tls.tls_cert.is_some() || args.tls.insecure)?;
    }
    for socket in [socket, args.vhost_user.as_deref(), args.metrics.as_deref()].into_iter().flatten() {
        unix(socket)?;
    }
    if let Some(directory) = &args.fuse {
        mount_point(directory)?;
    }
    match args.run.first() {
        Some(program) => runnable(program),
        None => Ok(()),
    }
}

/// Looks at everything that `mount` will need besides the volume.
pub fn check_mount(args: &MountArgs, registry: &Registry) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        free_name(name, registry)?;
    }
    if let Some(socket) = &args.metrics {
        unix(socket)?;
    }
    mount_point(&args.directory)?;
    match args.run.first() {
        Some(program) => runnable(program),
        None => Ok(()),
    }
}

fn free_name(name: &str, registry: &Registry) -> Result<(), Failure> {
    // Refuses what can't be a name.
    registry.socket(name)?;
    match registry.find(name)? {
        Some(entry) if entry.name == name && !entry.has_ended() => {
            Err(SessionError::NameTaken { name: entry.name.clone(), pid: entry.pid() }.into())
        }
        _ => Ok(()),
    }
}

fn tcp(address: SocketAddr, may_be_remote: bool) -> Result<(), BindError> {
    if !may_be_remote && Endpoint::Tcp(address).is_remote() {
        return Err(BindError::NotLoopback { address });
    }
    TcpListener::bind(address).map(drop).map_err(|error| BindError::Tcp { address, error })
}

fn unix(socket: &Path) -> Result<(), BindError> {
    let failed = |error| BindError::Socket { path: socket.into(), error };
    let path = std::path::absolute(socket).map_err(failed)?;
    match path.symlink_metadata() {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(BindError::NotASocket { path }),
        Ok(_) if UnixStream::connect(&path).is_ok() => Err(BindError::InUse { path }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(Path::new("/"));
            parent.metadata().map(drop).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

fn mount_point(directory: &Path) -> Result<(), MountError> {
    let failed = |error| MountError::Directory { path: directory.into(), error };
    if !directory.metadata().map_err(failed)?.is_dir() {
        return Err(MountError::NotADirectory { path: directory.into() });
    }
    match directory.read_dir().map_err(failed)?.next() {
        Some(_) => Err(MountError::NotEmpty { path: directory.into() }),
        None => Ok(()),
    }
}

fn runnable(program: &OsStr) -> Result<(), Failure> {
    let failed = |error: io::Error| Err(ServeError::Command { program: program.into(), error }.into());
    let executable = |path: &Path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    if program.as_bytes().contains(&b'/') {
        return match Path::new(program) {
            path if executable(path) => Ok(()),
            path => failed(path.metadata().err().unwrap_or(io::ErrorKind::PermissionDenied.into())),
        };
    }
    match std::env::var_os("PATH") {
        Some(path) if !std::env::split_paths(&path).any(|dir| executable(&dir.join(program))) => {
            failed(rustix::io::Errno::NOENT.into())
        }
        // Without PATH the system has places of its own to look in.
        _ => Ok(()),
    }
}
