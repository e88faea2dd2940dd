//! `atrest fit`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Make, show and check U-Boot's images: kernel, device trees and initramfs in one file.
#[derive(Debug, Subcommand)]
pub enum FitCommand {
    Build(Box<FitBuildArgs>),
    Info(FitInfoArgs),
    Verify(FitVerifyArgs),
    Script(FitScriptArgs),
}

/// Make a FIT. The same input gives the same file; times are that of SOURCE_DATE_EPOCH, or 0.
///
/// Hashes tell a damaged image from a whole one. They authenticate nothing: whoever changes an image changes its hash.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest fit build -o image.ub --arch arm64 --kernel Image --load 0x200000 --fdt system.dtb
  atrest fit build -o image.ub --arch arm64 --kernel Image --load 0x200000 --sign-key dev.key
  atrest fit build -o image.ub --arch arm64 --kernel Image --load 0x200000 --fdt system.dtb --ramdisk initramfs.img
  atrest fit build -o image.ub --arch arm64 --kernel Image --load 0x200000 --fdt a=a.dtb --fdt b=b.dtb \\
      --configuration conf-a=kernel-1,a --configuration conf-b=kernel-1,b --default conf-b --hash sha256 --hash crc32
  atrest fit build -o image.ub --arch arm64 --kernel Image --load 0x200000 --sign-key dev.key --key-dtb u-boot.dtb")]
pub struct FitBuildArgs {
    /// File to write.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: PathBuf,
    /// Architecture, as U-Boot calls it: arm64, arm, riscv, x86_64, x86, mips, powerpc …
    #[arg(long, value_name = "NAME")]
    pub arch: String,
    /// Kernel [default names: kernel-1, kernel-2, …].
    #[arg(long = "kernel", value_name = "[NAME=]FILE", required = true)]
    pub kernels: Vec<String>,
    /// Address that kernels are loaded to.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub load: u64,
    /// Address that they begin at [default: that of --load].
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub entry: Option<u64>,
    /// How kernels are compressed: none, gzip, bzip2, lzma, lzo, lz4 or zstd. U-Boot unpacks them.
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub compression: String,
    /// Device tree [default names: fdt-1, fdt-2, …].
    #[arg(long = "fdt", value_name = "[NAME=]FILE")]
    pub fdts: Vec<String>,
    /// Address that device trees are loaded to [default: U-Boot's choice].
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub fdt_load: Option<u64>,
    /// Initramfs, compressed or not [default names: ramdisk-1, ramdisk-2, …].
    #[arg(long = "ramdisk", value_name = "[NAME=]FILE")]
    pub ramdisks: Vec<String>,
    /// Address that initramfs are loaded to [default: U-Boot's choice].
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub ramdisk_load: Option<u64>,
    /// Configuration: what is booted together, by the names of images [default: one for each device tree, conf-1, conf-2, …, with
    /// the first kernel and initramfs].
    #[arg(long = "configuration", value_name = "NAME=IMAGE,…")]
    pub configurations: Vec<String>,
    /// Configuration that is booted when none is named [default: the first].
    #[arg(long, value_name = "NAME")]
    pub default: Option<String>,
    /// Hash of each image, more than one if need be [default: sha256].
    #[arg(long = "hash", value_enum, value_name = "NAME")]
    pub hashes: Vec<HashName>,
    /// Text for people.
    #[arg(long, value_name = "TEXT", default_value = "kernel, device tree and initramfs")]
    pub description: String,
    /// Put the images behind the tree instead of in it, as mkimage -E does.
    #[arg(long)]
    pub external: bool,
    #[command(flatten)]
    pub signature: SignatureArgs,
}

/// Who signs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Signature")]
pub struct SignatureArgs {
    /// Sign each configuration with this RSA key (PEM, 2048, 3072 or 4096 bits, no passphrase).
    #[arg(long, value_name = "FILE")]
    pub sign_key: Option<PathBuf>,
    /// Name of the key in U-Boot's control tree [default: name of the file without suffix].
    #[arg(long, value_name = "NAME", requires = "sign_key")]
    pub key_name: Option<String>,
    /// Hash that is signed: sha256, sha384 or sha512 [default: sha256].
    #[arg(long, value_enum, value_name = "NAME", requires = "sign_key")]
    pub sign_hash: Option<HashName>,
    /// Pad with PSS instead of PKCS #1 1.5. The same input then gives another signature each time.
    #[arg(long, requires = "sign_key")]
    pub pss: bool,
    /// Add the public key to this device tree, U-Boot's control tree, in one step: that U-Boot then refuses what is not signed.
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    pub key_dtb: Option<PathBuf>,
}

/// Show what is in a FIT.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest fit info image.ub
  atrest fit info image.ub --json")]
pub struct FitInfoArgs {
    /// The FIT.
    pub file: PathBuf,
}

/// Hold a FIT against its hashes, and against what U-Boot wants of it.
///
/// Good hashes say that nothing is damaged, and nothing of who made it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest fit verify image.ub
  atrest fit verify image.ub --public-key dev.pub")]
pub struct FitVerifyArgs {
    /// The FIT.
    pub file: PathBuf,
    /// Want each configuration to be signed by this key (PEM), or another that is named.
    #[arg(long = "public-key", value_name = "FILE")]
    pub public_keys: Vec<PathBuf>,
    /// Want each configuration to be signed by a key of this device tree, U-Boot's control tree.
    #[arg(long, value_name = "FILE")]
    pub key_dtb: Option<PathBuf>,
}

/// Make boot.scr of a script for U-Boot, as mkimage -T script does.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest fit script boot.txt -o boot.scr --arch arm64
  atrest fit script boot.txt -o boot.scr --arch arm --json")]
pub struct FitScriptArgs {
    /// Text of U-Boot's commands.
    pub script: PathBuf,
    /// File to write.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: PathBuf,
    /// Architecture, as U-Boot calls it.
    #[arg(long, value_name = "NAME", default_value = "arm64")]
    pub arch: String,
    /// Title, at most 31 bytes.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub title: String,
}

/// A hash that U-Boot knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HashName {
    /// A checksum of 4 bytes.
    Crc32,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

fn parse_address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "not an address: write 0x200000 or a decimal number".into())
}
