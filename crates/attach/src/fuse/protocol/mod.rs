//! The kernel's FUSE protocol (fuse(4); Linux, include/uapi/linux/fuse.h), as bytes and as what they mean. No I/O here.
//!
//! Numbers are in the machine's own byte order.

pub mod abi;
mod attributes;
mod init;
mod listing;
mod reply;
mod request;

#[cfg(target_endian = "big")]
pub use atrest_codec::Be as Native;
#[cfg(target_endian = "little")]
pub use atrest_codec::Le as Native;

pub use attributes::{FileAttributes, kind_bits};
pub use init::{MAX_TRANSFER, Offer, Wishes};
pub use listing::Listing;
pub use reply::{Reply, notice_of_entry, notice_of_node, reply_header};
pub use request::{Body, Header, Request, operation_len};
