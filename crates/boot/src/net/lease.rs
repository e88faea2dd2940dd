//! Asks the servers on a network for an address, and asks again for as long as none answers.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use super::dhcp::{Answer, Conversation, Lease};
use super::link::Interface;

/// Ports of a client and of a server.
const CLIENT: u16 = 68;
const SERVER: u16 = 67;
/// How long the first answer is waited for; each time twice as long.
const FIRST: Duration = Duration::from_secs(1);

/// Asks until somebody gives an address, until `end`.
pub fn ask(interface: &Interface, end: Instant) -> io::Result<Lease> {
    let mut number = [0; 4];
    getrandom(&mut number[..], GetRandomFlags::empty())?;
    let conversation = Conversation { number, hardware: interface.hardware };
    let _everything = interface.everything()?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, CLIENT))?;
    socket.set_broadcast(true)?;
    let mut patience = FIRST;
    while Instant::now() < end {
        let until =
            |patience| Instant::now().checked_add(patience).map_or(end, |until: Instant| until.min(end));
        let offer = said(&socket, &conversation, &conversation.discover(), until(patience))?;
        if let Some(Answer::Offer(offer)) = offer {
            let wanted = conversation.request(&offer);
            let last = until(patience);
            match said(&socket, &conversation, &wanted, last)? {
                Some(Answer::Given(lease)) => return Ok(lease),
                // Asked at once, it would offer and refuse without end.
                Some(_) => sleep(last.saturating_duration_since(Instant::now())), // intended: none, if it is over
                None => {}
            }
        }
        patience = patience.checked_mul(2).unwrap_or(patience);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no server gives an address"))
}

/// Sends a message to everybody, and waits for the first answer to this conversation that fits it.
fn said(
    socket: &UdpSocket,
    conversation: &Conversation,
    message: &[u8],
    until: Instant,
) -> io::Result<Option<Answer>> {
    let asked = message == conversation.discover();
    socket.send_to(message, (Ipv4Addr::BROADCAST, SERVER))?;
    let mut answer = [0; 1500];
    loop {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        let Some(left) = left else { return Ok(None) };
        socket.set_read_timeout(Some(left))?;
        let len = match socket.recv(&mut answer) {
            Ok(len) => len,
            Err(error) if is_late(&error) => continue,
            Err(error) => return Err(error),
        };
        // An offer that comes late is no answer to a request.
        let fits = |answer: &Answer| matches!(answer, Answer::Offer(_)) == asked;
        if let Some(answer) = answer.get(..len).and_then(|answer| conversation.answer(answer)).filter(fits) {
            return Ok(Some(answer));
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
