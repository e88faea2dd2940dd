//! `atrest mount` by a driver: which one, and how it is started.

use std::sync::Arc;

use atrest_attach::driver::{self, By, Driven, DriverError, Options, Plan, Program};
use atrest_attach::serve::Signals;
use atrest_attach::session::{Registry, Watched};
use atrest_device::BlockDevice;
use atrest_probe::FilesystemKind;

use super::fscrypt;
use crate::args::driver::DriverArgs;
use crate::args::inside::MountArgs;
use crate::errors::APT;
use crate::failure::{Code, Failure};

/// What is known to be missing before anybody types a passphrase.
pub fn check(args: &DriverArgs) -> Result<(), Failure> {
    if args.kernel && !rustix::process::geteuid().is_root() {
        return Err(Failure::new(Code::Refused, "--loop needs root: only root can mount by the kernel")
            .hint("--driver mounts without root"));
    }
    match args.driver {
        Some(Some(name)) if Program::from(name).find().is_none() => {
            Err(DriverError::Missing { program: name.into() }.into())
        }
        _ => Ok(()),
    }
}

/// Whether a reader of ours that also writes is as good as a driver: none is asked for by name, and nothing else of one.
pub fn may_be_ours(args: &DriverArgs) -> bool {
    args.driver.flatten().is_none() && !args.kernel && args.driver_options.is_empty()
}

/// Who mounts a filesystem; none if it is a reader of ours, or nobody.
pub fn by(args: &DriverArgs, filesystem: FilesystemKind, read_only: bool) -> Result<Option<By>, Failure> {
    if args.kernel {
        return Ok(Some(By::Kernel));
    }
    let usual = Program::usual(filesystem);
    match args.driver {
        Some(Some(name)) if Program::from(name).serves(filesystem) => Ok(Some(By::Program(name.into()))),
        Some(Some(name)) => {
            Err(Failure::parameters(format!("{filesystem} is no filesystem of {}", Program::from(name)))
                .hint("--driver alone takes the usual one"))
        }
        None if has_reader(filesystem) && args.driver_options.is_empty() => Ok(None),
        // The reader here needs no other program, and is enough for whoever writes nothing or has no driver.
        None if is_read(filesystem)
            && args.driver_options.is_empty()
            && (read_only || usual.is_none_or(|program| program.find().is_none())) =>
        {
            Ok(None)
        }
        None | Some(None) if usual.is_none() && !args.driver_options.is_empty() => {
            Err(Failure::parameters(format!("{filesystem} has no driver that --driver-options could be for")))
        }
        None | Some(None) => Ok(usual.map(By::Program)),
    }
}

fn has_reader(filesystem: FilesystemKind) -> bool {
    matches!(filesystem, FilesystemKind::Ext2 | FilesystemKind::Ext3 | FilesystemKind::Ext4)
}

/// File systems that are written by a driver where there is one.
fn is_read(filesystem: FilesystemKind) -> bool {
    matches!(filesystem, FilesystemKind::Ntfs | FilesystemKind::ExFat)
}

/// A mounted filesystem and the device below it.
pub struct Started {
    pub driven: Driven,
    pub disk: Arc<Watched>,
}

/// Starts the driver.
pub fn start(
    args: &MountArgs,
    device: Arc<dyn BlockDevice>,
    filesystem: FilesystemKind,
    by: By,
    registry: &Registry,
    signals: &Signals,
) -> Result<Started, Failure> {
    // They decrypt for our readers; a driver shows what is there.
    fscrypt::refuse(&args.partition.fscrypt)?;
    let mut extra = args.by.driver_options.clone();
    if args.noexec {
        extra.push("noexec".into());
    }
    let options = Options {
        read_only: args.read_only || device.is_read_only(),
        allow_other: args.by.allow_other,
        extra,
    };
    let disk = Arc::new(Watched::new(device));
    let plan = Plan {
        device: disk.clone(),
        filesystem,
        by,
        directory: &args.directory,
        place: registry.working_directory()?,
        options: &options,
        interrupt: signals.came(),
    };
    let place = plan.place.clone();
    match driver::mount(plan) {
        Ok(driven) => Ok(Started { driven, disk }),
        Err(error) => {
            // Empty, and of no use to anybody. Where our file could not be taken away, it stays.
            let _ = std::fs::remove_dir(place);
            Err(Failure::from(error).at(&args.volume))
        }
    }
}

/// What makes a filesystem writable that our reader only reads.
pub fn writer(filesystem: &str) -> Option<String> {
    Some(format!("; --driver mounts them to write, too, by {}", program(filesystem)?))
}

/// What to do instead of writing by a reader of ours.
pub fn writes(filesystem: &str) -> Option<String> {
    let program = program(filesystem)?;
    Some(format!("`atrest mount VOLUME DIR --driver` mounts it to be written, by {program}"))
}

/// The program that writes a filesystem which is only read here, and how to get it where it is missing.
fn program(filesystem: &str) -> Option<String> {
    use FilesystemKind::{ExFat, Ext2, Ext3, Ext4, Ntfs};
    let kind = [Ext2, Ext3, Ext4, Ntfs, ExFat].into_iter().find(|kind| kind.name() == filesystem)?;
    let program = Program::usual(kind)?;
    Some(match program.find() {
        Some(_) => program.to_string(),
        None => format!("{program} ({APT} {program})"),
    })
}
