//! A small NBD client over a Unix socket, to know exactly which writes a server has acknowledged.
//!
//! Follows <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: fixed newstyle, `NBD_OPT_GO`, simple replies.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const FLAG_FIXED_NEWSTYLE: u16 = 1;
const FLAG_NO_ZEROES: u16 = 2;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;

/// A command of the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum NbdCommand {
    /// Read bytes.
    Read = 0,
    /// Write bytes.
    Write = 1,
    /// Disconnect; there is no reply.
    Disconnect = 2,
    /// Make completed writes durable.
    Flush = 3,
    /// Tell that bytes are no longer used.
    Trim = 4,
    /// Write zeros.
    WriteZeroes = 6,
}

/// A connection in the transmission phase.
#[derive(Debug)]
pub struct NbdClient {
    stream: UnixStream,
    size: u64,
    flags: u16,
    cookie: u64,
}

impl NbdClient {
    /// Connects to the default export.
    ///
    /// # Errors
    /// If nobody listens there, no answer comes for a minute, or the server does not follow the protocol or
    /// refuses the export.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        expect(&greeting[..8] == b"NBDMAGIC" && greeting[8..16] == OPTION_MAGIC.to_be_bytes(), "greeting")?;
        let server = u16::from_be_bytes([greeting[16], greeting[17]]);
        expect(server & FLAG_FIXED_NEWSTYLE != 0, "fixed newstyle")?;
        let client = u32::from(server & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES));
        stream.write_all(&client.to_be_bytes())?;

        let mut go = Vec::new();
        go.extend(OPTION_MAGIC.to_be_bytes());
        go.extend(OPT_GO.to_be_bytes());
        go.extend(6u32.to_be_bytes());
        go.extend(0u32.to_be_bytes()); // no export name
        go.extend(0u16.to_be_bytes()); // no information requests
        stream.write_all(&go)?;

        let (mut size, mut flags) = (None, 0);
        loop {
            let mut header = [0; 20];
            stream.read_exact(&mut header)?;
            expect(header[..8] == REPLY_MAGIC.to_be_bytes(), "magic of an option reply")?;
            let kind = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
            let len = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
            expect(len < 65536, "length of an option reply")?;
            let mut payload = vec![0; len as usize];
            stream.read_exact(&mut payload)?;
            match kind {
                REP_ACK => break,
                REP_INFO if payload.len() == 12 && payload[..2] == INFO_EXPORT.to_be_bytes() => {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(&payload[2..10]);
                    size = Some(u64::from_be_bytes(bytes));
                    flags = u16::from_be_bytes([payload[10], payload[11]]);
                }
                REP_INFO => {}
                _ => return Err(io::Error::other(format!("the server refused the export: reply {kind:#x}"))),
            }
        }
        let size = size.ok_or_else(|| io::Error::other("the server told no size"))?;
        Ok(Self { stream, size, flags, cookie: 0 })
    }

    /// Bytes in the export.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The export's transmission flags.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// With the server's error number, if the connection breaks off, or if a reply does not follow the
    /// protocol. All commands share this.
    pub fn read(&mut self, offset: u64, len: u32) -> io::Result<Vec<u8>> {
        self.send(NbdCommand::Read, offset, len, &[])?;
        self.reply()?;
        let mut bytes = vec![0; len as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes bytes; `Ok` means that the server acknowledged them.
    ///
    /// # Errors
    /// What [`read`](Self::read) fails with.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.send(NbdCommand::Write, offset, bytes.len() as u32, bytes)?;
        self.reply()
    }

    /// Flushes; `Ok` means that all acknowledged writes are durable.
    ///
    /// # Errors
    /// What [`read`](Self::read) fails with.
    pub fn flush(&mut self) -> io::Result<()> {
        self.send(NbdCommand::Flush, 0, 0, &[])?;
        self.reply()
    }

    /// Writes zeros.
    ///
    /// # Errors
    /// What [`read`](Self::read) fails with.
    pub fn write_zeroes(&mut self, offset: u64, len: u32) -> io::Result<()> {
        self.send(NbdCommand::WriteZeroes, offset, len, &[])?;
        self.reply()
    }

    /// The bare connection, to send what a client should not.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Leaves in good order.
    ///
    /// # Errors
    /// If the connection is broken already.
    pub fn disconnect(mut self) -> io::Result<()> {
        self.send(NbdCommand::Disconnect, 0, 0, &[])
    }

    fn send(&mut self, command: NbdCommand, offset: u64, len: u32, payload: &[u8]) -> io::Result<()> {
        self.cookie += 1;
        let mut request = Vec::with_capacity(28 + payload.len());
        request.extend(REQUEST_MAGIC.to_be_bytes());
        request.extend(0u16.to_be_bytes());
        request.extend((command as u16).to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(payload);
        self.stream.write_all(&request)
    }

    fn reply(&mut self) -> io::Result<()> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        expect(reply[..4] == SIMPLE_REPLY_MAGIC.to_be_bytes(), "magic of a reply")?;
        expect(reply[8..] == self.cookie.to_be_bytes(), "cookie of a reply")?;
        match u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }
}

fn expect(condition: bool, what: &str) -> io::Result<()> {
    if condition { Ok(()) } else { Err(io::Error::other(format!("NBD: unexpected {what}"))) }
}
