//! What the fuzz targets do with their input. Every function returns, whatever it is given.
//!
//! `fuzz/run` drives them with libFuzzer; `cargo test -p atrest-fuzz` runs each over its seeds, the corpus of the
//! campaigns (`fuzz/packed`) and a seeded sample of mutations on the pinned toolchain. Seeds come from real tools:
//! `cargo run -p atrest-fuzz --bin make-seeds`.

mod azure;
mod bitlocker;
mod boot;
mod control;
mod crc;
mod ecryptfs;
mod faces;
mod fido2;
mod fit_edited;
mod flash;
mod flash_built;
mod foreign;
mod fscrypt;
mod fvault2;
mod google;
mod handshake;
mod image;
mod images;
mod integrity;
mod json;
mod key_value;
mod littlefs;
mod luks;
mod luks2_built;
mod mapper;
mod medium;
mod metadata;
mod modes;
mod names;
mod nbd_client;
pub mod random;
mod reencrypt;
mod s3;
mod sealed;
mod sealed_volume;
mod token;
mod trees;
mod verity;
mod vhost_user;

pub use azure::{azure, azure_seeds};
pub use bitlocker::{bitlocker, bitlocker_seed};
pub use boot::{cmdline, crypttab};
pub use control::control;
pub(crate) use crc::crc32;
pub use ecryptfs::{ecryptfs_header, ecryptfs_name, ecryptfs_wrapped};
pub use faces::{checkpoint, checkpoint_seed, nbd, session};
pub use fido2::{fido2, fido2_seeds};
pub use fit_edited::fit_edited;
pub use flash::{flash_header, flash_header_seed};
pub use flash_built::flash_header_built;
pub use foreign::{loopaes, tcrypt, tcrypt_seed};
pub use fscrypt::{
    ext4_encrypted, ext4_encrypted_seed, fscrypt_context, fscrypt_context_seed, fscrypt_keyring,
};
pub use fvault2::{fvault2, wipekey};
pub use google::{google, google_seeds};
pub use handshake::nbd_handshake;
pub use image::Image;
pub use images::{fit, initramfs, modules};
pub use integrity::{integrity, integrity_seed};
pub use json::mutate_json;
pub use key_value::key_value;
pub use littlefs::{littlefs, littlefs_listing, littlefs_seed};
pub use luks::{header_restore, keyslot, luks1_header, luks2_header, luks2_json, luks2_volume};
pub use luks2_built::luks2_built;
pub use mapper::{dm_answer, dm_answer_seeds};
pub use metadata::fscrypt_metadata;
pub use modes::{CIPHERS, cipher_modes};
pub use names::{cipher_spec, plain_options};
pub use nbd_client::{nbd_client, nbd_client_seeds};
pub use reencrypt::reencrypt;
pub use s3::{s3, s3_seeds};
pub use sealed::{sealed_flash, sealed_store};
pub use sealed_volume::{sealed_volume, sealed_volume_is_taken, sealed_volume_seeds};
pub use token::{token, token_seeds, tpm, tpm_seeds};
pub use trees::{exfat, ext4, fat, gpt, mbr, ntfs};
pub use verity::verity;
pub use vhost_user::{vhost_user, vhost_user_seed};

/// Takes one input.
pub type Target = fn(&[u8]);

/// Every target, by the name of its program.
pub const TARGETS: &[(&str, Target)] = &[
    ("cipher_spec", cipher_spec),
    ("cipher_modes", cipher_modes),
    ("plain_options", plain_options),
    ("luks1_header", luks1_header),
    ("flash_header", flash_header),
    ("luks2_header", luks2_header),
    ("luks2_json", luks2_json),
    ("luks2_volume", luks2_volume),
    ("header_restore", header_restore),
    ("keyslot", keyslot),
    ("gpt", gpt),
    ("mbr", mbr),
    ("ext4", ext4),
    ("fat", fat),
    ("exfat", exfat),
    ("ntfs", ntfs),
    ("nbd", nbd),
    ("session", session),
    ("checkpoint", checkpoint),
    ("crypttab", crypttab),
    ("cmdline", cmdline),
    ("initramfs", initramfs),
    ("fit", fit),
    ("modules", modules),
    ("ecryptfs_header", ecryptfs_header),
    ("ecryptfs_name", ecryptfs_name),
    ("ecryptfs_wrapped", ecryptfs_wrapped),
    ("fscrypt_metadata", fscrypt_metadata),
    ("fscrypt_context", fscrypt_context),
    ("ext4_encrypted", ext4_encrypted),
    ("sealed_flash", sealed_flash),
    ("sealed_store", sealed_store),
    ("sealed_volume", sealed_volume),
    ("s3", s3),
    ("azure", azure),
    ("google", google),
    ("littlefs", littlefs),
    ("dm_answer", dm_answer),
    ("control", control),
    ("nbd_handshake", nbd_handshake),
    ("reencrypt", reencrypt),
    ("vhost_user", vhost_user),
    ("luks2_built", luks2_built),
    ("flash_header_built", flash_header_built),
    ("fit_edited", fit_edited),
    ("nbd_client", nbd_client),
    ("token", token),
    ("tpm", tpm),
    ("fido2", fido2),
    ("key_value", key_value),
    ("verity", verity),
    ("integrity", integrity),
    ("tcrypt", tcrypt),
    ("bitlocker", bitlocker),
    ("fvault2", fvault2),
    ("loopaes", loopaes),
    ("wipekey", wipekey),
];

/// Takes numbers off the front of an input; zeros when it is used up.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let taken = core::array::from_fn(|i| self.0.get(i).copied().unwrap_or(0));
        self.0 = self.0.get(N..).unwrap_or(&[]);
        taken
    }

    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
