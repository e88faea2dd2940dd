//! `atrest bench`.

use crate::args::tools::BenchArgs;
use crate::failure::Failure;
use crate::output::Output;

pub fn bench(_args: &BenchArgs, _output: &Output) -> Result<(), Failure> {
    Err(Failure::parameters("bench is being connected"))
}
