//! A test runs itself under valgrind's memcheck, which takes the bytes marked as secret for undefined: a branch or an
//! address that depends on them is a leak that memcheck reports (the method of Langley's ctgrind).
//!
//! What memcheck can't see: code for AVX-512, VAES and the SHA instructions, which valgrind does not emulate and
//! therefore denies to whoever asks the CPU; and instructions whose time depends on their operands.
//!
//! The tests of `cipher` include this file by its path, because for emulated CPUs they are built without this crate: it uses
//! nothing of it.

use std::arch::asm;
use std::process::Command;
use std::{fmt, thread};

/// Set in the process that runs under valgrind; says what it is to do.
const ROLE: &str = "ATREST_CONSTANT_TIME_ROLE";

/// valgrind's exit code when it saw an error.
const SAW_AN_ERROR: i32 = 99;

/// memcheck's client requests (memcheck.h): the first takes bytes for undefined, the second for defined.
const MAKE_UNDEFINED: u64 = 0x4d43_0001;
const MAKE_DEFINED: u64 = 0x4d43_0002;

/// From now on these bytes are secret.
pub fn make_secret(bytes: &mut [u8]) {
    request(MAKE_UNDEFINED, bytes);
}

/// These bytes are no longer secret.
pub fn make_public(bytes: &mut [u8]) {
    request(MAKE_DEFINED, bytes);
}

/// Says that a verdict is public: whether a key was right, for instance.
pub fn is_public(verdict: bool) -> bool {
    let mut byte = [u8::from(verdict)];
    make_public(&mut byte);
    byte != [0]
}

#[allow(unsafe_code)]
fn request(request: u64, bytes: &mut [u8]) {
    let arguments = [request, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0];
    // SAFETY: valgrind.h's sequence for amd64: rotations by 128 bits in all and an exchange of a register with itself,
    // which do nothing outside valgrind; inside, the request changes no memory but valgrind's own notes.
    unsafe {
        asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(), inout("rdx") 0u64 => _, options(nostack));
    }
}

/// The branches and addresses that depended on secrets.
pub struct Leaks(Vec<String>);

impl Leaks {
    /// Holds that every one of `functions` leaked, and nothing that they did not call. A function is named by a part of its path.
    ///
    /// # Panics
    /// Otherwise.
    #[track_caller]
    pub fn assert_only_in(&self, functions: &[&str]) {
        for function in functions {
            assert!(self.0.iter().any(|leak| leak.contains(function)), "no leak seen in {function}:\n{self}");
        }
        let other = self.0.iter().find(|leak| !functions.iter().any(|function| leak.contains(function)));
        if let Some(other) = other {
            panic!("leaks in other places than {functions:?}:\n{other}\nof these:\n{self}");
        }
    }

    /// The functions that leaked themselves, without what called them: in the order in which they did.
    pub fn places(&self) -> Vec<&str> {
        let places =
            self.0.iter().filter_map(|leak| leak.lines().find_map(|line| line.trim().strip_prefix("at ")));
        places.map(|place| place.split_once(": ").map_or(place, |(_, function)| function)).collect()
    }
}

/// All places, and the first few stacks.
impl fmt::Display for Leaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = self.places();
        places.dedup();
        places.iter().try_for_each(|place| writeln!(f, "{place}"))?;
        self.0.iter().take(3).try_for_each(|leak| writeln!(f, "{leak}"))
    }
}

/// Runs the current test again under valgrind in that role, and tells the leaks. There, performs the role.
///
/// # Panics
/// When that run ran anything but this test, or the test failed in it.
pub fn leaks(role: &str, perform: impl Fn(&str)) -> Option<Leaks> {
    let thread = thread::current();
    leaks_of(thread.name().expect("the thread of a test has its name"), role, perform)
}

/// Runs the test of that name again under valgrind in that role, and tells the leaks. There, performs the role.
pub fn leaks_of(test: &str, role: &str, perform: impl Fn(&str)) -> Option<Leaks> {
    if let Ok(role) = std::env::var(ROLE) {
        perform(&role);
        return None;
    }
    let program = std::env::current_exe().expect("this test");
    let output = Command::new("valgrind")
        .args(["--quiet", &format!("--error-exitcode={SAW_AN_ERROR}")])
        .arg(program)
        .args(["--exact", test, "--test-threads=1"])
        .env(ROLE, role)
        .output()
        .expect("valgrind is needed: apt-get install valgrind (scripts/setup does it)");
    let (printed, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A test of another name would be looked for in vain, and that passes.
    assert!(printed.contains(" 1 passed; 0 failed;"), "{printed}\n{notes}");
    let leaks = Leaks(messages(&notes));
    let expected = if leaks.0.is_empty() { 0 } else { SAW_AN_ERROR };
    assert_eq!(output.status.code(), Some(expected), "{notes}");
    Some(leaks)
}

/// valgrind's messages, each with its stack as far as the test's own code goes: what called that says nothing, but has
/// the test's name. valgrind's lines are `==PID== TEXT`, and an empty text ends a message.
fn messages(notes: &str) -> Vec<String> {
    let lines: Vec<&str> = notes
        .lines()
        .filter_map(|line| line.strip_prefix("==")?.split_once("=="))
        .map(|(_, text)| text)
        .collect();
    let blocks = lines.split(|line| line.trim().is_empty());
    let own = |line: &&&str| !line.contains("valgrind::leaks") && !line.contains(": leaks_of<");
    let texts = blocks.map(|block| Vec::from_iter(block.iter().take_while(own).copied()).join("\n"));
    texts.filter(|text| !text.is_empty()).collect()
}
