//! LUKS2 volumes: against cryptsetup, against power loss, against damage and wrong use.

mod apart;
mod cryptsetup;
mod damage;
mod model;
mod operations;
mod power_loss;
mod reencrypt;
mod support;
