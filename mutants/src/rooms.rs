//! The rooms that are mutated, and whose tests may notice.

/// A part of the workspace that is mutated as a whole.
pub struct Room {
    /// What the paths of its files begin with.
    pub path: &'static str,
    /// Packages whose tests run against its mutants. Its own comes first.
    pub tests: &'static [&'static str],
}

impl Room {
    /// Returns the directory of its package: `crates/flash`.
    pub fn directory(&self) -> &'static str {
        let end = self.path.match_indices('/').nth(1).map_or(self.path.len(), |(at, _)| at);
        &self.path[..end]
    }

    /// Returns whether a file, or a piece of a path that a user gave, belongs to it.
    pub fn has(&self, file: &str) -> bool {
        file.strip_prefix(self.path)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
    }
}

/// All rooms.
pub const ROOMS: &[Room] = &[
    Room { path: "crates/secret", tests: &["atrest-secret", "atrest-keyslot", "atrest-kdf", "atrest-cli"] },
    Room { path: "crates/keyslot", tests: &["atrest-keyslot", "atrest-volume", "atrest-flash"] },
    Room { path: "crates/format", tests: &["atrest-format", "atrest-volume"] },
    Room { path: "crates/volume", tests: &["atrest-volume", "atrest-engine", "atrest-cli"] },
    Room { path: "crates/flash", tests: &["atrest-flash", "atrest-capi"] },
    Room { path: "crates/keyvalue", tests: &["atrest-keyvalue"] },
    Room { path: "crates/sealedvolume", tests: &["atrest-sealedvolume"] },
    Room { path: "crates/cloud", tests: &["atrest-cloud"] },
    Room { path: "crates/tree", tests: &["atrest-tree", "atrest-cli"] },
    Room { path: "crates/bootimage/src/fit", tests: &["atrest-bootimage", "atrest-cli"] },
    Room { path: "crates/attach/src/nbd", tests: &["atrest-attach", "atrest-cli"] },
    Room { path: "crates/nbd", tests: &["atrest-nbd", "atrest-attach", "atrest-cli"] },
    Room { path: "crates/engine/src/bulk", tests: &["atrest-engine", "atrest-cli", "atrest-testkit"] },
    Room { path: "crates/engine/src/reencrypt", tests: &["atrest-engine", "atrest-cli", "atrest-testkit"] },
];

/// Tests that build other programs or boot an emulator, by a part of `package/program/test`. They are left out.
pub const LEFT_OUT: &[&str] = &["firmware_", "embedded", "kernel", "board", "c_program", "vaes"];

/// Returns the room of a file.
pub fn room_of(file: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.has(file))
}
