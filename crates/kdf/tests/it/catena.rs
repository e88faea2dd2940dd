//! Catena agrees with its authors' reference implementation and with a short one of our own that keeps every row.

use atrest_kdf::fixed::{self, FixedHash};
use atrest_kdf::{
    Catena, CatenaCost, CatenaDomain, CatenaGraph, CatenaInput, CostParameter, Hash, KdfError, Progress,
    catena, catena_update, digest,
};

const GRAPHS: [CatenaGraph; 2] = [CatenaGraph::BitReversal, CatenaGraph::DoubleButterfly];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn derived(hash: Hash, cost: &CatenaCost, input: &CatenaInput<'_>, len: usize) -> Vec<u8> {
    let mut memory = vec![0xa5; cost.memory_bytes(hash) as usize];
    let mut out = vec![0xa5; len];
    catena(hash, cost, input, &mut memory, &mut out).expect("valid inputs");
    assert!(memory.iter().all(|byte| *byte == 0), "the work area is wiped");
    out
}

struct Vector {
    cost: CatenaCost,
    input: CatenaInput<'static>,
    output: &'static str,
}

const fn vector(
    graph: CatenaGraph,
    passphrase: &'static str,
    salt: &'static str,
    data: &'static str,
    [lambda, min_garlic, garlic]: [u8; 3],
    output: &'static str,
) -> Vector {
    let domain = CatenaDomain::PasswordScrambling;
    let (passphrase, salt, data) = (passphrase.as_bytes(), salt.as_bytes(), data.as_bytes());
    Vector {
        cost: CatenaCost { graph, lambda, min_garlic, garlic },
        input: CatenaInput { domain, passphrase, salt, data },
        output,
    }
}

/// Computed with the reference implementation (medsec/catena) in its full instances, H' = H = BLAKE2b.
#[rustfmt::skip]
const VECTORS: [Vector; 18] = [
    vector(CatenaGraph::BitReversal, "", "", "", [2, 1, 1], "a941f614bc119c8429466500062d15a39779164e462a63b5fb62ccb6e5830db77e80d08733e4b70adfa828cc9aea5bb3a556c5cde5b80767d49baaaa8e7d93de"),
    vector(CatenaGraph::BitReversal, "password", "salt", "", [2, 1, 1], "7daee388a3b2252f40b60a447d2972659e33278debb2f0ec3f91f004aee9946a68e44f7dfc39a453cbc350edd068e45bd77087b7a5da73690fa17c88961b1596"),
    vector(CatenaGraph::BitReversal, "password", "salt", "", [2, 10, 10], "bfb46f72995f97ec39a2914a7c9dd2040a72cf13ff0389a108ddf335607ed41928f2db8fad45c0f5d2dbd1f06c1786bab7ace9cf09b2a4700490cd33b5c6796c"),
    vector(CatenaGraph::BitReversal, "password", "salt", "data", [2, 10, 10], "22404a845e9272b64c3eab2da61fdeb0b189078698190402fcad190fe14e46bd90ef49f64b5e4c712dc2cadb2ba3b2ff65ebe114bc6d7343135d985326d629b1"),
    vector(CatenaGraph::BitReversal, "passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", "", [2, 10, 10], "da18706f128cea5f9cb04aec8930a12c46de1fb309666d2b8e8b9dc3814b0323809e4656382e6334337ef603935d34281ccda75097d0a790f2efa9e678da4790"),
    vector(CatenaGraph::BitReversal, "correct horse battery staple", "0123456789abcdef", "vol", [1, 4, 8], "66f2eece743fa760c75c8db5871d99e7be6ca23c2318f44afe386df0df7b0bd8"),
    vector(CatenaGraph::BitReversal, "correct horse battery staple", "0123456789abcdef", "vol", [3, 6, 12], "df8ed1e2f724804e11d0f4ffbec4cea2e84960ad9173d3fc754b7420b132dde2"),
    vector(CatenaGraph::BitReversal, "p", "0123456789abcdef", "", [2, 12, 12], "1af86a355d468e5f044840d01e033000"),
    vector(CatenaGraph::BitReversal, "p", "0123456789abcdef", "", [4, 1, 6], "b5065b30094edf79c4bdbeb960d877a18a9c00e6a958904c0386ade58c70f4e484005c3c5fb06eb208ac501f86fa97a17872c805b0955c796c451f8ccba62f2c"),
    vector(CatenaGraph::DoubleButterfly, "", "", "", [2, 1, 1], "a4db8ac79fc4bcffea5a9489ffe3b26e7180a8d45b1b0cf0a6f4aac7a2c1af8c793bd7c9fc9b3f5e34eabd9684beca2edd1936989bd0b04a06bdaf30d5f990ee"),
    vector(CatenaGraph::DoubleButterfly, "password", "salt", "", [2, 1, 1], "2156049e09b90eac055b3ab58d50e928dbaf4fa50eb9ed27da94b2d1975426c71f512c763bf0a9a50a072b8684cc24810c9f11952469e9f5af7a51f18615ba55"),
    vector(CatenaGraph::DoubleButterfly, "password", "salt", "", [2, 10, 10], "fa07138327758c2a17bb6801ac849fb3b054bf60068d9c3c746a0cc7a9daa344fc507e04b047b0603dc25b7b3a4f44464e5cbb5215115b9d0feb5c60be2bc0f0"),
    vector(CatenaGraph::DoubleButterfly, "password", "salt", "data", [2, 10, 10], "039a8919c95422e6696eef4f0cb57aa4d9c1161319755b9bc0217db8b8f8bd677c83f83921095fdebb66cad17a6551954b7c805f8b6bde43218a86a6683a9a29"),
    vector(CatenaGraph::DoubleButterfly, "passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", "", [2, 10, 10], "cc343064c2747aec015b5d853fb9ebe7a3bb08e0e9713cbd91e8236e48c65d264a375b323f3912a57318e56c1c4f46cc2e69a73b96a5cd9f709f1df0650fdbc1"),
    vector(CatenaGraph::DoubleButterfly, "correct horse battery staple", "0123456789abcdef", "vol", [1, 4, 8], "894df2af1ed8b9f65bcea2c12f140e163bfd6958b80dbbf409012b05316e6365"),
    vector(CatenaGraph::DoubleButterfly, "correct horse battery staple", "0123456789abcdef", "vol", [3, 6, 12], "b84b41a0a372d7a7d4edc6587539bad453cf4fbf8bd7dbb7805205af238e6911"),
    vector(CatenaGraph::DoubleButterfly, "p", "0123456789abcdef", "", [2, 12, 12], "e9aeb76d3b96e6cc9ab7d221e8d302e0"),
    vector(CatenaGraph::DoubleButterfly, "p", "0123456789abcdef", "", [4, 1, 6], "27ad69072cd01286227225b6aee5939a51c26dbed97160e1b5af519b621e4b314679a1ccdd3f6422ae7cd43172c62475936c3f387e42e9d51607f3873a7c7572"),
];

#[test]
fn both_instances_agree_with_the_reference_implementation() {
    for Vector { cost, input, output } in &VECTORS {
        assert_eq!(hex(&derived(Hash::Blake2b512, cost, input, output.len() / 2)), *output, "{cost:?}");
    }
}

/// The definition, spelled out: rows are lists of nodes, and the row above is there until the next one is whole.
mod reference {
    use super::*;

    fn h(hash: Hash, parts: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0; hash.output_len()];
        digest(hash, parts, &mut out);
        out
    }

    fn level(hash: Hash, cost: &CatenaCost, garlic: u32, salt: &[u8], x: &[u8]) -> Vec<u8> {
        let nodes = 1usize << garlic;
        let mut v = vec![h(hash, &[&[1], x]), h(hash, &[&[0], x])];
        for i in 2..nodes + 2 {
            v.push(h(hash, &[&v[i - 1], &v[i - 2]]));
        }
        v.drain(..2);

        let mut seed = vec![h(hash, &[salt])];
        while seed.concat().len() < 128 {
            seed.push(h(hash, &[&seed[seed.len() - 1]]));
        }
        let seed = seed.concat();
        let word = |i: usize| u64::from_le_bytes(seed[8 * i..8 * i + 8].try_into().expect("8 bytes"));
        let mut state: Vec<u64> = (0..16).map(word).collect();
        let mut random = || {
            // The state is turned, where the other one moves a pointer.
            let (s0, mut s1) = (state[0], state[1]);
            s1 ^= s1 << 31;
            s1 = s1 ^ (s1 >> 11) ^ s0 ^ (s0 >> 30);
            state[1] = s1;
            state.rotate_left(1);
            (s1.wrapping_mul(1181783497276652981) >> (64 - garlic)) as usize
        };
        for _ in 0..1 << (0.75 * f64::from(garlic)).ceil() as u32 {
            let (a, b) = (random(), random());
            v[a] = h(hash, &[&v[a], &v[b]]);
        }

        let rows: Vec<Option<u32>> = match cost.graph {
            CatenaGraph::BitReversal => vec![None],
            CatenaGraph::DoubleButterfly => (0..garlic).rev().chain(1..garlic).map(Some).collect(),
        };
        for _ in 0..cost.lambda {
            for row in &rows {
                let mut r: Vec<Vec<u8>> = Vec::new();
                for i in 0..nodes {
                    let before = r.last().unwrap_or(&v[nodes - 1]);
                    let (left, right) = match row {
                        None => {
                            let digits: String = format!("{i:0width$b}", width = garlic as usize);
                            let reversed: String = digits.chars().rev().collect();
                            (before.clone(), usize::from_str_radix(&reversed, 2).expect("binary"))
                        }
                        Some(bit) => (before.iter().zip(&v[i]).map(|(a, b)| a ^ b).collect(), i ^ (1 << bit)),
                    };
                    let node = h(hash, &[&left, &v[right]]);
                    r.push(if i == 0 { h(hash, &[&[0], &node]) } else { node });
                }
                v = r;
            }
        }
        v.pop().expect("nodes")
    }

    pub fn catena(hash: Hash, cost: &CatenaCost, input: &CatenaInput<'_>, len: usize) -> Vec<u8> {
        let version = match cost.graph {
            CatenaGraph::BitReversal => "Dragonfly-Full",
            CatenaGraph::DoubleButterfly => "Butterfly-Full",
        };
        let tweak = [
            u8::from(input.domain == CatenaDomain::KeyDerivation),
            cost.lambda,
            len as u8,
            input.salt.len() as u8,
        ];
        let (version, data) = (h(hash, &[version.as_bytes()]), h(hash, &[input.data]));
        let mut x = h(hash, &[&version, &tweak, &data, input.passphrase, input.salt]);
        x = level(hash, cost, u32::from(cost.min_garlic).div_ceil(2), input.salt, &x);
        for garlic in cost.min_garlic..=cost.garlic {
            x = h(hash, &[&[garlic], &level(hash, cost, garlic.into(), input.salt, &x)]);
            x[len..].fill(0);
        }
        x.truncate(len);
        x
    }
}

const INPUT: CatenaInput<'static> = CatenaInput {
    domain: CatenaDomain::KeyDerivation,
    passphrase: b"correct horse battery staple",
    salt: b"0123456789abcdef",
    data: b"volume",
};

/// Hashes of all lengths, the two that do not divide the generator's 128 bytes of seed among them.
#[test]
fn every_hash_agrees_with_a_reference_that_keeps_every_row() {
    for hash in Hash::ALL {
        for graph in GRAPHS {
            for (lambda, min_garlic, garlic, len) in [(1, 1, 1, 16), (2, 2, 5, 11), (3, 6, 6, 1)] {
                let cost = CatenaCost { graph, lambda, min_garlic, garlic };
                let expected = reference::catena(hash, &cost, &INPUT, len);
                assert_eq!(derived(hash, &cost, &INPUT, len), expected, "{hash} {cost:?}");
            }
        }
    }
}

/// The article's setting: 128 KiB, SHA-256.
#[test]
fn sha256_in_128_kib_agrees_with_the_reference() {
    let cost = CatenaCost::new(CatenaGraph::BitReversal, 12);
    assert_eq!(cost.memory_bytes(Hash::Sha256), 128 << 10);
    assert_eq!(derived(Hash::Sha256, &cost, &INPUT, 32), reference::catena(Hash::Sha256, &cost, &INPUT, 32));
    let cost = CatenaCost::new(CatenaGraph::DoubleButterfly, 9);
    assert_eq!(cost.memory_bytes(Hash::Sha256), 24 << 10);
    assert_eq!(derived(Hash::Sha256, &cost, &INPUT, 32), reference::catena(Hash::Sha256, &cost, &INPUT, 32));
}

#[test]
fn an_update_without_the_passphrase_yields_what_the_larger_garlic_yields() {
    for graph in GRAPHS {
        for len in [32, 13] {
            let old = CatenaCost { graph, lambda: 2, min_garlic: 3, garlic: 4 };
            let new = CatenaCost { garlic: 7, ..old };
            let mut hashed = derived(Hash::Sha256, &old, &INPUT, len);
            let mut memory = vec![0; new.memory_bytes(Hash::Sha256) as usize];
            catena_update(Hash::Sha256, &old, 7, INPUT.salt, &mut memory, &mut hashed).expect("valid");
            assert_eq!(hashed, derived(Hash::Sha256, &new, &INPUT, len), "{graph:?}");
            assert!(memory.iter().all(|byte| *byte == 0));
        }
    }
}

fn in_steps<H: FixedHash>(cost: &CatenaCost, size: u32) {
    let expected = derived(H::HASH, cost, &INPUT, 16);
    let mut memory = vec![0; cost.memory_bytes(H::HASH) as usize + 5];
    let mut out = [0xa5; 16];
    let mut run = Catena::<H>::new(cost, &INPUT, &mut memory, &mut out).expect("valid");
    let mut nodes = 0;
    while let Progress::Unfinished { left } = run.step(size) {
        nodes += u64::from(size.max(1));
        assert_eq!(left, cost.nodes() - nodes);
    }
    assert_eq!(run.step(size), Progress::Done);
    drop(run);
    assert_eq!(out.as_slice(), expected, "{cost:?} {size}");
}

#[test]
fn steps_of_any_size_yield_the_same_key() {
    for graph in GRAPHS {
        let cost = CatenaCost { graph, lambda: 2, min_garlic: 2, garlic: 4 };
        for size in [0, 1, 2, 7, 100, u32::MAX] {
            in_steps::<fixed::Sha256>(&cost, size);
            in_steps::<fixed::Blake2b512>(&cost, size);
        }
    }
}

#[test]
fn a_derivation_that_is_given_up_leaves_zeros() {
    let cost = CatenaCost::new(CatenaGraph::DoubleButterfly, 5);
    let mut memory = vec![0xa5; cost.memory_bytes(Hash::Sha256) as usize + 3];
    let mut out = [0xa5; 32];
    let mut run = Catena::<fixed::Sha256>::new(&cost, &INPUT, &mut memory, &mut out).expect("valid");
    assert!(matches!(run.step(300), Progress::Unfinished { .. }));
    drop(run);
    assert_eq!(out, [0; 32]);
    let (used, rest) = memory.split_at(memory.len() - 3);
    assert!(used.iter().all(|byte| *byte == 0));
    assert_eq!(rest, [0xa5; 3], "memory that is not needed is not touched");
}

#[test]
fn what_is_not_defined_is_refused() {
    let good = CatenaCost { graph: CatenaGraph::BitReversal, lambda: 2, min_garlic: 3, garlic: 3 };
    let refused = |cost: &CatenaCost, input: &CatenaInput<'_>, memory: usize, len: usize| {
        let (mut memory, mut out) = (vec![0; memory], vec![0; len]);
        catena(Hash::Sha256, cost, input, &mut memory, &mut out).expect_err("refused")
    };
    let parameter = |cost: &CatenaCost| match refused(cost, &INPUT, 256, 32) {
        KdfError::CostOutOfRange { parameter, .. } => parameter,
        other => panic!("{other}"),
    };
    assert_eq!(parameter(&CatenaCost { lambda: 0, ..good }), CostParameter::Lambda);
    assert_eq!(parameter(&CatenaCost { garlic: 0, ..good }), CostParameter::Garlic);
    assert_eq!(parameter(&CatenaCost { garlic: 31, ..good }), CostParameter::Garlic);
    assert_eq!(parameter(&CatenaCost { min_garlic: 0, ..good }), CostParameter::MinGarlic);
    assert_eq!(parameter(&CatenaCost { min_garlic: 4, ..good }), CostParameter::MinGarlic);
    assert_eq!(refused(&good, &INPUT, 255, 32), KdfError::NotEnoughMemory { needs: 256, has: 255 });
    assert_eq!(refused(&good, &INPUT, 256, 33), KdfError::OutputLen { len: 33 });
    assert_eq!(refused(&good, &INPUT, 256, 0), KdfError::OutputLen { len: 0 });
    let long = CatenaInput { salt: &[0; 256], ..INPUT };
    assert_eq!(refused(&good, &long, 256, 32), KdfError::InputTooLong { len: 256 });
    // An update that lowers the cost, or keeps it.
    for garlic in [0, 2, 3, 31] {
        let update = catena_update(Hash::Sha256, &good, garlic, b"salt", &mut [0; 4096], &mut [0; 32]);
        assert!(matches!(update, Err(KdfError::CostOutOfRange { .. })), "{garlic}");
    }
    let full = CatenaCost { garlic: u8::MAX, ..good };
    assert!(matches!(
        catena_update(Hash::Sha256, &full, 255, b"salt", &mut [0; 4096], &mut [0; 32]),
        Err(KdfError::CostOutOfRange { .. })
    ));
}
