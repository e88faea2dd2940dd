//! The tables that depmod writes: who needs whom, what is built in, and what else modules are called.

use std::collections::{BTreeMap, BTreeSet};

use super::ModuleError;

/// A module's name as the kernel knows it: `-` and `_` are the same.
pub fn normal_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Softer wishes of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Soft {
    pub pre: Vec<String>,
    pub post: Vec<String>,
}

/// The tables of one kernel, read.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Path of each module, and the paths of those that it needs, by name.
    pub(super) modules: BTreeMap<String, (String, Vec<String>)>,
    pub(super) builtin: BTreeSet<String>,
    pub(super) soft: BTreeMap<String, Soft>,
    /// Pattern and module.
    pub(super) aliases: Vec<(String, String)>,
    /// Patterns of what is built in.
    pub(super) builtin_aliases: Vec<String>,
}

impl Tables {
    /// Reads `modules.dep`.
    ///
    /// # Errors
    /// [`ModuleError::Table`] with the first line that depmod did not write, or whose path leads out of the
    /// directory of the modules.
    pub fn read_dep(&mut self, text: &str) -> Result<(), ModuleError> {
        const FILE: &str = "modules.dep";
        for (line, text) in lines(text) {
            let wrong = |what| ModuleError::Table { file: FILE, line, what };
            let (path, needs) = text.split_once(':').ok_or_else(|| wrong("there is no colon"))?;
            let needs: Vec<String> = needs.split_whitespace().map(String::from).collect();
            for path in needs.iter().map(String::as_str).chain([path]) {
                if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
                    return Err(wrong("a path does not lie below the directory of the modules"));
                }
                module_name(path).ok_or_else(|| wrong("a file is not called as modules are"))?;
            }
            let name = module_name(path).ok_or_else(|| wrong("a file is not called as modules are"))?;
            self.modules.entry(name).or_insert((path.into(), needs));
        }
        Ok(())
    }

    /// Reads `modules.builtin`.
    pub fn read_builtin(&mut self, text: &str) {
        self.builtin.extend(lines(text).filter_map(|(_, path)| module_name(path)));
    }

    /// Reads `modules.builtin.modinfo`: fields `MODULE.alias=PATTERN`, each ended by a zero.
    pub fn read_builtin_info(&mut self, bytes: &[u8]) {
        for field in bytes.split(|&byte| byte == 0).filter_map(|field| std::str::from_utf8(field).ok()) {
            if let Some((_, pattern)) = field.split_once(".alias=") {
                self.builtin_aliases.push(pattern.into());
            }
        }
    }

    /// Reads `modules.softdep`: lines `softdep MODULE [pre: NAME…] [post: NAME…]`.
    pub fn read_softdep(&mut self, text: &str) {
        for (_, line) in lines(text) {
            let mut words = line.split_whitespace();
            let (Some("softdep"), Some(module)) = (words.next(), words.next()) else { continue };
            let soft = self.soft.entry(normal_name(module)).or_default();
            // Names before any such word are wishes that depmod passes on and modprobe ignores.
            let mut list = None;
            for word in words {
                match (word, list) {
                    ("pre:", _) => list = Some(true),
                    ("post:", _) => list = Some(false),
                    (name, Some(true)) => soft.pre.push(name.into()),
                    (name, Some(false)) => soft.post.push(name.into()),
                    _ => {}
                }
            }
        }
    }

    /// Reads `modules.alias`: lines `alias PATTERN MODULE`.
    pub fn read_alias(&mut self, text: &str) {
        for (_, line) in lines(text) {
            let mut words = line.split_whitespace();
            if let (Some("alias"), Some(pattern), Some(module)) = (words.next(), words.next(), words.next()) {
                self.aliases.push((pattern.into(), normal_name(module)));
            }
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// `kernel/drivers/md/dm-mod.ko.xz` is `dm_mod`.
pub(super) fn module_name(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let (name, packed) = file.split_once(".ko")?;
    (!name.is_empty() && matches!(packed, "" | ".gz" | ".xz" | ".zst")).then(|| normal_name(name))
}

/// Whether a name fits an alias: `*`, `?` and `[a-z]`, and `-` is `_` outside of brackets.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on when what follows the last star does not fit: it takes one byte more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(p), name.get(n)) {
            (Some(b'*'), _) => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            (None, None) => return true,
            (Some(&byte), Some(&wanted)) => one(pattern, p, byte, wanted),
            _ => None,
        };
        match (step, star) {
            (Some(next), _) => (p, n) = (next, n + 1),
            (None, Some((after, taken))) if taken < name.len() => {
                star = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
            _ => return false,
        }
    }
}

/// Matches one byte of a name; where the pattern goes on.
fn one(pattern: &[u8], at: usize, byte: u8, wanted: u8) -> Option<usize> {
    let same = |byte: u8| if byte == b'-' { b'_' } else { byte };
    match byte {
        b'?' => Some(at + 1),
        b'[' => {
            let rest = pattern.get(at + 1..)?;
            let end = rest.iter().position(|&byte| byte == b']')?;
            let set = rest.get(..end)?;
            let range =
                set.windows(3).any(|w| matches!(w, [low, b'-', high] if (low..=high).contains(&&wanted)));
            (range || set.contains(&wanted)).then_some(at + end + 2)
        }
        _ => (same(byte) == same(wanted)).then_some(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_fit_as_fnmatch_has_it() {
        let yes = [
            ("crypto-xts", "crypto-xts"),
            ("crypto_xts", "crypto-xts"),
            ("pci:v*d*", "pci:v00008086d00001000"),
            ("fs-*", "fs-"),
            ("a?c", "abc"),
            ("a[0-9]*z", "a7xyz"),
            ("*b*c", "abbbc"),
            ("", ""),
        ];
        let no = [
            ("crypto-xts", "crypto-xt"),
            ("a?c", "ac"),
            ("a[0-9]", "ab"),
            ("*b", "abc"),
            ("a[0-9", "a1"),
            ("", "a"),
        ];
        assert!(yes.iter().all(|(pattern, name)| fits(pattern, name)));
        assert!(no.iter().all(|(pattern, name)| !fits(pattern, name)));
        // Stars without end take no time without end.
        assert!(!fits(&"*a".repeat(50), &"a".repeat(49)));
    }

    #[test]
    fn names_are_those_of_files() {
        assert_eq!(module_name("kernel/drivers/md/dm-mod.ko.xz").as_deref(), Some("dm_mod"));
        assert_eq!(module_name("a.ko").as_deref(), Some("a"));
        assert_eq!(module_name("a.ko.lz4"), None);
        assert_eq!(module_name(".ko"), None);
    }
}
