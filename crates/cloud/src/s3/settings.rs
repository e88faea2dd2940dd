//! Where the store is, and who asks: read from the environment and from the files of S3's tools.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::CloudError;
use crate::endpoint::Endpoint;
use crate::http::Connector;
use crate::s3::credentials::{Credentials, Current, Source};
use crate::s3::metadata::Container;
use crate::s3::profile::{self, Profile};
use crate::s3::url::S3Location;
use crate::tls;

/// What a region may be made of, as it becomes a part of a host's name.
const REGION: fn(u8) -> bool = |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
/// Where a container's agent listens, and that of Kubernetes.
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
const METADATA: &str = "169.254.169.254:80";

/// How S3 is reached.
pub struct Settings {
    endpoint: Option<Endpoint>,
    pub(crate) region: String,
    /// Whether the bucket's name is the first part of the path, and not of the host's name.
    path_style: bool,
    authorities: Option<PathBuf>,
    pub(crate) current: Current,
}

impl Settings {
    /// Reads settings as S3's tools do: first the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
    /// `AWS_REGION`, `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_CA_BUNDLE`), then the profile (`AWS_PROFILE`,
    /// or `default`) in `~/.aws/credentials` and `~/.aws/config`, then a container's endpoint, then the metadata of an instance of EC2.
    ///
    /// Nothing is asked over the network yet.
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
        let first = |names: &[&str]| names.iter().find_map(|name| environment(name));
        let (shared, config) = profiles(environment)?;
        let of_profile =
            |name: &str| shared.setting(name).or_else(|| config.setting(name)).map(str::to_owned);

        let endpoint =
            first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]).or_else(|| of_profile("endpoint_url"));
        let wrong = CloudError::Setting { name: "AWS_ENDPOINT_URL" };
        let endpoint = endpoint.map(|url| Endpoint::parse(&url).ok_or(wrong)).transpose()?;
        let region = first(&["AWS_REGION", "AWS_DEFAULT_REGION"]).or_else(|| of_profile("region"));
        let region = region.unwrap_or_else(|| "us-east-1".into()); // intended: S3's own default.
        if region.is_empty() || !region.bytes().all(REGION) {
            return Err(CloudError::Setting { name: "AWS_REGION" });
        }
        let path_style = match of_profile("s3.addressing_style").as_deref() {
            Some("path") => true,
            Some("virtual") => false,
            None | Some("auto") => endpoint.is_some(),
            Some(_) => return Err(CloudError::Setting { name: "addressing_style" }),
        };
        let authorities = environment("AWS_CA_BUNDLE").or_else(|| of_profile("ca_bundle")).map(PathBuf::from);
        let source = source(environment, &[&shared, &config], authorities.as_deref())?;
        Ok(Self { endpoint, region, path_style, authorities, current: Current::new(source) })
    }

    /// The server of a bucket, what stands in the header `host`, and what the path of every object begins with.
    pub(crate) fn server(&self, at: &S3Location) -> Result<(Connector, String, String), CloudError> {
        let of_aws = || Endpoint { tls: true, host: format!("s3.{}.amazonaws.com", self.region), port: 443 };
        let mut server = self.endpoint.clone().unwrap_or_else(of_aws); // intended: that of AWS.
        // A certificate for all buckets is for names without a further dot.
        let in_path = self.path_style || server.tls && at.bucket.contains('.') || server.is_address();
        let base = match in_path {
            true => format!("/{}", at.bucket),
            false => {
                server.host = format!("{}.{}", at.bucket, server.host);
                String::new()
            }
        };
        let tls = if server.tls { Some(tls::config(self.authorities.as_deref())?) } else { None };
        let connector = Connector::new(&server.host, server.port, tls)
            .ok_or(CloudError::Setting { name: "AWS_ENDPOINT_URL" })?;
        Ok((connector, server.name(), base))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Settings");
        out.field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("path_style", &self.path_style);
        out.field("current", &self.current).finish_non_exhaustive()
    }
}

/// What the two files say of the profile that is meant.
fn profiles(environment: &dyn Fn(&str) -> Option<String>) -> Result<(Profile, Profile), CloudError> {
    let home = environment("HOME").map(PathBuf::from);
    let path = |variable: &str, name: &str| {
        environment(variable)
            .map(PathBuf::from)
            .or_else(|| home.as_ref().map(|home| home.join(".aws").join(name)))
    };
    let asked = environment("AWS_PROFILE");
    let name = asked.clone().unwrap_or_else(|| "default".into()); // intended: the name that everybody has.
    let of = |path: Option<PathBuf>, headings: &[String]| match path {
        Some(path) => profile::read(&path, headings),
        None => Ok(None),
    };
    let shared = of(path("AWS_SHARED_CREDENTIALS_FILE", "credentials"), std::slice::from_ref(&name))?;
    let mut headings = vec![format!("profile {name}")];
    if name == "default" {
        headings.push(name.clone());
    }
    let config = of(path("AWS_CONFIG_FILE", "config"), &headings)?;
    if asked.is_some() && shared.is_none() && config.is_none() {
        return Err(CloudError::NoProfile { name });
    }
    Ok((shared.unwrap_or_default(), config.unwrap_or_default())) // intended: no file, no settings.
}

/// Where the credentials are.
fn source(
    environment: &dyn Fn(&str) -> Option<String>,
    profiles: &[&Profile],
    authorities: Option<&Path>,
) -> Result<Source, CloudError> {
    let fixed = |id: &str, secret: &str, token: Option<&str>, name| {
        let credentials = Credentials::new(id, secret.as_bytes(), token.map(str::as_bytes));
        match credentials.are_printable() {
            true => Ok(Source::Fixed(Arc::new(credentials))),
            false => Err(CloudError::Setting { name }),
        }
    };
    if let Some(id) = environment("AWS_ACCESS_KEY_ID") {
        let name = "AWS_SECRET_ACCESS_KEY";
        let secret = environment(name).ok_or(CloudError::Setting { name })?;
        return fixed(&id, &secret, environment("AWS_SESSION_TOKEN").as_deref(), "AWS_ACCESS_KEY_ID");
    }
    for profile in profiles {
        if let Some(id) = profile.setting("aws_access_key_id") {
            let name = "aws_secret_access_key";
            let secret = profile.setting(name).ok_or(CloudError::Setting { name })?;
            return fixed(id, secret, profile.setting("aws_session_token"), "aws_access_key_id");
        }
    }
    for name in ["role_arn", "credential_process", "sso_session", "sso_start_url", "web_identity_token_file"]
    {
        if profiles.iter().any(|profile| profile.setting(name).is_some()) {
            return Err(CloudError::Unsupported { name });
        }
    }
    if environment("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() {
        return Err(CloudError::Unsupported { name: "AWS_WEB_IDENTITY_TOKEN_FILE" });
    }
    if let Some(container) = container(environment, authorities)? {
        return Ok(Source::Container(container));
    }
    match environment("AWS_EC2_METADATA_DISABLED") {
        Some(value) if value.eq_ignore_ascii_case("true") => Err(CloudError::NoCredentials),
        _ => {
            let name = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
            let address = match environment(name) {
                None => METADATA.into(),
                Some(url) => {
                    let at =
                        Endpoint::parse(&url).filter(|at| !at.tls).ok_or(CloudError::Setting { name })?;
                    format!("{}:{}", at.host, at.port)
                }
            };
            Ok(Source::Instance { address })
        }
    }
}

/// The endpoint that a container is told. In the clear only this machine and the known agents are asked: the answer is a secret.
fn container(
    environment: &dyn Fn(&str) -> Option<String>,
    authorities: Option<&Path>,
) -> Result<Option<Container>, CloudError> {
    const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let (name, url) = match (environment(RELATIVE), environment(FULL)) {
        (Some(path), _) => (RELATIVE, format!("http://{}{path}", AGENTS[0])),
        (None, Some(url)) => (FULL, url),
        (None, None) => return Ok(None),
    };
    let wrong = || CloudError::Setting { name };
    let after = url.find("://").map(|at| at + 3).ok_or_else(wrong)?;
    let (server, path) = match url[after..].find('/') {
        Some(at) => url.split_at(after + at),
        None => (url.as_str(), "/"),
    };
    let at = Endpoint::parse(server).ok_or_else(wrong)?;
    let is_near = at.host == "localhost"
        || AGENTS.contains(&at.host.as_str())
        || at.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if !at.tls && !is_near || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong());
    }
    let tls = if at.tls { Some(tls::config(authorities)?) } else { None };
    let connector = Connector::new(&at.host, at.port, tls).ok_or_else(wrong)?;
    const TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
    let authorization = match environment(TOKEN_FILE) {
        Some(path) => {
            let read = std::fs::read_to_string(&path).map_err(|_| CloudError::File { path: path.into() })?;
            Some(read.trim().to_owned())
        }
        None => environment("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    if authorization
        .as_ref()
        .is_some_and(|value| !value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '))
    {
        return Err(CloudError::Setting { name: TOKEN_FILE });
    }
    Ok(Some(Container { connector, path: path.into(), authorization }))
}
