//! Where the store is, and who asks: read from the environment and from the file of Azure's tools.

use std::env;
use std::fmt;
use std::path::PathBuf;

use crate::CloudError;
use crate::azure::connection::Connection;
use crate::azure::credentials::{Credentials, Text};
use crate::azure::identity::Identity;
use crate::endpoint::Endpoint;
use crate::http::Connector;
use crate::s3::profile::{self, Profile};
use crate::tls;

const CONNECTION: &str = "AZURE_STORAGE_CONNECTION_STRING";
const ACCOUNT: &str = "AZURE_STORAGE_ACCOUNT";
const KEY: &str = "AZURE_STORAGE_KEY";
const SIGNATURE: &str = "AZURE_STORAGE_SAS_TOKEN";
const ENDPOINT: &str = "AZURE_STORAGE_SERVICE_ENDPOINT";
const METADATA: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
const CLIENT: &str = "AZURE_CLIENT_ID";
/// What says that a program asks in a way that is not known here, and as somebody else than the machine.
const OTHER_WAYS: [&str; 4] = [
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_FEDERATED_TOKEN_FILE",
    "IDENTITY_ENDPOINT",
];

/// How Azure is reached.
pub struct Settings {
    endpoint: Endpoint,
    /// What the path of every container begins with: empty, unless the account is in the path.
    base: String,
    authorities: Option<PathBuf>,
    pub(crate) credentials: Credentials,
}

impl Settings {
    /// Reads settings as Azure's command line does: each from the environment (`AZURE_STORAGE_CONNECTION_STRING`,
    /// `AZURE_STORAGE_ACCOUNT`, `AZURE_STORAGE_KEY`, `AZURE_STORAGE_SAS_TOKEN`, `AZURE_STORAGE_SERVICE_ENDPOINT`), or from the section
    /// `storage` of `~/.azure/config` (`AZURE_CONFIG_DIR`). A connection string goes before the others. Without a key and a shared
    /// access signature the machine's managed identity asks (`AZURE_CLIENT_ID` says which).
    ///
    /// `REQUESTS_CA_BUNDLE` names a file with the certificates of the authorities that are trusted. Nothing is asked over the network
    /// yet.
    ///
    /// # Errors
    /// [`CloudError`] names the setting or file that can't be used.
    pub fn from_environment() -> Result<Self, CloudError> {
        Self::read(&|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Reads settings from an environment, a function from names to values.
    ///
    /// # Errors
    /// As [`from_environment`](Self::from_environment).
    pub fn read(environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, CloudError> {
        let file = file(environment)?;
        let setting = |variable: &str, name: &str| {
            let in_file = || file.setting(name).map(str::to_owned).filter(|value| !value.is_empty());
            environment(variable).or_else(in_file).map(Text)
        };
        let string = setting(CONNECTION, "connection_string");
        let whole = match &string {
            Some(string) => Connection::parse(&string.0).ok_or(CloudError::Setting { name: CONNECTION })?,
            None => Connection::default(),
        };
        let account = setting(ACCOUNT, "account");
        let account = whole.account.or(account.as_ref().map(|text| text.0.as_str()));
        if account.is_some_and(|account| !is_account(account)) {
            return Err(CloudError::Setting {
                name: if whole.account.is_some() { CONNECTION } else { ACCOUNT },
            });
        }
        let (url, name) = match (whole.server(), setting(ENDPOINT, "service_endpoint"), account) {
            (Some(url), _, _) => (url, CONNECTION),
            (None, Some(url), _) => (url.0.clone(), ENDPOINT),
            (None, None, Some(account)) => (format!("https://{account}.blob.core.windows.net"), ACCOUNT),
            (None, None, None) => return Err(CloudError::NoAzureCredentials),
        };
        let (endpoint, base) = server(&url).ok_or(CloudError::Setting { name })?;

        let is_whole = whole.key.is_some() || whole.signature.is_some();
        let (of_key, of_signature) = if is_whole { (CONNECTION, CONNECTION) } else { (KEY, SIGNATURE) };
        let (key, signature) = match is_whole {
            true => (whole.key.map(Text::from), whole.signature.map(Text::from)),
            false => (setting(KEY, "key"), setting(SIGNATURE, "sas_token")),
        };
        let credentials = match (&key, &signature) {
            (Some(key), _) => {
                let account = account.ok_or(CloudError::Setting { name: ACCOUNT })?;
                Credentials::key(account, &key.0).ok_or(CloudError::Setting { name: of_key })?
            }
            (None, Some(signature)) => {
                Credentials::signature(&signature.0).ok_or(CloudError::Setting { name: of_signature })?
            }
            (None, None) => Credentials::Identity(identity(environment)?),
        };
        // In the clear nobody on the way is to learn what he could ask by himself.
        if credentials.are_sent() && !endpoint.tls && !is_here(&endpoint) {
            return Err(CloudError::Setting { name });
        }
        let authorities = environment("REQUESTS_CA_BUNDLE").map(PathBuf::from);
        Ok(Self { endpoint, base, authorities, credentials })
    }

    /// The server, what stands in the header `host`, and what the path of a container's blobs begins with.
    pub(crate) fn server(&self, container: &str) -> Result<(Connector, String, String), CloudError> {
        let Endpoint { tls, host, port } = &self.endpoint;
        let tls = if *tls { Some(tls::config(self.authorities.as_deref())?) } else { None };
        let connector = Connector::new(host, *port, tls).ok_or(CloudError::Setting { name: ENDPOINT })?;
        Ok((connector, self.endpoint.name(), format!("{}/{container}", self.base)))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Settings");
        out.field("endpoint", &self.endpoint).field("base", &self.base);
        out.field("credentials", &self.credentials).finish_non_exhaustive()
    }
}

/// The section of the file of Azure's command line that is of storage.
fn file(environment: &dyn Fn(&str) -> Option<String>) -> Result<Profile, CloudError> {
    let home = || environment("HOME").map(|home| PathBuf::from(home).join(".azure"));
    let Some(directory) = environment("AZURE_CONFIG_DIR").map(PathBuf::from).or_else(home) else {
        return Ok(Profile::default());
    };
    let found = profile::read(&directory.join("config"), &["storage".into()])?;
    Ok(found.unwrap_or_default()) // intended: no file, no settings.
}

/// Whether an account can have the name, which becomes a part of a host's name.
fn is_account(name: &str) -> bool {
    (3..=24).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A server and a path on it, without the slash at its end.
fn server(url: &str) -> Option<(Endpoint, String)> {
    let begin = url.find("://")? + 3;
    let (server, path) = match url[begin..].find('/') {
        Some(at) => url.split_at(begin + at),
        None => (url, ""),
    };
    let path = path.strip_suffix('/').unwrap_or(path); // intended: the slash may be left out.
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let fine = |part: &str| !part.is_empty() && part.bytes().all(in_name);
    if !path.split('/').skip(1).all(fine) {
        return None;
    }
    Some((Endpoint::parse(server)?, path.into()))
}

/// Whether a server is on this machine.
fn is_here(at: &Endpoint) -> bool {
    at.host == "localhost" || at.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The identity of this machine.
fn identity(environment: &dyn Fn(&str) -> Option<String>) -> Result<Identity, CloudError> {
    if let Some(name) = OTHER_WAYS.into_iter().find(|name| environment(name).is_some()) {
        return Err(CloudError::AzureUnsupported { name });
    }
    let service = match environment(METADATA) {
        None => Connector::plain("169.254.169.254", 80),
        Some(url) => {
            let at = Endpoint::parse(&url).filter(|at| !at.tls && is_here(at));
            let at = at.ok_or(CloudError::Setting { name: METADATA })?;
            Connector::plain(&at.host, at.port)
        }
    };
    let client = environment(CLIENT);
    let is_client = |name: &String| {
        name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if client.as_ref().is_some_and(|client| !is_client(client)) {
        return Err(CloudError::Setting { name: CLIENT });
    }
    Ok(Identity::new(service, client))
}
