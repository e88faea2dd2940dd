//! The store: what the engine asks, as requests of the Blob service.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use atrest_sealedvolume::format::{Kind, MOST_OBJECT, names};
use atrest_sealedvolume::store::{Names, ObjectStore, Put, StoreError};

use crate::CloudError;
use crate::azure::credentials::Credentials;
use crate::azure::list;
use crate::azure::settings::Settings;
use crate::azure::sign::{self, Unsigned};
use crate::azure::url::AzureLocation;
use crate::http::{Answer, Connector, HttpError, Limits, Request};
use crate::range;
use crate::s3::encoded;
use crate::xml::error_code;

/// The version of the protocol: the first in which a list begins at a name.
const VERSION: &str = "2026-02-06";
/// Names that are asked for at once.
const AT_ONCE: &str = "1000";
/// Bytes of an answer that is a list or an error, at most.
const MOST_TEXT: usize = 8 << 20;
/// Pages of others' names alone that are read for one list.
const MOST_PAGES: u32 = 1000;
/// The object that shows whether the server honours conditions. It stays.
const PROBE: &str = "t/conditions";

/// The objects of a volume below a prefix of a container.
pub struct AzureStore {
    connector: Connector,
    /// As it stands in the header `host`.
    host: String,
    /// Path of the container.
    base: String,
    prefix: String,
    credentials: Credentials,
    /// Milliseconds that a request may take, if fewer than usual.
    limit: AtomicU64,
}

/// A request that is not authorised yet.
struct Question<'a> {
    method: &'a str,
    /// Path, encoded.
    path: &'a str,
    /// Not encoded, in the order of its names.
    query: &'a [(&'a str, &'a str)],
    /// Headers beside those of every request, in the order of their names.
    headers: &'a [(&'a str, &'a str)],
    body: &'a [u8],
    /// Bytes that the body of the answer may have.
    most: usize,
}

impl AzureStore {
    /// The store at a place. Nothing is asked of it yet, but a token of the machine's identity is had if there are no other credentials.
    ///
    /// # Errors
    /// [`CloudError`].
    pub fn open(at: &AzureLocation, settings: Settings) -> Result<Self, CloudError> {
        let (connector, host, base) = settings.server(&at.container)?;
        let credentials = settings.credentials;
        if let Credentials::Identity(identity) = &credentials {
            identity.token()?;
        }
        let limit = AtomicU64::new(u64::MAX);
        Ok(Self { connector, host, base, prefix: at.prefix.clone(), credentials, limit })
    }

    fn key(&self, name: &str) -> Result<String, StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        Ok(self.path(name))
    }

    /// Path of an object, encoded.
    fn path(&self, name: &str) -> String {
        format!("{}/{}", self.base, encoded(&format!("{}{name}", self.prefix), Some(b'/')))
    }

    fn ask(&self, question: &Question<'_>) -> Result<Answer, StoreError> {
        let Question { method, path, query, body, .. } = *question;
        let date = crate::time::of_http(SystemTime::now());
        let mut headers = question.headers.to_vec();
        headers.extend([("x-ms-date", date.as_str()), ("x-ms-version", VERSION)]);
        let mut target = String::from(path);
        for (place, (name, value)) in query.iter().enumerate() {
            let before = if place == 0 { '?' } else { '&' };
            target.push_str(&format!("{before}{name}={}", encoded(value, None)));
        }
        let authorization = match &self.credentials {
            Credentials::Key { account, key } => {
                let request = Unsigned { method, path, query, headers: &headers, len: body.len() };
                Some(sign::authorization(&request, account, key))
            }
            Credentials::Signature(signature) => {
                target.push(if query.is_empty() { '?' } else { '&' });
                target.push_str(&String::from_utf8_lossy(signature));
                None
            }
            Credentials::Identity(identity) => {
                // intended: a service that hands out tokens and does not answer is like a store that does not.
                let token = identity.token().map_err(|_| StoreError::Silent)?;
                Some(format!("Bearer {}", String::from_utf8_lossy(&token)))
            }
        };
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        if body.is_empty() && method == "PUT" {
            headers.push(("content-length", "0"));
        }
        // What is refused is told in XML, however little was asked for.
        let most = question.most.max(64 << 10);
        let request = Request { method, target: &target, headers: &headers, body, most };
        let limits = Limits::STORE.at_most(Duration::from_millis(self.limit.load(Ordering::Relaxed)));
        let answer = self.connector.ask(&self.host, &request, limits).map_err(HttpError::told)?;
        // An end that nobody has announced may be that of a connection that broke.
        if answer.is_whole || answer.status >= 300 { Ok(answer) } else { Err(StoreError::Malformed) }
    }

    /// Asks for something of an object.
    fn ask_of(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        most: usize,
    ) -> Result<Answer, StoreError> {
        self.ask(&Question { method, path, query: &[], headers, body: &[], most })
    }

    fn put_object(&self, path: &str, body: &[u8], new: bool) -> Result<Put, StoreError> {
        let headers = [("if-none-match", "*"), ("x-ms-blob-type", "BlockBlob")];
        let headers = if new { &headers[..] } else { &headers[1..] };
        let answer = self.ask(&Question { method: "PUT", path, query: &[], headers, body, most: 0 })?;
        match (answer.status, error_code(&answer.body).as_deref()) {
            (201, _) => Ok(Put::Stored),
            // The two statuses have other reasons, too: a lease, or a container that is being deleted.
            (409, Some("BlobAlreadyExists")) | (412, Some("ConditionNotMet")) if new => Ok(Put::Exists),
            _ => Err(refused(&answer)),
        }
    }

    /// Names of the volume behind one, and whether there are more.
    ///
    /// A list is begun at a name, and its further pages are asked for by the server's marker. A server that begins elsewhere is read on
    /// until it comes to the name.
    fn page(&self, kind: Kind, after: Option<&str>) -> Result<Page, StoreError> {
        let prefix = format!("{}{}/", self.prefix, names::letter(kind));
        let begin = after.map(|after| format!("{}{after}", self.prefix));
        let (mut marker, mut last) = (None, None);
        for _ in 0..MOST_PAGES {
            let mut query = vec![("comp", "list")];
            query.extend(marker.as_deref().map(|marker| ("marker", marker)));
            query.extend([("maxresults", AT_ONCE), ("prefix", &prefix), ("restype", "container")]);
            query.extend(begin.as_deref().map(|begin| ("startFrom", begin)));
            let question = Question {
                method: "GET",
                path: &self.base,
                query: &query,
                headers: &[],
                body: &[],
                most: MOST_TEXT,
            };
            let answer = self.ask(&question)?;
            if answer.status != 200 {
                return Err(refused(&answer));
            }
            let page = list::page(&answer.body).ok_or(StoreError::Malformed)?;
            let mut found = Vec::new();
            for (key, len) in page.names {
                let name = key.strip_prefix(&self.prefix).filter(|name| names::kind(name) == Some(kind));
                let Some(name) = name.map(str::to_owned) else { continue };
                // A server that sorts in another way, or repeats itself, would have names left out.
                if last.as_ref().is_some_and(|last| *last >= name) {
                    return Err(StoreError::Malformed);
                }
                if after.is_none_or(|after| after < name.as_str()) {
                    found.push((name.clone(), len));
                }
                last = Some(name);
            }
            if !found.is_empty() || page.marker.is_none() {
                return Ok(Page { names: found, more: page.marker.is_some() });
            }
            // Others' names alone, or none: there are more behind them.
            if page.marker == marker {
                return Err(StoreError::Malformed);
            }
            marker = page.marker;
        }
        Err(StoreError::Malformed)
    }
}

/// Names of the volume with their bytes.
struct Page {
    names: Vec<(String, u64)>,
    more: bool,
}

impl ObjectStore for AzureStore {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.put_object(&self.key(name)?, bytes, true)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put_object(&self.key(name)?, bytes, false).map(|_| ())
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let answer = self.ask_of("GET", &self.key(name)?, &[], most)?;
        match answer.status {
            200 if answer.body.len() > most => Err(StoreError::TooLong),
            200 => Ok(Some(answer.body)),
            _ if is_absent(&answer) => Ok(None),
            _ => Err(refused(&answer)),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let key = self.key(name)?;
        let Some(range) = range::header(offset, len)? else {
            return Ok(self.len_of(name)?.map(|_| Vec::new()));
        };
        let mut answer = self.ask_of("GET", &key, &[("range", &range)], MOST_OBJECT)?;
        match range::bytes(&mut answer, offset, len) {
            Some(bytes) => bytes.map(Some),
            None if is_absent(&answer) => Ok(None),
            None => Err(refused(&answer)),
        }
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        Ok(self.list_some(kind, after)?.names)
    }

    fn list_some(&self, kind: Kind, after: Option<&str>) -> Result<Names, StoreError> {
        let Page { names, more } = self.page(kind, after)?;
        Ok(Names { names: names.into_iter().map(|(name, _)| name).collect(), more })
    }

    fn list_lens_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<(String, u64)>, StoreError> {
        Ok(self.page(kind, after)?.names)
    }

    fn wait_at_most(&self, limit: Duration) {
        // intended: what does not fit is no limit.
        self.limit.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn len_of(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let answer = self.ask_of("HEAD", &self.key(name)?, &[], 0)?;
        match answer.status {
            200 => answer.len.map(Some).ok_or(StoreError::Malformed),
            404 => Ok(None),
            _ => Err(refused(&answer)),
        }
    }

    /// An object of a known name is stored twice: the second time it must be there.
    fn probe(&self) -> Result<(), StoreError> {
        let path = self.path(PROBE);
        for _ in 0..2 {
            match self.put_object(&path, b"whether If-None-Match is honoured here\n", true)? {
                Put::Exists => return Ok(()),
                Put::Stored => {}
            }
        }
        Err(StoreError::Unconditional)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let answer = self.ask_of("DELETE", &self.key(name)?, &[], 0)?;
        match answer.status {
            202 => Ok(()),
            _ if is_absent(&answer) => Ok(()),
            _ => Err(refused(&answer)),
        }
    }
}

impl fmt::Debug for AzureStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("AzureStore");
        out.field("host", &self.host)
            .field("base", &self.base)
            .field("prefix", &self.prefix)
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

/// Whether an object is not there. That its container is not, or that nobody knows of what, is another thing.
fn is_absent(answer: &Answer) -> bool {
    answer.status == 404 && error_code(&answer.body).as_deref() == Some("BlobNotFound")
}

fn refused(answer: &Answer) -> StoreError {
    StoreError::Refused { status: answer.status }
}
