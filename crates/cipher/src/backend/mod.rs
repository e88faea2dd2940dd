//! Implementations of AES, one file per instruction set, and the choice between them.
//!
//! This is the only module with `unsafe`. A [`BackendChoice`] is a proof: the ones that need CPU features are built by
//! detection only, so holding one makes the calls behind it sound. It is made once, when a key is set up.

mod portable;

pub(crate) use portable::PortableAes;

/// An implementation of AES that this CPU can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendChoice(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Portable,
}

impl BackendChoice {
    /// Constant-time code for any CPU.
    pub const fn portable() -> Self {
        Self(Kind::Portable)
    }

    /// The fastest of [`BackendChoice::detected`].
    pub fn best() -> Self {
        Self::detected().next().unwrap_or(Self::portable())
    }

    /// Everything this CPU can run, fastest first. The portable one is always there.
    pub fn detected() -> impl Iterator<Item = Self> {
        [Some(Self::portable())].into_iter().flatten()
    }

    /// The detected backend of that name, as [`BackendChoice::name`] prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::detected().find(|choice| choice.name() == name)
    }

    /// A short name such as `aes-ni` or `portable`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
        }
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}
