//! Passphrases that tokens of a header have, before one is asked for.

use std::fmt::Display;
use std::path::Path;

use atrest_open::token::{Token, TokenError, TokensFirst, recovery};
use atrest_open::{Key, MayBeWrongKey, Refused, try_keys};
use atrest_secret::{Passphrase, VolumeKey};
use atrest_volume::UnlockError;

use super::target::{Target, refusal};
use crate::args::secrets::{KeyslotArgs, TokenArgs};
use crate::asked::Asked;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::{self, Source, refuse_sharing_stdin};

/// The tokens that the options mean, in the order in which they are tried.
///
/// # Errors
/// A number is named that no token has. With cryptsetup's names that is one only if nothing else may open the volume.
pub fn chosen(all: Vec<Token>, args: &TokenArgs, output: &Output) -> Result<Vec<Token>, Failure> {
    if let Some(id) = args.token_id
        && (args.token_only || !output.questions().tokens_first)
        && !all.iter().any(|token| token.info.id == id)
    {
        return Err(Failure::parameters(format!("there is no token {id}"))
            .hint("`atrest token list` shows which there are"));
    }
    let meant = |token: &Token| {
        args.token_id.is_none_or(|id| id == token.info.id)
            && args.token_type.as_ref().is_none_or(|kind| *kind == token.info.kind)
    };
    Ok(all.into_iter().filter(meant).collect())
}

/// Fails if both the passphrase and the PIN of a token are to come from standard input: the first would take everything.
pub fn check_stdin(source: &Source, args: &TokenArgs) -> Result<(), Failure> {
    match &args.token_pin_file {
        Some(file) => refuse_sharing_stdin(source, &Source::key_file(file)),
        None => Ok(()),
    }
}

/// The keys of these tokens, and then what the source has.
pub fn first<'a>(
    tokens: Vec<Token>,
    args: &'a TokenArgs,
    asked: Asked<'a, Key>,
) -> TokensFirst<Asked<'a, Key>> {
    let asked = asked.with_pin(args.token_pin_file.as_deref(), args.are_named());
    let asked = asked.with_factors(&args.factor_file);
    TokensFirst::new(tokens, args.token_only, asked.telling_of_tokens(args.are_named() && !args.token_only))
}

/// Why nothing was opened, where only tokens were to open it.
pub fn refused(failed: &[(Token, TokenError)]) -> Failure {
    let code = match failed.iter().any(|(_, why)| why.is_refusal()) {
        true => Code::Refused,
        false => Code::Parameters,
    };
    match failed {
        [] => Failure::new(code, "it has no such token"),
        failed => Failure::new(code, sentences(failed)),
    }
    .hint("leave --token-only out, and a passphrase is asked for")
}

/// What became of each token.
pub fn sentences(failed: &[(Token, TokenError)]) -> String {
    let sentence =
        |(token, why): &(Token, TokenError)| format!("token {} ({}): {why}", token.info.id, token.info.kind);
    failed.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

/// The volume key: as it was given, or as `attempt` opens it in a keyslot by a passphrase or a token.
pub fn volume_key_by(
    target: &Target<'_>,
    by: &KeyslotArgs,
    output: &Output,
    attempt: impl FnMut(&Passphrase, Option<u32>) -> Result<VolumeKey, UnlockError>,
) -> Result<VolumeKey, Failure> {
    if let Some(key) = secrets::volume_key(&by.secret, output)? {
        return Ok(key);
    }
    let source = Source::from(&by.secret.passphrase);
    with_tokens_or_passphrase(target, &by.tokens, (&source, by.key_slot), output, attempt)
}

/// Tries what the tokens have that the options mean, and then the passphrase of the source: all keyslots, or the one that is named. Tokens
/// that the options do not mention are left out, but where the names of cryptsetup are used.
pub fn with_tokens_or_passphrase<T, E: MayBeWrongKey + Display + From<UnlockError> + Into<Failure>>(
    target: &Target<'_>,
    args: &TokenArgs,
    (source, slot): (&Source, Option<u32>),
    output: &Output,
    mut attempt: impl FnMut(&Passphrase, Option<u32>) -> Result<T, E>,
) -> Result<T, Failure> {
    check_stdin(source, args)?;
    let uses = args.are_named() || (source.is_prompt() && output.questions().tokens_first);
    let tokens = match uses {
        true => {
            chosen(Token::all(&target.locked), args, output).map_err(|failure| failure.at(target.path))?
        }
        false => Vec::new(),
    };
    let mut keys = first(tokens, args, Asked::volume(source, target.path, output, Key::Passphrase));
    let tried = try_keys(&mut keys, |key| match key {
        Key::Token(token) => token.try_keyslots(slot, |passphrase, slot| attempt(passphrase, Some(slot))),
        Key::Passphrase(passphrase) | Key::File(passphrase) => match attempt(passphrase, slot) {
            Err(error) if error.is_wrong_key() => {
                match recovery::meant(&Token::all(&target.locked), passphrase) {
                    Some(key) => key.try_keyslots(slot, |passphrase, slot| attempt(passphrase, Some(slot))),
                    None => Err(error),
                }
            }
            done => done,
        },
        // cannot happen: neither source has one.
        Key::Volume(_) => Err(E::from(UnlockError::WrongVolumeKey)),
    });
    tried.map_err(|error| why(error, args, keys.failed(), target.path))
}

/// Why no key was taken, said of `path`.
pub fn why<E: MayBeWrongKey + Into<Failure>>(
    error: Refused<Failure, E>,
    args: &TokenArgs,
    failed: &[(Token, TokenError)],
    path: &Path,
) -> Failure {
    let wrong = match &error {
        Refused::NoKey => true,
        Refused::Attempt(error) => error.is_wrong_key(),
        Refused::Source(_) => false,
    };
    if wrong && args.token_only { refused(failed).at(path) } else { refusal(error, path) }
}
