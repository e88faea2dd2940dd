//! LUKS1 against cryptsetup and qemu, against hostile and failing media, and through every power loss.

#[path = "luks1/common.rs"]
mod common;
#[path = "luks1/damage.rs"]
mod damage;
#[path = "luks1/interop.rs"]
mod interop;
#[path = "luks1/keyslots.rs"]
mod keyslots;
#[path = "luks1/power_loss.rs"]
mod power_loss;
