//! Keyslots that any few of several factors open: as clevis has them, which opens ours, and in a token of our own, which an independent reader in
//! Python opens, and which cryptsetup keeps and passes over.

use atrest_testkit::oracle::Program;
use atrest_testkit::{SecurityKeyKind, SoftKey, Swtpm, Tang, cryptsetup};
use serde_json::{Value, json};

use crate::common::{Ran, Scratch};

/// The machine: its TPM and the security key that is plugged in, or what is not there.
#[derive(Clone, Copy, Default)]
struct Machine<'a> {
    tpm: Option<&'a Swtpm>,
    key: Option<&'a SoftKey>,
}

impl Machine<'_> {
    fn atrest(self, scratch: &Scratch, line: &str) -> Ran {
        let tpm = self.tpm.map_or("/nowhere/tpm".into(), Swtpm::place);
        let key = self.key.map_or("unix:/nowhere/key".into(), SoftKey::place);
        let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words(line);
        program.env("ATREST_TPM", tpm).env("ATREST_FIDO2", key).without_terminal().run().into()
    }

    fn test(self, scratch: &Scratch, more: &str) -> Ran {
        self.atrest(scratch, &format!("key test vol --token-only {more}"))
    }
}

/// What a passphrase among the factors costs here.
const CHEAP: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1";

fn with_secrets() -> Scratch {
    let scratch = Scratch::with_volume();
    for (name, text) in
        [("pin", "1234"), ("words", "correct horse"), ("wrong", "wrong"), ("other", "battery staple")]
    {
        scratch.file(name, text);
    }
    scratch
}

/// What an independent reader says the keyslot's passphrase is, with these secrets of factors.
fn read_independently(scratch: &Scratch, id: u32, secrets: Value, volume_key: &[u8]) -> String {
    let token = scratch.atrest(&["token", "export", "vol", &id.to_string()]).ok().stdout;
    let token: Value = serde_json::from_str(&token).expect("JSON");
    let volume_key: String = volume_key.iter().map(|byte| format!("{byte:02x}")).collect();
    let asked = json!({ "token": token, "secrets": secrets, "volume_key": volume_key });
    // Debian's own Python, which has Debian's python3-cryptography.
    let source = include_str!("../../../testkit/src/shares.py");
    Program::at("/usr/bin/python3").arg("-c").arg(source).arg(asked.to_string()).ok().text()
}

#[test]
fn any_two_of_servers_and_a_tpm_open_here_and_by_clevis_and_one_is_replaced() {
    let (one, two, three, tpm) = (Tang::new(), Tang::new(), Tang::new(), Swtpm::new());
    let scratch = with_secrets();
    tpm.extend(7);
    let (here, away) = (Machine { tpm: Some(&tpm), key: None }, Machine::default());
    let prints = |servers: &[&Tang]| {
        let prints = servers.iter().map(|tang| format!("--thumbprint {}", tang.thumbprint()));
        prints.collect::<Vec<_>>().join(" ")
    };
    let add = |machine: Machine<'_>, line: &str| {
        machine.atrest(&scratch, &format!("key add vol --key-file key {} {line}", prints(&[&one, &two])))
    };
    let (first, second) = (&one.url, &two.url);
    let before = scratch.read("vol");
    add(away, &format!("--any 2 tpm2 tang={first} tang={second}")).fails(4, "there is no TPM at");
    // One server under two addresses: whichever thumbprint is right for whichever address.
    let again = first.replace("127.0.0.1", "localhost");
    add(here, &format!("--any 2 tang={first} tang={again}"))
        .fails(4, "it would be the same thing as factor 1");
    add(here, &format!("--any 2 tang={first} tang={again} recovery"))
        .fails(4, "it would be the same thing as factor 1");
    assert!(scratch.read("vol") == before, "nothing is written");
    add(here, &format!("--any 2 tpm2 tang={first} tang={second}")).ok();
    add(here, &format!("--pcrs none --any 2 tpm2 tang={first}")).ok();
    let clevis = |machine: Machine<'_>, slot: u32| {
        let tcti = machine.tpm.map_or("none".into(), Swtpm::tcti);
        let program = Program::named("clevis").words(&format!("luks pass -d vol -s {slot}"));
        let ran = program.current_dir(scratch.as_path()).env("TPM2TOOLS_TCTI", tcti).run();
        machine.tpm.inspect(|tpm| tpm.forget());
        if ran.is_ok() {
            scratch.file("passphrase", ran.text());
            let slot = slot.to_string();
            scratch.atrest(&["key", "test", "vol", "--key-file", "passphrase", "--key-slot", &slot]).ok();
        }
        ran.is_ok()
    };
    for machine in [here, away] {
        machine.test(&scratch, "--token-id 0").ok();
        assert!(clevis(machine, 1));
    }
    here.test(&scratch, "--token-id 1").ok();
    assert!(clevis(here, 2));
    away.test(&scratch, "--token-id 1").fails(2, "1 of the 2 shares that it needs can be had");
    assert!(!clevis(away, 2));
    // The second server is lost. Its share is given to another one, by the TPM and the first.
    forget_keys(&two);
    away.test(&scratch, "--token-id 0").fails(2, "1 of the 2 shares that it needs can be had");
    let line = format!("key replace vol 3 tang={} --of 0 {}", three.url, prints(&[&three]));
    away.atrest(&scratch, &line).fails(4, "the factor is not replaced: 1 of the 2 shares");
    here.atrest(&scratch, &line.replace("vol 3", "vol 4")).fails(4, "it has no factor 4");
    for (option, says) in [
        ("--volume-key-file key", "do not go with a token of clevis"),
        ("--key-slot 1", "--key-slot does not go with"),
        ("--token-only", "--token-only"),
        ("--pcrs 7", "--pcrs goes with the factors tpm2"),
        ("--pin-file pin", "--pin-file goes with the factor pkcs11=URI"),
        ("--pbkdf-memory 32", "of the factor passphrase alone"),
        ("--hash sha256", "--hash and --garlic"),
        ("--thumbprint -a --hash sha256", "--hash and --garlic"),
    ] {
        here.atrest(&scratch, &format!("{line} {option}")).fails(1, says);
    }
    here.atrest(&scratch, "key replace vol 1 tpm2 --of 0 --thumbprint a").fails(1, "--thumbprint goes with");
    // What is a factor already is none once more, under no other address either.
    let twin = |factor: &str| {
        let print = if factor.starts_with("tang") { prints(&[&one]) } else { String::new() };
        let line = format!("key replace vol 3 {factor} --of 0 {print}");
        here.atrest(&scratch, &line).fails(4, "it would be the same thing as factor");
    };
    twin("tpm2");
    twin(&format!("tang={first}"));
    twin(&format!("tang={}", first.replace("127.0.0.1", "localhost")));
    here.atrest(&scratch, &line.replace("--of 0", "")).fails(1, "several tokens have factors");
    here.atrest(&scratch, "key replace vol 3 passphrase --of 0")
        .fails(1, "servers and TPMs without a PIN alone");
    let said = here.atrest(&scratch, &line).ok().stderr;
    assert!(said.contains("the old factor still counts"), "{said}");
    for machine in [here, away] {
        machine.test(&scratch, "--token-id 0").ok();
        assert!(clevis(machine, 1));
    }
    forget_keys(&one);
    here.test(&scratch, "--token-id 0").ok();
    assert!(clevis(here, 1), "the TPM and the new server");
    let list = scratch.atrest(&["key", "list", "vol"]).ok().stdout;
    assert!(list.contains("2 of: (the TPM of one machine, PCR \"7\" as it was; the server"), "{list}");
}

/// A server loses its keys.
fn forget_keys(tang: &Tang) {
    for entry in std::fs::read_dir(tang.keys.as_path()).expect("keys") {
        std::fs::remove_file(entry.expect("a key").path()).expect("deleted");
    }
}

#[test]
fn any_two_of_a_tpm_a_security_key_and_a_passphrase_open_and_what_is_missing_is_told() {
    let (tpm, key) = (Swtpm::new(), SoftKey::new(&SecurityKeyKind::default()));
    let scratch = with_secrets();
    let all = Machine { tpm: Some(&tpm), key: Some(&key) };
    let (no_tpm, no_key) = (Machine { tpm: None, ..all }, Machine { key: None, ..all });
    let nothing = Machine::default();
    let before = scratch.read("vol");
    let add = "key add vol --key-file key --pcrs none";
    let factors = "--any 2 tpm2-pin=pin fido2 passphrase=words";
    no_key.atrest(&scratch, &format!("{add} {CHEAP} {factors}")).fails(4, "there is no security key at");
    all.atrest(&scratch, &format!("{add} --any 3 tpm2 fido2")).fails(1, "3 of 2 factors can't be");
    all.atrest(&scratch, &format!("{add} --pin --any 1 tpm2 fido2")).fails(1, "cannot be used with");
    all.atrest(&scratch, "key add --key-file key --any 2 tpm2 fido2 vol").fails(1, "the volume is missing");
    assert!(scratch.read("vol") == before, "nothing is written");
    let said = all.atrest(&scratch, &format!("{add} {CHEAP} {factors}")).ok();
    assert_eq!(said.stderr.matches("touch the security key").count(), 2, "{}", said.stderr);
    let (pin, words) = ("--factor-file 1=pin", "--factor-file 3=words");
    // Each pair, and one alone.
    all.test(&scratch, pin).ok();
    all.test(&scratch, words).ok();
    no_key.test(&scratch, &format!("{pin} {words}")).ok();
    no_tpm.test(&scratch, words).ok();
    all.atrest(&scratch, &format!("decrypt vol plain --token-id 0 {words}")).ok();
    no_key.test(&scratch, words).fails(
        2,
        "2 of its factors must be there, 1 are, and 1 more must come: factor 1 (the TPM of one machine, a PIN): it needs a PIN; \
         factor 2 (a security key (FIDO2), a touch): there is no security key at /nowhere/key",
    );
    nothing.test(&scratch, "").fails(2, "0 are, and 2 more must come");
    no_tpm
        .test(&scratch, "--factor-file 3=wrong")
        .fails(2, "factor 3 (a passphrase): the passphrase is wrong");
    no_key
        .test(&scratch, &format!("--factor-file 1=wrong {words}"))
        .fails(2, "factor 1 (the TPM of one machine, a PIN): the PIN is wrong");
    // Others of the same kind are told.
    let stranger = SoftKey::new(&SecurityKeyKind::default());
    Machine { key: Some(&stranger), tpm: None }.test(&scratch, words).fails(
        2,
        "factor 2 (a security key (FIDO2), a touch): it is not for the security key that is plugged in",
    );
    let list = scratch.atrest(&["key", "list", "vol"]).ok().stdout;
    let words_of_it = "2 of these factors: (1 the TPM of one machine, a PIN; 2 a security key (FIDO2), a touch; 3 a passphrase)";
    assert!(list.contains(words_of_it), "{list}");
    for factor in ["tpm2", "fido2"] {
        all.atrest(&scratch, &format!("key replace vol 3 {factor} --key-file key"))
            .fails(4, "it would be the same thing as factor");
    }
    // cryptsetup keeps the token, shows it, and opens by the rest.
    let dump = cryptsetup::cryptsetup("luksDump").arg(scratch.path("vol")).ok().text();
    assert!(dump.contains("0: atrest-shares\n\tKeyslot:    1"), "{dump}");
    let open =
        |line: &str| scratch.program("cryptsetup").words(&format!("open --test-passphrase vol {line}")).run();
    assert!(open("--key-file key").is_ok());
    assert!(!open("--token-only --token-id 0").is_ok());
    let exported = scratch.program("cryptsetup").words("token export vol --token-id 0").ok().text();
    scratch.file("token.json", exported);
    scratch.program("cryptsetup").words("token remove vol --token-id 0").ok();
    scratch.program("cryptsetup").words("token import vol --token-id 0 --json-file token.json").ok();
    no_tpm.test(&scratch, words).ok();
}

#[test]
fn an_independent_reader_opens_what_we_make_also_after_a_factor_was_replaced() {
    let key = SoftKey::new(&SecurityKeyKind::default());
    let scratch = with_secrets();
    let here = Machine { key: Some(&key), tpm: None };
    let added = format!("key add vol --key-file key {CHEAP} --any 2 passphrase=words fido2 recovery");
    let recovery = here.atrest(&scratch, &added).ok().stdout.trim().to_owned();
    scratch.atrest(&["key", "export", "vol", "vk", "--key-file", "key", "--yes"]).ok();
    let volume_key = scratch.read("vk");
    let opens = |id: u32, secrets: Value, slot: &str| {
        scratch.file("passphrase", read_independently(&scratch, id, secrets, &volume_key));
        scratch.atrest(&["key", "test", "vol", "--key-file", "passphrase", "--key-slot", slot]).ok();
        cryptsetup::cryptsetup("open --test-passphrase --key-file")
            .arg(scratch.path("passphrase"))
            .words(&format!("--key-slot {slot}"))
            .arg(scratch.path("vol"))
            .ok();
    };
    opens(0, json!({ "1": "correct horse", "3": recovery }), "1");
    // The security key is lost, and a passphrase comes in its place: by the other two, and then by another keyslot.
    scratch.file("recovery", recovery.to_uppercase());
    scratch.atrest(&["header", "pin", "vol", "--key-file", "key", "--policy", "policy"]).ok();
    let two = "--factor-file 1=words --factor-file 3=recovery --token-only";
    let nobody = Machine::default();
    nobody.atrest(&scratch, &format!("key replace vol 2 passphrase=other {CHEAP}")).fails(1, "--key-file");
    nobody
        .atrest(&scratch, &format!("key replace vol 2 passphrase=other --key-file wrong {CHEAP}"))
        .fails(2, "wrong passphrase");
    nobody
        .atrest(&scratch, &format!("key replace vol 4 passphrase=other {two} {CHEAP}"))
        .fails(1, "token 0 has no factor 4");
    nobody.atrest(&scratch, &format!("key replace vol 2 passphrase=other {two} {CHEAP}")).ok();
    let tokens = scratch.atrest(&["token", "list", "vol", "--json"]).ok().json();
    let shares: Vec<&Value> =
        tokens.as_array().expect("tokens").iter().filter(|token| token["kind"] == "atrest-shares").collect();
    let [token] = shares[..] else { panic!("{tokens}") };
    assert_eq!(token["keyslots"], json!([2]), "the old keyslot and its token are gone: {tokens}");
    let id = u32::try_from(token["id"].as_u64().expect("a number")).expect("small");
    opens(id, json!({ "1": "correct horse", "2": "battery staple" }), "2");
    opens(id, json!({ "2": "battery staple", "3": recovery }), "2");
    opens(id, json!({ "1": "correct horse", "3": recovery }), "2");
    here.test(&scratch, "--factor-file 1=words").fails(2, "factor 2 (a passphrase): nobody has typed it");
    nobody
        .atrest(&scratch, "key replace vol 1 recovery --key-file key")
        .fails(4, "it would be the same thing as factor 3");
    let print = nobody.atrest(&scratch, "key replace vol 3 recovery --key-file key").ok().stdout;
    assert_ne!(print.trim(), recovery);
    nobody.test(&scratch, "--factor-file 1=words --factor-file 2=other").ok();
    nobody
        .test(&scratch, "--factor-file 1=words --factor-file 3=recovery")
        .fails(2, "factor 3 (a recovery key): the passphrase is wrong");
    // The pin of the header was renewed with each.
    scratch.atrest(&["header", "pin", "vol", "--key-file", "key"]).ok();
    // They go by their kind.
    scratch
        .atrest(&["key", "remove", "vol", "--kind", "fido2,tpm2", "--key-file", "key"])
        .fails(1, "no keyslot is of this kind");
    scratch.atrest(&["key", "remove", "vol", "--kind", "threshold", "--key-file", "key"]).ok();
    let kinds = scratch.atrest(&["token", "list", "vol"]).ok().stdout;
    assert!(!kinds.contains("atrest-shares"), "{kinds}");
}

/// Whoever can't be told a recovery key keeps what opened before.
#[test]
fn a_recovery_key_that_can_t_be_shown_wipes_nothing() {
    let scratch = with_secrets();
    let nobody = Machine::default();
    let added =
        format!("key add vol --key-file key {CHEAP} --any 2 passphrase=words passphrase=other recovery");
    let recovery = nobody.atrest(&scratch, &added).ok().stdout;
    scratch.file("recovery", recovery.trim());
    // A token that names somebody's own keyslot has that wiped by nobody.
    scratch.file("before", scratch.read("vol"));
    let token = scratch.atrest(&["token", "export", "vol", "0"]).ok().stdout;
    let mut token: Value = serde_json::from_str(&token).expect("JSON");
    token["keyslots"] = json!(["0"]);
    scratch.file("token.json", token.to_string());
    scratch.program("cryptsetup").words("token remove vol --token-id 0").ok();
    scratch.program("cryptsetup").words("token import vol --token-id 0 --json-file token.json").ok();
    nobody
        .atrest(&scratch, "key replace vol 3 recovery --key-file key")
        .fails(2, "the token names keyslot 0, which would be wiped, and which is not made for factors");
    scratch.file("vol", scratch.read("before"));
    let replace = r#"exec "$0" key replace vol 3 recovery --key-file key >/dev/full"#;
    let shell = scratch.program("sh").arg("-c").arg(replace).arg(env!("CARGO_BIN_EXE_atrest"));
    Ran::from(shell.run()).fails(4, "keyslot 2 is made, but its recovery key is not shown; keyslot 1 stays");
    nobody.test(&scratch, "--token-id 0 --factor-file 1=words --factor-file 3=recovery").ok();
}
