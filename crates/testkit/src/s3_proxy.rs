//! What stands between a client of S3 and its server: it counts requests and bytes, answers late, and lets a server be slow, silent or cut off.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It comes.
    Usual,
    /// It does not come until the manner is another one; then the connection ends.
    Silent,
    /// The first half of its body comes, and the connection ends.
    Half,
    /// Half of its body comes, and nothing says how long the body is: an end that nobody has announced.
    HalfWithoutLength,
    /// The server hears nothing, and the client is told that it is busy.
    Refused,
    /// The server does what it is asked, and the client is told that it is busy.
    RefusedAndDone,
    /// The server is asked twice, and its second answer comes.
    Twice,
    /// Requests wait before they reach the server, some longer than others: those that are sent first do not come first.
    Reordered,
}

impl Manner {
    const ALL: [Self; 8] = [
        Self::Usual,
        Self::Silent,
        Self::Half,
        Self::HalfWithoutLength,
        Self::Refused,
        Self::RefusedAndDone,
        Self::Twice,
        Self::Reordered,
    ];
}

/// What a server says that is busy.
const BUSY: &[u8] = b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n";
/// A request that is reordered waits up to so many milliseconds.
const LONGEST: u64 = 60;
/// Only where a test fails does a request wait so long at the gate.
const GATED: Duration = Duration::from_secs(30);

/// What went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests by kind: `GET`, `LIST`, `PUT`, `PUT-NEW`, `DELETE`, `HEAD`, or another method.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of the bodies of requests.
    pub sent: u64,
    /// Bytes of the bodies of answers.
    pub received: u64,
}

/// A port that leads to another one.
#[derive(Debug)]
pub struct S3Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    to: u16,
    /// Milliseconds.
    delay: AtomicU64,
    manner: AtomicU8,
    sent: AtomicU64,
    received: AtomicU64,
    requests: Mutex<BTreeMap<String, u64>>,
    /// Requests of ranges whose answers have not come, and the most that there were at once.
    ranges: AtomicUsize,
    most_ranges: AtomicUsize,
    /// Requests whose answers come yet.
    answered: AtomicU64,
    held: AtomicUsize,
    reordered: AtomicU64,
    /// Requests that have met each manner.
    met: [AtomicU64; Manner::ALL.len()],
    /// So many requests for ranges must be here at once before the first of them goes on; 0 if none waits.
    gate: AtomicUsize,
}

impl S3Proxy {
    /// Leads to the server at a port. Each answer comes so much later, and so does each connection.
    ///
    /// # Panics
    /// Without a free port.
    pub fn new(to: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            to,
            delay: AtomicU64::new(delay.as_millis() as u64), // a delay of a test
            manner: AtomicU8::new(Manner::Usual as u8),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            requests: Mutex::default(),
            ranges: AtomicUsize::new(0),
            most_ranges: AtomicUsize::new(0),
            answered: AtomicU64::new(u64::MAX),
            held: AtomicUsize::new(0),
            reordered: AtomicU64::new(1),
            met: Default::default(),
            gate: AtomicUsize::new(0),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&served);
                // What breaks is told to both sides by its end.
                thread::spawn(move || shared.serve(client));
            }
        });
        Self { port, shared }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on answers and connections come so much later.
    pub fn delay(&self, delay: Duration) {
        self.shared.delay.store(delay.as_millis() as u64, Ordering::SeqCst); // a delay of a test
    }

    /// From now on answers come in this manner.
    pub fn answer(&self, manner: Manner) {
        self.shared.manner.store(manner as u8, Ordering::SeqCst);
    }

    /// How many requests have met a manner until now: what came before it, or is of another kind than it concerns, has not.
    pub fn met(&self, manner: Manner) -> u64 {
        self.shared.met[usize::from(manner as u8)].load(Ordering::SeqCst)
    }

    /// The next requests for ranges wait until so many of them are here at once. Then all go on, and so do those behind them.
    pub fn gather(&self, ranges: usize) {
        self.shared.gate.store(ranges, Ordering::SeqCst);
    }

    /// From now on the answers to so many requests come. The server carries the others out, and nobody hears of it.
    pub fn hold_after(&self, requests: u64) {
        self.shared.answered.store(requests, Ordering::SeqCst);
    }

    /// Whether an answer is held back.
    pub fn holds(&self) -> bool {
        self.shared.held.load(Ordering::SeqCst) > 0
    }

    /// The most requests for ranges of objects that were unanswered at one time, since this was asked last.
    pub fn most_ranges(&self) -> usize {
        self.shared.most_ranges.swap(0, Ordering::SeqCst)
    }

    /// What went through since this was asked last.
    ///
    /// # Panics
    /// Never.
    pub fn counts(&self) -> Counts {
        let Shared { requests, sent, received, .. } = &*self.shared;
        let requests = std::mem::take(&mut *requests.lock().unwrap_or_else(PoisonError::into_inner));
        let [sent, received] = [sent, received].map(|bytes| bytes.swap(0, Ordering::SeqCst));
        Counts { requests, sent, received }
    }
}

/// The head of a request or an answer.
struct Head {
    /// Its first line, and the others without their ends.
    lines: Vec<String>,
}

impl Head {
    fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            match line.trim_end() {
                "" => return Ok(Some(Self { lines })),
                line => lines.push(line.to_owned()),
            }
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let fields = self.lines.iter().skip(1).filter_map(|line| line.split_once(':'));
        fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn without(&mut self, name: &str) {
        self.lines
            .retain(|line| line.split_once(':').is_none_or(|(field, _)| !field.eq_ignore_ascii_case(name)));
    }

    fn is_chunked(&self) -> bool {
        self.value("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }

    fn len(&self) -> Option<u64> {
        self.value("content-length").and_then(|value| value.parse().ok())
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\r\n")).collect::<String>() + "\r\n"
    }

    /// What is asked for.
    fn kind(&self) -> String {
        let mut words = self.lines.first().map(String::as_str).unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match method {
            "GET" if target.contains("list-type=") || target.contains("prefix=") => "LIST".into(),
            "PUT" if self.value("if-none-match").is_some() => "PUT-NEW".into(),
            method => method.into(),
        }
    }
}

impl Shared {
    fn delay(&self) -> Duration {
        Duration::from_millis(self.delay.load(Ordering::SeqCst))
    }

    fn manner(&self) -> Manner {
        Manner::ALL[usize::from(self.manner.load(Ordering::SeqCst))]
    }

    /// A request has met a manner.
    fn meets(&self, manner: Manner) {
        self.met[usize::from(manner as u8)].fetch_add(1, Ordering::SeqCst);
    }

    /// A request for a range waits for others.
    fn pass_gate(&self) {
        let begun = Instant::now();
        while self.gate.load(Ordering::SeqCst) > 0 && begun.elapsed() < GATED {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn serve(&self, client: TcpStream) -> io::Result<()> {
        thread::sleep(self.delay());
        let server = TcpStream::connect(("127.0.0.1", self.to))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut from_client, mut to_client) =
            (BufReader::with_capacity(256 << 10, client.try_clone()?), client);
        let (mut from_server, mut to_server) =
            (BufReader::with_capacity(256 << 10, server.try_clone()?), server);
        let served = self.relay((&mut from_client, &mut to_client), (&mut from_server, &mut to_server));
        // The other side may have ended before.
        let _ = (to_client.shutdown(Shutdown::Both), to_server.shutdown(Shutdown::Both));
        served
    }

    fn relay(
        &self,
        (from_client, to_client): (&mut BufReader<TcpStream>, &mut TcpStream),
        (from_server, to_server): (&mut BufReader<TcpStream>, &mut TcpStream),
    ) -> io::Result<()> {
        while let Some(mut request) = Head::read(from_client)? {
            let kind = request.kind();
            *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry(kind.clone()).or_default() +=
                1;
            if request.value("expect").is_some() {
                // Who asks first whether the body is wanted waits for the answer, too.
                thread::sleep(self.delay());
                to_client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                request.without("expect");
            }
            let (manner, mut again) = (self.manner(), None);
            if manner == Manner::Refused {
                self.meets(manner);
                copy(from_client, &mut io::sink(), request.len().unwrap_or(0))?;
                to_client.write_all(BUSY)?;
                continue;
            }
            if manner == Manner::Reordered {
                self.meets(manner);
                let number = self.reordered.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis((number.wrapping_mul(2_654_435_761) >> 7) % LONGEST));
            }
            if manner == Manner::Twice {
                self.meets(manner);
                let mut body = Vec::new();
                copy(from_client, &mut body, request.len().unwrap_or(0))?;
                let first = [request.text().as_bytes(), &body].concat();
                to_server.write_all(&first)?;
                let Some(answer) = Head::read(from_server)? else { return Ok(()) };
                let bodiless =
                    kind == "HEAD" || answer.lines.first().is_some_and(|line| line.contains(" 204 "));
                match (bodiless, answer.is_chunked()) {
                    (true, _) => {}
                    (false, true) => drop(chunks(from_server, &mut io::sink())?),
                    (false, false) => drop(copy(from_server, &mut io::sink(), answer.len().unwrap_or(0))?),
                }
                again = Some(body);
            }
            let range = request.value("range").map(|_| Range::begin(self));
            if range.is_some() {
                self.pass_gate();
            }
            to_server.write_all(request.text().as_bytes())?;
            let sent = match (again.take(), request.is_chunked()) {
                (Some(body), _) => copy(&mut &body[..], to_server, body.len() as u64)?,
                (None, true) => chunks(from_client, to_server)?,
                (None, false) => copy(from_client, to_server, request.len().unwrap_or(0))?,
            };
            self.sent.fetch_add(sent, Ordering::SeqCst);
            let mut answer = loop {
                let Some(answer) = Head::read(from_server)? else { return Ok(()) };
                if !answer.lines.first().is_some_and(|line| line.contains(" 100 ")) {
                    break answer;
                }
            };
            thread::sleep(self.delay());
            let left = |left: u64| left.checked_sub(1);
            if self.answered.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err() {
                self.held.fetch_add(1, Ordering::SeqCst);
                while self.answered.load(Ordering::SeqCst) == 0 {
                    thread::sleep(Duration::from_millis(2));
                }
                self.held.fetch_sub(1, Ordering::SeqCst);
                return Ok(());
            }
            if manner == Manner::RefusedAndDone {
                self.meets(manner);
                to_client.write_all(BUSY)?;
                // What the server has said goes nowhere, and so does this connection to it.
                return Ok(());
            }
            if self.manner() == Manner::Silent {
                self.meets(Manner::Silent);
            }
            while self.manner() == Manner::Silent {
                thread::sleep(Duration::from_millis(5));
                if self.manner() != Manner::Silent {
                    return Ok(());
                }
            }
            let status = answer.lines.first().and_then(|line| line.split(' ').nth(1)).map(str::to_owned);
            let bodiless = kind == "HEAD" || matches!(status.as_deref(), Some("204" | "304"));
            let half = match self.manner() {
                Manner::Half | Manner::HalfWithoutLength if !bodiless && kind != "PUT-NEW" => answer.len(),
                _ => None,
            };
            if let Some(len) = half {
                let manner = self.manner();
                if manner == Manner::HalfWithoutLength {
                    answer.without("content-length");
                }
                self.meets(manner);
                to_client.write_all(answer.text().as_bytes())?;
                copy(from_server, to_client, len / 2)?;
                return Ok(());
            }
            to_client.write_all(answer.text().as_bytes())?;
            let received = match (bodiless, answer.is_chunked(), answer.len()) {
                (true, ..) => 0,
                (false, true, _) => chunks(from_server, to_client)?,
                (false, false, Some(len)) => copy(from_server, to_client, len)?,
                (false, false, None) => io::copy(from_server, to_client)?,
            };
            self.received.fetch_add(received, Ordering::SeqCst);
            drop(range);
        }
        Ok(())
    }
}

/// A request for a range that is not answered.
struct Range<'a>(&'a Shared);

impl<'a> Range<'a> {
    fn begin(shared: &'a Shared) -> Self {
        let now = shared.ranges.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_ranges.fetch_max(now, Ordering::SeqCst);
        if now >= shared.gate.load(Ordering::SeqCst) {
            shared.gate.store(0, Ordering::SeqCst);
        }
        Self(shared)
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        self.0.ranges.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Passes on so many bytes.
fn copy(from: &mut impl Read, to: &mut impl Write, len: u64) -> io::Result<u64> {
    let mut left = len;
    let mut buffer = vec![0; 256 << 10];
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = from.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all(&buffer[..read])?;
        left -= read as u64;
    }
    Ok(len)
}

/// Passes on a body in chunks, and returns how many bytes are in it.
fn chunks(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<u64> {
    let mut all = 0;
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        to.write_all(line.as_bytes())?;
        let digits = line.trim().split(';').next().unwrap_or_default();
        let len = u64::from_str_radix(digits, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        all += copy(from, to, len)?;
        if len == 0 {
            // Trailers, up to an empty line.
            loop {
                let mut line = String::new();
                from.read_line(&mut line)?;
                to.write_all(line.as_bytes())?;
                if line.trim().is_empty() {
                    return Ok(all);
                }
            }
        }
        copy(from, to, 2)?;
    }
}
