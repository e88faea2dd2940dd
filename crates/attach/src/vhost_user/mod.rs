//! The vhost-user face: a virtio block device for a virtual machine, by the vhost-user protocol (QEMU's
//! docs/interop/vhost-user.rst) and section 5.2 of the virtio specification 1.2.
//!
//! The virtual machine monitor (the *front-end*: QEMU, cloud-hypervisor, Firecracker) connects to a Unix socket and
//! shares the guest's memory. The guest's requests then come through that memory, without a copy through a socket.
//!
//! Offered: read, write, flush, discard, write zeroes, the device's ID, up to 64 queues, indirect descriptors, event
//! indexes. One front-end is served at a time; when it has gone, the next can connect. Not offered: migration,
//! descriptors in flight that survive this process (`INFLIGHT_SHMFD`), memory that is plugged in while the guest runs,
//! packed queues.
//!
//! The guest is not trusted, and it can change its memory at any time. So each descriptor is read once, and data is copied
//! between the guest's memory and buffers of our own: the guest never sees a byte that is half decrypted. A
//! chain of descriptors that breaks the rules costs that request, and a queue that breaks them costs that queue.
//! Memory does not depend on what the guest asks for: 256 KiB for each request that is carried out at the same time.
//!
//! The front-end is trusted as far as it runs as the user whose volume this is, or as root. If it shortens the file that
//! holds the guest's memory, this process ends by SIGBUS.

mod config;
mod disk;
mod front_end;
mod memory;
mod request;
mod ring;
mod server;

pub use crate::nbd::{BindError, RunError};
pub use server::{Options, Server, Shutdown};
