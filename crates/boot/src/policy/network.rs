//! `ip=`: the address that init gives the machine, for the servers that tokens need. The kernel's words (Documentation/admin-guide/nfs),
//! and dracut's `ip=INTERFACE:dhcp`.

use std::net::Ipv4Addr;

/// One network interface, or whichever there is, and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The interface's name; `None` is the first that answers.
    pub interface: Option<String>,
    /// Its address.
    pub address: Address,
    /// Name servers that are to be asked.
    pub servers: Vec<Ipv4Addr>,
}

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// A server on the network is asked.
    Dhcp,
    /// The command line says it.
    Fixed {
        /// The machine's address.
        own: Ipv4Addr,
        /// Bits that it shares with its neighbours.
        prefix: u8,
        /// Who passes packets on to the rest of the world.
        gateway: Option<Ipv4Addr>,
    },
}

impl Network {
    /// Reads the value of `ip=`. The inner `None` asks for nothing (`off`, `none`); the outer one is a value that makes no sense or is not
    /// done here, such as `rarp` and IPv6.
    pub fn parse(text: &str) -> Option<Option<Self>> {
        let fields: Vec<&str> = text.split(':').collect();
        // cannot miss: a list that was split has one field at least.
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        match fields.len() {
            1 => return Some(wanted(text)?.then(|| Self::dhcp(None, Vec::new()))),
            2..=4 if is_name(field(0)) && !field(1).is_empty() => {
                return Some(wanted(field(1))?.then(|| Self::dhcp(Some(field(0).into()), Vec::new())));
            }
            3..=10 => {}
            _ => return None,
        }
        let interface = match field(5) {
            "" => None,
            name if is_name(name) => Some(name.into()),
            _ => return None,
        };
        let servers = [address(field(7))?, address(field(8))?].into_iter().flatten().collect();
        let asks = match field(6) {
            "" => true,
            word => wanted(word)?,
        };
        let Some(own) = address(field(0))? else {
            return Some(asks.then(|| Self::dhcp(interface, servers)));
        };
        let prefix = match field(3) {
            "" => class(own),
            mask => prefix(mask)?,
        };
        let address = Address::Fixed { own, prefix, gateway: address(field(2))? };
        Some(Some(Self { interface, address, servers }))
    }

    fn dhcp(interface: Option<String>, servers: Vec<Ipv4Addr>) -> Self {
        Self { interface, address: Address::Dhcp, servers }
    }
}

/// The kernel's words for a way to an address: whether there is one.
fn wanted(word: &str) -> Option<bool> {
    match word {
        "dhcp" | "on" | "any" | "both" => Some(true),
        "off" | "none" => Some(false),
        _ => None,
    }
}

/// Whether the kernel would take it for an interface's name, and nobody for an address.
fn is_name(text: &str) -> bool {
    let fits = !text.is_empty() && text.len() < 16 && ![".", ".."].contains(&text);
    fits && text.bytes().all(|c| c.is_ascii_graphic() && c != b'/') && text.parse::<Ipv4Addr>().is_err()
}

/// The outer `None` is no address; the inner one is none at all.
fn address(text: &str) -> Option<Option<Ipv4Addr>> {
    match text {
        "" => Some(None),
        text => Some(Some(text.parse::<Ipv4Addr>().ok()?).filter(|address| !address.is_unspecified())),
    }
}

/// A mask, as four numbers or as the bits that are set.
fn prefix(text: &str) -> Option<u8> {
    match text.parse::<Ipv4Addr>() {
        Ok(mask) => bits(mask),
        Err(_) => text.parse().ok().filter(|bits| (1..=32).contains(bits)),
    }
}

/// The bits of a mask, if all that are set are in front.
pub fn bits(mask: Ipv4Addr) -> Option<u8> {
    let ones = mask.to_bits().leading_ones();
    let whole = mask.to_bits().count_ones() == ones && ones > 0;
    u8::try_from(ones).ok().filter(|_| whole)
}

/// What the kernel takes where no mask is given: the class of the address.
fn class(own: Ipv4Addr) -> u8 {
    match own.octets()[0] {
        0..128 => 8,
        128..192 => 16,
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Option<String>> {
        Network::parse(text).map(|found| {
            found.map(|network| {
                // intended: what is shown of none is nothing.
                let interface = network.interface.unwrap_or_default();
                let address = match network.address {
                    Address::Dhcp => "dhcp".into(),
                    Address::Fixed { own, prefix, gateway } => format!("{own}/{prefix} {gateway:?}"),
                };
                format!("{interface} {address} {:?}", network.servers)
            })
        })
    }

    #[test]
    fn the_kernels_words_and_dracuts() {
        let told = |text: &str| Some(Some(text.to_owned()));
        for all in ["dhcp", "on", "any", "both", "::::::dhcp", ":::::", "0.0.0.0::::::any"] {
            assert_eq!(read(all), told(" dhcp []"), "{all}");
        }
        assert_eq!(read("ens3:dhcp"), told("ens3 dhcp []"));
        assert_eq!(read("ens3:on:1500:52-54"), told("ens3 dhcp []"));
        assert_eq!(read(":::::eth0:dhcp:9.9.9.9"), told("eth0 dhcp [9.9.9.9]"));
        assert_eq!(
            read("10.0.2.15::10.0.2.2:255.255.255.0:host:eth0:off:1.1.1.1:8.8.8.8"),
            told("eth0 10.0.2.15/24 Some(10.0.2.2) [1.1.1.1, 8.8.8.8]")
        );
        assert_eq!(read("10.0.2.15:::16"), told(" 10.0.2.15/16 None []"));
        for (own, bits) in [("10.0.0.1", 8), ("172.16.0.1", 16), ("192.168.0.1", 24)] {
            assert_eq!(read(&format!("{own}::")), told(&format!(" {own}/{bits} None []")));
        }
        for none in ["off", "none", "ens3:off", "::::::off"] {
            assert_eq!(read(none), Some(None), "{none}");
        }
        for bad in [
            "",
            "rarp",
            "bootp",
            "10.0.0.1",
            "10.0.0.1:x",
            "ens3:",
            "ens3/x:dhcp",
            "a234567890123456:dhcp",
            "10.0.0.300::",
            "10.0.0.1:::255.0.255.0",
            "10.0.0.1:::0",
            "10.0.0.1:::33",
            "10.0.0.1::x",
            "10.0.0.1:::::a/b",
            "10.0.0.1::::::rarp",
            "[fd00::1]::[fd00::2]:64::eth0:off",
            ":::::::::::",
            ":::::::x",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
