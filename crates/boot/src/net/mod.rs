//! An address for the machine before anything is unlocked: the kernel's `ip=`, done here because most kernels have no `CONFIG_IP_PNP`,
//! or load the interface's driver too late for it.

mod dhcp;
mod lease;
mod link;

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

pub use dhcp::{Answer, Conversation, Lease};
use link::Interface;

use crate::device::{Events, wait_for};
use crate::policy::{Address, Network};
use crate::unlock::Level;

/// How long an interface is waited for, with its cable.
const LINK: Duration = Duration::from_secs(10);
/// How long servers are asked for an address.
const ASKING: Duration = Duration::from_secs(30);

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
    let interfaces = interfaces(network.interface.as_deref())?;
    let mut last = String::new();
    for interface in interfaces {
        let failed = |error: io::Error| format!("{}: {error}", interface.name);
        let (own, prefix, gateway, more) = match network.address {
            Address::Fixed { own, prefix, gateway } => (own, prefix, gateway, Vec::new()),
            Address::Dhcp => match lease::ask(&interface, Instant::now() + ASKING) {
                Ok(lease) => (lease.own, lease.prefix, lease.gateway, lease.servers),
                Err(error) => {
                    last = failed(error);
                    continue;
                }
            },
        };
        interface.give(own, prefix).map_err(failed)?;
        if let Some(gateway) = gateway {
            // Servers near by can be reached without.
            if let Err(error) = interface.route(gateway) {
                say(Level::Warning, &format!("{}: no route by {gateway}: {error}", interface.name));
            }
        }
        say(Level::Info, &format!("{} is {own}/{prefix}", interface.name));
        return Ok([network.servers.clone(), more].concat());
    }
    Err(last)
}

/// The interface of this name, or all of Ethernet, that are connected; one at least.
fn interfaces(name: Option<&str>) -> Result<Vec<Interface>, String> {
    let events = Events::listen();
    let mut failed = None;
    let look = || {
        let mut found = link::interfaces();
        found.retain(|interface| name.is_none_or(|name| name == interface.name));
        for interface in &found {
            if let Err(error) = interface.up() {
                failed = Some(format!("{} can't be switched on: {error}", interface.name));
            }
        }
        found.retain(Interface::is_connected);
        Some(found).filter(|found| !found.is_empty())
    };
    let found = wait_for(&events, Instant::now().checked_add(LINK), look);
    let what = name.map_or("no interface".into(), |name| format!("no interface {name}"));
    let seconds = LINK.as_secs();
    found.ok_or_else(|| failed.unwrap_or_else(|| format!("{what} is connected within {seconds} s")))
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
