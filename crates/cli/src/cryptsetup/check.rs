//! Which options go together, as cryptsetup has it. A wrong pair is a wrong parameter: exit code 1.

use super::action::Action;
use super::words::Request;
use crate::failure::Failure;

/// # Errors
/// The first thing that does not fit.
pub fn check(request: &Request) -> Result<(), Failure> {
    let spelling = request.action.spelling();
    let name = spelling.name;
    if request.operands.len() < spelling.at_least {
        return Err(Failure::parameters(format!("{name} needs {}", spelling.operands)));
    }
    let wrong =
        request.options().find(|option| !option.with.is_empty() && !option.with.contains(&request.action));
    if let Some(option) = wrong {
        return Err(Failure::parameters(format!("--{} does not go with {name}", option.name)));
    }
    for rule in RULES {
        if (rule.broken)(request) {
            return Err(Failure::parameters(rule.says));
        }
    }
    Ok(())
}

struct Rule {
    says: &'static str,
    broken: fn(&Request) -> bool,
}

fn is_kind(request: &Request, kinds: &[&str]) -> bool {
    request.kind.as_deref().is_some_and(|kind| kinds.contains(&kind))
}

fn opens(request: &Request) -> bool {
    matches!(request.action, Action::Open | Action::Refresh)
}

fn multiple_of_eight(request: &Request, name: &str) -> bool {
    request.number(name).is_none_or(|bits| bits.is_multiple_of(8))
}

/// What --reduce-device-size may be at most.
const REDUCED_MOST: u64 = 1 << 30;

/// Whether a size is there that is not a whole number of sectors.
fn is_no_sectors(request: &Request, name: &str) -> bool {
    request.size(name).is_some_and(|bytes| !bytes.is_multiple_of(512))
}

const RULES: &[Rule] = &[
    Rule {
        says: "there is one --key-file at most, but for TCRYPT",
        broken: |r| r.count("key-file") > 1 && r.action != Action::TcryptDump && !is_kind(r, &["tcrypt"]),
    },
    Rule {
        says: "--persistent and --test-passphrase exclude one another",
        broken: |r| r.has("persistent") && r.has("test-passphrase"),
    },
    Rule {
        says: "--use-random and --use-urandom exclude one another",
        broken: |r| r.has("use-random") && r.has("use-urandom"),
    },
    Rule {
        says: "--align-payload and --offset exclude one another",
        broken: |r| r.action == Action::Format && r.has("align-payload") && r.has("offset"),
    },
    Rule {
        says: "--deferred and --cancel-deferred exclude one another",
        broken: |r| r.has("deferred") && r.has("cancel-deferred"),
    },
    Rule {
        says: "--disable-veracrypt and a PIM of VeraCrypt exclude one another",
        broken: |r| r.has("disable-veracrypt") && (r.has("veracrypt-pim") || r.has("veracrypt-query-pim")),
    },
    Rule {
        says: "--sector-size is 512, 1024, 2048 or 4096",
        broken: |r| {
            let fits = |bytes: u64| bytes.is_power_of_two() && (512..=4096).contains(&bytes);
            r.number("sector-size").is_some_and(|bytes| !fits(bytes))
        },
    },
    Rule {
        says: "--device-size is a whole number of sectors of 512 bytes, and more than 0",
        broken: |r| is_no_sectors(r, "device-size") || r.size("device-size") == Some(0),
    },
    Rule {
        says: "--reduce-device-size is a whole number of sectors of 512 bytes, and 1 GiB at most",
        broken: |r| {
            is_no_sectors(r, "reduce-device-size")
                || r.size("reduce-device-size").is_some_and(|bytes| bytes > REDUCED_MOST)
        },
    },
    Rule {
        says: "--reduce-device-size and --device-size exclude one another",
        broken: |r| r.action == Action::Reencrypt && r.has("reduce-device-size") && r.has("device-size"),
    },
    Rule {
        says: "--new-volume-key-file and --keep-key exclude one another",
        broken: |r| r.has("new-volume-key-file") && r.has("keep-key"),
    },
    Rule {
        says: "token remove, export and unassign need --token-id",
        broken: |r| {
            let verbs = ["remove", "export", "unassign"];
            r.action == Action::Token
                && !r.has("token-id")
                && r.operands.first().is_some_and(|verb| verbs.iter().any(|known| verb == known))
        },
    },
    Rule {
        says: "token unassign needs --key-slot",
        broken: |r| {
            r.action == Action::Token
                && !r.has("key-slot")
                && r.operands.first().is_some_and(|verb| verb == "unassign")
        },
    },
    Rule {
        says: "--offset goes with the opening of plain and loop-AES volumes only",
        broken: |r| r.action == Action::Open && r.has("offset") && !is_kind(r, &["plain", "loopaes"]),
    },
    Rule {
        says: "--skip goes with the opening of plain and loop-AES volumes only",
        broken: |r| r.action == Action::Open && r.has("skip") && !is_kind(r, &["plain", "loopaes"]),
    },
    Rule {
        says: "--shared goes with the opening of plain volumes only",
        broken: |r| r.action == Action::Open && r.has("shared") && !is_kind(r, &["plain"]),
    },
    Rule {
        says: "--sector-size goes with the opening of plain volumes only",
        broken: |r| opens(r) && r.has("sector-size") && !is_kind(r, &["plain"]),
    },
    Rule {
        says: "--iv-large-sectors goes with the opening of plain volumes whose --sector-size is more than 512",
        broken: |r| {
            let large = r.number("sector-size").is_some_and(|bytes| bytes > 512);
            opens(r) && r.has("iv-large-sectors") && !(is_kind(r, &["plain"]) && large)
        },
    },
    Rule {
        says: "--unbound goes with --test-passphrase when a volume is opened",
        broken: |r| opens(r) && r.has("unbound") && !r.has("test-passphrase"),
    },
    Rule {
        says: "--refresh and --test-passphrase exclude one another",
        broken: |r| r.has("test-passphrase") && (r.action == Action::Refresh || r.has("refresh")),
    },
    Rule {
        says: "--test-passphrase goes with volumes that have a header",
        broken: |r| r.has("test-passphrase") && is_kind(r, &["plain", "loopaes"]),
    },
    Rule {
        says: "the options of TCRYPT go with --type tcrypt only",
        broken: |r| {
            let tcrypt =
                ["tcrypt-hidden", "tcrypt-system", "tcrypt-backup", "disable-veracrypt", "veracrypt"];
            opens(r) && tcrypt.iter().any(|name| r.has(name)) && !is_kind(r, &["tcrypt"])
        },
    },
    Rule {
        says: "--size and --device-size exclude one another",
        broken: |r| r.has("size") && r.has("device-size"),
    },
    Rule {
        says: "--keyslot-cipher and --keyslot-key-size go together",
        broken: |r| r.has("keyslot-cipher") != r.has("keyslot-key-size") && r.action != Action::Token,
    },
    Rule {
        says: "a key has a whole number of bytes: --key-size and --keyslot-key-size are multiples of 8",
        broken: |r| !multiple_of_eight(r, "key-size") || !multiple_of_eight(r, "keyslot-key-size"),
    },
    Rule {
        says: "--pbkdf is pbkdf2, argon2i or argon2id",
        broken: |r| {
            let known = |kind: &str| ["pbkdf2", "argon2i", "argon2id"].contains(&kind);
            r.text("pbkdf").is_some_and(|kind| !kind.to_str().is_some_and(known))
        },
    },
    Rule {
        says: "--pbkdf-force-iterations and --iter-time exclude one another",
        broken: |r| r.has("pbkdf-force-iterations") && r.has("iter-time"),
    },
    Rule {
        says: "--unbound needs --key-size",
        broken: |r| {
            let size = r.number("key-size").filter(|bits| *bits > 0);
            r.action == Action::AddKey && r.has("unbound") && size.is_none()
        },
    },
    Rule {
        says: "--unbound needs --key-slot",
        broken: |r| r.action == Action::Dump && r.has("unbound") && !r.has("key-slot"),
    },
    Rule {
        says: "--priority needs --key-slot, and is ignore, normal or prefer",
        broken: |r| {
            let known = |kind: &str| ["ignore", "normal", "prefer"].contains(&kind);
            r.action == Action::Config
                && r.text("priority")
                    .is_some_and(|kind| !kind.to_str().is_some_and(known) || !r.has("key-slot"))
        },
    },
    Rule {
        says: "--integrity-no-wipe goes with --integrity",
        broken: |r| r.action == Action::Format && r.has("integrity-no-wipe") && !r.has("integrity"),
    },
    Rule {
        says: "token add needs --key-description",
        broken: |r| {
            r.action == Action::Token
                && r.operands.first().is_some_and(|verb| verb == "add")
                && !r.has("key-description")
        },
    },
    Rule {
        says: "token does one of: add, remove, import, export, unassign",
        broken: |r| {
            let known = ["add", "remove", "import", "export", "unassign"];
            r.action == Action::Token
                && !r.operands.first().is_some_and(|verb| known.iter().any(|known| verb == known))
        },
    },
    Rule {
        says: "the key slot is a whole number",
        broken: |r| {
            r.action == Action::KillSlot
                && r.operands.get(1).and_then(|slot| slot.to_str()?.parse::<u32>().ok()).is_none()
        },
    },
];
