//! Sealed volumes.
#![forbid(unsafe_code)]

#[cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]
pub mod format;
pub mod store;
pub mod volume;

pub use volume::SealedVolume;
