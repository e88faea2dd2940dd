//! What to do about a store that refuses, by the cloud that it is in: the beginning of its URL, and the hint.

/// URLs of stores, as hints name them.
pub const URLS: &str =
    concat!("file:///path", ", s3://BUCKET/PREFIX", ", az://CONTAINER/PREFIX", ", gs://BUCKET/PREFIX",);

/// It does not know who asks, or does not let him.
pub const REFUSED: &[(&str, &str)] = &[
    (
        "s3://",
        "are these the right credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID), may they list, read and write there, and is this machine's clock right?",
    ),
    (
        "az://",
        "are these the right credentials (AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN), may they list, read, write, create and delete blobs there, \
         and is this machine's clock right?",
    ),
    (
        "gs://",
        "are these the right credentials (GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`), may they list, read, \
         write and delete objects there, and is this machine's clock right?",
    ),
];

/// It knows of no such place.
pub const NOWHERE: &[(&str, &str)] = &[
    ("s3://", "is there such a bucket?"),
    ("az://", "is there such a container?"),
    ("gs://", "is there such a bucket?"),
];

/// It says that the request is not for it.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("s3://", "is the bucket in another region (AWS_REGION), or at another endpoint (AWS_ENDPOINT_URL)?"),
    (
        "az://",
        "is the account at another endpoint (AZURE_STORAGE_SERVICE_ENDPOINT), and does the server know version 2026-02-06 of the protocol?",
    ),
    ("gs://", "is the bucket at another endpoint (CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE)?"),
];

/// Its certificate is not trusted.
pub const UNTRUSTED: &[(&str, &str)] = &[
    ("s3://", "AWS_CA_BUNDLE names a file with the certificates of the authorities that are trusted"),
    ("az://", "REQUESTS_CA_BUNDLE names a file with the certificates of the authorities that are trusted"),
    (
        "gs://",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE names a file with the certificates of the authorities that are trusted",
    ),
];

/// It stores an object where there is one.
pub const UNCONDITIONAL: &[(&str, &str)] = &[
    (
        "s3://",
        "two writers would overwrite each other's objects there: a store is needed that honours If-None-Match",
    ),
    (
        "az://",
        "two writers would overwrite each other's objects there: a store is needed that honours If-None-Match",
    ),
    (
        "gs://",
        "two writers would overwrite each other's objects there: a store is needed that honours ifGenerationMatch",
    ),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use atrest_sealedvolume::store::StoreError;

    use crate::failure::Failure;

    #[test]
    fn a_hint_names_the_settings_of_the_cloud_that_is_meant() {
        let text = |error: StoreError, url: &str| Failure::from(error).at(Path::new(url)).text(false);
        for error in [
            StoreError::Refused { status: 401 },
            StoreError::Refused { status: 403 },
            StoreError::Refused { status: 400 },
            StoreError::Refused { status: 404 },
            StoreError::Untrusted,
            StoreError::Unconditional,
        ] {
            for (url, word, other) in [
                ("s3://b/p", ["AWS_", "If-None-Match", "such a bucket"], "AZURE"),
                ("az://b/p", ["A", "If-None-Match", "such a container"], "AWS_"),
                ("gs://b/p", ["C", "ifGeneration", "such a bucket"], "AWS_"),
            ] {
                let text = text(error, url);
                assert_eq!(text.lines().count(), 2, "{text}");
                assert!(word.iter().any(|word| text.contains(word)) && !text.contains(other), "{text}");
            }
            assert_eq!(text(error, "file:///p").lines().count(), 1);
        }
    }
}
