//! What boots: an emulated aarch64 board with the real U-Boot and the real kernel. One program, so that two boards run at a time: each keeps one core busy.

mod figures;
mod fit;
mod images;
mod system;
mod unlock;
