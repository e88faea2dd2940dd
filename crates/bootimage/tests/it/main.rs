//! The tests of this crate that are no programs of their own: one program links in the time of one.

mod cpio;
mod fit;
mod initramfs;
mod sign;
mod uboot;
mod verdict;
