//! NBD URIs (doc/uri.md of the NBD project, RFC 3986), with libnbd's parameter `tls-certificates`.

use core::fmt;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::proto::{MAX_STRING, PORT};

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uri {
    /// The server.
    pub place: Place,
    /// The name of the export; the server's default has none.
    pub export: String,
    /// The connection must be under TLS. Otherwise it is in the clear.
    pub tls: bool,
    /// The directory of certificates (`tls-certificates`).
    pub certificates: Option<PathBuf>,
    /// The name that the server's certificate must have, if it is not the host's (`tls-hostname`).
    pub tls_hostname: Option<String>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A name or an IP address, and a port.
    Tcp {
        /// Without the brackets of IPv6.
        host: String,
        /// 10809 unless the URI says something else.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// What is wrong with a URI.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriError {
    /// The scheme is none of `nbd`, `nbds`, `nbd+unix` and `nbds+unix`.
    Scheme {
        /// What stands there.
        scheme: String,
    },
    /// A percent sign without two hexadecimal digits behind it, or a character that must be encoded so.
    Encoding,
    /// A user name stands before the host. It is for a kind of TLS that is not known here.
    User,
    /// No host is named.
    NoHost,
    /// The host is no text that could be a name or an address.
    Host,
    /// The port is not a number from 1 to 65535.
    Port,
    /// A URI for a Unix socket names a host.
    HostOfSocket,
    /// A URI for a Unix socket names no socket.
    NoSocket,
    /// A URI for TCP names a socket.
    SocketOfHost,
    /// The name of the export is no text, longer than the protocol allows, or holds a NUL.
    Export {
        /// Its length in bytes.
        len: usize,
    },
    /// A parameter is given twice.
    Twice {
        /// Its name.
        name: String,
    },
    /// A parameter that is not known, or one of TLS in a URI without TLS.
    Parameter {
        /// Its name.
        name: String,
    },
    /// A parameter asks for what is not done: TLS without certificates, or one that does not look at the server's.
    Value {
        /// The parameter's name.
        name: String,
        /// What it asks for.
        value: String,
    },
    /// There is a fragment (`#`), which NBD has no use for.
    Fragment,
}

impl Uri {
    /// Whether a path is meant as a URI: it begins with one of NBD's schemes and `://`. A file of this name can be reached
    /// as `./nbd:…`.
    pub fn is_meant(path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        let Some(colon) = bytes.windows(3).position(|three| three == b"://") else { return false };
        let scheme = &bytes[..colon];
        let transport = scheme.strip_prefix(b"nbds").or(scheme.strip_prefix(b"nbd"));
        transport.is_some_and(|transport| transport.is_empty() || transport.starts_with(b"+"))
    }

    /// Reads a URI.
    ///
    /// # Errors
    /// [`UriError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or(UriError::Scheme { scheme: String::new() })?;
        let (tls, unix) = match scheme {
            "nbd" => (false, false),
            "nbds" => (true, false),
            "nbd+unix" => (false, true),
            "nbds+unix" => (true, true),
            _ => return Err(UriError::Scheme { scheme: scheme.into() }),
        };
        if rest.contains('#') {
            return Err(UriError::Fragment);
        }
        if rest.contains(|letter: char| letter.is_ascii_control() || letter == ' ') {
            return Err(UriError::Encoding);
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, path),
            None => (rest, ""),
        };
        let mut parameters = Parameters::parse(query)?;
        let socket = parameters.take("socket");
        let place = match (unix, socket) {
            (false, None) => tcp(authority)?,
            (false, Some(_)) => return Err(UriError::SocketOfHost),
            (true, _) if !authority.is_empty() => return Err(UriError::HostOfSocket),
            (true, Some(socket)) if !socket.is_empty() => Place::Unix(OsString::from_vec(socket).into()),
            (true, _) => return Err(UriError::NoSocket),
        };
        let (mut certificates, mut tls_hostname) = (None, None);
        if tls {
            certificates =
                parameters.take("tls-certificates").map(|path| PathBuf::from(OsString::from_vec(path)));
            tls_hostname = match parameters.take("tls-hostname").map(String::from_utf8) {
                Some(Ok(name)) => Some(name),
                Some(Err(_)) => return Err(UriError::Host),
                None => None,
            };
            parameters.only("tls-type", "x509")?;
            parameters.only("tls-verify-peer", "1")?;
        }
        parameters.finish()?;
        Ok(Self { place, export: export(path)?, tls, certificates, tls_hostname })
    }
}

/// `host`, `host:port`, `[address]` or `[address]:port`.
fn tcp(authority: &str) -> Result<Place, UriError> {
    if authority.contains('@') {
        return Err(UriError::User);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or(UriError::Host)?;
            // A zone, such as that of fe80::1%25eth0, stays with the address.
            let address = decoded_text(address).ok_or(UriError::Host)?;
            if !address.contains(':') {
                return Err(UriError::Host);
            }
            match rest.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if rest.is_empty() => (address, None),
                None => return Err(UriError::Host),
            }
        }
        None => {
            let (host, port) = match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            };
            (decoded_text(host).ok_or(UriError::Host)?, port)
        }
    };
    if host.is_empty() {
        return Err(UriError::NoHost);
    }
    let port = match port {
        None | Some("") => PORT,
        Some(port) if port.bytes().all(|digit| digit.is_ascii_digit()) => {
            port.parse().ok().filter(|port| *port != 0).ok_or(UriError::Port)?
        }
        Some(_) => return Err(UriError::Port),
    };
    Ok(Place::Tcp { host, port })
}

fn export(path: &str) -> Result<String, UriError> {
    let bytes = decoded(path)?;
    let len = bytes.len();
    match String::from_utf8(bytes) {
        Ok(name) if len <= MAX_STRING && !name.contains('\0') => Ok(name),
        _ => Err(UriError::Export { len }),
    }
}

/// The parameters that nobody has taken yet.
struct Parameters(Vec<(String, Vec<u8>)>);

impl Parameters {
    fn parse(query: Option<&str>) -> Result<Self, UriError> {
        let mut all: Vec<(String, Vec<u8>)> = Vec::new();
        for parameter in query.into_iter().flat_map(|query| query.split('&')).filter(|text| !text.is_empty())
        {
            let (name, value) = match parameter.split_once('=') {
                Some((name, value)) => (name, value),
                None => (parameter, ""),
            };
            let name = decoded_text(name).ok_or(UriError::Encoding)?;
            if all.iter().any(|(other, _)| *other == name) {
                return Err(UriError::Twice { name });
            }
            all.push((name, decoded(value)?));
        }
        Ok(Self(all))
    }

    fn take(&mut self, name: &str) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// A parameter of which one value alone is possible.
    fn only(&mut self, name: &str, possible: &str) -> Result<(), UriError> {
        match self.take(name) {
            Some(value) if value != possible.as_bytes() => Err(UriError::Value {
                name: name.into(),
                value: String::from_utf8_lossy(&value).into_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn finish(mut self) -> Result<(), UriError> {
        match self.0.pop() {
            Some((name, _)) => Err(UriError::Parameter { name }),
            None => Ok(()),
        }
    }
}

fn decoded_text(text: &str) -> Option<String> {
    String::from_utf8(decoded(text).ok()?).ok()
}

fn decoded(text: &str) -> Result<Vec<u8>, UriError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let ([high, low], behind) = rest.split_first_chunk().ok_or(UriError::Encoding)?;
        let digit = |letter: &u8| char::from(*letter).to_digit(16).ok_or(UriError::Encoding);
        bytes.push((digit(high)? << 4 | digit(low)?) as u8);
        rest = behind;
    }
    Ok(bytes)
}

/// Bytes as they are written in a part of a URI.
pub fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme { scheme } => {
                write!(f, "{scheme:?} is no scheme of NBD here: nbd, nbds, nbd+unix and nbds+unix are")
            }
            Self::Encoding => {
                f.write_str("a character is not encoded as a URI has it: % and two hexadecimal digits")
            }
            Self::User => {
                f.write_str("a user name before the host is for a kind of TLS that is not known here")
            }
            Self::NoHost => f.write_str("no host is named"),
            Self::Host => {
                f.write_str("the host is neither a name nor an address; IPv6 is written in brackets")
            }
            Self::Port => f.write_str("the port is not a number from 1 to 65535"),
            Self::HostOfSocket => f.write_str("a URI for a Unix socket names no host: three slashes follow"),
            Self::NoSocket => f.write_str("the socket is missing: ?socket=PATH"),
            Self::SocketOfHost => f.write_str("a socket belongs to nbd+unix:// and nbds+unix://"),
            Self::Export { len } => {
                write!(f, "the export name of {len} bytes is no text, longer than 4096 bytes, or holds a NUL")
            }
            Self::Twice { name } => write!(f, "the parameter {name:?} is given twice"),
            Self::Parameter { name } => {
                write!(f, "the parameter {name:?} is not known, or is for nbds:// and nbds+unix:// alone")
            }
            Self::Value { name, value } => write!(f, "{name}={value} is not possible here"),
            Self::Fragment => f.write_str("a # has no meaning here; in a name it is written %23"),
        }
    }
}

impl core::error::Error for UriError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        Uri::parse(text).expect("a URI").place
    }

    fn at(host: &str, port: u16) -> Place {
        Place::Tcp { host: host.into(), port }
    }

    /// The table of doc/uri.md, "NBD URI export name".
    #[test]
    fn export_names_are_those_of_the_specification() {
        for (uri, name) in [
            ("nbd://example.com/disk", "disk"),
            ("nbd+unix:///disk?socket=sock", "disk"),
            ("nbd://example.com/", ""),
            ("nbd://example.com", ""),
            ("nbd://example.com//disk", "/disk"),
            ("nbd://example.com/hello%20world", "hello world"),
        ] {
            assert_eq!(Uri::parse(uri).expect("a URI").export, name, "{uri}");
        }
    }

    #[test]
    fn servers_are_found_by_name_address_and_socket() {
        assert_eq!(place("nbd://example.com"), at("example.com", 10809));
        assert_eq!(place("nbds://127.0.0.1:1/x"), at("127.0.0.1", 1));
        assert_eq!(place("nbd://[::1]/x"), at("::1", 10809));
        assert_eq!(place("nbd://[fe80::1%25eth0]:65535"), at("fe80::1%eth0", 65535));
        assert_eq!(place("nbd+unix:///?socket=/run/a%20b/x%26y"), Place::Unix("/run/a b/x&y".into()));
        assert_eq!(place("nbds+unix:///?socket=%00name"), Place::Unix("\0name".into()));
    }

    #[test]
    fn tls_has_its_parameters() {
        let uri = Uri::parse(
            "nbds://host/?tls-certificates=/etc/pki%20x&tls-hostname=other&tls-type=x509&tls-verify-peer=1",
        );
        let uri = uri.expect("a URI");
        assert!(uri.tls);
        assert_eq!(uri.certificates, Some("/etc/pki x".into()));
        assert_eq!(uri.tls_hostname.as_deref(), Some("other"));
        assert!(!Uri::parse("nbd://host").expect("a URI").tls);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let name = |name: &str| name.to_owned();
        for (uri, error) in [
            ("http://host", UriError::Scheme { scheme: name("http") }),
            ("nbd+vsock://2", UriError::Scheme { scheme: name("nbd+vsock") }),
            ("nbd", UriError::Scheme { scheme: name("") }),
            ("nbd://host/%2", UriError::Encoding),
            ("nbd://host/%zz", UriError::Encoding),
            ("nbd://host/%+1", UriError::Encoding),
            ("nbd://host/a b", UriError::Encoding),
            ("nbd://user@host", UriError::User),
            ("nbd:///export", UriError::NoHost),
            ("nbd://:10809", UriError::NoHost),
            ("nbd://[::1", UriError::Host),
            ("nbd://[::1]x", UriError::Host),
            ("nbd://[host]", UriError::Host),
            ("nbd://%ff", UriError::Host),
            ("nbd://::1", UriError::NoHost),
            ("nbd://host:0", UriError::Port),
            ("nbd://host:65536", UriError::Port),
            ("nbd://host:+1", UriError::Port),
            ("nbd+unix://host/?socket=s", UriError::HostOfSocket),
            ("nbd+unix:///", UriError::NoSocket),
            ("nbd+unix:///?socket=", UriError::NoSocket),
            ("nbd://host/?socket=s", UriError::SocketOfHost),
            ("nbd://host/%00", UriError::Export { len: 1 }),
            ("nbd://host/%ff", UriError::Export { len: 1 }),
            ("nbd+unix:///?socket=a&socket=b", UriError::Twice { name: name("socket") }),
            ("nbd://host/?tls-certificates=x", UriError::Parameter { name: name("tls-certificates") }),
            ("nbds://host/?x-y=1", UriError::Parameter { name: name("x-y") }),
            ("nbds://host/?tls-type=anon", UriError::Value { name: name("tls-type"), value: name("anon") }),
            (
                "nbds://host/?tls-verify-peer=0",
                UriError::Value { name: name("tls-verify-peer"), value: name("0") },
            ),
            ("nbd://host/#1", UriError::Fragment),
        ] {
            assert_eq!(Uri::parse(uri), Err(error), "{uri}");
        }
        let long = format!("nbd://host/{}", "x".repeat(4097));
        assert_eq!(Uri::parse(&long), Err(UriError::Export { len: 4097 }));
        assert!(Uri::parse(&long[..long.len() - 1]).is_ok());
    }

    #[test]
    fn a_uri_is_told_from_a_path() {
        for uri in ["nbd://x", "nbds://x", "nbd+unix:///?socket=s", "nbds+unix://", "nbd+vsock://2"] {
            assert!(Uri::is_meant(Path::new(uri)), "{uri}");
        }
        for path in ["nbd", "nbd:", "nbd:/x", "./nbd://x", "/nbd://x", "nbdx://x", "disk.img", "http://x"] {
            assert!(!Uri::is_meant(Path::new(path)), "{path}");
        }
    }
}
