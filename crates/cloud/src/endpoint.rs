//! Where a server is, as settings name it.

/// The beginning of a URL: a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Endpoint {
    /// `http://HOST[:PORT]` or `https://HOST[:PORT]`, with or without a slash at the end.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return None,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest); // intended: it may be left out.
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
        let fine = !host.is_empty() && host.bytes().all(in_name);
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0)?,
            None if tls => 443,
            None => 80,
        };
        fine.then(|| Self { tls, host: host.into(), port })
    }

    pub(crate) fn is_address(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_ok()
    }

    /// As it stands in a URL, without the port that everybody knows.
    pub(crate) fn name(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}
