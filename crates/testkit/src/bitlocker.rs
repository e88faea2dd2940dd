//! BitLocker volumes made by libgcrypt and Python's hashlib: no package of Debian makes any.

use std::path::Path;

use serde_json::json;

use crate::oracle::Program;

/// A volume to make.
#[derive(Clone)]
pub struct BitLocker {
    /// `vista`, `seven`, or `to-go`.
    pub edition: &'static str,
    /// The number of the data's cipher: 0x8000 to 0x8005.
    pub method: u16,
    /// Bytes in a sector.
    pub sector: u32,
    /// What opens it: `password`, `recovery`, `startup`, `clear`, `tpm` or `card`, and the secret of the first two.
    pub protectors: Vec<(&'static str, &'static str)>,
    /// Numbers of the present and the next state.
    pub states: [u16; 2],
    /// Bytes from the start that are encrypted.
    pub encrypted: u64,
    /// Bytes behind them that are being converted.
    pub converting: u32,
    /// Encryption where it is written.
    pub on_write: bool,
    /// Where the start of the volume was moved to, and its bytes.
    pub relocated: (u64, u64),
    /// Whether an entry says so, too.
    pub entry: bool,
    /// What Windows shows, by offset.
    pub plain: Vec<(u64, Vec<u8>)>,
}

impl BitLocker {
    /// Bytes of the volume.
    pub const SIZE: u64 = 0x80000;
    /// Where the copies of the metadata are.
    pub const PLACES: [u64; 3] = [0x10000, 0x30000, 0x50000];

    /// Makes it at `path`, and the file of its startup key, if it has one, at `startup`.
    pub fn make(&self, path: &Path, startup: &Path) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let protectors: Vec<_> =
            self.protectors.iter().map(|(kind, secret)| json!({ "kind": kind, "secret": secret })).collect();
        let plain: Vec<_> = self.plain.iter().map(|(at, bytes)| (at, hex(bytes))).collect();
        let wanted = json!({
            "path": path, "size": Self::SIZE, "edition": self.edition, "method": self.method, "sector": self.sector,
            "protectors": protectors, "states": self.states, "encrypted": self.encrypted, "converting": self.converting, "on_write": self.on_write,
            "relocated": self.relocated, "entry": self.entry, "plain": plain, "startup": startup,
        });
        Program::named("python3").arg("-c").arg(include_str!("bitlocker.py")).arg(wanted.to_string()).ok();
    }
}

impl Default for BitLocker {
    /// A volume of Windows 10 that a startup key opens, which takes no time.
    fn default() -> Self {
        Self {
            edition: "seven",
            method: 0x8004,
            sector: 512,
            protectors: vec![("startup", "")],
            states: [4, 4],
            encrypted: Self::SIZE,
            converting: 0,
            on_write: false,
            relocated: (0x70000, 8192),
            entry: true,
            plain: Vec::new(),
        }
    }
}
