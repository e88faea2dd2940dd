//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod aead;
mod aes_engine;
mod aes_engine_alone;
mod aes_engine_checked;
mod aes_engine_waiting;
mod aes_xts;
mod backends;
mod cbc_cts;
mod cbc_runs;
mod dm_crypt;
mod emulated;
mod forerunners;
mod hctr2;
mod internals;
mod modes;
mod narrow_lrw;
mod one_key;
mod parts;
mod published;
#[path = "../../../testkit/src/random.rs"]
#[allow(dead_code, reason = "these tests have no use for all of it")]
mod random;
mod recording;
#[path = "../reference/mod.rs"]
mod reference;
mod spec;
mod stream;
mod tagged;
mod whitened_cbc;
mod wide_block;
#[cfg(target_arch = "x86_64")]
mod wycheproof;
