//! The kernel's end of a mount (fuse(4), mount(2), and the protocol of `fusermount3`).
//!
//! Unmounting is not done here: a directory may show by then what somebody else has mounted there since
//! ([`MountId`](super::MountId)).

use super::Options;
use super::unmount::fusermount;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// What mount tables show as the source, and with "fuse." in front as the type.
const NAME: &str = "atrest";
/// The environment variable that tells `fusermount3` the descriptor to answer on.
const ANSWER_ON: &str = "_FUSE_COMMFD";

/// Mounts a FUSE file system without anybody behind it yet, and returns the descriptor to serve it on. Only this user
/// sees into it, unless it is to be shared.
pub(crate) fn mount(directory: &Path, read_only: bool, options: &Options) -> io::Result<OwnedFd> {
    match mount_by_call(directory, read_only, options) {
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            mount_by_program(directory, read_only, options)
        }
        outcome => outcome,
    }
}

fn mount_by_call(directory: &Path, read_only: bool, options: &Options) -> io::Result<OwnedFd> {
    let mode = std::fs::metadata(directory)?.mode();
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let fd = device.as_raw_fd();
    let shared = if options.shared { ",allow_other" } else { "" };
    let data = format!("fd={fd},rootmode={mode:o},user_id={uid},group_id={gid},default_permissions{shared}");
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    flags.set(MountFlags::NOEXEC, !options.executable);
    flags.set(MountFlags::RDONLY, read_only);
    let data = CString::new(data)?;
    rustix::mount::mount(NAME, directory, format!("fuse.{NAME}"), flags, data.as_c_str())?;
    Ok(device.into())
}

/// The program opens the device, mounts, and hands the descriptor over on its standard input.
fn mount_by_program(directory: &Path, read_only: bool, options: &Options) -> io::Result<OwnedFd> {
    let program = fusermount().ok_or(Errno::PERM)?;
    let access = if read_only { "ro" } else { "rw" };
    let shared = if options.shared { ",allow_other" } else { "" };
    let executable = if options.executable { "exec" } else { "noexec" };
    let options = format!(
        "{access},nosuid,nodev,{executable},noatime,default_permissions{shared},fsname={NAME},subtype={NAME}"
    );
    let (ours, its) = UnixStream::pair()?;
    let mut command = Command::new(program);
    command.args(["-o", &options, "--"]).arg(directory).env(ANSWER_ON, "0");
    command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = command.output()?;
    // The command holds its end of the pair until now.
    drop(command);
    if !ended.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&ended.stderr).trim().to_owned()));
    }
    receive_descriptor(&ours)
}

/// Takes one descriptor from whoever mounted.
pub(crate) fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.last().ok_or_else(|| io::Error::other("fusermount3 handed over no descriptor"))
}

/// Hands one descriptor over, as `fusermount3` does.
pub(crate) fn send_descriptor(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
