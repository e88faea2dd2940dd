//! Plain dm-crypt volumes: cryptsetup and the kernel write, we read with the same options, and the reverse by bytes:
//! what we write over it is the same ciphertext.

use std::fmt::Write;
use std::fs;

use atrest_testkit::atrest::{atrest, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Random, Scratch};

/// Name, where the key comes from, and options, which both programs understand alike.
const VOLUMES: &[(&str, &str, &str)] = &[
    ("ripemd160", "passphrase", "--cipher aes-cbc-essiv:sha256 --key-size 256 --hash ripemd160"),
    ("sha256", "passphrase", "--cipher aes-xts-plain64 --key-size 256 --hash sha256"),
    ("sha512-long", "passphrase", "--cipher aes-xts-plain64 --key-size 512 --hash sha256"),
    ("unhashed", "passphrase", "--cipher aes-cbc-plain --key-size 256 --hash plain"),
    ("cut-hash", "passphrase", "--cipher serpent-cbc-plain64 --key-size 256 --hash sha256:16"),
    ("key-file", "key-file", "--cipher twofish-xts-plain64 --key-size 512"),
    ("offset-skip", "key-file", "--cipher aes-xts-plain64 --key-size 512 --offset 64 --skip 4294967290"),
    (
        "large",
        "key-file",
        "--cipher aes-xts-plain64 --key-size 256 --sector-size 4096 --iv-large-sectors --skip 64",
    ),
    ("units", "key-file", "--cipher aes-cbc-plain64 --key-size 128 --sector-size 4096 --skip 64"),
    ("adiantum", "key-file", "--cipher xchacha12,aes-adiantum-plain64 --key-size 256 --skip 64"),
    (
        "adiantum-large",
        "passphrase",
        "--cipher xchacha20,aes-adiantum-plain64 --key-size 256 --hash sha256 --sector-size 4096 --iv-large-sectors",
    ),
    ("benbi", "key-file", "--cipher aes-lrw-benbi --key-size 384"),
];

#[test]
fn plain_volumes_agree_with_cryptsetup_and_the_kernel() {
    const SIZE: usize = 256 << 10;
    let share = Scratch::new();
    let path = |name: &str| share.path(name);
    let mut random = Random::new(21);
    let passphrase = write_key(share.as_path(), "passphrase", b"correct horse battery staple");
    let key = write_key(share.as_path(), "key", &random.bytes(64));
    let plain = random.bytes(SIZE);
    fs::write(path("plain.bin"), &plain).expect("write the plaintext");
    let empty = random.bytes(SIZE + 64 * 512);
    let mut lines = String::new();
    for (name, kind, options) in VOLUMES {
        fs::write(path(&format!("{name}.img")), &empty).expect("make an image");
        writeln!(lines, "{name} {kind} {options}").expect("write to a string");
    }
    fs::write(path("volumes"), lines).expect("write the list of volumes");
    Kernel::script("plain.sh").share(share.as_path()).ok("");

    for (name, kind, options) in VOLUMES {
        let image = path(&format!("{name}.img"));
        let kernels = fs::read(&image).expect("the kernel's volume");
        assert!(kernels != empty, "{name}: the kernel wrote nothing");
        let with_secret = |command: &str| -> Program {
            let program = atrest(command).words("--type plain").words(options);
            match *kind {
                "key-file" => program.arg("--key-file").arg(&key),
                _ => program.words("--passphrase-fd 0").stdin(fs::read(&passphrase).expect("the passphrase")),
            }
        };
        let out = path("out.bin");
        let _ = fs::remove_file(&out);
        with_secret("decrypt").arg(&image).arg(&out).ok();
        let ours = fs::read(&out).expect("our plaintext");
        assert!(ours[..SIZE] == plain, "{name}: what the kernel wrote is read differently");

        fs::write(&image, &empty).expect("make an image");
        with_secret("encrypt --yes").arg(path("plain.bin")).arg(&image).ok();
        assert!(
            fs::read(&image).expect("our volume") == kernels,
            "{name}: we write another ciphertext than the kernel"
        );
    }
    println!("kernel: {} plain volumes agree", VOLUMES.len());
}
