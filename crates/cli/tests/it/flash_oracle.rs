//! The flash header and the LittleFS behind it, in the eyes of programs that share no code with us.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::common::{Ran, Scratch};
use serde_json::{Value, json};

/// Runs a program of `tests/oracle`.
fn oracle(scratch: &Scratch, script: &str, args: &[&str]) -> Ran {
    let path = format!("{}/tests/oracle/{script}", env!("CARGO_MANIFEST_DIR"));
    scratch.tool("python3", &[&[path.as_str()], args].concat())
}

/// Every kind of header that the desk writes: an independent reader finds the same in it, and the same key by each passphrase.
#[test]
fn headers_of_the_desk_are_opened_by_an_independent_reader() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    scratch.file("two", b"battery");
    scratch.file("wrong", b"staple");
    let sealed = ["--type", "sealed", "--store", "store", "--yes"];
    let kinds: [(&[&str], &str, u64); 5] = [
        (&["--type", "flash"], "aes-xts-plain64", 64),
        (
            &["--type", "flash", "-c", "xchacha12,aes-adiantum-plain64", "--erase-size", "512"],
            "xchacha12,aes-adiantum-plain64",
            32,
        ),
        (&[&sealed[..], &["--tickets", "store", "--erase-size", "32768"]].concat(), "chacha20-poly1305", 32),
        (&[&sealed[..], &["--aead", "ascon-aead128"]].concat(), "ascon-aead128", 16),
        (
            &[&sealed[..], &["--aead", "aes-ccm", "--tag-size", "12", "--key-size", "128"]].concat(),
            "aes-ccm",
            16,
        ),
    ];
    for (index, (options, cipher, key_len)) in kinds.into_iter().enumerate() {
        let card = format!("card{index}");
        let format =
            [&["format", &card, "--size", "256K", "--key-file", "key", "--garlic", "9"], options].concat();
        scratch.atrest(&format).ok();
        let add = ["key", "add", &card, "--key-file", "key", "--new-key-file", "two", "--new-key-slot", "3"];
        let cheap = ["--kdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
        // The header of a sealed volume is changed with its store.
        let store = if options.contains(&"sealed") { &["--store", "store"][..] } else { &[] };
        scratch.atrest(&[&add[..], &cheap, store].concat()).ok();
        let read = oracle(&scratch, "flash_header.py", &["open", &card, "key", "two", "wrong"]).ok().json();
        let key = read["slots"]["0"][0].as_str().expect("a key");
        assert_eq!(key.len() as u64, 2 * key_len, "{cipher}");
        assert_eq!(read["slots"], json!({ "0": [key, null, null], "3": [null, key, null] }), "{cipher}");
        // What it reads is what the desk says of it.
        let info = scratch.atrest(&["info", "--json", &card]).ok().json();
        assert_eq!((&read["cipher"], &read["key_len"]), (&cipher.into(), &key_len.into()));
        assert_eq!((&read["sequence"], &info["sequence"]), (&2.into(), &2.into()));
        assert_eq!(read["uuid"].as_str(), info["uuid"].as_str().map(|uuid| uuid.replace('-', "")).as_deref());
        let sizes = ["read_size", "prog_size", "erase_size", "blocks"].map(|name| info[name].clone());
        assert_eq!(read["sizes"], Value::from(sizes.to_vec()));
        assert_eq!(read["unit"], info["data_unit"]);
        let sealed = info["sealed"] == true;
        assert_eq!(read["level"], if sealed { 2 } else { 0 });
        let tickets = if info["sealing"]["tickets"] == "store" { 1 } else { 0 };
        assert_eq!((&read["tickets"], &read["store"]), (&tickets.into(), &u8::from(sealed).into()));
    }
}

/// Headers that an independent writer makes, in the place of the desk's own: of the same volume, with keyslots of its own; and the
/// worked example of FORMATS.md, to the byte.
#[test]
fn headers_of_an_independent_writer_are_opened_by_the_desk() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch.file("two", b"battery");
    scratch.file("three", b"correct horse battery staple");
    scratch.bash("mkdir in; echo hello > in/hello").ok();
    for (kind, options) in
        [("flash", &["--type", "flash"][..]), ("sealed", &["--type", "sealed", "--store", "store"])]
    {
        let image = ["image", "in", kind, "--size", "256K", "--key-file", "key", "--garlic", "6"];
        scratch.atrest(&[&image[..], options].concat()).ok();
        let mut header = oracle(&scratch, "flash_header.py", &["open", kind, "key"]).ok().json();
        let slot = |kdf: &str, passphrase: &str| json!({ "kdf": kdf, "salt": "b0".repeat(16), "passphrase": passphrase });
        header["key"] = header["slots"]["0"][0].clone();
        header["sequence"] = 77.into();
        // PBKDF2 with 1000 iterations, Catena-DBG with depth 3 from garlic 4 to 7.
        header["slots"] = json!({ "1": slot("01e8030000", "battery"), "2": slot("03030407", "correct horse battery staple") });
        oracle(&scratch, "flash_header.py", &["make", kind, &header.to_string()]).ok();
        let info = scratch.atrest(&["info", kind]).ok().stdout;
        assert!(info.contains("sequence  77") && info.contains("catena-dbg, garlic 7"), "{info}");
        let store: &[&str] = if kind == "sealed" { &["--store", "store"] } else { &[] };
        if kind == "sealed" {
            // The store knows of no such header, until the owner takes it.
            let other = scratch.atrest(&[&["cat", kind, "/hello", "--key-file", "two"], store].concat());
            other.fails(4, "(number 77) is not the one that the trusted store names (number 1)");
            scratch.atrest(&[&["repair", kind, "--yes", "--key-file", "two"], store].concat()).ok();
        }
        for file in ["two", "three"] {
            let read = scratch.atrest(&[&["cat", kind, "/hello", "--key-file", file], store].concat()).ok();
            assert_eq!(read.stdout, "hello\n");
        }
        let old = scratch.atrest(&[&["cat", kind, "/hello", "--key-file", "key"], store].concat());
        old.fails(2, "wrong passphrase");
    }
    // A volume that is anchored by a counter is not for the desk, but for reading without freshness. Three blocks behind it are the log.
    fs::OpenOptions::new()
        .append(true)
        .open(scratch.path("sealed"))
        .and_then(|mut file| file.write_all(&[0x55; 12288]))
        .expect("three more blocks");
    let mut header = oracle(&scratch, "flash_header.py", &["open", "sealed", "two"]).ok().json();
    header["key"] = header["slots"]["1"][0].clone();
    header["store"] = 2.into();
    header["sizes"][3] = 67.into();
    header["slots"] =
        json!({ "0": { "kdf": "01e8030000", "salt": "b1".repeat(16), "passphrase": "battery" } });
    oracle(&scratch, "flash_header.py", &["make", "sealed", &header.to_string()]).ok();
    let counter = scratch.atrest(&["ls", "sealed", "--key-file", "two", "--store", "store"]);
    assert!(counter.fails(4, "by a counter in a chip").stderr.contains("--without-freshness"));
    let read = scratch.atrest(&["cat", "sealed", "/hello", "--key-file", "two", "--without-freshness"]).ok();
    assert_eq!(read.stdout, "hello\n");
    let example = json!({
        "cipher": "chacha20-poly1305", "level": 2, "tag": 16, "store": 1, "tickets": 0, "sequence": 1,
        "uuid": "101112131415161718191a1b1c1d1e1f", "sizes": [1, 16, 4096, 256], "unit": 264,
        "key": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "slots": {
            "0": { "kdf": "02020c0c", "salt": "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf", "passphrase": "correct horse battery staple" },
            "2": { "kdf": "01e8030000", "salt": "b0b1b2b3b4b5b6b7b8b9babbbcbdbebf", "passphrase": "battery" },
        },
    });
    fs::File::create(scratch.path("example")).and_then(|file| file.set_len(1 << 20)).expect("a file");
    let made = oracle(&scratch, "flash_header.py", &["make", "example", &example.to_string()]).ok().stdout;
    let document = include_str!("../../../../FORMATS.md");
    let dump = document
        .split_once("Lines that are left out are zeros.")
        .and_then(|(_, rest)| rest.split("```").nth(1));
    for line in dump.expect("the worked example").lines().filter(|line| !line.is_empty()) {
        let (at, bytes) = line.split_once("  ").expect("an offset and 32 bytes");
        let at = usize::from_str_radix(at, 16).expect("an offset");
        assert_eq!(&made[2 * at..2 * at + 64], bytes, "at {at:#x}");
    }
    for (file, keyslot) in [("three", 0), ("two", 2)] {
        let tested = scratch.atrest(&["key", "test", "--json", "example", "--key-file", file]).ok().json();
        assert_eq!(tested["keyslot"], keyslot);
    }
}

/// Header, units, sum, record and LittleFS of a sealed image that was written in several sessions, each read by what FORMATS.md says of it.
/// Nothing of ours decrypts anything here.
#[test]
fn a_sealed_image_is_read_without_any_code_of_ours() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch
        .bash("mkdir -p in/a/b; head -c 20000 /dev/urandom > in/a/b/noise; echo hello > in/hello; echo old > in/gone")
        .ok();
    for (tickets, erase) in [("slot", 4096), ("store", 2048)] {
        let image = format!(
            "K='--key-file key --store {tickets}.store'; \
             $ATREST image in {tickets} --type sealed $K --size 128K --erase-size {erase} --tickets {tickets} --garlic 6 && \
             $ATREST rm $K {tickets} /gone && echo new > in/new && $ATREST cp $K in/new {tickets}:/a && \
             $ATREST cp --yes $K in/a/b/noise {tickets}:/a/b/ && mkdir in/many && \
             for n in $(seq 150); do echo $n > in/many/$n; done && $ATREST cp -r $K in/many {tickets}:/ && \
             $ATREST df --json $K {tickets}"
        );
        let told = scratch.bash(&image).ok().stdout;
        let (_, space) = told.split_once('{').expect("JSON");
        let space: Value = serde_json::from_str(&format!("{{{space}")).expect("JSON");
        let mut header = oracle(&scratch, "flash_header.py", &["open", tickets, "key"]).ok().json();
        header["first"] = (2 * erase).into();
        let key = header["slots"]["0"][0].as_str().expect("a key").to_owned();
        let store = format!("{tickets}.store");
        let args = [tickets, &store, &key, &header.to_string(), "plain"];
        let read = oracle(&scratch, "sealed_image.py", &args).ok().json();
        assert_eq!(read["block_size"], space["block_size"]);
        assert!(read["held"].as_u64() > Some(20000 / space["block_size"].as_u64().expect("bytes")), "{read}");
        let sizes = [&read["block_size"], &read["payload"]].map(Value::to_string);
        littlefs(&scratch, &["read", "plain", &sizes[0], &sizes[1], "out"]).ok();
        scratch.bash("mv in/new in/a/new && rm in/gone && diff -r in out && rm -r out in/many && rm in/a/new && echo old > in/gone").ok();
        // It looks at everything: what is changed anywhere is noticed.
        assert!(read["units"].as_u64() > read["held"].as_u64(), "{read}");
        assert_eq!(read["tickets"].as_u64() > Some(0), tickets == "slot", "{read}");
        let bytes = fs::read(scratch.path(tickets)).expect("the image");
        let [stride, head] = ["stride", "head"].map(|size| read[size].as_u64().expect("a size") as usize);
        let units = (2 * erase..bytes.len()).step_by(erase).flat_map(|block| {
            let count =
                read["block_size"].as_u64().expect("bytes") / read["payload"].as_u64().expect("bytes");
            (0..count as usize).map(move |unit| block + unit * stride + if unit == 0 { 0 } else { head })
        });
        let (blank, used): (Vec<usize>, Vec<usize>) =
            units.partition(|at| bytes[*at..at + stride] == vec![0xff; stride]);
        let [some_used, some_blank] =
            [&used, &blank].map(|all| [all[0], all[all.len() / 2], all[all.len() - 1]]);
        // In the slot, or behind the last unit.
        for at in [some_used, some_blank].concat().into_iter().chain([3 * erase - 20, bytes.len() - 20]) {
            let mut changed = bytes.clone();
            changed[at + 5] ^= 4;
            scratch.file("changed", &changed);
            let args = ["changed", &store, &key, &header.to_string(), "none"];
            let refused = oracle(&scratch, "sealed_image.py", &args);
            assert!(
                refused.code == 1 && refused.stderr.contains("AssertionError"),
                "{at}: {}",
                refused.stderr
            );
        }
        // A record that the key did not make.
        let mut stored = fs::read(scratch.path(&store)).expect("the store");
        stored[10] ^= 1;
        scratch.file("forged", &stored);
        let forged =
            oracle(&scratch, "sealed_image.py", &[tickets, "forged", &key, &header.to_string(), "none"]);
        forged.fails(1, "not as anchored");
    }
}

/// The cost of a keyslot is raised with its passphrase: in one change of the header, after which neither copy holds the old keyslot, and
/// without another volume key.
#[test]
fn a_keyslot_becomes_dearer_with_its_passphrase_kept() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch.file("two", b"battery");
    scratch.bash("mkdir in; echo hello > in/hello").ok();
    let image =
        ["image", "in", "card", "--type", "flash", "--size", "256K", "--key-file", "key", "--garlic", "6"];
    scratch.atrest(&image).ok();
    let add = ["key", "add", "card", "--key-file", "key", "--new-key-file", "two", "--garlic", "5"];
    scratch.atrest(&add).ok();
    let found = || oracle(&scratch, "flash_header.py", &["open", "card", "key", "two"]).ok().json();
    let before = (found(), fs::read(scratch.path("card")).expect("the image"));
    let change = |more: &[&str]| {
        scratch.atrest(&[&["key", "change", "card", "--key-file", "key", "--keep-passphrase"], more].concat())
    };
    change(&[]).fails(1, "nothing that was asked for");
    change(&["--garlic", "9", "--new-key-file", "two"]).fails(1, "cannot be used with");
    assert!(fs::read(scratch.path("card")).expect("the image") == before.1);
    let told = change(&["--garlic", "9"]).ok();
    assert_eq!(told.stdout, "keyslot 0 opens with the same passphrase, which is derived anew\n");
    assert_eq!(told.stderr, "");
    let after = found();
    assert_eq!(after["slots"], before.0["slots"], "the same keyslots open, with the same key");
    assert_eq!(after["sequence"], 3);
    let image = fs::read(scratch.path("card")).expect("the image");
    for copy in [0, 4096] {
        assert_eq!(image[copy + 66..copy + 70], [2, 2, 9, 9], "Catena-BRG, depth 2, garlic 9");
        assert_ne!(image[copy + 80..copy + 96], before.1[80..96], "a fresh salt");
    }
    let old = &before.1[80..136];
    assert!(!image.windows(old.len()).any(|window| window == old), "the old keyslot is somewhere");
    assert!(image[8192..] == before.1[8192..], "the data was written");
    assert_eq!(scratch.atrest(&["cat", "card", "/hello", "--key-file", "key"]).ok().stdout, "hello\n");
    let cheaper = change(&["--garlic", "7"]).ok();
    assert!(cheaper.stderr.contains("catena-brg with garlic 9 was dearer"), "{}", cheaper.stderr);
    change(&["--kdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]).ok();
    assert_eq!(found()["slots"], before.0["slots"]);
}

/// Runs littlefs-python, which `scripts/setup` puts beside the kernel oracle.
fn littlefs(scratch: &Scratch, args: &[&str]) -> Ran {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = PathBuf::from(std::env::var_os("HOME")?);
        Some(home.join(".cache"))
    });
    let place = cache.expect("a home").join("atrest/littlefs-python-0.19.0");
    assert!(place.join("littlefs").is_dir(), "{} is missing; run scripts/setup", place.display());
    let script = format!("{}/tests/oracle/littlefs_image.py", env!("CARGO_MANIFEST_DIR"));
    scratch.bash(&format!("PYTHONPATH={} python3 {script} {}", place.display(), args.join(" ")))
}

/// LittleFS 2.11 in Python reads what is inside a card of ours, and we read and change what it wrote, of both versions of the format;
/// on a card and in a LUKS volume.
#[test]
fn littlefs_of_others_and_ours_read_each_other() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch
        .bash(
            "mkdir -p in/a/b in/empty; for n in 1 2 3; do head -c $((n * 11111)) /dev/urandom > in/a/b/$n; done; \
             for n in $(seq 20); do echo $n > in/a/small$n; done; echo hello > in/hello; : > in/none",
        )
        .ok();
    let cheap = ["--kdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
    let image = ["image", "in", "card", "--type", "flash", "--size", "512K", "--key-file", "key"];
    scratch.atrest(&[&image[..], &cheap].concat()).ok();
    // The card is a plain volume of its key behind the header.
    let found = oracle(&scratch, "flash_header.py", &["open", "card", "key"]).ok().json();
    let key = found["slots"]["0"][0].as_str().expect("a key");
    let digit = |pair: usize| u8::from_str_radix(&key[pair..pair + 2], 16).expect("hexadecimal");
    scratch.file("vk", (0..key.len()).step_by(2).map(digit).collect::<Vec<_>>());
    let plain =
        "--type plain -c aes-xts-plain64 -s 512 --sector-size 512 --offset 16 --volume-key-file vk --yes";
    scratch.bash(&format!("$ATREST decrypt card plain {plain}")).ok();
    littlefs(&scratch, &["read", "plain", "4096", "16", "out"]).ok();
    scratch.bash("diff -r in out").ok();
    for version in ["0x20000", "0x20001"] {
        scratch.bash(&format!("rm -rf back; echo {version} > in/version")).ok();
        littlefs(&scratch, &["write", "in", "theirs", "4096", "16", "126", version]).ok();
        scratch.bash(&format!("$ATREST encrypt theirs card {plain}")).ok();
        scratch.bash("$ATREST cp -r --key-file key card:/ back && diff -r in back").ok();
        // Changed here, and read there again.
        scratch
            .bash(
                "rm -rf in/a/b/2; $ATREST rm --key-file key card /a/b/2 && head -c 50000 /dev/urandom > in/new && \
                 $ATREST cp --key-file key in/new card:/ && $ATREST mkdir --key-file key card /made && mkdir -p in/made",
            )
            .ok();
        scratch.bash(&format!("rm -rf out plain; $ATREST decrypt card plain {plain}")).ok();
        littlefs(&scratch, &["read", "plain", "4096", "16", "out"]).ok();
        scratch.bash("diff -r in out && rm -r in/made in/new && echo again > in/a/b/2").ok();
    }
    // By the sizes of its superblock.
    scratch.bash("rm -rf back && $ATREST format vol --size 20M --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000").ok();
    littlefs(&scratch, &["write", "in", "theirs", "4096", "512", "64", "0x20001"]).ok();
    scratch.bash("$ATREST encrypt theirs vol --key-file key --yes && $ATREST cp -r --key-file key vol:/ back && diff -r in back").ok();
}
