//! JSON metadata, parsed: whoever holds a [`Metadata`] holds one that passed every rule.

use alloc::string::String;
use alloc::vec::Vec;

use base64ct::{Base64, Encoding};

use super::json::{self, Object};
use super::view::{
    Af, Area, AreaKind, Argon2, Config, Digest, DigestKind, Integrity, Kdf, Keyslot, KeyslotKind, Priority,
    Requirement, SEALED, Segment, SegmentKind, SegmentSize, Token,
};
use super::{
    Checksums, HeaderError, Item, MAX_DIGESTS, MAX_KEYSLOTS, ReencryptDirection, ReencryptMode, Resilience,
    SALT_LEN, Section, Shift, rules,
};

/// The metadata of a LUKS2 header. What is not understood but permitted is kept as it was read.
#[derive(Clone, Debug)]
pub struct Metadata {
    pub(crate) document: Object,
    keyslots: Vec<Keyslot>,
    tokens: Vec<Token>,
    segments: Vec<Segment>,
    digests: Vec<Digest>,
    config: Config,
}

impl Metadata {
    /// Parses a JSON area as it lies on the device, with the zeros behind the text.
    ///
    /// # Errors
    /// [`HeaderError`] with the first thing that is wrong: in the JSON text, then in the type of a field,
    /// then in how the parts go together.
    pub fn parse(area: &[u8]) -> Result<Self, HeaderError> {
        let text = json::text_of_area(area)?;
        json::check(text)?;
        let document = Object::parse(text).ok_or(HeaderError::JsonStart)?;
        Self::from_document(document, area.len() as u64)
    }

    /// Reads the types from a document and applies the rules.
    pub(crate) fn from_document(document: Object, json_size: u64) -> Result<Self, HeaderError> {
        let mut metadata = Self {
            keyslots: members(&document, Section::Keyslots, MAX_KEYSLOTS, keyslot)?,
            tokens: members(&document, Section::Tokens, MAX_KEYSLOTS, token)?,
            segments: members(&document, Section::Segments, MAX_KEYSLOTS, segment)?,
            digests: members(&document, Section::Digests, MAX_DIGESTS, digest)?,
            config: config(&document)?,
            document,
        };
        metadata.keyslots.sort_by_key(|keyslot| keyslot.id);
        metadata.tokens.sort_by_key(|token| token.id);
        metadata.segments.sort_by_key(|segment| segment.id);
        metadata.digests.sort_by_key(|digest| digest.id);
        rules::check(&metadata, json_size)?;
        Ok(metadata)
    }

    /// The JSON text, without padding.
    pub fn to_json(&self) -> String {
        self.document.to_text()
    }

    /// Keyslots in the order of their numbers.
    pub fn keyslots(&self) -> &[Keyslot] {
        &self.keyslots
    }

    /// A keyslot.
    pub fn keyslot(&self, id: u32) -> Option<&Keyslot> {
        self.keyslots.iter().find(|keyslot| keyslot.id == id)
    }

    /// Tokens in the order of their numbers.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// A token's JSON text, byte for byte as it was read.
    pub fn token_text(&self, id: u32) -> Option<String> {
        let token = self.document.object(Section::Tokens.name())?;
        token.text(&number_text(id)).map(String::from)
    }

    /// Segments in the order of their numbers, backup segments included.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Digests in the order of their numbers.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// The digest of a keyslot's key.
    pub fn digest_of_keyslot(&self, keyslot: u32) -> Option<&Digest> {
        self.digests.iter().find(|digest| digest.keyslots.contains(&keyslot))
    }

    /// The digest of a segment's key.
    pub fn digest_of_segment(&self, segment: u32) -> Option<&Digest> {
        self.digests.iter().find(|digest| digest.segments.contains(&segment))
    }

    /// Sizes, flags and requirements.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// First byte of the keyslots area.
    pub fn keyslots_start(&self) -> u64 {
        // cannot overflow: rules::sizes takes JSON sizes of a fixed list, up to 4 MiB.
        self.config.json_size.saturating_add(super::BINARY_SIZE as u64).saturating_mul(2)
    }

    /// First byte behind the keyslots area.
    pub fn keyslots_end(&self) -> u64 {
        // cannot overflow: rules::sizes takes up to 128 MiB of keyslots.
        self.keyslots_start().saturating_add(self.config.keyslots_size)
    }

    /// First byte of the data on the data device.
    pub fn data_offset(&self) -> u64 {
        let active = self.segments.iter().filter(|s| !s.is_backup()).map(|s| s.offset);
        // cannot be empty: rules::segments asks for an active segment.
        active.min().unwrap_or(0)
    }

    /// Start of the first gap of the keyslots area that has room for `size` bytes.
    pub fn free_area(&self, size: u64) -> Option<u64> {
        self.gaps().into_iter().find(|(_, room)| *room >= size).map(|(start, _)| start)
    }

    /// Start and size of the largest gap of the keyslots area, the first one of several.
    pub fn largest_free_area(&self) -> Option<(u64, u64)> {
        let gaps = self.gaps().into_iter();
        let larger = |best: (u64, u64), gap: (u64, u64)| if gap.1 > best.1 { gap } else { best };
        gaps.map(|(start, room)| (start, room & !(super::AREA_ALIGNMENT - 1)))
            .reduce(larger)
            .filter(|(_, room)| *room > 0)
    }

    /// Starts and sizes of what is free in the keyslots area; where two areas touch, there is a gap of no bytes.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut areas: Vec<(u64, u64)> =
            self.keyslots.iter().map(|keyslot| (keyslot.area.offset, keyslot.area.end())).collect();
        areas.push((self.keyslots_end(), self.keyslots_end()));
        areas.sort_unstable();
        let mut start = self.keyslots_start();
        let mut gaps = Vec::new();
        for (from, to) in areas {
            // No area begins before the end of the one before it, but for what is left of that one's last block.
            if let Some(room) = from.checked_sub(start) {
                gaps.push((start, room));
            }
            // cannot overflow: rules::areas keeps all areas before keyslots_end.
            start = start.max(to.checked_next_multiple_of(super::AREA_ALIGNMENT).unwrap_or(u64::MAX));
        }
        gaps
    }

    /// The first number without a keyslot.
    pub fn free_keyslot(&self) -> Option<u32> {
        (0..MAX_KEYSLOTS).find(|id| self.keyslot(*id).is_none())
    }

    /// The first number without a token.
    pub fn free_token(&self) -> Option<u32> {
        (0..MAX_KEYSLOTS).find(|id| self.tokens.iter().all(|token| token.id != *id))
    }

    /// The first number without a digest.
    pub fn free_digest(&self) -> Option<u32> {
        (0..MAX_DIGESTS).find(|id| self.digests.iter().all(|digest| digest.id != *id))
    }
}

/// A number as the name of a JSON member.
pub(crate) fn number_text(id: u32) -> String {
    alloc::format!("{id}")
}

/// A member's name as a number: decimal, without leading zeros, below `limit`.
pub(crate) fn id_of(name: &str, limit: u32) -> Option<u32> {
    let canonical = name == "0" || !name.starts_with('0');
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let id = name.parse().ok().filter(|_| canonical && digits)?;
    (id < limit).then_some(id)
}

/// All numbered members of a section.
fn members<T>(
    document: &Object,
    section: Section,
    limit: u32,
    parse: fn(u32, &Fields<'_>) -> Result<T, HeaderError>,
) -> Result<Vec<T>, HeaderError> {
    let list = section_of(document, section)?;
    let mut out = Vec::new();
    for (name, text) in list.members() {
        let id = id_of(name, limit).ok_or(HeaderError::BadId { section, limit })?;
        let item = section.member(id);
        let object = Object::parse(text).ok_or(HeaderError::WrongType(item.at("(object)")))?;
        out.push(parse(id, &Fields { object: &object, item })?);
    }
    Ok(out)
}

fn section_of(document: &Object, section: Section) -> Result<Object, HeaderError> {
    let place = Section::Top.itself().at(section.name());
    let text = document.text(section.name()).ok_or(HeaderError::Missing(place))?;
    Object::parse(text).ok_or(HeaderError::WrongType(place))
}

/// An object's fields, read by path: the last part of the path is the member's name, the whole is for errors.
struct Fields<'a> {
    object: &'a Object,
    item: Item,
}

impl Fields<'_> {
    fn has(&self, path: &'static str) -> bool {
        self.object.text(last(path)).is_some()
    }

    fn text(&self, path: &'static str) -> Result<&str, HeaderError> {
        self.object.text(last(path)).ok_or(HeaderError::Missing(self.item.at(path)))
    }

    fn object(&self, path: &'static str) -> Result<Object, HeaderError> {
        Object::parse(self.text(path)?).ok_or(HeaderError::WrongType(self.item.at(path)))
    }

    fn string(&self, path: &'static str) -> Result<String, HeaderError> {
        serde_json::from_str(self.text(path)?).map_err(|_| HeaderError::WrongType(self.item.at(path)))
    }

    fn strings(&self, path: &'static str) -> Result<Vec<String>, HeaderError> {
        serde_json::from_str(self.text(path)?).map_err(|_| HeaderError::WrongType(self.item.at(path)))
    }

    /// A JSON number.
    fn number(&self, path: &'static str) -> Result<u32, HeaderError> {
        let (text, place) = (self.text(path)?, self.item.at(path));
        if !text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) || text.contains(['.', 'e', 'E']) {
            return Err(HeaderError::WrongType(place));
        }
        text.parse().map_err(|_| HeaderError::NotANumber(place))
    }

    /// A JSON number that is at least `min` and at most `max`.
    fn bounded(&self, path: &'static str, min: u32, max: u32) -> Result<u32, HeaderError> {
        let value = self.number(path)?;
        if (min..=max).contains(&value) {
            return Ok(value);
        }
        Err(HeaderError::OutOfBounds { place: self.item.at(path), value: value.into() })
    }

    /// A 64-bit number, which the format writes as a string of decimal digits.
    fn decimal(&self, path: &'static str) -> Result<u64, HeaderError> {
        let text = self.string(path)?;
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or(HeaderError::NotANumber(self.item.at(path)))
    }

    /// Numbers of other objects, as strings.
    fn references(&self, path: &'static str) -> Result<Vec<u32>, HeaderError> {
        let place = self.item.at(path);
        let mut ids = Vec::new();
        for name in self.strings(path)? {
            let id = id_of(&name, MAX_KEYSLOTS).ok_or(HeaderError::UnknownReference { place })?;
            if ids.contains(&id) {
                return Err(HeaderError::DuplicateReference { place });
            }
            ids.push(id);
        }
        Ok(ids)
    }

    /// 16 bytes in base64.
    fn identifier(&self, path: &'static str) -> Result<[u8; 16], HeaderError> {
        let mut identifier = [0; 16];
        match Base64::decode(self.string(path)?, &mut identifier) {
            Ok(bytes) if bytes.len() == 16 => Ok(identifier),
            _ => Err(HeaderError::Base64(self.item.at(path))),
        }
    }

    fn salt(&self, path: &'static str) -> Result<[u8; SALT_LEN], HeaderError> {
        let mut salt = [0; SALT_LEN];
        let fault = HeaderError::Base64(self.item.at(path));
        match Base64::decode(self.string(path)?, &mut salt) {
            Ok(bytes) if bytes.len() == SALT_LEN => Ok(salt),
            _ => Err(fault),
        }
    }
}

fn last(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
}

fn keyslot(id: u32, fields: &Fields<'_>) -> Result<Keyslot, HeaderError> {
    let item = fields.item;
    let kind = fields.string("type")?;
    let key_len = fields.number("key_size")?;
    let priority = match fields.has("priority") {
        false => Priority::Normal,
        true => match fields.number("priority")? {
            0 => Priority::Ignore,
            1 => Priority::Normal,
            2 => Priority::Prefer,
            value => {
                return Err(HeaderError::OutOfBounds { place: item.at("priority"), value: value.into() });
            }
        },
    };
    let area = fields.object("area")?;
    let area = Fields { object: &area, item };
    let (offset, size) = (area.decimal("area.offset")?, area.decimal("area.size")?);
    let area_kind = area.string("area.type")?;
    let (area_kind, kind) = match kind.as_str() {
        "luks2" => {
            if area_kind != "raw" {
                return Err(HeaderError::UnknownValue(item.at("area.type")));
            }
            let raw = AreaKind::Raw {
                encryption: area.string("area.encryption")?,
                key_len: area.bounded("area.key_size", 1, 512)?,
            };
            (raw, KeyslotKind::Luks2 { af: af(fields)?, kdf: kdf(fields)? })
        }
        "reencrypt" => reencrypt(fields, &area)?,
        _ => (AreaKind::Other(area_kind), KeyslotKind::Unknown(kind)),
    };
    Ok(Keyslot { id, key_len, priority, area: Area { offset, size, kind: area_kind }, kind })
}

fn af(keyslot: &Fields<'_>) -> Result<Af, HeaderError> {
    let object = keyslot.object("af")?;
    let af = Fields { object: &object, item: keyslot.item };
    if af.string("af.type")? != "luks1" {
        return Err(HeaderError::UnknownValue(af.item.at("af.type")));
    }
    let stripes = af.bounded("af.stripes", super::AF_STRIPES, super::AF_STRIPES)?;
    Ok(Af { stripes, hash: af.string("af.hash")? })
}

fn kdf(keyslot: &Fields<'_>) -> Result<Kdf, HeaderError> {
    let object = keyslot.object("kdf")?;
    let kdf = Fields { object: &object, item: keyslot.item };
    let argon2 = || {
        let lanes = kdf.bounded("kdf.cpus", 1, super::MAX_ARGON2_LANES)?;
        // cannot overflow: at most MAX_ARGON2_LANES.
        let least = lanes.saturating_mul(8);
        Ok(Argon2 {
            time: kdf.bounded("kdf.time", 1, u32::MAX)?,
            memory_kib: kdf.bounded("kdf.memory", least, super::MAX_ARGON2_MEMORY_KIB)?,
            lanes,
            salt: kdf.salt("kdf.salt")?,
        })
    };
    let kind = kdf.string("kdf.type")?;
    match kind.as_str() {
        "pbkdf2" => Ok(Kdf::Pbkdf2 {
            hash: kdf.string("kdf.hash")?,
            iterations: kdf.bounded("kdf.iterations", 1, u32::MAX)?,
            salt: kdf.salt("kdf.salt")?,
        }),
        "argon2i" => argon2().map(Kdf::Argon2i),
        "argon2id" => argon2().map(Kdf::Argon2id),
        _ => Ok(Kdf::Unknown(kind)),
    }
}

fn reencrypt(keyslot: &Fields<'_>, area: &Fields<'_>) -> Result<(AreaKind, KeyslotKind), HeaderError> {
    let mode = ReencryptMode::from_name(&keyslot.string("mode")?)
        .ok_or(HeaderError::UnknownValue(keyslot.item.at("mode")))?;
    let direction = ReencryptDirection::from_name(&keyslot.string("direction")?)
        .ok_or(HeaderError::UnknownValue(keyslot.item.at("direction")))?;
    let kind = area.string("area.type")?;
    let resilience = match kind.as_str() {
        "none" => Resilience::None,
        "journal" => Resilience::Journal,
        "checksum" => Resilience::Checksum(checksums(area)?),
        "datashift" => Resilience::DataShift(shift(area)?),
        "datashift-journal" => Resilience::DataShiftJournal(shift(area)?),
        "datashift-checksum" => Resilience::DataShiftChecksum(checksums(area)?, shift(area)?),
        _ => return Ok((AreaKind::Other(kind), KeyslotKind::Reencrypt { mode, direction })),
    };
    Ok((AreaKind::Reencrypt(resilience), KeyslotKind::Reencrypt { mode, direction }))
}

fn checksums(area: &Fields<'_>) -> Result<Checksums, HeaderError> {
    let (place, sector_size) = (area.item.at("area.sector_size"), area.number("area.sector_size")?);
    if sector_size < 512 || !sector_size.is_power_of_two() {
        return Err(HeaderError::OutOfBounds { place, value: sector_size.into() });
    }
    Ok(Checksums { hash: area.string("area.hash")?, sector_size })
}

fn shift(area: &Fields<'_>) -> Result<Shift, HeaderError> {
    let (place, value) = (area.item.at("area.shift_size"), area.decimal("area.shift_size")?);
    if value == 0 || value > super::MAX_BYTES {
        return Err(HeaderError::OutOfBounds { place, value });
    }
    multiple_of_sector(place, value)?;
    Ok(Shift(value))
}

fn token(id: u32, fields: &Fields<'_>) -> Result<Token, HeaderError> {
    Ok(Token { id, kind: fields.string("type")?, keyslots: fields.references("keyslots")? })
}

fn segment(id: u32, fields: &Fields<'_>) -> Result<Segment, HeaderError> {
    let item = fields.item;
    let kind = fields.string("type")?;
    let offset = fields.decimal("offset")?;
    multiple_of_sector(item.at("offset"), offset)?;
    let size = match fields.string("size")?.as_str() {
        "dynamic" => SegmentSize::Dynamic,
        _ => SegmentSize::Fixed(fields.decimal("size")?),
    };
    if let SegmentSize::Fixed(value) = size {
        if value == 0 {
            return Err(HeaderError::OutOfBounds { place: item.at("size"), value });
        }
        multiple_of_sector(item.at("size"), value)?;
    }
    let flags = if fields.has("flags") { fields.strings("flags")? } else { Vec::new() };
    let kind = match kind.as_str() {
        "crypt" => crypt(fields, size)?,
        "linear" => SegmentKind::Linear,
        SEALED => SegmentKind::Sealed { format: fields.identifier("format")? },
        _ => SegmentKind::Unknown(kind),
    };
    Ok(Segment { id, offset, size, flags, kind })
}

fn crypt(fields: &Fields<'_>, size: SegmentSize) -> Result<SegmentKind, HeaderError> {
    let item = fields.item;
    let iv_tweak = fields.decimal("iv_tweak")?;
    let encryption = fields.string("encryption")?;
    let sector_size = fields.number("sector_size")?;
    if !matches!(sector_size, 512 | 1024 | 2048 | 4096) {
        return Err(HeaderError::OutOfBounds { place: item.at("sector_size"), value: sector_size.into() });
    }
    if let SegmentSize::Fixed(value) = size
        && !value.is_multiple_of(sector_size.into())
    {
        return Err(HeaderError::Misaligned { place: item.at("size"), value, multiple: sector_size.into() });
    }
    let integrity = match fields.has("integrity") {
        false => None,
        true => {
            let object = fields.object("integrity")?;
            let integrity = Fields { object: &object, item };
            Some(Integrity {
                kind: integrity.string("integrity.type")?,
                journal_encryption: integrity.string("integrity.journal_encryption")?,
                journal_integrity: integrity.string("integrity.journal_integrity")?,
                key_size: match integrity.has("integrity.key_size") {
                    true => Some(integrity.bounded("integrity.key_size", 1, 512)?),
                    false => None,
                },
            })
        }
    };
    Ok(SegmentKind::Crypt { encryption, sector_size, iv_tweak, integrity })
}

fn digest(id: u32, fields: &Fields<'_>) -> Result<Digest, HeaderError> {
    let kind = fields.string("type")?;
    let (keyslots, segments) = (fields.references("keyslots")?, fields.references("segments")?);
    let kind = match kind.as_str() {
        "pbkdf2" => {
            let digest = Base64::decode_vec(&fields.string("digest")?).ok();
            DigestKind::Pbkdf2 {
                hash: fields.string("hash")?,
                iterations: fields.bounded("iterations", 1, u32::MAX)?,
                salt: fields.salt("salt")?,
                digest: digest
                    .filter(|digest| (20..=64).contains(&digest.len()))
                    .ok_or(HeaderError::Base64(fields.item.at("digest")))?,
            }
        }
        _ => DigestKind::Unknown(kind),
    };
    Ok(Digest { id, keyslots, segments, kind })
}

fn config(document: &Object) -> Result<Config, HeaderError> {
    let object = section_of(document, Section::Config)?;
    let config = Fields { object: &object, item: Section::Config.itself() };
    let json_size = config.decimal("json_size")?;
    let keyslots_size = config.decimal("keyslots_size")?;
    let flags = if config.has("flags") { config.strings("flags")? } else { Vec::new() };
    let mut requirements = Vec::new();
    if config.has("requirements") {
        let object = config.object("requirements")?;
        let mandatory = Fields { object: &object, item: config.item };
        if mandatory.has("requirements.mandatory") {
            requirements = mandatory.strings("requirements.mandatory")?;
        }
    }
    let requirements = requirements.into_iter().map(Requirement::from_name).collect();
    Ok(Config { json_size, keyslots_size, flags, requirements })
}

fn multiple_of_sector(place: super::Place, value: u64) -> Result<(), HeaderError> {
    match value.is_multiple_of(512) {
        true => Ok(()),
        false => Err(HeaderError::Misaligned { place, value, multiple: 512 }),
    }
}
