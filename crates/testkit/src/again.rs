//! A test runs itself again in a process of its own: as another user, under valgrind, or with nothing else in its memory.
//!
//! A name that no test has runs no test, and that ends with success. So the output must say that one test passed.

use std::ffi::OsString;
use std::thread;

use crate::oracle::{Outcome, Program};

/// What libtest prints when the test ran, and passed.
const PASSED: &str = " 1 passed; 0 failed;";

/// The command line that runs the current test again, and no other: for a program that starts another one.
///
/// # Panics
/// When called by a thread that is not the test's own: the thread has the test's name.
pub fn command_line() -> Vec<OsString> {
    let thread = thread::current();
    let test = thread.name().filter(|name| *name != "main").expect("the test's own thread has its name");
    let program = std::env::current_exe().expect("the path of this program");
    [
        program.as_os_str(),
        "--exact".as_ref(),
        test.as_ref(),
        "--nocapture".as_ref(),
        "--test-threads=1".as_ref(),
    ]
    .map(OsString::from)
    .into()
}

/// The current test again, to be run with another environment.
pub fn program() -> Program {
    let line = command_line();
    Program::at(&line[0]).args(&line[1..])
}

impl Outcome {
    /// Expects that exactly one test ran, and passed.
    ///
    /// # Panics
    /// When it failed, or when there is no test of that name.
    pub fn expect_one_passed(self) -> Self {
        assert!(
            self.text().contains(PASSED),
            "`{}` was to run one test, which was to pass:\n{}\n{}",
            self.line,
            self.text(),
            self.messages()
        );
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_that_runs_again_is_this_one() {
        if std::env::var_os("ATREST_AGAIN").is_some() {
            println!("here again");
            return;
        }
        let again = program().env("ATREST_AGAIN", "1").ok().expect_one_passed();
        assert!(again.text().contains("here again"), "{}", again.text());
    }

    #[test]
    #[should_panic(expected = "was to run one test, which was to pass")]
    fn a_name_that_no_test_has_does_not_pass() {
        Program::at(&command_line()[0]).args(["--exact", "no_test_has_this_name"]).ok().expect_one_passed();
    }
}
