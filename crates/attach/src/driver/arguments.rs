//! What a driver is called with: fuse2fs(1), ntfs-3g(8), mount.exfat-fuse(8), and `lklfuse --help`.

use std::ffi::OsString;
use std::path::Path;

use atrest_probe::FilesystemKind;

use super::{Options, Program};

/// The arguments that mount `file` at `directory`, with the driver in the foreground: it is our child, and its end is seen.
pub(super) fn arguments(
    program: Program,
    filesystem: FilesystemKind,
    file: &Path,
    directory: &Path,
    options: &Options,
) -> Vec<OsString> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let access = if options.read_only { "ro" } else { "rw" };
    let shared = options.allow_other;
    // Where the file system knows no owners, everything is the caller's, and nobody else's.
    let owned = format!("uid={uid},gid={gid},umask={}", if shared { "022" } else { "077" });
    let (foreground, mut list) = match program {
        // Otherwise fuse2fs holds this user to the permissions in the file system, which are those of another machine.
        Program::Fuse2fs if shared => {
            ("-f", format!("{access},nosuid,nodev,allow_other,default_permissions"))
        }
        Program::Fuse2fs => ("-f", format!("{access},nosuid,nodev,fakeroot")),
        // Its defaults would let everybody in.
        Program::Ntfs3g => ("", format!("{access},no_detach,no_def_opts,silent,{owned}")),
        Program::ExfatFuse => ("-d", format!("{access},{owned}")),
        Program::Lklfuse => ("-f", format!("type={},{access},nosuid,nodev", filesystem.blkid_name())),
    };
    if shared && matches!(program, Program::Ntfs3g | Program::Lklfuse) {
        list.push_str(",allow_other");
    }
    for option in &options.extra {
        list.push(',');
        list.push_str(option);
    }
    let mut arguments = Vec::new();
    arguments.extend((!foreground.is_empty()).then(|| foreground.into()));
    arguments.extend(["-o".into(), list.into(), file.into(), directory.into()]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(program: Program, filesystem: FilesystemKind, options: &Options) -> String {
        let arguments = arguments(program, filesystem, Path::new("/p/volume"), Path::new("/m"), options);
        arguments.join(" ".as_ref()).into_string().expect("text")
    }

    #[test]
    fn each_driver_stays_in_the_foreground_and_gets_options_that_it_knows() {
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let plain = Options::default();
        let other = Options { read_only: true, allow_other: true, extra: vec!["noatime".into()] };
        use FilesystemKind as Fs;
        let cases = [
            (Program::Fuse2fs, Fs::Ext4, &plain, String::from("-f -o rw,nosuid,nodev,fakeroot /p/volume /m")),
            (
                Program::Fuse2fs,
                Fs::Ext2,
                &other,
                String::from("-f -o ro,nosuid,nodev,allow_other,default_permissions,noatime /p/volume /m"),
            ),
            (
                Program::Ntfs3g,
                Fs::Ntfs,
                &plain,
                format!("-o rw,no_detach,no_def_opts,silent,uid={uid},gid={gid},umask=077 /p/volume /m"),
            ),
            (
                Program::ExfatFuse,
                Fs::ExFat,
                &other,
                format!("-d -o ro,uid={uid},gid={gid},umask=022,noatime /p/volume /m"),
            ),
            (
                Program::Lklfuse,
                Fs::Btrfs,
                &plain,
                String::from("-f -o type=btrfs,rw,nosuid,nodev /p/volume /m"),
            ),
            (
                Program::Lklfuse,
                Fs::Xfs,
                &other,
                String::from("-f -o type=xfs,ro,nosuid,nodev,allow_other,noatime /p/volume /m"),
            ),
        ];
        for (program, filesystem, options, expected) in cases {
            assert_eq!(line(program, filesystem, options), expected);
        }
    }
}
