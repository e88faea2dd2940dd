//! Keys of fscrypt, for the commands that read files.

use std::sync::Arc;

use atrest_secret::SecretBytes;
use atrest_tree::fscrypt::Keyring;

use crate::args::fscrypt::{FscryptArgs, FscryptKey};
use crate::failure::Failure;
use crate::output::Output;
use crate::secrets::read_fscrypt_key;

impl FscryptKey {
    /// The key itself.
    pub fn read(&self, output: &Output) -> Result<SecretBytes, Failure> {
        read_fscrypt_key(&self.path, output)
    }
}

/// A keyring with all keys that were given, which may be none. Those of protectors are not in it: they lie in the filesystem.
pub fn keyring(args: &FscryptArgs, output: &Output) -> Result<Arc<Keyring>, Failure> {
    let keyring = Keyring::new();
    for given in &args.fscrypt_key {
        let key = given.read(output)?;
        let added = match given.descriptor {
            Some(descriptor) => keyring.add_descriptor(descriptor, key),
            None => keyring.add(key).map(|_| ()),
        };
        added.map_err(|error| Failure::parameters(error).at(&given.path))?;
    }
    Ok(Arc::new(keyring))
}

/// Keys were given for a filesystem that encrypts nothing by itself.
pub fn of_another_filesystem(name: &str) -> Failure {
    Failure::parameters(format!("--fscrypt-key and --fscrypt-protector are for ext4, and a {name} is inside"))
        .hint("leave them out: nothing in it is encrypted once more")
}

/// Refuses keys where nothing can be encrypted under them.
pub fn refuse(args: &FscryptArgs) -> Result<(), Failure> {
    match args.are_none() {
        true => Ok(()),
        false => Err(Failure::parameters("keys of fscrypt open an ext4, and this is a directory")
            .hint("name the image or the block device")),
    }
}
