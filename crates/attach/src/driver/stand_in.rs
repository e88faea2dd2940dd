//! fusermount's place, taken by us, for exfat-fuse.
//!
//! exfat-fuse asks `fusermount` for options that only root may have (`allow_other` and `blkdev`), and has no way not to. It needs
//! neither. So it runs in a user and mount namespace of its own, in which /bin/fusermount is this program. That asks the
//! process that serves the volume, which mounts the person's directory as it mounts its own file, without these options. The
//! driver gets the descriptor to serve it on by the protocol of `fusermount`, and sees no difference.
//!
//! This program thus runs in three roles: it serves the volume; as [`LAUNCHER`] it makes the namespaces, and becomes the driver;
//! as [`NAME`] it asks for the mount. The launcher is a program of its own because /proc shows nothing of a process that
//! forbids core dumps, and because no secret is in its memory.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fuse;

/// Set in the two other roles.
const ROLE: &str = "ATREST_MOUNTS_FOR_DRIVER";
const LAUNCHER: &str = "atrest-driver";
const NAME: &str = "fusermount";
/// Where libfuse has it, whatever PATH says.
const PLACES: [&str; 2] = ["/bin/fusermount", "/usr/bin/fusermount"];
/// On which the serving process is asked: a driver in the foreground leaves its standard input alone, and passes it on.
const ASK_ON: i32 = 0;
/// Says to `fusermount` on which descriptor it is to answer.
const ANSWER_ON: &str = "_FUSE_COMMFD";
/// What is asked.
const MOUNT: u8 = b'm';

/// The command that launches a driver, without the driver's arguments, and our end of what it asks on.
pub(super) fn launcher(driver: &Path) -> io::Result<(Command, UnixStream)> {
    let (ours, its) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(LAUNCHER).env(ROLE, "1").arg(driver).stdin(OwnedFd::from(its));
    Ok((command, ours))
}

/// Mounts the directory when the driver asks for it.
pub(super) fn serve(
    mut asked: UnixStream,
    directory: PathBuf,
    read_only: bool,
    shared: bool,
) -> io::Result<()> {
    let serve = move || {
        let mut question = [0];
        // A driver that ends without asking has its reasons, which it tells.
        if asked.read_exact(&mut question).is_ok() && question == [MOUNT] {
            // If it fails, our end is closed, and the driver is told that it can't mount.
            let _ = mount(&asked, &directory, read_only, shared);
        }
    };
    std::thread::Builder::new().name("driver-mounts".into()).spawn(serve).map(drop)
}

fn mount(asked: &UnixStream, directory: &Path, read_only: bool, shared: bool) -> io::Result<()> {
    let options = fuse::Options { shared, executable: true, ..fuse::Options::default() };
    let kernel = fuse::kernel::mount(directory, read_only, &options)?;
    fuse::kernel::send_descriptor(asked.as_fd(), kernel.as_fd())
}

/// Plays the other roles of this program, if that is what this process was started for; its exit status. To be called first of
/// all.
pub fn play_role() -> Option<u8> {
    std::env::var_os(ROLE)?;
    let mut arguments = std::env::args_os();
    let called = PathBuf::from(arguments.next()?);
    let (failed, what) = match called.file_name()?.to_str()? {
        LAUNCHER => (launch(arguments), "the driver could not be started without root"),
        // Whoever mounted it unmounts it.
        NAME if arguments.any(|argument| argument == "-u") => return Some(0),
        NAME => (ask(), "the directory could not be mounted"),
        _ => return None,
    };
    let Err(error) = failed else { return Some(0) };
    // The status says it, too.
    let _ = writeln!(io::stderr(), "{what}: {error}");
    Some(1)
}

/// Makes the namespaces and becomes the driver.
fn launch(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let driver = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    let there = PLACES.map(Path::new).into_iter().find(|path| path.exists());
    let there = there.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "fusermount is missing"))?;
    let own = std::env::current_exe()?;
    let map = |id: u32| format!("{id} {id} 1");
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    crate::sys::own_namespaces()?;
    // A group map is taken only from whoever gives up setting groups.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", map(uid))?;
    std::fs::write("/proc/self/gid_map", map(gid))?;
    rustix::mount::mount_bind(own, there)?;
    Err(Command::new(driver).args(arguments).exec())
}

/// Asks the serving process for the mount, and answers the driver.
fn ask() -> io::Result<()> {
    let answer_on: Option<i32> = std::env::var(ANSWER_ON).ok().and_then(|number| number.parse().ok());
    let answer = crate::sys::copy_of_descriptor(answer_on.ok_or(io::ErrorKind::InvalidInput)?)?;
    let mut asked = UnixStream::from(crate::sys::copy_of_descriptor(ASK_ON)?);
    asked.write_all(&[MOUNT])?;
    let kernel = fuse::kernel::receive_descriptor(&asked)?;
    fuse::kernel::send_descriptor(answer.as_fd(), kernel.as_fd())
}
