//! The URL of a store in a cloud, of whichever kind.

use std::sync::Arc;

use atrest_sealedvolume::store::ObjectStore;

use crate::CloudError;
use crate::azure::{self, AzureLocation, AzureStore};
use crate::google::{self, GoogleLocation, GoogleStore};
use crate::s3::{S3Location, S3Store, Settings};

/// A cloud, and what names the objects of one volume there.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `s3://BUCKET/PREFIX`.
    S3(S3Location),
    /// `az://CONTAINER/PREFIX`.
    Azure(AzureLocation),
    /// `gs://BUCKET/PREFIX`.
    Google(GoogleLocation),
}

impl Location {
    /// Reads a URL, in which nothing is encoded.
    ///
    /// # Errors
    /// [`CloudError::Scheme`] if it is that of no cloud that is known here. Otherwise those of the cloud's own location.
    pub fn parse(url: &str) -> Result<Self, CloudError> {
        match url.split_once("://") {
            Some(("s3", _)) => Ok(Self::S3(S3Location::parse(url)?)),
            Some(("az", _)) => Ok(Self::Azure(AzureLocation::parse(url)?)),
            Some(("gs", _)) => Ok(Self::Google(GoogleLocation::parse(url)?)),
            _ => Err(CloudError::Scheme),
        }
    }

    /// The store there, with settings and credentials from where the cloud's tools keep them. Nothing is asked of it yet.
    ///
    /// # Errors
    /// [`CloudError`] names what is missing or can't be used.
    pub fn open(&self) -> Result<Arc<dyn ObjectStore>, CloudError> {
        Ok(match self {
            Self::S3(at) => Arc::new(S3Store::open(at, Settings::from_environment()?)?),
            Self::Azure(at) => Arc::new(AzureStore::open(at, azure::Settings::from_environment()?)?),
            Self::Google(at) => Arc::new(GoogleStore::open(at, google::Settings::from_environment()?)?),
        })
    }
}
