//! LUKS2 volumes: against cryptsetup, against power loss, against damage and wrong use.

mod apart;
mod choices;
mod course;
mod cryptsetup;
mod damage;
mod locked;
mod model;
mod operations;
mod pinned;
mod pinned_store;
mod power_loss;
mod reencrypt;
pub mod support;
mod unpinned;
mod zones;
