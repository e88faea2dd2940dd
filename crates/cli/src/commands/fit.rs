//! `atrest fit`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use atrest_bootimage::fit::{
    self, BuildError, ConfigSpec, Fit, FitError, FitSpec, HashKind, HashState, ImageKind, ImageSpec,
    KeyError, PrivateKey, PublicKey, Report, SignSpec, SignatureCheck, SignatureState,
};
use atrest_bootimage::{fdt, files};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::initramfs::source_date;
use super::text::counted;
use crate::args::fit::{FitBuildArgs, FitInfoArgs, FitScriptArgs, FitVerifyArgs, HashName};
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};

/// An image that has been read: name, kind, bytes and permissions.
type Input = (String, ImageKind, Zeroizing<Vec<u8>>, u32);

pub fn build(args: &FitBuildArgs, output: &Output) -> Result<(), Failure> {
    let mut inputs: Vec<Input> = Vec::new();
    for (kind, list) in [
        (ImageKind::Kernel, &args.kernels),
        (ImageKind::Fdt, &args.fdts),
        (ImageKind::Ramdisk, &args.ramdisks),
    ] {
        for (number, text) in (1..).zip(list) {
            let (name, path) = named(text, || format!("{}-{number}", kind.name()));
            let (data, mode) = read(&path)?;
            inputs.push((name, kind, data, mode));
        }
    }
    let images = inputs.iter().map(|(name, kind, data, _)| image(args, name, *kind, data)).collect();
    let configurations = configurations(args, &inputs)?;
    let default =
        // intended: without configurations there is no default, and building refuses.
        args.default.clone().or_else(|| Some(configurations.first()?.name.clone())).unwrap_or_default();
    let hashes = match args.hashes.as_slice() {
        [] => vec![HashKind::Sha256],
        some => some.iter().map(|name| HashKind::from(*name)).collect(),
    };
    let spec = FitSpec {
        description: args.description.clone(),
        arch: args.arch.clone(),
        timestamp: source_date()?,
        images,
        configurations,
        default,
        hashes,
        external: args.external,
    };
    let (file, key_tree) = match &args.signature.sign_key {
        None => (fit::build(&spec)?, None),
        Some(path) => signed(&spec, path, args)?,
    };
    if let Some((path, blob)) = &key_tree {
        files::replace(path, blob, 0o644).map_err(|error| Failure::io(&error).at(path))?;
    }
    // An initramfs with keys in it is not to be read by more people because it lies in a FIT.
    let mode = inputs.iter().fold(0o644, |mode, (.., own)| mode & own);
    files::replace(&args.output, &file, mode | 0o600)
        .map_err(|error| Failure::io(&error).at(&args.output))?;
    let data = json!({
        "path": path_text(&args.output),
        "bytes": file.len(),
        "images": spec.images.iter().map(|image| image.name.as_str()).collect::<Vec<_>>(),
        "configurations": spec.configurations.iter().map(|config| config.name.as_str()).collect::<Vec<_>>(),
        "default": spec.default,
    });
    let images = counted(spec.images.len() as u64, "image", "images");
    let configurations = counted(spec.configurations.len() as u64, "configuration", "configurations");
    output
        .done(&data, &format!("{}: {} bytes, {images}, {configurations}", args.output.display(), file.len()))
}

/// The FIT, and U-Boot's control tree with the key in it.
#[expect(clippy::type_complexity)]
fn signed(
    spec: &FitSpec<'_>,
    path: &Path,
    args: &FitBuildArgs,
) -> Result<(Vec<u8>, Option<(PathBuf, Vec<u8>)>), Failure> {
    let key = PrivateKey::from_pem(&read(path)?.0).map_err(|error| Failure::from(error).at(path))?;
    let named = args.signature.key_name.clone();
    let name = named.or_else(|| Some(path.file_stem()?.to_str()?.to_string())).ok_or_else(|| {
        Failure::parameters("the name of the key's file is no text").at(path).hint("--key-name names the key")
    })?;
    let hash = args.signature.sign_hash.map_or(HashKind::Sha256, HashKind::from);
    let sign = SignSpec { key: &key, name: name.clone(), hash, pss: args.signature.pss };
    let file = fit::build_signed(spec, &sign)?;
    let Some(tree_path) = &args.signature.key_dtb else { return Ok((file, None)) };
    let (blob, _) = read(tree_path)?;
    let wrong = |error: &dyn std::fmt::Display| Failure::new(Code::Device, error).at(tree_path);
    let mut tree = fdt::read(&blob).map_err(|error| wrong(&error))?;
    key.public().add_to(&mut tree, &name, key.scheme(hash, sign.pss)?);
    let blob = tree.to_blob().map_err(|error| wrong(&error))?;
    Ok((file, Some((tree_path.clone(), blob))))
}

pub fn info(args: &FitInfoArgs, output: &Output) -> Result<(), Failure> {
    let (file, _) = read(&args.file)?;
    let fit = Fit::read(&file).map_err(|error| Failure::from(error).at(&args.file))?;
    let root = &fit.tree.root;
    let text_of = |name: &str| root.text(name).unwrap_or("-").to_string();
    let mut text = format!("Description: {}\n", text_of("description"));
    // Writing to a String can't fail, here and below.
    let _ = writeln!(
        text,
        "Timestamp:   {}",
        root.number("timestamp").map_or("-".into(), |time| time.to_string())
    );
    let _ = writeln!(text, "Default:     {}", fit.default().unwrap_or("-"));
    let mut images = Vec::new();
    for image in fit.images() {
        let image = image.map_err(|error| Failure::from(error).at(&args.file))?;
        let property = |name: &str| image.node.text(name);
        let address = |name: &str| image.node.number(name);
        let _ = writeln!(text, "\nImage {}: {} bytes", image.node.name, image.data.len());
        for name in ["description", "type", "arch", "os", "compression"] {
            if let Some(value) = property(name) {
                let _ = writeln!(text, "  {name:<12} {value}");
            }
        }
        for name in ["load", "entry"] {
            if let Some(value) = address(name) {
                let _ = writeln!(text, "  {name:<12} {value:#x}");
            }
        }
        let mut hashes = Vec::new();
        for node in image.node.children.iter().filter(|node| node.name.starts_with("hash")) {
            let (algorithm, value) =
                // intended: a node without a value shows none.
                (node.text("algo").unwrap_or("-"), hex(node.property("value").unwrap_or_default()));
            let _ = writeln!(text, "  {algorithm:<12} {value}");
            hashes.push(json!({ "node": node.name, "algorithm": algorithm, "value": value }));
        }
        images.push(json!({
            "name": image.node.name,
            "size": image.data.len(),
            "description": property("description"),
            "type": property("type"),
            "arch": property("arch"),
            "os": property("os"),
            "compression": property("compression"),
            "load": address("load"),
            "entry": address("entry"),
            "hashes": hashes,
        }));
    }
    let mut configurations = Vec::new();
    for node in fit.configurations() {
        let _ = writeln!(text, "\nConfiguration {}", node.name);
        let mut described = serde_json::Map::new();
        described.insert("name".into(), json!(node.name));
        for (name, _) in &node.properties {
            if let Some(values) = node.texts(name) {
                let _ = writeln!(text, "  {name:<12} {}", values.join(", "));
                described.insert(name.clone(), json!(values));
            }
        }
        configurations.push(Value::Object(described));
    }
    let data = json!({
        "description": root.text("description"),
        "timestamp": root.number("timestamp"),
        "default": fit.default(),
        "images": images,
        "configurations": configurations,
    });
    output.report(&data, &text)
}

pub fn verify(args: &FitVerifyArgs, output: &Output) -> Result<(), Failure> {
    let (file, _) = read(&args.file)?;
    let at = |error: FitError| Failure::from(error).at(&args.file);
    let fit = Fit::read(&file).map_err(at)?;
    let mut keys = Vec::new();
    for path in &args.public_keys {
        let key = PublicKey::from_pem(&read(path)?.0).map_err(|error| Failure::from(error).at(path))?;
        keys.push(key);
    }
    if let Some(path) = &args.key_dtb {
        let (blob, _) = read(path)?;
        let tree = fdt::read(&blob).map_err(|error| Failure::new(Code::Device, error).at(path))?;
        keys.extend(PublicKey::from_tree(&tree).map_err(|error| Failure::from(error).at(path))?);
    }
    let report = fit::verify(&fit, &keys).map_err(at)?;
    output.report(&describe(&report, &keys), &lines(&report, &keys))?;
    match (report.is_good(), report.is_authentic()) {
        (true, true) => Ok(()),
        (true, false) if keys.is_empty() => Ok(()),
        (true, false) => {
            Err(Failure::new(Code::Device, "not every configuration is signed by these keys").at(&args.file))
        }
        (false, _) => {
            Err(Failure::new(Code::Device, "the image is not as U-Boot will take it").at(&args.file))
        }
    }
}

fn describe(report: &Report, keys: &[PublicKey]) -> Value {
    let images = report.images.iter().map(|image| {
        let hashes = image.hashes.iter().map(
            |hash| json!({ "node": hash.node, "algorithm": hash.algorithm, "state": state(&hash.state) }),
        );
        json!({
            "name": image.name,
            "good": image.is_good(),
            "hashes": hashes.collect::<Vec<_>>(),
            "signatures": signatures(&image.signatures),
        })
    });
    let configurations = report.configurations.iter();
    let configurations =
        configurations.map(|config| json!({ "name": config.name, "problems": config.problems }));
    json!({
        "good": report.is_good(),
        "authentic": (!keys.is_empty()).then_some(report.is_authentic()),
        "images": images.collect::<Vec<_>>(),
        "configurations": configurations.collect::<Vec<_>>(),
        "problems": report.problems,
    })
}

fn signatures(checks: &[SignatureCheck]) -> Vec<Value> {
    let describe = |check: &SignatureCheck| {
        let missing = match &check.state {
            SignatureState::Partial(paths) => paths.as_slice(),
            _ => &[],
        };
        json!({
            "node": check.node,
            "algorithm": check.algorithm,
            "key": check.key,
            "state": signature_state(&check.state),
            "missing": missing,
        })
    };
    checks.iter().map(describe).collect()
}

fn signature_state(state: &SignatureState) -> &'static str {
    match state {
        SignatureState::Good => "good",
        SignatureState::Bad => "WRONG",
        SignatureState::NoKey => "unchecked",
        SignatureState::Partial(_) => "partial",
        SignatureState::Unknown => "unknown",
        SignatureState::Malformed => "malformed",
    }
}

fn lines(report: &Report, keys: &[PublicKey]) -> String {
    let mut text = String::new();
    for image in &report.images {
        let hashes: Vec<String> =
            image.hashes.iter().map(|hash| format!("{} {}", hash.algorithm, state(&hash.state))).collect();
        let hashes = if hashes.is_empty() { "no hash".into() } else { hashes.join(", ") };
        let _ = writeln!(text, "image {}: {hashes}", image.name);
    }
    for config in &report.configurations {
        let problems =
            if config.problems.is_empty() { "complete".into() } else { config.problems.join(", ") };
        let _ = writeln!(text, "configuration {}: {problems}", config.name);
        for check in &config.signatures {
            let state = signature_state(&check.state);
            let _ = writeln!(text, "  signature {} by {:?}: {state}", check.algorithm, check.key);
            if let SignatureState::Partial(missing) = &check.state {
                let _ = writeln!(text, "    not signed: {}", missing.join(", "));
            }
        }
    }
    for problem in &report.problems {
        let _ = writeln!(text, "{problem}");
    }
    if report.is_good() && keys.is_empty() {
        text.push_str("Nothing is damaged. Hashes do not say who made it.\n");
    }
    text
}

fn state(state: &HashState) -> &'static str {
    match state {
        HashState::Good => "good",
        HashState::Bad => "WRONG",
        HashState::Unknown => "unknown",
        HashState::Malformed => "malformed",
    }
}

pub fn script(args: &FitScriptArgs, output: &Output) -> Result<(), Failure> {
    let (text, _) = read(&args.script)?;
    let file = fit::script(&text, &args.arch, &args.title, source_date()?).map_err(Failure::parameters)?;
    files::replace(&args.output, &file, 0o644).map_err(|error| Failure::io(&error).at(&args.output))?;
    let data = json!({ "path": path_text(&args.output), "bytes": file.len() });
    output.done(&data, &format!("{}: {} bytes", args.output.display(), file.len()))
}

fn image<'a>(args: &FitBuildArgs, name: &str, kind: ImageKind, data: &'a [u8]) -> ImageSpec<'a> {
    let (load, entry, compression) = match kind {
        ImageKind::Kernel => (Some(args.load), args.entry, args.compression.clone()),
        ImageKind::Fdt => (args.fdt_load, None, "none".into()),
        ImageKind::Ramdisk => (args.ramdisk_load, None, "none".into()),
    };
    ImageSpec { name: name.into(), kind, data, compression, load, entry }
}

/// The configurations that are asked for, or one for each device tree.
fn configurations(args: &FitBuildArgs, inputs: &[Input]) -> Result<Vec<ConfigSpec>, Failure> {
    let of = |wanted: ImageKind| {
        inputs.iter().filter(move |(_, kind, ..)| *kind == wanted).map(|(name, ..)| name.clone())
    };
    if args.configurations.is_empty() {
        let with = |fdt: Option<String>| {
            of(ImageKind::Kernel).take(1).chain(fdt).chain(of(ImageKind::Ramdisk).take(1)).collect::<Vec<_>>()
        };
        let mut lists: Vec<Vec<String>> = of(ImageKind::Fdt).map(|fdt| with(Some(fdt))).collect();
        if lists.is_empty() {
            lists.push(with(None));
        }
        let numbered = (1..).zip(lists);
        return Ok(numbered
            .map(|(number, images)| ConfigSpec { name: format!("conf-{number}"), images })
            .collect());
    }
    let parse = |text: &String| {
        let (name, images) = text.split_once('=').ok_or_else(|| {
            Failure::parameters(format_args!("--configuration {text} names no images"))
                .hint("write --configuration NAME=kernel-1,fdt-1,ramdisk-1")
        })?;
        Ok(ConfigSpec { name: name.into(), images: images.split(',').map(String::from).collect() })
    };
    args.configurations.iter().map(parse).collect()
}

/// `NAME=FILE`, or a file alone.
fn named(text: &str, default: impl Fn() -> String) -> (String, PathBuf) {
    match text.split_once('=') {
        Some((name, path)) if !name.contains('/') => (name.into(), path.into()),
        _ => (default(), text.into()),
    }
}

fn read(path: &Path) -> Result<(Zeroizing<Vec<u8>>, u32), Failure> {
    files::read(path).map_err(|error| Failure::io(&error).at(path))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl From<HashName> for HashKind {
    fn from(name: HashName) -> Self {
        match name {
            HashName::Crc32 => Self::Crc32,
            HashName::Sha1 => Self::Sha1,
            HashName::Sha256 => Self::Sha256,
            HashName::Sha384 => Self::Sha384,
            HashName::Sha512 => Self::Sha512,
        }
    }
}

impl From<FitError> for Failure {
    fn from(error: FitError) -> Self {
        Self::new(Code::Device, error)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let failure = Self::new(Code::Device, &error);
        match error {
            KeyError::Pem => failure.hint(
                "`openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048` makes one, \
                 `openssl x509 -pubkey -noout` takes the public one from a certificate",
            ),
            _ => failure,
        }
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match &error {
            BuildError::NotFdt { .. } => Self::new(Code::Device, &error),
            _ => Self::parameters(&error),
        }
    }
}
