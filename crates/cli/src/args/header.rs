//! `atrest info`, `header …`, `erase` and `repair`: the header as a whole.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::key::TargetArgs;
use super::open::VolumeType;
use super::secrets::{KeyslotArgs, PassphraseArgs};
use super::size::parse_size;
use super::tcrypt::{NarrowArgs, TcryptTargetArgs};

/// Show what a volume's header says. Needs no passphrase, but for TrueCrypt and VeraCrypt, and writes nothing.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest info secret.img
  atrest info --json secret.img
  atrest info --metadata secret.img
  atrest info --header head.img /dev/sdx1
  atrest info --type veracrypt container.hc        # asks for the password: nothing can be told without it
  atrest info --type veracrypt --hash sha512 --cipher aes container.hc     # tries less")]
pub struct InfoArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Show the JSON metadata of a LUKS2 header as it is stored, in the form of `cryptsetup luksDump --dump-json-metadata`.
    #[arg(long)]
    pub metadata: bool,
    /// Unlock a LUKS volume, too, and show the identifier of its key, for `--expect-key`.
    #[arg(long, conflicts_with = "metadata")]
    pub unlock: bool,
    /// Warn of keyslots that need more memory than this, as in 512M: that of the machine that will unlock [default: what this machine has left].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub for_memory: Option<u64>,
    #[command(flatten)]
    pub foreign: TcryptTargetArgs,
    #[command(flatten)]
    pub narrow: NarrowArgs,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Print the UUID of a LUKS volume. Exit code 4 if it is none.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest uuid secret.img
  atrest uuid --header head.img /dev/sdx1")]
pub struct UuidArgs {
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Say by the exit code alone whether a file or device is a LUKS volume: 0 if it is, 4 if not.
///
/// A header of which only one copy is whole counts. With --json the answer is printed, too.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest is-luks /dev/sdx1 && echo yes
  atrest is-luks --type luks2 secret.img")]
pub struct IsLuksArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// It is to be of this version.
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    pub kind: Option<LuksVersion>,
}

/// Versions of LUKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LuksVersion {
    /// LUKS1.
    Luks1,
    /// LUKS2.
    Luks2,
}

/// Save, restore and relabel a volume's header.
#[derive(Debug, Subcommand)]
pub enum HeaderCommand {
    Backup(HeaderBackupArgs),
    Restore(HeaderRestoreArgs),
    Set(HeaderSetArgs),
    Pin(HeaderPinArgs),
}

/// Write header and keyslots to a new file (mode 0600), in cryptsetup's backup format.
///
/// A passphrase that is removed later still opens the backup: keep it as safe as the passphrase.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest header backup secret.img secret.header
  atrest header backup --type veracrypt container.hc container.header")]
pub struct HeaderBackupArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Kind of volume: luks, or tcrypt, truecrypt, veracrypt. Of these three the normal header and the hidden one are saved together, without a
    /// password, as VeraCrypt saves them.
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = VolumeType::Luks, hide_possible_values = true)]
    pub kind: VolumeType,
    /// File to create; it must not exist.
    pub file: PathBuf,
}

/// Write a saved header and its keyslots back. The passphrases are those of the backup afterwards.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest header restore secret.img secret.header
  atrest header restore --yes /dev/sdx1 secret.header
  atrest header restore --replace-other-volume secret.img other.header
  atrest header restore --type veracrypt container.hc container.header     # asks for the password of the backup
  atrest header restore --type veracrypt --tcrypt-backup container.hc      # from the copy near the end")]
pub struct HeaderRestoreArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// The backup. TrueCrypt and VeraCrypt: with --tcrypt-backup the volume's own copy.
    #[arg(required_unless_present = "tcrypt_backup", conflicts_with = "tcrypt_backup")]
    pub file: Option<PathBuf>,
    /// Restore also where the present header is another volume's (other UUID or kind), or lays the data out
    /// otherwise. What was written with the present header can't be read afterwards. --yes does not cover this.
    #[arg(long)]
    pub replace_other_volume: bool,
    #[command(flatten)]
    pub foreign: TcryptTargetArgs,
    #[command(flatten)]
    pub narrow: NarrowArgs,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Set label, subsystem (LUKS2) or UUID. An empty value clears a label.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("what").required(true).multiple(true).args(["label", "subsystem", "uuid"]),
    after_long_help = "\
Examples:
  atrest header set secret.img --label archive
  atrest header set secret.img --uuid 2e8a3a4c-6f0e-4b55-9c9c-3d0a0c6f2a11")]
pub struct HeaderSetArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// New label (LUKS2).
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// New subsystem label (LUKS2).
    #[arg(long, value_name = "NAME")]
    pub subsystem: Option<String>,
    /// New UUID.
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Pin a LUKS2 header: a MAC under the volume key over all that it says. A header that is changed without the key is refused from then on.
///
/// Changes by atrest renew the pin. It is a token that other programs keep and pass over; what they change has to be accepted.
/// A policy file beside the volume also keeps out a header without a pin, and another volume.
#[derive(Args, Debug)]
#[command(after_long_help = "\
An older pinned header of the same volume is told by a policy file, if it is older than that file, or by a trusted store, which every
`header pin --store` tells of the header and `open --store` compares with it. Without either it is not told. A store is a file out of an
attacker's reach, or a counter of the TPM, which is made at an index from 0x01800000 on. `atrest token remove` takes the pin away.

Examples:
  atrest header pin secret.img --policy secret.policy
  atrest open secret.img --fuse mnt --policy secret.policy
  atrest header pin secret.img --store /root/secret.store
  atrest open secret.img --fuse mnt --store /root/secret.store
  atrest header pin secret.img --store tpm2:0x01800001
  atrest header pin secret.img --accept               # after cryptsetup has changed the header")]
pub struct HeaderPinArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Write what the header says, the identifier of the volume key and the number of this pin to this file, for `open --policy`.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Show what was changed since the header was pinned, ask, and pin it as it is now.
    #[arg(long)]
    pub accept: bool,
    #[command(flatten)]
    pub by: KeyslotArgs,
}

/// Wipe every keyslot. The data can't be read any more, unless there is a header backup or the volume key.
///
/// With --store, no copy of the header opens a sealed volume any more.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest erase secret.img
  atrest erase --yes /dev/sdx1
  atrest erase --store card.store card.img")]
pub struct EraseArgs {
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Mend a header: rewrite a damaged copy from the good one (LUKS2, flash), correct known faults (LUKS1), complete the zone in which a
/// re-encryption was interrupted, add a verification to one of old versions. With --store, mend a sealed volume, too.
#[derive(Args, Debug)]
#[command(after_long_help = "\
A re-encryption in progress is verified with its keys, so that a passphrase is asked for. One that has no verification, as cryptsetup
before 2.4.3 began them, gets one after a question: look at `atrest info` first, since somebody else may have made it.

With --store a sealed volume is opened and every unit of it is read. A unit with one wrong bit is restored. What can't be restored is
listed by erase block and unit, and by file. If the trusted store does not confirm the medium, what the medium holds is anchored anew
after a question: parts of it may then be older than what was stored last. The same goes for the header: passphrases that were removed
may then open the volume again. Exit code 4 says that something could not be restored.

Examples:
  atrest repair secret.img
  atrest repair --yes --header head.img /dev/sdx1
  atrest repair --store card.store card.img
  atrest repair --store card.store --key-file key --yes --json card.img")]
pub struct RepairArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub secret: PassphraseArgs,
}
