//! `atrest mount`.

use std::process::Command;
use std::sync::Arc;

use atrest_attach::fuse;
use atrest_attach::serve::{self, Daemonized, End, Face, Plan, ServeError, Signals, daemonize};
use atrest_attach::session::{Entry, Kind};
use atrest_filetree::FileTree;
use atrest_probe::FilesystemKind;
use atrest_tree::fscrypt::Keyring;
use serde_json::json;

use super::{fscrypt, inside, mount_tree, preflight, tree_keys};
use crate::args::inside::MountArgs;
use crate::failure::Failure;
use crate::output::{Output, path_text};

pub fn mount(args: &MountArgs, output: &Output) -> Result<u8, Failure> {
    // Before any thread and any secret.
    let background = match args.daemon {
        false => None,
        true => match daemonize()? {
            Daemonized::Parent { status } => return Ok(status),
            Daemonized::Child(background) => Some(background),
        },
    };
    let registry = super::serve::registry(output)?;
    preflight::check_mount(args, &registry)?;
    let mut keyring = None;
    let (signals, mount, writable) = match mount_tree::open(args, output)? {
        Some(tree) => {
            let (signals, writable) = (Signals::install()?, tree.is_writable());
            let options =
                fuse::Options { shared: args.tree.allow_other, executable: true, ..fuse::Options::default() };
            (signals, fuse::mount_posix(tree, &args.directory, &options)?, writable)
        }
        None => {
            let keys = fscrypt::keyring(&args.partition.fscrypt, output)?;
            let write = args.unlock.writes_unless(args.read_only);
            let tree = open(args, write, keys.clone(), output)?;
            keyring = Some(keys).filter(|_| tree.about().name == FilesystemKind::Ext4.name());
            let writable = tree.about().writable;
            if !writable && !args.read_only {
                output.warn("the files can only be read");
            }
            let signals = Signals::install()?;
            (signals, fuse::mount_tree(tree, &args.directory, &fuse::Options::default())?, writable)
        }
    };
    let name = match &args.name {
        Some(name) => name.clone(),
        None => registry.free_name(&args.volume)?,
    };
    let entry = Entry::new(&name, &args.volume, Kind::of_mount(&mount), !writable)?;
    let registration = match registry.register(entry) {
        Ok(registration) => registration,
        Err(error) => {
            // The command fails for another reason, which it tells.
            let _ = mount.unmounter().unmount();
            return Err(error.into());
        }
    };
    // Until the end: keys come and go while the files are served.
    let _control = match keyring.zip(mount.kernel_cache()) {
        Some((keyring, cache)) => Some(tree_keys::listen(&registry, &name, keyring, cache)?),
        None => None,
    };
    let ready = json!({ "event": "ready", "name": name, "path": path_text(&mount.place()) });
    let ready = output.is_json().then(|| ready.to_string());
    let command = args.run.split_first().map(|(program, arguments)| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    });
    let end = serve::run(Face::Fuse(mount), Plan { signals, command, background, ready });
    match &end {
        Ok(_) | Err(ServeError::Command { .. }) => drop(registration),
        // `close` waits for this process and finds it there.
        Err(error) => registration.fail(&error.to_string()),
    }
    match end? {
        End::Command { status, .. } => Ok(status),
        _ => Ok(0),
    }
}

/// The tree, to be written if it can be.
fn open(
    args: &MountArgs,
    write: bool,
    keyring: Arc<Keyring>,
    output: &Output,
) -> Result<Arc<dyn FileTree>, Failure> {
    let tree = inside::open_with(&args.volume, &args.unlock, &args.partition, write, keyring, output)?;
    Ok(Arc::from(tree))
}
