//! An address for the machine before anything is unlocked: the kernel's `ip=`, done here because most kernels have no `CONFIG_IP_PNP`,
//! or load the interface's driver too late for it.

mod dhcp;
mod lease;
mod link;

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use dhcp::{Answer, Conversation, Lease};
use link::Interface;

use crate::device::{Events, wait_for};
use crate::policy::{Address, Network};
use crate::unlock::Level;

/// How long an interface is waited for, with its cable.
const LINK: Duration = Duration::from_secs(10);
/// How long servers are asked for an address, on all interfaces together.
const ASKING: Duration = Duration::from_secs(30);
/// How long those of one interface are asked at most before it is another one's turn: three times (1, 2 and 4 s).
const TURN: Duration = Duration::from_secs(7);
/// How long a turn takes at least.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the resolver looks.
const RESOLVER: &str = "/etc/resolv.conf";

/// Joins these networks, each as well as it can be: a boot without the network has passphrases left. Nothing is done where the kernel
/// has done it already.
pub fn join_all(networks: &[Network], say: &dyn Fn(Level, &str)) {
    if networks.is_empty() || link::has_route() {
        return;
    }
    let mut servers = Vec::new();
    for network in networks {
        match join(network, say) {
            Ok(more) => servers.extend(more),
            Err(problem) => say(Level::Warning, &format!("the network: {problem}")),
        }
    }
    if let Err(error) = name_servers(&servers) {
        say(Level::Warning, &format!("{RESOLVER}: {error}"));
    }
}

/// Joins one, and returns its name servers.
fn join(network: &Network, say: &dyn Fn(Level, &str)) -> Result<Vec<Ipv4Addr>, String> {
    let name = network.interface.as_deref();
    let connected = interfaces(name)?;
    let (interface, own, prefix, gateway, more) = match network.address {
        Address::Fixed { own, prefix, gateway } => {
            let interface = connected.into_iter().next().ok_or("no interface is connected")?;
            (interface, own, prefix, gateway, Vec::new())
        }
        Address::Dhcp => {
            let (interface, lease) = leased(name, connected)?;
            (interface, lease.own, lease.prefix, lease.gateway, lease.servers)
        }
    };
    interface.give(own, prefix).map_err(|error| format!("{}: {error}", interface.name))?;
    if let Some(gateway) = gateway {
        // Servers near by can be reached without.
        if let Err(error) = interface.route(gateway) {
            say(Level::Warning, &format!("{}: no route by {gateway}: {error}", interface.name));
        }
    }
    say(Level::Info, &format!("{} is {own}/{prefix}", interface.name));
    Ok([network.servers.clone(), more].concat())
}

/// Asks on one interface after the other, round and round, as long as all have together. Those that are connected later get their turn.
fn leased(name: Option<&str>, mut connected: Vec<Interface>) -> Result<(Interface, Lease), String> {
    let end = Instant::now() + ASKING;
    let mut asked: Vec<String> = Vec::new();
    let mut last = String::from("its cable is pulled");
    loop {
        let begun = Instant::now();
        let left = end.saturating_duration_since(begun); // intended: none, if it is over
        if left.is_zero() {
            return Err(format!("{last}, within {} s", ASKING.as_secs()));
        }
        let times = |interface: &&Interface| asked.iter().filter(|name| **name == interface.name).count();
        if let Some(interface) = connected.iter().min_by_key(times) {
            let new = connected.iter().filter(|interface| times(interface) == 0).count();
            match lease::ask(interface, begun + turn(left, new)) {
                Ok(lease) => return Ok((interface.clone(), lease)),
                Err(error) => last = format!("{}: {error}", interface.name),
            }
            asked.push(interface.name.clone());
        }
        // One that fails at once is not asked without end.
        sleep(PAUSE.saturating_sub(begun.elapsed()).min(left)); // intended: no pause after a long turn
        connected = look(name).0;
    }
}

/// How long one is asked, of the time that is left, if so many have not been asked at all.
fn turn(left: Duration, new: usize) -> Duration {
    // cannot fail: no machine has that many interfaces.
    let share = left / u32::try_from(new.max(1)).unwrap_or(u32::MAX);
    share.min(TURN)
}

/// The interface of this name, or all of Ethernet, that are connected; one at least.
fn interfaces(name: Option<&str>) -> Result<Vec<Interface>, String> {
    let events = Events::listen();
    let mut failed = None;
    let found = wait_for(&events, Instant::now().checked_add(LINK), || {
        let (found, problem) = look(name);
        failed = problem;
        Some(found).filter(|found| !found.is_empty())
    });
    let what = name.map_or("no interface".into(), |name| format!("no interface {name}"));
    let seconds = LINK.as_secs();
    found.ok_or_else(|| failed.unwrap_or_else(|| format!("{what} is connected within {seconds} s")))
}

/// Those that are connected now, and why one can't be switched on.
fn look(name: Option<&str>) -> (Vec<Interface>, Option<String>) {
    let mut failed = None;
    let mut found = link::interfaces();
    found.retain(|interface| name.is_none_or(|name| name == interface.name));
    for interface in &found {
        if let Err(error) = interface.up() {
            failed = Some(format!("{} can't be switched on: {error}", interface.name));
        }
    }
    found.retain(Interface::is_connected);
    (found, failed)
}

/// Names of servers are looked up with these.
fn name_servers(servers: &[Ipv4Addr]) -> io::Result<()> {
    if servers.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    fs::create_dir_all("/etc")?;
    fs::write(RESOLVER, lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_its_turn_before_the_time_is_over() {
        let seconds = |left, new| turn(Duration::from_secs(left), new).as_secs();
        assert_eq!(seconds(30, 1), 7);
        assert_eq!(seconds(30, 0), 7);
        assert_eq!(seconds(30, 10), 3);
        assert_eq!(seconds(4, 1), 4);
        let mut left = ASKING;
        for new in (1..=16).rev() {
            let turn = turn(left, new);
            assert!(turn >= Duration::from_secs(1), "{new}");
            left -= turn;
        }
    }
}
