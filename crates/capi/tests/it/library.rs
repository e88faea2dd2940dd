//! `make -C firmware/card-c library`, `library-sealed` and `library-its` give all that a project in C needs, and what a chip has to keep
//! of it is small.

use std::path::{Path, PathBuf};
use std::time::Duration;

use atrest_testkit::Scratch;
use atrest_testkit::firmware::{Counted, flash_size, hold_table};
use atrest_testkit::oracle::{Program, workspace};

/// What a program under littlefs calls, and the most bytes that it takes on a Cortex-M4.
struct Use {
    /// As the figures name it.
    name: &'static str,
    /// What people call it.
    text: &'static str,
    /// The goal of the Makefile that builds the library.
    goal: &'static str,
    called: &'static [&'static str],
    most_code: u64,
}

const USES: [Use; 5] = [
    Use {
        name: "key",
        text: "encrypted, AES-XTS, a key of the chip",
        goal: "library",
        called: &[
            "atrest_device_key",
            "atrest_flash_open_key",
            "atrest_flash_close",
            "atrest_lfs_read",
            "atrest_lfs_prog",
            "atrest_lfs_erase",
            "atrest_lfs_sync",
        ],
        most_code: 22 << 10,
    },
    Use {
        name: "passphrase",
        text: "encrypted, AES-XTS, header and PBKDF2",
        goal: "library",
        called: &[
            "atrest_flash_open",
            "atrest_flash_close",
            "atrest_lfs_read",
            "atrest_lfs_prog",
            "atrest_lfs_erase",
            "atrest_lfs_sync",
        ],
        most_code: 30 << 10,
    },
    Use {
        name: "sealed_key",
        text: "sealed, Ascon-AEAD128, a key of the chip",
        goal: "library-sealed",
        called: &[
            "atrest_device_key",
            "atrest_sealed_format",
            "atrest_sealed_open",
            "atrest_sealed_anchor",
            "atrest_sealed_close",
            "atrest_sealed_lfs_read",
            "atrest_sealed_lfs_prog",
            "atrest_sealed_lfs_erase",
            "atrest_sealed_lfs_sync",
        ],
        most_code: 45 << 10,
    },
    Use {
        name: "sealed_passphrase",
        text: "sealed, Ascon-AEAD128, header and PBKDF2",
        goal: "library-sealed",
        called: &[
            "atrest_sealed_format_header",
            "atrest_sealed_unlock",
            "atrest_sealed_anchor",
            "atrest_sealed_close",
            "atrest_sealed_lfs_read",
            "atrest_sealed_lfs_prog",
            "atrest_sealed_lfs_erase",
            "atrest_sealed_lfs_sync",
        ],
        most_code: 64 << 10,
    },
    Use {
        name: "its",
        text: "Internal Trusted Storage, sealed, Ascon-AEAD128, a key of the chip",
        goal: "library-its",
        called: &[
            "atrest_device_key",
            "atrest_sealed_format",
            "atrest_sealed_open",
            "atrest_sealed_close",
            "atrest_its_format",
            "atrest_its_open",
            "atrest_its_set",
            "atrest_its_get",
            "atrest_its_get_info",
            "atrest_its_remove",
        ],
        most_code: 64 << 10,
    },
];

const FLAGS: &str = "-mcpu=cortex-m4 -mthumb -Os -ffreestanding -ffunction-sections -Wall -Wextra -Werror";
const FLOATS: [(&str, &str); 2] =
    [("soft", "-mfloat-abi=soft"), ("hard", "-mfloat-abi=hard -mfpu=fpv4-sp-d16")];

const TABLE: &str = "| from C, on a Cortex-M4 | code, soft-float | code, hard-float |\n|---|---:|---:|\n";

#[test]
fn the_library_is_small_whatever_the_project_does_with_floating_point() {
    let directory = Scratch::new();
    let mut lines = String::new();
    for (float, flags) in FLOATS {
        for used in USES {
            let place = directory.path(format!("{float}-{}", used.goal));
            if !place.exists() {
                make(used.goal, float, &place);
            }
            let code = code(&used, flags, &place.join("cortex_m4/atrest"));
            assert!(code <= used.most_code, "{}, {float}: {code} bytes of code", used.name);
            lines += &format!("{}\t{float}\t{code}\n", used.name);
        }
    }
    let committed = workspace().join("firmware/library.tsv");
    let what = "use of the C library, kind of floating point; bytes of code";
    Counted { lines: &lines, names: 2, what }.hold_those(&committed, |_| true);
    let committed = std::fs::read_to_string(committed).expect("the figures");
    let rows = USES.map(|used| {
        let of = |float: &str| {
            let start = format!("{}\t{float}\t", used.name);
            committed.lines().find_map(|line| line.strip_prefix(&start)).expect("a figure").to_owned()
        };
        format!("| {} | {} | {} |\n", used.text, of("soft"), of("hard"))
    });
    hold_table(&workspace().join("docs/FIRMWARE.md"), TABLE, &rows.concat());
}

#[test]
fn the_library_brings_what_littlefs_includes_and_the_listings_of_the_guide_compile() {
    let directory = Scratch::new();
    make("library-its", "soft", directory.as_path());
    let place = directory.path("cortex_m4/atrest");
    // This compiler has no C library. Without the headers it says so, and with them what littlefs includes is there.
    let compiled = |source: &str, include: &[&str]| {
        let include = include.iter().map(|directory| format!("-I{}", place.join(directory).display()));
        let at = directory.path("source.c");
        std::fs::write(&at, source).expect("a source");
        let compiler =
            Program::named("arm-none-eabi-gcc").words(FLAGS).words("-mfloat-abi=soft").args(include);
        compiler.arg("-c").arg(&at).arg("-o").arg(directory.path("object")).run()
    };
    let includes = "#include <string.h>\n#include <inttypes.h>\n#include <stdbool.h>\n\
        size_t len(const char *text) { return strlen(text); }\n";
    let without = compiled(includes, &["include"]);
    assert!(!without.is_ok() && without.messages().contains("string.h"), "{}", without.messages());
    let with = compiled(includes, &["include", "include/bare"]);
    assert!(with.is_ok(), "{}", with.messages());

    let psa = std::fs::read_to_string(place.join("src/psa_its.c")).expect("the functions of PSA");
    assert!(compiled(&psa, &["include"]).is_ok());

    let page = std::fs::read_to_string(workspace().join("docs/FIRMWARE.md")).expect("the guide");
    let listings = page.split("```c\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let sources: Vec<&str> =
        listings.filter(|text| text.lines().next().is_some_and(|name| name.ends_with(".c */"))).collect();
    assert!(sources.len() >= 2, "{} listings in C", sources.len());
    for listing in sources {
        let outcome = compiled(&format!("{listing}\n"), &["include", "include/bare"]);
        assert!(outcome.is_ok(), "{}", outcome.messages());
    }
}

/// Builds the library into a directory.
fn make(goal: &str, float: &str, place: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
    Program::named("make")
        .args(["-C", "firmware/card-c", goal, &format!("FLOAT={float}")])
        .arg(variable("OUT", place))
        // A place of its own: a build of tests would make us wait for its end.
        .arg(variable("TARGET_DIRECTORY", &workspace().join("target/card-c")))
        .arg(variable("CARGO", Path::new(&cargo)))
        .current_dir(workspace())
        .limit(Duration::from_secs(300))
        .ok();
}

/// Bytes of what a use takes of the library.
fn code(used: &Use, float: &str, place: &Path) -> u64 {
    let library = place.join("lib/libatrest_capi.a");
    let program: PathBuf = place.join(used.name);
    Program::named("arm-none-eabi-gcc")
        .words(FLAGS)
        .words(float)
        .words("-nostartfiles -nostdlib -Wl,--gc-sections -Wl,--fatal-warnings")
        .arg(format!("-Wl,-e,{}", used.called[0]))
        .args(used.called.iter().map(|function| format!("-Wl,-u,{function}")))
        .arg(&library)
        .args(["-lgcc", "-o"])
        .arg(&program)
        .ok();
    flash_size(&program)
}
