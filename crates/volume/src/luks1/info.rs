//! The header as plain data.

use atrest_device::SECTOR_SIZE;
use atrest_keyslot::luks1::{HEADER_LEN, Header, SlotState, repair};

use crate::{
    AreaInfo, CopyInfo, DigestInfo, Info, KdfInfo, KeyslotInfo, Priority, SegmentInfo, VolumeFormat,
};

pub(super) fn info(header: &Header) -> Info {
    let wrong = repair(&header.encode()).is_ok_and(|repaired| repaired.names);
    let damage = wrong.then(|| {
        let (mode, hash) = (header.cipher_mode(), header.hash_name());
        format!("the mode {mode} or the hash {hash} is not written as it must be")
    });
    let cipher = format!("{}-{}", header.cipher_name(), header.cipher_mode());
    let key_len = header.key_len() as u64;
    // cannot be empty: there are eight keyslots.
    let first_area = header.slots().map(|(_, slot)| u64::from(slot.sector)).min().unwrap_or(0);
    let keyslots: Vec<KeyslotInfo> = header
        .slots()
        .filter(|(_, slot)| slot.state == SlotState::InUse)
        .map(|(number, slot)| KeyslotInfo {
            id: number as u32,
            kind: "luks1".into(),
            key_len,
            priority: Priority::Normal,
            unbound: false,
            kdf: Some(KdfInfo {
                kind: "pbkdf2".into(),
                hash: Some(header.hash_name().into()),
                iterations: slot.iterations,
                memory_kib: None,
                lanes: None,
                salt: hexadecimal(&slot.salt),
            }),
            af_stripes: Some(slot.stripes),
            af_hash: Some(header.hash_name().into()),
            area: header.area(number).map(|(offset, size)| AreaInfo {
                offset,
                size: size as u64,
                cipher: Some(cipher.clone()),
                key_len: u32::try_from(key_len).ok(),
            }),
            digest: Some(0),
        })
        .collect();
    let in_use = keyslots.iter().map(|keyslot| keyslot.id).collect();
    Info {
        format: VolumeFormat::Luks1,
        uuid: header.uuid().into(),
        label: String::new(),
        subsystem: String::new(),
        sequence: None,
        metadata_size: HEADER_LEN as u64,
        // cannot overflow: a number of 32 bits times 512, not behind the last area.
        keyslots_size: header.areas_end().saturating_sub(first_area.saturating_mul(SECTOR_SIZE)),
        copies: vec![CopyInfo { offset: 0, damage }],
        flags: Vec::new(),
        requirements: Vec::new(),
        unknown_requirements: Vec::new(),
        segments: vec![SegmentInfo {
            id: 0,
            kind: "crypt".into(),
            // cannot overflow: a number of 32 bits times 512.
            offset: u64::from(header.data_sector()).saturating_mul(SECTOR_SIZE),
            size: None,
            cipher,
            key_len: Some(key_len),
            data_unit: 512,
            iv_offset: 0,
            integrity: None,
            integrity_key_len: None,
            flags: Vec::new(),
        }],
        keyslots,
        tokens: Vec::new(),
        digests: vec![DigestInfo {
            id: 0,
            kind: "pbkdf2".into(),
            hash: Some(header.hash_name().into()),
            iterations: Some(header.digest_iterations()),
            salt: Some(hexadecimal(header.digest_salt())),
            digest: Some(hexadecimal(header.digest())),
            keyslots: in_use,
            segments: vec![0],
        }],
        reencryption: None,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
