//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod board;
mod comments;
mod crash;
mod crate_graph;
mod dependencies;
mod drivers;
mod ecryptfs_mount;
mod embedded;
mod faces_fuse;
mod faces_nbd;
mod fallbacks;
mod features;
mod flash_media;
mod forwards;
mod guide;
mod interop_matrix;
mod interop_operations;
mod interop_qemu;
mod kernel;
mod kernel_oracle;
mod mkinitcpio;
mod module_graph;
mod no_c;
mod published;
mod random;
mod reencrypt;
mod reencrypt_online;
mod sealed_model;
mod unprivileged;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod valgrind;
