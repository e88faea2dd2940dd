//! The program `atrest`: see the library of the same crate.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    atrest_cli::main()
}
