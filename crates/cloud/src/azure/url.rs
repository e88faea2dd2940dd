//! `az://CONTAINER/PREFIX`.

use crate::CloudError;
use crate::url::parts;

/// What the URL of a store on Azure begins with.
pub(crate) const SCHEME: &str = "az://";

/// Most parts of a prefix: Azure takes 254 of a name.
const MAX_PARTS: usize = 250;

/// A container, and what the names of a volume's blobs begin with in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureLocation {
    pub(crate) container: String,
    /// Empty, or it ends with a slash.
    pub(crate) prefix: String,
}

impl AzureLocation {
    /// Reads `az://CONTAINER`, `az://CONTAINER/PREFIX` or the same with a slash at the end. Nothing in it is encoded.
    ///
    /// # Errors
    /// [`CloudError::Container`] if no container can have the name. [`CloudError::AzureUrl`] if it is another URL, or the prefix has an
    /// empty part, one that ends with a dot, a backslash, a control character, U+FFFE or U+FFFF, more than 250 parts, or more than 900 bytes.
    pub fn parse(url: &str) -> Result<Self, CloudError> {
        let rest = url.strip_prefix(SCHEME).ok_or(CloudError::AzureUrl)?;
        // Azure takes a backslash for a slash, and drops dots at the end of a part. What XML can't have is encoded in lists.
        let is_odd = |c: char| c.is_control() || matches!(c, '\\' | '\u{fffe}' | '\u{ffff}');
        let fine = |part: &str| !part.is_empty() && !part.ends_with('.') && !part.contains(is_odd);
        let (container, prefix) = parts(rest, fine).ok_or(CloudError::AzureUrl)?;
        if prefix.matches('/').count() > MAX_PARTS {
            return Err(CloudError::AzureUrl);
        }
        if !is_container(container) {
            return Err(CloudError::Container);
        }
        Ok(Self { container: container.into(), prefix })
    }
}

/// Whether Azure lets a container have the name ("Naming and Referencing Containers, Blobs, and Metadata", reference of the REST API).
fn is_container(name: &str) -> bool {
    let in_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (3..=63).contains(&name.len())
        && name.bytes().all(in_name)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_container_and_a_prefix() {
        let of = |url: &str| AzureLocation::parse(url).map(|at| (at.container, at.prefix));
        assert_eq!(of("az://disks"), Ok(("disks".into(), String::new())));
        assert_eq!(of("az://disks/"), Ok(("disks".into(), String::new())));
        assert_eq!(of("az://my-disks-1/a b/.c"), Ok(("my-disks-1".into(), "a b/.c/".into())));
        assert_eq!(of("az://disks/a/"), of("az://disks/a"));
        let (long, deep) =
            (format!("az://disks/{}", "a".repeat(901)), format!("az://disks/{}", "a/".repeat(251)));
        for bad in [
            "",
            "az://",
            "az:///a",
            "az://disks//a",
            "az://disks/a//b",
            "az://disks/a/../b",
            "az://disks/a./b",
            "az://disks/a\\b",
            "az://disks/a\nb",
            "az://disks/\u{ffff}",
            "s3://disks",
            &long,
            &deep,
        ] {
            assert_eq!(of(bad), Err(CloudError::AzureUrl), "{bad:?}");
        }
        let containers = [
            "ab",
            "Disks",
            "di_sks",
            "-disks",
            "disks-",
            "di--sks",
            "di.sks",
            "u@disks",
            "$web",
            &"a".repeat(64),
        ];
        for url in &containers.map(|container| format!("az://{container}/a")) {
            assert_eq!(of(url), Err(CloudError::Container), "{url}");
        }
    }
}
