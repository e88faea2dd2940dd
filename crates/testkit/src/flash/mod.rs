//! Flash media in memory, with the rules of real ones, their faults, power loss and an adversary.
//!
//! * [`FlashImage`]: what a medium holds. Blocks are shared until they change, so a snapshot before every operation is cheap.
//! * [`EmulatedFlash`]: a [`FlashDevice`](atrest_device::FlashDevice) over an image. A unit is programmed once between two
//!   erases, bad blocks fail in one of five ways, wear is counted, every operation can be recorded.
//! * [`FlashRecording`]: everything that happened, from which [`PowerCut`]s make what a power loss at any operation leaves.
//! * [`EmulatedCard`]: a memory card, that loses any of what was written since the last sync, sector by sector.
//! * [`TrustedMemory`]: the store that the adversary can't reach.
//! * [`Adversary`]: every version of every unit and block that a recording saw, put back, moved or damaged.
//! * [`WrongReads`]: reads that give something else than the medium holds.
//! * [`Refusals`]: operations that report an error, and what was sent to the medium in them.
//!
//! What we assume of the media: a cut operation may have happened not at all, in part of its bytes, in part of its bits,
//! as garbage, or as something that its error-correcting code refuses to read; its unit (for an erase its block) only.
//! Media with a cache lose any of the operations since the last sync, in any order but that of a block's erase.

mod adversary;
mod card;
mod emulated;
mod image;
mod power_cut;
mod refusals;
pub mod sealed_model;
mod shared;
mod trusted;
mod wrong_reads;

pub use adversary::{Adversary, Attack};
pub use card::{CardCut, CardRecording, EmulatedCard};
pub use emulated::{BadBlock, EmulatedFlash, Wear};
pub use image::{FlashImage, Tear};
pub use power_cut::{Caching, FlashOp, FlashRecording, PowerCut};
pub use refusals::{Refusals, Withheld};
pub use shared::SharedFlash;
pub use trusted::{TrustedMemory, TrustedRecord, TrustedWrite};
pub use wrong_reads::WrongReads;
