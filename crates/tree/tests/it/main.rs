//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod chacha20;
mod ecryptfs_file;
mod ecryptfs_kernel;
mod ecryptfs_kernel_reads;
mod ecryptfs_tree;
mod ecryptfs_wrapped;
mod fscrypt;
mod fscrypt_overwrite;
mod lower;
mod lower_ecryptfs;
mod lower_listing;
mod lower_nodes;
mod metadata;
mod model;
mod protectors;
mod refusals;
