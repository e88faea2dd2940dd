//! Reading dm-crypt's cipher strings (kernel, `drivers/md/dm-crypt.c`, `crypt_ctr_cipher`).

use super::{Cipher, CipherSpec, Feature, Form, IvRule, KeyedRule, SpecError};
use crate::hash::{Hash, NoHash};
use crate::mode::Mode;
use crate::mode::facts::{IvRules, KeyLens, MAX_KEYS, Template};
use crate::tweak::NumberForm;

/// A whole string.
pub(super) fn spec(spec: &str) -> Result<CipherSpec, SpecError> {
    match spec.strip_prefix("capi:") {
        Some(capi) => {
            // The template itself may hold dashes (driver names), the IV rule holds none before its options. The name of a
            // stream cipher is a template without parentheses.
            let end = capi.rfind(')').map_or_else(|| capi.find('-').unwrap_or(capi.len()), |at| at + 1);
            let (template, rest) = capi.split_at_checked(end).unwrap_or((capi, ""));
            match (template, rest.strip_prefix('-')) {
                ("", _) => Err(SpecError::Syntax),
                (template, iv) if rest.is_empty() || iv.is_some() => capi_spec(template, iv),
                _ => Err(SpecError::Syntax),
            }
        }
        None => match spec.split_once('-') {
            Some((cipher, mode)) => classic(cipher, Some(mode)),
            None => classic(spec, None),
        },
    }
}

/// The two fields of a LUKS1 header; a `capi:` template goes into the first of them.
pub(super) fn parts(cipher: &str, mode: &str) -> Result<CipherSpec, SpecError> {
    // dm-crypt gets both with a dash between, and takes `aes-` for nothing.
    let mode = Some(mode).filter(|mode| !mode.is_empty()).ok_or(SpecError::Syntax)?;
    match cipher.strip_prefix("capi:") {
        Some(template) => capi_spec(template, Some(mode)),
        None if cipher.contains('-') => Err(SpecError::Syntax),
        None => classic(cipher, Some(mode)),
    }
}

/// `cipher[:keycount]` and `mode[-iv[:options]]`.
fn classic(cipher: &str, mode: Option<&str>) -> Result<CipherSpec, SpecError> {
    let (cipher, keys) = match cipher.split_once(':') {
        Some((cipher, keys)) => (cipher, Some(keys)),
        None => (cipher, None),
    };
    let (mode, iv) = match mode.map(|mode| mode.split_once('-').map_or((mode, None), |(m, iv)| (m, Some(iv))))
    {
        // dm-crypt's shorthands: `aes` and `aes-plain` mean `aes-cbc-plain`. A null cipher has no use for a mode.
        None if is_null(cipher) => ("ecb", None),
        None | Some(("plain", None)) => ("cbc", Some("plain")),
        Some(given) => given,
    };
    let (cipher, mode) = combination(cipher, mode)?;
    let iv = iv_rule(cipher, mode, iv)?;
    let keys = keys.map_or(Ok(1), key_count)?;
    let fits = match iv.keyed {
        None => {
            let may_turn = matches!(mode.facts().key_lens, KeyLens::InTurns(_)) && !cipher.has_short_blocks();
            keys == 1 || may_turn
        }
        // loop-AES has 64 keys; in the kernel, the other rules would use the first key for all IVs.
        Some(KeyedRule::Lmk) => keys == MAX_KEYS,
        Some(_) => keys == 1,
    };
    if !fits {
        return unsupported(Feature::MultiKey);
    }
    Ok(CipherSpec { cipher, mode, iv, keys, form: Form::Classic })
}

/// `mode(cipher)`, `cts(cbc(cipher))`, `essiv(mode(cipher),hash)` or the name of a stream cipher, and an IV rule.
fn capi_spec(template: &str, iv: Option<&str>) -> Result<CipherSpec, SpecError> {
    if let "chacha12" | "chacha20" = template {
        return capi_stream(cipher_named(template)?, iv);
    }
    let (name, inner) = call(template)?;
    if name == "essiv" {
        let (inner, hash) = inner.rsplit_once(',').ok_or(SpecError::MissingHash)?;
        let (cipher, mode) = mode_and_cipher(inner)?;
        let mut rule = iv_rule(cipher, mode, iv)?;
        if rule.essiv.is_some() || rule.keyed.is_some() || !rule.named {
            // Encrypting an IV twice, or one that is not there.
            return unsupported(Feature::CapiTemplate);
        }
        rule.essiv = Some(essiv_hash(cipher, mode, hash)?);
        return Ok(CipherSpec { cipher, mode, iv: rule, keys: 1, form: Form::CapiEssiv });
    }
    if matches!(name, "authenc" | "gcm" | "ccm" | "rfc7539") {
        return unsupported(Feature::Authenticated);
    }
    let (cipher, mode) = mode_and_cipher(template)?;
    let iv = iv_rule(cipher, mode, iv)?;
    if iv.keyed == Some(KeyedRule::Lmk) {
        // The notation has no place for the number of keys.
        return unsupported(Feature::MultiKey);
    }
    Ok(CipherSpec { cipher, mode, iv, keys: 1, form: Form::Capi })
}

/// `mode(cipher)` or `cts(cbc(cipher))`.
fn mode_and_cipher(template: &str) -> Result<(Cipher, Mode), SpecError> {
    let (name, inner) = call(template)?;
    if !inner.contains('(') {
        return combination(inner, name);
    }
    let Some((outer, goes_around)) = outer_mode_named(name) else {
        return mode_named(name).and(unsupported(Feature::CapiTemplate));
    };
    let (mode, cipher) = call(inner)?;
    match combination(cipher, mode)? {
        (cipher, mode) if mode.facts().name == goes_around && outer.takes(cipher) => Ok((cipher, outer)),
        _ => unsupported(Feature::CapiTemplate),
    }
}

/// A mode that goes around another one, and the name of that.
fn outer_mode_named(name: &str) -> Option<(Mode, &'static str)> {
    Mode::ALL.iter().find_map(|mode| match mode.facts().template {
        Template::Around(inner) if mode.facts().name == name => Some((*mode, inner)),
        _ => None,
    })
}

/// A stream cipher as the kernel has it: the first four bytes of its IVs of sixteen count blocks of keystream. A rule that
/// puts the number of the unit there would let neighbours share most of their keystream; `plain64be` puts it into the nonce.
fn capi_stream(cipher: Cipher, iv: Option<&str>) -> Result<CipherSpec, SpecError> {
    let iv = iv_rule(cipher, Mode::Stream, iv)?;
    match iv.number {
        NumberForm::Plain64Be => Ok(CipherSpec { cipher, mode: Mode::Stream, iv, keys: 1, form: Form::Capi }),
        _ => Err(SpecError::Keystream),
    }
}

/// `name(inner)`.
fn call(template: &str) -> Result<(&str, &str), SpecError> {
    let (name, rest) = template.split_once('(').ok_or(SpecError::Syntax)?;
    let inner = rest.strip_suffix(')').ok_or(SpecError::Syntax)?;
    if name.is_empty() || inner.is_empty() { Err(SpecError::Syntax) } else { Ok((name, inner)) }
}

fn is_null(cipher: &str) -> bool {
    matches!(cipher, "cipher_null" | "null")
}

/// A cipher and a mode that go together.
fn combination(cipher: &str, mode: &str) -> Result<(Cipher, Mode), SpecError> {
    // Adiantum's hash may be named; there is one.
    let primitives = cipher.strip_suffix(",nhpoly1305").filter(|_| mode == "adiantum").unwrap_or(cipher);
    let cipher = cipher_named(primitives)?;
    let mode = mode_named(mode)?;
    if !mode.takes(cipher) {
        return Err(SpecError::Combination);
    }
    if !cipher.is_built() {
        return Err(SpecError::NotBuilt { feature: cipher.feature() });
    }
    Ok((cipher, mode))
}

fn cipher_named(name: &str) -> Result<Cipher, SpecError> {
    match name {
        "" => Err(SpecError::Syntax),
        "aes" => Ok(Cipher::Aes),
        "serpent" => Ok(Cipher::Serpent),
        "twofish" => Ok(Cipher::Twofish),
        "camellia" => Ok(Cipher::Camellia),
        "kuznyechik" => Ok(Cipher::Kuznyechik),
        name if is_null(name) => Ok(Cipher::Null),
        "cast5" => Ok(Cipher::Cast5),
        "cast6" => unsupported(Feature::Cast6),
        "blowfish" => Ok(Cipher::Blowfish),
        "speck128" => Ok(Cipher::Speck128),
        "noekeon" => Ok(Cipher::Noekeon),
        "chacha12" => Ok(Cipher::ChaCha12),
        "chacha20" => Ok(Cipher::ChaCha20),
        "des3_ede" => Ok(Cipher::Des3Ede),
        "aegis128" | "aegis128l" | "aegis256" | "morus640" | "morus1280" => {
            unsupported(Feature::Authenticated)
        }
        "anubis" | "aria" | "des" | "fcrypt" | "khazad" | "seed" | "sm4" | "speck64" | "tea" | "xtea"
        | "xeta" => unsupported(Feature::OtherCipher),
        "xchacha12,aes" => Ok(Cipher::XChaCha12Aes),
        "xchacha20,aes" => Ok(Cipher::XChaCha20Aes),
        name if name.starts_with("xchacha") => unsupported(Feature::Adiantum),
        _ => Err(SpecError::UnknownCipher),
    }
}

fn mode_named(name: &str) -> Result<Mode, SpecError> {
    let is_named = |mode: &Mode| {
        let facts = mode.facts();
        facts.name == name && !matches!(facts.template, Template::Around(_))
    };
    if let Some(mode) = Mode::ALL.iter().copied().find(is_named) {
        return Ok(mode);
    }
    match name {
        "" => Err(SpecError::Syntax),
        "gcm" | "ccm" | "poly1305" | "random" => unsupported(Feature::Authenticated),
        "pcbc" | "cts" | "cfb" | "ofb" => unsupported(Feature::OtherMode),
        _ => Err(SpecError::UnknownMode),
    }
}

/// `name[:options]`, or nothing.
fn iv_rule(cipher: Cipher, mode: Mode, iv: Option<&str>) -> Result<IvRule, SpecError> {
    let Some(iv) = iv else {
        // As in dm-crypt, ECB alone does without.
        return if mode.facts().iv_rules == IvRules::NumbersOrNone {
            Ok(IvRule { number: NumberForm::Null, essiv: None, keyed: None, named: false })
        } else {
            Err(SpecError::MissingIv)
        };
    };
    let (name, options) = match iv.split_once(':') {
        Some((name, options)) => (name, Some(options)),
        None => (iv, None),
    };
    let mut keyed = None;
    let number = match name {
        "" => return Err(SpecError::Syntax),
        "null" => NumberForm::Null,
        "plain" => NumberForm::Plain,
        "plain64" => NumberForm::Plain64,
        "plain64be" => NumberForm::Plain64Be,
        "benbi" => NumberForm::Benbi,
        "essiv" => {
            let hash = options.filter(|hash| !hash.is_empty()).ok_or(SpecError::MissingHash)?;
            let essiv = Some(essiv_hash(cipher, mode, hash)?);
            return Ok(IvRule { number: NumberForm::Plain64, essiv, keyed: None, named: true });
        }
        "lmk" | "tcw" | "eboiv" | "elephant" => {
            keyed = Some(keyed_rule(name, cipher, mode)?);
            // The rule adds its IVs itself.
            NumberForm::Null
        }
        "random" => return unsupported(Feature::RandomIv),
        _ => return Err(SpecError::UnknownIv),
    };
    match options {
        Some(_) => Err(SpecError::UnexpectedIvOptions),
        None if mode.facts().iv_rules == IvRules::Numbers64
            && !matches!(number, NumberForm::Plain64 | NumberForm::Plain64Be) =>
        {
            Err(SpecError::Keystream)
        }
        None => Ok(IvRule { number, essiv: None, keyed, named: true }),
    }
}

/// One of the rules that were made for CBC.
fn keyed_rule(name: &str, cipher: Cipher, mode: Mode) -> Result<KeyedRule, SpecError> {
    let (rule, feature) = match name {
        "lmk" => (KeyedRule::Lmk, Feature::Lmk),
        "tcw" => (KeyedRule::Tcw, Feature::Tcw),
        "eboiv" => (KeyedRule::Eboiv, Feature::Eboiv),
        _ => (KeyedRule::Elephant, Feature::Elephant),
    };
    // The diffuser's key is one of AES, whatever the cipher.
    let diffuser_fits = rule != KeyedRule::Elephant || cipher == Cipher::Aes;
    let mode_fits = mode.facts().iv_rules == IvRules::NumbersAndKeyed;
    if mode_fits && diffuser_fits && !cipher.has_short_blocks() && cipher != Cipher::Null {
        Ok(rule)
    } else {
        unsupported(feature)
    }
}

/// A hash whose digest keys the cipher.
fn essiv_hash(cipher: Cipher, mode: Mode, name: &str) -> Result<Hash, SpecError> {
    // Like the kernel's essiv template, which wants IVs that are one cipher block.
    let len = mode.facts().iv_len;
    if len != 16 {
        return Err(SpecError::IvLength { len });
    }
    let hash = match Hash::from_name(name) {
        Ok(hash) => hash,
        Err(NoHash::NotBuilt { feature }) => return Err(SpecError::NotBuilt { feature }),
        Err(NoHash::Unknown) => {
            return match name {
                "md4" | "md5" | "sm3" | "streebog256" | "streebog512" | "tgr128" | "tgr160" | "tgr192" => {
                    unsupported(Feature::OldHash)
                }
                _ => Err(SpecError::UnknownHash),
            };
        }
    };
    let len = hash.output_len();
    if cipher == Cipher::Null || cipher.takes_key_of(len) {
        Ok(hash)
    } else {
        Err(SpecError::EssivHashLength { len })
    }
}

/// The key count of `aes:64-…`; one key is the same as none named.
fn key_count(keys: &str) -> Result<usize, SpecError> {
    match keys.parse::<u32>() {
        Ok(count) if count.is_power_of_two() && count as usize <= MAX_KEYS => Ok(count as usize),
        Ok(count) if count.is_power_of_two() => unsupported(Feature::MultiKey),
        Ok(count) => Err(SpecError::KeyCount { count }),
        Err(_) => Err(SpecError::Syntax),
    }
}

fn unsupported<T>(feature: Feature) -> Result<T, SpecError> {
    Err(SpecError::Unsupported { feature })
}
