//! Files of credentials ("How Application Default Credentials works", documentation of Google Cloud): those of a user, with a token by which
//! others are had, and those of a service account, with a key.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use atrest_secret::{SecretBytes, wipe};
use serde::Deserialize;

use crate::CloudError;
use crate::google::jwt::{self, Account};
use crate::google::token::{Server, Source};
use crate::s3::encoded;

/// Longest file.
const MOST: u64 = 64 << 10;
/// Where tokens are asked for if the file does not say.
const TOKENS: &str = "https://oauth2.googleapis.com/token";
/// Types that are known and not supported.
const OTHERS: [&str; 4] = [
    "external_account",
    "external_account_authorized_user",
    "gdch_service_account",
    "impersonated_service_account",
];

/// As much of a file as is needed. Others of its fields are names and addresses.
#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "type")]
    kind: String,
    token_uri: Option<String>,
    universe_domain: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
    client_email: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<String>,
}

impl Drop for Fields {
    fn drop(&mut self) {
        for secret in [&mut self.client_secret, &mut self.refresh_token, &mut self.private_key] {
            secret.take().into_iter().for_each(|secret| wipe(&mut secret.into_bytes()));
        }
    }
}

/// Who asks for tokens, as a file has it; `None` if there is no such file. `server` is the one at a URL, if that can be asked.
///
/// # Errors
/// [`CloudError::File`] for one that can't be read or used, [`CloudError::GoogleUnsupported`] for one of another type.
pub(crate) fn read(
    path: &Path,
    server: &dyn Fn(&str) -> Result<Option<Server>, CloudError>,
) -> Result<Option<Source>, CloudError> {
    let unusable = || CloudError::File { path: path.into() };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(unusable()),
    };
    // It never grows: what it had grown out of would keep secrets.
    let mut text = Vec::with_capacity(MOST as usize + 1);
    let fields = match file.take(MOST + 1).read_to_end(&mut text) {
        Ok(len) if len as u64 <= MOST => serde_json::from_slice::<Fields>(&text).ok(),
        _ => None,
    };
    wipe(&mut text);
    let fields = fields.ok_or_else(unusable)?;
    if let Some(name) = OTHERS.into_iter().find(|name| *name == fields.kind) {
        return Err(CloudError::GoogleUnsupported { name });
    }
    if fields.universe_domain.as_deref().is_some_and(|domain| domain != "googleapis.com") {
        return Err(CloudError::GoogleUnsupported { name: "universe_domain" });
    }
    let url = fields.token_uri.as_deref().unwrap_or(TOKENS); // intended: Google's own, as its tools have it.
    let server = server(url)?.ok_or_else(unusable)?;
    source(&fields, url, server).map(Some).ok_or_else(unusable)
}

fn source(fields: &Fields, url: &str, server: Server) -> Option<Source> {
    match fields.kind.as_str() {
        "authorized_user" => {
            let mut form = String::from("grant_type=refresh_token");
            // It never grows, as the text of the file.
            form.reserve_exact(3 * MOST as usize);
            for (name, value) in [
                ("client_id", &fields.client_id),
                ("client_secret", &fields.client_secret),
                ("refresh_token", &fields.refresh_token),
            ] {
                let mut value = encoded(value.as_deref()?, None).into_bytes();
                form.push_str(&format!("&{name}="));
                form.push_str(core::str::from_utf8(&value).ok()?);
                wipe(&mut value);
            }
            let mut form = form.into_bytes();
            let kept = SecretBytes::copy_from(&form);
            wipe(&mut form);
            Some(Source::User { server, form: kept })
        }
        "service_account" => {
            let key = jwt::key(fields.private_key.as_deref()?.as_bytes())?;
            let (email, key_id) = (fields.client_email.clone()?, fields.private_key_id.clone());
            Some(Source::Account { server, account: Account { email, key_id, key, audience: url.into() } })
        }
        _ => None,
    }
}
