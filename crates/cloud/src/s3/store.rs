//! The store: what the engine asks, as requests of S3.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use atrest_sealedvolume::format::{Kind, MOST_OBJECT, names};
use atrest_sealedvolume::store::{Names, ObjectStore, Put, StoreError};

use crate::CloudError;
use crate::http::{Answer, Connector, HttpError, Limits, Request};
use crate::range;
use crate::s3::credentials::Current;
use crate::s3::list;
use crate::s3::settings::Settings;
use crate::s3::sign::{self, Unsigned};
use crate::s3::url::S3Location;

/// Bytes of an answer that is a list or an error, at most.
const MOST_TEXT: usize = 8 << 20;
/// Pages of others' names alone that are read for one list.
const MOST_PAGES: u32 = 1000;
/// The object that shows whether the server honours conditions. It stays.
const PROBE: &str = "t/conditions";

/// The objects of a volume below a prefix of a bucket.
pub struct S3Store {
    connector: Connector,
    /// As it stands in the header `host`.
    host: String,
    /// Path of the bucket, encoded: empty if the host's name has it.
    base: String,
    prefix: String,
    region: String,
    current: Current,
    /// Milliseconds that a request may take, if fewer than usual.
    limit: AtomicU64,
}

impl S3Store {
    /// The store at a place. Nothing is asked of it yet, but the credentials are had.
    ///
    /// # Errors
    /// [`CloudError`].
    pub fn open(at: &S3Location, settings: Settings) -> Result<Self, CloudError> {
        let (connector, host, base) = settings.server(at)?;
        let Settings { region, current, .. } = settings;
        current.credentials()?;
        let limit = AtomicU64::new(u64::MAX);
        Ok(Self { connector, host, base, prefix: at.prefix.clone(), region, current, limit })
    }

    fn key(&self, name: &str) -> Result<String, StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        Ok(self.path(name))
    }

    /// Path of an object, encoded.
    fn path(&self, name: &str) -> String {
        format!("{}/{}", self.base, sign::encoded(&format!("{}{name}", self.prefix), Some(b'/')))
    }

    fn ask(
        &self,
        method: &str,
        (path, query): (&str, &str),
        more: &[(&str, &str)],
        body: &[u8],
        most: usize,
    ) -> Result<Answer, StoreError> {
        // intended: a server that hands out credentials and does not answer is like a store that does not.
        let credentials = self.current.credentials().map_err(|_| StoreError::Silent)?;
        let now = SystemTime::now();
        let (digest, date) = (sign::digest(body), crate::time::basic(now));
        let token = credentials.token.as_deref().map(String::from_utf8_lossy);
        let mut signed =
            vec![("host", self.host.as_str()), ("x-amz-content-sha256", &digest), ("x-amz-date", &date)];
        signed.extend(token.as_deref().map(|token| ("x-amz-security-token", token)));
        signed.extend_from_slice(more);
        signed.sort_unstable_by_key(|(name, _)| *name);
        let request = Unsigned { method, path, query, headers: &signed, body: &digest };
        let authorization = sign::authorization(&request, &credentials, &self.region, now);
        let mut headers: Vec<_> = signed.into_iter().filter(|(name, _)| *name != "host").collect();
        headers.push(("authorization", &authorization));
        if body.is_empty() && method == "PUT" {
            headers.push(("content-length", "0"));
        }
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        // What is refused is told in XML, however little was asked for.
        let request = Request { method, target: &target, headers: &headers, body, most: most.max(64 << 10) };
        let limits = Limits::STORE.at_most(Duration::from_millis(self.limit.load(Ordering::Relaxed)));
        let answer = self.connector.ask(&self.host, &request, limits).map_err(HttpError::told)?;
        // An end that nobody has announced may be that of a connection that broke.
        if answer.is_whole || answer.status >= 300 { Ok(answer) } else { Err(StoreError::Malformed) }
    }

    fn put_object(&self, path: &str, bytes: &[u8], new: bool) -> Result<Put, StoreError> {
        let condition: &[(&str, &str)] = if new { &[("if-none-match", "*")] } else { &[] };
        let answer = self.ask("PUT", (path, ""), condition, bytes, 0)?;
        match answer.status {
            200 | 201 => Ok(Put::Stored),
            412 if new => Ok(Put::Exists),
            _ => Err(refused(&answer)),
        }
    }

    /// Names of the volume behind one, and whether there are more.
    fn page(&self, kind: Kind, after: Option<&str>) -> Result<list::Page, StoreError> {
        let prefix = format!("{}{}/", self.prefix, names::letter(kind));
        let mut last = after.map(|after| format!("{}{after}", self.prefix));
        for _ in 0..MOST_PAGES {
            // In the order of their names, as they are signed.
            let mut query = format!("list-type=2&prefix={}", sign::encoded(&prefix, None));
            if let Some(last) = &last {
                query.push_str(&format!("&start-after={}", sign::encoded(last, None)));
            }
            let path = format!("{}/", self.base);
            let answer = self.ask("GET", (&path, &query), &[], &[], MOST_TEXT)?;
            if answer.status != 200 {
                return Err(refused(&answer));
            }
            let page = list::page(&answer.body).ok_or(StoreError::Malformed)?;
            let before = last.clone();
            let mut found = Vec::new();
            for (key, len) in page.names {
                // A server that sorts in another way, or repeats itself, would have names left out.
                if last.as_ref().is_some_and(|last| *last >= key) {
                    return Err(StoreError::Malformed);
                }
                let name = key.strip_prefix(&self.prefix).filter(|name| names::kind(name) == Some(kind));
                found.extend(name.map(|name| (name.to_owned(), len)));
                last = Some(key);
            }
            if !found.is_empty() || !page.more {
                return Ok(list::Page { names: found, more: page.more });
            }
            // Others' names alone: there are more behind them.
            if last == before {
                return Err(StoreError::Malformed);
            }
        }
        Err(StoreError::Malformed)
    }
}

impl ObjectStore for S3Store {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.put_object(&self.key(name)?, bytes, true)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put_object(&self.key(name)?, bytes, false).map(|_| ())
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let answer = self.ask("GET", (&self.key(name)?, ""), &[], &[], most)?;
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
        let mut answer = self.ask("GET", (&key, ""), &[("range", &range)], &[], MOST_OBJECT)?;
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
        let list::Page { names, more } = self.page(kind, after)?;
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
        let answer = self.ask("HEAD", (&self.key(name)?, ""), &[], &[], 0)?;
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
        let answer = self.ask("DELETE", (&self.key(name)?, ""), &[], &[], 0)?;
        match answer.status {
            200 | 202 | 204 => Ok(()),
            _ if is_absent(&answer) => Ok(()),
            _ => Err(refused(&answer)),
        }
    }
}

impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("S3Store");
        out.field("host", &self.host)
            .field("base", &self.base)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Whether an object is not there. That its bucket is not, or that nobody knows of what, is another thing.
fn is_absent(answer: &Answer) -> bool {
    answer.status == 404 && crate::xml::error_code(&answer.body).as_deref() == Some("NoSuchKey")
}

fn refused(answer: &Answer) -> StoreError {
    StoreError::Refused { status: answer.status }
}
