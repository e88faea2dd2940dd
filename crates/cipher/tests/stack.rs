//! What a run leaves on the stack of its thread: neither the key nor a round key, and nothing below what is wiped.
//!
//! Each run has a thread of its own, whose stack is painted first. Another thread reads it afterwards.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "../../testkit/src/random.rs"]
#[allow(dead_code, reason = "these tests have no use for all of it")]
mod random;

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::channel;
use std::thread;

use atrest_cipher::aead::{Aead, Aes128Ccm, Aes256Gcm, AsconAead128, ChaCha20Poly1305};
use atrest_cipher::{
    Adiantum, AesBlock, AesGcm, AesXts, BackendChoice, CbcCipher, CbcCts, CbcRuns, Cipher, CipherSpec,
    DataUnitIndex, Direction, Hctr2, Mapper, MapperOptions, Tagged as _, TaggedMapper, TaggedSpec,
    VectorChoice, Xts, internals,
};
use atrest_secret::{WIPED_STACK, with_wiped_stack_up_to};

/// What `run.rs` wipes, and after modes that take little of the stack.
const WIPED: usize = 24 << 10;
const SHALLOW: usize = 12 << 10;
/// Stack that is painted: more than a run takes and more than is wiped.
const PAINTED: usize = WIPED_STACK + (32 << 10);
const PAINT: u8 = 0xa7;
/// Bytes of a key or round key that are looked for at a time.
const PIECE: usize = 16;

const SPECS: [&str; 31] = [
    "aes-xts-plain64",
    "aes-cbc-essiv:sha256",
    "aes-cbc-plain64",
    "aes-cbc-eboiv",
    "aes:64-cbc-lmk",
    "aes-cbc-tcw",
    "aes-cbc-elephant",
    "aes-lrw-benbi",
    "aes-ctr-plain64",
    "capi:cts(cbc(aes))-plain64",
    "aes-ecb",
    "aes-xex1-plain64",
    "aes-hctr2-plain64",
    "serpent-xts-plain64",
    "serpent-hctr2-plain64",
    "serpent-cbc-essiv:sha256",
    "twofish-xts-plain64",
    "twofish-cbc-plain64",
    "camellia-xts-plain64",
    "kuznyechik-xts-plain64",
    "noekeon-xts-plain64",
    "speck128-xts-plain64",
    "blowfish-cbc-plain64",
    "cast5-cbc-plain64",
    "chacha20-stream-plain64",
    "chacha12-stream-plain64",
    "xchacha12,aes-adiantum-plain64",
    "xchacha20,aes-adiantum-plain64",
    "xchacha12,aes-hpolyc-plain64",
    "xchacha20,aes-hpolyc-plain64",
    "camellia-lrw-benbi",
];

/// Covers the stack below its caller with paint, and tells where.
#[inline(never)]
fn paint() -> u64 {
    let mut area = [PAINT; PAINTED];
    black_box(&mut area).as_ptr() as u64
}

/// Does `work` in a frame of its own, which lies where the paint is.
#[inline(never)]
fn below(work: impl FnOnce()) {
    work();
}

/// The painted stack of a thread after it has done `work`.
fn stack_after(work: impl FnOnce() + Send) -> Vec<u8> {
    let (say, hear) = channel();
    let (let_go, wait) = channel::<()>();
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, move || {
            let base = paint();
            below(work);
            say.send(base).expect("somebody listens");
            wait.recv().expect_err("nothing is sent");
        });
        let base = hear.recv().expect("the work was done");
        let mut stack = vec![0; PAINTED];
        let memory = File::open("/proc/self/mem").expect("our own memory");
        memory.read_exact_at(&mut stack, base).expect("the thread is still there");
        drop(let_go);
        thread.expect("started").join().expect("no panic");
        stack
    })
}

/// Bytes of stack that were used, counted from where the paint began.
fn depth(stack: &[u8]) -> usize {
    let unused = stack.iter().position(|byte| *byte != PAINT).unwrap_or(stack.len());
    stack.len() - unused
}

fn looks_random(piece: &[u8]) -> bool {
    (0..=u8::MAX).filter(|byte| piece.contains(byte)).count() >= 11
}

/// The key, and everything in the mapper that looks random: its round keys in the form in which it keeps them.
fn needles<T>(key: &[u8], mapper: &T) -> Vec<Vec<u8>> {
    let file = File::open("/proc/self/mem").expect("our own memory");
    let mut bytes = vec![0; size_of_val(mapper)];
    file.read_exact_at(&mut bytes, std::ptr::from_ref(mapper) as u64).expect("the mapper is mapped");
    let round_keys = bytes.chunks_exact(PIECE).filter(|piece| looks_random(piece));
    key.chunks_exact(PIECE).chain(round_keys).map(<[u8]>::to_vec).collect()
}

/// Where the first of the needles lies.
fn found(stack: &[u8], needles: &[Vec<u8>]) -> Option<usize> {
    let prefix = |piece: &[u8]| usize::from(u16::from_le_bytes([piece[0], piece[1]]));
    let mut begins_one = vec![false; 1 << 16];
    needles.iter().for_each(|needle| begins_one[prefix(needle)] = true);
    let is_one = |piece: &[u8]| begins_one[prefix(piece)] && needles.iter().any(|needle| needle == piece);
    stack.windows(PIECE).position(is_one)
}

fn key(len: usize) -> Vec<u8> {
    random::Random::new(1).bytes(len)
}

/// How deep a run may go: what is wiped after it, with what wiping itself takes, and frames on the way to it.
#[derive(Clone, Copy)]
struct Deepest {
    shallow: usize,
    deep: usize,
}

impl Deepest {
    fn measured() -> Self {
        let shallow = depth(&stack_after(|| with_wiped_stack_up_to::<SHALLOW, _>(|| ()))) + 1024;
        let deep = depth(&stack_after(|| with_wiped_stack_up_to::<WIPED, _>(|| ()))) + 1024;
        Self { shallow, deep }
    }

    fn of(self, spec: &CipherSpec) -> usize {
        let spec = spec.to_string();
        let is_shallow = ["-xts-", "-ecb"].iter().any(|mode| spec.contains(mode));
        match is_shallow {
            // Several keys in turn are expanded on the stack, and all that the crate ever wipes is wiped after them.
            _ if spec.starts_with("aes:") => self.deep - WIPED + WIPED_STACK,
            true => self.shallow,
            false => self.deep,
        }
    }
}

/// A mapper, made where the stack was painted. What it does not use of its memory holds what lay there before: two pointers
/// look as random as a round key, and other frames have them, too.
#[inline(never)]
fn mapper_on_paint(spec: &CipherSpec, key: &[u8], options: &MapperOptions) -> Mapper {
    Mapper::new(spec, key, options).expect("a key of this length")
}

/// What was found wrong with one cipher, in all directions and lengths.
fn check(spec: &CipherSpec, key_len: usize, options: &MapperOptions, deepest: Deepest) -> Vec<String> {
    let key = key(key_len);
    paint();
    let mapper = mapper_on_paint(spec, &key, options);
    let needles = needles(&key, &mapper);
    let mut wrong = Vec::new();
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        // More blocks than any backend has in hand, from one buffer to another.
        let many = (67 * 512 / options.data_unit).max(9);
        for (units, source) in [(1, false), (many, true)] {
            let mut run = vec![0x31; units * options.data_unit];
            let from = run.clone();
            let stack = stack_after(|| {
                let first = DataUnitIndex(5);
                match (direction, source) {
                    (Direction::Encrypt, false) => mapper.encrypt(first, &mut run),
                    (Direction::Encrypt, true) => mapper.encrypt_to(first, &from, &mut run),
                    (Direction::Decrypt, false) => mapper.decrypt(first, &mut run),
                    (Direction::Decrypt, true) => mapper.decrypt_to(first, &from, &mut run),
                }
                .expect("whole units");
            });
            let name =
                format!("{spec}, {key_len} bytes, {}, {direction:?}, {units} units", mapper.backend_name());
            let depth = depth(&stack);
            if let Some(at) = found(&stack[stack.len() - depth..], &needles) {
                wrong.push(format!("{name}: a key lies {} bytes below the caller", depth - at));
            }
            let deepest = deepest.of(spec);
            if depth > deepest {
                wrong.push(format!("{name}: takes {depth} bytes of stack"));
            }
        }
    }
    wrong
}

#[test]
fn every_mode_is_looked_at() {
    let missing: Vec<_> = internals::modes_without(&SPECS).collect();
    assert!(missing.is_empty(), "SPECS has none of {missing:?}");
}

#[test]
fn no_run_leaves_a_key_on_the_stack() {
    // The search finds what is there.
    let there = key(64);
    let planted = stack_after(|| {
        // At the lower end of a frame, where telling that the work is done does not reach.
        let mut frame = [0; 16 << 10];
        frame[..64].copy_from_slice(&there);
        black_box(&mut frame);
    });
    assert!(found(&planted, &[there[..PIECE].to_vec()]).is_some(), "the search finds nothing");
    let deepest = Deepest::measured();
    let mut wrong = Vec::new();
    for spec in SPECS {
        let spec: CipherSpec = spec.parse().expect(spec);
        let lens = spec.key_lens();
        let (shortest, longest) = (lens[0], lens[lens.len() - 1]);
        for (key_len, data_unit) in [(shortest, 512), (longest, 512), (longest, 4096)] {
            let options = MapperOptions {
                data_unit,
                single_snapshot: true,
                allow_equal_xts_halves: true,
                ..MapperOptions::default()
            };
            if Mapper::new(&spec, &key(key_len), &options).is_err() {
                continue; // An IV rule that takes 512 bytes only.
            }
            for backend in BackendChoice::detected() {
                let options = MapperOptions { backend: Some(backend), ..options };
                wrong.extend(check(&spec, key_len, &options, deepest));
            }
            // Only Serpent, ChaCha and the modes made of that have other vector code than AES.
            let of_vectors = ["chacha", "serpent"].iter().any(|cipher| spec.to_string().contains(cipher));
            for vectors in VectorChoice::detected().filter(|_| of_vectors) {
                let options = MapperOptions { vectors: Some(vectors), ..options };
                wrong.extend(check(&spec, key_len, &options, deepest));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Authenticated ciphers of data units, and the bytes in their keys.
const TAGGED: [(&str, &str, usize); 9] = [
    ("aes-gcm-random", "aead", 32),
    ("camellia-gcm-plain64", "aead", 16),
    ("aes-ccm-random", "aead", 35),
    ("aegis128-random", "aead", 16),
    ("aegis256-random", "aead", 32),
    ("chacha20-random", "poly1305", 32),
    ("aes-xts-plain64", "hmac(sha1)", 64 + 20),
    ("aes-xts-random", "hmac(sha256)", 64 + 32),
    ("aes-cbc-essiv:sha256", "hmac(sha512)", 32 + 64),
];

#[inline(never)]
fn tagged_on_paint(spec: &TaggedSpec, key: &[u8], options: &MapperOptions) -> TaggedMapper {
    TaggedMapper::new(spec, key, None, options).expect("a key of this length")
}

#[test]
fn no_run_with_tags_leaves_a_key_on_the_stack() {
    let deepest = Deepest::measured().deep;
    let mut wrong = Vec::new();
    for (encryption, integrity, key_len) in TAGGED {
        let spec = TaggedSpec::new(encryption, integrity).expect(encryption);
        let key = key(key_len);
        let backends = BackendChoice::detected().map(|backend| (Some(backend), None));
        for (backend, vectors) in
            backends.chain(VectorChoice::detected().map(|vectors| (None, Some(vectors))))
        {
            let options = MapperOptions { backend, vectors, ..MapperOptions::default() };
            paint();
            let cipher = tagged_on_paint(&spec, &key, &options);
            let needles = needles(&key, &cipher);
            for (units, open) in [(1, false), (1, true), (40, false), (40, true)] {
                let (mut run, mut tags) = (vec![0x31; units * 512], vec![0x31; units * cipher.tag_len()]);
                let stack = stack_after(|| match open {
                    true => cipher.open(DataUnitIndex(5), &mut run, &tags, &mut |_| ()).expect("whole units"),
                    false => cipher.seal(DataUnitIndex(5), &mut run, &mut tags).expect("whole units"),
                });
                let depth = depth(&stack);
                let name =
                    format!("{encryption} {integrity}, {units} units, open: {open}, {cipher:?}, {vectors:?}");
                if let Some(at) = found(&stack[stack.len() - depth..], &needles) {
                    wrong.push(format!("{name}: a key lies {} bytes below the caller", depth - at));
                }
                if depth > deepest {
                    wrong.push(format!("{name}: takes {depth} bytes of stack"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_single_message_leaves_a_key_on_the_stack() {
    let deepest = Deepest::measured().deep;
    let wrong = [
        check_aead::<AsconAead128>(deepest),
        check_aead::<Aes128Ccm>(deepest),
        check_aead::<Aes256Gcm>(deepest),
        check_aead::<AesGcm<32>>(deepest),
        check_aead::<ChaCha20Poly1305>(deepest),
    ];
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_aead<A: Aead<Tag: Send + Sync> + Sync>(deepest: usize) -> Vec<String> {
    let key = key(A::KEY_LEN);
    let cipher = A::new(&key).expect("a key of this length");
    let needles = needles(&key, &cipher);
    let mut wrong = Vec::new();
    for open in [false, true] {
        let mut data = vec![0x31; 4096];
        let mut tag = A::Tag::try_from(&[0; 64][..A::TAG_LEN]).ok().expect("a tag has its length");
        let stack = stack_after(|| match open {
            true => cipher.open(&A::Nonce::default(), b"", &mut data, &tag).map_or((), |()| panic!("forged")),
            false => tag = cipher.seal(&A::Nonce::default(), b"", &mut data).expect("short enough"),
        });
        let depth = depth(&stack);
        if let Some(at) = found(&stack[stack.len() - depth..], &needles) {
            wrong.push(format!(
                "{}, open: {open}: a key lies {} bytes below the caller",
                A::NAME,
                depth - at
            ));
        }
        if depth > deepest {
            wrong.push(format!("{}, open: {open}: takes {depth} bytes of stack", A::NAME));
        }
    }
    wrong
}

/// The types beside the mapper, by the other property that can be seen: below each call lie wiped bytes, as many as there should.
#[test]
fn every_way_to_a_cipher_wipes_the_stack() {
    let options = MapperOptions::default();
    let long = key(32);
    let iv = [7; 16];
    let wipes_up_to = |bytes: usize, name: &str, work: &mut (dyn FnMut(&mut [u8]) + Send)| {
        let mut unit = vec![0x31; 512];
        let stack = stack_after(|| work(&mut unit));
        assert!(
            found(&stack, &[long[..PIECE].to_vec(), long[PIECE..].to_vec()]).is_none(),
            "{name} leaves the key"
        );
        assert!(depth(&stack) >= bytes, "{name} wipes nothing");
    };
    let wipes = |name: &str, work: &mut (dyn FnMut(&mut [u8]) + Send)| wipes_up_to(WIPED, name, work);

    let xts = Xts::new(Cipher::Aes, &long, &options).expect("a key");
    wipes_up_to(SHALLOW, "Xts", &mut |unit| xts.encrypt(&iv, unit).expect("long enough"));
    let cts = CbcCts::new(Cipher::Aes, &long, &options).expect("a key");
    wipes("CbcCts", &mut |unit| cts.decrypt(&iv, unit).expect("long enough"));
    let adiantum = Adiantum::new(Cipher::XChaCha12Aes, &long, &options).expect("a key");
    wipes("Adiantum", &mut |unit| adiantum.encrypt(&iv, unit).expect("long enough"));
    let hctr2 = Hctr2::new(Cipher::Aes, &long, &options).expect("a key");
    wipes("Hctr2", &mut |unit| hctr2.decrypt(&iv, unit).expect("long enough"));
    let runs = CbcRuns::new(CbcCipher::Aes, &long, 512, None).expect("a key");
    wipes("CbcRuns", &mut |unit| runs.encrypt(&[iv], unit).expect("one unit"));
    wipes("CbcRuns, blocks", &mut |unit| runs.decrypt_blocks(unit).expect("whole blocks"));
    let block = AesBlock::new(&long).expect("a key");
    wipes_up_to(SHALLOW, "AesBlock", &mut |unit| block.encrypt(unit.first_chunk_mut().expect("a block")));
    wipes_up_to(SHALLOW, "AesBlock, back", &mut |unit| {
        block.decrypt(unit.first_chunk_mut().expect("a block"))
    });
    let alone = AesXts::new(&long, &options).expect("a key");
    wipes("AesXts", &mut |unit| alone.encrypt(DataUnitIndex(3), unit).expect("whole units"));
    wipes("AesXts, parts", &mut |unit| {
        alone.decrypt_at(DataUnitIndex(3), 16, &mut unit[..32]).expect("blocks")
    });
    let mapper = Mapper::new(&"aes-xts-plain64".parse().expect("a cipher"), &long, &options).expect("a key");
    wipes_up_to(SHALLOW, "Mapper, parts", &mut |unit| {
        mapper.encrypt_at(DataUnitIndex(3), 16, &mut unit[..32]).expect("blocks")
    });
    let gcm = Aes256Gcm::new(&long).expect("a key");
    let mut tag = [0; 16];
    wipes("Aes256Gcm", &mut |unit| tag = gcm.seal(&[1; 12], b"", unit).expect("short enough"));
    wipes("Aes256Gcm, back", &mut |unit| {
        gcm.open(&[1; 12], b"", unit, &[0; 16]).expect_err("forged");
    });
    assert_ne!(tag, [0; 16]);
    let gcm = AesGcm::<32>::new(&long).expect("a key");
    wipes("AesGcm", &mut |unit| tag = gcm.seal(&[1; 12], b"", unit).expect("short enough"));
    wipes("AesGcm, back", &mut |unit| {
        gcm.open(&[1; 12], b"", unit, &[0; 16]).expect_err("forged");
    });
    wipes_up_to(WIPED + (16 << 10), "AesGcm, several", &mut |unit| {
        gcm.several(|gcm| {
            let tag = gcm.seal(&[1; 12], b"", unit).expect("short enough");
            gcm.open(&[1; 12], b"", unit, &tag).expect("whole");
        });
    });
}
