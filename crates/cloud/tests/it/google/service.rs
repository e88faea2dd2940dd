//! A small server that keeps what it is asked, and answers as a test says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method, path and query.
    pub line: String,
    /// In small letters.
    pub head: String,
    pub body: String,
}

impl Asked {
    /// What a form has under a name, encoded.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.body.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }
}

/// A server on this machine, for as long as the test runs.
pub struct Service {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    /// One that answers each request, on a connection of its own, with what `answer` says to its number and to it.
    pub fn new(answer: impl Fn(usize, &Asked) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let Some(request) = request(&mut stream) else { continue };
                let number = kept.lock().expect("a list").len();
                kept.lock().expect("a list").push(request.clone());
                // Who asked may have gone.
                let _ = stream.write_all(answer(number, &request).as_bytes());
            }
        });
        Self { url, asked }
    }

    /// What it was asked up to now.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("a list").clone()
    }
}

/// An answer after which the connection ends.
pub fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn request(stream: &mut TcpStream) -> Option<Asked> {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let end = read.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            let small = head.to_lowercase();
            let len = small.lines().find_map(|line| line.strip_prefix("content-length: "));
            let len: usize = len.map_or(0, |len| len.parse().expect("a length"));
            if read.len() >= end + 4 + len {
                let body = String::from_utf8_lossy(&read[end + 4..end + 4 + len]).into_owned();
                let line = head.lines().next()?.strip_suffix(" HTTP/1.1")?.to_owned();
                return Some(Asked { line, head: small, body });
            }
        }
        match stream.read(&mut piece) {
            Ok(len) if len > 0 => read.extend_from_slice(&piece[..len]),
            _ => return None,
        }
    }
}
