//! The static program that unlocks, for the board.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::Campaign;
use crate::campaign::rotation;
use crate::oracle::{Program, workspace};

/// Whether boards run the program as it is released: optimised to be small, which takes longer than all that they do. They do so at one commit of four, in whole
/// campaigns, and where figures are written down (`ATREST_BLESS`). Otherwise it is the same code unoptimised.
pub fn is_as_released() -> bool {
    Campaign::is_full() || env::var_os("ATREST_BLESS").is_some() || rotation() % 4 == 1
}

/// Where it is: built, checked and tried by `scripts/static` on the first call.
///
/// # Panics
/// When that fails.
pub fn atrest_init() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let script = Program::at(workspace().join("scripts/static"));
            let script = if is_as_released() { script } else { script.arg("--unoptimised") };
            let script = script.arg("aarch64-unknown-linux-musl");
            let table = script.limit(Duration::from_secs(1800)).ok().text();
            println!("{}", table.trim_end());
            let path = table.lines().last().and_then(|line| line.split_whitespace().last());
            PathBuf::from(path.expect("scripts/static tells where the program is"))
        })
        .clone()
}
