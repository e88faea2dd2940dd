//! XTS over an AES engine: published vectors, the mapper's bytes from any cipher block on, one call per key and run, and
//! nothing but zeros after a failure.

use crate::reference;
use core::convert::Infallible;
use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use atrest_cipher::{
    AesEngine, AsyncAesEngine, AsyncEngineXts, DataUnitCipher, DataUnitIndex, Direction, EngineError,
    EngineXts, KeyError, MapperOptions, RunError, SharedEngineXts, SoftwareEngine, XtsKey,
};

const KEY_LEN: usize = 64;

/// Blocks at addresses for DMA.
#[repr(align(16))]
pub struct Aligned<const LEN: usize>(pub [u8; LEN]);

pub fn key() -> [u8; KEY_LEN] {
    core::array::from_fn(|i| (i * 7 + 3) as u8)
}

pub fn pattern<const LEN: usize>() -> Aligned<LEN> {
    Aligned(core::array::from_fn(|i| (i * 151 + (i >> 8) * 7) as u8))
}

/// A run by the reference, unit after unit.
pub fn expected(key: &[u8], data_unit: usize, first: u64, step: u64, plain: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    for (at, unit) in plain.chunks(data_unit).enumerate() {
        let number = first.wrapping_add(at as u64).wrapping_mul(step);
        let iv = reference::iv("plain64", "aes", key, number);
        whole.extend(reference::unit(true, "aes", "xts", key, iv, unit));
    }
    whole
}

/// Counts calls, and wants its blocks aligned. Fails when it is told to.
pub struct Counting {
    engine: SoftwareEngine,
    calls: Vec<(XtsKey, Direction, usize)>,
    fail: Option<XtsKey>,
}

impl Counting {
    pub fn new(key: &[u8]) -> Self {
        let engine = SoftwareEngine::new(key, &MapperOptions::default()).expect("a key");
        Self { engine, calls: Vec::new(), fail: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Broken;

impl AesEngine for Counting {
    const ALIGNMENT: usize = 16;

    type Error = Broken;

    fn apply(&mut self, key: XtsKey, direction: Direction, blocks: &mut [[u8; 16]]) -> Result<(), Broken> {
        assert!(blocks.as_ptr().addr().is_multiple_of(Self::ALIGNMENT));
        self.calls.push((key, direction, blocks.len()));
        if self.fail == Some(key) {
            return Err(Broken);
        }
        let Ok(()) = self.engine.apply(key, direction, blocks);
        Ok(())
    }
}

/// Works no sooner than it is asked for the third time.
pub struct Slow(pub SoftwareEngine);

impl AsyncAesEngine for Slow {
    const ALIGNMENT: usize = 4;

    type Error = Infallible;

    async fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), Infallible> {
        let mut waits = 2;
        poll_fn(|context| {
            if waits == 0 {
                return Poll::Ready(());
            }
            waits -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.0.apply(key, direction, blocks)
    }
}

/// The output, and how many times the future was asked before.
pub fn waited<F: Future>(future: F) -> (F::Output, usize) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for waits in 0.. {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return (output, waits);
        }
    }
    unreachable!()
}

/// Source: IEEE 1619-2018, Annex B, vectors 2 and 3 (units of 32 bytes).
#[test]
fn published_vectors_of_ieee_1619() {
    let cases: [(u8, u8, u64, u128, u128); 2] = [
        (
            0x11,
            0x22,
            0x33_3333_3333,
            0xc454_185e_6a16_936e_3933_4038_acef_838b,
            0xfb18_6fff_7480_adc4_2893_82ec_d6d3_94f0,
        ),
        (
            0xff,
            0x22,
            0x33_3333_3333,
            0xaf85_336b_597a_fc1a_900b_2eb2_1ec9_49d2,
            0x92df_4c04_7e0b_2153_2186_a597_1a22_7a89,
        ),
    ];
    for (data, tweak, number, first, second) in cases {
        let mut key = [data; 32];
        key[16..].fill(tweak);
        if data == 0xff {
            for (i, byte) in key[..16].iter_mut().enumerate() {
                *byte = 0xff - i as u8;
            }
        }
        let options = MapperOptions { data_unit: 32, iv_large: true, ..MapperOptions::default() };
        let mut xts = EngineXts::new(Counting::new(&key), &options).expect("a unit");
        let mut run = Aligned([0x44; 32]);
        let mut tweaks = Aligned([0; 16]);
        let tweaks = tweaks.0.as_chunks_mut().0;
        xts.encrypt_at(DataUnitIndex(number), 0, &mut run.0, tweaks).expect("a unit");
        assert_eq!(run.0[..16], first.to_be_bytes());
        assert_eq!(run.0[16..], second.to_be_bytes());
        xts.decrypt_at(DataUnitIndex(number), 0, &mut run.0, tweaks).expect("a unit");
        assert_eq!(run.0, [0x44; 32]);
    }
}

#[test]
fn any_part_is_what_the_reference_has_there_for_one_call_per_key() {
    let key = key();
    for (data_unit, step) in [(16, 1), (48, 1), (512, 1), (1024, 2)] {
        let options = MapperOptions { data_unit, ..MapperOptions::default() };
        let plain = pattern::<3072>().0;
        let whole = expected(&key, data_unit, u64::MAX - 1, step, &plain);
        let mut tweaks = Aligned([0; 16 * 192]);
        let tweaks = tweaks.0.as_chunks_mut().0;
        for offset in (0..data_unit).step_by(16) {
            for len in [16, 32, data_unit - offset, data_unit - offset + 16, 1536] {
                let mut xts = EngineXts::new(Counting::new(&key), &options).expect("a unit");
                let mut part = pattern::<3072>();
                let part = &mut part.0[offset..offset + len];
                // The last two numbers, and those after the end.
                let unit = DataUnitIndex(u64::MAX - 1);
                xts.encrypt_at(unit, offset, part, tweaks).expect("a part");
                assert_eq!(part, &whole[offset..offset + len], "{data_unit}: {len} from {offset}");
                assert!(tweaks.as_flattened().iter().all(|byte| *byte == 0), "tweaks are wiped");
                xts.decrypt_at(unit, offset, part, tweaks).expect("a part");
                assert_eq!(part, &plain[offset..offset + len]);
                let units = (offset + len).div_ceil(data_unit);
                let tweak = (XtsKey::Tweak, Direction::Encrypt, units);
                let data = |direction| (XtsKey::Data, direction, len / 16);
                let calls = [tweak, data(Direction::Encrypt), tweak, data(Direction::Decrypt)];
                assert_eq!(xts.into_engine().calls, calls);
            }
        }
    }
}

#[test]
fn with_little_room_for_tweaks_the_run_goes_in_pieces() {
    let key = key();
    let whole = expected(&key, 512, 7, 1, &pattern::<3072>().0);
    for room in 1..=7 {
        let mut xts = EngineXts::new(Counting::new(&key), &MapperOptions::default()).expect("a unit");
        let mut run = pattern::<3072>();
        let mut tweaks = Aligned([0; 16 * 7]);
        let tweaks = &mut tweaks.0.as_chunks_mut().0[..room];
        xts.encrypt_at(DataUnitIndex(7), 496, &mut run.0[496..], tweaks).expect("a part");
        assert!(run.0[496..] == whole[496..], "{room}");
        let pieces = 6usize.div_ceil(room);
        assert_eq!(xts.into_engine().calls.len(), 2 * pieces);
    }
}

#[test]
fn an_engine_that_is_waited_for_gives_the_same() {
    let key = key();
    let engine = || Slow(SoftwareEngine::new(&key, &MapperOptions::default()).expect("a key"));
    let whole = expected(&key, 512, 7, 1, &pattern::<3072>().0);
    let mut xts = AsyncEngineXts::new(engine(), &MapperOptions::default()).expect("a unit");
    assert_eq!(xts.data_unit(), 512);
    let mut tweaks = Aligned([0; 16 * 6]);
    let tweaks = tweaks.0.as_chunks_mut().0;
    let mut run = pattern::<3072>();
    let part = &mut run.0[80..];
    let (result, waits) = waited(xts.encrypt_at(DataUnitIndex(7), 80, part, tweaks));
    assert_eq!((result, waits), (Ok(()), 4));
    assert!(part == &whole[80..]);
    assert_eq!(waited(xts.decrypt_at(DataUnitIndex(7), 80, part, tweaks)).0, Ok(()));
    assert!(part == &pattern::<3072>().0[80..]);

    // Dropped while the engine has the data.
    {
        let mut future = pin!(xts.encrypt_at(DataUnitIndex(7), 80, part, tweaks));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..4 {
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
    }
    assert!(part.iter().all(|byte| *byte == 0));
    assert!(tweaks.as_flattened().iter().all(|byte| *byte == 0));
    xts.into_engine();
}

#[test]
fn what_an_engine_fails_on_is_wiped_and_what_it_does_not_take_is_left_alone() {
    let mut tweaks = Aligned([0; 32]);
    let tweaks = tweaks.0.as_chunks_mut().0;
    let unit = DataUnitIndex(0);
    let mut xts = EngineXts::new(Counting::new(&key()), &MapperOptions::default()).expect("a unit");

    let mut run = pattern::<1024>();
    let partial = RunError::Granularity { offset: 0, len: 1000, granularity: 16 };
    assert_eq!(xts.encrypt_at(unit, 0, &mut run.0[..1000], tweaks), Err(EngineError::Run(partial)));
    let behind = RunError::BehindDataUnit { offset: 512, data_unit: 512 };
    assert_eq!(xts.encrypt_at(unit, 512, &mut run.0, tweaks), Err(EngineError::Run(behind)));
    let crooked = &mut run.0[8..24];
    assert_eq!(xts.encrypt_at(unit, 0, crooked, tweaks), Err(EngineError::Alignment { alignment: 16 }));
    assert_eq!(xts.encrypt_at(unit, 0, &mut run.0, &mut []), Err(EngineError::NoRoomForTweaks));
    assert_eq!(xts.encrypt_at(unit, 0, &mut [], &mut []), Ok(()));
    assert_eq!(run.0, pattern::<1024>().0);

    let mut engine = xts.into_engine();
    assert!(engine.calls.is_empty());
    engine.fail = Some(XtsKey::Tweak);
    let mut xts = EngineXts::new(engine, &MapperOptions::default()).expect("a unit");
    assert_eq!(xts.encrypt_at(unit, 0, &mut run.0, tweaks), Err(EngineError::Engine(Broken)));
    assert_eq!(run.0, pattern::<1024>().0);

    let mut engine = xts.into_engine();
    engine.fail = Some(XtsKey::Data);
    let mut xts = EngineXts::new(engine, &MapperOptions::default()).expect("a unit");
    assert_eq!(xts.encrypt_at(unit, 0, &mut run.0, tweaks), Err(EngineError::Engine(Broken)));
    assert_eq!(run.0, [0; 1024]);
    assert_eq!(tweaks, [[0; 16]; 2]);

    let options = MapperOptions { data_unit: 24, ..MapperOptions::default() };
    assert_eq!(EngineXts::new(Counting::new(&key()), &options).err(), Some(KeyError::DataUnit { len: 24 }));
    let refused = SoftwareEngine::new(&[5; 32], &MapperOptions::default());
    assert_eq!(refused.err(), Some(KeyError::EqualXtsHalves));
}

#[test]
fn an_engine_below_what_is_generic_over_ciphers_gives_the_same() {
    let key = key();
    let whole = expected(&key, 512, 7, 1, &pattern::<3072>().0);
    let shared = |fail| {
        let engine = Counting { fail, ..Counting::new(&key) };
        SharedEngineXts::<_, 8>::new(EngineXts::new(engine, &MapperOptions::default()).expect("a unit"))
    };
    let cipher = shared(None);
    assert_eq!((cipher.data_unit(), cipher.granularity()), (512, 16));
    let mut run = pattern::<3072>();
    assert_eq!(cipher.encrypt(DataUnitIndex(7), &mut run.0), Ok(()));
    assert!(run.0 == whole[..]);
    assert_eq!(cipher.decrypt_at(DataUnitIndex(7), 496, &mut run.0[496..1040]), Ok(()));
    assert_eq!(run.0[496..1040], pattern::<3072>().0[496..1040]);
    assert_eq!(cipher.encrypt_at(DataUnitIndex(7), 496, &mut run.0[496..1040]), Ok(()));
    assert_eq!(cipher.decrypt(DataUnitIndex(7), &mut run.0), Ok(()));
    assert_eq!(run.0, pattern::<3072>().0);

    // Nothing is touched that does not fit.
    let partial = RunError::PartialDataUnit { len: 528, data_unit: 512 };
    assert_eq!(cipher.encrypt(DataUnitIndex(7), &mut run.0[..528]), Err(partial));
    let crooked = RunError::Alignment { alignment: 16 };
    assert_eq!(cipher.encrypt(DataUnitIndex(7), &mut run.0[8..520]), Err(crooked));
    assert_eq!(run.0, pattern::<3072>().0);
    // Two calls a run, however many units it touches.
    assert_eq!(cipher.into_inner().into_engine().calls.len(), 2 * 4);

    let broken = shared(Some(XtsKey::Data));
    assert_eq!(broken.encrypt(DataUnitIndex(7), &mut run.0[..1024]), Err(RunError::Engine));
    assert_eq!(run.0[..1024], [0; 1024]);
    assert_eq!(run.0[1024..], pattern::<3072>().0[1024..]);
}
