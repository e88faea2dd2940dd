//! U-Boot's images: a FIT, which is a device tree with a kernel, device trees and a ramdisk in it, and the older uImage
//! that its scripts are in.

mod build;
mod error;
mod hash;
mod key;
mod read;
mod sign;
#[cfg(test)]
mod tests;
mod uimage;
mod verify;

pub use build::{ConfigSpec, FitSpec, ImageKind, ImageSpec, build};
pub use error::{BuildError, FitError};
pub use hash::HashKind;
pub use key::{KeyError, PrivateKey, PublicKey, Scheme};
pub use read::{Fit, Image, is_fit};
pub use sign::{SignSpec, build_signed};
pub use uimage::{ARCHITECTURES, ScriptError, script};
pub use verify::{
    ConfigCheck, HashCheck, HashState, ImageCheck, Report, SignatureCheck, SignatureState, verify,
};
