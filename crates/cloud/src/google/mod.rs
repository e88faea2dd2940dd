//! Google Cloud Storage by its JSON API: media uploads with `ifGenerationMatch=0`, GET with a range, DELETE and lists, with OAuth tokens.

mod file;
mod jwt;
pub(crate) mod list;
mod settings;
mod store;
pub(crate) mod token;
mod url;

pub use list::Page;
pub use settings::Settings;
pub use store::GoogleStore;
pub use url::GoogleLocation;
