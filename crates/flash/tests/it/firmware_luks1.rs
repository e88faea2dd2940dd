//! The program `luks1` of `firmware/card` in an emulated Cortex-M4: it opens a card that cryptsetup, mkfs.fat and QEMU have made, and
//! they read what it wrote. What unlocking costs stays within what was measured.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::cryptsetup::Cryptsetup;
use atrest_testkit::firmware::{BOARDS, Board, Build, Counted, figure, fnv, static_ram};
use atrest_testkit::oracle::{Program, workspace};
use atrest_testkit::{Random, Scratch};

/// Sectors of the card, and where its data and the partition in it begin: firmware/card/src/bin/luks1.rs.
const CARD: usize = 12 << 10;
const DATA: usize = 4096;
const PARTITION: usize = 64;

/// Where the program expects the task and the card, behind the medium of the other programs.
const TASK: u64 = 1 << 20;
const AT: u64 = 2 << 20;

/// A directory with the card, and the files and passphrases that are taken to it.
struct Bench(Scratch);

impl Bench {
    /// cryptsetup makes the volume, mkfs.fat the file system, QEMU brings one into the other.
    fn new(key_bits: usize, iterations: u32, content: &[u8]) -> Self {
        let bench = Self(Scratch::new());
        fs::write(bench.path("key"), "on the desk").expect("a file");
        fs::write(bench.path("card.img"), vec![0; CARD * 512]).expect("a file");
        let options = format!("--cipher aes-xts-plain64 --key-size {key_bits} --align-payload {DATA}");
        bench.volume().format(&format!("--type luks1 --pbkdf-force-iterations {iterations} {options}"));

        fs::write(bench.path("partition"), vec![0; (CARD - DATA - PARTITION) * 512]).expect("a file");
        Program::named("mkfs.fat").words("-F 16 -s 1").arg(bench.path("partition")).ok();
        fs::write(bench.path("in.bin"), content).expect("a file");
        Program::named("mcopy")
            .arg("-i")
            .arg(bench.path("partition"))
            .arg(bench.path("in.bin"))
            .arg("::")
            .ok();
        let mut table = vec![0; PARTITION * 512];
        table[446 + 4] = 0x06;
        table[446 + 8..446 + 12].copy_from_slice(&(PARTITION as u32).to_le_bytes());
        table[446 + 12..446 + 16].copy_from_slice(&((CARD - DATA - PARTITION) as u32).to_le_bytes());
        table[510..512].copy_from_slice(&[0x55, 0xaa]);
        let partition = fs::read(bench.path("partition")).expect("the partition");
        fs::write(bench.path("plain"), [table, partition].concat()).expect("a file");
        bench
            .qemu()
            .words("-n -f raw --target-image-opts")
            .arg(bench.path("plain"))
            .arg(bench.luks("card.img"))
            .ok();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn volume(&self) -> Cryptsetup {
        Cryptsetup::new(&self.path("card.img"), &self.path("key"))
    }

    fn qemu(&self) -> Program {
        let secret = format!("secret,id=s,file={}", self.path("key").display());
        Program::named("qemu-img").words("convert --object").arg(secret)
    }

    fn luks(&self, image: &str) -> String {
        format!("driver=luks,key-secret=s,file.driver=file,file.filename={}", self.path(image).display())
    }

    /// Runs the program, and gives what it prints.
    fn chip(&self, program: &Path, passphrase: &str) -> String {
        let mut task = vec![0; 256];
        task[1] = passphrase.len() as u8;
        task[2..2 + passphrase.len()].copy_from_slice(passphrase.as_bytes());
        fs::write(self.path("task"), task).expect("a task");
        let files = [("task", board().medium + TASK), ("card.img", board().medium + AT)];
        board().run(program, self.0.as_path(), &files)
    }
}

fn board() -> &'static Board {
    BOARDS.iter().find(|board| board.name == "Cortex-M4").expect("a board")
}

#[test]
fn a_chip_opens_a_card_of_cryptsetups_and_writes_what_others_read() {
    let program = board().build(Build::Speed, &["luks1"]).join("luks1");
    let content = Random::new(6).bytes(30_000);
    let bench = Bench::new(512, 1000, &content);

    let refused = bench.chip(&program, "on the chip");
    assert!(figure(&refused, "refused") > 500, "the derivation lets others run:\n{refused}");
    assert!(!bench.path("card.out").exists(), "something was written");

    // The third keyslot's passphrase is the chip's, and the second one is gone.
    for (passphrase, slot) in [("gone", 1), ("on the chip", 5)] {
        fs::write(bench.path(passphrase), passphrase).expect("a file");
        let options = format!("--pbkdf-force-iterations 1000 --key-slot {slot}");
        bench.volume().add_key(&bench.path(passphrase), &options);
    }
    bench.volume().run("luksKillSlot", "").arg("1").ok();
    assert!(bench.chip(&program, "gone").contains("refused,0,"));
    let output = bench.chip(&program, "on the chip");
    assert!(output.contains("unlocked,5,"), "{output}");
    assert_eq!(figure(&output, "read"), fnv(&content), "other bytes than mcopy's");

    // Header and keyslots are as they were; cryptsetup, QEMU, fsck and mtools take the rest.
    let (before, after) =
        ["card.img", "card.out"].map(|name| fs::read(bench.path(name)).expect("a card")).into();
    assert!(before[..DATA * 512] == after[..DATA * 512], "the header was written");
    fs::rename(bench.path("card.out"), bench.path("card.img")).expect("a card");
    bench.volume().assert_opens();
    bench
        .qemu()
        .arg("--image-opts")
        .arg(bench.luks("card.img"))
        .words("-O raw")
        .arg(bench.path("plain"))
        .ok();
    let plain = fs::read(bench.path("plain")).expect("the plaintext");
    fs::write(bench.path("partition"), &plain[PARTITION * 512..]).expect("a file");
    Program::named("fsck.fat").arg("-n").arg(bench.path("partition")).ok();
    for (name, expected) in [("IN.BIN", &content[..]), ("OUT.TXT", b"written on the chip")] {
        let out = bench.path("out");
        let from = format!("::{name}");
        Program::named("mcopy").words("-n -o -i").arg(bench.path("partition")).arg(from).arg(&out).ok();
        assert!(fs::read(out).expect("the file") == expected, "{name}");
    }
}

/// Instructions, stack and static RAM: `firmware/luks1.tsv`, within 3 %.
#[test]
fn unlocking_luks1_costs_a_chip_no_more_than_was_measured() {
    let program = board().build(Build::Speed, &["luks1"]).join("luks1");
    let mut counted = String::new();
    for (key_bits, iterations) in [(256, 1000), (512, 1000), (512, 2000)] {
        let bench = Bench::new(key_bits, iterations, b"here");
        let output = bench.chip(&program, "on the desk");
        let (instructions, stack) = (figure(&output, "instructions"), figure(&output, "stack"));
        counted += &format!("{key_bits}\t{iterations}\t{instructions}\t{stack}\t{}\n", static_ram(&program));
    }
    let what = "bits of key, iterations, instructions, bytes of stack, of static RAM";
    Counted { lines: &counted, names: 2, what }.hold(&workspace().join("firmware/luks1.tsv"));
}
