//! What needs a real kernel, under emulation. One program, so that two kernels run at a time: each keeps one core busy.

use std::fs;
use std::path::PathBuf;

use atrest_testkit::Scratch;
use atrest_testkit::oracle::Program;

mod authenticated;
mod dmcrypt;
mod fido2;
mod foreign;
mod mapping;
mod plain;
mod remapped;
mod stacked;
mod tpm;
mod trees;
mod unlock;
mod verity;
mod vhost_user;
mod volumes;

/// Puts programs of ours, without their symbols, and the unwinder that they need into the folder that a guest sees.
fn put_programs(share: &Scratch, programs: &[(&str, PathBuf)]) {
    for (name, program) in programs {
        Program::named("strip").arg("-o").arg(share.path(name)).arg(program).ok();
    }
    let unwind = Program::named("cc").words("-print-file-name=libgcc_s.so.1").ok().text();
    fs::copy(unwind.trim(), share.path("libgcc_s.so.1")).expect("copy the unwinder");
}
