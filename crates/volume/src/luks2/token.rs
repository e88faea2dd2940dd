//! Tokens: JSON objects that tell other programs how to find a passphrase. Kept byte for byte.

use atrest_device::Media;
use atrest_format::luks2::{MAX_KEYSLOTS, Token};

use super::Luks2;
use super::session::Session;
use crate::ChangeError;

impl Luks2 {
    /// The tokens, in the order of their numbers.
    pub fn tokens(&self) -> &[Token] {
        self.metadata().tokens()
    }

    /// The JSON text of the whole metadata, as it lies in the header.
    pub fn metadata_text(&self) -> String {
        self.metadata().to_json()
    }

    /// A token's JSON text as it lies in the header.
    pub fn token(&self, id: u32) -> Option<String> {
        self.metadata().token_text(id)
    }

    /// Stores a token under a number, or under the first free one. Returns the number.
    ///
    /// # Errors
    /// [`ChangeError::TokenInUse`] if the number is taken or none is free, [`ChangeError::NoSuchToken`] for a
    /// number above all, [`ChangeError::BadToken`] if the text is no token object or names keyslots that are
    /// not there. Otherwise as all [changes of a header](crate::LockedVolume::add_key).
    pub fn import_token(
        &mut self,
        header: &dyn Media,
        id: Option<u32>,
        text: &str,
    ) -> Result<u32, ChangeError> {
        let mut session = Session::begin(self, header)?;
        let metadata = session.metadata();
        let id = id.or_else(|| metadata.free_token()).ok_or(ChangeError::TokenInUse)?;
        if id >= MAX_KEYSLOTS {
            return Err(ChangeError::NoSuchToken { token: id });
        }
        if metadata.token_text(id).is_some() {
            return Err(ChangeError::TokenInUse);
        }
        store(&mut session, id, text)?;
        session.finish(self);
        Ok(id)
    }

    /// Stores a token in the place of another one.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchToken`] if there is none, [`ChangeError::BadToken`] if the text is no token
    /// object or names keyslots that are not there. Otherwise as all [changes of a
    /// header](crate::LockedVolume::add_key).
    pub fn replace_token(&mut self, header: &dyn Media, id: u32, text: &str) -> Result<(), ChangeError> {
        let mut session = Session::begin(self, header)?;
        if session.metadata().token_text(id).is_none() {
            return Err(ChangeError::NoSuchToken { token: id });
        }
        store(&mut session, id, text)?;
        session.finish(self);
        Ok(())
    }

    /// Lets a token open a keyslot, or not any more.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchToken`] or [`ChangeError::NoSuchKeyslot`] if there is none, or the token does not open the keyslot that it
    /// is to leave. Otherwise as all [changes of a header](crate::LockedVolume::add_key).
    pub fn assign_token(
        &mut self,
        header: &dyn Media,
        id: u32,
        keyslot: u32,
        opens: bool,
    ) -> Result<(), ChangeError> {
        let mut session = Session::begin(self, header)?;
        let metadata = session.metadata();
        let token = metadata.tokens().iter().find(|token| token.id == id);
        let token = token.ok_or(ChangeError::NoSuchToken { token: id })?;
        if metadata.keyslot(keyslot).is_none() || (!opens && !token.keyslots.contains(&keyslot)) {
            return Err(ChangeError::NoSuchKeyslot { slot: keyslot });
        }
        let changed = metadata.with_token_opening(id, keyslot, opens).map_err(ChangeError::Header)?;
        let next = session.next(changed)?;
        session.commit(next)?;
        session.finish(self);
        Ok(())
    }

    /// Removes a token.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchToken`] if there is none. Otherwise as all [changes of a
    /// header](crate::LockedVolume::add_key).
    pub fn remove_token(&mut self, header: &dyn Media, id: u32) -> Result<(), ChangeError> {
        let mut session = Session::begin(self, header)?;
        if session.metadata().token_text(id).is_none() {
            return Err(ChangeError::NoSuchToken { token: id });
        }
        let next = session.next(session.metadata().without_token(id).map_err(ChangeError::Header)?)?;
        session.commit(next)?;
        session.finish(self);
        Ok(())
    }
}

fn store(session: &mut Session<'_>, id: u32, text: &str) -> Result<(), ChangeError> {
    let next = session.metadata().with_token(id, text).map_err(|_| ChangeError::BadToken)?;
    let next = session.next(next)?;
    session.commit(next)
}
