//! `atrest open`, `close`, `status`, and the options that say which volume is meant and how to unlock it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use atrest_engine::keyring;
use atrest_volume::luks2::VolumeKeyId;
use clap::builder::TypedValueParser as _;
use clap::{Args, ValueEnum};

use super::secrets::{SecretArgs, TokenArgs};
use super::size::{parse_key_bits, parse_size};
use super::tcrypt::ProtectArgs;

/// Unlock a volume and serve its plaintext: over NBD, as one file through FUSE, as a disk of a virtual machine, or as a
/// block device of the kernel.
///
/// Runs in the foreground and serves until SIGTERM or SIGINT (then writes everything back and closes), until CMD
/// of --run ends, or until `atrest close`. Once it is ready it prints one line on standard output. With --dm the kernel
/// does the encryption: nothing stays running, and `atrest close` (or cryptsetup's) removes the device.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("face").multiple(false).args(["nbd", "nbd_tcp", "fuse", "vhost_user", "dm"]),
    after_long_help = "\
Examples:
  atrest open secret.img --fuse mnt --daemon
  atrest open secret.img --fuse mnt --run sh -c 'e2fsck -f \"$ATREST_PATH\"'
  atrest open secret.img --nbd --run sh -c 'nbdcopy \"$ATREST_URI\" plain.img'
  atrest open secret.img --nbd ~/secret.sock --read-only
  atrest open secret.img --nbd-tcp 192.0.2.7:10809 --tls-cert pki --tls-verify-peer
  atrest open secret.img --vhost-user ~/secret.sock --daemon
  atrest reencrypt --init-only secret.img && atrest open secret.img --nbd --reencrypt
  atrest open secret.img --nbd --metrics ~/metrics.sock     # curl --unix-socket ~/metrics.sock http://localhost/metrics
  atrest open nbd://192.0.2.7/disk --fuse mnt
  atrest open /dev/sdx1 --dm secret && mount /dev/mapper/secret /mnt
  atrest open /dev/sdx1 --fuse mnt --type plain -c aes-xts-plain64 -s 512 --hash sha512")]
pub struct OpenArgs {
    /// File, block device or NBD URI that holds the volume.
    #[arg(required_unless_present = "nbd")]
    pub path: Option<PathBuf>,
    /// Serve over NBD on a unix socket [default: NAME.sock in the session directory].
    #[arg(long, value_name = "SOCKET", num_args = 0..=1)]
    pub nbd: Option<Option<PathBuf>>,
    /// Serve over NBD on this TCP address, such as 127.0.0.1:10809. Anyone who reaches it reads the plaintext. An address that
    /// other machines can reach needs --tls-cert.
    #[arg(long, value_name = "ADDR")]
    pub nbd_tcp: Option<std::net::SocketAddr>,
    /// Serve as the file `volume` in this empty directory through FUSE.
    #[arg(long, value_name = "DIR")]
    pub fuse: Option<PathBuf>,
    /// Serve as a virtio disk over vhost-user on this unix socket: for QEMU, cloud-hypervisor and Firecracker.
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user: Option<PathBuf>,
    /// Map it to /dev/mapper/NAME: the kernel's dm-crypt encrypts. Needs root.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "daemon", "threads", "metrics", "run"])]
    pub dm: Option<String>,
    /// Name of the open volume [default: the file name of PATH without its extension].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Refuse writes; several readers can have the volume open.
    #[arg(long)]
    pub read_only: bool,
    /// Pass trim requests to the media. Shows which data units are unused. The flag of the same name in a LUKS2
    /// header is shown by `info` and has an effect with --dm only.
    #[arg(long)]
    pub allow_discards: bool,
    /// Go on with the re-encryption that `atrest reencrypt --init-only` began, or that was interrupted, while the volume is served.
    /// When the serving ends first, the next `open --reencrypt` or `reencrypt --resume` goes on. LUKS2 whose data stays in its place.
    #[arg(long, conflicts_with_all = ["dm", "read_only", "map", "policy", "expect_key"])]
    pub reencrypt: bool,
    /// Go on in the background once the volume is served.
    #[arg(long)]
    pub daemon: bool,
    /// Map PATH into memory: long reads are decrypted from there, without a copy. Faster through FUSE above all. The pages that were
    /// read count as this process's memory, though they are the system's cache.
    #[arg(long, conflicts_with = "dm")]
    pub map: bool,
    /// Threads that encrypt and decrypt [default: one for each processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Tell requests, bytes, errors and latencies in Prometheus' text format on this unix socket (GET /metrics), to this user and
    /// root alone.
    #[arg(long, value_name = "SOCKET")]
    pub metrics: Option<PathBuf>,
    /// Give the mapping NAME, which is of this volume, other options in place, while it is in use: --allow-discards, --perf-… and
    /// --disable-keyring. What is not asked for, here or by the header, is off afterwards.
    #[arg(long, requires = "dm")]
    pub refresh: bool,
    /// Have the header (LUKS2) ask for these options of the kernel from now on, whoever opens the volume. What it asked for until now
    /// is forgotten.
    #[arg(long, requires = "dm")]
    pub persistent: bool,
    /// Map a part of a device of which other mappings or processes have other parts. Nobody watches that they do not overlap (plain mode).
    #[arg(long, requires = "dm", conflicts_with = "refresh")]
    pub shared: bool,
    /// Put the volume key into a keyring of the kernel, for whoever may read it there: KEYRING::KEY. The keyring is its number, @s (of this
    /// session), @u (of this user), @us or %:DESCRIPTION. The key is %user:DESCRIPTION, %logon:DESCRIPTION (which only the kernel reads) or
    /// DESCRIPTION. It stays there when the volume is closed.
    #[arg(long, value_name = "KEYRING::KEY", conflicts_with_all = ["reencrypt", "refresh"])]
    pub link_vk_to_keyring: Option<keyring::Place>,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub kernel: KernelArgs,
    #[command(flatten)]
    pub unlock: UnlockArgs,
    /// Run a command that finds the volume in $ATREST_URI, $ATREST_PATH or $ATREST_SOCKET, serve for as long as it runs and end
    /// with its exit code. Must come last.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, conflicts_with = "daemon",
          help_heading = None::<&'static str>)]
    pub run: Vec<OsString>,
}

impl OpenArgs {
    /// Whether anything says how the volume is served.
    pub fn has_face(&self) -> bool {
        self.nbd.is_some()
            || self.nbd_tcp.is_some()
            || self.fuse.is_some()
            || self.vhost_user.is_some()
            || self.dm.is_some()
    }

    /// PATH, and the SOCKET of --nbd. As SOCKET may be left out, `--nbd PATH` reads like `--nbd SOCKET`: the only path
    /// there is names the volume.
    pub fn path_and_socket(&self) -> Option<(&Path, Option<&Path>)> {
        let socket = self.nbd.as_ref().and_then(Option::as_deref);
        match (self.path.as_deref(), socket) {
            (Some(path), socket) => Some((path, socket)),
            (None, Some(path)) => Some((path, None)),
            (None, None) => None,
        }
    }
}

/// Who may connect over TCP.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TLS (--nbd-tcp)")]
pub struct TlsArgs {
    /// Serve nobody without TLS. DIR has server-cert.pem and server-key.pem, as for nbdkit and QEMU.
    // Not `requires`: clap lets an option that another face excludes be missing.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["nbd", "fuse", "dm"])]
    pub tls_cert: Option<PathBuf>,
    /// Serve nobody without a certificate that ca-cert.pem in DIR has signed and ca-crl.pem, if there is one, has not revoked.
    #[arg(long, requires = "tls_cert")]
    pub tls_verify_peer: bool,
    /// Serve other machines without TLS. Anyone on the network can read and write the volume, and read along.
    #[arg(long, conflicts_with_all = ["nbd", "fuse", "dm", "tls_cert"])]
    pub insecure: bool,
}

/// How the kernel's dm-crypt works on a mapping, by cryptsetup's names for it.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Kernel (--dm)")]
pub struct KernelArgs {
    /// Encrypt each request on the processor that it came from.
    #[arg(long = "perf-same_cpu_crypt", requires = "dm")]
    pub same_cpu_crypt: bool,
    /// Let the threads that encrypt writes hand them on themselves.
    #[arg(long = "perf-submit_from_crypt_cpus", requires = "dm")]
    pub submit_from_crypt_cpus: bool,
    /// Decrypt reads at once, without a work queue.
    #[arg(long = "perf-no_read_workqueue", requires = "dm")]
    pub no_read_workqueue: bool,
    /// Encrypt writes at once, without a work queue.
    #[arg(long = "perf-no_write_workqueue", requires = "dm")]
    pub no_write_workqueue: bool,
    /// Write the data and tags of an authenticated volume without a journal: faster, and what was written last when the power failed may not verify.
    #[arg(long = "integrity-no-journal", requires = "dm")]
    pub no_journal: bool,
    /// Keep the key of a LUKS2 volume out of the kernel's keyring: `dmsetup table --showkeys` shows it then.
    #[arg(long, requires = "dm")]
    pub disable_keyring: bool,
}

/// Seconds that a store is waited for. A command that lacks the option waits for as long as one that has it and is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience(pub u32);

impl Default for Patience {
    fn default() -> Self {
        Self(60)
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The journal of a sealed volume.
#[derive(Args, Clone, Debug, Default)]
pub struct JournalArgs {
    /// Keep what is flushed to a sealed volume in this local file until the store has it: a flush then waits for this disk alone, and many of
    /// them become one object. The file is made if it is not there, and belongs to this volume. It is needed to open the volume again unless
    /// that was closed in good order.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Size of a journal that is made [default: 256M].
    #[arg(long, value_name = "SIZE", requires = "journal", value_parser = parse_size)]
    pub journal_size: Option<u64>,
    /// With --journal, a flush waits for the store once something has waited to be stored for longer: what the loss of this machine may cost
    /// [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub max_lag: Option<u32>,
    /// Open a sealed volume without its journal: to read what the store has, or to write and give up what only the journal has.
    #[arg(long)]
    pub without_journal: bool,
}

/// Which volume, and how it is unlocked.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Volume")]
pub struct UnlockArgs {
    /// Kind of volume. `luks` detects whether it is LUKS1 or LUKS2.
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = VolumeType::Luks)]
    pub kind: VolumeType,
    /// The header lies in this file instead of in front of the data.
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// Try this keyslot only.
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    /// Show only this much of the plaintext, in whole data units (units: K, M, G, T; bytes without one).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Read a volume whose XTS key has two equal halves, which weakens it. Nothing is ever written with such a key.
    #[arg(long)]
    pub allow_equal_xts_halves: bool,
    /// Write although the cipher (CTR, ChaCha) is safe for a single snapshot only: whoever sees the ciphertext of a data unit
    /// before and after it was written again learns how its plaintext changed. Without this, such a volume is read-only.
    #[arg(long)]
    pub single_snapshot: bool,
    /// Trusted store of a sealed volume, or of a pinned header: the file that says how new it is. Of a pinned header also a counter of the
    /// TPM, `tpm2:0x01800001`.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Read this snapshot of a sealed volume, which a URL names, in place of its newest state.
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// How long the store of a sealed volume, which a URL names, is waited for when it does not answer: then reads fail, and may be tried
    /// again, and flushes fail for good.
    #[arg(long, value_name = "SECONDS", default_value_t, value_parser = clap::value_parser!(u32).range(1..=86_400).map(Patience))]
    pub patience: Patience,
    #[command(flatten)]
    pub journal: JournalArgs,
    /// Read a sealed volume without its trusted store. An older state of it, in whole or block by block, is then not told from the
    /// newest one.
    #[arg(long, conflicts_with = "store")]
    pub without_freshness: bool,
    /// With --without-freshness, of a volume that has lost power: what does not verify at the end of an erase block, or in its first
    /// unit, counts as never written. If it was changed instead, what is shown can be older than what was stored last.
    #[arg(long, requires = "without_freshness", conflicts_with = "store")]
    pub assume_torn: bool,
    #[command(flatten)]
    pub expect: ExpectArgs,
    #[command(flatten)]
    pub plain: PlainArgs,
    #[command(flatten)]
    pub tcrypt: TcryptArgs,
    #[command(flatten)]
    pub protect: ProtectArgs,
    #[command(flatten)]
    pub secret: SecretArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,
}

impl UnlockArgs {
    /// Whether nothing was said that only a volume has: no kind, no header, no keyslot, no secret, no token, nothing that is expected of it.
    pub fn names_no_volume(&self) -> bool {
        self.kind == VolumeType::Luks
            && self.header.is_none()
            && self.key_slot.is_none()
            && self.store.is_none()
            && self.secret.are_none()
            && !self.expect.is_there()
            && !self.tokens.are_named()
    }

    /// Whether the plaintext may be written, if it is not to be `read_only`. With a key that is weak it never is.
    pub fn writes_unless(&self, read_only: bool) -> bool {
        !read_only && !self.allow_equal_xts_halves
    }
}

/// Kinds of volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VolumeType {
    /// LUKS1 or LUKS2, whichever it is.
    #[default]
    Luks,
    /// Plain dm-crypt: no header; everything must be said here.
    Plain,
    /// loop-AES: no header. --key-file has 1, 64 or 65 lines, and may be encrypted by GnuPG.
    Loopaes,
    /// TrueCrypt or VeraCrypt, whichever it is. Neither can be told from noise without the password.
    Tcrypt,
    /// TrueCrypt alone.
    Truecrypt,
    /// VeraCrypt alone.
    Veracrypt,
    /// BitLocker: a password, a recovery password, or a startup key by --key-file.
    #[value(alias = "bitlocker")]
    Bitlk,
    /// FileVault 2 on CoreStorage (macOS up to 10.12): a password, or a recovery key with its dashes.
    #[value(alias = "filevault")]
    Fvault2,
    /// A lower directory of eCryptfs: for commands that work on files, and implied where a directory is given.
    Ecryptfs,
    /// A directory, shown by `mount` as it is: what eCryptfs is measured against.
    #[value(hide = true)]
    Directory,
}

/// What is known of a volume before it is looked at.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Expected of the volume (LUKS2)")]
pub struct ExpectArgs {
    /// Refuse the volume unless its header says what this policy allows, which `atrest header pin --policy` wrote. It is checked before
    /// anybody is asked for a passphrase.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Refuse the volume unless its key has this identifier, which `atrest header pin` and `atrest info --unlock` print. Another volume in
    /// its place has another key.
    #[arg(long, value_name = "ID")]
    pub expect_key: Option<VolumeKeyId>,
}

impl ExpectArgs {
    /// Whether anything is expected.
    pub fn is_there(&self) -> bool {
        self.policy.is_some() || self.expect_key.is_some()
    }
}

/// What a plain volume has no header for.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Volumes without a header that tells (--type plain, loopaes, tcrypt)")]
pub struct PlainArgs {
    /// Cipher as dm-crypt writes it. loop-AES: the block cipher alone [default: aes]. TrueCrypt and VeraCrypt: try only the ciphers and
    /// cascades that have this in their name.
    #[arg(long, short = 'c', value_name = "SPEC")]
    pub cipher: Option<String>,
    /// Volume key size in bits. loop-AES: of each key [default: 256].
    #[arg(long, short = 's', value_name = "BITS", value_parser = parse_key_bits)]
    pub key_size: Option<u32>,
    /// Hash that makes the key from the passphrase; `plain` uses it as it is. A key file is never hashed.
    /// loop-AES: that makes keys of lines. TrueCrypt and VeraCrypt: try only the derivations that have this in their hash's name.
    #[arg(long, value_name = "HASH")]
    pub hash: Option<String>,
    /// Start of the data on the device, in 512-byte sectors.
    #[arg(long, value_name = "SECTORS")]
    pub offset: Option<u64>,
    /// Number that the first sector's IV gets, in 512-byte sectors [default: 0; loop-AES: that of --offset].
    #[arg(long, value_name = "SECTORS")]
    pub skip: Option<u64>,
    /// Bytes encrypted under one IV: 512, 1024, 2048 or 4096 [default: 512].
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,
    /// Let IVs count data units of --sector-size instead of 512-byte sectors.
    #[arg(long)]
    pub iv_large_sectors: bool,
}

/// Which header of a TrueCrypt or VeraCrypt volume, and what its password is made of.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TrueCrypt and VeraCrypt (--type tcrypt)")]
pub struct TcryptArgs {
    /// Mix this key file into the password; of a directory every file that is not hidden. Can be said several times, in any order.
    #[arg(long, value_name = "PATH")]
    pub tcrypt_keyfile: Vec<PathBuf>,
    /// Open the hidden volume.
    #[arg(long)]
    pub tcrypt_hidden: bool,
    /// Open by the copy of the header near the end.
    #[arg(long)]
    pub tcrypt_backup: bool,
    /// Open an encrypted system: PATH is its whole drive, an image of that, or a partition of it, for whose image `--header` names the drive.
    #[arg(long, conflicts_with_all = ["tcrypt_hidden", "tcrypt_backup"])]
    pub tcrypt_system: bool,
    /// VeraCrypt's personal iterations multiplier.
    #[arg(long, value_name = "PIM", conflicts_with = "veracrypt_query_pim")]
    pub veracrypt_pim: Option<u32>,
    /// Ask for the personal iterations multiplier, behind the password.
    #[arg(long)]
    pub veracrypt_query_pim: bool,
}

impl TcryptArgs {
    /// Whether nothing is said.
    pub fn are_none(&self) -> bool {
        self.tcrypt_keyfile.is_empty()
            && !self.tcrypt_hidden
            && !self.tcrypt_backup
            && !self.tcrypt_system
            && self.veracrypt_pim.is_none()
            && !self.veracrypt_query_pim
    }
}

/// Write everything back and stop serving an open volume.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest close secret          # one that atrest serves, or else /dev/mapper/secret
  atrest close --deferred secret
  atrest close ~/volumes/secret.img")]
pub struct CloseArgs {
    /// A mapping of the kernel that is in use goes as soon as nobody uses it any more.
    #[arg(long, conflicts_with = "cancel_deferred")]
    pub deferred: bool,
    /// Keep a mapping that --deferred would have removed.
    #[arg(long)]
    pub cancel_deferred: bool,
    /// Name of the open volume, or the path it was opened from. A mapping of the kernel is known by its name only.
    pub name: PathBuf,
}

/// Show which volumes are open, those that the kernel encrypts among them (they are told to root only).
///
/// With NAME or --json it also shows what each was asked for since it was opened: requests, bytes, errors and latencies. A
/// process that does not answer within 2 s is shown without.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest status
  atrest status secret
  atrest status --json secret | jq '.[].metrics.operations.read.requests'")]
pub struct StatusArgs {
    /// Show this one only: the name of an open volume, or the path it was opened from.
    pub name: Option<PathBuf>,
}
