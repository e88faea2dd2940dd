//! The tests of this crate that are no programs of their own: one program links in the time of one.

#[path = "../common/mod.rs"]
mod common;
mod faces;
mod faults;
mod fuse;
mod fuse_any;
mod fuse_rings;
mod fuse_tree;
mod kills;
mod metrics;
mod nbd_limits;
mod nbd_protocol;
mod nbd_small;
#[cfg(feature = "tls")]
mod nbd_tls;
#[cfg(feature = "tls")]
mod nbd_tls_attacks;
mod nbd_tools;
mod serve;
mod torn;
#[path = "../common/transport.rs"]
mod transport;
mod vhost_user;
mod vhost_user_chains;
mod vhost_user_writes;

/// FUSE's requests come by `/dev/fuse` here. By rings of io_uring the tests of FUSE run in a program of their own.
const RINGS: bool = false;
