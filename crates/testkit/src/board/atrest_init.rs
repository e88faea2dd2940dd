//! The static program that unlocks, for the board.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::oracle::{Program, workspace};

/// Where it is: built, checked and tried by `scripts/static` on the first call.
///
/// # Panics
/// When that fails.
pub fn atrest_init() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let script = Program::at(workspace().join("scripts/static")).arg("aarch64-unknown-linux-musl");
            let table = script.limit(Duration::from_secs(1800)).ok().text();
            println!("{}", table.trim_end());
            let path = table.lines().last().and_then(|line| line.split_whitespace().last());
            PathBuf::from(path.expect("scripts/static tells where the program is"))
        })
        .clone()
}
