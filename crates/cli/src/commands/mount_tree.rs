//! Lower directories for `atrest mount`.

use std::path::Path;
use std::sync::Arc;

use atrest_filetree::posix::PosixTree;
use atrest_tree::ecryptfs::{EcryptfsError, FileCipher, FileOptions, Keys, MetadataPlace};
use atrest_tree::lower::{EcryptfsLayer, FoundNames, Identity, LowerError, LowerPosix, look_at};

use super::ecryptfs::{self, Purpose};
use super::fscrypt;
use crate::args::inside::MountArgs;
use crate::args::mount_tree::MountTreeArgs;
use crate::args::open::VolumeType;
use crate::failure::{Code, Failure};
use crate::output::Output;

/// The lower directory that is asked for, opened; none if it is a volume.
pub fn open(args: &MountArgs, output: &Output) -> Result<Option<Arc<dyn PosixTree>>, Failure> {
    let lower = &args.volume;
    let as_it_is = match args.unlock.kind {
        VolumeType::Directory => true,
        VolumeType::Ecryptfs => false,
        _ if lower.is_dir() => false,
        _ => return Ok(None),
    };
    fscrypt::refuse(&args.partition.fscrypt)?;
    if overlaps(lower, &args.directory)? {
        return Err(Failure::parameters("one of the two directories lies in the other").at(&args.directory));
    }
    let write = !args.read_only;
    if as_it_is {
        return Ok(Some(Arc::new(LowerPosix::open(lower, Identity, write).map_err(failed(lower))?)));
    }
    let given = &args.unlock.secret.passphrase;
    let purpose = if write { Purpose::Write } else { Purpose::Read };
    let keys = match ecryptfs::look(lower, &args.partition.ecryptfs, purpose)? {
        true => ecryptfs::new_keys(&args.partition.ecryptfs, given, lower, output)?,
        false => ecryptfs::keys(&args.partition.ecryptfs, given, lower, output)?,
    };
    let mapper = mapper(args, keys).map_err(|failure| failure.at(lower))?;
    Ok(Some(Arc::new(LowerPosix::open(lower, mapper, write).map_err(failed(lower))?)))
}

/// The first passphrase is the one that new files and names are encrypted with.
fn mapper(args: &MountArgs, keys: Keys) -> Result<EcryptfsLayer, Failure> {
    let new = &args.tree;
    let found = look_at(&args.volume, &keys)?;
    let mut signatures = keys.iter().map(|token| token.signature());
    let (Some(contents), Some(names)) = (signatures.next(), signatures.next()) else {
        return Err(EcryptfsError::NoKey { wanted: Vec::new() }.into());
    };
    drop(signatures);
    let encrypt_names =
        new.ecryptfs_encrypt_names || (!new.ecryptfs_plain_names && found != FoundNames::Plain);
    let options = FileOptions {
        cipher: cipher(new)?,
        key_len: new.ecryptfs_key_bytes,
        signatures: vec![contents],
        place: if new.ecryptfs_xattr { MetadataPlace::Xattr } else { MetadataPlace::File },
        encrypted_names: encrypt_names,
    };
    let passthrough = args.partition.ecryptfs.ecryptfs_passthrough;
    Ok(EcryptfsLayer::new(keys, options, encrypt_names.then_some(names), passthrough)?)
}

fn cipher(new: &MountTreeArgs) -> Result<FileCipher, Failure> {
    let (name, key_len) = (&new.ecryptfs_cipher, new.ecryptfs_key_bytes);
    FileCipher::named(name, key_len).filter(|cipher| cipher.takes_key_of(key_len)).ok_or_else(|| {
        Failure::parameters(format!(
            "no cipher of eCryptfs is called {name} and takes keys of {key_len} bytes"
        ))
        .hint("aes takes 16, 24 or 32 bytes, twofish 16 or 32, des3_ede 24")
    })
}

/// What is mounted over its own lower directory could not be served.
fn overlaps(lower: &Path, directory: &Path) -> Result<bool, Failure> {
    let absolute = |path: &Path| path.canonicalize().map_err(|error| Failure::io(&error).at(path));
    let (lower, directory) = (absolute(lower)?, absolute(directory)?);
    Ok(lower.starts_with(&directory) || directory.starts_with(&lower))
}

fn failed(lower: &Path) -> impl FnOnce(LowerError) -> Failure {
    move |error| match error {
        LowerError::InUse => Failure::new(Code::Busy, error).at(lower),
        error => Failure::new(Code::Device, error).at(lower),
    }
}
