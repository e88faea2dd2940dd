//! `atrest initramfs`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use atrest_bootimage::compress::Compression;
use atrest_bootimage::cpio::{CpioError, Entry, Kind, Limits, Segment, read_chain};
use atrest_bootimage::files;
use atrest_bootimage::initramfs::{
    AddOptions, Contents, Image, InitramfsError, add as add_to, build as build_image,
};
use atrest_bootimage::modules::ModuleError;
use serde_json::{Value, json};

use super::text::counted;
use crate::args::initramfs::{
    CompressionKind, ContentsArgs, InitramfsAddArgs, InitramfsBuildArgs, InitramfsInfoArgs,
};
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};

/// Where a key goes whose place is not said: where systemd and atrest look for it.
const KEY_DIRECTORY: &str = "/etc/cryptsetup-keys.d";

pub fn build(args: &InitramfsBuildArgs, output: &Output) -> Result<(), Failure> {
    let contents = Contents {
        unlocker: Some(args.init.clone()),
        busybox: args.busybox.clone(),
        ..contents(&args.contents)?
    };
    let compression = args.compress.into();
    let image = build_image(&contents, compression, source_date()?)?;
    let mode = if contents.keys.is_empty() { 0o644 } else { 0o600 };
    write(&args.output, &image, mode, &contents, output)
}

pub fn add(args: &InitramfsAddArgs, output: &Output) -> Result<(), Failure> {
    let contents = Contents { unlocker: args.init.clone(), ..contents(&args.contents)? };
    let (existing, old_mode) =
        files::read(&args.archive).map_err(|error| Failure::io(&error).at(&args.archive))?;
    let options = AddOptions {
        replace_init: args.replace_init,
        compression: args.compress.map(Into::into),
        mtime: source_date()?,
        limits: Limits::default(),
    };
    let image = add_to(&existing, &contents, options).map_err(|error| match error {
        InitramfsError::Existing(_) | InitramfsError::InTheWay { .. } => {
            Failure::from(error).at(&args.archive)
        }
        other => other.into(),
    })?;
    // Keys that were in there already are as secret as those that come.
    let mode = if contents.keys.is_empty() { old_mode & 0o777 } else { 0o600 };
    write(args.output.as_deref().unwrap_or(&args.archive), &image, mode, &contents, output)
}

pub fn info(args: &InitramfsInfoArgs, output: &Output) -> Result<(), Failure> {
    let (file, _) = files::read(&args.archive).map_err(|error| Failure::io(&error).at(&args.archive))?;
    let segments = read_chain(&file, Limits::default())
        .map_err(|error| Failure::from(InitramfsError::Existing(error)).at(&args.archive))?;
    let mut text = String::new();
    for segment in &segments {
        // Writing to a String can't fail, here and below.
        let _ = writeln!(
            text,
            "Archive at byte {}: {} bytes, {}",
            segment.offset,
            segment.len,
            match segment.compression {
                Compression::None => "not compressed".into(),
                other => format!("{other}, unpacked {} bytes", segment.content.len()),
            }
        );
        for entry in &segment.entries {
            let _ = writeln!(text, "  {}", line(segment, entry));
        }
    }
    let list: Vec<Value> = segments
        .iter()
        .map(|segment| {
            json!({
                "offset": segment.offset,
                "length": segment.len,
                "compression": segment.compression.name(),
                "unpacked": match segment.compression { Compression::None => segment.len, _ => segment.content.len() },
                "files": segment.entries.iter().map(|entry| describe(segment, entry)).collect::<Vec<_>>(),
            })
        })
        .collect();
    output.report(&json!({ "segments": list }), &text)
}

fn line(segment: &Segment<'_>, entry: &Entry) -> String {
    let kind = match entry.kind() {
        Kind::Directory => 'd',
        Kind::File => '-',
        Kind::Symlink => 'l',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
        Kind::Other => '?',
    };
    let size = match entry.kind() {
        Kind::CharDevice | Kind::BlockDevice => format!("{},{}", entry.device.0, entry.device.1),
        _ => segment.data(entry).len().to_string(),
    };
    let name = if entry.name.is_empty() { ".".into() } else { entry.name_text() };
    let target = match entry.kind() {
        Kind::Symlink => format!(" -> {}", String::from_utf8_lossy(segment.data(entry))),
        _ => String::new(),
    };
    format!(
        "{kind}{:04o} {:>3} {:>3} {size:>10} {name}{target}",
        entry.mode & 0o7777,
        entry.owner.0,
        entry.owner.1
    )
}

fn describe(segment: &Segment<'_>, entry: &Entry) -> Value {
    let (kind, device) = match entry.kind() {
        Kind::Directory => ("directory", false),
        Kind::File => ("file", false),
        Kind::Symlink => ("symlink", false),
        Kind::CharDevice => ("char-device", true),
        Kind::BlockDevice => ("block-device", true),
        Kind::Other => ("other", false),
    };
    let target =
        (entry.kind() == Kind::Symlink).then(|| String::from_utf8_lossy(segment.data(entry)).into_owned());
    json!({
        "name": entry.name_text(),
        "kind": kind,
        "mode": format!("{:04o}", entry.mode & 0o7777),
        "uid": entry.owner.0,
        "gid": entry.owner.1,
        "size": segment.data(entry).len(),
        "modified": entry.mtime,
        "target": target,
        "device": device.then_some([entry.device.0, entry.device.1]),
    })
}

fn write(path: &Path, image: &Image, mode: u32, contents: &Contents, output: &Output) -> Result<(), Failure> {
    files::replace(path, &image.file, mode).map_err(|error| Failure::io(&error).at(path))?;
    if !contents.keys.is_empty() {
        output.warn(format_args!(
            "{} holds {}: whoever reads it opens the volume; keep it where only its owner reads, not on a boot \
             partition that is not encrypted",
            path.display(),
            counted(contents.keys.len() as u64, "key file", "key files")
        ));
        // The umask can only take permissions away; another filesystem may know none.
        let mode = fs::metadata(path).map_err(|error| Failure::io(&error).at(path))?.permissions().mode();
        if mode & 0o077 != 0 {
            output.warn(format_args!("{} can be read by others than its owner", path.display()));
        }
    }
    let report = &image.report;
    let data = json!({
        "path": path_text(path),
        "bytes": image.file.len(),
        "kernel": report.version,
        "modules": report.modules,
        "builtin": report.builtin,
        "files": report.files,
    });
    let modules = match &report.version {
        Some(version) => {
            format!(", {} for {version}", counted(report.modules.len() as u64, "module", "modules"))
        }
        None => String::new(),
    };
    let files = counted(report.files.len() as u64, "file", "files");
    output.done(&data, &format!("{}: {} bytes, {files}{modules}", path.display(), image.file.len()))
}

fn contents(args: &ContentsArgs) -> Result<Contents, Failure> {
    let key = |text: &String| match text.rsplit_once(':') {
        Some((file, place)) => Ok((PathBuf::from(file), place.to_string())),
        None => match Path::new(text).file_name().and_then(|name| name.to_str()) {
            Some(name) => Ok((PathBuf::from(text), format!("{KEY_DIRECTORY}/{name}"))),
            None => Err(Failure::parameters(format_args!("{text} is not the name of a file"))),
        },
    };
    let file = |text: &String| {
        let (file, place) = text.rsplit_once(':').ok_or_else(|| {
            Failure::parameters(format_args!("--file {text} does not say where the file goes"))
                .hint("write --file FILE:PATH, with PATH as the initramfs sees it")
        })?;
        Ok((PathBuf::from(file), place.to_string()))
    };
    Ok(Contents {
        unlocker: None,
        modules_dir: args.modules_dir.clone(),
        modules: args.modules.clone(),
        default_modules: !args.no_default_modules,
        crypttab: args.crypttab.clone(),
        keys: args.keys.iter().map(key).collect::<Result<_, Failure>>()?,
        busybox: None,
        files: args.files.iter().map(file).collect::<Result<_, Failure>>()?,
    })
}

/// The time that goes into files: `SOURCE_DATE_EPOCH`, as build systems set it, or 0.
pub fn source_date() -> Result<u32, Failure> {
    match std::env::var_os("SOURCE_DATE_EPOCH") {
        None => Ok(0),
        Some(text) => text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
            Failure::parameters(format_args!(
                "SOURCE_DATE_EPOCH is {text:?}, not a number of seconds since 1970"
            ))
        }),
    }
}

impl From<CompressionKind> for Compression {
    fn from(kind: CompressionKind) -> Self {
        match kind {
            CompressionKind::None => Self::None,
            CompressionKind::Gzip => Self::Gzip,
            CompressionKind::Xz => Self::Xz,
            CompressionKind::Zstd => Self::Zstd,
        }
    }
}

impl From<InitramfsError> for Failure {
    fn from(error: InitramfsError) -> Self {
        match &error {
            InitramfsError::Modules(ModuleError::Read { path, cause })
                if cause.kind() == std::io::ErrorKind::NotFound =>
            {
                Self::new(Code::Device, format!("{}: no modules of a kernel are there", path.display()))
                    .hint("--modules-dir is the directory of the kernel that will boot, as in /lib/modules/6.1.0-50-arm64")
            }
            InitramfsError::Read { path, cause }
            | InitramfsError::Modules(ModuleError::Read { path, cause }) => Self::io(cause).at(path),
            InitramfsError::NotStatic { .. } => {
                Self::new(Code::Device, &error).hint("take the static build (`make static`)")
            }
            InitramfsError::Modules(ModuleError::Missing { .. }) => Self::new(Code::Device, &error)
                .hint("--modules-dir is the directory of the kernel that will boot"),
            InitramfsError::Existing(CpioError::NoTrailer { .. } | CpioError::Truncated { .. }) => {
                Self::new(Code::Device, &error).hint("copy it again: the end is missing")
            }
            InitramfsError::Path(_) => Self::parameters(&error),
            _ => Self::new(Code::Device, &error),
        }
    }
}
