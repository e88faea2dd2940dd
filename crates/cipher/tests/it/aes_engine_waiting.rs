//! Ciphers that are waited for: an engine's, and those that never wait.

use atrest_cipher::{
    AsyncDataUnitCipher, AsyncEngineCipher, AsyncEngineXts, DataUnitIndex, EngineXts, MapperOptions,
    RunError, SharedEngineXts, SoftwareEngine,
};

use crate::aes_engine::{Counting, Slow, expected, key, pattern, waited};

#[test]
fn an_engine_that_is_waited_for_below_what_is_generic_gives_the_same() {
    let key = key();
    let engine = Slow(SoftwareEngine::new(&key, &MapperOptions::default()).expect("a key"));
    let whole = expected(&key, 512, 7, 1, &pattern::<3072>().0);
    let xts = AsyncEngineXts::new(engine, &MapperOptions::default()).expect("a unit");
    let mut cipher = AsyncEngineCipher::<_, 2>::new(xts);
    assert_eq!((cipher.data_unit(), cipher.granularity()), (512, 16));
    let mut run = pattern::<3072>();
    // Six units, and room for the tweaks of two: three pieces, of two calls each, each of which is waited for twice.
    assert_eq!(waited(cipher.encrypt_at(DataUnitIndex(7), 0, &mut run.0)), (Ok(()), 12));
    assert!(run.0 == whole[..]);
    let lent = &mut &mut cipher;
    assert_eq!((lent.data_unit(), lent.granularity()), (512, 16));
    assert_eq!(waited(lent.decrypt_at(DataUnitIndex(8), 16, &mut run.0[528..1056])).0, Ok(()));
    assert_eq!(run.0[528..1056], pattern::<3072>().0[528..1056]);
    assert_eq!(waited(lent.encrypt_at(DataUnitIndex(8), 16, &mut run.0[528..1056])).0, Ok(()));
    assert_eq!(waited(cipher.decrypt_at(DataUnitIndex(7), 0, &mut run.0)).0, Ok(()));
    assert_eq!(run.0, pattern::<3072>().0);
    let refused = waited(cipher.encrypt_at(DataUnitIndex(7), 512, &mut run.0)).0;
    assert_eq!(refused, Err(RunError::BehindDataUnit { offset: 512, data_unit: 512 }));
    cipher.into_inner();

    // Whatever never waits is one, too.
    let mut software = SharedEngineXts::<_, 8>::new(
        EngineXts::new(Counting::new(&key), &MapperOptions::default()).expect("a unit"),
    );
    let lengths = (software.data_unit(), software.granularity());
    assert_eq!(lengths, (512, 16));
    let unit = DataUnitIndex(7);
    let done = waited(software.encrypt_at(unit, 0, &mut run.0));
    assert_eq!(done, (Ok(()), 0));
    assert!(run.0 == whole[..]);
    assert_eq!(waited(software.decrypt_at(unit, 0, &mut run.0)).0, Ok(()));
    assert_eq!(run.0, pattern::<3072>().0);
}
