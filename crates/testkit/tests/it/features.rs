//! A build with one feature has that feature's algorithm and no other: each such build compiles for a Cortex-M0, without a warning, and each
//! feature is documented.

use std::fs;
use std::time::Duration;

use atrest_testkit::campaign::Campaign;
use atrest_testkit::oracle::{Program, workspace};

/// The crates of firmware, with a feature that each build of it has besides: a library for C without a cipher is refused.
const CRATES: &[(&str, &str)] =
    &[("cipher", ""), ("kdf", ""), ("keyslot", ""), ("flash", ""), ("capi", "aes-xts")];
/// What is no choice of a firmware's: a computer's features, those that others turn on, and the crates' own tests.
const OTHERS: &[&str] = &["default", "std", "other-ciphers", "internals"];
/// A Cortex-M0: no atomic swap, no hardware division.
const TARGET: &str = "thumbv6m-none-eabi";
/// Its logger takes atomic instructions that a Cortex-M0 has not; `firmware/delog` stands in for that.
const NEEDS_ATOMICS: &str = "littlefs2";

#[derive(Clone, Debug)]
struct Build {
    name: &'static str,
    features: String,
    target: &'static str,
}

#[test]
fn each_feature_builds_alone_for_a_cortex_m0() {
    Campaign::matrix("features alone", 3).over(&builds(), |build| {
        let outcome = cargo()
            .words("check --quiet --locked --offline --no-default-features --package")
            .arg(format!("atrest-{}", build.name))
            .args(["--features", &build.features, "--target", build.target, "--target-dir"])
            .arg(workspace().join("target/features"))
            .env("RUSTFLAGS", "--deny warnings")
            .env(
                "CFLAGS_thumbv7em_none_eabi",
                format!("-I{}", workspace().join("firmware/card/libc").display()),
            )
            .env(
                "BINDGEN_EXTRA_CLANG_ARGS_thumbv7em_none_eabi",
                format!("-ffreestanding -I{}", workspace().join("firmware/card/libc").display()),
            )
            .limit(Duration::from_secs(300))
            .run();
        assert!(outcome.is_ok(), "{build:?}:\n{}", outcome.messages());
    });
}

#[test]
fn each_feature_is_in_the_documentation_of_its_crate() {
    let mut checked = 0;
    for (name, _) in CRATES {
        let source = workspace().join("crates").join(name).join("src/lib.rs");
        let text = fs::read_to_string(source).expect("lib.rs");
        for feature in features(name) {
            assert!(text.contains(&format!("`{feature}`")), "atrest-{name} does not say what {feature} is");
            checked += 1;
        }
    }
    assert!(checked > 50, "only {checked} features");
}

/// Each crate without features, and with each feature alone.
fn builds() -> Vec<Build> {
    let of = |(name, with): &(&'static str, &str)| {
        let (name, with) = (*name, (*with).to_owned());
        let alone = features(name).into_iter().map(|feature| format!("{with} {feature}"));
        let builds = std::iter::once(with.clone()).chain(alone);
        builds.map(move |features| build(name, features)).collect::<Vec<_>>()
    };
    CRATES.iter().flat_map(of).collect()
}

fn build(name: &'static str, features: String) -> Build {
    let target = if features.contains(NEEDS_ATOMICS) { "thumbv7em-none-eabi" } else { TARGET };
    Build { name, features, target }
}

/// Those that a firmware chooses from.
fn features(name: &str) -> Vec<String> {
    let metadata = cargo().words("metadata --no-deps --locked --offline --format-version 1").ok().json();
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|package| package["name"] == format!("atrest-{name}")).expect(name);
    let features = package["features"].as_object().expect("features");
    features.keys().filter(|feature| !OTHERS.contains(&feature.as_str())).cloned().collect()
}

fn cargo() -> Program {
    Program::at(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).current_dir(workspace())
}
