//! The hook for mkinitcpio, which Debian does not have: what mkinitcpio(8) says that a hook does and is given, in functions of our own.

use std::fs;

use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Program, workspace};

/// What mkinitcpio has for hooks, each of which tells that it was called.
const BUILDER: &str = r#"
set -euo pipefail
for name in add_module add_all_modules add_checked_modules add_binary add_file add_full_dir add_runscript; do
    eval "$name() { echo $name \"\$*\"; }"
done
source "$1"
"$2"
"#;

fn hook(kind: &str) -> String {
    workspace().join("contrib/mkinitcpio").join(kind).join("atrest").display().to_string()
}

#[test]
fn the_install_hook_of_mkinitcpio_adds_what_unlocking_needs() {
    let run = |function: &str| {
        Program::named("bash").args(["-c", BUILDER, "mkinitcpio", &hook("install"), function]).ok().text()
    };
    let told = run("build");
    let mut added: Vec<&str> = told.lines().map(str::trim_end).collect();
    // This machine may have one.
    added.retain(|line| *line != "add_file /etc/crypttab");
    let wanted = [
        "add_module dm-crypt",
        "add_all_modules /crypto/",
        "add_binary /usr/sbin/atrest-init",
        "add_runscript",
    ];
    assert_eq!(added, wanted);
    assert!(run("help").contains("atrest-init"));
}

/// At boot a shell reads the hook and calls `run_hook`. A function that fails ends nothing: mkinitcpio's init looks for the root itself.
#[test]
fn the_boot_hook_of_mkinitcpio_unlocks_after_dm_crypt_is_there() {
    let scratch = Scratch::new();
    let text = fs::read_to_string(hook("hooks")).expect("the hook");
    let text = text.replace("/usr/sbin/atrest-init", "unlocker");
    let calls = "modprobe() { echo modprobe \"$@\"; return 1; }\nunlocker() { echo atrest-init \"$@\"; }\n";
    let path = scratch.file("hook", format!("{calls}{text}\nrun_hook\n").as_bytes());
    for shell in ["dash", "bash"] {
        let told = Program::named(shell).arg(&path).ok().text();
        assert_eq!(told, "modprobe -q dm-crypt\natrest-init unlock\n", "{shell}");
    }
}
