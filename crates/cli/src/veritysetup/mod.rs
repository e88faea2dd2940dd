//! The name of veritysetup: whoever starts this program as `veritysetup` or `atrest-veritysetup` gets its actions, options, exit codes
//! and answers. docs/VERITY.md says which there are.

mod mapped;
mod option;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use atrest_attach::dm::stacked::Kind;

use crate::args::GlobalArgs;
use crate::args::open::CloseArgs;
use crate::args::verity::{
    RootArgs, TreeArgs, TreePlaceArgs, VerityDumpArgs, VerityFormatArgs, VerityOpenArgs, VerityTlsArgs,
    VerityVerifyArgs,
};
use crate::commands::verity;
use crate::cryptsetup::ended;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::stacked::{self, Removal};
#[cfg(test)]
pub use option::OPTIONS;
use option::{Action, KERNEL};
use words::{Answer, Request};

/// Whether a program of this name is to behave as veritysetup.
pub fn is_meant(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == "veritysetup" || name == "atrest-veritysetup")
}

/// Does what the words ask for.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let request = match Answer::request(words::read(words)) {
        Ok(request) => request,
        Err(code) => return code,
    };
    let code = match perform(&request) {
        Ok(code) => code,
        Err(failure) => {
            failure.print(false);
            code_of(&request, &failure)
        }
    };
    if request.has("verbose") {
        println!("{}", ended(code));
    }
    ExitCode::from(code)
}

/// veritysetup has 4 for devices that are not there, and 1 for what it does not like on them.
fn code_of(request: &Request, failure: &Failure) -> u8 {
    let devices: &[usize] = match request.action {
        Action::Format => &[0],
        Action::Verify => &[0, 1],
        Action::Open => &[0, 2],
        Action::Dump => &[0],
        Action::Close | Action::Status => return failure.code(),
    };
    let missing = devices.iter().any(|at| !request.operand(*at).exists());
    match failure.code() == Code::Device as u8 && !missing {
        true => Code::Parameters as u8,
        false => failure.code(),
    }
}

fn perform(request: &Request) -> Result<u8, Failure> {
    // Questions are not asked: veritysetup has none.
    let output = Output::new(&GlobalArgs {
        json: false,
        quiet: request.action != Action::Verify,
        yes: true,
        max_kdf_time: None,
        config: None,
    });
    let path = |at: usize| request.operand(at).to_path_buf();
    match request.action {
        Action::Format => verity::format(
            &VerityFormatArgs {
                data: path(0),
                tree: path(1),
                uuid: request.text("uuid"),
                root_hash_file: request.value("root-hash-file").map(Into::into),
                threads: None,
                tree_args: tree(request),
                place: place(request),
            },
            &output,
        )?,
        Action::Verify => verity::verify(
            &VerityVerifyArgs {
                data: path(0),
                tree: path(1),
                root: root(request, 2)?,
                all: false,
                threads: None,
                tree_args: tree_without_superblock(request),
                place: place(request),
            },
            &output,
        )?,
        Action::Open => return open(request, &output),
        Action::Close => close(request, &output)?,
        Action::Status => return status(request, &output),
        Action::Dump => {
            let mut place = place(request);
            // There is none to leave out.
            place.no_superblock = false;
            verity::dump(&VerityDumpArgs { tree: path(0), place }, &output)?;
        }
    }
    Ok(0)
}

/// What the hashes depend on, as far as it was said.
fn tree(request: &Request) -> TreeArgs {
    TreeArgs {
        hash: request.text("hash"),
        salt: request.text("salt"),
        hash_type: request.number("format"),
        data_block_size: request.number("data-block-size"),
        hash_block_size: request.number("hash-block-size"),
        data_blocks: request.number("data-blocks"),
    }
}

/// veritysetup takes these beside a superblock, too, and does not use them then.
fn tree_without_superblock(request: &Request) -> TreeArgs {
    if request.has("no-superblock") { tree(request) } else { TreeArgs::default() }
}

fn place(request: &Request) -> TreePlaceArgs {
    TreePlaceArgs {
        hash_offset: request.number("hash-offset"),
        no_superblock: request.has("no-superblock"),
        fec_device: request.value("fec-device").map(Into::into),
        fec_offset: request.number("fec-offset"),
        fec_roots: request.number("fec-roots"),
    }
}

/// A file with the root hash counts more than one that is an operand.
fn root(request: &Request, at: usize) -> Result<RootArgs, Failure> {
    let root_hash_file = request.value("root-hash-file").map(Into::into);
    let root_hash = request.operands.get(at).filter(|_| root_hash_file.is_none());
    if root_hash.is_none() && root_hash_file.is_none() {
        return Err(Failure::parameters("the root hash is missing").hint("give it, or --root-hash-file"));
    }
    Ok(RootArgs { root_hash: root_hash.map(|root| root.to_string_lossy().into_owned()), root_hash_file })
}

/// Serves the data under its name.
fn open(request: &Request, output: &Output) -> Result<u8, Failure> {
    let asked = request.text("face").or_else(|| std::env::var("ATREST_FACE").ok());
    let mapped = asked.as_deref() == Some("dm") || asked.is_none() && atrest_attach::dm::is_there();
    if mapped {
        let tree = tree_without_superblock(request);
        return mapped::open(request, (&root(request, 3)?, &tree, &place(request)));
    }
    let (nbd, fuse) = match asked.as_deref().map(|face| face.split_once(':').unwrap_or((face, ""))) {
        None | Some(("nbd", "")) => (Some(None), None),
        Some(("fuse", directory)) if !directory.is_empty() => (None, Some(directory.into())),
        Some((face, _)) => {
            return Err(Failure::parameters(format!(
                "--face {face}: there is no such way to show data of dm-verity"
            ))
            .hint("dm maps it in the kernel, nbd serves it on a socket, fuse:DIR as a file in DIR"));
        }
    };
    if request.has("root-hash-signature") {
        return Err(Failure::parameters(
            "--root-hash-signature: only the kernel's dm-verity checks signatures of root hashes",
        )
        .hint("check the signature with another program, and give the root hash that it signs"));
    }
    if let Some(name) = KERNEL.iter().find(|name| request.has(name)) {
        return Err(Failure::parameters(format!("--{name}: only the kernel's dm-verity does that"))
            .hint("leave it out: a block that was changed is an I/O error"));
    }
    let args = VerityOpenArgs {
        data: request.operand(0).into(),
        tree: request.operand(2).into(),
        root: root(request, 3)?,
        nbd,
        nbd_tcp: None,
        fuse,
        vhost_user: None,
        name: Some(request.operand(1).to_string_lossy().into_owned()),
        ignore_zero_blocks: request.has("ignore-zero-blocks"),
        daemon: true,
        threads: None,
        metrics: None,
        tls: VerityTlsArgs::default(),
        tree_args: tree_without_superblock(request),
        place: place(request),
        run: Vec::new(),
    };
    verity::open(&args, output)
}

fn close(request: &Request, output: &Output) -> Result<(), Failure> {
    let removal = Removal::asked(request.has("deferred"), request.has("cancel-deferred"));
    if stacked::close(Kind::Verity, request.operand(0), removal)? {
        return Ok(());
    }
    if let Some(name) = ["deferred", "cancel-deferred"].into_iter().find(|name| request.has(name)) {
        return Err(Failure::parameters(format!("--{name}: a process of ours closes at once"))
            .hint("leave it out: whoever reads meanwhile gets an error"));
    }
    let close = CloseArgs { name: request.operand(0).into(), deferred: false, cancel_deferred: false };
    crate::commands::serve::close(&close, output)
}

fn status(request: &Request, output: &Output) -> Result<u8, Failure> {
    match stacked::find(Kind::Verity, request.operand(0))? {
        Some(found) => mapped::status(request.operand(0), &found),
        None => crate::cryptsetup::report::status(None, request.operand(0), output),
    }
}
