//! Fixed newstyle negotiation (NBD protocol, section "Newstyle negotiation"): from the first byte to the start of
//! transmission. Every length that a client names is checked before anything is read for it.

use super::proto::{
    ALLOCATION_CONTEXT, ALLOCATION_CONTEXT_ID, MAX_PAYLOAD, MAX_STRING, NBD_MAGIC, OPTION_MAGIC, export_flag,
    handshake_flag, info, option, option_reply, option_reply_header,
};
use super::stream::{Input, Lost, Output};
use atrest_codec::{Be, ReadError, Reader, decode, encode};
use atrest_device::BlockDevice;
use atrest_nbd::tls::Tls;
use std::sync::Arc;

/// What is served, and under which name.
pub(super) struct Export {
    pub name: String,
    pub device: Arc<dyn BlockDevice>,
    /// Where there is this, clients have to begin with TLS.
    pub tls: Option<Tls>,
}

/// What a client has negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// Structured replies instead of simple ones.
    pub structured: bool,
    /// Block status may be asked for the context `base:allocation`.
    pub allocation: bool,
}

/// Longest data of one option that is looked at, in bytes: an export name and some queries.
const MAX_OPTION_DATA: u32 = 16 << 10;
/// Longest data of one option that is skipped rather than taken for an attack, in bytes.
const MAX_SKIPPED_OPTION_DATA: u32 = 1 << 20;
/// Options that one client may send.
const MAX_OPTIONS: u32 = 512;

/// Negotiates. `Ok(None)`: the client ended it in order. `seat` is asked when a client wants to enter transmission, and
/// says whether there is room for it.
pub(super) fn negotiate(
    export: &Export,
    input: &mut Input,
    output: &Output,
    seat: &dyn Fn() -> bool,
) -> Result<Option<Terms>, Lost> {
    let offered = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    output.send(&[&encode::<_, 18>((Be(NBD_MAGIC), Be(OPTION_MAGIC), Be(offered)))])?;
    let mut flags = [0; 4];
    input.read_exact(&mut flags)?;
    let Be(flags): Be<u32> = decode(&flags);
    if flags & !u32::from(offered) != 0 {
        return Err(Lost);
    }
    let no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
    let (terms, secure) = (Terms::default(), export.tls.is_none());
    let mut negotiation = Negotiation { export, output, seat, no_zeroes, terms, secure };
    for _ in 0..MAX_OPTIONS {
        let mut header = [0; 16];
        input.read_exact(&mut header)?;
        let (Be(magic), Be(option), Be(len)): (Be<u64>, Be<u32>, Be<u32>) = decode(&header);
        if magic != OPTION_MAGIC {
            return Err(Lost);
        }
        if len > MAX_OPTION_DATA {
            if len > MAX_SKIPPED_OPTION_DATA || option == option::EXPORT_NAME {
                return Err(Lost);
            }
            input.skip(u64::from(len))?;
            negotiation.refuse_long(option)?;
            continue;
        }
        let mut data = vec![0; len as usize];
        input.read_exact(&mut data)?;
        match negotiation.answer(option, &data)? {
            Next::Option => {}
            Next::Tls(tls) => {
                // What came behind the option in the clear is not told from what comes under TLS: no ACK for it.
                if input.holds(1) {
                    return Err(Lost);
                }
                negotiation.reply(option, option_reply::ACK, &[])?;
                input.start_tls(tls)?;
                // Nothing that was said before counts.
                (negotiation.terms, negotiation.secure) = (Terms::default(), true);
            }
            Next::Transmission => return Ok(Some(negotiation.terms)),
            Next::End => return Ok(None),
        }
    }
    Err(Lost)
}

struct Negotiation<'a> {
    export: &'a Export,
    output: &'a Output,
    seat: &'a dyn Fn() -> bool,
    no_zeroes: bool,
    terms: Terms,
    /// TLS is on, or not asked for: the client may learn what is served.
    secure: bool,
}

enum Next<'a> {
    Option,
    Tls(&'a Tls),
    Transmission,
    End,
}

impl<'a> Negotiation<'a> {
    fn answer(&mut self, option: u32, data: &[u8]) -> Result<Next<'a>, Lost> {
        match option {
            option::STARTTLS => return self.start_tls(data),
            // The old way into transmission has no reply that says why not.
            option::EXPORT_NAME if !self.secure => return Err(Lost),
            _ if !self.secure && option != option::ABORT => self.refuse_without_tls(option)?,
            option::EXPORT_NAME => return self.export_name(data),
            option::ABORT => {
                // The client may be gone already.
                let _ = self.reply(option, option_reply::ACK, &[]);
                return Ok(Next::End);
            }
            option::LIST if data.is_empty() => {
                let name = self.export.name.as_bytes();
                self.reply(option, option_reply::SERVER, &[&(name.len() as u32).to_be_bytes(), name])?;
                self.reply(option, option_reply::ACK, &[])?;
            }
            option::INFO | option::GO => return self.info(option, data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.terms.structured = true;
                self.reply(option, option_reply::ACK, &[])?;
            }
            option::LIST | option::STRUCTURED_REPLY => {
                self.refuse(option, option_reply::ERR_INVALID, "the option takes no data")?;
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, data)?,
            _ => self.refuse(option, option_reply::ERR_UNSUPPORTED, "the option is not known")?,
        }
        Ok(Next::Option)
    }

    fn start_tls(&self, data: &[u8]) -> Result<Next<'a>, Lost> {
        match &self.export.tls {
            None => self.refuse(option::STARTTLS, option_reply::ERR_UNSUPPORTED, "TLS is not offered")?,
            Some(_) if self.secure => {
                self.refuse(option::STARTTLS, option_reply::ERR_INVALID, "TLS is on already")?;
            }
            Some(_) if !data.is_empty() => {
                self.refuse(option::STARTTLS, option_reply::ERR_INVALID, "the option takes no data")?;
            }
            Some(tls) => return Ok(Next::Tls(tls)),
        }
        Ok(Next::Option)
    }

    fn refuse_without_tls(&self, option: u32) -> Result<(), Lost> {
        self.refuse(option, option_reply::ERR_TLS_REQUIRED, "TLS comes first here")
    }

    fn refuse_long(&self, option: u32) -> Result<(), Lost> {
        match self.secure {
            true => self.refuse(option, option_reply::ERR_TOO_BIG, "the option's data is too long"),
            false => self.refuse_without_tls(option),
        }
    }

    /// The old way into transmission: no error can be reported.
    fn export_name(&self, name: &[u8]) -> Result<Next<'a>, Lost> {
        if !self.is_export(name) || !(self.seat)() {
            return Err(Lost);
        }
        let terms: [u8; 10] = encode((Be(self.export.device.size()), Be(self.export_flags())));
        let padding: &[u8] = if self.no_zeroes { &[] } else { &[0; 124] };
        self.output.send(&[&terms, padding])?;
        Ok(Next::Transmission)
    }

    fn info(&mut self, option: u32, data: &[u8]) -> Result<Next<'a>, Lost> {
        let Ok((name, requests)) = parse_info(data) else {
            self.refuse(option, option_reply::ERR_INVALID, "the option's lengths do not fit its data")?;
            return Ok(Next::Option);
        };
        if !self.is_export(name) {
            self.refuse(option, option_reply::ERR_UNKNOWN, "there is no export of that name")?;
            return Ok(Next::Option);
        }
        if option == option::GO && !(self.seat)() {
            let reason = "as many clients as the server takes are connected";
            self.refuse(option, option_reply::ERR_POLICY, reason)?;
            return Ok(Next::Option);
        }
        let device = &self.export.device;
        let terms: [u8; 12] = encode((Be(info::EXPORT), Be(device.size()), Be(self.export_flags())));
        self.reply(option, option_reply::INFO, &[&terms])?;
        let asked = |kind: u16| requests.chunks_exact(2).any(|request| request == kind.to_be_bytes());
        if asked(info::NAME) {
            let name = self.export.name.as_bytes();
            self.reply(option, option_reply::INFO, &[&info::NAME.to_be_bytes(), name])?;
        }
        if asked(info::BLOCK_SIZE) {
            let sizes = (Be(1_u32), Be(preferred_block(&**device)), Be(MAX_PAYLOAD));
            let sizes: [u8; 14] = encode((Be(info::BLOCK_SIZE), sizes));
            self.reply(option, option_reply::INFO, &[&sizes])?;
        }
        self.reply(option, option_reply::ACK, &[])?;
        Ok(if option == option::GO { Next::Transmission } else { Next::Option })
    }

    fn contexts(&mut self, option: u32, data: &[u8]) -> Result<(), Lost> {
        let set = option == option::SET_META_CONTEXT;
        if set {
            self.terms.allocation = false;
        }
        if !self.terms.structured {
            return self.refuse(option, option_reply::ERR_INVALID, "structured replies come first");
        }
        let Ok((name, queries)) = parse_queries(data) else {
            return self.refuse(
                option,
                option_reply::ERR_INVALID,
                "the option's lengths do not fit its data",
            );
        };
        if !self.is_export(name) {
            return self.refuse(option, option_reply::ERR_UNKNOWN, "there is no export of that name");
        }
        // Setting takes exact names; listing takes nothing (everything) or a namespace as well.
        let context = ALLOCATION_CONTEXT.as_bytes();
        let chosen =
            queries.contains(&context) || (!set && (queries.is_empty() || queries.contains(&&b"base:"[..])));
        if chosen {
            self.terms.allocation |= set;
            let id = if set { ALLOCATION_CONTEXT_ID } else { 0 };
            self.reply(option, option_reply::META_CONTEXT, &[&id.to_be_bytes(), context])?;
        }
        self.reply(option, option_reply::ACK, &[])
    }

    fn is_export(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.export.name.as_bytes()
    }

    fn export_flags(&self) -> u16 {
        use export_flag::*;
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
        if self.export.device.is_read_only() {
            flags |= READ_ONLY;
        } else {
            flags |= SEND_TRIM | SEND_WRITE_ZEROES;
        }
        if self.terms.structured {
            flags |= SEND_DF;
        }
        flags
    }

    fn reply(&self, option: u32, kind: u32, data: &[&[u8]]) -> Result<(), Lost> {
        let data = data.concat();
        self.output.send(&[&option_reply_header(option, kind, data.len() as u32), &data])
    }

    fn refuse(&self, option: u32, kind: u32, reason: &str) -> Result<(), Lost> {
        self.reply(option, kind, &[reason.as_bytes()])
    }
}

/// Export name and the list of 16-bit information requests.
fn parse_info(data: &[u8]) -> Result<(&[u8], &[u8]), ReadError> {
    let mut reader = Reader::new(data);
    let name = string(&mut reader)?;
    let count = reader.be16()?;
    let requests = reader.bytes(usize::from(count) * 2)?;
    reader.finish().map(|()| (name, requests))
}

/// Export name and the queries.
fn parse_queries(data: &[u8]) -> Result<(&[u8], Vec<&[u8]>), ReadError> {
    let mut reader = Reader::new(data);
    let name = string(&mut reader)?;
    let queries = (0..reader.be32()?).map(|_| string(&mut reader)).collect::<Result<_, _>>()?;
    reader.finish().map(|()| (name, queries))
}

/// A string behind its 32-bit length. No data is taken to be long enough for one that the protocol does not allow.
fn string<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], ReadError> {
    match reader.be32()? as usize {
        len @ ..=MAX_STRING => reader.bytes(len),
        _ => Err(ReadError::Short),
    }
}

/// The smallest write that needs no read before it, in bytes.
fn preferred_block(device: &dyn BlockDevice) -> u32 {
    let geometry = device.geometry();
    geometry.physical_block.max(geometry.logical_block).max(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        assert_eq!(parse_info(b"\0\0\0\x01x\0\x01\0\x03"), Ok((&b"x"[..], &b"\0\x03"[..])));
        for bad in [
            &b""[..],
            b"\0\0\0",
            b"\0\0\0\x02x",
            b"\0\0\0\x01x\0",
            b"\0\0\0\x01x\0\x01\0",
            b"\0\0\0\x01x\0\x01\0\x03\0",
            b"\xff\xff\xff\xffx\0\0",
        ] {
            assert!(parse_info(bad).is_err(), "{bad:?}");
        }
        let long = |len: u32| [&len.to_be_bytes()[..], &vec![b'x'; len as usize], &[0; 2]].concat();
        assert_eq!(parse_info(&long(4096)).map(|(name, _)| name.len()), Ok(4096));
        assert!(parse_info(&long(4097)).is_err(), "longer than the protocol allows");
        assert_eq!(parse_queries(b"\0\0\0\0\0\0\0\x01\0\0\0\x01q"), Ok((&b""[..], vec![&b"q"[..]])));
        for bad in [
            &b"\0\0\0\0\0\0\0\x02\0\0\0\x01q"[..],
            b"\0\0\0\0\0\0\0\x01\0\0\0\x01qq",
            b"\0\0\0\0\xff\xff\xff\xff",
            b"\0\0\0\0\0\0\0\x01\xff\xff\xff\xffq",
        ] {
            assert!(parse_queries(bad).is_err(), "{bad:?}");
        }
    }
}
