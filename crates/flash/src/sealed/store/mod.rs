//! Trusted stores of a controller. FORMATS.md, "Sealed flash", has the bytes.

mod counter;
mod log;
mod pages;
mod slots;

pub use counter::{CounterStore, ENTRY_LEN, MonotonicCounter};
pub use pages::PageStore;
pub use slots::{ElementSlots, SlotStore};

use super::{FlashDevice, TrustedStore, twin};
pub use crate::sealed::frame::FRAME_LEN;
