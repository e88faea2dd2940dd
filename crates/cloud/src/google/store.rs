//! The store: what the engine asks, as requests of Google's JSON API.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atrest_sealedvolume::format::{Kind, MOST_OBJECT, names};
use atrest_sealedvolume::store::{Names, ObjectStore, Put, StoreError};
use atrest_secret::wipe;

use crate::CloudError;
use crate::google::list;
use crate::google::settings::Settings;
use crate::google::token::{Current, NoToken, Token};
use crate::google::url::GoogleLocation;
use crate::http::{Answer, Connector, HttpError, Limits, Request};
use crate::range;
use crate::s3::encoded;

/// Bytes of an answer that is a list, at most.
const MOST_TEXT: usize = 8 << 20;
/// Bytes of one that describes an object or is an error, at most.
const MOST_WORDS: usize = 64 << 10;
/// Names that are asked for at once: as many as Google sends.
const PAGE: &str = "1000";
/// Pages without a name of ours that are read for one list.
const MOST_PAGES: u32 = 1000;
/// The object that shows whether the server honours conditions. It stays.
const PROBE: &str = "t/conditions";

/// The objects of a volume below a prefix of a bucket.
pub struct GoogleStore {
    connector: Connector,
    /// As it stands in the header `host`.
    host: String,
    bucket: String,
    prefix: String,
    current: Option<Current>,
    /// Milliseconds that a request may take, if fewer than usual.
    limit: AtomicU64,
}

/// Some names of objects, and whether there are more behind them.
struct Found {
    names: Vec<(String, u64)>,
    more: bool,
}

impl GoogleStore {
    /// The store at a place. Nothing is asked of it yet, but there is a token, or whoever gives tokens does not answer now.
    ///
    /// # Errors
    /// [`CloudError`].
    pub fn open(at: &GoogleLocation, settings: Settings) -> Result<Self, CloudError> {
        let (connector, host) = settings.server()?;
        let current = settings.current;
        if let Some(current) = &current {
            match current.token(Duration::MAX) {
                Ok(_) => {}
                Err(_) if current.is_machine() => return Err(CloudError::NoGoogleCredentials),
                Err(NoToken::Refused(status)) => return Err(CloudError::GoogleRefused { status }),
                // The engine knows how long to wait for a store.
                Err(NoToken::Silent) => {}
            }
        }
        let limit = AtomicU64::new(u64::MAX);
        Ok(Self { connector, host, bucket: at.bucket.clone(), prefix: at.prefix.clone(), current, limit })
    }

    /// The name of an object in the bucket.
    fn key(&self, name: &str) -> Result<String, StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        Ok(format!("{}{name}", self.prefix))
    }

    /// Path of an object, or that of all of them, encoded.
    fn path(&self, key: Option<&str>) -> String {
        let all = format!("/storage/v1/b/{}/o", encoded(&self.bucket, None));
        match key {
            Some(key) => format!("{all}/{}", encoded(key, None)),
            None => all,
        }
    }

    /// The answer to a request. A token that is refused has another one asked for, once.
    fn ask(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let limit = Duration::from_millis(self.limit.load(Ordering::Relaxed));
        let Some(current) = &self.current else { return self.ask_as(None, request, limit) };
        let token = current.token(limit).map_err(NoToken::told)?;
        let answer = self.ask_as(Some(&token), request, limit)?;
        if answer.status != 401 {
            return Ok(answer);
        }
        current.forget(&token);
        let new = current.token(limit).map_err(NoToken::told)?;
        self.ask_as(Some(&new), request, limit)
    }

    fn ask_as(
        &self,
        token: Option<&Token>,
        request: &Request<'_>,
        limit: Duration,
    ) -> Result<Answer, StoreError> {
        let authorization =
            token.map(|token| format!("Bearer {}", String::from_utf8_lossy(&token.secret)).into_bytes());
        let mut headers = request.headers.to_vec();
        if let Some(value) = &authorization {
            headers.push(("authorization", core::str::from_utf8(value).map_err(|_| StoreError::Malformed)?));
        }
        let &Request { method, target, body, most, .. } = request;
        if body.is_empty() && method == "POST" {
            headers.push(("content-length", "0"));
        }
        // What is refused is told in words, however little was asked for.
        let request = Request { method, target, headers: &headers, body, most: most.max(MOST_WORDS) };
        let answer = self.connector.ask(&self.host, &request, Limits::STORE.at_most(limit));
        drop(headers);
        authorization.into_iter().for_each(|mut value| wipe(&mut value));
        let answer = answer.map_err(HttpError::told)?;
        // An end that nobody has announced may be that of a connection that broke.
        if answer.is_whole || answer.status >= 300 { Ok(answer) } else { Err(StoreError::Malformed) }
    }

    fn get_object(
        &self,
        key: &str,
        query: &str,
        headers: &[(&str, &str)],
        most: usize,
    ) -> Result<Answer, StoreError> {
        let target = format!("{}?{query}", self.path(Some(key)));
        self.ask(&Request { method: "GET", target: &target, headers, body: &[], most })
    }

    fn put_object(&self, key: &str, bytes: &[u8], new: bool) -> Result<Put, StoreError> {
        let condition = if new { "&ifGenerationMatch=0" } else { "" };
        let (path, name) = (self.path(None), encoded(key, None));
        let target = format!("/upload{path}?uploadType=media&name={name}&fields=size{condition}");
        let headers = [("content-type", "application/octet-stream")];
        let request =
            Request { method: "POST", target: &target, headers: &headers, body: bytes, most: MOST_WORDS };
        let answer = self.ask(&request)?;
        match answer.status {
            200 | 201 => Ok(Put::Stored),
            412 if new => Ok(Put::Exists),
            _ => Err(refused(&answer)),
        }
    }

    /// Names in the bucket that begin so.
    fn list(&self, query: &str) -> Result<list::Page, StoreError> {
        let fields = encoded(list::FIELDS, None);
        let target = format!("{}?fields={fields}&{query}", self.path(None));
        let request = Request { method: "GET", target: &target, headers: &[], body: &[], most: MOST_TEXT };
        let answer = self.ask(&request)?;
        match answer.status {
            200 => list::page(&answer.body).ok_or(StoreError::Malformed),
            _ => Err(refused(&answer)),
        }
    }

    /// Finds out whether an object is not there, where an answer says so: that of a bucket that is not there is the same. The bucket's list
    /// is asked, and must not have the object.
    fn see_absent(&self, key: &str) -> Result<(), StoreError> {
        let page = self.list(&format!("prefix={}&maxResults=1", encoded(key, None)))?;
        match page.names.iter().any(|(name, _)| name == key) {
            // It came meanwhile, or one of the two answers is wrong.
            true => Err(StoreError::Malformed),
            false => Ok(()),
        }
    }

    /// Names of the volume behind one, and whether there are more.
    fn page(&self, kind: Kind, after: Option<&str>) -> Result<Found, StoreError> {
        let begin = encoded(&format!("{}{}/", self.prefix, names::letter(kind)), None);
        let mut query = format!("prefix={begin}&maxResults={PAGE}");
        let mut last = after.map(|after| format!("{}{after}", self.prefix));
        // The list begins with this one, if it is there.
        let mut first = last.clone();
        if let Some(last) = &last {
            query.push_str(&format!("&startOffset={}", encoded(last, None)));
        }
        let mut token: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let page = match &token {
                Some(token) => self.list(&format!("{query}&pageToken={}", encoded(token, None)))?,
                None => self.list(&query)?,
            };
            let mut found = Vec::new();
            for (key, len) in page.names {
                if first.take().is_some_and(|first| first == key) {
                    continue;
                }
                // A server that sorts in another way, or repeats itself, would have names left out.
                if last.as_ref().is_some_and(|last| *last >= key) {
                    return Err(StoreError::Malformed);
                }
                let name = key.strip_prefix(&self.prefix).filter(|name| names::kind(name) == Some(kind));
                found.extend(name.map(|name| (name.to_owned(), len)));
                last = Some(key);
            }
            let more = page.next.is_some();
            if !found.is_empty() || !more {
                return Ok(Found { names: found, more });
            }
            // Others' names alone, or none: there are more behind them.
            if page.next == token {
                return Err(StoreError::Malformed);
            }
            token = page.next;
        }
        Err(StoreError::Malformed)
    }
}

impl ObjectStore for GoogleStore {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.put_object(&self.key(name)?, bytes, true)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put_object(&self.key(name)?, bytes, false).map(|_| ())
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let key = self.key(name)?;
        let answer = self.get_object(&key, "alt=media", &[], most)?;
        match answer.status {
            200 if answer.body.len() > most => Err(StoreError::TooLong),
            200 => Ok(Some(answer.body)),
            404 => self.see_absent(&key).map(|()| None),
            _ => Err(refused(&answer)),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let key = self.key(name)?;
        let Some(range) = range::header(offset, len)? else {
            return Ok(self.len_of(name)?.map(|_| Vec::new()));
        };
        let mut answer = self.get_object(&key, "alt=media", &[("range", &range)], MOST_OBJECT)?;
        match range::bytes(&mut answer, offset, len) {
            Some(bytes) => bytes.map(Some),
            None if answer.status == 404 => self.see_absent(&key).map(|()| None),
            None => Err(refused(&answer)),
        }
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        Ok(self.list_some(kind, after)?.names)
    }

    fn list_some(&self, kind: Kind, after: Option<&str>) -> Result<Names, StoreError> {
        let Found { names, more } = self.page(kind, after)?;
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
        let key = self.key(name)?;
        let answer = self.get_object(&key, "fields=size", &[], MOST_WORDS)?;
        match answer.status {
            200 => list::size(&answer.body).map(Some).ok_or(StoreError::Malformed),
            404 => self.see_absent(&key).map(|()| None),
            _ => Err(refused(&answer)),
        }
    }

    /// An object of a known name is stored twice: the second time it must be there.
    fn probe(&self) -> Result<(), StoreError> {
        let key = format!("{}{PROBE}", self.prefix);
        for _ in 0..2 {
            match self.put_object(&key, b"whether ifGenerationMatch is honoured here\n", true)? {
                Put::Exists => return Ok(()),
                Put::Stored => {}
            }
        }
        Err(StoreError::Unconditional)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        let key = self.key(name)?;
        let target = self.path(Some(&key));
        let answer = self.ask(&Request {
            method: "DELETE",
            target: &target,
            headers: &[],
            body: &[],
            most: MOST_WORDS,
        })?;
        match answer.status {
            200 | 202 | 204 => Ok(()),
            404 => self.see_absent(&key),
            _ => Err(refused(&answer)),
        }
    }
}

impl fmt::Debug for GoogleStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("GoogleStore");
        out.field("host", &self.host)
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

fn refused(answer: &Answer) -> StoreError {
    StoreError::Refused { status: answer.status }
}
