//! What sealing costs a medium under littlefs: a ticket for an erase, and a compaction of each metadata pair that is written to after the
//! volume was opened.

use crate::littlefs::{Change, Tree, play_on, suite};
use crate::sealed_rig::{OPTIONS, Parts, geometry, on, totals};
use atrest_device::FlashGeometry;
use atrest_flash::sealed::{SealedOptions, Tickets};
use atrest_testkit::flash::{EmulatedFlash, FlashImage, SharedFlash};
use littlefs2::fs::Filesystem;

#[test]
fn sealing_adds_a_ticket_for_each_erase_and_a_compaction_for_each_session_at_most() {
    let changes = suite(64 * 640);
    let bare = SharedFlash::new(EmulatedFlash::new(FlashGeometry::new(64, 64, 640, 64).expect("a geometry")));
    let mut storage = on(bare.clone());
    Filesystem::format(&mut storage).expect("format");
    let (played, result) = play_on(&mut storage, Tree::new(), &changes, |_| {});
    assert!(result.is_ok());
    let (programs, erases) = totals(&bare);
    println!("the medium alone: {programs} programs, {erases} erases");
    for (tickets, anchor_every) in [(Tickets::Slot, 1), (Tickets::Slot, 40), (Tickets::Store, 40)] {
        let options = SealedOptions { tickets, anchor_every, ..OPTIONS };
        for sessions in [0, 1, 15] {
            let (sealed, sealed_erases, writes, states) = in_sessions(options, &changes, sessions);
            assert_eq!(states, played.states);
            println!(
                "{tickets:?}, anchored every {anchor_every} syncs, opened {sessions} times: {sealed} programs, \
                 {sealed_erases} erases, {writes} writes of the store"
            );
            // The files lie in one directory: one pair of metadata blocks is written to in each session, and compacted once.
            let compactions = sessions as u64;
            assert!(
                sealed_erases <= erases + compactions,
                "no erase more but for a compaction in each session"
            );
            let copied = compactions * 9;
            assert!(sealed <= programs + copied + sealed_erases, "a ticket for each erase at most");
            assert!(sessions > 0 || sealed_erases == erases);
        }
    }
}

/// Makes the changes on a new volume that is closed and opened so many times. Units programmed, blocks erased, records written, and
/// the states of the tree.
fn in_sessions(options: SealedOptions, changes: &[Change], sessions: usize) -> (u64, u64, u64, Vec<Tree>) {
    let parts = Parts::new(FlashImage::erased(geometry(options.tickets)), None, options);
    let mut storage = on(parts.open(false).expect("format"));
    Filesystem::format(&mut storage).expect("format");
    let mut states = vec![Tree::new()];
    for part in changes.chunks(changes.len().div_ceil(sessions.max(1))) {
        if sessions > 0 {
            storage.into_device().close().expect("close");
            storage = on(parts.session());
        }
        let (played, result) = play_on(&mut storage, states.pop().expect("a state"), part, |_| {});
        assert!(result.is_ok());
        states.extend(played.states);
    }
    let (programs, erases) = totals(&parts.medium);
    (programs, erases, parts.store.count(), states)
}
