//! `s3://BUCKET/PREFIX`.

use crate::CloudError;
use crate::url::{is_part, parts};

/// What the URL of a store on S3 begins with.
pub(crate) const SCHEME: &str = "s3://";

/// A bucket, and what the names of a volume's objects begin with in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Location {
    pub(crate) bucket: String,
    /// Empty, or it ends with a slash.
    pub(crate) prefix: String,
}

impl S3Location {
    /// Reads `s3://BUCKET`, `s3://BUCKET/PREFIX` or the same with a slash at the end. Nothing in it is encoded.
    ///
    /// # Errors
    /// [`CloudError::Bucket`] if no bucket can have the name. [`CloudError::Url`] if it is another URL, or the prefix has an empty part, `.`, `..`, a control
    /// character, or more than 900 bytes.
    pub fn parse(url: &str) -> Result<Self, CloudError> {
        let rest = url.strip_prefix(SCHEME).ok_or(CloudError::Url)?;
        let (bucket, prefix) = parts(rest, is_part).ok_or(CloudError::Url)?;
        if !is_bucket(bucket) {
            return Err(CloudError::Bucket);
        }
        Ok(Self { bucket: bucket.into(), prefix })
    }
}

/// Whether S3 lets a bucket have the name.
fn is_bucket(name: &str) -> bool {
    let is_end =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && is_end(bytes.first())
        && is_end(bytes.last())
        && !name.contains("..")
        && bytes.iter().all(|byte| is_end(Some(byte)) || matches!(byte, b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_bucket_and_a_prefix() {
        let of = |url: &str| S3Location::parse(url).map(|at| (at.bucket, at.prefix));
        assert_eq!(of("s3://disks"), Ok(("disks".into(), String::new())));
        assert_eq!(of("s3://disks/"), Ok(("disks".into(), String::new())));
        assert_eq!(of("s3://my.disks-1/a b/c"), Ok(("my.disks-1".into(), "a b/c/".into())));
        assert_eq!(of("s3://disks/a/"), of("s3://disks/a"));
        let long = format!("s3://disks/{}", "a".repeat(901));
        for bad in [
            "",
            "s3://",
            "s3:///a",
            "s3://disks//a",
            "s3://disks/a//b",
            "s3://disks/a/../b",
            "s3://disks/.",
            "s3://disks/a\nb",
            "gs://disks",
            &long,
        ] {
            assert_eq!(of(bad), Err(CloudError::Url), "{bad:?}");
        }
        let buckets = ["ab", "Disks", "di_sks", "-disks", "disks-", "di..sks", "u@disks"];
        for url in &buckets.map(|bucket| format!("s3://{bucket}/a")) {
            assert_eq!(of(url), Err(CloudError::Bucket), "{url}");
        }
    }
}
