//! The two files that say what is unlocked at boot.

use std::path::Path;

use atrest_boot::policy::{CommandLine, Crypttab, Policy};

/// A crypttab, and what becomes of it.
pub fn crypttab(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let table = Crypttab::parse(Path::new("/etc/crypttab"), &text);
    check(&Policy::new(Some(table), None));
}

/// A kernel command line, beside a crypttab that it can choose from: what is behind the first zero.
pub fn cmdline(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (line, table) = text.split_once('\0').unwrap_or((&text, ""));
    let line = CommandLine::parse(Path::new("/proc/cmdline"), line);
    let table = Crypttab::parse(Path::new("/etc/crypttab"), table);
    check(&Policy::new(Some(table), Some(line)));
}

/// Names are distinct and can be mapped, and what a volume needs comes before it.
fn check(policy: &Policy) {
    let mut seen: Vec<&str> = Vec::new();
    for entry in &policy.entries {
        assert!(!seen.contains(&entry.name.as_str()), "{} twice", entry.name);
        assert!(atrest_attach::dm::check_name(&entry.name).is_ok(), "{}", entry.name);
        let later =
            policy.entries.iter().map(|entry| entry.name.as_str()).filter(|name| !seen.contains(name));
        let later: Vec<&str> = later.collect();
        assert!(!entry.needs().any(|name| later.contains(&name)), "{} needs what comes later", entry.name);
        seen.push(&entry.name);
    }
    for notice in &policy.notices {
        assert!(!notice.to_string().is_empty());
    }
}
