//! Mappings of the kernel's dm-verity: made, told of and removed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use atrest_attach::dm::stacked::{self, Kind, NewMapping, Stacked};
use atrest_attach::dm::verity_table::{Parity, VerityLine, VerityTable};
use atrest_attach::dm::{self, DmError};
use atrest_engine::{Access, FileDevice};

use super::words::Request;
use crate::args::verity::{RootArgs, TreeArgs, TreePlaceArgs};
use crate::commands::verity;
use crate::failure::Failure;
use crate::stacked::name_of;

/// Options, and the kernel's words for them, in the order in which it tells them.
const FLAGS: [(&str, &str); 6] = [
    ("ignore-corruption", "ignore_corruption"),
    ("restart-on-corruption", "restart_on_corruption"),
    ("panic-on-corruption", "panic_on_corruption"),
    ("ignore-zero-blocks", "ignore_zero_blocks"),
    ("check-at-most-once", "check_at_most_once"),
    ("use-tasklets", "try_verify_in_tasklet"),
];

/// The kernel's words for `--error-as-corruption` beside what is to happen then.
const ON_ERROR: [(&str, &str); 2] =
    [("restart-on-corruption", "restart_on_error"), ("panic-on-corruption", "panic_on_error")];

/// Opens data under its tree as `/dev/mapper/NAME`.
pub fn open(
    request: &Request,
    (root, tree, place): (&RootArgs, &TreeArgs, &TreePlaceArgs),
) -> Result<u8, Failure> {
    let name = name_of(request.operand(1));
    dm::check_free(name)?;
    let (data, tree_path) = (request.operand(0), request.operand(2));
    let ready = verity::ready(data, tree_path, tree, place, root)?;
    let parameters = ready.layout.parameters();
    let parity = ready.layout.fec().map(|fec| Parity {
        // cannot be more than 24.
        roots: fec.roots() as u32,
        blocks: fec.blocks(),
        start: fec.offset() / u64::from(fec.block()),
    });
    let signature = match request.value("root-hash-signature") {
        None => None,
        Some(file) => {
            Some(stacked::add_signature(name, ready.uuid.as_deref(), &signature(Path::new(file))?)?)
        }
    };
    let signed = signature.is_some();
    let table = VerityTable {
        hash_type: parameters.hash_type().number(),
        data_block: parameters.data_block(),
        hash_block: parameters.hash_block(),
        blocks: parameters.data_blocks(),
        hash_start: ready.layout.tree().first(),
        hash: parameters.hash(),
        root: ready.root.as_bytes(),
        salt: parameters.salt(),
        parity,
        flags: flags(request),
        signature,
    };
    let opened = |path: &Path| {
        FileDevice::open(path, Access::ReadOnlyShared).map_err(|error| Failure::from(error).at(path))
    };
    let mut devices = vec![opened(data)?, opened(tree_path)?];
    if let Some(parity) = &place.fec_device {
        devices.push(opened(parity)?);
    }
    let new = NewMapping {
        name,
        kind: Kind::Verity,
        uuid: ready.uuid.as_deref(),
        sectors: parameters.data_len() / 512,
        read_only: true,
        devices,
    };
    stacked::open(new, |numbers| table.line(numbers)).map_err(|error| {
        let refused = matches!(error, DmError::Table(_));
        let failure = Failure::from(error).at(data);
        match (signed, request.has("error-as-corruption")) {
            (true, _) if refused => failure.hint(
                "the kernel takes a signature of the root hash (PKCS#7, detached) only if a certificate in its trusted keyrings \
                 belongs to it, and if it checks signatures at all (CONFIG_DM_VERITY_VERIFY_ROOTHASH_SIG)",
            ),
            (_, true) if refused => failure.hint("--error-as-corruption needs Linux 6.12"),
            _ => failure,
        }
    })?;
    Ok(0)
}

/// The kernel's words for the options that are there.
fn flags(request: &Request) -> Vec<&'static str> {
    let mut flags: Vec<_> =
        FLAGS.iter().filter(|(option, _)| request.has(option)).map(|(_, word)| *word).collect();
    if request.has("error-as-corruption") {
        flags.extend(ON_ERROR.iter().filter(|(option, _)| request.has(option)).map(|(_, word)| *word));
    }
    flags
}

/// Most bytes of a key of the kernel's type `user`.
const SIGNATURE_MOST: u64 = 32767;

/// The signature of a root hash.
fn signature(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| Failure::io(&error).with_code(Some(1)).at(path);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut signature = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, SIGNATURE_MOST + 1), &mut signature)
        .map_err(failed)?;
    match signature.len() as u64 {
        0 => Err(Failure::parameters("the signature of the root hash is empty").at(path)),
        len if len > SIGNATURE_MOST => Err(Failure::parameters(format!(
            "the signature of the root hash is longer than {SIGNATURE_MOST} bytes, which is the most that the kernel takes"
        ))
        .at(path)),
        _ => Ok(signature),
    }
}

/// Tells of a mapping as veritysetup does.
pub fn status(name: &Path, found: &Stacked) -> Result<u8, Failure> {
    let line = VerityLine::parse(&found.table).ok_or(DmError::Answer)?;
    let path = if name.starts_with("/") { name.to_owned() } else { Path::new("/dev/mapper").join(name) };
    let text = told(&path.display().to_string(), found, &line).ok_or(DmError::Answer)?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// The line of a device, and the one of its file if it is a loop device.
fn device(kind: &str, numbers: &str) -> String {
    let (path, file) = stacked::device(numbers);
    let line = format!("  {:<12} {}", format!("{kind} device:"), path.display());
    match file {
        None => line,
        Some(file) => format!("{line}\n  {:<12} {}", format!("{kind} loop:"), file.display()),
    }
}

/// `None` if a number of the kernel's is none.
fn told(path: &str, found: &Stacked, line: &VerityLine) -> Option<String> {
    let mut text = String::new();
    let mut tell = |words: std::fmt::Arguments<'_>| {
        // cannot fail: a string takes all.
        let _ = writeln!(text, "{words}");
    };
    let [hash_type, data, tree, data_block, hash_block, _, first, hash, root, salt] = &line.words;
    let sectors = |blocks: &str| {
        let blocks: u64 = blocks.parse().ok()?;
        blocks.checked_mul(hash_block.parse().ok()?).map(|bytes| bytes / 512)
    };
    tell(format_args!("{path} is active{}.", if found.in_use { " and is in use" } else { "" }));
    tell(format_args!("  type:        VERITY"));
    let verified = if found.state.starts_with('V') { "verified" } else { "corrupted" };
    let signed = if line.has("root_hash_sig_key_desc") { " (with signature)" } else { "" };
    tell(format_args!("  status:      {verified}{signed}"));
    tell(format_args!("  hash type:   {hash_type}"));
    tell(format_args!("  data block:  {data_block}"));
    tell(format_args!("  hash block:  {hash_block}"));
    tell(format_args!("  hash name:   {hash}"));
    tell(format_args!("  salt:        {salt}"));
    tell(format_args!("{}", device("data", data)));
    let mode = if found.read_only { "readonly" } else { "read/write" };
    tell(format_args!("  size:        {} sectors", found.sectors));
    tell(format_args!("  mode:        {mode}"));
    tell(format_args!("{}", device("hash", tree)));
    tell(format_args!("  hash offset: {} sectors", sectors(first)?));
    if let Some(parity) = line.value("use_fec_from_device") {
        let (path, _) = stacked::device(parity);
        tell(format_args!("  FEC device:  {}", path.display()));
        tell(format_args!("  FEC offset:  {} sectors", sectors(line.value("fec_start")?)?));
        tell(format_args!("  FEC roots:   {}", line.value("fec_roots")?));
    }
    tell(format_args!("  root hash:   {root}"));
    // As veritysetup tells them: the last two with no space behind.
    let word =
        |word: &str| if matches!(word, "check_at_most_once" | "try_verify_in_tasklet") { "" } else { " " };
    let flags: String = FLAGS
        .iter()
        .chain(&ON_ERROR)
        .filter(|(_, flag)| line.has(flag))
        .map(|(_, flag)| format!("{flag}{}", word(flag)))
        .collect();
    if !flags.is_empty() {
        tell(format_args!("  flags:       {flags}"));
    }
    Some(text)
}
