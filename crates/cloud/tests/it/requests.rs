//! What servers of tests read.

use std::io::Read;
use std::net::TcpStream;

/// A request's head, or nothing if whoever asks leaves before its end. What has come of the body with it may follow.
pub fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    while !read.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(len) if len > 0 => read.extend_from_slice(&piece[..len]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&read).into_owned())
}
