//! Passphrases in the kernel's keyring and in the desktop's secret service, which is GNOME's on a session bus of its own.
//! keyctl and secret-tool say what is stored there.

use crate::common::Scratch;
use crate::keyring_tokens::in_session;

const BEGIN: &str = r#"
told() { echo "$* -> $("$PROGRAM" "$@" < /dev/null > out 2> err; echo $?)" | cat - out err | sed "s/$UUID/UUID/g"; }
UUID=$("$PROGRAM" uuid vol)
"#;

#[test]
fn the_kernels_keyring_keeps_a_passphrase_that_opens_the_volume() {
    let scratch = Scratch::with_volume();
    scratch.file("wrong", b"staple\n");
    let script = format!(
        "{BEGIN}{}",
        r#"
told key test vol --passphrase-from keyring
told key remember vol --in keyring --key-file wrong
told key remember vol --in keyring --key-file key
told key test vol --passphrase-from keyring
told key remember vol --in keyring --key-file key --id shelf:$UUID --quiet
told key test vol --passphrase-from keyring:shelf:$UUID --quiet
keyctl link @u @s; keyctl pipe $(keyctl search @u user atrest:$UUID) | cmp - key && echo "keyctl has it"
keyctl unlink @u @s
printf '[volumes.v]\npath = "%s/vol"\npassphrase-from = "keyring"\n' "$PWD" > c.toml; chmod 600 c.toml
told key test v --config c.toml
told key forget vol --id shelf:$UUID --in keyring
told key forget vol
told key forget vol --in keyring
told key test vol --passphrase-from keyring
told key test vol --passphrase-from horse | head -2
told key test vol --passphrase-from keyring: | head -1
"#
    );
    let said = in_session(&scratch, env!("CARGO_BIN_EXE_atrest"), &script);
    let missing = r#"atrest: the kernel's keyring has no key "atrest:UUID" of type user"#;
    let show = "  `keyctl show` lists what this session has";
    let expected = [
        "key test vol --passphrase-from keyring -> 1",
        missing,
        show,
        "key remember vol --in keyring --key-file wrong -> 2",
        "atrest: vol: wrong passphrase: no keyslot opens with it",
        "  check keyboard layout, Caps Lock and a newline at the end of a key file; `atrest key list` shows the keyslots",
        "key remember vol --in keyring --key-file key -> 0",
        "vol: the passphrase of keyslot 0 is stored; --passphrase-from keyring takes it",
        "key test vol --passphrase-from keyring -> 0",
        "keyslot 0 opens with this passphrase",
        "key remember vol --in keyring --key-file key --id shelf:UUID --quiet -> 0",
        "key test vol --passphrase-from keyring:shelf:UUID --quiet -> 0",
        "keyctl has it",
        "key test v --config c.toml -> 0",
        "keyslot 0 opens with this passphrase",
        "key forget vol --id shelf:UUID --in keyring -> 0",
        "the passphrase is gone from: keyring",
        "key forget vol -> 0",
        "the passphrase is gone from: keyring",
        "key forget vol --in keyring -> 0",
        "no passphrase was stored for this volume",
        "key test vol --passphrase-from keyring -> 1",
        missing,
        show,
        "key test vol --passphrase-from horse -> 1",
        "atrest: --passphrase-from: it is keyring, keyring:DESCRIPTION, secret-service or secret-service:ID",
        "key test vol --passphrase-from keyring: -> 1",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

/// Runs a script with GNOME's secret service on a session bus of its own.
fn on_a_bus(scratch: &Scratch, script: &str) -> Vec<String> {
    for program in ["dbus-run-session", "gnome-keyring-daemon", "secret-tool"] {
        atrest_testkit::oracle::tool(program);
    }
    let begin = r#"
export PROGRAM=$ATREST XDG_DATA_HOME=$PWD/data HOME=$PWD; mkdir -m 700 data
[ "${1:-}" = none ] || printf login | gnome-keyring-daemon --unlock --components=secrets > daemon 2>&1
"#;
    scratch.file("script", format!("{begin}{BEGIN}{script}").as_bytes());
    let ran = scratch.bash("timeout 120 dbus-run-session -- bash script 2> log").ok();
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn the_secret_service_keeps_a_passphrase_as_gnomes_files_does() {
    let scratch = Scratch::with_volume();
    scratch.file("binary", b"a\0b");
    let said = on_a_bus(
        &scratch,
        r#"
told key test vol --passphrase-from secret-service
told key remember vol --key-file key
secret-tool lookup gvfs-luks-uuid $UUID | cmp - key && echo "secret-tool has it"
secret-tool search gvfs-luks-uuid $UUID 2> /dev/null | grep schema
told key test vol --passphrase-from secret-service
told decrypt vol plain --passphrase-from secret-service --quiet
told key test vol --passphrase-from secret-service:other | head -2
"$PROGRAM" key add vol --key-file key --new-key-file binary --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --quiet
told key remember vol --key-file binary
told key forget vol
secret-tool lookup gvfs-luks-uuid $UUID || echo "it is gone"
printf 'correct horse\n' | secret-tool store --label=Files xdg:schema org.gnome.GVfs.Luks.Password gvfs-luks-uuid $UUID
told key test vol --passphrase-from secret-service
"#,
    );
    let none = "atrest: the secret service has no passphrase for UUID";
    let store = "  `atrest key remember --in secret-service` stores it; is the service unlocked?";
    let expected = [
        "key test vol --passphrase-from secret-service -> 2",
        none,
        store,
        "key remember vol --key-file key -> 0",
        "vol: the passphrase of keyslot 0 is stored; --passphrase-from secret-service takes it",
        "secret-tool has it",
        "schema = org.gnome.GVfs.Luks.Password",
        "key test vol --passphrase-from secret-service -> 0",
        "keyslot 0 opens with this passphrase",
        "decrypt vol plain --passphrase-from secret-service --quiet -> 0",
        "key test vol --passphrase-from secret-service:other -> 2",
        "atrest: the secret service has no passphrase for other",
        "key remember vol --key-file binary -> 1",
        "atrest: the secret service keeps text alone, and this passphrase is none",
        "  --in keyring keeps any bytes, until the machine is switched off",
        "key forget vol -> 0",
        "the passphrase is gone from: secret-service",
        "it is gone",
        "key test vol --passphrase-from secret-service -> 0",
        "keyslot 0 opens with this passphrase",
    ];
    assert_eq!(said, expected);
    // No secret was an argument or on a page of a log.
    assert!(!scratch.bash("cat log daemon").ok().stdout.contains("horse"));
}

#[test]
fn without_a_bus_or_the_program_it_is_said_what_is_missing() {
    let scratch = Scratch::with_volume();
    let words = ["key", "test", "vol", "--passphrase-from", "secret-service"];
    let ask = |bus: Option<&str>, path: Option<&str>| {
        let mut program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(words);
        program = program.env("DBUS_SESSION_BUS_ADDRESS", bus.unwrap_or("unix:path=/nonexistent"));
        if let Some(path) = path {
            program = program.env("PATH", path);
        }
        crate::common::Ran::from(program.without_terminal().run())
    };
    ask(None, None).fails(2, "the secret service gives no passphrase: ");
    let absent = ask(None, Some("/nonexistent"))
        .fails(4, "secret-tool, which asks the secret service, is not installed");
    assert!(absent.stderr.contains("apt-get install libsecret-tools"), "{}", absent.stderr);
    // What it could not remove may still be there.
    scratch.bash("mkdir bin && printf '#!/bin/sh\\necho locked >&2; exit 1\\n' > bin/secret-tool && chmod +x bin/secret-tool").ok();
    let mut program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(["key", "forget", "vol"]);
    program = program.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
    program = program.env("PATH", scratch.path("bin").display().to_string());
    let forgot = crate::common::Ran::from(program.without_terminal().run());
    forgot.fails(2, "the secret service does not remove the passphrase: locked");
    // A program that complains at length is read to its end.
    let flood = "#!/bin/sh\nhead -c 300000 /dev/zero >&2; printf 'correct horse\\n'\n";
    scratch.file("bin/secret-tool", flood.as_bytes());
    scratch.bash("chmod +x bin/secret-tool").ok();
    let mut program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(words);
    program = program.env("PATH", format!("{}:/usr/bin:/bin", scratch.path("bin").display()));
    crate::common::Ran::from(program.without_terminal().run()).ok();
    // A volume without a header has no UUID to find it by.
    scratch.file("noise", [7; 4096]);
    let plain = ["ls", "noise", "--type", "plain", "-c", "aes-xts-plain64", "--passphrase-from", "keyring"];
    scratch.atrest(&plain).fails(4, "name the secret, as in keyring:DESCRIPTION");
}
