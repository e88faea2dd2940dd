//! What a LUKS2 header says, as plain data.

use core::fmt::Write as _;

use atrest_format::luks2::{
    AreaKind, Digest, DigestKind, HeaderError, Kdf, Keyslot, KeyslotKind, Priority as FormatPriority,
    Reencryption, Requirement, Segment, SegmentKind, SegmentSize, keyring_description,
};

use super::Luks2;
use super::unlock::SEALED_BLOCK;
use crate::{
    AreaInfo, CopyInfo, DigestInfo, Info, KdfInfo, KeyslotInfo, Priority, ReencryptionInfo, SegmentInfo,
    TokenInfo, VolumeFormat,
};

impl Luks2 {
    /// Everything that the header says.
    pub fn info(&self) -> Info {
        let (binary, metadata) = (&self.pair.header.binary, self.metadata());
        let config = metadata.config();
        let copy =
            |offset, damage: Option<HeaderError>| CopyInfo { offset, damage: damage.map(|d| d.to_string()) };
        let unknown = |requirement: &&Requirement| {
            !requirement.is_reencryption() && **requirement != Requirement::Sealed
        };
        let tokens = metadata.tokens().iter();
        Info {
            format: VolumeFormat::Luks2,
            uuid: binary.uuid.as_str().into(),
            label: binary.label.as_str().into(),
            subsystem: binary.subsystem.as_str().into(),
            sequence: Some(binary.sequence),
            metadata_size: binary.header_size,
            keyslots_size: config.keyslots_size,
            copies: vec![copy(0, self.pair.primary), copy(binary.header_size, self.pair.secondary)],
            flags: config.flags.clone(),
            requirements: config.requirements.iter().map(|r| r.name().into()).collect(),
            unknown_requirements: config
                .requirements
                .iter()
                .filter(unknown)
                .map(|r| r.name().into())
                .collect(),
            segments: metadata.segments().iter().map(|segment| self.segment_info(segment)).collect(),
            keyslots: metadata.keyslots().iter().map(|keyslot| self.keyslot_info(keyslot)).collect(),
            tokens: tokens
                .map(|token| TokenInfo {
                    id: token.id,
                    kind: token.kind.clone(),
                    keyslots: token.keyslots.clone(),
                    key_description: self.token(token.id).as_deref().and_then(keyring_description),
                })
                .collect(),
            digests: metadata.digests().iter().map(digest_info).collect(),
            reencryption: metadata.reencryption().ok().map(|state| reencryption_info(&state)),
        }
    }

    fn segment_info(&self, segment: &Segment) -> SegmentInfo {
        let metadata = self.metadata();
        let keyslot = metadata.digest_of_segment(segment.id).and_then(|digest| digest.keyslots.first());
        let key_len = keyslot.and_then(|id| metadata.keyslot(*id)).map(|keyslot| keyslot.key_len.into());
        let mut info = SegmentInfo {
            id: segment.id,
            kind: String::new(),
            offset: segment.offset,
            size: match segment.size {
                SegmentSize::Dynamic => None,
                SegmentSize::Fixed(size) => Some(size),
            },
            cipher: String::new(),
            key_len,
            data_unit: 512,
            iv_offset: 0,
            integrity: None,
            integrity_key_len: None,
            flags: segment.flags.clone(),
        };
        match &segment.kind {
            SegmentKind::Crypt { encryption, sector_size, iv_tweak, integrity } => {
                info.kind = "crypt".into();
                info.cipher.clone_from(encryption);
                info.data_unit = *sector_size;
                info.iv_offset = *iv_tweak;
                info.integrity = integrity.as_ref().map(|integrity| integrity.kind.clone());
                info.integrity_key_len = integrity.as_ref().and_then(|integrity| integrity.key_size);
            }
            SegmentKind::Linear => info.kind = "linear".into(),
            SegmentKind::Sealed { .. } => {
                info.kind = "atrest-sealed".into();
                info.data_unit = SEALED_BLOCK;
            }
            SegmentKind::Unknown(kind) => info.kind.clone_from(kind),
        }
        info
    }

    fn keyslot_info(&self, keyslot: &Keyslot) -> KeyslotInfo {
        let digest = self.metadata().digest_of_keyslot(keyslot.id);
        let (kind, kdf, af) = match &keyslot.kind {
            KeyslotKind::Luks2 { af, kdf } => ("luks2", Some(kdf_info(kdf)), Some(af)),
            KeyslotKind::Reencrypt { .. } => ("reencrypt", None, None),
            KeyslotKind::Unknown(kind) => (kind.as_str(), None, None),
        };
        let (cipher, key_len) = match &keyslot.area.kind {
            AreaKind::Raw { encryption, key_len } => (Some(encryption.clone()), Some(*key_len)),
            AreaKind::Reencrypt(_) | AreaKind::Other(_) => (None, None),
        };
        KeyslotInfo {
            id: keyslot.id,
            kind: kind.into(),
            key_len: keyslot.key_len.into(),
            priority: match keyslot.priority {
                FormatPriority::Ignore => Priority::Ignore,
                FormatPriority::Normal => Priority::Normal,
                FormatPriority::Prefer => Priority::Prefer,
            },
            unbound: digest.is_some_and(|digest| digest.segments.is_empty()),
            kdf,
            af_stripes: af.map(|af| af.stripes),
            af_hash: af.map(|af| af.hash.clone()),
            area: Some(AreaInfo { offset: keyslot.area.offset, size: keyslot.area.size, cipher, key_len }),
            digest: digest.map(|digest| digest.id),
        }
    }
}

fn reencryption_info(state: &Reencryption) -> ReencryptionInfo {
    let checksums = state.resilience.checksums();
    let hot = state.hot.and_then(|index| state.active.get(index));
    ReencryptionInfo {
        mode: state.mode.name(),
        direction: state.direction.name(),
        resilience: state.resilience.name(),
        hash: checksums.map(|checksums| checksums.hash.clone()),
        checksum_sector: checksums.map(|checksums| checksums.sector_size),
        shift: state.resilience.shift(),
        hot: hot.map(|segment| match segment.size {
            SegmentSize::Fixed(len) => (segment.offset, Some(len)),
            SegmentSize::Dynamic => (segment.offset, None),
        }),
    }
}

fn kdf_info(kdf: &Kdf) -> KdfInfo {
    let kind = match kdf {
        Kdf::Pbkdf2 { .. } => "pbkdf2",
        Kdf::Argon2i(_) => "argon2i",
        Kdf::Argon2id(_) => "argon2id",
        Kdf::Unknown(kind) => kind,
    };
    let mut info = KdfInfo {
        kind: kind.into(),
        hash: None,
        iterations: 0,
        memory_kib: None,
        lanes: None,
        salt: String::new(),
    };
    match kdf {
        Kdf::Pbkdf2 { hash, iterations, salt } => {
            info.hash = Some(hash.clone());
            info.iterations = *iterations;
            info.salt = hex(salt);
        }
        Kdf::Argon2i(cost) | Kdf::Argon2id(cost) => {
            info.iterations = cost.time;
            info.memory_kib = Some(cost.memory_kib);
            info.lanes = Some(cost.lanes);
            info.salt = hex(&cost.salt);
        }
        Kdf::Unknown(_) => {}
    }
    info
}

fn digest_info(digest: &Digest) -> DigestInfo {
    let mut info = DigestInfo {
        id: digest.id,
        kind: String::new(),
        hash: None,
        iterations: None,
        salt: None,
        digest: None,
        keyslots: digest.keyslots.clone(),
        segments: digest.segments.clone(),
    };
    match &digest.kind {
        DigestKind::Pbkdf2 { hash, iterations, salt, digest } => {
            info.kind = "pbkdf2".into();
            info.hash = Some(hash.clone());
            info.iterations = Some(*iterations);
            info.salt = Some(hex(salt));
            info.digest = Some(hex(digest));
        }
        DigestKind::Unknown(kind) => info.kind.clone_from(kind),
    }
    info
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
