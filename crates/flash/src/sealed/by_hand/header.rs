//! The header under the record: which one a record allows, and what anchors and hand-overs write.

use atrest_device::TrustedStoreError;
use atrest_testkit::flash::TrustedMemory;

use super::super::error::SealedError;
use super::super::header::{AnchoredHeader, HandOver, HeaderAnchor};
use super::super::record::Stored;
use super::super::serial::SERIAL_END;
use super::ByHand;
use crate::header::{AnchorError, AnchorHeader, DIGEST_LEN, FoundHeader, HeaderMark};

/// Header number `sequence` of these digests.
fn mark(sequence: u64, digest: u8) -> HeaderMark {
    HeaderMark { sequence, digest: [digest; DIGEST_LEN] }
}

fn found(sequence: u64, digest: u8) -> FoundHeader {
    FoundHeader { mark: mark(sequence, digest), in_both: true }
}

fn anchored(sequence: u64, digest: u8, next: u8) -> AnchoredHeader {
    AnchoredHeader { sequence, digest: [digest; DIGEST_LEN], next: [next; DIGEST_LEN] }
}

/// A store whose record names this header.
fn store(header: AnchoredHeader) -> TrustedMemory {
    let hand = ByHand::new();
    let record = Stored { record: hand.record, tag: [7; 16], header };
    TrustedMemory::with_record(Some(record.to_bytes()))
}

fn stored(store: &TrustedMemory) -> AnchoredHeader {
    Stored::from_bytes(&store.record().expect("a record")).expect("it").header
}

#[test]
fn a_record_allows_its_header_and_the_next_one_and_no_other() {
    let present = anchored(5, 1, 2);
    let in_one = |sequence, digest| FoundHeader { in_both: false, ..found(sequence, digest) };
    // One of both copies: a change may be under way, so that both stay allowed.
    assert_eq!(present.after(Some(in_one(5, 1))), Ok(present));
    assert_eq!(present.after(Some(in_one(6, 2))), Ok(present));
    assert_eq!(present.after(Some(found(5, 1))), Ok(anchored(5, 1, 1)));
    assert_eq!(present.after(Some(found(6, 2))), Ok(anchored(6, 2, 2)));
    let other = |found| Err(SealedError::HeaderOther { anchored: 5, found });
    let older = |found| Err(SealedError::HeaderOlder { anchored: 5, found });
    for (sequence, refused) in [(0, older(0)), (4, older(4)), (5, other(5)), (6, other(6))] {
        assert_eq!(present.after(Some(found(sequence, 3))), refused);
        assert_eq!(present.after(Some(in_one(sequence, 3))), refused);
    }
    assert_eq!(present.after(None), other(0), "the key came without a header");
    let none = AnchoredHeader::default();
    assert_eq!(none.after(None), Ok(none));
    let one_byte = AnchoredHeader {
        next: {
            let mut next = [0; DIGEST_LEN];
            next[11] = 1;
            next
        },
        ..none
    };
    assert_eq!(one_byte.after(None), Err(SealedError::HeaderOther { anchored: 0, found: 0 }));
    assert_eq!(none.after(Some(found(1, 3))), Err(SealedError::HeaderOther { anchored: 0, found: 1 }));
}

#[test]
fn a_header_number_that_a_record_has_no_room_for_is_refused() {
    let last = SERIAL_END - 1;
    assert_eq!(AnchoredHeader::settled(Some(found(last, 1))), Ok(anchored(last, 1, 1)));
    assert_eq!(AnchoredHeader::settled(Some(found(SERIAL_END, 1))), Err(SealedError::WornOut));
    assert_eq!(AnchoredHeader::settled(None), Ok(AnchoredHeader::default()));
    for (next, announced) in [(last, Ok(())), (SERIAL_END, Err(AnchorError::WornOut))] {
        let kept = store(anchored(last - 1, 1, 1));
        let before = kept.record();
        assert_eq!(HeaderAnchor::new(kept.clone()).announce(found(last - 1, 1), mark(next, 2)), announced);
        assert_eq!(kept.record() == before, announced.is_err());
        let new = TrustedMemory::new();
        let mut over = HandOver::new(store(anchored(last - 1, 1, 1)), new.clone());
        assert_eq!(over.announce(found(last - 1, 1), mark(next, 2)), announced);
        assert_eq!(new.record().is_none(), announced.is_err());
    }
    let kept = store(anchored(1, 1, 1));
    assert_eq!(HeaderAnchor::new(kept.clone()).adopt(found(SERIAL_END, 2)), Err(SealedError::WornOut));
    assert_eq!(stored(&kept), anchored(1, 1, 1));
}

#[test]
fn looking_whether_a_header_is_anchored_writes_nothing() {
    let kept = store(anchored(5, 1, 2));
    let mut anchor = HeaderAnchor::new(kept.clone());
    assert_eq!((anchor.check(found(5, 1)), anchor.check(found(6, 2))), (Ok(()), Ok(())));
    assert_eq!(anchor.check(found(4, 3)), Err(SealedError::HeaderOlder { anchored: 5, found: 4 }));
    assert_eq!(anchor.check(found(7, 3)), Err(SealedError::HeaderOther { anchored: 5, found: 7 }));
    assert_eq!(kept.count(), 0);
}

#[test]
fn a_header_is_confirmed_once_and_only_if_both_copies_hold_it() {
    let kept = store(anchored(5, 1, 2));
    let mut anchor = HeaderAnchor::new(kept.clone());
    assert_eq!(anchor.confirm(FoundHeader { in_both: false, ..found(6, 2) }), Ok(()));
    assert_eq!((stored(&kept), kept.count()), (anchored(5, 1, 2), 0), "either may be read next time");
    assert_eq!(anchor.confirm(found(9, 3)), Err(SealedError::HeaderOther { anchored: 5, found: 9 }));
    assert_eq!(kept.count(), 0);
    assert_eq!((anchor.confirm(found(6, 2)), stored(&kept)), (Ok(()), anchored(6, 2, 2)));
    assert_eq!((anchor.confirm(found(6, 2)), kept.count()), (Ok(()), 1), "it says so already");
    assert_eq!(anchor.settle(found(5, 1)), Err(AnchorError::Older { anchored: 6, found: 5 }));
    kept.fail(Some(TrustedStoreError::WornOut));
    assert_eq!(anchor.confirm(found(6, 2)), Err(SealedError::Store(TrustedStoreError::WornOut)));
}

#[test]
fn what_the_owner_adopts_is_anchored_whatever_was_and_the_rest_of_the_record_stays() {
    let kept = store(anchored(5, 1, 2));
    let before = Stored::from_bytes(&kept.record().expect("a record")).expect("it");
    assert_eq!(HeaderAnchor::new(kept.clone()).adopt(found(3, 9)), Ok(()));
    let after = Stored::from_bytes(&kept.record().expect("a record")).expect("it");
    assert_eq!(after, Stored { header: anchored(3, 9, 9), ..before });
    let empty = TrustedMemory::new();
    assert_eq!(HeaderAnchor::new(empty.clone()).adopt(found(3, 9)), Err(SealedError::StoreEmpty));
    assert_eq!(empty.record(), None);
}

#[test]
fn an_announced_header_is_allowed_beside_the_present_one_whose_number_never_falls() {
    for (present, after) in [
        (found(5, 1), anchored(5, 1, 8)),
        (found(6, 2), anchored(6, 2, 8)),
        // In one copy: what is anchored stays the older one's number.
        (FoundHeader { in_both: false, ..found(6, 2) }, anchored(6, 2, 8)),
        (FoundHeader { in_both: false, ..found(5, 1) }, anchored(5, 1, 8)),
        // A copy may say another number than the record: the higher one counts.
        (FoundHeader { in_both: false, ..found(3, 1) }, anchored(5, 1, 8)),
    ] {
        let kept = store(anchored(5, 1, 2));
        assert_eq!(HeaderAnchor::new(kept.clone()).announce(present, mark(7, 8)), Ok(()));
        assert_eq!(stored(&kept), after);
    }
    let kept = store(anchored(5, 1, 2));
    let older = AnchorError::Older { anchored: 5, found: 4 };
    assert_eq!(HeaderAnchor::new(kept.clone()).announce(found(4, 3), mark(7, 8)), Err(older));
    assert_eq!(kept.count(), 0, "nothing is announced on an older header");
}

#[test]
fn a_hand_over_writes_the_new_store_first_and_makes_the_old_one_void_last() {
    let (old, new) = (store(anchored(5, 1, 1)), TrustedMemory::new());
    let record = Stored::from_bytes(&old.record().expect("a record")).expect("it");
    let mut over = HandOver::new(old.clone(), new.clone());
    assert_eq!(over.finish(found(6, 2)), Err(SealedError::StoreEmpty), "nobody has it yet");
    assert_eq!(over.announce(found(5, 1), mark(6, 2)), Ok(()));
    assert_eq!((old.count(), new.count()), (0, 1));
    let taken = Stored::from_bytes(&new.record().expect("a record")).expect("it");
    assert_eq!(taken, Stored { header: anchored(6, 2, 2), ..record });
    // Interrupted and begun again, with another next header.
    assert_eq!(over.announce(found(5, 1), mark(6, 3)), Ok(()));
    assert_eq!(stored(&new), anchored(6, 3, 3));
    // Not before the header that the new store names stands.
    let other = SealedError::HeaderOlder { anchored: 6, found: 5 };
    assert_eq!((over.finish(found(5, 1)), old.count()), (Err(other), 0));
    assert_eq!((over.settle(found(6, 3)), old.count()), (Ok(()), 1));
    let handed = SealedError::HandedOver { header: 6 };
    assert_eq!(Stored::from_bytes(&old.record().expect("a record")), Err(handed));
    assert_eq!((over.finish(found(6, 3)), old.count()), (Ok(()), 1), "it is void already");
    assert_eq!(over.announce(found(6, 3), mark(7, 4)), Err(AnchorError::HandedOver { header: 6 }));
    assert_eq!((new.count(), stored(&new)), (2, anchored(6, 3, 3)));
}

#[test]
fn a_store_is_taken_over_by_one_that_is_empty_or_holds_the_same_record_alone() {
    let announce = |old: &TrustedMemory, new: &TrustedMemory| {
        HandOver::new(old.clone(), new.clone()).announce(found(5, 1), mark(6, 2))
    };
    let old = || store(anchored(5, 1, 1));
    let record = |change: fn(&mut Stored)| {
        let mut stored = Stored::from_bytes(&old().record().expect("a record")).expect("it");
        change(&mut stored);
        TrustedMemory::with_record(Some(stored.to_bytes()))
    };
    assert_eq!(announce(&old(), &record(|stored| stored.header = anchored(9, 9, 9))), Ok(()));
    assert_eq!(announce(&old(), &record(|stored| stored.tag[15] ^= 1)), Err(AnchorError::InUse));
    assert_eq!(announce(&old(), &record(|stored| stored.record.anchor += 1)), Err(AnchorError::InUse));
    // What can't be read is no empty store.
    let damaged = old();
    damaged.fail(Some(TrustedStoreError::Damaged));
    assert_eq!(announce(&old(), &damaged), Err(AnchorError::Store(TrustedStoreError::Damaged)));
    let later = TrustedMemory::with_record(Some([9; 80]));
    assert_eq!(announce(&old(), &later), Err(AnchorError::Version));
    assert_eq!(later.record(), Some([9; 80]));
    // The old one does not have the volume.
    let new = TrustedMemory::new();
    assert_eq!(announce(&TrustedMemory::new(), &new), Err(AnchorError::Empty));
    let older = AnchorError::Older { anchored: 7, found: 5 };
    assert_eq!(announce(&store(anchored(7, 3, 3)), &new), Err(older));
    let other = AnchorError::Other { anchored: 4, found: 5 };
    assert_eq!(announce(&store(anchored(4, 3, 3)), &new), Err(other));
    assert_eq!(new.record(), None);
}
