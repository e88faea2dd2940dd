//! Interfaces, as sysfs shows them, and what the kernel is told of them by rtnetlink (rtnetlink(7)).

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const CLASS: &str = "/sys/class/net";
/// Ethernet, as `type` in sysfs says it (ARPHRD_ETHER).
const ETHERNET: &str = "1";

const NEW_ADDRESS: u16 = 20;
const SET_LINK: u16 = 19;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const ERROR: u16 = 2;
/// It is a request, and is answered.
const REQUEST: u16 = 1 | 4;
/// What is not there is made.
const CREATE: u16 = 0x400;

/// The gateway is at the other end of the cable, whatever its address is (RTNH_F_ONLINK).
const ON_LINK: u32 = 4;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    index: u32,
    /// Its hardware address.
    pub hardware: [u8; 6],
}

/// All interfaces of Ethernet, by their names.
pub fn interfaces() -> Vec<Interface> {
    let Ok(all) = fs::read_dir(CLASS) else { return Vec::new() };
    let mut found: Vec<Interface> = all.flatten().filter_map(|entry| read(&entry.path())).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn read(directory: &Path) -> Option<Interface> {
    let text = |name: &str| Some(fs::read_to_string(directory.join(name)).ok()?.trim().to_owned());
    if text("type")? != ETHERNET {
        return None;
    }
    let hardware = hardware(&text("address")?)?;
    let name = directory.file_name()?.to_str()?.to_owned();
    Some(Interface { name, index: text("ifindex")?.parse().ok()?, hardware })
}

/// Six bytes in hexadecimal digits, with colons between.
fn hardware(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// Whether packets already have a way out of the machine.
pub fn has_route() -> bool {
    // The first line is a heading.
    fs::read_to_string("/proc/net/route").is_ok_and(|routes| routes.lines().count() > 1)
}

impl Interface {
    /// Whether it is on, with a cable at it.
    pub fn is_connected(&self) -> bool {
        let carrier = PathBuf::from(CLASS).join(&self.name).join("carrier");
        fs::read_to_string(carrier).is_ok_and(|carrier| carrier.trim() == "1")
    }

    /// Switches it on.
    pub fn up(&self) -> io::Result<()> {
        let mut body = vec![0; 4];
        body.extend(self.index.to_ne_bytes());
        // Its flags, and which of them are meant: IFF_UP.
        body.extend(1_u32.to_ne_bytes());
        body.extend(1_u32.to_ne_bytes());
        request(SET_LINK, 0, &body)
    }

    /// Gives it an address.
    pub fn give(&self, own: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut body = vec![AddressFamily::INET.as_raw() as u8, prefix, 0, 0];
        body.extend(self.index.to_ne_bytes());
        // IFA_LOCAL, IFA_ADDRESS.
        attribute(&mut body, 2, own.octets());
        attribute(&mut body, 1, own.octets());
        request(NEW_ADDRESS, CREATE, &body)
    }

    /// Sends what is for nobody near by this gateway. It may be outside of the network: clouds give addresses without neighbours.
    pub fn route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        let mut body = route(0, ON_LINK);
        // RTA_GATEWAY, RTA_OIF.
        attribute(&mut body, 5, gateway.octets());
        attribute(&mut body, 4, self.index.to_ne_bytes());
        request(NEW_ROUTE, CREATE, &body)
    }

    /// Sends everything by this interface, as long as the machine has no address: what is for everybody has no other way.
    pub fn everything(&self) -> io::Result<Everything<'_>> {
        self.whole(NEW_ROUTE, CREATE)?;
        Ok(Everything(self))
    }

    fn whole(&self, kind: u16, flags: u16) -> io::Result<()> {
        // RT_SCOPE_LINK: without a gateway.
        let mut body = route(253, 0);
        attribute(&mut body, 4, self.index.to_ne_bytes());
        request(kind, flags, &body)
    }
}

/// Everything is sent by an interface until this is dropped.
#[derive(Debug)]
pub struct Everything<'a>(&'a Interface);

impl Drop for Everything<'_> {
    fn drop(&mut self) {
        // A route that stays is a worse one, and no failure.
        let _ = self.0.whole(DELETE_ROUTE, 0);
    }
}

/// A route to everywhere: the main table, made at boot, to a machine.
fn route(scope: u8, flags: u32) -> Vec<u8> {
    let mut body = vec![AddressFamily::INET.as_raw() as u8, 0, 0, 0, 254, 3, scope, 1];
    body.extend(flags.to_ne_bytes());
    body
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: [u8; 4]) {
    body.extend(8_u16.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

/// Tells the kernel, and waits for what it says. That something is there already is no failure.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let len = u32::try_from(16 + body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 1024];
    let (_, len) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match said(answer.get(..len).ok_or(io::ErrorKind::InvalidData)?) {
        Some(0 | EXISTS) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// What the kernel says of a thing that it has already (EEXIST).
const EXISTS: i32 = -17;

/// The error number in the kernel's answer, which is zero for none, and negative.
fn said(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == ERROR && code <= 0).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_an_error_number() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = vec![36, 0, 0, 0];
            bytes.extend(kind.to_ne_bytes());
            bytes.resize(16, 0);
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        assert_eq!(said(&answer(2, 0)), Some(0));
        assert_eq!(said(&answer(2, -17)), Some(-17));
        assert_eq!(said(&answer(3, 0)), None);
        assert_eq!(said(&answer(2, 1)), None);
        assert_eq!(said(&answer(2, 0)[..19]), None);
    }

    #[test]
    fn a_gateway_may_be_outside_of_the_network() {
        // struct rtmsg: family, three lengths, table, protocol, scope, type, flags.
        let flags = ON_LINK.to_ne_bytes();
        assert_eq!(route(0, ON_LINK), [&[2, 0, 0, 0, 254, 3, 0, 1][..], &flags].concat());
    }

    #[test]
    fn only_ethernet_has_an_address_that_is_taken() {
        assert_eq!(hardware("52:54:00:12:34:56"), Some([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        for bad in ["", "52:54:00:12:34", "52:54:00:12:34:56:78", "52:54:00:12:34:xx"] {
            assert_eq!(hardware(bad), None, "{bad}");
        }
        // The loopback interface, which every machine has, is none.
        assert!(interfaces().iter().all(|interface| interface.name != "lo"));
    }
}
