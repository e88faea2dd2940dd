//! Trusted stores of a controller. FORMATS.md, "Sealed flash", has the bytes.

mod frame;
mod pages;
mod slots;

pub use frame::FRAME_LEN;
pub use pages::PageStore;
pub use slots::{ElementSlots, SlotStore};
