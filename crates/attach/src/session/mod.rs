//! What is open: one small JSON file per served volume, so that `status` and `close` find it from any shell.
//!
//! The files lie in a directory with mode 0700 that belongs to the user (see [`Registry::open`]). They hold no secrets. A file whose process is gone is
//! stale: nobody holds its lock, and no process has its id, start time and boot. It is removed together with what the
//! dead process left behind (a socket that nobody listens on, a dead mount). One that could not save everything leaves its file with the
//! reason in it, until `close` has told somebody or the name is used again.

mod close;
mod driver;
mod place;
mod process;
mod state;
mod users;
mod watch;

pub use close::CloseError;
pub use driver::Driver;
pub use place::Distrust;
pub use users::User;
pub use watch::Watched;

use crate::driver::Driven;
use crate::{fuse, nbd};
use atrest_engine::store_scheme;
use atrest_nbd::Uri;
use core::fmt;
use process::Process;
use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use state::{Content, path_json, read_entry, write_temporary};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How an open volume is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// NBD over a Unix socket.
    NbdUnix {
        /// The socket's absolute path.
        #[serde(with = "path_json")]
        socket: PathBuf,
        /// What clients connect to.
        uri: String,
    },
    /// NBD over loopback TCP.
    NbdTcp {
        /// The address.
        address: SocketAddr,
        /// What clients connect to.
        uri: String,
    },
    /// A disk for virtual machines.
    VhostUser {
        /// The socket's absolute path.
        #[serde(with = "path_json")]
        socket: PathBuf,
    },
    /// A mounted file.
    Fuse {
        /// The mounted directory's absolute path.
        #[serde(with = "path_json")]
        directory: PathBuf,
        /// Which of the mounts that the directory may have.
        mount: fuse::MountId,
        /// Whether it shows the files inside the volume rather than the volume.
        #[serde(default)]
        tree: bool,
        /// What mounts the file system in the file elsewhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        driver: Option<Driver>,
    },
}

impl Kind {
    /// How a bound server is reached.
    pub fn of_server(server: &nbd::Server) -> Self {
        let uri = server.uri();
        match server.endpoint() {
            nbd::Endpoint::Unix(socket) => Kind::NbdUnix { socket: socket.clone(), uri },
            nbd::Endpoint::Tcp(address) => Kind::NbdTcp { address: *address, uri },
        }
    }

    /// How a disk for virtual machines is reached.
    #[cfg(feature = "vhost-user")]
    pub fn of_disk(server: &crate::vhost_user::Server) -> Self {
        Kind::VhostUser { socket: server.socket().into() }
    }

    /// How a mounted volume is reached.
    pub fn of_mount(mount: &fuse::Mount) -> Self {
        let (directory, tree) = (mount.directory().into(), mount.is_tree());
        Kind::Fuse { directory, mount: mount.id(), tree, driver: None }
    }

    /// How a volume is reached whose file system a driver mounts.
    pub fn of_driven(driven: &Driven) -> Self {
        let (directory, mount) = driven.file();
        let driver = Some(Driver::of(driven));
        Kind::Fuse { directory: directory.into(), mount, tree: false, driver }
    }

    /// The driver of the file system in it, if there is one.
    pub fn driver(&self) -> Option<&Driver> {
        match self {
            Kind::Fuse { driver, .. } => driver.as_ref(),
            Kind::NbdUnix { .. } | Kind::NbdTcp { .. } | Kind::VhostUser { .. } => None,
        }
    }
}

/// An open volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name under which it can be closed.
    pub name: String,
    /// The volume's absolute path.
    #[serde(with = "path_json")]
    pub path: PathBuf,
    /// How it is reached.
    pub kind: Kind,
    /// Whether writes are refused.
    pub read_only: bool,
    /// When it was opened, in seconds since 1970.
    pub since: u64,
    /// Why what was written may not be on the media. The serving process refuses writes, or has ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Whether its keys are wiped and its clients wait.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub suspended: bool,
    /// The serving process.
    process: Process,
    /// Whether it lived when this was read.
    #[serde(skip)]
    alive: bool,
}

impl Entry {
    /// An entry for a volume that this process serves from now on.
    ///
    /// # Errors
    /// The system's error if `path` is not there, or /proc does not tell of this process.
    pub fn new(name: &str, path: &Path, kind: Kind, read_only: bool) -> io::Result<Self> {
        Ok(Self {
            name: name.into(),
            path: if is_url(path) { path.into() } else { path.canonicalize()? },
            kind,
            read_only,
            since: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            failed: None,
            suspended: false,
            process: Process::current()?,
            alive: true,
        })
    }

    /// The serving process's id.
    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Whether the serving process was gone when this was read. Such an entry is kept only to say why it [`failed`](Self::failed).
    pub fn has_ended(&self) -> bool {
        !self.alive
    }
}

/// Why the registry can't be used.
#[non_exhaustive]
#[derive(Debug)]
pub enum SessionError {
    /// The name is empty, longer than 64 bytes, starts with a dot, or holds other characters than ASCII letters,
    /// digits, `.`, `-` and `_`.
    Name {
        /// The name.
        name: String,
    },
    /// An open volume has the name.
    NameTaken {
        /// The name.
        name: String,
        /// The serving process's id.
        pid: i32,
    },
    /// Another version of this program, or something else, holds the state file of that name.
    Foreign {
        /// The state file.
        path: PathBuf,
    },
    /// Others could change what the directory says.
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// How.
        why: Distrust,
    },
    /// The directory or a file in it can't be used.
    File {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Name { name } => write!(
                f,
                "{name:?} is not a name: use up to 64 letters, digits, '.', '-' and '_', with no '.' in front"
            ),
            SessionError::NameTaken { name, pid } => {
                write!(f, "a volume named {name} is open already, served by process {pid}")
            }
            SessionError::Foreign { path } => write!(
                f,
                "{} belongs to an open volume that another version of atrest serves",
                path.display()
            ),
            SessionError::Untrusted { path, why } => {
                write!(f, "{} is not used for the list of open volumes: {why}", path.display())
            }
            SessionError::File { path, error } => write!(f, "cannot use {}: {error}", path.display()),
        }
    }
}

impl core::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            SessionError::File { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The directory of state files.
pub struct Registry {
    path: PathBuf,
    /// Why it is not the usual directory.
    passed_over: Option<SessionError>,
}

/// This process's entry; dropping it takes it out of the registry, unless the session failed.
#[must_use]
pub struct Registration {
    record: Arc<Record>,
}

/// Leaves word in the registry of what has gone wrong.
#[derive(Clone)]
pub struct Word(Arc<Record>);

/// What the state file says of this process.
struct Record {
    file: PathBuf,
    state: Mutex<State>,
}

struct State {
    entry: Entry,
    /// The state file: its lock says that this process lives.
    held: Option<File>,
}

const SUFFIX: &str = ".json";
/// Names of working directories that are tried.
const WORKING_DIRECTORIES: u32 = 1000;

impl Registry {
    /// Adds this process's entry. Its name is free, or the one that had it is dead.
    ///
    /// # Errors
    /// [`SessionError::Name`] for a name that can't be one, [`SessionError::NameTaken`] if an open volume has
    /// it, [`SessionError::Foreign`] if a file of that name is somebody else's, [`SessionError::File`] if the
    /// registry can't be written.
    pub fn register(&self, entry: Entry) -> Result<Registration, SessionError> {
        if !is_name(&entry.name) {
            return Err(SessionError::Name { name: entry.name });
        }
        let directory = self.lock()?;
        let file = self.file(&entry.name);
        let failed = |error: io::Error| SessionError::File { path: file.clone(), error };
        match Self::sweep(&file)? {
            Content::Live(other) => {
                return Err(SessionError::NameTaken { name: entry.name, pid: other.process.pid });
            }
            Content::Foreign => return Err(SessionError::Foreign { path: file }),
            Content::Failed(old) => {
                remove_remains(&file, Some(&old.kind));
                std::fs::remove_file(&file).map_err(failed)?;
            }
            Content::Absent | Content::Stale(_) => {}
        }
        let (temporary, held) = write_temporary(&file, &entry).map_err(failed)?;
        // The directory is locked and the name was free a moment ago, which old file systems have to be content with.
        let moved = match rustix::fs::renameat_with(
            &directory,
            &temporary,
            &directory,
            &file,
            RenameFlags::NOREPLACE,
        ) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::renameat(&directory, &temporary, &directory, &file)
            }
            moved => moved,
        };
        if let Err(error) = moved {
            let _ = std::fs::remove_file(&temporary);
            return Err(failed(error.into()));
        }
        let record = Record { file, state: Mutex::new(State { entry, held: Some(held) }) };
        Ok(Registration { record: Arc::new(record) })
    }

    /// Everything that is open, by name. What is stale is removed.
    ///
    /// # Errors
    /// [`SessionError::File`] if the registry can't be read, or what is stale can't be removed.
    pub fn list(&self) -> Result<Vec<Entry>, SessionError> {
        let failed = |error| SessionError::File { path: self.path.clone(), error };
        let mut entries = Vec::new();
        for file in std::fs::read_dir(&self.path).map_err(failed)? {
            let name = file.map_err(failed)?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            if let Some(stem) = stem.filter(|stem| is_name(stem)) {
                entries.extend(self.entry(&self.file(stem))?.filter(|entry| entry.name == stem));
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The open volume of that name, or else the first with that path.
    ///
    /// # Errors
    /// [`SessionError::File`] if the registry can't be read. A path that is not there is no error.
    pub fn find(&self, name_or_path: impl AsRef<Path>) -> Result<Option<Entry>, SessionError> {
        Ok(self.find_all(name_or_path)?.into_iter().next())
    }

    /// The open volume of that name, or else all with that path.
    ///
    /// # Errors
    /// [`SessionError::File`] if the registry can't be read. A path that is not there is no error.
    pub fn find_all(&self, name_or_path: impl AsRef<Path>) -> Result<Vec<Entry>, SessionError> {
        let name_or_path = name_or_path.as_ref();
        if let Some(name) = name_or_path.to_str().filter(|name| is_name(name))
            && let Some(entry) = self.entry(&self.file(name))?
        {
            return Ok(vec![entry]);
        }
        let path = match name_or_path.canonicalize() {
            Ok(path) => path,
            // A URI is compared as it was written.
            Err(_) if is_url(name_or_path) => name_or_path.into(),
            Err(_) => return Ok(Vec::new()),
        };
        Ok(self.list()?.into_iter().filter(|entry| entry.path == path).collect())
    }

    /// A name for a volume: its file name without an extension, made unique among what is open.
    ///
    /// # Errors
    /// [`SessionError::File`] if the registry can't be read.
    pub fn free_name(&self, path: &Path) -> Result<String, SessionError> {
        let stem = path.file_stem().map_or("volume".into(), |stem| stem.to_string_lossy().into_owned());
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let stem: String = stem.chars().map(|c| if allowed(c) { c } else { '-' }).take(48).collect();
        let stem = match stem.trim_start_matches('.') {
            "" => "volume",
            stem => stem,
        };
        let mut name = stem.to_owned();
        let mut number = 2u32;
        while !matches!(self.read(&self.file(&name))?, Content::Absent) {
            name = format!("{stem}-{number}");
            number += 1;
        }
        Ok(name)
    }

    /// Where a volume's NBD socket lies unless somebody chooses another place: in the registry's own directory.
    ///
    /// # Errors
    /// [`SessionError::Name`] for a name that can't be one.
    pub fn socket(&self, name: &str) -> Result<PathBuf, SessionError> {
        if !is_name(name) {
            return Err(SessionError::Name { name: name.into() });
        }
        Ok(self.path.join(format!("{name}.sock")))
    }

    /// Where the process that serves the files of that name can be asked for something.
    ///
    /// # Errors
    /// [`SessionError::Name`] for a name that can't be one.
    pub fn control_socket(&self, name: &str) -> Result<PathBuf, SessionError> {
        if !is_name(name) {
            return Err(SessionError::Name { name: name.into() });
        }
        Ok(self.path.join(format!("{name}.control")))
    }

    /// Where the process that serves the volume of that name can be asked what it has counted.
    ///
    /// # Errors
    /// [`SessionError::Name`] for a name that can't be one.
    pub fn metrics_socket(&self, name: &str) -> Result<PathBuf, SessionError> {
        if !is_name(name) {
            return Err(SessionError::Name { name: name.into() });
        }
        Ok(self.path.join(format!("{name}.metrics")))
    }

    /// Makes an empty directory that this user alone can enter, for the file that a driver works on. It is named by this process.
    ///
    /// # Errors
    /// [`SessionError::File`] if none can be made.
    pub fn working_directory(&self) -> Result<PathBuf, SessionError> {
        let mut number = 1;
        loop {
            let path = self.path.join(format!("mount-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                // A process that was killed has left its own.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < WORKING_DIRECTORIES =>
                {
                    number += 1
                }
                Err(error) => return Err(SessionError::File { path, error }),
                Ok(()) => return Ok(path),
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{SUFFIX}"))
    }

    fn lock(&self) -> Result<OwnedFd, SessionError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.path, flags, Mode::empty())
            .and_then(|directory| {
                rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
                Ok(directory)
            })
            .map_err(|error| SessionError::File { path: self.path.clone(), error: error.into() })
    }

    /// The entry in a file, if it can be understood.
    fn entry(&self, file: &Path) -> Result<Option<Entry>, SessionError> {
        match self.read(file)? {
            Content::Live(entry) | Content::Failed(entry) => Ok(Some(entry)),
            Content::Absent | Content::Foreign | Content::Stale(_) => Ok(None),
        }
    }

    /// What is in a file; one that is stale is removed.
    fn read(&self, file: &Path) -> Result<Content, SessionError> {
        match read_entry(file)? {
            Content::Stale(_) => {
                let _locked = self.lock()?;
                Self::sweep(file)
            }
            content => Ok(content),
        }
    }

    /// What is in a file; one that is stale is removed with what its process left. The caller has locked the directory:
    /// nobody puts a new file in the place of a stale one between the look and the removal.
    fn sweep(file: &Path) -> Result<Content, SessionError> {
        let stale = match read_entry(file)? {
            Content::Stale(stale) => stale,
            content => return Ok(content),
        };
        remove_remains(file, stale.as_ref());
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SessionError::File { path: file.into(), error })
            }
            _ => Ok(Content::Absent),
        }
    }
}

impl Registration {
    /// What is registered.
    pub fn entry(&self) -> Entry {
        self.record.state().entry.clone()
    }

    /// A way to leave word of what goes wrong while the volume is served.
    pub fn word(&self) -> Word {
        Word(self.record.clone())
    }

    /// Takes the entry out of the registry, but leaves word there of why what was written may not be on the media.
    pub fn fail(self, failure: &str) {
        self.record.fail(failure);
    }
}

impl Word {
    /// Says why what was written may not be on the media. The first word counts.
    pub fn fail(&self, failure: &str) {
        self.0.fail(failure);
    }

    /// Says whether the volume is suspended.
    pub fn suspended(&self, suspended: bool) {
        let mut state = self.0.state();
        state.entry.suspended = suspended;
        self.0.write(&mut state);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.record.state();
        if state.entry.failed.is_none() {
            let _ = std::fs::remove_file(&self.record.file);
        }
        state.held = None;
    }
}

impl Record {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first failure counts: the others follow from it.
    fn fail(&self, failure: &str) {
        let mut state = self.state();
        if state.entry.failed.is_none() && self.file.exists() {
            state.entry.failed = Some(failure.into());
            self.write(&mut state);
        }
    }

    /// Has the state file say what the entry does. Without a registry there is nobody to tell.
    fn write(&self, state: &mut State) {
        if self.file.exists()
            && let Ok((temporary, held)) = write_temporary(&self.file, &state.entry)
            && std::fs::rename(&temporary, &self.file).is_ok()
        {
            state.held = Some(held);
        }
    }
}

/// Clears away what a process left behind that was killed, beside its state file and elsewhere.
fn remove_remains(file: &Path, kind: Option<&Kind>) {
    // Nobody listens there: the process that did is dead.
    for socket in ["control", "metrics"] {
        let _ = std::fs::remove_file(file.with_extension(socket));
    }
    let Some(kind) = kind else { return };
    match kind {
        Kind::NbdUnix { socket, .. } | Kind::VhostUser { socket } => {
            use std::os::unix::{fs::FileTypeExt, net::UnixStream};
            let is_socket = std::fs::symlink_metadata(socket).is_ok_and(|m| m.file_type().is_socket());
            let dead =
                || UnixStream::connect(socket).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
            if is_socket && dead() {
                let _ = std::fs::remove_file(socket);
            }
        }
        Kind::NbdTcp { .. } => {}
        Kind::Fuse { directory, mount, driver, .. } => {
            if let Some(driver) = driver {
                driver.clear();
            }
            // Another mount may have taken the place, so it is asked. Opening, unlike a look at attributes, is
            // never answered from a cache; it waits if the dead process has not quite let go.
            let dead = std::fs::read_dir(directory).is_err_and(|error| {
                matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED))
            });
            if dead {
                let _ = mount.unmount(directory, true);
            }
            if driver.is_some() {
                // It was made for this mount. What still holds it is told by its being there.
                let _ = std::fs::remove_dir(directory);
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(allowed)
}

/// Whether a volume is named by a URL, which is no path of this machine: an export of a server, or a store of objects.
fn is_url(path: &Path) -> bool {
    Uri::is_meant(path) || store_scheme(path).is_some()
}

#[cfg(test)]
mod tests;
