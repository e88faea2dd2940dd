//! Who asks: an access key, and where it comes from.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use atrest_secret::SecretBytes;

use crate::CloudError;
use crate::s3::metadata::{self, Container};

/// So long before they expire new ones are asked for.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// An access key of S3.
pub struct Credentials {
    pub(crate) id: String,
    pub(crate) secret: SecretBytes,
    /// Of temporary ones: what is sent with each request.
    pub(crate) token: Option<SecretBytes>,
    pub(crate) expires: Option<SystemTime>,
}

impl Credentials {
    /// An access key: its identifier, its secret, and the session's token of a temporary one.
    pub fn new(id: &str, secret: &[u8], token: Option<&[u8]>) -> Self {
        let token = token.map(SecretBytes::copy_from);
        Self { id: id.into(), secret: SecretBytes::copy_from(secret), token, expires: None }
    }

    /// Whether they can stand in the head of a request, where a line ends a header.
    pub(crate) fn are_printable(&self) -> bool {
        let printable = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic);
        printable(self.id.as_bytes())
            && printable(&self.secret)
            && self.token.as_deref().is_none_or(printable)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Where credentials come from.
pub(crate) enum Source {
    /// The environment or a file.
    Fixed(Arc<Credentials>),
    /// A container's agent.
    Container(Container),
    /// The metadata of a virtual machine of EC2, at this address.
    Instance {
        /// Host and port.
        address: String,
    },
}

/// Credentials that are asked for anew before they expire.
pub(crate) struct Current {
    source: Source,
    last: Mutex<Option<Arc<Credentials>>>,
}

impl Current {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, last: Mutex::new(None) }
    }

    /// Those that are valid now.
    pub(crate) fn credentials(&self) -> Result<Arc<Credentials>, CloudError> {
        let fetched = match &self.source {
            Source::Fixed(credentials) => return Ok(credentials.clone()),
            Source::Container(_) | Source::Instance { .. } => &self.source,
        };
        // One thread asks, the others wait for its answer.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner); // intended: it is whole or absent.
        let lives = |credentials: &Credentials, early: Duration| {
            credentials.expires.is_none_or(|end| SystemTime::now() + early < end)
        };
        if let Some(known) = last.as_ref().filter(|known| lives(known, EARLY)) {
            return Ok(known.clone());
        }
        let new = match fetched {
            Source::Container(container) => metadata::of_container(container),
            Source::Instance { address } => metadata::of_instance(address),
            Source::Fixed(credentials) => return Ok(credentials.clone()),
        };
        match (new, last.as_ref()) {
            (Some(new), _) if new.are_printable() => Ok(last.insert(Arc::new(new)).clone()),
            // They hold for a few minutes yet.
            (_, Some(known)) if lives(known, Duration::ZERO) => Ok(known.clone()),
            _ => Err(CloudError::NoCredentials),
        }
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.source {
            Source::Fixed(_) => "Current(fixed)",
            Source::Container(_) => "Current(container)",
            Source::Instance { .. } => "Current(instance)",
        })
    }
}
