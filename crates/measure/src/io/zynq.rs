//! The article's figures: a Zynq UltraScale+ ZCU111, its root file system on an SD card with LUKS2.

/// Where the figures come from.
pub const SOURCE: &str = "the article \"[ZYNQ] enabling the cryptsetup on ramdisk\" (ZCU111, SD card, AES-XTS with 256 bits, in software)";

/// MiB that were written, then read.
pub const SIZES: [u64; 8] = [10, 50, 100, 150, 200, 500, 1000, 2000];

/// MiB/s of writing by size: plain, and encrypted in software.
pub const WRITE: [(f64, f64); 8] = [
    (12.66, 13.16),
    (12.82, 13.48),
    (13.07, 12.94),
    (13.00, 13.04),
    (12.94, 12.92),
    (13.56, 13.70),
    (14.89, 14.03),
    (15.95, 14.90),
];

/// MiB/s of reading by size, likewise.
pub const READ: [(f64, f64); 8] = [
    (22.73, 21.74),
    (22.83, 22.83),
    (22.83, 22.83),
    (22.83, 22.83),
    (22.86, 22.83),
    (22.84, 22.83),
    (22.85, 22.84),
    (22.84, 22.84),
];

/// Random requests of 4 KiB per second that it quotes, by file system: plain and encrypted. Their queue depth it does not say.
pub const IOPS: [(&str, f64, f64); 2] = [("ext4", 3730.0, 3614.0), ("btrfs", 3802.0, 3721.0)];

/// The article's rows for a size in bytes: MiB/s of writing and of reading, each plain and encrypted.
pub fn row(size: u64) -> Option<((f64, f64), (f64, f64))> {
    let i = SIZES.iter().position(|mib| mib << 20 == size)?;
    Some((*WRITE.get(i)?, *READ.get(i)?))
}
