//! LUKS1 against cryptsetup and qemu, against hostile and failing media, and through every power loss.

pub mod common;
mod damage;
mod interop;
mod keyslots;
mod model;
mod options;
mod power_loss;
