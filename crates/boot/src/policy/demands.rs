//! What a volume must be, or it is not opened: what the kernel command line demands of all volumes, and of single ones by UUID.

use core::fmt;

use atrest_open::token::tpm2::{BadTpmStore, TpmStore};
use atrest_volume::luks2::VolumeKeyId;

use super::options::Options;

/// The text names no file that could say what a header may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPolicyPath {
    /// What was typed.
    pub text: String,
}

impl fmt::Display for BadPolicyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no absolute path: write header-policy=/PATH", self.text)
    }
}

impl core::error::Error for BadPolicyPath {}

/// What a volume must be. What is mistyped lets no volume in, rather than any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    expected_key: Option<VolumeKeyId>,
    fixed_key: Option<String>,
    header_policy: Option<Result<String, BadPolicyPath>>,
    header_store: Option<Result<TpmStore, BadTpmStore>>,
}

impl Demands {
    /// Takes one of them, by its name. Whether it makes sense.
    pub fn add(&mut self, name: &str, text: Option<&str>) -> bool {
        match name {
            "expect-key" => {
                let key = text.and_then(|text| text.parse().ok());
                self.expected_key = Some(key.unwrap_or(VolumeKeyId::OF_NONE));
                key.is_some()
            }
            "header-policy" => {
                let path = policy_path(text);
                let makes_sense = path.is_ok();
                self.header_policy = Some(path);
                makes_sense
            }
            _ => {
                let store = text.map_or(Err(BadTpmStore), str::parse);
                self.header_store = Some(store);
                store.is_ok()
            }
        }
    }

    /// Those among the options of a volume.
    pub fn of(options: &Options) -> Self {
        Self {
            expected_key: options.expected_key,
            fixed_key: options.fixed_key.clone(),
            header_policy: options.header_policy.clone(),
            header_store: options.header_store,
        }
    }

    /// Those of options that can't be read: nobody knows what they would demand.
    pub fn unreadable() -> Self {
        Self { expected_key: Some(VolumeKeyId::OF_NONE), ..Self::default() }
    }

    /// Whether nothing is demanded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Puts them in the place of what an entry demands.
    pub fn apply(&self, options: &mut Options) {
        options.expected_key = self.expected_key.or(options.expected_key);
        options.header_store = self.header_store.or(options.header_store);
        if self.fixed_key.is_some() {
            options.fixed_key.clone_from(&self.fixed_key);
        }
        if self.header_policy.is_some() {
            options.header_policy.clone_from(&self.header_policy);
        }
    }
}

/// The path of a header policy.
pub fn policy_path(text: Option<&str>) -> Result<String, BadPolicyPath> {
    match text {
        Some(path) if path.starts_with('/') => Ok(path.into()),
        // intended: no value is shown as an empty one.
        other => Err(BadPolicyPath { text: other.unwrap_or_default().into() }),
    }
}

/// What is demanded of the volume with a UUID, however its device is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demanded {
    /// The UUID or how it begins, in small letters.
    pub id: String,
    /// What is demanded.
    pub demands: Demands,
    /// Nothing that is to be opened is named by this UUID: only headers can tell which volume is meant.
    pub is_loose: bool,
}
