//! The passphrases of tokens, and then the keys of another source.

use core::fmt::Display;
use std::collections::VecDeque;
use std::vec::IntoIter;

use atrest_secret::Passphrase;

use super::{Person, Question, Token, TokenError};
use crate::{Key, KeySource};

/// How many PINs are tried in a row. A software TPM locks after three, by default.
const PINS: u32 = 3;

/// A key source that tries tokens before it has another one asked: those that open by themselves, then those that somebody touches, then
/// those that need a PIN or several factors.
#[derive(Debug)]
pub struct TokensFirst<S> {
    tokens: IntoIter<Token>,
    /// Those that somebody has to be there for, in the order in which they are tried.
    asking: VecDeque<Token>,
    /// The token whose passphrase is being tried.
    tried: Option<Token>,
    failed: Vec<(Token, TokenError)>,
    only: bool,
    then: S,
}

impl<S> TokensFirst<S> {
    /// These tokens, and then, unless they are the `only` ones, what `then` has. Of tokens that ask the same of a person, the order
    /// stays.
    pub fn new(mut tokens: Vec<Token>, only: bool, then: S) -> Self {
        // A TPM must not wait for somebody to plug a security key in.
        tokens.sort_by_key(Token::is_touched);
        Self {
            tokens: tokens.into_iter(),
            asking: VecDeque::new(),
            tried: None,
            failed: Vec::new(),
            only,
            then,
        }
    }

    /// The tokens that have not opened the volume, and why.
    pub fn failed(&self) -> &[(Token, TokenError)] {
        &self.failed
    }
}

impl<S: KeySource<Key = Key>> TokensFirst<S> {
    /// What opens no keyslot is waited for by nobody.
    fn announce(&mut self, token: &Token) {
        if !token.info.keyslots.is_empty() {
            self.then.before_token(token);
        }
    }

    fn pass_over(&mut self, token: Token, why: TokenError) {
        self.then.passed_over(&token, &why);
        self.failed.push((token, why));
    }

    /// The key of a token for which PINs are typed; `None` if it is passed over.
    fn asked(&mut self, token: Token) -> Result<Option<Key>, S::Error> {
        if token.has_factors() {
            self.announce(&token);
            return self.of_factors(token);
        }
        for wrong in 0..PINS {
            let Some(pin) = self.then.pin(&token, wrong)? else {
                let why = if wrong == 0 { TokenError::PinNeeded } else { TokenError::WrongPin };
                self.pass_over(token, why);
                return Ok(None);
            };
            let key = match token.is_touched() {
                true => token.key_by(Some(&pin), &mut Answers::of(&mut self.then, &token)),
                false => self.then.during(|| token.key(Some(&pin))),
            };
            match key {
                Ok(key) => {
                    self.tried = Some(token);
                    return Ok(Some(Key::Token(key)));
                }
                Err(TokenError::WrongPin) => {}
                Err(error) => {
                    self.pass_over(token, error);
                    return Ok(None);
                }
            }
        }
        self.pass_over(token, TokenError::WrongPin);
        Ok(None)
    }

    /// The key of a token with several factors, each of which may ask for something.
    fn of_factors(&mut self, token: Token) -> Result<Option<Key>, S::Error> {
        let mut answers = Answers::of(&mut self.then, &token);
        let key = token.key_by(None, &mut answers);
        match (key, answers.failed) {
            (Ok(key), _) => {
                self.tried = Some(token);
                Ok(Some(Key::Token(key)))
            }
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => {
                self.pass_over(token, error);
                Ok(None)
            }
        }
    }
}

/// A key source as whoever touches and types for one token.
struct Answers<'a, S: KeySource> {
    source: &'a mut S,
    token: &'a Token,
    failed: Option<S::Error>,
}

impl<'a, S: KeySource> Answers<'a, S> {
    fn of(source: &'a mut S, token: &'a Token) -> Self {
        Self { source, token, failed: None }
    }
}

impl<S: KeySource> Person for Answers<'_, S> {
    fn touch(&mut self) {
        self.source.touch(self.token);
    }

    fn answer(&mut self, question: &Question) -> Option<Passphrase> {
        if self.failed.is_some() {
            return None;
        }
        match self.source.answer(self.token, question) {
            Ok(answer) => answer,
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }
}

impl<S: KeySource<Key = Key>> KeySource for TokensFirst<S> {
    type Key = Key;
    type Error = S::Error;

    fn next_key(&mut self) -> Result<Option<Key>, S::Error> {
        while let Some(token) = self.tokens.next() {
            if token.has_factors() {
                // Somebody may be asked, for several of them.
                self.asking.push_back(token);
                continue;
            }
            self.announce(&token);
            match token.key_by(None, &mut Answers::of(&mut self.then, &token)) {
                Ok(key) => {
                    self.tried = Some(token);
                    return Ok(Some(Key::Token(key)));
                }
                Err(TokenError::PinNeeded) => self.asking.push_back(token),
                Err(error) => self.pass_over(token, error),
            }
        }
        while let Some(token) = self.asking.pop_front() {
            if let Some(key) = self.asked(token)? {
                return Ok(Some(key));
            }
        }
        if self.only { Ok(None) } else { self.then.next_key() }
    }

    fn during<T>(&mut self, attempt: impl FnOnce() -> T) -> T {
        self.then.during(attempt)
    }

    fn wrong(&mut self, why: &dyn Display) {
        match self.tried.take() {
            Some(token) => self.pass_over(token, TokenError::Wrong),
            None => self.then.wrong(why),
        }
    }

    fn right(&mut self, key: Key) {
        self.then.right(key);
    }
}

#[cfg(test)]
mod tests {
    use atrest_volume::TokenInfo;

    use super::*;
    use crate::OneKey;

    fn token(id: u32, kind: &str, keyslots: &[u32], more: &str) -> Token {
        let text = format!(r#"{{"type":"{kind}","keyslots":[]{more}}}"#);
        Token {
            info: TokenInfo { id, kind: kind.into(), keyslots: keyslots.to_vec(), key_description: None },
            text,
        }
    }

    fn other() -> OneKey<Key> {
        OneKey::new(Key::Passphrase(Passphrase::copy_from(b"typed")))
    }

    #[test]
    fn tokens_that_cannot_be_used_are_passed_over_for_the_other_source() {
        let named = r#","key_description":"atrest:no key of this name""#;
        let tokens = vec![
            token(0, "systemd-none", &[0], ""),
            token(1, "luks2-keyring", &[], named),
            token(2, "luks2-keyring", &[0], ""),
            token(3, "luks2-keyring", &[0], named),
        ];
        let mut keys = TokensFirst::new(tokens.clone(), false, other());
        assert!(matches!(keys.next_key(), Ok(Some(Key::Passphrase(_)))));
        let failed: Vec<_> = keys.failed().iter().map(|(token, why)| (token.info.id, why.clone())).collect();
        let missing = TokenError::NoKey { description: "atrest:no key of this name".into() };
        assert_eq!(
            failed,
            [
                (0, TokenError::UnknownType),
                (1, TokenError::NoKeyslots),
                (2, TokenError::Malformed),
                (3, missing)
            ]
        );
        let mut keys = TokensFirst::new(tokens, true, other());
        assert!(matches!(keys.next_key(), Ok(None)), "with tokens only, nobody else is asked");
        assert_eq!(keys.failed().len(), 4);
    }

    /// A source that notes which tokens are announced, and which are passed over.
    #[derive(Debug, Default)]
    struct Noting(Vec<(&'static str, u32)>);

    impl KeySource for Noting {
        type Key = Key;
        type Error = crate::NoOtherKey;

        fn next_key(&mut self) -> Result<Option<Key>, Self::Error> {
            Ok(None)
        }

        fn before_token(&mut self, token: &Token) {
            self.0.push(("waits for", token.info.id));
        }

        fn wrong(&mut self, _: &dyn Display) {}

        fn passed_over(&mut self, token: &Token, _: &TokenError) {
            self.0.push(("passes over", token.info.id));
        }
    }

    #[test]
    fn what_opens_by_itself_is_tried_before_anybody_waits_for_a_security_key() {
        let named = r#","key_description":"atrest:no key of this name""#;
        let tokens = vec![
            token(0, "atrest-shares", &[0], ""),
            token(1, "systemd-fido2", &[0], ""),
            token(2, "systemd-fido2", &[], ""),
            token(3, "luks2-keyring", &[0], named),
            token(4, "systemd-fido2", &[1], ""),
        ];
        let mut keys = TokensFirst::new(tokens, false, Noting::default());
        assert!(matches!(keys.next_key(), Ok(None)));
        let order = [3, 1, 2, 4, 0].into_iter().flat_map(|id| [("waits for", id), ("passes over", id)]);
        // The one without keyslots opens nothing.
        let order: Vec<_> = order.filter(|step| *step != ("waits for", 2)).collect();
        assert_eq!(keys.then.0, order);
    }

    #[cfg(feature = "tpm")]
    #[test]
    fn tokens_that_need_a_pin_come_last_and_are_passed_over_where_nobody_types_one_or_there_is_no_tpm() {
        let policy = "8b".repeat(32);
        let sealed = format!(
            r#","tpm2-blob":"AAAAAA==","tpm2-pcrs":[],"tpm2-policy-hash":"{policy}","tpm2-pin":true"#
        );
        let tokens = vec![token(0, "systemd-tpm2", &[0], &sealed), token(1, "systemd-none", &[0], "")];
        let mut keys = TokensFirst::new(tokens, false, other());
        assert!(matches!(keys.next_key(), Ok(Some(Key::Passphrase(_)))));
        let failed: Vec<_> = keys.failed().iter().map(|(token, why)| (token.info.id, why.clone())).collect();
        match crate::token::tpm2::answers() {
            Ok(()) => assert_eq!(failed, [(1, TokenError::UnknownType), (0, TokenError::PinNeeded)]),
            Err(error) => assert_eq!(failed, [(0, error), (1, TokenError::UnknownType)]),
        }
    }
}
