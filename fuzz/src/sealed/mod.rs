//! Sealed flash: a volume in use whose power fails and whose medium others write, and what its store holds.

mod attacks;
mod rig;
mod store;
mod used;

pub use store::sealed_store;
pub use used::sealed_flash;
