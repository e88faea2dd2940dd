//! Modes by engines that encrypt alone: CMAC by its published vectors, CCM against the library's, and engines that fail or compute
//! something else.

use std::cell::Cell;

use atrest_cipher::aead::{Aead, OpenError, SealError};
use atrest_cipher::{AesEncrypt, EngineCcm, KeyError, LoadAesKey, SoftwareAes, aes_cmac};

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

/// Source: RFC 4493, section 4 (AES-128), and NIST SP 800-38B, appendix D.3 (AES-256).
#[test]
fn cmac_is_that_of_rfc_4493_and_nist() {
    let message = bytes(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
    );
    let small = "2b7e151628aed2a6abf7158809cf4f3c";
    let large = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
    for (key, len, mac) in [
        (small, 0, "bb1d6929e95937287fa37d129b756746"),
        (small, 16, "070a16b46b4d4144f79bdd9dd04a287c"),
        (small, 40, "dfa66747de9ae63030ca32611497c827"),
        (small, 64, "51f0bebf7e3b9d92fc49741779363cfe"),
        (large, 0, "028962f61b7bf89efc6b551f4667d983"),
        (large, 16, "28a7023f452e8f82bd4bf28d8c37c35c"),
        (large, 40, "aaf3d8f1de5640c232f5b169b9c911e6"),
        (large, 64, "e1992190549f6ed5696a2c056c315410"),
    ] {
        let mut engine = SoftwareAes::load(&bytes(key)).expect("a key");
        assert_eq!(
            aes_cmac(&mut engine, &message[..len]),
            Ok(bytes(mac).try_into().expect("a block")),
            "{len}"
        );
    }
}

/// What goes wrong in the engines of this thread: the call that fails, the one whose block is wrong; and how many there were.
#[derive(Clone, Copy, Default)]
struct Plan {
    fails: Option<usize>,
    wrong: Option<usize>,
    is_missing: bool,
    calls: usize,
    blocks: usize,
}

thread_local! {
    static PLAN: Cell<Plan> = const {
        Cell::new(Plan { fails: None, wrong: None, is_missing: false, calls: 0, blocks: 0 })
    };
}

/// Software that follows the plan.
struct Peripheral(SoftwareAes);

impl AesEncrypt for Peripheral {
    type Error = ();

    fn encrypt(&mut self, blocks: &mut [[u8; 16]]) -> Result<(), ()> {
        let mut plan = PLAN.get();
        plan.calls += 1;
        plan.blocks += blocks.len();
        PLAN.set(plan);
        let Ok(()) = self.0.encrypt(blocks);
        if plan.wrong == Some(plan.calls) {
            blocks[0][7] ^= 4;
        }
        if plan.fails == Some(plan.calls) { Err(()) } else { Ok(()) }
    }
}

impl LoadAesKey for Peripheral {
    fn load(key: &[u8]) -> Result<Self, KeyError> {
        if PLAN.get().is_missing { Err(KeyError::Engine) } else { SoftwareAes::load(key).map(Self) }
    }
}

type Ccm = EngineCcm<Peripheral, 16>;
/// Calls that comparing takes when a key is loaded.
const LOADING: usize = 1;

#[test]
fn an_engine_is_compared_with_software_before_it_seals() {
    for plan in [
        Plan { fails: Some(1), ..Plan::default() },
        Plan { wrong: Some(1), ..Plan::default() },
        Plan { is_missing: true, ..Plan::default() },
    ] {
        PLAN.set(plan);
        assert_eq!(Ccm::new(&[3; 16]).err(), Some(KeyError::Engine));
    }
    PLAN.set(Plan::default());
    assert_eq!(Ccm::new(&[3; 17]).err(), Some(KeyError::Length { len: 17 }));
    assert_eq!(PLAN.get().calls, 0);
    Ccm::new(&[3; 16]).expect("an engine that is right");
    assert_eq!((PLAN.get().calls, PLAN.get().blocks), (LOADING, 16));
}

#[test]
fn a_call_authenticates_a_block_and_makes_the_key_stream_of_the_next() {
    PLAN.set(Plan::default());
    let cipher = Ccm::new(&[3; 16]).expect("an engine");
    let before = PLAN.get().calls;
    cipher.seal(&[1; 13], &[2; 14], &mut [7; 256]).expect("sealed");
    assert_eq!(PLAN.get().calls - before, 1 + 16 + 1);
}

#[test]
fn what_an_engine_fails_on_is_zeros_and_neither_sealed_nor_forged() {
    let (nonce, associated) = ([1; 13], [2; 14]);
    PLAN.set(Plan::default());
    let mut sealed = [7; 100];
    let tag = Ccm::new(&[3; 16]).expect("an engine").seal(&nonce, &associated, &mut sealed).expect("sealed");
    let calls = PLAN.get().calls;
    assert_eq!(calls, LOADING + 1 + 7 + 1);
    for call in LOADING + 1..=calls {
        PLAN.set(Plan { fails: Some(call), ..Plan::default() });
        let mut data = [7; 100];
        let done = Ccm::new(&[3; 16]).expect("an engine").seal(&nonce, &associated, &mut data);
        assert_eq!((done, data), (Err(SealError::Engine), [0; 100]), "{call}");
        PLAN.set(Plan { fails: Some(call), ..Plan::default() });
        let mut data = sealed;
        let done = Ccm::new(&[3; 16]).expect("an engine").open(&nonce, &associated, &mut data, &tag);
        assert_eq!((done, data), (Err(OpenError::Engine), [0; 100]), "{call}");
        // One that is right at first and wrong later does not verify what others have sealed.
        PLAN.set(Plan { wrong: Some(call), ..Plan::default() });
        let mut data = sealed;
        let done = Ccm::new(&[3; 16]).expect("an engine").open(&nonce, &associated, &mut data, &tag);
        assert_eq!((done, data), (Err(OpenError::Forged), [0; 100]), "{call}");
    }
}

#[test]
fn what_is_too_long_is_refused_and_left_alone() {
    PLAN.set(Plan::default());
    let cipher = Ccm::new(&[3; 16]).expect("an engine");
    for (data, associated) in [(65_536, 0), (16, 65_280)] {
        let mut long = vec![5; data];
        let refused = cipher.seal(&[1; 13], &vec![6; associated], &mut long);
        assert_eq!(refused, Err(SealError::TooLong { data, associated }));
        assert!(long.iter().all(|byte| *byte == 5));
        let refused = cipher.open(&[1; 13], &vec![6; associated], &mut long, &[0; 16]);
        assert_eq!(refused, Err(OpenError::Forged));
        assert!(long.iter().all(|byte| *byte == 0));
    }
}

#[cfg(feature = "ccm")]
#[test]
fn ccm_by_an_engine_is_the_librarys_for_all_lengths() {
    use atrest_cipher::aead::{Aes128Ccm, Aes256Ccm};

    fn same<L: Aead<Nonce = [u8; 13], Tag = [u8; 16]>, E: Aead<Nonce = [u8; 13], Tag = [u8; 16]>>() {
        assert_eq!((L::NAME, L::KEY_LEN), (E::NAME, E::KEY_LEN));
        let key: Vec<u8> = (0..L::KEY_LEN).map(|i| (i * 11 + 5) as u8).collect();
        let (library, engine) = (L::new(&key).expect("a key"), E::new(&key).expect("a key"));
        let text: Vec<u8> = (0..65_535_u32).map(|i| (i * 37 + i / 256) as u8).collect();
        let short = (0..50).flat_map(|data| (0..50).map(move |associated| (data, associated)));
        for (data, associated) in short.chain([(65_535, 14), (424, 65_279), (256, 255), (256, 256)]) {
            let nonce: [u8; 13] = core::array::from_fn(|i| (data + associated * 3 + i) as u8);
            let (mut by_library, mut by_engine) = (text[..data].to_vec(), text[..data].to_vec());
            let tag = library.seal(&nonce, &text[..associated], &mut by_library).expect("sealed");
            assert_eq!(engine.seal(&nonce, &text[..associated], &mut by_engine), Ok(tag));
            assert!(by_library == by_engine, "{data} bytes with {associated}");
            engine.open(&nonce, &text[..associated], &mut by_library, &tag).expect("what the library sealed");
            assert!(by_library == text[..data]);
        }
    }
    same::<Aes128Ccm, EngineCcm<SoftwareAes, 16>>();
    same::<Aes256Ccm, EngineCcm<SoftwareAes, 32>>();
}
