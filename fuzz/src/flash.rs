//! The compact header of encrypted flash: two copies on a medium, opened, unlocked, changed and repaired.

use atrest_device::FlashGeometry;
use atrest_flash::{AnchorError, AnchorHeader, CopyState, FlashHeader, FoundHeader, HeaderMark, NewSlot};
use atrest_keyslot::flash::{AnyKdf, FlashKey, HEADER_LEN, Header, HeaderEdit, KdfCost};
use atrest_secret::{Random, RandomError};
use sha2::{Digest, Sha256};

use crate::medium::{Keeps, Medium};

/// Hash calls that one input may cost.
const MAX_WORK: u64 = 1 << 14;
const MAX_MEMORY: u64 = 1 << 20;

/// Not random at all, and the same every time.
pub(crate) struct Fixed;

impl Random for Fixed {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        out.iter_mut().zip(1..).for_each(|(byte, i)| *byte = i);
        Ok(())
    }
}

/// One or two copies, as they are and with checksums that fit. Blocks of 512 bytes, 64 of them.
pub fn flash_header(data: &[u8]) {
    let mut copies = [[0xff; HEADER_LEN]; 2];
    for (copy, part) in copies.iter_mut().zip(data.chunks(HEADER_LEN)) {
        copy[..part.len()].copy_from_slice(part);
    }
    use_medium(&copies);
    for copy in &mut copies {
        if *copy != [0xff; HEADER_LEN] {
            let sum = Sha256::digest(&copy[..480]);
            copy[480..].copy_from_slice(&sum);
        }
    }
    use_medium(&copies);
}

fn use_medium(copies: &[[u8; HEADER_LEN]; 2]) {
    let mut cheap = true;
    for copy in copies {
        let Ok(header) = Header::parse(copy) else { continue };
        // What was read writes itself back.
        let mut again = [0xee; HEADER_LEN];
        HeaderEdit::create(&mut again, header.params()).expect("it was accepted").finish(header.sequence());
        let again = Header::parse(&again).expect("what was read is accepted again");
        assert_eq!((again.params(), again.sequence()), (header.params(), header.sequence()));
        for number in header.slots_in_use() {
            let slot = header.slot(number).expect("it is in use");
            assert_eq!(slot.wrapped.len(), usize::from(header.params().key_len) + 8);
            cheap &= slot.kdf.work() <= MAX_WORK && slot.kdf.memory_bytes() <= MAX_MEMORY;
        }
    }
    let geometry = FlashGeometry::new(1, 16, 512, 64).expect("a geometry");
    let mut medium = Medium::new(geometry, Keeps::Order);
    medium.bytes[..1024].copy_from_slice(copies.as_flattened());
    let Ok(mut header) = FlashHeader::open(&mut medium, [0; 64]) else {
        assert_eq!(medium.writes, 0, "reading writes nothing");
        return;
    };
    let count = header.header().expect("it is open").slots_in_use().count();
    let mut key = FlashKey::empty();
    let slot = match cheap {
        true => header.unlock(None, b"fuzz", &mut AnyKdf, None, &mut key).ok(),
        false => None,
    };
    header.repair().expect("a medium without faults");
    if let Some(slot) = slot {
        let cost = KdfCost::Pbkdf2 { iterations: 1 };
        let new = NewSlot { passphrase: b"new", cost, kdf: &mut AnyKdf, device: None, random: &mut Fixed };
        // The last sequence number there is stops changes.
        if header.change_key(slot, &key, new, Some(&mut Agrees)).is_ok() {
            let opened = header.unlock(Some(slot), b"new", &mut AnyKdf, None, &mut key);
            assert_eq!(opened, Ok(slot));
        }
        if count > 1 && header.remove_key(slot, Some(&mut Agrees)).is_ok() {
            assert_eq!(header.header().expect("it is open").slots_in_use().count(), count - 1);
        }
    }
    header.erase_keys(None).expect("a medium without faults");
    let header = FlashHeader::open(&mut medium, [0; 64]).expect("what was written");
    assert_eq!(header.copy_states(), [CopyState::Current; 2]);
    assert_eq!(header.header().expect("it is open").slots_in_use().count(), 0);
    assert_eq!(medium.bytes[..512], medium.bytes[512..1024]);
}

/// The store of a sealed volume that takes every header.
pub(crate) struct Agrees;

impl AnchorHeader for Agrees {
    fn announce(&mut self, _: FoundHeader, _: HeaderMark) -> Result<(), AnchorError> {
        Ok(())
    }

    fn settle(&mut self, _: FoundHeader) -> Result<(), AnchorError> {
        Ok(())
    }
}

/// A header for the seeds: keyslots of this cost that the passphrase `fuzz` opens.
pub fn flash_header_seed(costs: &[KdfCost]) -> Vec<u8> {
    use atrest_flash::{Existing, FormatOptions};
    use atrest_keyslot::flash::{FlashCipher, Protection};

    let geometry = FlashGeometry::new(1, 16, 512, 64).expect("a geometry");
    let mut medium = Medium::new(geometry, Keeps::Order);
    let options = FormatOptions {
        cipher: FlashCipher::AesXts,
        key_len: 32,
        data_unit: 512,
        protection: Protection::Encrypted,
        existing: Existing::Refuse,
    };
    let mut key = FlashKey::empty();
    let slot = |cost: &KdfCost| (*cost, b"fuzz");
    let (cost, passphrase) = slot(&costs[0]);
    let first = NewSlot { passphrase, cost, kdf: &mut AnyKdf, device: None, random: &mut Fixed };
    let mut header = FlashHeader::format(&mut medium, [0; 64], &options, first, &mut key).expect("a volume");
    for (cost, passphrase) in costs[1..].iter().map(slot) {
        let new = NewSlot { passphrase, cost, kdf: &mut AnyKdf, device: None, random: &mut Fixed };
        header.add_key(None, &key, new, None).expect("a free keyslot");
    }
    medium.bytes.truncate(1024);
    medium.bytes
}
