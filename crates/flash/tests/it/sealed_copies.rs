//! Serials that come twice: two copies of a volume and its store, both written to, and volumes made again under one key. What is sealed then
//! shares no keystream, and nothing of one copy is read in another.

use crate::any::{AnyVolume, any_flash, any_store};
use crate::sealed::{Bench, ERASE, FIRST, KEY, OPTIONS, STRIDE, Units};
use atrest_cipher::aead::{Aead, Aes128Ccm, Aes128Gcm, AsconAead128, ChaCha20Poly1305};
use atrest_device::FlashCause;
use atrest_flash::sealed::{SealedError, SealedOptions, Tickets};
use atrest_secret::{Random, RandomError};

/// Bytes of a block on the medium.
fn block(bench: &Bench, block: usize) -> Vec<u8> {
    bench.medium.lock().image().to_bytes()[block * ERASE..][..ERASE].to_vec()
}

/// Payload and serial of two units of a block.
fn cells(bytes: &[u8]) -> [(&[u8], &[u8]); 2] {
    [0, FIRST].map(|at| (&bytes[at..at + 72], &bytes[at + 72..at + 77]))
}

/// One session on a copy: two units of one byte each in block 6.
fn write<A: Aead>(bench: &Bench, byte: u8) {
    let mut volume = bench.mount::<A>().expect("mount");
    volume.clear(6).expect("erase");
    (0..2).for_each(|unit| volume.put(6, unit, byte).expect("program"));
    volume.clear(3).expect("erase with a ticket");
    volume.close().expect("close");
}

/// Checks that two blocks carry the same serials, and that the XOR of their ciphertexts is not that of their contents.
fn share_no_keystream(one: &[u8], other: &[u8], contents: u8) {
    for ((data, serial), (other_data, other_serial)) in cells(one).into_iter().zip(cells(other)) {
        assert_eq!(serial, other_serial, "the case is that serials come twice");
        let told = data.iter().zip(other_data).filter(|(a, b)| *a ^ *b == contents).count();
        assert!(told < 8, "{told} of 72 bytes are those of the contents");
    }
}

fn two_copies<A: Aead>() {
    let bench = Bench::new(OPTIONS);
    let mut volume = bench.format::<A>().expect("format");
    for block in [2, 3] {
        volume.clear(block).expect("erase");
        volume.put(block, 0, 1).expect("program");
    }
    volume.close().expect("close");
    drop(volume);
    let copy = bench.snapshot();
    write::<A>(&bench, 0xaa);
    write::<A>(&copy, 0x0f);
    share_no_keystream(&block(&bench, 6), &block(&copy, 6), 0xaa ^ 0x0f);
    // A block of the other copy, with the same epoch and as many units, put in the place of this one: before the opening, and after.
    for live in [false, true] {
        let attacked = bench.snapshot();
        let mut open = live.then(|| attacked.mount::<A>().expect("mount"));
        let foreign = block(&copy, 6);
        for unit in 0..ERASE / 32 {
            attacked.medium.lock().image_mut().put_unit(6, unit, &foreign[unit * 32..][..32]);
        }
        match &mut open {
            None => {
                let refused = attacked.mount::<A>().map(drop).expect_err("refused");
                assert!(matches!(refused, SealedError::NotAnchored { .. }), "{refused:?}");
            }
            Some(volume) => {
                for unit in 0..2 {
                    let tampered = FlashCause::Tampered { block: 6, unit };
                    assert_eq!(volume.unit(6, unit.into()), Err(tampered));
                }
            }
        }
    }
}

#[test]
fn two_copies_that_are_both_written_to_share_no_keystream_and_no_blocks() {
    two_copies::<ChaCha20Poly1305>();
    two_copies::<AsconAead128>();
    two_copies::<Aes128Gcm>();
    two_copies::<Aes128Ccm>();
}

/// Two machines open copies of a closed volume. Neither has anchored anything since its first record: what one has done is not accepted as what
/// the other has.
#[test]
fn what_a_copy_has_done_since_is_not_taken_for_what_this_one_has() {
    let bench = Bench::new(OPTIONS);
    let mut volume = bench.format::<ChaCha20Poly1305>().expect("format");
    volume.close().expect("close");
    drop(volume);
    let other = bench.snapshot();
    for (bench, byte) in [(&bench, 1), (&other, 2)] {
        let mut volume = bench.mount::<ChaCha20Poly1305>().expect("mount");
        volume.clear(7).expect("erase");
        (0..3).for_each(|unit| volume.put(7, unit, byte).expect("program"));
    }
    let own = bench.snapshot();
    assert_eq!(own.mount::<ChaCha20Poly1305>().expect("its own").unit(7, 2), Ok(vec![1; 72]));
    *bench.medium.lock().image_mut() = other.medium.lock().image().clone();
    let refused = bench.mount::<ChaCha20Poly1305>().map(drop).expect_err("refused");
    assert!(matches!(refused, SealedError::NotAnchored { .. }), "{refused:?}");
}

/// Units open under the salt that was anchored. What stands on the medium counts at an opening only.
#[test]
fn a_salt_is_read_at_an_opening_and_never_again() {
    let bench = Bench::new(OPTIONS);
    let mut volume = bench.format::<ChaCha20Poly1305>().expect("format");
    volume.clear(3).expect("erase");
    (0..2).for_each(|unit| volume.put(3, unit, 5).expect("program"));
    volume.anchor().expect("anchor");
    (1..=14).for_each(|back| bench.medium.lock().image_mut().flip(3, FIRST - back, 0));
    for unit in 0..2 {
        assert_eq!(volume.unit(3, unit).expect("its salt is in memory"), [5; 72]);
    }
    drop(volume);
    assert!(matches!(bench.mount::<ChaCha20Poly1305>(), Err(SealedError::NotAnchored { .. })));
}

#[test]
fn volumes_made_again_under_one_key_share_no_keystream() {
    let contents = [0xaa, 0x0f, 0x33];
    let made = contents.map(|byte| {
        // Store and medium were wiped.
        let bench = Bench::new(SealedOptions { tickets: Tickets::Store, ..OPTIONS });
        let mut volume = bench.format::<ChaCha20Poly1305>().expect("format");
        volume.clear(6).expect("erase");
        (0..2).for_each(|unit| volume.put(6, unit, byte).expect("program"));
        block(&bench, 6)
    });
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        share_no_keystream(&made[one], &made[other], contents[one] ^ contents[other]);
    }
    assert_eq!(STRIDE, 72 + 5 + 16 + 3);
}

struct Broken;

impl Random for Broken {
    fn fill(&mut self, _: &mut [u8]) -> Result<(), RandomError> {
        Err(RandomError)
    }
}

/// What a source gives that is not connected.
struct Dead(u8);

impl Random for Dead {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        out.fill(self.0);
        Ok(())
    }
}

#[test]
fn without_a_random_salt_nothing_is_made_or_opened() {
    let bench = Bench::new(OPTIONS);
    drop(bench.format::<ChaCha20Poly1305>().expect("format"));
    let (record, image) = (bench.store.record(), bench.medium.lock().image().to_bytes());
    let open = |mount: bool, random: &mut dyn Random| {
        let (table, buffer) = (vec![Default::default(); 12], vec![0; FIRST]);
        let (medium, store) = (any_flash(bench.medium.clone()), any_store(bench.store.clone()));
        let open = if mount {
            AnyVolume::<'_, ChaCha20Poly1305>::mount
        } else {
            AnyVolume::<ChaCha20Poly1305>::format_over
        };
        open(medium, store, &KEY, OPTIONS, table, buffer, random).map(drop)
    };
    for mount in [false, true] {
        assert_eq!(open(mount, &mut Broken), Err(SealedError::Random));
        assert_eq!(open(mount, &mut Dead(0)), Err(SealedError::Random));
        assert_eq!(open(mount, &mut Dead(0xff)), Err(SealedError::Random));
    }
    assert!(bench.store.record() == record && bench.medium.lock().image().to_bytes() == image);
}
