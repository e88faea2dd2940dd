//! From what cryptsetup was asked for to the commands of `atrest` that do it.
//!
//! An option that an action does not use, and that is not one without effect, is refused by its name: nothing that somebody
//! has asked for is left out in silence.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::action::Action;
use super::option::{WITHOUT_EFFECT, WITHOUT_MEANS};
use super::reencrypted;
use super::words::Request;
use crate::args::header::LuksVersion;
use crate::commands::header::is_luks_of;
use crate::commands::mapping;
use crate::failure::{Code, Failure};

/// One step of what is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Job {
    /// A command of `atrest`, without the program's name.
    Atrest(Vec<OsString>),
    /// `benchmark`.
    Benchmark,
    /// `luksDump`.
    Dump,
    /// `luksDump --dump-volume-key` or `--unbound`, on standard output.
    VolumeKey,
    /// `luksUUID` that only asks.
    Uuid,
    /// `isLuks`.
    IsLuks,
    /// `tcryptDump`, or `open --test-passphrase` of such a volume: the words of `atrest open` that name and unlock it.
    Tcrypt {
        /// Options and device.
        words: Vec<OsString>,
        /// Whether the header is shown.
        shown: bool,
    },
    /// `bitlkDump`: the words of `atrest open` that name and unlock it.
    BitlkDump(Vec<OsString>),
    /// `open --test-passphrase` of a BitLocker volume, by the same words.
    BitlkTest(Vec<OsString>),
    /// Whether a BitLocker volume can be opened at all, by the same words.
    BitlkCheck(Vec<OsString>),
    /// `fvault2Dump`: the words of `atrest open` that name and unlock it.
    Fvault2Dump(Vec<OsString>),
    /// `open --test-passphrase` of a FileVault volume, by the same words.
    Fvault2Test(Vec<OsString>),
    /// Whether a FileVault volume can be opened at all, by the same words.
    Fvault2Check(Vec<OsString>),
    /// `status` of this name.
    Status(PathBuf),
}

pub fn translate(request: &Request) -> Result<Vec<Job>, Failure> {
    let mut line = Line::new(request);
    let jobs = match request.action {
        Action::Open if request.has("test-passphrase") => test(&mut line)?,
        Action::Open if request.has("refresh") => refresh(&mut line)?,
        Action::Open => open(&mut line)?,
        Action::Refresh => refresh(&mut line)?,
        Action::Close => one(close(&mut line)),
        Action::Suspend => one(suspend(&mut line)),
        Action::Resume => one(resume(&mut line)),
        Action::Resize => one(resize(&mut line)?),
        Action::Status => {
            line.uses(&["header"]);
            vec![Job::Status(request.first().to_owned())]
        }
        Action::Format => one(format(&mut line)?),
        Action::AddKey => one(add_key(&mut line)?),
        Action::RemoveKey => one(remove_key(&mut line)?),
        Action::ChangeKey => one(change_key(&mut line, false)?),
        Action::ConvertKey if is_luks1(request) => {
            return Err(Failure::parameters(
                "luksConvertKey is for LUKS2: of LUKS1 all keyslots are derived alike",
            ));
        }
        Action::ConvertKey => one(change_key(&mut line, true)?),
        Action::KillSlot => one(kill_slot(&mut line)?),
        Action::Uuid => uuid(&mut line),
        Action::IsLuks => {
            line.uses(&["type", "header"]);
            vec![Job::IsLuks]
        }
        Action::Dump => dump(&mut line)?,
        Action::Erase => one(on_header(&mut line, &["erase"])),
        Action::Repair => one(repair(&mut line)),
        Action::HeaderBackup => one(backup(&mut line, &["header", "backup"])?),
        Action::HeaderRestore => one(backup(&mut line, &["header", "restore", "--replace-other-volume"])?),
        Action::Config => config(&mut line)?,
        Action::Token => one(token(&mut line)?),
        Action::Reencrypt => one(reencrypt(&mut line)?),
        Action::Benchmark => {
            line.uses(&["cipher", "key-size", "hash"]);
            vec![Job::Benchmark]
        }
        Action::Convert => one(convert(&mut line)?),
        Action::TcryptDump => {
            line.uses(&["dump-volume-key", "dump-master-key"]);
            tcrypt_job(&mut line, true)
        }
        Action::BitlkDump => {
            line.uses(&[
                "dump-volume-key",
                "dump-master-key",
                "volume-key-file",
                "master-key-file",
                "readonly",
            ]);
            vec![Job::BitlkDump(named(&mut line, "--type=bitlk"))]
        }
        Action::Fvault2Dump => {
            line.uses(&[
                "dump-volume-key",
                "dump-master-key",
                "volume-key-file",
                "master-key-file",
                "readonly",
            ]);
            vec![Job::Fvault2Dump(named(&mut line, "--type=fvault2"))]
        }
    };
    line.refuse_unused()?;
    Ok(jobs)
}

fn one(words: Vec<OsString>) -> Vec<Job> {
    vec![Job::Atrest(words)]
}

/// A command line in the making, and which options have been used for it.
struct Line<'a> {
    request: &'a Request,
    words: Vec<OsString>,
    used: Vec<&'static str>,
}

/// Options that `atrest` has under the same name.
const SECRET: &[&str] = &["key-file", "key-description", "verify-passphrase"];
const TOKENS: &[&str] = &["token-id", "token-type", "token-only"];
const KEYSLOT: &[&str] = &[
    "pbkdf",
    "hash",
    "iter-time",
    "pbkdf-memory",
    "pbkdf-parallel",
    "pbkdf-force-iterations",
    "keyslot-cipher",
    "keyslot-key-size",
];

impl<'a> Line<'a> {
    fn new(request: &'a Request) -> Self {
        Self { request, words: Vec::new(), used: Vec::new() }
    }

    fn words(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(OsString::from));
    }

    /// An operand; `--` before all of them keeps names that begin with a dash apart from options.
    fn operands<T: AsRef<OsStr>>(&mut self, operands: impl IntoIterator<Item = T>) {
        self.words.push("--".into());
        self.words.extend(operands.into_iter().map(|word| word.as_ref().to_owned()));
    }

    /// Says that these options are understood, by something else than a word of the line.
    fn uses(&mut self, names: &[&'static str]) {
        self.used.extend(names);
    }

    /// Hands an option on under another name.
    fn pass_as(&mut self, name: &'static str, ours: &str) {
        self.uses(&[name]);
        if self.request.has(name) {
            let mut word = OsString::from(ours);
            if let Some(value) = self.request.text(name) {
                word.push("=");
                word.push(value);
            }
            self.words.push(word);
        }
    }

    /// Hands options on under their own names.
    fn pass(&mut self, names: &[&'static str]) {
        for name in names {
            self.pass_as(name, &format!("--{name}"));
        }
    }

    /// Hands on the volume key: the file, by either of its names, or the key of the kernel's keyring.
    fn volume_key(&mut self) {
        self.pass(&["volume-key-keyring"]);
        self.uses(&["volume-key-file", "master-key-file"]);
        if let Some(file) = self.request.volume_key_file() {
            self.with("--volume-key-file", file);
        }
    }

    fn with(&mut self, ours: &str, value: impl AsRef<OsStr>) {
        let mut word = OsString::from(ours);
        word.push("=");
        word.push(value);
        self.words.push(word);
    }

    /// Where the passphrase comes from.
    fn secret(&mut self) {
        self.pass(SECRET);
        self.part(self.request.has("key-file"));
    }

    /// Tokens that may have the passphrase. A volume key needs none, and cryptsetup then looks at none.
    fn tokens(&mut self) {
        match self.request.has_volume_key() {
            true => self.uses(TOKENS),
            false => self.pass(TOKENS),
        }
    }

    /// Which part of a key file counts. Of standard input the questions know it.
    fn part(&mut self, of_file: bool) {
        self.uses(&["keyfile-offset", "keyfile-size"]);
        if of_file {
            self.pass(&["keyfile-offset"]);
            // 0 is all of it.
            if self.request.number("keyfile-size").is_some_and(|bytes| bytes > 0) {
                self.pass(&["keyfile-size"]);
            }
        }
    }

    /// A file that an operand or an option names.
    fn file(&self, operand: usize, option: &str) -> Result<Option<OsString>, Failure> {
        match (self.request.operands.get(operand), self.request.text(option)) {
            (Some(_), Some(_)) => Err(Failure::parameters(format!(
                "the key file is named twice: by --{option} and behind the device"
            ))),
            (operand, option) => Ok(operand.cloned().or_else(|| option.map(OsStr::to_owned))),
        }
    }

    /// The new passphrase of a keyslot.
    fn new_passphrase(&mut self, option: &'static str) -> Result<(), Failure> {
        self.uses(&[option]);
        if let Some(file) = self.file(1, option)? {
            self.with("--new-key-file", file);
        }
        self.pass(&["new-key-description", "new-keyfile-offset", "new-keyfile-size"]);
        Ok(())
    }

    fn refuse_unused(&self) -> Result<(), Failure> {
        let name = self.request.action.spelling().name;
        let unused = |option: &&str| !self.used.contains(option) && !WITHOUT_EFFECT.contains(option);
        let found = self.request.names().find(|option| unused(option));
        let why = found.and_then(|option| WITHOUT_MEANS.iter().find(|(name, ..)| *name == option));
        if let Some((option, why, instead)) = why {
            return Err(Failure::parameters(format!("--{option} can't be had: {why}")).hint(*instead));
        }
        match found {
            Some(option) => Err(Failure::parameters(format!("--{option} has no meaning for {name} here"))
                .hint("leave it out: it belongs to other actions")),
            None => Ok(()),
        }
    }
}

/// LUKS of either version, or plain: what can be opened.
fn kind(line: &mut Line<'_>) -> Result<&'static str, Failure> {
    line.uses(&["type"]);
    match line.request.kind.as_deref() {
        None | Some("luks" | "luks1" | "luks2") => Ok("luks"),
        Some("plain") => Ok("plain"),
        Some("loopaes") => Ok("loopaes"),
        Some("tcrypt") => Ok("tcrypt"),
        Some("bitlk") => Ok("bitlk"),
        Some("fvault2") => Ok("fvault2"),
        Some(kind) => Err(Failure::parameters(format!("{kind}: there is no such type of volume"))
            .hint("luks, luks1, luks2 or plain")),
    }
}

/// Whether the header that is meant is one of LUKS1. What can't be looked at is told by the command.
fn is_luks1(request: &Request) -> bool {
    is_luks_of(request.header(), Some(LuksVersion::Luks1)).is_ok_and(|is| is)
}

/// A volume key says itself how long it is.
fn key_size_of_volume_key(line: &mut Line<'_>) {
    if line.request.has_volume_key() {
        line.uses(&["key-size"]);
    }
}

fn test(line: &mut Line<'_>) -> Result<Vec<Job>, Failure> {
    let kind = kind(line)?;
    if kind == "tcrypt" {
        return tcrypt_test(line);
    }
    if let "bitlk" | "fvault2" = kind {
        line.uses(&["test-passphrase", "readonly"]);
        return Ok(vec![match kind {
            "bitlk" => Job::BitlkTest(named(line, "--type=bitlk")),
            _ => Job::Fvault2Test(named(line, "--type=fvault2")),
        }]);
    }
    if kind == "plain" {
        return Err(Failure::parameters("a plain volume has no passphrase that could be tested"));
    }
    line.uses(&["test-passphrase", "unbound"]);
    key_size_of_volume_key(line);
    line.words(&["--quiet", "key", "test"]);
    line.secret();
    line.tokens();
    line.pass(&["header", "key-slot", "link-vk-to-keyring"]);
    line.volume_key();
    line.operands([line.request.first()]);
    Ok(one(line.words.split_off(0)))
}

fn open(line: &mut Line<'_>) -> Result<Vec<Job>, Failure> {
    let Some(name) = line.request.operands.get(1).cloned() else {
        return Err(Failure::parameters("open needs <device> <name>"));
    };
    let device = line.request.first().as_os_str().to_owned();
    let kind = kind(line)?;
    let check = match kind {
        "bitlk" => Some(Job::BitlkCheck(named(line, "--type=bitlk"))),
        "fvault2" => Some(Job::Fvault2Check(named(line, "--type=fvault2"))),
        _ => None,
    };
    let mut jobs = open_as(line, kind, &device, &name)?;
    jobs.splice(0..0, check);
    Ok(jobs)
}

/// `open --refresh <device> <name>`, or `refresh <name>`: then the device is the one that is mapped. The mapping knows its type.
fn refresh(line: &mut Line<'_>) -> Result<Vec<Job>, Failure> {
    line.uses(&["refresh"]);
    let (device, name) = match line.request.operands.as_slice() {
        [device, name, ..] => (Some(device.clone()), Path::new(name)),
        _ => (None, name(line.request)),
    };
    let mapped = mapping::find(name)?;
    let mapped = mapped
        .first()
        .ok_or_else(|| Failure::new(Code::Device, format!("/dev/mapper/{} is not open", name.display())))?;
    let device = device.unwrap_or_else(|| mapped.source().into());
    let kind = if mapped.kind == "PLAIN" { "plain" } else { kind(line)? };
    line.uses(&["type"]);
    open_as(line, kind, &device, name.as_os_str())
}

fn open_as(line: &mut Line<'_>, kind: &str, device: &OsStr, name: &OsStr) -> Result<Vec<Job>, Failure> {
    line.words(&["open"]);
    if let "luks" | "bitlk" | "fvault2" = kind {
        key_size_of_volume_key(line);
    }
    line.pass(&["header", "key-slot", "allow-discards", "link-vk-to-keyring"]);
    line.volume_key();
    line.pass_as("readonly", "--read-only");
    line.uses(&["serialize-memory-hard-pbkdf"]);
    size(line)?;
    match kind {
        "plain" => without_header(line)?,
        "loopaes" => loopaes(line)?,
        "tcrypt" => tcrypt(line),
        "bitlk" | "fvault2" => {
            line.words(&[if kind == "bitlk" { "--type=bitlk" } else { "--type=fvault2" }]);
            line.secret();
        }
        _ => {
            line.secret();
            line.tokens();
        }
    }
    face(line, name)?;
    line.operands([device]);
    Ok(one(line.words.split_off(0)))
}

/// `--size`, which counts sectors of 512 bytes, or `--device-size`, which counts bytes.
fn size(line: &mut Line<'_>) -> Result<(), Failure> {
    line.uses(&["size", "device-size"]);
    if let Some(sectors) = line.request.number("size").filter(|sectors| *sectors > 0) {
        let bytes =
            sectors.checked_mul(512).ok_or_else(|| Failure::parameters("--size: too many sectors"))?;
        line.with("--size", bytes.to_string());
    }
    if let Some(bytes) = line.request.size("device-size") {
        line.with("--size", bytes.to_string());
    }
    Ok(())
}

/// A volume of loop-AES, whose keys are in a file or come from standard input.
fn loopaes(line: &mut Line<'_>) -> Result<(), Failure> {
    line.words(&["--type=loopaes"]);
    line.pass(&["offset", "skip", "cipher", "hash", "verify-passphrase"]);
    line.uses(&["key-size", "key-file"]);
    // 0 is what is usual.
    if line.request.number("key-size").is_some_and(|bits| bits > 0) {
        line.pass(&["key-size"]);
    }
    let file = line.request.text("key-file").map_or_else(|| OsString::from("-"), OsStr::to_owned);
    line.with("--key-file", file);
    line.part(true);
    Ok(())
}

/// A volume of TrueCrypt or VeraCrypt. Its key files are mixed into a password, which is always asked for.
fn tcrypt(line: &mut Line<'_>) {
    let kind = if line.request.has("disable-veracrypt") { "--type=truecrypt" } else { "--type=tcrypt" };
    line.words(&[kind]);
    line.pass(&["cipher", "hash", "tcrypt-hidden", "tcrypt-backup", "tcrypt-system"]);
    line.pass(&["veracrypt-pim", "veracrypt-query-pim", "verify-passphrase"]);
    // It opens VeraCrypt's volumes whatever is said, and no part of a key file is left out.
    line.uses(&["disable-veracrypt", "veracrypt", "key-file", "keyfile-offset", "keyfile-size"]);
    for file in line.request.texts("key-file") {
        line.with("--tcrypt-keyfile", file);
    }
}

/// Whether the password opens a volume of TrueCrypt or VeraCrypt.
fn tcrypt_test(line: &mut Line<'_>) -> Result<Vec<Job>, Failure> {
    line.uses(&["test-passphrase"]);
    Ok(tcrypt_job(line, false))
}

/// The header of a TrueCrypt or VeraCrypt volume, decrypted, and shown or not.
fn tcrypt_job(line: &mut Line<'_>, shown: bool) -> Vec<Job> {
    line.uses(&["type"]);
    tcrypt(line);
    line.pass(&["header"]);
    line.operands([line.request.first()]);
    vec![Job::Tcrypt { words: line.words.split_off(0), shown }]
}

/// The words that name and unlock a volume of this kind.
fn named(line: &mut Line<'_>, kind: &str) -> Vec<OsString> {
    line.uses(&["type"]);
    line.words(&[kind]);
    line.secret();
    line.pass(&["header"]);
    line.operands([line.request.first()]);
    line.words.split_off(0)
}

/// What a volume has no header for.
fn without_header(line: &mut Line<'_>) -> Result<(), Failure> {
    line.words(&["--type=plain"]);
    line.pass(&["offset", "skip", "sector-size", "iv-large-sectors"]);
    line.pass(SECRET);
    let file = line.request.text("key-file").map(OsStr::to_owned);
    // What cryptsetup 2.8 takes where nothing is said, and for a size of 0.
    let mut value = |name: &'static str, usual: &str| {
        line.uses(&[name]);
        let value = line.request.text(name).filter(|value| *value != "0");
        value.map_or_else(|| OsString::from(usual), OsStr::to_owned)
    };
    let (cipher, bits, hash) =
        (value("cipher", "aes-xts-plain64"), value("key-size", "256"), value("hash", "sha256"));
    line.with("--cipher", cipher);
    line.with("--key-size", &bits);
    // The first bytes of a file are the key, without a hash, however long it is.
    let is_file = file.as_ref().is_some_and(|file| file != "-");
    if is_file || (file.is_some() && hash == "plain") {
        line.uses(&["keyfile-size"]);
        line.pass(&["keyfile-offset"]);
        let bits = bits.to_str().and_then(|bits| bits.parse::<u64>().ok());
        let bits = bits.ok_or_else(|| Failure::parameters("--key-size is no number"))?;
        line.with("--keyfile-size", (bits / 8).to_string());
    } else {
        line.part(file.is_some());
    }
    if !is_file && !line.request.has_volume_key() {
        line.with("--hash", hash);
    }
    Ok(())
}

/// Options of dm-crypt alone.
const KERNEL: &[&str] = &[
    "perf-same_cpu_crypt",
    "perf-submit_from_crypt_cpus",
    "perf-no_read_workqueue",
    "perf-no_write_workqueue",
    "integrity-no-journal",
    "disable-keyring",
];

/// How the plaintext is shown: --face, or $ATREST_FACE, or a mapping where the kernel can make one, and else NBD.
fn face(line: &mut Line<'_>, name: &OsStr) -> Result<(), Failure> {
    line.uses(&["face"]);
    let asked = line.request.text("face").map(OsStr::to_owned).or_else(|| std::env::var_os("ATREST_FACE"));
    let asked = match &asked {
        // Only the kernel has mappings that could be refreshed.
        _ if line.request.has("refresh") || line.request.action == Action::Refresh => "dm",
        None if atrest_attach::dm::is_there() => "dm",
        None => "nbd",
        Some(face) => face.to_str().unwrap_or(""),
    };
    match asked.split_once(':') {
        None if asked == "dm" => {
            line.pass(KERNEL);
            line.pass(&["persistent", "shared"]);
            if line.request.has("refresh") || line.request.action == Action::Refresh {
                line.words(&["--refresh"]);
            }
            line.with("--dm", name);
            line.words(&["--quiet"]);
        }
        None if asked == "nbd" => {
            // How the kernel would go about it has no effect on what does not go through it.
            line.uses(KERNEL);
            line.words(&["--nbd", "--daemon"]);
            line.with("--name", name);
        }
        Some(("fuse", directory)) => {
            line.uses(KERNEL);
            line.with("--fuse", directory);
            line.words(&["--daemon"]);
            line.with("--name", name);
        }
        _ => {
            return Err(Failure::parameters(format!(
                "--face {asked}: there is no such way to show a volume"
            ))
            .hint("dm maps it in the kernel, nbd serves it on a socket, fuse:DIR as a file in DIR"));
        }
    }
    Ok(())
}

fn suspend(line: &mut Line<'_>) -> Vec<OsString> {
    line.uses(&["type", "header"]);
    line.words(&["--quiet", "suspend"]);
    line.operands([name(line.request)]);
    line.words.split_off(0)
}

/// The name of a mapping, also where its path was given.
fn name(request: &Request) -> &Path {
    let name = request.first();
    name.strip_prefix("/dev/mapper").unwrap_or(name)
}

fn resume(line: &mut Line<'_>) -> Vec<OsString> {
    line.uses(&["type"]);
    line.words(&["--quiet", "resume"]);
    line.secret();
    line.tokens();
    line.pass(&["header", "key-slot", "disable-keyring", "link-vk-to-keyring"]);
    line.volume_key();
    line.operands([name(line.request)]);
    line.words.split_off(0)
}

fn resize(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    line.uses(&["type"]);
    line.words(&["--quiet", "resize"]);
    line.secret();
    line.tokens();
    line.pass(&["header", "key-slot"]);
    size(line)?;
    line.operands([name(line.request)]);
    Ok(line.words.split_off(0))
}

fn close(line: &mut Line<'_>) -> Vec<OsString> {
    line.uses(&["type", "header"]);
    line.words(&["--quiet", "close"]);
    line.pass(&["deferred", "cancel-deferred"]);
    line.operands([line.request.first()]);
    line.words.split_off(0)
}

fn format(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    line.uses(&["type", "key-file", "progress-json"]);
    line.words(&["--quiet", "format"]);
    match line.request.kind.as_deref() {
        None | Some("luks") => {}
        Some(kind @ ("luks1" | "luks2")) => line.words(&[&format!("--type={kind}")]),
        Some(kind) => return Err(Failure::parameters(format!("luksFormat makes no volumes of type {kind}"))),
    }
    let file = line.file(1, "key-file")?;
    line.part(file.is_some());
    if let Some(file) = file {
        line.with("--key-file", file);
    }
    line.pass(&["key-description", "verify-passphrase"]);
    line.pass(KEYSLOT);
    line.pass(&[
        "cipher",
        "key-size",
        "sector-size",
        "label",
        "subsystem",
        "uuid",
        "key-slot",
        "luks2-metadata-size",
        "luks2-keyslots-size",
        "offset",
        "header",
        "integrity",
        "integrity-no-wipe",
        "integrity-legacy-padding",
        "integrity-key-size",
    ]);
    align(line)?;
    line.volume_key();
    line.operands([line.request.first()]);
    Ok(line.words.split_off(0))
}

/// `--align-payload`: with a header of its own it is where the data begins.
fn align(line: &mut Line<'_>) -> Result<(), Failure> {
    line.uses(&["align-payload"]);
    match line.request.number("align-payload") {
        Some(sectors) if line.request.has("header") && !sectors.is_multiple_of(8) => {
            Err(Failure::parameters("--align-payload with --header is a multiple of 8 sectors"))
        }
        Some(sectors) if line.request.has("header") => {
            line.with("--offset", sectors.to_string());
            Ok(())
        }
        _ => {
            line.pass(&["align-payload"]);
            Ok(())
        }
    }
}

fn add_key(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    line.words(&["--quiet", "key", "add"]);
    line.uses(&["type", "key-slot"]);
    line.secret();
    line.pass(KEYSLOT);
    line.pass(&["header", "unbound", "new-key-slot"]);
    match line.request.has("unbound") {
        true => line.pass(&["key-size"]),
        false => key_size_of_volume_key(line),
    }
    line.volume_key();
    add_key_by_token(line);
    line.new_passphrase("new-keyfile")?;
    if line.file(1, "new-keyfile")?.is_none() && !line.request.has("new-key-description") {
        line.pass(&["new-token-id"]);
    }
    line.uses(&["new-token-id"]);
    if let Some(slot) = line.request.text("key-slot").map(OsStr::to_owned) {
        // Alone it is the number of the new one.
        let ours = if line.request.has("new-key-slot") { "--key-slot" } else { "--new-key-slot" };
        line.with(ours, slot);
    }
    line.operands([line.request.first()]);
    Ok(line.words.split_off(0))
}

/// Of luksAddKey a key file proves more than tokens, and where tokens are named, nobody is asked for a passphrase.
fn add_key_by_token(line: &mut Line<'_>) {
    line.uses(TOKENS);
    let file = line.request.text("key-file").is_some_and(|file| file != "-");
    let file = file || line.request.has("key-description");
    if !file && !line.request.has("unbound") && TOKENS.iter().any(|name| line.request.has(name)) {
        line.tokens();
        if !line.request.has_volume_key() && !line.request.has("token-only") {
            line.words(&["--token-only"]);
        }
    }
}

fn change_key(line: &mut Line<'_>, keep: bool) -> Result<Vec<OsString>, Failure> {
    line.words(&["--quiet", "key", "change"]);
    line.uses(&["type"]);
    line.secret();
    line.pass(KEYSLOT);
    line.pass(&["header", "key-slot"]);
    if let Some(slot) = line.request.text("key-slot").map(OsStr::to_owned) {
        // A keyslot that is named stays where it is; in LUKS1, too.
        line.with("--new-key-slot", slot);
    }
    if keep {
        line.words(&["--keep-passphrase"]);
    } else {
        if let Some(file) = line.request.operands.get(1) {
            line.with("--new-key-file", file);
        }
        line.pass(&["new-keyfile-offset", "new-keyfile-size"]);
    }
    line.operands([line.request.first()]);
    Ok(line.words.split_off(0))
}

fn remove_key(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    line.words(&["--quiet", "key", "remove"]);
    line.uses(&["type", "key-file"]);
    let file = line.file(1, "key-file")?;
    line.part(file.is_some());
    if let Some(file) = file {
        line.with("--key-file", file);
    }
    line.pass(&["verify-passphrase", "header"]);
    line.operands([line.request.first()]);
    Ok(line.words.split_off(0))
}

fn kill_slot(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    line.words(&["--quiet", "key", "kill"]);
    line.uses(&["type"]);
    line.secret();
    line.pass(&["header"]);
    line.operands(line.request.operands.iter().take(2));
    Ok(line.words.split_off(0))
}

fn uuid(line: &mut Line<'_>) -> Vec<Job> {
    line.uses(&["type", "header"]);
    if !line.request.has("uuid") {
        return vec![Job::Uuid];
    }
    line.words(&["--quiet", "header", "set"]);
    line.pass(&["uuid", "header"]);
    line.operands([line.request.first()]);
    one(line.words.split_off(0))
}

fn dump(line: &mut Line<'_>) -> Result<Vec<Job>, Failure> {
    line.uses(&["type", "header"]);
    if line.request.has("dump-json-metadata") {
        line.uses(&["dump-json-metadata"]);
        line.words(&["info", "--metadata"]);
        line.pass(&["header"]);
        line.operands([line.request.first()]);
        return Ok(one(line.words.split_off(0)));
    }
    let key = ["dump-volume-key", "dump-master-key", "unbound"];
    line.uses(&key);
    if !key.iter().any(|name| line.request.has(name)) {
        return Ok(vec![Job::Dump]);
    }
    let Some(file) = line.request.volume_key_file().map(OsStr::to_owned) else {
        line.uses(&["key-slot", "key-file", "key-description", "verify-passphrase"]);
        line.uses(&["keyfile-offset", "keyfile-size"]);
        line.uses(TOKENS);
        return Ok(vec![Job::VolumeKey]);
    };
    line.uses(&["volume-key-file", "master-key-file"]);
    line.words(&["--quiet", "key", "export"]);
    line.secret();
    line.pass(TOKENS);
    line.pass(&["header", "key-slot"]);
    line.operands([line.request.first().as_os_str(), &file]);
    Ok(one(line.words.split_off(0)))
}

/// A command on the header as a whole.
fn on_header(line: &mut Line<'_>, command: &[&str]) -> Vec<OsString> {
    line.words(&["--quiet"]);
    line.words(command);
    line.uses(&["type"]);
    line.pass(&["header"]);
    line.operands([line.request.first()]);
    line.words.split_off(0)
}

/// A passphrase is needed where a re-encryption was interrupted in the middle of a zone.
fn repair(line: &mut Line<'_>) -> Vec<OsString> {
    line.words(&["--quiet", "repair"]);
    line.uses(&["type"]);
    line.secret();
    line.pass(&["header"]);
    line.operands([line.request.first()]);
    line.words.split_off(0)
}

fn convert(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    line.uses(&["type"]);
    let kind = match line.request.kind.as_deref() {
        Some(kind @ ("luks1" | "luks2")) => format!("--type={kind}"),
        _ => return Err(Failure::parameters("convert needs --type luks1 or --type luks2")),
    };
    line.words(&["--quiet", "convert", &kind]);
    line.pass(&["header"]);
    line.operands([line.request.first()]);
    Ok(line.words.split_off(0))
}

fn backup(line: &mut Line<'_>, command: &[&str]) -> Result<Vec<OsString>, Failure> {
    let Some(file) = line.request.text("header-backup-file").map(OsStr::to_owned) else {
        return Err(Failure::parameters("--header-backup-file FILE is missing"));
    };
    line.uses(&["type", "header-backup-file"]);
    line.words(&["--quiet"]);
    line.words(command);
    line.pass(&["header"]);
    line.operands([line.request.first().as_os_str(), &file]);
    Ok(line.words.split_off(0))
}

fn config(line: &mut Line<'_>) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    line.uses(&["type", "priority", "key-slot"]);
    if line.request.has("label") || line.request.has("subsystem") {
        line.words(&["--quiet", "header", "set"]);
        line.pass(&["header", "store"]);
        // A pinned header asks for it.
        line.secret();
        // Both are set, and what is not said is empty.
        for name in ["label", "subsystem"] {
            line.uses(&[name]);
            // intended: as the comment above says.
            let text = line.request.text(name).unwrap_or_default().to_owned();
            line.with(&format!("--{name}"), text);
        }
        line.operands([line.request.first()]);
        jobs.extend(one(line.words.split_off(0)));
    }
    if let (Some(priority), Some(slot)) = (line.request.text("priority"), line.request.text("key-slot")) {
        line.words(&["--quiet", "key", "priority"]);
        line.pass(&["header", "store"]);
        line.secret();
        line.operands([line.request.first().as_os_str(), slot, priority]);
        jobs.extend(one(line.words.split_off(0)));
    }
    match jobs.is_empty() {
        true => Err(Failure::parameters("config needs --priority, --label or --subsystem")),
        false => Ok(jobs),
    }
}

fn token(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    let verb = line.request.operands.first().and_then(|verb| verb.to_str()).unwrap_or("");
    let Some(device) = line.request.operands.get(1).cloned() else {
        return Err(Failure::parameters(format!("token {verb} needs <device>")));
    };
    let id = line.request.text("token-id").map(OsStr::to_owned);
    let file = line.request.text("json-file").filter(|file| *file != "-").map(OsStr::to_owned);
    line.words(&["--quiet", "token"]);
    match (verb, id) {
        ("import", _) => {
            line.words(&["import"]);
            line.pass(&["token-id", "token-replace", "header"]);
            line.uses(&["json-file"]);
            line.operands([Some(device), file].into_iter().flatten());
        }
        ("add", _) => {
            line.words(&["add"]);
            line.pass(&["key-description", "key-slot", "unbound", "token-id", "token-replace", "header"]);
            line.operands([device]);
        }
        ("unassign", Some(id)) => {
            let Some(slot) = line.request.text("key-slot").map(OsStr::to_owned) else {
                return Err(Failure::parameters("token unassign needs --token-id and --key-slot"));
            };
            line.words(&["unassign"]);
            line.pass(&["header"]);
            line.uses(&["token-id", "key-slot"]);
            line.operands([device, id, slot]);
        }
        ("export", Some(id)) => {
            line.words(&["export"]);
            if file.is_some() {
                line.words(&["--overwrite"]);
            }
            line.pass(&["header"]);
            line.uses(&["json-file", "token-id"]);
            line.operands([Some(device), Some(id), file].into_iter().flatten());
        }
        ("remove", Some(id)) => {
            line.words(&["remove"]);
            line.pass(&["header"]);
            line.uses(&["token-id"]);
            line.operands([device, id]);
        }
        _ => return Err(Failure::parameters(format!("token {verb} needs --token-id"))),
    }
    Ok(line.words.split_off(0))
}

fn reencrypt(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    if line.request.has("integrity") {
        return Err(Failure::parameters("reencrypt --integrity can't be done here yet")
            .hint("Debian's cryptsetup does it"));
    }
    reencrypted::check(line.request)?;
    if line.request.has("active-name") {
        return reencrypt_served(line);
    }
    if line.request.operands.is_empty() {
        return Err(Failure::parameters("reencrypt needs <device>"));
    }
    let opens = line.request.operands.get(1).cloned();
    if opens.is_some() && !line.request.has("encrypt") {
        return Err(Failure::parameters("reencrypt opens the volume where it encrypts alone")
            .hint("open it first: it is re-encrypted while it is open"));
    }
    if line.request.has("decrypt") && !line.request.has("header") {
        return Err(Failure::parameters("reencrypt --decrypt needs --header, where the header is kept"));
    }
    if line.request.has("force-offline-reencrypt")
        && let Some(mapping) = mapping::of(Path::new(line.request.first()))?
    {
        let what =
            format!("--force-offline-reencrypt: the kernel has it open as /dev/mapper/{}", mapping.name);
        return Err(Failure::new(Code::Busy, what).hint("close it first; or leave the option out"));
    }
    line.uses(&["type", "force-offline-reencrypt", "progress-json"]);
    let resumes = line.request.has("resume-only");
    // Of LUKS1 it is the new key, as ever: there is no re-encryption by the old one.
    let has = |option| line.request.has(option);
    let new_of_luks1 = line.request.volume_key_file().is_some()
        && !(has("new-volume-key-file") || has("encrypt") || has("decrypt"))
        && reencrypted::is_luks1(line.request);
    if new_of_luks1 && has("keep-key") {
        return Err(Failure::parameters(
            "--volume-key-file is the new key of a LUKS1 volume, and --keep-key has none",
        )
        .hint("leave one of them out"));
    }
    match line.request.has("encrypt") {
        true => {
            encrypt_in_place(line, resumes)?;
            if let Some(name) = &opens {
                line.words(&["--dm"]);
                line.words.push(name.clone());
            }
        }
        false => {
            line.words(&["--quiet", "reencrypt"]);
            // One that was begun is gone on with, whatever else is said.
            line.words(if resumes { &["--resume"] } else { &["--resume-if-begun"] });
            line.uses(&["resume-only", "decrypt"]);
            line.pass(if resumes { &["header"] } else { &["header", "decrypt", "init-only"] });
            if let Some(spare) = reencrypted::spare_header(line.request) {
                line.words(&["--spare-header", &spare]);
            }
            if resumes {
                // The header says it; whether it says something else was looked at before.
                line.uses(&["resilience", "resilience-hash"]);
            } else {
                line.pass(KEYSLOT);
                line.pass(&["cipher", "sector-size", "keep-key", "key-slot", "reduce-device-size"]);
                drop_others(line);
                match new_of_luks1 {
                    true => line.pass(&["key-size"]),
                    false => new_key(line)?,
                }
                match line.request.has("reduce-device-size") {
                    // Where data moves, that is how it survives.
                    true => line.uses(&["resilience", "resilience-hash"]),
                    false => {
                        line.pass(&["resilience-hash"]);
                        resilience(line);
                    }
                }
            }
            line.uses(&["reduce-device-size"]);
            line.pass(&["new-volume-key-file", "hotzone-size", "device-size"]);
        }
    }
    match line.request.volume_key_file() {
        Some(file) if new_of_luks1 => {
            line.uses(&["volume-key-file", "master-key-file"]);
            line.with("--new-volume-key-file", file);
        }
        _ => line.volume_key(),
    }
    line.secret();
    line.operands([line.request.first()]);
    Ok(line.words.split_off(0))
}

/// What a process of ours serves under this name, which re-encrypts it meanwhile.
fn reencrypt_served(line: &mut Line<'_>) -> Result<Vec<OsString>, Failure> {
    for name in ["encrypt", "device-size", "force-offline-reencrypt"] {
        if line.request.has(name) {
            return Err(Failure::parameters(format!(
                "reencrypt --active-name does not go with --{name} here"
            ))
            .hint("name the device, and close the volume first"));
        }
    }
    let Some(name) = line.request.text("active-name").map(OsStr::to_owned) else {
        return Err(Failure::parameters("--active-name needs the name"));
    };
    if line.request.has("decrypt") && !line.request.has("header") {
        return Err(Failure::parameters("reencrypt --decrypt needs --header, where the header is kept"));
    }
    line.words(&["--quiet", "reencrypt", "--online"]);
    line.uses(&["active-name", "type", "progress-json", "resume-only", "decrypt", "init-only"]);
    line.pass(&["header", "hotzone-size"]);
    match line.request.has("resume-only") {
        true => {
            line.words(&["--resume"]);
            line.uses(&["cipher", "sector-size", "keep-key", "key-slot", "resilience", "resilience-hash"]);
        }
        false => {
            line.pass(&[
                "decrypt",
                "init-only",
                "cipher",
                "sector-size",
                "keep-key",
                "key-slot",
                "resilience-hash",
            ]);
            line.pass(KEYSLOT);
            drop_others(line);
            new_key(line)?;
            resilience(line);
        }
    }
    line.pass(&["new-volume-key-file"]);
    line.volume_key();
    line.secret();
    line.operands([name]);
    Ok(line.words.split_off(0))
}

/// The keyslot that is named is the only one of the new key.
fn drop_others(line: &mut Line<'_>) {
    if line.request.has("key-slot") && !line.request.has("decrypt") {
        line.words(&["--drop-others"]);
    }
}

/// How long the new volume key is, and that it has no keyslots. `--key-size` is of the volume key that is given, if one is.
fn new_key(line: &mut Line<'_>) -> Result<(), Failure> {
    let is_of_old = line.request.volume_key_file().is_some();
    if line.request.has("new-volume-key-file") && !line.request.has("new-key-size") {
        return Err(Failure::parameters("--new-volume-key-file needs --new-key-size"));
    }
    line.uses(&["key-size", "new-key-size"]);
    match line.request.has("new-key-size") || is_of_old {
        true => line.pass_as("new-key-size", "--key-size"),
        false => line.pass(&["key-size"]),
    }
    line.uses(&["force-no-keyslots"]);
    if line.request.has("new-volume-key-file") {
        line.pass_as("force-no-keyslots", "--no-keyslots");
    }
    Ok(())
}

fn encrypt_in_place(line: &mut Line<'_>, resumes: bool) -> Result<(), Failure> {
    let (header, reduced) = (line.request.has("header"), line.request.has("reduce-device-size"));
    if !header && !reduced && !resumes {
        return Err(Failure::parameters("reencrypt --encrypt needs --header or --reduce-device-size")
            .hint("the header needs a place: a file of its own, or the front of the device"));
    }
    line.words(&["--quiet", "encrypt", "--in-place"]);
    line.uses(&["encrypt"]);
    line.pass_as("resume-only", "--resume");
    line.pass(&["header"]);
    // The header takes half of what is free, and the data begins behind it.
    line.uses(&["offset", "reduce-device-size"]);
    let free = line.request.size("reduce-device-size");
    let offset = line.request.number("offset").filter(|sectors| *sectors > 0);
    // intended: more than any device has is refused as such.
    let (begins, twice) = (
        offset.map(|sectors| sectors.saturating_mul(512)),
        offset.map(|sectors| sectors.saturating_mul(1024)),
    );
    match (twice, free) {
        // Nothing moves: what lies in front of the data is given up, and not its end.
        (Some(_), Some(free)) if header && begins.is_some_and(|begins| begins < free) => {
            return Err(Failure::parameters(
                "with --header, --reduce-device-size is room for the header in front of the data, and --offset leaves less",
            )
            .hint("the data is not moved: --offset says where it begins"));
        }
        (Some(_), _) if header => {
            if let Some(begins) = begins.filter(|_| !resumes) {
                line.words.push(format!("--data-offset={begins}").into());
            }
        }
        (Some(wanted), Some(free)) if wanted > free => {
            return Err(Failure::parameters("--offset needs twice as much of --reduce-device-size"));
        }
        (wanted, free) => {
            if let Some(size) = wanted.or(free) {
                line.words.push(format!("--reduce-device-size={size}").into());
            }
        }
    }
    if resumes {
        line.uses(&["resilience", "resilience-hash"]);
    } else {
        line.pass(&["init-only", "cipher", "key-size", "sector-size", "key-slot", "label", "uuid", "hash"]);
        line.pass(&["pbkdf", "iter-time", "pbkdf-memory", "pbkdf-parallel", "pbkdf-force-iterations"]);
        line.pass(&["resilience-hash"]);
        resilience(line);
        if line.request.volume_key_file().is_some() {
            line.pass_as("force-no-keyslots", "--no-keyslots");
        }
    }
    line.pass(&["hotzone-size", "device-size"]);
    Ok(())
}

/// How zones survive. That data moves follows from the rest of the line.
fn resilience(line: &mut Line<'_>) {
    line.uses(&["resilience"]);
    match line.request.text("resilience").and_then(OsStr::to_str).map(str::to_owned) {
        None => {}
        Some(kind) if kind == "datashift" => {}
        // intended: a kind of another name is passed on, and refused there if there is none.
        Some(kind) => line.with("--resilience", kind.strip_prefix("datashift-").unwrap_or(&kind)),
    }
}
