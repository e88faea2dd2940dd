//! Internal Trusted Storage from C, under the names of the PSA API: a program in C tries the cases of Arm's own test suite and more.

use atrest_capi::{ITS_ENTRY, ITS_WORDS};
use atrest_testkit::Scratch;
use atrest_testkit::oracle::Program;

use crate::c_program::{build, here};

#[test]
fn internal_trusted_storage_in_c_does_what_arms_test_suite_and_the_specification_say() {
    let scratch = Scratch::new();
    let program = build(scratch.as_path(), "its.c", &[here("psa/psa_its.c")]);
    let ran = Program::at(&program).run();
    assert!(ran.is_ok(), "{}", ran.text());
}

#[test]
fn the_header_lends_as_much_as_the_library_takes() {
    let text = std::fs::read_to_string(here("include/atrest.h")).expect("read atrest.h");
    assert!(text.contains(&format!("#define ATREST_ITS_WORDS {ITS_WORDS}\n")));
    assert!(text.contains(&format!("uint32_t opaque[{}];", ITS_ENTRY / 4)));
}

/// One file includes both, and what other PSA headers define does not get in the way.
#[test]
fn the_headers_of_psa_are_c99_and_cpp_without_a_warning() {
    let scratch = Scratch::new();
    for (compiler, standard, name) in [
        ("gcc", "c99", "psa.c"),
        ("arm-none-eabi-gcc", "c99", "psa.c"),
        ("arm-none-eabi-g++", "c++11", "psa.cpp"),
    ] {
        let source = scratch.path(name);
        let text = "#include \"psa/internal_trusted_storage.h\"\n#include \"atrest.h\"\n\
            psa_status_t remove_it(void) { return psa_its_remove(PSA_STORAGE_FLAG_WRITE_ONCE); }\n";
        std::fs::write(&source, text).expect("a source");
        Program::named(compiler)
            .arg(format!("-std={standard}"))
            .args(["-ffreestanding", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"])
            .arg(here("include"))
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(scratch.path("psa.o"))
            .ok();
    }
}
