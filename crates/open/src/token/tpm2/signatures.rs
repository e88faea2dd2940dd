//! The file in which systemd-measure and systemd-stub have signatures over PCRs.

use std::fs::File;
use std::io::Read;
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
    /// Those of this machine; none if there is no file.
    pub fn find() -> Result<Self, TpmError> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let usual = DIRECTORIES.iter().map(|directory| PathBuf::from(directory).join(NAME));
        for path in named.into_iter().chain(usual) {
            let Ok(file) = File::open(path) else { continue };
            let mut text = String::new();
            file.take(MAX).read_to_string(&mut text).map_err(|_| TpmError::BadSignatures)?;
            return Self::parse(&text);
        }
        Ok(Self(Value::Null))
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
