//! The carry-less multipliers, one file per instruction set, and HCTR2 with each AES beside them.

#[cfg(target_arch = "x86_64")]
mod pclmul;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod pmull;
