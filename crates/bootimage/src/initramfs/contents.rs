//! What goes into an initramfs.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::cpio::{Archive, Content, PathError};
use crate::elf::{self, Machine};
use crate::files;
use crate::modules::{self, ModuleSet};

use super::{InitramfsError, MODULE_LIST};

/// Files to put into an initramfs, by where they lie on this machine.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The static program that unlocks.
    pub unlocker: Option<PathBuf>,
    /// The `/lib/modules/VERSION` to take modules from.
    pub modules_dir: Option<PathBuf>,
    /// Modules, by name or alias.
    pub modules: Vec<String>,
    /// Whether those that opening a volume usually needs are added, as far as they are there.
    pub default_modules: bool,
    /// Becomes `/etc/crypttab`.
    pub crypttab: Option<PathBuf>,
    /// Key files and where they go; mode 0400.
    pub keys: Vec<(PathBuf, String)>,
    /// A static busybox, which becomes `/bin/busybox` and `/bin/sh`.
    pub busybox: Option<PathBuf>,
    /// More files and where they go, with the permissions that they have here.
    pub files: Vec<(PathBuf, String)>,
}

/// What went in.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The modules' kernel.
    pub version: Option<String>,
    /// Paths of the modules, in the order of loading.
    pub modules: Vec<String>,
    /// Modules that were asked for and that the kernel has built in.
    pub builtin: Vec<String>,
    /// Names of all files, sorted.
    pub files: Vec<String>,
}

impl Contents {
    /// The directories and devices that must be there before anything can be mounted. The kernel opens `/dev/console`
    /// for the first process, long before there is a devtmpfs.
    pub(super) fn skeleton(&self, archive: &mut Archive) -> Result<(), PathError> {
        let nowhere = |_: &str| false;
        for (name, permissions) in
            [("dev", 0o755), ("etc", 0o755), ("proc", 0o555), ("run", 0o755), ("sys", 0o555), ("tmp", 0o1777)]
        {
            archive.add(name, permissions, Content::Directory, &nowhere)?;
        }
        archive.add("dev/console", 0o600, Content::CharDevice(5, 1), &nowhere)?;
        archive.add("dev/null", 0o666, Content::CharDevice(1, 3), &nowhere)
    }

    /// Adds everything, the unlocker as `unlocker_path`. `whole`: nobody else brings modules, so that their table can be ours.
    pub(super) fn fill(
        &self,
        archive: &mut Archive,
        unlocker_path: &str,
        whole: bool,
        is_there: &dyn Fn(&str) -> bool,
    ) -> Result<Report, InitramfsError> {
        let mut report = Report::default();
        let mut machine = None;
        if let Some(directory) = &self.modules_dir {
            let set = modules::load(directory, &self.modules, self.default_modules)?;
            machine = set.machine;
            add_modules(archive, &set, whole, is_there)?;
            report.version = Some(set.version);
            report.modules = set.files.into_iter().map(|file| file.path).collect();
            report.builtin = set.builtin;
        }
        if let Some(path) = &self.unlocker {
            let data = program(path, &mut machine)?;
            archive.add(unlocker_path, 0o755, Content::File(data), is_there)?;
        }
        if let Some(path) = &self.busybox {
            let data = program(path, &mut machine)?;
            archive.add("bin/busybox", 0o755, Content::File(data), is_there)?;
            archive.add("bin/sh", 0o777, Content::Symlink(b"busybox".to_vec()), is_there)?;
        }
        if let Some(path) = &self.crypttab {
            archive.add("etc/crypttab", 0o600, Content::File(read(path)?.0), is_there)?;
        }
        for (path, name) in &self.keys {
            archive.add(name, 0o400, Content::File(read(path)?.0), is_there)?;
        }
        for (path, name) in &self.files {
            let (data, permissions) = read(path)?;
            archive.add(name, permissions & 0o777, Content::File(data), is_there)?;
        }
        report.files = archive.names().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        Ok(report)
    }
}

fn add_modules(
    archive: &mut Archive,
    set: &ModuleSet,
    whole: bool,
    is_there: &dyn Fn(&str) -> bool,
) -> Result<(), PathError> {
    let place = format!("lib/modules/{}", set.version);
    let text = |text: String| Content::File(text.into_bytes().into());
    for file in &set.files {
        let content = Content::File(Zeroizing::new(file.data.clone()));
        archive.add(&format!("{place}/{}", file.path), 0o644, content, is_there)?;
    }
    if whole {
        archive.add(&format!("{place}/modules.dep"), 0o644, text(set.dep()), is_there)?;
    }
    archive.add(MODULE_LIST, 0o644, text(set.list()), is_there)
}

/// A static program for the same machine as everything before it.
fn program(path: &Path, machine: &mut Option<Machine>) -> Result<Zeroizing<Vec<u8>>, InitramfsError> {
    let (data, _) = read(path)?;
    let elf = elf::read(&data).ok_or_else(|| InitramfsError::NotElf { path: path.into() })?;
    if elf.wants_loader {
        return Err(InitramfsError::NotStatic { path: path.into() });
    }
    let expected = *machine.get_or_insert(elf.machine);
    if expected != elf.machine {
        return Err(InitramfsError::Machine { path: path.into(), machine: elf.machine, expected });
    }
    Ok(data)
}

fn read(path: &Path) -> Result<(Zeroizing<Vec<u8>>, u32), InitramfsError> {
    files::read(path).map_err(|cause| InitramfsError::Read { path: path.into(), cause })
}
