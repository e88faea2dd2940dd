//! S3: GET with a range, PUT with `If-None-Match: *`, HEAD, DELETE and ListObjectsV2, signed by Signature Version 4.

mod credentials;
pub(crate) mod list;
mod metadata;
mod profile;
mod settings;
mod sign;
mod store;
mod url;

pub use credentials::Credentials;
pub use list::Page;
pub use settings::Settings;
pub(crate) use sign::encoded;
pub use store::S3Store;
pub use url::S3Location;
