//! The tests of FUSE once more, with its requests on rings of io_uring.

mod common;
#[path = "it/fuse.rs"]
mod fuse;
#[path = "it/fuse_any.rs"]
mod fuse_any;
#[path = "it/fuse_tree.rs"]
mod fuse_tree;
#[path = "common/transport.rs"]
mod transport;

const RINGS: bool = true;
