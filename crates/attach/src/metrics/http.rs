//! As much of HTTP/1.1 (RFC 9112) as a scraper needs: one request without a body, one answer, and the connection ends.

/// Longest request that is read, in bytes.
pub(super) const MAX_REQUEST: usize = 8 << 10;

/// Where the figures are in Prometheus' text format.
pub(super) const TEXT: &str = "/metrics";
/// Where they are as JSON, for `status`.
pub(super) const JSON: &str = "/metrics.json";

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Text,
    Json,
}

/// A request that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub page: Page,
    /// HEAD: the answer's head alone.
    pub head_only: bool,
}

/// Why a request gets no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Malformed,
    NotFound,
    Method,
    TooLarge,
    Version,
}

impl Refusal {
    fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::Method => "405 Method Not Allowed",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::Version => "505 HTTP Version Not Supported",
        }
    }

    /// The answer.
    pub fn answer(self) -> Vec<u8> {
        let body = match self {
            Self::Malformed => "this is not a request of HTTP\n",
            Self::NotFound => "the figures are at /metrics\n",
            Self::Method => "figures can only be read: use GET\n",
            Self::TooLarge => "the request is longer than 8 KiB\n",
            Self::Version => "HTTP/1.1 is spoken here\n",
        };
        let allow = if self == Self::Method { "Allow: GET, HEAD\r\n" } else { "" };
        answer(self.status(), "text/plain; charset=utf-8", allow, body, false)
    }
}

/// The answer with a page.
pub(super) fn found(kind: &str, body: &str, head_only: bool) -> Vec<u8> {
    answer("200 OK", kind, "", body, head_only)
}

fn answer(status: &str, kind: &str, more: &str, body: &str, head_only: bool) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{more}Connection: close\r\n\r\n"
    );
    let mut answer = head.into_bytes();
    if !head_only {
        answer.extend_from_slice(body.as_bytes());
    }
    answer
}

/// Reads what has come of a request; `None` if its end has not.
pub(super) fn read(bytes: &[u8]) -> Option<Result<Request, Refusal>> {
    let ended =
        bytes.windows(4).any(|four| four == b"\r\n\r\n") || bytes.windows(2).any(|two| two == b"\n\n");
    match ended {
        _ if bytes.len() > MAX_REQUEST => Some(Err(Refusal::TooLarge)),
        true => Some(request(bytes)),
        false => None,
    }
}

fn request(bytes: &[u8]) -> Result<Request, Refusal> {
    let line = bytes.split(|byte| *byte == b'\n').next().ok_or(Refusal::Malformed)?;
    let line = core::str::from_utf8(line).map_err(|_| Refusal::Malformed)?;
    let mut words = line.strip_suffix('\r').unwrap_or(line).split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Malformed);
    };
    match version.strip_prefix("HTTP/") {
        None => return Err(Refusal::Malformed),
        Some("1.0" | "1.1") => {}
        Some(_) => return Err(Refusal::Version),
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Refusal::Method),
    };
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let page = match path {
        TEXT => Page::Text,
        JSON => Page::Json,
        _ => return Err(Refusal::NotFound),
    };
    Ok(Request { page, head_only })
}

/// The body of an answer whose status is 200.
pub(super) fn body(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (answer.get(..end)?, answer.get(end + 4..)?);
    head.starts_with(b"HTTP/1.1 200 ").then_some(body)
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Random;

    use super::*;

    fn get(line: &str) -> Option<Result<Request, Refusal>> {
        read(format!("{line}\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    #[test]
    fn a_request_is_answered_when_its_end_has_come() {
        let text = Request { page: Page::Text, head_only: false };
        assert_eq!(read(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(read(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Ok(text)));
        assert_eq!(read(b"GET /metrics HTTP/1.0\n\n"), Some(Ok(text)));
        assert_eq!(get("GET /metrics?x=/y HTTP/1.1"), Some(Ok(text)));
        assert_eq!(get("GET /metrics.json HTTP/1.1"), Some(Ok(Request { page: Page::Json, ..text })));
        assert_eq!(get("HEAD /metrics HTTP/1.1"), Some(Ok(Request { head_only: true, ..text })));
    }

    #[test]
    fn every_other_request_is_refused_with_its_reason() {
        for (line, refusal) in [
            ("", Refusal::Malformed),
            ("GET", Refusal::Malformed),
            ("GET /metrics", Refusal::Malformed),
            ("GET  /metrics HTTP/1.1", Refusal::Malformed),
            ("GET /metrics HTTP/1.1 x", Refusal::Malformed),
            ("GET /metrics FTP/1.1", Refusal::Malformed),
            ("GET /metrics HTTP/2", Refusal::Version),
            ("GET / HTTP/1.1", Refusal::NotFound),
            ("GET /metrics/ HTTP/1.1", Refusal::NotFound),
            ("GET /../etc/passwd HTTP/1.1", Refusal::NotFound),
            ("POST /metrics HTTP/1.1", Refusal::Method),
            ("get /metrics HTTP/1.1", Refusal::Method),
        ] {
            assert_eq!(get(line), Some(Err(refusal)), "{line:?}");
        }
        assert_eq!(read(b"\xff\xfe /metrics HTTP/1.1\r\n\r\n"), Some(Err(Refusal::Malformed)));
        assert_eq!(read(&[b'a'; MAX_REQUEST]), None);
        assert_eq!(read(&[b'a'; MAX_REQUEST + 1]), Some(Err(Refusal::TooLarge)));
    }

    #[test]
    fn mutated_requests_are_answered_by_a_page_only_if_they_still_ask_for_one() {
        let mut random = Random::new(1);
        let mut pages = 0;
        for _ in 0..50_000 {
            let mut bytes = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".to_vec();
            for _ in 0..random.below(4) {
                let at = random.index(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = *random.pick(b"\r\n /\0?PH\xff1.0"),
                    1 => bytes.truncate(at + 1),
                    _ => bytes.extend_from_within(at..),
                }
            }
            if let Some(Ok(_)) = read(&bytes) {
                pages += 1;
                let ends = bytes.windows(2).any(|two| two == b"\n\n" || two == b"\n\r");
                assert!(bytes.starts_with(b"GET /metrics") && ends, "{}", bytes.escape_ascii());
            }
        }
        assert!((1000..50_000).contains(&pages), "{pages}");
    }

    #[test]
    fn only_the_body_of_a_good_answer_is_taken() {
        assert_eq!(body(&found("x/y", "hello", false)), Some(&b"hello"[..]));
        assert_eq!(body(&found("x/y", "hello", true)), Some(&b""[..]));
        assert_eq!(body(&Refusal::NotFound.answer()), None);
        assert_eq!(body(b"HTTP/1.1 200 OK\r\n"), None);
    }
}
