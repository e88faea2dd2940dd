//! A test runs itself under valgrind's memcheck, which takes the bytes marked as secret for undefined: a branch or an
//! address that depends on them is an error (the method of Langley's ctgrind).

extern crate std;

use std::arch::asm;
use std::format;
use std::process::Command;

/// Set in the process that runs under valgrind; says what it is to do.
const ROLE: &str = "ATREST_CONSTANT_TIME_ROLE";

/// valgrind's exit code when it saw an error.
pub const SAW_AN_ERROR: i32 = 99;

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

fn request(request: u64, bytes: &mut [u8]) {
    let arguments = [request, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0];
    // SAFETY: valgrind.h's sequence for amd64: rotations by 128 bits in all and an exchange of a register with itself,
    // which do nothing outside valgrind; inside, the request changes no memory but valgrind's own notes.
    unsafe {
        asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(), inout("rdx") 0u64 => _, options(nostack));
    }
}

/// In the test of that name: runs it again under valgrind in that role, and says how that ended. There, does it.
pub fn exit_code(test: &str, role: &str, perform: impl Fn(&str)) -> Option<i32> {
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
        .expect("valgrind is needed: apt-get install valgrind");
    // A test of another name would be looked for in vain, and that passes.
    let printed = [output.stdout, output.stderr].concat();
    let passed = b" 1 passed; 0 failed;";
    let found = printed.windows(passed.len()).any(|piece| piece == passed);
    assert!(found, "{}", printed.escape_ascii());
    Some(output.status.code().expect("valgrind was not killed"))
}
