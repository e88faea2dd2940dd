//! A copy and what it was made of.

use super::*;

#[test]
fn the_first_byte_that_differs_is_told() {
    let bytes = Random::new(5).bytes((9 << 20) + 512);
    let source = FaultDevice::new(bytes.clone());
    let compared = |copy: Vec<u8>| compare(&source, &FaultDevice::new(copy), None, &mut quiet());
    // What is behind the source in a larger copy is nobody's.
    assert_eq!(compared([bytes.clone(), vec![7; 4096]].concat()), Ok(()));
    for at in [0, 1, (4 << 20) - 1, 4 << 20, 9 << 20, (9 << 20) + 511] {
        let mut copy = bytes.clone();
        copy[at] ^= 0x10;
        assert_eq!(compared(copy), Err(BulkError::Differs { offset: at as u64 }));
    }
    let short = compared(bytes[..bytes.len() - 512].to_vec());
    let (needs, has) = (bytes.len() as u64, bytes.len() as u64 - 512);
    assert_eq!(short, Err(BulkError::DestinationTooSmall { needs, has }));
}

#[test]
fn what_can_not_be_read_is_told_of_the_right_side() {
    let bytes = Random::new(6).bytes(5 << 20);
    for (source_fails, at) in [(true, 100), (false, 5 << 19)] {
        let (source, copy) = (FaultDevice::new(bytes.clone()), FaultDevice::new(bytes.clone()));
        let bad = if source_fails { &source } else { &copy };
        bad.fail(Fault::UnreadableRange { offset: at, len: 512 });
        match compare(&source, &copy, None, &mut quiet()) {
            Err(BulkError::Read(_)) => assert!(source_fails),
            Err(BulkError::ReadBack(_)) => assert!(!source_fails),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn progress_is_told_and_a_cancelled_comparison_ends() {
    let bytes = Random::new(7).bytes(9 << 20);
    let (source, copy) = (FaultDevice::new(bytes.clone()), FaultDevice::new(bytes));
    let stop = AtomicBool::new(false);
    let mut told = Vec::new();
    let all = compare(&source, &copy, Some(&stop), &mut |done: u64, total: u64| told.push((done, total)));
    assert_eq!((all, told), (Ok(()), vec![(4 << 20, 9 << 20), (8 << 20, 9 << 20), (9 << 20, 9 << 20)]));
    let cancelled =
        compare(&source, &copy, Some(&stop), &mut |_: u64, _: u64| stop.store(true, Ordering::Release));
    assert_eq!(cancelled, Err(BulkError::Cancelled { done: 4 << 20, total: 9 << 20 }));
}
