//! Where the store is, and who asks: read from the environment and from the files of Google's tools.

use std::env;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;

use crate::CloudError;
use crate::endpoint::Endpoint;
use crate::google::file;
use crate::google::token::{Current, Server, Source};
use crate::http::Connector;
use crate::tls;

const GOOGLE: &str = "https://storage.googleapis.com";
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";
const OVERRIDE: &str = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE";
const CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const METADATA: &str = "GCE_METADATA_HOST";
/// Where the metadata of every virtual machine of Google are.
const METADATA_ADDRESS: &str = "169.254.169.254";

/// How Google Cloud Storage is reached.
pub struct Settings {
    endpoint: Endpoint,
    authorities: Option<PathBuf>,
    /// Nobody asks an emulator for a token.
    pub(crate) current: Option<Current>,
}

impl Settings {
    /// Reads settings as Google's tools do. `STORAGE_EMULATOR_HOST` names a server that is given no token. Otherwise it is Google's, or the one
    /// that `CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE` names, and credentials are Application Default Credentials: the file that
    /// `GOOGLE_APPLICATION_CREDENTIALS` names, then `application_default_credentials.json` in `CLOUDSDK_CONFIG` or `~/.config/gcloud`, then
    /// the metadata of a virtual machine (`GCE_METADATA_HOST`), unless `NO_GCE_CHECK` is `true`. `CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE`
    /// names the authorities that are trusted.
    ///
    /// Nothing is asked over the network yet.
    ///
    /// # Errors
    /// [`CloudError`] names the setting or file that can't be used, or says that there are no credentials.
    pub fn from_environment() -> Result<Self, CloudError> {
        Self::read(&|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Reads settings from an environment, a function from names to values.
    ///
    /// # Errors
    /// As [`from_environment`](Self::from_environment).
    pub fn read(environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, CloudError> {
        let authorities = environment("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE").map(PathBuf::from);
        if let Some(host) = environment(EMULATOR) {
            let url = if host.contains("://") { host } else { format!("http://{host}") };
            let endpoint = Endpoint::parse(&url).ok_or(CloudError::Setting { name: EMULATOR })?;
            return Ok(Self { endpoint, authorities, current: None });
        }
        let url = environment(OVERRIDE).unwrap_or_else(|| GOOGLE.into()); // intended: no other one is meant.
        // Google's tools write it with the path of the API, or without.
        let server = url.trim_end_matches('/').trim_end_matches("/storage/v1");
        let endpoint = Endpoint::parse(server).filter(may_have_secrets);
        let endpoint = endpoint.ok_or(CloudError::Setting { name: OVERRIDE })?;
        let tls = || tls::config(authorities.as_deref());
        let source = source(environment, &tls)?;
        Ok(Self { endpoint, authorities, current: Some(Current::new(source)) })
    }

    /// The server, and what stands in the header `host`.
    pub(crate) fn server(&self) -> Result<(Connector, String), CloudError> {
        let Endpoint { tls, host, port } = &self.endpoint;
        let tls = if *tls { Some(tls::config(self.authorities.as_deref())?) } else { None };
        let connector = Connector::new(host, *port, tls).ok_or(CloudError::Setting { name: OVERRIDE })?;
        Ok((connector, self.endpoint.name()))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Settings");
        out.field("endpoint", &self.endpoint).field("current", &self.current).finish_non_exhaustive()
    }
}

/// Whether what is said there stays between the two: by TLS, or on this machine.
fn may_have_secrets(at: &Endpoint) -> bool {
    at.tls || at.host == "localhost" || at.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Where tokens come from.
fn source(
    environment: &dyn Fn(&str) -> Option<String>,
    tls: &dyn Fn() -> Result<Arc<ClientConfig>, CloudError>,
) -> Result<Source, CloudError> {
    let of_file = |path: PathBuf| file::read(&path, &|url| server(url, tls));
    if let Some(path) = environment(CREDENTIALS).map(PathBuf::from) {
        return of_file(path.clone())?.ok_or(CloudError::File { path });
    }
    let folder = environment("CLOUDSDK_CONFIG").map(PathBuf::from);
    let folder =
        folder.or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(".config/gcloud")));
    if let Some(folder) = folder
        && let Some(source) = of_file(folder.join("application_default_credentials.json"))?
    {
        return Ok(source);
    }
    if environment("NO_GCE_CHECK").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err(CloudError::NoGoogleCredentials);
    }
    let host = environment(METADATA).unwrap_or_else(|| METADATA_ADDRESS.into()); // intended: Google's own.
    let at = Endpoint::parse(&format!("http://{host}")).ok_or(CloudError::Setting { name: METADATA })?;
    Ok(Source::Machine(Connector::plain(&at.host, at.port)))
}

/// The server of tokens at a URL; `None` if no secret may be sent there.
fn server(
    url: &str,
    tls: &dyn Fn() -> Result<Arc<ClientConfig>, CloudError>,
) -> Result<Option<Server>, CloudError> {
    let Some(after) = url.find("://").map(|at| at + 3) else { return Ok(None) };
    let (server, path) = match url[after..].find('/') {
        Some(at) => url.split_at(after + at),
        None => (url, "/"),
    };
    let Some(at) = Endpoint::parse(server).filter(may_have_secrets) else { return Ok(None) };
    if !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Ok(None);
    }
    let tls = if at.tls { Some(tls()?) } else { None };
    let connector = Connector::new(&at.host, at.port, tls);
    Ok(connector.map(|connector| Server { connector, path: path.into(), host: at.name() }))
}
