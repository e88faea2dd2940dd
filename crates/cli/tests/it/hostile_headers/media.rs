//! The list: headers that somebody else's program, a damaged medium or an attacker can bring.

use std::fs;
use std::os::unix::fs::symlink;

use atrest_kdf::{Hash, digest};
use atrest_testkit::Random;
use serde_json::{Value, json};

use crate::common::{CHEAP, Scratch, luks2, sealed};

/// Where the data begins on the attached volumes of the list.
const DATA: usize = 2 << 20;
const PLAIN: &str = "--type plain -c aes-xts-plain64 -s 512 --key-file long";

/// A defect by its name.
type Edit<'a, T> = (&'a str, &'a dyn Fn(&mut T));

/// What every command must refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuses {
    /// Whatever it likes: a defect may not matter to a command.
    Nothing,
    /// Commands that write data.
    Writing,
    /// Commands that open the data.
    Data,
}

/// A hostile medium, and how a user who was sent it would open it.
pub struct Medium {
    pub name: String,
    image: Vec<u8>,
    /// Other files, by name.
    files: Vec<(&'static str, Vec<u8>)>,
    /// Names of the same file.
    links: Vec<(&'static str, bool)>,
    pub opening: String,
    pub keys: String,
    /// Bytes from the start that no command on the data may change.
    pub header: usize,
    pub refuses: Refuses,
}

impl Medium {
    fn new(name: impl Into<String>, image: Vec<u8>) -> Self {
        let key = String::from("--key-file key");
        let header = DATA.min(image.len());
        let (files, links) = (Vec::new(), Vec::new());
        Self {
            name: name.into(),
            image,
            files,
            links,
            opening: key.clone(),
            keys: key,
            header,
            refuses: Refuses::Nothing,
        }
    }

    fn refused(mut self) -> Self {
        self.refuses = Refuses::Data;
        self
    }

    fn opened_by(mut self, opening: &str) -> Self {
        self.opening = format!("{} {opening}", self.opening);
        self
    }

    /// Over which a plain volume is opened.
    fn plain(name: &str, image: Vec<u8>) -> Self {
        let medium = Self::new(format!("a plain volume over {name}"), image);
        Self { opening: PLAIN.into(), refuses: Refuses::Writing, header: usize::MAX, ..medium }
    }

    /// Puts it into a directory, with what the commands need beside it.
    pub fn put(&self, scratch: &Scratch) {
        scratch.file("m", &self.image);
        for (name, bytes) in &self.files {
            scratch.file(name, bytes);
        }
        for (name, hard) in &self.links {
            let made = match hard {
                true => fs::hard_link(scratch.path("m"), scratch.path(name)),
                false => symlink("m", scratch.path(name)),
            };
            made.expect("a link");
        }
        fs::create_dir(scratch.path("dir")).expect("a directory");
        scratch.file("src", vec![0x5A; 65536]);
        scratch.file("token", r#"{"type":"test","keyslots":["0"]}"#);
        let seeds = seeds();
        scratch.file("key", &seeds.key);
        // Two different halves: XTS refuses equal ones, whatever the medium is.
        scratch.file("long", (0..64).collect::<Vec<u8>>());
        scratch.file("new", b"battery staple");
        scratch.file("good", &seeds.backup);
        scratch.file("good-volume", &seeds.luks2);
    }
}

/// What the list is made from.
struct Seeds {
    key: Vec<u8>,
    luks1: Vec<u8>,
    luks2: Vec<u8>,
    backup: Vec<u8>,
    detached1: Vec<u8>,
    detached2: Vec<u8>,
    flash: Vec<u8>,
    card: Vec<u8>,
    store: Vec<u8>,
    ended: Vec<u8>,
    ended_listed: Vec<u8>,
    begun: Vec<u8>,
    ext4: Vec<u8>,
    fat: Vec<u8>,
}

fn seeds() -> &'static Seeds {
    static SEEDS: std::sync::OnceLock<Seeds> = std::sync::OnceLock::new();
    SEEDS.get_or_init(|| {
        let scratch = Scratch::new();
        let cheap = CHEAP.join(" ");
        let key = b"correct horse\n".to_vec();
        scratch.file("key", &key);
        let ran = scratch.bash(&format!(
            "set -e; K='--key-file key {cheap}'; mkdir tree; echo hello > tree/f
            mke2fs -q -t ext4 -O ^has_journal -d tree fs 1M; truncate -s 1M fat; mkfs.fat fat >&2
            $ATREST format --size 3M --luks2-keyslots-size 1M --offset 4096 --sector-size 512 $K luks2
            $ATREST format --size 3M --type luks1 --offset 4096 --key-size 256 $K luks1
            for v in luks1 luks2; do $ATREST encrypt --key-file key fs $v; done
            $ATREST header backup luks2 backup
            $ATREST format --size 1M --luks2-keyslots-size 1M --header detached2 $K data2
            $ATREST format --size 1M --type luks1 --header detached1 $K data1
            $ATREST format --size 1M --type flash --erase-size 4096 --kdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key flash"
        ));
        ran.ok();
        let read = |scratch: &Scratch, name: &str| fs::read(scratch.path(name)).expect("an image");
        let card = sealed::with_card();
        let (once, twice) = (Scratch::new(), Scratch::new());
        let ended = luks2::ended_reencryption(&once, false);
        let ended_listed = luks2::ended_reencryption(&twice, true);
        Seeds {
            key,
            luks1: read(&scratch, "luks1"),
            luks2: read(&scratch, "luks2"),
            backup: read(&scratch, "backup"),
            detached1: read(&scratch, "detached1"),
            detached2: read(&scratch, "detached2"),
            flash: read(&scratch, "flash"),
            card: read(&card, "card"),
            store: read(&card, "store"),
            ended,
            ended_listed,
            begun: read(&once, "begun"),
            ext4: read(&scratch, "fs"),
            fat: read(&scratch, "fat"),
        }
    })
}

/// The named ones, and as many made by chance.
pub fn all(by_chance: usize) -> Vec<Medium> {
    let mut all = elsewhere();
    all.extend(plain());
    all.extend(luks2_by_name());
    all.extend(luks1_by_name());
    all.extend(flash());
    all.extend((1..=by_chance as u64).map(at_random));
    all
}

/// Headers whose data would lie over them.
fn elsewhere() -> Vec<Medium> {
    let seeds = seeds();
    let mut all = Vec::new();
    for (kind, image) in [("LUKS1", &seeds.detached1), ("LUKS2", &seeds.detached2)] {
        let alone = |name: &str| Medium {
            header: usize::MAX,
            ..Medium::new(format!("a detached {kind} header{name}"), image.clone())
        };
        all.push(alone(" alone").refused());
        all.push(alone(" that names itself").opened_by("--header m").refused());
        all.push(Medium {
            links: vec![("hdr", true)],
            ..alone(" that names itself by a hard link").opened_by("--header hdr").refused()
        });
        all.push(Medium {
            links: vec![("hdr", false)],
            ..alone(" that names itself by a link").opened_by("--header hdr").refused()
        });
    }
    let segments = |name: &str, change: &dyn Fn(&mut Value)| {
        Medium::new(name, luks2::with(&seeds.luks2, change)).refused()
    };
    all.push(segments("data at byte 0", &|m| m["segments"]["0"]["offset"] = "0".into()));
    all.push(segments("data inside the header", &|m| m["segments"]["0"]["offset"] = "65536".into()));
    all.push(segments("a second segment at byte 0", &|m| {
        let mut second = m["segments"]["0"].clone();
        second["offset"] = "0".into();
        m["segments"]["0"]["size"] = "4096".into();
        second["size"] = "4096".into();
        m["segments"]["1"] = second;
        m["digests"]["0"]["segments"] = json!(["0", "1"]);
    }));
    all.push(segments("plaintext at byte 0", &|m| {
        m["segments"]["1"] = m["segments"]["0"].clone();
        m["segments"]["0"] = json!({"type": "linear", "offset": "0", "size": "4096"});
        m["digests"]["0"]["segments"] = json!(["1"]);
    }));
    for (name, image) in [
        ("a re-encryption at its end", &seeds.ended),
        ("a re-encryption at its end, old keyslot listed", &seeds.ended_listed),
        ("a re-encryption at its beginning", &seeds.begun),
    ] {
        let medium = Medium::new(name, image.clone());
        // Before its first zone the data is as it was, and is read by the key that it has.
        all.push(if name.ends_with("beginning") { medium } else { medium.refused() });
        let at_zero = luks2::with(image, |m| {
            for segment in m["segments"].as_object_mut().expect("segments").values_mut() {
                segment["offset"] = "0".into();
            }
        });
        all.push(Medium::new(format!("{name}, over its header"), at_zero).refused());
    }
    all
}

/// Media that a plain volume must not be laid over without a question.
fn plain() -> Vec<Medium> {
    let seeds = seeds();
    let mut second_copy_only = seeds.luks2.clone();
    second_copy_only[..4096].fill(0xAA);
    let written = |at: usize, bytes: &[u8]| {
        let mut image = vec![0; 1 << 20];
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    vec![
        Medium::plain("LUKS1", seeds.luks1.clone()),
        Medium::plain("LUKS2", seeds.luks2.clone()),
        Medium::plain("the second copy of LUKS2", second_copy_only),
        Medium::plain("a detached header", seeds.detached2.clone()),
        Medium::plain("a re-encryption", seeds.begun.clone()),
        Medium::plain("encrypted flash", seeds.flash.clone()),
        Medium::plain("sealed flash", seeds.card.clone()),
        Medium::plain("ext4", seeds.ext4.clone()),
        Medium::plain("FAT", seeds.fat.clone()),
        Medium::plain("XFS", written(0, b"XFSB")),
        Medium::plain("Btrfs", written(0x10040, b"_BHRfS_M")),
        Medium::plain("swap", written(4086, b"SWAPSPACE2")),
        Medium::plain("LittleFS", written(8, b"littlefs")),
        Medium::plain("a GPT", written(512, b"EFI PART")),
        Medium::plain("a GPT at the end", written((1 << 20) - 512, b"EFI PART")),
    ]
}

fn luks2_by_name() -> Vec<Medium> {
    let seed = &seeds().luks2;
    let text = luks2::text(seed);
    let mut all = Vec::new();
    let mut put = |name: &str, image: Vec<u8>| all.push(Medium::new(format!("LUKS2 with {name}"), image));
    let most = u64::MAX.to_string();
    let edits: &[Edit<Value>] = &[
        ("a segment beyond the device", &|m| m["segments"]["0"]["size"] = "1099511627776".into()),
        ("a segment that begins beyond the device", &|m| {
            m["segments"]["0"]["offset"] = "1099511627776".into()
        }),
        ("a segment that overflows", &|m| {
            m["segments"]["0"]["offset"] = "18446744073709547520".into();
            m["segments"]["0"]["size"] = "1099511627776".into();
        }),
        ("a segment of no size", &|m| m["segments"]["0"]["size"] = "0".into()),
        ("a segment of a strange size", &|m| m["segments"]["0"]["size"] = "513".into()),
        ("segments over each other", &|m| {
            m["segments"]["1"] = m["segments"]["0"].clone();
            m["segments"]["0"]["size"] = "8192".into();
            m["digests"]["0"]["segments"] = json!(["0", "1"]);
        }),
        ("a gap in the numbers of segments", &|m| m["segments"]["7"] = m["segments"]["0"].clone()),
        ("no segment", &|m| m["segments"] = json!({})),
        ("a segment of an unknown type", &|m| m["segments"]["0"]["type"] = "morphic".into()),
        ("a null cipher", &|m| m["segments"]["0"]["encryption"] = "cipher_null-ecb".into()),
        ("a null cipher by the kernel's name", &|m| {
            m["segments"]["0"]["encryption"] = "capi:ecb(cipher_null)-plain64".into()
        }),
        ("an unknown cipher", &|m| m["segments"]["0"]["encryption"] = "rot13-xts-plain64".into()),
        ("a null cipher in a keyslot", &|m| {
            m["keyslots"]["0"]["area"]["encryption"] = "cipher_null-ecb".into()
        }),
        ("sectors of 3 bytes", &|m| m["segments"]["0"]["sector_size"] = 3.into()),
        ("sectors of 2 GiB", &|m| m["segments"]["0"]["sector_size"] = 2_147_483_648_u32.into()),
        ("IVs that overflow", &|m| m["segments"]["0"]["iv_tweak"] = u64::MAX.to_string().into()),
        ("integrity", &|m| {
            m["segments"]["0"]["integrity"] =
                json!({"type": "hmac(sha256)", "journal_encryption": "none", "journal_integrity": "none"})
        }),
        ("an unknown requirement", &|m| m["config"]["requirements"] = json!({"mandatory": ["of-tomorrow"]})),
        ("the mark of a re-encryption that there is not", &|m| {
            m["config"]["requirements"] = json!({"mandatory": ["online-reencrypt-v2"]})
        }),
        ("the mark of an old re-encryption", &|m| {
            m["config"]["requirements"] = json!({"mandatory": ["offline-reencrypt"]})
        }),
        ("no keyslot", &|m| {
            m["keyslots"] = json!({});
            m["digests"]["0"]["keyslots"] = json!([]);
        }),
        ("a keyslot area over the header", &|m| m["keyslots"]["0"]["area"]["offset"] = "0".into()),
        ("a keyslot area in the data", &|m| m["keyslots"]["0"]["area"]["offset"] = "2097152".into()),
        ("a keyslot area beyond the device", &|m| {
            m["keyslots"]["0"]["area"]["offset"] = "18446744073709547520".into()
        }),
        ("keyslot areas over each other", &|m| {
            m["keyslots"]["1"] = m["keyslots"]["0"].clone();
            m["digests"]["0"]["keyslots"] = json!(["0", "1"]);
        }),
        ("a keyslot area of no size", &|m| m["keyslots"]["0"]["area"]["size"] = "0".into()),
        ("a keyslots area of 128 TiB", &|m| m["config"]["keyslots_size"] = "140737488355328".into()),
        ("a keyslots area that overflows", &|m| m["config"]["keyslots_size"] = "18446744073709547520".into()),
        ("a keyslots area of no size", &|m| m["config"]["keyslots_size"] = "0".into()),
        ("a keyslots area that reaches over the data", &|m| m["config"]["keyslots_size"] = "3080192".into()),
        ("another json_size", &|m| m["config"]["json_size"] = "4190208".into()),
        ("a keyslot of an unknown type", &|m| m["keyslots"]["0"]["type"] = "of-tomorrow".into()),
        ("keyslot 32", &|m| {
            m["keyslots"]["32"] = m["keyslots"]["0"].clone();
            m["digests"]["0"]["keyslots"] = json!(["0", "32"]);
        }),
        ("no stripes", &|m| m["keyslots"]["0"]["af"]["stripes"] = 0.into()),
        ("as many stripes as can be", &|m| m["keyslots"]["0"]["af"]["stripes"] = u32::MAX.into()),
        ("an unknown hash of the stripes", &|m| m["keyslots"]["0"]["af"]["hash"] = "md2".into()),
        ("a key of no bytes", &|m| m["keyslots"]["0"]["key_size"] = 0.into()),
        ("a key of 4 GiB", &|m| m["keyslots"]["0"]["key_size"] = u32::MAX.into()),
        ("a key that the cipher does not take", &|m| m["keyslots"]["0"]["key_size"] = 63.into()),
        ("no iterations", &|m| m["keyslots"]["0"]["kdf"]["iterations"] = 0.into()),
        ("Argon2 with all memory there can be", &|m| {
            m["keyslots"]["0"]["kdf"] =
                json!({"type": "argon2id", "time": 4, "memory": u32::MAX, "cpus": 1, "salt": "AAAA"});
        }),
        ("Argon2 with all lanes there can be", &|m| {
            m["keyslots"]["0"]["kdf"] =
                json!({"type": "argon2id", "time": 4, "memory": 65536, "cpus": u32::MAX, "salt": "AAAA"});
        }),
        ("Argon2 without lanes", &|m| {
            m["keyslots"]["0"]["kdf"] =
                json!({"type": "argon2i", "time": 4, "memory": 65536, "cpus": 0, "salt": "AAAA"});
        }),
        ("a key derivation of hours", &|m| m["keyslots"]["0"]["kdf"]["iterations"] = u32::MAX.into()),
        ("a digest of hours", &|m| m["digests"]["0"]["iterations"] = u32::MAX.into()),
        ("Argon2 of years", &|m| {
            m["keyslots"]["0"]["kdf"] =
                json!({"type": "argon2id", "time": u32::MAX, "memory": 65536, "cpus": 1, "salt": "AAAA"});
        }),
        ("an unknown key derivation", &|m| m["keyslots"]["0"]["kdf"]["type"] = "bcrypt".into()),
        ("a salt that is no Base64", &|m| m["keyslots"]["0"]["kdf"]["salt"] = "!!!".into()),
        ("an empty salt", &|m| m["keyslots"]["0"]["kdf"]["salt"] = "".into()),
        ("no digest", &|m| m["digests"] = json!({})),
        ("an empty digest", &|m| m["digests"]["0"]["digest"] = "".into()),
        ("a digest of an unknown hash", &|m| m["digests"]["0"]["hash"] = "md2".into()),
        ("a digest of keyslots that there are not", &|m| m["digests"]["0"]["keyslots"] = json!(["0", "9"])),
        ("two digests of one keyslot", &|m| m["digests"]["1"] = m["digests"]["0"].clone()),
        ("a token of a keyslot that there is not", &|m| {
            m["tokens"]["0"] = json!({"type": "t", "keyslots": ["9"]})
        }),
        ("numbers as texts", &|m| m["keyslots"]["0"]["key_size"] = "64".into()),
        ("texts as numbers", &|m| m["segments"]["0"]["offset"] = 2_097_152.into()),
        ("keyslots that are a list", &|m| m["keyslots"] = json!([])),
        ("control characters in names", &|m| {
            m["tokens"]["0"] = json!({"type": "\u{1b}[2J\nkeyslot 7", "keyslots": ["0"]})
        }),
    ];
    for (name, edit) in edits {
        put(name, luks2::with(seed, edit));
    }
    let texts = [
        ("no JSON", String::from("not JSON at all")),
        ("an empty JSON area", String::new()),
        ("a duplicate section", text.replacen("{", r#"{"segments":{},"#, 1)),
        ("a duplicate offset", text.replacen(r#""offset":"#, r#""offset":"0","offset":"#, 1)),
        ("deep lists", format!("{}{}", "[".repeat(6000), "]".repeat(6000))),
        ("deep objects", r#"{"a":"#.repeat(2000)),
        ("a number without an end", text.replacen("64", &"9".repeat(4000), 1)),
        ("bytes behind the JSON text", format!("{text} {{}}")),
        ("an escaped zero", text.replacen("aes", "a\\u0000es", 1)),
        ("half a surrogate", text.replacen("aes", "\\ud800", 1)),
        ("a number beyond 64 bits", text.replacen("2097152", &format!("{most}0"), 1)),
    ];
    for (name, text) in &texts {
        put(name, luks2::with_text(seed, text));
    }
    let bytes: &[Edit<Vec<u8>>] = &[
        ("two copies of different UUIDs", &|image| image[0x4000 + 168] ^= 1),
        ("the last sequence number", &|image| {
            for at in [16, 0x4000 + 16] {
                image[at..at + 8].fill(0xFF);
            }
        }),
        ("a newer second copy", &|image| image[0x4000 + 23] = 0xFF),
        ("an unknown checksum", &|image| image[72..76].copy_from_slice(b"md99")),
        ("a label that fills its field", &|image| image[24..72].fill(b'x')),
        ("a second copy that says that it lies elsewhere", &|image| image[0x4000 + 256 + 6] ^= 0x10),
    ];
    for (name, change) in bytes {
        let mut image = seed.clone();
        change(&mut image);
        put(name, luks2::sealed(image));
    }
    let mut image = seed.clone();
    image[8..16].copy_from_slice(&(4_u64 << 20).to_be_bytes());
    put("a header copy beyond the device", image);
    let mut image = seed.clone();
    image[..4096].fill(0);
    put("no first copy", image.clone());
    image[0x4000..0x4000 + 4096].fill(0);
    put("no copy", image);
    for len in [8, 512, 4096, 0x4000, 0x6000, 0x8000, 1 << 20, DATA, DATA + 511] {
        put(&format!("{len} bytes left of it"), seed[..len].to_vec());
    }
    all
}

fn luks1_by_name() -> Vec<Medium> {
    let seed = &seeds().luks1;
    let number = |at: usize, value: u32| {
        let mut image = seed.clone();
        image[at..at + 4].copy_from_slice(&value.to_be_bytes());
        image
    };
    let name = |at: usize, text: &str| {
        let mut image = seed.clone();
        image[at..at + 32].fill(0);
        image[at..at + text.len()].copy_from_slice(text.as_bytes());
        image
    };
    // The first keyslot begins at byte 208: state, iterations, salt of 32 bytes, first sector, stripes.
    let media = [
        ("data at byte 0", number(104, 0), Refuses::Data),
        ("data inside the header", number(104, 1), Refuses::Data),
        ("data inside the keyslots", number(104, 9), Refuses::Data),
        ("data beyond the device", number(104, u32::MAX), Refuses::Nothing),
        ("a key of no bytes", number(108, 0), Refuses::Nothing),
        ("a key of 4 GiB", number(108, u32::MAX), Refuses::Nothing),
        ("no iterations", number(212, 0), Refuses::Nothing),
        ("no iterations of the digest", number(164, 0), Refuses::Nothing),
        ("a key derivation of hours", number(212, u32::MAX), Refuses::Nothing),
        ("a digest of hours", number(164, u32::MAX), Refuses::Nothing),
        ("a keyslot that is neither free nor used", number(208, 0xDEAD), Refuses::Nothing),
        ("no stripes", number(252, 0), Refuses::Nothing),
        ("as many stripes as can be", number(252, u32::MAX), Refuses::Nothing),
        ("a keyslot over the header", number(248, 0), Refuses::Nothing),
        ("a keyslot in the data", number(248, 4096), Refuses::Nothing),
        ("a keyslot beyond the device", number(248, u32::MAX), Refuses::Nothing),
        ("keyslots over each other", number(296, 8), Refuses::Nothing),
        ("a null cipher", name(8, "cipher_null"), Refuses::Nothing),
        ("an unknown cipher", name(8, "rot13"), Refuses::Nothing),
        ("an unknown mode", name(40, "cbc-rot13"), Refuses::Nothing),
        ("an unknown hash", name(72, "md2"), Refuses::Nothing),
        ("a cipher without an end", name(8, &"a".repeat(32)), Refuses::Nothing),
        ("a cipher that steers a terminal", name(8, "\u{1b}[2J\n"), Refuses::Nothing),
        ("version 3", number(4, 0xBABE_0003), Refuses::Nothing),
    ];
    let named = media
        .into_iter()
        .map(|(name, image, refuses)| Medium { refuses, ..Medium::new(format!("LUKS1 with {name}"), image) });
    let cut = [8, 208, 592, 1024, 4096, 65536, DATA, DATA + 511];
    let cut = cut.map(|len| Medium::new(format!("LUKS1 with {len} bytes left of it"), seed[..len].to_vec()));
    named.chain(cut).collect()
}

/// Encrypted and sealed flash with other bytes in both copies of the header, and the checksum that belongs to them.
fn flash() -> Vec<Medium> {
    let seeds = seeds();
    let mut all = Vec::new();
    for (kind, image) in [("flash", &seeds.flash), ("sealed flash", &seeds.card)] {
        let medium = |name: &str, image: Vec<u8>| {
            let medium = Medium { header: 8192, ..Medium::new(format!("{kind} with {name}"), image) };
            match kind {
                "flash" => medium,
                _ => {
                    let opening = "--key-file key --store store".into();
                    Medium { files: vec![("store", seeds.store.clone())], opening, ..medium }
                }
            }
        };
        for at in (8..64).step_by(2) {
            for value in [0, 0xFF] {
                let mut image = image.clone();
                for copy in [0, 4096] {
                    image[copy + at..copy + at + 2].fill(value);
                    checksum(&mut image[copy..copy + 512]);
                }
                all.push(medium(&format!("bytes {at} and on set to {value:#x}"), image));
            }
        }
        for len in [8, 511, 4096, 8192, 12288, 65536] {
            all.push(medium(&format!("{len} bytes left of it"), image[..len].to_vec()));
        }
    }
    all
}

/// The checksum of a flash header is the SHA-256 of what is before it.
fn checksum(header: &mut [u8]) {
    let at = header.len() - 32;
    let mut sum = [0; 32];
    digest(Hash::Sha256, &[&header[..at]], &mut sum);
    header[at..].copy_from_slice(&sum);
}

/// A header with a few bytes changed by chance, and checksums that are right.
fn at_random(seed: u64) -> Medium {
    let seeds = seeds();
    let mut random = Random::new(seed);
    let name = |kind: &str| format!("{kind}, changed by chance {seed}");
    match random.below(5) {
        0 | 1 => {
            // Letters of the JSON text, so that most of it stays text.
            let mut text = luks2::text(&seeds.luks2).into_bytes();
            for _ in 0..=random.below(3) {
                let at = random.below(text.len() as u64) as usize;
                text[at] = *random.pick(b"0123456789\"{}[]:,-ax");
            }
            let text = String::from_utf8(text).expect("ASCII");
            Medium::new(name("LUKS2 text"), luks2::with_text(&seeds.luks2, &text))
        }
        2 => {
            let mut image = seeds.luks2.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(512) as usize;
                let value = random.draw() as u8;
                image[at] = value;
                image[0x4000 + at] = value;
            }
            // A header that names another length can't be sealed; its checksum is wrong then.
            let whole = image[8..16] == seeds.luks2[8..16];
            Medium::new(name("LUKS2 bytes"), if whole { luks2::sealed(image) } else { image })
        }
        3 => {
            let mut image = seeds.luks1.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(592) as usize;
                image[at] = random.draw() as u8;
            }
            Medium::new(name("LUKS1 bytes"), image)
        }
        _ => {
            let mut image = seeds.flash.clone();
            for _ in 0..=random.below(3) {
                let (at, value) = (random.below(480) as usize, random.draw() as u8);
                for copy in [0, 4096] {
                    image[copy + at] = value;
                    checksum(&mut image[copy..copy + 512]);
                }
            }
            Medium { header: 8192, ..Medium::new(name("flash bytes"), image) }
        }
    }
}
