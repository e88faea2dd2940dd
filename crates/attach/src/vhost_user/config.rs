//! What the device offers, and its configuration space (virtio 1.2, sections 5.2.3 and 5.2.4).

use atrest_codec::{Le, encode};
use atrest_device::{BlockDevice, SECTOR_SIZE};

/// Feature bits of the block device.
pub(super) mod feature {
    pub const SEG_MAX: u64 = 1 << 2;
    pub const RO: u64 = 1 << 5;
    pub const BLK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const MQ: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
    /// Feature bits of every device.
    pub const RING_INDIRECT_DESC: u64 = 1 << 28;
    pub const RING_EVENT_IDX: u64 = 1 << 29;
    pub const VERSION_1: u64 = 1 << 32;
    /// The front-end's, not the guest's: there are protocol features.
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
}

/// Segments of data in one request: with the header and the status they fill the queue of 128 that front-ends make.
pub(super) const MAX_SEGMENTS: u32 = 126;
/// Bytes that one segment may discard. What the media does with it takes no time that grows with it.
pub(super) const MAX_DISCARD: u64 = 1 << 30;
/// Ranges in one request to discard.
pub(super) const MAX_DISCARD_SEGMENTS: u32 = 32;
/// Bytes that one segment may set to zero: they are encrypted and written.
pub(super) const MAX_WRITE_ZEROES: u64 = 64 << 20;
/// Ranges in one request to write zeroes.
pub(super) const MAX_WRITE_ZEROES_SEGMENTS: u32 = 1;

/// The features of a device.
pub(super) fn features(device: &dyn BlockDevice) -> u64 {
    let always = feature::SEG_MAX
        | feature::BLK_SIZE
        | feature::FLUSH
        | feature::TOPOLOGY
        | feature::MQ
        | feature::RING_INDIRECT_DESC
        | feature::RING_EVENT_IDX
        | feature::VERSION_1
        | feature::PROTOCOL_FEATURES;
    let writes = if device.is_read_only() { feature::RO } else { feature::DISCARD | feature::WRITE_ZEROES };
    always | writes
}

/// `struct virtio_blk_config` up to the fields of write zeroes.
pub(super) const CONFIG_LEN: usize = 60;

/// The configuration space of a device with this many queues.
pub(super) fn configuration(device: &dyn BlockDevice, queues: u16) -> [u8; CONFIG_LEN] {
    let geometry = device.geometry();
    // Drivers know blocks of 512 bytes to a page of theirs, which is 4096 bytes where it is smallest.
    let block = geometry.logical_block.clamp(512, 4096);
    let blocks = |bytes: u32| (bytes / block).max(1);
    let sectors = |bytes: u64| (bytes / SECTOR_SIZE) as u32;
    let topology = (
        [blocks(geometry.physical_block).ilog2() as u8, 0],
        // intended: an optimum that does not fit is as good as a large one.
        Le(u16::try_from(blocks(geometry.physical_block)).unwrap_or(u16::MAX)),
        Le(blocks(geometry.optimal_alignment)),
    );
    encode((
        (Le(device.size() / SECTOR_SIZE), Le(0u32), Le(MAX_SEGMENTS), [0u8; 4], Le(block)),
        topology,
        ([0u8; 2], Le(queues)),
        (
            Le(sectors(MAX_DISCARD)),
            Le(MAX_DISCARD_SEGMENTS),
            Le(sectors(u64::from(geometry.physical_block)).max(1)),
        ),
        (Le(sectors(MAX_WRITE_ZEROES)), Le(MAX_WRITE_ZEROES_SEGMENTS), [0u8; 4]),
    ))
}
