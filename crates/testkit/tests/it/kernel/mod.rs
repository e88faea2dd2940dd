//! What needs a real kernel, under emulation. One program, so that two kernels run at a time: each keeps one core busy.

mod authenticated;
mod dmcrypt;
mod fido2;
mod foreign;
mod mapping;
mod plain;
mod remapped;
mod stacked;
mod tpm;
mod trees;
mod unlock;
mod verity;
mod vhost_user;
mod volumes;
