//! What sealing costs a medium under littlefs: a ticket for an erase, and no erase more.

mod littlefs;
mod sealed_rig;

use atrest_device::FlashGeometry;
use atrest_flash::sealed::{SealedOptions, Tickets};
use atrest_testkit::flash::{EmulatedFlash, SharedFlash};
use littlefs::{Tree, play_on, suite};
use littlefs2::fs::Filesystem;
use sealed_rig::{OPTIONS, Parts, on, totals};

#[test]
fn sealing_adds_at_most_a_ticket_for_each_erase_and_no_erase() {
    let changes = suite(64 * 640);
    let bare = SharedFlash::new(EmulatedFlash::new(FlashGeometry::new(64, 64, 640, 64).expect("a geometry")));
    let mut storage = on(bare.clone());
    Filesystem::format(&mut storage).expect("format");
    let (played, result) = play_on(&mut storage, Tree::new(), &changes, |_| {});
    assert!(result.is_ok());
    let (programs, erases) = totals(&bare);
    println!("the medium alone: {programs} programs, {erases} erases");
    for (tickets, anchor_every) in [(Tickets::Slot, 1), (Tickets::Slot, 40), (Tickets::Store, 40)] {
        let parts = Parts::formatted(SealedOptions { tickets, anchor_every, ..OPTIONS });
        // Closed after formatting: opened after a power loss, it would compact what was begun.
        let mut storage = on(parts.session());
        let (same, result) = play_on(&mut storage, Tree::new(), &changes, |_| {});
        assert!(result.is_ok());
        assert_eq!(same.states, played.states);
        let (sealed, sealed_erases) = totals(&parts.medium);
        println!(
            "{tickets:?}, anchored every {anchor_every} syncs: {sealed} programs, {sealed_erases} erases, {} writes of the store",
            parts.store.count()
        );
        assert!(sealed <= programs + sealed_erases, "a ticket for each erase at most");
        assert_eq!(sealed_erases, erases, "no erase more");
    }
}
