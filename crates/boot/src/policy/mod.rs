//! What is to be opened, and how: from crypttab and the kernel command line to a list of entries. Nothing here touches a device.

mod cmdline;
mod crypttab;
mod demands;
mod entry;
mod escape;
mod mkinitcpio;
mod network;
mod notice;
mod options;
mod order;
mod requested;
mod root;
mod spec;
#[cfg(test)]
mod tests;
mod words;

pub use cmdline::CommandLine;
pub use crypttab::Crypttab;
pub use demands::{BadPolicyPath, Demanded, Demands};
pub use entry::{Entry, Key, Unsure};
pub use mkinitcpio::CryptDevice;
pub use network::{Address, Network, bits};
pub use notice::{Notice, Origin, Place as OriginPlace, Problem};
pub use options::{Kind, Measured, Options, Place, Plain};
pub use root::{Boot, Emergency, Stage};
pub use spec::DeviceSpec;

/// What is to be opened, in this order, and what init is to do then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The volumes.
    pub entries: Vec<Entry>,
    /// What init is asked for.
    pub boot: Boot,
    /// What is wrong with the configuration.
    pub notices: Vec<Notice>,
}

impl Policy {
    /// Joins the two, either of which may be missing. The command line decides whether crypttab counts and which of its volumes are
    /// opened, as systemd-cryptsetup-generator(8) says; what it says of one volume by UUID beats crypttab. What it demands holds for
    /// mkinitcpio's volume, too.
    pub fn new(crypttab: Option<Crypttab>, line: Option<CommandLine>) -> Self {
        let mut notices = Vec::new();
        let mut entries = Vec::new();
        let (enabled, uses_crypttab) =
            line.as_ref().map_or((true, true), |line| (line.enabled, line.uses_crypttab));
        if let Some(crypttab) = crypttab.filter(|_| enabled && uses_crypttab) {
            notices.extend(crypttab.notices);
            entries = crypttab.entries;
        }
        let mut boot = Boot::default();
        if let Some(line) = line {
            notices.extend(line.notices);
            if enabled {
                let mut left_out = Vec::new();
                for mut entry in core::mem::take(&mut entries) {
                    let is_opened = line.requested.apply(&mut entry, &mut notices);
                    if is_opened { &mut entries } else { &mut left_out }.push(entry);
                }
                let requested = line.requested.entries(&entries, &mut notices);
                entries.extend(requested);
                if let Some(mut entry) = line.cryptdevice.entry(&mut notices) {
                    line.requested.demand_by_name(&mut entry);
                    entries.push(entry);
                }
                line.requested.leave_demands(&mut entries, &left_out, &mut notices);
            }
            boot = line.boot;
        }
        Self { entries: order::arrange(entries, &mut notices), boot, notices }
    }
}
