//! The flash library for C. `include/atrest.h` is what a program includes; it says what each function does, and this crate
//! only how. Build it for a chip with
//!
//! ```text
//! cargo build --release --package atrest-capi --target thumbv7em-none-eabi
//! ```
//!
//! and link `libatrest_capi.a`. The features `aes-xts` and `adiantum` bring the ciphers, `catena` passphrases by Catena; all are on by
//! default, and one cipher there must be. Nothing here allocates, and nothing is kept between calls but what the caller lends.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(not(any(feature = "aes-xts", feature = "adiantum")))]
compile_error!("the library opens no volume without one of the features aes-xts and adiantum");

mod cipher;
mod handle;
mod lfs;
mod medium;
mod passphrase;
mod status;

pub use handle::{
    Flash, Geometry, WORDS, atrest_flash_close, atrest_flash_erase, atrest_flash_geometry,
    atrest_flash_is_blank, atrest_flash_open, atrest_flash_prog, atrest_flash_read, atrest_flash_sync,
};
pub use lfs::{atrest_lfs_erase, atrest_lfs_prog, atrest_lfs_read, atrest_lfs_sync};
pub use medium::Medium;
pub use passphrase::{Random, Unlock, atrest_flash_change_passphrase, atrest_flash_destroy_keys};
pub use status::{Status, atrest_message};

/// On a chip there is nobody to report to. A watchdog ends this, and a debugger sees where it is.
#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
