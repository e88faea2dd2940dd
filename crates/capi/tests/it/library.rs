//! `make -C firmware/card-c library` gives all that a project in C needs, and what a chip has to keep of it is small.

use std::path::Path;
use std::time::Duration;

use atrest_testkit::Scratch;
use atrest_testkit::firmware::flash_size;
use atrest_testkit::oracle::{Program, workspace};

/// What a program under littlefs calls.
const CALLED: [&str; 6] = [
    "atrest_flash_open",
    "atrest_flash_close",
    "atrest_lfs_read",
    "atrest_lfs_prog",
    "atrest_lfs_erase",
    "atrest_lfs_sync",
];
/// Most bytes of code that they take on a Cortex-M4, with AES-XTS, the header and PBKDF2.
const MOST_CODE: u64 = 30 << 10;
const FLAGS: &str =
    "-mcpu=cortex-m4 -mthumb -mfloat-abi=soft -Os -ffreestanding -ffunction-sections -Wall -Wextra -Werror";

#[test]
fn the_library_of_aes_xts_is_small_and_brings_what_littlefs_includes() {
    let directory = Scratch::new();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
    Program::named("make")
        .words("-C firmware/card-c library")
        .arg(variable("OUT", directory.as_path()))
        // A place of its own: a build of tests would make us wait for its end.
        .arg(variable("TARGET_DIRECTORY", &workspace().join("target/card-c")))
        .arg(variable("CARGO", Path::new(&cargo)))
        .current_dir(workspace())
        .limit(Duration::from_secs(300))
        .ok();

    let place = directory.path("cortex_m4/atrest");
    let library = place.join("lib/libatrest_capi.a");
    let program = directory.path("program");
    Program::named("arm-none-eabi-gcc")
        .words(FLAGS)
        .words("-nostartfiles -nostdlib -Wl,--gc-sections -Wl,-e,atrest_flash_open")
        .args(CALLED.map(|function| format!("-Wl,-u,{function}")))
        .arg(&library)
        .args(["-lgcc", "-o"])
        .arg(&program)
        .ok();
    let code = flash_size(&program);
    println!("{code} bytes of code");
    assert!((16 << 10..=MOST_CODE).contains(&code), "{code} bytes of code");

    // This compiler has no C library. Without the headers it says so, and with them what littlefs includes is there.
    let compiled = |source: &str, include: &[&str]| {
        let include = include.iter().map(|directory| format!("-I{}", place.join(directory).display()));
        let at = directory.path("source.c");
        std::fs::write(&at, source).expect("a source");
        let compiler = Program::named("arm-none-eabi-gcc").words(FLAGS).args(include);
        compiler.arg("-c").arg(&at).arg("-o").arg(directory.path("object")).run()
    };
    let includes = "#include <string.h>\n#include <inttypes.h>\n#include <stdbool.h>\n\
        size_t len(const char *text) { return strlen(text); }\n";
    let without = compiled(includes, &["include"]);
    assert!(!without.is_ok() && without.messages().contains("string.h"), "{}", without.messages());
    let with = compiled(includes, &["include", "include/bare"]);
    assert!(with.is_ok(), "{}", with.messages());

    // The listing of docs/FIRMWARE.md.
    let page = std::fs::read_to_string(workspace().join("docs/FIRMWARE.md")).expect("the guide");
    let (_, listing) = page.split_once("```c\n/* storage.c */\n").expect("a listing");
    let (listing, _) = listing.split_once("```").expect("its end");
    let outcome = compiled(listing, &["include", "include/bare"]);
    assert!(outcome.is_ok(), "{}", outcome.messages());
}
