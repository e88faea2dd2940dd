//! `atrest completions` and `man`.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::args::Cli;
use crate::args::tools::{CompletionsArgs, ManArgs};
use crate::failure::Failure;

pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "atrest", &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}

pub fn man(args: &ManArgs) -> Result<(), Failure> {
    match &args.dir {
        Some(dir) => {
            clap_mangen::generate_to(Cli::command(), dir).map_err(|error| Failure::io(&error).at(dir))
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            io::stdout().write_all(&page)?;
            Ok(())
        }
    }
}
