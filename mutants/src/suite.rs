//! The tests: programs, and the tests in each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::rooms;

/// A test program.
#[derive(Clone, Debug)]
pub struct Program {
    /// The package: `atrest-flash`.
    pub package: String,
    /// The target: `card`, or `atrest_flash` for the tests among the source.
    pub name: String,
    /// The program.
    pub path: PathBuf,
    /// The directory in which cargo would run it.
    pub directory: PathBuf,
}

impl Program {
    /// Returns the names of its tests.
    pub fn tests(&self) -> Result<Vec<String>, String> {
        let mut command = Command::new(&self.path);
        command.args(["--list", "--format", "terse"]).current_dir(&self.directory).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{}: {error}", self.path.display()))?;
        let listed = String::from_utf8_lossy(&output.stdout);
        Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect())
    }

    /// Returns the name of one of its tests in reports.
    pub fn full_name(&self, test: &str) -> String {
        format!("{}/{}/{test}", self.package, self.name)
    }

    /// Returns whether one of its tests is left out, because it builds other programs or boots an emulator.
    pub fn leaves_out(&self, test: &str) -> bool {
        let name = format!("{}/{test}", self.name);
        rooms::LEFT_OUT.iter().any(|part| name.contains(part))
    }

    /// Returns the command that runs one of its tests. `atrest` is the program that tests of the command line start.
    pub fn command(&self, test: &str, atrest: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["--exact", test, "--test-threads", "1"]).current_dir(&self.directory);
        command.env("CARGO", "cargo").env("CARGO_MANIFEST_DIR", &self.directory);
        command.env("CARGO_PKG_NAME", &self.package).env("ATREST_BIN", atrest);
        command.env("RUST_BACKTRACE", "0").env_remove("ATREST_BLESS");
        command
    }
}
