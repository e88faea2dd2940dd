//! Reads a kernel's tables and the modules that are wanted, unpacked: whoever loads them then needs no decompressor.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::compress::{Compression, unpack_all};
use crate::elf::{self, Machine};

use super::resolve::{Plan, resolve};
use super::tables::Tables;
use super::{ModuleError, normal_name};

/// Largest module, unpacked.
const MODULE_MAX: u64 = 256 << 20;

/// What opening a volume needs beside the driver of the disk: device-mapper, the ciphers and hashes of LUKS in every
/// speed that the kernel has, and the file systems that a root is on. Those that a kernel lacks are left out.
pub const DEFAULT: &[&str] = &[
    "dm-crypt",
    "dm-integrity",
    "loop",
    "xts",
    "cbc",
    "ecb",
    "essiv",
    "authenc",
    "hmac",
    "cmac",
    "adiantum",
    "aes_generic",
    "aesni-intel",
    "aes-ce-blk",
    "aes-neon-blk",
    "aes-arm",
    "aes-arm-ce",
    "aes-arm-bs",
    "aes-riscv64",
    "aes_s390",
    "vmx-crypto",
    "sha1_generic",
    "sha256_generic",
    "sha512_generic",
    "sha256-ssse3",
    "sha512-ssse3",
    "sha256-arm64",
    "sha512-arm64",
    "sha2-ce",
    "sha512-ce",
    "crc32c_generic",
    "crc32c-intel",
    "serpent_generic",
    "serpent-avx-x86_64",
    "serpent-avx2",
    "serpent-sse2-x86_64",
    "twofish_generic",
    "twofish-x86_64",
    "twofish-avx-x86_64",
    "camellia_generic",
    "camellia-x86_64",
    "ext4",
    "xfs",
    "btrfs",
    "f2fs",
    "vfat",
    "nls_cp437",
    "nls_iso8859-1",
    "nls_ascii",
];

/// One module.
#[derive(Clone, Debug)]
pub struct ModuleFile {
    /// Where it belongs below `/lib/modules/VERSION`, without the suffix of a compression.
    pub path: String,
    /// Its code, unpacked.
    pub data: Vec<u8>,
    /// Paths of those that it needs.
    needs: Vec<String>,
}

/// The modules that were asked for.
#[derive(Clone, Debug)]
pub struct ModuleSet {
    /// The kernel's version.
    pub version: String,
    /// In the order in which they can be loaded.
    pub files: Vec<ModuleFile>,
    /// Names that the kernel has built in.
    pub builtin: Vec<String>,
    /// What they are made for; `None` without modules.
    pub machine: Option<Machine>,
}

impl ModuleSet {
    /// The list `/etc/atrest/modules`: one path below `/lib/modules/VERSION` a line, in the order of loading.
    pub fn list(&self) -> String {
        self.files.iter().map(|file| format!("{}\n", file.path)).collect()
    }

    /// A `modules.dep` of these modules, for busybox's modprobe.
    pub fn dep(&self) -> String {
        let line = |file: &ModuleFile| {
            let needs: String = file.needs.iter().map(|path| format!(" {path}")).collect();
            format!("{}:{needs}\n", file.path)
        };
        self.files.iter().map(line).collect()
    }
}

/// Reads the modules `wanted` and what they need from `directory`, a `/lib/modules/VERSION`; of [`DEFAULT`], too, what
/// is there, if `default` says so.
///
/// # Errors
/// [`ModuleError::Version`] if the directory is not named like a kernel's version, and what [`resolve`] fails
/// with. [`ModuleError::Table`], [`ModuleError::Read`], [`ModuleError::Unpack`] and [`ModuleError::NotElf`]
/// name the file.
pub fn load(directory: &Path, wanted: &[String], default: bool) -> Result<ModuleSet, ModuleError> {
    let version = fs::canonicalize(directory).map_err(|cause| read_error(directory, cause))?;
    let version = version.file_name().and_then(|name| name.to_str()).map(String::from);
    let version = version.filter(|version| version.starts_with(|first: char| first.is_ascii_digit()));
    let version = version.ok_or_else(|| ModuleError::Version { directory: directory.into() })?;
    let tables = read_tables(directory)?;
    let Plan { load, builtin } = resolve(&tables, wanted, if default { DEFAULT } else { &[] }, directory)?;
    let mut machine = None;
    let mut files = Vec::new();
    for path in load {
        let full = directory.join(&path);
        let data = read_module(&full)?;
        let elf = elf::read(&data).ok_or(ModuleError::NotElf { path: full })?;
        machine.get_or_insert(elf.machine);
        // intended: a path without a name is in no table.
        let name = super::tables::module_name(&path).unwrap_or_default();
        let needs =
            // intended: a module that is in no table needs no other.
            tables.modules.get(&normal_name(&name)).map(|(_, needs)| needs.as_slice()).unwrap_or_default();
        let needs = needs.iter().map(|path| plain(path)).collect();
        files.push(ModuleFile { path: plain(&path), data, needs });
    }
    Ok(ModuleSet { version, files, builtin, machine })
}

fn read_tables(directory: &Path) -> Result<Tables, ModuleError> {
    let mut tables = Tables::default();
    tables.read_dep(&text(&directory.join("modules.dep"))?)?;
    // A kernel may be without each of the others.
    let optional = |name: &str| match text(&directory.join(name)) {
        Err(ModuleError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    };
    tables.read_builtin(&optional("modules.builtin")?);
    tables.read_softdep(&optional("modules.softdep")?);
    tables.read_alias(&optional("modules.alias")?);
    tables.read_builtin_info(optional("modules.builtin.modinfo")?.as_bytes());
    Ok(tables)
}

fn read_module(path: &Path) -> Result<Vec<u8>, ModuleError> {
    let data = fs::read(path).map_err(|cause| read_error(path, cause))?;
    match Compression::detect(&data) {
        None => Ok(data),
        Some(compression) => unpack_all(compression, &data, MODULE_MAX)
            .map_err(|cause| ModuleError::Unpack { path: path.into(), cause }),
    }
}

/// The path of a module as it lies in the archive.
fn plain(path: &str) -> String {
    let end = path.rfind(".ko").map_or(path.len(), |at| at + ".ko".len());
    path.get(..end).unwrap_or(path).into()
}

/// Tables are text; descriptions in them may be in any encoding.
fn text(path: &Path) -> Result<String, ModuleError> {
    let bytes = fs::read(path).map_err(|cause| read_error(path, cause))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_error(path: &Path, cause: io::Error) -> ModuleError {
    ModuleError::Read { path: PathBuf::from(path), cause }
}
