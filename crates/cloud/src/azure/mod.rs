//! Azure Blob Storage: Get Blob with a range, Put Blob with `If-None-Match: *`, Get Blob Properties, Delete Blob and List Blobs, each
//! authorised by a key of the account, a shared access signature, or the token of a managed identity.

mod connection;
mod credentials;
mod identity;
pub(crate) mod list;
mod settings;
mod sign;
mod store;
mod url;

pub use list::Page;
pub use settings::Settings;
pub use store::AzureStore;
pub use url::AzureLocation;
