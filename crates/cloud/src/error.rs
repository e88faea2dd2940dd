//! Why there is no store, before anything is asked of it.

use core::fmt;
use std::path::PathBuf;

/// Why a store in a cloud can't be spoken to.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudError {
    /// The URL is that of no cloud that is known here.
    Scheme,
    /// The URL is not `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    Url,
    /// No bucket can have the name.
    Bucket,
    /// The URL is not `gs://BUCKET` or `gs://BUCKET/PREFIX`.
    GoogleUrl,
    /// No bucket of Google Cloud Storage can have the name.
    GoogleBucket,
    /// A setting of the environment or of a profile has a value that can't be used.
    Setting {
        /// Its name.
        name: &'static str,
    },
    /// A file of settings or certificates can't be read, or is none.
    File {
        /// Its path.
        path: PathBuf,
    },
    /// The profile is in neither of the two files.
    NoProfile {
        /// Its name.
        name: String,
    },
    /// The profile has its credentials in a way that is not known here.
    Unsupported {
        /// The setting that says so.
        name: &'static str,
    },
    /// There are no credentials anywhere that they are looked for.
    NoCredentials,
    /// The URL is not `az://CONTAINER` or `az://CONTAINER/PREFIX`.
    AzureUrl,
    /// No container of Azure can have the name.
    Container,
    /// Credentials for Azure are to be had in a way that is not known here.
    AzureUnsupported {
        /// The variable that says so.
        name: &'static str,
    },
    /// There is no storage account of Azure anywhere that one is looked for, or there are no credentials for it.
    NoAzureCredentials,
    /// There are no credentials for Google Cloud Storage anywhere that they are looked for.
    NoGoogleCredentials,
    /// A file of Google's credentials is of a type, or has a setting, that is not supported.
    GoogleUnsupported {
        /// The type, or the setting.
        name: &'static str,
    },
    /// Google's server of tokens gives none for the credentials.
    GoogleRefused {
        /// The status of its answer.
        status: u16,
    },
    /// No certificate of an authority was found, so that no server can be trusted.
    NoAuthorities,
}

impl fmt::Display for CloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str(concat!(
                "stores in clouds are buckets of S3 (s3://BUCKET/PREFIX)",
                ", containers of Azure (az://CONTAINER/PREFIX)",
                " and buckets of Google Cloud Storage (gs://BUCKET/PREFIX)",
            )),
            Self::Url => f.write_str("the URL of a store on S3 is s3://BUCKET/PREFIX"),
            Self::Bucket => f.write_str(
                "no bucket can have this name: it has 3 to 63 small letters, digits, dots and dashes, and begins and ends with a letter or digit",
            ),
            Self::GoogleUrl => f.write_str("the URL of a store on Google Cloud Storage is gs://BUCKET/PREFIX"),
            Self::GoogleBucket => f.write_str(
                "no bucket can have this name: it has 3 to 63 small letters, digits, dots, dashes and underscores, and begins and ends with a letter or digit",
            ),
            Self::Setting { name } => write!(f, "the value of {name} can't be used"),
            Self::File { path } => write!(f, "{} can't be read, or is not what it should be", path.display()),
            Self::NoProfile { name } => {
                write!(f, "there is no profile \"{name}\" in the files of S3's tools")
            }
            Self::Unsupported { name } => write!(f, "the profile has {name}, which is not supported"),
            Self::NoCredentials => f.write_str("there are no credentials for S3"),
            Self::AzureUrl => f.write_str("the URL of a store on Azure is az://CONTAINER/PREFIX"),
            Self::Container => f.write_str(
                "no container can have this name: it has 3 to 63 small letters, digits and single dashes, and begins and ends with a letter or digit",
            ),
            Self::AzureUnsupported { name } => write!(f, "{name} is set, which is not supported"),
            Self::NoAzureCredentials => f.write_str("there is no storage account of Azure, or there are no credentials for it"),
            Self::NoGoogleCredentials => f.write_str("there are no credentials for Google Cloud Storage"),
            Self::GoogleUnsupported { name } => {
                write!(f, "the file of Google's credentials has {name}, which is not supported")
            }
            Self::GoogleRefused { status } => {
                write!(f, "Google gives no token for the credentials (status {status})")
            }
            Self::NoAuthorities => {
                f.write_str("there are no certificates of authorities, so no server can be trusted")
            }
        }
    }
}

impl core::error::Error for CloudError {}
