//! What init is told by the kernel command line: the root file system, and what happens when something fails.

use core::time::Duration;

use super::network::Network;
use super::notice::Problem;
use super::spec::DeviceSpec;
use super::words;

/// What init is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// `root=`: where the root file system is.
    pub root: Option<DeviceSpec>,
    /// `rootfstype=`: file systems to try, separated by commas.
    pub filesystem: Option<String>,
    /// `rootflags=`: options of the mount.
    pub flags: Option<String>,
    /// `rw`: mounted for writing, too.
    pub writable: bool,
    /// `init=`: the program that is started.
    pub init: Option<String>,
    /// `rootwait`, `rd.timeout=0`: devices are waited for without end.
    pub wait: bool,
    /// `rootdelay=`, `rd.timeout=`, `rootwait=`: how long they are waited for.
    pub timeout: Option<Duration>,
    /// `rd.shell`: a shell may be started when something fails.
    pub shell: bool,
    /// `rd.break`, `break`: a shell is started before this is done.
    pub stop_at: Option<Stage>,
    /// `rd.emergency=`: what happens when nothing can be done any more.
    pub emergency: Emergency,
    /// `ip=`: the networks that are joined before anything is unlocked.
    pub networks: Vec<Network>,
    /// Words after `--`, for init.
    pub arguments: Vec<String>,
}

/// A place at which the boot can be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before volumes are unlocked.
    Unlock,
    /// Before the root file system is mounted.
    Mount,
    /// Before the root is switched.
    Switch,
}

/// What happens when nothing can be done any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emergency {
    /// The program ends. The kernel panics then, and obeys `panic=`.
    #[default]
    Panic,
    /// The machine starts again.
    Reboot,
    /// The machine is switched off.
    PowerOff,
    /// The machine stops.
    Halt,
}

impl Boot {
    /// Takes one parameter of the kernel command line, its name with dashes only. Those of others are left alone.
    ///
    /// # Errors
    /// [`Problem::ParameterValue`] if a parameter that is known has another value than it can have.
    pub fn add(&mut self, name: &str, value: Option<&str>) -> Result<(), Problem> {
        // intended: no value is shown as an empty one.
        let bad = || Problem::ParameterValue { value: value.unwrap_or_default().into() };
        let text = value.filter(|value| !value.is_empty());
        match name {
            "root" => self.root = Some(text.and_then(DeviceSpec::parse).ok_or_else(bad)?),
            "rootfstype" => self.filesystem = text.map(String::from),
            "rootflags" => self.flags = text.map(String::from),
            "ro" => self.writable = false,
            "rw" => self.writable = true,
            "init" => self.init = text.map(String::from),
            "rootwait" if value.is_none() => self.wait = true,
            "rootdelay"
            | "rootwait"
            | "rd.timeout"
            | "rd.systemd.default-device-timeout-sec"
            | "systemd.default-device-timeout-sec" => match text.and_then(words::span).ok_or_else(bad)? {
                Some(timeout) => self.timeout = Some(timeout),
                None if name == "rootdelay" => {}
                None => self.wait = true,
            },
            "rd.shell" | "rd.rescue" => {
                self.shell = value.map_or(Some(true), words::switch).ok_or_else(bad)?
            }
            "rd.break" | "break" => {
                self.stop_at = Some(match text {
                    None
                    | Some("switch_root" | "pre-pivot" | "postmount" | "bottom" | "init" | "cleanup") => {
                        Stage::Switch
                    }
                    Some("pre-mount" | "premount" | "mount" | "mountroot") => Stage::Mount,
                    Some("cmdline" | "pre-udev" | "pre-trigger" | "initqueue" | "top" | "modules") => {
                        Stage::Unlock
                    }
                    Some(_) => return Err(bad()),
                });
                self.shell = true;
            }
            "ip" => self.networks.extend(text.and_then(Network::parse).ok_or_else(bad)?),
            "rd.emergency" => {
                self.emergency = match text {
                    Some("reboot") => Emergency::Reboot,
                    Some("poweroff") => Emergency::PowerOff,
                    Some("halt") => Emergency::Halt,
                    _ => return Err(bad()),
                };
            }
            _ => {}
        }
        Ok(())
    }
}
