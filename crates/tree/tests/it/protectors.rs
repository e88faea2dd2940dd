//! The metadata of google/fscrypt, held against fscrypt itself: it encrypts directories of a filesystem on this kernel with
//! protectors of every kind (tests/protectors/make.sh), and we find the same policies and unlock the same keys.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use atrest_engine::{Access as FileAccess, FileDevice};
use atrest_filetree::{
    About, Entry, FileTree, KeyName, Metadata as FileMetadata, Space, TreeError, TreePath,
};
use atrest_inside::{Access, open_tree};
use atrest_kdf::{CostParameter, KdfError};
use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Program, tool, workspace};
use atrest_tree::fscrypt::metadata::{
    ChooseError, Metadata, MetadataError, PolicyKey, ProtectorSource, RecordDamage, UnlockError,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha512};

/// What fscrypt made, once for all tests.
struct Made {
    data: Arc<dyn FileTree>,
    system: Arc<dyn FileTree>,
    raw_key: Vec<u8>,
    recovery: Vec<u8>,
    status: String,
}

static MADE: LazyLock<Made> = LazyLock::new(|| {
    for program in ["fscrypt", "mkfs.ext4", "openssl", "losetup"] {
        tool(program);
    }
    let directory = Scratch::new();
    let script = workspace().join("crates/tree/tests/protectors/make.sh");
    Program::named("unshare")
        .words("--mount --propagation private bash")
        .arg(script)
        .arg(directory.as_path())
        .ok();
    let tree = |name: &str| -> Arc<dyn FileTree> {
        let device = FileDevice::open(directory.path(name), FileAccess::ReadOnly).expect("the image");
        open_tree(Arc::new(device), Access::ReadOnly).expect("an ext4").into()
    };
    let read = |name: &str| fs::read(directory.path(name)).expect("the script leaves it");
    Made {
        data: tree("data.img"),
        system: tree("system.img"),
        raw_key: read("raw.key"),
        recovery: read("recovery").trim_ascii_end().to_vec(),
        status: String::from_utf8(read("status")).expect("text"),
    }
});

fn metadata() -> Metadata {
    let metadata = Metadata::read(&*MADE.data).expect("fscrypt set it up");
    assert_eq!(metadata.damaged(), []);
    metadata
}

/// Whether the kernel would give this key this name: a short reference of our own of RFC 5869 and of the tools' convention.
fn is_named_so(key: &PolicyKey) -> bool {
    let hmac = |key: &[u8], text: &[u8]| {
        let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("any length");
        mac.update(text);
        mac.finalize().into_bytes()
    };
    match key.name {
        KeyName::Descriptor(name) => Sha512::digest(Sha512::digest(&*key.key))[..8] == name,
        KeyName::Identifier(name) => hmac(&hmac(&[0; 64], &key.key), b"fscrypt\0\x01\x01")[..16] == name,
    }
}

/// Descriptors of the policies that a protector unlocks, each with a key of that name.
fn unlocked(metadata: &Metadata, protector: &str, secret: &[u8]) -> Result<Vec<String>, UnlockError> {
    let protector = metadata.choose(Some(protector)).expect("one protector");
    let unlocked = metadata.unlock(protector, secret)?;
    assert_eq!(unlocked.damaged, []);
    for key in &unlocked.keys {
        assert_eq!(key.key.len(), 64);
        assert!(is_named_so(key), "{} has another key", key.name);
    }
    Ok(unlocked.keys.iter().map(|key| key.name.to_string()).collect())
}

#[test]
fn policies_and_protectors_are_those_that_fscrypt_lists() {
    let metadata = metadata();
    // fscrypt's lines: POLICY UNLOCKED PROTECTOR[, PROTECTOR], and PROTECTOR LINKED DESCRIPTION.
    let (protectors, policies) = MADE.status.split_once("POLICY ").expect("two tables");
    let rows: BTreeMap<String, Vec<String>> = policies
        .lines()
        .skip(1)
        .map(|line| {
            let mut words = line.split_whitespace().map(|word| word.trim_end_matches(',').to_owned());
            (words.next().expect("a policy"), words.skip(1).collect())
        })
        .collect();
    let ours: BTreeMap<String, Vec<String>> = metadata
        .policies()
        .iter()
        .map(|policy| {
            let slots = policy.keys.iter().map(|slot| slot.protector.to_string()).collect();
            (policy.key_name.to_string(), slots)
        })
        .collect();
    assert_eq!(ours, rows);
    assert_eq!(ours.len(), 6);
    for policy in metadata.policies() {
        let old = matches!(policy.key_name, KeyName::Descriptor(_));
        let expected = (1, 4, if old { 16 } else { 32 });
        assert_eq!((policy.contents, policy.filenames, policy.padding), expected);
    }
    for protector in metadata.protectors() {
        let kind = match protector.source {
            ProtectorSource::CustomPassphrase(_) => "custom protector",
            ProtectorSource::RawKey => "raw key protector",
            ProtectorSource::LoginPassphrase { .. } => "login protector",
        };
        let row = format!("{}  No       {kind} \"{}\"\n", protector.descriptor, protector.name);
        assert!(protectors.contains(&row), "{row}: {protectors}");
    }
    let [link] = metadata.links() else { panic!("{:?}", metadata.links()) };
    assert!(protectors.contains(&format!("{}  Yes (/)  login protector for alice\n", link.descriptor)));
    assert_eq!(protectors.lines().filter(|line| line.contains("protector ")).count(), 7);
}

#[test]
fn each_protector_unlocks_the_policies_that_it_protects() {
    let metadata = metadata();
    let of = |protector: &str| -> Vec<String> {
        let wanted = metadata.choose(Some(protector)).expect("one protector").descriptor;
        let policies = metadata.policies().iter();
        let protected = policies.filter(|policy| policy.keys.iter().any(|slot| slot.protector == wanted));
        protected.map(|policy| policy.key_name.to_string()).collect()
    };
    let recovery = "Recovery passphrase for login";
    for (name, secret, count) in [
        ("mine", &b"correct horse"[..], 2),
        ("second", b"battery staple", 1),
        ("token", &MADE.raw_key, 1),
        (recovery, &MADE.recovery, 1),
        ("old", b"open sesame", 1),
        ("lanes", b"many lanes", 1),
    ] {
        let expected = of(name);
        assert_eq!(expected.len(), count, "{name}");
        assert_eq!(unlocked(&metadata, name, secret), Ok(expected), "{name}");
    }
}

#[test]
fn a_login_protector_is_followed_to_the_filesystem_that_it_lies_on() {
    let mut metadata = metadata();
    let link = metadata.links()[0].clone();
    let descriptor = link.descriptor.to_string();
    let refused = metadata.choose(Some(&descriptor)).expect_err("it lies elsewhere");
    assert_eq!(refused, ChooseError::Linked(link));
    let system = Metadata::read(&*MADE.system).expect("fscrypt set it up");
    assert_eq!(metadata.follow_links(&system), 1);
    assert_eq!(metadata.links(), []);
    let protector = metadata.choose(Some(&descriptor)).expect("it is here now");
    assert!(matches!(protector.source, ProtectorSource::LoginPassphrase { uid: 4242, .. }));
    let by_login = unlocked(&metadata, &descriptor, "lögin pass".as_bytes()).expect("the passphrase");
    let by_recovery = unlocked(&metadata, "Recovery passphrase for login", &MADE.recovery);
    assert_eq!(Ok(by_login), by_recovery);
}

#[test]
fn a_wrong_secret_is_told_from_damage_and_from_no_protector() {
    let metadata = metadata();
    let protector = metadata.choose(Some("mine")).expect("one protector").descriptor;
    for secret in [&b"correct horse "[..], b"", b"battery staple"] {
        assert_eq!(unlocked(&metadata, "mine", secret), Err(UnlockError::WrongSecret { protector }));
    }
    let protector = metadata.choose(Some("token")).expect("one protector").descriptor;
    let refused = unlocked(&metadata, "token", &[7; 32]);
    assert_eq!(refused, Err(UnlockError::WrongSecret { protector }));
    assert_eq!(unlocked(&metadata, "token", b"short"), Err(UnlockError::RawKeyLen { len: 5 }));
    assert_eq!(metadata.choose(Some("nobody")).expect_err("none"), ChooseError::None);
    assert_eq!(metadata.choose(None).expect_err("several"), ChooseError::Ambiguous { count: 6 });
    let system = Metadata::read(&*MADE.system).expect("fscrypt set it up");
    let login = system.choose(None).expect("the only one");
    let refused = system.unlock(login, b"x").expect_err("no policy is there");
    assert_eq!(refused, UnlockError::ProtectsNothing { protector: login.descriptor });
}

#[test]
fn a_filesystem_that_fscrypt_does_not_know_is_told_so() {
    let directory = Scratch::new();
    let image = directory.path("plain.img");
    fs::File::create(&image).and_then(|file| file.set_len(8 << 20)).expect("an image");
    Program::named("mkfs.ext4").arg("-q").arg(&image).ok();
    let device = FileDevice::open(&image, FileAccess::ReadOnly).expect("the image");
    let tree = open_tree(Arc::new(device), Access::ReadOnly).expect("an ext4");
    assert_eq!(Metadata::read(&*tree).expect_err("no .fscrypt"), MetadataError::NotSetUp);
}

/// The tree, but for one file that has other bytes.
struct Changed<'a> {
    path: TreePath,
    bytes: &'a [u8],
}

impl FileTree for Changed<'_> {
    fn about(&self) -> About {
        MADE.data.about()
    }

    fn space(&self) -> Result<Space, TreeError> {
        MADE.data.space()
    }

    fn metadata(&self, path: &TreePath) -> Result<FileMetadata, TreeError> {
        let mut found = MADE.data.metadata(path)?;
        if *path == self.path {
            found.size = self.bytes.len() as u64;
        }
        Ok(found)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        MADE.data.list(path)
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        if *path != self.path {
            return MADE.data.read_at(path, offset, buf);
        }
        let rest = &self.bytes[usize::try_from(offset).expect("small").min(self.bytes.len())..];
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

fn record(directory: &str, descriptor: &str) -> (TreePath, Vec<u8>) {
    let path =
        TreePath::parse(Path::new(".fscrypt").join(directory).join(descriptor).to_str().expect("text"));
    let path = path.expect("a path");
    let mut bytes = Vec::new();
    MADE.data
        .read_to(&path, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .expect("it is there");
    (path, bytes)
}

/// Every byte in turn, and every length: no change gives another key, and the records beside it stay usable.
#[test]
fn no_damage_gives_a_wrong_key_or_takes_other_records_along() {
    let intact = metadata();
    let token = intact.choose(Some("token")).expect("one protector").descriptor;
    let policy = intact.policies().iter().find(|policy| policy.keys[0].protector == token).expect("one");
    let policy = policy.key_name.to_string();
    let mut outcomes = BTreeMap::<&str, u32>::new();
    for (directory, name) in [("protectors", token.to_string()), ("policies", policy)] {
        let (path, bytes) = record(directory, &name);
        let flips = (0..bytes.len()).flat_map(|at| [1, 0x80, 0xff].map(|mask| (at, mask)));
        let flipped = flips.map(|(at, mask)| {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            bytes
        });
        let cut = (0..bytes.len()).map(|len| bytes[..len].to_vec());
        for bytes in flipped.chain(cut) {
            let metadata = Metadata::read(&Changed { path: path.clone(), bytes: &bytes }).expect("a tree");
            let outcome = match metadata.protectors().iter().find(|protector| protector.descriptor == token) {
                None => "no protector",
                Some(protector) => match metadata.unlock(protector, &MADE.raw_key) {
                    Ok(unlocked) => {
                        assert!(unlocked.keys.iter().all(is_named_so), "a wrong key");
                        "the same key"
                    }
                    Err(UnlockError::WrongSecret { .. }) => "not authentic",
                    Err(UnlockError::DamagedPolicyKey { .. }) => "policy key damaged",
                    Err(UnlockError::ProtectsNothing { .. }) => "no policy",
                    Err(error) => panic!("{error:?}"),
                },
            };
            *outcomes.entry(outcome).or_default() += 1;
            let others = metadata.protectors().len() + metadata.policies().len();
            assert_eq!(others + metadata.damaged().len(), 12, "{:?}", metadata.damaged());
            assert!(metadata.damaged().len() <= 1);
        }
    }
    // Each of these happens; a name may change without harm.
    for outcome in ["no protector", "the same key", "not authentic", "policy key damaged", "no policy"] {
        assert!(outcomes.contains_key(outcome), "{outcome}: {outcomes:?}");
    }
}

#[test]
fn hostile_costs_are_refused_before_anything_is_derived() {
    let intact = metadata();
    let mine = intact.choose(Some("mine")).expect("one protector").descriptor.to_string();
    let (path, bytes) = record("protectors", &mine);
    // time 2, memory 512, parallelism 2, as make.sh configures them.
    let costs = [0x22, 7, 0x10, 2, 0x18, 0x80, 4, 0x20, 2];
    let at = bytes.windows(costs.len()).position(|window| window == costs).expect("the costs");
    let damage = |hostile: &[u8]| {
        let mut message = vec![0x22, u8::try_from(hostile.len()).expect("short")];
        message.extend_from_slice(hostile);
        let bytes = [&bytes[..at], &message, &bytes[at + costs.len()..]].concat();
        let metadata = Metadata::read(&Changed { path: path.clone(), bytes: &bytes }).expect("a tree");
        assert_eq!(metadata.protectors().len(), 5);
        let damaged = metadata.damaged()[0].clone();
        assert_eq!(metadata.choose(Some(&mine)).expect_err("damaged"), ChooseError::Damaged(damaged));
        metadata.damaged()[0].damage.clone()
    };
    let parameter = |damage: RecordDamage| match damage {
        RecordDamage::Costs(KdfError::CostOutOfRange { parameter, .. }) => parameter,
        other => panic!("{other:?}"),
    };
    // 2^31 KiB; 2^32 - 1 passes; no lanes; none once they are cut to a byte.
    assert_eq!(
        parameter(damage(&[0x10, 1, 0x18, 0x80, 0x80, 0x80, 0x80, 8, 0x20, 1])),
        CostParameter::MemoryKib
    );
    assert_eq!(
        parameter(damage(&[0x10, 0xff, 0xff, 0xff, 0xff, 15, 0x18, 0x80, 4, 0x20, 1])),
        CostParameter::Work
    );
    assert_eq!(parameter(damage(&[0x10, 2, 0x18, 0x80, 4])), CostParameter::Lanes);
    assert_eq!(parameter(damage(&[0x10, 2, 0x18, 0x80, 4, 0x20, 0x80, 2])), CostParameter::Lanes);
    let beyond = damage(&[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x18, 0x80, 4, 0x20, 1]);
    assert_eq!(beyond, RecordDamage::Field { name: "time" });
    let twice = damage(&[0x10, 2, 0x10, 1, 0x18, 0x80, 4, 0x20, 1]);
    assert_eq!(twice, RecordDamage::Malformed);
}

#[test]
fn a_record_that_is_too_large_is_not_read() {
    let intact = metadata();
    let mine = intact.choose(Some("mine")).expect("one protector").descriptor.to_string();
    let (path, mut bytes) = record("protectors", &mine);
    // A field that no release knows, and which is left alone as long as the record is not too large.
    bytes.extend([0x7a, 0xff, 0x7c]);
    bytes.extend(vec![0; (0x7c << 7) + 0x7f]);
    let metadata = Metadata::read(&Changed { path: path.clone(), bytes: &bytes }).expect("a tree");
    assert_eq!(metadata.damaged(), []);
    let padding = (16 << 10) - bytes.len() + 1;
    bytes.extend(vec![0; padding]);
    let metadata = Metadata::read(&Changed { path, bytes: &bytes }).expect("a tree");
    assert_eq!(metadata.damaged()[0].damage, RecordDamage::TooLarge { size: 16385, limit: 16384 });
}
