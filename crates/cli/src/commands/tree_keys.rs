//! `atrest tree unlock`, `lock` and `keys`, and what answers them in the process that serves a mounted filesystem.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_attach::control::{Answer, AskError, Control, Request, ask};
use atrest_attach::fuse::KernelCache;
use atrest_attach::session::{Kind, Registry};
use atrest_filetree::KeyName;
use atrest_secret::SecretBytes;
use atrest_tree::fscrypt::Keyring;
use serde_json::json;

use super::protectors;
use super::serve;
use super::text::counted;
use crate::args::tree_keys::{TreeKeysArgs, TreeLockArgs, TreeUnlockArgs};
use crate::failure::{Code, Failure};
use crate::output::Output;

/// Lets the keyring of a mounted filesystem be changed for as long as this lives.
pub fn listen(
    registry: &Registry,
    name: &str,
    keyring: Arc<Keyring>,
    cache: KernelCache,
) -> Result<Control, Failure> {
    let socket = registry.control_socket(name)?;
    let answer = move |request: Request<'_>| {
        let answer = change(&keyring, &request);
        // Names and contents that the kernel keeps may be those of another time.
        if !matches!(request, Request::List) {
            cache.forget();
        }
        answer
    };
    Control::listen(&socket, answer).map_err(|error| Failure::from(error).at(&socket))
}

fn change(keyring: &Keyring, request: &Request<'_>) -> Answer {
    let names = |names: &[KeyName]| names.iter().map(|name| format!("{name}\n")).collect::<String>();
    match request {
        Request::List => Ok(names(&keyring.names())),
        Request::Add { name: "", key } => match keyring.add(SecretBytes::copy_from(key)) {
            Ok(added) => Ok(names(&added)),
            Err(error) => Err(error.to_string()),
        },
        Request::Add { name, key } => match name.parse() {
            Ok(KeyName::Descriptor(descriptor)) => keyring
                .add_descriptor(descriptor, SecretBytes::copy_from(key))
                .map(|()| format!("{name}\n"))
                .map_err(|error| error.to_string()),
            _ => Err(format!("{name} is no descriptor, which has 16 hexadecimal digits")),
        },
        Request::Remove { name } => match name.parse::<KeyName>() {
            Ok(key) if keyring.remove(&key) => Ok(String::new()),
            Ok(key) => Err(format!("there is no key {key}")),
            Err(error) => Err(format!("{name}: {error}")),
        },
        Request::Resize { .. } => Err("files are served, which have sizes of their own".into()),
        Request::Reencrypt { .. } | Request::StopReencryption | Request::Reencryption => {
            Err("files are served, and no volume that could be re-encrypted".into())
        }
        Request::Suspend | Request::Resume { .. } => {
            Err("files are served, whose keys `atrest tree lock` takes away".into())
        }
    }
}

pub fn unlock(args: &TreeUnlockArgs, output: &Output) -> Result<(), Failure> {
    if args.fscrypt.are_none() {
        return Err(Failure::parameters("no key is named")
            .hint("--fscrypt-key FILE gives one, --fscrypt-protector NAME unlocks those of a protector"));
    }
    let served = Served::find(&args.name, output)?;
    // All keys are there before the first is used.
    let mut keys = Vec::new();
    for given in &args.fscrypt.fscrypt_key {
        let name = given.descriptor.map(|descriptor| KeyName::Descriptor(descriptor).to_string());
        keys.push((name, given.read(output)?));
    }
    let protectors = &args.fscrypt.protectors.fscrypt_protector;
    let unlocked = protectors::unlock_mounted(&served.directory, protectors, output)?;
    keys.extend(unlocked.into_iter().map(|unlocked| (None, unlocked.key)));
    let mut names = Vec::new();
    for (name, key) in &keys {
        // intended: without a name it is the key of a policy of the second version, which names itself.
        let added = served.ask(&Request::Add { name: name.as_deref().unwrap_or_default(), key })?;
        names.extend(added.lines().map(str::to_owned));
    }
    output.done(
        &json!({ "name": served.name, "keys": names }),
        &format!("{} has {} now: {}", served.name, counted_keys(keys.len()), names.join(", ")),
    )
}

pub fn lock(args: &TreeLockArgs, output: &Output) -> Result<(), Failure> {
    let served = Served::find(&args.name, output)?;
    let mut gone = 0;
    if args.keys.is_empty() {
        // A key can have two names, and goes with the first.
        loop {
            let left = served.ask(&Request::List)?;
            let Some(name) = left.lines().next() else { break };
            served.ask(&Request::Remove { name })?;
            gone += 1;
        }
    }
    for key in &args.keys {
        served.ask(&Request::Remove { name: &key.to_string() })?;
        gone += 1;
    }
    output.done(
        &json!({ "name": served.name, "removed": gone }),
        &format!("{} has forgotten {}", served.name, counted_keys(gone)),
    )
}

pub fn keys(args: &TreeKeysArgs, output: &Output) -> Result<(), Failure> {
    let served = Served::find(&args.name, output)?;
    let text = served.ask(&Request::List)?;
    let names: Vec<&str> = text.lines().collect();
    let shown = if names.is_empty() { "no keys\n" } else { &*text };
    output.report(&json!({ "name": served.name, "keys": names }), shown)
}

fn counted_keys(count: usize) -> String {
    counted(count as u64, "key", "keys")
}

/// A mounted filesystem that takes keys.
struct Served {
    name: String,
    socket: PathBuf,
    /// Where it is mounted.
    directory: PathBuf,
}

impl Served {
    fn find(name_or_path: &Path, output: &Output) -> Result<Self, Failure> {
        let registry = serve::registry(output)?;
        let entry = registry.find(name_or_path)?.filter(|entry| !entry.has_ended()).ok_or_else(|| {
            Failure::new(Code::Device, format!("no open volume is called {}", name_or_path.display()))
                .hint("`atrest status` lists what is open; `atrest mount` mounts a filesystem")
        })?;
        let socket = registry.control_socket(&entry.name)?;
        match entry.kind {
            Kind::Fuse { directory, tree: true, .. } if socket.exists() => {
                Ok(Self { name: entry.name, socket, directory })
            }
            _ => Err(Failure::parameters(format!("{} takes no keys", entry.name))
                .hint("only an ext4 that `atrest mount` shows has keys of fscrypt")),
        }
    }

    fn ask(&self, request: &Request<'_>) -> Result<String, Failure> {
        ask(&self.socket, request).map_err(|error| match error {
            AskError::Refused { reason } => Failure::new(Code::Refused, reason),
            error => Failure::new(Code::Device, error),
        })
    }
}
