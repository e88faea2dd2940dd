//! The NBD face: a server that speaks fixed newstyle NBD (doc/proto.md of the NBD project) over a Unix socket or TCP,
//! with TLS where [`Options::tls`] says so.
//!
//! Offered: structured replies, several connections, flush, FUA, trim, write-zeroes, block status
//! (`base:allocation`), `DF` up to 256 KiB. Not offered: `CACHE`, `FAST_ZERO`, `RESIZE`, extended headers.
//!
//! With TLS, a client that does not begin with it learns nothing: neither the size nor the name of the export. An
//! address that other machines can reach is served with TLS only, unless [`Options::insecure`] is set.
//!
//! Memory does not depend on what clients ask for: at most 384 KiB and [`Options::workers`] × 512 KiB for each of
//! [`Options::connections`] (76 MiB with the defaults on two cores), and only what busy clients have really used of it; TLS
//! adds 256 KiB for each connection. Clients beyond that limit get an error, and ones that dawdle in their handshake make room for new ones: nobody waits without a word.
//!
//! What an encrypted volume means for a client is the device's business: trim is [`BlockDevice::discard`], zeros are
//! [`BlockDevice::write_zeroes`], and block status says "hole" only where [`BlockDevice::extent`] does.
//!
//! [`BlockDevice::discard`]: atrest_device::BlockDevice::discard
//! [`BlockDevice::write_zeroes`]: atrest_device::BlockDevice::write_zeroes
//! [`BlockDevice::extent`]: atrest_device::BlockDevice::extent

mod connection;
mod error;
mod handshake;
mod listen;
#[cfg_attr(all(test, shuttle), allow(dead_code))] // Schedules have no time to lose.
mod polling;
mod reply;
#[cfg(all(test, shuttle))]
mod schedules;
mod server;
mod small;
#[cfg(not(all(test, shuttle)))]
mod stream;
#[cfg(all(test, shuttle))]
#[path = "schedules/stream.rs"]
mod stream;

use atrest_nbd::proto;
pub use atrest_nbd::tls::Tls;
#[cfg(feature = "tls")]
pub use atrest_nbd::tls::TlsError;
pub use error::{BindError, RunError};
pub use listen::Endpoint;
#[cfg(any(feature = "fuse", feature = "vhost-user"))]
pub(crate) use listen::Listener;
pub use server::{Options, Server, Shutdown};
