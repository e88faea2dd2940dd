//! `atrest man`.

use std::fs;
use std::io::{self, Write};

use clap::CommandFactory;

use crate::args::Cli;
use crate::args::tools::ManArgs;
use crate::failure::Failure;
use crate::man;

/// Writes one page, or all of them.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let Some(dir) = &args.dir else {
        io::stdout()
            // cannot be missing: the page of the program itself is always made.
            .write_all(man::pages(Cli::command()).remove("atrest.1").unwrap_or_default().as_bytes())?;
        return Ok(());
    };
    fs::create_dir_all(dir).map_err(|error| Failure::io(&error).at(dir))?;
    for (name, page) in man::pages(Cli::command()) {
        let path = dir.join(name);
        fs::write(&path, page).map_err(|error| Failure::io(&error).at(&path))?;
    }
    Ok(())
}
