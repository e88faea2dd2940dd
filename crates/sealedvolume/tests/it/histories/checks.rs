//! What must hold.

use std::sync::Arc;

use atrest_device::{BlockDevice as _, Cause};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::volume::{Access, Head, VolumeError};

use super::world::{Opened, World, expected};
use crate::rig::truth::{BLOCKS, State};
use crate::rig::wild::{Mode, flip};

impl World {
    /// A volume may be opened only at a state that it had, not behind what is anchored or acknowledged.
    pub fn check_opened(&self, found: Head, anchored: Option<Head>) {
        let truth = self.truth.lock().expect("the truth");
        assert!(truth.node(&found.chain).is_some(), "opened at something that was never written");
        let evil = self.mode == Mode::Evil;
        if !evil {
            for acked in &self.acked {
                assert!(
                    truth.is_before(&acked.chain, &found.chain),
                    "a flush is lost, on a store that does not lie"
                );
            }
        }
        let Some(anchored) = anchored else { return };
        if self.rolled && evil {
            return;
        }
        assert!(
            truth.is_before(&anchored.chain, &found.chain),
            "a rollback or fork behind the record was accepted"
        );
        let session = truth.node(&anchored.chain).expect("it was sealed").opening;
        for node in truth.back(&found.chain).take_while(|node| node.head != anchored) {
            assert!(
                node.begin || node.opening == session,
                "beyond the record something of another session was accepted"
            );
        }
        if self.anchor_every == 1 && !self.rolled {
            for acked in &self.acked {
                assert!(
                    truth.is_before(&acked.chain, &found.chain),
                    "a flush that was anchored is lost unnoticed"
                );
            }
        }
    }

    /// Everything is what it was, or an error; and no error is without a cause. Returns how many blocks are errors.
    pub fn check_reads(&mut self, opened: &Opened, caused: bool) -> usize {
        if opened.uncertain.get() {
            return 0;
        }
        let state = *opened.spy.state.lock().expect("the state");
        let caused = caused || self.mode == Mode::Evil || self.tampered;
        let mut bad = self.check_blocks(&opened.volume, &state, caused);
        let Ok(head) = opened.volume.head() else { return bad };
        let snapshots =
            self.truth.lock().expect("the truth").node(&head.chain).expect("it was sealed").snapshots.clone();
        let listed = opened.volume.snapshots().expect("snapshots");
        assert!(
            listed.iter().map(|snapshot| snapshot.id).eq(snapshots.keys().copied()),
            "snapshots vanished or came back"
        );
        for (id, state) in snapshots {
            match opened.volume.snapshot(id) {
                Ok(snapshot) => bad += self.check_blocks(&snapshot, &state, caused),
                Err(VolumeError::Unreachable(_)) => {}
                Err(error) => assert!(caused, "a snapshot is lost: {error:?}"),
            }
        }
        bad
    }

    fn check_blocks(&mut self, volume: &SealedVolume, state: &State, caused: bool) -> usize {
        let mut bad = 0;
        for (index, block) in BLOCKS.iter().enumerate() {
            let mut buf = [0; 4096];
            match volume.read_at(block * 4096, &mut buf) {
                Ok(()) => {
                    self.totals.reads += 1;
                    assert!(buf[..] == expected(state, index), "wrong data was read from block {block}");
                }
                Err(error) => {
                    self.totals.read_errors += 1;
                    assert!(caused || error.cause == Cause::Silent, "an error without a cause: {error:?}");
                    bad += 1;
                }
            }
        }
        bad
    }

    /// A bit that is flipped costs the block that it lies in at most.
    pub fn check_flip(&mut self, opened: &Opened) {
        self.totals.flips += 1;
        let fuse = self.store.inner().fuse.take();
        let shown: Vec<String> = self.store.inner().objects.keys().cloned().collect();
        let name = self.random.pick(&shown).clone();
        let old = Arc::clone(&self.store.inner().objects[&name]);
        let flipped = flip(&old, &mut self.random);
        self.store.inner().objects.insert(name.clone(), flipped);
        let reader = self
            .open(Access::Read)
            .unwrap_or_else(|(error, _)| panic!("a flipped bit of {name} cost the volume: {error:?}"));
        assert_eq!(
            reader.volume.head(),
            opened.volume.head(),
            "a flipped bit of {name} cost the tail of the log"
        );
        let state = *reader.spy.state.lock().expect("the state");
        let bad = self.check_blocks(&reader.volume, &state, true);
        assert!(bad <= 1, "a flipped bit of {name} cost {bad} blocks");
        let mut inner = self.store.inner();
        inner.objects.insert(name, old);
        inner.fuse = fuse;
    }

    /// Nobody is told that somebody else writes, unless somebody does.
    pub fn check_alarm(&self, opened: &Opened, fenced: bool) {
        let alone = self.mode != Mode::Evil && !self.tampered && self.live == opened.opening;
        assert!(!(fenced && alone), "fenced, and nobody else writes");
    }
}
