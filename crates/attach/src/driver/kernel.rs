//! The kernel's own file system, over a loop device over our file. As root only.
//!
//! mount(8) of util-linux is asked, as it knows which options are the kernel's and which are the file system's.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atrest_probe::FilesystemKind;

use super::{DriverError, Plan, ending};
use crate::dm::LoopDevice;

/// A loop device over our file. It goes as soon as nobody uses it.
pub(super) fn loop_device(file: &Path, read_only: bool) -> Result<LoopDevice, DriverError> {
    let opened = OpenOptions::new().read(true).write(!read_only).open(file).map_err(DriverError::Loop)?;
    LoopDevice::over(opened.as_fd(), file, read_only).map_err(DriverError::Loop)
}

/// Mounts our file by the kernel.
pub(super) fn mount(plan: &Plan<'_>, file: &Path, directory: &Path) -> Result<(), DriverError> {
    let options = plan.options;
    let device = loop_device(file, options.read_only)?;
    let mut list = String::from(if options.read_only { "ro,nosuid,nodev" } else { "rw,nosuid,nodev" });
    for option in &options.extra {
        list.push(',');
        list.push_str(option);
    }
    // intended: without it the error names the program.
    let program = crate::path::find("mount").unwrap_or_else(|| PathBuf::from("mount"));
    let mut command = Command::new(&program);
    // -i: the kernel's file system and no helper, which might be a driver in user space again.
    command.args(["-i", "-t", kernel_name(plan.filesystem), "-o", &list, "--"]);
    command.arg(device.path()).arg(directory).stdin(Stdio::null());
    let ended = command.output().map_err(|error| DriverError::Start { program, error })?;
    if !ended.status.success() {
        let said = super::said::legible(&ended.stderr);
        return Err(DriverError::Refused { program: "mount", status: ending(ended.status), said });
    }
    Ok(())
}

/// The name under which the kernel knows a file system.
fn kernel_name(filesystem: FilesystemKind) -> &'static str {
    match filesystem {
        FilesystemKind::Ntfs => "ntfs3",
        other => other.blkid_name(),
    }
}
