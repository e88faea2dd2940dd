//! Several edits that only together give metadata that passes the rules, such as the beginning of a re-encryption.

use alloc::string::String;
use alloc::vec::Vec;

use super::edit::{
    digest_object, edit_references, in_every_member, in_member, in_section, keyslot_object, segment_object,
};
use super::json::Object;
use super::metadata::number_text;
use super::view::{Digest, Keyslot, Requirement, Segment};
use super::{HeaderError, Metadata, Section};

/// Metadata being changed; [`finish`](Self::finish) applies the rules.
#[derive(Clone, Debug)]
pub struct Composition {
    document: Object,
    json_size: u64,
}

impl Metadata {
    /// Begins a change of several parts.
    pub fn compose(&self) -> Composition {
        Composition { document: self.document.clone(), json_size: self.config().json_size }
    }
}

impl Composition {
    /// Adds or replaces a keyslot, without a digest.
    #[must_use]
    pub fn keyslot(mut self, keyslot: &Keyslot) -> Self {
        in_section(&mut self.document, Section::Keyslots, |keyslots| {
            keyslots.set(&number_text(keyslot.id), &keyslot_object(keyslot));
        });
        self
    }

    /// Removes a keyslot and every reference to it.
    #[must_use]
    pub fn without_keyslot(mut self, id: u32) -> Self {
        let name = number_text(id);
        in_section(&mut self.document, Section::Keyslots, |keyslots| keyslots.remove(&name));
        for section in [Section::Digests, Section::Tokens] {
            in_every_member(&mut self.document, section, |member| {
                edit_references(member, "keyslots", |ids| ids.retain(|id| *id != name));
            });
        }
        self
    }

    /// Lets every token that opens the keyslot `old` open `new`, too.
    #[must_use]
    pub fn tokens_also(mut self, old: u32, new: u32) -> Self {
        let (old, new) = (number_text(old), number_text(new));
        in_every_member(&mut self.document, Section::Tokens, |token| {
            edit_references(token, "keyslots", |ids| {
                if ids.contains(&old) && !ids.contains(&new) {
                    ids.push(new.clone());
                }
            });
        });
        self
    }

    /// Adds or replaces a digest.
    #[must_use]
    pub fn digest(mut self, digest: &Digest) -> Self {
        in_section(&mut self.document, Section::Digests, |digests| {
            digests.set(&number_text(digest.id), &digest_object(digest));
        });
        self
    }

    /// Removes a digest.
    #[must_use]
    pub fn without_digest(mut self, id: u32) -> Self {
        in_section(&mut self.document, Section::Digests, |digests| digests.remove(&number_text(id)));
        self
    }

    /// Replaces all segments, and says which digests they belong to.
    #[must_use]
    pub fn segments(mut self, segments: &[Segment], digests: &[(u32, Vec<u32>)]) -> Self {
        let mut section = Object::default();
        for segment in segments {
            section.set(&number_text(segment.id), &segment_object(segment));
        }
        self.document.set(Section::Segments.name(), &section);
        in_every_member(&mut self.document, Section::Digests, |digest| {
            edit_references(digest, "segments", Vec::clear);
        });
        in_section(&mut self.document, Section::Digests, |section| {
            for (id, bound) in digests {
                let names: Vec<String> = bound.iter().copied().map(number_text).collect();
                in_member(section, *id, |digest| digest.set("segments", &names));
            }
        });
        self
    }

    /// Replaces the mandatory requirements.
    #[must_use]
    pub fn requirements(mut self, requirements: &[Requirement]) -> Self {
        in_section(&mut self.document, Section::Config, |config| {
            let names: Vec<&str> = requirements.iter().map(Requirement::name).collect();
            // intended: without requirements there is no such object yet.
            let mut object = config.object("requirements").unwrap_or_default();
            object.set("mandatory", &names);
            match names.is_empty() {
                true => config.remove("requirements"),
                false => config.set("requirements", &object),
            }
        });
        self
    }

    /// The changed metadata, which has passed every rule.
    ///
    /// # Errors
    /// [`HeaderError`] with the first rule that the result breaks.
    pub fn finish(self) -> Result<Metadata, HeaderError> {
        Metadata::from_document(self.document, self.json_size)
    }
}
