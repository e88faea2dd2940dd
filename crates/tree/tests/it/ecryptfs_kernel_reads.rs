//! Lower trees that we wrote, one of them through a mount of ours: the kernel's eCryptfs mounts them, reads what was written and goes
//! on writing there. A file beyond 4 GiB is among them, sparse below, and the key of one comes from a passphrase that we wrapped.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use atrest_filetree::{FileTree, TreePath};
use atrest_secret::{OsRandom, Passphrase};
use atrest_testkit::atrest::{Served, atrest, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::{Program, tool};
use atrest_testkit::{Campaign, Random, Scratch};
use atrest_tree::ecryptfs::{
    EncryptedFile, FileCipher, FileOptions, Keys, LowerFile, LowerTree, MetadataPlace, NameCipher, Signature,
    WrappedPassphrase, WrappedVersion,
};
use sha2::{Digest, Sha256};

const CASES: [(&str, FileCipher, usize, MetadataPlace, bool); 11] = [
    ("plain-names", FileCipher::Aes128, 16, MetadataPlace::File, false),
    ("aes128", FileCipher::Aes128, 16, MetadataPlace::File, true),
    ("aes192", FileCipher::Aes192, 24, MetadataPlace::File, true),
    ("aes256", FileCipher::Aes256, 32, MetadataPlace::File, true),
    ("des3", FileCipher::Des3Ede, 24, MetadataPlace::File, true),
    ("blowfish", FileCipher::Blowfish, 16, MetadataPlace::File, true),
    ("blowfish56", FileCipher::Blowfish, 56, MetadataPlace::File, true),
    ("twofish", FileCipher::Twofish, 32, MetadataPlace::File, true),
    ("cast5", FileCipher::Cast5, 16, MetadataPlace::File, true),
    ("cast6", FileCipher::Cast6, 32, MetadataPlace::File, true),
    ("xattr", FileCipher::Aes256, 32, MetadataPlace::Xattr, true),
];
/// A case that is written through `atrest mount`.
const MOUNTED: &str = "mounted";
/// The first cases have what no other has: names that are not encrypted, and a huge file. They always run, and of the rest a sample.
const ALWAYS: usize = 2;
const SAMPLE: usize = 2;
/// Where the contents of the huge file begin that are not a hole below.
const HUGE: u64 = (1 << 32) + 4096;

struct Writer<'a> {
    lower: &'a Path,
    keys: &'a Keys,
    options: FileOptions,
    names: Option<NameCipher>,
    expected: BTreeMap<String, String>,
}

impl Writer<'_> {
    fn name(&self, name: &str) -> std::path::PathBuf {
        match &self.names {
            None => self.lower.join(name),
            Some(names) => {
                let encoded = names.encode(name.as_bytes()).expect("short enough");
                assert!(encoded.len() <= 255, "{name}");
                self.lower.join(std::ffi::OsStr::from_bytes(&encoded))
            }
        }
    }

    fn create(&self, name: &str) -> EncryptedFile {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.name(name));
        EncryptedFile::create(file.expect("a new file"), self.keys, &self.options, &mut OsRandom)
            .expect("made")
    }

    fn expect(&mut self, name: &str, contents: &[u8]) {
        self.expected.insert(format!("./{name}"), hex(contents));
    }

    fn write(&mut self, name: &str, contents: &[u8]) {
        self.create(name).write_at(0, contents).expect("room");
        self.expect(name, contents);
    }
}

fn hex(contents: &[u8]) -> String {
    Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fill(writer: &mut Writer<'_>, more: usize, random: &mut Random) {
    for len in [0_usize, 1, 15, 16, 17, 4095, 4096, 4097, 40_960, 45_001, 300_000] {
        let mut contents = vec![0; len];
        random.fill(&mut contents);
        writer.write(&format!("bytes-{len}"), &contents);
    }
    // The most that whole campaigns ask for.
    if more > 2 && writer.options.cipher == FileCipher::Aes256 {
        let mut contents = vec![0; 64 << 20];
        random.fill(&mut contents);
        writer.write("64 MiB", &contents);
    }
    writer.write(&"n".repeat(143), b"a long name");
    writer.write("x", b"a short name");
    for i in 0..more {
        let mut contents = vec![0; random.below(70_000) as usize];
        random.fill(&mut contents);
        writer.write(&format!("{}{i}", "m".repeat(i * 5 % 130)), &contents);
    }
    let file = writer.create("grown");
    file.write_at(0, b"head").expect("room");
    file.set_len(50_000).expect("room");
    file.write_at(70_000, b"tail").expect("room");
    file.set_len(70_003).expect("room");
    let mut contents = b"head".to_vec();
    contents.resize(70_000, 0);
    contents.extend(b"tai");
    writer.expect("grown", &contents);
    let target = "a/target/".repeat(40);
    let link = match &writer.names {
        None => target.into_bytes(),
        Some(names) => names.encode(target.as_bytes()).expect("short enough"),
    };
    symlink(std::ffi::OsStr::from_bytes(&link), writer.name("link")).expect("a link");
}

/// What programs do to files in a mounted directory.
fn through_a_mount(work: &Path, lower: &Path, more: usize, random: &mut Random) -> BTreeMap<String, String> {
    let mount = work.join("mount");
    fs::create_dir(&mount).expect("a directory");
    write_key(work, "passphrase", b"correct horse");
    let program =
        atrest("mount --type ecryptfs --ecryptfs-key-bytes 32 --ecryptfs-passphrase-file passphrase");
    let server = Served::start(program.arg(lower).arg(&mount).current_dir(work));
    let mut expected = BTreeMap::new();
    let mut expect = |name: &str, contents: &[u8]| {
        let hash = hex(&fs::read(mount.join(name)).expect("readable"));
        assert_eq!(hash, hex(contents), "{name}");
        expected.insert(format!("./{name}"), hash);
    };
    fs::create_dir_all(mount.join("directory/inner")).expect("room");
    for i in 0..more.max(11) {
        let mut contents = vec![0; [0, 1, 4095, 4096, 4097, 45_001, 300_000][i % 7]];
        random.fill(&mut contents);
        let name = format!("directory/inner/{}{i}", "w".repeat(i * 11 % 140));
        fs::write(mount.join(&name), &contents).expect("room");
        expect(&name, &contents);
    }
    let file = File::create(mount.join("new")).expect("room");
    file.write_all_at(b"tail", 70_000).expect("room");
    file.write_all_at(b"head", 0).expect("room");
    file.set_len(70_003).expect("room");
    drop(file);
    fs::rename(mount.join("new"), mount.join("grown")).expect("room");
    let mut contents = b"head".to_vec();
    contents.resize(70_000, 0);
    contents.extend(b"tai");
    expect("grown", &contents);
    symlink("a/target/".repeat(40), mount.join("link")).expect("a link");
    server.stop();
    expected
}

/// As large as it is because its header says so: the extents before [`HUGE`] are holes of the lower file.
fn huge(writer: &Writer<'_>) -> String {
    let file = writer.create("huge");
    let lower = file.into_lower();
    LowerFile::write_at(&lower, 0, &HUGE.to_be_bytes()).expect("room");
    LowerFile::set_len(&lower, 8192 + HUGE).expect("holes");
    let file = EncryptedFile::open(lower, writer.keys).expect("a good header");
    let contents: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
    file.write_at(HUGE, &contents).expect("room");
    hex(&contents)
}

fn lines(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).expect("what the guest told");
    let line = |line: &str| {
        let (hash, name) = line.split_once("  ").expect("a hash and a name");
        (name.to_owned(), hash.to_owned())
    };
    text.lines().map(line).collect()
}

#[test]
fn what_we_write_the_module_reads_and_goes_on_with() {
    let work = Scratch::new();
    let (image, share, root) = (work.path("lower.img"), work.path("share"), work.path("root"));
    fs::create_dir(&share).expect("a directory");
    let mut keys = Keys::new();
    let [content, name]: [Signature; 2] =
        keys.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase");
    let more = if Campaign::is_full() { 80 } else { 2 };
    let (mut random, mut cases, mut all) = (Random::new(5), String::new(), Vec::new());
    let mut huge_hash = String::new();
    // A kernel under emulation takes its time.
    let mut chosen = CASES[..ALWAYS].to_vec();
    chosen.extend(Campaign::matrix("lower trees that the kernel reads", SAMPLE).chosen(&CASES[ALWAYS..]));
    for (case, cipher, key_len, place, encrypted_names) in chosen {
        let lower = root.join(case);
        fs::create_dir_all(&lower).expect("a directory");
        let options = FileOptions { cipher, key_len, signatures: vec![content], place, encrypted_names };
        let names =
            encrypted_names.then(|| NameCipher::new(&keys, name, cipher, key_len).expect("a key for names"));
        let mut writer = Writer { lower: &lower, keys: &keys, options, names, expected: BTreeMap::new() };
        fill(&mut writer, more, &mut random);
        if case == "aes128" {
            huge_hash = huge(&writer);
        }
        cases += &format!("{case} ecryptfs_cipher={cipher},ecryptfs_key_bytes={key_len}");
        cases += if encrypted_names { ",ecryptfs_fnek_sig=FNEK" } else { "" };
        cases += if place == MetadataPlace::Xattr { ",ecryptfs_xattr_metadata\n" } else { "\n" };
        all.push((case, writer.expected));
    }
    let lower = root.join(MOUNTED);
    fs::create_dir(&lower).expect("a directory");
    all.push((MOUNTED, through_a_mount(work.as_path(), &lower, more, &mut random)));
    cases += &format!("{MOUNTED} ecryptfs_cipher=aes,ecryptfs_key_bytes=32,ecryptfs_fnek_sig=FNEK\n");
    let wrapping = Passphrase::copy_from(b"login passphrase");
    let passphrase = Passphrase::copy_from(b"correct horse");
    let wrapped = WrappedPassphrase::wrap(&passphrase, &wrapping, WrappedVersion::V2, &mut OsRandom);
    fs::write(share.join("wrapped"), wrapped.expect("a good passphrase").to_bytes()).expect("room");
    fs::write(share.join("cases"), cases).expect("room");
    File::create(&image).and_then(|file| file.set_len(1 << 30)).expect("room");
    let mke2fs = Program::at(tool("mke2fs")).args(["-q", "-t", "ext4", "-F", "-d"]);
    mke2fs.arg(&root).arg(&image).run().expect_code(0);
    Kernel::script("ecryptfs-read.sh").disk(&image).share(&share).ok("");
    for (case, expected) in &all {
        assert_eq!(lines(&share.join(format!("{case}.hashes"))), *expected, "{case}");
        let links = fs::read_to_string(share.join(format!("{case}.links"))).expect("what the guest told");
        assert_eq!(links.trim_end(), "a/target/".repeat(40), "{case}");
    }
    println!(
        "{} files in {} trees agree",
        all.iter().map(|(_, expected)| expected.len()).sum::<usize>() + 1,
        all.len()
    );
    let told = fs::read_to_string(share.join("aes128.huge")).expect("what the guest told");
    assert_eq!(told.split_whitespace().next(), Some(&*huge_hash));
    // Other ciphers and places for metadata are in the sample by turns. Attributes of files are not dumped.
    let changed: Vec<&str> = all.iter().map(|(case, _)| *case).filter(|case| *case != "xattr").collect();
    what_the_module_added(&image, &work.path("after"), &keys, &changed[1..]);
}

/// The kernel changed files of ours, and they read as changed.
fn what_the_module_added(image: &Path, to: &Path, keys: &Keys, cases: &[&str]) {
    fs::create_dir(to).expect("a directory");
    let commands = to.with_extension("commands");
    let dump: String = cases.iter().map(|case| format!("rdump /{case} {}\n", to.display())).collect();
    fs::write(&commands, dump).expect("room");
    Program::at(tool("debugfs")).arg("-f").arg(&commands).arg(image).run().expect_code(0);
    for case in cases {
        let tree = LowerTree::open(&to.join(case), keys.clone(), false).expect("a directory");
        let read = |name: &str, offset: u64, len: usize| {
            let mut bytes = vec![0; len];
            let path = TreePath::parse(name).expect("a name");
            let read = tree.read_at(&path, offset, &mut bytes).expect("readable");
            bytes.truncate(read);
            bytes
        };
        assert_eq!(read("made by the kernel", 0, 100), b"by the kernel");
        assert_eq!(read("grown", 70_000, 100), b"taiby the kernel");
        if *case == "aes128" {
            assert_eq!(read("huge", 4_294_971_500, 13), b"by the kernel");
        }
    }
}
