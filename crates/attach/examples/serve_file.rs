//! Serves a plain file by NBD or FUSE: the identity baseline for measurements, and a server for tests.
//!
//! `serve_file FILE (--nbd SOCKET | --tcp ADDRESS | --fuse DIR) [--read-only] [--cached] [--daemon] [--registry DIR]
//! [--name NAME] [--run CMD...]` serves until SIGTERM, SIGINT or SIGHUP, or until CMD ends.

use atrest_attach::{fuse, nbd, serve, session};
use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation};
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

struct PlainFile {
    file: File,
    size: u64,
    read_only: bool,
}

fn failed(operation: Operation, offset: u64, len: usize, error: &std::io::Error) -> DeviceError {
    let cause = error.raw_os_error().map_or(Cause::UnexpectedEnd, Cause::Os);
    DeviceError::new(operation, offset, len as u64, cause)
}

impl BlockDevice for PlainFile {
    fn size(&self) -> u64 {
        self.size
    }
    fn geometry(&self) -> Geometry {
        Geometry::default()
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len();
        self.file.read_exact_at(buf, offset).map_err(|e| failed(Operation::Read, offset, len, &e))
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        self.file.write_all_at(data, offset).map_err(|e| failed(Operation::Write, offset, data.len(), &e))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(|e| failed(Operation::Flush, 0, 0, &e))
    }
}

#[derive(Default)]
struct Arguments {
    file: PathBuf,
    endpoint: Option<nbd::Endpoint>,
    directory: Option<PathBuf>,
    read_only: bool,
    cached: bool,
    daemon: bool,
    registry: Option<PathBuf>,
    name: Option<String>,
    command: Option<Command>,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut parsed = Arguments::default();
    let mut words = std::env::args_os().skip(1);
    parsed.file = words.next().ok_or("the file is missing")?.into();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{} needs a value", word.display()));
        match word.to_str().ok_or("an option is not UTF-8")? {
            "--nbd" => parsed.endpoint = Some(nbd::Endpoint::Unix(value()?.into())),
            "--tcp" => {
                let address = value()?.into_string().map_err(|_| "the address is not UTF-8")?;
                parsed.endpoint = Some(nbd::Endpoint::Tcp(address.parse()?));
            }
            "--fuse" => parsed.directory = Some(value()?.into()),
            "--read-only" => parsed.read_only = true,
            "--cached" => parsed.cached = true,
            "--daemon" => parsed.daemon = true,
            "--registry" => parsed.registry = Some(value()?.into()),
            "--name" => parsed.name = Some(value()?.into_string().map_err(|_| "the name is not UTF-8")?),
            "--run" => {
                let mut command = Command::new(value()?);
                command.args(words.by_ref().collect::<Vec<OsString>>());
                parsed.command = Some(command);
            }
            other => return Err(format!("{other} is not an option").into()),
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    match serve_file() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("serve_file: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve_file() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = arguments()?;
    let background = match arguments.daemon.then(serve::daemonize).transpose()? {
        Some(serve::Daemonized::Parent { status }) => return Ok(status.into()),
        Some(serve::Daemonized::Child(background)) => Some(background),
        None => None,
    };
    let signals = serve::Signals::install()?;
    let read_only = arguments.read_only;
    let file = File::options().read(true).write(!read_only).open(&arguments.file)?;
    let size = file.metadata()?.len();
    let device = Arc::new(PlainFile { file, size, read_only });
    let (face, kind) = match (&arguments.endpoint, &arguments.directory) {
        (Some(endpoint), None) => {
            let server = nbd::Server::bind(device, endpoint, nbd::Options::default())?;
            let kind = session::Kind::of_server(&server);
            (serve::Face::Nbd(server), kind)
        }
        (None, Some(directory)) => {
            let options = fuse::Options { cached: arguments.cached, ..fuse::Options::default() };
            let mount = fuse::mount(device, directory, &options)?;
            let kind = session::Kind::of_mount(&mount);
            (serve::Face::Fuse(mount), kind)
        }
        _ => return Err("one of --nbd, --tcp and --fuse is needed".into()),
    };
    let _registration = match arguments.registry {
        Some(path) => {
            let registry = session::Registry::at(path)?;
            let name = arguments.name.map_or_else(|| registry.free_name(&arguments.file), Ok)?;
            let entry = session::Entry::new(&name, &arguments.file, kind, read_only)?;
            Some(registry.register(entry)?)
        }
        None => None,
    };
    let plan = serve::Plan { signals, command: arguments.command, background, ready: None, gate: None };
    match serve::run(face, plan)? {
        serve::End::Command { status, killed } => {
            if killed {
                eprintln!("serve_file: the command was killed");
            }
            Ok(status.into())
        }
        serve::End::Signal(_) | serve::End::Unmounted => Ok(ExitCode::SUCCESS),
    }
}
