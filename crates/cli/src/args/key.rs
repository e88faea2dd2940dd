//! `atrest key …`: keyslots and the passphrases in them.

use std::path::PathBuf;

use atrest_engine::keyring;
use clap::{Args, Subcommand, ValueEnum};

use super::enrol::EnrolArgs;
#[cfg(feature = "whole")]
use super::factor::{FactorArg, NewFactorArgs};
use super::format::PbkdfArgs;
use super::open::ExpectArgs;
use super::secrets::{NewPassphraseArgs, PassphraseArgs, SecretArgs, TokenArgs};
use super::size::parse_key_bits;
use super::tcrypt::{ChangedTcryptArgs, TcryptTargetArgs};

/// Add, change, remove, test and list the passphrases of a volume.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    Add(KeyAddArgs),
    Change(KeyChangeArgs),
    #[cfg(feature = "whole")]
    Replace(KeyReplaceArgs),
    Remove(KeyRemoveArgs),
    Kill(KeyKillArgs),
    Test(KeyTestArgs),
    List(KeyListArgs),
    Export(KeyExportArgs),
    Priority(KeyPriorityArgs),
    #[cfg(feature = "whole")]
    Remember(KeyRememberArgs),
    #[cfg(feature = "whole")]
    Forget(KeyForgetArgs),
}

/// The volume whose keyslots are meant.
#[derive(Args, Clone, Debug)]
pub struct TargetArgs {
    /// File, block device or NBD URI that holds the volume.
    pub path: PathBuf,
    /// The header lies in this file instead of in front of the data.
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// Trusted store of a sealed volume. Commands that change keyslots need it. Commands that unlock one look first whether it belongs to
    /// the volume and finds it as it was left. `info` shows what it says, unverified. Of a pinned header: the store that `header pin` has
    /// made, a file or a counter of the TPM (`tpm2:0x01800001`), which refuses an older header and is told of the change.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// Give the volume one more passphrase, or let a TPM, a security key, a server or a recovery key open it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key add secret.img
  atrest key add secret.img --key-file old.key --new-key-file new.key --new-key-slot 3
  atrest key add card.img --store card.store
  atrest key add secret.img --tpm2 --pcrs 7+11 --pin
  atrest key add secret.img --fido2 --pin
  atrest key add secret.img --tang http://10.0.0.1
  atrest key add secret.img --pkcs11 'pkcs11:token=work;object=disk'
  atrest key add secret.img --recovery
  atrest key add secret.img --any 2 tpm2 fido2 passphrase
  atrest key add secret.img --any 2 tpm2 tang=http://10.0.0.1 tang=http://10.0.0.2
  atrest key add secret.img --volume-key-file vk.bin --new-passphrase-fd 3 3< pass.txt
  atrest key add secret.img --unbound --key-size 256 --new-key-slot 5")]
pub struct KeyAddArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Keyslot that the existing passphrase opens [default: try all].
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    /// Keyslot for the new passphrase [default: the first free one].
    #[arg(long, value_name = "N")]
    pub new_key_slot: Option<u32>,
    /// Store a key that is not the volume's (LUKS2): random, or the one in --volume-key-file.
    #[arg(long)]
    pub unbound: bool,
    /// Size of a random unbound key in bits.
    #[arg(long, short = 's', value_name = "BITS", value_parser = parse_key_bits, requires = "unbound")]
    pub key_size: Option<u32>,
    /// Priority of the new keyslot (LUKS2).
    #[arg(long, value_name = "PRIORITY", value_enum)]
    pub priority: Option<Priority>,
    /// Take the new passphrase from this token of the header, and let the token open the new keyslot (LUKS2).
    #[arg(long, value_name = "N", conflicts_with_all = ["new_key_file", "new_passphrase_fd", "new_words", "unbound"])]
    pub new_token_id: Option<u32>,
    #[command(flatten)]
    pub secret: SecretArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,
    #[command(flatten)]
    pub new: NewPassphraseArgs,
    #[command(flatten)]
    pub enrol: EnrolArgs,
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,
}

/// Replace one passphrase by another. The new one is on the media before the old one goes.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key change secret.img
  atrest key change secret.img --key-slot 1 --key-file old.key --new-key-file new.key
  atrest key change card.img --keep-passphrase --garlic 14
  atrest key change container.hc --type veracrypt --hash sha256")]
pub struct KeyChangeArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Keyslot whose passphrase is changed [default: the one that the passphrase opens].
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    /// Keyslot for the new passphrase [default: the same (LUKS2), the first free one (LUKS1)]. The same one in LUKS1 is
    /// overwritten in place: a power loss in the middle loses it.
    #[arg(long, value_name = "N")]
    pub new_key_slot: Option<u32>,
    /// Keep the passphrase, and derive its key in another way or at another cost.
    #[arg(long, conflicts_with_all = ["new_key_file", "new_passphrase_fd", "new_words"])]
    pub keep_passphrase: bool,
    #[command(flatten)]
    pub foreign: TcryptTargetArgs,
    #[command(flatten)]
    pub changed: ChangedTcryptArgs,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
    #[command(flatten)]
    pub new: NewPassphraseArgs,
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,
}

/// Put another factor in the place of one that was lost, in a keyslot that any few of several factors open.
///
/// The others need not be there: whoever has the volume key, by them or by another keyslot, gives all of them new shares. The new keyslot is on
/// the media before the old one is wiped. A token of clevis keeps its keyslot and its other shares; then as many of these must open as it needs,
/// and the old factor still counts.
#[cfg(feature = "whole")]
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key list secret.img
  atrest key replace secret.img 2 fido2-pin
  atrest key replace secret.img 2 recovery --token-only
  atrest key replace secret.img 3 tang=http://10.0.0.3 --of 1 --key-file other.key")]
pub struct KeyReplaceArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Number of the factor, as `atrest key list` shows it.
    pub number: u8,
    /// The new factor: tpm2, tpm2-pin[=FILE], fido2, fido2-pin[=FILE], tang=URL, pkcs11=URI, passphrase[=FILE] or recovery.
    pub factor: FactorArg,
    /// Number of the token whose factor it is [default: the only one that has several].
    #[arg(long, value_name = "N")]
    pub of: Option<u32>,
    #[command(flatten)]
    pub new: NewFactorArgs,
    #[command(flatten)]
    pub by: super::secrets::KeyslotArgs,
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,
}

/// Remove a passphrase: the keyslot it opens is wiped. Or remove everything of a kind.
///
/// With --kind a passphrase of a keyslot that stays is asked for first; --yes alone skips that. The tokens of the keyslots go with them.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key remove secret.img
  atrest key remove secret.img --key-file lost.key --yes
  atrest key remove secret.img --kind tpm2,fido2
  atrest key remove card.img --store card.store")]
pub struct KeyRemoveArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Wipe all keyslots that are opened by this (LUKS2). Several are joined by commas.
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub kind: Vec<KeyKind>,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Wipe a keyslot by its number, without its passphrase.
///
/// Asks for a passphrase of another keyslot first, so that nobody locks himself out; --yes skips that.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key kill secret.img 1
  atrest key kill secret.img 1 --key-file other.key
  atrest key kill secret.img 1 --yes")]
pub struct KeyKillArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Number of the keyslot.
    pub slot: u32,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Say whether a passphrase opens the volume, and which keyslot.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key test secret.img
  atrest key test secret.img --key-file key.bin --key-slot 0 --json
  atrest key test secret.img --policy secret.policy")]
pub struct KeyTestArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Try this keyslot only.
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    /// Put the volume key into a keyring of the kernel, for whoever may read it there: KEYRING::KEY. The keyring is its number, @s (of this
    /// session), @u (of this user), @us or %:DESCRIPTION. The key is %user:DESCRIPTION, %logon:DESCRIPTION (which only the kernel reads) or
    /// DESCRIPTION. It stays there when the volume is closed.
    #[arg(long, value_name = "KEYRING::KEY")]
    pub link_vk_to_keyring: Option<keyring::Place>,
    #[command(flatten)]
    pub expect: ExpectArgs,
    #[command(flatten)]
    pub secret: SecretArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,
}

/// List the keyslots. Needs no passphrase.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key list secret.img
  atrest key list --json secret.img")]
pub struct KeyListArgs {
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Write the volume key to a new file (mode 0600). Whoever has it reads the volume without a passphrase, for ever.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key export secret.img vk.bin
  atrest key export secret.img vk.bin --key-file key.bin --yes")]
pub struct KeyExportArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// File to create; it must not exist.
    pub file: PathBuf,
    /// Try this keyslot only (an unbound one gives its own key).
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
    #[command(flatten)]
    pub tokens: TokenArgs,
}

/// Set which keyslots are tried first (LUKS2).
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key priority secret.img 1 prefer
  atrest key priority secret.img 2 ignore")]
pub struct KeyPriorityArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Number of the keyslot.
    pub slot: u32,
    /// Its priority.
    #[arg(value_enum)]
    pub priority: Priority,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Store a passphrase in a keyring, from which --passphrase-from takes it. It must open the volume.
///
/// Whoever is logged in as this user, and every program of this user, can read it there. The desktop's secret service keeps it until `key forget`,
/// the kernel's keyring until the machine is switched off.
#[cfg(feature = "whole")]
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key remember secret.img
  atrest open secret.img --fuse mnt --passphrase-from secret-service
  atrest key remember secret.img --in keyring
  atrest open secret.img --fuse mnt --passphrase-from keyring")]
pub struct KeyRememberArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Where it is stored.
    #[arg(long = "in", value_name = "KEYRING", value_enum, default_value_t = Keyring::SecretService)]
    pub keyring: Keyring,
    /// Its description or identifier there [default: by the UUID of the volume].
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Try this keyslot only.
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Remove the passphrase that `key remember` stored.
#[cfg(feature = "whole")]
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest key forget secret.img
  atrest key forget secret.img --in keyring")]
pub struct KeyForgetArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Where it is stored [default: wherever it is].
    #[arg(long = "in", value_name = "KEYRING", value_enum)]
    pub keyring: Option<Keyring>,
    /// Its description or identifier there [default: by the UUID of the volume].
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
}

/// A place for passphrases.
#[cfg(feature = "whole")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keyring {
    /// The kernel's: user keys.
    Keyring,
    /// The desktop's: GNOME Keyring, KWallet, KeePassXC.
    SecretService,
}

#[cfg(feature = "whole")]
impl Keyring {
    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keyring => "keyring",
            Self::SecretService => "secret-service",
        }
    }
}

/// What opens a keyslot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyKind {
    /// Passphrases and key files: what no token stands for.
    Passphrase,
    /// Recovery keys.
    Recovery,
    /// TPMs, as systemd or clevis has them.
    Tpm2,
    /// FIDO2 security keys.
    Fido2,
    /// Smart cards.
    Pkcs11,
    /// Tang servers.
    Tang,
    /// Whatever clevis has bound.
    Clevis,
    /// Several factors, of which any few open it.
    Threshold,
    /// Keys in the kernel's keyring.
    Keyring,
}

/// When a keyslot is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Priority {
    /// After the preferred ones.
    Normal,
    /// First.
    Prefer,
    /// Only when it is named by --key-slot.
    Ignore,
}
