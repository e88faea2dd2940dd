//! The flash library for C. `include/atrest.h` is what a program includes; it says what each function does, and this crate
//! only how. Build it for a chip with
//!
//! ```text
//! cargo build --release --package atrest-capi --target thumbv7em-none-eabi
//! ```
//!
//! and link `libatrest_capi.a`. `make -C firmware/card-c library` does that with all that makes it small. Features:
//!
//! | feature | brings |
//! |---|---|
//! | `aes-xts`, `adiantum` | encrypted flash (`atrest_flash_…`) with this cipher |
//! | `ascon`, `chacha20poly1305`, `ccm`, `gcm` | sealed flash (`atrest_sealed_…`) with this cipher; each is code of its own |
//! | `sealed` | what these have in common; it comes with them |
//! | `its` | PSA Internal Trusted Storage on sealed flash |
//! | `catena` | passphrases by Catena; PBKDF2 is always there |
//!
//! One cipher there must be. Nothing here allocates, and nothing is kept between calls but what the caller lends.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(not(any(feature = "aes-xts", feature = "adiantum", feature = "sealed")))]
compile_error!("the library opens no volume without one of the features that bring a cipher");

#[cfg(feature = "sealed")]
mod aead;
mod cipher;
mod format;
mod handle;
#[cfg(feature = "its")]
mod its;
mod key;
#[cfg(feature = "sealed")]
mod lent;
mod lfs;
mod medium;
mod passphrase;
#[cfg(feature = "sealed")]
mod sealed;
#[cfg(feature = "sealed")]
mod sealed_header;
mod status;
#[cfg(feature = "sealed")]
mod store;
mod volume;

pub use format::{Format, atrest_flash_format};
#[cfg(feature = "its")]
pub use its::{
    ITS_ENTRY, ITS_WORDS, ItsInfo, ItsOptions, Storage, atrest_its_close, atrest_its_format, atrest_its_get,
    atrest_its_get_info, atrest_its_open, atrest_its_remove, atrest_its_set,
};
pub use key::{Device, Key, atrest_device_key};
pub use lfs::{atrest_lfs_erase, atrest_lfs_prog, atrest_lfs_read, atrest_lfs_sync};
#[cfg(feature = "sealed")]
pub use lfs::{
    atrest_sealed_lfs_erase, atrest_sealed_lfs_prog, atrest_sealed_lfs_read, atrest_sealed_lfs_sync,
};
pub use medium::Medium;
pub use passphrase::{Random, Unlock, atrest_flash_change_passphrase, atrest_flash_destroy_keys};
#[cfg(feature = "sealed")]
pub use sealed::{
    BLOCK_STATE, Memory, Options, SEALED_WORDS, Sealed, Sizes, atrest_sealed_anchor, atrest_sealed_close,
    atrest_sealed_erase, atrest_sealed_format, atrest_sealed_geometry, atrest_sealed_health,
    atrest_sealed_is_blank, atrest_sealed_open, atrest_sealed_prog, atrest_sealed_read, atrest_sealed_sizes,
    atrest_sealed_sync,
};
#[cfg(feature = "sealed")]
pub use sealed_header::{
    atrest_sealed_change_passphrase, atrest_sealed_destroy_keys, atrest_sealed_format_header,
    atrest_sealed_unlock,
};
pub use status::{Status, atrest_message};
#[cfg(feature = "sealed")]
pub use store::Store;
pub use volume::{
    Flash, Geometry, WORDS, atrest_flash_close, atrest_flash_erase, atrest_flash_geometry,
    atrest_flash_is_blank, atrest_flash_open, atrest_flash_open_key, atrest_flash_prog, atrest_flash_read,
    atrest_flash_sync,
};

/// On a chip there is nobody to report to. A watchdog ends this, and a debugger sees where it is.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
