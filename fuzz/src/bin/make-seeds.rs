//! Writes fuzz/seeds anew: what real tools make, at costs that suit a fuzzer. With arguments only those of the targets named.
//!
//! Needs cryptsetup, e2fsprogs, dosfstools, mtools, gdisk and fdisk (`scripts/setup`).

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atrest_bootimage::fdt::Tree;
use atrest_bootimage::fit::{
    ConfigSpec, FitSpec, HashKind, ImageKind, ImageSpec, PrivateKey, SignSpec, build_signed,
};
use atrest_fuzz::integrity_seed;
use atrest_fuzz::random::Random;
use atrest_fuzz::{
    CIPHERS, Image, azure_seeds, checkpoint_seed, dm_answer_seeds, ext4_encrypted_seed, flash_header_seed,
    fscrypt_context_seed, google_seeds, littlefs_seed, s3_seeds, sealed_volume_seeds, vhost_user_seed,
};
use atrest_kdf::Hash;
use atrest_keyslot::flash::KdfCost;
use atrest_keyslot::luks1::{self, Header, HeaderParts};
use atrest_littlefs::Version;
use atrest_secret::OsRandom;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let work = tempfile::tempdir().expect("a temporary directory");
    let seeds = Seeds { root, work: work.path().to_owned(), only: std::env::args().skip(1).collect() };
    seeds.names();
    seeds.modes();
    seeds.luks1();
    seeds.flash();
    seeds.luks2();
    seeds.backups();
    seeds.partitions();
    seeds.filesystems();
    seeds.put("integrity", "dirty-journal", &integrity_seed());
    seeds.encrypted();
    seeds.nbd();
    seeds.nbd_client();
    seeds.tokens();
    seeds.vhost_user();
    seeds.files();
    seeds.sealed();
    seeds.sealed_volume();
    seeds.s3();
    seeds.azure();
    seeds.google();
    seeds.key_value();
    seeds.littlefs();
    seeds.daemons();
    seeds.built();
    seeds.signed();
    seeds.verity();
    seeds.foreign();
}

struct Seeds {
    root: PathBuf,
    work: PathBuf,
    /// Targets whose seeds are written; all if there are none.
    only: Vec<String>,
}

/// Runs a tool that must end well.
fn run(program: &str, args: &[&dyn AsRef<OsStr>], input: &str) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.env("PATH", path).stdin(Stdio::piped()).stdout(Stdio::null());
    for arg in args {
        command.arg(arg.as_ref());
    }
    let mut child =
        command.spawn().unwrap_or_else(|e| panic!("cannot run {program} ({e}); run scripts/setup"));
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success(), "{program} failed");
}

/// cryptsetup spends an eighth of a second on the digest of a LUKS1 volume key, whatever it is told. This makes it 1000
/// iterations.
fn cheapen_digest(bytes: &mut [u8]) {
    let header = Header::parse(bytes).expect("just made");
    let (start, len) = header.area(0).expect("keyslot 0 exists");
    let mut area = bytes[start as usize..start as usize + len].to_vec();
    let mut key = vec![0; header.key_len()];
    luks1::open(&header, 0, b"fuzz", &mut area, &mut key).expect("the passphrase is right");
    let hash = header.hash().expect("a known hash");
    let digest = luks1::new_digest(hash, &key, header.digest_salt(), 1000).expect("a key");
    bytes[112..132].copy_from_slice(&digest);
    bytes[164..168].copy_from_slice(&1000_u32.to_be_bytes());
}

/// A header whose keyslot 0 opens with "fuzz", and its area: a chip's cipher, and so few stripes that mutations hit the rest.
fn few_stripes() -> Vec<u8> {
    let key: [u8; 32] = core::array::from_fn(|i| i as u8 * 7 + 1);
    let digest = luks1::new_digest(Hash::Sha256, &key, &[2; 32], 1000).expect("a key");
    let parts = HeaderParts {
        cipher_name: "aes",
        cipher_mode: "xts-plain64",
        hash: Hash::Sha256,
        key_len: key.len(),
        digest,
        digest_salt: [2; 32],
        digest_iterations: 1000,
        uuid: "01234567-89ab-4def-8123-456789abcdef",
        data_sector: None,
        alignment: 8,
    };
    let mut bytes = Header::new(&parts).expect("a header").encode();
    bytes[208 + 44..208 + 48].copy_from_slice(&21_u32.to_be_bytes());
    let mut header = Header::parse(&bytes).expect("a shorter area fits");
    header.use_slot(0, 1000, [3; 32]).expect("keyslot 0 exists");
    let mut area = vec![0; header.area(0).expect("keyslot 0 exists").1];
    let derivation = (1000, &[3; 32]);
    luks1::seal(&header, 0, b"fuzz", derivation, &key, &mut OsRandom, &mut area).expect("sealed");
    [&header.encode()[..], &area].concat()
}

impl Seeds {
    fn put(&self, target: &str, name: &str, data: &[u8]) {
        if !self.only.is_empty() && !self.only.iter().any(|only| only == target) {
            return;
        }
        let dir = self.root.join(target);
        fs::create_dir_all(&dir).expect("writable");
        fs::write(dir.join(name), data).expect("writable");
    }

    fn image(&self, size: u64) -> PathBuf {
        let path = self.work.join("image");
        let _ = fs::remove_file(&path);
        fs::File::create(&path).and_then(|file| file.set_len(size)).expect("writable");
        path
    }

    fn names(&self) {
        for (i, spec) in [
            "aes-xts-plain64",
            "aes-cbc-essiv:sha256",
            "serpent-lrw-benbi",
            "twofish-cbc-plain",
            "camellia-xts-plain64be",
            "aes",
            "aes-ecb",
            "cipher_null-ecb",
            "capi:cbc(aes)-essiv:sha256",
            "capi:essiv(cbc(aes),sha256)-plain64",
            "capi:xts(serpent)-plain64",
            "aes-cbc-null",
            "aes-cbc-essiv:wp256",
            "sha256:16",
            "ripemd160",
            "plain",
            "xchacha12,aes-adiantum-plain64",
            "capi:adiantum(xchacha20,aes,nhpoly1305)-plain64be",
            "xchacha20,aes-hpolyc-null",
            "aes:64-cbc-lmk",
            "aes:4-xts-plain64",
            "serpent-cbc-tcw",
            "aes-cbc-eboiv",
            "capi:cbc(aes)-elephant",
            "aes-ctr-plain64",
            "blowfish-cbc-essiv:sha256",
            "cast5-cbc-benbi",
            "des3_ede-ecb",
            "capi:hctr2(aes)-plain64",
            "aes-xex1-plain64",
        ]
        .into_iter()
        .enumerate()
        {
            self.put("cipher_spec", &format!("{i:02}"), spec.as_bytes());
            let mut plain = Vec::new();
            plain
                .extend_from_slice(&[[16_u16, 32, 64][i % 3], 512 << (i % 4)].map(u16::to_le_bytes).concat());
            plain.extend_from_slice(&[8_u64, 16, 2048, 1 << 20].map(u64::to_le_bytes).concat());
            plain.push(i as u8 % 4);
            plain.extend_from_slice(
                format!("{spec}\n{}\npassphrase", ["sha256", "ripemd160:16", "plain"][i % 3]).as_bytes(),
            );
            self.put("plain_options", &format!("{i:02}"), &plain);
        }
    }

    /// One run for each cipher and mode; the numbers are those that `cipher_modes` reads.
    fn modes(&self) {
        for i in 0..CIPHERS {
            let mut run = vec![i as u8, i as u8];
            run.extend_from_slice(&[31_u16, 0, 255, 32][i % 4].to_le_bytes());
            run.push([16, 40, 1, 17][i % 4]);
            run.extend_from_slice(&[0, u64::MAX - 3][i % 2].to_le_bytes());
            run.push(i as u8 % 3);
            run.extend_from_slice(&(7 * i as u64).to_le_bytes());
            run.push(i as u8);
            for noise in [1_u64, 2] {
                run.push(2);
                run.extend_from_slice(&noise.to_le_bytes());
                run.push(0);
            }
            self.put("cipher_modes", &format!("{i:02}"), &run);
        }
    }

    fn cryptsetup(&self, image: &Path, options: &[&str]) {
        let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"luksFormat", &"--batch-mode", &"--key-file=-"];
        options.iter().for_each(|option| args.push(option));
        args.push(&image);
        run("cryptsetup", &args, "fuzz");
    }

    fn luks1(&self) {
        for (name, options) in [
            ("default", &["--pbkdf-force-iterations=1000"][..]),
            (
                "cbc",
                &[
                    "--cipher=aes-cbc-essiv:sha256",
                    "--key-size=256",
                    "--pbkdf-force-iterations=1000",
                    "--hash=sha1",
                ],
            ),
            ("aligned", &["--cipher=aes-xts-plain", "--pbkdf-force-iterations=1000", "--align-payload=8192"]),
        ] {
            let image = self.image(16 << 20);
            self.cryptsetup(&image, &[&["--type=luks1"], options].concat());
            let mut bytes = fs::read(&image).expect("readable");
            // The passphrase opens keyslot 0: its area comes along in one seed.
            let area = bytes[4096..4096 + if name == "cbc" { 32 * 4000 } else { 0 }].to_vec();
            cheapen_digest(&mut bytes);
            bytes.truncate(592);
            self.put("luks1_header", name, &[bytes, area].concat());
        }
        self.put("luks1_header", "few-stripes", &few_stripes());
    }

    fn verity(&self) {
        for (name, blocks, options) in [
            ("one-block", 1, &["--hash=sha1"][..]),
            ("two-levels", 40, &["--hash=sha256", "--salt=-"]),
            ("chrome-os", 40, &["--hash=sha224", "--format=0"]),
            ("large", 3, &["--hash=sha512", "--data-block-size=4096"]),
        ] {
            let data = self.image(blocks * 4096);
            let tree = self.work.join("tree");
            // The first one makes the file, and a longer one would stay as it is.
            let _ = fs::remove_file(&tree);
            let sizes = ["--data-block-size=512", "--hash-block-size=512"];
            let all: Vec<&dyn AsRef<OsStr>> =
                ["format"].iter().chain(&sizes).chain(options).map(|word| word as _).collect();
            let files: [&dyn AsRef<OsStr>; 2] = [&data, &tree];
            run("veritysetup", &[&all[..], &files[..]].concat(), "");
            self.put("verity", name, &fs::read(&tree).expect("readable"));
        }
    }

    fn foreign(&self) {
        self.put("tcrypt", "sound", &atrest_fuzz::tcrypt_seed());
        let (volume, startup) = (self.work.join("bitlocker"), self.work.join("startup.BEK"));
        for edition in ["seven", "to-go", "vista"] {
            let wanted = serde_json::json!({
                "path": volume, "size": 0x80000, "edition": edition, "method": 0x8004, "sector": 512,
                "protectors": [{ "kind": "startup" }, { "kind": "clear" }, { "kind": "tpm" }], "states": [4, 4], "encrypted": 0x80000,
                "on_write": false, "relocated": [0x70000, 8192], "entry": true, "plain": [], "startup": startup,
            });
            let made = include_str!("../../../crates/testkit/src/bitlocker.py");
            run("python3", &[&"-c", &made, &wanted.to_string()], "");
            let bytes = fs::read(&volume).expect("readable");
            self.put("bitlocker", edition, &atrest_fuzz::bitlocker_seed(&bytes));
        }
        // Those of fvault2 and wipekey are written by hand: the blocks and the list that crates/testkit/src/fvault2.py makes, before they are encrypted.
        self.put("bitlocker", "startup-key", &fs::read(&startup).expect("readable"));
        self.put("bitlocker", "recovery", b"042647-302313-590458-071500-554323-116567-412181-516978");
        for (name, lines) in [("one-key", 1), ("with-a-seed", 65)] {
            let line = "a line that is as long as it must be\n";
            self.put("loopaes", name, line.repeat(lines).as_bytes());
        }
    }

    fn flash(&self) {
        let pbkdf2 = KdfCost::Pbkdf2 { iterations: 100 };
        let argon2 = KdfCost::Argon2id { time: 1, memory_kib: 64, lanes: 2 };
        self.put("flash_header", "one", &flash_header_seed(&[pbkdf2]));
        self.put("flash_header", "all", &flash_header_seed(&[KdfCost::catena(4), pbkdf2, argon2]));
        self.put("flash_header", "half", &flash_header_seed(&[pbkdf2, pbkdf2])[..900]);
    }

    fn luks2(&self) {
        let small = "--luks2-keyslots-size=512k";
        let pbkdf2 = ["--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000", small];
        let argon2 = [
            "--pbkdf=argon2id",
            "--pbkdf-force-iterations=4",
            "--pbkdf-memory=32",
            "--pbkdf-parallel=1",
            small,
        ];
        for (name, options) in [
            ("pbkdf2", &[&pbkdf2[..], &["--sector-size=4096"]].concat()),
            ("argon2", &[&argon2[..], &["--sector-size=512", "--label=label", "--subsystem=sub"]].concat()),
            ("large", &[&pbkdf2[..], &["--luks2-metadata-size=64k"]].concat()),
            (
                "cbc",
                &[&pbkdf2[..], &["--cipher=aes-cbc-essiv:sha256", "--key-size=256", "--hash=sha512"]]
                    .concat(),
            ),
        ] {
            let image = self.image(32 << 20);
            let options: Vec<&str> = [&["--type=luks2"], &options[..]].concat();
            self.cryptsetup(&image, &options);
            if name == "argon2" {
                let token = r#"{"type":"fuzz","keyslots":["0"],"text":"x","number":1.5}"#;
                let file = self.work.join("token");
                fs::write(&file, token).expect("writable");
                run("cryptsetup", &[&"token", &"import", &"--json-file", &file, &image], "");
                let other = self.work.join("other");
                fs::write(&other, "other").expect("writable");
                let args: [&dyn AsRef<OsStr>; 9] = [
                    &"luksAddKey",
                    &"--batch-mode",
                    &"--key-file=-",
                    &"--unbound",
                    &"--key-size=256",
                    &"--pbkdf=pbkdf2",
                    &"--pbkdf-force-iterations=1000",
                    &image,
                    &other,
                ];
                run("cryptsetup", &args, "fuzz");
            }
            let bytes = fs::read(&image).expect("readable");
            let size = u64::from_be_bytes(bytes[8..16].try_into().expect("8 bytes")) as usize;
            let json = bytes[4096..size].split(|&byte| byte == 0).next().expect("a text").to_vec();
            self.put("luks2_header", name, &[&bytes[..4096], &json].concat());
            // The digest's own iterations are the tool's choice; fewer keep the whole chain fast.
            let text = String::from_utf8(json).expect("a text");
            let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            for digest in value["digests"].as_object_mut().expect("an object").values_mut() {
                digest["iterations"] = 1000.into();
            }
            self.put("luks2_json", name, text.as_bytes());
            self.put("luks2_volume", name, value.to_string().as_bytes());
        }
    }

    fn backups(&self) {
        for flags in [0_u8, 1, 2, 3, 8, 16, 17, 24, 40] {
            let mut seed = vec![flags];
            seed.extend_from_slice(&[0, 1, 0, 0, 24, 0, 4, b'l', b'a', b'b', b'e', b'l']);
            self.put("header_restore", &format!("{flags:02}"), &seed);
        }
        for (i, (hash, spec)) in (0..4).zip(0..6).enumerate() {
            let head = [hash, spec, 32, 8, 0, 3];
            self.put("keyslot", &format!("{i}"), &[&head[..], &[0x11; 32 + 512 + 600]].concat());
        }
    }

    fn partitions(&self) {
        let image = self.image(4 << 20);
        let gpt: [&dyn AsRef<OsStr>; 6] =
            [&"-o", &"-n1:2048:+1M", &"-c1:first", &"-n2:0:0", &"-t2:8300", &image];
        run("sgdisk", &gpt, "");
        let bytes = fs::read(&image).expect("readable");
        self.put("gpt", "intact", &Image::encode(0, &bytes));
        self.put("gpt", "sealed", &Image::encode(1, &bytes));
        let mut damaged = bytes.clone();
        damaged[520] ^= 1;
        self.put("gpt", "primary-damaged", &Image::encode(0, &damaged));
        for (name, script) in [
            (
                "primary",
                "label: dos\nstart=2048, size=1024, type=83\nstart=4096, size=1024, type=c, bootable\n",
            ),
            (
                "logical",
                "label: dos\nstart=64, size=64, type=83\nstart=256, size=4096, type=5\n\
                 start=512, size=64, type=83\nstart=1024, size=64, type=b\nstart=2048, size=128, type=82\n",
            ),
        ] {
            let image = self.image(4 << 20);
            run("sfdisk", &[&"-q", &"--no-reread", &image], script);
            self.put("mbr", name, &Image::encode(0, &fs::read(&image).expect("readable")));
        }
    }

    fn filesystems(&self) {
        let from = self.work.join("from");
        fs::create_dir_all(from.join("a/b")).expect("writable");
        for (name, len) in [("a/file", 3000), ("a/b/a long name for a file.text", 9000), ("top", 40)] {
            fs::write(from.join(name), vec![b'x'; len]).expect("writable");
        }
        std::os::unix::fs::symlink("a/b", from.join("link")).expect("links can be made");
        for (name, options, size) in [
            ("ext4", "-t ext4 -b 1024 -N 24 -O ^metadata_csum,^has_journal,^resize_inode", "256K"),
            ("ext4-checksums", "-t ext4 -b 1024 -N 24 -O ^has_journal,^resize_inode", "256K"),
            (
                "ext4-inline",
                "-t ext4 -b 1024 -N 24 -O ^metadata_csum,^has_journal,^resize_inode,inline_data",
                "256K",
            ),
            (
                "ext4-metabg",
                "-t ext4 -b 1024 -N 24 -O ^metadata_csum,^has_journal,^resize_inode,meta_bg",
                "256K",
            ),
            ("ext2", "-t ext2 -b 1024 -N 24 -O ^resize_inode", "256K"),
            ("ext3-journal", "-t ext3 -b 1024 -N 24 -O ^resize_inode", "2M"),
        ] {
            let image = self.image(0);
            let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"-q", &"-F"];
            let options: Vec<&str> = options.split_whitespace().collect();
            options.iter().for_each(|option| args.push(option));
            args.extend([&"-d" as &dyn AsRef<OsStr>, &from, &image, &size]);
            run("mke2fs", &args, "");
            if name == "ext3-journal" {
                let block = self.work.join("block");
                fs::write(&block, [0x42; 2048]).expect("writable");
                let script = self.work.join("script");
                let commands =
                    format!("jo\njw -b 100,101 {0}\njw -r 100\njw -b 102,103 {0}\njc\n", block.display());
                fs::write(&script, commands).expect("writable");
                run("debugfs", &[&"-w", &"-f", &script, &image], "");
            }
            self.put("ext4", name, &Image::encode(0, &fs::read(&image).expect("readable")));
        }
        for (name, kib, options) in
            [("fat12", "360", "-F12"), ("fat16", "8300", "-F16"), ("fat32", "33300", "-F32")]
        {
            let image = self.image(0);
            fs::remove_file(&image).expect("there");
            run("mkfs.vfat", &[&"-C", &"-s1", &"-f1", &options, &image, &kib], "");
            run("mcopy", &[&"-s", &"-i", &image, &from.join("a"), &from.join("top"), &"::/"], "");
            let bytes = fs::read(&image).expect("readable");
            self.put("fat", name, &Image::encode(0, &bytes));
            self.put("fat", &format!("{name}-write"), &Image::encode(1, &bytes));
        }
        self.by_drivers();
    }

    /// File systems that a driver fills.
    fn by_drivers(&self) {
        let fill = |at: &Path| {
            fs::create_dir_all(at.join("a/b")).expect("writable");
            for (name, len) in [("a/file", 3000), ("a/b/other file with a long name", 20_000), ("top", 90)] {
                fs::write(at.join(name), vec![0x42; len]).expect("writable");
            }
            for number in 0..12 {
                fs::write(at.join(format!("a/b/one of many {number}")), "x").expect("writable");
            }
        };
        let mounted = self.work.join("mounted");
        fs::create_dir_all(&mounted).expect("writable");
        for (name, options) in [("plain", "rw,special_files=wsl"), ("packed", "rw,compression")] {
            let image = self.image(2 << 20);
            run("mkfs.ntfs", &[&"-F", &"-Q", &"-q", &"-c", &"512", &image], "");
            run("ntfs-3g", &[&"-o", &options, &image, &mounted], "");
            if name == "packed" {
                let compressed = [0, 8, 0, 0];
                let none = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(&mounted, "system.ntfs_attrib", &compressed, none)
                    .expect("ntfs-3g takes it");
            } else {
                std::os::unix::fs::symlink("a/b", mounted.join("link")).expect("writable");
            }
            fill(&mounted);
            run("umount", &[&mounted], "");
            let mut bytes = fs::read(&image).expect("readable");
            // Nobody reads the table of capitals and the empty log, which are most of what is not zero.
            let capitals: Vec<u8> = (0..64_u16).flat_map(u16::to_le_bytes).collect();
            let at = bytes.windows(capitals.len()).position(|found| found == capitals).expect("a table");
            bytes[at..at + (128 << 10)].fill(0);
            bytes
                .chunks_mut(512)
                .filter(|sector| sector.iter().all(|byte| *byte == 0xff))
                .for_each(|sector| sector.fill(0));
            self.put("ntfs", name, &Image::encode(0, &bytes));
        }
        for (name, cluster) in [("small", "512"), ("large", "4K")] {
            let image = self.image(2 << 20);
            run("mkfs.exfat", &[&"-b", &"4K", &"-c", &cluster, &image], "");
            let device = Command::new("losetup")
                .args(["--find", "--show"])
                .arg(&image)
                .output()
                .expect("losetup runs");
            let device = String::from_utf8(device.stdout).expect("text").trim().to_owned();
            run("mount.exfat-fuse", &[&device, &mounted], "");
            fill(&mounted);
            run("umount", &[&mounted], "");
            run("losetup", &[&"--detach", &device], "");
            let bytes = fs::read(&image).expect("readable");
            self.put("exfat", name, &Image::encode(0, &bytes));
            self.put("exfat", &format!("{name}-sealed"), &Image::encode(1, &bytes));
        }
    }

    /// The metadata's checksums are left out but in one: they would keep most mutations from going any further.
    fn encrypted(&self) {
        for (name, policy) in [
            ("v2", "v2"),
            ("v2-checksums", "v2:pad=4"),
            ("v2-units", "v2:unit=512"),
            ("v2-lblk64", "v2:iv-ino-lblk-64"),
            ("v1", "v1"),
        ] {
            for (i, flags) in [0, 64, 128].into_iter().enumerate() {
                self.put("fscrypt_context", &format!("{name}-{i}"), &fscrypt_context_seed(policy, 9 | flags));
            }
            let work = self.work.join(name);
            let image = self.work.join("encrypted");
            let _ = fs::remove_file(&image);
            ext4_encrypted_seed(&work, &image, policy);
            if name != "v2-checksums" {
                run("tune2fs", &[&"-O", &"^metadata_csum", &image], "");
            }
            let bytes = fs::read(&image).expect("readable");
            self.put("ext4_encrypted", name, &Image::encode(0, &bytes));
            if name == "v2" {
                self.put("ext4_encrypted", "v2-locked", &Image::encode(1, &bytes));
                self.put("ext4_encrypted", "v2-write", &Image::encode(2, &bytes));
            }
        }
        for (name, policy) in [("adiantum", "v2:Adiantum:direct"), ("hctr2", "v2:AES-256-XTS:AES-256-HCTR2")]
        {
            for (i, flags) in [0, 64].into_iter().enumerate() {
                self.put("fscrypt_context", &format!("{name}-{i}"), &fscrypt_context_seed(policy, 9 | flags));
            }
        }
        self.put("fscrypt_context", "descriptor", &fscrypt_context_seed("v1:key=0011223344556677", 66));
    }

    fn vhost_user(&self) {
        const WRITE: u16 = 2;
        let range = [&8_u64.to_le_bytes()[..], &8_u32.to_le_bytes(), &0_u32.to_le_bytes()].concat();
        let put = |name: &str, kind: u32, parts: &[(u32, u16)], data: &[u8]| {
            self.put("vhost_user", name, &vhost_user_seed(kind, 8, parts, data));
        };
        put("read", 0, &[(16, 0), (4096, WRITE), (1, WRITE)], &[]);
        put("read-pieces", 0, &[(7, 0), (9, 0), (500, WRITE), (13, WRITE)], &[]);
        put("write", 1, &[(16, 0), (512, 0), (1, WRITE)], &[7; 512]);
        put("write-joined", 1, &[(1040, 0), (1, WRITE)], &[7; 1024]);
        put("flush", 4, &[(16, 0), (1, WRITE)], &[]);
        put("id", 8, &[(16, 0), (20, WRITE), (1, WRITE)], &[]);
        put("discard", 11, &[(16, 0), (16, 0), (1, WRITE)], &range);
        put("zeroes", 13, &[(16, 0), (16, 0), (1, WRITE)], &range);
        put("unknown", 2, &[(16, 0), (1, WRITE)], &[]);
    }

    fn tokens(&self) {
        for (name, seed) in atrest_fuzz::token_seeds() {
            self.put("token", name, &seed);
        }
        for (name, seed) in atrest_fuzz::tpm_seeds() {
            self.put("tpm", name, &seed);
        }
        for (name, seed) in atrest_fuzz::fido2_seeds() {
            self.put("fido2", name, &seed);
        }
    }

    fn nbd_client(&self) {
        for (name, seed) in atrest_fuzz::nbd_client_seeds() {
            self.put("nbd_client", name, &seed);
        }
    }

    fn nbd(&self) {
        let option = |number: u32, data: &[u8]| {
            [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
        };
        let named = |rest: &[u8]| [&4_u32.to_be_bytes()[..], b"fuzz", rest].concat();
        let go = option(7, &named(&[0, 3, 0, 0, 0, 1, 0, 3]));
        let contexts = [&1_u32.to_be_bytes()[..], &15_u32.to_be_bytes(), b"base:allocation"].concat();
        let request = |flags: u16, kind: u16, offset: u64, len: u32, data: &[u8]| {
            let magic = 0x2560_9513_u32.to_be_bytes();
            let parts: [&[u8]; 7] = [
                &magic,
                &flags.to_be_bytes(),
                &kind.to_be_bytes(),
                b"cookie01",
                &offset.to_be_bytes(),
                &len.to_be_bytes(),
                data,
            ];
            parts.concat()
        };
        let start = [0, 0, 0, 3];
        let commands = [
            request(0, 0, 4096, 8192, &[]),
            request(0, 1, 513, 700, &[7; 700]),
            request(1, 3, 0, 0, &[]),
            request(0, 4, 4096, 4096, &[]),
            request(0, 6, 8192, 4096, &[]),
            request(0, 7, 0, 1 << 20, &[]),
            request(0, 5, 0, 4096, &[]),
            request(0, 2, 0, 0, &[]),
        ]
        .concat();
        self.put("nbd", "go", &[&start[..], &go, &commands].concat());
        let structured = [option(8, &[]), option(10, &named(&contexts)), go.clone()].concat();
        self.put("nbd", "structured", &[&start[..], &structured, &commands].concat());
        self.put("nbd", "export-name", &[&[0, 0, 0, 1][..], &option(1, b"fuzz"), &commands].concat());
        let others = [
            option(3, &[]),
            option(6, &named(&[0, 0])),
            option(5, &[]),
            option(9, &named(&[0; 4])),
            option(2, &[]),
        ];
        self.put("nbd", "options", &[&start[..], &others.concat()].concat());
        let bad =
            [request(0, 0, 1 << 40, 512, &[]), request(0, 1, 0, 1 << 30, &[]), request(9, 99, 0, 0, &[])]
                .concat();
        self.put("nbd", "bad-requests", &[&start[..], &go, &bad].concat());
    }

    fn files(&self) {
        let entry = |kind: &str| {
            format!(
                r#"{{"name":"volume","path":"/nowhere/volume.img","kind":{kind},"read_only":true,"since":1700000000,"process":{{"pid":999999999,"start_time":12345,"boot":"01234567-89ab-cdef-0123-456789abcdef"}}}}"#
            )
        };
        self.put(
            "session",
            "socket",
            entry(r#"{"nbd-unix":{"socket":"/nowhere/socket","uri":"nbd+unix:///"}}"#).as_bytes(),
        );
        self.put(
            "session",
            "tcp",
            entry(r#"{"nbd-tcp":{"address":"127.0.0.1:10809","uri":"nbd://"}}"#).as_bytes(),
        );
        self.put("session", "fuse", entry(r#"{"fuse":{"directory":"/nowhere/directory"}}"#).as_bytes());
        let own = std::process::id();
        self.put(
            "session",
            "alive",
            entry(r#"{"fuse":{"directory":"/"}}"#).replace("999999999", &own.to_string()).as_bytes(),
        );
        let seed = checkpoint_seed();
        assert!(seed.starts_with(b"atrest-checkpoint"), "no checkpoint was left");
        self.put("checkpoint", "own", &seed);
    }

    /// Two bytes of options, then operations: a letter of the program's own for each, and its block and unit.
    fn sealed(&self) {
        let place = |block: u8, unit: u8| block << 2 | unit;
        let begin = |block| [&[0, place(block, 0)][..], &[3, place(block, 0), 3, place(block, 1)]].concat();
        let restart = [0xff; 8];
        let used =
            [begin(0), vec![8], begin(1), vec![13, 9], begin(2), vec![3, place(2, 3)], begin(0), vec![8, 10]]
                .concat();
        // A block of the kept medium in its place, while the volume is closed, and under it.
        let replayed = [[14, 0, 0, 1, 0, 0, 1], [15, 0, 0, 1, 0, 0, 1]].concat();
        let flipped = [14, 0, 2, 0, 6, 1, 4, 3, 14, 1, 0, 1, 3, 5, 0, 10, 2];
        let cut = |after: u8| [&[12, after][..], &begin(1), &begin(2), &[9], &restart].concat();
        let closed = [&[11, 1][..], &restart, &begin(0), &[11, 0], &restart, &[10]].concat();
        for kind in 0..16 {
            let options = [kind, 4 * (kind % 3)];
            let all = [&options[..], &used, &replayed, &flipped, &cut(kind % 6), &closed].concat();
            self.put("sealed_flash", &format!("{kind:02}"), &all);
        }
        // A record, pages, slots, a log beside a counter: as they are, and changed.
        for kind in 0..4_u8 {
            for changes in 0..3 {
                let program: Vec<u8> =
                    (0..40).map(|at: u8| at.wrapping_mul(37).wrapping_add(changes * 11 + kind)).collect();
                let all = [&[kind, 3 + changes, 5, changes][..], &program].concat();
                self.put("sealed_store", &format!("{kind}-{changes}"), &all);
            }
        }
    }

    fn s3(&self) {
        for (name, seed) in s3_seeds() {
            self.put("s3", name, &seed);
        }
    }

    fn azure(&self) {
        for (name, seed) in azure_seeds() {
            self.put("azure", name, &seed);
        }
    }

    fn google(&self) {
        for (name, seed) in google_seeds() {
            self.put("google", name, &seed);
        }
    }

    fn sealed_volume(&self) {
        for (name, seed) in sealed_volume_seeds() {
            self.put("sealed_volume", name, &seed);
        }
    }

    fn key_value(&self) {
        // Changes, power losses and openings, on a medium with a cache and without.
        for kind in 0..2_u8 {
            for seed in 0..6_u32 {
                let program: Vec<u8> = (0..300_u32)
                    .map(|at| (at * (2 * seed + 1) + seed).wrapping_mul(2_654_435_761).to_be_bytes()[0])
                    .collect();
                self.put(
                    "key_value",
                    &format!("history-{kind}-{seed}"),
                    &[&[0, kind][..], &program].concat(),
                );
            }
        }
        // Two blocks with values, the second of which counts, as FORMATS.md has them.
        let begun = |block: u8, kind: u8, sequence: u8, alive: u8, filled: u8| {
            [block, 0, sequence, kind, 1, filled, 0, 1, sequence, 0, 0, 0, alive, 0, 0, 0, 0, 0, 0, 0, 1]
        };
        let value = |block: u8, unit: u8, sequence: u8, name: u8, len: u8| {
            [&[block, unit, sequence, 1, 7, len, 0, 0, name][..], &[0x55; 40][..len.into()], &[1]].concat()
        };
        let first = [&begun(2, 3, 4, 4, 0)[..], &value(2, 1, 4, 0, 5), &value(2, 3, 4, 1, 32)].concat();
        let second = [&begun(0, 3, 5, 5, 5)[..], &value(0, 1, 5, 0, 9)].concat();
        let moving = [&begun(1, 4, 6, 1, 3)[..], &value(1, 1, 6, 2, 3)].concat();
        for (name, parts) in
            [("one", vec![&first]), ("two", vec![&first, &second]), ("moving", vec![&first, &moving])]
        {
            let all = parts.into_iter().flatten().copied();
            self.put(
                "key_value",
                &format!("built-{name}"),
                &[1, 0].into_iter().chain(all).collect::<Vec<u8>>(),
            );
        }
    }

    fn littlefs(&self) {
        for (name, version, files) in
            [("few", Version::V2_0, 1), ("many", Version::V2_0, 9), ("many-2.1", Version::V2_1, 9)]
        {
            let image = littlefs_seed(version, files);
            for flags in [0, 1, 3] {
                self.put("littlefs", &format!("{name}-{flags}"), &Image::encode(flags, &image));
            }
        }
    }

    /// What the kernel answers, what is asked of a process, and what clients begin with.
    fn daemons(&self) {
        for (number, seed) in dm_answer_seeds().iter().enumerate() {
            self.put("dm_answer", &number.to_string(), seed);
        }
        let long = [&b"\0A\x04name"[..], &[0x5a; 64]].concat();
        for (name, message) in [
            ("list", &b"\0L\0"[..]),
            ("list-name", b"\0L\x01x"),
            ("nothing-removed", b"\0R\0"),
            ("nothing-added", b"\0A\x01x"),
            ("too-long", &[&b"\0A\0"[..], &[9; 1023]].concat()),
            ("remove", b"\0R\x100011223344556677"),
            ("add", &long),
            ("done", b"\x01+done"),
            ("refused", b"\x01-no such key"),
        ] {
            self.put("control", name, message);
        }
        let option = |number: u32, data: &[u8]| {
            [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
        };
        let named = |rest: &[u8]| [&4_u32.to_be_bytes()[..], b"fuzz", rest].concat();
        let contexts = named(&[&1_u32.to_be_bytes()[..], &15_u32.to_be_bytes(), b"base:allocation"].concat());
        let start = [0xff, 0, 0, 0, 3];
        for (name, options) in [
            ("go", vec![option(7, &named(&[0, 2, 0, 1, 0, 3]))]),
            ("info", vec![option(6, &named(&[0, 0])), option(2, &[])]),
            ("name", vec![option(1, b"fuzz")]),
            ("contexts", vec![option(8, &[]), option(9, &contexts), option(10, &contexts), option(3, &[])]),
            ("refused", vec![option(5, &[]), option(8, &[1]), option(7, b"x"), option(99, &[0; 20])]),
        ] {
            self.put("nbd_handshake", name, &[&start[..], &options.concat()].concat());
        }
        let tls = [0xfd, 0, 0, 0, 3];
        let options = [option(7, &named(&[0, 0])), option(3, &[]), option(5, &[1]), option(5, &[])];
        self.put("nbd_handshake", "tls", &[&tls[..], &options.concat()].concat());
        self.put("nbd_handshake", "made", &(0..120).map(|at: u8| at.wrapping_mul(29)).collect::<Vec<_>>());
    }

    /// A signed FIT of two configurations, and the tree with the key to it. Not an input, but what inputs change.
    fn signed(&self) {
        let key = self.work.join("key.pem");
        run("openssl", &[&"genrsa", &"-out", &key, &"2048"], "");
        let key = PrivateKey::from_pem(&fs::read(&key).expect("readable")).expect("a key");
        let image = |name: &str, kind, data| ImageSpec {
            name: name.into(),
            kind,
            data,
            compression: "none".into(),
            load: Some(0x4000_0000),
            entry: None,
        };
        let config = |name: &str, images: &[&str]| ConfigSpec {
            name: name.into(),
            images: images.iter().map(|name| (*name).into()).collect(),
        };
        let tree = Tree::default().to_blob().expect("an empty tree");
        let spec = FitSpec {
            description: "fuzz".into(),
            arch: "arm64".into(),
            timestamp: 1,
            images: vec![
                image("kernel-1", ImageKind::Kernel, b"a kernel"),
                image("kernel-2", ImageKind::Kernel, b"another kernel"),
                image("fdt-1", ImageKind::Fdt, &tree),
                image("ramdisk-1", ImageKind::Ramdisk, b"an initramfs"),
            ],
            configurations: vec![
                config("conf-1", &["kernel-1", "fdt-1", "ramdisk-1"]),
                config("conf-2", &["kernel-2", "fdt-1"]),
            ],
            default: "conf-1".into(),
            hashes: vec![HashKind::Sha256, HashKind::Crc32],
            external: false,
        };
        let sign = SignSpec { key: &key, name: "fuzz".into(), hash: HashKind::Sha256, pss: false };
        let signed = build_signed(&spec, &sign).expect("a FIT");
        let mut control = Tree::default();
        key.public().add_to(&mut control, "fuzz", key.scheme(HashKind::Sha256, false).expect("a scheme"));
        self.put("../signed", "fit", &signed);
        self.put("../signed", "control-tree", &control.to_blob().expect("a tree"));
    }

    /// Numbers that choose what is put together.
    fn built(&self) {
        for number in 0..8 {
            let mut random = Random(number);
            let mut bytes = |len| (0..len).map(|_| random.next() as u8).collect::<Vec<_>>();
            self.put("luks2_built", &number.to_string(), &bytes(80));
            self.put("flash_header_built", &number.to_string(), &bytes(60));
            self.put("fit_edited", &number.to_string(), &bytes(4 * number as usize));
        }
        // The job, where it is cut, how many changes, and two of the metadata.
        for job in 0..5 {
            for cut in [6, 20, 60] {
                self.put("reencrypt", &format!("{job}-{cut}"), &[job, cut, 0]);
                self.put(
                    "reencrypt",
                    &format!("{job}-{cut}-changed"),
                    &[job, cut, 2, 0, 1, job, 0, 0, 0, cut],
                );
                let forged = [job, cut, 1, 1, job + cut, cut];
                self.put("reencrypt", &format!("{job}-{cut}-forged"), &forged);
            }
        }
    }
}
