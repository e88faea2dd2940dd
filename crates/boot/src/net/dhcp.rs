//! Messages of DHCP (RFC 2131, options of RFC 2132): what is asked, and what may be believed of an answer. Whoever is on the network
//! can answer; a wrong address costs the server that a token names, and nothing else.

use std::net::Ipv4Addr;

use atrest_codec::{ReadError, Reader};

use crate::policy::bits;

/// What says that options follow.
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// How long a message is that every server takes.
const LEN: usize = 300;
/// Most name servers that are taken.
const SERVERS: usize = 3;

const MASK: u8 = 1;
const ROUTER: u8 = 3;
const NAME_SERVER: u8 = 6;
const REQUESTED: u8 = 50;
const KIND: u8 = 53;
const SERVER: u8 = 54;
const WISHES: u8 = 55;
const END: u8 = 255;

/// A conversation, which its number and the interface's address name.
#[derive(Clone, Copy, Debug)]
pub struct Conversation {
    /// A random number.
    pub number: [u8; 4],
    /// The interface's hardware address.
    pub hardware: [u8; 6],
}

/// What a server offers or has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The machine's address.
    pub own: Ipv4Addr,
    /// Bits that it shares with its neighbours.
    pub prefix: u8,
    /// Who passes packets on.
    pub gateway: Option<Ipv4Addr>,
    /// Name servers.
    pub servers: Vec<Ipv4Addr>,
    /// Who has answered.
    pub server: Ipv4Addr,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This can be had.
    Offer(Lease),
    /// This is given.
    Given(Lease),
    /// It can't be had any more.
    Refused,
}

impl Conversation {
    /// Asks all servers for an address.
    pub fn discover(&self) -> Vec<u8> {
        self.message(1, &[])
    }

    /// Asks for what a server has offered.
    pub fn request(&self, offer: &Lease) -> Vec<u8> {
        let (own, server) = (offer.own.octets(), offer.server.octets());
        self.message(3, &[(REQUESTED, own), (SERVER, server)])
    }

    fn message(&self, kind: u8, options: &[(u8, [u8; 4])]) -> Vec<u8> {
        // A request over Ethernet; it is answered to everybody, as this machine has no address yet.
        let mut message = vec![1, 1, 6, 0];
        message.extend(self.number);
        message.extend([0, 0, 0x80, 0]);
        message.resize(28, 0);
        message.extend(self.hardware);
        message.resize(236, 0);
        message.extend(COOKIE);
        message.extend([KIND, 1, kind, WISHES, 3, MASK, ROUTER, NAME_SERVER]);
        for (option, value) in options {
            message.extend([*option, 4]);
            message.extend(value);
        }
        message.push(END);
        message.resize(LEN, 0);
        message
    }

    /// Reads an answer; `None` is a message that is none to this conversation, or makes no sense.
    pub fn answer(&self, message: &[u8]) -> Option<Answer> {
        let mut reader = Reader::new(message);
        let [operation, hardware_type, hardware_len, _] = reader.array().ok()?;
        let number: [u8; 4] = reader.array().ok()?;
        reader.bytes(8).ok()?;
        let own = reader.array::<4>().ok()?;
        reader.bytes(8).ok()?;
        let hardware: [u8; 6] = reader.array().ok()?;
        reader.bytes(202).ok()?;
        let ours = (number, hardware) == (self.number, self.hardware);
        if (operation, hardware_type, hardware_len) != (2, 1, 6) || !ours || reader.array().ok()? != COOKIE {
            return None;
        }
        let options = Options::read(reader).ok()?;
        let lease = || {
            let own = Some(Ipv4Addr::from(own)).filter(|own| is_of_a_machine(*own))?;
            let gateway = options.gateway.filter(|gateway| is_of_a_machine(*gateway));
            let prefix = bits(options.mask?)?;
            Some(Lease { own, prefix, gateway, servers: options.servers.clone(), server: options.server? })
        };
        match options.kind? {
            2 => lease().map(Answer::Offer),
            5 => lease().map(Answer::Given),
            6 => Some(Answer::Refused),
            _ => None,
        }
    }
}

/// Whether a machine can have this address.
fn is_of_a_machine(address: Ipv4Addr) -> bool {
    let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !special && !address.is_broadcast() && address.octets()[0] < 240
}

#[derive(Default)]
struct Options {
    kind: Option<u8>,
    mask: Option<Ipv4Addr>,
    gateway: Option<Ipv4Addr>,
    servers: Vec<Ipv4Addr>,
    server: Option<Ipv4Addr>,
}

impl Options {
    fn read(mut reader: Reader<'_>) -> Result<Self, ReadError> {
        let mut found = Self::default();
        loop {
            let option = match reader.array()? {
                [END] => return Ok(found),
                [0] => continue,
                [option] => option,
            };
            let [len] = reader.array()?;
            let mut value = reader.sub(len.into())?;
            match option {
                KIND => {
                    let [kind] = value.array()?;
                    found.kind = Some(kind);
                }
                MASK => found.mask = Some(value.array::<4>()?.into()),
                ROUTER => found.gateway = Some(value.array::<4>()?.into()),
                SERVER => found.server = Some(value.array::<4>()?.into()),
                NAME_SERVER => {
                    while found.servers.len() < SERVERS && value.remaining() > 0 {
                        found.servers.push(value.array::<4>()?.into());
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Conversation =
        Conversation { number: [1, 2, 3, 4], hardware: [0x52, 0x54, 0, 0x12, 0x34, 0x56] };

    /// An answer as RFC 2131 lays it out.
    fn answered(kind: u8, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut message = vec![2, 1, 6, 0, 1, 2, 3, 4];
        message.resize(16, 0);
        message.extend([10, 0, 2, 15]);
        message.resize(28, 0);
        message.extend([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        message.resize(236, 0);
        message.extend([99, 130, 83, 99, 53, 1, kind, 0, 1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 2, 2]);
        message.extend([6, 8, 10, 0, 2, 3, 9, 9, 9, 9, 54, 4, 10, 0, 2, 2, 51, 4, 0, 1, 0x51, 0x80, 255]);
        change(&mut message);
        message
    }

    #[test]
    fn what_is_asked_is_laid_out_as_the_standard_says() {
        let discover = ASKED.discover();
        assert_eq!(discover.len(), LEN);
        assert_eq!(discover[..12], [1, 1, 6, 0, 1, 2, 3, 4, 0, 0, 0x80, 0]);
        assert_eq!(discover[28..34], ASKED.hardware);
        assert_eq!(discover[236..249], [99, 130, 83, 99, 53, 1, 1, 55, 3, 1, 3, 6, 255]);
        let Some(Answer::Offer(offer)) = ASKED.answer(&answered(2, |_| ())) else { panic!("an offer") };
        let request = ASKED.request(&offer);
        assert_eq!(
            request[240..261],
            [53, 1, 3, 55, 3, 1, 3, 6, 50, 4, 10, 0, 2, 15, 54, 4, 10, 0, 2, 2, 255]
        );
    }

    #[test]
    fn answers_to_this_conversation_are_read_and_others_are_not() {
        let lease = Lease {
            own: [10, 0, 2, 15].into(),
            prefix: 24,
            gateway: Some([10, 0, 2, 2].into()),
            servers: vec![[10, 0, 2, 3].into(), [9, 9, 9, 9].into()],
            server: [10, 0, 2, 2].into(),
        };
        assert_eq!(ASKED.answer(&answered(2, |_| ())), Some(Answer::Offer(lease.clone())));
        assert_eq!(ASKED.answer(&answered(5, |_| ())), Some(Answer::Given(lease)));
        assert_eq!(ASKED.answer(&answered(6, |_| ())), Some(Answer::Refused));
        for (at, what) in [
            (0, "a request"),
            (1, "not over Ethernet"),
            (2, "another length of addresses"),
            (4, "another conversation"),
            (30, "another machine"),
            (236, "no options"),
            (242, "another kind"),
            (246, "a mask with a gap"),
        ] {
            let message = answered(2, |message| message[at] ^= 1);
            assert_eq!(ASKED.answer(&message), None, "{what}");
        }
        for own in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], [240, 0, 0, 1]] {
            let message = answered(5, |message| message[16..20].copy_from_slice(&own));
            assert_eq!(ASKED.answer(&message), None, "{own:?}");
        }
        let whole = answered(5, |_| ());
        for len in 0..whole.len() {
            assert_eq!(ASKED.answer(&whole[..len]), None, "cut off after {len}");
        }
    }
}
