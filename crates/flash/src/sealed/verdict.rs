//! What stands in a unit, without the trusted store and with it.

/// What stands in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was sealed for this place; whether lately, only the trusted store knows.
    Sealed {
        /// The number under which it was.
        serial: u64,
    },
    /// Something that was not sealed for this place, or nothing though sealed units are behind it: it was changed, damaged, or torn by a
    /// power loss.
    Tampered,
    /// Nothing, and nothing behind it that verifies. On a medium that knows no blank units, perhaps something that does not.
    Absent,
}

/// What stands in a unit of an open volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// What was stored.
    Whole,
    /// What was stored, but for one bit. Inverted on the medium, it makes the unit whole.
    OneBit {
        /// Counted from the unit's first byte on, in each byte from the lowest bit.
        bit: u32,
    },
    /// Something else. It can't be restored.
    Failed,
    /// Nothing was stored there.
    Absent,
}
