//! What the tests of every room stand on; never part of a build that ships.
//!
//! * [`fault`] and [`power_loss`]: a memory device that fails on demand, records what was written and replays every
//!   state in which a power loss could have left it; [`window`]: a part of one.
//! * [`flash`]: the same for flash media, which are erased and programmed, and an adversary who puts old contents back.
//! * [`crash`]: what a volume may hold after its server was killed.
//! * [`torn`]: a memory device whose writes are seen half done; [`discards`]: one that notes what is discarded;
//!   [`shaped`]: one with blocks of another size.
//! * [`firmware`]: microcontrollers under emulation.
//! * [`board`]: an aarch64 board under emulation that boots Linux with U-Boot.
//! * [`oracle`], [`cryptsetup`], [`kernel`]: independent implementations. What is missing fails with the command that
//!   installs it; nothing passes by skipping.
//! * [`nbd`]: a client of NBD that shares no code with ours; [`nbd_server`]: the servers that people use.
//! * [`authenticator`]: a FIDO2 security key in software, by OpenSSL; [`swtpm`]: a TPM in software; [`tang`]: a server of
//!   tang; [`liar`]: what hostile ones answer.
//! * [`bitlocker`]: volumes of BitLocker, made by libgcrypt.
//! * [`fvault2`]: volumes of FileVault 2, made by libgcrypt.
//! * [`tcrypt`]: volumes of TrueCrypt and VeraCrypt, made by libgcrypt; [`tcplay`]: those of tcplay.
//! * [`s3_server`]: a server of S3 that is not ours; [`s3_proxy`]: what stands before it, counts, and has it hang or break off.
//! * [`azurite`]: a server of Azure Blob Storage that is not ours.
//! * [`gcs_server`]: a server of Google Cloud Storage that is not Google's.
//! * [`pki`]: certificates for TLS.
//! * `valgrind`: branches and addresses that depend on secrets, in a test's own code (x86-64 alone).
//! * `schedules`: threads that take turns as a test says (`--cfg shuttle` alone).
//! * [`memory`]: the memory of a test's own process, searched for keys.
//! * [`atrest`]: the program under test, as a user runs it.
//! * [`scratch`]: a directory for one test, and programs that run in it.
//! * [`campaign`], [`random`]: seeded samples of long campaigns, each case replayable from the seed that it prints.
//! * [`property`]: properties over generated values, which are made small when one fails.
//! * [`needs`]: what a test asks of the machine, how it tells what it leaves out, and how it waits.
//! * [`again`]: a test that runs itself in a process of its own.
#![deny(unsafe_code)] // but for one instruction sequence in `valgrind`

pub mod again;
pub mod atrest;
pub mod authenticator;
pub mod azurite;
pub mod bitlocker;
pub mod board;
pub mod campaign;
pub mod crash;
pub mod cryptsetup;
pub mod discards;
pub mod fault;
pub mod firmware;
pub mod flash;
pub mod fvault2;
pub mod gcs_server;
pub mod kernel;
pub mod liar;
pub mod memory;
pub mod nbd;
pub mod nbd_server;
pub mod needs;
pub mod oracle;
pub mod pki;
pub mod power_loss;
pub mod property;
pub mod random;
pub mod rings;
pub mod s3_proxy;
pub mod s3_server;
#[cfg(shuttle)]
pub mod schedules;
pub mod scratch;
pub mod shaped;
mod softhsm;
pub mod swtpm;
pub mod tang;
pub mod tcplay;
pub mod tcrypt;
pub mod torn;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub mod valgrind;
pub mod window;

pub use authenticator::{SecurityKeyKind, SoftKey};
pub use azurite::Azurite;
pub use campaign::Campaign;
pub use discards::DiscardDevice;
pub use fault::FaultDevice;
pub use gcs_server::GcsServer;
pub use nbd_server::NbdServer;
pub use needs::wait_until;
pub use pki::Pki;
pub use random::Random;
pub use s3_proxy::{Counts, Manner, S3Proxy};
pub use s3_server::S3Server;
pub use scratch::Scratch;
pub use shaped::ShapedDevice;
pub use softhsm::SoftCards;
pub use swtpm::Swtpm;
pub use tang::Tang;
pub use torn::TornDevice;
pub use window::Window;
