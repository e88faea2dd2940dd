//! Changes to the metadata. Each gives new metadata that has passed every rule, and leaves the old as it was.
//! Members that a change does not mean keep their place and their text.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use base64ct::{Base64, Encoding};
use serde_json::value::RawValue;

use super::json::{Object, object, value};
use super::metadata::number_text;
use super::view::{Area, AreaKind, Config, Digest, DigestKind, Kdf, Keyslot, KeyslotKind, Priority, Segment};
use super::view::{SEALED, SegmentKind, SegmentSize};
use super::{HeaderError, Metadata, Section};

impl Metadata {
    /// Metadata of a new volume.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks. All methods that return changed metadata
    /// share this.
    pub fn create(
        keyslots: &[Keyslot],
        segments: &[Segment],
        digests: &[Digest],
        config: &Config,
    ) -> Result<Self, HeaderError> {
        let numbered = |members: Vec<(u32, Object)>| {
            let mut section = Object::default();
            for (id, member) in members {
                section.set(&number_text(id), &member);
            }
            value(&section)
        };
        let document = object([
            ("keyslots", numbered(keyslots.iter().map(|k| (k.id, keyslot_object(k))).collect())),
            ("tokens", value(&Object::default())),
            ("segments", numbered(segments.iter().map(|s| (s.id, segment_object(s))).collect())),
            ("digests", numbered(digests.iter().map(|d| (d.id, digest_object(d))).collect())),
            ("config", value(&config_object(config))),
        ]);
        Self::from_document(document, config.json_size)
    }

    /// With one more keyslot, whose key has the digest `digest` already.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks: [`HeaderError::KeyslotDigests`] if there
    /// is no such digest, one of the `Area` variants if the keyslot's area is not free.
    pub fn with_keyslot(&self, keyslot: &Keyslot, digest: u32) -> Result<Self, HeaderError> {
        self.edit(|document| {
            in_section(document, Section::Keyslots, |keyslots| {
                keyslots.set(&number_text(keyslot.id), &keyslot_object(keyslot));
            });
            in_section(document, Section::Digests, |digests| {
                in_member(digests, digest, |digest| {
                    edit_references(digest, "keyslots", |ids| ids.push(number_text(keyslot.id)));
                });
            });
        })
    }

    /// With one more keyslot, for a key with a digest of its own.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks: [`HeaderError::KeyslotDigests`] if
    /// `digest` does not list the keyslot, one of the `Area` variants if its area is not free.
    pub fn with_unbound_keyslot(&self, keyslot: &Keyslot, digest: &Digest) -> Result<Self, HeaderError> {
        self.edit(|document| {
            in_section(document, Section::Keyslots, |keyslots| {
                keyslots.set(&number_text(keyslot.id), &keyslot_object(keyslot));
            });
            in_section(document, Section::Digests, |digests| {
                digests.set(&number_text(digest.id), &digest_object(digest));
            });
        })
    }

    /// With `new` in the place of the keyslot `old`, for the same key. References follow if the number changes.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks: [`HeaderError::KeyslotDigests`] if there
    /// is no keyslot `old`, one of the `Area` variants if the new area is not free.
    pub fn with_keyslot_replaced(&self, old: u32, new: &Keyslot) -> Result<Self, HeaderError> {
        let (from, to) = (number_text(old), number_text(new.id));
        let follow = |ids: &mut Vec<String>| {
            for id in ids.iter_mut().filter(|id| **id == from) {
                *id = to.clone();
            }
        };
        self.edit(|document| {
            in_section(document, Section::Keyslots, |keyslots| {
                keyslots.rename(&from, &to);
                keyslots.set(&to, &keyslot_object(new));
            });
            if from != to {
                for section in [Section::Digests, Section::Tokens] {
                    in_every_member(document, section, |member| edit_references(member, "keyslots", follow));
                }
            }
        })
    }

    /// Without a keyslot. Digests and tokens forget it; a digest that no keyslot and no segment uses goes with it.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks. A keyslot that is not there is no error.
    pub fn without_keyslot(&self, id: u32) -> Result<Self, HeaderError> {
        self.without_keyslots(&[id])
    }

    /// Without several keyslots, as [`without_keyslot`](Self::without_keyslot).
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks. Keyslots that are not there are no error.
    pub fn without_keyslots(&self, ids: &[u32]) -> Result<Self, HeaderError> {
        let names: Vec<String> = ids.iter().copied().map(number_text).collect();
        let unused = |digest: &&Digest| {
            digest.segments.is_empty()
                && !digest.keyslots.is_empty()
                && digest.keyslots.iter().all(|keyslot| ids.contains(keyslot))
        };
        let unused: Vec<u32> = self.digests().iter().filter(unused).map(|digest| digest.id).collect();
        self.edit(|document| {
            in_section(document, Section::Keyslots, |keyslots| {
                for name in &names {
                    keyslots.remove(name);
                }
            });
            in_section(document, Section::Digests, |digests| {
                for id in unused {
                    digests.remove(&number_text(id));
                }
            });
            for section in [Section::Digests, Section::Tokens] {
                in_every_member(document, section, |member| {
                    edit_references(member, "keyslots", |ids| ids.retain(|id| !names.contains(id)));
                });
            }
        })
    }

    /// With another priority of a keyslot. `Normal` is written by leaving the field out, as cryptsetup does.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks. If there is no such keyslot, nothing
    /// changes and nothing fails.
    pub fn with_priority(&self, keyslot: u32, priority: Priority) -> Result<Self, HeaderError> {
        self.edit(|document| {
            in_section(document, Section::Keyslots, |keyslots| {
                in_member(keyslots, keyslot, |keyslot| match priority {
                    Priority::Ignore => keyslot.set("priority", &0),
                    Priority::Normal => keyslot.remove("priority"),
                    Priority::Prefer => keyslot.set("priority", &2),
                });
            });
        })
    }

    /// With a token, whose text is kept byte for byte.
    ///
    /// # Errors
    /// [`HeaderError::JsonSyntax`] or another of the `Json` variants if `text` is no acceptable JSON,
    /// [`HeaderError::UnknownReference`] if it names a keyslot that is not there. Otherwise [`HeaderError`]
    /// with the first rule that the result breaks.
    pub fn with_token(&self, id: u32, text: &str) -> Result<Self, HeaderError> {
        super::json::check(text)?;
        let mut fault = Ok(());
        let edited = self.edit(|document| {
            in_section(document, Section::Tokens, |tokens| fault = tokens.set_text(&number_text(id), text));
        });
        fault.and(edited)
    }

    /// Without a token.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks. A token that is not there is no error.
    pub fn without_token(&self, id: u32) -> Result<Self, HeaderError> {
        self.edit(|document| {
            in_section(document, Section::Tokens, |tokens| tokens.remove(&number_text(id)));
        })
    }

    /// With a token that opens a keyslot, or does not open it any more.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks: [`HeaderError::UnknownReference`] if there is no such keyslot. If
    /// there is no such token, nothing changes and nothing fails.
    pub fn with_token_opening(&self, token: u32, keyslot: u32, opens: bool) -> Result<Self, HeaderError> {
        let name = number_text(keyslot);
        self.edit(|document| {
            in_section(document, Section::Tokens, |tokens| {
                in_member(tokens, token, |token| {
                    edit_references(token, "keyslots", |ids| {
                        ids.retain(|id| *id != name);
                        if opens {
                            ids.push(name);
                        }
                    });
                });
            });
        })
    }

    /// With these persistent flags, and no others.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks.
    pub fn with_flags(&self, flags: &[&str]) -> Result<Self, HeaderError> {
        self.edit(|document| in_section(document, Section::Config, |config| config.set("flags", &flags)))
    }

    fn edit(&self, change: impl FnOnce(&mut Object)) -> Result<Self, HeaderError> {
        let mut document = self.document.clone();
        change(&mut document);
        Self::from_document(document, self.config().json_size)
    }
}

pub(super) fn in_section(document: &mut Object, section: Section, change: impl FnOnce(&mut Object)) {
    if let Some(mut object) = document.object(section.name()) {
        change(&mut object);
        document.set(section.name(), &object);
    }
}

pub(super) fn in_member(section: &mut Object, id: u32, change: impl FnOnce(&mut Object)) {
    let name = number_text(id);
    if let Some(mut object) = section.object(&name) {
        change(&mut object);
        section.set(&name, &object);
    }
}

pub(super) fn in_every_member(document: &mut Object, section: Section, change: impl Fn(&mut Object)) {
    in_section(document, section, |section| {
        let names: Vec<String> = section.members().map(|(name, _)| String::from(name)).collect();
        for name in names {
            let Some(mut object) = section.object(&name) else { continue };
            let before = object.to_text();
            change(&mut object);
            // What did not change keeps its text, spaces and all.
            if object.to_text() != before {
                section.set(&name, &object);
            }
        }
    });
}

pub(super) fn edit_references(object: &mut Object, key: &str, change: impl FnOnce(&mut Vec<String>)) {
    let ids = object.text(key).and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    if let Some(before) = ids {
        let mut after = before.clone();
        change(&mut after);
        if after != before {
            object.set(key, &after);
        }
    }
}

pub(super) fn keyslot_object(keyslot: &Keyslot) -> Object {
    let Area { offset, size, kind } = &keyslot.area;
    let mut area = Object::default();
    match kind {
        AreaKind::Raw { encryption, key_len } => {
            area.set("type", "raw");
            area.set("offset", &decimal(*offset));
            area.set("size", &decimal(*size));
            area.set("encryption", encryption);
            area.set("key_size", key_len);
        }
        AreaKind::Reencrypt(resilience) => {
            area.set("type", resilience.name());
            area.set("offset", &decimal(*offset));
            area.set("size", &decimal(*size));
            if let Some(checksums) = resilience.checksums() {
                area.set("hash", &checksums.hash);
                area.set("sector_size", &checksums.sector_size);
            }
            if let Some(shift) = resilience.shift() {
                area.set("shift_size", &decimal(shift));
            }
        }
        AreaKind::Other(kind) => {
            area.set("type", kind);
            area.set("offset", &decimal(*offset));
            area.set("size", &decimal(*size));
        }
    }
    let mut out = Object::default();
    match &keyslot.kind {
        KeyslotKind::Luks2 { af, kdf } => {
            out.set("type", "luks2");
            out.set("key_size", &keyslot.key_len);
            let af = object([
                ("type", value("luks1")),
                ("stripes", value(&af.stripes)),
                ("hash", value(&af.hash)),
            ]);
            out.set("af", &af);
            out.set("area", &area);
            out.set("kdf", &kdf_object(kdf));
        }
        KeyslotKind::Reencrypt { mode, direction } => {
            out.set("type", "reencrypt");
            out.set("key_size", &keyslot.key_len);
            out.set("mode", mode.name());
            out.set("direction", direction.name());
            out.set("area", &area);
        }
        KeyslotKind::Unknown(kind) => {
            out.set("type", kind);
            out.set("key_size", &keyslot.key_len);
            out.set("area", &area);
        }
    }
    match keyslot.priority {
        Priority::Ignore => out.set("priority", &0),
        Priority::Normal => {}
        Priority::Prefer => out.set("priority", &2),
    }
    out
}

fn kdf_object(kdf: &Kdf) -> Object {
    let argon2 = |kind: &str, cost: &super::Argon2| {
        object([
            ("type", value(kind)),
            ("time", value(&cost.time)),
            ("memory", value(&cost.memory_kib)),
            ("cpus", value(&cost.lanes)),
            ("salt", base64(&cost.salt)),
        ])
    };
    match kdf {
        Kdf::Pbkdf2 { hash, iterations, salt } => object([
            ("type", value("pbkdf2")),
            ("hash", value(hash)),
            ("iterations", value(iterations)),
            ("salt", base64(salt)),
        ]),
        Kdf::Argon2i(cost) => argon2("argon2i", cost),
        Kdf::Argon2id(cost) => argon2("argon2id", cost),
        Kdf::Unknown(kind) => object([("type", value(kind))]),
    }
}

pub(super) fn segment_object(segment: &Segment) -> Object {
    let kind = match &segment.kind {
        SegmentKind::Crypt { .. } => "crypt",
        SegmentKind::Linear => "linear",
        SegmentKind::Sealed { .. } => SEALED,
        SegmentKind::Unknown(kind) => kind,
    };
    let size = match segment.size {
        SegmentSize::Dynamic => String::from("dynamic"),
        SegmentSize::Fixed(bytes) => decimal(bytes),
    };
    let mut out = Object::default();
    out.set("type", kind);
    out.set("offset", &decimal(segment.offset));
    out.set("size", &size);
    if let SegmentKind::Crypt { encryption, sector_size, iv_tweak, integrity } = &segment.kind {
        out.set("iv_tweak", &decimal(*iv_tweak));
        out.set("encryption", encryption);
        out.set("sector_size", sector_size);
        if let Some(integrity) = integrity {
            let mut object = object([
                ("type", value(&integrity.kind)),
                ("journal_encryption", value(&integrity.journal_encryption)),
                ("journal_integrity", value(&integrity.journal_integrity)),
            ]);
            if let Some(key_size) = integrity.key_size {
                object.set("key_size", &key_size);
            }
            out.set("integrity", &object);
        }
    }
    if let SegmentKind::Sealed { format } = &segment.kind {
        out.set("format", &base64(format));
    }
    if !segment.flags.is_empty() {
        out.set("flags", &segment.flags);
    }
    out
}

pub(super) fn digest_object(digest: &Digest) -> Object {
    let names = |ids: &[u32]| -> Vec<String> { ids.iter().copied().map(number_text).collect() };
    let kind = match &digest.kind {
        DigestKind::Pbkdf2 { .. } => "pbkdf2",
        DigestKind::Unknown(kind) => kind,
    };
    let mut out = object([
        ("type", value(kind)),
        ("keyslots", value(&names(&digest.keyslots))),
        ("segments", value(&names(&digest.segments))),
    ]);
    if let DigestKind::Pbkdf2 { hash, iterations, salt, digest } = &digest.kind {
        out.set("hash", hash);
        out.set("iterations", iterations);
        out.set("salt", &base64(salt));
        out.set("digest", &base64(digest));
    }
    out
}

fn config_object(config: &Config) -> Object {
    let mut out = Object::default();
    out.set("json_size", &decimal(config.json_size));
    out.set("keyslots_size", &decimal(config.keyslots_size));
    if !config.flags.is_empty() {
        out.set("flags", &config.flags);
    }
    if !config.requirements.is_empty() {
        let names: Vec<&str> = config.requirements.iter().map(super::Requirement::name).collect();
        out.set("requirements", &object([("mandatory", value(&names))]));
    }
    out
}

fn decimal(number: u64) -> String {
    alloc::format!("{number}")
}

fn base64(bytes: &[u8]) -> Box<RawValue> {
    value(&Base64::encode_string(bytes))
}
