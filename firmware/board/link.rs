//! Puts the board's memory map where the linker script looks for it, and names the script.

use std::env;
use std::fs;
use std::path::PathBuf;

const CORTEX_M4: &str =
    "MEMORY { FLASH : ORIGIN = 0x00000000, LENGTH = 4M\n RAM : ORIGIN = 0x20000000, LENGTH = 4M }\n";
const RV32: &str = "MEMORY { RAM : ORIGIN = 0x80000000, LENGTH = 16M }\n";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let arm = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "arm");
    let map = if arm {
        CORTEX_M4.to_owned()
    } else {
        let regions = ["TEXT", "RODATA", "DATA", "BSS", "HEAP", "STACK"]
            .map(|region| format!("REGION_ALIAS(\"REGION_{region}\", RAM);\n"));
        format!("{RV32}{}", regions.concat())
    };
    fs::write(out.join("memory.x"), map).expect("the build directory can be written");
    println!("cargo:rustc-link-search={}", out.display());
    if !arm {
        println!("cargo:rustc-link-arg-bins=-Tmemory.x");
    }
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=../board/link.rs");
}
