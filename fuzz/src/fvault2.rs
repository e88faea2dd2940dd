//! FileVault's header, disk label and metadata blocks, as they are once decrypted.

use atrest_format::fvault2::{BLOCK_LEN, Block, Content, Context, HEADER_LEN, Header, Label};

use crate::Reader;

/// A header, and a block that begins like it, both with their checksums put right if the choice says so.
pub fn fvault2(data: &[u8]) {
    let mut reader = Reader(data);
    let choice = reader.u8();
    let mut header: [u8; HEADER_LEN] = reader.array();
    let mut block: [u8; BLOCK_LEN] = reader.array();
    if choice & 0x80 != 0 {
        right(&mut header);
        right(&mut block);
    }
    if let Ok(Some(header)) = Header::read(&header) {
        assert!(header.block_size.is_power_of_two() && (512..=65536).contains(&header.block_size));
    }
    if Label::read(&block).is_ok() {
        let mut descriptor = [0; 40];
        descriptor.copy_from_slice(&block[8..48]);
        assert!(Label::metadata(&descriptor).0 < 1 << 48);
    }
    let Ok(block) = Block::read(&block) else { return };
    match block.content {
        Content::Context(context) => is_bounded(&context),
        Content::Volume(volume) => assert!(volume.size > 0),
        Content::Extents(extents) => assert!(extents.len() <= BLOCK_LEN / 40),
        Content::Other => {}
    }
}

/// The property list of `EncryptedRoot.plist.wipekey`, as it is once decrypted. It is longer than the lists that blocks have.
pub fn wipekey(list: &[u8]) {
    if let Ok(context) = Context::read(list) {
        is_bounded(&context);
    }
}

fn is_bounded(context: &Context) {
    assert!((1..=32).contains(&context.keks.len()) && (1..=32).contains(&context.keys.len()));
    assert!(context.keks.iter().all(|kek| (1..=100_000_000).contains(&kek.iterations)));
}

/// The CRC-32C in front, and its seed.
fn right(bytes: &mut [u8]) {
    let mut crc = !0_u32;
    for byte in &bytes[8..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes[4..8].fill(0xff);
}
