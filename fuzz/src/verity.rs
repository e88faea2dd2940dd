//! dm-verity: superblocks, and whole trees over data of zeros.

use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::verity::{
    Extent, FecOptions, HashType, Layout, Pace, Parts, Superblock, Together, VerityDevice, VerityOptions,
    check,
};
use atrest_kdf::{Hash, digest};

use crate::Image;

/// Data and trees up to here are read as a whole.
const SMALL: u64 = 1 << 20;
/// Devices are as long as this where a superblock says more.
const DEVICE: u64 = 64 << 20;

/// A superblock with the tree behind it: parsed, laid out, read against the hash of its own top block. The data is zeros, and so is the
/// parity.
pub fn verity(data: &[u8]) {
    if let Ok(superblock) = Superblock::parse(data) {
        let again = Superblock::parse(&superblock.compose()).expect("what was composed parses");
        assert_eq!(again, superblock);
        for len in [0, 7, 88, 511] {
            assert!(Superblock::parse(&data[..len]).is_err(), "a superblock of {len} bytes");
        }
    }
    let tree = Image::new(DEVICE, &data[..data.len().min(1 << 20)]);
    let Ok((_, layout)) = Layout::read(&*tree, 0) else { return };
    let laid_out = layout.tree();
    for pair in laid_out.levels().windows(2) {
        assert!(pair[1].first + pair[1].blocks == pair[0].first && pair[1].blocks <= pair[0].blocks);
    }
    assert!(laid_out.levels().last().is_none_or(|top| top.blocks == 1 && top.first == laid_out.first()));
    let zeros = Image::new(DEVICE, &[]);
    // The last bytes are those that no superblock reads.
    let last = |at: usize| data.get(at).copied().unwrap_or(0);
    let (roots, separate) = (u32::from(last(511) % 32), last(510) % 2 == 0);
    let together = Together { tree_parity: !separate, ..Together::default() };
    let options = FecOptions { roots, offset: u64::from(last(509)) * 512 };
    let with_fec = layout.clone().with_fec(options, tree.size(), together);
    if let Ok(with_fec) = &with_fec {
        let fec = with_fec.fec().expect("it was added");
        for block in [0, fec.blocks() / 2, fec.blocks() - 1] {
            let (round, index) = fec.codeword(block).expect("it is covered");
            assert_eq!(fec.covered(round, index), Some(block));
        }
    }
    let Some(root) = own_root(&layout, &tree, &zeros) else { return };
    for layout in [Some(layout), with_fec.ok()].into_iter().flatten() {
        let parity: Arc<dyn BlockDevice> = zeros.clone();
        let parts = Parts { data: zeros.clone(), tree: tree.clone(), parity: Some(parity) };
        read(parts, layout, &root);
    }
}

/// The hash of the block at the top: whoever made the tree can choose it, and all that the tree vouches for.
fn own_root(layout: &Layout, tree: &Image, data: &Image) -> Option<Vec<u8>> {
    let parameters = layout.parameters();
    let mut block = vec![0; layout.tree().block() as usize];
    match layout.tree().levels().last() {
        Some(top) => tree.read_at(top.first.checked_mul(block.len() as u64)?, &mut block).ok()?,
        None => {
            block.resize(parameters.data_block() as usize, 0);
            data.read_at(0, &mut block).ok()?;
        }
    }
    let parts = match parameters.hash_type() {
        HashType::ChromeOs => [&block, parameters.salt()],
        HashType::Normal => [parameters.salt(), &block],
    };
    let mut root = vec![0; layout.tree().digest_len()];
    digest(Hash::from_name(parameters.hash())?, &parts, &mut root);
    Some(root)
}

fn read(parts: Parts, layout: Layout, root: &[u8]) {
    let small = layout.parameters().data_len() <= SMALL && layout.tree().end_bytes() <= SMALL;
    let fec_is_small = layout.fec().is_none_or(|fec| fec.rounds() <= 4 && fec.block() <= 4096);
    let (block, data_len) = (layout.parameters().data_block(), layout.parameters().data_len());
    let Ok(device) = VerityDevice::new(parts.clone(), layout.clone(), root, VerityOptions::default()) else {
        return;
    };
    if !fec_is_small {
        return;
    }
    for offset in [0, data_len / 2, data_len - 1] {
        let mut buf = vec![0xff; (block as usize).min((data_len - offset) as usize).min(4096)];
        if device.read_at(offset, &mut buf).is_ok() {
            // Nothing else is there, and nothing else has been hashed, but what parity of zeros may make of it.
            assert!(device.repaired() > 0 || buf.iter().all(|byte| *byte == 0), "data of nobody");
        }
    }
    if small && layout.fec().is_none() {
        let mut progress = |_, _| {};
        let mut pace = Pace { threads: 1, cancel: None, progress: &mut progress, done: 0, total: 0 };
        let report = check(parts.clone(), layout.clone(), root, Extent::All, &mut pace)
            .expect("devices in memory do not fail");
        assert!(report.bad_data + report.unknown <= data_len / u64::from(block));
        let first = check(parts, layout, root, Extent::ToFirstBad, &mut pace).expect("as before");
        assert_eq!(first.is_good(), report.is_good(), "both find whether something is bad");
    }
}
