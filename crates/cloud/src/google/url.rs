//! `gs://BUCKET/PREFIX`.

use std::net::Ipv4Addr;

use crate::CloudError;
use crate::url::{is_part, parts};

/// What the URL of a store on Google Cloud Storage begins with.
const SCHEME: &str = "gs://";

/// A bucket, and what the names of a volume's objects begin with in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoogleLocation {
    pub(crate) bucket: String,
    /// Empty, or it ends with a slash.
    pub(crate) prefix: String,
}

impl GoogleLocation {
    /// Reads `gs://BUCKET`, `gs://BUCKET/PREFIX` or the same with a slash at the end. Nothing in it is encoded.
    ///
    /// # Errors
    /// [`CloudError::GoogleBucket`] if no bucket can have the name. [`CloudError::GoogleUrl`] if it is another URL, or the prefix has an empty
    /// part, `.`, `..`, a control character, or more than 900 bytes.
    pub fn parse(url: &str) -> Result<Self, CloudError> {
        let rest = url.strip_prefix(SCHEME).ok_or(CloudError::GoogleUrl)?;
        let (bucket, prefix) = parts(rest, is_part).ok_or(CloudError::GoogleUrl)?;
        if !is_bucket(bucket) {
            return Err(CloudError::GoogleBucket);
        }
        Ok(Self { bucket: bucket.into(), prefix })
    }
}

/// Whether Google lets a bucket have the name ("About Cloud Storage buckets", documentation of Google Cloud). What names are reserved, only
/// Google knows.
fn is_bucket(name: &str) -> bool {
    let is_end =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    (3..=222).contains(&bytes.len())
        && name.split('.').all(|part| (1..=63).contains(&part.len()))
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| is_end(Some(byte)) || matches!(byte, b'.' | b'-' | b'_'))
        && name.parse::<Ipv4Addr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_bucket_and_a_prefix() {
        let of = |url: &str| GoogleLocation::parse(url).map(|at| (at.bucket, at.prefix));
        assert_eq!(of("gs://disks"), Ok(("disks".into(), String::new())));
        assert_eq!(of("gs://disks/"), Ok(("disks".into(), String::new())));
        assert_eq!(of("gs://my.di_sks-1/a b/c"), Ok(("my.di_sks-1".into(), "a b/c/".into())));
        assert_eq!(of("gs://disks/a/"), of("gs://disks/a"));
        let long = format!("gs://disks/{}", "a".repeat(901));
        for bad in [
            "",
            "gs://",
            "gs:///a",
            "gs://disks//a",
            "gs://disks/a//b",
            "gs://disks/a/../b",
            "gs://disks/.",
            "gs://disks/a\nb",
            "s3://disks",
            &long,
        ] {
            assert_eq!(of(bad), Err(CloudError::GoogleUrl), "{bad:?}");
        }
    }

    #[test]
    fn a_bucket_has_a_name_that_google_gives() {
        let part = "a".repeat(63);
        let whole = [part.as_str(), &part, &part, &part[..30]].join(".");
        for good in ["abc", "1-2_3", &part, &whole] {
            assert!(is_bucket(good), "{good}");
        }
        let (long_part, long_whole) = ("a".repeat(64), format!("{whole}a"));
        assert_eq!((whole.len(), long_whole.len()), (222, 223));
        for bad in [
            "ab",
            "Disks",
            "-disks",
            "disks_",
            "di..sks",
            "disks.",
            "u@disks",
            "dïsks",
            "192.168.5.4",
            &long_part,
            &long_whole,
        ] {
            assert_eq!(
                GoogleLocation::parse(&format!("gs://{bad}/a")),
                Err(CloudError::GoogleBucket),
                "{bad}"
            );
        }
    }
}
