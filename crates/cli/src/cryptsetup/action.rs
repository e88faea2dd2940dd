//! cryptsetup's actions.

use crate::failure::Failure;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Open,
    Close,
    Resize,
    Status,
    Benchmark,
    Repair,
    Reencrypt,
    Erase,
    Convert,
    Config,
    Refresh,
    Format,
    AddKey,
    RemoveKey,
    ChangeKey,
    ConvertKey,
    KillSlot,
    Uuid,
    IsLuks,
    Dump,
    TcryptDump,
    BitlkDump,
    Fvault2Dump,
    Suspend,
    Resume,
    HeaderBackup,
    HeaderRestore,
    Token,
}

/// How an action is written.
pub struct Spelling {
    /// Its name in messages.
    pub name: &'static str,
    /// The operands that it needs, in its own words.
    pub operands: &'static str,
    /// How many of them there must be.
    pub at_least: usize,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::Open,
        Self::Close,
        Self::Resize,
        Self::Status,
        Self::Benchmark,
        Self::Repair,
        Self::Reencrypt,
        Self::Erase,
        Self::Convert,
        Self::Config,
        Self::Refresh,
        Self::Format,
        Self::AddKey,
        Self::RemoveKey,
        Self::ChangeKey,
        Self::ConvertKey,
        Self::KillSlot,
        Self::Uuid,
        Self::IsLuks,
        Self::Dump,
        Self::TcryptDump,
        Self::BitlkDump,
        Self::Fvault2Dump,
        Self::Suspend,
        Self::Resume,
        Self::HeaderBackup,
        Self::HeaderRestore,
        Self::Token,
    ];

    pub fn spelling(self) -> Spelling {
        let (name, operands, at_least) = match self {
            Self::Open => ("open", "<device> [<name>]", 1),
            Self::Close => ("close", "<name>", 1),
            Self::Resize => ("resize", "<name>", 1),
            Self::Status => ("status", "<name>", 1),
            Self::Benchmark => ("benchmark", "", 0),
            Self::Repair => ("repair", "<device>", 1),
            Self::Reencrypt => ("reencrypt", "<device>", 0),
            Self::Erase => ("erase", "<device>", 1),
            Self::Convert => ("convert", "<device>", 1),
            Self::Config => ("config", "<device>", 1),
            Self::Refresh => ("refresh", "<name>", 1),
            Self::Format => ("luksFormat", "<device> [<new key file>]", 1),
            Self::AddKey => ("luksAddKey", "<device> [<new key file>]", 1),
            Self::RemoveKey => ("luksRemoveKey", "<device> [<key file>]", 1),
            Self::ChangeKey => ("luksChangeKey", "<device> [<new key file>]", 1),
            Self::ConvertKey => ("luksConvertKey", "<device>", 1),
            Self::KillSlot => ("luksKillSlot", "<device> <key slot>", 2),
            Self::Uuid => ("luksUUID", "<device>", 1),
            Self::IsLuks => ("isLuks", "<device>", 1),
            Self::Dump => ("luksDump", "<device>", 1),
            Self::TcryptDump => ("tcryptDump", "<device>", 1),
            Self::BitlkDump => ("bitlkDump", "<device>", 1),
            Self::Fvault2Dump => ("fvault2Dump", "<device>", 1),
            Self::Suspend => ("luksSuspend", "<name>", 1),
            Self::Resume => ("luksResume", "<name>", 1),
            Self::HeaderBackup => ("luksHeaderBackup", "<device>", 1),
            Self::HeaderRestore => ("luksHeaderRestore", "<device>", 1),
            Self::Token => ("token", "<add|remove|import|export|unassign> <device>", 2),
        };
        Spelling { name, operands, at_least }
    }

    /// The action of this name, an old one too, and the type of volume that the name implies.
    pub fn named(name: &str) -> Result<(Self, Option<&'static str>), Failure> {
        let old = match name {
            "create" | "plainOpen" => Some((Self::Open, Some("plain"))),
            "luksOpen" => Some((Self::Open, Some("luks"))),
            "loopaesOpen" => Some((Self::Open, Some("loopaes"))),
            "tcryptOpen" => Some((Self::Open, Some("tcrypt"))),
            "bitlkOpen" => Some((Self::Open, Some("bitlk"))),
            "fvault2Open" => Some((Self::Open, Some("fvault2"))),
            "remove" | "plainClose" | "luksClose" | "loopaesClose" | "tcryptClose" | "bitlkClose"
            | "fvault2Close" => Some((Self::Close, None)),
            "luksErase" => Some((Self::Erase, None)),
            "luksConfig" => Some((Self::Config, None)),
            _ => None,
        };
        let all = || Self::ALL.into_iter().find(|action| action.spelling().name == name);
        old.or_else(|| all().map(|action| (action, None)))
            .ok_or_else(|| Failure::parameters(format!("there is no action {name}")).hint(LIST))
    }
}

const LIST: &str = "`cryptsetup --help` lists the actions";
