//! The fourth field of crypttab, and `luks.options=`: how a volume is to be unlocked and mapped.

use core::time::Duration;

use atrest_open::token::tpm2::{BadTpmStore, TpmStore, VOLUME_KEY_PCR};
use atrest_volume::CryptFlags;
use atrest_volume::luks2::VolumeKeyId;

use super::demands::{BadPolicyPath, policy_path};
use super::escape::unescape;
use super::notice::{Notice, Origin, Problem};
use super::spec::DeviceSpec;
use super::words;

/// Kind of volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// LUKS1 or LUKS2, whichever it is.
    #[default]
    Luks,
    /// dm-crypt without a header.
    Plain,
}

/// A file, or the whole device where no path is given, and the device that the file is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's path: on the device's file system if one is given, otherwise in this one. `None` is the device itself.
    pub path: Option<String>,
    /// The device.
    pub device: Option<DeviceSpec>,
}

/// What a plain volume has no header for. What is not given has no default here: a wrong guess shows and writes garbage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    /// Cipher, as dm-crypt writes it.
    pub cipher: Option<String>,
    /// Bits in the key.
    pub key_bits: Option<u32>,
    /// Hash that makes the key from a passphrase.
    pub hash: Option<String>,
    /// First sector on the device, of 512 bytes.
    pub offset: u64,
    /// Number that the first sector's IV gets, in 512-byte sectors.
    pub skip: u64,
    /// Bytes in a data unit.
    pub sector_size: Option<u32>,
    /// Sectors in the volume, of 512 bytes.
    pub sectors: Option<u64>,
}

/// How a volume is unlocked and mapped. `Default` is what crypttab means without any option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Kind of volume.
    pub kind: Kind,
    /// Where the header is, if not in front of the data.
    pub header: Option<Place>,
    /// Try this keyslot only.
    pub key_slot: Option<u32>,
    /// Bytes of the key file to skip.
    pub key_offset: u64,
    /// Bytes of the key file to use.
    pub key_size: Option<u64>,
    /// How long the key file's device is waited for before a passphrase is asked for.
    pub key_timeout: Option<Duration>,
    /// How dm-crypt works.
    pub flags: CryptFlags,
    /// The mapping refuses writes.
    pub read_only: bool,
    /// How often a passphrase is asked for; 0 is without end.
    pub tries: u32,
    /// How long the question for a passphrase waits; `None` is without end.
    pub timeout: Option<Duration>,
    /// How long the device is waited for; `None` leaves it to the program. `Duration::MAX` is without end.
    pub device_timeout: Option<Duration>,
    /// The boot goes on without the volume.
    pub nofail: bool,
    /// The volume is opened only if it is named.
    pub noauto: bool,
    /// Nothing is asked.
    pub headless: bool,
    /// The empty passphrase is tried before anything is asked.
    pub try_empty: bool,
    /// Passphrases that opened other volumes are tried.
    pub shares_passphrases: bool,
    /// What plain mode needs.
    pub plain: Plain,
    /// The program that prints the key.
    pub key_script: Option<String>,
    /// Which PCR of a TPM is extended by the volume key.
    pub measured: Measured,
    /// The volume key must be this one, by the identifier that `atrest header pin` prints.
    pub expected_key: Option<VolumeKeyId>,
    /// The volume key must be this one, as systemd names it.
    pub fixed_key: Option<String>,
    /// The file with what the header may say. What was mistyped lets no volume in.
    pub header_policy: Option<Result<String, BadPolicyPath>>,
    /// The counter of the TPM that says how new the pinned header is. What was mistyped lets no volume in.
    pub header_store: Option<Result<TpmStore, BadTpmStore>>,
}

/// Which PCR of a TPM says afterwards which volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// Nothing is said: PCR 15 where init opens the volume and there is a TPM.
    #[default]
    Unsaid,
    /// None.
    No,
    /// This one; without it the volume is not opened.
    Pcr(u32),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kind: Kind::Luks,
            header: None,
            key_slot: None,
            key_offset: 0,
            key_size: None,
            key_timeout: None,
            flags: CryptFlags::default(),
            read_only: false,
            tries: 3,
            timeout: None,
            device_timeout: None,
            nofail: false,
            noauto: false,
            headless: false,
            try_empty: false,
            shares_passphrases: true,
            plain: Plain::default(),
            key_script: None,
            measured: Measured::Unsaid,
            expected_key: None,
            fixed_key: None,
            header_policy: None,
            header_store: None,
        }
    }
}

/// Options that mean nothing in an initramfs, or what happens anyway.
const NO_EFFECT: &[&str] = &[
    "luks",
    "initramfs",
    "noearly",
    "loud",
    "quiet",
    "_netdev",
    "x-initrd.attach",
    "auto",
    "defaults",
    "none",
    "password-echo",
];
/// Options that would make a difference if they were done.
const NOT_DONE: &[&str] = &[
    "verify",
    "check",
    "checkargs",
    "precheck",
    "keyfile-erase",
    "link-volume-key",
    "tpm2-measure-bank",
    "tpm2-measure-keyslot-nvpcr",
];
/// How the options begin that name a token.
const TOKENS: &[&str] = &["tpm2-", "fido2-", "pkcs11-", "token-timeout", "clevis"];
/// Volumes that somebody else opens.
const OTHERS: &[(&str, &str)] = &[
    ("swap", "the booted system makes swap space with a random key"),
    ("tmp", "the booted system makes temporary space with a random key"),
    ("bitlk", "cryptsetup opens BitLocker volumes"),
    ("fvault2", "cryptsetup opens FileVault2 volumes"),
    ("tcrypt", "cryptsetup opens TrueCrypt and VeraCrypt volumes"),
    ("veracrypt", "cryptsetup opens TrueCrypt and VeraCrypt volumes"),
];

impl Options {
    /// Adds the options of a list that is separated by commas. `None` if one of them has a value that makes no sense, or asks for a kind
    /// of volume that is not opened here: with a guess in its place the wrong bytes could be shown and written.
    pub fn read(list: &str, origin: &Origin, notices: &mut Vec<Notice>) -> Option<Self> {
        let mut options = Self::default();
        let mut usable = true;
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let problem = match unescape(word) {
                Some(word) => options.add(&word).err(),
                None => Some(Problem::BadEscape { text: word.into() }),
            };
            if let Some(problem) = problem {
                let notice = Notice { origin: origin.clone(), problem };
                usable &= !notice.drops_entry();
                notices.push(notice);
            }
        }
        if options.kind == Kind::Plain && options.header.is_some() {
            let problem = Problem::Together { a: "plain", b: "header=" };
            notices.push(Notice { origin: origin.clone(), problem });
            usable = false;
        }
        usable.then_some(options)
    }

    fn add(&mut self, word: &str) -> Result<(), Problem> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        // intended: no value is shown as an empty one.
        let bad = || Problem::BadValue { option: name.into(), value: value.unwrap_or_default().into() };
        let text = || value.filter(|value| !value.is_empty()).map(String::from).ok_or_else(bad);
        let number = || value.and_then(|value| value.parse::<u64>().ok()).ok_or_else(bad);
        let number32 = || value.and_then(|value| value.parse::<u32>().ok()).ok_or_else(bad);
        let span = || value.and_then(words::span).ok_or_else(bad);
        let switch = || value.map_or(Some(true), words::switch).ok_or_else(bad);
        match name {
            "plain" => self.kind = Kind::Plain,
            "header" => self.header = Some(value.and_then(place).ok_or_else(bad)?),
            "key-slot" | "keyslot" => self.key_slot = Some(number32()?),
            "keyfile-offset" => self.key_offset = number()?,
            "keyfile-size" => self.key_size = Some(number()?).filter(|size| *size > 0),
            "keyfile-timeout" => self.key_timeout = span()?,
            "discard" | "allow-discards" => self.flags.allow_discards = true,
            "same-cpu-crypt" | "perf-same_cpu_crypt" => self.flags.same_cpu_crypt = true,
            "submit-from-crypt-cpus" | "perf-submit_from_crypt_cpus" => {
                self.flags.submit_from_crypt_cpus = true
            }
            "no-read-workqueue" | "perf-no_read_workqueue" => self.flags.no_read_workqueue = true,
            "no-write-workqueue" | "perf-no_write_workqueue" => self.flags.no_write_workqueue = true,
            "read-only" | "readonly" => self.read_only = true,
            "tries" => self.tries = number32()?,
            "timeout" => self.timeout = span()?,
            // intended: no span stands for no limit.
            "x-systemd.device-timeout" => self.device_timeout = Some(span()?.unwrap_or(Duration::MAX)),
            "nofail" => self.nofail = true,
            "fail" => self.nofail = false,
            "noauto" => self.noauto = true,
            "headless" => self.headless = switch()?,
            "try-empty-password" => self.try_empty = switch()?,
            "password-cache" => {
                self.shares_passphrases = value == Some("read-only") || switch()?;
            }
            "keyscript" => self.key_script = Some(text()?),
            "tpm2-measure-pcr" => self.measured = value.map_or(Some(YES), measured).ok_or_else(bad)?,
            "atrest-expect-key" | "expect-key" => {
                self.expected_key = Some(value.and_then(|value| value.parse().ok()).ok_or_else(bad)?);
            }
            "fixate-volume-key" => {
                let digits = |text: &&str| text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
                self.fixed_key = Some(value.filter(digits).ok_or_else(bad)?.to_ascii_lowercase());
            }
            "atrest-header-policy" | "header-policy" => {
                self.header_policy = Some(Ok(policy_path(value).map_err(|_| bad())?));
            }
            "atrest-header-store" | "header-store" => {
                let store = value.and_then(|value| value.parse().ok()).ok_or_else(bad)?;
                self.header_store = Some(Ok(store));
            }
            "cipher" => self.plain.cipher = Some(text()?),
            "hash" => self.plain.hash = Some(text()?),
            "size" => {
                let bits = number32()?;
                let possible = bits > 0 && bits.is_multiple_of(8);
                self.plain.key_bits = Some(possible.then_some(bits).ok_or_else(bad)?);
            }
            "offset" => self.plain.offset = number()?,
            "skip" => self.plain.skip = number()?,
            "sector-size" => self.plain.sector_size = Some(number32()?),
            "device-size" => self.plain.sectors = Some(number()?),
            _ if NO_EFFECT.contains(&name) => {}
            _ if NOT_DONE.contains(&name) => return Err(Problem::NotDone { option: name.into() }),
            _ if TOKENS.iter().any(|token| name.starts_with(token)) => {
                return Err(Problem::PassedOver { option: name.into() });
            }
            // What udev, systemd's units and other programs are told.
            _ if name.starts_with("x-") || name.starts_with("X-") || name.starts_with("CRYPTDISKS_") => {}
            _ => {
                return Err(match OTHERS.iter().find(|(other, _)| name.starts_with(other)) {
                    Some((_, instead)) => Problem::Unsupported { option: name.into(), instead },
                    None => Problem::UnknownOption { option: word.into() },
                });
            }
        }
        Ok(())
    }
}

/// What `tpm2-measure-pcr=yes` means.
const YES: Measured = Measured::Pcr(VOLUME_KEY_PCR);

/// `yes`, `no` or the number of a PCR.
fn measured(text: &str) -> Option<Measured> {
    match text.parse::<u32>() {
        Ok(pcr @ 2..24) => Some(Measured::Pcr(pcr)),
        Ok(0) => Some(Measured::No),
        Ok(1) => Some(YES),
        Ok(_) => None,
        Err(_) => words::switch(text).map(|yes| if yes { YES } else { Measured::No }),
    }
}

/// `PATH`, `PATH:DEVICE` or a device.
pub fn place(text: &str) -> Option<Place> {
    if let Some((path, device)) = text.rsplit_once(':').filter(|(_, device)| DeviceSpec::is_device(device)) {
        let device = DeviceSpec::parse(device);
        return path.starts_with('/').then(|| Place { path: Some(path.into()), device });
    }
    match DeviceSpec::parse(text)? {
        DeviceSpec::Path(path) if !path.starts_with("/dev") => {
            Some(Place { path: Some(text.into()), device: None })
        }
        device => Some(Place { path: None, device: Some(device) }),
    }
}
