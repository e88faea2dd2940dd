//! URLs of stores of objects, as users write them in place of a path.

use std::path::Path;

/// Schemes that no path begins with, also of stores that are not known here: a mistake is told, and makes no file of that name.
const SCHEMES: [&str; 9] = ["file", "s3", "gs", "gcs", "az", "abfs", "azure", "http", "https"];

/// Returns the scheme of what is meant to be the URL of a store of objects, or nothing if it is a path.
pub fn store_scheme(path: &Path) -> Option<&'static str> {
    let rest = |scheme: &str| path.as_os_str().as_encoded_bytes().strip_prefix(scheme.as_bytes());
    SCHEMES.into_iter().find(|scheme| rest(scheme).is_some_and(|rest| rest.starts_with(b"://")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_store_is_no_path() {
        let of = |text: &str| store_scheme(Path::new(text));
        assert_eq!((of("s3://disks/a"), of("az://disks"), of("gs://")), (Some("s3"), Some("az"), Some("gs")));
        assert_eq!((of("file:///a"), of("https://a")), (Some("file"), Some("https")));
        for path in ["s3:/a", "./s3://a", "s3", "S3://a", "ftp://a", "as3://a", ""] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
