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

/// A keyring with all keys that were given, which may be none.
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
