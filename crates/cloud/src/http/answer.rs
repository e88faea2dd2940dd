//! Reading an answer.

use std::fmt;
use std::io::{ErrorKind, Read};

use super::HttpError;

/// Longest head.
const MAX_HEAD: usize = 32 << 10;
/// Longest line that says how long a chunk is.
const MAX_LINE: usize = 256;
/// Answers of the kind 1xx before the one that counts.
const MAX_INTERIM: usize = 8;

/// An answer.
#[derive(PartialEq, Eq)]
pub struct Answer {
    /// Its status, 200 to 599.
    pub status: u16,
    /// Bytes that the body has, or would have were it sent, if the head says so.
    pub len: Option<u64>,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether it has come to an end that was announced: one that lasts until the connection ends may have been cut off.
    pub is_whole: bool,
    /// Whether another request may follow on the connection.
    pub keeps: bool,
}

/// Without the body, which may be a secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Answer");
        shown.field("status", &self.status).field("len", &self.len).field("keeps", &self.keeps);
        shown.finish_non_exhaustive()
    }
}

struct Head {
    status: u16,
    len: Option<u64>,
    chunked: bool,
    keeps: bool,
}

/// Reads an answer whose body has at most `most` bytes. `bodiless`: it is one to `HEAD`.
///
/// # Errors
/// [`HttpError`].
pub fn answer(stream: &mut impl Read, bodiless: bool, most: usize) -> Result<Answer, HttpError> {
    let mut input = Input { stream, read: Vec::new(), at: 0 };
    for _ in 0..MAX_INTERIM {
        let head = head(&mut input)?;
        if (100..200).contains(&head.status) && head.status != 101 {
            continue;
        }
        let Head { status, len, chunked, keeps } = head;
        if bodiless || status == 204 || status == 304 {
            let keeps = keeps && input.is_used_up();
            return Ok(Answer { status, len, body: Vec::new(), is_whole: true, keeps });
        }
        let (body, ended) = match (chunked, len) {
            (true, None) => (input.chunks(most)?, true),
            (true, Some(_)) => return Err(HttpError::Malformed),
            (false, Some(len)) => {
                let len = usize::try_from(len).ok().filter(|len| *len <= most).ok_or(HttpError::TooLong)?;
                let mut body = Vec::with_capacity(len);
                input.some(len, &mut body)?;
                (body, true)
            }
            (false, None) => (input.rest(most)?, false),
        };
        let keeps = keeps && ended && input.is_used_up();
        return Ok(Answer { status, len, body, is_whole: ended, keeps });
    }
    Err(HttpError::Malformed)
}

fn head(input: &mut Input<'_, impl Read>) -> Result<Head, HttpError> {
    let text = input.until(b"\r\n\r\n", MAX_HEAD)?;
    let text = String::from_utf8(text).map_err(|_| HttpError::Malformed)?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
    let (minor, rest) = status.and_then(|line| line.split_once(' ')).ok_or(HttpError::Malformed)?;
    let status: u16 = rest.get(..3).and_then(|digits| digits.parse().ok()).ok_or(HttpError::Malformed)?;
    if !(100..600).contains(&status) || !matches!(minor, "0" | "1") {
        return Err(HttpError::Malformed);
    }
    let mut head = Head { status, len: None, chunked: false, keeps: minor == "1" };
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(HttpError::Malformed)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let len = value.parse().ok().filter(|_| is_number).ok_or(HttpError::Malformed)?;
            if head.len.is_some_and(|before| before != len) {
                return Err(HttpError::Malformed);
            }
            head.len = Some(len);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") || head.chunked {
                return Err(HttpError::Malformed);
            }
            head.chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            head.keeps &= !value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
        }
    }
    Ok(head)
}

/// What was read of a stream and is not used yet.
struct Input<'a, S> {
    stream: &'a mut S,
    read: Vec<u8>,
    at: usize,
}

impl<S: Read> Input<'_, S> {
    fn is_used_up(&self) -> bool {
        self.at == self.read.len()
    }

    /// Reads some more; `false` at the end.
    fn more(&mut self) -> Result<bool, HttpError> {
        self.read.drain(..self.at);
        self.at = 0;
        let before = self.read.len();
        self.read.resize(before + (16 << 10), 0);
        let len = loop {
            match self.stream.read(&mut self.read[before..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        // intended: after an error nothing was read.
        self.read.truncate(before + *len.as_ref().unwrap_or(&0));
        Ok(len? > 0)
    }

    /// All up to an end mark, which is used up, too.
    fn until(&mut self, end: &[u8], most: usize) -> Result<Vec<u8>, HttpError> {
        loop {
            let here = &self.read[self.at..];
            if let Some(len) = here.windows(end.len()).position(|window| window == end) {
                let text = here[..len].to_vec();
                self.at += len + end.len();
                return Ok(text);
            }
            let empty = here.is_empty();
            if here.len() > most {
                return Err(HttpError::Malformed);
            }
            if !self.more()? {
                return Err(if empty { HttpError::Unreachable(None) } else { HttpError::Malformed });
            }
        }
    }

    /// So many bytes, behind what `out` has.
    fn some(&mut self, len: usize, out: &mut Vec<u8>) -> Result<(), HttpError> {
        let here = len.min(self.read.len() - self.at);
        out.extend_from_slice(&self.read[self.at..self.at + here]);
        self.at += here;
        let rest = len - here;
        let read = (&mut *self.stream).take(rest as u64).read_to_end(out)?;
        if read < rest { Err(HttpError::Unreachable(None)) } else { Ok(()) }
    }

    /// All up to the end of the connection.
    fn rest(&mut self, most: usize) -> Result<Vec<u8>, HttpError> {
        let mut body = self.read.split_off(self.at);
        let left = (most + 1).saturating_sub(body.len()); // intended: what is too long already is refused below.
        (&mut *self.stream).take(left as u64).read_to_end(&mut body)?;
        if body.len() > most { Err(HttpError::TooLong) } else { Ok(body) }
    }

    /// A body that comes in chunks (section 7.1).
    fn chunks(&mut self, most: usize) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.until(b"\r\n", MAX_LINE)?).map_err(|_| HttpError::Malformed)?;
            let digits = line.split(';').next().map(str::trim).ok_or(HttpError::Malformed)?;
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let len =
                usize::from_str_radix(digits, 16).ok().filter(|_| is_number).ok_or(HttpError::Malformed)?;
            if len > most - body.len() {
                return Err(HttpError::TooLong);
            }
            if len == 0 {
                // Trailers, up to an empty line.
                while !self.until(b"\r\n", MAX_HEAD)?.is_empty() {}
                return Ok(body);
            }
            self.some(len, &mut body)?;
            if !self.until(b"\r\n", 2)?.is_empty() {
                return Err(HttpError::Malformed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1000;

    fn read(text: &str) -> Result<(u16, String, bool), HttpError> {
        let answer = answer(&mut text.as_bytes(), false, MOST)?;
        Ok((answer.status, String::from_utf8(answer.body).expect("text"), answer.keeps))
    }

    #[test]
    fn answers_end_where_they_say() {
        let hi = |status, keeps| Ok((status, String::from("hi"), keeps));
        assert_eq!(read("HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\n\r\nhi"), hi(200, true));
        assert_eq!(read("HTTP/1.1 206\r\nContent-Length: 2\r\nConnection: Close\r\n\r\nhi"), hi(206, false));
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more"), hi(200, false));
        assert_eq!(read("HTTP/1.0 404 \r\n\r\nhi"), hi(404, false));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;a=b\r\ni\r\n0\r\nX: y\r\n\r\n";
        assert_eq!(read(chunked), hi(200, true));
        assert_eq!(
            read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
            hi(200, true)
        );
        let none = |status| Ok((status, String::new(), true));
        assert_eq!(read("HTTP/1.1 204 No Content\r\n\r\n"), none(204));
        assert_eq!(read("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"), none(204));
        let head = answer(&mut &b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"[..], true, 0).expect("it");
        assert_eq!((head.len, head.body.len(), head.keeps), (Some(7), 0, true));
    }

    #[test]
    fn what_is_no_answer_or_too_long_is_refused() {
        for (bad, error) in [
            ("", HttpError::Unreachable(None)),
            ("HTTP/1.1 200 OK\r\n", HttpError::Malformed),
            ("SSH-2.0 200 OK\r\n\r\n", HttpError::Malformed),
            ("HTTP/1.1 OK\r\n\r\n", HttpError::Malformed),
            ("HTTP/1.1 600 OK\r\n\r\n", HttpError::Malformed),
            ("HTTP/1.2 200 OK\r\n\r\n", HttpError::Malformed),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", HttpError::Malformed),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", HttpError::Unreachable(None)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", HttpError::Malformed),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi",
                HttpError::Malformed,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\nhi", HttpError::TooLong),
            ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi", HttpError::Malformed),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi", HttpError::Malformed),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", HttpError::TooLong),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
                HttpError::Malformed,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nhi\r\n0\r\n\r\n",
                HttpError::Malformed,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
                HttpError::Unreachable(None),
            ),
        ] {
            assert_eq!(read(bad), Err(error), "{bad:?}");
        }
        let of = |len: usize| {
            read(&format!("HTTP/1.0 200 OK\r\n\r\n{}", "a".repeat(len))).map(|(_, body, _)| body.len())
        };
        assert_eq!((of(MOST), of(MOST + 1)), (Ok(MOST), Err(HttpError::TooLong)));
    }

    #[test]
    fn an_answer_without_an_end_is_left() {
        let long =
            |text: &'static [u8], with: u8| answer(&mut text.chain(std::io::repeat(with)), false, MOST);
        assert_eq!(long(b"", b'a'), Err(HttpError::Malformed));
        assert_eq!(long(b"HTTP/1.1 200 OK\r\n\r\n", b'a'), Err(HttpError::TooLong));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
        assert_eq!(long(chunked, b'1'), Err(HttpError::Malformed));
        let mut interim = Vec::new();
        (0..9).for_each(|_| interim.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
        assert_eq!(answer(&mut &interim[..], false, MOST), Err(HttpError::Malformed));
    }
}
