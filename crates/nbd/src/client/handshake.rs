//! The negotiation (doc/proto.md of the NBD project, "Newstyle negotiation").

use atrest_codec::{Be, decode};

use super::input::Input;
use crate::error::{Broken, ConnectError};
use crate::proto::{
    ALLOCATION_CONTEXT, MAX_PAYLOAD, NBD_MAGIC, OLDSTYLE_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    export_flag, handshake_flag, info, option, option_reply,
};
use crate::tls::ClientTls;
use crate::wire::Wire;

/// A reply to an option is not longer: two strings of 4096 bytes, and some numbers.
const MAX_REPLY: u32 = 10_000;
/// An option has no more replies.
const MAX_REPLIES: u32 = 64;
/// The largest of the smallest block sizes that the protocol allows.
const MAX_MINIMUM: u32 = 64 << 10;

/// What client and server agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Bytes in the export.
    pub size: u64,
    /// Transmission flags.
    pub flags: u16,
    /// Requests begin and end at multiples of this.
    pub minimum: u32,
    /// Requests that begin and end at multiples of this are fast.
    pub preferred: u32,
    /// No request carries more bytes.
    pub maximum: u32,
    /// Replies are structured.
    pub structured: bool,
    /// The number of the context that tells holes, if the server has it.
    pub allocation: Option<u32>,
}

impl Terms {
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// A connection whose server is asked one option after the other.
pub struct Handshake<'a> {
    pub wire: &'a Wire,
    pub input: &'a mut Input,
}

impl Handshake<'_> {
    /// Negotiates everything. Behind it come requests.
    pub fn run(&mut self, export: &str, tls: Option<&ClientTls>) -> Result<Terms, ConnectError> {
        let flags = self.greeting()?;
        let no_zeroes = flags & handshake_flag::NO_ZEROES != 0;
        if flags & handshake_flag::FIXED_NEWSTYLE == 0 {
            // Such a server knows one option, and ends the connection at any other.
            return match tls {
                Some(_) => Err(ConnectError::TlsRefused { reply: 0 }),
                None => self.export_name(export, no_zeroes),
            };
        }
        if let Some(tls) = tls {
            self.start_tls(tls)?;
        }
        let structured = self.structured()?;
        let allocation = if structured { self.allocation(export)? } else { None };
        match self.go(export)? {
            Some(terms) => Ok(Terms { structured, allocation, ..terms }),
            None => Ok(Terms { structured, allocation, ..self.export_name(export, no_zeroes)? }),
        }
    }

    /// The server's first words, and the client's: the handshake flags that count.
    fn greeting(&mut self) -> Result<u16, ConnectError> {
        let (Be(magic), Be(style)): (Be<u64>, Be<u64>) = decode(&self.input.array::<16>(self.wire)?);
        match (magic, style) {
            (NBD_MAGIC, OPTION_MAGIC) => {}
            (NBD_MAGIC, OLDSTYLE_MAGIC) => return Err(ConnectError::Oldstyle),
            _ => return Err(ConnectError::NotNbd),
        }
        let offered = u16::from_be_bytes(self.input.array(self.wire)?);
        let known = offered & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        self.send(&[&u32::from(known).to_be_bytes()])?;
        Ok(known)
    }

    fn start_tls(&mut self, tls: &ClientTls) -> Result<(), ConnectError> {
        self.ask(option::STARTTLS, &[])?;
        match self.reply(option::STARTTLS)? {
            Reply { kind: option_reply::ACK, data } if data.is_empty() => {}
            Reply { kind, .. } if kind & option_reply::ERROR != 0 => {
                return Err(ConnectError::TlsRefused { reply: kind });
            }
            Reply { kind, .. } => return Err(Broken::Kind { found: kind }.into()),
        }
        self.input.check_empty()?;
        Ok(self.wire.connect_tls(tls, self.input.deadline())?)
    }

    fn structured(&mut self) -> Result<bool, ConnectError> {
        self.ask(option::STRUCTURED_REPLY, &[])?;
        match self.reply(option::STRUCTURED_REPLY)?.kind {
            option_reply::ACK => Ok(true),
            kind => self.is_not_had(kind).map(|()| false),
        }
    }

    /// The number of the context `base:allocation`.
    fn allocation(&mut self, export: &str) -> Result<Option<u32>, ConnectError> {
        let context = ALLOCATION_CONTEXT.as_bytes();
        let (name_len, context_len) =
            ((export.len() as u32).to_be_bytes(), (context.len() as u32).to_be_bytes());
        self.ask(
            option::SET_META_CONTEXT,
            &[&name_len, export.as_bytes(), &1_u32.to_be_bytes(), &context_len, context],
        )?;
        let mut number = None;
        for _ in 0..MAX_REPLIES {
            let Reply { kind, data } = self.reply(option::SET_META_CONTEXT)?;
            match (kind, data.split_first_chunk()) {
                (option_reply::ACK, _) => return Ok(number),
                (option_reply::META_CONTEXT, Some((id, name))) if name == context => {
                    number = Some(u32::from_be_bytes(*id));
                }
                // It was not asked for.
                (option_reply::META_CONTEXT, _) => return Err(Broken::Kind { found: kind }.into()),
                // The export may be one that is not there: `go` asks for it again.
                (option_reply::ERR_UNKNOWN, _) => return Ok(None),
                (kind, _) => return self.is_not_had(kind).map(|()| None),
            }
        }
        Err(Broken::TooMany.into())
    }

    /// Asks for the export; `None` if the server does not know how this is asked.
    fn go(&mut self, export: &str) -> Result<Option<Terms>, ConnectError> {
        let (len, requests) = ((export.len() as u32).to_be_bytes(), [0, 1]);
        self.ask(option::GO, &[&len, export.as_bytes(), &requests, &info::BLOCK_SIZE.to_be_bytes()])?;
        let (mut told, mut sizes) = (None, None);
        for _ in 0..MAX_REPLIES {
            let Reply { kind, data } = self.reply(option::GO)?;
            match kind {
                option_reply::ACK => {
                    let (size, flags) = told.ok_or(Broken::NoSize)?;
                    return terms(size, flags, sizes).map(Some);
                }
                option_reply::INFO => {
                    let broken = Broken::Length { len: data.len() as u32 };
                    let (what, data) = data.split_first_chunk().ok_or(broken)?;
                    match u16::from_be_bytes(*what) {
                        info::EXPORT => {
                            let (Be(size), Be(flags)): (Be<u64>, Be<u16>) =
                                decode::<_, 10>(data.try_into().map_err(|_| broken)?);
                            told = Some((size, flags));
                        }
                        info::BLOCK_SIZE => {
                            let (Be(minimum), Be(preferred), Be(maximum)): (Be<u32>, Be<u32>, Be<u32>) =
                                decode::<_, 12>(data.try_into().map_err(|_| broken)?);
                            sizes = Some((minimum, preferred, maximum));
                        }
                        // A name or a description: of no use here.
                        _ => {}
                    }
                }
                option_reply::ERR_UNSUPPORTED => return Ok(None),
                option_reply::ERR_TLS_REQUIRED => return Err(ConnectError::TlsRequired),
                option_reply::ERR_UNKNOWN => return Err(ConnectError::UnknownExport),
                kind if kind & option_reply::ERROR != 0 => return Err(ConnectError::Refused { reply: kind }),
                kind => return Err(Broken::Kind { found: kind }.into()),
            }
        }
        Err(Broken::TooMany.into())
    }

    /// Asks as clients did before `NBD_OPT_GO`. A server that has no such export ends the connection.
    fn export_name(&mut self, export: &str, no_zeroes: bool) -> Result<Terms, ConnectError> {
        self.ask(option::EXPORT_NAME, &[export.as_bytes()])?;
        let (Be(size), Be(flags)): (Be<u64>, Be<u16>) = decode(&self.input.array::<10>(self.wire)?);
        if !no_zeroes {
            self.input.skip(self.wire, 124)?;
        }
        terms(size, flags, None)
    }

    /// Whether the server merely lacks what was asked for.
    fn is_not_had(&self, kind: u32) -> Result<(), ConnectError> {
        match kind {
            option_reply::ERR_TLS_REQUIRED => Err(ConnectError::TlsRequired),
            kind if kind & option_reply::ERROR != 0 => Ok(()),
            kind => Err(Broken::Kind { found: kind }.into()),
        }
    }

    fn ask(&self, option: u32, data: &[&[u8]]) -> Result<(), ConnectError> {
        let len: usize = data.iter().map(|part| part.len()).sum();
        let head =
            [&OPTION_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &(len as u32).to_be_bytes()].concat();
        self.send(&[&[&head[..]], data].concat())
    }

    fn send(&self, parts: &[&[u8]]) -> Result<(), ConnectError> {
        let message = parts.concat();
        Ok(self.wire.send(&mut [std::io::IoSlice::new(&message)])?)
    }

    fn reply(&mut self, option: u32) -> Result<Reply, ConnectError> {
        let (Be(magic), Be(to), Be(kind), Be(len)): (Be<u64>, Be<u32>, Be<u32>, Be<u32>) =
            decode(&self.input.array::<20>(self.wire)?);
        if magic != OPTION_REPLY_MAGIC {
            return Err(Broken::Magic { found: magic }.into());
        }
        if to != option {
            return Err(Broken::Option { found: to }.into());
        }
        if len > MAX_REPLY {
            return Err(Broken::Length { len }.into());
        }
        let mut data = vec![0; len as usize];
        self.input.fill(self.wire, &mut data)?;
        Ok(Reply { kind, data })
    }
}

struct Reply {
    kind: u32,
    data: Vec<u8>,
}

/// Size and block sizes, checked.
fn terms(size: u64, flags: u16, sizes: Option<(u32, u32, u32)>) -> Result<Terms, ConnectError> {
    if size > i64::MAX as u64 {
        return Err(ConnectError::TooLarge { size });
    }
    // intended: these hold where a server says nothing of them.
    let (minimum, preferred, maximum) = sizes.unwrap_or((1, 4096, MAX_PAYLOAD));
    let possible = minimum.is_power_of_two()
        && minimum <= MAX_MINIMUM
        && preferred.is_power_of_two()
        && preferred >= minimum
        && maximum >= minimum
        && (maximum == u32::MAX || maximum.is_multiple_of(minimum));
    if !possible {
        return Err(ConnectError::BlockSizes { minimum, preferred, maximum });
    }
    // What lies behind the last whole block can't be asked for.
    let size = size / u64::from(minimum) * u64::from(minimum);
    let flags = if flags & export_flag::HAS_FLAGS == 0 { 0 } else { flags };
    Ok(Terms { size, flags, minimum, preferred, maximum, structured: false, allocation: None })
}
