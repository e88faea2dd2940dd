//! Serves a plain file by NBD: the identity baseline for measurements, and a server for tests.
//!
//! `serve_file FILE SOCKET [--read-only]` prints its URI when it is ready and serves until SIGTERM or SIGINT.

use atrest_attach::nbd;
use atrest_device::{BlockDevice, Cause, DeviceError, Extent, Operation};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

struct PlainFile {
    file: File,
    size: u64,
    read_only: bool,
}

impl PlainFile {
    fn failed(operation: Operation, offset: u64, len: usize, error: std::io::Error) -> DeviceError {
        let cause = error.raw_os_error().map_or(Cause::UnexpectedEnd, Cause::Os);
        DeviceError::new(operation, offset, len as u64, cause)
    }
}

impl BlockDevice for PlainFile {
    fn size(&self) -> u64 {
        self.size
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len();
        self.file.read_exact_at(buf, offset).map_err(|e| Self::failed(Operation::Read, offset, len, e))
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        self.file.write_all_at(data, offset).map_err(|e| Self::failed(Operation::Write, offset, data.len(), e))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(|e| Self::failed(Operation::Flush, 0, 0, e))
    }
    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.check_range(Operation::Read, offset, len)?;
        Ok(Extent { len, hole: false })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [file, socket, rest @ ..] = arguments.as_slice() else {
        return Err("usage: serve_file FILE SOCKET [--read-only]".into());
    };
    let read_only = rest.iter().any(|argument| argument == "--read-only");
    let file = File::options().read(true).write(!read_only).open(file)?;
    let size = file.metadata()?.len();
    let device = Arc::new(PlainFile { file, size, read_only });
    let server = nbd::Server::bind(device, &nbd::Endpoint::Unix(socket.into()), nbd::Options::default())?;
    println!("{}", server.uri());
    server.run()?;
    Ok(())
}
