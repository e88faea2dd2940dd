//! Designs that do not hold, so that it is known that this would be seen.

/// A design that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// What is in flight may have gaps.
    Mix,
    /// Blocks of an earlier lineage are appended to.
    Append,
    /// The next serial is read off the medium.
    MediumCounter,
    /// A clean record stays while changes are made.
    NoDirtyMark,
    /// The window of the record is gone on with after a power loss.
    NoCloseWindow,
    /// What a torn erase left is shown.
    Partial,
    /// Erases are not announced.
    NoIntent,
    /// Blocks with something in flight are erased without an anchor.
    Destroy,
    /// What a torn erase left stays on the medium.
    NoScrub,
    /// It is erased before it is anchored that it was void.
    ScrubFirst,
    /// Blocks begun before the volume was closed go on after it, and units behind the last one are taken for blank.
    NoBlankCheck,
    /// Blocks begun before the volume was closed go on after it, unless something stands behind the last unit: that a
    /// program or erase failed is forgotten.
    Reopen,
    /// A ticket whose sync failed is written once more.
    AnnounceTwice,
    /// Of a log that a counter vouches for, what is found is taken, and the next record written under the next number.
    NoClaim,
    /// Of a log that a counter vouches for, an entry for the next number is taken, after incrementing the counter, if one is
    /// seen; otherwise what is found. The next record is written under the next number.
    TakeNext,
    /// What is found is claimed once, and not once more.
    OneClaim,
    /// The counter is incremented before the entry is written.
    StepFirst,
    /// The log has one page.
    OnePage,
    /// The counter is incremented before the entry is synced.
    NoSync,
    /// After a write that failed the next record goes under the same number.
    KeepClaim,
    /// What was found is claimed when the first record is written, and not by the opening.
    LazyClaim,
    /// An entry that does not read back is not written elsewhere.
    StayPut,
    /// Elsewhere may be where the entry is that counts.
    EraseHome,
    /// Serials begin at 1 whenever a volume is made.
    FormatAtOne,
    /// After a write of the record that failed, which may be a clean one, changes are made.
    GoOn,
    /// What fails behind the last unit of a block counts as a unit that is newer than the record.
    HoleAtEnd,
    /// All sessions seal under one salt.
    OneSalt,
    /// What is newer than the record may be of any session.
    AnySession,
    /// A block's salt is read off the medium whenever a unit is read.
    SaltFromMedium,
    /// An opening by serials takes them without asking the record for their sum.
    Unsummed,
    /// An opening by serials takes those that are newer than the record, too.
    NewerUnread,
    /// An opening by serials does not read what was announced for an erase.
    AnnouncedUnread,
    /// An opening by serials refuses what it can't confirm, and reads nothing more.
    NoFullLook,
}

impl Flaw {
    /// Whether all sessions seal under one salt, as in the designs from before there were salts.
    pub(super) fn has_one_salt(self) -> bool {
        !matches!(self, Self::HoleAtEnd | Self::AnySession | Self::SaltFromMedium)
            && !Self::FAST.contains(&self)
    }

    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::HoleAtEnd,
        Self::Mix,
        Self::Append,
        Self::MediumCounter,
        Self::NoDirtyMark,
        Self::NoCloseWindow,
        Self::Partial,
        Self::NoIntent,
        Self::Destroy,
        Self::NoScrub,
        Self::ScrubFirst,
        Self::NoBlankCheck,
        Self::Reopen,
        Self::AnnounceTwice,
    ];

    /// Those that copies of a volume show, and volumes made again under one key.
    pub const COPIES: [Self; 3] = [Self::OneSalt, Self::AnySession, Self::SaltFromMedium];

    /// Those of an opening by serials.
    pub const FAST: [Self; 4] = [Self::Unsummed, Self::NewerUnread, Self::AnnouncedUnread, Self::NoFullLook];

    /// Those of a store that a counter vouches for.
    pub const COUNTER: [Self; 12] = [
        Self::NoClaim,
        Self::TakeNext,
        Self::OneClaim,
        Self::StepFirst,
        Self::OnePage,
        Self::NoSync,
        Self::KeepClaim,
        Self::LazyClaim,
        Self::StayPut,
        Self::EraseHome,
        Self::FormatAtOne,
        Self::GoOn,
    ];
}
