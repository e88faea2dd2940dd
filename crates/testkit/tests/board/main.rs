//! What boots: an emulated aarch64 board with the real U-Boot and the real kernel. One program, so that two boards run at a time: each keeps one core busy.

mod figures;
mod images;
mod mkimage;
mod system;
mod unlock;
