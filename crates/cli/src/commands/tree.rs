//! `atrest tree`.

use std::io;
use std::sync::Arc;

use atrest_filetree::{CopyProgress, KeyName, TreePath};
use atrest_inside::{BuildError, BuildOptions, BuildSummary, Encrypt, NewPolicy, Source, build_image};
use atrest_secret::SecretBytes;
use atrest_tree::fscrypt::{Keyring, PolicyText};
use indicatif::ProgressBar;
use serde_json::json;

use super::text::counted;
use crate::args::tree::TreeBuildArgs;
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};
use crate::progress::bytes_bar;
use crate::secrets::read_fscrypt_key;

pub fn build(args: &TreeBuildArgs, output: &Output) -> Result<(), Failure> {
    // Before a tree of millions of files is looked at.
    if args.image.symlink_metadata().is_ok() && !output.says_yes() {
        return Err(Failure::new(Code::Busy, "it exists already").at(&args.image).hint("--yes replaces it"));
    }
    let encrypt = encryption(args, output)?;
    let options = BuildOptions {
        size: args.size,
        uuid: args.uuid.clone(),
        label: args.label.clone(),
        time: source_date()?,
        replace: output.says_yes(),
        encrypt,
    };
    let source = Source::scan(&args.source, args.into.as_ref().map(String::as_bytes))?;
    let bar = bytes_bar(source.bytes(), output);
    let built = build_image(&source, &args.image, &options, &mut Bar(&bar));
    bar.finish_and_clear();
    let done = built?;
    if done.attributes_left_out > 0 {
        output.warn(format!(
            "{} left out, for ext4 has no place for them or they can't be read",
            counted(done.attributes_left_out, "extended attribute was", "extended attributes were")
        ));
    }
    report(args, &done, output)
}

/// What is encrypted, and with which keys.
fn encryption(args: &TreeBuildArgs, output: &Output) -> Result<Encrypt, Failure> {
    let keyring = Arc::new(Keyring::new());
    if args.single_snapshot {
        keyring.acknowledge_single_snapshot();
    }
    let mut keys = Vec::new();
    for path in &args.fscrypt_key {
        let key = read_fscrypt_key(path, output)?;
        // A descriptor is whatever was agreed on: the key that it names is the only one, or none.
        let copy = SecretBytes::copy_from(&key);
        let names = keyring.add(key).map_err(|error| Failure::parameters(error).at(path))?;
        keys.push((names, copy));
    }
    let policy = |text: &PolicyText| -> Result<Arc<NewPolicy>, Failure> {
        if text.is_single_snapshot() && !args.single_snapshot {
            return Err(Failure::parameters(
                "ChaCha20 hides contents only from whoever sees a single snapshot of the image: two of them show how files changed",
            )
            .hint("Adiantum has no such limit; --single-snapshot says that nobody will see two"));
        }
        let wanted = text.key();
        let known = keys.iter().position(|(names, _)| wanted.is_some_and(|wanted| names.contains(&wanted)));
        let (names, key) = match (known, &*keys) {
            (Some(known), keys) => keys.get(known),
            (None, [only]) if !matches!(wanted, Some(KeyName::Identifier(_))) => Some(only),
            _ => None,
        }
        .ok_or_else(|| match wanted {
            Some(name) => Failure::parameters(format!("no --fscrypt-key is the key {name} of the policy")),
            None => {
                Failure::parameters("there are several keys, and the policy does not say which is its own")
                    .hint("add :key=IDENTIFIER to the policy")
            }
        })?;
        if let (None, Some(KeyName::Descriptor(descriptor))) = (known, wanted) {
            let copy = SecretBytes::copy_from(key);
            keyring.add_descriptor(descriptor, copy).map_err(Failure::parameters)?;
        }
        let policy = text.with_key(names).ok_or_else(|| Failure::parameters("the policy has no key"))?;
        Ok(Arc::new(NewPolicy {
            encryption: keyring.clone(),
            context: policy.to_template(),
            stable_inodes: text.needs_stable_inodes(),
        }))
    };
    let common = args.policy.as_ref().map(policy).transpose()?;
    if args.encrypt.is_empty() {
        return match common {
            Some(common) => Ok(Encrypt::TopLevel(common)),
            None if keys.is_empty() => Ok(Encrypt::Nothing),
            // Never a tree in the clear for who has thought of a key.
            None => Err(Failure::parameters("a key was given, but no --policy to encrypt by")
                .hint("as in: --policy v2")),
        };
    }
    let mut list = Vec::new();
    for text in &args.encrypt {
        let (path, own) = match text.split_once('=') {
            Some((path, own)) => (path, Some(own)),
            None => (text.as_str(), None),
        };
        let path = TreePath::parse(path).map_err(Failure::parameters)?;
        let policy = match (own, &common) {
            (Some(own), _) => policy(&own.parse().map_err(Failure::parameters)?)?,
            (None, Some(common)) => common.clone(),
            (None, None) => {
                return Err(Failure::parameters(format!("{path}: no policy says how it is to be encrypted"))
                    .hint(format!("as in: --encrypt {path}=v2, or --policy v2 for all")));
            }
        };
        list.push((path, policy));
    }
    Ok(Encrypt::Below(list))
}

fn report(args: &TreeBuildArgs, done: &BuildSummary, output: &Output) -> Result<(), Failure> {
    output.done(
        &json!({
            "path": path_text(&args.image), "size": done.size, "files": done.files, "directories": done.directories,
            "links": done.links, "special": done.special, "bytes": done.bytes, "encrypted": done.encrypted,
            "attributes_left_out": done.attributes_left_out,
        }),
        &format!(
            "{}: {} bytes with {}, {}, {} ({}); {} encrypted",
            args.image.display(),
            done.size,
            counted(done.files, "file", "files"),
            counted(done.directories, "directory", "directories"),
            counted(done.links, "link", "links"),
            counted(done.bytes, "byte", "bytes"),
            done.encrypted,
        ),
    )
}

/// The time that makes two builds alike, from the environment.
fn source_date() -> Result<Option<i64>, Failure> {
    match std::env::var_os("SOURCE_DATE_EPOCH") {
        None => Ok(None),
        Some(_) => super::initramfs::source_date().map(|seconds| Some(seconds.into())),
    }
}

struct Bar<'a>(&'a ProgressBar);

impl CopyProgress for Bar<'_> {
    fn advanced(&mut self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Device(error) => error.into(),
            BuildError::Host { path, errno } => match io::Error::from_raw_os_error(errno) {
                taken if taken.kind() == io::ErrorKind::AlreadyExists => {
                    Self::new(Code::Busy, "it exists already, and is no regular file that could be replaced").at(&path)
                }
                error => Self::io(&error).at(&path),
            },
            BuildError::Entry { path, error } => {
                let failure = Self::from(error);
                let what = failure.what().to_owned();
                failure.saying(format!("{}: {what}", path.display()))
            }
            BuildError::SourceChanged { .. } => {
                Self::new(Code::Busy, error).hint("build from a snapshot, or when nothing writes there")
            }
            BuildError::NoSpace { .. } => Self::new(Code::Device, error).hint("choose a larger --size, or none"),
            BuildError::LinkedAcrossPolicies { .. } => {
                Self::parameters(error).hint("copy the file in one of the two places, instead of linking it")
            }
            BuildError::NotADirectoryBelow { .. }
            | BuildError::PolicyInPolicy { .. }
            | BuildError::Encryption { .. }
            | BuildError::NoKey { .. } => Self::parameters(error),
            BuildError::InTheClear { .. } => Self::parameters(error)
                .hint("--into NAME puts everything into one encrypted directory; --encrypt DIR says what is encrypted"),
            BuildError::LostAndFound { .. } => Self::parameters(error).hint("--into NAME leaves room for it"),
            BuildError::NoMke2fs => Self::new(Code::Device, error)
                .hint("install it as root: apt-get install e2fsprogs (or your system's package of that name)"),
            _ => Self::new(Code::Device, error),
        }
    }
}
