//! Tokens of a managed identity: the metadata service of virtual machines ("How to use managed identities for Azure resources on an Azure
//! VM to acquire an access token").

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use atrest_secret::{SecretBytes, wipe};
use serde::Deserialize;
use serde_json::Value;

use crate::CloudError;
use crate::http::{Connector, Limits, Request};

/// Longest answer.
const MOST: usize = 64 << 10;
/// So long before it expires a new one is asked for.
const EARLY: Duration = Duration::from_secs(5 * 60);
/// Longest time that a token is believed to last.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const PATH: &str =
    "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F";

/// The identity of a machine.
pub(crate) struct Identity {
    service: Connector,
    /// Which one of several.
    client: Option<String>,
    last: Mutex<Option<(Arc<SecretBytes>, Instant)>>,
}

#[derive(Deserialize)]
struct Given {
    access_token: String,
    /// Seconds, as a number or in quotes.
    expires_in: Value,
}

impl Identity {
    /// That of the machine whose metadata service is this one.
    pub(crate) fn new(service: Connector, client: Option<String>) -> Self {
        Self { service, client, last: Mutex::default() }
    }

    /// A token that is valid now.
    pub(crate) fn token(&self) -> Result<Arc<SecretBytes>, CloudError> {
        // One thread asks, the others wait for its answer.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner); // intended: it is whole or absent.
        let now = Instant::now();
        if let Some((token, _)) = last.as_ref().filter(|(_, end)| now + EARLY < *end) {
            return Ok(token.clone());
        }
        match (self.ask(), last.as_ref()) {
            (Some((token, lasts)), _) => Ok(last.insert((Arc::new(token), now + lasts)).0.clone()),
            // It holds for a few minutes yet.
            (None, Some((token, end))) if now < *end => Ok(token.clone()),
            _ => Err(CloudError::NoAzureCredentials),
        }
    }

    fn ask(&self) -> Option<(SecretBytes, Duration)> {
        let target = match &self.client {
            Some(client) => format!("{PATH}&client_id={client}"),
            None => PATH.to_owned(),
        };
        let headers = [("metadata", "true")];
        let request = Request { method: "GET", target: &target, headers: &headers, body: &[], most: MOST };
        let mut answer = self.service.ask_once(&request, Limits::METADATA).ok()?;
        let given = (answer.status == 200).then(|| serde_json::from_slice::<Given>(&answer.body));
        wipe(&mut answer.body);
        let given = given?.ok()?;
        let seconds = given.expires_in.as_u64().or_else(|| given.expires_in.as_str()?.parse().ok())?;
        // What goes into the head of a request is a part of a line.
        let fine =
            !given.access_token.is_empty() && given.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        fine.then(|| {
            (SecretBytes::copy_from(given.access_token.as_bytes()), Duration::from_secs(seconds).min(LONGEST))
        })
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        wipe(&mut std::mem::take(&mut self.access_token).into_bytes());
    }
}
