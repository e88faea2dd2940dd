//! Credentials that a machine or a container is given: the metadata service of EC2 (IMDSv2), and the endpoint for containers.

use atrest_secret::wipe;
use serde::Deserialize;

use crate::http::{Connector, Limits, Request};
use crate::s3::credentials::Credentials;
use crate::time;

/// Longest answer.
const MOST: usize = 64 << 10;
const PATH: &str = "/latest/meta-data/iam/security-credentials/";

/// Whom a container asks.
pub(crate) struct Container {
    pub(crate) connector: Connector,
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Given {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

/// What a container is given; `None` if nobody answers as it should.
pub(crate) fn of_container(container: &Container) -> Option<Credentials> {
    let authorization = container.authorization.as_deref().map(|value| ("authorization", value));
    let headers: Vec<_> = authorization.into_iter().collect();
    given(ask(&container.connector, "GET", &container.path, &headers)?)
}

/// What the role of a virtual machine is given; `None` if nobody answers, or the machine has no role.
pub(crate) fn of_instance(address: &str) -> Option<Credentials> {
    let (host, port) = address.rsplit_once(':')?;
    let service = Connector::plain(host, port.parse().ok()?);
    let ttl = [("x-aws-ec2-metadata-token-ttl-seconds", "300"), ("content-length", "0")];
    let token = ask(&service, "PUT", "/latest/api/token", &ttl)?;
    let with = [("x-aws-ec2-metadata-token", token.trim())];
    let role = ask(&service, "GET", PATH, &with)?;
    let role = role.lines().next().map(str::trim).filter(|role| !role.is_empty())?;
    given(ask(&service, "GET", &format!("{PATH}{}", crate::s3::sign::encoded(role, None)), &with)?)
}

fn ask(service: &Connector, method: &str, path: &str, headers: &[(&str, &str)]) -> Option<String> {
    let request = Request { method, target: path, headers, body: &[], most: MOST };
    let answer = service.ask_once(&request, Limits::METADATA).ok()?;
    (answer.status == 200).then_some(())?;
    let text = String::from_utf8(answer.body).ok()?;
    // What goes into the head of the next request is a line at most.
    text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace()).then_some(text)
}

impl Drop for Given {
    fn drop(&mut self) {
        for secret in [Some(&mut self.secret_access_key), self.token.as_mut()].into_iter().flatten() {
            wipe(&mut std::mem::take(secret).into_bytes());
        }
    }
}

fn given(text: String) -> Option<Credentials> {
    let given = serde_json::from_str::<Given>(&text);
    wipe(&mut text.into_bytes());
    let given = given.ok()?;
    let token = given.token.as_deref().map(str::as_bytes);
    let mut credentials = Credentials::new(&given.access_key_id, given.secret_access_key.as_bytes(), token);
    credentials.expires = match &given.expiration {
        Some(text) => Some(time::extended(text)?),
        None => None,
    };
    Some(credentials)
}
