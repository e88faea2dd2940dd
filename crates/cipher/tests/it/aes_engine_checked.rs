//! Engines that compute something else than AES are found out before they have encrypted more than a data unit.

use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use atrest_cipher::{
    AesEngine, AsyncAesEngine, CheckedEngine, CheckedEngineError, DataUnitCipher, DataUnitIndex, Direction,
    EngineXts, KeyError, MapperOptions, RunError, SharedEngineXts, SoftwareEngine, XtsKey,
};

use crate::aes_engine::{Broken, expected, key, pattern, waited};

/// Encrypts right until it has done so many blocks, and then one bit is wrong. Refuses when it is told to.
struct Faulty {
    engine: SoftwareEngine,
    wrong: Option<(XtsKey, Direction, usize)>,
    refuses: bool,
    calls: usize,
}

impl Faulty {
    fn new(wrong: Option<(XtsKey, Direction, usize)>) -> Self {
        let engine = SoftwareEngine::new(&key(), &MapperOptions::default()).expect("a key");
        Self { engine, wrong, refuses: false, calls: 0 }
    }
}

impl AesEngine for Faulty {
    const ALIGNMENT: usize = 1;

    type Error = Broken;

    fn apply(&mut self, key: XtsKey, direction: Direction, blocks: &mut [[u8; 16]]) -> Result<(), Broken> {
        self.calls += 1;
        if self.refuses {
            return Err(Broken);
        }
        let Ok(()) = self.engine.apply(key, direction, blocks);
        if let Some((wrong_key, wrong_direction, right)) = &mut self.wrong
            && (*wrong_key, *wrong_direction) == (key, direction)
        {
            if let Some(block) = blocks.get_mut(*right) {
                block[15] ^= 0x80;
            }
            // intended: after the wrong one, all first ones are wrong.
            *right = right.saturating_sub(blocks.len());
        }
        Ok(())
    }
}

/// A faulty engine that is waited for.
struct FaultyAndSlow(Faulty);

impl AsyncAesEngine for FaultyAndSlow {
    const ALIGNMENT: usize = 1;

    type Error = Broken;

    async fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), Broken> {
        let mut waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut waited, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.0.apply(key, direction, blocks)
    }
}

const KINDS: [(XtsKey, Direction); 3] = [
    (XtsKey::Data, Direction::Encrypt),
    (XtsKey::Data, Direction::Decrypt),
    (XtsKey::Tweak, Direction::Encrypt),
];

#[test]
fn an_engine_that_computes_something_else_is_found_out_by_its_first_blocks_and_never_asked_again() {
    type Checked<E> = CheckedEngine<E, 4>;
    let differs = Err(CheckedEngineError::Differs);
    for (key_of, direction) in KINDS {
        for wrong in 0..6 {
            for len in 1..=6 {
                let engine = Faulty::new(Some((key_of, direction, wrong)));
                let mut checked = Checked::new(engine, &key(), &MapperOptions::default()).expect("a key");
                let engine = FaultyAndSlow(Faulty::new(Some((key_of, direction, wrong))));
                let mut waiting = Checked::new(engine, &key(), &MapperOptions::default()).expect("a key");
                let mut done = 0;
                while done <= wrong {
                    // The first four are looked at, in as many calls as they take.
                    let is_found = (done..done + len).contains(&wrong) && wrong < 4;
                    let mut blocks = vec![[7; 16]; len];
                    let mut same = blocks.clone();
                    let result = AesEngine::apply(&mut checked, key_of, direction, &mut blocks);
                    assert_eq!(
                        result,
                        if is_found { differs } else { Ok(()) },
                        "{wrong} of {len} from {done}"
                    );
                    let slow = waited(AsyncAesEngine::apply(&mut waiting, key_of, direction, &mut same));
                    assert_eq!(slow, (result, 1));
                    assert_eq!(blocks, same);
                    assert_eq!(blocks.iter().all(|block| *block == [0; 16]), is_found);
                    done += len;
                }
                let found = wrong < 4;
                for (key_of, direction) in KINDS {
                    let again = AesEngine::apply(&mut checked, key_of, direction, &mut [[7; 16]]);
                    assert_eq!(again == differs, found, "{wrong} of {len}");
                    let again =
                        waited(AsyncAesEngine::apply(&mut waiting, key_of, direction, &mut [[7; 16]]));
                    assert_eq!(again.0 == differs, found);
                }
                assert!(!checked.is_checked());
                let calls = wrong / len + 1 + if found { 0 } else { 3 };
                assert_eq!((checked.into_engine().calls, waiting.into_engine().0.calls), (calls, calls));
            }
        }
    }
}

#[test]
fn an_engine_that_is_right_is_checked_when_it_has_done_each_thing_and_errors_of_its_own_do_not_count() {
    let mut checked =
        CheckedEngine::<_, 4>::new(Faulty::new(None), &key(), &MapperOptions::default()).expect("a key");
    assert_eq!(format!("{checked:?}"), "CheckedEngine { is_checked: false, .. }");
    for (at, (key_of, direction)) in KINDS.into_iter().enumerate() {
        for blocks in [3, 3] {
            assert!(!checked.is_checked(), "{at}");
            AesEngine::apply(&mut checked, key_of, direction, &mut vec![[1; 16]; blocks]).expect("an engine");
        }
    }
    assert!(checked.is_checked());
    // The engine alone from here on: the software's keys are gone.
    let mut blocks = [[9; 16]; 5];
    AesEngine::apply(&mut checked, XtsKey::Data, Direction::Encrypt, &mut blocks).expect("an engine");
    let mut right = [[9; 16]; 5];
    let Ok(()) = Faulty::new(None).engine.apply(XtsKey::Data, Direction::Encrypt, &mut right);
    assert_eq!(blocks, right);

    let mut engine = Faulty::new(Some((XtsKey::Data, Direction::Encrypt, 0)));
    engine.refuses = true;
    let mut checked = CheckedEngine::<_>::new(engine, &key(), &MapperOptions::default()).expect("a key");
    let failed = AesEngine::apply(&mut checked, XtsKey::Data, Direction::Encrypt, &mut [[1; 16]]);
    assert_eq!(failed, Err(CheckedEngineError::Engine(Broken)));
    assert!(!checked.is_checked());

    let refused = CheckedEngine::<_>::new(Faulty::new(None), &[5; 32], &MapperOptions::default());
    assert_eq!(refused.err(), Some(KeyError::EqualXtsHalves));
}

#[test]
fn what_a_checked_engine_has_when_nobody_waits_for_it_is_compared_the_next_time() {
    let engine = FaultyAndSlow(Faulty::new(Some((XtsKey::Data, Direction::Encrypt, 0))));
    let mut checked = CheckedEngine::<_>::new(engine, &key(), &MapperOptions::default()).expect("a key");
    {
        let mut blocks = [[1; 16]; 2];
        let mut future =
            pin!(AsyncAesEngine::apply(&mut checked, XtsKey::Data, Direction::Encrypt, &mut blocks));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let mut blocks = [[1; 16]; 2];
    let next = waited(AsyncAesEngine::apply(&mut checked, XtsKey::Data, Direction::Encrypt, &mut blocks));
    assert_eq!(next.0, Err(CheckedEngineError::Differs));
}

#[test]
fn xts_by_a_checked_engine_is_that_of_the_reference_or_nothing() {
    let key = key();
    let whole = expected(&key, 512, 7, 1, &pattern::<3072>().0);
    for wrong in
        [None, Some((XtsKey::Data, Direction::Encrypt, 31)), Some((XtsKey::Tweak, Direction::Encrypt, 5))]
    {
        let engine = CheckedEngine::<_>::new(Faulty::new(wrong), &key, &MapperOptions::default());
        let xts = EngineXts::new(engine.expect("a key"), &MapperOptions::default()).expect("a unit");
        let cipher = SharedEngineXts::<_, 6>::new(xts);
        let mut run = pattern::<3072>();
        let done = cipher.encrypt(DataUnitIndex(7), &mut run.0);
        match wrong {
            None => {
                assert_eq!(done, Ok(()));
                assert!(run.0 == whole[..]);
            }
            Some((XtsKey::Data, ..)) => {
                assert_eq!(done, Err(RunError::Engine));
                assert_eq!(run.0, [0; 3072]);
            }
            Some((XtsKey::Tweak, ..)) => {
                assert_eq!(done, Err(RunError::Engine));
                assert_eq!(run.0, pattern::<3072>().0, "the data was not touched yet");
            }
        }
    }
}
