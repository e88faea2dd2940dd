//! Tells the compiler which targets have Thumb-2, for which the stable toolchain has no `cfg`.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(thumb2)");
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    if ["thumbv7m", "thumbv7em", "thumbv8m.main"].iter().any(|prefix| target.starts_with(prefix)) {
        println!("cargo:rustc-cfg=thumb2");
    }
}
