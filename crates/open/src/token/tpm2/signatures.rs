//! The file in which systemd-measure and systemd-stub have signatures over PCRs.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use atrest_tpm::{Pcrs, SigningKey, TpmError};
use base64ct::{Base64, Encoding};
use serde_json::Value;

use super::fields::hex32;

/// The environment variable that names another file.
const VARIABLE: &str = "ATREST_TPM_SIGNATURE";

const NAME: &str = "tpm2-pcr-signature.json";

/// Where systemd looks, and where systemd-stub puts it in an initramfs.
const DIRECTORIES: &[&str] =
    &["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/.extra"];

/// The largest file that is read.
const MAX: u64 = 1 << 20;

/// Signatures over policies.
#[derive(Debug)]
pub struct Signatures(Value);

impl Signatures {
    /// Those of this machine; none if there is no file. A file that is named must be there, and no other is taken for it.
    pub fn find() -> Result<Self, TpmError> {
        let usual = DIRECTORIES.iter().map(|directory| PathBuf::from(directory).join(NAME));
        Self::first(std::env::var_os(VARIABLE).map(PathBuf::from), usual)
    }

    fn first(named: Option<PathBuf>, usual: impl Iterator<Item = PathBuf>) -> Result<Self, TpmError> {
        if let Some(path) = named {
            return Self::read(File::open(path).map_err(|_| TpmError::BadSignatures)?);
        }
        for path in usual {
            match File::open(path) {
                Ok(file) => return Self::read(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return Err(TpmError::BadSignatures),
            }
        }
        Ok(Self(Value::Null))
    }

    fn read(file: File) -> Result<Self, TpmError> {
        let mut text = String::new();
        file.take(MAX).read_to_string(&mut text).map_err(|_| TpmError::BadSignatures)?;
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Result<Self, TpmError> {
        serde_json::from_str(text).map(Self).map_err(|_| TpmError::BadSignatures)
    }

    /// The signature of a key over the digest that PCRs have.
    pub fn over(&self, pcrs: Pcrs, key: &SigningKey, approved: &[u8; 32]) -> Option<Vec<u8>> {
        let signed = self.0.get(pcrs.bank.name())?.as_array()?;
        let is = |entry: &Value, name: &str, value: &[u8; 32]| {
            entry.get(name).and_then(Value::as_str).and_then(hex32).is_some_and(|found| found == *value)
        };
        let fits = |entry: &&Value| {
            mask(entry) == Some(pcrs.mask)
                && is(entry, "pkfp", key.fingerprint())
                && is(entry, "pol", approved)
        };
        let entry = signed.iter().find(fits)?;
        Base64::decode_vec(entry.get("sig")?.as_str()?).ok()
    }
}

fn mask(entry: &Value) -> Option<u32> {
    entry.get("pcrs")?.as_array()?.iter().try_fold(0, |mask, pcr| {
        let pcr = pcr.as_u64().filter(|pcr| *pcr < 24)?;
        Some(mask | 1_u32 << pcr)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_is_taken_or_nothing() {
        let scratch = atrest_testkit::Scratch::new();
        let (usual, named) =
            (scratch.file("usual", r#"{"sha256":1}"#), scratch.file("named", r#"{"sha256":2}"#));
        let first = |named: Option<PathBuf>, usual: PathBuf| Signatures::first(named, [usual].into_iter());
        let is = |found: Result<Signatures, TpmError>, number: u64| {
            found.is_ok_and(|found| found.0["sha256"] == number)
        };
        assert!(is(first(None, usual.clone()), 1));
        assert!(is(first(Some(named), usual.clone()), 2));
        assert_eq!(first(Some(scratch.path("none")), usual).err(), Some(TpmError::BadSignatures));
        assert!(first(None, scratch.path("none")).is_ok_and(|found| found.0.is_null()));
        let in_a_file = scratch.path("usual").join("below");
        assert_eq!(first(None, in_a_file).err(), Some(TpmError::BadSignatures), "it can't be looked at");
    }
}
