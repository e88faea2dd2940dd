//! Tokens: what is sent with each request, where it comes from, and when another one is asked for (RFC 6749, section 5; RFC 7523).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use atrest_sealedvolume::store::StoreError;
use atrest_secret::{SecretBytes, wipe};
use serde::Deserialize;

use crate::google::jwt::{self, Account};
use crate::http::{Answer, Connector, Limits, Request};
use crate::s3::encoded;

/// What a token is asked for: objects are read, written and taken away.
pub(crate) const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";
/// So long before it expires another one is asked for: Google's tools do it then, and a machine's metadata has no newer one before.
const EARLY: Duration = Duration::from_secs(225);
/// So long nobody asks again after one that did not come, while the known one holds.
const PAUSE: Duration = Duration::from_secs(10);
/// So long all are told of one that did not come where none holds: those who have waited for it do not ask one after the other.
const TOLD: Duration = Duration::from_secs(1);
/// For a server of tokens, at most.
const LIMIT: Duration = Duration::from_secs(20);
/// Longest answer.
const MOST: usize = 64 << 10;
/// Where a machine's metadata has the token of its service account.
const METADATA: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// A token and when it expires.
pub(crate) struct Token {
    pub(crate) secret: SecretBytes,
    expires: SystemTime,
}

/// Whom tokens are asked of, and where.
pub(crate) struct Server {
    pub(crate) connector: Connector,
    /// Path and query.
    pub(crate) path: String,
    /// As it stands in the header `host`.
    pub(crate) host: String,
}

/// Where tokens come from.
pub(crate) enum Source {
    /// A user has let a program ask for them.
    User {
        /// Whom it asks.
        server: Server,
        /// What it says, encoded.
        form: SecretBytes,
    },
    /// A service account asks by what it signs.
    Account {
        /// Whom it asks.
        server: Server,
        /// Who signs.
        account: Account,
    },
    /// The metadata of a virtual machine.
    Machine(Connector),
}

/// Why there is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoToken {
    /// The server has refused it, with this status.
    Refused(u16),
    /// Nobody answers as a server of tokens does.
    Silent,
}

impl NoToken {
    /// What the engine is told.
    pub(crate) fn told(self) -> StoreError {
        match self {
            Self::Refused(_) => StoreError::Refused { status: 401 },
            Self::Silent => StoreError::Silent,
        }
    }
}

/// A token that is asked for anew before it expires.
pub(crate) struct Current {
    source: Source,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    token: Option<Arc<Token>>,
    /// When another one did not come, and why.
    failed: Option<(Instant, NoToken)>,
}

impl Current {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, last: Mutex::default() }
    }

    /// Whether it is the metadata of a virtual machine, so that no answer means that this is none.
    pub(crate) fn is_machine(&self) -> bool {
        matches!(self.source, Source::Machine(_))
    }

    /// The one that is valid now, within a time.
    pub(crate) fn token(&self, limit: Duration) -> Result<Arc<Token>, NoToken> {
        // One thread asks, the others wait for its answer.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner); // intended: it is whole or absent.
        let now = SystemTime::now();
        let lives = |token: &Arc<Token>, early: Duration| now + early < token.expires;
        let known = last.token.clone().filter(|token| lives(token, Duration::ZERO));
        let failed = |pause: Duration| last.failed.filter(|(at, _)| at.elapsed() < pause);
        match (&known, failed(TOLD)) {
            (Some(known), _) if lives(known, EARLY) || failed(PAUSE).is_some() => return Ok(known.clone()),
            (None, Some((_, error))) => return Err(error),
            _ => {}
        }
        let fetched = self.source.fetch(limit.min(LIMIT));
        last.failed = fetched.as_ref().err().map(|error| (Instant::now(), *error));
        match (fetched, known) {
            (Ok(new), _) => Ok(last.token.insert(Arc::new(new)).clone()),
            // It holds for some minutes yet.
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(error),
        }
    }

    /// A token was refused: the next one is another.
    pub(crate) fn forget(&self, refused: &Arc<Token>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner); // intended: it is whole or absent.
        last.token.take_if(|known| Arc::ptr_eq(known, refused));
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.source {
            Source::User { .. } => "Current(user)",
            Source::Account { .. } => "Current(service account)",
            Source::Machine(_) => "Current(machine)",
        })
    }
}

impl Source {
    fn fetch(&self, limit: Duration) -> Result<Token, NoToken> {
        let answer = match self {
            Self::User { server, form } => server.ask(form, limit),
            Self::Account { server, account } => {
                let assertion = jwt::assertion(account, SystemTime::now()).ok_or(NoToken::Refused(401))?;
                let kind = encoded("urn:ietf:params:oauth:grant-type:jwt-bearer", None);
                let mut form = format!("grant_type={kind}&assertion={assertion}").into_bytes();
                wipe(&mut assertion.into_bytes());
                let answer = server.ask(&form, limit);
                wipe(&mut form);
                answer
            }
            Self::Machine(connector) => {
                let target = format!("{METADATA}?scopes={}", encoded(SCOPE, None));
                let headers = [("metadata-flavor", "Google")];
                let request =
                    Request { method: "GET", target: &target, headers: &headers, body: &[], most: MOST };
                connector.ask_once(&request, Limits::METADATA.at_most(limit)).map_err(|_| NoToken::Silent)
            }
        };
        let Answer { status, is_whole, mut body, .. } = answer?;
        let granted = granted(&body);
        wipe(&mut body);
        match status {
            200 if is_whole => granted.and_then(|granted| granted.token()).ok_or(NoToken::Silent),
            // Time-out, too many: another try may succeed.
            408 | 429 => Err(NoToken::Silent),
            400..500 => Err(NoToken::Refused(status)),
            _ => Err(NoToken::Silent),
        }
    }
}

impl Server {
    fn ask(&self, form: &[u8], limit: Duration) -> Result<Answer, NoToken> {
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")];
        let request =
            Request { method: "POST", target: &self.path, headers: &headers, body: form, most: MOST };
        let limits = Limits::STORE.at_most(limit);
        self.connector.ask(&self.host, &request, limits).map_err(|_| NoToken::Silent)
    }
}

/// What a server of tokens has granted.
pub struct Granted {
    /// What stands in the head of each request: printable, and not empty.
    pub secret: SecretBytes,
    /// How long it holds.
    pub lifetime: Duration,
}

/// Without the secret.
impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl Granted {
    /// `None` if it expires after the end of all time.
    fn token(self) -> Option<Token> {
        Some(Token { secret: self.secret, expires: SystemTime::now().checked_add(self.lifetime)? })
    }
}

#[derive(Deserialize)]
struct Fields {
    access_token: String,
    expires_in: u64,
    token_type: Option<String>,
}

impl Drop for Fields {
    fn drop(&mut self) {
        wipe(&mut std::mem::take(&mut self.access_token).into_bytes());
    }
}

/// The answer of a server of tokens; `None` if it grants none that can be sent.
pub fn granted(json: &[u8]) -> Option<Granted> {
    let fields: Fields = serde_json::from_slice(json).ok()?;
    let secret = fields.access_token.as_bytes();
    let is_bearer = fields.token_type.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    // A line ends a header.
    let is_printable = !secret.is_empty() && secret.iter().all(u8::is_ascii_graphic);
    (is_bearer && is_printable).then(|| Granted {
        secret: SecretBytes::copy_from(secret),
        lifetime: Duration::from_secs(fields.expires_in),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6749, section 5.1, with the type that Google grants.
    #[test]
    fn what_is_granted_is_read() {
        let json = br#"{"access_token":"2YotnFZFEjr1zCsicMWpAA", "token_type":"Bearer", "expires_in":3600,
            "refresh_token":"tGzv3JOkF0XG5Qx2TlKWIA", "example_parameter":"example_value"}"#;
        let granted = granted(json).expect("a token");
        assert_eq!(&granted.secret[..], b"2YotnFZFEjr1zCsicMWpAA");
        assert_eq!(granted.lifetime, Duration::from_secs(3600));
        assert!(!format!("{granted:?}").contains("2Yotn"));
    }

    #[test]
    fn what_grants_nothing_is_told() {
        for bad in [
            "",
            "text",
            "{}",
            r#"{"error":"invalid_grant"}"#,
            r#"{"access_token":"a"}"#,
            r#"{"expires_in":1}"#,
            r#"{"access_token":"","expires_in":1}"#,
            r#"{"access_token":"a\r\nx: y","expires_in":1}"#,
            r#"{"access_token":"a b","expires_in":1}"#,
            r#"{"access_token":"a","expires_in":-1}"#,
            r#"{"access_token":"a","expires_in":1e99}"#,
            r#"{"access_token":"a","expires_in":1,"token_type":"mac"}"#,
        ] {
            assert!(granted(bad.as_bytes()).is_none(), "{bad}");
        }
        let forever = format!(r#"{{"access_token":"a","expires_in":{}}}"#, u64::MAX);
        assert!(granted(forever.as_bytes()).expect("a number").token().is_none());
    }
}
