//! Bytes that are not acceptable, and places against the examples of the kernel's documentation. What veritysetup writes is compared in
//! `engine`.

use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn parameters() -> Parameters {
    Parameters::check(HashType::Normal, "sha256", (4096, 4096), 262_144, &[7; 32]).expect("legal")
}

fn composed() -> [u8; SUPERBLOCK_LEN] {
    Superblock { uuid: [0xab; 16], parameters: parameters() }.compose()
}

/// A superblock with other bytes at one place.
fn with(at: usize, bytes: &[u8]) -> Result<Superblock, SuperblockError> {
    let mut superblock = composed();
    superblock[at..at + bytes.len()].copy_from_slice(bytes);
    Superblock::parse(&superblock)
}

#[test]
fn a_superblock_has_its_fields_where_the_description_has_them() {
    let bytes = composed();
    assert_eq!(bytes[..8], *b"verity\0\0");
    assert_eq!(bytes[8..16], [1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(bytes[16..32], [0xab; 16]);
    assert_eq!(bytes[32..39], *b"sha256\0");
    assert_eq!(bytes[64..80], [0, 16, 0, 0, 0, 16, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[80..88], [32, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[88..120], [7; 32]);
    assert!(bytes[120..].iter().all(|byte| *byte == 0));
    assert_eq!(Superblock::parse(&bytes).expect("legal").parameters, parameters());
}

#[test]
fn each_field_that_is_not_acceptable_is_named() {
    let wrong = |error| Err(SuperblockError::Parameter(error));
    assert_eq!(Superblock::parse(&composed()[..511]), Err(SuperblockError::Missing));
    assert_eq!(with(7, &[1]), Err(SuperblockError::Missing));
    assert_eq!(with(8, &[2]), Err(SuperblockError::Version(2)));
    assert_eq!(with(12, &[2]), Err(SuperblockError::HashType(2)));
    for name in [&b"\0"[..], b"SHA256\0", b"sha 256\0", b"\xff\0", &[b'a'; 32]] {
        assert_eq!(with(32, name), wrong(ParameterError::HashName), "{name:?}");
    }
    for bytes in [0_u32, 256, 513, 6144, 1 << 20, 1 << 31, u32::MAX] {
        assert_eq!(with(64, &bytes.to_le_bytes()), wrong(ParameterError::Block { bytes }));
        assert_eq!(with(68, &bytes.to_le_bytes()), wrong(ParameterError::Block { bytes }));
    }
    for blocks in [0, 1 << 51, u64::MAX / 4096 + 1, u64::MAX] {
        assert_eq!(with(72, &blocks.to_le_bytes()), wrong(ParameterError::DataBlocks { blocks }));
    }
    with(72, &((1_u64 << 51) - 1).to_le_bytes()).expect("as much as offsets can say");
    assert_eq!(with(80, &[1, 1]), wrong(ParameterError::Salt { bytes: 257 }));
    with(80, &[0, 1]).expect("256 bytes");
    let long = Parameters::check(HashType::Normal, "sha256", (512, 512), 1, &[0; 257]);
    assert_eq!(long, Err(ParameterError::Salt { bytes: 257 }));
}

fn tree(blocks: u64, digest: usize, hash_type: HashType, place: TreePlace) -> Result<Tree, TreeError> {
    let parameters = Parameters::check(hash_type, "sha256", (4096, 4096), blocks, &[]).expect("legal");
    Tree::new(&parameters, digest, place)
}

const AT_0: TreePlace = TreePlace { offset: 0, superblock: true };

#[test]
fn levels_lie_behind_each_other_the_top_first() {
    let first_blocks = |blocks| {
        let tree = tree(blocks, 32, HashType::Normal, AT_0).expect("a tree");
        let levels: Vec<_> = tree.levels().iter().map(|level| (level.first, level.blocks)).collect();
        (levels, tree.end())
    };
    assert_eq!(first_blocks(1), (Vec::new(), 1));
    assert_eq!(first_blocks(2), (vec![(1, 1)], 2));
    assert_eq!(first_blocks(128), (vec![(1, 1)], 2));
    assert_eq!(first_blocks(129), (vec![(2, 2), (1, 1)], 4));
    assert_eq!(first_blocks(262_144), (vec![(18, 2048), (2, 16), (1, 1)], 2066));
    let without = TreePlace { offset: 8192, superblock: false };
    assert_eq!(tree(2, 32, HashType::Normal, without).expect("a tree").first(), 2);
    let odd = TreePlace { offset: 512, superblock: true };
    assert_eq!(tree(2, 32, HashType::Normal, odd).expect("a tree").first(), 1);
    let next = TreePlace { offset: 4096 - 512 + 512, superblock: true };
    assert_eq!(tree(2, 32, HashType::Normal, next).expect("a tree").first(), 2);
}

#[test]
fn hashes_have_a_power_of_two_of_bytes_but_with_chrome_os() {
    let stride = |digest, hash_type| {
        let tree = tree(1000, digest, hash_type, AT_0).expect("a tree");
        (tree.stride(), tree.digests_per_block(), tree.parent(130))
    };
    assert_eq!(stride(20, HashType::Normal), (32, 128, (1, 64)));
    assert_eq!(stride(20, HashType::ChromeOs), (20, 128, (1, 40)));
    assert_eq!(stride(48, HashType::Normal), (64, 64, (2, 128)));
}

#[test]
fn trees_that_cannot_be_are_refused() {
    for digest in [0, 2049, usize::MAX] {
        let refused = Err(TreeError::Digest { digest, block: 4096 });
        assert_eq!(tree(2, digest, HashType::Normal, AT_0), refused);
    }
    tree(2, 2048, HashType::Normal, AT_0).expect("two of them");
    let place = |offset, superblock| tree(2, 32, HashType::Normal, TreePlace { offset, superblock });
    assert_eq!(place(511, true), Err(TreeError::Offset { offset: 511, multiple: 512 }));
    assert_eq!(place(512, false), Err(TreeError::Offset { offset: 512, multiple: 4096 }));
    for offset in [u64::MAX - 511, (1 << 63) - 4096, 1 << 63] {
        assert_eq!(place(offset, true), Err(TreeError::TooLarge), "{offset}");
    }
    place((1 << 63) - 3 * 4096, true).expect("it ends before 2^63");
}

#[test]
fn every_covered_block_has_one_place_in_the_code() {
    for roots in [2, 3, 24] {
        let fec = Fec::new(roots, (512, 512), (1000, 77), 1024).expect("a code");
        let mut seen = vec![0; 1077];
        for round in 0..fec.rounds() {
            for index in 0..fec.data_len() {
                let Some(block) = fec.covered(round, index) else { continue };
                assert_eq!(fec.codeword(block), Some((round, index)));
                seen[block as usize] += 1;
            }
        }
        assert!(seen.iter().all(|times| *times == 1));
        assert_eq!(fec.codeword(1077), None);
        assert_eq!(fec.rounds(), 1077_u64.div_ceil(255 - u64::from(roots)));
        assert_eq!(fec.end(), 1024 + fec.rounds() * u64::from(roots) * 512);
        assert_eq!(fec.parity_at(1, 3), 1024 + (512 + 3) * u64::from(roots));
    }
}

#[test]
fn codes_that_cannot_be_are_refused() {
    let code = |roots, sizes, blocks, offset| Fec::new(roots, sizes, blocks, offset).map(|_| ());
    for roots in [0, 1, 25, u32::MAX] {
        assert_eq!(code(roots, (512, 512), (1, 1), 0), Err(FecError::Roots { roots }));
    }
    assert_eq!(code(2, (512, 4096), (1, 1), 0), Err(FecError::BlockSizes));
    assert_eq!(code(2, (512, 512), (1, 1), 100), Err(FecError::Offset { offset: 100 }));
    for (blocks, offset) in
        [((u64::MAX, 1), 0), ((1 << 54, 0), 0), ((1, 1), (1 << 63) - 512), ((1 << 50, 1 << 55), 0)]
    {
        assert_eq!(code(2, (512, 512), blocks, offset), Err(FecError::TooLarge), "{blocks:?} {offset}");
    }
}
